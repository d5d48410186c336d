"""Turns with their credentials masked, whole or cut, without masking all of a huge text."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from memtui.engine.conversations.scan import (
    CUT_OFF,
    SHOWN,
    Counted,
    Reading,
    Record,
    Tally,
    cut,
    masked,
    masked_text,
    record_of,
    records,
)
from memtui.errors import Cancelled, MemtuiError
from memtui.index.transcripts.streams import open_lines, open_stream
from memtui.memory.paths import said
from memtui.memory.transcripts.records import TranscriptFormat
from memtui.memory.transcripts.stream import RawLine, raw_lines
from memtui.model import SourceFile
from memtui.model.conversations import ConversationListing, Turn, TurnKind
from memtui.text.sanitize import safe_line

_BUDGET: Final = 16_000_000
"""Characters of all texts together; beyond them only a first line's worth is held of each."""
_LEAST: Final = 160


class Place(NamedTuple):
    """Where a turn is."""

    offset: int
    """Bytes before its line in the unpacked file."""
    line: int
    order: int
    """Which of the turns of its line it is, from 0."""


class HeldTurns:
    """Turns as they are read, with the place of each."""

    def __init__(self) -> None:
        self._turns: list[Turn] = []
        self._offsets = array("q")
        self._orders = array("L")
        self._left = _BUDGET

    @property
    def turns(self) -> Sequence[Turn]:
        """Every turn so far, texts masked and cut."""
        return self._turns

    def add(self, turn: Turn, place: Place) -> None:
        """Take a turn whose text is neither masked nor cut."""
        held = cut(turn, SHOWN if self._left > 0 else _LEAST)
        self._left -= len(held.text)
        self._turns.append(held)
        self._offsets.append(place.offset)
        self._orders.append(place.order)

    def place(self, at: int) -> Place:
        """Where a turn is; raises `IndexError` when there is none."""
        turn = self._turns[at]
        at %= len(self._turns)
        return Place(self._offsets[at], turn.line, self._orders[at])


MOST_MALFORMED: Final = 10_000
"""So many lines that are no record are named; all are counted."""
_OF_NO_LINE: Final = "session_meta"
"""What the text of a turn can hold that its line does not."""
_MASKS: Final = (("***", "*"), ("…redacted…", "redacted"), ("…", "…"))
"""What masking puts into a text, and what of it tells a text that may hold it."""

CancelCheck = Callable[[], bool]


class ConversationGone(MemtuiError):
    """A transcript that is not there any more, or not the one that was read."""

    code = "conversation_gone"


class OpenConversation:
    """A transcript that was read once; `whole` and `find` read it again."""

    def __init__(self, file: SourceFile, form: TranscriptFormat, *, limit: int) -> None:
        """`limit` is in bytes a line."""
        self._file = file
        self._format = form
        self._limit = limit
        self._held = HeldTurns()
        self._malformed: list[tuple[int, str]] = []
        self._listing: ConversationListing | None = None

    @property
    def listing(self) -> ConversationListing:
        """What a list shows of it, with everything counted."""
        assert self._listing is not None
        return self._listing

    @property
    def turns(self) -> Sequence[Turn]:
        """Every entry in the file's order, texts cut to their beginning."""
        return self._held.turns

    @property
    def malformed(self) -> Sequence[tuple[int, str]]:
        """The lines that are no record, each with why; the first ten thousand of them."""
        return self._malformed

    def whole(self, at: int) -> Turn:
        """The turn at a place in `turns` with its whole text.

        Raises `ConversationGone` when the file is not what was read any more.
        """
        held = self._held.turns[at]
        place = self._held.place(at)
        if held.kind is TurnKind.MALFORMED:
            return held
        turns = self._turns_at(place)
        if place.order >= len(turns) or not _is_same(turns[place.order], held):
            raise self._changed()
        return _whole(turns[place.order], held)

    def wholes(self, *, cancelled: CancelCheck = lambda: False) -> Iterator[Turn]:
        """Every turn with its whole text, in one more reading of the file.

        Raises `Cancelled`, and `ConversationGone` when the file is not what was read any more.
        """
        at, held = 0, self._held.turns
        try:
            with open_lines(self._file, limit=self._limit) as lines:
                for record in records(lines, cancelled):
                    if at >= len(held) or self._was_cut(at, record):
                        yield from held[at:]
                        return
                    turns = held[at : at + 1] if record.value is None else self._turns_of(record)
                    for turn in turns:
                        if at >= len(held) or not _is_same(turn, held[at]):
                            raise self._changed()
                        yield _whole(turn, held[at])
                        at += 1
        except OSError as error:
            raise self._gone(error) from error
        if at < len(held):
            raise self._changed()

    def find(self, text: str, *, cancelled: CancelCheck = lambda: False) -> Sequence[int]:
        """The places in `turns` whose whole text holds `text`, in any case.

        Raises `Cancelled`, and `ConversationGone` when the file cannot be read any more.
        """
        wanted = text.casefold()
        if not wanted:
            return ()
        found: list[int] = []
        at = 0
        held = self._held
        count = len(held.turns)
        try:
            with open_lines(self._file, limit=self._limit) as lines:
                for record in records(_holding(lines, wanted, cancelled), cancelled):
                    if at >= count:
                        break
                    number = record.raw.number
                    while at < count and held.turns[at].line < number:
                        at += 1
                    at = self._find_in(record, wanted, at, found)
        except OSError as error:
            raise self._gone(error) from error
        return found

    def _find_in(self, record: Record, wanted: str, at: int, found: list[int]) -> int:
        """Note the places of one line; the place behind them."""
        held = self._held.turns
        is_of_mask = _is_of_mask(wanted)
        turns = () if record.value is None else self._turns_of(record)
        for turn in turns:
            if at >= len(held) or held[at].line != turn.line:
                break
            could = is_of_mask or wanted in turn.text.casefold()
            if could and wanted in masked_text(turn).casefold():
                found.append(at)
            at += 1
        return at

    def _was_cut(self, at: int, record: Record) -> bool:
        """Whether what is held last is the beginning of a line that was written on since."""
        held = self._held.turns
        is_last = at == len(held) - 1 and held[at].line == record.raw.number
        return is_last and held[at].text == CUT_OFF and held[at].kind is TurnKind.MALFORMED

    def _turns_of(self, record: Record) -> Sequence[Turn]:
        assert record.value is not None
        return self._format.turns(record.value, record.raw.number)

    def _turns_at(self, place: Place) -> Sequence[Turn]:
        """Read one line again; no turns where another stands there now."""
        try:
            with open_stream(self._file, limit=self._limit) as stream:
                lines = raw_lines(stream, offset=place.offset, number=place.line, limit=self._limit)
                raw = next(lines, None)
        except OSError as error:
            raise self._gone(error) from error
        record = record_of(raw) if raw is not None else None
        return () if record is None or record.value is None else self._turns_of(record)

    def _changed(self) -> ConversationGone:
        return ConversationGone(
            f"{safe_line(self._file.path)} was rewritten since it was read", hint="open it again"
        )

    def _gone(self, error: OSError) -> ConversationGone:
        return ConversationGone(
            f"{safe_line(self._file.path)} cannot be read any more: {said(error)}",
            hint="choose another conversation",
        )

    # --- while it is read -----------------------------------------------------------------

    def take(self, record: Record, turns: Sequence[Turn]) -> None:
        """Take in the turns of one line, neither masked nor cut."""
        if record.value is None and len(self._malformed) < MOST_MALFORMED:
            self._malformed.append((record.raw.number, record.problem))
        for order, turn in enumerate(turns):
            self._held.add(turn, Place(record.raw.offset, turn.line, order))

    def is_of(self, listing: ConversationListing) -> OpenConversation:
        """Say what a list shows of it."""
        self._listing = listing
        return self


def read_conversation(
    file: SourceFile, *, limit: int, cancelled: CancelCheck = lambda: False
) -> tuple[OpenConversation, Counted]:
    """Read all of a transcript; `limit` is in bytes a line.

    Of one that grows meanwhile, what was there when its end was reached. Raises `NotATranscript`,
    `ConversationGone` when it cannot be opened, `Cancelled`.
    """
    try:
        with open_lines(file, limit=limit) as lines:
            reading = Reading(file, lines, cancelled)
            conversation = OpenConversation(file, reading.format, limit=limit)
            tally = Tally(file.path, reading.format)
            try:
                for record in reading.records:
                    conversation.take(record, tally.take(record))
            except OSError as error:
                tally.broke(said(error))
    except OSError as error:
        raise ConversationGone(
            f"{safe_line(file.path)} cannot be read: {said(error)}",
            hint="choose another conversation",
        ) from error
    return conversation, tally.counted()


def _whole(turn: Turn, held: Turn) -> Turn:
    """The whole of a turn that is the one that is held."""
    if turn.kind is TurnKind.MALFORMED or _is_uncut(held):
        return held
    return replace(masked(turn), left_out=held.left_out)


def _is_uncut(held: Turn) -> bool:
    return held.size == len(held.text)


def _is_same(turn: Turn, held: Turn) -> bool:
    """Whether a turn that was read again is the one that is held."""
    again = cut(turn, len(held.text))
    mine, theirs = (
        (one.kind, one.role, one.tool, one.call_id, one.timestamp_ms, one.text)
        for one in (again, held)
    )
    return mine == theirs and (again.size == held.size or not _is_uncut(held))


def _holding(lines: Iterable[RawLine], wanted: str, cancelled: CancelCheck) -> Iterator[RawLine]:
    """The lines but for those that cannot hold the text: parsing them takes the time."""
    words = _plain_words(wanted)
    for raw in lines:
        if cancelled():
            raise Cancelled
        data = raw.data
        if words and data is not None and data.isascii() and b"\\u" not in data:
            lowered = data.lower()
            if not all(map(lowered.__contains__, words)):
                continue
        yield raw


def _plain_words(wanted: str) -> list[bytes]:
    """The words of a text that stand in a line as they do in its turns; numbers may not."""
    if not wanted.isascii() or _is_of_mask(wanted):
        return []
    words = wanted.split(" ")
    if not all(word.isalnum() for word in words if word):
        return []
    return [
        word.encode() for word in words if any(map(str.isalpha, word)) and word not in _OF_NO_LINE
    ]


def _is_of_mask(wanted: str) -> bool:
    """Whether a text can stand in a masked text that the text itself does not hold."""
    return any(wanted in mask or part in wanted for mask, part in _MASKS)

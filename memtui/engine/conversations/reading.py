"""One transcript to be read: its turns by their places in the file, long texts left on disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from memtui.engine.conversations.scan import (
    CUT_OFF,
    SHOWN,
    CancelCheck,
    Record,
    Tally,
    TranscriptStats,
    cut,
    masked,
    masked_text,
    recognised_records,
    record_of,
    records,
)
from memtui.errors import Cancelled, MemtuiError
from memtui.index.transcripts.streams import open_lines, open_stream
from memtui.memory.paths import said
from memtui.memory.transcripts.records import TranscriptFormat
from memtui.memory.transcripts.stream import RawLine, raw_lines, skip_to
from memtui.model import SourceFile
from memtui.model.conversations import ConversationListing, Turn, TurnKind
from memtui.text.sanitize import safe_line

MOST_MALFORMED: Final = 10_000
"""So many lines that are no record are named; all are counted."""

_BUDGET: Final = 16_000_000
"""Characters of all texts in memory; beyond them only a first line's worth is kept of each."""
_LEAST: Final = 160
_OF_NO_LINE: Final = "session_meta"
"""What the text of a turn can hold that its line does not."""
_MASKS: Final = (("***", "*"), ("…redacted…", "redacted"), ("…", "…"))
"""What masking puts into a text, and what of it tells a text that may hold it."""


class ConversationGone(MemtuiError):
    """A transcript that is not there any more, or not the one that was read."""

    code = "conversation_gone"


class _Place(NamedTuple):
    """Where a turn is."""

    offset: int
    """Bytes before its line in the unpacked file."""
    order: int
    """Which of the turns of its line it is, from 0."""


class OpenConversation:
    """A transcript that was read once, in bounded memory; `whole` and `find` read it again."""

    listing: ConversationListing
    """What a list shows of it, with everything counted."""

    def __init__(self, file: SourceFile, form: TranscriptFormat, *, limit: int) -> None:
        """`limit` is in bytes a line."""
        self._file = file
        self._format = form
        self._limit = limit
        self.turns: list[Turn] = []
        """Every entry in the file's order, texts masked and cut to their beginning."""
        self.malformed: list[tuple[int, str]] = []
        """The lines that are no record, each with why; the first ten thousand of them."""
        self._places: list[_Place] = []
        self._left = _BUDGET

    def add(self, record: Record, turns: Sequence[Turn]) -> None:
        """Take in the turns of one line, neither masked nor cut."""
        if record.value is None and len(self.malformed) < MOST_MALFORMED:
            self.malformed.append((record.raw.number, record.problem))
        for order, turn in enumerate(turns):
            short = cut(turn, SHOWN if self._left > 0 else _LEAST)
            self._left -= len(short.text)
            self.turns.append(short)
            self._places.append(_Place(record.raw.offset, order))

    def whole(self, at: int) -> Turn:
        """Return the turn at a place in `turns` with its whole text.

        Raises `ConversationGone` when the file is not what was read any more.
        """
        short, place = self.turns[at], self._places[at]
        if short.kind is TurnKind.MALFORMED:
            return short
        try:
            with open_stream(self._file, limit=self._limit) as stream:
                skip_to(stream, place.offset)
                lines = raw_lines(stream, offset=place.offset, number=short.line, limit=self._limit)
                raw = next(lines, None)
        except OSError as error:
            raise self._gone(error) from error
        record = record_of(raw) if raw is not None else None
        turns = self._turns_of(record) if record is not None else ()
        if place.order >= len(turns) or not _is_same(turns[place.order], short):
            raise self._changed()
        return _whole(turns[place.order], short)

    def wholes(self, *, cancelled: CancelCheck = lambda: False) -> Iterator[Turn]:
        """Iterate over the turns with their whole texts, in one more reading of the file.

        Raises `Cancelled`, and `ConversationGone` when the file is not what was read any more.
        """
        at, known = 0, self.turns
        try:
            with open_lines(self._file, limit=self._limit) as lines:
                for record in records(lines, cancelled):
                    if at >= len(known) or self._was_cut(at, record):
                        yield from known[at:]
                        return
                    turns = known[at : at + 1] if record.value is None else self._turns_of(record)
                    for turn in turns:
                        if at >= len(known) or not _is_same(turn, known[at]):
                            raise self._changed()
                        yield _whole(turn, known[at])
                        at += 1
        except OSError as error:
            raise self._gone(error) from error
        if at < len(known):
            raise self._changed()

    def find(self, text: str, *, cancelled: CancelCheck = lambda: False) -> Sequence[int]:
        """Return the places in `turns` whose whole text holds `text`, in any case.

        Raises `Cancelled`, and `ConversationGone` when the file cannot be read any more.
        """
        wanted = text.casefold()
        if not wanted:
            return ()
        is_of_mask = _is_of_mask(wanted)
        matches: list[int] = []
        at, known = 0, self.turns
        count = len(known)
        try:
            with open_lines(self._file, limit=self._limit) as lines:
                for record in records(_lines_with(lines, wanted, cancelled), cancelled):
                    while at < count and known[at].line < record.raw.number:
                        at += 1
                    for turn in self._turns_of(record):
                        if at >= count or known[at].line != turn.line:
                            break
                        could = is_of_mask or wanted in turn.text.casefold()
                        if could and wanted in masked_text(turn).casefold():
                            matches.append(at)
                        at += 1
                    if at >= count:
                        break
        except OSError as error:
            raise self._gone(error) from error
        return matches

    def _was_cut(self, at: int, record: Record) -> bool:
        """Return whether the last turn is the beginning of a line that was written on since."""
        known = self.turns
        is_last = at == len(known) - 1 and known[at].line == record.raw.number
        return is_last and known[at].text == CUT_OFF and known[at].kind is TurnKind.MALFORMED

    def _turns_of(self, record: Record) -> Sequence[Turn]:
        return () if record.value is None else self._format.turns(record.value, record.raw.number)

    def _changed(self) -> ConversationGone:
        return ConversationGone(
            f"{safe_line(self._file.path)} was rewritten since it was read", hint="open it again"
        )

    def _gone(self, error: OSError) -> ConversationGone:
        return ConversationGone(
            f"{safe_line(self._file.path)} cannot be read any more: {said(error)}",
            hint="choose another conversation",
        )


def read_conversation(
    file: SourceFile, *, limit: int, cancelled: CancelCheck = lambda: False
) -> tuple[OpenConversation, TranscriptStats]:
    """Read all of a transcript; `limit` is in bytes a line.

    Of one that grows meanwhile, what was there when its end was reached. Raises `NotATranscript`,
    `ConversationGone` when it cannot be opened, `Cancelled`.
    """
    try:
        with open_lines(file, limit=limit) as lines:
            form, found = recognised_records(file, lines, cancelled)
            conversation = OpenConversation(file, form, limit=limit)
            tally = Tally(file.path, form)
            try:
                for record in found:
                    conversation.add(record, tally.add(record))
            except OSError as error:
                tally.unreadable = said(error)
    except OSError as error:
        raise ConversationGone(
            f"{safe_line(file.path)} cannot be read: {said(error)}",
            hint="choose another conversation",
        ) from error
    return conversation, tally.stats()


def _whole(turn: Turn, short: Turn) -> Turn:
    """Return the whole of a turn whose beginning is in memory."""
    if turn.kind is TurnKind.MALFORMED or short.size == len(short.text):
        return short
    return replace(masked(turn), left_out=short.left_out)


def _is_same(turn: Turn, short: Turn) -> bool:
    """Return whether a turn that was read again is the one in memory."""
    again = cut(turn, len(short.text))
    mine, theirs = (
        (one.kind, one.role, one.tool, one.call_id, one.timestamp_ms, one.text)
        for one in (again, short)
    )
    return mine == theirs and (again.size == short.size or short.size != len(short.text))


def _lines_with(lines: Iterable[RawLine], wanted: str, cancelled: CancelCheck) -> Iterator[RawLine]:
    """Leave out the lines that cannot hold the text: parsing them takes the time."""
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
    """Return the words of a text that stand in a line as they do in its turns; numbers may not."""
    words = [word for word in wanted.split(" ") if word]
    if not wanted.isascii() or _is_of_mask(wanted) or not all(map(str.isalnum, words)):
        return []
    return [
        word.encode() for word in words if any(map(str.isalpha, word)) and word not in _OF_NO_LINE
    ]


def _is_of_mask(wanted: str) -> bool:
    """Return whether a masked text can hold a text that the text itself does not."""
    return any(wanted in mask or part in wanted for mask, part in _MASKS)

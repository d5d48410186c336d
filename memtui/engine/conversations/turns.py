"""Reading transcripts: what they tell for lists, and one of them turn by turn, texts masked."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final, NamedTuple

from memtui.errors import Cancelled, MemtuiError
from memtui.index.transcripts.reading import TranscriptFacts, format_for
from memtui.index.transcripts.streams import open_lines, open_stream
from memtui.memory.documents import reason_of
from memtui.memory.paths import said
from memtui.memory.transcripts.formats import FORMATS
from memtui.memory.transcripts.generated import Dropped, Role, run_of, spoken_line, without_channel
from memtui.memory.transcripts.memory_calls import CallCollector
from memtui.memory.transcripts.openclaw_files import ARCHIVES, file_kind
from memtui.memory.transcripts.records import TranscriptFormat, parse_record, record_in
from memtui.memory.transcripts.stream import RawLine, raw_lines, skip_to
from memtui.model import Reason, SourceFile
from memtui.model.conversations import (
    ConversationListing,
    MemoryCall,
    TranscriptKind,
    Turn,
    TurnKind,
)
from memtui.text.redact import redact, redact_name, redact_value
from memtui.text.sanitize import safe_line

CancelCheck = Callable[[], bool]

SHOWN: Final = 2_000
"""Characters of a text that are kept in memory."""
TITLE: Final = 120
"""Characters of a title."""

_LEAST_WINDOW: Final = 4096
"""Characters that are looked at, at least: no credential is as long as what is left over."""
_PRIVATE_KEY: Final = "private key-----"
_TITLE_SOURCE: Final = 16_000
_SNIPPET: Final = 300
_BEGINNING: Final = 1 << 16
"""Bytes of a transcript that a list looks at."""
_BUDGET: Final = 16_000_000
"""Characters of all texts in memory; beyond them only a first line's worth is kept of each."""
_LEAST: Final = 160
_MASKS: Final = (("***", "*"), ("…redacted…", "redacted"), ("…", "…"))
"""What masking puts into a text, and what of it tells a text that may hold it."""


class NotATranscript(MemtuiError):
    """A file whose records are those of no program that is known."""

    code = "not_a_transcript"


class ConversationGone(MemtuiError):
    """A transcript that is not there any more, or not the one that was read."""

    code = "conversation_gone"


def never() -> bool:
    """Return false: nobody cancels."""
    return False


# --- masked texts -------------------------------------------------------------------------


def masked_text(turn: Turn) -> str:
    """Return the whole text of a turn, masked; arguments by the names that they have, too."""
    if turn.kind is TurnKind.TOOL_CALL:
        try:
            value = parse_record(turn.text)
        except ValueError:
            # Arguments in a language of the tool's own are a text like any other.
            return redact(turn.text)
        return json.dumps(redact_value(value), ensure_ascii=False)
    return redact(turn.text)


def cut(turn: Turn, shown: int = SHOWN) -> Turn:
    """Return the turn with the beginning of its masked text; `size` is the whole's."""
    if turn.kind is TurnKind.MALFORMED:
        return turn
    if turn.kind is TurnKind.TOOL_CALL:
        text = masked_text(turn)
        return _with_text(turn, text[:shown], len(text))
    return _with_text(turn, *beginning(turn.text, shown))


def _with_text(turn: Turn, text: str, size: int) -> Turn:
    tool, call_id = _masked_name(turn.tool), redact_name(turn.call_id)
    return replace(turn, text=text, size=size, tool=tool, call_id=call_id)


def beginning(text: str, shown: int = SHOWN) -> tuple[str, int]:
    """Return the first characters of a masked text, and the length of the whole.

    What is looked at ends far behind what is shown, so that no credential is seen by half. A
    private key is masked up to its end, however far that is. Of a huge text the length is that
    before masking.
    """
    size = max(_LEAST_WINDOW, 4 * shown)
    if len(text) > size:
        window = redact(text[:size])
        if len(window) > size // 2 and _PRIVATE_KEY not in window.lower():
            return window[:shown], len(text)
    whole = redact(text)
    return whole[:shown], len(whole)


def one_line(text: str, shown: int = TITLE) -> str:
    """Return the beginning of a masked text on one line that a terminal can be shown."""
    line = " ".join(safe_line(beginning(text, 8 * shown)[0]).split())
    return line if len(line) <= shown else line[: shown - 1].rstrip() + "…"


_masked_name = lru_cache(maxsize=512)(redact_name)


# --- records ------------------------------------------------------------------------------


class Record(NamedTuple):
    """A line that is not blank."""

    raw: RawLine
    value: Mapping[str, Any] | None
    """`None` for a line that is no record."""
    problem: str
    """Why not, in one phrase."""


def records(lines: Iterable[RawLine], cancelled: CancelCheck = never) -> Iterator[Record]:
    """Parse line after line; blank ones, and JSON that is no object, are passed over.

    Raises `Cancelled`.
    """
    for raw in lines:
        if cancelled():
            raise Cancelled
        if raw.data is None:
            yield Record(raw, None, f"longer than a line may be: {raw.length / 10**6:.1f} MB")
            continue
        try:
            value = record_in(raw)
        except ValueError:
            # One damaged line is named, and the reading goes on.
            yield Record(raw, None, "no JSON" if raw.complete else "cut off: no line end")
            continue
        if value is not None:
            yield Record(raw, value, "")


class Tally:
    """Counts up a transcript record by record."""

    def __init__(self, path: str, form: TranscriptFormat) -> None:
        self._format = form
        self._collector = CallCollector(path, form.kind)
        self._archived = file_kind(path.rpartition("/")[2]) in ARCHIVES
        self._identities: set[str] = set()
        self._facts = TranscriptFacts(form.kind)
        self._run: str | None = None
        """Why the program talks with itself; empty when it does not, `None` before any record."""
        self.unreadable = ""
        """Why the transcript could not be read on."""

    def add(self, record: Record) -> Sequence[Turn]:
        """Count a record in, and return its turns: nothing of them is masked or cut."""
        number, value = record.raw.number, record.value
        form, facts = self._format, self._facts
        is_openclaw = form.kind is TranscriptKind.OPENCLAW
        if value is None:
            facts.malformed += 1
            text = record.problem
            return (Turn(number, TurnKind.MALFORMED, "system", text, record.raw.length),)
        # OpenClaw shows it in any record, others in the first.
        if is_openclaw and not self._run:
            self._run = run_of(value, archived=self._archived) or ""
        elif self._run is None:
            self._run = form.run_of(value) or ""
        facts.note(form.facts(value))
        turns, identity = form.turns(value, number), form.identity(value)
        if identity in self._identities:
            turns = [replace(turn, left_out=turn.left_out or Dropped.DUPLICATE) for turn in turns]
        elif identity:
            self._identities.add(identity)
        for turn in turns:
            if turn.kind is TurnKind.MESSAGE and turn.role in tuple(Role):
                facts.turns += 1
                if turn.role == Role.USER and not facts.title and not turn.left_out:
                    text = turn.text
                    if is_openclaw:
                        # Without what a channel puts around it.
                        text = without_channel(spoken_line(text[:_TITLE_SOURCE], Role.USER)[0])
                    facts.title = one_line(text)
            elif turn.kind in (TurnKind.TOOL_CALL, TurnKind.TOOL_RESULT):
                self._collector.add(turn)
        return turns

    @property
    def knows_beginning(self) -> bool:
        """Whether everything is known that a list shows of a transcript's beginning."""
        facts = self._facts
        return bool(facts.title and facts.model and facts.started_ms)

    def calls(self) -> tuple[MemoryCall, ...]:
        """Return the searches so far, with the beginning of each snippet: very many are kept."""
        short = []
        for call in self._collector.calls():
            places = [
                replace(place, snippet=place.snippet[:_SNIPPET]) for place in call.returned or ()
            ]
            short.append(replace(call, returned=tuple(places)) if places else call)
        return tuple(short)

    def facts(self) -> TranscriptFacts:
        """Return what is known so far; texts are masked."""
        facts, lost = self._facts, self._facts.malformed
        reason, detail = Reason.OK, ""
        if self.unreadable:
            reason, detail = Reason.UNREADABLE, f"cannot be read to its end: {self.unreadable}"
        elif self._run:
            reason, detail = Reason.GENERATED_RUN, f"the program's talk with itself: {self._run}"
        elif not facts.turns:
            reason, detail = Reason.NO_MESSAGES, "nobody says anything in it"
        elif lost:
            lines = "line is" if lost == 1 else "lines are"
            reason, detail = Reason.MALFORMED_LINES, f"{lost} {lines} no record"
        calls = len(self._collector.calls())
        return replace(facts, calls=calls, reason=reason, detail=detail)


# --- what a transcript tells --------------------------------------------------------------


class Scan(NamedTuple):
    """What reading a transcript, or its beginning, told."""

    facts: TranscriptFacts | None = None
    calls: tuple[MemoryCall, ...] = ()
    is_whole: bool = True
    """Whether all of it was read, so that everything is counted."""
    trouble: tuple[Reason, str] | None = None
    """Why it cannot be read, and one line about it."""


def scan_transcript(
    file: SourceFile,
    *,
    limit: int,
    whole: bool = True,
    into: OpenConversation | None = None,
    cancelled: CancelCheck = never,
) -> Scan:
    """Read a transcript; its beginning alone, about 64 kB, where not the `whole` of it.

    `limit` is in bytes a line; `into` takes in every turn. Of one that grows meanwhile, what was
    there when its end was reached; of one that breaks off, what was read before. Raises
    `Cancelled`.
    """
    try:
        form = format_for(file, limit=limit)
        if form is None:
            unknown = "the records are those of no program that is known"
            return Scan(is_whole=whole, trouble=(Reason.NOT_A_TRANSCRIPT, unknown))
        tally = Tally(file.path, form)
        with open_lines(file, limit=limit) as lines:
            try:
                for record in records(lines, cancelled):
                    if whole or record.value is not None:
                        turns = tally.add(record)
                        if into is not None:
                            into.add(record, turns, form)
                    if not whole and (tally.knows_beginning or record.raw.offset > _BEGINNING):
                        break
            except OSError as error:
                # What was read before it broke counts.
                tally.unreadable = said(error)
    except OSError as error:
        return Scan(is_whole=whole, trouble=(reason_of(error), said(error)))
    return Scan(tally.facts(), tally.calls() if whole else (), whole)


# --- one transcript turn by turn ----------------------------------------------------------


class OpenConversation:
    """A transcript that was read once, in bounded memory; whole texts are read again."""

    listing: ConversationListing
    """What a list shows of it, with everything counted."""

    def __init__(self, file: SourceFile, *, limit: int) -> None:
        """`limit` is in bytes a line."""
        self._file = file
        self._limit = limit
        self._format = FORMATS[0]
        self.turns: list[Turn] = []
        """Every entry in the file's order, texts masked and cut to their beginning."""
        self._offsets: list[int] = []
        """Bytes of the unpacked file before the line of each turn."""
        self._left = _BUDGET

    @property
    def malformed(self) -> list[tuple[int, str]]:
        """The lines that are no record, each with why."""
        return [(turn.line, turn.text) for turn in self.turns if turn.kind is TurnKind.MALFORMED]

    def add(self, record: Record, turns: Sequence[Turn], form: TranscriptFormat) -> None:
        """Take in the turns of one line, neither masked nor cut."""
        self._format = form
        for turn in turns:
            short = cut(turn, SHOWN if self._left > 0 else _LEAST)
            self._left -= len(short.text)
            self.turns.append(short)
            self._offsets.append(record.raw.offset)

    def whole(self, at: int) -> Turn:
        """Return the turn at a place in `turns` with its whole text.

        Raises `ConversationGone` when the file is not what was read any more.
        """
        return next(self._masked(*found) for found in self._again(at) if found[0] == at)

    def wholes(self) -> Iterator[Turn]:
        """Iterate over the turns with their whole texts, in one more reading of the file.

        Raises `ConversationGone` when the file is not what was read any more.
        """
        return (self._masked(at, turn) for at, turn in self._again(0))

    def find(self, text: str, *, cancelled: CancelCheck = never) -> Sequence[int]:
        """Return the places in `turns` whose whole text holds `text`, in any case.

        Raises `Cancelled`, and `ConversationGone` when the file is not what was read any more.
        """
        needle = text.casefold()
        # Only what masking puts into a text can be in the masked text and not in the text.
        is_of_mask = any(needle in mask or part in needle for mask, part in _MASKS)
        return [
            at
            for at, turn in (self._again(0, cancelled) if needle else ())
            if turn.kind is not TurnKind.MALFORMED
            and (is_of_mask or needle in turn.text.casefold())
            and needle in masked_text(turn).casefold()
        ]

    def _masked(self, at: int, turn: Turn) -> Turn:
        """Return a turn that was read again, masked; it has to begin as the one in memory."""
        short = self.turns[at]
        again = replace(cut(turn, len(short.text)), left_out=short.left_out)
        if short.size == len(short.text) or turn.kind is TurnKind.MALFORMED:
            if again != short:
                raise self._changed()
            return short
        if replace(again, size=short.size) != short:
            raise self._changed()
        text = masked_text(turn)
        return replace(short, text=text, size=len(text))

    def _again(self, start: int, cancelled: CancelCheck = never) -> Iterator[tuple[int, Turn]]:
        """Read again from the line of a turn on: the place of each turn, and the whole of it.

        Nothing of them is masked.
        """
        shown = self.turns
        if start >= len(shown):
            return
        offset, number = self._offsets[start], shown[start].line
        at = bisect_left(self._offsets, offset)
        try:
            with open_stream(self._file, limit=self._limit) as stream:
                skip_to(stream, offset)
                lines = raw_lines(stream, offset=offset, number=number, limit=self._limit)
                for record in records(lines, cancelled):
                    if at >= len(shown):
                        return
                    is_malformed = shown[at].kind is TurnKind.MALFORMED
                    if record.value is None or (is_malformed and at == len(shown) - 1):
                        # The last line may have been cut, and written on since.
                        turns: Sequence[Turn] = shown[at : at + 1]
                    else:
                        turns = self._format.turns(record.value, record.raw.number)
                    if [turn.line for turn in turns] != [
                        turn.line for turn in shown[at : at + len(turns)]
                    ]:
                        raise self._changed()
                    yield from enumerate(turns, at)
                    at += len(turns)
        except OSError as error:
            raise ConversationGone(
                f"{safe_line(self._file.path)} cannot be read any more: {said(error)}",
                hint="choose another conversation",
            ) from error
        if at < len(shown):
            raise self._changed()

    def _changed(self) -> ConversationGone:
        return ConversationGone(
            f"{safe_line(self._file.path)} was rewritten since it was read", hint="open it again"
        )

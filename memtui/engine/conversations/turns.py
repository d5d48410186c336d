"""Reading transcripts: what they tell for lists, and one of them turn by turn, texts masked."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from msgspec.structs import replace

from memtui.errors import Cancelled, MemtuiError
from memtui.index.transcripts.discovery import agent_of
from memtui.index.transcripts.reading import format_for, name_of
from memtui.index.transcripts.streams import open_lines
from memtui.memory.documents import reason_of
from memtui.memory.paths import said
from memtui.memory.transcripts.formats import FORMATS, SHOWN, TranscriptReader, beginning
from memtui.memory.transcripts.memory_calls import CallCollector
from memtui.memory.transcripts.records import TranscriptFacts, parse_line, parse_record
from memtui.model import Reason, SourceFile
from memtui.model.conversations import ConversationListing, MemoryCall, Turn, TurnKind
from memtui.text.redact import redact, redact_name, redact_value
from memtui.text.sanitize import safe_line

CancelCheck = Callable[[], bool]

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
        text, size = text[:shown], len(text)
    else:
        text, size = beginning(turn.text, shown)
    tool, call_id = _masked_name(turn.tool), redact_name(turn.call_id)
    return replace(turn, text=text, size=size, tool=tool, call_id=call_id)


_masked_name = lru_cache(maxsize=512)(redact_name)


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
    problem = ""
    try:
        form = format_for(file, limit=limit)
        if form is None:
            unknown = "the records are those of no program that is known"
            return Scan(is_whole=whole, trouble=(Reason.NOT_A_TRANSCRIPT, unknown))
        reader = TranscriptReader(form, name_of(file))
        collector = CallCollector(file.path, form.kind)
        if into is not None:
            into.form = form
        with open_lines(file, limit=limit) as lines:
            try:
                for raw in lines:
                    if cancelled():
                        raise Cancelled
                    turns = reader.add(raw)[1]
                    for turn in turns:
                        collector.add(turn)
                    if into is not None:
                        into.add(turns)
                    facts = reader.state.facts
                    knows_beginning = facts.title and facts.model and facts.started_ms
                    if not whole and (knows_beginning or raw.offset > _BEGINNING):
                        break
            except OSError as error:
                # What was read before it broke counts.
                problem = said(error)
    except OSError as error:
        return Scan(is_whole=whole, trouble=(reason_of(error), said(error)))
    facts = replace(reader.result(agent_of(file)), calls=len(collector.calls()))
    if problem:
        detail = f"cannot be read to its end: {problem}"
        facts = replace(facts, reason=Reason.UNREADABLE, detail=detail)
    return Scan(facts, tuple(collector.calls()) if whole else (), whole)


# --- one transcript turn by turn ----------------------------------------------------------


class OpenConversation:
    """A transcript that was read once, in bounded memory; whole texts are read again."""

    listing: ConversationListing
    """What a list shows of it, with everything counted."""

    def __init__(self, file: SourceFile, *, limit: int) -> None:
        """`limit` is in bytes a line."""
        self._file = file
        self._limit = limit
        self.form = FORMATS[0]
        """Whose transcript it is."""
        self.turns: list[Turn] = []
        """Every entry in the file's order, texts masked and cut to their beginning."""
        self._left = _BUDGET

    @property
    def malformed(self) -> list[tuple[int, str]]:
        """The lines that are no record, each with why."""
        return [(turn.line, turn.text) for turn in self.turns if turn.kind is TurnKind.MALFORMED]

    def add(self, turns: Sequence[Turn]) -> None:
        """Take in the turns of one line, neither masked nor cut."""
        for turn in turns:
            short = cut(turn, SHOWN if self._left > 0 else _LEAST)
            self._left -= len(short.text)
            self.turns.append(short)

    def whole(self, at: int) -> Turn:
        """Return the turn at a place in `turns` with its whole text.

        Raises `ConversationGone` when the file is not what was read any more.
        """
        return next(self._masked(place, turn) for place, turn in self._again(at) if place == at)

    def wholes(self) -> Iterator[Turn]:
        """Iterate over the turns with their whole texts, in one more reading of the file.

        Raises `ConversationGone` when the file is not what was read any more.
        """
        return (self._masked(at, turn) for at, turn in self._again())

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
        if turn.kind is TurnKind.MALFORMED:
            return short
        text = masked_text(turn)
        is_whole = short.size <= len(short.text)
        if not text.startswith(short.text) or (is_whole and text != short.text):
            raise self._changed()
        return replace(short, text=text, size=len(text))

    def _again(self, start: int = 0, cancelled: CancelCheck = never) -> Iterator[tuple[int, Turn]]:
        """Read the file again from the line of a turn on: each turn's place and whole; unmasked."""
        shown = self.turns
        first = shown[start].line if start < len(shown) else 0
        at = next((place for place, turn in enumerate(shown) if turn.line == first), len(shown))
        try:
            with open_lines(self._file, limit=self._limit) as lines:
                for raw in lines:
                    if at >= len(shown):
                        return
                    if cancelled():
                        raise Cancelled
                    if raw.number < first:
                        continue
                    record, problem = parse_line(raw)
                    # The last line may have been cut, and written on since.
                    was_cut = at == len(shown) - 1 and shown[at].kind is TurnKind.MALFORMED
                    turns: Sequence[Turn] = ()
                    if problem or (was_cut and raw.number == shown[at].line):
                        turns = shown[at : at + 1]
                    elif record is not None:
                        turns = self.form.turns(record, raw.number)
                    if any(raw.number != turn.line for turn in shown[at : at + len(turns)]):
                        raise self._changed()
                    yield from zip(range(at, len(shown)), turns, strict=False)
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

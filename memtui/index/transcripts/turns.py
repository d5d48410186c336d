"""One transcript turn by turn, texts masked."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from msgspec.structs import replace

from memtui.errors import IsCancelled, MemtuiError, never, stop_if
from memtui.index.transcripts.reading import open_lines
from memtui.memory.paths import message_of
from memtui.memory.transcripts.formats import FORMATS, SHOWN, beginning
from memtui.memory.transcripts.records import parse_line, parse_record
from memtui.model import SourceFile
from memtui.model.conversations import ConversationListing, Turn, TurnKind
from memtui.text.redact import redact, redact_name, redact_value
from memtui.text.sanitize import safe_line

_BUDGET: Final = 16_000_000
"""Characters of all texts in memory; beyond them only a first line's worth is kept of each."""
_LEAST: Final = 160
_MASKS: Final = (("***", "*"), ("…redacted…", "redacted"), ("…", "…"))
"""The masks in a text, and the part of each by which a text that may hold it is told."""


class ConversationGone(MemtuiError):
    """A transcript that is not there any more, or not the one that was read."""

    code = "conversation_gone"


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
    tool, call_id = _masked_name(turn.tool), redact_name(turn.call_id)
    if turn.kind is TurnKind.TOOL_CALL:
        whole = masked_text(turn)
        text, size = whole[:shown], len(whole)
    else:
        text, size = beginning(turn.text, shown)
    return replace(turn, text=text, size=size, tool=tool, call_id=call_id)


_masked_name = lru_cache(maxsize=512)(redact_name)


class OpenConversation:
    """A transcript that was read once, in bounded memory; whole texts are read again."""

    listing: ConversationListing
    """The row of a list for it, with everything counted."""

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
        turns = self._again(first=self.turns[at].line)
        return next(self._masked(place, turn) for place, turn in turns if place == at)

    def wholes(self) -> Iterator[Turn]:
        """Iterate over the turns with their whole texts, in one more reading of the file.

        Raises `ConversationGone` when the file is not what was read any more.
        """
        return (self._masked(at, turn) for at, turn in self._again())

    def find(self, text: str, *, cancelled: IsCancelled = never) -> Sequence[int]:
        """Return the places in `turns` whose whole text holds `text`, in any case.

        Raises `Cancelled`, and `ConversationGone` when the file is not what was read any more.
        """
        needle = text.casefold()
        # Only what masking puts into a text can be in the masked text and not in the text.
        is_of_mask = any(needle in mask or part in needle for mask, part in _MASKS)
        return [
            at
            for at, turn in (self._again(cancelled) if needle else ())
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

    def _again(
        self, cancelled: IsCancelled = never, *, first: int = 0
    ) -> Iterator[tuple[int, Turn]]:
        """Read the file again from a line on: each turn's place and whole, unmasked."""
        shown = self.turns
        at = bisect_left(shown, first, key=lambda turn: turn.line)
        try:
            with open_lines(self._file, limit=self._limit) as lines:
                for raw in lines:
                    if at >= len(shown):
                        return
                    stop_if(cancelled)
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
                f"{safe_line(self._file.path)} cannot be read any more: {message_of(error)}",
                hint="choose another conversation",
            ) from error
        if at < len(shown):
            raise self._changed()

    def _changed(self) -> ConversationGone:
        return ConversationGone(
            f"{safe_line(self._file.path)} was rewritten since it was read", hint="open it again"
        )

"""Making turns: the entries of a conversation, from the pieces that records are made of."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from memtui.memory.transcripts.base import Record, parse_record, text_in, whole
from memtui.model.conversations import Turn, TurnKind
from memtui.text.redact import redact, redact_name, redact_value


@dataclass(frozen=True, slots=True)
class TurnMaker:
    """Makes the turns of one record."""

    line: int
    timestamp_ms: int
    redacts: bool

    def turn(self, kind: TurnKind, role: str, text: str, **fields: Any) -> Turn:
        """A turn of a text; `fields` are those of `Turn`."""
        text = self._shown(text)
        return Turn(self.line, kind, role, text, len(text), self.timestamp_ms, **fields)

    def message(self, role: str, text: str, left_out: str = "") -> Turn:
        """What a user or an assistant says."""
        return self.turn(TurnKind.MESSAGE, role, text, left_out=left_out)

    def other(self, text: str, role: str = "system", left_out: str = "") -> Turn:
        """A record, or a part of one, that nobody says."""
        return self.turn(TurnKind.OTHER, role, text, left_out=left_out)

    def call(self, tool: str, call_id: object, arguments: object, left_out: str = "") -> Turn:
        """A call of a tool; arguments that are text are parsed when they are JSON."""
        text = self._arguments(arguments)
        return Turn(
            *(self.line, TurnKind.TOOL_CALL, "assistant", text, len(text), self.timestamp_ms),
            tool=self._name(tool),
            call_id=self._name(call_id),
            left_out=left_out,
        )

    def result(
        self, tool: str, call_id: object, text: str, *, is_error: bool = False, left_out: str = ""
    ) -> Turn:
        """What a tool answers."""
        return self.turn(
            TurnKind.TOOL_RESULT,
            "tool",
            text,
            tool=self._name(tool),
            call_id=self._name(call_id),
            is_error=is_error,
            left_out=left_out,
        )

    def _shown(self, text: str) -> str:
        text = whole(text)
        return redact(text) if self.redacts else text

    def _name(self, name: object) -> str:
        kept = whole(name) if isinstance(name, str) else ""
        return redact_name(kept) if self.redacts else kept

    def _arguments(self, arguments: object) -> str:
        value = parsed_arguments(arguments)
        if value is None:
            return self._shown(arguments) if isinstance(arguments, str) else ""
        shown = redact_value(value) if self.redacts else value
        return whole(json.dumps(shown, ensure_ascii=False))


def parsed_arguments(arguments: object) -> object:
    """The arguments of a call as JSON holds them; `None` for a text that is no JSON object."""
    if not isinstance(arguments, str):
        return arguments
    if not arguments.lstrip().startswith(("{", "[")):
        return None
    try:
        return parse_record(arguments)
    except ValueError:
        # Cut, or in a language of the tool's own: it is shown as it is.
        return None


def texts_of(content: object, types: Collection[str] = ("text",)) -> str:
    """The texts of a string, or of the blocks of some types in a list, joined by line feeds."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "\n".join(
        block["text"]
        for block in content
        if isinstance(block, dict)
        and text_in(block, "type") in types
        and isinstance(block.get("text"), str)
    )


def blocks_of(content: object) -> list[Record]:
    """The blocks of a message; a string is one block of text."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list):
        return []
    return [block for block in content if isinstance(block, dict)]

"""Codex CLI's rollouts: `~/.codex/sessions/YYYY/MM/DD/rollout-*.jsonl`.

A record is `{timestamp, type, payload}`; before the autumn of 2025 the payloads stood alone. What
is said and what tools do are `response_item`s; the same things come again as `event_msg`s for the
screen, which are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from memtui.memory.transcripts.base import (
    LineReader,
    Record,
    RecordFacts,
    folder_name,
    text_in,
)
from memtui.memory.transcripts.codex_tools import tool_turns
from memtui.memory.transcripts.generated import Dropped, Run
from memtui.memory.transcripts.rules import TranscriptRules
from memtui.memory.transcripts.spoken import SpokenLines
from memtui.memory.transcripts.times import first_date
from memtui.memory.transcripts.turns import TurnMaker, texts_of
from memtui.model.conversations import TranscriptKind, Turn, TurnKind

_WRAPPED: Final = frozenset(
    {"session_meta", "response_item", "event_msg", "turn_context", "compacted"}
)
_FIELDS: Final = frozenset({"timestamp", "type", "payload", "ordinal"})
"""Of a record; a type that a later release brings is known by having no others."""
_ITEMS: Final = frozenset(
    {
        *("reasoning", "function_call", "function_call_output", "local_shell_call"),
        *("custom_tool_call", "custom_tool_call_output", "web_search_call"),
    }
)
_TEXTS: Final = frozenset({"input_text", "output_text", "text"})
_SUMMARIES: Final = frozenset({"summary_text", "reasoning_text", "text"})
_SPEAKERS: Final = frozenset({"user", "assistant"})
_REQUEST: Final = "## My request for Codex:"
"""Behind what an editor tells of itself stands what the user asks."""
_EDITOR: Final = "# Context from my IDE setup:"
_BEGINNINGS: Final[tuple[tuple[str, Dropped], ...]] = (
    ("<environment_context>", Dropped.CONTEXT),
    ("<user_instructions>", Dropped.INSTRUCTIONS),
    ("<permissions instructions>", Dropped.INSTRUCTIONS),
    ("<collaboration_mode>", Dropped.INSTRUCTIONS),
    ("<INSTRUCTIONS>", Dropped.INSTRUCTIONS),
    ("# AGENTS.md instructions", Dropped.INSTRUCTIONS),
    ("<skill>", Dropped.INSTRUCTIONS),
    ("<turn_aborted>", Dropped.INTERRUPTED),
    ("<user_shell_command>", Dropped.COMMAND),
    ("<user_action>", Dropped.COMMAND),
    ("<subagent_notification>", Dropped.NOTIFICATION),
    (_EDITOR, Dropped.CONTEXT),
)


class Codex:
    """How Codex CLI writes its transcripts."""

    kind: Final = TranscriptKind.CODEX
    records_calls: Final = True
    calls_note: Final = "Calls of tools are recorded with what came back; long answers may be cut"

    def recognises(self, record: Record) -> bool:
        """By a payload under a known type, or by the shape of the items that once stood alone."""
        kind = text_in(record, "type")
        if isinstance(record.get("payload"), dict):
            return kind in _WRAPPED or (kind != "" and record.keys() <= _FIELDS)
        if "payload" in record or "sessionId" in record or "uuid" in record:
            return False
        if kind == "message":
            return isinstance(record.get("role"), str) and "message" not in record
        if "type" not in record:
            return "record_type" in record or {"id", "timestamp", "instructions"} <= record.keys()
        return kind in _ITEMS

    def identity(self, record: Record) -> str:
        """Nothing: a rollout repeats no record."""
        return ""

    def run_of(self, record: Record) -> Run | None:
        """A rollout of an agent that another one began."""
        source = _payload(record).get("source")
        is_meta = record.get("type") == "session_meta"
        return Run.SUBAGENT if is_meta and _names_subagent(source) else None

    def facts(self, record: Record) -> RecordFacts:
        """The project and the session by the first record, the model by the turns' context."""
        payload = _payload(record)
        is_meta = record.get("type", "session_meta") == "session_meta"
        knows_model = is_meta or record.get("type") == "turn_context"
        return RecordFacts(
            agent=folder_name(payload.get("cwd")),
            model=text_in(payload, "model") if knows_model else "",
            session=text_in(payload, "id") if is_meta else "",
            timestamp_ms=_time(record),
        )

    def turns(self, record: Record, line: int, *, redacts: bool = True) -> list[Turn]:
        """What an item says or does; records for the screen are told by their type."""
        make = TurnMaker(line, _time(record), redacts)
        payload = _payload(record)
        kind = text_in(record, "type") or "session_meta"
        if kind == "compacted":
            return [make.turn(TurnKind.COMPACTION, "system", text_in(payload, "message"))]
        if kind == "event_msg":
            return _event_turns(payload, make)
        if kind == "response_item" or (payload is record and kind != "session_meta"):
            return _item_turns(payload, make)
        return [make.other(kind)]

    def line_reader(
        self,
        name: str,
        rules: TranscriptRules,
        *,
        redacts: bool = True,
        state: Mapping[str, Any] | None = None,
    ) -> LineReader:
        """Lines out of what is said; neither the name nor the rules of a release matter."""
        return SpokenLines(self, redacts=redacts, state=state)


def _payload(record: Record) -> Record:
    payload = record.get("payload")
    return payload if isinstance(payload, dict) else record


def _time(record: Record) -> int:
    return first_date(record.get("timestamp"), _payload(record).get("timestamp"))


def _names_subagent(source: object) -> bool:
    if isinstance(source, str):
        return source.startswith("subagent")
    return isinstance(source, dict) and any(key.startswith("subagent") for key in source)


def _item_turns(item: Record, make: TurnMaker) -> list[Turn]:
    kind = text_in(item, "type")
    if kind == "message":
        return [_message(item, make)]
    if kind == "reasoning":
        text = "\n".join(
            filter(None, (texts_of(item.get(key), _SUMMARIES) for key in ("summary", "content")))
        )
        return [make.turn(TurnKind.THINKING, "assistant", text)]
    if kind.startswith("compaction"):
        return [make.turn(TurnKind.COMPACTION, "system", "")]
    return tool_turns(item, kind, make) or [make.other(kind or "record")]


def _message(item: Record, make: TurnMaker) -> Turn:
    role = text_in(item, "role")
    text = texts_of(item.get("content"), _TEXTS)
    if role not in _SPEAKERS:
        return make.message("system", text, Dropped.INSTRUCTIONS)
    if role == "assistant":
        return make.message(role, text)
    start = text.lstrip()
    if start.startswith(_EDITOR) and _REQUEST in text:
        asked = text.partition(_REQUEST)[2].strip()
        return make.message(role, asked, "" if asked else Dropped.CONTEXT)
    why = next((code for begins, code in _BEGINNINGS if start.startswith(begins)), "")
    return make.message(role, text, why)


def _event_turns(event: Record, make: TurnMaker) -> list[Turn]:
    kind = text_in(event, "type")
    found = tool_turns(event, kind, make)
    if found:
        return found
    text = text_in(event, "message", "text", "reason")
    why = Dropped.DUPLICATE if text else ""
    return [make.other(f"{kind}: {text}" if text else kind, left_out=why)]

"""Codex CLI's rollouts: `~/.codex/sessions/YYYY/MM/DD/rollout-*.jsonl`.

A record is `{timestamp, type, payload}`; before the autumn of 2025 the payloads stood alone. What
is said and what tools do are `response_item`s; the same things come again as `event_msg`s for the
screen, which are left out.
"""

from __future__ import annotations

import json
import re
from typing import Final

from memtui.memory.transcripts import records
from memtui.memory.transcripts.generated import SPEAKERS, WRITTEN, Dropped, Run, written_reason
from memtui.model.conversations import TranscriptKind, Turn, TurnKind

_OURS: Final = WRITTEN["codex"]
_HEADER: Final = re.compile(r"\AWall time: [\d.]+ seconds\nOutput:(?:\n|\Z)", re.ASCII)
"""The header of newer releases before the answer of a server's tool."""


class Codex(records.TranscriptFormat):
    kind = TranscriptKind.CODEX

    def recognises(self, record: records.Record) -> bool:
        """Look for a payload under a known type, or for the items that once stood alone."""
        kind = records.text_in(record, "type")
        if isinstance(record.get("payload"), dict):
            return kind in _OURS["records"] or (
                kind != "" and record.keys() <= set(_OURS["fields"])
            )
        if "payload" in record or "sessionId" in record or "uuid" in record:
            return False
        if kind == "message":
            return isinstance(record.get("role"), str) and "message" not in record
        if "type" not in record:
            return "record_type" in record or {"id", "timestamp", "instructions"} <= record.keys()
        return kind in _OURS["items"]

    def run_of(self, record: records.Record, *, archived: bool, is_first: bool) -> Run | None:
        """Know the rollout of an agent that another one began by its first record."""
        source = _payload(record).get("source")
        names = [source] if isinstance(source, str) else source if isinstance(source, dict) else ()
        is_meta = is_first and record.get("type") == "session_meta"
        return Run.SUBAGENT if is_meta and any(n.startswith("subagent") for n in names) else None

    def facts(self, record: records.Record) -> records.RecordFacts:
        """Take the project from the first record, the model from the turns' context."""
        payload = _payload(record)
        is_meta = record.get("type", "session_meta") == "session_meta"
        knows_model = is_meta or record.get("type") == "turn_context"
        return records.RecordFacts(
            agent=records.folder_name(payload.get("cwd")),
            model=records.text_in(payload, "model") if knows_model else "",
            timestamp_ms=_time(record),
        )

    def turns(self, record: records.Record, line: int) -> list[Turn]:
        """Return what an item says or does; of records for the screen their type."""
        build = records.TurnBuilder(line, _time(record))
        payload = _payload(record)
        kind = records.text_in(record, "type") or "session_meta"
        if kind == "compacted":
            return [build.turn(TurnKind.COMPACTION, "system", records.text_in(payload, "message"))]
        is_event = kind == "event_msg"
        is_bare = payload is record and kind != "session_meta"
        if not (is_event or is_bare or kind == "response_item"):
            return [build.other(kind)]
        item = records.text_in(payload, "type")
        if turns := _tool_turns(payload, item, build):
            return turns
        if is_event:
            text = records.text_in(payload, "message", "text", "reason")
            return [build.other(item, text=text, left_out=Dropped.DUPLICATE if text else "")]
        if item == "message":
            return [_message(payload, build)]
        if item == "reasoning":
            texts = (
                records.texts_of(payload.get(key), _OURS["summaries"])
                for key in ("summary", "content")
            )
            return [build.turn(TurnKind.THINKING, "assistant", "\n".join(filter(None, texts)))]
        if item.startswith("compaction"):
            return [build.turn(TurnKind.COMPACTION, "system", "")]
        return [build.other(item or "record")]


def _payload(record: records.Record) -> records.Record:
    payload = record.get("payload")
    return payload if isinstance(payload, dict) else record


def _time(record: records.Record) -> int:
    return records.first_date(record.get("timestamp"), _payload(record).get("timestamp"))


def _message(item: records.Record, build: records.TurnBuilder) -> Turn:
    role = records.text_in(item, "role")
    text = records.texts_of(item.get("content"), _OURS["texts"])
    if role not in SPEAKERS:
        return build.message("system", text, Dropped.INSTRUCTIONS)
    if role == "assistant":
        return build.message(role, text)
    # Behind what an editor tells of itself stands what the user asks.
    if text.lstrip().startswith(_OURS["editor"]):
        _, request, question = text.partition(_OURS["request"])
        if request:
            question = question.strip()
            return build.message(role, question, "" if question else Dropped.CONTEXT)
    return build.message(role, text, written_reason("codex", text))


def _tool_turns(item: records.Record, kind: str, build: records.TurnBuilder) -> list[Turn]:
    """Return the call or the answer that an item is, or both; empty for every other item."""
    call_id = item.get("call_id") or item.get("id")
    if kind in ("function_call", "custom_tool_call"):
        name, space = records.text_in(item, "name"), records.text_in(item, "namespace")
        if not name.startswith(space):
            name = f"{space.removesuffix('__')}__{name}"
        arguments = item.get("arguments" if kind == "function_call" else "input")
        return [build.call(name, call_id, arguments)]
    if kind in _OURS["answers"]:
        output = item.get("output", item.get("result"))
        return [build.result("", call_id, _output_text(output), is_error=_has_failed(output))]
    if kind in _OURS["built_in"]:
        return [build.call(_OURS["built_in"][kind], call_id, item.get("action"))]
    if kind not in ("mcp_tool_call_begin", "mcp_tool_call_end"):
        return []
    # The call of a server's tool, told again for the screen; nested calls are told only so.
    invocation, why = records.mapping_in(item, "invocation"), Dropped.DUPLICATE
    tool = f"mcp__{records.text_in(invocation, 'server')}__{records.text_in(invocation, 'tool')}"
    turns = [build.call(tool, call_id, invocation.get("arguments"), left_out=why)]
    if kind == "mcp_tool_call_end":
        result = item.get("result")
        answer = result.get("Ok", result.get("Err")) if isinstance(result, dict) else result
        text, failed = _output_text(answer), _has_failed(result) or _has_failed(answer)
        turns.append(build.result(tool, call_id, text, is_error=failed, left_out=why))
    return turns


def _output_text(output: object) -> str:
    """Return what a tool answered as text: of a string, of blocks of content, or of an object."""
    match output:
        case str():
            output = _HEADER.sub("", output)
            value = records.parsed_arguments(output)
            if isinstance(value, dict) and isinstance(value.get("output"), str):
                return str(value["output"])
            return records.texts_of(value, _OURS["texts"]) or output
        case list():
            return _HEADER.sub("", records.texts_of(output, _OURS["texts"]))
        case {"content": inner} | {"output": inner}:
            return _output_text(inner)
        case dict():
            return json.dumps(output, ensure_ascii=False)
        case _:
            return ""


def _has_failed(output: object) -> bool:
    value = records.parsed_arguments(output) if isinstance(output, str) else output
    if not isinstance(value, dict):
        return False
    if value.get("success") is False or value.get("isError") is True or "Err" in value:
        return True
    code = records.mapping_in(value, "metadata").get("exit_code")
    return isinstance(code, int) and code != 0

"""Whose transcript it is, and that no record of any shape breaks the reading."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memtui.memory.transcripts.formats import FORMATS, format_of, line_reader, recognise
from memtui.memory.transcripts.memory_calls import CallCollector
from memtui.memory.transcripts.openclaw_files import RULES
from memtui.memory.transcripts.records import folder_name, parse_record, whole
from memtui.model.conversations import TranscriptKind

OPENCLAW = format_of(TranscriptKind.OPENCLAW)
NEWEST = RULES["openclaw-2026.9"]


def entry(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "id": "e1", "parentId": None} | fields


def message(role: str, content: object, **fields: Any) -> dict[str, Any]:
    return entry("message", message={"role": role, "content": content} | fields)


# --- whose ------------------------------------------------------------------------------------

CLAUDE: dict[str, Any] = {"type": "user", "uuid": "u", "sessionId": "s", "message": {}}
CODEX: dict[str, Any] = {"type": "response_item", "payload": {"type": "message"}}
CLAW = message("user", "hi")


@pytest.mark.parametrize(
    ("records", "kind"),
    [
        ([CLAW], TranscriptKind.OPENCLAW),
        ([{"type": "session", "id": "s", "version": 3}], TranscriptKind.OPENCLAW),
        ([entry("reset", reason="new")], TranscriptKind.OPENCLAW),
        ([CLAUDE], TranscriptKind.CLAUDE_CODE),
        ([{"type": "summary", "summary": "x", "leafUuid": "y"}], TranscriptKind.CLAUDE_CODE),
        ([{"type": "progress", "sessionId": "s"}], TranscriptKind.CLAUDE_CODE),
        ([CODEX], TranscriptKind.CODEX),
        ([{"id": "s", "timestamp": "t", "instructions": None}], TranscriptKind.CODEX),
        ([{"record_type": "state"}], TranscriptKind.CODEX),
        ([{"type": "message", "role": "user", "content": []}], TranscriptKind.CODEX),
        ([CLAW, CODEX, CODEX], TranscriptKind.CODEX),
        ([CLAUDE, CLAW], TranscriptKind.CLAUDE_CODE),
        ([CLAW, CLAUDE, {}], TranscriptKind.OPENCLAW),
        ([], None),
        ([{}, {"type": "x"}, {"type": 7}, {"type": "message"}, {"type": "user"}], None),
        ([{"type": "message", "message": []}, {"type": "event", "payload": {}, "id": 1}], None),
        ([{"timestamp": "t", "type": "of_next_year", "payload": {}}], TranscriptKind.CODEX),
        ([{"type": "user", "message": {"role": "user"}}], TranscriptKind.CLAUDE_CODE),
        ([{"type": "attachment", "attachment": {}}], TranscriptKind.CLAUDE_CODE),
    ],
    ids=lambda value: str(value)[:60],
)
def test_recognising(records: list[dict[str, Any]], kind: TranscriptKind | None) -> None:
    found = recognise(records)
    assert (found.kind if found else None) is kind


def test_a_format_for_every_kind() -> None:
    assert {one.kind for one in FORMATS} == set(TranscriptKind)
    for kind in TranscriptKind:
        form = format_of(kind)
        assert form.calls_note
        assert "\n" not in form.calls_note


def test_odd_records_break_nothing() -> None:
    odd: list[dict[str, Any]] = [
        {"type": "message", "message": {"role": "user", "content": 7}},
        {"type": "message", "message": {"role": ["user"], "content": [None, 1, [], {"type": []}]}},
        {"type": "user", "message": {"content": {"a": 1}}, "timestamp": {}, "cwd": 3},
        {"type": "assistant", "message": {"content": [{"type": "tool_use"}, {"type": 3}, {}]}},
        {"type": "user", "message": {"content": [{"type": "tool_result", "content": 7}]}},
        {"type": "attachment", "attachment": "x"},
        {"type": "response_item", "payload": {"type": "function_call", "arguments": "[1]"}},
        {"type": "response_item", "payload": {"type": "function_call_output", "output": None}},
        {"type": "response_item", "payload": {}},
        {"type": "event_msg", "payload": {"type": "mcp_tool_call_end", "result": "x"}},
        {"type": ["x"], "payload": {"type": {}}},
        {"type": "session_meta", "payload": {"source": ["x"], "cwd": "/"}},
        {},
    ]
    for form in FORMATS:
        reader = line_reader(form, "a.jsonl", NEWEST)
        for number, record in enumerate(odd, 1):
            form.recognises(record)
            form.facts(record)
            assert all(turn.line == number for turn in form.turns(record, number))
            reader.add(record, number)


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "role", "text", "id", "content"]), inner)
    ),
    max_leaves=8,
)
NAMES = st.sampled_from(
    [
        *("type", "message", "payload", "content", "role", "text", "timestamp", "sessionId"),
        *("uuid", "id", "provenance", "origin", "data", "name", "input", "arguments"),
        *("output", "result", "call_id", "tool_use_id", "toolCallId", "sourceTool", "kind"),
        *("source", "firstKeptEntryId", "attachment", "prompt", "namespace", "invocation"),
        *("summary", "cwd", "details", "action"),
    ]
)
TYPES = st.sampled_from(
    [
        *("message", "user", "assistant", "session", "reset", "compaction", "attachment"),
        *("system", "response_item", "event_msg", "session_meta", "function_call"),
        *("function_call_output", "reasoning", "local_shell_call", "text", "tool_use"),
        *("tool_result", "toolCall", "toolResult", "mcp_tool_call_end", "queued_command"),
        *("compacted"),
    ]
)
RECORDS = st.dictionaries(NAMES, ANY | TYPES | st.dictionaries(NAMES, ANY | TYPES | st.lists(ANY)))


@settings(max_examples=40)
@given(RECORDS, TYPES)
def test_any_record_is_read_without_an_error(record: dict[str, Any], kind: str) -> None:
    for chosen in (record, record | {"type": kind}):
        for form in FORMATS:
            form.recognises(chosen)
            form.identity(chosen)
            form.facts(chosen)
            collector = CallCollector("p", form.kind)
            for turn in form.turns(chosen, 1):
                turn.text.encode()
                collector.add(turn)
            collector.calls()
            reader = line_reader(form, "a.jsonl", NEWEST)
            for line in reader.add(chosen, 1):
                line.text.encode()
            json.dumps(reader.state())


def test_half_a_pair_can_be_encoded() -> None:
    record = parse_record(
        '{"type": "message", "message": {"role": "user", "content": "a\\ud83db"}}'
    )
    assert isinstance(record, dict)
    assert OPENCLAW.turns(record, 1)[0].text == "a\ufffdb"
    line = line_reader(OPENCLAW, "a.jsonl", NEWEST).add(record, 1)[0]
    assert line.text == "User: a\ufffdb"
    assert whole("\ud83d\ude00 ok") == "\ufffd\ufffd ok"
    assert json.loads('"\\ud83d\\ude00"') == "😀"


@pytest.mark.parametrize(
    ("path", "name"),
    [("/home/me/tidepool/", "tidepool"), ("C:\\work\\sea", "sea"), ("", ""), (None, ""), ("/", "")],
)
def test_folder_names(path: object, name: str) -> None:
    assert folder_name(path) == name

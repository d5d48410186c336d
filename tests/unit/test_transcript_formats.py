"""Whose transcript it is, and OpenClaw's records as turns; the reset that cuts chunks apart."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memtui.memory.transcripts.base import LineReader, folder_name, parse_record, whole
from memtui.memory.transcripts.calls import CallCollector
from memtui.memory.transcripts.formats import FORMATS, format_of, recognise
from memtui.memory.transcripts.openclaw import OpenClawTranscript, TranscriptLine
from memtui.memory.transcripts.rules import RULES
from memtui.model.conversations import TranscriptKind, Turn, TurnKind
from tests.support.known import cases

OPENCLAW = format_of(TranscriptKind.OPENCLAW)
NEWEST = RULES["openclaw-2026.9"]
SECRET = "ghp_abcdefghijklmnopqrstuvwxyz123456"


def entry(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "id": "e1", "parentId": None} | fields


def message(role: str, content: object, **fields: Any) -> dict[str, Any]:
    return entry("message", message={"role": role, "content": content} | fields)


def turns(record: dict[str, Any], **options: bool) -> list[Turn]:
    return OPENCLAW.turns(record, 4, **options)


def told(record: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    return [(turn.kind.value, turn.role, turn.text, turn.left_out) for turn in turns(record)]


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
        assert form.records_calls
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
        reader = form.line_reader("a.jsonl", NEWEST)
        for number, record in enumerate(odd, 1):
            form.recognises(record)
            form.facts(record)
            assert all(turn.line == number for turn in form.turns(record, number))
            reader.add_line(json.dumps(record), number)
        assert reader.malformed == 0


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
        "type",
        "message",
        "payload",
        "content",
        "role",
        "text",
        "timestamp",
        "sessionId",
        "uuid",
        "id",
        "provenance",
        "origin",
        "data",
        "name",
        "input",
        "arguments",
        "output",
        "result",
        "call_id",
        "tool_use_id",
        "toolCallId",
        "sourceTool",
        "kind",
        "source",
        "firstKeptEntryId",
        "attachment",
        "prompt",
        "namespace",
        "invocation",
        "summary",
        "cwd",
        "details",
        "action",
    ]
)
TYPES = st.sampled_from(
    [
        "message",
        "user",
        "assistant",
        "session",
        "reset",
        "compaction",
        "attachment",
        "system",
        "response_item",
        "event_msg",
        "session_meta",
        "function_call",
        "function_call_output",
        "reasoning",
        "local_shell_call",
        "text",
        "tool_use",
        "tool_result",
        "toolCall",
        "toolResult",
        "mcp_tool_call_end",
        "queued_command",
        "compacted",
    ]
)
RECORDS = st.dictionaries(NAMES, ANY | TYPES | st.dictionaries(NAMES, ANY | TYPES | st.lists(ANY)))


@settings(max_examples=40)
@given(RECORDS, TYPES)
def test_any_record_is_read_without_an_error(record: dict[str, Any], kind: str) -> None:
    for chosen in (record, record | {"type": kind}):
        text = json.dumps(chosen)
        for form in FORMATS:
            form.recognises(chosen)
            form.identity(chosen)
            form.facts(chosen)
            collector = CallCollector("p", form.kind)
            for turn in form.turns(chosen, 1):
                turn.text.encode()
                collector.add(turn)
            collector.calls()
            reader = form.line_reader("a.jsonl", NEWEST)
            for line in reader.add_line(text, 1):
                line.text.encode()
            json.dumps(reader.state())


def test_half_a_pair_can_be_encoded() -> None:
    record = parse_record(
        '{"type": "message", "message": {"role": "user", "content": "a\\ud83db"}}'
    )
    assert isinstance(record, dict)
    assert turns(record)[0].text == "a\ufffdb"
    line = OPENCLAW.line_reader("a.jsonl", NEWEST).add_line(json.dumps(record), 1)[0]
    assert line.text == "User: a\ufffdb"
    assert whole("\ud83d\ude00 ok") == "\ufffd\ufffd ok"
    assert json.loads('"\\ud83d\\ude00"') == "😀"


@pytest.mark.parametrize(
    ("path", "name"),
    [("/home/me/tidepool/", "tidepool"), ("C:\\work\\sea", "sea"), ("", ""), (None, ""), ("/", "")],
)
def test_folder_names(path: object, name: str) -> None:
    assert folder_name(path) == name


# --- OpenClaw ---------------------------------------------------------------------------------


def test_entries_of_openclaw() -> None:
    assert told(message("user", "hello\n there")) == [("message", "user", "hello\n there", "")]
    assert told(message("user", "[cron:x] go")) == [
        ("message", "user", "[cron:x] go", "cron_prompt")
    ]
    assert told(entry("compaction", summary="so far")) == [("compaction", "system", "so far", "")]
    assert told(entry("reset", reason="daily")) == [("reset", "system", "daily", "")]
    assert told(entry("model_change", modelId="m")) == [("other", "system", "model_change: m", "")]
    assert told(entry("custom", customType="x", data={})) == [("other", "system", "custom x", "")]
    assert told(message("bashExecution", None, command="ls"))[0][:3] == (
        "other",
        "system",
        "bashExecution: ls",
    )


def test_blocks_of_openclaw() -> None:
    blocks = [
        {"type": "thinking", "thinking": "hm"},
        {"type": "text", "text": "one"},
        {"type": "text", "text": "two"},
        {
            "type": "toolCall",
            "id": "c1",
            "name": "exec",
            "arguments": {"password": "x", "a": SECRET},
        },
        {"type": "image", "data": "AAAA"},
        {"type": "text", "text": "three"},
    ]
    found = turns(message("assistant", blocks))
    assert [(turn.kind, turn.text) for turn in found] == [
        (TurnKind.THINKING, "hm"),
        (TurnKind.MESSAGE, "one\ntwo"),
        (TurnKind.TOOL_CALL, '{"password": "***", "a": "ghp_ab…3456"}'),
        (TurnKind.OTHER, "image"),
        (TurnKind.MESSAGE, "three"),
    ]
    assert (found[2].tool, found[2].call_id, found[2].line) == ("exec", "c1", 4)
    assert SECRET in turns(message("assistant", blocks), redacts=False)[2].text


def test_answers_of_openclaw() -> None:
    fields = {"toolCallId": "c1", "toolName": "memory_search", "isError": True}
    found = turns(message("toolResult", [{"type": "text", "text": "no"}], **fields))[0]
    assert (found.kind, found.role, found.tool, found.call_id) == (
        *(TurnKind.TOOL_RESULT, "tool"),
        *("memory_search", "c1"),
    )
    assert found.is_error
    details = {"results": [{"path": "MEMORY.md"}]}
    stripped = message("toolResult", [], details=details, **fields)
    assert json.loads(turns(stripped)[0].text) == details


def test_facts_of_openclaw() -> None:
    facts = OPENCLAW.facts
    head = {"type": "session", "id": "s1", "timestamp": "2026-01-01T00:00:00.5Z", "cwd": "/x"}
    assert (facts(head).session, facts(head).timestamp_ms) == ("s1", 1_767_225_600_500)
    assert facts({"data": {"sessionKey": "agent:writer:main"}}).agent == "writer"
    assert facts(entry("model_change", modelId="m")).model == "m"
    assert facts(message("assistant", "x", model="n", timestamp=1_767_225_600)).model == "n"
    assert facts(message("assistant", "x", model="delivery-mirror")).model == ""
    when = facts(message("user", "x", timestamp=1_767_225_600) | {"timestamp": 5})
    assert when.timestamp_ms == 1_767_225_600_000
    assert facts(message("user", "x", timestamp=9e18)).timestamp_ms == 0


@pytest.mark.parametrize("case", cases("sessions", "entry_cases"))
def test_the_lines_of_a_release_are_exact(case: dict[str, Any]) -> None:
    name = case.get("file", "s.jsonl")
    for rules in RULES.values():
        exact = OpenClawTranscript(name, rules)
        reader = OPENCLAW.line_reader(name, rules)
        for number, record in enumerate(case["records"], 1):
            text = json.dumps(record)
            assert reader.add_line(text, number) == exact.add_line(text, number)
        assert reader.dropped == exact.dropped
        assert reader.run is exact.run


def test_more_credentials_are_masked_than_the_release_masks() -> None:
    token = "AKIAABCDEFGHIJKLMNOP"
    record = json.dumps(message("user", "x " * 395 + token))
    exact = OpenClawTranscript("a.jsonl", NEWEST).add_line(record, 1)
    assert token in "".join(line.text for line in exact)
    lines = OPENCLAW.line_reader("a.jsonl", NEWEST).add_line(record, 1)
    assert "BCDEFGHIJ" not in "".join(line.text for line in lines)


def test_an_archive_that_a_release_does_not_read_gives_nothing() -> None:
    name = "s.jsonl.reset.2026-02-16T22-26-33.000Z"
    reader = OPENCLAW.line_reader(name, RULES["openclaw-2026.4"])
    assert reader.add_line(json.dumps(CLAW), 1) == reader.add_line("{", 2) == []
    assert (reader.messages, reader.malformed) == (0, 0)


# --- the reset that cuts ----------------------------------------------------------------------


def said(name: str, text: str = "hi") -> dict[str, Any]:
    return message("user", text) | {"id": name}


def read(
    records: Iterable[dict[str, Any]], state: dict[str, Any] | None = None, profile: str = "2026.9"
) -> tuple[LineReader, list[tuple[bool, list[TranscriptLine]]]]:
    reader = OPENCLAW.line_reader("a.jsonl", RULES[f"openclaw-{profile}"], state=state)
    found = []
    for number, record in enumerate(records, 1):
        lines = reader.add_line(json.dumps(record), number)
        found.append((bool(lines) and reader.cuts_before(number), lines))
    return reader, found


@pytest.mark.parametrize(
    ("reset", "cutoff"),
    [
        ({"reason": "new"}, 4),
        ({"reason": "daily", "firstKeptEntryId": "b"}, 2),
        ({"firstKeptEntryId": "nobody"}, 0),
        ({"firstKeptEntryId": None}, 0),
        ({"firstKeptEntryId": 3}, 0),
    ],
)
def test_the_last_reset_says_where_chunks_are_cut(reset: dict[str, Any], cutoff: int) -> None:
    records = [said("a"), said("b"), said("c"), entry("reset", **reset), said("d")]
    reader, found = read(records)
    assert reader.cutoff == cutoff
    assert not any(cut for cut, _ in found)
    again, found = read(records, {"cutoff": cutoff})
    assert again.cutoff == cutoff
    assert [cut for cut, _ in found] == [
        number == (5 if cutoff == 4 else cutoff) for number in range(1, 6)
    ]
    assert read(records, profile="2026.7")[0].cutoff == 0


def test_a_later_reset_moves_the_cut() -> None:
    first = [said("a"), entry("reset", reason="new"), said("b")]
    reader, _ = read(first, {"cutoff": 2})
    state = json.loads(json.dumps(reader.state()))
    going_on = OPENCLAW.line_reader("a.jsonl", NEWEST, state=state)
    assert going_on.cutoff == 2
    going_on.add_line(json.dumps(said("c")), 4)
    assert not going_on.cuts_before(4)
    going_on.add_line(json.dumps(entry("reset", firstKeptEntryId="c")), 5)
    assert going_on.cutoff == 4


def test_the_messages_that_a_reset_can_keep_are_known_after_many_others() -> None:
    records = [said(f"m{number}") for number in range(500)]
    reader, _ = read([*records, entry("reset", firstKeptEntryId="m495")])
    assert reader.cutoff == 496
    assert len(json.dumps(reader.state())) < 3000


def test_a_heartbeat_turn_ends_where_it_ends_after_going_on() -> None:
    wake = message(
        "user", "wake", provenance={"kind": "internal_system", "sourceTool": "heartbeat"}
    )
    reader, _ = read([wake])
    going_on, found = read([message("assistant", "I looked")], reader.state())
    assert found == [(False, [])]
    assert going_on.dropped == {"heartbeat_turn": 2}


def test_a_run_is_void_after_going_on() -> None:
    reader, _ = read([said("a"), {"runId": "dreaming-narrative-1"}])
    going_on, found = read([said("b")], json.loads(json.dumps(reader.state())))
    assert going_on.run is reader.run is not None
    assert found == [(False, [])]
    assert going_on.dropped == {"generated_run": 1}

"""Records of three programs, and what is said, left out, called and known by each."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memtui.memory.transcripts.formats import FORMATS, format_of, recognise
from memtui.memory.transcripts.memory_calls import CallCollector
from memtui.memory.transcripts.openclaw_files import RULES
from memtui.memory.transcripts.records import folder_name, parse_record, whole
from memtui.model.conversations import TranscriptKind
from tests.support.conversations import IndexLines
from tests.support.known import load

KNOWN, RULED = load("transcripts"), load("transcript_rules")
NEWEST = RULES["openclaw-2026.9"]
CASES = [
    pytest.param(TranscriptKind(name.replace("_", "-")), case, id=f"{name} {number} {case['test']}")
    for name, group in KNOWN.items()
    for number, case in enumerate(group)
]
OPENCLAW, CLAUDE_CODE, CODEX = (
    format_of(kind)
    for kind in (TranscriptKind.OPENCLAW, TranscriptKind.CLAUDE_CODE, TranscriptKind.CODEX)
)


def read(
    kind: TranscriptKind,
    records: Iterable[dict[str, Any]],
    *,
    profile: str = "openclaw-2026.9",
    file: str = "a.jsonl",
) -> tuple[list[list[object]], IndexLines]:
    """Read records as their file would be; what came before a whole run is void."""
    reader = IndexLines(kind, file, replace(RULES[profile], masks_more=False))
    lines: list[list[object]] = [
        [number, line]
        for number, record in enumerate(records, 1)
        for line in reader.add(record, number)
    ]
    return ([] if reader.run else lines), reader


@pytest.mark.parametrize(("kind", "case"), CASES)
def test_lines_of_the_index(kind: TranscriptKind, case: dict[str, Any]) -> None:
    for answer in case["answers"]:
        for profile in answer["profiles"]:
            file = case.get("file", "a.jsonl")
            lines, reader = read(kind, case["records"], profile=profile, file=file)
            assert lines == answer["lines"], profile
            assert reader.made.dropped == answer.get("dropped", {}), profile
            assert reader.run == answer.get("run"), profile


@pytest.mark.parametrize(("kind", "case"), CASES)
def test_turns_and_facts(kind: TranscriptKind, case: dict[str, Any]) -> None:
    form = format_of(kind)
    turns = [
        turn for at, record in enumerate(case["records"], 1) for turn in form.turns(record, at)
    ]
    assert [
        [one.kind, one.role, one.text, one.tool, one.call_id, one.left_out, one.is_error]
        for one in turns
    ] == case["turns"]
    assert [
        [facts.agent, facts.model, facts.timestamp_ms] for facts in map(form.facts, case["records"])
    ] == [facts[1:] for facts in case["facts"]]


# --- whose ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("records", "kind"), RULED["recognised"], ids=str)
def test_recognising(records: list[dict[str, Any]], kind: str | None) -> None:
    form = recognise(records)
    assert (form.kind if form else None) == kind


ODD: list[dict[str, Any]] = [
    {"type": "message", "message": {"role": "user", "content": 7}},
    {"type": "message", "message": {"role": ["user"], "content": [None, 1, [], {"type": []}]}},
    {"type": "user", "message": {"content": {"a": 1}}, "timestamp": {}, "cwd": 3},
    {"type": "assistant", "message": {"content": [{"type": "tool_use"}, {"type": 3}, {}]}},
    {"type": "user", "message": {"content": [{"type": "tool_result", "content": 7}]}},
    {"type": "attachment", "attachment": "x"},
    {"type": "response_item", "payload": {"type": "function_call", "arguments": "[1]"}},
    {"type": "response_item", "payload": {"type": "function_call_output", "output": None}},
    {"type": "event_msg", "payload": {"type": "mcp_tool_call_end", "result": "x"}},
    {"type": ["x"], "payload": {"type": {}}},
    {"type": "session_meta", "payload": {"source": ["x"], "cwd": "/"}},
]
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "role", "text", "id", "content"]), inner)
    ),
    max_leaves=8,
)
NAMES = st.sampled_from(
    (
        "type message payload content role text timestamp sessionId uuid id provenance origin "
        "data name input arguments output result call_id tool_use_id toolCallId sourceTool kind "
        "source firstKeptEntryId attachment prompt namespace invocation summary cwd details action"
    ).split()
)
TYPES = st.sampled_from(
    (
        "message user assistant session reset compaction attachment system response_item "
        "event_msg session_meta function_call function_call_output reasoning local_shell_call "
        "text tool_use tool_result toolCall toolResult mcp_tool_call_end queued_command compacted"
    ).split()
)
RECORDS = st.dictionaries(NAMES, ANY | TYPES | st.dictionaries(NAMES, ANY | TYPES | st.lists(ANY)))


@settings(max_examples=40)
@given(st.sampled_from(ODD) | RECORDS, TYPES)
def test_any_record_is_read_without_an_error(record: dict[str, Any], kind: str) -> None:
    for chosen in (record, record | {"type": kind}):
        for form in FORMATS:
            form.recognises(chosen)
            form.facts(chosen)
            collector = CallCollector("p", form.kind)
            for turn in form.turns(chosen, 1):
                turn.text.encode()
                collector.add(turn)
            collector.calls()
            reader = IndexLines(form.kind)
            for line in reader.add(chosen, 1):
                line.encode()
            json.dumps(reader.state())


def test_half_a_pair_can_be_encoded() -> None:
    record = parse_record(
        '{"type": "message", "message": {"role": "user", "content": "a\\ud83db"}}'
    )
    assert isinstance(record, dict)
    assert OPENCLAW.turns(record, 1)[0].text == "a\ufffdb"
    assert IndexLines(TranscriptKind.OPENCLAW).add(record, 1)[0] == "User: a\ufffdb"
    assert whole("\ud83d\ude00 ok") == "\ufffd\ufffd ok"


@pytest.mark.parametrize(("path", "name"), RULED["folders"], ids=str)
def test_folder_names(path: object, name: str) -> None:
    assert folder_name(path) == name


# --- what a reader remembers ------------------------------------------------------------------


def claude_user(text: str, uuid: str) -> dict[str, Any]:
    content = {"role": "user", "content": text}
    return {"type": "user", "uuid": uuid, "sessionId": "s1", "message": content}


def test_what_is_remembered_of_records_is_small_and_goes_on() -> None:
    reader = IndexLines(TranscriptKind.CLAUDE_CODE)
    records = [claude_user("x", f"{number:036d}") for number in range(1000)]
    assert all(reader.add(one, 1) for one in records)
    assert len(json.dumps(reader.state())) < 8600
    again = IndexLines(TranscriptKind.CLAUDE_CODE, state=reader.state())
    assert not any(again.add(one, 1) for one in records)
    assert again.made.dropped == {"duplicate": 1000}


def test_tags_take_time_in_proportion() -> None:
    """A pattern that looks for an end from every beginning would take hours for this."""
    opened = claude_user("<system-reminder>" * 60_000, "u")
    assert len(read(TranscriptKind.CLAUDE_CODE, [opened])[0]) > 1000
    closed = claude_user("<system-reminder></system-reminder>" * 30_000, "u")
    lines, reader = read(TranscriptKind.CLAUDE_CODE, [closed])
    assert (lines, reader.made.dropped) == ([], {"context": 1})


@pytest.mark.parametrize(("source", "run"), RULED["agents"], ids=str)
def test_an_agent_s_agent_talks_with_nobody(source: object, run: str | None) -> None:
    reader = IndexLines(TranscriptKind.CODEX)
    reader.add({"type": "session_meta", "payload": {"id": "s", "source": source}}, 1)
    assert reader.run == run
    again = IndexLines(TranscriptKind.CODEX, state=reader.state())
    block = {"type": "input_text", "text": "hi"}
    said = {"type": "message", "role": "user", "content": [block]}
    assert bool(again.add({"type": "response_item", "payload": said}, 2)) is (run is None)
    assert again.run == run

"""Transcripts of three programs: lines of files, what is said in them, what the memory was asked."""

from __future__ import annotations

import io
import json
import os
import re
import socket
import tracemalloc
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from memtui.memory.documents import reason_of
from memtui.memory.transcripts.formats import format_of, recognise
from memtui.memory.transcripts.generated import normalise, run_of_key, without_channel, wrap
from memtui.memory.transcripts.memory_calls import CallCollector, is_memory_search, read_answer
from memtui.memory.transcripts.openclaw_files import (
    RULES,
    TranscriptRules,
    file_kind,
    is_listed,
    is_read,
    session_id,
)
from memtui.memory.transcripts.records import ReadState, folder_name, parse_record
from memtui.memory.transcripts.stream import (
    RawLine,
    open_transcript,
    raw_lines,
    text_of,
    unpacked,
    unpacking_excess,
)
from memtui.model import Reason
from memtui.model.conversations import MemoryCall, Recalled, TranscriptKind, Turn, TurnKind
from memtui.text.ecmascript import SPACE
from tests.support.conversations import SECRET, IndexLines
from tests.support.known import cases, load, utf16_length
from tests.support.known import text_of as text_from

KNOWN, RULED = load("transcripts"), load("transcript_rules")


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
            assert reader.state.facts.left_out == answer.get("dropped", {}), profile
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


@pytest.mark.parametrize(("records", "kind"), RULED["recognised"], ids=str)
def test_recognising(records: list[dict[str, Any]], kind: str | None) -> None:
    form = recognise(records)
    assert (form.kind if form else None) == kind


def test_half_a_pair_can_be_encoded() -> None:
    record = parse_record(
        '{"type": "message", "message": {"role": "user", "content": "a\\ud83db"}}'
    )
    assert isinstance(record, dict)
    assert OPENCLAW.turns(record, 1)[0].text == "a\ufffdb"
    assert IndexLines(TranscriptKind.OPENCLAW).add(record, 1)[0] == "User: a\ufffdb"


@pytest.mark.parametrize(("path", "name"), RULED["folders"], ids=str)
def test_folder_names(path: object, name: str) -> None:
    assert folder_name(path) == name


def claude_user(text: str, uuid: str) -> dict[str, Any]:
    content = {"role": "user", "content": text}
    return {"type": "user", "uuid": uuid, "sessionId": "s1", "message": content}


def test_what_is_remembered_of_records_is_small_and_goes_on() -> None:
    reader = IndexLines(TranscriptKind.CLAUDE_CODE)
    records = [claude_user("x", f"{number:036d}") for number in range(1000)]
    assert all(reader.add(one, 1) for one in records)
    assert len(msgspec.json.encode(reader.state)) < 12_000
    again = IndexLines(TranscriptKind.CLAUDE_CODE, state=kept(reader.state))
    assert not any(again.add(one, 1) for one in records)
    assert again.state.facts.left_out == {"duplicate": 1000}


def test_tags_take_time_in_proportion() -> None:
    """A pattern that looks for an end from every beginning would take hours for this."""
    opened = claude_user("<system-reminder>" * 60_000, "u")
    assert len(read(TranscriptKind.CLAUDE_CODE, [opened])[0]) > 1000
    closed = claude_user("<system-reminder></system-reminder>" * 30_000, "u")
    lines, reader = read(TranscriptKind.CLAUDE_CODE, [closed])
    assert (lines, reader.state.facts.left_out) == ([], {"context": 1})


@pytest.mark.parametrize(("source", "run"), RULED["agents"], ids=str)
def test_an_agent_s_agent_talks_with_nobody(source: object, run: str | None) -> None:
    reader = IndexLines(TranscriptKind.CODEX)
    reader.add({"type": "session_meta", "payload": {"id": "s", "source": source}}, 1)
    assert reader.run == run
    again = IndexLines(TranscriptKind.CODEX, state=kept(reader.state))
    block = {"type": "input_text", "text": "hi"}
    said = {"type": "message", "role": "user", "content": [block]}
    assert bool(again.add({"type": "response_item", "payload": said}, 2)) is (run is None)
    assert again.run == run


FIRST, SECOND, THIRD, FOURTH = RULES.values()


LATER = (SECOND, THIRD, FOURTH)


PROFILE_IDS: dict[str, Any] = {"ids": lambda rules: rules.profile}


def message(role: str, content: object, **fields: object) -> dict[str, Any]:
    return {"type": "message", "message": {"role": role, "content": content, **fields}}


def time_of(record: dict[str, Any], message: dict[str, Any]) -> int:
    return OPENCLAW.facts(record | user("hi", **message)).timestamp_ms


def user(content: object, **fields: object) -> dict[str, Any]:
    return message("user", content, **fields)


@pytest.mark.parametrize("case", load("sessions")["text_normalise"], ids=str)
def test_known_folding(case: dict[str, str]) -> None:
    assert normalise(case["input"]) == case["output"]


@pytest.mark.parametrize("case", load("sessions")["wrap_800"], ids=lambda c: c["text_recipe"])
def test_known_wrapping(case: dict[str, Any]) -> None:
    pieces = list(wrap(text_from(case["text_recipe"])))
    assert [utf16_length(piece) for piece in pieces] == case["segment_lengths"]


@pytest.mark.parametrize("case", load("sessions")["timestamps_ms"], ids=str)
def test_known_timestamps(case: dict[str, Any]) -> None:
    assert time_of(case["record"], case["message"]) == case["ms"]


@pytest.mark.parametrize("rules", LATER, **PROFILE_IDS)
def test_known_listing(rules: TranscriptRules) -> None:
    listing = load("sessions")["listing"]
    assert all(is_listed(name, rules) for name in listing["included"])
    assert not any(is_listed(name, rules) for name in listing["excluded"])


UUID = "11111111-1111-4111-8111-111111111111"


@pytest.mark.parametrize(("name", "kind", "session"), RULED["names"], ids=str)
def test_kinds_of_files(name: str, kind: str, session: str | None) -> None:
    assert file_kind(name) == kind
    assert session_id(name) == session
    assert is_listed(name, FOURTH) is is_read(name, FOURTH) is (session is not None)


@pytest.mark.parametrize(("record", "name", "run"), RULED["runs"], ids=str)
def test_whole_runs(record: dict[str, Any], name: str, run: str | None) -> None:
    reader = IndexLines(TranscriptKind.OPENCLAW, name, FOURTH)
    assert reader.add(user("before"), 1)
    assert reader.add(record, 2) == []
    assert reader.run == run
    assert bool(reader.add(user("after"), 3)) is (run is None)
    assert IndexLines(TranscriptKind.OPENCLAW, name, FIRST).add(record, 1) == []


@pytest.mark.parametrize(("key", "run"), RULED["session_keys"], ids=str)
def test_session_keys(key: object, run: str | None) -> None:
    assert run_of_key(key) == run


@pytest.mark.parametrize(("line", "title"), RULED["titles"], ids=str)
def test_a_title_begins_behind_the_name_of_the_channel(line: str, title: str) -> None:
    assert without_channel(line) == title
    assert line[:50] in str(read(TranscriptKind.OPENCLAW, [user(line)])[0]), (
        "the index has it as the agent's program has"
    )


def entry(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "id": "e1", "parentId": None} | fields


def entry_of(name: str) -> dict[str, Any]:
    return message("user", "hi") | {"id": name}


def kept(state: ReadState) -> ReadState:
    """Return the state as it comes back from the index."""
    return msgspec.json.decode(msgspec.json.encode(state), type=ReadState)


@pytest.mark.parametrize(("reset", "cutoff"), RULED["resets"], ids=str)
def test_the_last_reset_says_where_chunks_are_cut(reset: dict[str, Any], cutoff: int) -> None:
    records = [entry_of("a"), entry_of("b"), entry_of("c"), entry("reset", **reset), entry_of("d")]
    kind = TranscriptKind.OPENCLAW
    assert read(kind, records)[1].state.cutoff == cutoff
    assert read(kind, records, profile="openclaw-2026.7")[1].state.cutoff == 0


def test_the_messages_that_a_reset_can_keep_are_known_after_many_others() -> None:
    records = [entry_of(f"m{number}") for number in range(500)]
    records.append(entry("reset", firstKeptEntryId="m495"))
    state = read(TranscriptKind.OPENCLAW, records)[1].state
    assert state.cutoff == 496
    assert len(msgspec.json.encode(state)) < 3000


def test_a_heartbeat_turn_ends_where_it_ends_after_going_on() -> None:
    origin = {"kind": "internal_system", "sourceTool": "heartbeat"}
    reader = IndexLines(TranscriptKind.OPENCLAW)
    reader.add(message("user", "wake", provenance=origin), 1)
    going_on = IndexLines(TranscriptKind.OPENCLAW, state=kept(reader.state))
    assert going_on.add(message("assistant", "I looked"), 2) == []
    assert going_on.state.facts.left_out == {"heartbeat_turn": 2}


def test_more_credentials_are_masked_than_the_release_masks() -> None:
    token = "AKIAABCDEFGHIJKLMNOP"
    record = user("x " * 395 + token)
    assert token in str(read(TranscriptKind.OPENCLAW, [record])[0])
    assert "BCDEFGHIJ" not in "".join(IndexLines(TranscriptKind.OPENCLAW).add(record, 1))


@pytest.mark.parametrize(("value", "milliseconds"), [*cases("reading", "timestamps"), (10**400, 0)])
def test_timestamps(value: object, milliseconds: int) -> None:
    assert time_of({}, {"timestamp": value}) == milliseconds
    assert time_of({"timestamp": value}, {}) == milliseconds
    assert time_of({"timestamp": 9}, {"timestamp": value}) == (milliseconds or 9000)


def test_dates_that_no_javascript_date_can_hold() -> None:
    message = {"timestamp": 8_640_000_000_000_001}
    assert time_of({"timestamp": 5}, message) == 5000


@given(st.text(st.sampled_from("ab  \n\t\u3000\ufeff"), max_size=40))
def test_every_run_of_white_space_is_folded_to_one_space(text: str) -> None:
    assert normalise(text) == " ".join(filter(None, re.split(f"[{SPACE}]+", text)))


def lines_of(data: bytes, **options: int) -> list[RawLine]:
    return list(raw_lines(io.BytesIO(data), **options))


def told(data: bytes, **options: int) -> list[tuple[int, int, int, bytes | None, bool]]:
    return [
        (raw.number, raw.offset, raw.length, raw.data, raw.complete)
        for raw in lines_of(data, **options)
    ]


@pytest.mark.parametrize(("data", "expected"), cases("reading", "lines of five bytes"))
def test_lines_of_at_most_five_bytes(data: str, expected: list[list[Any]]) -> None:
    """Of a byte stands there the character of its number."""
    lines = [
        [*place, line if line is None else line.decode("latin-1"), is_whole]
        for *place, line, is_whole in told(data.encode("latin-1"), limit=5)
    ]
    assert lines == expected


@pytest.mark.parametrize(("data", "text"), cases("reading", "texts of bytes"))
def test_texts(data: str, text: str) -> None:
    assert text_of(lines_of(data.encode("latin-1"))[0]) == text


def test_a_mark_is_taken_off_where_a_file_begins_only() -> None:
    assert [text_of(raw) for raw in lines_of(b"a\n\xef\xbb\xbfb\n")] == ["a", "\ufeffb"]
    assert text_of(RawLine(1, 0, 9, None, True)) == ""


def packed(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


def test_packed_files_are_read_by_what_they_begin_with(tmp_path: Path) -> None:
    text = b"".join(b'{"n": %d}\n' % n for n in range(50_000))
    path = tmp_path / "a.jsonl"
    for data in (text, packed(text), packed(text[:9]) + packed(b"") + packed(text[9:])):
        path.write_bytes(data)
        with open_transcript(path) as stream:
            assert b"".join(raw.data + b"\n" for raw in raw_lines(stream) if raw.data) == text


@pytest.mark.parametrize(
    "broken",
    [
        packed(b"text\n" * 99)[:-3],
        packed(b"text\n" * 99)[:5],
        packed(b"text\n") + b"tail",
        b"\x28\xb5\x2f\xfd" + b"\xff" * 40,
    ],
)
def test_broken_packed_files_are_one_clear_error(tmp_path: Path, broken: bytes) -> None:
    path = tmp_path / "a.zst"
    path.write_bytes(broken)
    with open_transcript(path) as stream, pytest.raises(OSError, match="Zstandard") as caught:
        list(raw_lines(stream))
    assert caught.value.filename == str(path)
    assert "\n" not in str(caught.value)
    assert reason_of(caught.value) is Reason.UNREADABLE
    with pytest.raises(OSError, match="Zstandard"):
        unpacked(broken, name="the database")


def test_what_unpacks_to_much_is_read_or_refused_in_bounded_memory(tmp_path: Path) -> None:
    bomb = b"".join(packed(bytes(1 << 20)) for _ in range(1 << 8))
    assert len(bomb) < 1 << 16
    assert unpacked(bomb, limit=1000) is None
    path = tmp_path / "bomb"
    tracemalloc.start()
    path.write_bytes(bomb[: len(bomb) // 256 * 15])
    with open_transcript(path) as stream:
        first = next(raw_lines(stream, limit=1 << 16))
    path.write_bytes(bomb)
    excess = "unpacks to more than 1,000 times its size"
    with open_transcript(path) as stream, pytest.raises(OSError, match=excess) as caught:
        list(raw_lines(stream, limit=1 << 16))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (first.length, first.data) == (15 << 20, None)
    assert reason_of(caught.value) is Reason.TOO_LARGE
    assert peak < 40 * 2**20
    assert not unpacking_excess(500_000, 500_000_000, 1_000_000)
    assert unpacking_excess(500_000, 500_000_001) == "unpacks to more than 500,000,000 bytes"


def test_only_files_are_opened(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("{}\n")
    (tmp_path / "link").symlink_to("real")
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
    for name, reason in (
        ("link", Reason.SYMLINK),
        ("pipe", Reason.NOT_REGULAR),
        ("socket", Reason.NOT_REGULAR),
        (".", Reason.NOT_REGULAR),
        ("none", Reason.VANISHED),
    ):
        with pytest.raises(OSError, match=re.escape(str(tmp_path / name))) as caught:
            open_transcript(tmp_path / name)
        assert reason_of(caught.value) is reason


CALLS = load("memory_calls")
RESULTS = {"results": [{"path": "MEMORY.md", "startLine": 1, "endLine": 3, "score": 0.5}]}


@pytest.mark.parametrize("tool", CALLS["searches"])
def test_searches_of_a_memory(tool: str) -> None:
    assert is_memory_search(tool, {"query": "x"}) == "x"
    assert is_memory_search(tool, '{"query": "x", "limit": 3}') == "x"


@pytest.mark.parametrize("tool", CALLS["others"])
def test_calls_that_search_no_memory(tool: str) -> None:
    assert is_memory_search(tool, {"query": "x", "text": "y"}) is None


@pytest.mark.parametrize(("arguments", "query"), CALLS["queries"], ids=str)
def test_queries(arguments: dict[str, Any] | str, query: str | None) -> None:
    assert is_memory_search("memory_search", arguments) == query


@pytest.mark.parametrize("case", CALLS["answers"], ids=lambda case: case["text"][:50])
def test_answers(case: dict[str, Any]) -> None:
    rows = case["returned"]
    returned = None if rows is None else tuple(Recalled(*row) for row in rows)
    answer = read_answer(case["text"], is_error=case.get("failed", False))
    assert answer == (returned, case["problem"])


def test_very_deep_json_is_one_problem() -> None:
    problem = "the answer is cut, or no JSON"
    assert read_answer("[" * 100_000, is_error=False) == (None, problem)


def call(line: int, call_id: str = "c1", query: str = "tea", **fields: Any) -> Turn:
    text = json.dumps({"query": query, "maxResults": 6, "corpus": "memory", "more": [1]})
    options: dict[str, Any] = {"tool": "memory_search", "timestamp_ms": 1_767_225_600_000} | fields
    return Turn(line, TurnKind.TOOL_CALL, "assistant", text, len(text), call_id=call_id, **options)


def result(line: int, call_id: str = "c1", value: object = RESULTS, **fields: Any) -> Turn:
    text = value if isinstance(value, str) else json.dumps(value)
    return Turn(line, TurnKind.TOOL_RESULT, "tool", text, len(text), call_id=call_id, **fields)


def collected(*turns: Turn) -> list[MemoryCall]:
    collector = CallCollector("sessions/a.jsonl", TranscriptKind.OPENCLAW)
    for turn in turns:
        collector.add(turn)
    return collector.calls


def paired(*turns: Turn) -> list[tuple[int, str, bool, int]]:
    return [
        (one.line, one.query, one.returned is not None, one.answer_line)
        for one in collected(*turns)
    ]


@pytest.mark.parametrize("case", cases("memory_calls", "pairs"))
def test_pairs(case: dict[str, Any]) -> None:
    turns = []
    for turn in case["turns"]:
        fields = dict(turn)
        text, kind = fields.pop("text"), TurnKind(fields.pop("is"))
        text = text if isinstance(text, str) else json.dumps(text)
        turns.append(Turn(kind=kind, role="", text=text, size=len(text), **fields))
    assert paired(*turns) == [tuple(one) for one in case["calls"]]


def test_the_answer_of_another_tool_with_the_same_id_is_not_taken() -> None:
    asked, other = call(1, "x"), call(3, "x", tool="exec")
    rows = {"results": [{"path": "other.md"}]}
    unanswered = [(1, "tea", False, 2)]
    assert paired(asked, result(2, "x", "text"), other, result(4, "x", rows)) == unanswered
    # A search that was broken off has no answer; the tool says whose answer comes.
    assert paired(asked, other, result(4, "x", rows, tool="exec")) == [(1, "tea", False, 0)]


def test_thousands_of_other_answers_do_not_hide_one() -> None:
    others = [
        turn
        for number in range(9000)
        for turn in (call(1, f"o{number}", tool="Bash"), result(1, f"o{number}", "x" * 10))
    ]
    assert paired(call(1, "mine"), *others, result(2, "mine", RESULTS)) == [(1, "tea", True, 2)]


def test_credentials_are_masked() -> None:
    text = json.dumps({"query": f"my key {SECRET}", "apiKey": "k", "note": SECRET})
    asked = Turn(
        1, TurnKind.TOOL_CALL, "assistant", text, len(text), tool="memory_search", call_id="c"
    )
    (one,) = collected(asked, result(2, "c", {"results": [{"path": "a", "snippet": SECRET}]}))
    assert SECRET[6:-4] not in repr(one)
    assert one.query == "my key sk-pro…b1a0"
    assert one.arguments == {"apiKey": "***", "note": "sk-pro…b1a0"}


def test_values_that_cannot_be_kept_are_left_out() -> None:
    text = '{"query": "tea", "limit": 1E400, "k": 3}'
    asked = Turn(1, TurnKind.TOOL_CALL, "assistant", text, len(text), tool="memory_search")
    assert collected(asked)[0].arguments == {"k": 3}
    for timestamp_ms in (8_640_000_000_000_000, 0):
        assert collected(call(1, timestamp_ms=timestamp_ms))[0].asked is None

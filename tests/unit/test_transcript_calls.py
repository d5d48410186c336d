"""What was asked of the memory: which calls count, and which answer belongs to which."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from memtui.memory.transcripts.memory_calls import CallCollector, is_memory_search, read_answer
from memtui.model.conversations import MemoryCall, Recalled, TranscriptKind, Turn, TurnKind
from tests.support.known import cases, load

SECRET = "ghp_abcdefghijklmnopqrstuvwxyz123456"
RESULTS = {"results": [{"path": "MEMORY.md", "startLine": 1, "endLine": 3, "score": 0.5}]}
KNOWN = load("memory_calls")


@pytest.mark.parametrize("tool", KNOWN["searches"])
def test_searches_of_a_memory(tool: str) -> None:
    assert is_memory_search(tool, {"query": "x"}) == "x"
    assert is_memory_search(tool, '{"query": "x", "limit": 3}') == "x"


@pytest.mark.parametrize("tool", KNOWN["others"])
def test_calls_that_search_no_memory(tool: str) -> None:
    assert is_memory_search(tool, {"query": "x", "text": "y"}) is None


@pytest.mark.parametrize(("arguments", "query"), KNOWN["queries"], ids=str)
def test_queries(arguments: dict[str, Any] | str, query: str | None) -> None:
    assert is_memory_search("memory_search", arguments) == query


@pytest.mark.parametrize("case", KNOWN["answers"], ids=lambda case: case["text"][:50])
def test_answers(case: dict[str, Any]) -> None:
    rows = case["returned"]
    returned = None if rows is None else tuple(Recalled(*row) for row in rows)
    answer = read_answer(case["text"], is_error=case.get("failed", False))
    assert answer == (returned, case["problem"])


def test_very_deep_json_is_one_problem() -> None:
    problem = "the answer is cut, or no JSON"
    assert read_answer("[" * 100_000, is_error=False) == (None, problem)


# --- calls and their answers ------------------------------------------------------------------


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
    return collector.calls()


def paired(*turns: Turn) -> list[tuple[int, str, bool, int]]:
    return [
        (one.line, one.query, one.returned is not None, one.answer_line)
        for one in collected(*turns)
    ]


@pytest.mark.parametrize("case", cases("memory_calls", "pairs"))
def test_pairs(case: dict[str, Any]) -> None:
    turns = []
    for given in case["turns"]:
        fields = dict(given)
        text, kind = fields.pop("text"), TurnKind(fields.pop("is"))
        text = text if isinstance(text, str) else json.dumps(text)
        turns.append(Turn(kind=kind, role="", text=text, size=len(text), **fields))
    assert paired(*turns) == [tuple(one) for one in case["calls"]]


def test_a_call_and_its_answer() -> None:
    (one,) = collected(call(3), result(4))
    assert (one.path, one.line, one.tool, one.query) == (
        "sessions/a.jsonl", 3, "memory_search", "tea",
    )  # fmt: skip
    assert one.asked is not None
    assert one.asked.isoformat() == "2026-01-01T00:00:00+00:00"
    assert one.arguments == {"maxResults": 6, "corpus": "memory"}
    assert one.returned == (Recalled("MEMORY.md", 1, 3, 0.5),)
    assert (one.answer_line, one.problem) == (4, "")


def test_the_answer_of_another_tool_with_the_same_id_is_not_taken() -> None:
    asked, other = call(1, "x"), call(3, "x", tool="exec")
    rows = {"results": [{"path": "other.md"}]}
    unanswered = [(1, "tea", False, 2)]
    assert paired(asked, result(2, "x", "text"), other, result(4, "x", rows)) == unanswered
    # A search that was broken off has no answer; the tool says whose answer comes.
    assert paired(asked, other, result(4, "x", rows, tool="exec")) == [(1, "tea", False, 0)]


def test_what_is_repeated_for_the_screen_may_name_the_tool_otherwise() -> None:
    asked = call(1, tool="memtui__search")
    shown = result(2, tool="mcp__memtui__search", left_out="duplicate")
    assert paired(asked, shown, result(3, value="cut")) == [(1, "tea", True, 2)]
    assert paired(asked, result(2, value="cut"), shown) == [(1, "tea", True, 2)]


def test_very_many_calls_of_one_id_take_time_in_proportion() -> None:
    def seconds(count: int) -> float:
        turns = [
            turn
            for number in range(count)
            for turn in (call(number, query=f"q{number}"), result(number))
        ]
        started = time.process_time()
        assert all(one.answer_line == one.line for one in collected(*turns))
        return time.process_time() - started

    seconds(100)
    assert seconds(8000) < 12 * max(seconds(2000), 0.02)


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
    assert one.query == "my key ghp_ab…3456"
    assert one.arguments == {"apiKey": "***", "note": "ghp_ab…3456"}


def test_values_that_cannot_be_kept_are_left_out() -> None:
    text = '{"query": "tea", "limit": 1E400, "k": 3}'
    asked = Turn(1, TurnKind.TOOL_CALL, "assistant", text, len(text), tool="memory_search")
    assert collected(asked)[0].arguments == {"k": 3}
    for timestamp_ms in (8_640_000_000_000_000, 0):
        assert collected(call(1, timestamp_ms=timestamp_ms))[0].asked is None

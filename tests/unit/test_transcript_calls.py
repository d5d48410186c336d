"""What was asked of the memory: which calls count, and which answer belongs to which."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from memtui.memory.transcripts.memory_calls import CallCollector, is_memory_search, read_answer
from memtui.model.conversations import MemoryCall, Recalled, TranscriptKind, Turn, TurnKind

SECRET = "ghp_abcdefghijklmnopqrstuvwxyz123456"
RESULTS = {"results": [{"path": "MEMORY.md", "startLine": 1, "endLine": 3, "score": 0.5}]}
FOUND = (Recalled("MEMORY.md", 1, 3, 0.5),)


@pytest.mark.parametrize(
    "tool",
    [
        *("memory_search", "search_memory", "memorySearch", "search_memories", "recall"),
        *("conversation_search", "archival_memory_search", "search_notes", "qmd_query"),
        *("mcp__memory__search_nodes", "mcp__openmemory__search_memory", "mcp__mem0__search"),
        *("mcp__basic-memory__search_notes", "mcp__qmd__query", "mcp__qmd__vsearch"),
        *("mcp__qmd__deep_search", "mcp__obsidian__obsidian_simple_search", "mcp__notes__find"),
        *("mcp__memtui__search", "mcp__zep__search_facts", "mcp__letta__retrieve"),
        *("mcp__supermemory__recall", "mcp__knowledge__query", "mcp__my-knowledge-base__search"),
        *("qmd__search", "memory.search", "memory/search", "openmemory__search_memories"),
        *("mcp__plugin_claude-mem_mcp-search__search", "mcp__vault__search"),
        "mcp__plugin_episodic-memory_episodic-memory__search",
        *("searchSupermemory", "mcp__private-journal__search_journal", "memory_recall"),
        *("mcp__apple-notes__search-notes", "mcp__byterover-mcp__byterover-retrieve-knowledge"),
        *("search_knowledge_base", "mcp__hindsight__recall", "hindsight_recall", "honcho_search"),
        *("mcp__memory-service__retrieve_memory", "search_memory_nodes", "mcp__cognee__search"),
    ],
)
def test_searches_of_a_memory(tool: str) -> None:
    assert is_memory_search(tool, {"query": "x"}) == "x"
    assert is_memory_search(tool, '{"query": "x", "limit": 3}') == "x"


@pytest.mark.parametrize(
    "tool",
    [
        *("web_search", "WebSearch", "grep", "Grep", "Glob", "Bash", "ToolSearch", "tool_search"),
        *("memory_get", "memory_store", "memory_write", "recent_chats", "memory", "read_graph"),
        *(
            "mcp__memory__create_entities",
            "mcp__memory__add_observations",
            "mcp__memory__open_nodes",
        ),
        *(
            "mcp__github__search_code",
            "mcp__filesystem__search_files",
            "mcp__slack__search_messages",
        ),
        *("mcp__serena__find_symbol", "mcp__serena__read_memory", "mcp__context7__query-docs"),
        *("mcp__memory__delete_and_find", "mcp__mem0__add_memory", "mcp__memory__search_tools"),
        *("mcp__aws-knowledge__search_documentation", "mcp__gitlab__search_notes", "search"),
        *("mcp__qmd__get", "mcp__qmd__status", "update_memory_search", "codebase_search", "find"),
        *("mcp__memory-profiler__find_leaks", "researcher", "memorial_finder", "", "a" * 500),
        *("save_memory_and_recall", "forget_memory_query", "mcp__jira__search_conversations"),
        *("mcp__fda__search_recall", "product_recall_lookup"),
        *("mcp__release-notes__search", "search_release_notes", "mcp__patch-notes__find"),
        *("slack_conversations_search_messages", "intercom_search_conversations"),
        *("mcp__hashicorp-vault__search", "mcp__vault__search_secrets", "mcp__gdb__search_memory"),
        *("mcp__memory-profiler__query", "mcp__heap__find_memory", "find_memory_leaks"),
        *("mcp__aws-knowledge__search", "mcp__meeting-notes__search"),
    ],
)
def test_calls_that_search_no_memory(tool: str) -> None:
    assert is_memory_search(tool, {"query": "x", "text": "y"}) is None


@pytest.mark.parametrize(
    ("arguments", "query"),
    [
        ({"query": "a"}, "a"),
        ({"q": "a", "text": "b"}, "a"),
        ({"search_query": "a"}, "a"),
        ({"text": "a"}, "a"),
        ({"queries": ["a", "b"]}, "a b"),
        ({"searches": [{"type": "lex", "query": "a"}, {"type": "vec", "query": "b"}]}, "a b"),
        ({"query": ["a"]}, "a"),
        ({"query": " "}, None),
        ({"query": {"and": []}}, None),
        ({"query": 7}, None),
        ({"informationToGet": "a"}, "a"),
        ({"name": "a"}, None),
        ({}, None),
        ("a", None),
        ("[1]", None),
        ('{"query": "cut', None),
    ],
    ids=str,
)
def test_queries(arguments: dict[str, Any] | str, query: str | None) -> None:
    assert is_memory_search("memory_search", arguments) == query


# --- answers ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "returned"),
    [
        (RESULTS, FOUND),
        ({"results": [], "provider": "local", "model": "m"}, ()),
        ([], ()),
        (
            [{"file_path": "a.md", "line": 4, "similarity": 1, "text": "t"}],
            (Recalled("a.md", 4, 4, 1.0, "t"),),
        ),
        ({"matches": [{"file": "a.md#L3-L9"}]}, (Recalled("a.md", 3, 9),)),
        ({"results": [{"path": "a.md", "citation": "a.md#L7"}]}, (Recalled("a.md", 7, 7),)),
        (
            {"results": [{"id": "m1", "memory": "likes tea", "score": 0.2}]},
            (Recalled("m1", 0, 0, 0.2, "likes tea"),),
        ),
        (
            {"memories": [{"content": "x", "metadata": {"path": "b.md"}}]},
            (Recalled("b.md", 0, 0, None, "x"),),
        ),
        ({"result": {"results": RESULTS["results"]}}, FOUND),
        (
            [{"docid": "#ab", "file": "qmd://n/a.md", "snippet": "@@ -5,3 @@\none"}],
            (Recalled("qmd://n/a.md", 5, 7, None, "@@ -5,3 @@\none"),),
        ),
        ({"entities": [{"name": "tea", "entityType": "drink"}]}, (Recalled("tea", 0, 0),)),
        # A server may wrap its results in blocks of text, or in a text.
        ([{"type": "text", "text": json.dumps(RESULTS)}], FOUND),
        ({"content": [{"type": "text", "text": json.dumps(RESULTS)}]}, FOUND),
        ({"result": json.dumps(RESULTS)}, FOUND),
        (
            ["a fact", "another"],
            (Recalled("", 0, 0, None, "a fact"), Recalled("", 0, 0, None, "another")),
        ),
        (
            {"results": [{"path": "a.md", "startLine": 9, "endLine": 3, "score": True}]},
            (Recalled("a.md", 9, 9),),
        ),
        (
            {"results": [{"path": f"x/{SECRET}", "snippet": f"it is {SECRET}"}]},
            (Recalled("x/ghp_ab…3456", 0, 0, None, "it is ghp_ab…3456"),),
        ),
    ],
    ids=lambda value: str(value)[:60],
)
def test_results_in_known_shapes(value: object, returned: tuple[Recalled, ...]) -> None:
    assert read_answer(json.dumps(value), is_error=False) == (returned, "")


def test_results_one_behind_the_other() -> None:
    text = '{"path": "a.md", "text": "x"}\n{"path": "b.md", "text": "y"}\n'
    expected = (Recalled("a.md", 0, 0, None, "x"), Recalled("b.md", 0, 0, None, "y"))
    assert read_answer(text, is_error=False) == (expected, "")
    assert read_answer(text[:-9], is_error=False) == (None, "the answer is cut, or no JSON")


def test_blocks_of_words_are_no_results() -> None:
    text = json.dumps([{"type": "text", "text": "Found 2 notes: a, b"}])
    assert read_answer(text, is_error=False) == (None, "the answer is text")


def test_no_results_in_words() -> None:
    for text in ("No results found.", "no matching memories found for 'x'", "0 results"):
        assert read_answer(text, is_error=False) == ((), "")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Found 2 notes: a, b", "the answer is text"),
        (
            "No, results are not what I want to talk of; see below:" + "x" * 300,
            "the answer is text",
        ),
        ("", "the answer was taken out of the transcript"),
        ("[Old tool result content cleared]", "the answer was taken out of the transcript"),
        ("<persisted-output>\nOutput too large", "the answer is in a file beside the transcript"),
        ('{"results": [{"pa', "the answer is cut, or no JSON"),
        ('{"status": "ok"}', "the answer holds no list of results"),
        ('{"results": [7]}', "the results are of an unknown shape"),
        ('{"results": [], "error": "quota\\nexceeded"}', "the tool failed: quota exceeded"),
        ("[" * 100_000, "the answer is cut, or no JSON"),
        ('{"results": [], "disabled": true, "warning": "off"}', "the tool failed: off"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_answers_that_cannot_be_read(text: str, problem: str) -> None:
    assert read_answer(text, is_error=False) == (None, problem)


def test_failures() -> None:
    assert read_answer(f"no\nkey {SECRET}", is_error=True) == (
        None,
        "the tool failed: no key ghp_ab…3456",
    )
    assert read_answer("", is_error=True) == (None, "the tool failed")


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


def told(*turns: Turn) -> list[tuple[int, str, bool, int]]:
    return [
        (one.line, one.query, one.returned is not None, one.answer_line)
        for one in collected(*turns)
    ]


def test_a_call_and_its_answer() -> None:
    (found,) = collected(call(3), result(4))
    assert found.asked is not None
    assert (found.path, found.line, found.tool, found.query, found.problem) == (
        *("sessions/a.jsonl", 3),
        *("memory_search", "tea", ""),
    )
    assert found.asked.isoformat() == "2026-01-01T00:00:00+00:00"
    assert found.arguments == {"maxResults": 6, "corpus": "memory"}
    assert (found.returned, found.answer_line) == (FOUND, 4)


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        ([call(1)], [(1, "tea", False, 0)]),
        (
            [call(1, "a"), call(2, "b", "sea"), result(3, "b"), result(4, "a")],
            [(1, "tea", True, 4), (2, "sea", True, 3)],
        ),
        ([result(1), call(2)], [(2, "tea", True, 1)]),
        ([call(1), result(2), result(3)], [(1, "tea", True, 2)]),
        ([call(1), result(2, value="text"), result(3)], [(1, "tea", True, 3)]),
        ([call(1), result(2, "other")], [(1, "tea", False, 0)]),
        ([call(1), call(2), result(3), result(4)], [(1, "tea", True, 3)]),
        (
            [call(1), result(2), call(3, query="sea"), result(4)],
            [(1, "tea", True, 2), (3, "sea", True, 4)],
        ),
        (
            [call(1), result(2), call(3, timestamp_ms=5), result(4)],
            [(1, "tea", True, 2), (3, "tea", True, 4)],
        ),
        (
            [call(1, ""), call(2, "", "sea"), result(3, ""), result(4, "")],
            [(1, "tea", True, 3), (2, "sea", True, 4)],
        ),
        (
            [call(1), call(2, timestamp_ms=9, left_out="duplicate"), result(3)],
            [(1, "tea", True, 3)],
        ),
        ([call(1, left_out="duplicate"), result(2)], [(1, "tea", True, 2)]),
        ([call(1, tool="Grep"), result(2), call(3, "c2")], [(3, "tea", False, 0)]),
        (
            [call(1, "x", tool="Grep"), result(2, "x"), call(3, "x"), result(4, "x")],
            [(3, "tea", True, 4)],
        ),
        ([result(1, ""), call(2, "")], [(2, "tea", False, 0)]),
    ],
    ids=[
        *("no answer", "crossed", "answer first", "answer twice", "text then JSON", "other id"),
        *("copied", "id used again", "asked again", "no ids", "told again", "told only so"),
        *("another tool", "id of another tool", "no id to hold by"),
    ],
)
def test_pairs(turns: list[Turn], expected: list[tuple[int, str, bool, int]]) -> None:
    assert told(*turns) == expected


def test_the_answer_of_another_tool_with_the_same_id_is_not_taken() -> None:
    asked, other = call(1, "x"), call(3, "x", tool="exec")
    rows = {"results": [{"path": "other.md"}]}
    assert told(asked, result(2, "x", "text"), other, result(4, "x", rows)) == [
        (1, "tea", False, 2)
    ]
    # A search that was broken off has no answer; the tool says whose answer comes.
    assert told(asked, other, result(4, "x", rows, tool="exec")) == [(1, "tea", False, 0)]


def test_what_is_told_for_the_screen_may_name_the_tool_otherwise() -> None:
    asked = call(1, tool="memtui__search")
    shown = result(2, tool="mcp__memtui__search", left_out="duplicate")
    assert told(asked, shown, result(3, value="cut")) == [(1, "tea", True, 2)]
    assert told(asked, result(2, value="cut"), shown) == [(1, "tea", True, 2)]


def test_very_many_calls_of_one_id_take_time_in_proportion() -> None:
    def seconds(count: int) -> float:
        turns = [
            turn
            for number in range(count)
            for turn in (call(number, query=f"q{number}"), result(number))
        ]
        started = time.process_time()
        found = collected(*turns)
        assert all(one.answer_line == one.line for one in found)
        return time.process_time() - started

    seconds(100)
    assert seconds(8000) < 12 * max(seconds(2000), 0.02)


def test_thousands_of_other_answers_are_not_held() -> None:
    others = [
        turn
        for number in range(9000)
        for turn in (call(1, f"o{number}", tool="Bash"), result(1, f"o{number}", "x" * 10))
    ]
    collector = CallCollector("p", TranscriptKind.CODEX)
    for turn in (call(1, "mine"), *others, result(2, "mine")):
        collector.add(turn)
    assert [one.answer_line for one in collector.calls()] == [2]
    assert len(collector._early) == 0
    assert len(collector._others) <= 4096


def test_credentials_are_masked() -> None:
    text = json.dumps({"query": f"my key {SECRET}", "apiKey": "k", "note": SECRET})
    asked = Turn(
        1, TurnKind.TOOL_CALL, "assistant", text, len(text), tool="memory_search", call_id="c"
    )
    (found,) = collected(asked, result(2, "c", {"results": [{"path": "a", "snippet": SECRET}]}))
    assert SECRET[6:-4] not in repr(found)
    assert found.query == "my key ghp_ab…3456"
    assert found.arguments == {"apiKey": "***", "note": "ghp_ab…3456"}


def test_numbers_beyond_what_json_can_say_are_left_out() -> None:
    text = '{"query": "tea", "limit": 1E400, "k": 3}'
    asked = Turn(1, TurnKind.TOOL_CALL, "assistant", text, len(text), tool="memory_search")
    assert collected(asked)[0].arguments == {"k": 3}


def test_times_beyond_the_calendar_are_unknown() -> None:
    assert collected(call(1, timestamp_ms=8_640_000_000_000_000))[0].asked is None
    assert collected(call(1, timestamp_ms=0))[0].asked is None

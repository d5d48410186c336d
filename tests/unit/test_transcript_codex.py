"""Codex CLI's records of several years: what is said, what is left out, what tools do."""

from __future__ import annotations

import json
from typing import Any

import pytest

from memtui.memory.transcripts.formats import format_of, line_reader
from memtui.memory.transcripts.generated import Run
from memtui.memory.transcripts.openclaw_files import RULES
from memtui.model.conversations import TranscriptKind, Turn, TurnKind

FORM = format_of(TranscriptKind.CODEX)


def item(kind: str, wrapper: str = "response_item", **fields: Any) -> dict[str, Any]:
    stamp = "2026-01-01T00:00:00.000Z"
    return {"timestamp": stamp, "type": wrapper, "payload": {"type": kind} | fields}


def message(role: str, *texts: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return item("message", role=role, content=[{"type": kind, "text": text} for text in texts])


def turn(one: dict[str, Any]) -> Turn:
    (found,) = FORM.turns(one, 3)
    return found


def lines(*records: dict[str, Any]) -> tuple[list[str], dict[str, int]]:
    reader = line_reader(FORM, "rollout-a.jsonl", RULES["openclaw-2026.9"])
    made = [line.text for number, one in enumerate(records, 1) for line in reader.add(one, number)]
    return made, dict(reader.dropped)


@pytest.mark.parametrize(
    ("one", "text"),
    [
        (message("user", "hello\n there"), "User: hello there"),
        (message("assistant", "a", "b"), "Assistant: a b"),
        (message("user", "what is <environment_context>?"), "User: what is <environment_context>?"),
        (
            message(
                "user",
                "# Context from my IDE setup:\n\n## Open tabs:\n- a.py\n\n## My request for Codex:\nfix it\n",
            ),
            "User: fix it",
        ),
        (message("user", "# Context from my IDE setup: explain")["payload"], ""),
        (message("user", "old")["payload"], "User: old"),
    ],
    ids=lambda value: str(value)[-50:],
)
def test_what_is_said(one: dict[str, Any], text: str) -> None:
    assert lines(one)[0] == ([text] if text else [])


@pytest.mark.parametrize(
    ("start", "why"),
    [
        ("<environment_context>\n  <cwd>/w</cwd>", "context"),
        ("<user_instructions>\nbe good", "instructions"),
        ("# AGENTS.md instructions for /w\n\n<INSTRUCTIONS>", "instructions"),
        ("<turn_aborted>\nstopped", "interrupted"),
        ("<user_shell_command>\nls", "command"),
        ("<subagent_notification>\n{}", "notification"),
        ("  \n", "no_text"),
    ],
)
def test_what_the_program_says(start: str, why: str) -> None:
    assert lines(message("user", start)) == ([], {why: 1})
    assert turn(message("user", start)).left_out == ("" if why == "no_text" else why)
    assert lines(message("assistant", start)) == (
        ([], {why: 1}) if why == "no_text" else ([f"Assistant: {' '.join(start.split())}"], {})
    )


def test_developers_and_systems_say_nothing() -> None:
    for role in ("developer", "system", ""):
        found = turn(message(role, "rules"))
        assert (found.role, found.left_out) == ("system", "instructions")
        assert lines(message(role, "rules")) == ([], {})


def test_events_tell_again_what_items_told() -> None:
    events = [
        item("user_message", "event_msg", message="hello"),
        item("agent_message", "event_msg", message="hi"),
        item("agent_reasoning", "event_msg", text="hm"),
        item("token_count", "event_msg", info={}),
    ]
    assert [(turn(one).kind, turn(one).text, turn(one).left_out) for one in events] == [
        (TurnKind.OTHER, "user_message: hello", "duplicate"),
        (TurnKind.OTHER, "agent_message: hi", "duplicate"),
        (TurnKind.OTHER, "agent_reasoning: hm", "duplicate"),
        (TurnKind.OTHER, "token_count", ""),
    ]
    assert lines(message("user", "hello"), *events) == (["User: hello"], {})


def test_calls() -> None:
    args = json.dumps({"cmd": "ls", "api_key": "k"})
    calls = [
        (item("function_call", name="shell", arguments=args, call_id="c"), "shell", args),
        (
            item(
                "function_call", name="search", namespace="mcp__mem0", arguments="{}", call_id="c"
            ),
            *("mcp__mem0__search", "{}"),
        ),
        (
            item(
                "function_call",
                name="mcp__mem0__search",
                namespace="mcp__mem0__",
                arguments="",
                call_id="c",
            ),
            *("mcp__mem0__search", ""),
        ),
        (
            item("custom_tool_call", name="apply_patch", input="*** Begin", call_id="c"),
            "apply_patch",
            "*** Begin",
        ),
        (
            item("local_shell_call", call_id="c", action={"command": ["ls"]}),
            "local_shell",
            '{"command": ["ls"]}',
        ),
        (item("web_search_call", id="c", action={"query": "x"}), "web_search", '{"query": "x"}'),
    ]
    for one, tool, text in calls:
        found = turn(one)
        assert (found.kind, found.tool, found.text, found.call_id) == (
            *(TurnKind.TOOL_CALL, tool),
            *(text, "c"),
        )
        assert turn(one["payload"]) == Turn(
            *(3, found.kind, "assistant", text, len(text), 0, tool, "c")
        )


@pytest.mark.parametrize(
    ("output", "text", "failed"),
    [
        ("plain", "plain", False),
        ('{"output": "out", "metadata": {"exit_code": 1}}', "out", True),
        ('{"output": "out", "metadata": {"exit_code": 0}}', "out", False),
        ("Wall time: 0.1250 seconds\nOutput:\n[1]", "[1]", False),
        (
            'Wall time: 0.1250 seconds\nOutput:\n[{"type": "text", "text": "{}"}]',
            *("{}", False),
        ),
        (
            [
                {"type": "input_text", "text": "Wall time: 2.0000 seconds\nOutput:"},
                {"type": "input_text", "text": '{"results": []}'},
            ],
            *('{"results": []}', False),
        ),
        ({"content": "no", "success": False}, "no", True),
        ([{"type": "input_text", "text": "a"}, {"type": "input_image"}], "a", False),
        ('[{"type": "text", "text": "found"}]', "found", False),
        ('{"results": []}', '{"results": []}', False),
        (None, "", False),
    ],
)
def test_answers(output: object, text: str, failed: bool) -> None:
    for kind in ("function_call_output", "custom_tool_call_output"):
        found = turn(item(kind, call_id="c", output=output))
        assert (found.kind, found.text, found.is_error, found.call_id) == (
            *(TurnKind.TOOL_RESULT, text),
            *(failed, "c"),
        )


def test_calls_of_servers_are_told_for_the_screen_too() -> None:
    invocation = {"server": "mem", "tool": "search", "arguments": {"query": "x"}}
    answer = {"Ok": {"content": [{"type": "text", "text": "found"}], "isError": False}}
    event = item(
        "mcp_tool_call_end", "event_msg", call_id="c", invocation=invocation, result=answer
    )
    call, result = FORM.turns(event, 3)
    assert (call.kind, call.tool, call.text) == (
        *(TurnKind.TOOL_CALL, "mcp__mem__search"),
        '{"query": "x"}',
    )
    assert (result.kind, result.text, result.is_error) == (TurnKind.TOOL_RESULT, "found", False)
    assert {call.left_out, result.left_out} == {"duplicate"}
    event["payload"]["result"] = {"Err": "refused"}
    assert (FORM.turns(event, 3)[1].text, FORM.turns(event, 3)[1].is_error) == ("refused", True)


def test_other_records() -> None:
    reasoning = item("reasoning", summary=[{"type": "summary_text", "text": "a"}], content=None)
    assert (turn(reasoning).kind, turn(reasoning).text) == (TurnKind.THINKING, "a")
    compacted = {"timestamp": "x", "type": "compacted", "payload": {"message": "so far"}}
    assert (turn(compacted).kind, turn(compacted).text) == (TurnKind.COMPACTION, "so far")
    assert turn(item("compaction", encrypted_content="x")).kind is TurnKind.COMPACTION
    for one in (
        item("ghost_snapshot"),
        item("", "turn_context", model="m"),
        {"record_type": "state"},
    ):
        assert turn(one).kind is TurnKind.OTHER


def test_records_of_a_later_release_are_not_said() -> None:
    later = item("message", "between_agents", role="user", content="not a person")
    assert FORM.recognises(later)
    assert (turn(later).kind, turn(later).text) == (TurnKind.OTHER, "between_agents")
    assert lines(later) == ([], {})


def test_facts() -> None:
    meta = item("", "session_meta", id="s1", cwd="/home/me/tidepool")
    assert (FORM.facts(meta).session, FORM.facts(meta).agent) == ("s1", "tidepool")
    assert FORM.facts(meta).timestamp_ms == 1_767_225_600_000
    assert FORM.facts(item("", "turn_context", model="m", cwd="C:\\w\\sea")).model == "m"
    bare = {"id": "s2", "timestamp": "2026-01-01T00:00:00Z", "instructions": None}
    assert FORM.facts(bare).session == "s2"
    assert FORM.facts(item("function_call", id="fc_1", model="x")).session == ""


@pytest.mark.parametrize(
    ("source", "run"),
    [
        ("cli", None),
        ({"subagent": "review"}, Run.SUBAGENT),
        ({"subagent": {"thread_spawn": {}}}, Run.SUBAGENT),
        ("subagent_review", Run.SUBAGENT),
        (None, None),
    ],
)
def test_an_agent_s_agent_talks_with_nobody(source: object, run: Run | None) -> None:
    reader = line_reader(FORM, "rollout-a.jsonl", RULES["openclaw-2026.9"])
    reader.add(item("", "session_meta", id="s", source=source), 1)
    assert reader.run is run
    again = line_reader(FORM, "a", RULES["openclaw-2026.9"], json.loads(json.dumps(reader.state())))
    found = again.add(message("user", "hi"), 2)
    assert bool(found) is (run is None)
    assert again.run is run

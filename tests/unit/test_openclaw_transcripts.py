"""OpenClaw's sessions as each release indexes them: known answers, and every rule by itself."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memtui.memory.transcripts.formats import format_of
from memtui.memory.transcripts.generated import (
    Dropped,
    Run,
    is_cron_run,
    is_dreaming,
    normalise,
    without_channel,
    wrap,
)
from memtui.memory.transcripts.openclaw_files import (
    RULES,
    TranscriptRules,
    file_kind,
    is_listed,
    is_read,
    session_id,
)
from memtui.model.conversations import TranscriptKind
from memtui.text.ecmascript import SPACE
from tests.support.conversations import IndexLines
from tests.support.known import cases, load, text_of, utf16_length

RULED = load("transcript_rules")
OPENCLAW = format_of(TranscriptKind.OPENCLAW)
FIRST, SECOND, THIRD, FOURTH = RULES.values()
LATER = (SECOND, THIRD, FOURTH)
SINCE = {None: LATER, "2026.5+": (THIRD, FOURTH), "2026.6+": (THIRD, FOURTH)}
PROFILE_IDS: dict[str, Any] = {"ids": lambda rules: rules.profile}


def message(role: str, content: object, **fields: object) -> dict[str, Any]:
    return {"type": "message", "message": {"role": role, "content": content, **fields}}


def user(content: object, **fields: object) -> dict[str, Any]:
    return message("user", content, **fields)


def assistant(content: object, **fields: object) -> dict[str, Any]:
    return message("assistant", content, **fields)


def read(
    records: Iterable[dict[str, Any]], rules: TranscriptRules = FOURTH, name: str = "s.jsonl"
) -> tuple[list[tuple[int, str]], IndexLines]:
    """Read records as their file would be; what came before a whole run is void."""
    reader = IndexLines(KIND, name, replace(rules, masks_more=False))
    lines = [
        (number, line)
        for number, record in enumerate(records, 1)
        for line in reader.add(record, number)
    ]
    return ([] if reader.run else lines), reader


def texts(records: Iterable[dict[str, Any]], rules: TranscriptRules = FOURTH) -> list[str]:
    return [line for _, line in read(records, rules)[0]]


def time_of(record: dict[str, Any], message: dict[str, Any]) -> int:
    """Return the time of a message."""
    return OPENCLAW.facts(record | user("hi", **message)).timestamp_ms


# --- known answers ----------------------------------------------------------------------------


@pytest.mark.parametrize("case", cases("sessions", "entry_cases"))
def test_known_entries(case: dict[str, Any]) -> None:
    for rules in SINCE[case.get("since")]:
        lines, reader = read(case["records"], rules, case.get("file", "s.jsonl"))
        assert "\n".join(line for _, line in lines) == case["content"]
        assert [number for number, _ in lines] == case["lineMap"]
        if case.get("generatedByCronRun") and rules.reads_archives:
            assert reader.run is Run.CRON


@pytest.mark.parametrize("case", cases("sessions", "entry_cases"))
def test_archives_have_no_text_before_2026_5(case: dict[str, Any]) -> None:
    if case.get("since") == "2026.5+":
        assert is_listed(case["file"], SECOND)
        assert read(case["records"], SECOND, case["file"])[0] == []


@pytest.mark.parametrize("case", load("sessions")["text_normalise"], ids=str)
def test_known_folding(case: dict[str, str]) -> None:
    assert normalise(case["input"]) == case["output"]


@pytest.mark.parametrize("case", load("sessions")["wrap_800"], ids=lambda c: c["text_recipe"])
def test_known_wrapping(case: dict[str, Any]) -> None:
    pieces = list(wrap(text_of(case["text_recipe"])))
    assert [utf16_length(piece) for piece in pieces] == case["segment_lengths"]


@pytest.mark.parametrize("case", load("sessions")["timestamps_ms"], ids=str)
def test_known_timestamps(case: dict[str, Any]) -> None:
    assert time_of(case["record"], case["message"]) == case["ms"]


@pytest.mark.parametrize("rules", LATER, **PROFILE_IDS)
def test_known_listing(rules: TranscriptRules) -> None:
    listing = load("sessions")["listing"]
    assert all(is_listed(name, rules) for name in listing["included"])
    assert not any(is_listed(name, rules) for name in listing["excluded"])


# --- names ------------------------------------------------------------------------------------

KIND = TranscriptKind.OPENCLAW
UUID = "11111111-1111-4111-8111-111111111111"


@pytest.mark.parametrize(("name", "kind", "session"), RULED["names"], ids=str)
def test_kinds_of_files(name: str, kind: str, session: str | None) -> None:
    assert file_kind(name) == kind
    assert session_id(name) == session
    assert is_listed(name, FOURTH) is is_read(name, FOURTH) is (session is not None)


def test_2026_2_takes_every_jsonl_and_nothing_else() -> None:
    listing = load("sessions")["listing"]
    names = [*listing["included"], *listing["excluded"]]
    checkpoint = f"active.checkpoint.{UUID}.jsonl"
    assert [name for name in names if is_listed(name, FIRST)] == ["active.jsonl", checkpoint]


@pytest.mark.parametrize(("record", "name", "run"), RULED["runs"], ids=str)
def test_whole_runs(record: dict[str, Any], name: str, run: str | None) -> None:
    reader = IndexLines(KIND, name, FOURTH)
    assert reader.add(user("before"), 1)
    assert reader.add(record, 2) == []
    assert reader.run == run
    assert bool(reader.add(user("after"), 3)) is (run is None)
    assert IndexLines(KIND, name, FIRST).add(record, 1) == []


def test_the_registry_can_say_that_a_session_is_a_run() -> None:
    reader = IndexLines(KIND, state={"reader": {"run": "cron"}})
    assert reader.add(user("hi"), 1) == []
    assert reader.made.dropped == {Dropped.GENERATED_RUN: 1}


@pytest.mark.parametrize(("key", "cron", "dreaming"), RULED["session_keys"], ids=str)
def test_session_keys(key: object, cron: bool, dreaming: bool) -> None:
    assert is_cron_run(key) is cron
    assert is_dreaming(key) is dreaming


@pytest.mark.parametrize(("line", "title"), RULED["titles"], ids=str)
def test_a_title_begins_behind_the_name_of_the_channel(line: str, title: str) -> None:
    assert without_channel(line) == title
    assert line[:50] in texts([user(line)])[0], "the index has it as the agent's program has"


def entry(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "id": "e1", "parentId": None} | fields


# --- the reset that cuts ----------------------------------------------------------------------


def said(name: str, text: str = "hi") -> dict[str, Any]:
    return message("user", text) | {"id": name}


def resumed(
    records: Iterable[dict[str, Any]],
    state: dict[str, Any] | None = None,
    rules: TranscriptRules = FOURTH,
) -> tuple[IndexLines, list[bool]]:
    """Read on from a state; whether a chunk is cut before each record."""
    reader = IndexLines(KIND, "a.jsonl", rules, state)
    cuts = [
        bool(reader.add(record, number)) and reader.made.cuts_before(number)
        for number, record in enumerate(records, 1)
    ]
    return reader, cuts


@pytest.mark.parametrize(("reset", "cutoff"), RULED["resets"], ids=str)
def test_the_last_reset_says_where_chunks_are_cut(reset: dict[str, Any], cutoff: int) -> None:
    records = [said("a"), said("b"), said("c"), entry("reset", **reset), said("d")]
    reader, cuts = resumed(records)
    assert reader.made.cutoff == cutoff
    assert not any(cuts)
    again, cuts = resumed(records, {"lines": {"cutoff": cutoff}})
    assert again.made.cutoff == cutoff
    assert cuts == [number == (5 if cutoff == 4 else cutoff) for number in range(1, 6)]
    assert resumed(records, rules=THIRD)[0].made.cutoff == 0


def test_a_later_reset_moves_the_cut() -> None:
    first = [said("a"), entry("reset", reason="new"), said("b")]
    reader, _ = resumed(first, {"lines": {"cutoff": 2}})
    going_on, _ = resumed([], reader.state())
    assert going_on.made.cutoff == 2
    going_on.add(said("c"), 4)
    assert not going_on.made.cuts_before(4)
    going_on.add(entry("reset", firstKeptEntryId="c"), 5)
    assert going_on.made.cutoff == 4


def test_the_messages_that_a_reset_can_keep_are_known_after_many_others() -> None:
    records = [said(f"m{number}") for number in range(500)]
    reader, _ = resumed([*records, entry("reset", firstKeptEntryId="m495")])
    assert reader.made.cutoff == 496
    assert len(json.dumps(reader.state())) < 3000


def test_a_heartbeat_turn_ends_where_it_ends_after_going_on() -> None:
    wake = message(
        "user", "wake", provenance={"kind": "internal_system", "sourceTool": "heartbeat"}
    )
    reader, _ = resumed([wake])
    going_on, _ = resumed([assistant("I looked")], reader.state())
    assert going_on.made.messages == 0
    assert going_on.made.dropped == {"heartbeat_turn": 2}


def test_a_run_is_void_after_going_on() -> None:
    reader, _ = resumed([said("a"), {"runId": "dreaming-narrative-1"}])
    going_on, _ = resumed([said("b")], reader.state())
    assert going_on.run is reader.run is Run.DREAMING
    assert going_on.made.dropped == {"generated_run": 1}


# --- lines ------------------------------------------------------------------------------------


def test_more_credentials_are_masked_than_the_release_masks() -> None:
    token = "AKIAABCDEFGHIJKLMNOP"
    record = user("x " * 395 + token)
    assert token in "".join(texts([record]))
    assert "BCDEFGHIJ" not in "".join(IndexLines(KIND).add(record, 1))


@pytest.mark.parametrize(
    ("value", "milliseconds"),
    [
        ("2026-02-10T00:00:00.123Z", 1_770_681_600_123),
        ("2026-02-10T01:00:00+01:00", 1_770_681_600_000),
        ("2026-02-10", 1_770_681_600_000),
        ("1960-01-01", 0),
        ("9999-99-99", 0),
        (1.5, 1500),
        (True, 0),
        (10**400, 0),
        (float("inf"), 0),
        (float("nan"), 0),
        (None, 0),
        ([], 0),
    ],
    ids=str,
)
def test_timestamps(value: object, milliseconds: int) -> None:
    assert time_of({}, {"timestamp": value}) == milliseconds
    assert time_of({"timestamp": value}, {}) == milliseconds
    assert time_of({"timestamp": 9}, {"timestamp": value}) == (milliseconds or 9000)


def test_dates_that_no_javascript_date_can_hold() -> None:
    message = {"timestamp": 8_640_000_000_000_001}
    assert time_of({"timestamp": 5}, message) == 5000


def literal_wrap(text: str, units: int) -> list[str]:
    """The rule word for word, on UTF-16 units."""
    data = text.strip().encode("utf-16-le")
    held = [data[at : at + 2] for at in range(0, len(data), 2)]
    space = " ".encode("utf-16-le")
    found, at = [], 0
    while at < len(held):
        if len(held) - at <= units:
            found.append(held[at:])
            break
        cut = at + units
        for index in range(at + units, at, -1):
            if held[index] == space:
                cut = index
                break
        if held[cut - 1][1] in range(0xD8, 0xDC) and held[cut][1] in range(0xDC, 0xE0):
            cut -= 1
        found.append(held[at:cut])
        at = cut
        while at < len(held) and held[at] == space:
            at += 1
    pieces = [b"".join(piece).decode("utf-16-le").strip() for piece in found]
    return [piece for piece in pieces if piece]


@given(st.text(st.sampled_from("ab 😀é")), st.integers(2, 9))
def test_wrapping_agrees_with_the_rule_word_for_word(text: str, units: int) -> None:
    assert list(wrap(text, units)) == literal_wrap(text, units)


@given(st.text(st.sampled_from("ab  \n\t\u3000\ufeff"), max_size=40))
def test_every_run_of_white_space_is_folded_to_one_space(text: str) -> None:
    assert normalise(text) == " ".join(filter(None, re.split(f"[{SPACE}]+", text)))

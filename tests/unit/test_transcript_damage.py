"""Planted transcripts of every program with every damage: known lines, counts, calls, secrets."""

from __future__ import annotations

import dataclasses
import io
import json
from collections import Counter
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memtui.index.transcripts.reading import Cutting, TranscriptReading
from memtui.memory.transcripts.formats import format_of, line_reader, recognise
from memtui.memory.transcripts.memory_calls import CallCollector
from memtui.memory.transcripts.openclaw_files import RULES
from memtui.memory.transcripts.records import LineReader, TranscriptLine, parse_record
from memtui.memory.transcripts.stream import RawLine, raw_lines, text_of
from memtui.model.conversations import MemoryCall, TranscriptKind, Turn, TurnKind
from tests.support.transcript_corpus import LIMIT, Damage, Planted, plant

RULES_2026_9 = RULES["openclaw-2026.9"]
DAMAGES = [(), *((one,) for one in Damage), tuple(Damage)]


def raws(planted: Planted) -> Iterator[RawLine]:
    return raw_lines(io.BytesIO(planted.data), limit=LIMIT)


def records(planted: Planted) -> Iterator[tuple[int, dict[str, object]]]:
    for raw in raws(planted):
        try:
            record = parse_record(text_of(raw))
        except ValueError:
            continue
        if isinstance(record, dict):
            yield raw.number, record


def turns_of(planted: Planted) -> list[Turn]:
    form = format_of(planted.kind)
    return [turn for number, record in records(planted) for turn in form.turns(record, number)]


def calls_of(planted: Planted) -> list[MemoryCall]:
    collector = CallCollector("sessions/a.jsonl", planted.kind)
    for turn in turns_of(planted):
        collector.add(turn)
    return collector.calls()


def read(
    planted: Planted,
    numbered: Iterable[tuple[int, dict[str, object]]],
    state: dict[str, object] | None = None,
) -> tuple[list[TranscriptLine], LineReader]:
    reader = line_reader(format_of(planted.kind), planted.name, RULES_2026_9, state)
    return [line for number, record in numbered for line in reader.add(record, number)], reader


@pytest.fixture(scope="module", params=list(TranscriptKind), ids=str)
def kind(request: pytest.FixtureRequest) -> TranscriptKind:
    assert isinstance(request.param, TranscriptKind)
    return request.param


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda d: "+".join(d)[:40] or "whole")
def test_planted_transcripts(kind: TranscriptKind, damage: tuple[Damage, ...]) -> None:
    planted = plant(kind, 7, turns=28, damage=damage)
    lines, reader = read(planted, records(planted))
    assert [(line.line, line.text, line.timestamp_ms) for line in lines] == planted.lines
    assert reader.run is None
    assert reader.messages == planted.messages
    assert +reader.dropped == planted.dropped
    reading = TranscriptReading(format_of(kind), planted.name, RULES_2026_9, Cutting(400, 80, None))
    for raw in raws(planted):
        reading.add(raw)
    facts = reading.facts("")
    assert (facts.malformed, facts.messages) == (
        planted.malformed + planted.too_long,
        planted.messages,
    )
    assert sum(raw.data is None for raw in raws(planted)) == planted.too_long
    found = recognise([record for _, record in records(planted)])
    assert found is format_of(kind)


@pytest.mark.parametrize("damage", [(), tuple(Damage)], ids=["whole", "damaged"])
def test_planted_calls_are_found_and_none_is_invented(
    kind: TranscriptKind, damage: tuple[Damage, ...]
) -> None:
    planted = plant(kind, 11, turns=40, damage=damage)
    found = [
        (
            call.line,
            call.tool,
            call.query,
            None if call.returned is None else tuple(one.path for one in call.returned),
            call.answer_line,
        )
        for call in calls_of(planted)
    ]
    assert found == [
        (call.line, call.tool, call.query, call.paths, call.answer_line) for call in planted.calls
    ]
    for call in calls_of(planted):
        assert (call.returned is None) == bool(call.problem)
        assert call.arguments == {"maxResults": 6}
        assert call.asked is not None


def test_planted_secrets_reach_nothing(kind: TranscriptKind) -> None:
    planted = plant(kind, 3, turns=40, damage=tuple(Damage))
    assert len(planted.secrets) > 12
    shown = [line.text for line in read(planted, records(planted))[0]]
    shown += [json.dumps(dataclasses.asdict(call), default=str) for call in calls_of(planted)]
    whole = "\n".join(shown)
    for secret in planted.secrets:
        assert secret.encode() in planted.data
        assert secret not in whole
        assert secret[4:-4] not in whole


def test_planted_kinds_of_turns(kind: TranscriptKind) -> None:
    planted = plant(kind, 5, turns=40)
    counts = Counter(turn.kind for turn in turns_of(planted))
    assert counts[TurnKind.TOOL_CALL] == counts[TurnKind.TOOL_RESULT] + sum(
        not call.answer_line for call in planted.calls
    )
    for wanted in (TurnKind.MESSAGE, TurnKind.COMPACTION, TurnKind.OTHER):
        assert counts[wanted]
    for turn in turns_of(planted):
        assert turn.size == len(turn.text)


@given(st.sampled_from(list(TranscriptKind)), st.integers(0, 3), st.data())
def test_reading_on_gives_what_reading_the_whole_gives(
    kind: TranscriptKind, seed: int, data: st.DataObject
) -> None:
    planted = plant(kind, seed, turns=9, damage=tuple(Damage))
    numbered = list(records(planted))
    expected, whole = read(planted, numbered)
    cut = data.draw(st.integers(0, len(numbered)))
    first, reader = read(planted, numbered[:cut])
    second, again = read(planted, numbered[cut:], json.loads(json.dumps(reader.state())))
    assert first + second == expected
    assert again.state() == whole.state()

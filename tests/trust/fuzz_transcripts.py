"""What the readers of transcripts promise, whatever the bytes of a file are."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any, Final

from memtui.index.transcripts.reading import Cutting, TranscriptReading
from memtui.memory.transcripts.formats import FORMATS, recognise
from memtui.memory.transcripts.memory_calls import CallCollector
from memtui.memory.transcripts.openclaw_files import RULES, TranscriptRules
from memtui.memory.transcripts.records import TranscriptFormat, parse_record
from memtui.memory.transcripts.stream import RawLine, raw_lines, text_of, unpacked
from memtui.model import ChunkSpan
from memtui.model.conversations import TranscriptKind
from memtui.text.sanitize import HOSTILE
from tests.support.transcript_corpus import Damage, plant
from tests.support.transcript_records import Records, writer_of
from tests.trust.fuzz_inputs import Given, Target, bytes_of
from tests.trust.fuzz_texts import NAMED_SECRET, hostile_seeds

LIMIT: Final = 700
"""Bytes of a line; a longer one is passed over."""
_ALL_RULES: Final = tuple(RULES.values())
_NAMES: Final = ("0b5c7f5e-0000-4000-8000-000000000001.jsonl", "rollout-2026-01-01.jsonl", "a.md")
_CUTTING: Final = Cutting(40, 10, 400)


def check_stream(given: Given) -> None:
    """Lines are the bytes of the file, one after the other, from wherever the reading goes on."""
    limit = 1 + given.number(200)
    data = given.body
    lines = list(raw_lines(io.BytesIO(data), limit=limit))
    assert sum(line.length for line in lines) == len(data), "bytes are lost"
    at = 0
    for number, line in enumerate(lines, start=1):
        assert (line.number, line.offset) == (number, at)
        whole = data[at : at + line.length]
        assert line.complete == whole.endswith(b"\n")
        if line.data is None:
            assert len(whole.removesuffix(b"\n")) > limit
        else:
            assert line.data == (whole[:-1] if line.complete else whole)
        text_of(line).encode()
        at += line.length
    if lines:
        start = lines[given.number(len(lines))]
        again = raw_lines(io.BytesIO(data), offset=start.offset, number=start.number, limit=limit)
        assert list(again) == lines[start.number - 1 :], "going on gives other lines"
    try:
        unpacked(data, limit=1 << 16)
    except OSError as error:
        if "Zstandard" not in str(error):
            raise


def check_reading(given: Given) -> None:
    """Counts add up, a reading that stops goes on to the same chunks, and no key is kept."""
    rules, form, name = given.pick(_ALL_RULES), given.pick(FORMATS), given.pick(_NAMES)
    stop = given.number(9)
    data = given.body + b"\n" + _told(form.kind, given.number(2) == 0)
    lines = list(raw_lines(io.BytesIO(data), limit=LIMIT))
    reading = TranscriptReading(form, name, rules, _CUTTING)
    spans: list[ChunkSpan] = []
    for line in lines:
        spans += reading.add(line)
        _resumed(reading, form, name, rules, line, stop)
    spans += reading.tail()
    facts = reading.facts("main")
    for span in spans:
        assert 1 <= span.start_line <= span.end_line <= len(lines), "a line that is not there"
        assert NAMED_SECRET not in span.text, "a key is indexed"
    state = json.dumps(reading.state())
    assert NAMED_SECRET not in state, "a key is kept"
    assert NAMED_SECRET not in repr(facts), "a key is told"
    _check_counts(reading, lines)


def _told(kind: TranscriptKind, is_assistant: bool) -> bytes:
    """A record in which somebody says a key, as the program writes it."""
    role = "assistant" if is_assistant else "user"
    said = writer_of(kind).said(role, f"the key is {NAMED_SECRET} now", 1_767_225_600_000)
    return _jsonl(said)


def _jsonl(records: Records) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def _resumed(
    reading: TranscriptReading,
    form: TranscriptFormat,
    name: str,
    rules: TranscriptRules,
    line: RawLine,
    stop: int,
) -> None:
    """What is kept at a line makes a reading that is in the same state."""
    if line.number != stop:
        return
    kept = reading.state()
    again = TranscriptReading(form, name, rules, _CUTTING, json.loads(json.dumps(kept)))
    assert again.state() == kept, "going on begins in another state"


def _check_counts(reading: TranscriptReading, lines: Sequence[RawLine]) -> None:
    """Lines that are too long, blank, no JSON or read: each is one of them."""
    state: dict[str, Any] = reading.state()
    too_long = sum(line.data is None for line in lines)
    assert state["seen"]["too_long"] == too_long, "lines that are too long are not counted"
    bad = state["seen"]["bad_lines"]
    assert len(bad) <= 50
    assert all(1 <= number <= len(lines) for number, _ in bad)
    for text in (state["seen"][key] for key in ("title", "agent", "model", "session")):
        assert HOSTILE.search(text) is None, "a fact holds a control character"
        assert "\n" not in text


def check_turns(given: Given) -> None:
    """Any JSON value is a record of some kind: its turns can be shown, and its calls hold no key."""
    line = 1 + given.number(9)
    for text in given.text().split("\n")[:20]:
        try:
            record = parse_record(text)
        except ValueError:
            continue
        if not isinstance(record, dict):
            continue
        recognise([record])
        for form in FORMATS:
            form.run_of(record)
            form.facts(record)
            assert isinstance(form.identity(record), str)
            collector = CallCollector("a.jsonl", form.kind)
            for turn in form.turns(record, line):
                assert turn.line == line
                turn.text.encode()
                collector.add(turn)
            for call in collector.calls():
                assert f" {NAMED_SECRET} " not in call.query, "a key is in a query"


def _seeds() -> list[bytes]:
    seeds = []
    for number, kind in enumerate(TranscriptKind):
        damage = list(Damage)[number::3]
        damage = [one for one in damage if one is not Damage.HUGE]
        seeds.append(plant(kind, number, turns=6, damage=damage).data[:3500])
        writer = writer_of(kind)
        records = writer.header("s", 1_767_225_600_000) + writer.said("user", "hello there", 0)
        for noise in range(8):
            records = records + writer.noise(noise, 0)[0]
        seeds.append(_jsonl(records))
    return [*seeds, *hostile_seeds(), b'{"type":"message","message":{"role":"user","content":"a"}}']


_WORDS: Final = tuple(
    map(
        bytes_of,
        (
            *(
                "\n",
                "\r\n",
                "{",
                "}",
                "[",
                "]",
                ":",
                ",",
                '"',
                "\\",
                "null",
                "true",
                "1e999",
                "NaN",
            ),
            *("type", "message", "role", "user", "assistant", "content", "text", "timestamp"),
            *(
                "toolCall",
                "tool_use",
                "tool_result",
                "function_call",
                "arguments",
                "input",
                "output",
            ),
            *("payload", "response_item", "session_meta", "sessionId", "isSidechain", "provenance"),
            *("System: [", "[cron:", "HEARTBEAT_OK", "<command-name>", '"\\ud800"', "\x1b[31m"),
            *("2026-01-01T00:00:00.000Z", "9" * 30, "-1", "0", "\ufeff", "memory_search", "query"),
            *("(\xb5/\xfd", f" {NAMED_SECRET} ", '{"a":' * 20, "[" * 300, "\x00", "\u2028"),
        ),
    )
)

TARGETS: Final = (
    Target("lines", check_stream, _seeds, _WORDS, runs=200_000),
    Target("transcript", check_reading, _seeds, _WORDS, runs=30_000, share=150),
    Target("turns", check_turns, _seeds, _WORDS, runs=80_000, share=200),
)

"""Promises of the parsers of notes, queries and transcripts for every text."""

from __future__ import annotations

import hashlib
import io
import json
from datetime import date
from functools import cache, partial
from itertools import pairwise
from typing import Final, get_args

import msgspec
import zstandard

from memtui.embedding.provider import ProviderIdentity
from memtui.index.database import Recipe
from memtui.index.transcripts.phase import TranscriptChunks
from memtui.index.transcripts.turns import cut, masked_text
from memtui.memory.chunking import chunk_id, chunk_text, size_estimate
from memtui.memory.documents import day_of_path, front_matter
from memtui.memory.passages import passages
from memtui.memory.transcripts.formats import FORMATS, recognise
from memtui.memory.transcripts.memory_calls import CallCollector
from memtui.memory.transcripts.openclaw_files import RULES
from memtui.memory.transcripts.records import ReadState, parse_record
from memtui.memory.transcripts.stream import (
    RATIO_FLOOR,
    open_transcript,
    raw_lines,
    text_of,
    unpacked,
)
from memtui.model import ChunkSpan, LegStatus
from memtui.model.conversations import TranscriptKind
from memtui.report.json_text import document_text
from memtui.retrieval.keyword import KeywordLeg
from memtui.retrieval.marks import match_spans, snippet
from memtui.retrieval.openclaw.terms import plan_keyword
from memtui.retrieval.query import NO_FILTERS, narrowed, parse_query, word_pieces
from memtui.settings.openclaw.releases import ShortTerms
from memtui.text.redact import mask, openclaw_redact, redact, redact_value
from memtui.text.sanitize import HOSTILE, safe, safe_line
from memtui.text.tokens import FTS5_TOKENIZE, index_text, query_terms
from tests.support.conversations import claude, codex, planted, said
from tests.support.rows import IndexFile
from tests.trials.fuzz import Given, Target, listed, private_folder, seeds, words

_MARKS: Final = words("marks")
NAMED_SECRET: Final = "sk-QzR8vKp3LmWx5TnB2cYd7HfJ"
"""Looks like a key of a service, and is none."""


def check_chunks(given: Given) -> None:
    """Every line is in a chunk, by its number; chunks keep within their size; hashes are true."""
    tokens = 1 + given.number(60)
    overlap, per_entry = given.number(70), bool(given.number(2))
    text = given.text()
    options = {"tokens": tokens, "overlap": overlap}
    chunks = list(chunk_text(text, per_entry=per_entry, **options))
    lines = text.split("\n")
    covered = {n for chunk in chunks for n in range(chunk.start_line, chunk.end_line + 1)}
    assert covered == set(range(1, len(lines) + 1)), "a line is in no chunk, or one is made up"
    starts = [chunk.start_line for chunk in chunks]
    assert starts == sorted(starts), "chunks go back"
    for chunk in chunks:
        whole = chunk.text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        digest = hashlib.sha256(whole.encode()).hexdigest()
        assert chunk.hash == digest, "a hash is not that of its text"
        assert size_estimate(chunk.text) <= max(32, 4 * tokens), "a chunk is too large"
        source = "".join(lines[chunk.start_line - 1 : chunk.end_line])
        assert chunk.text.replace("\n", "") in source, "a text is not that of its lines"
    again = list(chunk_text(text, per_entry=per_entry, **options))
    assert again == chunks, "the same text gave other chunks"
    places = {(chunk.start_line, chunk.end_line, chunk.hash) for chunk in chunks}
    ids = {chunk_id("memory", "a.md", *place, "model") for place in places}
    assert len(ids) == len(places), "two chunks have one id"


def check_query(given: Given) -> None:
    """A query is taken apart without loss: what is shown again means the same."""
    text, typing = given.text(), bool(given.number(2))
    query = parse_query(text, typing=typing)
    assert query.text == " ".join(query.text.split())
    query.text.encode()
    assert all(HOSTILE.search(safe_line(problem)) is None for problem in query.problems)
    assert all("\n" not in problem for problem in query.problems), "a problem has two lines"
    whole = parse_query(text)
    assert (whole.text, whole.phrases, whole.filters) == (query.text, query.phrases, query.filters)
    assert set(query.problems) <= set(whole.problems)
    if whole.filters == NO_FILTERS:
        assert whole.rest == text
    for syntax in (True, False):
        spans = word_pieces(text, syntax=syntax)
        assert all(0 <= start < end <= len(text) for start, end in spans)
        assert all(one[1] <= two[0] for one, two in pairwise(spans))
    days = {"after": whole.filters.after, "before": whole.filters.before}
    parts = [f"{name}:{day.isoformat()}" for name, day in days.items() if day]
    again = parse_query(" ".join([*parts, f'"{whole.text.replace(chr(34), " ")}"']))
    assert {"after": again.filters.after, "before": again.filters.before} == days


@cache
def _index() -> IndexFile:
    """An index of this process, in a folder that lives as long as it does."""
    made = IndexFile(private_folder("match"))
    made.add_all(
        [*listed("notes"), "the vendor was running", "東京の会議", "đường sắt", "हिन्दी text"]
    )
    for tokenizer in (FTS5_TOKENIZE, "unicode61", "trigram case_sensitive 0"):
        quoted = tokenizer.replace("'", "''")
        made.connection.execute(
            f"CREATE VIRTUAL TABLE {_TABLES[tokenizer]} USING fts5(text, tokenize='{quoted}')"
        )
        made.connection.execute(f"INSERT INTO {_TABLES[tokenizer]} SELECT text FROM chunks")
    return made


_TABLES: Final = {
    FTS5_TOKENIZE: "own_words",
    "unicode61": "their_words",
    "trigram case_sensitive 0": "their_grams",
}


def check_match(given: Given) -> None:
    """FTS5 runs every MATCH that is written for a query, of every profile and while typing."""
    text, typing = given.text(), bool(given.number(2))
    index = _index()
    query, allowed = narrowed(index.connection, parse_query(text, typing=typing))
    hits, state = KeywordLeg(index.connection, budget=given.pick((None, 1))).search(
        query, 10, allowed
    )
    assert state.status in (LegStatus.OK, LegStatus.SKIPPED), state.detail
    assert [hit.raw for hit in hits] == sorted(hit.raw for hit in hits)
    if allowed is not None:
        assert {hit.rowid for hit in hits} <= allowed
    if words := query_terms(text, prefix_last=typing).terms:
        _run(index, "own_words", " OR ".join(term.fts for term in words))
    for short in get_args(ShortTerms):
        plan = plan_keyword(text, tokenizer="unicode61", short_terms=short)
        _run(index, "their_words", plan.match)
        plan = plan_keyword(text, tokenizer="trigram", short_terms=short, marks=True)
        _run(index, "their_grams", plan.match)


def _run(index: IndexFile, table: str, match: str | None) -> None:
    if match is not None:
        sql = f"SELECT rowid FROM {table} WHERE {table} MATCH ? LIMIT 3"
        index.connection.execute(sql, (match,)).fetchall()


def check_marks(given: Given) -> None:
    """What is marked in a text lies within it; a snippet is one line of at most its width."""
    head, _, text = given.text().partition("\n")
    terms = head.split("|")
    for part in (text, index_text(text)[:2000]):
        spans = match_spans(part, terms)
        assert all(0 <= start < end <= len(part) for start, end in spans)
        assert all(one[1] < two[0] for one, two in pairwise(spans))
    width = 1 + given.number(120)
    cut = snippet(text, terms, width)
    assert len(cut.text) <= max(width, 3)
    assert cut.text.removeprefix("…").removesuffix("…") in " ".join(text.split())
    assert all(0 <= start < end <= len(cut.text) for start, end in cut.spans)
    assert all(0 <= start < end <= len(text) for start, end, _ in passages(text))


def check_sanitizer(given: Given) -> None:
    """Nothing that commands a terminal comes out, and every character keeps its place."""
    text = given.text()
    for clean in (safe, safe_line):
        shown = clean(text)
        assert HOSTILE.search(shown) is None
        assert not any(map(_commands, set(shown)))
        assert len(shown) == len(text)
        assert clean(shown) == shown
        shown.encode()
    assert not {"\t", "\n"} & set(safe_line(text))
    written = document_text({"text": text, "more": [text, {text: 1}]})
    assert not any(map(_commands, set(written)))
    # Two halves that stand side by side are one character in JSON.
    assert _units(json.loads(written)["text"]) == _units(text)


def _units(text: str) -> bytes:
    return text.encode("utf-16-le", "surrogatepass")


def _commands(character: str) -> bool:
    """Told without the table of the sanitizer: C0 but tab and line feed, DEL, C1, bidi, halves."""
    code = ord(character)
    if code < 0x20:
        return code not in (0x09, 0x0A)
    bidi = 0x2028 <= code <= 0x202E or 0x2066 <= code <= 0x2069
    return 0x7F <= code <= 0x9F or bidi or 0xD800 <= code <= 0xDFFF


def check_dates(given: Given) -> None:
    """Front matter and file names give days and a share of 1, or nothing."""
    text = given.text()
    found = front_matter(text)
    assert found.day is None or date.min <= found.day <= date.max
    assert found.importance is None or 0.0 <= found.importance <= 1.0
    assert 0 <= found.end_line <= min(200, text.count("\n") + 1)
    if found.end_line:
        assert text.startswith("---")
    elif found.day is not None or found.importance is not None:
        raise AssertionError("a value without front matter")
    day = day_of_path(text)
    assert day is None or day.isoformat() in text


def check_redaction(given: Given) -> None:
    """A key that stands by itself is masked, whatever is around it, in text and in JSON."""
    text = given.text()
    for clean in (redact, openclaw_redact):
        masked = clean(f"{text} {NAMED_SECRET} {text}")
        assert NAMED_SECRET not in masked, "a key is left"
    value = {"text": text, "apiKey": NAMED_SECRET, "list": [{"name": "TOKEN", "value": text}]}
    hidden = json.dumps(redact_value(value))
    assert NAMED_SECRET not in hidden
    assert mask(NAMED_SECRET) in json.dumps(hidden, ensure_ascii=False).replace("\\\\u2026", "…")


LIMIT: Final = 700
"""Bytes of a line; a longer one is passed over."""
_ALL_RULES: Final = tuple(RULES.values())
_NAMES: Final = ("0b5c7f5e-0000-4000-8000-000000000001.jsonl", "rollout-2026-01-01.jsonl", "a.md")
_RECIPE: Final = Recipe(ProviderIdentity("hashed", "hashed", 64, "", 400), 40, 10)


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
        stream = io.BytesIO(data[start.offset :])
        again = raw_lines(stream, offset=start.offset, number=start.number, limit=limit)
        assert list(again) == lines[start.number - 1 :], "going on gives other lines"
    try:
        unpacked(data, limit=1 << 16)
    except OSError as error:
        if "Zstandard" not in str(error):
            raise


def check_packed(given: Given) -> None:
    """A packed file gives its lines, or one line that says why not, in seconds."""
    piece, tail = given.body[:2000] or b"\n", given.body[: given.number(3)]
    times, frames = given.pick((1, 40, 3_000, 20_000)), given.pick((1, 2, 30, 500))
    path = private_folder("packed") / "a.jsonl.zst"
    path.write_bytes(zstandard.compress(piece * times) * frames + tail)
    try:
        with open_transcript(path) as stream:
            read = sum(line.length for line in raw_lines(stream))
        assert read == len(piece) * times * frames
    except OSError as error:
        if "unpacks to more than" in str(error):
            assert len(piece) * times * frames > RATIO_FLOOR or piece.count(b"\n")
        elif not tail:
            raise


def check_reading(given: Given) -> None:
    """Counts add up, a reading that stops goes on to the same chunks, and no key is kept."""
    rules, form, name = given.pick(_ALL_RULES), given.pick(FORMATS), given.pick(_NAMES)
    stop = given.number(9)
    data = given.body + b"\n" + _told(form.kind, given.number(2) == 0)
    lines = list(raw_lines(io.BytesIO(data), limit=LIMIT))
    state = ReadState()
    reading = TranscriptChunks(form, name, rules, _RECIPE, state)
    spans: list[ChunkSpan] = []
    for line in lines:
        spans += reading.add(line)
        if line.number == stop:
            kept = msgspec.json.encode(state)
            assert msgspec.json.decode(kept, type=ReadState) == state, "a state is not kept"
    spans += reading.tail()
    facts = reading.reader.result("main")
    for span in spans:
        assert 1 <= span.start_line <= span.end_line <= len(lines), "a line that is not there"
        assert NAMED_SECRET not in span.text, "a key is indexed"
    assert NAMED_SECRET not in repr(state), "a key is kept"
    assert NAMED_SECRET not in repr(facts), "a key is told"
    # Lines that are too long, blank, no JSON or read: each is one of them.
    too_long = sum(line.data is None for line in lines)
    assert too_long <= facts.malformed, "lines that are too long are not counted"
    for text in (facts.title, facts.agent, facts.model):
        assert HOSTILE.search(text) is None, "a fact holds a control character"
        assert "\n" not in text


def _told(kind: TranscriptKind, is_assistant: bool) -> bytes:
    """A record in which somebody says a key, as the program writes it."""
    role, text = "assistant" if is_assistant else "user", f"the key is {NAMED_SECRET} now"
    told = (said(role, text), claude(role, text), codex(role, text))
    return dict(zip(TranscriptKind, told, strict=True))[kind]


def check_turns(given: Given) -> None:
    """Any JSON value is a record of some kind: what is shown of it, and its calls, hold no key."""
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
            form.run_of(record, archived=True, is_first=True)
            form.facts(record)
            assert isinstance(form.identity(record), str)
            collector = CallCollector("a.jsonl", form.kind)
            for turn in form.turns(record, line):
                assert turn.line == line
                turn.text.encode()
                for shown in (masked_text(turn), cut(turn).text):
                    assert f" {NAMED_SECRET} " not in shown, "a key is in a turn"
                collector.add(turn)
            for call in collector.calls:
                assert f" {NAMED_SECRET} " not in call.query, "a key is in a query"


def _transcripts() -> list[bytes]:
    made = []
    for kind in TranscriptKind:
        lines = planted(kind)[0].split(b"\n")
        made += [b"\n".join(lines[at : at + 9])[:3500] for at in range(0, 80, 16)]
    return [*made, *seeds(), b'{"type":"message","message":{"role":"user","content":"a"}}']


_NOTES: Final = partial(seeds, "notes")
_QUERIES: Final = partial(seeds, "queries")
_QUERY_WORDS: Final = words("query words")
_SECRET_WORDS: Final = words("secret words")
_RECORD_WORDS: Final = words("transcript words")

TARGETS: Final = (
    Target("chunks", check_chunks, _NOTES, _MARKS, runs=50_000),
    Target("query", check_query, _QUERIES, _QUERY_WORDS, runs=60_000),
    Target("match", check_match, _QUERIES, _QUERY_WORDS, runs=15_000, share=150),
    Target("marks", check_marks, partial(words, "marked texts"), _MARKS, runs=25_000),
    Target("sanitizer", check_sanitizer, seeds, _MARKS, runs=200_000),
    Target("dates", check_dates, _NOTES, _MARKS, runs=250_000),
    Target("redaction", check_redaction, partial(seeds, "secrets"), _SECRET_WORDS, runs=60_000),
    Target("packed", check_packed, _transcripts, _RECORD_WORDS, runs=2_000, share=10),
    Target("lines", check_stream, _transcripts, _RECORD_WORDS, runs=200_000),
    Target("transcript", check_reading, _transcripts, _RECORD_WORDS, runs=30_000, share=150),
    Target("turns", check_turns, _transcripts, _RECORD_WORDS, runs=80_000, share=200),
)

"""`memtui care` and `memtui chunk`: looking at the memory without a query."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby, islice, zip_longest
from typing import Any

import click

from memtui.cli.invocation import Invocation
from memtui.cli.options import on_memory
from memtui.cli.output import BOLD, EXIT_NOTHING, EXIT_OK, Line, Output
from memtui.cli.session import Session, open_reading
from memtui.engine.places import meant, parse_place, readings, spellings
from memtui.errors import QueryError
from memtui.memory.care.duplicates import words_of
from memtui.memory.care.masking import masked
from memtui.memory.workspace import workspace_id
from memtui.model import Chunk, Reason, citation
from memtui.model.browsing import (
    AnsweredQuery,
    CareFinding,
    CarePlace,
    CareReport,
    CareRule,
    ChunkRecord,
    Neighbour,
    Neighbours,
)
from memtui.model.inquiry import Place
from memtui.report import words
from memtui.report.conversations import wrapped
from memtui.report.json_text import plain
from memtui.settings.storage import StateFolder, queries_in
from memtui.text.sanitize import safe_line

EXIT_FOUND = 1
HIDDEN = "***"
"""Stands for a term that is a part of a credential."""
_ID = re.compile(r"[0-9a-f]{64}")
_PLACE = ("id", "path", "source", "start_line", "end_line")
_CARE_LINES, _TEXT_LINES = 8, 12
_BETWEEN = " | "
_SHOWN_TERMS = 16


@click.command(short_help="Look through the notes for what needs care.")
@click.option(
    *("--rule", "rules"),
    multiple=True,
    type=click.Choice([rule.value for rule in CareRule]),
    help="Only what this rule finds; may be repeated.",
)
@on_memory(vectors=True, agent=True, demo=True, raw=True)
def care(invocation: Invocation, rules: Sequence[str]) -> int:
    """List what needs care: duplicates, broken links, credentials, unreachable files, and more.

    Each with its place, and the text it is compared with beside it. Nothing is written. Exits with
    0 when there is nothing to care for and with 1 when there is.
    """
    chosen = {CareRule(rule) for rule in rules} or set(CareRule)
    output = invocation.output()
    with open_reading(invocation) as session:
        report = session.engine.browse.care(
            progressed=lambda done, total: output.progress(f"care: {100 * done // total} %")
        )
        output.progress("")
    report = CareReport(
        tuple(finding for finding in report.findings if finding.rule in chosen),
        {rule: count for rule, count in report.looked_at.items() if rule in chosen},
        {rule: why for rule, why in report.skipped.items() if rule in chosen},
    )
    notes = [f"memtui: {rule} was not looked for: {why}" for rule, why in report.skipped.items()]
    if not report.findings:
        judged = max(report.looked_at.values(), default=0)
        notes.append(f"nothing needs care, of {judged:,} that were looked at")
    lines = care_lines(report, output.width())
    return invocation.respond(
        care_document(report),
        ([(line, BOLD)] if is_heading else line for line, is_heading in lines),
        notes=notes,
        exit_code=EXIT_FOUND if report.findings else EXIT_OK,
    )


def care_document(report: CareReport) -> dict[str, Any]:
    """Return a report with the fields of `CareReport`, and how many findings each rule has."""
    entry: dict[str, Any] = plain(report)
    return {**entry, "counts": Counter(finding.rule for finding in report.findings)}


def care_lines(report: CareReport, width: int) -> Iterator[tuple[str, bool]]:
    """Return the findings rule by rule, with their texts; true for the heading of a rule."""
    for rule, group in groupby(report.findings, lambda finding: finding.rule):
        findings = list(group)
        yield f"{words.RULE_WORDS[rule].title} ({rule}): {len(findings)}", True
        for finding in findings:
            yield f"  {place_name(finding.place)}: {finding.message}", False
            for line in _texts(finding, width - 4):
                yield f"    {line}", False
        yield "", False


def place_name(place: CarePlace | Chunk) -> str:
    """Return where a finding or a chunk is, as a citation."""
    return citation(place.path, place.start_line, place.end_line)


def _texts(finding: CareFinding, width: int) -> Iterator[str]:
    """The text of a finding; with another place both side by side."""
    if finding.other is None:
        yield from _first_lines(finding.place.text, width, _CARE_LINES // 2)
        return
    half = (width - len(_BETWEEN)) // 2
    left, right = (
        [words.ending(place_name(place), half), *_first_lines(place.text, half, _CARE_LINES)]
        for place in (finding.place, finding.other)
    )
    for first, second in zip_longest(left, right, fillvalue=""):
        yield f"{words.padded(safe_line(first), half)}{_BETWEEN}{second}".rstrip()


def _first_lines(text: str, width: int, most: int) -> list[str]:
    """Return the first lines of a text, each of at most `width` cells, without blank ones."""
    # What is made safe may be wider than it was.
    safe = (line for line in map(safe_line, text.split("\n")) if line.strip())
    lines = list(islice((one for line in safe for one in wrapped(line, width)), most + 1))
    if len(lines) > most:
        last = lines[most - 1]
        lines[most - 1 :] = [last[: words.fitting(last, width - 1)] + "…"]
    return lines


@click.command(short_help="Show everything that the index holds about one chunk.")
@click.argument("place")
@click.option("--queries", is_flag=True, help="Ask the queries of the history: which it answers.")
@click.option(
    "-n", "--limit", type=click.IntRange(0, 100), default=5, help="How many neighbours. [5]"
)
@on_memory(vectors=True, agent=True, demo=True, raw=True)
def chunk(invocation: Invocation, place: str, queries: bool, limit: int) -> int:
    """Show the chunk at PLACE (PATH, PATH:12, PATH#L12, or a chunk id) from every side.

    Its terms with their document frequency, its vector, its date, the chunks most like it by
    vector and by words, and its near-duplicates. Exits with 1 when there is no such chunk.
    """
    output = invocation.output()
    with open_reading(invocation) as session:
        browse = session.engine.browse
        ids, others = _chunks_at(session, place)
        record = browse.chunk_record(ids) if ids else None
        if record is None:
            missing = f"the index holds no chunk at {place}"
            return invocation.respond(
                {"missing": missing}, notes=[f"memtui: {missing}"], exit_code=EXIT_NOTHING
            )
        neighbours = browse.neighbours(record.chunk.id, limit)
        answered = _answered_queries(session, record.chunk.id, output) if queries else None
    notes = []
    if others:
        named = ", ".join(f"{other.path}:{other.start_line}" for other in others[:5])
        more = ", …" if len(others) > 5 else ""
        notes = [f"memtui: {words.count(len(others), 'more chunk')} there: {named}{more}"]
    parts = chunk_parts(record, neighbours, answered, output.width() - 2)
    return invocation.respond(
        chunk_document(record, neighbours, answered),
        _lines(parts),
        notes=notes,
    )


def _lines(parts: Iterable[tuple[str, Iterable[str]]]) -> Iterator[Line]:
    for heading, lines in parts:
        yield [(heading, BOLD)]
        yield from (f"  {line}" for line in lines)


def _chunks_at(session: Session, text: str) -> tuple[str, Sequence[Chunk]]:
    """Find the id of the first chunk at a place, and the other chunks; an empty id for none."""
    if _ID.fullmatch(text):
        return text, ()
    place = parse_place(text)
    if not place.path.strip() or place.line == 0:
        hint = "PATH, PATH:12, PATH#L12 or a chunk id; the first line is 1"
        raise QueryError(f"{text!r} is not a place", hint=hint)
    paths = session.engine.browse.paths()
    indexed = frozenset(paths)
    for reading in readings(Place(text)):
        spelled = spellings(reading.path, session.workspace.root)
        path = next((one for one in spelled if one in indexed), None) or meant(spelled, paths).path
        if path is not None:
            line = reading.line
            chunks = [
                chunk
                for chunk in session.engine.browse.chunks_of(path)
                if line is None or chunk.start_line <= line <= chunk.end_line
            ]
            return (chunks[0].id, chunks[1:]) if chunks else ("", ())
    return "", ()


def _answered_queries(session: Session, chunk_id: str, output: Output) -> Sequence[AnsweredQuery]:
    queries = queries_in(StateFolder(), workspace_id(session.workspace.root))
    answered = session.engine.browse.answered_queries(
        chunk_id,
        queries,
        ranking=session.ranking(),
        progressed=lambda done, total: output.progress(f"queries: {done}/{total}"),
    )
    output.progress("")
    if not queries:
        output.note("memtui: the history holds no query of this memory")
    return answered


def masked_record(record: ChunkRecord) -> ChunkRecord:
    """Return the same without credentials: in the text, and in the terms that are parts of them."""
    text = masked(record.chunk.text)
    if text == record.chunk.text and record.chunk.snippet is None:
        return record
    lost = set(words_of(record.chunk.text)) - set(words_of(text))
    terms = tuple(
        # A term may be the stem of a word.
        replace(term, term=HIDDEN) if any(word.startswith(term.term) for word in lost) else term
        for term in record.terms
    )
    return replace(record, chunk=replace(record.chunk, text=text, snippet=None), terms=terms)


def chunk_document(
    record: ChunkRecord, neighbours: Neighbours, answered: Sequence[AnsweredQuery] | None
) -> dict[str, Any]:
    """Return a chunk, the chunks like it, and the queries that it answers where they were asked."""
    document = {
        "record": masked_record(record),
        "neighbours": {
            "by_vector": [_neighbour_entry(one) for one in neighbours.by_vector],
            "vector_state": neighbours.vector_state,
            "by_words": [_neighbour_entry(one) for one in neighbours.by_words],
            "duplicates": [_neighbour_entry(one) for one in neighbours.duplicates],
        },
    }
    if answered is not None:
        document["queries"] = [replace(one, query=masked(one.query)) for one in answered]
    return document


def _neighbour_entry(neighbour: Neighbour) -> dict[str, Any]:
    return {
        **{name: getattr(neighbour.chunk, name) for name in _PLACE},
        "score": neighbour.score,
        "shared": neighbour.shared,
        "text": masked(neighbour.chunk.text),
    }


def chunk_parts(
    record: ChunkRecord,
    neighbours: Neighbours,
    answered: Sequence[AnsweredQuery] | None,
    width: int,
) -> Iterator[tuple[str, Iterator[str]]]:
    """Return the same for people: headings, each with its lines."""
    shown = masked_record(record)
    yield place_name(record.chunk), _facts(shown)
    yield "text", iter(_first_lines(shown.chunk.text, width, _TEXT_LINES))
    number = len(shown.terms)
    more = f", the {_SHOWN_TERMS} rarest of {number}" if number > _SHOWN_TERMS else ""
    rows = (
        f"{term.count:>4} {term.document_frequency:>7}  {term.term}"
        for term in shown.terms[:_SHOWN_TERMS]
    )
    yield f"terms{more} (count, chunks that have it)", rows
    state = _because(neighbours.vector_state)
    yield f"nearest by vector{state}", _neighbours(neighbours.by_vector, width)
    yield "nearest by words", _neighbours(neighbours.by_words, width)
    yield "near-duplicates", _neighbours(neighbours.duplicates, width)
    if answered is not None:
        rows = (f"{one.rank:>3}  {one.score:.3f}  {masked(one.query)}" for one in answered)
        yield "queries of the history that it answers (rank, score)", rows


def _facts(record: ChunkRecord) -> Iterator[str]:
    chunk = record.chunk
    yield f"id          {chunk.id}"
    yield f"hash        {chunk.hash}"
    yield f"source      {chunk.source}"
    yield f"size        {words.count(record.tokens, 'term')}, {record.characters:,} characters"
    made = f"{record.provider or 'nobody'}/{chunk.model}"
    if record.norm is None:
        yield f"vector      none: {words.reason_words(record.vector_state)} ({made})"
    else:
        state = _because(record.vector_state)
        yield f"vector      {record.dimensions} numbers, length {record.norm:.6f}, {made}{state}"
    why = words.reason_words(chunk.day_from) if chunk.day_from is not None else "no date"
    yield f"date        {f'{chunk.day}, ' if chunk.day is not None else ''}{why}"
    if record.changed is not None:
        yield f"changed     {record.changed:%Y-%m-%d %H:%M:%S} UTC"
    if record.importance is not None:
        yield f"importance  {words.short_number(record.importance)}"


def _because(state: Reason) -> str:
    return "" if state is Reason.OK else f": {words.reason_words(state)}"


def _neighbours(neighbours: Sequence[Neighbour], width: int) -> Iterator[str]:
    for one in neighbours:
        about = ", ".join(map(masked, one.shared)) or " ".join(masked(one.chunk.text).split())
        yield words.padded(f"{one.score:.3f}  {place_name(one.chunk)}  {about}", width).rstrip()
    if not neighbours:
        yield "none"

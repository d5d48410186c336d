"""`memtui care` and `memtui chunk`: looking at the memory without a query."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, zip_longest

import click

from memtui.cli.invocation import Invocation
from memtui.cli.options import RAW, on_memory
from memtui.cli.output import Output
from memtui.cli.session import Session, open_reading
from memtui.engine.places import meant, parse_place, readings, spellings
from memtui.errors import QueryError
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
from memtui.report.documents import (
    care_entry,
    masked_record,
    neighbours_entry,
    queries_entry,
    record_entry,
)
from memtui.settings.storage import StateFolder, queries_in
from memtui.text.sanitize import safe_line

EXIT_OK, EXIT_NOTHING, EXIT_FOUND = 0, 1, 1
_BOLD = 1
_CARE_LINES, _TEXT_LINES = 8, 12
_INDENT = 4
_BETWEEN = " | "
_SHOWN_TERMS = 16
_ID = re.compile(r"[0-9a-f]{64}")
_NAMES: Mapping[CareRule, str] = {
    CareRule.NEAR_DUPLICATE: "near-duplicates",
    CareRule.UNREACHABLE: "files that their own first words do not bring up",
    CareRule.EMPTY_FILE: "empty files",
    CareRule.LONG_FILE: "long files",
    CareRule.DATED_FACT: "dated facts in notes without a date",
    CareRule.BROKEN_LINK: "broken links",
    CareRule.LONG_LINE: "long lines",
    CareRule.CREDENTIAL: "text shaped like credentials",
}


@click.command(short_help="Look through the notes for what needs care.")
@click.option(
    *("--rule", "rules"),
    multiple=True,
    type=click.Choice([rule.value for rule in CareRule]),
    help="Only what this rule finds; may be repeated.",
)
@RAW
@on_memory(vectors=True, agent=True, demo=True)
def care(invocation: Invocation, rules: Sequence[str], raw: bool) -> int:
    """List what needs care: duplicates, broken links, credentials, unreachable files, and more.

    Each with its place, and the text it is compared with beside it. Nothing is written. Exits with
    0 when there is nothing to care for and with 1 when there is.
    """
    chosen = {CareRule(rule) for rule in rules} or set(CareRule)
    output = invocation.output(raw=raw)
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
    if invocation.json:
        output.document(care_entry(report))
    else:
        _print_care(output, report)
    return EXIT_FOUND if report.findings else EXIT_OK


def _print_care(output: Output, report: CareReport) -> None:
    for rule, group in groupby(report.findings, lambda finding: finding.rule):
        findings = list(group)
        output.line(output.styled(f"{_NAMES[rule]} ({rule}): {len(findings)}", _BOLD))
        for finding in findings:
            output.line(output.clean(f"  {place_words(finding.place)}: {finding.message}"))
            for line in _texts(finding, output.width()):
                output.line(" " * _INDENT + output.clean(line))
        output.line()
    for rule, why in report.skipped.items():
        output.note(f"memtui: {rule} was not looked for: {why}")
    if not report.findings:
        looked = max(report.looked_at.values(), default=0)
        output.note(f"nothing needs care, of {looked:,} that were looked at")


def place_words(place: CarePlace) -> str:
    """Where a finding is, as a citation."""
    return citation(place.path, place.start_line, place.end_line)


def _texts(finding: CareFinding, width: int) -> Iterator[str]:
    room = width - _INDENT
    if finding.other is None:
        yield from wrapped(finding.place.text, room, _CARE_LINES // 2)
        return
    half = (room - len(_BETWEEN)) // 2
    heads = (place_words(finding.place), place_words(finding.other))
    left, right = (
        [words.ending(head, half), *wrapped(place.text, half, _CARE_LINES)]
        for head, place in zip(heads, (finding.place, finding.other), strict=True)
    )
    for first, second in zip_longest(left, right, fillvalue=""):
        yield f"{words.padded(first, half)}{_BETWEEN}{second}".rstrip()


def wrapped(text: str, width: int, most: int) -> Sequence[str]:
    """The first lines of a text, each of at most `width` cells; blank lines are left out."""
    lines: list[str] = []
    for line in text.split("\n"):
        # What is made safe may be wider than it was.
        rest = safe_line(line).rstrip()
        while rest:
            if len(lines) == most:
                lines[-1] = lines[-1][: words.fitting(lines[-1], width - 1)] + "…"
                return lines
            end = words.fitting(rest, width) or 1
            cut = rest.rfind(" ", width // 2, end + 1) if end < len(rest) else end
            cut = end if cut <= 0 else cut
            lines.append(rest[:cut].rstrip())
            rest = rest[cut:].lstrip()
    return lines


@click.command(short_help="Show everything that the index holds about one chunk.")
@click.argument("place")
@click.option("--queries", is_flag=True, help="Ask the queries of the history: which it answers.")
@click.option(
    "-n", "--limit", type=click.IntRange(0, 100), default=5, help="How many neighbours. [5]"
)
@RAW
@on_memory(vectors=True, agent=True, demo=True)
def chunk(invocation: Invocation, place: str, queries: bool, limit: int, raw: bool) -> int:
    """Show the chunk at PLACE (PATH, PATH:12, PATH#L12, or a chunk id) from every side.

    Its terms with their document frequency, its vector, its date, the chunks most like it by
    vector and by words, and its near-duplicates. Exits with 1 when there is no such chunk.
    """
    output = invocation.output(raw=raw)
    with open_reading(invocation) as session:
        engine = session.engine
        ids, others = _chunks_at(session, place)
        record = engine.browse.chunk_record(ids) if ids else None
        if record is None:
            missing = f"the index holds no chunk at {place}"
            if invocation.json:
                output.document({"missing": missing})
            else:
                output.note(f"memtui: {missing}")
            return EXIT_NOTHING
        found = engine.browse.neighbours(record.chunk.id, limit)
        answered = _answered_queries(session, record.chunk.id, output) if queries else None
    if invocation.json:
        history = {} if answered is None else {"queries": queries_entry(answered)}
        output.document(
            {"record": record_entry(record), "neighbours": neighbours_entry(found), **history}
        )
        return EXIT_OK
    for heading, lines in _parts(record, found, answered, output.width()):
        output.line(output.styled(output.clean(heading), _BOLD))
        for line in lines:
            output.line("  " + output.clean(line))
    if others:
        named = ", ".join(f"{other.path}:{other.start_line}" for other in others[:5])
        more = ", …" if len(others) > 5 else ""
        output.note(f"memtui: {words.count(len(others), 'more chunk')} there: {named}{more}")
    return EXIT_OK


def _chunks_at(session: Session, text: str) -> tuple[str, Sequence[Chunk]]:
    """The id of the first chunk at a place, and the other chunks; an empty id for none."""
    if _ID.fullmatch(text):
        return text, ()
    place = parse_place(text)
    if not place.path.strip() or place.line == 0:
        hint = "PATH, PATH:12, PATH#L12 or a chunk id; the first line is 1"
        raise QueryError(f"{text!r} is not a place", hint=hint)
    paths = session.engine.browse.paths()
    known = frozenset(paths)
    for reading in readings(Place(text)):
        spelled = spellings(reading.path, session.workspace.root)
        path = next((one for one in spelled if one in known), None) or meant(spelled, paths).path
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


def _parts(
    record: ChunkRecord,
    found: Neighbours,
    answered: Sequence[AnsweredQuery] | None,
    width: int,
) -> Iterator[tuple[str, Iterator[str]]]:
    shown = masked_record(record)
    yield _cited(record.chunk), _facts(shown)
    yield "text", iter(wrapped(shown.chunk.text, width - 2, _TEXT_LINES))
    terms = shown.terms
    more = f", the {_SHOWN_TERMS} rarest of {len(terms)}" if len(terms) > _SHOWN_TERMS else ""
    yield f"terms{more} (count, chunks that have it)", _terms(shown)
    state = "" if found.vector_state is Reason.OK else _because(found.vector_state)
    yield f"nearest by vector{state}", _neighbours(found.by_vector, width)
    yield "nearest by words", _neighbours(found.by_words, width)
    yield "near-duplicates", _neighbours(found.duplicates, width)
    if answered is not None:
        rows = (f"{one.rank:>3}  {one.score:.3f}  {masked(one.query)}" for one in answered)
        yield "queries of the history that it answers (rank, score)", rows


def _facts(record: ChunkRecord) -> Iterator[str]:
    chunk = record.chunk
    yield f"id          {chunk.id}"
    yield f"hash        {chunk.hash}"
    yield f"source      {chunk.source}"
    yield f"size        {words.count(record.tokens, 'term')}, {record.characters:,} characters"
    yield f"vector      {_vector(record)}"
    why = words.reason_words(chunk.day_from) if chunk.day_from is not None else "no date"
    yield f"date        {f'{chunk.day}, ' if chunk.day is not None else ''}{why}"
    if record.changed is not None:
        yield f"changed     {record.changed:%Y-%m-%d %H:%M:%S} UTC"
    if record.importance is not None:
        yield f"importance  {words.short_number(record.importance)}"


def _vector(record: ChunkRecord) -> str:
    made = f"{record.provider or 'nobody'}/{record.chunk.model}"
    if record.norm is None:
        return f"none: {words.reason_words(record.vector_state)} ({made})"
    state = "" if record.vector_state is Reason.OK else _because(record.vector_state)
    return f"{record.dimensions} numbers, length {record.norm:.6f}, {made}{state}"


def _because(state: Reason) -> str:
    return f": {words.reason_words(state)}"


def _terms(record: ChunkRecord) -> Iterator[str]:
    for term in record.terms[:_SHOWN_TERMS]:
        yield f"{term.count:>4} {term.document_frequency:>7}  {term.term}"


def _neighbours(found: Sequence[Neighbour], width: int) -> Iterator[str]:
    for one in found:
        about = ", ".join(map(masked, one.shared)) or " ".join(masked(one.chunk.text).split())
        line = f"{one.score:.3f}  {_cited(one.chunk)}  {about}"
        yield words.padded(line, width - 2).rstrip()
    if not found:
        yield "none"


def _cited(chunk: Chunk) -> str:
    return citation(chunk.path, chunk.start_line, chunk.end_line)

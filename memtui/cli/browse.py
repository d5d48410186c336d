"""`memtui care` and `memtui chunk`: looking at the memory without a query."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from itertools import groupby, islice, zip_longest

from msgspec.structs import replace

from memtui.cli.common_options import Invocation, command
from memtui.cli.output import BOLD, EXIT_OK, Line
from memtui.cli.session import open_reading
from memtui.engine.browse import answered_queries
from memtui.engine.places import parse_place
from memtui.errors import MemtuiError, QueryError
from memtui.memory.workspace import workspace_id
from memtui.model import Chunk
from memtui.model.browsing import CareFinding, CarePlace, CareReport, CareRule
from memtui.model.inquiry import Place
from memtui.report import chunk_record, words
from memtui.report.json_text import plain
from memtui.report.layout import Column, Row, Section
from memtui.report.status import LOOKS_FOR
from memtui.settings.files import StateFolder, queries_in
from memtui.text.redact import redact
from memtui.text.sanitize import safe_line

EXIT_FOUND = 1
_CARE_LINES = 8
_BETWEEN = " | "
_SHOWN_TERMS = 16


@command("care")
def care(invocation: Invocation, rules: Sequence[str]) -> int:
    """List what needs care: duplicates, broken links, credentials, unreachable files, and more."""
    chosen = {CareRule(rule) for rule in rules} or set(CareRule)
    output = invocation.output()
    with open_reading(invocation) as session:
        report = session.engine.browse.care(
            progressed=lambda done, total: output.progress(f"care: {words.percent(done, total)}")
        )
        output.progress("")
    report = CareReport(
        tuple(finding for finding in report.findings if finding.rule in chosen),
        {rule: report.looked_at[rule] for rule in report.looked_at if rule in chosen},
        {rule: report.skipped[rule] for rule in report.skipped if rule in chosen},
    )
    notes = []
    for why, skipped in groupby(report.skipped, report.skipped.__getitem__):
        titles = ", ".join(words.RULE_WORDS[rule].title for rule in skipped)
        notes.append(f"memtui: {titles}: not checked: {why}")
    if not report.findings:
        counted = ((number, rule) for rule, number in report.looked_at.items())
        judged, rule = max(counted, default=(0, CareRule.NO_TEXT))
        number = words.count(judged, words.RULE_WORDS[rule].judged)
        nothing = f"nothing needs care, {number} checked"
        notes.append(nothing if judged else f"no files to check: {LOOKS_FOR}")
    counts = Counter(finding.rule for finding in report.findings)

    def lines() -> Iterator[Line]:
        for rule, group in groupby(report.findings, lambda finding: finding.rule):
            about = words.RULE_WORDS[rule]
            yield [(f"{about.title}: {words.count(counts[rule])}. {about.advice}", BOLD)]
            for finding in group:
                yield f"  {_place_words(finding.place)}: {finding.message}"
                yield from (f"    {line}" for line in _texts(finding, output.width - 4))
            yield ""

    return invocation.respond(
        {**plain(report), "counts": counts},
        lines(),
        notes=notes,
        exit_code=EXIT_FOUND if report.findings else EXIT_OK,
    )


def _texts(finding: CareFinding, width: int) -> Iterator[str]:
    if finding.other is None:
        yield from _first_lines(finding.place.text, width, _CARE_LINES // 2)
        return
    half = (width - len(_BETWEEN)) // 2
    columns = (
        [words.ending(_place_words(place), half), *_first_lines(place.text, half, _CARE_LINES)]
        for place in finding.places
    )
    for left, right in zip_longest(*columns, fillvalue=""):
        yield f"{words.padded(safe_line(left), half)}{_BETWEEN}{right}".rstrip()


def _place_words(place: CarePlace) -> str:
    return f"{place.path}:{place.start_line}"


def _first_lines(text: str, width: int, most: int) -> list[str]:
    """Return the first lines of a text, each of at most `width` cells, without blank ones."""
    # What is made safe may be wider than it was.
    safe = (line for line in map(safe_line, text.split("\n")) if line.strip())
    lines = list(islice((one for line in safe for one in words.wrapped(line, width)), most + 1))
    if len(lines) > most:
        last = lines[most - 1]
        lines[most - 1 :] = [last[: words.fitting(last, width - 1)] + "…"]
    return lines


@command("chunk")
def chunk(invocation: Invocation, place: str, queries: bool, limit: int) -> int:
    """Show the chunk at PLACE (PATH, PATH:12, PATH#L12, or a chunk id) from every side."""
    output = invocation.output()
    answered = None
    with open_reading(invocation) as session:
        browse = session.engine.browse
        ids, in_file, others = [place], list[Chunk](), list[Chunk]()
        indexed = None
        if not re.fullmatch(r"[0-9a-f]{64}", place):
            named = parse_place(place)
            if not named.path.strip() or named.line == 0:
                hint = "PATH, PATH:12, PATH#L12 or a chunk id; the first line is 1"
                raise QueryError(f"{place!r} is not a place", hint=hint)
            indexed = session.engine.explain.indexed_at(Place(place))
            path, line = (indexed.place.path, indexed.place.line) if indexed else ("", None)
            in_file = [*browse.chunks_of(path)]
            chunks = [one for one in in_file if not line or one.start_line <= line <= one.end_line]
            # What begins there goes first: so a list names the chunks.
            chunks.sort(key=lambda one: one.start_line != (line or one.start_line))
            ids, others = [chunk.id for chunk in chunks], chunks[1:]
        record = browse.chunk_record(ids[0]) if ids else None
        if record is None:
            if session.engine.index.stamp() is None:
                raise session.no_index()
            paths = {one.path.split("/")[-1]: one.path for one in browse.files() if one.chunks}
            near = get_close_matches(place.split("/")[-1], paths, 3, cutoff=0)
            hint = f"the nearest paths: {', '.join(paths[name] for name in near)}"
            if indexed is not None and indexed.is_held and not in_file:
                hint = f"{path} has no text to index"
            elif in_file:
                hint = f"its indexed lines are {in_file[0].start_line} to {in_file[-1].end_line}"
            raise MemtuiError(f"the index holds no chunk at {place}", hint=hint, code="no_chunk")
        neighbours = browse.neighbours(record.chunk.id, limit)
        if queries:
            tops = session.engine.search.tops(
                queries_in(StateFolder(), workspace_id(session.workspace.root)),
                ranking=session.ranking,
                progressed=lambda done, total: output.progress(f"queries: {done}/{total}"),
            )
            answers = answered_queries(record.chunk.id, tops)
            answered = [replace(one, query=redact(one.query)) for one in answers]
            output.progress("")
            if not tops:
                output.note("memtui: the history holds no query with words of this memory")
    record = chunk_record.masked_record(record)
    if others:
        places = ", ".join(f"{other.path}:{other.start_line}" for other in others[:5])
        more = ", …" if len(others) > 5 else ""
        output.note(f"memtui: {words.count(len(others), 'more chunk')} there: {places}{more}")
    number, shown = len(record.terms), record.terms[:_SHOWN_TERMS]
    rarest = f", the {_SHOWN_TERMS} rarest of {number}" if number > _SHOWN_TERMS else ""
    text = tuple(Row((line,)) for line in _first_lines(record.chunk.text, output.width - 2, 48))
    sections = [
        chunk_record.record_section(record),
        Section("text", "text", (Column(),), text),
        chunk_record.terms_section(f"terms as indexed{rarest}", shown),
        *chunk_record.neighbour_sections(neighbours, [one.term for one in shown]),
    ]
    names = ("id", "path", "source", "start_line", "end_line")
    entries = {
        kind: [
            {name: getattr(one.chunk, name) for name in names}
            | {"score": one.score, "shared": one.shared, "text": one.chunk.text}
            for one in map(chunk_record.masked_neighbour, getattr(neighbours, kind))
        ]
        for kind in sorted(words.ALIKE_WORDS)
    }
    document: dict[str, object] = {
        "record": record,
        "neighbours": {**entries, "vector_state": neighbours.vector_state},
    }
    if answered is not None:
        document["queries"] = answered
        none = f"none of {words.count(len(tops), 'past query', 'past queries')} with words finds it"
        title = none if tops and not answered else "past queries that find it"
        sections.append(chunk_record.queries_section(title, answered))
    return invocation.respond(document, sections)

"""`memtui chunk`: one chunk from every side."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from memtui.cli.care import wrapped
from memtui.cli.invocation import Invocation
from memtui.cli.output import Output
from memtui.cli.session import Session, open_reading
from memtui.engine.places import meant, parse_place, readings, spellings
from memtui.errors import QueryError
from memtui.memory.care.masking import masked
from memtui.model import Chunk, Reason, citation
from memtui.model.browsing import AnsweredQuery, ChunkRecord, Neighbour, Neighbours
from memtui.model.inquiry import Place
from memtui.report import words
from memtui.report.documents import (
    masked_record,
    neighbours_entry,
    queries_entry,
    record_entry,
)

if TYPE_CHECKING:
    from memtui.engine import Engine

EXIT_OK, EXIT_NOTHING = 0, 1
_BOLD = 1
_SHOWN_TERMS = 16
_TEXT_LINES = 12
_ID = re.compile(r"[0-9a-f]{64}")


def run_chunk(invocation: Invocation, place: str, options: Mapping[str, Any]) -> int:
    """Print a chunk; 1 when the index holds none there."""
    output = invocation.output(raw=options["raw"])
    with open_reading(invocation) as session:
        engine = session.engine
        chunk_id, others = _chunk_at(session, engine, place)
        record = engine.browse.chunk_record(chunk_id) if chunk_id else None
        if record is None:
            missing = f"the index holds no chunk at {place}"
            if invocation.json:
                output.document({"missing": missing})
            else:
                output.note(f"memtui: {missing}")
            return EXIT_NOTHING
        found = engine.browse.neighbours(record.chunk.id, options["limit"])
        answered = None
        if options["queries"]:
            answered = _answered(session, engine, record.chunk.id, output)
    if invocation.json:
        queries = {} if answered is None else {"queries": queries_entry(answered)}
        output.document(
            {"record": record_entry(record), "neighbours": neighbours_entry(found), **queries}
        )
        return EXIT_OK
    for heading, lines in _parts(record, found, answered, output.width()):
        output.line(output.styled(output.clean(heading), _BOLD))
        for line in lines:
            output.line("  " + output.clean(line))
    if others:
        output.note(f"memtui: {words.count(len(others), 'more chunk')} there: {_named(others)}")
    return EXIT_OK


def _chunk_at(session: Session, engine: Engine, text: str) -> tuple[str, Sequence[Chunk]]:
    """The first chunk at a place, and the other ones; an empty id for none."""
    if _ID.fullmatch(text):
        return text, ()
    place = parse_place(text)
    if not place.path.strip() or place.line == 0:
        hint = "PATH, PATH:12, PATH#L12 or a chunk id; the first line is 1"
        raise QueryError(f"{text!r} is not a place", hint=hint)
    chunks = _held(session, engine, text)
    return (chunks[0].id, chunks[1:]) if chunks else ("", ())


def _held(session: Session, engine: Engine, text: str) -> Sequence[Chunk]:
    paths = engine.browse.paths()
    known = frozenset(paths)
    for reading in readings(Place(text)):
        spelled = spellings(reading.path, session.workspace.root)
        path = next((one for one in spelled if one in known), None) or meant(spelled, paths).path
        if path is None:
            continue
        line = reading.line
        chunks = engine.browse.chunks_of(path)
        return [c for c in chunks if line is None or c.start_line <= line <= c.end_line]
    return ()


def _answered(
    session: Session, engine: Engine, chunk_id: str, output: Output
) -> Sequence[AnsweredQuery]:
    from memtui.memory.workspace import workspace_id
    from memtui.settings.storage import StateFolder, queries_in

    queries = queries_in(StateFolder(), workspace_id(session.workspace.root))
    answered = engine.browse.answered_queries(
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


def _named(chunks: Sequence[Chunk]) -> str:
    named = ", ".join(f"{chunk.path}:{chunk.start_line}" for chunk in chunks[:5])
    return f"{named}, …" if len(chunks) > 5 else named

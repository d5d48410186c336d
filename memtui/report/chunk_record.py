"""One chunk from every side, for the command line and the screen: the sections of its facts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

from msgspec.structs import replace

from memtui.memory.care.duplicates import words_of
from memtui.model import Chunk, Reason
from memtui.model.browsing import AnsweredQuery, ChunkRecord, ChunkTerm, Neighbour, Neighbours
from memtui.report import words
from memtui.report.layout import LABELLED, Column, Extent, Row, Section, Tone
from memtui.retrieval.marks import snippet
from memtui.text.redact import redact

HIDDEN = "(masked)"
"""Stands for a term that is a part of a credential."""
_ABOUT = 48
"""Characters of the words that chunks share, or of the text where they share none."""
_SEARCHED = 8_000
"""Characters of a neighbour in which the part that is shown is looked for."""


def record_section(record: ChunkRecord, now: datetime | None = None) -> Section:
    """Return what is one line: size, date, last change, vector, importance, identity.

    With a clock to count them from with ages, and times as they are there.
    """
    chunk, state, importance = record.chunk, record.vector_state, record.importance
    sizes = {
        "token": record.tokens,
        "term": len(record.terms),
        "character": record.characters,
        "line": chunk.end_line - chunk.start_line + 1,
    }
    length = f"{words.count(record.dimensions)} dimensions" if record.dimensions is not None else ""
    norm = f"length {words.number(record.norm, 3)}" if record.norm is not None else ""
    vector = f"none: {words.reason_words(state)}"
    if state is Reason.OK:
        vector = ", ".join(filter(None, (length, norm))) or words.NOTHING
    date = words.reason_words(chunk.day_from) if chunk.day_from is not None else ""
    day = chunk.day
    if chunk.day_from is Reason.FILE_TIME and record.changed is not None:
        day = record.changed.astimezone(UTC).date()
    if day is not None:
        age = words.day_age(day, now) if now is not None else ""
        date = ", ".join(filter(None, (age, date and f"from the {date}")))
        date = f"{day}  {date}".rstrip()
    changed = "not known"
    if record.changed is not None:
        changed = f"{record.changed.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    if record.changed is not None and now is not None:
        changed = f"{record.changed.astimezone(now.tzinfo):%Y-%m-%d %H:%M}"
        ago = words.ago(record.changed, now)
        changed += f"  {ago}" if ago not in changed else ""
    facts = {
        "holds": ", ".join(words.count(size, noun) for noun, size in sizes.items()),
        "date": date or "none of its own",
        "changed": changed,
        "model": (chunk.model or "none") + (f"  by {record.provider}" if record.provider else ""),
        "vector": vector,
        "importance": "not set" if importance is None else words.short_number(importance),
        "source": f"{chunk.source}  row {record.rowid} of the index",
        "id": chunk.id,
        "SHA-256": chunk.hash,
    }
    if chunk.project_keys:
        facts["source"] += f"  project {', '.join(chunk.project_keys)}"
    return Section("record", chunk.citation, LABELLED, tuple(map(Row, facts.items())))


def terms_section(title: str, terms: Iterable[ChunkTerm], chunks: int = 0) -> Section:
    """Return the terms with their counts, and in how many of the `chunks` of the index each is."""
    of = f"/{words.count(chunks)}" if chunks else ""
    columns = (Column("term"), Column("times here", right=True), Column("in chunks"))
    rows = tuple(
        Row(
            (term.term, words.count(term.count), f"{words.count(term.document_frequency)}{of}"),
            tone=Tone.KEYWORD,
            extent=Extent(0, term.document_frequency),
        )
        for term in terms
    )
    return Section("terms", title, columns, rows, axis=max(1, chunks))


def neighbour_sections(neighbours: Neighbours, rarest: Sequence[str]) -> Iterator[Section]:
    """Yield a section for each of `ALIKE_WORDS`: the score, the place, the words that both have.

    Where they share none it is a part of the text with some of the `rarest` words of the chunk.
    """

    def row(one: Neighbour, tone: str) -> Row:
        one = masked_neighbour(one)
        place = f"{one.chunk.path}:{one.chunk.start_line}"
        about = snippet(one.chunk.text[:_SEARCHED], rarest, _ABOUT).text
        if one.shared:
            about = snippet(f"shared {', '.join(one.shared)}", (), _ABOUT).text
        return Row(
            (words.score(one.score), place, about), tone=Tone(tone), extent=Extent(0, one.score)
        )

    columns = (Column(right=True), Column(), Column())
    for kind, (title, about, tone) in words.ALIKE_WORDS.items():
        rows = tuple(row(one, tone) for one in getattr(neighbours, kind))
        state = neighbours.vector_state if kind == "by_vector" else Reason.OK
        nothing = f"none ({about})" if state is Reason.OK else words.reason_words(state)
        yield Section(kind, title, columns, rows, (about if rows else nothing,), axis=1.0)


def masked_record(record: ChunkRecord) -> ChunkRecord:
    """Return the same without credentials: in the text, and in the terms that are parts of them."""
    chunk, lost = _masked_chunk(record.chunk)
    terms = tuple(
        replace(term, term=HIDDEN) if any(word.startswith(begin) for word in lost) else term
        # A term may be the stem of a word, whose last letter may be another.
        for term, begin in ((one, one.term[: max(3, len(one.term) - 1)]) for one in record.terms)
    )
    return replace(record, chunk=chunk, terms=terms)


def masked_neighbour(one: Neighbour) -> Neighbour:
    """Return the same without credentials: in the text, and in the words that both have."""
    chunk, lost = _masked_chunk(one.chunk)
    shared = tuple(HIDDEN if word in lost else word for word in one.shared)
    return replace(one, chunk=chunk, shared=shared)


def _masked_chunk(chunk: Chunk) -> tuple[Chunk, set[str]]:
    """Return a chunk without credentials, and the words that are gone."""
    text = redact(chunk.text)
    lost = set(words_of(chunk.text)) - set(words_of(text))
    return replace(chunk, text=text, snippet=None), lost


def queries_section(title: str, answered: Iterable[AnsweredQuery]) -> Section:
    """Return the queries that the chunk answers, each with its rank and score."""
    rows = tuple(Row((words.rank(one.rank), words.score(one.score), one.query)) for one in answered)
    return Section("queries", title, (Column(right=True), Column(right=True), Column()), rows)

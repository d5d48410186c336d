"""Reads without a query: files, texts, one chunk from every side, care."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from memtui.data import read_table
from memtui.engine.ports import Index, Progressed, Reading, RecentFile, Words
from memtui.engine.search import Search, Tops
from memtui.errors import IsCancelled, never
from memtui.memory.care import duplicates
from memtui.model import Chunk, Reason
from memtui.model.browsing import (
    AnsweredQuery,
    CareReport,
    ChunkRecord,
    ChunkTerm,
    DayTotals,
    LinkTarget,
    MemoryFile,
    Neighbour,
    Neighbours,
)
from memtui.ranking.stages import chunk_day
from memtui.retrieval.connection import tokens
from memtui.retrieval.openclaw.terms import TRIGRAM
from memtui.retrieval.pool import best_first
from memtui.text.languages import without_tag

if TYPE_CHECKING:
    from memtui.memory.care.rules import WrittenLink

MOST_POSTINGS: Final = 100_000
"""So many places of terms are read at most; the terms left out are the most frequent ones."""
MOST_COMPARED: Final = 400
"""So many texts are compared at most, those with the most shared weight."""
_SHOWN_WORDS: Final = 12
_SQL: Final[Mapping[str, str]] = read_table("queries.toml")["terms"]


def days_of(
    files: Iterable[MemoryFile], recalled: Mapping[str, int] | None = None
) -> list[DayTotals]:
    """Return the days that dated files are of, oldest first.

    `recalled` is how often each file came up, by path; it is summed per day.
    """
    by_day: dict[date, list[MemoryFile]] = defaultdict(list)
    for file in files:
        if file.day is not None:
            by_day[file.day].append(file)
    return [
        DayTotals(
            day=day,
            paths=tuple(file.path for file in of_day),
            size=sum(file.size or 0 for file in of_day),
            chunks=sum(file.chunks for file in of_day),
            recalls=None
            if recalled is None
            else sum(recalled.get(file.path, 0) for file in of_day),
        )
        for day, of_day in sorted(by_day.items())
    ]


def answered_queries(chunk_id: str, tops: Tops) -> Sequence[AnsweredQuery]:
    """Return the queries that a chunk answers in the top k, best rank first."""
    answered = [
        AnsweredQuery(query, rank, hit.score)
        for query, hits in tops.items()
        for rank, hit in enumerate(hits, start=1)
        if hit.chunk_id == chunk_id
    ]
    return sorted(answered, key=lambda one: (one.rank, -one.score, one.query))


def recalls_of(tops: Tops) -> Mapping[str, int]:
    """Count how often each file's chunks are in the top k for the queries."""
    return Counter(hit.path for hits in tops.values() for hit in hits)


class Browse:
    """Shows what can be looked at without a query.

    Files are read on the caller's thread, the index on the engine thread. Long answers ask
    `cancelled` and raise `memtui.errors.Cancelled` when it turns true. Methods raise
    `IndexMissing` once the engine is closed, and `IndexUnusable` for an index that cannot be read.
    """

    def __init__(self, index: Index, search: Search, now: Callable[[], datetime]) -> None:
        self._index = index
        self._now = now
        self._search = search

    def files(self) -> Sequence[MemoryFile]:
        """Return every file that discovery finds or the index holds, by path."""
        return self._index.files.entries(never)

    def recent(self, limit: int = 20) -> Sequence[RecentFile]:
        """Return the files that were written last; empty before the first index."""
        return self._index.read(lambda reading: reading.recent(limit)) or ()

    def chunks_of(self, path: str) -> Sequence[Chunk]:
        """Return the chunks of a file in the order of their lines; empty for one not indexed."""
        return self._index.read(lambda reading: reading.chunks_of(path)) or ()

    def follow(self, path: str, link: WrittenLink) -> LinkTarget:
        """Return the place that a link in a note leads to."""
        from memtui.engine.care import follow_link

        return follow_link(self._index, path, link)

    def chunk_record(self, chunk_id: str) -> ChunkRecord | None:
        """Return everything that the index holds about one chunk; `None` when it is gone."""
        dates = self._index.ranking.decay.dates

        def record(reading: Reading) -> ChunkRecord | None:
            if (chunk_row := reading.chunk(chunk_id)) is None:
                return None
            rowid, chunk = chunk_row
            tokens, terms, stored, norm = 0, tuple[ChunkTerm, ...](), reading.vector(rowid), None
            if reading.words is not None:
                table = TermTable(reading.words)
                counts = Counter(table.tokens(chunk.text))
                frequencies = table.frequencies(counts)
                terms = tuple(
                    ChunkTerm(without_tag(term), counts[term], frequency)
                    for frequency, term in sorted((frequencies[one], one) for one in counts)
                )
                tokens = counts.total()
            if stored.values is not None and math.hypot(*stored.values.tolist()) < 1e154:
                # In double precision: the sum of many small squares. Of a longer one it overflows.
                norm = math.sqrt(math.fsum(one * one for one in stored.values.tolist()))
            return ChunkRecord(
                chunk=replace(chunk, day_from=chunk_day(chunk, dates)[1]),
                rowid=rowid,
                tokens=tokens,
                characters=len(chunk.text),
                terms=terms,
                provider=stored.provider,
                dimensions=stored.dimensions,
                norm=norm,
                vector_state=stored.state,
                changed=reading.changed(chunk),
                importance=chunk.importance,
            )

        return self._index.read(record)

    def neighbours(self, chunk_id: str, limit: int = 10) -> Neighbours:
        """Return the chunks most like one chunk, by vector, by words, and its near-duplicates.

        The rarest terms say which texts share the most weight of terms; those are compared by
        words, and without forms as Care does (`memtui.memory.care.duplicates.likeness`).
        """

        def nearest(reading: Reading) -> Neighbours:
            if (chunk_row := reading.chunk(chunk_id)) is None:
                return Neighbours((), Reason.NOT_INDEXED, (), ())
            rowid, chunk = chunk_row
            by_vector, state = _by_vector(reading, rowid, limit)
            by_words, compared = _by_words(reading, rowid, chunk, limit)
            by_id = {one.id: one for one in (*compared, *(near.chunk for near in by_vector))}
            compared = [*by_id.values()]
            texts = duplicates.without_forms([one.text for one in (chunk, *compared)])
            own, *others = map(duplicates.cut, texts)
            alike: list[Neighbour] = []
            for other, other_cut in zip(compared, others, strict=True):
                score = duplicates.likeness(own, other_cut)
                if score is not None and not duplicates.overlaps(chunk, other):
                    alike.append(Neighbour(other, score))
            alike.sort(key=lambda one: (-one.score, one.chunk.path, one.chunk.start_line))
            return Neighbours(by_vector, state, by_words, tuple(alike[:limit]))

        return self._index.read(nearest) or Neighbours((), Reason.NO_INDEX, (), ())

    def care(
        self, *, cancelled: IsCancelled = never, progressed: Progressed = lambda done, total: None
    ) -> CareReport:
        """Look through the whole memory for what needs care; nothing is written."""
        from memtui.engine.care import CareRun

        return CareRun(self._index, self._search, self._now().date(), cancelled).report(progressed)


def _by_vector(reading: Reading, rowid: int, limit: int) -> tuple[tuple[Neighbour, ...], Reason]:
    """Return the live chunks with the largest cosine to that of one row; why none is compared.

    In double precision.
    """
    import numpy as np

    vectors = reading.vectors(rowid)
    if isinstance(vectors, Reason):
        return (), vectors
    matrix, rowids = vectors.matrix, vectors.rowids
    own = np.flatnonzero(vectors.live & (rowids == rowid))
    if not len(own):
        state = reading.vector(rowid).state
        return (), Reason.NO_VECTOR if state is Reason.OK else state
    query = matrix[own[0]].astype(np.float64)
    products = np.einsum("ij,j->i", matrix, query, dtype=np.float64)
    squares = np.einsum("ij,ij->i", matrix, matrix, dtype=np.float64) * (query @ query)
    cosines = np.divide(products, np.sqrt(squares), out=np.zeros_like(products), where=squares > 0)
    others = np.flatnonzero(vectors.live & (rowids != rowid) & np.isfinite(cosines))
    scores = dict(zip(rowids[others].tolist(), cosines[others].tolist(), strict=True))
    chunks = reading.chunks(nearest := best_first(scores, limit, reading.in_order))
    cosine = {row: min(1.0, max(0.0, scores[row])) for row in nearest}
    return tuple(Neighbour(chunks[row], cosine[row]) for row in nearest if row in chunks), Reason.OK


def _by_words(
    reading: Reading, rowid: int, chunk: Chunk, limit: int
) -> tuple[tuple[Neighbour, ...], list[Chunk]]:
    """Return the chunks that share the most weight of terms, best first, and all compared ones.

    The score is the Jaccard similarity of the two sets of terms, each term weighted with
    ln(1 + rows / document frequency).
    """
    if (words := reading.words) is None:
        return (), []
    table, size = TermTable(words), max(1, reading.size)
    own = frozenset(table.tokens(chunk.text))
    frequencies = table.frequencies(own)

    def weight(terms: Iterable[str]) -> float:
        return math.fsum(math.log1p(size / max(1, frequencies[term])) for term in terms)

    def rarest_first(terms: Iterable[str]) -> list[str]:
        return sorted(terms, key=lambda term: (frequencies[term], term))

    shared: dict[int, float] = defaultdict(float)
    left = MOST_POSTINGS
    for term in rarest_first(own):
        left -= frequencies[term]
        for row in table.rows_with(term) if left >= 0 else ():
            shared[row] += weight([term])
    shared.pop(rowid, None)
    chunks = reading.chunks(rows := best_first(shared, MOST_COMPARED, reading.in_order))
    compared = [chunks[row] for row in rows if row in chunks]
    nearest = []
    for other in compared:
        terms = frozenset(table.tokens(other.text))
        frequencies |= table.frequencies(terms - frequencies.keys())
        both, union = terms & own, weight(terms | own)
        score = weight(both) / union if union else 0.0
        nearest.append(Neighbour(other, score, tuple(rarest_first(both)[:_SHOWN_WORDS])))
    nearest.sort(key=lambda one: (-one.score, one.chunk.path, one.chunk.start_line))
    own_words = dict.fromkeys(duplicates.words_of(chunk.text))
    # Terms that are pieces of words say nothing: the words that both have do.
    is_pieces, spelled = words.tokenizer.startswith(TRIGRAM), dict[str, str]()
    for word in () if is_pieces else own_words:
        word_terms = table.tokens(word)
        if len(word_terms) == 1:
            spelled.setdefault(word_terms[0], word)

    def shared_words(one: Neighbour) -> tuple[str, ...]:
        if not is_pieces:
            return tuple(spelled.get(term, without_tag(term)) for term in one.shared)
        there = frozenset(duplicates.words_of(one.chunk.text))
        return tuple(word for word in own_words if word in there)[:_SHOWN_WORDS]

    return tuple(replace(one, shared=shared_words(one)) for one in nearest[:limit]), compared


class TermTable:
    """Counts of one full-text table; on the thread of its connection, for one reading."""

    def __init__(self, words: Words) -> None:
        self._words = words
        words.connection.execute(_SQL["tables"].format(table=words.table))

    def tokens(self, text: str) -> list[str]:
        """Return the terms of a text in their order, repetitions included."""
        return tokens(self._words.spelled(text), self._words.tokenizer)

    def frequencies(self, terms: Iterable[str]) -> dict[str, int]:
        """Count the rows that each term stands in; 0 for one that the table does not have."""
        counts = dict.fromkeys(terms, 0)
        values = (json.dumps(list(counts)),)
        rows = list(self._words.connection.execute(_SQL["frequencies"], values))
        counts.update((str(term), int(rows_with)) for term, rows_with in rows)
        return counts

    def rows_with(self, term: str) -> list[int]:
        return [row for (row,) in self._words.connection.execute(_SQL["rows_with"], (term,))]

"""The chunks that are most like one: by vector, by weighted words, by runs of words.

By words: the Jaccard similarity of the two sets of terms, each term weighted with
ln(1 + rows / document frequency). The rarest terms say which texts share the most weight, and
those are compared. By runs of words: `memtui.memory.care.duplicates`.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from memtui.engine.ports import Reading, Vectors, Words
from memtui.memory.care.duplicates import FEWEST_WORDS, NEAR, jaccard, shingles_of, words_of
from memtui.model import Chunk, Reason
from memtui.model.browsing import ChunkTerm, Neighbour, Neighbours
from memtui.retrieval.connection import tokens
from memtui.retrieval.openclaw.plan import TRIGRAM

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


MOST_POSTINGS: Final = 100_000
"""So many places of terms are read at most; the terms left out are the most frequent ones."""
MOST_COMPARED: Final = 160
"""So many texts are compared at most, those with the most shared weight."""
_SHOWN_WORDS: Final = 12
_SLACK: Final = 1e-5


def neighbours_of(reading: Reading, chunk_id: str, limit: int) -> Neighbours:
    """Find the `limit` chunks most like one in each way; raises what SQLite raises."""
    rowid = reading.row_of(chunk_id)
    chunk = reading.chunks([rowid]).get(rowid) if rowid is not None else None
    if rowid is None or chunk is None:
        return Neighbours((), Reason.NOT_INDEXED, (), ())
    nearest, state = _by_vector(reading, rowid, limit)
    by_words: Sequence[Neighbour] = ()
    compared: Sequence[Chunk] = ()
    if reading.words is not None:
        comparison = _WordComparison(reading.words, reading, rowid, chunk)
        compared = comparison.chunks
        by_words = comparison.nearest(limit)
    if not compared:
        # A text without a term shares none with its copies.
        compared = list(reading.chunks(reading.same_text(rowid)).values())
    return Neighbours(nearest, state, tuple(by_words), _duplicates(chunk, compared)[:limit])


def _by_vector(reading: Reading, rowid: int, limit: int) -> tuple[tuple[Neighbour, ...], Reason]:
    vectors = reading.vectors(rowid)
    if isinstance(vectors, Reason):
        return (), vectors
    rows = nearest_rows(vectors, rowid, limit)
    if rows is None:
        state = reading.vector(rowid).state
        return (), Reason.NO_VECTOR if state is Reason.OK else state
    chunks = reading.chunks(row for row, _ in rows)
    nearest = (Neighbour(chunks[row], max(0.0, cosine)) for row, cosine in rows if row in chunks)
    return tuple(nearest), Reason.OK


def nearest_rows(vectors: Vectors, rowid: int, limit: int) -> list[tuple[int, float]] | None:
    """Return the live rows with the largest cosine to that of one row, without it; best first.

    Exact: those that a product in single precision puts near enough are compared again in double
    precision. Equal cosines by row number. `None` when the row has no vector.
    """
    import numpy as np

    own = np.flatnonzero(vectors.live & (vectors.rowids == rowid))
    if not len(own):
        return None
    query = vectors.matrix[own[0]]
    cosines = _cosines(vectors.matrix, query)
    cosines[~vectors.live | (vectors.rowids == rowid)] = -np.inf
    count = min(limit, int(np.count_nonzero(np.isfinite(cosines))))
    if count <= 0:
        return []
    bound = np.partition(cosines, len(cosines) - count)[len(cosines) - count]
    places = np.flatnonzero(cosines >= bound - _SLACK)
    exact = _cosines(vectors.matrix[places].astype(np.float64), query.astype(np.float64))
    rows = vectors.rowids[places]
    order = np.lexsort((rows, -exact))[:count]
    return [(int(rows[place]), float(np.clip(exact[place], -1.0, 1.0))) for place in order]


def _cosines(matrix: NDArray[np.floating], query: NDArray[np.floating]) -> NDArray[np.floating]:
    import numpy as np

    norms = np.sqrt(np.einsum("ij,ij->i", matrix, matrix)) * np.sqrt(query @ query)
    products: NDArray[np.floating] = matrix @ query
    cosines: NDArray[np.floating] = np.zeros_like(products)
    np.divide(products, norms, out=cosines, where=norms > 0)
    return cosines


def _duplicates(chunk: Chunk, others: Iterable[Chunk]) -> tuple[Neighbour, ...]:
    """Return those with the same text, or nearly the same runs of words; the most alike first."""
    own_words = words_of(chunk.text)
    shingles = shingles_of(own_words)
    alike: list[Neighbour] = []
    for other in others:
        if other.hash == chunk.hash:
            alike.append(Neighbour(other, 1.0))
            continue
        words = words_of(other.text)
        if overlaps(chunk, other) or min(len(words), len(own_words)) < FEWEST_WORDS:
            continue
        score = jaccard(shingles, shingles_of(words))
        if score >= NEAR:
            alike.append(Neighbour(other, score))
    alike.sort(key=lambda one: (-one.score, one.chunk.path))
    return tuple(alike)


def overlaps(first: Chunk, second: Chunk) -> bool:
    """Tell whether two chunks hold the same lines of one file."""
    return (
        (first.path, first.source) == (second.path, second.source)
        and first.start_line <= second.end_line
        and second.start_line <= first.end_line
    )


class _WordComparison:
    """One chunk against those that share the most weight of terms with it."""

    def __init__(self, words: Words, reading: Reading, rowid: int, chunk: Chunk) -> None:
        self._table = TermTable(words)
        self._has_words = not words.tokenizer.startswith(TRIGRAM)
        self._chunk = chunk
        self._size = max(1, reading.size)
        self._terms = frozenset(self._table.tokens(chunk.text))
        self._frequencies = self._table.frequencies(self._terms)
        shared = self._shared_weights()
        shared.pop(rowid, None)
        rows = sorted(shared, key=lambda row: (-shared[row], row))[:MOST_COMPARED]
        self.chunks = [one for _, one in sorted(reading.chunks(rows).items())]
        """Those that are compared."""

    def nearest(self, limit: int) -> list[Neighbour]:
        """Return the most alike, best first, with the rarest words that both have."""
        nearest = [self._compared(other) for other in self.chunks]
        nearest.sort(key=lambda one: (-one.score, one.chunk.path, one.chunk.start_line))
        spelled = self._spelled()
        return [
            replace(one, shared=tuple(spelled.get(term, term) for term in one.shared))
            if self._has_words
            else replace(one, shared=self._common(one.chunk))
            for one in nearest[:limit]
        ]

    def _weight(self, terms: Iterable[str]) -> float:
        return math.fsum(math.log1p(self._size / max(1, self._frequencies[term])) for term in terms)

    def _shared_weights(self) -> dict[int, float]:
        """Return by row the weight of the terms it shares, the most frequent ones left out."""
        shared: dict[int, float] = defaultdict(float)
        left = MOST_POSTINGS
        for term in sorted(self._terms, key=lambda term: (self._frequencies[term], term)):
            left -= self._frequencies[term]
            if left >= 0:
                weight = self._weight([term])
                for row in self._table.rows_with(term):
                    shared[row] += weight
        return shared

    def _compared(self, other: Chunk) -> Neighbour:
        terms = frozenset(self._table.tokens(other.text))
        self._frequencies |= self._table.frequencies(terms - self._frequencies.keys())
        both = terms & self._terms
        union = self._weight(terms | self._terms)
        rarest = sorted(both, key=lambda term: (self._frequencies[term], term))[:_SHOWN_WORDS]
        return Neighbour(other, self._weight(both) / union if union else 0.0, tuple(rarest))

    def _spelled(self) -> dict[str, str]:
        """Return the words of the chunk by their term, where a word is one term."""
        spelled: dict[str, str] = {}
        for word in words_of(self._chunk.text) if self._has_words else ():
            terms = self._table.tokens(word)
            if len(terms) == 1:
                spelled.setdefault(terms[0], word)
        return spelled

    def _common(self, other: Chunk) -> tuple[str, ...]:
        """Return the words that both have, where terms are pieces of words and say nothing."""
        there = frozenset(words_of(other.text))
        words = dict.fromkeys(words_of(self._chunk.text))
        return tuple(word for word in words if word in there)[:_SHOWN_WORDS]


_IN_ROWS, _IN_PLACES = "memtui_terms", "memtui_places"


class TermTable:
    """Counts of one full-text table; on the thread of its connection, for one reading."""

    def __init__(self, words: Words) -> None:
        self._words = words
        for vocabulary, kind in ((_IN_ROWS, "row"), (_IN_PLACES, "instance")):
            words.connection.execute(
                f"CREATE VIRTUAL TABLE IF NOT EXISTS temp.{vocabulary} "
                f"USING fts5vocab({words.schema}, {words.table}, {kind})"
            )

    def tokens(self, text: str) -> list[str]:
        """Return the terms of a text in their order, repetitions included."""
        return tokens(self._words.spelled(text), self._words.tokenizer)

    def frequencies(self, terms: Iterable[str]) -> dict[str, int]:
        """Count the rows that each term stands in; 0 for one that the table does not have."""
        counts = dict.fromkeys(terms, 0)
        rows = self._words.connection.execute(
            f"SELECT v.term, v.doc FROM json_each(?) j JOIN temp.{_IN_ROWS} v ON v.term = j.value",
            (json.dumps(list(counts)),),
        ).fetchall()
        counts.update((str(term), int(rows_with)) for term, rows_with in rows)
        return counts

    def rows_with(self, term: str) -> list[int]:
        """Return the rows that hold a term, each once."""
        rows = self._words.connection.execute(
            f"SELECT DISTINCT doc FROM temp.{_IN_PLACES} WHERE term = ?", (term,)
        )
        return [rowid for (rowid,) in rows.fetchall()]

    def counted(self, text: str) -> tuple[int, tuple[ChunkTerm, ...]]:
        """Return how many terms a text has, and each of them, the rarest first."""
        counts = Counter(self.tokens(text))
        frequencies = self.frequencies(counts)
        terms = [ChunkTerm(term, count, frequencies[term]) for term, count in counts.items()]
        terms.sort(key=lambda term: (term.document_frequency, term.term))
        return counts.total(), tuple(terms)

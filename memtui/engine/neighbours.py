"""The chunks that are most like one: by vector, by weighted words, by runs of words.

By words: the Jaccard similarity of the two sets of terms, each term weighted with
ln(1 + rows / document frequency). The terms that both have are counted in the full-text index from
the rarest on; since a similarity is at most the shared weight over the chunk's own weight, most
texts need not be looked at. By runs of words: `memtui.memory.care.duplicates`.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
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
LEAST_COMPARED: Final = 64
"""So many are compared even when none of them can be among the nearest by words."""
_AT_ONCE: Final = 16
_SHOWN_WORDS: Final = 12
_SLACK: Final = 1e-5


def neighbours_of(reading: Reading, chunk_id: str, limit: int) -> Neighbours:
    """Find the `limit` chunks most like one in each way; raises what SQLite raises."""
    rowid = reading.row_of(chunk_id)
    chunk = reading.chunks([rowid]).get(rowid) if rowid is not None else None
    if rowid is None or chunk is None:
        return Neighbours((), Reason.NOT_INDEXED, (), ())
    nearest, state = _by_vector(reading, rowid, limit)
    shared = _by_words(reading, rowid, chunk, limit)
    return Neighbours(
        _neighbours(reading, nearest), state, shared.nearest, shared.duplicates[:limit]
    )


def nearest_rows(vectors: Vectors, rowid: int, limit: int) -> list[tuple[int, float]] | None:
    """The live rows with the largest cosine to that of one row, without it; best first.

    Exact: those that a product in single precision puts near enough are compared again in double
    precision. Equal cosines by row number. `None` when the row has no vector.
    """
    import numpy as np

    own = np.flatnonzero(vectors.live & (vectors.rowids == rowid))
    if not len(own):
        return None
    query = vectors.matrix[own[0]]
    cosines = _cosines(vectors.matrix, query)
    cosines[~vectors.live] = -np.inf
    cosines[vectors.rowids == rowid] = -np.inf
    wanted = min(limit, int(np.count_nonzero(np.isfinite(cosines))))
    if wanted <= 0:
        return []
    bound = np.partition(cosines, len(cosines) - wanted)[len(cosines) - wanted]
    places = np.flatnonzero(cosines >= bound - _SLACK)
    exact = _cosines(vectors.matrix[places].astype(np.float64), query.astype(np.float64))
    rows = vectors.rowids[places]
    order = np.lexsort((rows, -exact))[:wanted]
    return [(int(rows[place]), float(np.clip(exact[place], -1.0, 1.0))) for place in order]


def _cosines(matrix: NDArray[np.floating], query: NDArray[np.floating]) -> NDArray[np.floating]:
    import numpy as np

    norms = np.sqrt(np.einsum("ij,ij->i", matrix, matrix)) * np.sqrt(query @ query)
    products: NDArray[np.floating] = matrix @ query
    cosines: NDArray[np.floating] = np.zeros_like(products)
    np.divide(products, norms, out=cosines, where=norms > 0)
    return cosines


def _by_vector(reading: Reading, rowid: int, limit: int) -> tuple[list[tuple[int, float]], Reason]:
    vectors = reading.vectors(rowid)
    if isinstance(vectors, Reason):
        return [], vectors
    found = nearest_rows(vectors, rowid, limit)
    if found is None:
        state = reading.vector(rowid).state
        return [], Reason.NO_VECTOR if state is Reason.OK else state
    return found, Reason.OK


def _neighbours(reading: Reading, found: Sequence[tuple[int, float]]) -> tuple[Neighbour, ...]:
    chunks = reading.chunks(row for row, _ in found)
    return tuple(Neighbour(chunks[row], max(0.0, score)) for row, score in found if row in chunks)


@dataclass(frozen=True, slots=True)
class _Alike:
    nearest: tuple[Neighbour, ...]
    duplicates: tuple[Neighbour, ...]


def _by_words(reading: Reading, rowid: int, chunk: Chunk, limit: int) -> _Alike:
    words = reading.words
    if words is None:
        return _Alike((), _exact(reading, rowid))
    search = _WordSearch(words, reading, rowid, chunk)
    return search.run(limit)


def _exact(reading: Reading, rowid: int) -> tuple[Neighbour, ...]:
    chunks = reading.chunks(reading.same_text(rowid))
    return tuple(Neighbour(chunks[row], 1.0) for row in sorted(chunks))


class _WordSearch:
    """One chunk against all others, by the terms that they share."""

    def __init__(self, words: Words, reading: Reading, rowid: int, chunk: Chunk) -> None:
        self._table = TermTable(words)
        self._in_pieces = words.tokenizer.startswith(TRIGRAM)
        self._reading = reading
        self._rowid = rowid
        self._chunk = chunk
        self._rows = max(1, reading.size)
        self._terms = frozenset(self._table.tokens(chunk.text))
        self._frequencies = self._table.frequencies(self._terms)
        self._own_words = words_of(chunk.text)
        self._shingles = shingles_of(self._own_words)

    def run(self, limit: int) -> _Alike:
        """Compare as many texts as are needed, and no more than `MOST_COMPARED`."""
        own = self._weight_of(self._terms)
        shared, unread = self._shared_weights()
        candidates = sorted(shared, key=lambda row: (-shared[row], row))[:MOST_COMPARED]
        compared: list[Neighbour] = []
        # A text without a term shares none with its copies.
        copies = () if self._terms else _exact(self._reading, self._rowid)
        duplicates = {copy.chunk.id: copy for copy in copies}
        for first in (0, *range(LEAST_COMPARED, len(candidates), _AT_ONCE)):
            rows = candidates[first : first + (_AT_ONCE if first else LEAST_COMPARED)]
            if not rows:
                break
            bound = (shared[rows[0]] + unread) / own if own else 0.0
            if first and len(compared) >= limit and compared[limit - 1].score >= bound:
                break
            for _, other in sorted(self._reading.chunks(rows).items()):
                compared.append(self._compared(other))
                self._note_duplicate(other, duplicates)
            compared.sort(key=lambda one: (-one.score, one.chunk.path, one.chunk.start_line))
        found = sorted(duplicates.values(), key=lambda one: (-one.score, one.chunk.path))
        return _Alike(self._named(compared[:limit]), tuple(found))

    def _weight(self, term: str) -> float:
        return math.log1p(self._rows / max(1, self._frequencies[term]))

    def _weight_of(self, terms: frozenset[str]) -> float:
        return math.fsum(map(self._weight, terms))

    def _shared_weights(self) -> tuple[dict[int, float], float]:
        """By row the weight of the terms it shares, and the weight of those not looked up."""
        shared: dict[int, float] = defaultdict(float)
        left, unread = MOST_POSTINGS, 0.0
        for term in sorted(self._terms, key=lambda term: (self._frequencies[term], term)):
            weight = self._weight(term)
            left -= self._frequencies[term]
            if left < 0:
                unread += weight
                continue
            for row in self._table.rows_with(term):
                shared[row] += weight
        shared.pop(self._rowid, None)
        return shared, unread

    def _compared(self, other: Chunk) -> Neighbour:
        terms = frozenset(self._table.tokens(other.text))
        self._frequencies |= self._table.frequencies(terms - self._frequencies.keys())
        both = terms & self._terms
        shared, union = self._weight_of(both), self._weight_of(terms | self._terms)
        rarest = sorted(both, key=lambda term: (self._frequencies[term], term))[:_SHOWN_WORDS]
        return Neighbour(other, shared / union if union else 0.0, tuple(rarest))

    def _note_duplicate(self, other: Chunk, found: dict[str, Neighbour]) -> None:
        if other.hash == self._chunk.hash:
            found[other.id] = Neighbour(other, 1.0)
            return
        if overlaps(self._chunk, other):
            return
        words = words_of(other.text)
        if min(len(words), len(self._own_words)) < FEWEST_WORDS:
            return
        score = jaccard(self._shingles, shingles_of(words))
        if score >= NEAR:
            found[other.id] = Neighbour(other, score)

    def _named(self, neighbours: Sequence[Neighbour]) -> tuple[Neighbour, ...]:
        """With the words as the chunk spells them, where that can be told."""
        if self._in_pieces:
            return tuple(replace(one, shared=self._common(one.chunk)) for one in neighbours)
        spelled: dict[str, str] = {}
        for word in self._own_words:
            tokens = self._table.tokens(word)
            if len(tokens) == 1:
                spelled.setdefault(tokens[0], word)
        return tuple(
            replace(one, shared=tuple(spelled.get(term, term) for term in one.shared))
            for one in neighbours
        )

    def _common(self, other: Chunk) -> tuple[str, ...]:
        """The words that both have, where terms are pieces of words and say nothing."""
        held = frozenset(words_of(other.text))
        return tuple(word for word in dict.fromkeys(self._own_words) if word in held)[:_SHOWN_WORDS]


def overlaps(first: Chunk, second: Chunk) -> bool:
    """Whether two chunks hold the same lines of one file."""
    return (
        (first.path, first.source) == (second.path, second.source)
        and first.start_line <= second.end_line
        and second.start_line <= first.end_line
    )


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
        """The terms of a text in their order, repetitions included."""
        return tokens(self._words.spelled(text), self._words.tokenizer)

    def frequencies(self, terms: Iterable[str]) -> dict[str, int]:
        """In how many rows each term stands; 0 for one that the table does not have."""
        found = dict.fromkeys(terms, 0)
        rows = self._words.connection.execute(
            f"SELECT v.term, v.doc FROM json_each(?) j JOIN temp.{_IN_ROWS} v ON v.term = j.value",
            (json.dumps(list(found)),),
        ).fetchall()
        found.update((str(term), int(rows_with)) for term, rows_with in rows)
        return found

    def rows_with(self, term: str) -> list[int]:
        """The rows that hold a term, each once."""
        rows = self._words.connection.execute(
            f"SELECT DISTINCT doc FROM temp.{_IN_PLACES} WHERE term = ?", (term,)
        )
        return [rowid for (rowid,) in rows.fetchall()]

    def counted(self, text: str) -> tuple[int, tuple[ChunkTerm, ...]]:
        """How many terms a text has, and each of them, the rarest first."""
        counts = Counter(self.tokens(text))
        frequencies = self.frequencies(counts)
        terms = [ChunkTerm(term, count, frequencies[term]) for term, count in counts.items()]
        terms.sort(key=lambda term: (term.document_frequency, term.term))
        return counts.total(), tuple(terms)

"""BM25 of all rows that hold any of some phrases, in arrays.

The same operations in the same order as FTS5's `bm25()` (`ext/fts5/fts5_aux.c`,
https://www.sqlite.org/fts5.html#the_bm25_function), so that the numbers are the same doubles.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from memtui.retrieval.connection import Connection
from memtui.retrieval.postings import Postings, PostingsReader
from memtui.retrieval.term_plan import Words

if TYPE_CHECKING:
    from memtui.retrieval.filters import AllowedRows

_K1 = 1.2
_B = 0.75
_LEAST_IDF = 1e-6


class Scorer:
    """Scores rows for one connection; belongs to its thread."""

    def __init__(self, connection: Connection) -> None:
        self._reader = PostingsReader(connection)
        self._scores: NDArray[np.float64] = np.zeros(1, dtype=np.float64)

    def refresh(self) -> None:
        """Follow the index within the caller's snapshot; raises what SQLite raises."""
        self._reader.refresh()
        if len(self._scores) != len(self._reader.lengths):
            # Pages that no row writes to cost nothing.
            self._scores = np.zeros(len(self._reader.lengths), dtype=np.float64)

    def best(
        self, phrases: Sequence[Words], limit: int, allowed: AllowedRows | None
    ) -> list[tuple[int, float]]:
        """Find the `limit` best rows, as (row number, `bm25()`), lowest first, then by number.

        A row needs one of the phrases; one that is named twice counts twice, as in FTS5.
        """
        scores = self._scores
        found: list[NDArray[np.int32]] = []
        try:
            for words in phrases:
                postings = self._reader.get(words)
                before = scores[postings.rows]
                # A share is never zero, so that a row without a score is a new one.
                found.append(postings.rows[before == 0.0])
                scores[postings.rows] = before + self._shares(postings)
            rows = np.concatenate([*found, np.empty(0, dtype=np.int32)])
            reached = scores[rows]
        finally:
            for part in found:
                scores[part] = 0.0
        if allowed is not None:
            inside = np.isin(rows, allowed.rowids)
            rows, reached = rows[inside], reached[inside]
        return _leading(rows, reached, limit)

    def holding(self, phrases: Sequence[Words], rowids: Sequence[int]) -> list[bool]:
        """Tell of each row whether it holds any of the phrases."""
        asked = np.array(rowids, dtype=np.int64)
        held = np.zeros(len(asked), dtype=np.bool_)
        for words in phrases:
            held |= self._reader.get(words).holds(asked)
        answer: list[bool] = held.tolist()
        return answer

    def _shares(self, postings: Postings) -> NDArray[np.float64]:
        """What a phrase adds to the score of each of its rows."""
        reader = self._reader
        if not len(postings.rows):
            return np.empty(0, dtype=np.float64)
        holding = float(len(postings.rows))
        idf = math.log((reader.rows - holding + 0.5) / (holding + 0.5))
        idf = idf if idf > 0.0 else _LEAST_IDF
        average = reader.tokens / reader.rows
        counts = postings.counts.astype(np.float64)
        lengths = reader.lengths[postings.rows].astype(np.float64)
        shares: NDArray[np.float64] = idf * (
            (counts * (_K1 + 1.0)) / (counts + _K1 * (1.0 - _B + _B * lengths / average))
        )
        return shares


def _leading(
    rows: NDArray[np.int32], scores: NDArray[np.float64], limit: int
) -> list[tuple[int, float]]:
    if limit <= 0 or not len(rows):
        return []
    if len(rows) > limit:
        place = len(rows) - limit
        good = np.flatnonzero(scores >= np.partition(scores, place)[place])
        rows, scores = rows[good], scores[good]
    order = np.lexsort((rows, -scores))[:limit]
    return list(zip(rows[order].tolist(), (-scores[order]).tolist(), strict=True))

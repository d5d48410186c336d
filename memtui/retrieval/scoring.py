"""BM25 of the best rows that hold any of some phrases, in arrays.

The same operations in the same order as FTS5's `bm25()` (`ext/fts5/fts5_aux.c`,
https://www.sqlite.org/fts5.html#the_bm25_function), so that the numbers are the same doubles. They
are computed of the few rows that can be the best by numbers of half the size.

Phrases are added up in the order of the most that each can add (MaxScore: Turtle and Flood, Query
Evaluation: Strategies and Optimizations, 1995). As soon as what is left cannot bring a new row
among the best, it is looked up for the rows that can still get there, and for no other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from memtui.retrieval.connection import Connection
from memtui.retrieval.postings import Counts, Postings, PostingsReader, Rows
from memtui.retrieval.row_lengths import Lengths
from memtui.retrieval.term_plan import Words

if TYPE_CHECKING:
    from memtui.retrieval.filters import AllowedRows

Scores: TypeAlias = NDArray[np.float64]
Estimates: TypeAlias = NDArray[np.float32]
Places: TypeAlias = NDArray[np.intp]
"""Row numbers of the type that arrays are addressed with, which spares turning them into it."""


_K1 = 1.2
_B = 0.75
_LEAST_IDF = 1e-6
_SLACK = 2e-7
"""How far two estimates may be wrong together, of all that the phrases can add.

For each phrase, and for so many more operations on each share.
"""

_SHARE_OPERATIONS = 8
LOOKED_UP_FROM = 16_384
"""From so many entries on it pays to find out whether their rows can still get anywhere."""

_SPREAD_UP_TO = 4
"""Entries of a list for each row that is looked up, up to which to spread them all is quicker."""


@dataclass(frozen=True, slots=True, eq=False)
class _Weighted:
    """A phrase with what makes its shares."""

    postings: Postings
    idf: float
    bound: float
    """No row gets more from it."""

    def shares(self, counts: Counts, lengthening: Scores) -> Scores:
        """What it adds to the score of rows that hold it so often."""
        held = counts.astype(np.float64)
        shares: Scores = self.idf * ((held * (_K1 + 1.0)) / (held + lengthening))
        return shares

    def estimates(self, counts: Counts | Estimates, lengthening: Estimates) -> Estimates:
        """The same, about."""
        held = counts.astype(np.float32, copy=False)
        shares = lengthening + held
        np.divide(held, shares, out=shares)
        shares *= np.float32(self.idf * (_K1 + 1.0))
        return shares


class Scorer:
    """Scores rows for one connection; belongs to its thread."""

    def __init__(self, connection: Connection) -> None:
        self._reader = PostingsReader(connection)
        self._average = 1.0
        # By row number, as the lengths of the rows.
        self._lengthening: Estimates = np.zeros(1, dtype=np.float32)
        self._scores: Estimates = np.zeros(1, dtype=np.float32)
        self._of: tuple[Lengths, float] | None = None

    @property
    def is_new(self) -> bool:
        """Whether it has still to read the lengths of all rows."""
        return self._reader.is_new

    def advance(self) -> bool:
        """Read some of what the first `refresh` needs; whether there is more of it."""
        return self._reader.advance()

    def refresh(self) -> None:
        """Follow the index within the caller's snapshot; raises what SQLite raises."""
        reader = self._reader
        reader.refresh()
        average = reader.tokens / reader.rows if reader.tokens else 1.0
        if self._of is not None and self._of[0] is reader.lengths and self._of[1] == average:
            return
        self._of = reader.lengths, average
        self._average = average
        self._lengthening = _lengthening(reader.lengths.astype(np.float32), average)
        if len(self._scores) != len(reader.lengths):
            # Pages that no row writes to cost nothing.
            self._scores = np.zeros(len(reader.lengths), dtype=np.float32)

    def best(
        self, phrases: Sequence[Words], limit: int, allowed: AllowedRows | None
    ) -> list[tuple[int, float]]:
        """Find the `limit` best rows, as (row number, `bm25()`), lowest first, then by number.

        A row needs one of the phrases; one that is named twice counts twice, as in FTS5.
        """
        weighted = [self._weighted(words) for words in phrases]
        held = [one for one in weighted if len(one.postings.rows)]
        if limit <= 0 or not held:
            return []
        rows = self._candidates(sorted(held, key=lambda one: -one.bound), limit, allowed)
        lengthening = _lengthening(self._reader.lengths[rows].astype(np.float64), self._average)
        scores = np.zeros(len(rows), dtype=np.float64)
        for one in held:
            # What a row does not hold adds zero, which changes no sum.
            scores += one.shares(one.postings.counts_of(rows), lengthening)
        order = np.lexsort((rows, -scores))[:limit]
        return list(zip(rows[order].tolist(), (-scores[order]).tolist(), strict=True))

    def has(self, words: Words) -> bool:
        """Whether the list of a phrase is in memory."""
        return self._reader.has(words)

    def size_of(self, words: Words) -> int | None:
        """How many rows hold a phrase, about where its list is long; `None`: not known."""
        return self._reader.size_of(words)

    @property
    def has_room(self) -> bool:
        """Whether lists that nobody asked for may be read."""
        return self._reader.has_room

    def learn_pages(self) -> None:
        """Make it quick to tell how long lists are, until the index changes."""
        self._reader.learn_pages()

    def read(self, words: Words) -> None:
        """Read the list of a phrase into memory."""
        self._reader.get(words)

    def holding(self, terms: Sequence[Sequence[Words]], rowids: Sequence[int]) -> list[list[bool]]:
        """Tell for each term, of any of some phrases, which rows hold it."""
        asked = np.array(rowids, dtype=np.int32)
        order = np.argsort(asked)
        ascending = asked[order]
        answer: list[list[bool]] = []
        for phrases in terms:
            held = np.zeros(len(asked), dtype=np.bool_)
            for words in phrases:
                held[order] |= self._reader.get(words).counts_of(ascending) > 0
            answer.append(held.tolist())
        return answer

    def _weighted(self, words: Words) -> _Weighted:
        reader = self._reader
        postings = reader.get(words)
        holding = float(len(postings.rows))
        idf = math.log((reader.rows - holding + 0.5) / (holding + 0.5))
        idf = idf if idf > 0.0 else _LEAST_IDF
        most = float(postings.most)
        least = _K1 * (1.0 - _B + _B * reader.shortest / self._average)
        bound = idf * (most * (_K1 + 1.0)) / (most + least)
        return _Weighted(postings, idf, bound)

    def _candidates(
        self, ordered: Sequence[_Weighted], limit: int, allowed: AllowedRows | None
    ) -> Rows:
        """The rows of the `limit` best scores, and those that rounding may hide, ascending."""
        inside = None
        if allowed is not None:
            inside = np.zeros(len(self._scores), dtype=np.bool_)
            inside[allowed.rowids[allowed.rowids < len(inside)]] = True
        slack = _SLACK * (_SHARE_OPERATIONS + len(ordered)) * sum(one.bound for one in ordered)
        rows, reached, added = self._added_up(ordered, limit, inside, slack)
        for place in range(added, len(ordered)):
            left = sum(one.bound for one in ordered[place:])
            kept = np.flatnonzero(reached >= _in_place(reached, limit) - left - slack)
            rows, one = rows[kept], ordered[place]
            reached = reached[kept]
            reached += one.estimates(self._counts(one.postings, rows), self._lengthening[rows])
        best = rows[np.flatnonzero(reached >= _in_place(reached, limit) - slack)]
        return np.sort(best.astype(np.int32))

    def _counts(self, postings: Postings, rows: Places) -> Counts | Estimates:
        """How often each row holds a phrase: looked up, or by way of an array of all rows."""
        if len(postings.rows) > _SPREAD_UP_TO * len(rows):
            return postings.counts_of(rows.astype(np.int32))
        places = postings.rows.astype(np.intp)
        self._scores[places] = postings.counts
        counts = self._scores[rows]
        self._scores[places] = 0.0
        return counts

    def _added_up(
        self,
        ordered: Sequence[_Weighted],
        limit: int,
        inside: NDArray[np.bool_] | None,
        slack: float,
    ) -> tuple[Places, Estimates, int]:
        """Add up the first phrases: rows, their scores so far, and how many phrases that were."""
        scores, added = self._scores, 0
        found: list[Places] = [np.empty(0, dtype=np.intp)]
        try:
            for one in ordered:
                if added and _are_enough(ordered, added, found, scores, limit, slack):
                    break
                rows, counts = one.postings.rows.astype(np.intp), one.postings.counts
                if inside is not None:
                    kept = np.flatnonzero(inside[rows])
                    rows, counts = rows[kept], counts[kept]
                before = scores[rows]
                # A share is never zero, so that a row without a score is a new one.
                found.append(rows[before == 0.0])
                before += one.estimates(counts, self._lengthening[rows])
                scores[rows] = before
                added += 1
            every = np.concatenate(found)
            return every, scores[every], added
        finally:
            for part in found:
                scores[part] = 0.0


def _lengthening(lengths: NDArray[Any], average: float) -> NDArray[Any]:
    """What rows of such lengths need more of a phrase to get as much from it."""
    return _K1 * (1.0 - _B + _B * lengths / average)


def _are_enough(
    ordered: Sequence[_Weighted],
    added: int,
    found: Sequence[Places],
    scores: Estimates,
    limit: int,
    slack: float,
) -> bool:
    """Whether no row that holds none of the first phrases can be among the best."""
    left = sum(one.bound for one in ordered[added:])
    entries = sum(len(one.postings.rows) for one in ordered[added:])
    if entries < LOOKED_UP_FROM or left >= sum(one.bound for one in ordered[:added]):
        return False
    if sum(map(len, found)) < limit:
        return False
    reached = np.concatenate([scores[part] for part in found])
    return bool(_in_place(reached, limit) > left + slack)


def _in_place(scores: Estimates, limit: int) -> float:
    """The score in place `limit`, best first; minus infinity where there are no more than that."""
    if len(scores) <= limit:
        return -math.inf
    place = len(scores) - limit
    return float(np.partition(scores, place)[place])

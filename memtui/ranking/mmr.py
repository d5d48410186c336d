"""Maximal marginal relevance (Carbonell & Goldstein 1998) over the words of the snippets.

As OpenClaw's `mmr.ts`: similarity is the Jaccard index of token sets, relevance is the score
scaled over the list. The token overlap of a pool does not depend on any parameter, so it is
computed once per pool and every later re-rank is a few vector operations.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, TypeAlias

from memtui.model import Chunk

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Matrix: TypeAlias = "NDArray[np.float64]"

SNIPPET_UNITS = 700
_TEXTS_KEPT = 1024
"""Every snippet of a few pools, which a re-rank asks for again: at most some 9 MB, of 9 KB each."""

_WORD = re.compile(r"[a-z0-9_]+")
_CJK = "\u3040-\u309f\u30a0-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\u1100-\u11ff"


def snippet_text(chunk: Chunk) -> str:
    """The text that is compared: the given snippet, else the first 700 UTF-16 units of the text."""
    if chunk.snippet is not None:
        return chunk.snippet
    head = chunk.text[:SNIPPET_UNITS]
    if head.isascii() or max(head) < "\U00010000":
        return head
    units = 0
    for index, character in enumerate(head):
        units += 2 if character > "\uffff" else 1
        if units > SNIPPET_UNITS:
            return head[:index]
    return head


@lru_cache(maxsize=_TEXTS_KEPT)
def tokenize(text: str) -> frozenset[str]:
    """Lower-case `[a-z0-9_]+` words, and for CJK every character and every adjacent pair."""
    lower = text.lower()
    tokens = set(_WORD.findall(lower))
    if not lower.isascii():
        for run in _cjk_run().findall(lower):
            tokens.update(run)
            tokens.update(run[i : i + 2] for i in range(len(run) - 1))
    return frozenset(tokens)


@cache
def _cjk_run() -> re.Pattern[str]:
    # Compiled for the first text that may hold one: so large a set takes a millisecond.
    return re.compile(f"[{_CJK}]+")


def jaccard(a: frozenset[str] | set[str], b: frozenset[str] | set[str]) -> float:
    """|a & b| / |a | b|, 0 to 1; two empty sets give 1, one empty set gives 0."""
    if not a and not b:
        return 1.0
    if not a or not b:
        return 0.0
    shared = len(a & b)
    return shared / (len(a) + len(b) - shared)


def similarity(a: str, b: str, empty: str = "one") -> float:
    """Jaccard of two texts; `empty` says what two texts without tokens are (`one` or `text`)."""
    first, second = tokenize(a), tokenize(b)
    if first or second or empty == "one":
        return jaccard(first, second)
    return 1.0 if a.strip().lower() == b.strip().lower() else 0.0


def mmr_score(relevance: float, max_similarity: float, lambda_: float) -> float:
    """lambda * relevance - (1 - lambda) * max_similarity."""
    return lambda_ * relevance - (1 - lambda_) * max_similarity


def similarity_matrix(chunks: Sequence[Chunk], empty: str) -> Matrix:
    """Jaccard of every pair: float64 (n, n)."""
    import numpy as np

    texts = [snippet_text(chunk) for chunk in chunks]
    sets = [tokenize(text) for text in texts]
    sizes = np.array([len(tokens) for tokens in sets], dtype=np.float64)
    shared = _shared_counts(sets)
    np.fill_diagonal(shared, sizes)
    union = sizes[:, None] + sizes[None, :] - shared
    matrix = np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
    _fill_empty(matrix, [i for i, tokens in enumerate(sets) if not tokens], texts, empty)
    return matrix


def _shared_counts(sets: Sequence[frozenset[str]]) -> Matrix:
    """How many tokens each pair has in common: float64 (n, n); the diagonal has no meaning."""
    import numpy as np

    counts: Counter[str] = Counter()
    for tokens in sets:
        counts.update(tokens)
    # Most tokens occur in one text only, and those no pair has in common.
    common = [token for token, count in counts.items() if count > 1]
    columns = dict(zip(common, range(len(common)), strict=True))
    incidence = np.zeros((len(sets), max(1, len(columns))), dtype=np.float32)
    for row, tokens in enumerate(sets):
        incidence[row, [columns[token] for token in tokens if token in columns]] = 1.0
    # Counts stay far below 2^24, so single precision holds them exactly.
    shared: Matrix = (incidence @ incidence.T).astype(np.float64)
    return shared


def _fill_empty(
    matrix: Matrix,
    rows: list[int],
    texts: list[str],
    empty: str,
) -> None:
    keys = {row: "" if empty == "one" else texts[row].strip().lower() for row in rows}
    for first in rows:
        for second in rows:
            matrix[first, second] = 1.0 if keys[first] == keys[second] else 0.0


@dataclass(frozen=True, slots=True)
class Selection:
    """The order that MMR chose, and for each row what it was most similar to when chosen."""

    order: list[int]
    relevance: list[float]
    max_similarity: list[float]
    """The greatest similarity to a row that was chosen before; 0 for the first."""
    matrix: Matrix

    def twin(self, row: int) -> int:
        """The most similar row that was chosen before, of equals the one chosen first; else -1."""
        nearest = self.max_similarity[row]
        if nearest <= 0:
            return -1
        before = self.order[: self.order.index(row)]
        return before[int((self.matrix[row, before] == nearest).argmax())]


def select(
    scores: Sequence[float],
    matrix: Matrix,
    lambda_: float,
) -> Selection:
    """Order all rows greedily by MMR; `scores` come best first, ties go to the earlier row.

    Relevance is (score - min) / (max - min), 1 for all when flat. Nothing is ever dropped.
    """
    import numpy as np

    n = len(scores)
    lambda_ = min(1.0, max(0.0, lambda_))
    values = np.asarray(scores, dtype=np.float64)
    low, high = float(values.min()), float(values.max())
    span = high - low
    relevance = (values - low) / span if span > 0 else np.ones(n)
    # What each row would score if it stood beside each other row, and its distance from that row
    # as minus the similarity: of both the least over the rows that were chosen counts.
    beside = np.empty((n, 2, n))
    marginal = lambda_ * relevance
    np.multiply(matrix, 1 - lambda_, out=beside[:, 0])
    np.subtract(marginal, beside[:, 0], out=beside[:, 0])
    np.negative(matrix, out=beside[:, 1])
    # A row that was chosen stands beside itself: that takes it out.
    np.einsum("iji->ij", beside)[:, 0] = -np.inf
    order, nearest = _greedy(np.stack([marginal, np.zeros(n)]), beside)
    return Selection(order, relevance.tolist(), nearest, matrix)


def _greedy(least: Matrix, beside: Matrix) -> tuple[list[int], list[float]]:
    """Take the best row again and again, each time with what it leaves of the others.

    `least` is float64 (2, n), `beside` float64 (n, 2, n): MMR values, and minus the similarities.
    """
    import numpy as np

    best, distance, minimum, rows = least[0].argmax, least[1].item, np.minimum, list(beside)
    order: list[int] = []
    nearest = [0.0] * len(rows)
    for _ in range(len(rows)):
        chosen = int(best())
        order.append(chosen)
        nearest[chosen] = 0.0 - distance(chosen)
        minimum(least, rows[chosen], out=least)
    return order, nearest

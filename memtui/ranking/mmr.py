"""Maximal marginal relevance (Carbonell & Goldstein 1998) over the words of the snippets.

As OpenClaw's `mmr.ts`: similarity is the Jaccard index of token sets, relevance is the score
scaled over the list. The token overlap of a pool does not depend on any parameter, so it is
computed once per pool and every later re-rank is a few vector operations.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from memtui.model import Chunk, Numbers, Operation, Reason, Stage
from memtui.ranking.exact import tier_groups
from memtui.ranking.stage_state import StageState, Step

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
        # Compiled for the first text that may hold one: so large a set takes a millisecond.
        for run in re.findall(f"[{_CJK}]+", lower):
            tokens.update(run)
            tokens.update(run[i : i + 2] for i in range(len(run) - 1))
    return frozenset(tokens)


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
    """Return the Jaccard index of every pair: float64 (n, n)."""
    import numpy as np

    texts = [snippet_text(chunk) for chunk in chunks]
    sets = [tokenize(text) for text in texts]
    counts = Counter(token for tokens in sets for token in tokens)
    # Most tokens occur in one text only, and those no pair has in common.
    common = [token for token, count in counts.items() if count > 1]
    columns = dict(zip(common, range(len(common)), strict=True))
    incidence = np.zeros((len(sets), max(1, len(columns))), dtype=np.float32)
    for row, tokens in enumerate(sets):
        incidence[row, [columns[token] for token in tokens if token in columns]] = 1.0
    # Counts stay far below 2^24, so single precision holds them exactly.
    shared: Matrix = (incidence @ incidence.T).astype(np.float64)
    sizes = np.array([len(tokens) for tokens in sets], dtype=np.float64)
    np.fill_diagonal(shared, sizes)
    union = sizes[:, None] + sizes[None, :] - shared
    matrix = np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
    keys = {
        row: "" if empty == "one" else texts[row].strip().lower()
        for row, tokens in enumerate(sets)
        if not tokens
    }
    for first in keys:
        for second in keys:
            matrix[first, second] = 1.0 if keys[first] == keys[second] else 0.0
    return matrix


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
    # Float64 (2, n): MMR values, and minus the similarities. The best row is taken again and
    # again, each time with what it leaves of the others.
    least = np.stack([marginal, np.zeros(n)])
    best, distance, rows = least[0].argmax, least[1].item, list(beside)
    order: list[int] = []
    nearest = [0.0] * n
    for _ in range(n):
        chosen = int(best())
        order.append(chosen)
        nearest[chosen] = 0.0 - distance(chosen)
        np.minimum(least, rows[chosen], out=least)
    return Selection(order, relevance.tolist(), nearest, matrix)


def mmr_stage(state: StageState) -> Step | None:
    """Reorder by MMR; the effective score is the score less the redundancy in the same unit.

    With span = max - min of the scores, lambda * relevance - (1 - lambda) * similarity orders as
    score - ((1 - lambda) / lambda) * span * similarity does (both divided by lambda and scaled
    back). At lambda 0 (below a millionth) there is no such unit: the effective score is minus the
    similarity.
    """
    setting = state.ranking.mmr
    if not setting.enabled or not state.order:
        return None
    groups = tier_groups(state)
    if len(groups) == 1:
        return _diversify(state, state.sorted_by(state.scores))
    return _join([_diversify(state, group) for group in groups if group])


def _diversify(state: StageState, order: Sequence[int]) -> Step:
    """Reorder one group; `order` comes best first."""
    lambda_ = min(1.0, max(0.0, state.ranking.mmr.lambda_))
    ordered_scores = [state.scores[index] for index in order]
    chosen = select(ordered_scores, overlap_matrix(state, order), lambda_)
    span = (ordered_scores[0] - ordered_scores[-1]) or 1.0
    has_unit = lambda_ >= 1e-6
    penalty = ((1 - lambda_) / lambda_) * span if has_unit else -1.0
    effective = list(state.scores)
    operands: list[float | None] = [None] * len(state.rows)
    place = {index: position for position, index in enumerate(order)}
    for index, position in place.items():
        similarity = chosen.max_similarity[position]
        operand = penalty * similarity
        operands[index] = operand
        effective[index] = state.scores[index] - operand if has_unit else operand

    def describe(index: int) -> tuple[Reason, Numbers]:
        position = place[index]
        twin = chosen.twin(position)
        similarity, relevance = chosen.max_similarity[position], chosen.relevance[position]
        if twin < 0:
            reason = Reason.FIRST if chosen.order[0] == position else Reason.OK
        else:
            reason = Reason.REDUNDANT
        return reason, {
            "lambda": lambda_,
            "relevance": relevance,
            "max_similarity": similarity,
            "mmr": mmr_score(relevance, similarity, lambda_),
            "span": span,
            "similar_to": state.rows[order[twin]].chunk.id if twin >= 0 else None,
        }

    return Step(
        Stage.MMR,
        Operation.SUBTRACT if has_unit else Operation.REPLACE,
        effective,
        [order[position] for position in chosen.order],
        operands=operands,
        describe=describe,
        numbers={"lambda": lambda_, "span": span},
        is_score=False,
    )


def _join(steps: Sequence[Step]) -> Step:
    """One step of the groups' steps, in their order; each candidate is told by its own group."""
    owner = {index: step for step in steps for index in step.order}
    scores = list(steps[0].scores)
    operands: list[float | None] = [None] * len(scores)
    for index, step in owner.items():
        scores[index] = step.scores[index]
        operands[index] = step.operands[index] if step.operands is not None else None

    def describe(index: int) -> tuple[Reason, Numbers]:
        return owner[index].describe(index)

    order = [index for step in steps for index in step.order]
    return replace(steps[-1], scores=scores, order=order, operands=operands, describe=describe)


def overlap_matrix(state: StageState, order: Sequence[int]) -> Matrix:
    """The similarity matrix of these rows, cut out of the pool's own matrix; not to be changed.

    The last one is kept with the pool: MMR on and off, or another lambda, leaves the order.
    """
    empty = state.ranking.mmr.empty_similarity
    key = f"overlap:{empty}"
    cached = state.pool.derived.get(key)
    if cached is None:
        ids = tuple(state.pool.chunks)
        places = {chunk_id: place for place, chunk_id in enumerate(ids)}
        matrix = similarity_matrix([state.pool.chunks[i] for i in ids], empty)
        cached = state.pool.derived[key] = (places, matrix)
    places, matrix = cached
    wanted = [places[state.rows[index].chunk.id] for index in order]
    kept: tuple[list[int] | None, Matrix]
    kept = state.pool.derived.get(f"{key}, cut", (None, matrix))
    if kept[0] != wanted:
        kept = wanted, matrix.take(wanted, axis=0).take(wanted, axis=1)
        state.pool.derived[f"{key}, cut"] = kept
    return kept[1]

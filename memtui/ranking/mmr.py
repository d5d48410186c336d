"""Maximal marginal relevance (Carbonell & Goldstein 1998) over the words of the snippets.

As OpenClaw's `mmr.ts`: similarity is the Jaccard index of token sets, relevance is the score
scaled over the list. The token overlap of some texts does not depend on any parameter, so it is
computed once and every later re-rank is a few vector operations.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from memtui.model import Chunk, Operation, Reason
from memtui.ranking.stages import Described, StageState, Step, tier_groups

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


Matrix: TypeAlias = "NDArray[np.float64]"

SNIPPET_UNITS = 700
_TEXTS_KEPT = 1024
"""Every snippet of a few pools, which a re-rank asks for again: at most some 9 MB, of 9 KB each."""

_WORD = re.compile(r"[a-z0-9_]+")
_CJK = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\u1100-\u11ff]+")


def snippet_text(chunk: Chunk) -> str:
    """Return the text that is compared: the given snippet, else the first 700 UTF-16 units."""
    if chunk.snippet is not None:
        return chunk.snippet
    units = chunk.text[:SNIPPET_UNITS].encode("utf-16-le", "replace")[: 2 * SNIPPET_UNITS]
    return units.decode("utf-16-le", "ignore")


@lru_cache(maxsize=_TEXTS_KEPT)
def tokenize(text: str) -> frozenset[str]:
    """Lower-case `[a-z0-9_]+` words, and for CJK every character and every adjacent pair."""
    lower = text.lower()
    tokens = set(_WORD.findall(lower))
    for run in _CJK.findall(lower):
        tokens.update(run)
        tokens.update(run[i : i + 2] for i in range(len(run) - 1))
    return frozenset(tokens)


@lru_cache(maxsize=2)
def similarity_matrix(texts: tuple[str, ...], empty: str) -> Matrix:
    """Return the Jaccard index |a & b| / |a | b| of every pair: float64 (n, n).

    Two texts without tokens: 1 where `empty` is `one`, 1 where they are equal where it is `text`.
    """
    import numpy as np

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


class Selection(Struct, frozen=True):
    """The order that MMR chose, and for each row what it was most similar to when chosen."""

    order: list[int]
    relevance: list[float]
    max_similarity: list[float]
    """The greatest similarity to a row that was chosen before; 0 for the first."""
    twins: list[int]
    """The row of that similarity, of equals the one chosen first; -1 for none."""


def select(scores: Sequence[float], matrix: Matrix, lambda_: float) -> Selection:
    """Order all rows greedily by MMR; `scores` come best first, ties go to the earlier row.

    Relevance is (score - min) / (max - min), 1 for all when flat. Nothing is ever dropped.
    """
    import numpy as np

    n = len(scores)
    values = np.asarray(scores, dtype=np.float64)
    span = values.max() - values.min()
    relevance = (values - values.min()) / span if span > 0 else np.ones(n)
    marginal = lambda_ * relevance
    # What each row would score if it stood beside each other row: the least counts. A row that
    # was chosen stands beside itself, which takes it out.
    beside = marginal - (1 - lambda_) * matrix
    np.fill_diagonal(beside, -np.inf)
    rows, order = list(beside), []
    for _ in range(n):
        order.append(int(marginal.argmax()))
        np.minimum(marginal, rows[order[-1]], out=marginal)
    # Row i: the similarities of the i-th choice to those before it.
    before = np.tril(matrix.take(order, axis=0).take(order, axis=1), -1)
    nearest, twins = [0.0] * n, [-1] * n
    first = before.argmax(axis=1)
    for place, (row, similarity) in enumerate(zip(order, before.max(axis=1).tolist(), strict=True)):
        nearest[row] = similarity
        if similarity > 0:
            twins[row] = order[first[place]]
    return Selection(order, relevance.tolist(), nearest, twins)


def mmr_stage(state: StageState) -> Step | None:
    """Reorder by MMR; the effective score is the score less the redundancy in the same unit.

    With span = max - min of the scores, lambda * relevance - (1 - lambda) * similarity orders as
    score - ((1 - lambda) / lambda) * span * similarity does (both divided by lambda and scaled
    back). At lambda 0 (below a millionth) there is no such unit: the effective score is minus the
    similarity. Tiers of exact names are reordered each by itself.
    """
    if not state.order:
        return None
    groups = tier_groups(state)
    if len(groups) == 1:
        groups = [state.sorted_by(state.scores)]
    lambda_ = min(1.0, max(0.0, state.ranking.mmr.lambda_))
    has_unit = lambda_ >= 1e-6
    effective = list(state.scores)
    operands: list[float | None] = [None] * len(state.rows)
    order: list[int] = []
    described: dict[int, Described] = {}
    span = 1.0
    for group in filter(None, groups):
        scores = [state.scores[index] for index in group]
        chosen = select(scores, overlap_matrix(state, group), lambda_)
        span = (scores[0] - scores[-1]) or 1.0
        penalty = ((1 - lambda_) / lambda_) * span if has_unit else -1.0
        for position, index in enumerate(group):
            twin, similarity = chosen.twins[position], chosen.max_similarity[position]
            relevance = chosen.relevance[position]
            operand = operands[index] = penalty * similarity
            effective[index] = state.scores[index] - operand if has_unit else operand
            reason = Reason.FIRST if chosen.order[0] == position else Reason.OK
            described[index] = (
                Reason.REDUNDANT if twin >= 0 else reason,
                {
                    "lambda": lambda_,
                    "relevance": relevance,
                    "max_similarity": similarity,
                    "mmr": lambda_ * relevance - (1 - lambda_) * similarity,
                    "span": span,
                    "similar_to": state.rows[group[twin]].chunk.id if twin >= 0 else None,
                },
            )
        order += [group[position] for position in chosen.order]
    return Step(
        Operation.SUBTRACT if has_unit else Operation.REPLACE,
        effective,
        order,
        operands,
        described=described,
        numbers={"lambda": lambda_, "span": span},
        is_score=False,
    )


def overlap_matrix(state: StageState, order: Sequence[int]) -> Matrix:
    """Return the similarity matrix of these rows, cut out of that of the pool."""
    chunks = state.pool.chunks
    places = {chunk_id: place for place, chunk_id in enumerate(chunks)}
    texts = tuple(map(snippet_text, chunks.values()))
    matrix = similarity_matrix(texts, state.ranking.mmr.empty_similarity)
    rows = [places[state.rows[index].chunk.id] for index in order]
    cut: Matrix = matrix.take(rows, axis=0).take(rows, axis=1)
    return cut

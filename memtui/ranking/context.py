"""The score of a chunk by its best passage: the sum of what its features and neighbours weigh.

score = sum of w_i * f_i over `FEATURES`, each f_i from 0 to 1 and each w_i a constant of
`data/context.toml` or of the profile. A plain sum, so that every share can be shown, and what a
weight changes can be solved for. The constants are rounded to quarters; `tests/bench/fit.py` gives
them from conversations and articles with known answers. The features of a passage are measured when
the pool is fetched (`memtui.retrieval.features`): changing a weight needs no I/O.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import mul
from typing import Final

from memtui.data import read_table
from memtui.model import (
    FEATURES,
    CandidatePool,
    Drop,
    Evidence,
    Hit,
    Numbers,
    Operation,
    PassageFeatures,
    Ranking,
    Reason,
    Stage,
)
from memtui.ranking.stages import Described, StageState, Step

_WEIGHTS: Final = read_table("context.toml")


def context_weights(ranking: Ranking, evidence: Evidence) -> tuple[float, ...]:
    """Return the weight of each of `FEATURES` for what an index holds."""
    constants, chosen = _WEIGHTS[evidence], ranking.context
    return tuple(
        constants.get(name, 0.0) if (weight := getattr(chosen, name)) is None else weight
        for name in FEATURES
    )


def passage_score(passage: PassageFeatures, weights: Sequence[float]) -> float:
    """Add up the shares of a passage in the order of `FEATURES`."""
    score = 0.0
    for share in map(mul, weights, passage.values):
        score += share
    return score


def ranked_passages(
    pool: CandidatePool, ranking: Ranking, chunk_id: str
) -> list[tuple[float, PassageFeatures]]:
    """Return the passages of a chunk with their scores, best first, equal ones as they stand."""
    weights = context_weights(ranking, pool.evidence)
    scored = [(passage_score(one, weights), one) for one in pool.passages.get(chunk_id, ())]
    return sorted(scored, key=lambda item: -item[0])


def context_stage(state: StageState) -> Step | None:
    """Score each chunk by its best passage, and sort; `None` where the index keeps no passages."""
    pool = state.pool
    if not pool.passages:
        return None
    weights = context_weights(state.ranking, pool.evidence)
    scores: list[float] = []
    described: dict[int, Described] = {}
    for index, row in enumerate(state.rows):
        passages = pool.passages.get(row.chunk.id, ())
        each = [passage_score(passage, weights) for passage in passages]
        scores.append(max(each, default=0.0))
        if passages:
            best = passages[each.index(scores[-1])]
            shares = zip(FEATURES, map(mul, weights, best.values), weights, strict=True)
            parts = {name: share for name, share, weight in shares if weight}
            described[index] = Reason.OK, {"start": best.start, "end": best.end, **parts}
    used = {name: weight for name, weight in zip(FEATURES, weights, strict=True) if weight}
    numbers: Numbers = {"evidence": str(pool.evidence), **used}
    order = state.sorted_by(scores)
    return Step(Operation.SUM, scores, order, described=described, numbers=numbers)


def best_passage(scored: Hit | Drop) -> tuple[int, int] | None:
    """Return the characters of the passage that a candidate scores by; `None` without context."""
    for stage in scored.stages:
        if stage.stage is Stage.CONTEXT and "start" in stage.numbers:
            return int(str(stage.numbers["start"])), int(str(stage.numbers["end"]))
    return None

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

from msgspec.structs import replace

from memtui import model
from memtui.data import read_table
from memtui.ranking.stages import Described, StageState, Step

_WEIGHTS: Final = read_table("context.toml")


def context_weights(ranking: model.Ranking, evidence: model.Evidence) -> tuple[float, ...]:
    """Return the weight of each of `FEATURES` for what an index holds."""
    constants, chosen = _WEIGHTS[evidence], ranking.context
    return tuple(
        constants.get(name, 0.0) if (weight := getattr(chosen, name)) is None else weight
        for name in model.FEATURES
    )


def with_weights(ranking: model.Ranking, evidence: model.Evidence) -> model.Ranking:
    """Return the same ranking with a number for each weight that is left to what an index holds."""
    weights = dict(zip(model.FEATURES, context_weights(ranking, evidence), strict=True))
    return replace(ranking, context=replace(ranking.context, **weights))


def passage_score(fused: float, passage: model.PassageFeatures, weights: Sequence[float]) -> float:
    """Add up the shares of a passage of a chunk in the order of `FEATURES`."""
    score = weights[0] * fused
    for share in map(mul, weights[1:], passage.values):
        score += share
    return score


def ranked_passages(
    ranked: model.Ranked, scored: model.Hit | model.Drop
) -> list[tuple[float, model.PassageFeatures]]:
    """Return the passages of a candidate with their scores, best first, equal ones as they stand.

    `scored` went through fusion.
    """
    weights, fused = context_weights(ranked.ranking, ranked.pool.evidence), scored.stages[0].after
    passages = ranked.pool.passages.get(scored.chunk.id, ())
    each = [(passage_score(fused, passage, weights), passage) for passage in passages]
    return sorted(each, key=lambda item: -item[0])


def context_stage(state: StageState) -> Step | None:
    """Score each chunk by its best passage, and sort; `None` where the index keeps no passages."""
    pool = state.pool
    if not pool.passages:
        return None
    weights = context_weights(state.ranking, pool.evidence)
    scores: list[float] = []
    described: dict[int, Described] = {}
    for index, (row, fused) in enumerate(zip(state.rows, state.scores, strict=True)):
        passages = pool.passages.get(row.chunk.id, ())
        each = [passage_score(fused, passage, weights) for passage in passages]
        scores.append(max(each, default=weights[0] * fused))
        parts: dict[str, float | int] = {model.FEATURES[0]: weights[0] * fused}
        if passages:
            best = passages[each.index(scores[-1])]
            shares = zip(
                model.FEATURES[1:], map(mul, weights[1:], best.values), weights[1:], strict=True
            )
            parts |= {name: share for name, share, weight in shares if weight}
            parts |= {"start": best.start, "end": best.end}
        described[index] = model.Reason.OK, parts
    used = {name: weight for name, weight in zip(model.FEATURES, weights, strict=True) if weight}
    numbers: model.Numbers = {"evidence": str(pool.evidence), **used}
    order = state.sorted_by(scores)
    return Step(model.Operation.SUM, scores, order, described=described, numbers=numbers)

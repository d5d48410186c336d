"""The ranking pipeline: a pure function from a candidate pool and a ranking to a traced list.

Every stage looks at the standing (scores and order so far) and returns a `Step`: what it did to
each candidate, in columns. Results and near misses are built from those columns, so the numbers
that are shown are the numbers that ranked. A new stage is one function in `STAGES`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from memtui.model import (
    CandidatePool,
    Numbers,
    Operation,
    Ranked,
    Ranking,
    Reason,
    Stage,
    Trace,
)
from memtui.ranking import decay, mmr, rerank
from memtui.ranking.fusion import FusedRow, fuse
from memtui.ranking.minimum import RULES
from memtui.ranking.record import Record, Step, assemble


@dataclass(frozen=True, slots=True)
class Standing:
    """Where every candidate stands before a stage; `order` holds the survivors, best first."""

    pool: CandidatePool
    ranking: Ranking
    now: datetime
    rows: Sequence[FusedRow]
    scores: Sequence[float]
    order: Sequence[int]


StageFunction = Callable[[Standing], Step | None]
"""Returns `None` when the stage is off."""


def by_score(scores: Sequence[float], order: Sequence[int]) -> list[int]:
    """Sort by score, best first; ties keep their order."""
    return sorted(order, key=scores.__getitem__, reverse=True)


def fusion_stage(standing: Standing) -> Step:
    """Sort the fused candidates."""
    return Step(
        Stage.FUSION,
        Operation.SUM,
        standing.scores,
        by_score(standing.scores, standing.order),
        numbers={"method": str(standing.ranking.fusion)},
    )


def boost_stage(standing: Standing) -> Step | None:
    """Multiply by what the profile makes of importance and project."""
    ranking = standing.ranking
    if not ranking.importance_multiplier and not ranking.project_keys:
        return None
    factors = [rerank.boost(row.chunk, ranking) for row in standing.rows]
    return _multiply(Stage.BOOST, standing, factors, lambda index: (Reason.OK, {}))


def decay_stage(standing: Standing) -> Step | None:
    """Multiply by the decay factor of the chunk's age; evergreen chunks keep their score."""
    setting = standing.ranking.decay
    if not setting.enabled:
        return None
    dates = _dates(standing)
    ages = [None if day is None else decay.age_in_days(day, standing.now) for day, _ in dates]
    factors = decay.decay_factors(ages, setting.half_life_days, setting.floor)

    def describe(index: int) -> tuple[Reason, Numbers]:
        day, source = dates[index]
        return source, {
            "age_days": ages[index],
            "half_life_days": setting.half_life_days,
            "floor": setting.floor,
            "date": day.date().isoformat() if day else None,
        }

    return _multiply(Stage.DECAY, standing, factors, describe)


def rerank_stage(standing: Standing) -> Step | None:
    """Replace the score by the composite of relevance, recency and importance."""
    weights = standing.ranking.rerank
    if not weights.enabled:
        return None
    maximum = max((standing.scores[index] for index in standing.order), default=0.0)
    scores = list(standing.scores)
    parts: dict[int, tuple[float, float, Reason]] = {}
    dates = _dates(standing)
    for index in standing.order:
        day, source = dates[index]
        age = 0.0 if day is None else decay.age_in_days(day, standing.now)
        recency = rerank.recency(age, weights.recency_scale_days)
        known = standing.rows[index].chunk.importance
        importance = rerank.NEUTRAL_IMPORTANCE if known is None else known
        parts[index] = (recency, importance, source)
        scores[index] = rerank.composite(
            standing.scores[index], maximum, recency, importance, weights
        )

    def describe(index: int) -> tuple[Reason, Numbers]:
        recency, importance, source = parts[index]
        return source, {
            "maximum": maximum,
            "recency": recency,
            "importance": importance,
            "relevance_weight": weights.relevance,
            "recency_weight": weights.recency,
            "importance_weight": weights.importance,
        }

    order = by_score(scores, standing.order)
    return Step(Stage.RERANK, Operation.REPLACE, scores, order, operands=scores, describe=describe)


def dedup_stage(standing: Standing) -> Step | None:
    """Drop a chunk whose text equals that of a better one."""
    if not standing.ranking.dedup:
        return None
    first: dict[str, int] = {}
    kept: list[int] = []
    twins: dict[int, int] = {}
    for index in standing.order:
        original = first.setdefault(rerank.text_key(standing.rows[index].chunk.text), index)
        if original == index:
            kept.append(index)
        else:
            twins[index] = original

    def describe(index: int) -> tuple[Reason, Numbers]:
        if index not in twins:
            return Reason.OK, {}
        return Reason.DUPLICATE_TEXT, {"duplicate_of": standing.rows[twins[index]].chunk.id}

    return Step(
        Stage.DEDUP,
        Operation.KEEP,
        standing.scores,
        kept,
        dropped=tuple(twins),
        describe=describe,
    )


def min_score_stage(standing: Standing) -> Step | None:
    """Drop what scores below the minimum, by the rule of the profile."""
    minimum = standing.ranking.min_score
    if minimum is None:
        return None
    rule = RULES[standing.ranking.min_score_rule]
    kept, relaxed = rule(standing.order, standing.scores, standing.rows, standing.ranking, minimum)
    surviving = set(kept)
    dropped = tuple(index for index in standing.order if index not in surviving)

    def describe(index: int) -> tuple[Reason, Numbers]:
        if index not in surviving:
            return Reason.BELOW_MIN_SCORE, {"min_score": minimum}
        return (Reason.RELAXED if index in relaxed else Reason.OK), {"min_score": minimum}

    return Step(
        Stage.MIN_SCORE,
        Operation.KEEP,
        standing.scores,
        kept,
        dropped=dropped,
        describe=describe,
        numbers={"min_score": minimum},
    )


def mmr_stage(standing: Standing) -> Step | None:
    """Reorder by MMR; the effective score is the score less the redundancy in the same unit.

    With span = max - min of the scores, lambda * relevance - (1 - lambda) * similarity orders as
    score - ((1 - lambda) / lambda) * span * similarity does (both divided by lambda and scaled
    back). At lambda 0 (below a millionth) there is no such unit: the effective score is minus the
    similarity.
    """
    setting = standing.ranking.mmr
    if not setting.enabled or not standing.order:
        return None
    order = by_score(standing.scores, standing.order)
    lambda_ = min(1.0, max(0.0, setting.lambda_))
    ordered_scores = [standing.scores[index] for index in order]
    chosen = mmr.select(ordered_scores, _overlap(standing, order), lambda_)
    span = (ordered_scores[0] - ordered_scores[-1]) or 1.0
    has_unit = lambda_ >= 1e-6
    penalty = ((1 - lambda_) / lambda_) * span if has_unit else -1.0
    effective = list(standing.scores)
    operands: list[float | None] = [None] * len(standing.rows)
    place = {index: position for position, index in enumerate(order)}
    for index, position in place.items():
        similarity = chosen.max_similarity[position]
        operand = penalty * similarity
        operands[index] = operand
        effective[index] = standing.scores[index] - operand if has_unit else operand

    def describe(index: int) -> tuple[Reason, Numbers]:
        position = place[index]
        twin = chosen.similar_to[position]
        similarity, relevance = chosen.max_similarity[position], chosen.relevance[position]
        if twin < 0:
            reason = Reason.FIRST if chosen.order[0] == position else Reason.OK
        else:
            reason = Reason.REDUNDANT
        return reason, {
            "lambda": lambda_,
            "relevance": relevance,
            "max_similarity": similarity,
            "mmr": mmr.mmr_score(relevance, similarity, lambda_),
            "span": span,
            "similar_to": standing.rows[order[twin]].chunk.id if twin >= 0 else None,
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


def exact_path_stage(standing: Standing) -> Step | None:
    """Files that the query names come first, by tier, then content, then path (OpenClaw 2026.8).

    Their score becomes 1, times the project multiplier; content counts as 0.5 + 0.5 * score, cut
    to 0.5..1, so that what is only similar cannot outweigh the name.
    """
    rows = standing.rows
    exact = [index for index in standing.order if rows[index].path_tier > 0]
    if not exact:
        return None
    content = {index: 0.5 + 0.5 * min(1.0, max(0.0, standing.scores[index])) for index in exact}
    exact.sort(key=lambda i: (-rows[i].path_tier, -content[i], rows[i].chunk.path))
    scores = list(standing.scores)
    operands: list[float | None] = list(standing.scores)
    for index in exact:
        public = rerank.project_multiplier(
            rows[index].chunk.project_keys, standing.ranking.project_keys
        )
        scores[index] = operands[index] = public

    def describe(index: int) -> tuple[Reason, Numbers]:
        if index not in content:
            return Reason.OK, {}
        return Reason.EXACT_PATH, {"tier": rows[index].path_tier, "content": content[index]}

    others = [index for index in standing.order if index not in content]
    return Step(
        Stage.EXACT_PATH,
        Operation.REPLACE,
        scores,
        [*exact, *others],
        operands=operands,
        describe=describe,
    )


def cut_stage(standing: Standing) -> Step:
    """Keep the first k; none when k is not above 0."""
    k = max(0, standing.ranking.k)

    def describe(index: int) -> tuple[Reason, Numbers]:
        return (Reason.CUT_AT_K if index in beyond else Reason.OK), {"k": k}

    dropped = tuple(standing.order[k:])
    beyond = frozenset(dropped)
    return Step(
        Stage.CUT,
        Operation.KEEP,
        standing.scores,
        list(standing.order[:k]),
        dropped=dropped,
        describe=describe,
        numbers={"k": k},
    )


STAGES: Mapping[Stage, StageFunction] = {
    Stage.FUSION: fusion_stage,
    Stage.BOOST: boost_stage,
    Stage.DECAY: decay_stage,
    Stage.RERANK: rerank_stage,
    Stage.DEDUP: dedup_stage,
    Stage.MIN_SCORE: min_score_stage,
    Stage.MMR: mmr_stage,
    Stage.EXACT_PATH: exact_path_stage,
    Stage.CUT: cut_stage,
}


def rank(pool: CandidatePool, ranking: Ranking, *, now: datetime) -> Ranked:
    """Rank a pool: fuse its legs and run the stages of `ranking.stages`.

    Pure: the same arguments give the same list. `now` must be timezone-aware. Every chunk of the
    pool is either a hit or a drop with the stage and the reason that lost it.
    """
    rows, outside = fuse(pool, ranking)
    effective: Sequence[float] = [row.score for row in rows]
    scores = effective
    order: Sequence[int] = range(len(rows))
    steps: list[Step] = []
    for stage in ranking.stages:
        standing = Standing(pool, ranking, now, rows, scores, order)
        step = STAGES[stage](standing)
        if step is None:
            continue
        steps.append(step)
        order = step.order
        if step.is_score:
            scores = step.scores
    record = Record(pool, ranking, rows, tuple(steps), tuple(outside))
    hits, drops, stages = assemble(record)
    return Ranked(pool, ranking, hits, drops, Trace(pool.query, now, stages))


def _multiply(
    stage: Stage,
    standing: Standing,
    factors: Sequence[float],
    describe: Callable[[int], tuple[Reason, Numbers]],
) -> Step:
    scores = [score * factor for score, factor in zip(standing.scores, factors, strict=True)]
    order = by_score(scores, standing.order)
    return Step(stage, Operation.MULTIPLY, scores, order, operands=factors, describe=describe)


def _dates(standing: Standing) -> list[tuple[datetime | None, Reason]]:
    rule = standing.ranking.decay.dates
    known = standing.pool.derived.setdefault(f"dates:{rule}", {})
    dates: list[tuple[datetime | None, Reason]] = []
    for row in standing.rows:
        found = known.get(row.chunk.id)
        if found is None:
            found = known[row.chunk.id] = decay.chunk_day(row.chunk, rule)
        dates.append(found)
    return dates


def _overlap(standing: Standing, order: Sequence[int]) -> mmr.Matrix:
    """The similarity matrix of these rows, cut out of the pool's own matrix."""
    empty = standing.ranking.mmr.empty_similarity
    key = f"overlap:{empty}"
    ids = tuple(standing.pool.chunks)
    cached = standing.pool.derived.get(key)
    if cached is None:
        places = {chunk_id: place for place, chunk_id in enumerate(ids)}
        matrix = mmr.similarity_matrix([standing.pool.chunks[i] for i in ids], empty)
        cached = standing.pool.derived[key] = (places, matrix)
    import numpy as np

    places, matrix = cached
    wanted = np.array([places[standing.rows[index].chunk.id] for index in order])
    cut: mmr.Matrix = matrix.take(wanted, axis=0).take(wanted, axis=1)
    return cut

"""The stages that every profile may use: each looks at the standing and returns a step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from memtui.model import Numbers, Operation, Reason, Stage
from memtui.ranking import decay, rerank
from memtui.ranking.minimum import RULES
from memtui.ranking.record import Step
from memtui.ranking.stage_state import Standing


def fusion_stage(standing: Standing) -> Step:
    """Sort the fused candidates."""
    return Step(
        Stage.FUSION,
        Operation.SUM,
        standing.scores,
        standing.sorted_by(standing.scores),
        numbers={"method": str(standing.ranking.fusion)},
    )


def decay_stage(standing: Standing) -> Step | None:
    """Multiply by the decay factor of the chunk's age; evergreen chunks keep their score."""
    setting = standing.ranking.decay
    if not setting.enabled:
        return None
    dates = dates_of(standing)
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

    return multiply(Stage.DECAY, standing, factors, describe)


def importance_stage(standing: Standing) -> Step | None:
    """Multiply by what the profile makes of a note's importance."""
    if not standing.ranking.importance_multiplier:
        return None
    factors = [rerank.importance_multiplier(row.chunk.importance) for row in standing.rows]
    if all(factor == 1.0 for factor in factors):
        return None
    return multiply(Stage.IMPORTANCE, standing, factors, lambda index: (Reason.OK, {}))


def project_stage(standing: Standing) -> Step | None:
    """Multiply by what the profile makes of a note's projects; an invalid project is left out."""
    if not standing.ranking.importance_multiplier and not standing.ranking.project_keys:
        return None
    active = standing.ranking.project_keys
    factors = [rerank.project_multiplier(row.chunk.project_keys, active) for row in standing.rows]
    lost = tuple(
        index
        for index in standing.order
        if rerank.INVALID_PROJECT in standing.rows[index].chunk.project_keys
    )
    if not lost and all(factor == 1.0 for factor in factors):
        return None
    step = multiply(Stage.PROJECT, standing, factors, lambda index: (Reason.OK, {}))
    if not lost:
        return step
    gone = frozenset(lost)

    def describe(index: int) -> tuple[Reason, Numbers]:
        return (Reason.OTHER_PROJECT if index in gone else Reason.OK), {}

    kept = [index for index in step.order if index not in gone]
    return replace(step, order=kept, dropped=lost, describe=describe)


def rerank_stage(standing: Standing) -> Step | None:
    """Replace the score by the composite of relevance, recency and importance."""
    weights = standing.ranking.rerank
    if not weights.enabled:
        return None
    maximum = max((standing.scores[index] for index in standing.order), default=0.0)
    scores = list(standing.scores)
    parts: dict[int, tuple[float, float, Reason]] = {}
    dates = dates_of(standing)
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

    order = standing.sorted_by(scores)
    return Step(Stage.RERANK, Operation.REPLACE, scores, order, operands=scores, describe=describe)


def dedup_stage(standing: Standing) -> Step | None:
    """Drop a chunk whose text equals that of a better one."""
    if not standing.ranking.dedup:
        return None
    first: dict[str, int] = {}
    kept: list[int] = []
    twins: dict[int, int] = {}
    for index in standing.order:
        original = first.setdefault(rerank.text_key(standing.rows[index].chunk), index)
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


def multiply(
    stage: Stage,
    standing: Standing,
    factors: Sequence[float],
    describe: Callable[[int], tuple[Reason, Numbers]],
) -> Step:
    scores = [score * factor for score, factor in zip(standing.scores, factors, strict=True)]
    order = standing.sorted_by(scores)
    return Step(stage, Operation.MULTIPLY, scores, order, operands=factors, describe=describe)


def dates_of(standing: Standing) -> Sequence[tuple[datetime | None, Reason]]:
    rule, derived = standing.ranking.decay.dates, standing.pool.derived
    rows, dates = derived.get(f"dates of rows:{rule}", (None, ()))
    if rows is standing.rows:
        return dates  # type: ignore[no-any-return]
    known = derived.setdefault(f"dates:{rule}", {})
    dates = []
    for row in standing.rows:
        found = known.get(row.chunk.id)
        if found is None:
            found = known[row.chunk.id] = decay.chunk_day(row.chunk, rule)
        dates.append(found)
    derived[f"dates of rows:{rule}"] = standing.rows, dates
    return dates

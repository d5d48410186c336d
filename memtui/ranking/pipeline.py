"""Ranking a pool: the stages one after the other, and what each of them did; comparing lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from memtui import model
from memtui.ranking import mmr, stages
from memtui.ranking.context import context_stage
from memtui.ranking.stages import FusedRow, StageState, Step, fuse, text_score

Done = tuple[model.Stage, Step, dict[int, int]]
"""A stage that ran, and candidate -> 1-based rank after it, what it dropped behind the others."""


def _scored(
    ranking: model.Ranking, row: FusedRow, index: int, steps: Sequence[Done]
) -> tuple[float, dict[model.Leg, model.LegScore], tuple[model.StageScore, ...]]:
    """Return the score of a candidate after some steps, its legs, and what each step did to it."""
    mapping = ranking.keyword_mapping
    legs = {}
    for leg, hit, mapped, weight in row.parts:
        text = None if hit.boosted is None else text_score(hit, mapping)
        part = model.LegScore(
            hit.raw, mapped, weight, weight * mapped, hit.position, hit.terms, text
        )
        legs[leg] = part
    score = row.score
    scored = []
    for stage, step, ranks in steps:
        reason, numbers = step.described.get(index, (model.Reason.OK, {}))
        operand = step.operands[index] if step.operands is not None else None
        after, rank = step.scores[index], ranks[index]
        scored.append(
            model.StageScore(stage, score, after, step.operation, operand, rank, reason, numbers)
        )
        if step.is_score:
            score = after
    return score, legs, tuple(scored)


STAGES: Mapping[model.Stage, Callable[[StageState], Step | None]] = {
    model.Stage.FUSION: stages.fusion_stage,
    model.Stage.CONTEXT: context_stage,
    model.Stage.IDENTITY: stages.identity_stage,
    model.Stage.DECAY: stages.decay_stage,
    model.Stage.IMPORTANCE: stages.importance_stage,
    model.Stage.PROJECT: stages.project_stage,
    model.Stage.TIERS: stages.tiers_stage,
    model.Stage.RERANK: stages.rerank_stage,
    model.Stage.DEDUP: stages.dedup_stage,
    model.Stage.MIN_SCORE: stages.min_score_stage,
    model.Stage.MMR: mmr.mmr_stage,
    model.Stage.EXACT_PATH: stages.exact_path_stage,
    model.Stage.CUT: stages.cut_stage,
}
"""The function of each stage; it returns `None` where it changes nothing."""

SWITCHES: Mapping[model.Stage, Callable[[model.Ranking], bool]] = {
    model.Stage.CONTEXT: lambda ranking: ranking.context.enabled,
    model.Stage.DECAY: lambda ranking: ranking.decay.enabled,
    model.Stage.IMPORTANCE: lambda ranking: ranking.importance_multiplier,
    model.Stage.PROJECT: lambda ranking: (
        ranking.importance_multiplier or bool(ranking.project_keys)
    ),
    model.Stage.RERANK: lambda ranking: ranking.rerank.enabled,
    model.Stage.DEDUP: lambda ranking: ranking.dedup,
    model.Stage.MIN_SCORE: lambda ranking: ranking.min_score is not None,
    model.Stage.MMR: lambda ranking: ranking.mmr.enabled,
}
"""Tests for the stages that a ranking can turn off; those that are not here are always on."""


def runs(ranking: model.Ranking, stage: model.Stage) -> bool:
    """Return whether a stage takes part in a ranking: it is in its order, and not turned off."""
    return stage in ranking.stages and (stage not in SWITCHES or SWITCHES[stage](ranking))


def for_mode(ranking: model.Ranking, mode: model.SearchMode) -> model.Ranking:
    """Return what an OpenClaw release does when only one leg can search.

    Without a provider the keyword leg ranks by its boosted score, decay applies (not in 2026.2),
    MMR does not, and when nothing reaches the minimum every match is kept (from 2026.3.2). With
    hybrid search off the vector leg ranks alone: neither decay nor MMR up to 2026.7, decay from
    2026.8. Where filters alone choose, whoever made the index, the order in which they list the
    chunks is the only thing that counts.
    """
    if mode is model.SearchMode.HYBRID:
        return ranking
    if mode is model.SearchMode.FILTERS_ONLY:
        stages = (model.Stage.FUSION, model.Stage.CUT)
        return replace(ranking, search_mode=mode, stages=stages, fusion=model.Fusion.RRF)
    without = {model.Stage.MMR}
    if mode is model.SearchMode.VECTOR_ONLY:
        without |= {model.Stage.IDENTITY, model.Stage.TIERS, model.Stage.EXACT_PATH}
    is_first = ranking.min_score_rule is model.MinScoreRule.PLAIN
    is_last = model.Stage.IDENTITY in ranking.stages
    if is_first or (mode is model.SearchMode.VECTOR_ONLY and not is_last):
        without.add(model.Stage.DECAY)
    alone = replace(
        ranking,
        search_mode=mode,
        stages=tuple(stage for stage in ranking.stages if stage not in without),
    )
    if mode is model.SearchMode.VECTOR_ONLY:
        return replace(alone, min_score_rule=model.MinScoreRule.PLAIN)
    if is_first:
        return alone
    return replace(
        alone, lexical_boost=True, min_score_rule=model.MinScoreRule.RELAXED, relaxed_min_score=0.0
    )


def needs_search(pool: model.CandidatePool, before: model.Ranking, after: model.Ranking) -> bool:
    """Tell whether another ranking needs other candidates than the pool holds.

    A release of another program cuts and scores its candidates by its own rule for one number of
    them; memtui's own legs only need asking for more.
    """
    if not pool.sized:
        return after.candidates > pool.limit
    rules = pool.limit, before.keyword_mapping, before.decay.dates
    return rules != (after.candidates, after.keyword_mapping, after.decay.dates)


LEAST_DEPTH: Final = 50
"""So many hits are fetched of each leg at least: k and the weights can change without I/O."""


def cut_pool(pool: model.CandidatePool, ranking: model.Ranking) -> model.CandidatePool:
    """Return the pool that a search with this ranking fetches, out of one that holds as much."""
    limit = max(ranking.candidates, LEAST_DEPTH)
    if pool.sized or pool.limit <= limit:
        return pool
    hits = {leg: of_leg[:limit] for leg, of_leg in pool.hits.items()}
    ids = dict.fromkeys(hit.chunk_id for of_leg in hits.values() for hit in of_leg)
    chunks = {chunk_id: pool.chunks[chunk_id] for chunk_id in ids}
    passages = {chunk_id: pool.passages[chunk_id] for chunk_id in ids if chunk_id in pool.passages}
    return replace(pool, hits=hits, chunks=chunks, passages=passages, limit=limit)


def rank(pool: model.CandidatePool, ranking: model.Ranking, *, now: datetime) -> model.Ranked:
    """Rank a pool: fuse its legs and run the stages of `ranking.stages`.

    Pure: the same arguments give the same list. `now` must be timezone-aware. Every chunk of the
    pool is either a hit or a drop with the stage and the reason that lost it.
    """
    rows, outside = fuse(pool, ranking)
    scores: Sequence[float] = [row.score for row in rows]
    order: Sequence[int] = range(len(rows))
    steps: list[Done] = []
    traces: list[model.StageTrace] = []
    for stage in ranking.stages:
        state = StageState(pool, ranking, now, rows, scores, order)
        step = STAGES[stage](state) if runs(ranking, stage) else None
        if step is None:
            traces.append(model.StageTrace(stage, False, ()))
            continue
        shown, dropped = (
            tuple([rows[index].chunk.id for index in one]) for one in (step.order, step.dropped)
        )
        traces.append(model.StageTrace(stage, True, shown, dropped, step.numbers))
        ranks = {index: at for at, index in enumerate((*step.order, *step.dropped), start=1)}
        steps.append((stage, step, ranks))
        order = step.order
        if step.is_score:
            scores = step.scores
    hits = []
    for place, index in enumerate(order, start=1):
        score, legs, scored = _scored(ranking, rows[index], index, steps)
        *_, effective = (score, *model.effective_scores(scored))
        hits.append(model.Hit(rows[index].chunk, place, score, effective, legs, scored))
    drops = []
    # The last lost come first, so that the nearest misses lead; within a stage by rank.
    for number, (stage, step, _) in reversed(list(enumerate(steps, start=1))):
        for index in step.dropped:
            score, legs, scored = _scored(ranking, rows[index], index, steps[:number])
            chunk, last = rows[index].chunk, scored[-1]
            drops.append(model.Drop(chunk, stage, last.reason, score, legs, scored, last.numbers))
    for chunk_id in outside:
        positions = {
            f"{leg}_rank": hit.position + 1
            for leg, hits_of_leg in pool.hits.items()
            for hit in hits_of_leg
            if hit.chunk_id == chunk_id
        }
        numbers = {"candidates": ranking.candidates, **positions}
        chunk, reason = pool.chunks[chunk_id], model.Reason.OUTSIDE_CANDIDATES
        drops.append(model.Drop(chunk, model.Stage.FUSION, reason, 0.0, {}, (), numbers))
    trace = model.Trace(now, tuple(traces))
    return model.Ranked(pool, ranking, tuple(hits), tuple(drops), trace)


class Difference(Struct, frozen=True):
    """The changes from one result list to another."""

    moved: Mapping[str, int]
    """Places gained (above 0) or lost, of the chunks in both lists that moved."""
    entered: tuple[str, ...]
    """The chunks that only the second list has."""
    left: Mapping[str, int]
    """The ranks in the first list of the chunks that only it has."""


def difference(first: model.Ranked, second: model.Ranked) -> Difference:
    """Compare two result lists chunk by chunk."""
    before, after = first.ranks, second.ranks
    return Difference(
        {one: before[one] - rank for one, rank in after.items() if before.get(one, rank) != rank},
        tuple([one for one in after if one not in before]),
        {one: rank for one, rank in before.items() if one not in after},
    )

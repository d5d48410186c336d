"""Ranking a pool: the stages one after the other, and what each of them did; comparing lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from memtui.model import (
    CandidatePool,
    Drop,
    Fusion,
    Hit,
    Leg,
    LegScore,
    MinScoreRule,
    Ranked,
    Ranking,
    Reason,
    SearchMode,
    Stage,
    StageScore,
    StageTrace,
    Trace,
    effective_scores,
)
from memtui.ranking import mmr, stages
from memtui.ranking.context import context_stage
from memtui.ranking.stages import FusedRow, StageState, Step, fuse, text_score

Done = tuple[Stage, Step, dict[int, int]]
"""A stage that ran, and candidate -> 1-based rank after it, what it dropped behind the others."""


def _scored(
    ranking: Ranking, row: FusedRow, index: int, steps: Sequence[Done]
) -> tuple[float, dict[Leg, LegScore], tuple[StageScore, ...]]:
    """Return the score of a candidate after some steps, its legs, and what each step did to it."""
    mapping = ranking.keyword_mapping
    legs = {}
    for leg, hit, mapped, weight in row.parts:
        text = None if hit.boosted is None else text_score(hit, mapping)
        part = LegScore(hit.raw, mapped, weight, weight * mapped, hit.position, hit.terms, text)
        legs[leg] = part
    score = row.score
    scored = []
    for stage, step, ranks in steps:
        reason, numbers = step.described.get(index, (Reason.OK, {}))
        operand = step.operands[index] if step.operands is not None else None
        after, rank = step.scores[index], ranks[index]
        scored.append(
            StageScore(stage, score, after, step.operation, operand, rank, reason, numbers)
        )
        if step.is_score:
            score = after
    return score, legs, tuple(scored)


STAGES: Mapping[Stage, Callable[[StageState], Step | None]] = {
    Stage.FUSION: stages.fusion_stage,
    Stage.CONTEXT: context_stage,
    Stage.IDENTITY: stages.identity_stage,
    Stage.DECAY: stages.decay_stage,
    Stage.IMPORTANCE: stages.importance_stage,
    Stage.PROJECT: stages.project_stage,
    Stage.TIERS: stages.tiers_stage,
    Stage.RERANK: stages.rerank_stage,
    Stage.DEDUP: stages.dedup_stage,
    Stage.MIN_SCORE: stages.min_score_stage,
    Stage.MMR: mmr.mmr_stage,
    Stage.EXACT_PATH: stages.exact_path_stage,
    Stage.CUT: stages.cut_stage,
}
"""The function of each stage; it returns `None` where it changes nothing."""

SWITCHES: Mapping[Stage, Callable[[Ranking], bool]] = {
    Stage.CONTEXT: lambda ranking: ranking.context.enabled,
    Stage.DECAY: lambda ranking: ranking.decay.enabled,
    Stage.IMPORTANCE: lambda ranking: ranking.importance_multiplier,
    Stage.PROJECT: lambda ranking: ranking.importance_multiplier or bool(ranking.project_keys),
    Stage.RERANK: lambda ranking: ranking.rerank.enabled,
    Stage.DEDUP: lambda ranking: ranking.dedup,
    Stage.MIN_SCORE: lambda ranking: ranking.min_score is not None,
    Stage.MMR: lambda ranking: ranking.mmr.enabled,
}
"""Tests for the stages that a ranking can turn off; those that are not here are always on."""


def runs(ranking: Ranking, stage: Stage) -> bool:
    """Return whether a stage takes part in a ranking: it is in its order, and not turned off."""
    return stage in ranking.stages and (stage not in SWITCHES or SWITCHES[stage](ranking))


def for_mode(ranking: Ranking, mode: SearchMode) -> Ranking:
    """Return what an OpenClaw release does when only one leg can search.

    Without a provider the keyword leg ranks by its boosted score, decay applies (not in 2026.2),
    MMR does not, and when nothing reaches the minimum every match is kept (from 2026.3.2). With
    hybrid search off the vector leg ranks alone: neither decay nor MMR up to 2026.7, decay from
    2026.8. Where filters alone choose, whoever made the index, the order in which they list the
    chunks is the only thing that counts.
    """
    if mode is SearchMode.HYBRID:
        return ranking
    if mode is SearchMode.FILTERS_ONLY:
        stages = (Stage.FUSION, Stage.CUT)
        return replace(ranking, search_mode=mode, stages=stages, fusion=Fusion.RRF)
    without = {Stage.MMR}
    if mode is SearchMode.VECTOR_ONLY:
        without |= {Stage.IDENTITY, Stage.TIERS, Stage.EXACT_PATH}
    is_first = ranking.min_score_rule is MinScoreRule.PLAIN
    is_last = Stage.IDENTITY in ranking.stages
    if is_first or (mode is SearchMode.VECTOR_ONLY and not is_last):
        without.add(Stage.DECAY)
    alone = replace(
        ranking,
        search_mode=mode,
        stages=tuple(stage for stage in ranking.stages if stage not in without),
    )
    if mode is SearchMode.VECTOR_ONLY:
        return replace(alone, min_score_rule=MinScoreRule.PLAIN)
    if is_first:
        return alone
    return replace(
        alone, lexical_boost=True, min_score_rule=MinScoreRule.RELAXED, relaxed_min_score=0.0
    )


def needs_search(pool: CandidatePool, before: Ranking, after: Ranking) -> bool:
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


def cut_pool(pool: CandidatePool, ranking: Ranking) -> CandidatePool:
    """Return the pool that a search with this ranking fetches, out of one that holds as much."""
    limit = max(ranking.candidates, LEAST_DEPTH)
    if pool.sized or pool.limit <= limit:
        return pool
    hits = {leg: of_leg[:limit] for leg, of_leg in pool.hits.items()}
    ids = dict.fromkeys(hit.chunk_id for of_leg in hits.values() for hit in of_leg)
    chunks = {chunk_id: pool.chunks[chunk_id] for chunk_id in ids}
    passages = {chunk_id: pool.passages[chunk_id] for chunk_id in ids if chunk_id in pool.passages}
    return replace(pool, hits=hits, chunks=chunks, passages=passages, limit=limit)


def rank(pool: CandidatePool, ranking: Ranking, *, now: datetime) -> Ranked:
    """Rank a pool: fuse its legs and run the stages of `ranking.stages`.

    Pure: the same arguments give the same list. `now` must be timezone-aware. Every chunk of the
    pool is either a hit or a drop with the stage and the reason that lost it.
    """
    rows, outside = fuse(pool, ranking)
    scores: Sequence[float] = [row.score for row in rows]
    order: Sequence[int] = range(len(rows))
    steps: list[Done] = []
    traces: list[StageTrace] = []
    for stage in ranking.stages:
        state = StageState(pool, ranking, now, rows, scores, order)
        step = STAGES[stage](state) if runs(ranking, stage) else None
        if step is None:
            traces.append(StageTrace(stage, False, ()))
            continue
        shown, dropped = (
            tuple([rows[index].chunk.id for index in one]) for one in (step.order, step.dropped)
        )
        traces.append(StageTrace(stage, True, shown, dropped, step.numbers))
        ranks = {index: at for at, index in enumerate((*step.order, *step.dropped), start=1)}
        steps.append((stage, step, ranks))
        order = step.order
        if step.is_score:
            scores = step.scores
    hits = []
    for place, index in enumerate(order, start=1):
        score, legs, scored = _scored(ranking, rows[index], index, steps)
        *_, effective = (score, *effective_scores(scored))
        hits.append(Hit(rows[index].chunk, place, score, effective, legs, scored))
    drops = []
    # The last lost come first, so that the nearest misses lead; within a stage by rank.
    for number, (stage, step, _) in reversed(list(enumerate(steps, start=1))):
        for index in step.dropped:
            score, legs, scored = _scored(ranking, rows[index], index, steps[:number])
            chunk, last = rows[index].chunk, scored[-1]
            drops.append(Drop(chunk, stage, last.reason, score, legs, scored, last.numbers))
    for chunk_id in outside:
        positions = {
            f"{leg}_rank": hit.position + 1
            for leg, hits_of_leg in pool.hits.items()
            for hit in hits_of_leg
            if hit.chunk_id == chunk_id
        }
        numbers = {"candidates": ranking.candidates, **positions}
        chunk, reason = pool.chunks[chunk_id], Reason.OUTSIDE_CANDIDATES
        drops.append(Drop(chunk, Stage.FUSION, reason, 0.0, {}, (), numbers))
    trace = Trace(now, tuple(traces))
    return Ranked(pool, ranking, tuple(hits), tuple(drops), trace)


class Difference(Struct, frozen=True):
    """The changes from one result list to another; false where both are the same."""

    moved: Mapping[str, int]
    """Places gained (above 0) or lost, of the chunks in both lists that moved."""
    entered: tuple[str, ...]
    """The chunks that only the second list has."""
    left: Mapping[str, int]
    """The ranks in the first list of the chunks that only it has."""

    def __bool__(self) -> bool:
        return bool(self.moved or self.entered or self.left)


def difference(first: Ranked, second: Ranked) -> Difference:
    """Compare two result lists chunk by chunk."""
    before, after = first.ranks, second.ranks
    return Difference(
        {one: before[one] - rank for one, rank in after.items() if before.get(one, rank) != rank},
        tuple([one for one in after if one not in before]),
        {one: rank for one, rank in before.items() if one not in after},
    )

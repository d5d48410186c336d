"""Ranking a pool: the stages one after the other, and the record of what each of them did."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import overload

from msgspec import Struct
from msgspec.structs import replace

from memtui.model import (
    CandidatePool,
    Drop,
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
)
from memtui.ranking import mmr, stages
from memtui.ranking.fusion import FusedRow, fuse, text_score
from memtui.ranking.stages import StageState, Step


class Record(Struct, frozen=True):
    """Everything a ranking run did, from which results are built."""

    pool: CandidatePool
    ranking: Ranking
    rows: Sequence[FusedRow]
    outside: Sequence[str]
    steps: list[Step] = []
    ranks: list[dict[int, int]] = []
    """For each step: candidate -> 1-based rank after it; what it dropped keeps its rank."""

    def scored(
        self, index: int, last: int
    ) -> tuple[float, dict[Leg, LegScore], tuple[StageScore, ...]]:
        """Return the score of a candidate after step `last`, its legs, and its stages so far."""
        mapping = self.ranking.keyword_mapping
        legs = {
            leg: LegScore(
                hit.raw,
                mapped,
                weight,
                weight * mapped,
                hit.position,
                hit.terms,
                None if hit.boosted is None else text_score(hit, mapping),
            )
            for leg, hit, mapped, weight in self.rows[index].parts
        }
        score = self.rows[index].score
        scored = []
        for number, step in enumerate(self.steps[: last + 1]):
            if step.describe is not None:
                reason, numbers = step.describe(index)
            else:
                reason, numbers = step.reasons.get(index, Reason.OK), step.compared
            operand = step.operands[index] if step.operands is not None else None
            rank = self.ranks[number][index]
            after = step.scores[index]
            scored.append(
                StageScore(step.stage, score, after, step.operation, operand, rank, reason, numbers)
            )
            if step.is_score:
                score = after
        return score, legs, tuple(scored)


@dataclass(eq=False)
class Drops(Sequence[Drop]):
    """The near misses, built when they are first looked at: most rankings only show the hits."""

    record: Record

    @cached_property
    def _drops(self) -> tuple[Drop, ...]:
        return tuple(_drops(self.record))

    def __len__(self) -> int:
        return len(self.record.outside) + sum(len(step.dropped) for step in self.record.steps)

    @overload
    def __getitem__(self, index: int) -> Drop: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Drop]: ...
    def __getitem__(self, index: int | slice) -> Drop | Sequence[Drop]:
        return self._drops[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Drops) and self._drops == other._drops

    __hash__ = None  # type: ignore[assignment]


def _drops(record: Record) -> Iterator[Drop]:
    """Yield the last lost first, so that the nearest misses lead; within a stage by rank."""
    for number, step in reversed(list(enumerate(record.steps))):
        for index in step.dropped:
            score, legs, scored = record.scored(index, number)
            chunk, lost = record.rows[index].chunk, scored[-1]
            yield Drop(chunk, step.stage, lost.reason, score, legs, scored, lost.numbers)
    for chunk_id in record.outside:
        positions = {
            f"{leg}_rank": hit.position + 1
            for leg, hits in record.pool.hits.items()
            for hit in hits
            if hit.chunk_id == chunk_id
        }
        numbers = {"candidates": record.ranking.candidates, **positions}
        chunk, reason = record.pool.chunks[chunk_id], Reason.OUTSIDE_CANDIDATES
        yield Drop(chunk, Stage.FUSION, reason, 0.0, {}, (), numbers)


STAGES: Mapping[Stage, Callable[[StageState], Step | None]] = {
    Stage.FUSION: stages.fusion_stage,
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
    Stage.DECAY: lambda ranking: ranking.decay.enabled,
    Stage.IMPORTANCE: lambda ranking: ranking.importance_multiplier,
    Stage.PROJECT: lambda ranking: ranking.importance_multiplier or bool(ranking.project_keys),
    Stage.RERANK: lambda ranking: ranking.rerank.enabled,
    Stage.DEDUP: lambda ranking: ranking.dedup,
    Stage.MIN_SCORE: lambda ranking: ranking.min_score is not None,
    Stage.MMR: lambda ranking: ranking.mmr.enabled,
}
"""Tests for the stages that a ranking can turn off; those that are not here are always on."""


def for_mode(ranking: Ranking, mode: SearchMode) -> Ranking:
    """Return what an OpenClaw release does when only one leg can search.

    Without a provider the keyword leg ranks by its boosted score, decay applies (not in 2026.2),
    MMR does not, and when nothing reaches the minimum every match is kept (from 2026.3.2). With
    hybrid search off the vector leg ranks alone: neither decay nor MMR up to 2026.7, decay from
    2026.8.
    """
    if mode is SearchMode.HYBRID:
        return ranking
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
    rules = (before.keyword_mapping, before.decay.dates), (after.keyword_mapping, after.decay.dates)
    return after.candidates != pool.limit or rules[0] != rules[1]


def rank(pool: CandidatePool, ranking: Ranking, *, now: datetime) -> Ranked:
    """Rank a pool: fuse its legs and run the stages of `ranking.stages`.

    Pure: the same arguments give the same list. `now` must be timezone-aware. Every chunk of the
    pool is either a hit or a drop with the stage and the reason that lost it.
    """
    rows, outside = fuse(pool, ranking)
    record = Record(pool, ranking, rows, outside)
    scores: Sequence[float] = [row.score for row in rows]
    order: Sequence[int] = range(len(rows))
    ranks: dict[int, int] = {}
    traces: list[StageTrace] = []
    effective: Sequence[float] | None = None
    for stage in ranking.stages:
        step = None
        if stage not in SWITCHES or SWITCHES[stage](ranking):
            step = STAGES[stage](StageState(pool, ranking, now, rows, scores, order))
        if step is None:
            traces.append(StageTrace(stage, False, ()))
            continue
        shown, dropped = (
            tuple([rows[index].chunk.id for index in one]) for one in (step.order, step.dropped)
        )
        traces.append(StageTrace(stage, True, shown, dropped, step.numbers))
        lost = {index: ranks.get(index, at) for at, index in enumerate(step.dropped, start=1)}
        ranks = {index: at for at, index in enumerate(step.order, start=1)} | lost
        record.steps.append(step)
        record.ranks.append(ranks)
        order = step.order
        if step.is_score:
            scores = step.scores
        if stage is Stage.MMR:
            effective = step.scores
    hits = []
    for place, index in enumerate(order, start=1):
        score, legs, scored = record.scored(index, len(record.steps))
        worth = effective[index] if effective is not None else score
        hits.append(Hit(rows[index].chunk, place, score, worth, legs, scored))
    trace = Trace(pool.query, now, tuple(traces))
    return Ranked(pool, ranking, tuple(hits), Drops(record), trace)

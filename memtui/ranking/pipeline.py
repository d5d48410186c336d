"""The record of a ranking run: results and near misses are built from what the stages did."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import overload

from memtui.model import (
    CandidatePool,
    Drop,
    Hit,
    Ranked,
    Ranking,
    Reason,
    Stage,
    StageScore,
    StageTrace,
    Trace,
)
from memtui.ranking import exact, mmr, stages
from memtui.ranking.fusion import FusedRow, fused
from memtui.ranking.stage_state import StageFunction, StageState, Step


@dataclass(frozen=True)
class Record:
    """Everything a ranking run did, from which results are built."""

    pool: CandidatePool
    ranking: Ranking
    rows: Sequence[FusedRow]
    steps: tuple[Step, ...]
    outside: tuple[str, ...]

    @cached_property
    def ranks(self) -> list[dict[int, int]]:
        """For each step: candidate -> 1-based rank after it; what it dropped keeps its rank."""
        tables: list[dict[int, int]] = []
        for step in self.steps:
            table = {index: rank for rank, index in enumerate(step.order, start=1)}
            for place, index in enumerate(step.dropped, start=1):
                table[index] = tables[-1][index] if tables else place
            tables.append(table)
        return tables

    def scored(self, index: int, last: int) -> tuple[float, tuple[StageScore, ...]]:
        """Return the score of one candidate after step `last`, and its stages up to there."""
        score = self.rows[index].score
        scored = []
        for number, step in enumerate(self.steps[: last + 1]):
            reason, numbers = step.describe(index)
            operand = step.operands[index] if step.operands is not None else None
            rank = self.ranks[number][index]
            after = step.scores[index]
            scored.append(
                StageScore(step.stage, score, after, step.operation, operand, rank, reason, numbers)
            )
            if step.is_score:
                score = after
        return score, tuple(scored)


class Drops(Sequence[Drop]):
    """The near misses, built when they are first looked at: most rankings only show the hits."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._built: tuple[Drop, ...] | None = None
        self._count = len(record.outside) + sum(len(step.dropped) for step in record.steps)

    def _all(self) -> tuple[Drop, ...]:
        if self._built is None:
            self._built = tuple(_drops(self._record))
        return self._built

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Drop: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Drop]: ...
    def __getitem__(self, index: int | slice) -> Drop | Sequence[Drop]:
        return self._all()[index]

    def __iter__(self) -> Iterator[Drop]:
        return iter(self._all())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Drops) and self._all() == other._all()

    __hash__ = None  # type: ignore[assignment]


def _drops(record: Record) -> Iterator[Drop]:
    """Last lost first, so that the nearest misses lead; within a stage in the order of ranks."""
    for number in range(len(record.steps) - 1, -1, -1):
        step = record.steps[number]
        for index in step.dropped:
            row = record.rows[index]
            reason, numbers = step.describe(index)
            score, scored = record.scored(index, number)
            yield Drop(
                row.chunk,
                step.stage,
                reason,
                score,
                row.leg_scores(record.ranking.keyword_mapping),
                scored,
                numbers,
            )
    window = record.ranking.candidates
    for chunk_id in record.outside:
        positions = {
            f"{leg}_rank": hit.position + 1
            for leg, hits in record.pool.hits.items()
            for hit in hits
            if hit.chunk_id == chunk_id
        }
        yield Drop(
            record.pool.chunks[chunk_id],
            Stage.FUSION,
            Reason.OUTSIDE_CANDIDATES,
            0.0,
            {},
            (),
            {"candidates": window, **positions},
        )


STAGES: Mapping[Stage, StageFunction] = {
    Stage.FUSION: stages.fusion_stage,
    Stage.IDENTITY: exact.identity_stage,
    Stage.DECAY: stages.decay_stage,
    Stage.IMPORTANCE: stages.importance_stage,
    Stage.PROJECT: stages.project_stage,
    Stage.TIERS: exact.tiers_stage,
    Stage.RERANK: stages.rerank_stage,
    Stage.DEDUP: stages.dedup_stage,
    Stage.MIN_SCORE: stages.min_score_stage,
    Stage.MMR: mmr.mmr_stage,
    Stage.EXACT_PATH: exact.exact_path_stage,
    Stage.CUT: stages.cut_stage,
}


def rank(pool: CandidatePool, ranking: Ranking, *, now: datetime) -> Ranked:
    """Rank a pool: fuse its legs and run the stages of `ranking.stages`.

    Pure: the same arguments give the same list. `now` must be timezone-aware. Every chunk of the
    pool is either a hit or a drop with the stage and the reason that lost it.
    """
    rows, outside = fused(pool, ranking)
    scores: Sequence[float] = [row.score for row in rows]
    order: Sequence[int] = range(len(rows))
    steps: list[Step] = []
    traces: list[StageTrace] = []
    effective: Sequence[float] | None = None
    for stage in ranking.stages:
        step = STAGES[stage](StageState(pool, ranking, now, rows, scores, order))
        if step is None:
            traces.append(StageTrace(stage, False, ()))
            continue
        steps.append(step)
        kept, dropped = (
            tuple([rows[index].chunk.id for index in one]) for one in (step.order, step.dropped)
        )
        traces.append(StageTrace(stage, True, kept, dropped, step.numbers))
        order = step.order
        if step.is_score:
            scores = step.scores
        if stage is Stage.MMR:
            effective = step.scores
    record = Record(pool, ranking, rows, tuple(steps), tuple(outside))
    hits = []
    for place, index in enumerate(order, start=1):
        score, scored = record.scored(index, len(steps))
        worth = effective[index] if effective is not None else score
        legs = rows[index].leg_scores(ranking.keyword_mapping)
        hits.append(Hit(rows[index].chunk, place, score, worth, legs, scored))
    trace = Trace(pool.query, now, tuple(traces))
    return Ranked(pool, ranking, tuple(hits), Drops(record), trace)

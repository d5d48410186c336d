"""The ranking pipeline: a pure function from a candidate pool and a ranking to a traced list.

Every stage looks at the standing (scores and order so far) and returns a `Step`: what it did to
each candidate, in columns. Results and near misses are built from those columns, so the numbers
that are shown are the numbers that ranked. A new stage is one function in `STAGES`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from memtui.model import CandidatePool, Ranked, Ranking, Stage, Trace
from memtui.ranking import diversity, exact, stages
from memtui.ranking.fusion import fused
from memtui.ranking.record import Record, Step, assemble
from memtui.ranking.stage_state import StageFunction, Standing

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
    Stage.MMR: diversity.mmr_stage,
    Stage.EXACT_PATH: exact.exact_path_stage,
    Stage.CUT: stages.cut_stage,
}


def rank(pool: CandidatePool, ranking: Ranking, *, now: datetime) -> Ranked:
    """Rank a pool: fuse its legs and run the stages of `ranking.stages`.

    Pure: the same arguments give the same list. `now` must be timezone-aware. Every chunk of the
    pool is either a hit or a drop with the stage and the reason that lost it.
    """
    rows, outside = fused(pool, ranking)
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
    hits, drops, traces = assemble(record)
    return Ranked(pool, ranking, hits, drops, Trace(pool.query, now, traces))

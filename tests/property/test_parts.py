"""The parts of every score sum to it, to the last bit: hits and near misses, every profile, mode."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memtui.model import (
    CandidatePool,
    Drop,
    Hit,
    MinScoreRule,
    Operation,
    Ranked,
    Ranking,
    Rerank,
    SearchMode,
    Stage,
    StageScore,
)
from memtui.ranking.pipeline import rank
from memtui.ranking.profiles import PROFILES, for_mode
from tests.support.pools import NOW, pools, rankings, release_pools, release_rankings

APPLY: Mapping[Operation, Callable[[float, float], float]] = {
    Operation.MULTIPLY: lambda before, operand: before * operand,
    Operation.REPLACE: lambda before, operand: operand,
    Operation.SUBTRACT: lambda before, operand: before - operand,
}


def after(stage: StageScore, fused: float) -> float:
    """What the operation makes of the score before it."""
    if stage.operation is Operation.SUM:
        return fused
    if stage.operation is Operation.KEEP:
        return stage.before
    assert stage.operand is not None
    return APPLY[stage.operation](stage.before, stage.operand)


def assert_sums(scored: Hit | Drop) -> None:
    """Go through the stages of one candidate, from its legs to its score."""
    fused = 0.0
    for leg in scored.legs.values():
        assert leg.contribution == leg.weight * leg.mapped
        fused += leg.contribution
    score, effective = fused, None
    for stage in scored.stages:
        assert stage.before == score
        assert stage.after == after(stage, fused)
        if stage.stage is Stage.MMR:
            # The order of MMR is explained by a score of its own; the score goes on as it was.
            effective = stage.after
        else:
            score = stage.after
    assert scored.score == score
    if isinstance(scored, Hit):
        assert scored.effective == (score if effective is None else effective)


def assert_all_sum(ranked: Ranked) -> None:
    assert len(ranked.hits) + len(ranked.drops) == len(ranked.pool.chunks)
    everything: list[Hit | Drop] = [*ranked.hits, *ranked.drops]
    for scored in everything:
        assert_sums(scored)


@given(pools(), rankings(), st.sampled_from(SearchMode))
@settings(max_examples=50)
def test_parts_sum_over_random_rankings(
    pool: CandidatePool, ranking: Ranking, mode: SearchMode
) -> None:
    assert_all_sum(rank(pool, for_mode(ranking, mode), now=NOW))


@pytest.mark.parametrize("name", PROFILES)
@given(pool=pools(), mode=st.sampled_from(SearchMode), switches=st.integers(0, 7))
@settings(max_examples=15)
def test_parts_sum_under_every_profile(
    name: str, pool: CandidatePool, mode: SearchMode, switches: int
) -> None:
    base = PROFILES[name]
    ranking = replace(
        base,
        decay=replace(base.decay, enabled=bool(switches & 1)),
        mmr=replace(base.mmr, enabled=bool(switches & 2)),
        rerank=replace(base.rerank, enabled=True) if switches & 4 else Rerank(),
    )
    assert_all_sum(rank(pool, for_mode(ranking, mode), now=NOW))


@given(release_pools(), release_rankings(), st.sampled_from(SearchMode))
def test_parts_sum_over_what_releases_find(
    pool: CandidatePool, ranking: Ranking, mode: SearchMode
) -> None:
    for rule in MinScoreRule:
        changed = for_mode(replace(ranking, min_score_rule=rule), mode)
        assert_all_sum(rank(pool, changed, now=NOW))

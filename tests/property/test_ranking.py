"""Invariants of the ranking pipeline over random pools and random rankings."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memtui.model import CandidatePool, Drop, Hit, Leg, Mmr, Operation, Ranked, Ranking, Stage
from memtui.ranking.pipeline import rank
from memtui.ranking.profiles import PROFILES
from memtui.ranking.trace import difference, explain, stage_score
from tests.support.pools import NOW, pools, rankings


def everything(ranked: Ranked) -> list[Hit | Drop]:
    return [*ranked.hits, *ranked.drops]


def recompute(scored: Hit | Drop) -> float | None:
    """The score from the parts on the screen, by arithmetic written out here a second time."""
    value = None
    for stage in scored.stages:
        if stage.operation is Operation.SUM:
            value = 0.0
            for leg in scored.legs.values():
                assert leg.contribution == leg.weight * leg.mapped
                value = value + leg.weight * leg.mapped
        elif stage.stage is Stage.RERANK:
            parts = {name: float(number or 0) for name, number in stage.numbers.items()}
            relevance = stage.before / parts["maximum"] if parts["maximum"] > 0 else 0.0
            value = (
                parts["relevance_weight"] * relevance
                + parts["recency_weight"] * parts["recency"]
                + parts["importance_weight"] * min(1.0, max(0.0, parts["importance"]))
            )
        elif stage.operation is Operation.MULTIPLY:
            assert value is not None
            assert stage.operand is not None
            value = value * stage.operand
        elif stage.stage in {Stage.EXACT_PATH, Stage.IDENTITY, Stage.TIERS}:
            value = stage.operand
        if stage.stage is not Stage.MMR:
            assert stage.after == value
    return value


@given(pools(), rankings())
def test_every_score_is_the_sum_of_its_parts(pool: CandidatePool, ranking: Ranking) -> None:
    ranked = rank(pool, ranking, now=NOW)
    for scored in everything(ranked):
        value = recompute(scored)
        assert scored.score == (value if value is not None else 0.0)


@given(pools(), rankings())
def test_effective_score_is_score_less_penalty(pool: CandidatePool, ranking: Ranking) -> None:
    ranked = rank(pool, ranking, now=NOW)
    for hit in ranked.hits:
        stage = stage_score(hit, Stage.MMR)
        if stage is None:
            assert hit.effective == hit.score
            continue
        assert stage.operand is not None
        subtracts = stage.operation is Operation.SUBTRACT
        assert hit.effective == (stage.before - stage.operand if subtracts else stage.operand)


@given(pools(), rankings())
def test_hits_and_drops_are_the_pool(pool: CandidatePool, ranking: Ranking) -> None:
    ranked = rank(pool, ranking, now=NOW)
    ids = [hit.chunk.id for hit in ranked.hits] + [drop.chunk.id for drop in ranked.drops]
    assert sorted(ids) == sorted(pool.chunks)
    assert len(ranked.drops) == len(list(ranked.drops))
    assert [hit.rank for hit in ranked.hits] == list(range(1, len(ranked.hits) + 1))
    assert len(ranked.hits) <= ranking.k


@given(pools(), rankings())
def test_ranks_of_every_stage_are_a_permutation(pool: CandidatePool, ranking: Ranking) -> None:
    ranked = rank(pool, ranking, now=NOW)
    by_stage: dict[Stage, list[int]] = {}
    for scored in everything(ranked):
        for stage in scored.stages:
            lost_here = isinstance(scored, Drop) and stage is scored.stages[-1]
            if not lost_here:
                by_stage.setdefault(stage.stage, []).append(stage.rank)
    for ranks in by_stage.values():
        assert sorted(ranks) == list(range(1, len(ranks) + 1))


@given(pools(), rankings())
def test_toggling_twice_gives_the_identical_list(pool: CandidatePool, ranking: Ranking) -> None:
    first = rank(pool, ranking, now=NOW)
    rank(pool, replace(ranking, mmr=replace(ranking.mmr, enabled=not ranking.mmr.enabled)), now=NOW)
    rank(pool, replace(ranking, decay=replace(ranking.decay, enabled=True)), now=NOW)
    again = rank(pool, ranking, now=NOW)
    assert first.hits == again.hits
    assert first.drops == again.drops
    assert not difference(first, again)


@given(pools(), rankings())
def test_lambda_one_is_pure_relevance(pool: CandidatePool, ranking: Ranking) -> None:
    without = rank(pool, replace(ranking, mmr=Mmr(enabled=False)), now=NOW)
    with_one = rank(pool, replace(ranking, mmr=Mmr(enabled=True, lambda_=1.0)), now=NOW)
    assert [h.chunk.id for h in with_one.hits] == [h.chunk.id for h in without.hits]


@given(pools(), st.floats(0.05, 0.95))
def test_effective_scores_fall_down_the_list(pool: CandidatePool, lambda_: float) -> None:
    ranking = replace(PROFILES["memtui"], mmr=Mmr(enabled=True, lambda_=lambda_))
    ranked = rank(pool, ranking, now=NOW)
    for upper, lower in pairwise(ranked.hits):
        assert lower.effective <= upper.effective + 1e-9


@given(pools(), rankings())
@settings(max_examples=50)
def test_every_chunk_of_the_pool_can_be_explained(pool: CandidatePool, ranking: Ranking) -> None:
    ranked = rank(pool, ranking, now=NOW)
    for chunk_id in pool.chunks:
        explanation = explain(ranked, chunk_id)
        assert explanation.scored.chunk.id == chunk_id
        assert (explanation.rank is None) == isinstance(explanation.scored, Drop)
    with pytest.raises(KeyError):
        explain(ranked, "no such chunk")


# --- what is kept with a pool ------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(pools(), rankings(), rankings())
def test_a_pool_that_was_ranked_before_is_ranked_as_a_fresh_one(
    pool: CandidatePool, first: Ranking, second: Ranking
) -> None:
    rank(pool, first, now=NOW)
    for ranking in (first, second, first):
        fresh = replace(pool, derived={})
        again, anew = rank(pool, ranking, now=NOW), rank(fresh, ranking, now=NOW)
        assert again.hits == anew.hits
        assert again.drops == anew.drops
        assert again.trace == anew.trace


@settings(max_examples=20, deadline=None)
@given(pools(), rankings())
def test_a_pool_made_from_a_ranked_one_has_its_own_hits(
    pool: CandidatePool, ranking: Ranking
) -> None:
    rank(pool, ranking, now=NOW)
    other = replace(pool, hits={**pool.hits, Leg.VECTOR: ()})
    fresh = replace(other, derived={})
    assert rank(other, ranking, now=NOW).hits == rank(fresh, ranking, now=NOW).hits

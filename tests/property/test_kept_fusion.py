"""What ranking keeps with a pool never shows: a pool ranked before is ranked as a fresh one."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings

from memtui.model import CandidatePool, Leg, Ranking
from memtui.ranking.pipeline import rank
from tests.support.pools import NOW, pools, rankings


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

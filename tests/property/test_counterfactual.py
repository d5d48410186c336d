"""Every suggested change does what it says, and where none is offered a fine grid finds none."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from memtui.model import FEATURES, CandidatePool, Chunk, PassageFeatures, Ranking, SearchMode
from memtui.ranking.context import context_weights, passage_score, with_weights
from memtui.ranking.counterfactual.change import FEATURE_OF, Parameter, apply, range_of, value_of
from memtui.ranking.counterfactual.margins import listing, state_before_cut
from memtui.ranking.counterfactual.scores import Seed, columns_of
from memtui.ranking.counterfactual.solve import is_used, least_changes, sweep
from memtui.ranking.pipeline import for_mode, rank
from memtui.ranking.profiles import PROFILES
from memtui.ranking.stages import decay_factors
from tests.counterfactuals import CONTINUOUS, Claims, grid
from tests.support.dice import examples
from tests.support.pools import (
    NOW,
    RELEASES,
    context_rankings,
    passage_pools,
    pools,
    rankings,
    release_pools,
    release_rankings,
)

SECOND = 1_000_000_000
DAYS = 86_400 * SECOND


def plain_numbers(pool: CandidatePool) -> CandidatePool:
    """The same pool with raw scores of four digits: nothing differs by rounding alone."""
    hits = {
        leg: tuple(replace(hit, raw=round(hit.raw, 4)) for hit in found)
        for leg, found in pool.hits.items()
    }
    return replace(pool, hits=hits, chunks={i: recent(c) for i, c in pool.chunks.items()})


def recent(chunk: Chunk) -> Chunk:
    """A chunk of a file not older than three years."""
    base = int(NOW.timestamp()) * SECOND
    return replace(chunk, mtime_ns=base - chunk.mtime_ns // SECOND % 1000 * DAYS)


def plain_ranking(ranking: Ranking) -> Ranking:
    """The same ranking with parameters of three digits."""
    weight = round(ranking.vector_weight, 3)
    minimum = ranking.min_score
    return replace(
        ranking,
        vector_weight=weight,
        keyword_weight=round(1 - weight, 3),
        min_score=None if minimum is None else round(minimum, 3),
        mmr=replace(ranking.mmr, lambda_=round(ranking.mmr.lambda_, 3)),
        decay=replace(
            ranking.decay, half_life_days=max(1.0, round(ranking.decay.half_life_days, 2))
        ),
    )


RANKINGS = rankings().map(plain_ranking) | st.sampled_from(
    [replace(ranking, k=k) for ranking in PROFILES.values() for k in (1, 3)]
)


LeftOut: TypeAlias = tuple[CandidatePool, Ranking, str]


@st.composite
def left_out(draw: st.DrawFn) -> LeftOut:
    """A pool of the legs that a release searches with, a ranking, a chunk not in its list."""
    mode, kind = SearchMode.HYBRID, draw(st.sampled_from(["any", "release", "context"]))
    if kind == "any":
        pool, ranking = draw(pools(max_chunks=24)), draw(RANKINGS)
    elif kind == "context":
        pool, ranking = draw(passage_pools(12)), plain_ranking(draw(context_rankings()))
        ranking = with_weights(ranking, pool.evidence)
    else:
        mode = draw(st.sampled_from(SearchMode))
        pool, ranking = draw(release_pools(24)), plain_ranking(draw(release_rankings()))
        ranking = replace(ranking, k=min(ranking.k, 5))
    pool = replace(plain_numbers(pool), search_mode=mode)
    missing_ids = missing(pool, for_mode(ranking, mode))
    return pool, ranking, draw(st.sampled_from(missing_ids or [""]))


def missing(pool: CandidatePool, ranking: Ranking) -> list[str]:
    shown = {hit.chunk.id for hit in rank(pool, ranking, now=NOW).hits}
    return [chunk_id for chunk_id in pool.chunks if chunk_id not in shown]


def rank_of(pool: CandidatePool, ranking: Ranking, chunk_id: str) -> int | None:
    hits = rank(pool, ranking, now=NOW).hits
    return next((hit.rank for hit in hits if hit.chunk.id == chunk_id), None)


@given(left_out(), st.integers(50, 60))
@settings(max_examples=examples(40))
def test_changes_do_what_they_say_and_a_grid_finds_no_other(case: LeftOut, points: int) -> None:
    (pool, ranking, chunk_id), mode = case, case[0].search_mode
    if chunk_id:
        found = least_changes(pool, ranking, chunk_id, now=NOW)
        assert [change.cost for change in found.changes] == sorted(c.cost for c in found.changes)
        claims = Claims(ranking, lambda one: rank(pool, for_mode(one, mode), now=NOW).ranks, points)
        assert list(claims.wrong(found, chunk_id)) == []


def assert_same_list(pool: CandidatePool, ranking: Ranking) -> None:
    columns = columns_of(pool, ranking, NOW)
    state = state_before_cut(columns, ranking, Seed())
    expected = [hit.chunk.id for hit in rank(pool, ranking, now=NOW).hits]
    assert list(columns.ranks(listing(state)[0])) == expected


CASES = {name: st.tuples(release_pools(), release_rankings([name])) for name in RELEASES}
CASES["any"] = st.tuples(pools(), rankings())
CASES["context"] = st.tuples(passage_pools(), context_rankings())


@pytest.mark.parametrize("mode", SearchMode)
@pytest.mark.parametrize("name", CASES)
@given(data=st.data())
@settings(max_examples=examples(60))
def test_the_list_is_the_one_that_ranking_gives(
    name: str, mode: SearchMode, data: st.DataObject
) -> None:
    pool, ranking = data.draw(CASES[name])
    assert_same_list(pool, for_mode(ranking, mode))


SWEPT = (*CONTINUOUS, Parameter.K, Parameter.CANDIDATE_MULTIPLIER)


@given(
    st.tuples(pools().map(plain_numbers), RANKINGS, st.sampled_from(SWEPT))
    | st.tuples(
        passage_pools(12).map(plain_numbers),
        context_rankings().map(plain_ranking),
        st.sampled_from([*FEATURE_OF]),
    )
)
@settings(max_examples=examples(60))
def test_sweeps_tell_the_ranks(case: tuple[CandidatePool, Ranking, Parameter]) -> None:
    pool, ranking, parameter = case
    if not is_used(pool, ranking, parameter):
        return
    swept = sweep(pool, ranking, parameter, tuple(pool.chunks), now=NOW)
    for chunk_id, segments in swept.ranks.items():
        for before, after in pairwise(segments):
            assert before.rank != after.rank
            assert before.end <= after.start
        for segment in segments[:12]:
            width = segment.end - segment.start
            whole = parameter in {Parameter.K, Parameter.CANDIDATE_MULTIPLIER}
            if width < 1e-6 * max(1.0, segment.end) and not whole:
                continue
            middle = segment.start if whole else segment.start + width * 0.4321
            changed = apply(ranking, parameter, middle)
            assert rank_of(pool, changed, chunk_id) == segment.rank, (segment, middle)


def crossings(pool: CandidatePool, ranking: Ranking, parameter: Parameter) -> list[float]:
    """The values of a weight at which the scores of two passages meet, or one meets the minimum."""
    columns = columns_of(pool, apply(ranking, parameter, 0.0), NOW)
    decay = ranking.decay
    ages = columns.ages if decay.enabled else [None] * len(columns.rows)
    factors = decay_factors(ages, decay.half_life_days, decay.floor)
    weights = context_weights(apply(ranking, parameter, 0.0), pool.evidence)
    lines = [(ranking.min_score or 0.0, 0.0)]
    for row, factor in zip(columns.rows, factors, strict=True):
        nothing = PassageFeatures(0, 0, (0.0,) * len(FEATURES[1:]))
        for passage in pool.passages.get(row.chunk.id) or [nothing]:
            slope = (row.score, *passage.values)[FEATURE_OF[parameter]]
            lines.append((factor * passage_score(row.score, passage, weights), factor * slope))
    return [
        (one[0] - other[0]) / (other[1] - one[1])
        for one, other in combinations(lines, 2)
        if one[1] != other[1]
    ]


@pytest.mark.parametrize("parameter", [Parameter.NEAR_COVER, Parameter.CHUNK])
@given(data=st.data())
@settings(max_examples=examples(40))
def test_the_least_change_of_a_weight_is_that_of_brute_force(
    parameter: Parameter, data: st.DataObject
) -> None:
    """Between all crossings and on a fine grid no value shows the chunk that is nearer."""
    pool = plain_numbers(data.draw(passage_pools(8, 3)))
    ranking = replace(plain_ranking(data.draw(context_rankings())), k=data.draw(st.integers(1, 3)))
    ranking = with_weights(ranking, pool.evidence)
    low, high = range_of(ranking, parameter)
    now = value_of(ranking, parameter)
    assert isinstance(now, (int, float))
    ends = [low, high, *(x for x in crossings(pool, ranking, parameter) if low < x < high)]
    middles = [(a + b) / 2 for a, b in pairwise(sorted(ends)) if b - a > 1e-6]
    tried = sorted([*middles, *grid(ranking, parameter, 100)], key=lambda value: abs(value - now))
    lists = [rank(pool, apply(ranking, parameter, value), now=NOW).ranks for value in tried]
    for chunk_id in missing(pool, ranking)[:4]:
        found = least_changes(pool, ranking, chunk_id, now=NOW, parameters=[parameter]).changes
        nearest = next(
            (x for x, ranks in zip(tried, lists, strict=True) if chunk_id in ranks), None
        )
        if nearest is not None:
            (change,) = found
            assert isinstance(change.new, (int, float))
            # It is rounded away from the crossing.
            assert abs(change.new - now) <= abs(nearest - now) + 0.01, (change, nearest)
        for change in found:
            place = rank_of(pool, apply(ranking, parameter, change.new), chunk_id)
            assert place == change.rank_after

"""Least changes and sweeps on pools small enough to solve by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta

import pytest

from memtui.model import CandidatePool, Decay, Fusion, Mmr, Ranking, Reason, Rerank
from memtui.ranking.counterfactual import (
    Change,
    ChangeKind,
    NoChangeReason,
    Parameter,
    Segment,
    apply,
    least_changes,
    sweep,
)
from memtui.ranking.counterfactual.columns import columns_of
from memtui.ranking.counterfactual.walk import Axis, walk
from memtui.ranking.pipeline import rank
from memtui.ranking.profiles import PROFILES
from tests.support.pools import NOW, chunk, pool

BASE = Ranking(k=1, fusion=Fusion.WEIGHTED_SUM, vector_weight=0.2, keyword_weight=0.8)


def two_sides() -> CandidatePool:
    """One chunk that only the keyword leg likes, one that only the vector leg likes."""
    # The mapped BM25 value of -1 is 0.5.
    return pool([chunk("word"), chunk("sense")], [("sense", 0.5), ("word", 0.0)], [("word", -1.0)])


def changes(found_in: CandidatePool, ranking: Ranking, chunk_id: str) -> dict[Parameter, Change]:
    found = least_changes(found_in, ranking, chunk_id, now=NOW)
    return {change.parameter: change for change in found.changes}


def reasons(found_in: CandidatePool, ranking: Ranking, chunk_id: str) -> dict[Parameter, str]:
    found = least_changes(found_in, ranking, chunk_id, now=NOW)
    return {outcome.parameter: outcome.reason for outcome in found.without}


def test_a_weight_is_raised_to_where_the_lines_cross() -> None:
    change = changes(two_sides(), BASE, "sense")[Parameter.VECTOR_WEIGHT]
    assert change.new == pytest.approx(0.5, abs=2e-6)
    assert change.cost == pytest.approx(0.3, abs=2e-6)
    assert change.kind is ChangeKind.RAISE
    assert change.exact
    assert change.rank_after == 1


def test_the_keyword_weight_follows_so_that_the_sum_stays() -> None:
    changed = apply(BASE, Parameter.VECTOR_WEIGHT, 0.35)
    assert (changed.vector_weight, changed.keyword_weight) == (0.35, 0.65)
    double = replace(BASE, vector_weight=1.0, keyword_weight=1.0)
    assert apply(double, Parameter.VECTOR_WEIGHT, 1.5).keyword_weight == 0.5


def test_k_costs_least_and_comes_first() -> None:
    found = least_changes(two_sides(), BASE, "sense", now=NOW)
    assert found.cheapest is not None
    assert found.cheapest.parameter is Parameter.K
    assert found.cheapest.new == 2
    assert found.cheapest.cost == pytest.approx(1 / 199)


def test_a_half_life_is_lowered_until_the_old_note_falls_behind() -> None:
    days = {"old": 30, "new": 0}
    dated = [
        chunk(name, day=(NOW - timedelta(days=age)).date(), day_from=Reason.FILE_NAME)
        for name, age in days.items()
    ]
    found_in = pool(dated, [("old", 1.0), ("new", 0.5)])
    ranking = replace(BASE, decay=replace(BASE.decay, enabled=True, half_life_days=90.0))
    change = changes(found_in, ranking, "new")[Parameter.HALF_LIFE]
    # The difference of the ages decides, whatever the hour: 2^(-30 / h) = 0.5.
    assert change.new == pytest.approx(30.0, rel=1e-4)
    assert change.kind is ChangeKind.LOWER
    assert not change.exact


@pytest.mark.parametrize(("days", "score"), [(226, 0.72), (250, 0.65), (161, 0.48)])
def test_a_half_life_is_raised_until_an_old_note_reaches_the_minimum(
    days: int, score: float
) -> None:
    old = chunk("old", day=(NOW - timedelta(days=days)).date(), day_from=Reason.FILE_NAME)
    ranking = replace(
        BASE,
        vector_weight=1.0,
        keyword_weight=0.0,
        min_score=0.35,
        decay=Decay(enabled=True, half_life_days=10.0, floor=0.0),
    )
    change = changes(pool([old], [("old", score)]), ranking, "old")[Parameter.HALF_LIFE]
    midnight = NOW.replace(hour=0) - timedelta(days=days)
    age = (NOW - midnight) / timedelta(days=1)
    assert change.new == pytest.approx(age / math.log2(score / 0.35), rel=2e-6)


def test_a_minimum_is_lowered_to_the_score() -> None:
    ranking = replace(BASE, k=2, min_score=0.3)
    change = changes(two_sides(), ranking, "sense")[Parameter.MIN_SCORE]
    assert change.new == pytest.approx(0.1)
    assert change.kind is ChangeKind.LOWER


def test_lambda_is_lowered_until_variety_wins() -> None:
    texts = {"first": "a b", "same": "a b", "other": "c d"}
    found_in = pool(
        [chunk(name, text) for name, text in texts.items()],
        [("first", 1.0), ("same", 0.8), ("other", 0.0)],
    )
    ranking = replace(BASE, k=2, mmr=Mmr(enabled=True, lambda_=0.9))
    change = changes(found_in, ranking, "other")[Parameter.LAMBDA]
    # lambda * 0.8 - (1 - lambda) = 0.
    assert change.new == pytest.approx(1 / 1.8, abs=2e-6)


def test_switches_and_methods() -> None:
    copies = [chunk("a", "same"), chunk("b", "same"), chunk("c", "other", importance=1.0)]
    found_in = pool(copies, [("a", 1.0), ("b", 0.9), ("c", 0.8)])
    found = changes(found_in, replace(BASE, k=2, mmr=Mmr(lambda_=0.5)), "c")
    assert found[Parameter.DEDUP].kind is ChangeKind.TURN_ON
    assert found[Parameter.MMR].new is True
    heavy = replace(BASE, k=1, rerank=Rerank(relevance=0.1, importance=0.9))
    assert found[Parameter.DEDUP].cost == 1.0
    assert changes(found_in, heavy, "c")[Parameter.RERANK].rank_after == 1
    assert changes(two_sides(), replace(BASE, vector_weight=0.45, keyword_weight=0.5), "sense")


def test_a_deeper_pool_is_asked_for() -> None:
    ids = [f"c{number}" for number in range(4)]
    full = pool([chunk(name) for name in ids], [(name, 0.5) for name in ids])
    shallow = replace(full, limit=4)
    ranking = replace(BASE, k=1, candidate_multiplier=1, min_candidates=1)
    assert changes(shallow, ranking, "c3")[Parameter.K].new == 4
    found = reasons(shallow, ranking, "c3")
    assert found[Parameter.CANDIDATE_MULTIPLIER] is NoChangeReason.NEW_SEARCH


def test_what_the_profile_does_not_use_is_said() -> None:
    found = reasons(two_sides(), BASE, "sense")
    for parameter in (Parameter.LAMBDA, Parameter.HALF_LIFE, Parameter.FLOOR, Parameter.RRF_K):
        assert found[parameter] is NoChangeReason.NOT_USED
    assert found[Parameter.DECAY] is NoChangeReason.NO_VALUE


def test_a_chunk_in_the_list_needs_no_change() -> None:
    found = least_changes(two_sides(), BASE, "word", now=NOW)
    assert found.cheapest is None
    assert (found.changes, found.without) == ((), ())


def test_a_chunk_outside_the_pool_is_refused() -> None:
    with pytest.raises(KeyError):
        least_changes(two_sides(), BASE, "nowhere", now=NOW)


def test_a_sweep_shows_where_the_order_flips() -> None:
    found = sweep(two_sides(), BASE, Parameter.VECTOR_WEIGHT, ("sense", "word"), now=NOW)
    assert (found.low, found.high) == (0.0, 1.0)
    lower, upper = found.ranks["sense"]
    assert lower == Segment(0.0, lower.end, None)
    assert upper == Segment(lower.end, 1.0, 1)
    assert lower.end == pytest.approx(0.5)


def test_a_sweep_tells_how_far_it_is_and_can_be_stopped() -> None:
    told: list[float] = []
    for parameter in (Parameter.VECTOR_WEIGHT, Parameter.K, Parameter.CANDIDATE_MULTIPLIER):
        told.clear()
        sweep(two_sides(), BASE, parameter, ("sense",), now=NOW, progress=told.append)
        assert told == sorted(told)
        assert (told[0] >= 0.0, told[-1]) == (True, 1.0)

    def stop(part: float) -> None:
        raise InterruptedError(part)

    with pytest.raises(InterruptedError):
        sweep(two_sides(), BASE, Parameter.VECTOR_WEIGHT, ("sense",), now=NOW, progress=stop)


def test_a_switch_cannot_be_swept() -> None:
    with pytest.raises(ValueError, match="no values to sweep"):
        sweep(two_sides(), BASE, Parameter.MMR, ("word",), now=NOW)


def test_a_value_of_the_wrong_type_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot be"):
        apply(BASE, Parameter.MMR, "maybe")


# --- what is nothing --------------------------------------------------------------------------

START_OF_2020 = NOW.replace(year=2020, month=1, day=1, hour=0)


def of_2020(score: float) -> tuple[CandidatePool, Ranking]:
    """An old note with a score, and a ranking in which 0 passes; 3 days half-life."""
    base = PROFILES["openclaw-2026.2"]
    ranking = replace(
        base,
        min_score=0.0,
        vector_weight=1.0,
        keyword_weight=0.0,
        decay=replace(base.decay, enabled=True, half_life_days=3.0),
    )
    return pool([replace(chunk("old"), path="memory/2020-01-01.md")], [("old", score)]), ranking


def counted_stretches(ranking: Ranking, found_in: CandidatePool, chunk_id: str) -> int:
    """How many stretches of the half-life are walked in both directions."""
    columns = columns_of(found_in, ranking, NOW)
    axis = Axis(columns, ranking, Parameter.HALF_LIFE)
    start, row = axis.coordinate(ranking.decay.half_life_days), columns.row_of[chunk_id]
    return sum(len(list(walk(axis, start, direction, row))) for direction in (1, -1))


@pytest.mark.parametrize(
    ("score", "multiples"),
    # The decay is rounded to a multiple of 2^-1074, the product to 0 up to this one.
    [(-1.0, 0.5), (-0.7, 0.5), (-0.5, 1.5), (-0.35, 1.5), (-0.3, 1.5), (-0.21, 2.5), (-0.01, 49.5)],
)
def test_a_negative_score_of_which_nothing_is_left_passes_a_minimum_of_0(
    score: float, multiples: float
) -> None:
    found_in, ranking = of_2020(score)
    change = changes(found_in, ranking, "old")[Parameter.HALF_LIFE]
    age = (NOW - START_OF_2020) / timedelta(days=1)
    exponent = 1074 * math.log(2) - math.log(multiples)
    assert change.new == pytest.approx(age * math.log(2) / exponent, rel=2e-6)
    shown = rank(found_in, apply(ranking, Parameter.HALF_LIFE, change.new), now=NOW).hits
    assert math.copysign(1, shown[0].score) == -1
    assert shown[0].score == 0
    assert counted_stretches(ranking, found_in, "old") < 400


@pytest.mark.parametrize("mmr", [False, True])
def test_the_walk_beside_scores_of_which_nothing_is_left_is_short(mmr: bool) -> None:
    """What is nothing beside the others must not hold the walk up, for it never shows.

    The bends of exponentials hold over 2 / age days at a time, so that from where nothing is left
    of the oldest, 745 / age, there are 373 stretches of them, whatever the number of notes.
    """
    days = {"a": (2026, 11, 1), "b": (2026, 11, 1), "c": (2024, 1, 1), "d": (2019, 5, 3)}
    dated = [
        replace(chunk(name, f"text {name in 'ab'} x"), path=f"memory/{y}-{m:02}-{d:02}.md")
        for name, (y, m, d) in days.items()
    ]
    legs = [("b", 0.2), ("c", 0.2), ("d", -1e-5)]
    found_in = pool(dated, legs, [("a", -1.0), ("b", -1.0)])
    base = PROFILES["openclaw-2026.2"]
    ranking = replace(
        base, k=1, min_score=None, mmr=Mmr(mmr, 0.7), decay=replace(base.decay, enabled=True)
    )
    ranking = apply(ranking, Parameter.HALF_LIFE, 1.0)
    assert 0 < counted_stretches(ranking, found_in, "d") < 6 * 373

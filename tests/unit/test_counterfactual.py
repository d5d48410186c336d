"""Least changes and sweeps on pools small enough to solve by hand."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any
from unittest.mock import Mock

import pytest
from msgspec import convert, to_builtins
from msgspec.structs import asdict, replace

from memtui.model import FEATURES, CandidatePool, Fusion, Mmr, PassageFeatures, Ranking, Reason
from memtui.model.inquiry import LegRank
from memtui.ranking.counterfactual.change import (
    Change,
    NoChangeReason,
    Parameter,
    apply,
    needed,
    outside_pool,
)
from memtui.ranking.counterfactual.solve import Axis, Problem, Segment, least_changes, sweep, walk
from memtui.ranking.pipeline import rank
from memtui.ranking.profiles import PROFILES
from tests.support.known import load
from tests.support.pools import NOW, chunk, pool

KNOWN = load("least_changes")
BASE = Ranking(k=1, fusion=Fusion.WEIGHTED_SUM, vector_weight=0.2, keyword_weight=0.8)


def two_sides() -> CandidatePool:
    """One chunk that only the keyword leg likes, one that only the vector leg likes."""
    # The mapped BM25 value of -1 is 0.5.
    return pool([chunk("word"), chunk("sense")], [("sense", 0.5), ("word", 0.0)], [("word", -1.0)])


def changes(found_in: CandidatePool, ranking: Ranking, chunk_id: str) -> dict[Parameter, Change]:
    found = least_changes(found_in, ranking, chunk_id, now=NOW)
    return {change.parameter: change for change in found.changes}


def pool_of(case: dict[str, Any]) -> CandidatePool:
    """The pool of a known answer; `age` is in days."""
    chunks = []
    for name, fields in case["chunks"].items():
        others = {key: value for key, value in fields.items() if key not in ("age", "text")}
        if "age" in fields:
            day = (NOW - timedelta(days=fields["age"])).date()
            others |= {"day": day, "day_from": Reason.FILE_NAME}
        chunks.append(chunk(name, fields.get("text", name), **others))
    found_in = pool(chunks, case["vector"], case.get("keyword", ()), tiers=case.get("exact_names"))
    passages = {
        name: tuple(
            PassageFeatures(0, 1, tuple([line.get(feature, 0.0) for feature in FEATURES[1:]]))
            for line in lines
        )
        for name, lines in case.get("passages", {}).items()
    }
    return replace(found_in, limit=case.get("limit", found_in.limit), passages=passages)


def ranking_of(case: dict[str, Any]) -> Ranking:
    """The ranking of a known answer: some fields of a profile are others."""
    base = to_builtins(PROFILES[case.get("profile", "memtui")])
    return convert({**base, "fusion": "weighted_sum", **case["ranking"]}, Ranking)


def assert_rounded(
    change: Change, exact: float, found_in: CandidatePool, ranking: Ranking, chunk_id: str
) -> None:
    """The new value is the exact one to two decimals, from 10 on to none; a sweep has the flip."""
    unit = 1 if exact >= 10 else 0.01
    assert isinstance(change.new, float)
    assert change.new == pytest.approx(exact, abs=1.001 * unit), change
    assert change.new == pytest.approx(round(change.new / unit) * unit), change
    swept = sweep(found_in, ranking, change.parameter, (chunk_id,), now=NOW)
    flips = [segment.start for segment in swept.ranks[chunk_id]]
    assert min(abs(flip - exact) for flip in flips) <= 2e-6 * max(1.0, exact)


@pytest.mark.parametrize("case", KNOWN["case"], ids=lambda case: case["name"])
def test_what_is_solved_by_hand_is_found(case: dict[str, Any]) -> None:
    found = least_changes(pool_of(case), ranking_of(case), case["chunk"], now=NOW)
    by_parameter = {change.parameter: change for change in found.changes}
    expected = [Parameter(name) for name, *_ in case["changes"]]
    assert [one for one in by_parameter if one in expected] == expected
    for name, value, rank_after in case["changes"]:
        change = by_parameter[Parameter(name)]
        if isinstance(value, float):
            assert_rounded(change, value, pool_of(case), ranking_of(case), case["chunk"])
        else:
            assert change.new == value, change
        assert change.rank_after == rank_after, change
    left = {one.parameter.value: one.reason.value for one in found.without}
    for reason, names in case.get("without", {}).items():
        assert {left[name] for name in names} == {reason}


@pytest.mark.parametrize("case", KNOWN["needed"], ids=lambda case: str(case["positions"]))
def test_how_deep_a_search_must_go(case: dict[str, Any]) -> None:
    fields = ("k", "candidate_multiplier", "min_candidates", "max_candidates")
    ranking = Ranking(**{name: case[name] for name in fields})
    found = needed(ranking, [LegRank(position, 900, 0.1) for position in case["positions"]])
    assert found is not None
    told = {name: value for name, value in asdict(found).items() if value is not None}
    assert told == case["answer"]
    reasons = {one.parameter: one.reason for one in outside_pool(found)}
    for parameter in (Parameter.K, Parameter.CANDIDATE_MULTIPLIER, Parameter.LAMBDA):
        does_it = parameter.value in told
        reason = NoChangeReason.NEW_SEARCH if does_it else NoChangeReason.NO_VALUE
        assert reasons[parameter] is reason
    assert needed(ranking, []) is None


def test_a_change_has_a_price() -> None:
    found = least_changes(two_sides(), BASE, "sense", now=NOW)
    weight = {change.parameter: change for change in found.changes}[Parameter.VECTOR_WEIGHT]
    assert found.cheapest is not None
    assert found.cheapest.parameter == Parameter.K
    assert found.cheapest.cost == pytest.approx(1 / 199)
    assert weight.cost == pytest.approx(0.3, abs=2e-6)
    assert apply(BASE, Parameter.VECTOR_WEIGHT, 0.35).keyword_weight == 0.65
    lower = changes(two_sides(), replace(BASE, k=2, min_score=0.3), "sense")
    minimum = lower[Parameter.MIN_SCORE].new
    assert isinstance(minimum, float)
    assert 0 < minimum < 0.3
    off = changes(two_sides(), replace(BASE, min_score=0.3), "sense")
    assert off[Parameter.VECTOR_WEIGHT].old == 0.2


def test_a_chunk_in_the_list_needs_no_change() -> None:
    found = least_changes(two_sides(), BASE, "word", now=NOW)
    assert found.cheapest is None
    assert (found.changes, found.without) == ((), ())


def test_a_sweep_shows_where_the_order_flips() -> None:
    found = sweep(two_sides(), BASE, Parameter.VECTOR_WEIGHT, ("sense", "word"), now=NOW)
    assert (found.low, found.high) == (0.0, 1.0)
    lower, upper = found.ranks["sense"]
    assert lower == Segment(0.0, lower.end, None)
    assert upper == Segment(lower.end, 1.0, 1)
    assert lower.end == pytest.approx(0.5)


@pytest.mark.parametrize(
    "parameter", [Parameter.VECTOR_WEIGHT, Parameter.K, Parameter.CANDIDATE_MULTIPLIER]
)
def test_a_sweep_can_be_stopped(parameter: Parameter) -> None:
    stop = Mock(side_effect=InterruptedError)
    with pytest.raises(InterruptedError):
        sweep(two_sides(), BASE, parameter, ("sense",), now=NOW, progress=stop)


@pytest.mark.parametrize(
    ("exact_names", "hidden"), [({}, "b"), ({"c": 3}, "a")], ids=["no name", "exact name"]
)
def test_one_place_goes_to_the_best_under_any_lambda(
    exact_names: dict[str, int], hidden: str
) -> None:
    texts = {"a": "x y", "b": "z w", "c": "q r"}
    found_in = pool(
        [chunk(name, text) for name, text in texts.items()],
        [("a", 0.9), ("b", 0.8), ("c", 0.7)],
        [(name, -1.0) for name in exact_names],
        tiers=exact_names,
    )
    ranking = replace(PROFILES["memtui"], k=1, min_score=0.0, mmr=Mmr(True, 0.7))
    found = sweep(found_in, ranking, Parameter.LAMBDA, tuple(texts), now=NOW)
    assert [segment.rank for segment in found.ranks[hidden]] == [None]


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
    problem = Problem(found_in, ranking, NOW, chunk_id)
    axis = Axis(problem, Parameter.HALF_LIFE)
    start = axis.coordinate(ranking.decay.half_life_days)
    return sum(len(list(walk(axis, start, step, problem.row))) for step in (1, -1))


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
    assert_rounded(change, age * math.log(2) / exponent, found_in, ranking, "old")
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

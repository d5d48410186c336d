"""Parameters of which every value at which the list can change is looked at."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from memtui.model import Leg, MinScoreRule, Ranking
from memtui.ranking.counterfactual.absence import absence
from memtui.ranking.counterfactual.change import (
    RANGES,
    Change,
    NoChangeReason,
    Parameter,
    value_of,
)
from memtui.ranking.counterfactual.columns import columns_of
from memtui.ranking.counterfactual.curves import Floats
from memtui.ranking.counterfactual.listing import (
    listing,
    runs_mmr,
    shown_scores,
    state_before_cut,
)
from memtui.ranking.counterfactual.scores import Seed, State
from memtui.ranking.counterfactual.solve import STEP, Outcome, Problem, Solver, switched


def minimum(problem: Problem, parameter: Parameter) -> Outcome:
    """The highest minimum up to the present one that does it, else none at all, else a higher one.

    A score passes the minimum that it equals, so only the scores themselves are looked at.
    """
    row = problem.row
    if row is None:
        return problem.none(parameter)
    now = problem.base.min_score
    open_state = state_before_cut(problem.columns, replace(problem.ranking, min_score=None), Seed())
    for value in _minimums(problem, open_state, row):
        state = replace(open_state, ranking=replace(problem.ranking, min_score=value))
        if row not in listing(state, ordered=False, certified=False).rows:
            continue
        for tried in _written(value, now):
            place = problem.rank_with(parameter, tried)
            if place is None:
                continue
            nearer = _nearer_minimum(tried, now)
            if nearer is None or problem.rank_with(parameter, nearer) is None:
                return problem.change(parameter, tried, place, exact=True)
    return problem.none(parameter)


def minimum_edges(state: State) -> Floats:
    """The minimums at which the list can change: each score within 0 to 1, ascending."""
    low, high = RANGES[Parameter.MIN_SCORE]
    scores = shown_scores(state).exact[state.order]
    found: Floats = np.unique([low, high, state.ranking.keyword_weight, *scores])
    return found[(found >= low) & (found <= high)]


def _minimums(problem: Problem, state: State, row: int) -> Iterator[float | None]:
    """Minimums to try, nearest first: downwards, none, then upwards."""
    if row not in state.order:
        return
    now = problem.base.min_score
    rule = problem.ranking.min_score_rule
    values = minimum_edges(state)
    shown = shown_scores(state)
    own, top = float(shown.exact[row]), float(shown.exact[state.order].max())
    fills = rule is MinScoreRule.FILL and bool(problem.columns.fillable[row])
    # Rivals that beat the chunk whatever else is in the list beat it under every minimum; not
    # exact names, which come first with whatever score.
    named = bool((problem.columns.tier > 0).any())
    beaten = not named and absence(state, row) is not None
    same_for_all = shown.exact is state.exact and not runs_mmr(problem.ranking)
    tried = False

    def is_possible(value: float) -> bool:
        if value <= own:
            return not beaten and not (same_for_all and tried)
        return fills if value <= top else rule is not MinScoreRule.PLAIN

    if now is not None:
        for value in values[values < now][::-1]:
            if is_possible(float(value)):
                yield float(value)
                tried = tried or value <= own
        if not beaten:
            yield None
    start = -math.inf if now is None else now
    for edge in values[values >= start]:
        for value in (float(edge), min(1.0, float(np.nextafter(edge, math.inf)))):
            if value > start and is_possible(value):
                yield value


def _written(value: float | None, now: float | None) -> list[float | None]:
    """Ways to write a minimum, the shortest first."""
    if value is None:
        return [None]
    upwards = now is None or value > now
    number = math.ceil(value / STEP) if upwards else math.floor(value / STEP)
    return [round(number * STEP, 6), value]


def _nearer_minimum(value: float | None, now: float | None) -> float | None:
    if now is None:
        # No minimum is as far from the lowest one as a switch.
        return value - STEP if value is not None and value >= STEP else None
    if value is None:
        return 0.0
    if abs(value - now) <= STEP:
        return None
    return value + STEP if value < now else value - STEP


def places(problem: Problem, parameter: Parameter) -> Outcome:
    """The nearest k that does it; the larger of two that are equally near.

    A smaller one can do it, too: it takes fewer candidates, and when nothing reaches the minimum
    any more, a release relaxes it.
    """
    raised = _raised(problem, parameter)
    base = problem.base
    if isinstance(raised, Change):
        assert isinstance(raised.new, int)
        lowest = max(1, 2 * base.k - raised.new + 1)
    elif raised.reason is NoChangeReason.NO_VALUE:
        lowest = 1
    else:
        return raised
    for k in range(base.k - 1, lowest - 1, -1):
        if problem.needs_search(problem.changed(parameter, k)):
            continue
        place = problem.rank_with(parameter, k)
        if place is not None:
            return problem.change(parameter, k, place, exact=True)
    return raised


def _raised(problem: Problem, parameter: Parameter) -> Outcome:
    """The smallest k above the present one that does it."""
    base = problem.base
    highest = max(base.k, int(RANGES[parameter][1]))
    for low, high in _same_candidates(problem, Parameter.K, range(base.k + 1, highest + 1)):
        ranking = problem.changed(parameter, low)
        if problem.needs_search(ranking):
            return problem.none(parameter, NoChangeReason.NEW_SEARCH)
        rows, row = _rows(problem, replace(ranking, k=high))
        if row is None or row not in rows:
            continue
        for k in range(max(low, rows.index(row) + 1), high + 1):
            place = problem.rank_with(parameter, k)
            if place is not None:
                return problem.change(parameter, k, place, exact=True)
    return problem.none(parameter)


def multiplier(problem: Problem, parameter: Parameter) -> Outcome:
    """The nearest candidate multiplier that does it; the larger of two that are equally near."""
    now = value_of(problem.base, parameter)
    assert isinstance(now, (int, float))
    low, high = (int(value) for value in RANGES[parameter])
    runs = _same_candidates(problem, parameter, range(low, high + 1))
    # What the multiplier does to the number of candidates can be nothing at all.
    edges = {value for run in runs for value in run}
    needs = False
    for value in sorted(edges, key=lambda value: (abs(value - now), -value)):
        ranking = problem.changed(parameter, value)
        if ranking.candidates == problem.ranking.candidates:
            continue
        if problem.needs_search(ranking):
            needs = True
            continue
        rows, row = _rows(problem, ranking)
        if row is None or row not in rows:
            continue
        place = problem.rank_with(parameter, value)
        if place is not None:
            return problem.change(parameter, value, place, exact=True)
    if needs:
        return problem.none(parameter, NoChangeReason.NEW_SEARCH)
    return problem.none(parameter)


def _same_candidates(
    problem: Problem, parameter: Parameter, values: range
) -> list[tuple[int, int]]:
    """Runs of values under which the same candidates take part: first and last of each."""
    longest = max((len(problem.pool.hits.get(leg, ())) for leg in Leg), default=0)
    runs: list[tuple[int, int]] = []
    previous: tuple[int, bool] | None = None
    for value in values:
        ranking = problem.changed(parameter, value)
        needs = problem.needs_search(ranking)
        size = ranking.candidates if problem.pool.sized else min(longest, ranking.candidates)
        if runs and previous == (size, needs):
            runs[-1] = runs[-1][0], value
        else:
            runs.append((value, value))
        previous = size, needs
    return runs


def _rows(problem: Problem, ranking: Ranking) -> tuple[tuple[int, ...], int | None]:
    """The list under another ranking, and the chunk's row among its candidates."""
    columns = problem.columns
    if ranking.candidates != problem.ranking.candidates:
        columns = columns_of(problem.pool, ranking, problem.now)
    row = columns.row_of.get(problem.chunk_id)
    if row is None:
        return (), None
    return listing(state_before_cut(columns, ranking, Seed()), certified=False).rows, row


SOLVERS: Mapping[Parameter, Solver] = {
    Parameter.MIN_SCORE: minimum,
    Parameter.K: places,
    Parameter.CANDIDATE_MULTIPLIER: multiplier,
    Parameter.MMR: switched,
    Parameter.DECAY: switched,
    Parameter.RERANK: switched,
    Parameter.DEDUP: switched,
}

"""The least change of each parameter alone that brings a chunk into the list, and sweeps.

Numbers on a continuous range are solved by walking from change to change of the list; the
minimum score, k and the candidate multiplier by looking at each value at which the list can
change. Whatever is found is ranked again by `memtui.ranking.pipeline.rank` before it is offered:
the chunk has to be in the list, and out of it one step nearer to the present value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from itertools import groupby, pairwise
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from memtui import model
from memtui.ranking.context import with_weights
from memtui.ranking.counterfactual.change import (
    DEPTH,
    FEATURE_OF,
    LOGARITHMIC,
    RANGES,
    Change,
    Counterfactuals,
    NoChange,
    NoChangeReason,
    Parameter,
    Value,
    apply,
    change_to,
    cost,
    range_of,
    value_of,
)
from memtui.ranking.counterfactual.margins import (
    absence_reach,
    listing,
    shown_scores,
    state_before_cut,
)
from memtui.ranking.counterfactual.scores import (
    SMALLEST_EXPONENT,
    Columns,
    Floats,
    Seed,
    State,
    columns_of,
    reach,
)
from memtui.ranking.pipeline import for_mode, needs_search, rank, runs

RESOLUTION = 1e-9
"""The shortest stretch that is looked at, as a part of the range; where scores bend, of a value."""

WINDOW = 0.8
"""The range over which the bends of exponentials and reciprocals are bounded at once."""

GROWTH = 2.0
"""By at most exp() of this the bends of exponentials are overrated at the other end."""

SHORTEST_PROOF = 16
"""Proofs of absence that hold for fewer steps than so many are not worth their while."""

DIGITS = 6
"""So many decimals are written at most; on a log scale so many digits behind the first."""

SLACK = 1e-3
"""Within this part of a unit an edge may be the rounded number itself."""


@dataclass(frozen=True)
class Problem:
    """One ranking of a pool that is changed, as it runs with the legs that search there."""

    pool: model.CandidatePool
    base: model.Ranking
    now: datetime
    chunk_id: str = ""
    """The chunk that is to be brought in."""
    _laid_out: dict[int, Columns] = field(default_factory=dict, init=False, compare=False)

    @cached_property
    def ranking(self) -> model.Ranking:
        """The ranking as it runs."""
        return for_mode(self.base, self.pool.search_mode)

    def columns_under(self, ranking: model.Ranking) -> Columns:
        """Return the candidates of a ranking; they are laid out once for each number of them."""
        count = ranking.candidates
        if count not in self._laid_out:
            self._laid_out[count] = columns_of(self.pool, ranking, self.now)
        return self._laid_out[count]

    @property
    def columns(self) -> Columns:
        """The candidates of the ranking as it runs."""
        return self.columns_under(self.ranking)

    @cached_property
    def row(self) -> int | None:
        """The chunk among the candidates."""
        ids = [row.chunk.id for row in self.columns.rows]
        return ids.index(self.chunk_id) if self.chunk_id in ids else None

    def changed(self, parameter: Parameter, value: Value) -> model.Ranking:
        """Return the ranking with one parameter changed, as it runs."""
        return for_mode(apply(self.base, parameter, value), self.pool.search_mode)

    def rank_with(self, parameter: Parameter, value: Value) -> int | None:
        """Return the rank of the chunk in the changed list, by the ranking itself."""
        ranked = rank(self.pool, self.changed(parameter, value), now=self.now)
        return ranked.ranks.get(self.chunk_id)

    def needs_search(self, ranking: model.Ranking) -> bool:
        """Return whether a ranking takes candidates that the pool does not hold."""
        pool = self.pool
        has_more = pool.sized or any(len(pool.hits[leg]) >= pool.limit for leg in model.Leg)
        return has_more and needs_search(pool, self.ranking, ranking)

    def ranks_under(self, ranking: model.Ranking) -> dict[str, int]:
        columns = self.columns_under(ranking)
        return columns.ranks(listing(state_before_cut(columns, ranking, Seed()))[0])

    def change(self, parameter: Parameter, value: Value) -> Change | None:
        """Return the change to a value that the ranking itself confirms; `None` if it does not."""
        place = self.rank_with(parameter, value)
        return None if place is None else change_to(self.base, parameter, value, place)


class Axis(Struct, frozen=True):
    """One parameter of one ranking: its values and the coordinate that is walked along.

    The coordinate of the half-life is ln 2 / days: scores are exponentials in it.
    """

    problem: Problem
    parameter: Parameter

    def coordinate(self, value: float) -> float:
        return math.log(2) / value if self.parameter is Parameter.HALF_LIFE else value

    def value(self, coordinate: float, *, certain: bool = False) -> float:
        """Return the value at a coordinate, within the range; only the `certain` digits of it."""
        low, high = range_of(self.problem.base, self.parameter)
        # The way back is the same.
        value = self.coordinate(coordinate)
        if certain:
            value = round(value, 12 - (math.ceil(math.log10(value)) if value > 1 else 0))
        return min(high, max(low, value))

    @property
    def bounds(self) -> tuple[float, float]:
        low, high = sorted(map(self.coordinate, range_of(self.problem.base, self.parameter)))
        return low, high

    def step(self, coordinate: float) -> float:
        """Return the shortest stretch that is looked at."""
        low, high = self.bounds
        return RESOLUTION * (coordinate if self.parameter in LOGARITHMIC else high - low)

    def stretch_at(self, coordinate: float) -> Stretch:
        changed = self.problem.changed(self.parameter, self.value(coordinate, certain=True))
        return Stretch(coordinate, coordinate, self.problem.ranks_under(changed))


class Stretch(NamedTuple):
    """Values between which the list is the same; one value alone where candidates are equal.

    `start` and `end` of a walk are coordinates in its direction, `ranks` those of the chunks of the
    list; none where only so much is sure: the row that the walk looks for is not in it.
    """

    start: float
    end: float
    ranks: dict[str, int]


def walk(axis: Axis, start: float, direction: int, target: int | None = None) -> Iterator[Stretch]:
    """Yield the stretches from a coordinate to the end of the range.

    With a `target`, a row, the ranks are left out where it clearly is not in the list.
    """
    low, high = axis.bounds
    problem, end = axis.problem, high if direction > 0 else low
    # Where scores bend, the bound is safe but seldom the change itself.
    is_bent = axis.parameter in LOGARITHMIC
    here, stuck = start + direction * axis.step(start), 0
    since = start
    while direction * (end - here) > 0:
        # How far down the bends hold; 0 where that does not matter.
        window = here * (1 - WINDOW) if is_bent and direction < 0 else 0.0
        if window and axis.parameter is Parameter.HALF_LIFE:
            ages = problem.columns.aged
            # What is so old that nothing is left of it does not bend.
            oldest = float(ages[ages * here < SMALLEST_EXPONENT].max(initial=0.0))
            window = min(window, GROWTH / oldest) if oldest > 0 else window
        ranking = problem.changed(axis.parameter, axis.value(here))
        state = state_before_cut(problem.columns, ranking, Seed(axis.parameter, here - window))
        shortest, ranks = axis.step(here), dict[str, int]()
        far = absence_reach(state, target, direction) if target is not None else 0.0
        if far <= SHORTEST_PROOF * shortest:
            rows, margins = listing(state)
            ranks, far = problem.columns.ranks(rows), reach(margins, direction)
        far = min(far, window or math.inf)
        there = here + direction * far
        if direction * (end - there) <= 0:
            yield Stretch(since, end, ranks)
            break
        yield Stretch(since, there, ranks)
        since = there
        if is_bent and far > shortest and there != here:
            here, stuck = there, 0
            continue
        yield axis.stretch_at(there)
        stuck = stuck + 1 if far <= shortest else 0
        here = there + direction * shortest * 2 ** max(0, stuck - 3)
    yield axis.stretch_at(end)


def is_used(pool: model.CandidatePool, ranking: model.Ranking, parameter: Parameter) -> bool:
    """Return whether a parameter can make any difference under this ranking, as it runs."""
    match parameter:
        case Parameter.VECTOR_WEIGHT:
            rescues = (
                runs(ranking, model.Stage.MIN_SCORE)
                and ranking.min_score_rule is model.MinScoreRule.RELAXED
                and ranking.relaxed_min_score is None
            )
            total = ranking.vector_weight + ranking.keyword_weight
            return total > 0 and (ranking.search_mode is model.SearchMode.HYBRID or rescues)
        case Parameter.RRF_K:
            return ranking.fusion is model.Fusion.RRF and pool.is_scored
        case Parameter.CONTEXT if not pool.passages:
            return False
        case Parameter.HALF_LIFE:
            return runs(ranking, model.Stage.DECAY)
        case Parameter.FLOOR:
            # OpenClaw's decay has no floor.
            has_floor = ranking.decay.dates is model.DateRule.MEMTUI or ranking.decay.floor > 0
            return runs(ranking, model.Stage.DECAY) and has_floor
        case Parameter.LAMBDA:
            return runs(ranking, model.Stage.MMR)
        case Parameter.FUSION | Parameter.K | Parameter.CANDIDATE_MULTIPLIER:
            return True
        case _ if (feature := FEATURE_OF.get(parameter)) is not None:
            is_there = any(
                feature == 0 or any(one.values[feature - 1] for one in passages)
                for passages in pool.passages.values()
            )
            return is_there and runs(ranking, model.Stage.CONTEXT)
    # Switches and the minimum are called as their stages are.
    return model.Stage(parameter.value.removesuffix(".enabled")) in ranking.stages


_SLOW = (Parameter.LAMBDA, Parameter.FLOOR, Parameter.RRF_K, Parameter.HALF_LIFE)
"""Parameters along which a list of hundreds of candidates can change thousands of times."""


def least_changes(
    pool: model.CandidatePool,
    ranking: model.Ranking,
    chunk_id: str,
    *,
    now: datetime,
    parameters: Iterable[Parameter] = Parameter,
    progress: Callable[[Parameter], None] = lambda parameter: None,
) -> Counterfactuals:
    """Return what would bring a chunk of the pool into the list, by each parameter alone.

    Changes are of `ranking`; what runs is `for_mode` of it with the legs that search in the pool.
    `now` must be timezone-aware. Changes come cheapest first (see `change.cost`), equal ones in
    the order of `Parameter`. A chunk that already is in the list needs none: both tuples are empty.
    Only `parameters` are looked at; `progress` is told of each before it is solved, those that can
    take seconds last.
    """
    problem = Problem(pool, with_weights(ranking, pool.evidence), now, chunk_id)
    if chunk_id in rank(pool, problem.ranking, now=now).ranks:
        return Counterfactuals()
    solved: dict[Parameter, list[Change] | NoChangeReason] = {}
    for parameter in sorted(parameters, key=lambda one: _SLOW.index(one) if one in _SLOW else -1):
        progress(parameter)
        solved[parameter] = _solved(problem, parameter)
    ordered = [(parameter, solved[parameter]) for parameter in Parameter if parameter in solved]
    changes = [one for _, outcome in ordered if isinstance(outcome, list) for one in outcome]
    without = [NoChange(one, why) for one, why in ordered if isinstance(why, NoChangeReason)]
    return Counterfactuals(tuple(sorted(changes, key=lambda one: one.cost)), tuple(without))


def _solved(problem: Problem, parameter: Parameter) -> list[Change] | NoChangeReason:
    changes: list[Change | None] = []
    is_candidate = problem.row is not None
    if not is_used(problem.pool, problem.ranking, parameter):
        return NoChangeReason.NOT_USED
    match parameter:
        case Parameter.FUSION:
            others = [str(method) for method in model.Fusion if method is not problem.base.fusion]
            changes = [problem.change(parameter, method) for method in others]
        case _ if parameter not in RANGES:
            changes = [problem.change(parameter, not value_of(problem.base, parameter))]
        case Parameter.K | Parameter.CANDIDATE_MULTIPLIER:
            return _whole(problem, parameter)
        case Parameter.MIN_SCORE if is_candidate:
            changes = [_first(problem, parameter, _minimums(problem))]
        case _ if is_candidate:
            upwards = _first(problem, parameter, _entries(problem, parameter, 1, math.inf))
            below = upwards.cost if upwards is not None else math.inf
            downwards = _first(problem, parameter, _entries(problem, parameter, -1, below))
            is_nearer = downwards is not None and downwards.cost < below
            changes = [downwards if is_nearer else upwards]
    return [*filter(None, changes)] or NoChangeReason.NO_VALUE


def _first(problem: Problem, parameter: Parameter, values: Iterable[float | None]) -> Change | None:
    """Return the first value that the ranking confirms: it does it, and a unit nearer not."""
    # No minimum is as far from the lowest one as a switch.
    now = value_of(problem.base, parameter) or 0.0
    assert isinstance(now, (int, float))

    def is_least(value: float) -> bool:
        step = value - now
        nearer = value - math.copysign(unit_of(parameter, value), step)
        is_past = (nearer - now) * step <= 0
        return is_past or problem.rank_with(parameter, nearer) is None

    tried = set[float | None]()
    for value in values:
        if value in tried:
            continue
        tried.add(value)
        change = problem.change(parameter, value)
        if change is not None and (value is None or is_least(value)):
            return change
    return None


def decimals_of(parameter: Parameter, value: float) -> range:
    """Return the numbers of decimals with which a value may be written, the fewest first."""
    is_scaled = parameter in LOGARITHMIC
    size = math.floor(math.log10(value)) if is_scaled else 0
    return range(0 if is_scaled and value >= 10 else 2, max(DIGITS - size, 0) + 1)


def unit_of(parameter: Parameter, value: float) -> float:
    """Return one unit of the last decimal that a value is written with."""
    decimals = decimals_of(parameter, value)
    fewest = next((one for one in decimals if round(value, one) == value), decimals[-1])
    return 10.0**-fewest


def _rounded(problem: Problem, parameter: Parameter, edge: float, is_up: bool) -> list[float]:
    """Round an edge up or down, within the range; the fewest decimals first."""
    (low, high), direction = range_of(problem.base, parameter), 1 if is_up else -1
    values = []
    for decimals in decimals_of(parameter, edge):
        place = direction * edge * 10**decimals
        # Where the edge is a round number, it does it itself, or only what is beyond it.
        for number in (math.ceil(place - SLACK), math.floor(place + SLACK) + 1):
            values.append(round(direction * number / 10**decimals, decimals))
    return [value for value in values if low <= value <= high]


def _entries(
    problem: Problem, parameter: Parameter, direction: int, below: float
) -> Iterator[float]:
    """Yield values of a continuous range that show the chunk, as long as they cost less.

    `direction` is that of the walk. Of each stretch the shortest value to write comes first.
    """
    axis = Axis(problem, parameter)
    now = value_of(problem.base, parameter)
    assert isinstance(now, (int, float))
    first, last = axis.bounds
    start = min(last, max(first, axis.coordinate(now)))
    for stretch in walk(axis, start, direction, problem.row):
        edge = axis.value(stretch.start)
        if cost(problem.base, parameter, edge) >= below:
            return
        if problem.chunk_id not in stretch.ranks:
            continue
        middle = axis.value((stretch.start + stretch.end) / 2)
        yield from _rounded(problem, parameter, edge, middle > now)
        yield axis.value(stretch.start, certain=True)
        yield middle


def minimum_edges(state: State) -> Floats:
    """Return the minimums at which the list can change, ascending: each score from 0 on.

    The last is 1, or the whole number above the best score.
    """
    scores = shown_scores(state).exact[state.order]
    high = min(model.HIGHEST_MINIMUM, max(1.0, math.ceil(scores.max(initial=0.0))))
    edges: Floats = np.unique([0.0, high, state.ranking.keyword_weight, *scores])
    within: Floats = edges[(edges >= 0) & (edges <= high)]
    return within


def _minimums(problem: Problem) -> Iterator[float | None]:
    """Yield the minimums that show the chunk: the highest up to the present one, none, higher ones.

    A score passes the minimum that it equals, so only the scores themselves are looked at; a higher
    minimum does it by what it leaves out, everything that scores just so much.
    """
    now = problem.base.min_score
    state = state_before_cut(problem.columns, replace(problem.ranking, min_score=None), Seed())
    edges = minimum_edges(state).tolist()
    highest = edges[-1]
    beyond = [one for edge in edges for one in (edge, min(highest, math.nextafter(edge, math.inf)))]
    values: list[float | None] = [*beyond]
    if now is not None:
        below = [edge for edge in reversed(edges) if edge < now]
        values = [*below, None, *(one for one in beyond if one > now)]
    for value in values:
        changed = replace(state, ranking=replace(problem.ranking, min_score=value))
        if problem.chunk_id not in problem.columns.ranks(listing(changed)[0]):
            continue
        if value is not None:
            yield from _rounded(problem, Parameter.MIN_SCORE, value, value > (now or 0))
        yield value


def _whole(problem: Problem, parameter: Parameter) -> list[Change] | NoChangeReason:
    """Find the nearest k or candidate multiplier that does it; of two equally near the larger.

    A smaller k can do it, too: it takes fewer candidates, and when nothing reaches the minimum
    any more, a release relaxes it.
    """
    now = value_of(problem.base, parameter)
    assert isinstance(now, int)
    low, high = (int(value) for value in RANGES[parameter])
    reason = NoChangeReason.NO_VALUE
    tried = {(problem.ranking.k, problem.ranking.candidates)}
    for value in nearest_first(range(low, max(now, high) + 1), now):
        ranking = problem.changed(parameter, value)
        if (ranking.k, ranking.candidates) in tried:
            continue
        tried.add((ranking.k, ranking.candidates))
        if problem.needs_search(ranking):
            reason = NoChangeReason.NEW_SEARCH
            if parameter is Parameter.K and value > now:
                break
            continue
        shows = problem.chunk_id in problem.ranks_under(ranking)
        if shows and (change := problem.change(parameter, value)) is not None:
            return [change]
    return reason


def nearest_first(values: Iterable[int], now: int) -> list[int]:
    """Sort by the distance to the present value; of two equally near the larger comes first."""
    return sorted(values, key=lambda value: (abs(value - now), -value))


class Segment(Struct, frozen=True):
    """Values between which a chunk keeps its rank; `None` is not in the list.

    Where two segments meet, a whole number belongs to the one that begins there; of every other
    parameter either rank may hold.
    """

    start: float
    end: float
    rank: int | None


class Sweep(Struct, frozen=True):
    """The rank of each chunk asked for, as segments from the lowest to the highest value."""

    parameter: Parameter
    low: float
    high: float
    ranks: dict[str, tuple[Segment, ...]]


def sweep(
    pool: model.CandidatePool,
    ranking: model.Ranking,
    parameter: Parameter,
    chunk_ids: Sequence[str],
    *,
    now: datetime,
    progress: Callable[[], None] = lambda: None,
) -> Sweep:
    """Follow chunks over the range of a parameter that is used, with the legs of the pool.

    A rank is a place in the list of `ranking`, 1 to k; outside it is `None`. k and the multiplier
    end where the pool holds no more candidates. A sweep takes milliseconds for a hundred
    candidates, and up to a few seconds for hundreds of them under MMR: `progress` is called again
    and again, and may raise to stop it.
    """
    problem = Problem(pool, with_weights(ranking, pool.evidence), now)
    pieces: list[Stretch] = []
    for piece in _pieces(problem, parameter):
        progress()
        pieces.append(piece)
    pieces.sort(key=lambda piece: piece[:2])
    low = pieces[0].start if pieces else RANGES[parameter][0]
    high = pieces[-1].end if pieces else low

    def segments_of(chunk_id: str) -> tuple[Segment, ...]:
        places = groupby(pieces, key=lambda piece: piece.ranks.get(chunk_id))
        starts = [(next(group).start, place) for place, group in places]
        ends = [*(start for start, _ in starts[1:]), high]
        return tuple(Segment(one[0], end, one[1]) for one, end in zip(starts, ends, strict=False))

    return Sweep(parameter, low, high, {one: segments_of(one) for one in chunk_ids})


def _pieces(problem: Problem, parameter: Parameter) -> Iterator[Stretch]:
    """Yield the lists over the range, in the order in which they are found."""
    if parameter is Parameter.MIN_SCORE:
        ranking = problem.ranking
        state = state_before_cut(problem.columns, replace(ranking, min_score=None), Seed())
        for start, end in pairwise(float(edge) for edge in minimum_edges(state)):
            # A score passes the minimum that it equals: the upper end stands for what is between.
            changed = replace(state, ranking=replace(ranking, min_score=end))
            yield Stretch(start, end, problem.columns.ranks(listing(changed)[0]))
    elif parameter in DEPTH:
        low, high = (int(value) for value in RANGES[parameter])
        for value in range(low, high + 1):
            ranking = problem.changed(parameter, value)
            if not problem.needs_search(ranking):
                yield Stretch(value, value, problem.ranks_under(ranking))
    else:
        axis = Axis(problem, parameter)
        for stretch in walk(axis, axis.bounds[0], 1):
            if stretch.start != stretch.end:
                start, end = sorted(map(axis.value, (stretch.start, stretch.end)))
                yield Stretch(start, end, stretch.ranks)

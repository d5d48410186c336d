"""Walking along one parameter of one ranking, from change to change of its list.

Where only one candidate is looked for, a quick proof that it stays out of the list, however the
others stand, saves most runs of MMR: a candidate below the minimum is out, and so is one with k
rivals that beat it even if MMR counted the most against them and nothing against it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

import numpy as np
from msgspec import Struct

from memtui.model import CandidatePool, Leg, MinScoreRule, Ranking, SearchMode
from memtui.ranking.counterfactual.change import (
    Change,
    Parameter,
    Value,
    apply,
    cost,
    kind_of,
    range_of,
    value_of,
)
from memtui.ranking.counterfactual.columns import Columns, Curve, columns_of, reach, reaches
from memtui.ranking.counterfactual.margins import (
    Shown,
    listing,
    minimum_margin,
    minimum_margins,
    mmr_groups,
    mmr_is_last,
    preferred,
    runs_mmr,
    shown_scores,
    span_curve,
    span_margins,
    state_before_cut,
)
from memtui.ranking.counterfactual.scores import SMALLEST_EXPONENT, Seed, State
from memtui.ranking.pipeline import for_mode, rank

RESOLUTION = 1e-9
_BENT = frozenset({Parameter.HALF_LIFE, Parameter.RRF_K})


@dataclass(frozen=True)
class Problem:
    """One chunk that one ranking of a pool leaves out; `mode` says which legs can search."""

    pool: CandidatePool
    base: Ranking
    chunk_id: str
    now: datetime
    mode: SearchMode | None

    @cached_property
    def ranking(self) -> Ranking:
        """The ranking as it runs."""
        return self.base if self.mode is None else for_mode(self.base, self.mode)

    @cached_property
    def columns(self) -> Columns:
        return columns_of(self.pool, self.ranking, self.now)

    @cached_property
    def _by_count(self) -> dict[int, Columns]:
        return {self.ranking.candidates: self.columns}

    @property
    def row(self) -> int | None:
        """The chunk among the candidates."""
        return self.columns.row_of.get(self.chunk_id)

    def changed(self, parameter: Parameter, value: Value) -> Ranking:
        """Return the ranking with one parameter changed, as it runs."""
        changed = apply(self.base, parameter, value)
        return changed if self.mode is None else for_mode(changed, self.mode)

    def rank_with(self, parameter: Parameter, value: Value) -> int | None:
        """Return the rank of the chunk in the changed list, by the ranking itself."""
        ranked = rank(self.pool, self.changed(parameter, value), now=self.now)
        return next((hit.rank for hit in ranked.hits if hit.chunk.id == self.chunk_id), None)

    def needs_search(self, ranking: Ranking) -> bool:
        """Return whether a ranking takes candidates that the pool does not hold."""
        if self.pool.sized:
            return ranking.candidates != self.pool.limit
        return ranking.candidates > self.pool.limit and any(
            len(self.pool.hits.get(leg, ())) >= self.pool.limit for leg in Leg
        )

    def list_under(self, ranking: Ranking) -> tuple[Columns, tuple[int, ...]]:
        """Return the list of another ranking; candidates are laid out once for each number."""
        if ranking.candidates not in self._by_count:
            self._by_count[ranking.candidates] = columns_of(self.pool, ranking, self.now)
        columns = self._by_count[ranking.candidates]
        return columns, listing(state_before_cut(columns, ranking, Seed()), certified=False)[0]

    def change(self, parameter: Parameter, value: Value, *, exact: bool = True) -> Change | None:
        """Return the change to a value that the ranking itself confirms; `None` if it does not."""
        place = self.rank_with(parameter, value)
        if place is None:
            return None
        old, price = value_of(self.base, parameter), cost(self.base, parameter, value)
        return Change(parameter, old, value, price, exact, place, kind_of(old, value))


class Axis(Struct, frozen=True):
    """One parameter of one ranking: its values and the coordinate that is walked along.

    The coordinate of the half-life is ln 2 / days: scores are exponentials in it.
    """

    problem: Problem
    parameter: Parameter

    def coordinate(self, value: float) -> float:
        return math.log(2) / value if self.parameter is Parameter.HALF_LIFE else value

    def value(self, coordinate: float) -> float:
        """Return the value at a coordinate, without the noise of the last digits."""
        if self.parameter is Parameter.HALF_LIFE:
            return math.log(2) / coordinate
        return coordinate

    @property
    def is_bent(self) -> bool:
        """Whether scores are no straight lines along it."""
        return self.parameter in _BENT

    @property
    def bounds(self) -> tuple[float, float]:
        """Lowest and highest coordinate."""
        values = range_of(self.problem.base, self.parameter)
        low, high = (self.coordinate(value) for value in values)
        return min(low, high), max(low, high)

    def state(self, coordinate: float, low: float) -> State:
        """Return the candidates at a coordinate; `low` is how far down the bends have to hold."""
        ranking = self.problem.changed(self.parameter, self.value(coordinate))
        return state_before_cut(self.problem.columns, ranking, Seed(self.parameter, low))

    def step(self, coordinate: float) -> float:
        """Return the shortest stretch that is looked at."""
        if self.is_bent:
            return RESOLUTION * coordinate
        low, high = self.bounds
        return RESOLUTION * (high - low)

    def rows(self, value: float) -> tuple[int, ...]:
        """Return the list at a value."""
        return self.problem.list_under(self.problem.changed(self.parameter, value))[1]


def range_value(axis: Axis, coordinate: float) -> float:
    """Return the value at a coordinate, within the range."""
    low, high = range_of(axis.problem.base, axis.parameter)
    return min(high, max(low, axis.value(coordinate)))


def rounded(axis: Axis, coordinate: float) -> float:
    """Return the value at a coordinate, cut to the digits that are certain."""
    low, high = range_of(axis.problem.base, axis.parameter)
    value = axis.value(coordinate)
    digits = 12 - (math.ceil(math.log10(value)) if value > 1 else 0)
    return min(high, max(low, round(value, digits)))


WINDOW = 0.8
"""How far down the bends of exponentials and of reciprocals are bounded at once."""

GROWTH = 2.0
"""By at most exp() of this the bends of exponentials are overrated at the other end."""

SHORTEST_PROOF = 16
"""Proofs that hold for fewer steps than so many are not worth their while."""


class Absence(Struct, frozen=True):
    """Margins that all have to hold, and rivals of which `needed` have to stay above."""

    margins: list[Curve]
    rivals: Curve | None = None
    needed: int = 0

    def reach(self, direction: int) -> float:
        """Return how far the parameter may move with the proof still valid."""
        furthest = reach(self.margins, direction)
        if self.rivals is None or self.needed <= 0:
            return furthest
        each = np.sort(reaches(self.rivals, direction))
        return min(furthest, float(each[len(each) - self.needed]))


def absence(state: State, target: int) -> Absence | None:
    """Proof that a row is not in the list; `None` when this is not so easily shown."""
    if target not in state.order:
        return Absence(state.margins)
    shown = shown_scores(state)
    # What neither passes nor may fill is out, while others pass.
    may_enter = shown.strict[target] or shown.filling[target]
    others_pass = shown.filling.any() and shown.strict[state.order].any()
    if not shown.is_plain and (may_enter or not others_pass):
        return None
    return (_beaten if shown.strict[target] else _below)(state, shown, target)


def _below(state: State, shown: Shown, target: int) -> Absence | None:
    minimum = state.ranking.min_score
    if minimum is None:
        return None
    own = minimum_margin(state, shown, minimum, np.array([target]))
    margins = [*state.margins, own]
    strict = state.order[shown.strict[state.order]]
    rule = state.ranking.min_score_rule
    if rule is MinScoreRule.PLAIN:
        return Absence(margins)
    if rule is MinScoreRule.FILL and state.columns.fillable[target]:
        return Absence(margins, minimum_margin(state, shown, minimum, strict), state.ranking.k)
    witness = strict[[int(np.argmax(shown.exact[strict]))]]
    return Absence([*margins, minimum_margin(state, shown, minimum, witness)])


def _beaten(state: State, shown: Shown, target: int) -> Absence | None:
    ranking, minimum = state.ranking, state.ranking.min_score
    margins = list(state.margins)
    passes_alone = ranking.min_score_rule is MinScoreRule.PLAIN
    if shown.by_minimum and minimum is not None and not passes_alone:
        margins.append(minimum_margin(state, shown, minimum, np.array([target])))
    passing = state.order[shown.strict[state.order]]
    if not runs_mmr(ranking):
        groups = state.groups[passing]
        ahead = int((groups < state.groups[target]).sum())
        same = passing[(groups == state.groups[target]) & (passing != target)]
        rivals = state.over(same, np.array([target]))
    else:
        last = mmr_is_last(ranking)
        ahead = 0
        members = passing[:0]
        for group in mmr_groups(state, passing if last else state.order):
            members = group
            if target in group:
                break
            ahead += int(shown.strict[group].sum())
        others = np.flatnonzero(shown.strict[members] & (members != target))
        scores = state.relative(members)
        difference = scores[others].minus(scores[np.flatnonzero(members == target)])
        against = -state.columns.nearest[members[others]]
        rivals = preferred(state, difference, against, span_curve(state, members, scores))
        margins += span_margins(state, members)
        if last:
            margins += minimum_margins(state, shown, state.order)
    needed = ranking.k - ahead
    above = rivals.value > 1e-12
    if int(above.sum()) < needed:
        return None
    return Absence(margins, rivals[np.flatnonzero(above)], needed)


class Stretch(Struct, frozen=True):
    """Values between which the list is the same; one value alone where candidates are equal.

    `start` and `end` are coordinates in the direction of the walk. `rows` is `None` where
    only so much is known: the row that was asked for is not in the list.
    """

    start: float
    end: float
    rows: tuple[int, ...] | None


def walk(axis: Axis, start: float, direction: int, target: int | None = None) -> Iterator[Stretch]:
    """Yield the stretches from a coordinate to the end of the range.

    With a `target` only whether that row is in the list is kept exact, not the order.
    """
    low, high = axis.bounds
    end = high if direction > 0 else low
    here, stuck = start + direction * axis.step(start), 0
    since = start
    while direction * (end - here) > 0:
        rows, far = _look(axis, here, direction, target)
        there, shortest = here + direction * far, axis.step(here)
        if direction * (end - there) <= 0:
            yield Stretch(since, end, rows)
            break
        yield Stretch(since, there, rows)
        since = there
        if axis.is_bent and far > shortest and there != here:
            # Where scores bend, the bound is safe but seldom the change itself.
            here, stuck = there, 0
            continue
        yield Stretch(there, there, axis.rows(rounded(axis, there)))
        stuck = stuck + 1 if far <= shortest else 0
        here = there + direction * shortest * 2 ** max(0, stuck - 3)
    yield Stretch(end, end, axis.rows(rounded(axis, end)))


def _look(
    axis: Axis, here: float, direction: int, target: int | None
) -> tuple[tuple[int, ...] | None, float]:
    """Return the list at a coordinate, as `Stretch` has it, and how far it stays."""
    # How far down the bends hold; 0 where that does not matter.
    window = here * (1 - WINDOW) if axis.is_bent and direction < 0 else 0.0
    if window and axis.parameter is Parameter.HALF_LIFE:
        ages = axis.problem.columns.aged
        # What is so old that nothing is left of it does not bend.
        oldest = float(ages[ages * here < SMALLEST_EXPONENT].max(initial=0.0))
        window = min(window, GROWTH / oldest) if oldest > 0 else window
    state = axis.state(here, here - window)
    limit = window or math.inf
    proof = absence(state, target) if target is not None else None
    if proof is not None:
        far = proof.reach(direction)
        if far > SHORTEST_PROOF * axis.step(here):
            return None, min(far, limit)
    rows, margins = listing(state, ordered=target is None)
    return rows, min(reach(margins, direction), limit)

"""One parameter of one ranking: its values, and the coordinate that is walked along."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from memtui.model import Ranking, SearchMode
from memtui.ranking.counterfactual.change import Parameter, apply, range_of
from memtui.ranking.counterfactual.columns import Columns, reach
from memtui.ranking.counterfactual.listing import listing, runs_mmr, state_before_cut
from memtui.ranking.counterfactual.proofs import Between, Place, absence
from memtui.ranking.counterfactual.scores import SMALLEST_EXPONENT, Seed, State
from memtui.ranking.profiles import for_mode

RESOLUTION = 1e-9
_BENT = frozenset({Parameter.HALF_LIFE, Parameter.RRF_K})


@dataclass(frozen=True, slots=True)
class Axis:
    """One parameter of one ranking: its values and the coordinate that is walked along.

    The coordinate of the half-life is ln 2 / days: scores are exponentials in it.
    """

    columns: Columns
    base: Ranking
    parameter: Parameter
    mode: SearchMode | None = None

    def ranking(self, value: float) -> Ranking:
        """The changed ranking as it would run."""
        changed = apply(self.base, self.parameter, value)
        return changed if self.mode is None else for_mode(changed, self.mode)

    def coordinate(self, value: float) -> float:
        return math.log(2) / value if self.parameter is Parameter.HALF_LIFE else value

    def value(self, coordinate: float) -> float:
        """The value at a coordinate, without the noise of the last digits."""
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
        low, high = (self.coordinate(value) for value in range_of(self.base, self.parameter))
        return min(low, high), max(low, high)

    def state(self, coordinate: float, low: float | None = None) -> State:
        """The candidates at a coordinate; `low` is how far down the bends have to hold."""
        seed = Seed() if low is None else Seed(self.parameter, low)
        return state_before_cut(self.columns, self.ranking(self.value(coordinate)), seed)

    def step(self, coordinate: float) -> float:
        """The shortest stretch that is looked at."""
        if self.is_bent:
            return RESOLUTION * coordinate
        low, high = self.bounds
        return RESOLUTION * (high - low)

    def rows(self, value: float) -> tuple[int, ...]:
        """The list at a value."""
        return listing(
            state_before_cut(self.columns, self.ranking(value), Seed()), certified=False
        ).rows


def range_value(axis: Axis, coordinate: float) -> float:
    """The value at a coordinate, within the range."""
    low, high = range_of(axis.base, axis.parameter)
    return min(high, max(low, axis.value(coordinate)))


def rounded(axis: Axis, coordinate: float) -> float:
    """The value at a coordinate, cut to the digits that are certain."""
    low, high = range_of(axis.base, axis.parameter)
    value = axis.value(coordinate)
    digits = 12 - (math.ceil(math.log10(value)) if value > 1 else 0)
    return min(high, max(low, round(value, digits)))


WINDOW = 0.8
"""How far down the bends of exponentials and of reciprocals are bounded at once."""

GROWTH = 2.0
"""By at most exp() of this the bends of exponentials are overrated at the other end."""

SHORTEST = 64
"""Stretches shorter than so many steps are not tried."""

FACTOR = 4
"""How much longer the next stretch is after a proof, and how much shorter after a failure."""

SPARSE = 1 / 256
"""Where the margins reach this part of the way, going by them is quickest."""


Rows: TypeAlias = tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Look:
    """What is known from a value onwards.

    `rows` is the list, `None` where only so much is known: the row that was asked for is not in
    it. That holds for `far` in the direction of the walk, the end included if `is_proof`.
    """

    rows: Rows
    far: float
    is_proof: bool = False


class Strides:
    """Looks from value to value of one walk, longer ones where the last were proven."""

    def __init__(self, axis: Axis, end: float, direction: int, target: int | None) -> None:
        self._axis, self._end = axis, end
        self._direction, self._target = direction, target
        self._width: float | None = None
        """What is tried next; `None` where it is quicker to go by the margins."""
        self._reached: float | None = None
        """How far margins lately reached."""
        self._next: tuple[float, State, Rows] | None = None

    def look(self, here: float) -> Look:
        """The list at a coordinate and how far it stays."""
        state, rows = self._at(here)
        limit = self._limit(here)
        if self._target is not None:
            proof = absence(state, self._target)
            if proof is not None:
                far = proof.reach(self._direction)
                if far > 16 * self._axis.step(here):
                    return Look(None, min(far, limit))
        elif runs_mmr(state.ranking):
            rows = listing(state, certified=False).rows if rows is None else rows
            far = self._proven(here, state, rows)
            if far > 0:
                return Look(rows, far, is_proof=True)
        found = listing(state, ordered=self._target is None)
        far = reach(found.margins, self._direction)
        self._learn(here, far)
        return Look(found.rows, min(far, limit))

    def _learn(self, here: float, far: float) -> None:
        """Choose what to try next by how far the margins reached."""
        if not math.isfinite(far):
            return
        self._reached = far if self._reached is None else (self._reached + far) / 2
        low, high = self._axis.bounds
        way = here if self._axis.is_bent else high - low
        if self._reached > SPARSE * way:
            self._width = None
        elif self._width is None:
            self._width = FACTOR**2 * self._reached

    def _at(self, here: float) -> tuple[State, Rows]:
        if self._next is not None and self._next[0] == here:
            return self._next[1:]
        return self._state(here), None

    def _state(self, coordinate: float) -> State:
        return self._axis.state(coordinate, coordinate - self._window(coordinate))

    def _window(self, coordinate: float) -> float:
        """How far down the bends hold."""
        if not self._axis.is_bent or self._direction > 0:
            return 0.0
        share = coordinate * (1 - WINDOW)
        if self._axis.parameter is not Parameter.HALF_LIFE:
            return share
        ages = self._axis.columns.aged
        # What is so old that nothing is left of it does not bend.
        oldest = float(ages[ages * coordinate < SMALLEST_EXPONENT].max(initial=0.0))
        return min(share, GROWTH / oldest) if oldest > 0 else share

    def _limit(self, here: float) -> float:
        return self._window(here) or math.inf

    def _proven(self, here: float, state: State, rows: tuple[int, ...]) -> float:
        """The length of a stretch over which it is proven that nothing happens; 0 for none."""
        within = reach(state.margins, self._direction) * (1 - 1e-9)
        room = min(self._limit(here), abs(self._end - here), within)
        if self._reached is None:
            # Nothing is known yet: most chunks are out of the list all the way.
            width = least = room
        elif self._width is None:
            return 0.0
        else:
            width = min(self._width, room)
            least = FACTOR * self._reached
        wanted = np.zeros(len(state.exact), dtype=bool)
        wanted[list(rows)] = True
        place = Place(state, wanted, len(rows))
        while width >= max(least, SHORTEST * self._axis.step(here)):
            there = here + self._direction * width
            second = self._state(there)
            if Between(place, second, width).is_steady(rows):
                self._width = FACTOR * width
                self._next = there, second, rows
                return width
            width /= FACTOR
        self._width = None if self._reached is None else FACTOR * least
        return 0.0


@dataclass(frozen=True, slots=True)
class Stretch:
    """Values between which the list is the same; one value alone where candidates are equal.

    `start` and `end` are coordinates in the direction of the walk. `rows` is `None` where
    only so much is known: the row that was asked for is not in the list.
    """

    start: float
    end: float
    rows: tuple[int, ...] | None


def walk(axis: Axis, start: float, direction: int, target: int | None = None) -> Iterator[Stretch]:
    """The stretches from a coordinate to the end of the range.

    With a `target` only whether that row is in the list is kept exact, not the order.
    """
    low, high = axis.bounds
    end = high if direction > 0 else low
    here, stuck = start + direction * axis.step(start), 0
    since = start
    strides = Strides(axis, end, direction, target)
    while direction * (end - here) > 0:
        look = strides.look(here)
        far, shortest = look.far, axis.step(here)
        there = here + direction * far
        # Where scores bend, the bound is safe but seldom the change itself.
        goes_on = look.is_proof or (axis.is_bent and far > shortest and there != here)
        if goes_on and direction * (end - there) > 0:
            stuck = 0
            yield Stretch(since, there, look.rows)
            here = since = there
            continue
        if direction * (end - there) <= 0:
            yield Stretch(since, end, look.rows)
            break
        yield Stretch(since, there, look.rows)
        yield Stretch(there, there, axis.rows(rounded(axis, there)))
        stuck = stuck + 1 if far <= shortest else 0
        here = there + direction * shortest * 2 ** max(0, stuck - 3)
        since = there
    yield Stretch(end, end, axis.rows(rounded(axis, end)))

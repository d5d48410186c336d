"""Walking along one parameter from change to change of the list.

From a value the list stays the same as far as its margins reach. The walk goes there, looks at
the value itself (where two candidates are equal, and the tie rule decides) and just beyond, and
goes on. So every stretch on which the list differs is seen, down to stretches of 1e-9 of the
range (of the value itself for the half-life and the RRF constant).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from memtui.model import Ranking, SearchMode
from memtui.ranking.counterfactual.absence import absence
from memtui.ranking.counterfactual.change import Parameter, apply, range_of
from memtui.ranking.counterfactual.columns import Columns
from memtui.ranking.counterfactual.curves import reach
from memtui.ranking.counterfactual.listing import listing, state_before_cut
from memtui.ranking.counterfactual.scores import Seed
from memtui.ranking.profiles import for_mode

RESOLUTION = 1e-9
WINDOW = 0.8
"""How far down the bends of exponentials and of reciprocals are bounded at once."""
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
    def bounds(self) -> tuple[float, float]:
        """Lowest and highest coordinate."""
        low, high = (self.coordinate(value) for value in range_of(self.base, self.parameter))
        return min(low, high), max(low, high)

    def step(self, coordinate: float) -> float:
        """The shortest stretch that is looked at."""
        if self.parameter in _BENT:
            return RESOLUTION * coordinate
        low, high = self.bounds
        return RESOLUTION * (high - low)

    def rows(self, value: float) -> tuple[int, ...]:
        """The list at a value."""
        return listing(
            state_before_cut(self.columns, self.ranking(value), Seed()), certified=False
        ).rows


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
    while direction * (end - here) > 0:
        rows, far = _look(axis, here, direction, target)
        shortest = axis.step(here)
        if far > shortest and axis.parameter in _BENT and here + direction * far != here:
            # The bound is safe but seldom the change itself.
            limit = abs(end - here)
            if far < limit:
                stuck = 0
                yield Stretch(since, here + direction * far, rows)
                here += direction * far
                since = here
                continue
        there = here + direction * far
        if direction * (end - there) <= 0:
            yield Stretch(since, end, rows)
            break
        yield Stretch(since, there, rows)
        yield Stretch(there, there, axis.rows(rounded(axis, there)))
        stuck = stuck + 1 if far <= shortest else 0
        here = there + direction * shortest * 2 ** max(0, stuck - 3)
        since = there
    yield Stretch(end, end, axis.rows(rounded(axis, end)))


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


def _look(
    axis: Axis, here: float, direction: int, target: int | None
) -> tuple[tuple[int, ...] | None, float]:
    """The list at a coordinate and how far it stays."""
    window = here * WINDOW if direction < 0 and axis.parameter in _BENT else here
    seed = Seed(axis.parameter, min(window, here))
    state = state_before_cut(axis.columns, axis.ranking(axis.value(here)), seed)
    limit = here - window if window < here else math.inf
    if target is not None:
        proof = absence(state, target)
        if proof is not None:
            far = proof.reach(direction)
            if far > 16 * axis.step(here):
                return None, min(far, limit)
    found = listing(state, ordered=target is None)
    return found.rows, min(reach(found.margins, direction), limit)

"""One parameter of one ranking: its values, and the coordinate that is walked along."""

from __future__ import annotations

import math
from dataclasses import dataclass

from memtui.model import Ranking, SearchMode
from memtui.ranking.counterfactual.change import Parameter, apply, range_of
from memtui.ranking.counterfactual.columns import Columns
from memtui.ranking.counterfactual.listing import listing, state_before_cut
from memtui.ranking.counterfactual.scores import Seed, State
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

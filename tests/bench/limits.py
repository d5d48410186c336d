"""What a measurement is held to, and whether it kept it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Judged(StrEnum):
    """Which number of a measurement an aim speaks of."""

    RATIO = "ratio"
    """Median of ours / theirs: of CPU time where both have it, else of wall time."""
    WALL_RATIO = "wall ratio"
    P50 = "p50"
    """Median of ours in the measurement's unit, wall time."""
    P95 = "p95"
    OVER = "over"
    """Median of ours minus median of theirs, in the measurement's unit."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A bound on one number of a measurement."""

    value: float
    of: Judged = Judged.RATIO
    at_least: bool = False
    """Whether the number must not be lower; else it must not be higher."""

    def kept_by(self, number: float) -> bool:
        """Whether a number is within the bound."""
        return number >= self.value if self.at_least else number <= self.value

"""Numbers as functions of one parameter, near a point: value, slope and a bound on the bend.

A list stays as it is until one of the comparisons that made it changes its sign. Each comparison
is kept as a margin that is now at or above 0; `reach` says how far the parameter may move before
any of them can fall below 0. Where the bend is 0 the margin is linear and the reach is its root;
otherwise f + f'd - bend d²/2 lies below the margin, so its root is never beyond the true one and
repeated steps converge to that quadratically.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.intp]

ROUNDING = 8 * float(np.finfo(np.float64).eps)
"""Differences below this part of the numbers compared are rounding, not order."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Functions of the parameter: arrays of one shape; `bend` bounds |second derivative|."""

    value: Floats
    slope: Floats
    bend: Floats

    def __getitem__(self, chosen: Indices | int) -> Curve:
        return Curve(self.value[chosen], self.slope[chosen], self.bend[chosen])

    def __add__(self, other: Curve) -> Curve:
        return Curve(self.value + other.value, self.slope + other.slope, self.bend + other.bend)

    def scaled(self, factor: Floats | float) -> Curve:
        """Multiply by what does not depend on the parameter."""
        return Curve(self.value * factor, self.slope * factor, self.bend * np.abs(factor))

    def times(self, other: Curve) -> Curve:
        """The product; the bend holds the cross term at this point."""
        return Curve(
            self.value * other.value,
            self.slope * other.value + self.value * other.slope,
            self.bend * np.abs(other.value)
            + np.abs(self.value) * other.bend
            + 2 * np.abs(self.slope * other.slope),
        )

    def minus(self, other: Curve) -> Curve:
        """The difference, exactly 0 where nothing but rounding is left of it."""
        value, slope = self.value - other.value, self.slope - other.slope
        bend = self.bend + other.bend
        size = np.maximum(np.abs(self.value), np.abs(other.value))
        steepness = np.maximum(np.abs(self.slope), np.abs(other.slope))
        same = (np.abs(value) <= ROUNDING * size) & (np.abs(slope) <= ROUNDING * steepness)
        if same.any():
            value, slope = np.where(same, 0.0, value), np.where(same, 0.0, slope)
            bend = np.where(same, 0.0, bend)
        return Curve(value, slope, bend)

    def sided(self) -> Curve:
        """The margin to 0, from whichever side it is on."""
        sign = np.where(self.value < 0, -1.0, 1.0)
        return Curve(self.value * sign, self.slope * sign, self.bend)


def constant(value: Floats | float) -> Curve:
    """What does not depend on the parameter."""
    array = np.asarray(value, dtype=np.float64)
    nothing = np.zeros_like(array)
    return Curve(array, nothing, nothing)


def reaches(margins: Curve, direction: int) -> Floats:
    """How far the parameter can move before each margin can be below 0; infinite if never.

    `direction` is 1 upwards, -1 downwards. A margin that is 0 and falls reaches 0.
    """
    room = np.maximum(margins.value, 0.0)
    speed = -direction * margins.slope
    bend = margins.bend
    root = np.sqrt(speed * speed + 2 * room * bend)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        nearing = 2 * room / (speed + root)
        leaving = (root - speed) / bend
    reached = np.where(speed > 0, nearing, leaving)
    found: Floats = np.where((speed <= 0) & (bend == 0), np.inf, reached)
    return found


def reach(margins: Sequence[Curve], direction: int) -> float:
    """How far the parameter can move before any margin can be below 0."""
    sizable = [margin for margin in margins if margin.value.size]
    if not sizable:
        return float("inf")
    joined = Curve(
        np.concatenate([np.ravel(margin.value) for margin in sizable]),
        np.concatenate([np.ravel(margin.slope) for margin in sizable]),
        np.concatenate([np.ravel(margin.bend) for margin in sizable]),
    )
    return float(reaches(joined, direction).min())

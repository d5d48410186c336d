"""How far from a value nothing changes: by proof over a stretch, else by the margins there."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

from memtui.ranking.counterfactual.absence import absence
from memtui.ranking.counterfactual.axis import Axis
from memtui.ranking.counterfactual.between import Between, Place
from memtui.ranking.counterfactual.change import Parameter
from memtui.ranking.counterfactual.curves import reach
from memtui.ranking.counterfactual.listing import listing, runs_mmr, shown_scores
from memtui.ranking.counterfactual.scores import SMALLEST_EXPONENT, State

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
        if runs_mmr(state.ranking):
            if self._target is None and rows is None:
                rows = listing(state, certified=False).rows
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

    def _proven(self, here: float, state: State, rows: Rows) -> float:
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
        place = self._place(state, rows)
        while width >= max(least, SHORTEST * self._axis.step(here)):
            there = here + self._direction * width
            second = self._state(there)
            if self._holds(Between(place, second, width), rows):
                self._width = FACTOR * width
                self._next = there, second, rows
                return width
            width /= FACTOR
        self._width = None if self._reached is None else FACTOR * least
        return 0.0

    def _holds(self, between: Between, rows: Rows) -> bool:
        if self._target is not None:
            return between.is_absent(self._target)
        return rows is not None and between.is_steady(rows)

    def _place(self, state: State, rows: Rows) -> Place:
        if rows is None:
            shown = shown_scores(state)
            return Place(state, shown.strict | shown.filling, state.ranking.k)
        wanted = shown_scores(state).strict & False
        wanted[list(rows)] = True
        return Place(state, wanted, len(rows))

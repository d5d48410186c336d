"""A run of MMR while one parameter moves between two values: which choices stay before others.

The scores are known at both values and, with a bound on their bend, between them. A margin that
is above its slack at both values is above 0 everywhere between. Candidates that may change places
among themselves stand in one block: as long as each of them, whatever else of the block is chosen
before, beats everything behind the block, the block is chosen as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from memtui.ranking.counterfactual.columns import Flags
from memtui.ranking.counterfactual.curves import Floats, Indices
from memtui.ranking.counterfactual.scores import State

TOLERANCE = 1e-12
"""Margins below this part of the span may be rounding."""


@dataclass(frozen=True, slots=True)
class Stakes:
    """What MMR weighs at two values: arrays (2, n), n the members of a contest.

    A choice is worth weighted - rest * similarity; `low` and `high` bound weighted between the
    values around the straight line from one to the other, `slack` what else a margin may lose.
    """

    low: Floats
    high: Floats
    rest: Floats
    """Shape (2, 1)."""
    slack: float
    led: Flags
    """What always stands behind another of the same text, and so is never chosen before it."""


def stakes(first: State, second: State, members: Indices, run: Run, width: float) -> Stakes | None:
    """What is weighed at the two states, `width` apart; `None` where all scores are equal."""
    lambdas = np.array([[_lambda(first)], [_lambda(second)]])
    if _left(first, members) != _left(second, members):
        return None
    beginning, ending = first.relative(members), second.relative(members)
    scores = np.stack([beginning.value, ending.value])
    span = scores.max(axis=1) - scores.min(axis=1)
    if not span.min() > 0:
        return None
    # A function leaves the straight line between two of its points by at most this.
    bend = beginning.bend * (width * width / 8)
    lost = (1 - float(lambdas.min())) * (_sagging(scores, span) + 2 * float(bend.max()))
    middle, error = lambdas * scores, lambdas.max() * bend
    least = TOLERANCE * float(span.max())
    low, high = middle - error, middle + error
    led = np.zeros(len(members), dtype=bool)
    upper, lower = run.kin
    ahead = (low[:, upper] > high[:, lower] + least).all(axis=0)
    led[lower[ahead | _are_twins(first, second, members[upper], members[lower])]] = True
    return Stakes(low, high, (1 - lambdas) * span[:, None], lost + least, led)


def _are_twins(first: State, second: State, upper: Indices, lower: Indices) -> Flags:
    """Which pairs have the same scores after every stage: what comes first stays so."""
    same: Flags = first.exact[upper] == first.exact[lower]
    for curve in (first.curve, *first.earlier):
        same &= curve.value[upper] == curve.value[lower]
        same &= curve.slope[upper] == curve.slope[lower]
        same &= curve.bend[upper] == curve.bend[lower]
    same &= second.exact[upper] == second.exact[lower]
    for curve in (second.curve, *second.earlier):
        same &= curve.value[upper] == curve.value[lower]
    return same


def _left(state: State, members: Indices) -> list[bool]:
    """Of which something is left: what `State.relative` has its unit from."""
    return [] if state.signs is None else (state.signs[members] != 0).tolist()


def _lambda(state: State) -> float:
    return min(1.0, max(0.0, state.ranking.mmr.lambda_))


def _sagging(scores: Floats, span: Floats) -> float:
    """How far the span can fall below the straight line: 0 where the extremes stay the same."""
    best, worst = scores.argmax(axis=1), scores.argmin(axis=1)
    upwards = span[1] - (scores[1, best[0]] - scores[1, worst[0]])
    downwards = span[0] - (scores[0, best[1]] - scores[0, worst[1]])
    return float(min(upwards, downwards))


class Run:
    """The choices at one value, as positions in `members`, and the similarities before each."""

    def __init__(self, overlap: Floats, order: Indices) -> None:
        self.overlap = overlap
        self.order = order
        count = len(overlap)
        nothing = np.zeros((1, count))
        beside = np.maximum.accumulate(overlap[self.order], axis=0)
        self.similar: Floats = np.concatenate([nothing, beside])
        """Row s: the greatest similarity to the first s that were chosen."""
        self.when = np.full(count, len(order), dtype=np.intp)
        """At which step each is chosen; the number of steps for what is not."""
        self.when[self.order] = np.arange(len(order))

    @cached_property
    def kin(self) -> tuple[Indices, Indices]:
        """Pairs of equal texts, the one that stands first and the other."""
        upper, lower = np.nonzero(np.triu(self.overlap == 1.0, k=1))
        return upper, lower

    @cached_property
    def gone(self) -> Floats:
        """Row s: minus infinity for what is chosen at step s or before, else 0."""
        steps = np.arange(len(self.order))[:, None]
        return np.where(self.when <= steps, -np.inf, 0.0)


class Contest:
    """Which members MMR chooses before which, at every value between the two of `stakes`."""

    def __init__(self, run: Run, at_stake: Stakes) -> None:
        self._run = run
        self._stakes = at_stake
        self.block = np.full(len(run.when), len(run.order) + 1, dtype=np.intp)
        """The step at which the block of each begins; beyond all steps for what has none."""
        self.end = self._chain()
        """The blocks hold the choices of this many steps."""

    def surely_before(self, one: int) -> Flags:
        """The members that are chosen before this one."""
        block = int(self.block[one])
        before: Flags = self.block < block
        start = min(block, self.end)
        maybe = self.block == block
        maybe[one] = False
        return before | self._beating(one, start, maybe)

    def precedes(self, one: int, other: int) -> bool:
        """Whether the first is chosen before the second."""
        if self.block[one] != self.block[other]:
            return bool(self.block[one] < self.block[other])
        return bool(self.surely_before(other)[one])

    def _chain(self) -> int:
        steps = len(self._run.order)
        alone = self._stands_alone()
        start = 0
        while start < steps:
            stop = start + 1 if alone[start] else self._closed(start)
            if stop is None:
                break
            self.block[self._run.order[start:stop]] = start
            start = stop
        return start

    def _stands_alone(self) -> Flags:
        """For each step, whether its choice beats everything that is left."""
        run, at = self._run, self._stakes
        steps = np.arange(len(run.order))
        led = np.flatnonzero(at.led)
        held = np.ones(len(steps), dtype=bool)
        for high, low, rest in zip(at.high, at.low, at.rest[:, 0], strict=True):
            rivals = high + run.gone - rest * run.similar[:-1]
            # When one of equal texts may be chosen, the other is: nothing is more similar.
            rivals[:, led] = (high[led] - rest) + run.gone[:, led]
            own = low[run.order] - rest * run.similar[steps, run.order]
            held &= own - rivals.max(axis=1) > at.slack
        return held

    def _closed(self, start: int) -> int | None:
        """The end of the least block that begins at a step; `None` where the run is too short."""
        run, at = self._run, self._stakes
        similar = run.similar[start]
        rivals = at.high - at.rest * np.where(at.led, 1.0, similar)
        stop = start + 1
        while True:
            rows = run.order[start:stop]
            worst = self._worst(rows, similar, rows).min(axis=1) - at.slack
            dangers = (rivals >= worst[:, None]).any(axis=0) & (run.when >= stop)
            if not dangers.any():
                return stop
            stop = int(run.when[dangers].max()) + 1
            if stop > len(run.order):
                return None

    def _worst(self, rows: Indices, similar: Floats, others: Indices) -> Floats:
        """What these are worth at least as long as only `others` are chosen beside: (2, rows)."""
        at = self._stakes
        beside = self._run.overlap[np.ix_(rows, others)]
        beside[rows[:, None] == others[None, :]] = 0.0
        nearest = np.maximum(similar[rows], beside.max(axis=1, initial=0.0))
        worst: Floats = at.low[:, rows] - at.rest * nearest
        return worst

    def _beating(self, one: int, start: int, maybe: Flags) -> Flags:
        """Those of `maybe` that are chosen first, of what can be chosen after `start` steps."""
        run, at = self._run, self._stakes
        similar, beside = run.similar[start], run.overlap[one]
        sure = np.zeros_like(maybe)
        best = at.high - at.rest * np.where(at.led, 1.0, similar)
        while maybe.any():
            nearest = max(float(similar[one]), float(beside[maybe].max()))
            own = at.low[:, one] - at.rest[:, 0] * nearest - at.slack
            later = maybe & (best < own[:, None]).all(axis=0)
            if not later.any():
                break
            maybe = maybe & ~later
        rivals = np.flatnonzero(maybe)
        if not len(rivals):
            return sure
        worst = self._worst(rivals, similar, rivals)
        nearest = 1.0 if at.led[one] else float(similar[one])
        while True:
            own = at.high[:, one] - at.rest[:, 0] * nearest + at.slack
            ahead = rivals[(worst > own[:, None]).all(axis=0)]
            if len(ahead) == int(sure.sum()):
                return sure
            sure[ahead] = True
            nearest = max(nearest, float(beside[ahead].max()))

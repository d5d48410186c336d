"""A quick proof that one candidate stays out of the list, however the others stand.

It needs no run of MMR: a candidate below the minimum is out, and so is one with k rivals that
beat it even if MMR counted the most against them and nothing against it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np

from memtui.model import MinScoreRule, Stage
from memtui.ranking.counterfactual.columns import Curve, Flags, Floats, Indices, reach, reaches
from memtui.ranking.counterfactual.listing import (
    Shown,
    diversified,
    minimum_margin,
    minimum_margins,
    mmr_groups,
    mmr_is_last,
    preferred,
    relaxed_curve,
    runs_mmr,
    shown_scores,
    span_curve,
    span_margins,
)
from memtui.ranking.counterfactual.scores import State


@dataclass(frozen=True, slots=True)
class Absence:
    """Margins that all have to hold, and rivals of which `needed` have to stay above."""

    margins: list[Curve]
    rivals: Curve | None = None
    needed: int = 0

    def reach(self, direction: int) -> float:
        """How far the parameter may move with the proof still valid."""
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
    if not shown.is_plain and not _is_ruled_out(state, shown, target):
        return None
    if not shown.strict[target]:
        return _below(state, shown, target)
    return _beaten(state, shown, target)


def _is_ruled_out(state: State, shown: Shown, target: int) -> bool:
    """Whether a candidate neither passes nor may fill, while others pass."""
    may_enter = shown.strict[target] or shown.filling[target]
    return bool(shown.filling.any() and not may_enter and shown.strict[state.order].any())


def _below(state: State, shown: Shown, target: int) -> Absence | None:
    minimum = state.ranking.min_score
    if minimum is None:
        return None
    own = minimum_margin(state, shown, minimum, np.array([target]))
    margins = [*state.margins, own]
    strict = state.order[shown.strict[state.order]]
    match state.ranking.min_score_rule:
        case MinScoreRule.PLAIN:
            return Absence(margins)
        case MinScoreRule.FILL if not state.columns.fillable[target]:
            witness = strict[[int(np.argmax(shown.exact[strict]))]]
            return Absence([*margins, minimum_margin(state, shown, minimum, witness)])
        case MinScoreRule.RELAXED:
            witness = strict[[int(np.argmax(shown.exact[strict]))]]
            return Absence([*margins, minimum_margin(state, shown, minimum, witness)])
        case _:
            rivals = minimum_margin(state, shown, minimum, strict)
            return Absence(margins, rivals, state.ranking.k)


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
        rivals = state.over(same, np.full(len(same), target))
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
        own = np.full(len(others), int(np.flatnonzero(members == target)[0]))
        scores = state.relative(members)
        difference = scores[others].minus(scores[own])
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


BEYOND = 12
"""So many choices of MMR are looked at behind the last that matters: blocks have to close."""


@dataclass(frozen=True, slots=True)
class Passing:
    """Who reaches a limit at every value, and who at none; the others may do either."""

    always: Flags
    never: Flags

    def is_certain(self, rows: Indices) -> bool:
        """Whether none of these changes sides."""
        return bool((self.always | self.never)[rows].all())


@dataclass
class Place:
    """The candidates at one value, with what proofs from there to several others share."""

    state: State
    wanted: Flags
    """The rows whose choice by MMR decides the list."""
    most: int
    """How many of them have a place."""
    runs: dict[int, tuple[Indices, Run]] = field(default_factory=dict)

    @cached_property
    def shown(self) -> Shown:
        return shown_scores(self.state)

    def groups(self, kept: Flags | None) -> list[Indices]:
        """What MMR reorders, group by group, best first; only of `kept`, where that is known."""
        order = self.state.order
        return mmr_groups(self.state, order if kept is None else order[kept[order]])

    def run(self, number: int, members: Indices) -> Run:
        """MMR among one group, until those that are wanted are chosen and somewhat further."""
        known = self.runs.get(number)
        if known is not None and np.array_equal(known[0], members):
            return known[1]
        missing = min(self.most, int(self.wanted[members].sum()))
        further = BEYOND

        def is_enough(chosen: Sequence[int]) -> bool:
            nonlocal missing, further
            if missing > 0:
                missing -= int(self.wanted[chosen[-1]])
            else:
                further -= 1
            return further <= 0

        rows = diversified(self.state, members, None, is_enough)
        position = np.zeros(len(self.wanted), dtype=np.intp)
        position[members] = np.arange(len(members))
        run = Run(self.state.columns.among(members), position[rows])
        self.runs[number] = members, run
        return run


class Between:
    """Every value from one place to another, `width` apart, on which nothing but scores moves."""

    def __init__(self, first: Place, second: State, width: float) -> None:
        self._place, self._first, self._second = first, first.state, second
        self._ends = first.shown, shown_scores(second)
        self._width = width
        self._k = first.state.ranking.k
        self._rule = first.state.ranking.min_score_rule
        self._is_last = mmr_is_last(first.state.ranking)
        self._contests: dict[int, Contest | None] = {}

    def is_steady(self, rows: Sequence[int]) -> bool:
        """Whether it is proven that the list stays as it is; `rows` is the list."""
        if not self._is_settled:
            return False
        shown = self._ends[0]
        order = self._first.order
        strict, filling = shown.strict[order], shown.filling[order]
        first = [row for row in rows if shown.strict[row]]
        second = [row for row in rows if not shown.strict[row]]
        if not self._keeps(first, order[strict] if int(strict.sum()) > self._k else ()):
            return False
        places = self._first.columns.range
        taken = {int(place) for place in places[order[strict]]}
        holders = {int(places[row]): row for row in second}
        outside: list[int] = []
        for row in order[filling]:
            place = int(places[row])
            if place in holders:
                if holders[place] != row and not self._precedes(holders[place], int(row)):
                    return False
            elif place not in taken:
                outside.append(int(row))
        return self._keeps(second, outside)

    @cached_property
    def _strict(self) -> Passing:
        minimum = self._first.ranking.min_score
        if not self._ends[0].by_minimum or minimum is None:
            everyone = np.ones(len(self._ends[0].strict), dtype=bool)
            return Passing(everyone, ~everyone)
        return self._passing(minimum, minimum)

    @cached_property
    def _lower(self) -> Passing:
        """Who reaches the limit that holds where nothing reaches the minimum."""
        if self._rule is MinScoreRule.FILL:
            return self._passing(0.0, 0.0)
        limits = [float(relaxed_curve(state).value) for state in (self._first, self._second)]
        return self._passing(min(limits), max(limits))

    @cached_property
    def _is_settled(self) -> bool:
        """Whether nobody changes sides at the minimum, nor the rule by which one passes."""
        order = self._first.order
        if not self._strict.is_certain(order):
            return False
        if self._strict.always[order].any():
            return not (self._is_last and self._ends[0].filling.any())
        if self._rule is MinScoreRule.PLAIN:
            return True
        return not self._is_last and self._lower.is_certain(order)

    def _passing(self, low: float, high: float) -> Passing:
        """Who is always above the higher limit, and who is always below the lower one."""
        pairs = list(zip(self._ends, (self._first, self._second), strict=True))
        above = np.stack([shown.curve.value - state.unit.value * high for shown, state in pairs])
        below = np.stack([shown.curve.value - state.unit.value * low for shown, state in pairs])
        bend = self._ends[0].curve.bend
        # A score is monotone in every parameter; a composite of two need not be.
        has_sum = Stage.RERANK in self._first.ranking.stages and self._first.ranking.rerank.enabled
        error = bend * (self._width**2 / 8) if has_sum else 0.0
        error = error + TOLERANCE * float(self._first.unit.value) * max(abs(low), abs(high))
        first, second = (shown.curve for shown in self._ends)
        fixed = (first.value == second.value) & (first.slope == 0) & (bend == 0)
        fixed &= self._first.unit.slope == 0
        exact = self._ends[0].exact
        always = (above.min(axis=0) > error) | (fixed & (exact >= high))
        never = (below.max(axis=0) < -error) | (fixed & (exact < low))
        return Passing(always, never)

    @cached_property
    def _groups(self) -> list[Indices]:
        return self._place.groups(self._strict.always if self._is_last else None)

    @cached_property
    def _group_of(self) -> tuple[Indices, Indices]:
        """For each row its group and its place there; -1 for none."""
        group = np.full(len(self._ends[0].strict), -1, dtype=np.intp)
        place = np.full(len(group), -1, dtype=np.intp)
        for number, members in enumerate(self._groups):
            group[members], place[members] = number, np.arange(len(members))
        return group, place

    def _contest(self, number: int) -> Contest | None:
        if number not in self._contests:
            members = self._groups[number]
            run = self._place.run(number, members)
            at_stake = stakes(self._first, self._second, members, run, self._width)
            self._contests[number] = None if at_stake is None else Contest(run, at_stake)
        return self._contests[number]

    def _precedes(self, one: int, other: int) -> bool:
        groups, places = self._group_of
        if groups[one] != groups[other]:
            return bool(groups[one] < groups[other])
        contest = self._contest(int(groups[one]))
        return contest is not None and contest.precedes(int(places[one]), int(places[other]))

    def _keeps(self, rows: Sequence[int], others: Iterable[int]) -> bool:
        """Whether rows keep their order, and stay before all others."""
        if not all(self._precedes(one, other) for one, other in pairwise(rows)):
            return False
        if not rows:
            return True
        listed = frozenset(rows)
        return all(
            self._precedes(rows[-1], int(other)) for other in others if int(other) not in listed
        )

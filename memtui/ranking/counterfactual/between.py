"""What cannot happen between two values of a parameter while MMR runs.

Both proofs look at the candidates at two values and hold for every value between: that a row is
never in the list, and that the list stays as it is. They do not need the whole order of MMR, only
who comes before whom among those that can have a place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np

from memtui.model import MinScoreRule, Stage
from memtui.ranking.counterfactual.columns import Flags
from memtui.ranking.counterfactual.contest import TOLERANCE, Contest, Run, stakes
from memtui.ranking.counterfactual.curves import Indices
from memtui.ranking.counterfactual.listing import (
    Shown,
    mmr_groups,
    mmr_is_last,
    relaxed_curve,
    shown_scores,
)
from memtui.ranking.counterfactual.mmr_run import diversified
from memtui.ranking.counterfactual.scores import State

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

    def is_absent(self, row: int) -> bool:
        """Whether it is proven that a row is not in the list."""
        if row not in self._first.order:
            return True
        strict = self._strict
        if self._is_last:
            return self._is_settled and bool(strict.never[row] or self._crowded(row, strict.always))
        order = self._first.order
        if not strict.never[order].all() and not self._is_absent_alive(row):
            return False
        return bool(strict.always[order].any()) or self._is_absent_dead(row)

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

    def _is_absent_alive(self, row: int) -> bool:
        """Absent where something reaches the minimum."""
        strict, columns = self._strict, self._first.columns
        if not strict.never[row] and not self._crowded(row, strict.always):
            return False
        fills = self._rule is MinScoreRule.FILL and bool(columns.fillable[row])
        if not fills or strict.always[row]:
            return True
        order = self._first.order
        certain = order[strict.always[order]]
        if len(certain) >= self._k:
            return True
        before = self._before(row)
        if before is None:
            return False
        filling = np.flatnonzero(before & columns.fillable & ~strict.always)
        places = set(columns.range[filling].tolist()) - set(columns.range[certain].tolist())
        return len(certain) + len(places) >= self._k

    def _is_absent_dead(self, row: int) -> bool:
        """Absent where nothing reaches the minimum."""
        named = self._first.columns.named
        if self._rule is MinScoreRule.PLAIN or not named[row] or self._lower.never[row]:
            return True
        return self._crowded(row, named & self._lower.always)

    def _crowded(self, row: int, rivals: Flags) -> bool:
        """Whether rivals before a row take all the places."""
        before = self._before(row)
        return before is not None and int((before & rivals).sum()) >= self._k

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

    def _before(self, row: int) -> Flags | None:
        """The rows that MMR surely chooses before this one; `None` where that cannot be said."""
        groups, places = self._group_of
        number = int(groups[row])
        contest = self._contest(number) if number >= 0 else None
        if contest is None:
            return None
        before = (groups >= 0) & (groups < number)
        before[self._groups[number]] = contest.surely_before(int(places[row]))
        return before

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

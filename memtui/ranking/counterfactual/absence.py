"""A quick proof that one candidate stays out of the list, however the others stand.

It needs no run of MMR: a candidate below the minimum is out, and so is one with k rivals that
beat it even if MMR counted the most against them and nothing against it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from memtui.model import MinScoreRule
from memtui.ranking.counterfactual.curves import Curve, reach, reaches
from memtui.ranking.counterfactual.listing import (
    Shown,
    minimum_margin,
    minimum_margins,
    mmr_groups,
    mmr_is_last,
    runs_mmr,
    shown_scores,
)
from memtui.ranking.counterfactual.mmr_run import preferred, span_curve, span_margins
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

"""A run of MMR that keeps the margin of each choice over every other row.

With D the span of the relevances, the choice of c over j is
lambda (X_c - X_j) - (1 - lambda) (s_c - s_j) D >= 0, X the scores and s the greatest similarities
to what was chosen before: linear in lambda, and in the weights where X is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from memtui.ranking.counterfactual.change import Parameter
from memtui.ranking.counterfactual.curves import Curve, Floats, Indices, constant
from memtui.ranking.counterfactual.scores import State

Enough = Callable[[Sequence[int]], bool]
"""Told of the rows chosen so far; true when no further one is needed."""


def diversified(
    state: State, members: Indices, margins: list[Curve] | None, enough: Enough
) -> list[int]:
    """The members in the order of MMR, until `enough`.

    `members` come best first; equal values go to the earlier one. Adds the margins of every
    choice to `margins`, if any are wanted.
    """
    lambda_ = min(1.0, max(0.0, state.ranking.mmr.lambda_))
    values = state.exact[members]
    low, high = float(values.min()), float(values.max())
    span = high - low
    relevance = (values - low) / span if span > 0 else np.ones(len(values))
    rest = 1 - lambda_
    marginal = lambda_ * relevance
    rivals = _Rivals(state, members, marginal.copy(), rest)
    order: list[int] = []
    rows: list[int] = []
    while len(rows) < len(members):
        position = int(marginal.argmax())
        order.append(position)
        rows.append(int(members[position]))
        if enough(rows):
            break
        np.minimum(marginal, rivals.beside(position), out=marginal)
    if margins is None:
        return rows
    margins += span_margins(state, members)
    margins += _choices(state, members, order, similarities(state.columns.among(members), order))
    return rows


def similarities(overlap: Floats, order: Sequence[int] | Indices) -> Floats:
    """Before each choice, the greatest similarity of each to what is chosen: (choices, n)."""
    similar = np.zeros((len(order), len(overlap)))
    if len(order) > 1:
        np.maximum.accumulate(overlap[np.asarray(order[:-1])], axis=0, out=similar[1:])
    return similar


class _Rivals:
    """What each member would be worth beside one that is chosen."""

    def __init__(self, state: State, members: Indices, weighted: Floats, rest: float) -> None:
        self._state, self._members = state, members
        self._weighted, self._rest = weighted, rest
        self._asked = 0
        self._all: Floats | None = None

    def beside(self, position: int) -> Floats:
        """Their worth; minus infinity for the chosen one, which takes it out."""
        self._asked += 1
        if self._all is None and self._asked > _SHORT:
            self._all = self._weighted - self._rest * self._state.columns.among(self._members)
            np.fill_diagonal(self._all, -np.inf)
        if self._all is not None:
            found: Floats = self._all[position]
            return found
        overlap = self._state.columns.overlap[self._members[position]]
        found = self._weighted - self._rest * overlap[self._members]
        found[position] = -np.inf
        return found


_SHORT = 12
"""For more choices than these it is quicker to work out every pair at once."""


def span_margins(state: State, members: Indices) -> list[Curve]:
    """What keeps the best and the worst of these where they are."""
    values = state.exact[members]
    best = np.full(len(members), members[int(values.argmax())])
    worst = np.full(len(members), members[int(values.argmin())])
    return [state.over(best, members), state.over(members, worst)]


def span_curve(state: State, members: Indices, scores: Curve) -> Curve:
    """The span of the relevances as a function, of scores as those; 1 where all are the same."""
    values = state.exact[members]
    span = scores[int(values.argmax())].minus(scores[int(values.argmin())])
    return span if values.max() > values.min() else constant(1.0)


def lambda_curve(state: State) -> Curve:
    """Lambda as a function of the parameter."""
    value = min(1.0, max(0.0, state.ranking.mmr.lambda_))
    slope = 1.0 if state.seed.parameter is Parameter.LAMBDA else 0.0
    return Curve(np.asarray(value), np.asarray(slope), np.asarray(0.0))


def preferred(state: State, difference: Curve, less_similar: Floats, span: Curve) -> Curve:
    """lambda * difference of the scores + (1 - lambda) * `less_similar` * span."""
    lambda_ = lambda_curve(state)
    rest = Curve(1 - lambda_.value, -lambda_.slope, lambda_.bend)
    return difference.times(lambda_) + span.times(rest).scaled(less_similar)


def _choices(state: State, members: Indices, order: list[int], similar: Floats) -> list[Curve]:
    """The margins of every choice over the rows that were left, as one array each."""
    steps, count = similar.shape
    chosen = np.array(order)
    left = np.ones((steps, count), dtype=bool)
    for step, position in enumerate(order):
        left[step:, position] = False
    step_of, other = np.nonzero(left)
    if not len(other):
        return []
    upper = chosen[step_of]
    scores = state.relative(members)
    less_similar = similar[step_of, other] - similar[step_of, upper]
    difference = scores[upper].minus(scores[other])
    margin = preferred(state, difference, less_similar, span_curve(state, members, scores))
    size = np.abs(margin.value)
    equal = (size <= 1e-15) & (np.abs(margin.slope) <= 1e-15)
    found = [margin]
    alike = less_similar == 0
    if state.logs is not None and alike.any():
        # Nothing but the scores decides, of which the logarithms do not bend.
        factor = float(lambda_curve(state).value)
        straight = state.over(members[upper[alike]], members[other[alike]]).scaled(factor)
        found = [margin[np.flatnonzero(~alike)], straight]
    if equal.any():
        # Equal for all values of the parameter: the order of the scores decides.
        found += [
            curve.sided() for curve in state.above(members[upper[equal]], members[other[equal]])
        ]
    return found

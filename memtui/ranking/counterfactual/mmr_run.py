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
    run = _Run(state.columns.overlap, members, lambda_ * relevance, 1 - lambda_)
    group = int(state.groups[members[0]])
    guess = state.columns.orders.get(group)
    if guess is not None:
        run.start_with(guess)
    rows: list[int] = []
    while len(rows) < len(members):
        if len(rows) == len(run.order):
            run.choose()
        rows.append(int(members[run.order[len(rows)]]))
        if enough(rows):
            break
    state.columns.orders[group] = np.array(rows, dtype=np.intp)
    if margins is None:
        return rows
    margins += span_margins(state, members)
    margins += _choices(state, members, run.order[: len(rows)], run.similar(len(rows)))
    return rows


class _Run:
    """The choices so far, as positions in `members`.

    A choice depends on those before it through the greatest similarity to them alone, so a guess
    of many choices is checked at once: up to the first wrong one it is right to the last bit.
    """

    def __init__(self, overlap: Floats, members: Indices, weighted: Floats, rest: float) -> None:
        self._overlap = overlap
        self._members = members
        self._weighted = weighted
        self._rest = rest
        self._similar: list[Floats] = [np.zeros(len(members))]
        """Before each choice and after the last, the greatest similarity to what is chosen."""
        self.order: list[int] = []

    def similar(self, count: int) -> Floats:
        """The greatest similarities before each of the first choices."""
        return np.array(self._similar[:count])

    def choose(self) -> None:
        """Make one more choice."""
        marginal = self._weighted - self._rest * self._similar[-1]
        marginal[self.order] = -np.inf
        self._take(int(marginal.argmax()))

    def start_with(self, rows: Indices) -> None:
        """Make the choices that a guess gets right, with few mistakes put right on the way."""
        place = np.full(len(self._overlap), -1, dtype=np.intp)
        place[self._members] = np.arange(len(self._members))
        guess = place[rows]
        guess = guess[guess >= 0]
        for _ in range(_MISTAKES):
            right = self._right(guess)
            guess = guess[right:]
            if not len(guess):
                return
            self.choose()
            guess = guess[guess != self.order[-1]]

    def _right(self, guess: Indices) -> int:
        """How many choices in a row are guessed right; they are made."""
        if not len(guess):
            return 0
        beside = self._overlap[self._members[guess]][:, self._members]
        similar = np.maximum.accumulate(np.vstack([self._similar[-1], beside]), axis=0)
        marginal = self._weighted - self._rest * similar[:-1]
        when = np.full(len(self._members), len(guess), dtype=np.intp)
        when[guess] = np.arange(len(guess))
        when[self.order] = -1
        marginal[when < np.arange(len(guess))[:, None]] = -np.inf
        wrong = np.flatnonzero(marginal.argmax(axis=1) != guess)
        right = int(wrong[0]) if len(wrong) else len(guess)
        self.order += guess[:right].tolist()
        self._similar += list(similar[1 : right + 1])
        return right

    def _take(self, chosen: int) -> None:
        self.order.append(chosen)
        beside = self._overlap[self._members[chosen]][self._members]
        self._similar.append(np.maximum(self._similar[-1], beside))


_MISTAKES = 8
"""So often a guess is put right before the rest is chosen one by one."""


def span_margins(state: State, members: Indices) -> list[Curve]:
    """What keeps the best and the worst of these where they are."""
    values = state.exact[members]
    best = np.full(len(members), members[int(values.argmax())])
    worst = np.full(len(members), members[int(values.argmin())])
    return [state.over(best, members), state.over(members, worst)]


def span_curve(state: State, members: Indices) -> Curve:
    """The span of the relevances as a function; 1 where they are all the same."""
    values = state.exact[members]
    best, worst = int(members[int(values.argmax())]), int(members[int(values.argmin())])
    span = state.curve[best].minus(state.curve[worst])
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
    scores = state.curve[members]
    less_similar = similar[step_of, other] - similar[step_of, upper]
    difference = scores[upper].minus(scores[other])
    margin = preferred(state, difference, less_similar, span_curve(state, members))
    size = np.abs(margin.value)
    equal = (size <= 1e-15) & (np.abs(margin.slope) <= 1e-15)
    found = [margin]
    if equal.any():
        # Equal for all values of the parameter: the order of the scores decides.
        found += [
            curve.sided() for curve in state.above(members[upper[equal]], members[other[equal]])
        ]
    return found

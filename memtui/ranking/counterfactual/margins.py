"""A run of MMR that keeps the margin of each choice over every other row.

With D the span of the relevances, the choice of c over j is
lambda (X_c - X_j) - (1 - lambda) (s_c - s_j) D >= 0, X the scores and s the greatest similarities
to what was chosen before: linear in lambda, and in the weights where X is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from msgspec import Struct

from memtui.model import MinScoreRule, Ranking, Stage
from memtui.ranking.counterfactual.change import Parameter
from memtui.ranking.counterfactual.scores import (
    SCORING,
    Columns,
    Curve,
    Flags,
    Floats,
    Indices,
    Seed,
    State,
    constant,
    fused_state,
    reach,
    reaches,
    tier_groups,
)
from memtui.ranking.pipeline import runs
from memtui.ranking.stages import relaxed_minimum


def diversified(
    state: State, members: Indices, margins: list[Curve], enough: Callable[[Sequence[int]], bool]
) -> list[int]:
    """Return the members in the order of MMR, until those chosen so far are `enough`.

    `members` come best first; equal values go to the earlier one. Adds the margins of every
    choice to `margins`, where a parameter moves.
    """
    lambda_ = min(1.0, max(0.0, state.ranking.mmr.lambda_))
    values = state.exact[members]
    low, high = float(values.min()), float(values.max())
    relevance = (values - low) / (high - low) if high > low else np.ones(len(values))
    weighted = lambda_ * relevance
    marginal = weighted.copy()
    overlap = state.columns.overlap
    order: list[int] = []
    rows: list[int] = []
    while len(rows) < len(members):
        position = int(marginal.argmax())
        order.append(position)
        rows.append(int(members[position]))
        if enough(rows):
            break
        beside = weighted - (1 - lambda_) * overlap[rows[-1]][members]
        np.minimum(marginal, beside, out=marginal)
        # What is chosen is taken out for good.
        marginal[position] = -np.inf
    if state.seed.parameter is None:
        # Nothing moves: no list is walked away from.
        return rows
    margins += span_margins(state, members)
    left = np.ones((len(order), len(members)), dtype=bool)
    for step, position in enumerate(order):
        left[step:, position] = False
    step_of, other = np.nonzero(left)
    # Every choice over the rows that were left, as one array each.
    similar = np.zeros(left.shape)
    if len(order) > 1:
        chosen = overlap[np.ix_(members[order[:-1]], members)]
        np.maximum.accumulate(chosen, axis=0, out=similar[1:])
    upper = np.array(order)[step_of]
    less_similar = similar[step_of, other] - similar[step_of, upper]
    margin = _preferred(state, members, upper, other, less_similar)
    equal = (np.abs(margin.value) <= 1e-15) & (np.abs(margin.slope) <= 1e-15)
    alike = less_similar == 0
    if state.logs is not None and alike.any():
        # Nothing but the scores decides, of which the logarithms do not bend.
        margins.append(state.over(members[upper[alike]], members[other[alike]]).scaled(lambda_))
        margin = margin[np.flatnonzero(~alike)]
    margins.append(margin)
    if equal.any():
        # Equal for all values of the parameter: the order of the scores decides.
        decided = state.above(members[upper[equal]], members[other[equal]])
        margins += [curve.sided() for curve in decided]
    return rows


def span_margins(state: State, members: Indices) -> list[Curve]:
    """Return what keeps the best and the worst of these where they are."""
    values = state.exact[members]
    best, worst = members[[int(values.argmax())]], members[[int(values.argmin())]]
    return [state.over(best, members), state.over(members, worst)]


def _preferred(
    state: State, members: Indices, upper: Indices, lower: Indices, less_similar: Floats
) -> Curve:
    """Return lambda * difference of the scores + (1 - lambda) * `less_similar` * their span."""
    scores, values = state.relative(members), state.exact[members]
    best, worst = int(values.argmax()), int(values.argmin())
    span = scores[best].minus(scores[worst]) if values[best] > values[worst] else constant(1.0)
    value = min(1.0, max(0.0, state.ranking.mmr.lambda_))
    slope = 1.0 if state.seed.parameter is Parameter.LAMBDA else 0.0
    lambda_ = Curve(np.asarray(value), np.asarray(slope), np.asarray(0.0))
    rest = Curve(np.asarray(1 - value), np.asarray(-slope), np.asarray(0.0))
    difference = scores[upper].minus(scores[lower])
    return difference.times(lambda_) + span.times(rest).scaled(less_similar)


class Shown(Struct, frozen=True):
    """The scores that are compared with the minimum, and who passes it.

    `strict` pass; `filling` take free places behind them.
    """

    exact: Floats
    curve: Curve
    fixed: Flags
    """Whose shown score does not depend on any parameter: exact names."""
    strict: Flags
    filling: Flags
    is_plain: bool
    """True if a candidate passes on its own score alone, as long as the list is full."""


def state_before_cut(columns: Columns, ranking: Ranking, seed: Seed) -> State:
    """Return the candidates after every stage that gives scores, or drops for another reason."""
    state = fused_state(columns, ranking, seed)
    for stage in ranking.stages:
        if stage in SCORING and runs(ranking, stage):
            state = SCORING[stage](state)
    return state


def listing(state: State) -> tuple[tuple[int, ...], list[Curve]]:
    """Return the rows of the list, best first, and the margins under which it stays."""
    k = max(0, state.ranking.k)
    order = state.order
    if not order.size or k == 0:
        return (), state.margins
    shown, margins = shown_scores(state), [*state.margins, *state.kinks(order)]
    if runs(state.ranking, Stage.MMR) and not _mmr_is_last(state.ranking):
        return tuple(_mmr_then_minimum(state, shown, k, margins)), margins
    kept_rows = _select_passing(state, shown, order, k)
    if not runs(state.ranking, Stage.MMR):
        rows = kept_rows[:k]
        # A candidate with free places is compared with everything that may fill one.
        first = order[shown.strict[order]]
        second = order[shown.filling[order]] if len(first) < k else order[:0]
        for members in (first, second):
            margins += order_margins(state, members, min(k, len(members)))
        # No margin is between what both fail the minimum.
        certain = shown.is_plain and shown.exact is state.exact and len(rows) == k
        looked_at = np.array(rows, dtype=np.intp) if certain else order
        return tuple(rows), margins + minimum_margins(state, shown, looked_at)
    margins += minimum_margins(state, shown, order)
    if shown.filling.any():
        margins += order_margins(state, order, len(order))
    rows = []
    for group in mmr_groups(state, np.array(kept_rows, dtype=np.intp)):
        if len(rows) < k:
            rows.extend(
                diversified(state, group, margins, lambda chosen: len(rows) + len(chosen) >= k)
            )
    return tuple(rows), margins


def _mmr_is_last(ranking: Ranking) -> bool:
    at = {stage: number for number, stage in enumerate(ranking.stages)}
    return at.get(Stage.MIN_SCORE, -1) < at[Stage.MMR]


def mmr_groups(state: State, order: Indices) -> list[Indices]:
    """Return what MMR reorders, group by group, best first."""
    groups = tier_groups(state)
    if groups is None or not (state.columns.tier[order] > 0).any():
        is_kept = np.zeros(len(state.columns.rows), dtype=bool)
        is_kept[order] = True
        ordered = state.sorted(state.exact)
        return [ordered[is_kept[ordered]]] if order.size else []
    numbers = groups[order]
    return [order[numbers == number] for number in np.unique(numbers)]


def shown_scores(state: State) -> Shown:
    """Return what the minimum looks at, and who passes."""
    ranking, columns = state.ranking, state.columns
    exact, curve = state.exact, state.curve
    strict, filling = np.ones(len(exact), dtype=bool), np.zeros(len(exact), dtype=bool)
    fixed = columns.tier > 0 if Stage.EXACT_PATH in ranking.stages else filling
    if fixed.any():
        exact = np.where(fixed, columns.project, exact)
        public = constant(np.where(fixed, columns.project, 0.0))
        curve = curve.scaled((~fixed).astype(np.float64)) + public
    minimum, is_plain = ranking.min_score, True
    if minimum is not None and runs(ranking, Stage.MIN_SCORE):
        strict = exact >= minimum
        passing = int(strict[state.order].sum())
        match ranking.min_score_rule:
            case MinScoreRule.FILL if passing:
                filling, is_plain = ~strict & columns.fillable, passing >= ranking.k
            case MinScoreRule.FILL:
                strict, is_plain = (exact >= 0) & columns.named, False
            case MinScoreRule.RELAXED if not passing:
                strict, is_plain = (exact >= relaxed_minimum(ranking)) & columns.named, False
    return Shown(exact, curve, fixed, strict, filling, is_plain)


def _select_passing(state: State, shown: Shown, order: Iterable[int], k: int) -> list[int]:
    """Return who passes, strict ones first; candidates of one range of lines fill one place."""
    order = [int(row) for row in order]
    rows = [row for row in order if shown.strict[row]]
    if not shown.filling.any() or len(rows) >= k:
        return rows
    places = state.columns.range
    used_places = {int(places[row]) for row in rows}
    for row in order:
        if len(rows) >= k:
            break
        if shown.filling[row] and int(places[row]) not in used_places:
            used_places.add(int(places[row]))
            rows.append(row)
    return rows


def _mmr_then_minimum(state: State, shown: Shown, k: int, margins: list[Curve]) -> list[int]:
    """Return the list where MMR orders everything and the minimum drops from it."""
    everyone, places = state.order, state.columns.range
    strict = everyone[shown.strict[everyone]]
    is_full = len(strict) >= k
    # How many strict ones, and how many behind them, the list has places for.
    missing, free = k, 0
    used_places: set[int] = set()
    if not is_full:
        used_places = set(places[strict].tolist())
        fresh = set(places[everyone[shown.filling[everyone]]].tolist()) - used_places
        missing, free = len(strict), min(k - len(strict), len(fresh))
    sequence: list[int] = []

    def is_enough(chosen: Sequence[int]) -> bool:
        nonlocal missing, free
        row = chosen[-1]
        place = int(places[row])
        if shown.strict[row]:
            missing -= 1
        elif shown.filling[row] and place not in used_places:
            used_places.add(place)
            free -= 1
        return missing <= 0 and free <= 0

    for group in mmr_groups(state, everyone):
        if missing <= 0 and free <= 0:
            break
        sequence += diversified(state, group, margins, is_enough)
    looked_at = np.array(sequence, dtype=np.intp) if shown.is_plain and is_full else everyone
    margins += minimum_margins(state, shown, looked_at)
    return _select_passing(state, shown, sequence, k)


def order_margins(state: State, members: Indices, first: int) -> list[Curve]:
    """Return the margins that keep the first of these, and their order."""
    if first == 0 or len(members) < 2:
        return []
    head, rest = members[:first], members[first:]
    upper = np.concatenate([head[:-1], np.full(len(rest), head[-1])])
    lower = np.concatenate([head[1:], rest])
    together = state.groups[upper] == state.groups[lower]
    return state.above(upper[together], lower[together])


def minimum_margin(state: State, shown: Shown, minimum: float, rows: Indices) -> Curve:
    """Return how far these candidates are from the minimum, on the side where they are counted."""
    passes = shown.exact[rows] >= minimum
    if state.logs is None or state.signs is None or minimum < 0:
        return on_side(shown.curve[rows].minus(state.unit.scaled(minimum)), passes)
    # A decayed score never reaches 0, and exact names are shown by one that does not decay.
    moves = (state.signs[rows] > 0) & (minimum > 0) & ~shown.fixed[rows]
    edge = constant(math.log(minimum) if minimum > 0 else 0.0)
    margin = on_side(state.logs[rows].minus(edge), passes).scaled(moves.astype(np.float64))
    return margin + constant((~moves).astype(np.float64))


def on_side(margin: Curve, passes: Flags) -> Curve:
    """Return the margin of a limit for what passes it, and what fails it.

    Beside the limit the curve may be on the other side by rounding; the score itself decides.
    """
    return margin.scaled(np.where(passes, 1.0, -1.0))


def minimum_margins(state: State, shown: Shown, rows: Indices) -> list[Curve]:
    """Return what keeps who passes the minimum, by which rule; `rows` when each is on its own."""
    ranking, everyone = state.ranking, state.order
    minimum = ranking.min_score
    if minimum is None or not runs(ranking, Stage.MIN_SCORE):
        return []
    if shown.is_plain:
        return [minimum_margin(state, shown, minimum, rows)]
    margins = [minimum_margin(state, shown, minimum, everyone)]
    if (shown.exact[everyone] >= minimum).any():
        return margins
    if ranking.min_score_rule is MinScoreRule.FILL:
        return [*margins, minimum_margin(state, shown, 0.0, everyone)]
    lower, follows_weight = relaxed_minimum(ranking), ranking.relaxed_min_score is None
    moves = state.seed.parameter is Parameter.VECTOR_WEIGHT
    weight, slope = np.asarray(ranking.keyword_weight), np.asarray(-1.0 if moves else 0.0)
    keyword_weight = Curve(weight, slope, np.asarray(0.0))
    if moves and follows_weight and ranking.keyword_weight < minimum:
        limit = keyword_weight.times(state.unit)
        passes = shown.exact[everyone] >= lower
        margins.append(on_side(shown.curve[everyone].minus(limit), passes))
    else:
        margins.append(minimum_margin(state, shown, lower, everyone))
    if follows_weight:
        margins.append(keyword_weight.minus(constant(minimum)).sided())
    return margins


def absence_reach(state: State, target: int, direction: int) -> float:
    """Return how far the parameter may move with a row out of the list; 0 where that is not clear.

    A candidate below the minimum is out, however the others stand, and so is one with k rivals
    that beat it even if MMR counted the most against them and nothing against it. This saves most
    runs of MMR.
    """
    ranking, alone = state.ranking, np.array([target])
    # Where nothing but the scores counts, a rival that outgrows its curve is all the more ahead.
    is_mixed = runs(ranking, Stage.MMR) or runs(ranking, Stage.RERANK)
    margins = [*state.margins, *state.kinks(state.order if is_mixed else alone)]
    if target not in state.order:
        return reach(margins, direction)
    shown, rule = shown_scores(state), ranking.min_score_rule
    passes = bool(shown.strict[target])
    passing = state.order[shown.strict[state.order]]
    # What neither passes nor may fill is out, while others pass.
    may_enter = passes or shown.filling[target]
    if not shown.is_plain and (may_enter or not (shown.filling.any() and passing.size)):
        return 0.0
    minimum = ranking.min_score if runs(ranking, Stage.MIN_SCORE) else None
    if minimum is not None and not (passes and rule is MinScoreRule.PLAIN):
        margins.append(minimum_margin(state, shown, minimum, alone))
    needed, rivals = 0, constant(np.zeros(0))
    if minimum is not None and not passes:
        if rule is MinScoreRule.FILL and state.columns.fillable[target]:
            needed, rivals = ranking.k, minimum_margin(state, shown, minimum, passing)
        elif rule is not MinScoreRule.PLAIN:
            witness = passing[[int(np.argmax(shown.exact[passing]))]]
            margins.append(minimum_margin(state, shown, minimum, witness))
    elif not runs(ranking, Stage.MMR):
        groups = state.groups[passing]
        same = passing[(groups == state.groups[target]) & (passing != target)]
        needed = ranking.k - int((groups < state.groups[target]).sum())
        rivals = state.over(same, alone)
    else:
        last, ahead, members = _mmr_is_last(ranking), 0, passing[:0]
        for members in mmr_groups(state, passing if last else state.order):
            if target in members:
                break
            ahead += int(shown.strict[members].sum())
        others = np.flatnonzero(shown.strict[members] & (members != target))
        against = -state.columns.nearest[members[others]]
        place = np.flatnonzero(members == target)
        needed, rivals = ranking.k - ahead, _preferred(state, members, others, place, against)
        margins += span_margins(state, members)
        margins += minimum_margins(state, shown, state.order) if last else []
    if passes:
        rivals = rivals[np.flatnonzero(rivals.value > 1e-12)]
        if rivals.value.size < needed:
            return 0.0
    furthest = reach(margins, direction)
    if needed <= 0:
        return furthest
    return min(furthest, float(np.sort(reaches(rivals, direction))[-needed]))

"""The scores of a ranking as functions of one parameter, stage by stage.

`exact` is computed as `memtui.ranking.pipeline.rank` does, in the same order of operations, and
decides every order; `curve` is the same number as a function of the swept parameter. After a
composite rerank the curves are in units of the best score (`unit`), which makes a quotient of two
functions a linear combination of them.
"""

from __future__ import annotations

import math

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from memtui.model import Fusion, Ranking, SearchMode, Stage, TieRule
from memtui.ranking import stages
from memtui.ranking.counterfactual.change import Parameter
from memtui.ranking.counterfactual.columns import Columns, Curve, Floats, Indices, constant
from memtui.ranking.fusion import RRF_K_DEFAULT

LAST_GROUP = 6
"""The group of what is no exact name; three tiers of two groups come first."""

SMALLEST_EXPONENT = 1075 * math.log(2)
"""exp() of less than minus this is 0: half of the least number, 2^-1074, is rounded to it."""


class Seed(Struct, frozen=True):
    """Which parameter moves, and how far down the bends have to hold, in its coordinate.

    The coordinate of the half-life is ln 2 / days, that of every other parameter its value.
    """

    parameter: Parameter | None = None
    low: float = 0.0


class State(Struct, frozen=True):
    """The candidates after a stage, and the margins of what was decided so far."""

    columns: Columns
    ranking: Ranking
    seed: Seed
    fused: Floats
    fused_curve: Curve
    exact: Floats
    curve: Curve
    unit: Curve
    """The number 1 in the curves' unit."""
    order: Indices
    groups: Indices
    """Candidates of a lower group come first, whatever their score."""
    margins: list[Curve]
    earlier: tuple[Curve, ...] = ()
    """The scores that decide between equal ones, latest last."""
    logs: Curve | None = None
    """Logarithms of the scores' sizes where those are linear: under a half-life without floor."""
    signs: Floats | None = None
    """Beside `logs`, on which side of 0 the scores are: they never reach it."""

    def sorted(self, values: Floats) -> Indices:
        """Return the survivors by score, equal scores as the profile's tie rule says."""
        order = self.order
        match self.ranking.tie_rule:
            case TieRule.LEG_ORDER:
                order = np.sort(order)
            case TieRule.LOCATION:
                return order[np.lexsort((self.columns.place[order], -values[order]))]
        return order[np.argsort(-values[order], kind="stable")]

    def scored(
        self, values: Floats, curve: Curve, unit: Curve | None = None, logs: Curve | None = None
    ) -> State:
        """After a stage that gave new scores and sorted by them."""
        order, earlier = self.sorted(values), (*self.earlier, self.curve)
        scores = replace(self, exact=values, curve=curve, unit=unit or self.unit, logs=logs)
        return replace(scores, order=order, earlier=earlier)

    def over(self, upper: Indices, lower: Indices) -> Curve:
        """Return the margins of the first candidates over the second by their scores, pair by pair.

        Exponentials of one sign are compared by their logarithms, which are linear.
        """
        difference = self.curve[upper].minus(self.curve[lower])
        if self.logs is None:
            return difference
        assert self.signs is not None
        sign = self.signs
        alike = (sign[upper] == sign[lower]) & (sign[upper] != 0)
        ratio = self.logs[upper].minus(self.logs[lower]).scaled(sign[upper])
        # Scores on two sides of 0 stay there.
        apart = constant(np.where(alike, 0.0, np.sign(sign[upper] - sign[lower])))
        return ratio.scaled(alike.astype(np.float64)) + apart

    def relative(self, members: Indices) -> Curve:
        """Return the scores of these, all divided by one function of the parameter that is above 0.

        Under a half-life without a floor that is the decay of the youngest: what is nothing
        beside the others then bends by nothing, however old all of them are.
        """
        if self.logs is None or self.signs is None:
            return self.curve[members]
        sign, logs = self.signs[members], self.logs.value[members]
        ages = -self.logs.slope[members]
        left = ages[sign != 0]
        youngest = float(left.min()) if left.size else 0.0
        rate = math.log(2) / self.ranking.decay.half_life_days
        older = np.where(sign != 0, ages - youngest, 0.0)
        value = np.where(sign != 0, sign * np.exp(logs + (ages - older) * rate), 0.0)
        growth = np.exp(older * max(0.0, rate - self.seed.low))
        return Curve(value, -older * value, older * older * np.abs(value) * growth)

    def above(self, upper: Indices, lower: Indices) -> list[Curve]:
        """Return the margins of the first candidates over the second, pair by pair.

        Where the scores are equal and stay so, those before them decide.
        """
        difference = self.over(upper, lower)
        equal = (difference.value == 0) & (difference.slope == 0)
        if self.ranking.tie_rule is TieRule.LEG_ORDER or not equal.any():
            return [difference]
        before = (curve[upper[equal]].minus(curve[lower[equal]]) for curve in self.earlier)
        return [difference, *(curve.sided() for curve in before)]


def fused_state(columns: Columns, ranking: Ranking, seed: Seed) -> State:
    """Return the candidates after fusion."""
    vector, keyword = columns.vector, columns.keyword
    is_alone = ranking.search_mode is not SearchMode.HYBRID
    weights = (1.0, 1.0) if is_alone else (ranking.vector_weight, ranking.keyword_weight)
    moves = seed.parameter is Parameter.VECTOR_WEIGHT and not is_alone
    slopes = (1.0, -1.0) if moves else (0.0, 0.0)
    keeps = columns.media & (ranking.vector_weight > 0)
    of_vector, vector_slope = np.where(keeps, 1.0, weights[0]), np.where(keeps, 0.0, slopes[0])
    value, slope, bend = (np.zeros(len(columns.rows)) for _ in range(3))
    parts = ((vector, of_vector, vector_slope), (keyword, weights[1], slopes[1]))
    k = ranking.rrf_k if ranking.rrf_k > 0 else RRF_K_DEFAULT
    low = min(seed.low, k) if seed.parameter is Parameter.RRF_K else k
    for part, weight, weight_slope in parts:
        share = part.mapped
        if ranking.fusion is Fusion.RRF:
            share = np.where(part.present, 1 / (k + part.place), 0.0)
        value = value + weight * share
        slope = slope + weight_slope * share
        if ranking.fusion is Fusion.RRF and seed.parameter is Parameter.RRF_K:
            slope = slope - weight * share * share
            bend = bend + np.where(part.present, 2 * weight / (low + part.place) ** 3, 0.0)
    curve, one = Curve(value, slope, bend), constant(1.0)
    start = np.arange(len(columns.rows), dtype=np.intp)
    nothing = np.zeros(len(start), dtype=np.intp)
    state = State(columns, ranking, seed, value, curve, value, curve, one, start, nothing, [])
    return replace(state, order=state.sorted(value))


def identity(state: State) -> State:
    """Return the private scores of exact names and substring matches."""
    columns, content = state.columns, state.exact
    named = columns.tier > 0
    decays = state.ranking.decay.enabled
    values, slope, bend = content.copy(), state.curve.slope.copy(), state.curve.bend.copy()
    if state.ranking.search_mode is SearchMode.KEYWORD_ONLY:
        replaced = named if decays else np.zeros_like(named)
        backed = np.where(columns.body, content, 0.0)
    else:
        replaced = named | ((content == 0) & (columns.lexical != 0))
        backed = content
    if not replaced.any():
        return state
    for index in np.flatnonzero(replaced):
        part = float(backed[index])
        moves = 0.0
        if not named[index]:
            values[index] = columns.lexical[index]
        elif decays:
            values[index] = stages.tie_score(part)
            moves = 0.5 if 0 < part < 1 else 0.0
        else:
            values[index] = part if part > 0 else 1.0
            moves = 1.0 if part > 0 else 0.0
        slope[index] *= moves
        bend[index] *= moves
    sided = np.flatnonzero(named | (columns.lexical != 0))
    state.margins.append(state.curve[sided].sided())
    state.margins.append(state.curve[sided].minus(constant(1.0)).sided())
    return state.scored(values, Curve(values, slope, bend))


def decayed(state: State) -> State:
    """Scores times the decay factor."""
    setting = state.ranking.decay
    if not setting.enabled:
        return state
    columns = state.columns
    key = (setting.half_life_days, setting.floor)
    factors = columns.factors.get(key)
    if factors is None:
        factors = np.array(stages.decay_factors(columns.ages, *key), dtype=np.float64)
        if state.seed.parameter not in {Parameter.HALF_LIFE, Parameter.FLOOR}:
            columns.factors[key] = factors
    values = state.exact * factors
    after = state.scored(values, state.curve.times(_decay_curve(state, factors)))
    if state.seed.parameter is not Parameter.HALF_LIFE or setting.floor != 0:
        return after
    # log |score| + age * ln 2 / half-life, negated in the age.
    size, ages = np.abs(state.exact), columns.aged
    with np.errstate(divide="ignore"):
        start = np.where(size > 0, np.log(size), 0.0)
    rate = math.log(2) / setting.half_life_days
    logs = Curve(start - rate * ages, -ages, np.zeros_like(ages))
    return replace(after, logs=logs, signs=np.sign(values))


def _decay_curve(state: State, factors: Floats) -> Curve:
    columns, setting, seed = state.columns, state.ranking.decay, state.seed
    nothing = np.zeros_like(factors)
    is_on = math.isfinite(setting.half_life_days) and setting.half_life_days > 0
    if not is_on or seed.parameter not in {Parameter.HALF_LIFE, Parameter.FLOOR}:
        return Curve(factors, nothing, nothing)
    rate = math.log(2) / setting.half_life_days
    ages = columns.aged
    power = np.where(columns.ageless, 1.0, np.exp(-rate * ages))
    if seed.parameter is Parameter.FLOOR:
        return Curve(factors, 1.0 - power, nothing)
    rest = 1 - setting.floor
    # Where nothing is left of scores they are equal from there on, and 0 passes a minimum of 0.
    if setting.floor == 0:
        ending, gone = _endings(state.exact), state.exact * factors == 0
    else:
        ending, gone = np.full_like(ages, SMALLEST_EXPONENT), power == 0
    # Beside the end the exponent may be on the other side by rounding; the score itself decides.
    side = np.where(gone, -1.0, 1.0)
    stays = state.exact == 0
    ends = np.where(stays, 1.0, (ending - rate * ages) * side)
    state.margins.append(Curve(ends, np.where(stays, 0.0, -ages * side), nothing))
    highest = np.exp(-min(seed.low, rate) * ages)
    return Curve(factors, -rest * ages * power, rest * ages * ages * highest)


def _endings(scores: Floats) -> Floats:
    """Return the exponents x from which on score * exp(-x) is 0; of a score of 0 that of exp().

    exp(-x) is some multiple n of 2^-1074, and n times a score is rounded to 0 up to 1/2.
    """
    size = np.where(scores != 0, np.abs(scores), 1.0)
    with np.errstate(over="ignore"):
        # The remainder is exact, as the quotient is not.
        most = np.rint((0.5 - np.fmod(0.5, size)) / size)
    # So many that the half does not count; of the least scores the quotient is not even finite.
    half = np.where(most < 2.0**52, np.log(most + 0.5), math.log(0.5) - np.log(size))
    return 1074 * math.log(2) - half


def multiplied(state: State, factors: Floats) -> State:
    """Scores times what does not depend on any swept parameter."""
    logs = None if state.logs is None else state.logs + constant(np.log(factors))
    return state.scored(state.exact * factors, state.curve.scaled(factors), logs=logs)


def weighted_by_importance(state: State) -> State:
    if not state.ranking.importance_multiplier:
        return state
    return multiplied(state, state.columns.importance)


def weighted_by_project(state: State) -> State:
    if not state.ranking.importance_multiplier and not state.ranking.project_keys:
        return state
    after = multiplied(state, state.columns.project)
    return replace(after, order=after.order[~state.columns.lost[after.order]])


def reranked(state: State) -> State:
    """Return the composite of relevance, recency and importance, in units of the best score."""
    weights = state.ranking.rerank
    if not weights.enabled or not state.order.size:
        return state
    alive = state.order
    best = int(alive[np.argmax(state.exact[alive])])
    maximum = float(state.exact[best])
    columns = state.columns
    rest = columns.recency_part + columns.importance_part
    relevance = state.exact / maximum if maximum > 0 else np.zeros_like(state.exact)
    values = weights.relevance * relevance + columns.recency_part + columns.importance_part
    state.margins.append(state.curve[best].minus(state.curve[alive]))
    state.margins.append(state.curve[best].sided())
    if not maximum > 0:
        return state.scored(values, constant(values))
    unit = state.curve[best]
    curve = state.curve.scaled(weights.relevance) + unit.scaled(rest)
    return state.scored(values, curve, state.unit.times(unit))


def deduplicated(state: State) -> State:
    """Only the best of equal texts."""
    if not state.ranking.dedup or not state.order.size:
        return state
    texts = state.columns.text[state.order]
    _, first, group = np.unique(texts, return_index=True, return_inverse=True)
    if len(first) == len(texts):
        return state
    leaders = state.order[first[group]]
    twins = leaders != state.order
    state.margins.extend(state.above(leaders[twins], state.order[twins]))
    return replace(state, order=state.order[np.sort(first)])


def tiered(state: State) -> State:
    """Exact names first, by tier; what only a substring backs at its public 0."""
    columns = state.columns
    hidden = (columns.tier == 0) & (state.fused == 0) & (columns.lexical > 0)
    hidden &= state.ranking.search_mode is SearchMode.HYBRID
    groups = tier_groups(state)
    if groups is None and not hidden.any():
        return state
    values = np.where(hidden, 0.0, state.exact)
    curve = state.curve.scaled((~hidden).astype(np.float64))
    signs = None if state.signs is None else np.where(hidden, 0.0, state.signs)
    # Exact names keep their order within a tier; everything else is sorted by the public score.
    key = -values if groups is None else np.where(groups == LAST_GROUP, -values, 0.0)
    groups = state.groups if groups is None else groups
    order = state.order[np.lexsort((key[state.order], groups[state.order]))]
    earlier = (*state.earlier, state.curve)
    tiers = replace(state, order=order, groups=groups, earlier=earlier)
    return replace(tiers, exact=values, curve=curve, signs=signs)


def tier_groups(state: State) -> Indices | None:
    """Return the group of each candidate: two a tier, then everything else; `None` for one."""
    columns = state.columns
    if not (columns.tier[state.order] > 0).any():
        return None
    groups = np.where(columns.tier > 0, 2 * (3 - columns.tier), LAST_GROUP)
    if not state.ranking.decay.enabled:
        if state.ranking.search_mode is SearchMode.KEYWORD_ONLY:
            backed = columns.body
        else:
            backed = (state.fused > 0) | (columns.lexical > 0)
            named = np.flatnonzero(columns.tier > 0)
            state.margins.append(state.fused_curve[named].sided())
        groups = np.where((columns.tier > 0) & ~backed, groups + 1, groups)
    return groups


SCORING = {
    Stage.IDENTITY: identity,
    Stage.DECAY: decayed,
    Stage.IMPORTANCE: weighted_by_importance,
    Stage.PROJECT: weighted_by_project,
    Stage.TIERS: tiered,
    Stage.RERANK: reranked,
    Stage.DEDUP: deduplicated,
}
"""The stages before the minimum score and MMR."""

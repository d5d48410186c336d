"""The scores of a ranking as functions of one parameter, stage by stage.

A list stays as it is until one of the comparisons that made it changes its sign. Each comparison
is kept as a margin that is now at or above 0: a value, a slope and a bound on the bend of a
function of one parameter. `reach` says how far the parameter may move before any of them can fall
below 0. Where the bend is 0 the margin is linear and the reach is its root; otherwise
f + f'd - bend d²/2 lies below the margin, so its root is never beyond the true one and repeated
steps converge to that quadratically.

`exact` scores are computed as `memtui.ranking.pipeline.rank` does, in the same order of operations,
and decide every order; `curve` is the same number as a function of the swept parameter. After a
composite rerank the curves are in units of the best score (`unit`), which makes a quotient of two
functions a linear combination of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TypeAlias

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from memtui import model
from memtui.ranking import stages
from memtui.ranking.context import context_weights
from memtui.ranking.counterfactual.change import FEATURE_OF, Parameter
from memtui.ranking.mmr import overlap_matrix
from memtui.ranking.pipeline import runs

Floats: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.intp]
Flags: TypeAlias = NDArray[np.bool_]

ROUNDING = 8 * float(np.finfo(np.float64).eps)
"""Differences below this part of the numbers compared are rounding, not order."""


class Curve(Struct, frozen=True):
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
        """Return the product; the bend holds the cross term at this point."""
        return Curve(
            self.value * other.value,
            self.slope * other.value + self.value * other.slope,
            self.bend * np.abs(other.value)
            + np.abs(self.value) * other.bend
            + 2 * np.abs(self.slope * other.slope),
        )

    def minus(self, other: Curve) -> Curve:
        """Return the difference, exactly 0 where nothing but rounding is left of it."""
        value, slope = self.value - other.value, self.slope - other.slope
        size = np.maximum(np.abs(self.value), np.abs(other.value))
        steepness = np.maximum(np.abs(self.slope), np.abs(other.slope))
        same = (np.abs(value) <= ROUNDING * size) & (np.abs(slope) <= ROUNDING * steepness)
        return Curve(
            np.where(same, 0.0, value),
            np.where(same, 0.0, slope),
            np.where(same, 0.0, self.bend + other.bend),
        )

    def sided(self) -> Curve:
        """Return the margin to 0, from whichever side it is on."""
        return self.scaled(np.where(self.value < 0, -1.0, 1.0))


def constant(value: Floats | float) -> Curve:
    """Return what does not depend on the parameter."""
    array = np.asarray(value, dtype=np.float64)
    nothing = np.zeros_like(array)
    return Curve(array, nothing, nothing)


def reaches(margins: Curve, direction: int) -> Floats:
    """Return how far the parameter can move before each margin can be below 0; infinite if never.

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
    reached_at: Floats = np.where((speed <= 0) & (bend == 0), np.inf, reached)
    return reached_at


def reach(margins: Sequence[Curve], direction: int) -> float:
    """Return how far the parameter can move before any margin can be below 0."""
    each = (reaches(margin, direction) for margin in margins if margin.value.size)
    return min((float(one.min()) for one in each), default=float("inf"))


class Part(Struct, frozen=True):
    """One leg's side of the candidates: mapped score and place, 0 where the leg has none."""

    present: Flags
    mapped: Floats
    place: Floats


class Columns(Struct, frozen=True):
    """The candidates of one pool under one ranking, by row as fusion names them."""

    rows: list[stages.FusedRow]
    vector: Part
    keyword: Part
    media: Flags
    """Vector-only hits on files that are not text, whose vector score counts whole."""
    evidence: model.Evidence | None
    """The parts of the index that the features are made of; `None` without passages."""
    features: Floats
    """Those of the passages: a line for each of `FEATURES` but for the first."""
    owner: Indices
    """The candidate of each passage, ascending; where it has none, of one without features."""
    ages: list[float | None]
    """In days; `None` for what does not age."""
    aged: Floats
    """The same, 0 for what does not age and for a date to come."""
    importance: Floats
    project: Floats
    lost: Flags
    """Candidates whose project annotation could not be read."""
    recency_part: Floats
    importance_part: Floats
    """The parts of the composite rerank that do not depend on the score."""
    text: Indices
    """Equal numbers for equal texts, where those are dropped."""
    tier: Indices
    lexical: Floats
    """The private score of body matches without a BM25 value."""
    body: Flags
    """Candidates whose text the keyword leg found."""
    place: Indices
    """The order of equal scores where the location decides; equal where it does not."""
    range: Indices
    """Equal numbers for equal ranges of lines of one file."""
    named: Flags
    """Candidates whose range of lines the keyword leg found."""
    fillable: Flags
    """Candidates that may fill free places although they are below the minimum."""
    overlap: Floats
    """The similarity of every two candidates, where MMR runs."""
    nearest: Floats
    """The greatest similarity of each candidate to any other."""

    def ranks(self, rows: Sequence[int]) -> dict[str, int]:
        """Return the 1-based ranks of the chunks of a list, best first."""
        return {self.rows[row].chunk.id: place for place, row in enumerate(rows, start=1)}


def columns_of(pool: model.CandidatePool, ranking: model.Ranking, now: datetime) -> Columns:
    """Lay out the candidates that a ranking takes from a pool."""
    rows, _ = stages.fuse(pool, ranking)
    chunks = [row.chunk for row in rows]
    numbers = range(len(rows))
    state = stages.StageState(pool, ranking, now, rows, [row.score for row in rows], numbers)
    parts = {
        leg: Part(np.zeros(len(rows), dtype=bool), np.zeros(len(rows)), np.zeros(len(rows)))
        for leg in (model.Leg.VECTOR, model.Leg.KEYWORD)
    }
    for index, row in enumerate(rows):
        for leg, hit, value, _ in row.parts:
            part = parts[leg]
            part.present[index], part.mapped[index], part.place[index] = True, value, hit.position
    ages = [None if day is None else (now - day) / stages.DAY for day, _ in stages.dates_of(state)]
    keeps, active, rerank = ranking.media_keeps_vector, ranking.project_keys, ranking.rerank
    recencies = [stages.recency(age or 0.0, rerank.recency_scale_days) for age in ages]
    importances = [
        stages.NEUTRAL_IMPORTANCE if chunk.importance is None else chunk.importance
        for chunk in chunks
    ]
    nothing = (0.0,) * (len(model.FEATURES) - 1)
    by_chunk = [[one.values for one in pool.passages.get(chunk.id, ())] for chunk in chunks]
    passages = [(at, values) for at, each in enumerate(by_chunk) for values in each or [nothing]]
    features = np.array([values for _, values in passages], dtype=np.float64)
    hits = [row.keyword_hit for row in rows]
    by_location = ranking.tie_rule in {model.TieRule.PLACE, model.TieRule.LOCATION}
    locations = [state.location(index) if by_location else () for index in numbers]
    ordinals = {key: number for number, key in enumerate(sorted(set(locations)))}
    ranges = _numbered((one.source, one.path, one.start_line, one.end_line) for one in chunks)
    named = np.isin(ranges, ranges[parts[model.Leg.KEYWORD].present])
    overlap = overlap_matrix(state, numbers) if runs(ranking, model.Stage.MMR) else np.zeros((0, 0))
    others = overlap.copy()
    np.fill_diagonal(others, 0.0)
    return Columns(
        rows=rows,
        vector=parts[model.Leg.VECTOR],
        keyword=parts[model.Leg.KEYWORD],
        media=_flags(keeps and stages.is_vector_only_media(row.chunk, row.parts) for row in rows),
        evidence=pool.evidence if pool.passages else None,
        features=features.reshape(-1, len(nothing)).T.copy(),
        owner=np.array([at for at, _ in passages], dtype=np.intp),
        ages=ages,
        aged=_floats(max(0.0, age or 0.0) for age in ages),
        importance=_floats(stages.importance_multiplier(chunk.importance) for chunk in chunks),
        project=_floats(stages.project_multiplier(chunk.project_keys, active) for chunk in chunks),
        lost=_flags(stages.INVALID_PROJECT in chunk.project_keys for chunk in chunks),
        recency_part=rerank.recency * _floats(recencies),
        importance_part=rerank.importance * np.clip(_floats(importances), 0.0, 1.0),
        text=_numbered(stages.text_key(chunk) if ranking.dedup else "" for chunk in chunks),
        tier=np.array([row.path_tier for row in rows], dtype=np.intp),
        lexical=_floats(map(state.lexical_rank, numbers)),
        body=_flags(hit is not None and hit.has_body for hit in hits),
        place=np.array([ordinals[key] for key in locations], dtype=np.intp),
        range=ranges,
        named=named,
        fillable=named & (parts[model.Leg.VECTOR].mapped == 0),
        overlap=overlap,
        nearest=others.max(axis=1, initial=0.0),
    )


def _floats(values: Iterable[float]) -> Floats:
    return np.array(list(values), dtype=np.float64)


def _flags(values: Iterable[bool]) -> Flags:
    return np.array(list(values), dtype=bool)


def _numbered(keys: Iterable[Hashable]) -> Indices:
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.intp)


LAST_GROUP = 6
"""The group of what is no exact name; three tiers of two groups come first."""

SMALLEST_EXPONENT = 1075 * math.log(2)
"""exp() of less than minus this is 0: half of the least number, 2^-1074, is rounded to it."""


class Seed(Struct, frozen=True):
    """The parameter that moves, and how far down the bends have to hold, in its coordinate.

    The coordinate of the half-life is ln 2 / days, that of every other parameter its value.
    """

    parameter: Parameter | None = None
    low: float = 0.0


class State(Struct, frozen=True):
    """The candidates after a stage, and the margins of what was decided so far."""

    columns: Columns
    ranking: model.Ranking
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
    behind: Curve | None = None
    """The margin of the best passage of the same candidate over each; where a weight moves."""
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
            case model.TieRule.LEG_ORDER:
                order = np.sort(order)
            case model.TieRule.PLACE | model.TieRule.LOCATION:
                return order[np.lexsort((self.columns.place[order], -values[order]))]
        return order[np.argsort(-values[order], kind="stable")]

    def scored(
        self, values: Floats, curve: Curve, unit: Curve | None = None, logs: Curve | None = None
    ) -> State:
        """After a stage that gave new scores and sorted by them."""
        order, earlier = self.sorted(values), (*self.earlier, self.curve)
        scores = replace(self, exact=values, curve=curve, unit=unit or self.unit, logs=logs)
        return replace(scores, order=order, earlier=earlier)

    def kinks(self, rows: Indices) -> list[Curve]:
        """Return what keeps the best passages of these the best: until then no score outgrows its
        curve, below which it never is.
        """
        if self.behind is None:
            return []
        return [self.behind[np.flatnonzero(np.isin(self.columns.owner, rows))]]

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
        if self.ranking.tie_rule is model.TieRule.LEG_ORDER or not equal.any():
            return [difference]
        before = (curve[upper[equal]].minus(curve[lower[equal]]) for curve in self.earlier)
        return [difference, *(curve.sided() for curve in before)]


def fused_state(columns: Columns, ranking: model.Ranking, seed: Seed) -> State:
    """Return the candidates after fusion."""
    vector, keyword = columns.vector, columns.keyword
    is_alone = ranking.search_mode is not model.SearchMode.HYBRID
    weights = (1.0, 1.0) if is_alone else (ranking.vector_weight, ranking.keyword_weight)
    moves = seed.parameter is Parameter.VECTOR_WEIGHT and not is_alone
    slopes = (1.0, -1.0) if moves else (0.0, 0.0)
    keeps = columns.media & (ranking.vector_weight > 0)
    of_vector, vector_slope = np.where(keeps, 1.0, weights[0]), np.where(keeps, 0.0, slopes[0])
    value, slope, bend = (np.zeros(len(columns.rows)) for _ in range(3))
    parts = ((vector, of_vector, vector_slope), (keyword, weights[1], slopes[1]))
    k = ranking.rrf_k if ranking.rrf_k > 0 else stages.RRF_K_DEFAULT
    low = min(seed.low, k) if seed.parameter is Parameter.RRF_K else k
    for part, weight, weight_slope in parts:
        share = part.mapped
        if ranking.fusion is model.Fusion.RRF:
            share = np.where(part.present, 1 / (k + part.place), 0.0)
        value = value + weight * share
        slope = slope + weight_slope * share
        if ranking.fusion is model.Fusion.RRF and seed.parameter is Parameter.RRF_K:
            slope = slope - weight * share * share
            bend = bend + np.where(part.present, 2 * weight / (low + part.place) ** 3, 0.0)
    curve, one = Curve(value, slope, bend), constant(1.0)
    start = np.arange(len(columns.rows), dtype=np.intp)
    nothing = np.zeros(len(start), dtype=np.intp)
    state = State(columns, ranking, seed, value, curve, value, curve, one, start, nothing, [])
    return replace(state, order=state.sorted(value))


def contexted(state: State) -> State:
    """Return the scores of the best passages.

    In a weight the score of a passage is a line, and that of a candidate the highest of its own.
    """
    columns, parameter = state.columns, state.seed.parameter
    if columns.evidence is None:
        return state
    owner, weights = columns.owner, context_weights(state.ranking, columns.evidence)
    features = [state.exact[owner], *columns.features]
    fused = state.curve[owner].scaled(weights[0])
    sums, slope = np.zeros_like(fused.value), fused.slope
    for weight, feature in zip(weights, features, strict=True):
        sums += weight * feature
    if parameter is not None and parameter in FEATURE_OF:
        slope = slope + features[FEATURE_OF[parameter]]
    lines = Curve(sums, slope, fused.bend)
    _, first = np.unique(owner, return_index=True)
    best = np.lexsort((-sums, owner))[first]
    if parameter in FEATURE_OF:
        state = replace(state, behind=lines[best[owner]].minus(lines))
    return state.scored(sums[best], lines[best])


def identity(state: State) -> State:
    """Return the private scores of exact names and substring matches."""
    columns, content = state.columns, state.exact
    named = columns.tier > 0
    decays = state.ranking.decay.enabled
    if state.ranking.search_mode is model.SearchMode.KEYWORD_ONLY:
        replaced = named if decays else np.zeros_like(named)
        backed = np.where(columns.body, content, 0.0)
    else:
        replaced = named | ((content == 0) & (columns.lexical != 0))
        backed = content
    if not replaced.any():
        return state
    if decays:
        own = np.array([stages.tie_score(float(part)) for part in backed])
        share = np.where((backed > 0) & (backed < 1), 0.5, 0.0)
    else:
        own = np.where(backed > 0, backed, 1.0)
        share = (backed > 0).astype(np.float64)
    values = np.where(replaced, np.where(named, own, columns.lexical), content)
    moves = np.where(replaced, np.where(named, share, 0.0), 1.0)
    sided = np.flatnonzero(named | (columns.lexical != 0))
    state.margins.append(state.curve[sided].sided())
    state.margins.append(state.curve[sided].minus(constant(1.0)).sided())
    curve = Curve(values, state.curve.slope * moves, state.curve.bend * moves)
    return state.scored(values, curve)


def decayed(state: State) -> State:
    """Scores times the decay factor."""
    columns, setting, parameter = state.columns, state.ranking.decay, state.seed.parameter
    ages, floor, days = columns.aged, setting.floor, setting.half_life_days
    factors = np.array(stages.decay_factors(columns.ages, days, floor), dtype=np.float64)
    values, curve = state.exact * factors, constant(factors)
    if parameter not in {Parameter.HALF_LIFE, Parameter.FLOOR} or not 0 < days < math.inf:
        return state.scored(values, state.curve.times(curve))
    rate, nothing = math.log(2) / days, np.zeros_like(ages)
    power = np.exp(-rate * ages)
    if parameter is Parameter.FLOOR:
        return state.scored(values, state.curve.times(Curve(factors, 1.0 - power, nothing)))
    # Where nothing is left of scores they are equal from there on, and 0 passes a minimum of 0.
    if floor == 0:
        ending, gone = _endings(state.exact), values == 0
    else:
        ending, gone = np.full_like(ages, SMALLEST_EXPONENT), power == 0
    # Beside the end the exponent may be on the other side by rounding; the score itself decides.
    side = np.where(gone, -1.0, 1.0)
    stays = state.exact == 0
    ends = np.where(stays, 1.0, (ending - rate * ages) * side)
    state.margins.append(Curve(ends, np.where(stays, 0.0, -ages * side), nothing))
    highest = np.exp(-min(state.seed.low, rate) * ages)
    bend = (1 - floor) * ages * ages * highest
    curve = Curve(factors, -(1 - floor) * ages * power, bend)
    after = state.scored(values, state.curve.times(curve))
    if floor != 0:
        return after
    # log |score| + age * ln 2 / half-life, negated in the age.
    size = np.abs(state.exact)
    with np.errstate(divide="ignore"):
        start = np.where(size > 0, np.log(size), 0.0)
    return replace(after, logs=Curve(start - rate * ages, -ages, nothing), signs=np.sign(values))


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


def weighted_by_project(state: State) -> State:
    after = multiplied(state, state.columns.project)
    return replace(after, order=after.order[~state.columns.lost[after.order]])


def reranked(state: State) -> State:
    """Return the composite of relevance, recency and importance, in units of the best score."""
    weights = state.ranking.rerank
    if not state.order.size:
        return state
    alive = state.order
    best = int(alive[np.argmax(state.exact[alive])])
    maximum = float(state.exact[best])
    columns = state.columns
    rest = columns.recency_part + columns.importance_part
    with np.errstate(over="ignore"):
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
    hidden &= state.ranking.search_mode is model.SearchMode.HYBRID
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
        if state.ranking.search_mode is model.SearchMode.KEYWORD_ONLY:
            backed = columns.body
        else:
            backed = (state.fused > 0) | (columns.lexical > 0)
            named = np.flatnonzero(columns.tier > 0)
            state.margins.append(state.fused_curve[named].sided())
        groups = np.where((columns.tier > 0) & ~backed, groups + 1, groups)
    return groups


SCORING: Mapping[model.Stage, Callable[[State], State]] = {
    model.Stage.CONTEXT: contexted,
    model.Stage.IDENTITY: identity,
    model.Stage.DECAY: decayed,
    model.Stage.IMPORTANCE: lambda state: multiplied(state, state.columns.importance),
    model.Stage.PROJECT: weighted_by_project,
    model.Stage.TIERS: tiered,
    model.Stage.RERANK: reranked,
    model.Stage.DEDUP: deduplicated,
}
"""The stages before the minimum score and MMR, where they run."""

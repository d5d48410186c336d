"""The least change of each parameter alone that brings a chunk into the list.

Numbers on a continuous range are solved by walking from change to change of the list; the
minimum score, k and the candidate multiplier by looking at each value at which the list can
change. Whatever is found is ranked again by `memtui.ranking.pipeline.rank` before it is offered:
the chunk has to be in the list, and out of it one step nearer to the present value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from memtui.model import (
    CandidatePool,
    DateRule,
    Fusion,
    Leg,
    MinScoreRule,
    Ranking,
    SearchMode,
    Stage,
)
from memtui.ranking.counterfactual.axis import Axis, range_value, rounded
from memtui.ranking.counterfactual.change import (
    LOGARITHMIC,
    Change,
    Counterfactuals,
    NoChange,
    NoChangeReason,
    Parameter,
    Value,
    apply,
    cost,
    kind_of,
    range_of,
    value_of,
)
from memtui.ranking.counterfactual.columns import Columns, columns_of
from memtui.ranking.counterfactual.walk import Stretch, walk
from memtui.ranking.pipeline import rank
from memtui.ranking.profiles import for_mode

STEP = 1e-6
"""How much nearer a value is tried that must not do: absolute, or relative on a log scale."""

Outcome = Change | NoChange


@dataclass(frozen=True)
class Problem:
    """One chunk that one ranking of a pool leaves out."""

    pool: CandidatePool
    base: Ranking
    chunk_id: str
    now: datetime
    mode: SearchMode | None

    def effective(self, ranking: Ranking) -> Ranking:
        """The ranking as it runs."""
        return ranking if self.mode is None else for_mode(ranking, self.mode)

    @cached_property
    def ranking(self) -> Ranking:
        return self.effective(self.base)

    @cached_property
    def columns(self) -> Columns:
        return columns_of(self.pool, self.ranking, self.now)

    @property
    def row(self) -> int | None:
        """The chunk among the candidates."""
        return self.columns.row_of.get(self.chunk_id)

    def changed(self, parameter: Parameter, value: Value) -> Ranking:
        """The ranking with one parameter changed, as it runs."""
        return self.effective(apply(self.base, parameter, value))

    def rank_with(self, parameter: Parameter, value: Value) -> int | None:
        """The rank of the chunk in the changed list, by the ranking itself."""
        ranked = rank(self.pool, self.changed(parameter, value), now=self.now)
        return next((hit.rank for hit in ranked.hits if hit.chunk.id == self.chunk_id), None)

    def needs_search(self, ranking: Ranking) -> bool:
        """Whether a ranking takes candidates that the pool does not hold."""
        if self.pool.sized:
            return ranking.candidates != self.pool.limit
        return ranking.candidates > self.pool.limit and any(
            len(self.pool.hits.get(leg, ())) >= self.pool.limit for leg in Leg
        )

    def change(self, parameter: Parameter, value: Value, place: int, *, exact: bool) -> Change:
        old = value_of(self.base, parameter)
        price = cost(self.base, parameter, value)
        return Change(parameter, old, value, price, exact, place, kind_of(old, value))

    def none(
        self, parameter: Parameter, reason: NoChangeReason = NoChangeReason.NO_VALUE
    ) -> NoChange:
        return NoChange(parameter, reason)


def is_used(ranking: Ranking, parameter: Parameter) -> bool:
    """Whether a parameter can make any difference under this ranking, as it runs."""
    stages = ranking.stages
    hybrid = ranking.search_mode is SearchMode.HYBRID
    decays = Stage.DECAY in stages and ranking.decay.enabled
    match parameter:
        case Parameter.VECTOR_WEIGHT:
            rescues = (
                Stage.MIN_SCORE in stages
                and ranking.min_score is not None
                and ranking.min_score_rule is MinScoreRule.RELAXED
                and ranking.relaxed_min_score is None
            )
            total = ranking.vector_weight + ranking.keyword_weight
            return total > 0 and (hybrid or rescues)
        case Parameter.RRF_K:
            return ranking.fusion is Fusion.RRF
        case Parameter.HALF_LIFE:
            return decays
        case Parameter.FLOOR:
            # OpenClaw's decay has no floor.
            has_floor = ranking.decay.dates is DateRule.MEMTUI or ranking.decay.floor > 0
            return decays and has_floor
        case Parameter.LAMBDA:
            return Stage.MMR in stages and ranking.mmr.enabled
        case Parameter.FUSION | Parameter.K | Parameter.CANDIDATE_MULTIPLIER:
            return True
        case _:
            return _STAGE_OF[parameter] in stages


_STAGE_OF = {
    Parameter.MMR: Stage.MMR,
    Parameter.DECAY: Stage.DECAY,
    Parameter.RERANK: Stage.RERANK,
    Parameter.DEDUP: Stage.DEDUP,
    Parameter.MIN_SCORE: Stage.MIN_SCORE,
}


def along(problem: Problem, parameter: Parameter) -> Outcome:
    """The nearest value on a continuous range."""
    row = problem.row
    if row is None:
        return problem.none(parameter)
    axis = Axis(problem.columns, problem.base, parameter, problem.mode)
    now = value_of(problem.base, parameter)
    assert isinstance(now, (int, float))
    best: Change | None = None
    for direction in (1, -1):
        for found in _entries(problem, axis, float(now), direction, row, best):
            if best is None or found.cost < best.cost:
                best = found
            break
    return problem.none(parameter) if best is None else best


def _entries(
    problem: Problem, axis: Axis, now: float, direction: int, row: int, best: Change | None
) -> Iterator[Change]:
    """Verified changes in one direction, nearest first, as long as they cost less than `best`."""
    start = axis.coordinate(now)
    low, high = axis.bounds
    start = min(high, max(low, start))
    for stretch in walk(axis, start, direction, row):
        here = range_value(axis, stretch.start)
        if best is not None and cost(axis.base, axis.parameter, here) >= best.cost:
            return
        if stretch.rows is None or row not in stretch.rows:
            continue
        found = _verified(problem, axis, stretch, direction, now)
        if found is not None:
            yield found


def _verified(
    problem: Problem, axis: Axis, stretch: Stretch, direction: int, now: float
) -> Change | None:
    """The nearest value of a stretch that the ranking itself confirms."""
    parameter = axis.parameter
    exact = parameter not in LOGARITHMIC
    for value in _values(axis, stretch, direction, now):
        place = problem.rank_with(parameter, value)
        if place is None:
            continue
        nearer = _nearer(parameter, value, now)
        if nearer is None or problem.rank_with(parameter, nearer) is None:
            return problem.change(parameter, value, place, exact=exact)
    return None


def _values(axis: Axis, stretch: Stretch, direction: int, now: float) -> Iterator[float]:
    """Values to try, the shortest to write first."""
    edge = range_value(axis, stretch.start)
    upwards = edge > now if edge != now else direction > 0
    low, high = range_of(axis.base, axis.parameter)
    size = STEP if axis.parameter not in LOGARITHMIC else STEP * 10 ** math.floor(math.log10(edge))
    number = math.floor(edge / size) + 1 if upwards else math.ceil(edge / size) - 1
    digits = max(0, round(-math.log10(size)))
    short = round(number * size, digits)
    if low <= short <= high:
        yield short
    if stretch.start == stretch.end:
        yield rounded(axis, stretch.start)
        return
    inside = stretch.start + direction * axis.step(stretch.start)
    if direction * (stretch.end - inside) > 0:
        yield range_value(axis, inside)
    yield range_value(axis, (stretch.start + stretch.end) / 2)


def _nearer(parameter: Parameter, value: float, now: float) -> float | None:
    """One step from a value towards the present one; `None` when that is nearer than a step."""
    step = STEP * value if parameter in LOGARITHMIC else STEP
    if abs(value - now) <= step:
        return None
    return value - step if value > now else value + step


def switched(problem: Problem, parameter: Parameter) -> Outcome:
    """Turning a stage on or off."""
    new = not value_of(problem.base, parameter)
    place = problem.rank_with(parameter, new)
    if place is None:
        return problem.none(parameter)
    return problem.change(parameter, new, place, exact=True)


def methods(problem: Problem) -> list[Outcome]:
    """Every other fusion method that does it."""
    found: list[Outcome] = []
    for method in Fusion:
        if method is not problem.base.fusion:
            place = problem.rank_with(Parameter.FUSION, str(method))
            if place is not None:
                found.append(problem.change(Parameter.FUSION, str(method), place, exact=True))
    return found or [problem.none(Parameter.FUSION)]


Solver = Callable[[Problem, Parameter], Outcome]


def least_changes(
    pool: CandidatePool,
    ranking: Ranking,
    chunk_id: str,
    *,
    now: datetime,
    mode: SearchMode | None = None,
    parameters: Iterable[Parameter] = Parameter,
    progress: Callable[[Parameter], None] | None = None,
) -> Counterfactuals:
    """What would bring a chunk of the pool into the list, by each parameter alone.

    `mode` says which legs can search: changes are then of `ranking`, and what runs is
    `for_mode` of it. `now` must be timezone-aware. Changes come cheapest first (see
    `change.cost`), equal ones in the order of `Parameter`. A chunk that already is in the list
    needs none: both tuples are empty. Only `parameters` are looked at; `progress` is told of each
    before it is solved, those that can take seconds last. Raises `KeyError` when the pool does not
    hold the chunk.
    """
    if chunk_id not in pool.chunks:
        raise KeyError(chunk_id)
    problem = Problem(pool, ranking, chunk_id, now, mode)
    shown = rank(pool, problem.ranking, now=now).hits
    if any(hit.chunk.id == chunk_id for hit in shown):
        return Counterfactuals(chunk_id, (), ())
    solved: dict[Parameter, list[Outcome]] = {}
    for parameter in sorted(parameters, key=_slowness):
        if progress is not None:
            progress(parameter)
        solved[parameter] = _solved(problem, parameter)
    outcomes = [outcome for parameter in Parameter for outcome in solved.get(parameter, [])]
    changes = sorted(
        (found for found in outcomes if isinstance(found, Change)), key=lambda found: found.cost
    )
    without = tuple(found for found in outcomes if isinstance(found, NoChange))
    return Counterfactuals(chunk_id, tuple(changes), without)


def _solved(problem: Problem, parameter: Parameter) -> list[Outcome]:
    from memtui.ranking.counterfactual import discrete

    if not is_used(problem.ranking, parameter):
        return [problem.none(parameter, NoChangeReason.NOT_USED)]
    if parameter is Parameter.FUSION:
        return methods(problem)
    return [discrete.SOLVERS.get(parameter, along)(problem, parameter)]


def _slowness(parameter: Parameter) -> int:
    return _SLOW.index(parameter) if parameter in _SLOW else -1


_SLOW = (Parameter.LAMBDA, Parameter.FLOOR, Parameter.RRF_K, Parameter.HALF_LIFE)
"""Parameters along which a list of hundreds of candidates can change thousands of times."""

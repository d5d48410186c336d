"""The least change of each parameter alone that brings a chunk into the list.

Numbers on a continuous range are solved by walking from change to change of the list; the
minimum score, k and the candidate multiplier by looking at each value at which the list can
change. Whatever is found is ranked again by `memtui.ranking.pipeline.rank` before it is offered:
the chunk has to be in the list, and out of it one step nearer to the present value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import pairwise

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from memtui.model import CandidatePool, DateRule, Fusion, MinScoreRule, Ranking, SearchMode, Stage
from memtui.ranking.counterfactual.change import (
    DEPTH,
    LOGARITHMIC,
    RANGES,
    Change,
    Counterfactuals,
    NoChange,
    NoChangeReason,
    Parameter,
    Value,
    cost,
    range_of,
    value_of,
)
from memtui.ranking.counterfactual.columns import Columns, Floats
from memtui.ranking.counterfactual.margins import listing, shown_scores, state_before_cut
from memtui.ranking.counterfactual.scores import Seed, State
from memtui.ranking.counterfactual.walk import Axis, Problem, Stretch, range_value, rounded, walk
from memtui.ranking.pipeline import rank

STEP = 1e-6
"""How much nearer a value is tried that must not do: absolute, or relative on a log scale."""


def is_used(ranking: Ranking, parameter: Parameter) -> bool:
    """Return whether a parameter can make any difference under this ranking, as it runs."""
    stages, decay = ranking.stages, ranking.decay
    match parameter:
        case Parameter.VECTOR_WEIGHT:
            rescues = (
                Stage.MIN_SCORE in stages
                and ranking.min_score is not None
                and ranking.min_score_rule is MinScoreRule.RELAXED
                and ranking.relaxed_min_score is None
            )
            total = ranking.vector_weight + ranking.keyword_weight
            return total > 0 and (ranking.search_mode is SearchMode.HYBRID or rescues)
        case Parameter.RRF_K:
            return ranking.fusion is Fusion.RRF
        case Parameter.HALF_LIFE:
            return Stage.DECAY in stages and decay.enabled
        case Parameter.FLOOR:
            # OpenClaw's decay has no floor.
            has_floor = decay.dates is DateRule.MEMTUI or decay.floor > 0
            return Stage.DECAY in stages and decay.enabled and has_floor
        case Parameter.LAMBDA:
            return Stage.MMR in stages and ranking.mmr.enabled
    return parameter not in _STAGE_OF or _STAGE_OF[parameter] in stages


_STAGE_OF = {
    Parameter.MMR: Stage.MMR,
    Parameter.DECAY: Stage.DECAY,
    Parameter.RERANK: Stage.RERANK,
    Parameter.DEDUP: Stage.DEDUP,
    Parameter.MIN_SCORE: Stage.MIN_SCORE,
}
"""The stages of switches and of the minimum; every ranking uses what is not here."""

Attempt = tuple[Value, Value]
"""A value to try, and one a step nearer to the present value that must not do; `None` for none."""


def _first(problem: Problem, parameter: Parameter, attempts: Iterable[Attempt]) -> Change | None:
    """Return the first attempt that the ranking confirms: it does it, and the nearer one not."""
    exact = parameter not in LOGARITHMIC
    for value, nearer in attempts:
        change = problem.change(parameter, value, exact=exact)
        if change is not None and (nearer is None or problem.rank_with(parameter, nearer) is None):
            return change
    return None


def _along(problem: Problem, parameter: Parameter) -> Change | None:
    """Find the nearest value on a continuous range, upwards or downwards."""
    best: Change | None = None
    if problem.row is not None:
        axis = Axis(problem, parameter)
        for direction in (1, -1):
            change = _first(problem, parameter, _entries(axis, direction, problem.row, best))
            if change is not None and (best is None or change.cost < best.cost):
                best = change
    return best


def _entries(axis: Axis, direction: int, row: int, best: Change | None) -> Iterator[Attempt]:
    """Yield values in one direction that show a row, as long as they cost less than `best`."""
    now, (low, high) = value_of(axis.problem.base, axis.parameter), axis.bounds
    assert isinstance(now, (int, float))
    start = min(high, max(low, axis.coordinate(now)))
    for stretch in walk(axis, start, direction, row):
        here = range_value(axis, stretch.start)
        if best is not None and cost(axis.problem.base, axis.parameter, here) >= best.cost:
            return
        if stretch.rows is None or row not in stretch.rows:
            continue
        for value in _values(axis, stretch, direction, now):
            step = STEP * value if axis.parameter in LOGARITHMIC else STEP
            nearer = value - step if value > now else value + step
            yield value, None if abs(value - now) <= step else nearer


def _values(axis: Axis, stretch: Stretch, direction: int, now: float) -> Iterator[float]:
    """Values to try, the shortest to write first."""
    edge = range_value(axis, stretch.start)
    upwards = edge > now if edge != now else direction > 0
    low, high = range_of(axis.problem.base, axis.parameter)
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
    """Return what would bring a chunk of the pool into the list, by each parameter alone.

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
    if any(hit.chunk.id == chunk_id for hit in rank(pool, problem.ranking, now=now).hits):
        return Counterfactuals()
    solved: dict[Parameter, list[Change] | NoChangeReason] = {}
    for parameter in sorted(parameters, key=lambda one: _SLOW.index(one) if one in _SLOW else -1):
        if progress is not None:
            progress(parameter)
        solved[parameter] = _solved(problem, parameter)
    changes: list[Change] = []
    without: list[NoChange] = []
    for parameter in (one for one in Parameter if one in solved):
        solution = solved[parameter]
        if isinstance(solution, NoChangeReason):
            without.append(NoChange(parameter, solution))
        else:
            changes += solution
    return Counterfactuals(tuple(sorted(changes, key=lambda one: one.cost)), tuple(without))


def _solved(problem: Problem, parameter: Parameter) -> list[Change] | NoChangeReason:
    changes: list[Change | None]
    if not is_used(problem.ranking, parameter):
        return NoChangeReason.NOT_USED
    match parameter:
        case Parameter.FUSION:
            others = [str(method) for method in Fusion if method is not problem.base.fusion]
            changes = [problem.change(parameter, method) for method in others]
        case Parameter.MMR | Parameter.DECAY | Parameter.RERANK | Parameter.DEDUP:
            changes = [problem.change(parameter, not value_of(problem.base, parameter))]
        case Parameter.MIN_SCORE:
            changes = [_first(problem, parameter, _minimums(problem))]
        case Parameter.K | Parameter.CANDIDATE_MULTIPLIER:
            return _whole(problem, parameter)
        case _:
            changes = [_along(problem, parameter)]
    return [*filter(None, changes)] or NoChangeReason.NO_VALUE


_SLOW = (Parameter.LAMBDA, Parameter.FLOOR, Parameter.RRF_K, Parameter.HALF_LIFE)
"""Parameters along which a list of hundreds of candidates can change thousands of times."""


def minimum_edges(state: State) -> Floats:
    """Return the minimums at which the list can change: each score within 0 to 1, ascending."""
    low, high = RANGES[Parameter.MIN_SCORE]
    scores = shown_scores(state).exact[state.order]
    edges: Floats = np.unique([low, high, state.ranking.keyword_weight, *scores])
    return edges[(edges >= low) & (edges <= high)]


def _minimums(problem: Problem) -> Iterator[Attempt]:
    """Yield the minimums that show the chunk: the highest up to the present one, none, higher ones.

    A score passes the minimum that it equals, so only the scores themselves are looked at; a higher
    minimum does it by what it leaves out, everything that scores just so much.
    """
    row, now = problem.row, problem.base.min_score
    state = state_before_cut(problem.columns, replace(problem.ranking, min_score=None), Seed())
    if row is None or row not in state.order:
        return
    edges = minimum_edges(state).tolist()
    beyond = (value for edge in edges for value in (edge, min(1.0, math.nextafter(edge, math.inf))))
    if now is None:
        values: list[float | None] = [*beyond]
    else:
        below = [edge for edge in reversed(edges) if edge < now]
        values = [*below, None, *(value for value in beyond if value > now)]
    for value in values:
        changed = replace(state, ranking=replace(problem.ranking, min_score=value))
        if row not in listing(changed, ordered=False, certified=False)[0]:
            continue
        if value is None:
            yield None, 0.0
            continue
        # The shortest to write first.
        upwards = now is None or value > now
        number = math.ceil(value / STEP) if upwards else math.floor(value / STEP)
        for one in (round(number * STEP, 6), value):
            if now is None:
                # No minimum is as far from the lowest one as a switch.
                yield one, one - STEP if one >= STEP else None
            else:
                nearer = one + STEP if one < now else one - STEP
                yield one, None if abs(one - now) <= STEP else nearer


def _whole(problem: Problem, parameter: Parameter) -> list[Change] | NoChangeReason:
    """Find the nearest k or candidate multiplier that does it; of two equally near the larger.

    A smaller k can do it, too: it takes fewer candidates, and when nothing reaches the minimum
    any more, a release relaxes it.
    """
    now = value_of(problem.base, parameter)
    assert isinstance(now, int)
    low, high = (int(value) for value in RANGES[parameter])
    reason = NoChangeReason.NO_VALUE
    tried = {(problem.ranking.k, problem.ranking.candidates)}
    for value in nearest_first(range(low, max(now, high) + 1), now):
        ranking = problem.changed(parameter, value)
        if (ranking.k, ranking.candidates) in tried:
            continue
        tried.add((ranking.k, ranking.candidates))
        if problem.needs_search(ranking):
            reason = NoChangeReason.NEW_SEARCH
            if parameter is Parameter.K and value > now:
                break
            continue
        columns, rows = problem.list_under(ranking)
        shows = columns.row_of.get(problem.chunk_id) in rows
        if shows and (change := problem.change(parameter, value)) is not None:
            return [change]
    return reason


def nearest_first(values: Iterable[int], now: int) -> list[int]:
    """Sort by the distance to the present value; of two equally near the larger comes first."""
    return sorted(values, key=lambda value: (abs(value - now), -value))


Piece = tuple[float, float, dict[str, int]]
"""First and last value, and the ranks of the list's chunks between them."""


class Segment(Struct, frozen=True):
    """Values between which a chunk keeps its rank; `None` is not in the list.

    Where two segments meet, a whole number belongs to the one that begins there; of every other
    parameter either rank may hold.
    """

    start: float
    end: float
    rank: int | None


class Sweep(Struct, frozen=True):
    """The rank of each chunk asked for, as segments from the lowest to the highest value."""

    parameter: Parameter
    low: float
    high: float
    ranks: dict[str, tuple[Segment, ...]]


def sweep(
    pool: CandidatePool,
    ranking: Ranking,
    parameter: Parameter,
    chunk_ids: Sequence[str],
    *,
    now: datetime,
    mode: SearchMode | None = None,
    progress: Callable[[float], None] | None = None,
) -> Sweep:
    """Follow chunks over the whole range of a parameter; `mode` as for `least_changes`.

    A rank is a place in the list of `ranking`, 1 to k; outside it is `None`. k and the multiplier
    end where the pool holds no more candidates. A sweep takes milliseconds for a hundred
    candidates, and up to a few seconds for hundreds of them under MMR: `progress` is told again
    and again which part is done, 0 to 1 and never less than before, and may raise to stop it.
    Raises `ValueError` for a parameter that is a switch or a method, or that this ranking does
    not use.
    """
    problem = Problem(pool, ranking, chunk_ids[0] if chunk_ids else "", now, mode)
    if parameter not in RANGES or not is_used(problem.ranking, parameter):
        raise ValueError(f"{parameter} has no values to sweep under profile {ranking.profile}")
    pieces: list[Piece] = []
    for part, piece in _pieces(problem, parameter):
        if progress is not None:
            progress(part)
        pieces += [piece] if piece is not None else []
    pieces.sort(key=lambda piece: piece[:2])
    low = pieces[0][0] if pieces else RANGES[parameter][0]
    high = pieces[-1][1] if pieces else low
    ranks = {chunk_id: _merged(pieces, chunk_id) for chunk_id in chunk_ids}
    return Sweep(parameter, low, high, ranks)


def _pieces(problem: Problem, parameter: Parameter) -> Iterator[tuple[float, Piece | None]]:
    """Yield which part of the range is done, 0 to 1, and what was found there."""
    if parameter is Parameter.MIN_SCORE:
        ranking = problem.ranking
        state = state_before_cut(problem.columns, replace(ranking, min_score=None), Seed())
        for start, end in pairwise(float(edge) for edge in minimum_edges(state)):
            # A score passes the minimum that it equals: the upper end stands for what is between.
            changed = replace(state, ranking=replace(ranking, min_score=end))
            rows, _ = listing(changed, certified=False)
            yield end, (start, end, _ranks(problem.columns, rows))
    elif parameter in DEPTH:
        low, high = (int(value) for value in RANGES[parameter])
        for value in range(low, high + 1):
            ranking, part = problem.changed(parameter, value), (value - low) / (high - low)
            piece: Piece | None = None
            if not problem.needs_search(ranking):
                piece = value, value, _ranks(*problem.list_under(ranking))
            yield part, piece
    else:
        axis = Axis(problem, parameter)
        scale = math.log if parameter in LOGARITHMIC else float
        first, last = (scale(bound) for bound in axis.bounds)
        for stretch in walk(axis, axis.bounds[0], 1):
            done = (scale(stretch.end) - first) / (last - first) if last > first else 1.0
            piece = None
            if stretch.start != stretch.end and stretch.rows is not None:
                ends = range_value(axis, stretch.start), range_value(axis, stretch.end)
                piece = min(ends), max(ends), _ranks(problem.columns, stretch.rows)
            yield min(1.0, max(0.0, done)), piece


def _ranks(columns: Columns, rows: Sequence[int]) -> dict[str, int]:
    return {columns.rows[row].chunk.id: place for place, row in enumerate(rows, start=1)}


def _merged(pieces: Sequence[Piece], chunk_id: str) -> tuple[Segment, ...]:
    segments: list[Segment] = []
    for low, high, ranks in pieces:
        place = ranks.get(chunk_id)
        if segments and segments[-1].rank == place:
            segments[-1] = replace(segments[-1], end=high)
            continue
        if segments:
            segments[-1] = replace(segments[-1], end=low)
        segments.append(Segment(low, high, place))
    return tuple(segments)

"""The ranks of some chunks over the whole range of one parameter."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise

from memtui.model import CandidatePool, Ranking, SearchMode
from memtui.ranking.counterfactual.axis import Axis, range_value
from memtui.ranking.counterfactual.change import LOGARITHMIC, RANGES, Parameter
from memtui.ranking.counterfactual.columns import columns_of
from memtui.ranking.counterfactual.discrete import minimum_edges
from memtui.ranking.counterfactual.listing import listing, state_before_cut
from memtui.ranking.counterfactual.scores import Seed
from memtui.ranking.counterfactual.solve import Problem, is_used
from memtui.ranking.counterfactual.walk import walk

Piece = tuple[float, float, dict[str, int]]
"""First and last value, and the ranks of the list's chunks between them."""

Step = tuple[float, Piece | None]
"""Which part of the range is done, 0 to 1, and what was found there."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Values between which a chunk keeps its rank; `None` is not in the list.

    Values of k and of the candidate multiplier are whole and belong to the segment at both ends.
    At a value where two segments of another parameter meet, either rank may hold.
    """

    start: float
    end: float
    rank: int | None


@dataclass(frozen=True, slots=True)
class Sweep:
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
    found: list[Piece] = []
    for part, piece in _pieces(problem, parameter):
        if progress is not None:
            progress(part)
        if piece is not None:
            found.append(piece)
    pieces = sorted(found, key=lambda piece: piece[:2])
    low = pieces[0][0] if pieces else RANGES[parameter][0]
    high = pieces[-1][1] if pieces else low
    ranks = {chunk_id: _merged(pieces, chunk_id) for chunk_id in chunk_ids}
    return Sweep(parameter, low, high, ranks)


def _pieces(problem: Problem, parameter: Parameter) -> Iterator[Step]:
    if parameter in {Parameter.K, Parameter.CANDIDATE_MULTIPLIER}:
        return _whole(problem, parameter)
    if parameter is Parameter.MIN_SCORE:
        return _minimums(problem)
    return _continuous(problem, parameter)


def _continuous(problem: Problem, parameter: Parameter) -> Iterator[Step]:
    axis = Axis(problem.columns, problem.base, parameter, problem.mode)
    low, high = axis.bounds
    for stretch in walk(axis, low, 1):
        part = _part(stretch.end, low, high, is_logarithmic=axis.parameter in LOGARITHMIC)
        if stretch.start == stretch.end or stretch.rows is None:
            yield part, None
            continue
        ends = range_value(axis, stretch.start), range_value(axis, stretch.end)
        yield part, (min(ends), max(ends), _ranks(problem, stretch.rows))


def _part(here: float, low: float, high: float, *, is_logarithmic: bool) -> float:
    """Which part of the way from the lowest to the highest value is done."""
    if high <= low:
        return 1.0
    if is_logarithmic:
        here, low, high = (math.log(number) for number in (here, low, high))
    return min(1.0, max(0.0, (here - low) / (high - low)))


def _minimums(problem: Problem) -> Iterator[Step]:
    ranking = problem.ranking
    state = state_before_cut(problem.columns, replace(ranking, min_score=None), Seed())
    for low, high in pairwise(float(edge) for edge in minimum_edges(state)):
        # A score passes the minimum that it equals: the upper end stands for what is between.
        changed = replace(state, ranking=replace(ranking, min_score=high))
        rows = listing(changed, certified=False).rows
        yield high, (low, high, _ranks(problem, rows))


def _whole(problem: Problem, parameter: Parameter) -> Iterator[Step]:
    low, high = (int(value) for value in RANGES[parameter])
    columns = problem.columns
    for value in range(low, high + 1):
        ranking = problem.changed(parameter, value)
        part = _part(value, low, high, is_logarithmic=False)
        if problem.needs_search(ranking):
            yield part, None
            continue
        if ranking.candidates != columns.ranking.candidates:
            columns = columns_of(problem.pool, ranking, problem.now)
        rows = listing(state_before_cut(columns, ranking, Seed()), certified=False).rows
        ids = (columns.rows[row].chunk.id for row in rows)
        ranks = {chunk_id: place for place, chunk_id in enumerate(ids, start=1)}
        yield part, (value, value, ranks)


def _ranks(problem: Problem, rows: Sequence[int]) -> dict[str, int]:
    known = problem.columns.rows
    return {known[row].chunk.id: place for place, row in enumerate(rows, start=1)}


def _merged(pieces: Sequence[Piece], chunk_id: str) -> tuple[Segment, ...]:
    segments: list[Segment] = []
    for low, high, ranks in pieces:
        place = ranks.get(chunk_id)
        if segments and segments[-1].rank == place:
            segments[-1] = replace(segments[-1], end=high)
        else:
            segments.append(Segment(low, high, place))
    return tuple(segments)

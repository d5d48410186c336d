"""The least changes that bring a chunk into a list, with new searches where the pool ends.

Changes of what the pool holds are solved by `memtui.ranking.counterfactual`; what takes more
candidates is searched for, and stands only where the search really shows the chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from memtui.model import CandidatePool, Leg, Ranked, Ranking
from memtui.model.terms import LegPlace
from memtui.ranking.counterfactual import (
    Change,
    ChangeKind,
    Counterfactuals,
    Needed,
    NoChange,
    NoChangeReason,
    Parameter,
    apply,
    least_changes,
    needed,
    outside_pool,
)
from memtui.ranking.counterfactual.change import RANGES, cost
from memtui.ranking.counterfactual.outside import DEPTH

MOST_CHUNKS = 20_000
"""In a larger index no k is looked for by searching again and again."""

Progress = Callable[[Parameter], None]


class Searching(Protocol):
    """What is asked of an engine."""

    def search(self, text: str, *, ranking: Ranking | None = None, typing: bool = False) -> Ranked:
        """Search and wait for the whole answer."""


@dataclass(frozen=True, slots=True)
class LeastChanges:
    """What would bring a chunk in; `needs` for one that is not in the pool and that a leg ranks."""

    found: Counterfactuals
    needs: Needed | None


@dataclass(frozen=True, slots=True)
class _Problem:
    engine: Searching
    ranked: Ranked
    ranking: Ranking
    chunk_id: str
    progress: Progress | None

    def solve(self, pool: CandidatePool, parameters: Iterable[Parameter]) -> Counterfactuals:
        return least_changes(
            pool,
            self.ranking,
            self.chunk_id,
            now=self.ranked.trace.now,
            mode=pool.search_mode,
            parameters=parameters,
            progress=self.progress,
        )


def find_changes(
    engine: Searching,
    ranked: Ranked,
    ranking: Ranking,
    chunk_id: str,
    places: Mapping[Leg, LegPlace],
    *,
    chunks: int,
    progress: Progress | None = None,
) -> LeastChanges:
    """Look for the least change of each parameter alone; what runs is the engine's own search.

    `ranking` is what `ranked` was asked with, `places` those of the chunk, `chunks` how many the
    index holds. A chunk in the list needs no change. Raises what a search raises.
    """
    problem = _Problem(engine, ranked, ranking, chunk_id, progress)
    needs = None
    if chunk_id in ranked.pool.chunks:
        found = problem.solve(ranked.pool, Parameter)
    else:
        needs = needed(ranking, [p.rank for p in places.values() if p.rank is not None])
        found = Counterfactuals(chunk_id, (), outside_pool(needs))
    open_ones = {
        one.parameter for one in found.without if one.reason is NoChangeReason.NEW_SEARCH
    } & set(DEPTH)
    if open_ones:
        solved = _deeper(problem, open_ones, needs, chunks)
        found = _together(found, solved)
    return LeastChanges(found, needs)


def _deeper(
    problem: _Problem, parameters: set[Parameter], needs: Needed | None, chunks: int
) -> list[Change | NoChange]:
    pool = problem.ranked.pool
    if not pool.sized:
        deep = _deep_pool(problem)
        if deep is None or problem.chunk_id not in deep.chunks:
            return []
        found = problem.solve(deep, parameters)
        return [*found.changes, *found.without]
    if Parameter.K not in parameters or chunks > MOST_CHUNKS:
        return []
    first = problem.ranking.k + 1 if needs is None or needs.k is None else needs.k
    return [_searched_k(problem, first)]


def _deep_pool(problem: _Problem) -> CandidatePool | None:
    """All the candidates that any k takes; `None` where the keyword leg then asks for more words.

    Legs that do not size their candidates by a rule of their own give the same ones, further down.
    """
    pool, ranking = problem.ranked.pool, problem.ranking
    most = max(ranking.min_candidates, ranking.max_candidates)
    deep = problem.engine.search(pool.query, ranking=replace(ranking, min_candidates=most)).pool
    same = [
        (state.status, state.facts.get("match"))
        for state in (*pool.states.values(), *deep.states.values())
    ]
    half = len(same) // 2
    return deep if same[:half] == same[half:] and deep.generation == pool.generation else None


def _searched_k(problem: _Problem, first: int) -> Change | NoChange:
    """The smallest k whose own search shows the chunk."""
    ranking = problem.ranking
    _, highest = RANGES[Parameter.K]
    if problem.progress is not None:
        problem.progress(Parameter.K)
    for k in range(first, int(highest) + 1):
        answer = problem.engine.search(
            problem.ranked.pool.query, ranking=apply(ranking, Parameter.K, k)
        )
        place = next((h.rank for h in answer.hits if h.chunk.id == problem.chunk_id), None)
        if place is not None:
            price = cost(ranking, Parameter.K, k)
            return Change(Parameter.K, ranking.k, k, price, True, place, ChangeKind.RAISE)
        if len(answer.hits) < k and answer.ranking.candidates >= ranking.max_candidates:
            break
    return NoChange(Parameter.K, NoChangeReason.NO_VALUE)


def _together(found: Counterfactuals, solved: list[Change | NoChange]) -> Counterfactuals:
    """What was found, with the parameters solved since in their place."""
    known = {one.parameter for one in solved}
    changes = [*found.changes, *(one for one in solved if isinstance(one, Change))]
    order = list(Parameter)
    changes.sort(key=lambda one: (one.cost, order.index(one.parameter)))
    without = [one for one in found.without if one.parameter not in known]
    without += [one for one in solved if isinstance(one, NoChange)]
    without.sort(key=lambda one: order.index(one.parameter))
    return Counterfactuals(found.chunk_id, tuple(changes), tuple(without))

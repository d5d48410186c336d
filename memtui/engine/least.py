"""The least changes that bring a chunk into a list, with new searches where the pool ends.

Changes of what the pool holds are solved by `memtui.ranking.counterfactual`; what takes more
candidates is searched for, and stands only where the search really shows the chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from memtui.model import CandidatePool, Leg, Ranked, Ranking
from memtui.model.inquiry import LegPlace
from memtui.ranking.counterfactual import (
    Change,
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
from memtui.ranking.counterfactual.change import DEPTH, RANGES, cost, kind_of, value_of

MOST_CHUNKS = 20_000
"""In a larger index no value is looked for by searching again and again."""

Progress = Callable[[Parameter], None]
Ask = Callable[..., Ranked]
"""`Search.ask`: takes a text, and `ranking` and `typing` by name."""


@dataclass(frozen=True, slots=True)
class LeastChanges:
    """What would bring a chunk in; `needs` for one that is not in the pool and that a leg ranks."""

    found: Counterfactuals
    needs: Needed | None


@dataclass(frozen=True, slots=True)
class _Problem:
    ask: Ask
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

    def search(self, parameter: Parameter, value: int) -> Ranked:
        """Search with one parameter changed."""
        if self.progress is not None:
            self.progress(parameter)
        changed = apply(self.ranking, parameter, value)
        return self.searched(changed)

    def searched(self, ranking: Ranking) -> Ranked:
        """Search as the list was asked: while a query is typed its last word is a prefix."""
        pool = self.ranked.pool
        return self.ask(pool.query, ranking=ranking, typing=pool.typing)

    def place_in(self, answer: Ranked) -> int | None:
        """The rank of the chunk in an answer."""
        return next((hit.rank for hit in answer.hits if hit.chunk.id == self.chunk_id), None)

    def change(self, parameter: Parameter, new: int, place: int) -> Change:
        """A change that a search has confirmed."""
        old = value_of(self.ranking, parameter)
        price = cost(self.ranking, parameter, new)
        return Change(parameter, old, new, price, True, place, kind_of(old, new))


def find_changes(
    ask: Ask,
    ranked: Ranked,
    ranking: Ranking,
    chunk_id: str,
    places: Mapping[Leg, LegPlace],
    *,
    chunks: int,
    progress: Progress | None = None,
) -> LeastChanges:
    """Look for the least change of each parameter alone; what runs is `ask`.

    `ranking` is what `ranked` was asked with, `places` those of the chunk, `chunks` how many the
    index holds: up to 20,000 an index is searched again, at most once for each number of
    candidates. `progress` is told of every parameter and before every search, and may raise to
    stop it. A chunk in the list needs no change. Raises what a search raises.
    """
    problem = _Problem(ask, ranked, ranking, chunk_id, progress)
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
    if not problem.ranked.pool.sized:
        deep = _deep_pool(problem)
        if deep is not None and problem.chunk_id in deep.chunks:
            found = problem.solve(deep, parameters)
            return [*found.changes, *found.without]
    if chunks > MOST_CHUNKS:
        return []
    search = {Parameter.K: _searched_k, Parameter.CANDIDATE_MULTIPLIER: _searched_multiplier}
    return [search[parameter](problem, needs) for parameter in DEPTH if parameter in parameters]


def _deep_pool(problem: _Problem) -> CandidatePool | None:
    """All the candidates that any k takes; `None` where the keyword leg then asks for more words.

    Legs that do not size their candidates by a rule of their own give the same ones, further down.
    """
    pool, ranking = problem.ranked.pool, problem.ranking
    most = max(ranking.min_candidates, ranking.max_candidates)
    deep = problem.searched(replace(ranking, min_candidates=most)).pool
    same = [
        (state.status, state.facts.get("match"))
        for state in (*pool.states.values(), *deep.states.values())
    ]
    half = len(same) // 2
    return deep if same[:half] == same[half:] and deep.generation == pool.generation else None


def _searched_k(problem: _Problem, needs: Needed | None) -> Change | NoChange:
    """The smallest k whose own search shows the chunk."""
    ranking = problem.ranking
    first = ranking.k + 1 if needs is None or needs.k is None else needs.k
    _, highest = RANGES[Parameter.K]
    for k in range(first, int(highest) + 1):
        answer = problem.search(Parameter.K, k)
        place = problem.place_in(answer)
        if place is not None:
            return problem.change(Parameter.K, k, place)
        if apply(ranking, Parameter.K, k).candidates >= ranking.max_candidates:
            return _wider_list(problem, answer.pool, k)
    return NoChange(Parameter.K, NoChangeReason.NO_VALUE)


def _wider_list(problem: _Problem, pool: CandidatePool, shown: int) -> Change | NoChange:
    """The smallest k above `shown` where a larger one takes no more candidates than the pool."""
    none = NoChange(Parameter.K, NoChangeReason.NO_VALUE)
    if problem.chunk_id not in pool.chunks:
        return none
    found = least_changes(
        pool,
        apply(problem.ranking, Parameter.K, shown),
        problem.chunk_id,
        now=problem.ranked.trace.now,
        mode=pool.search_mode,
        parameters=(Parameter.K,),
    ).cheapest
    if found is None or not isinstance(found.new, int):
        return none
    return problem.change(Parameter.K, found.new, found.rank_after)


def _searched_multiplier(problem: _Problem, needs: Needed | None) -> Change | NoChange:
    """The nearest candidate multiplier whose own search shows the chunk.

    Of two that are equally near the larger, of several that take as many candidates the nearest.
    A chunk that no leg brought into the pool needs more candidates, not fewer.
    """
    ranking = problem.ranking
    now = ranking.candidate_multiplier
    low, high = (int(value) for value in RANGES[Parameter.CANDIDATE_MULTIPLIER])
    if needs is not None and needs.candidate_multiplier is not None:
        low = needs.candidate_multiplier
    tried = {ranking.candidates}
    for value in sorted(range(low, high + 1), key=lambda value: (abs(value - now), -value)):
        candidates = apply(ranking, Parameter.CANDIDATE_MULTIPLIER, value).candidates
        if candidates in tried:
            continue
        tried.add(candidates)
        place = problem.place_in(problem.search(Parameter.CANDIDATE_MULTIPLIER, value))
        if place is not None:
            return problem.change(Parameter.CANDIDATE_MULTIPLIER, value, place)
    return NoChange(Parameter.CANDIDATE_MULTIPLIER, NoChangeReason.NO_VALUE)


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

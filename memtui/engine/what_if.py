"""The least changes that bring a chunk into a list, with new searches where the pool ends.

Changes of what the pool holds are solved by `memtui.ranking.counterfactual`; what takes more
candidates is searched for, and stands only where the search really shows the chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, islice

from memtui.model import CandidatePool, Chunk, Leg, LegStatus, Ranked, Ranking, Reason
from memtui.model.inquiry import KeywordExplanation, LegPlace, WordChange, WordChanges
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
from memtui.retrieval.query import word_pieces
from memtui.text.tokens import query_terms

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


MOST_SEARCHES = 40
_MOST_REMOVED = 12
_PAIRED = 5
"""Of so many of the rarest words pairs are tried, of one less three at once."""
_DEGRADED = frozenset({LegStatus.FAILED, LegStatus.PENDING})


@dataclass(frozen=True, slots=True)
class _Changed:
    query: str
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


@dataclass(slots=True)
class _Trial:
    ask: Callable[..., Ranked]
    ranked: Ranked
    ranking: Ranking
    chunk_id: str
    progress: Callable[[str], None] | None
    tried: int = 0
    found: list[WordChange] = field(default_factory=list)
    degraded: Reason = Reason.OK

    def run(self, changes: Iterable[_Changed]) -> bool:
        """Search each changed query, as long as there are searches left; whether one does it."""
        before = len(self.found)
        for change in islice(changes, MOST_SEARCHES - self.tried):
            if self.progress is not None:
                self.progress(change.query)
            self.tried += 1
            typing = self.ranked.pool.typing
            answer = self.ask(change.query, ranking=self.ranking, typing=typing)
            reason = _degraded(self.ranked, answer)
            if reason is not Reason.OK:
                self.degraded = reason
                continue
            rank = next((h.rank for h in answer.hits if h.chunk.id == self.chunk_id), None)
            if rank is not None:
                self.found.append(WordChange(change.query, change.added, change.removed, rank))
        return len(self.found) > before

    def answer(self) -> WordChanges:
        """What was found: the fewest words first, then the best rank."""
        changes = sorted(
            self.found, key=lambda one: (len(one.added) + len(one.removed), one.rank_after)
        )
        return WordChanges(tuple(changes), self.tried, Reason.OK if changes else self.degraded)


def word_changes(
    ask: Callable[..., Ranked],
    words_to_try: Callable[[Ranked, str], WordsToTry],
    ranked: Ranked,
    ranking: Ranking,
    chunk: Chunk,
    terms: KeywordExplanation | None,
    *,
    progress: Callable[[str], None] | None = None,
) -> WordChanges:
    """Try to take each word out of a query, and to add each of the chunk's most distinctive words.

    `ranking` is what `ranked` was asked with, `terms` what the keyword leg makes of the chunk.
    Required words that the chunk lacks are also taken out together; two and three words are added
    together where nothing else does it. At most 40 searches; `progress` is called before each of
    them with its query and may raise to stop. Nothing is tried for a chunk in the list, nor where
    `words_to_try` says that changed queries cannot be searched as the query was. Raises what a
    search raises.
    """
    if any(hit.chunk.id == chunk.id for hit in ranked.hits):
        return WordChanges((), 0)
    offer = words_to_try(ranked, chunk.id)
    if offer.reason is not Reason.OK:
        return WordChanges((), 0, offer.reason)
    query = ranked.pool.query
    missing = terms.missing if terms is not None and terms.sent else ()
    trial = _Trial(ask, ranked, ranking, chunk.id, progress)
    shorter = list(_shorter(query, missing, syntax=not ranked.pool.sized))
    singles = (_longer(query, (word,)) for word in offer.words[:MOST_WORDS])
    found = trial.run(shorter)
    found = trial.run(singles) or found
    for count in (2, 3):
        if not found:
            rarest = offer.words[: _PAIRED + 2 - count]
            found = trial.run(_longer(query, words) for words in combinations(rarest, count))
    return trial.answer()


def _longer(query: str, words: tuple[str, ...]) -> _Changed:
    return _Changed(" ".join([query.rstrip(), *words]).lstrip(), added=words)


def _shorter(query: str, missing: Sequence[str], *, syntax: bool) -> Iterator[_Changed]:
    """The query without each of its words, those first that the chunk lacks and should not."""
    spans = list(_words(query, syntax=syntax))
    lacked = {word.lower() for word in missing}
    spans.sort(key=lambda span: span.word.lower() not in lacked)
    for span in spans[:_MOST_REMOVED]:
        shorter = _without(query, [span])
        if shorter:
            yield _Changed(shorter, removed=(span.word,))
    together = [span for span in spans if span.word.lower() in lacked]
    if len(together) > 1:
        shorter = _without(query, together)
        if shorter:
            yield _Changed(shorter, removed=tuple(dict.fromkeys(s.word for s in together)))


@dataclass(frozen=True, slots=True)
class _Word:
    """A word of a query, and where it stands: every time that it occurs."""

    word: str
    spans: tuple[tuple[int, int], ...]


def _words(query: str, *, syntax: bool) -> Iterator[_Word]:
    """The words and quoted phrases of a query; pairs of characters in a script without spaces."""
    found: dict[str, list[tuple[int, int]]] = {}
    for start, end in word_pieces(query, syntax=syntax):
        piece = query[start:end]
        grams = [term.text for term in query_terms(piece).terms if term.kind == "gram"]
        parts = [(gram, piece.find(gram)) for gram in grams if len(gram) < len(piece)]
        for gram, place in parts:
            if place >= 0:
                found.setdefault(gram, []).append((start + place, start + place + len(gram)))
        if not parts:
            found.setdefault(piece.strip('"'), []).append((start, end))
    for word, spans in found.items():
        yield _Word(word, tuple(spans))


def _without(query: str, words: Sequence[_Word]) -> str:
    gone = {place for word in words for start, end in word.spans for place in range(start, end)}
    kept = "".join(char for place, char in enumerate(query) if place not in gone)
    return " ".join(kept.split())


def _degraded(before: Ranked, after: Ranked) -> Reason:
    """Why a search is not one like that of the query: a leg that answered then does not now."""
    for leg, state in before.pool.states.items():
        now = after.pool.states.get(leg)
        if state.status is LegStatus.OK and now is not None and now.status in _DEGRADED:
            return now.reason if now.reason is not Reason.OK else Reason.INDEX_FAILED
    return Reason.OK


MOST_WORDS = 12


@dataclass(frozen=True, slots=True)
class WordsToTry:
    """What an engine says before words of a query are tried."""

    words: tuple[str, ...]
    """The chunk's most distinctive words that the query lacks, the rarest first."""
    reason: Reason = Reason.OK
    """Why no changed query can be searched as the query itself was: each would ask a service
    (`PENDING`), or its vector is not to be had (`NOT_REPRODUCIBLE`)."""

"""The least changes that bring a chunk into a list, with new searches where the pool ends.

Changes of what the pool holds are solved by `memtui.ranking.counterfactual`; what takes more
candidates is searched for, and stands only where the search really shows the chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations, islice

from msgspec.structs import replace

from memtui.engine.ports import Index, Reading, refused
from memtui.engine.search import Search
from memtui.model import CandidatePool, Chunk, Drop, Leg, LegStatus, Ranked, Ranking, Reason, Stage
from memtui.model.inquiry import KeywordExplanation, LegPlace, WordChange, WordChanges
from memtui.ranking.counterfactual import change
from memtui.ranking.counterfactual.solve import least_changes, nearest_first
from memtui.ranking.trace import find_in
from memtui.retrieval.leg_detail import rare_words
from memtui.retrieval.query import without_filters, word_pieces
from memtui.text.tokens import query_terms

MOST_CHUNKS = 20_000
"""In a larger index no value is looked for by searching again and again."""
MOST_SEARCHES = 40
MOST_WORDS = 12
_MOST_REMOVED = 12
_PAIRED = 5
"""Of so many of the rarest words pairs are tried, of one less three at once."""
_DEGRADED = frozenset({LegStatus.FAILED, LegStatus.PENDING})


class WhatIf:
    """Finds what would bring a chunk into a list: another parameter, or other words.

    `progress` is told of what is tried next, and may raise to stop it. Raises what a search raises.
    A chunk in the list needs no change.
    """

    def __init__(self, index: Index, search: Search) -> None:
        self._index = index
        self._search = search

    def least_changes(
        self,
        ranked: Ranked,
        ranking: Ranking,
        chunk_id: str,
        places: Mapping[Leg, LegPlace],
        *,
        progress: Callable[[change.Parameter], None] = lambda parameter: None,
    ) -> change.Counterfactuals:
        """Look for the least change of each parameter alone.

        `ranking` is what `ranked` was asked with, `places` those of the chunk. An index of up to
        20,000 chunks is searched again, at most once for each number of candidates.
        """
        pool = ranked.pool

        def ask(ranking: Ranking) -> Ranked:
            """Search as the list was asked: while a query is typed its last word is a prefix."""
            return self._search.ask(pool.query, ranking=ranking, typing=pool.typing)

        now = ranked.trace.now
        solve = partial(least_changes, chunk_id=chunk_id, now=now, progress=progress)
        needs, deeper = None, change.Counterfactuals()
        if chunk_id in pool.chunks:
            solved = solve(pool, ranking)
        else:
            needs = change.needed(ranking, [p.rank for p in places.values() if p.rank is not None])
            solved = change.Counterfactuals((), change.outside_pool(needs))
        reasons = {one.parameter: one.reason for one in solved.without}
        deep = [one for one in change.DEPTH if reasons.get(one) is change.NoChangeReason.NEW_SEARCH]
        wider = pool
        if deep and not pool.sized:
            # Legs that do not size their candidates by a rule of their own give the same ones,
            # further down: all that any k takes, unless the keyword leg asks other words.
            most = max(ranking.min_candidates, ranking.max_candidates)
            every = ask(replace(ranking, min_candidates=most)).pool
            wider = every if _describe_request(every) == _describe_request(pool) else pool
        if wider is not pool and chunk_id in wider.chunks:
            deeper = solve(wider, ranking, parameters=deep)
        elif deep and self._index.status().chunks <= MOST_CHUNKS:
            tried = {
                one: _nearest(one, ranking, chunk_id, needs, ask, solve, progress) for one in deep
            }
            none = (
                change.NoChange(one, change.NoChangeReason.NO_VALUE)
                for one in deep
                if tried[one] is None
            )
            deeper = change.Counterfactuals(tuple(filter(None, tried.values())), tuple(none))
        # What was solved by searching stands in the place of what needed a search.
        again = {one.parameter for one in deeper.changes}
        again |= {one.parameter for one in deeper.without}
        changes = [*solved.changes, *deeper.changes]
        without = [one for one in solved.without if one.parameter not in again]
        without += deeper.without
        order = list(change.Parameter)
        changes.sort(key=lambda one: (one.cost, order.index(one.parameter)))
        without.sort(key=lambda one: order.index(one.parameter))
        return change.Counterfactuals(tuple(changes), tuple(without), needs)

    def word_changes(
        self,
        ranked: Ranked,
        ranking: Ranking,
        chunk: Chunk,
        terms: KeywordExplanation | None,
        filters: Sequence[str] = (),
        *,
        progress: Callable[[str], None] = lambda query: None,
    ) -> WordChanges:
        """Try to take each word out of a query, and to add the chunk's most distinctive words.

        `ranking` is what `ranked` was asked with, `terms` what the keyword leg makes of the chunk.
        The `filters` that leave it out go first, all of them, then words where it is a near miss.
        Required words that the chunk lacks are also taken out together; two and three words are
        added together where nothing else does it. At most 40 searches. Nothing is tried where
        changed queries cannot be searched as the query was: each would ask a service (`PENDING`),
        or its vector is not to be had (`NOT_REPRODUCIBLE`).
        """
        reason = self._index.other_queries(ranked.pool)
        if reason is not Reason.OK:
            return WordChanges((), 0, reason)
        query, removed_filters = without_filters(ranked.pool.query, filters)
        searched, typing = self._index.query_text(query), ranked.pool.typing

        def distinctive(reading: Reading) -> tuple[str, ...]:
            if (fts := reading.words) is None:
                return ()
            table = fts.connection, fts.table, fts.tokenizer
            return rare_words(*table, chunk.text, searched, MOST_WORDS)

        words = self._index.read(distinctive) or ()
        missing = terms.missing if terms is not None and terms.sent else ()
        tried, degraded = 0, Reason.OK
        changes: list[WordChange] = []

        def search(queries: Iterable[tuple[str, tuple[str, ...], tuple[str, ...]]]) -> None:
            """Search changed queries, each with the words added and removed, while any are left."""
            nonlocal tried, degraded
            for changed, added, removed in islice(queries, MOST_SEARCHES - tried):
                progress(changed)
                tried += 1
                answer = self._search.ask(changed, ranking=ranking, typing=typing)
                # A search is none like that of the query where a leg that answered then does not.
                lost = [
                    refused(answer.pool, leg)
                    for leg, state in answer.pool.states.items()
                    if state.status in _DEGRADED and refused(ranked.pool, leg) is None
                ]
                rank = answer.ranks.get(chunk.id)
                missed = find_in(answer, chunk.id) if changed == query else None
                if isinstance(missed, Drop) and missed.stage is Stage.CUT:
                    rank = missed.stages[-1].rank
                if lost:
                    degraded = lost[0] or degraded
                elif rank is not None:
                    changes.append(WordChange(changed, added, removed, rank, removed_filters))

        def longer(words: tuple[str, ...]) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
            return " ".join([query.rstrip(), *words]).lstrip(), words, ()

        search([(query, (), ())] if filters and query else [])
        if not changes or changes[0].rank_after > ranking.k:
            search(_shorter(query, missing, syntax=not ranked.pool.sized))
            search(longer((word,)) for word in words)
        for count in (2, 3):
            if not changes:
                search(map(longer, combinations(words[: _PAIRED + 2 - count], count)))
        # The fewest words first, then the best rank.
        changes.sort(key=lambda one: (len(one.added) + len(one.removed), one.rank_after))
        return WordChanges(tuple(changes), tried, Reason.OK if changes else degraded)


def _describe_request(pool: CandidatePool) -> tuple[object, ...]:
    return pool.generation, *((one.status, one.facts.get("match")) for one in pool.states.values())


def _nearest(
    parameter: change.Parameter,
    ranking: Ranking,
    chunk_id: str,
    needs: change.Needed | None,
    ask: Callable[[Ranking], Ranked],
    solve: Callable[..., change.Counterfactuals],
    progress: Callable[[change.Parameter], None],
) -> change.Change | None:
    """Find the value nearest to the present one whose own search shows the chunk.

    Of k the smallest that is larger. Of two multipliers that are equally near the larger, of
    several that take as many candidates the nearest. A chunk that no leg brought into the pool
    needs more candidates, not fewer.
    """
    is_k = parameter is change.Parameter.K
    low, high = (int(value) for value in change.RANGES[parameter])
    now, least = getattr(ranking, parameter), getattr(needs, parameter, None)
    low = now + 1 if is_k else low
    tried = set[int]() if is_k else {ranking.candidates}
    for value in nearest_first(range(low if least is None else least, high + 1), now):
        changed = change.apply(ranking, parameter, value)
        if not is_k and changed.candidates in tried:
            continue
        tried.add(changed.candidates)
        progress(parameter)
        answer = ask(changed)
        new, place = value, answer.ranks.get(chunk_id)
        if place is None and is_k and changed.candidates >= ranking.max_candidates:
            # A larger k takes no more candidates than these.
            if chunk_id not in answer.pool.chunks:
                return None
            wider = solve(answer.pool, changed, parameters=(parameter,)).cheapest
            if wider is None or not isinstance(wider.new, int):
                return None
            new, place = wider.new, wider.rank_after
        if place is not None:
            return change.change_to(ranking, parameter, new, place)
    return None


def _shorter(
    query: str, missing: Sequence[str], *, syntax: bool
) -> Iterator[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    """Yield the query without each of its words, and those; first those that the chunk lacks.

    A word is a quoted phrase, or a pair of letters in a script without spaces; all places where it
    stands go at once.
    """
    places: dict[str, list[tuple[int, int]]] = {}
    for start, end in word_pieces(query, syntax=syntax):
        piece = query[start:end]
        grams = [term.text for term in query_terms(piece).terms if term.kind == "gram"]
        parts = [(gram, piece.find(gram)) for gram in grams if len(gram) < len(piece)]
        for gram, place in parts:
            if place >= 0:
                places.setdefault(gram, []).append((start + place, start + place + len(gram)))
        if not parts:
            places.setdefault(piece.strip('"'), []).append((start, end))
    lacked = {word.lower() for word in missing}
    words = sorted(places, key=lambda word: word.lower() not in lacked)
    together = [word for word in words if word.lower() in lacked]
    groups = [[word] for word in words[:_MOST_REMOVED]]
    for group in [*groups, together] if len(together) > 1 else groups:
        spans = [span for word in group for span in places[word]]
        gone = {at for start, end in spans for at in range(start, end)}
        rest = "".join(char for at, char in enumerate(query) if at not in gone)
        if rest.strip():
            yield " ".join(rest.split()), (), tuple(group)

"""What the queries of the history bring up now; asked when the engine thread has time."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as StillRunning
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Final, Protocol

from memtui.engine.mailbox import SearchRequest
from memtui.errors import Cancelled, IndexMissing
from memtui.model import CandidatePool, LegStatus, Ranked, Ranking
from memtui.model.browsing import AnsweredQuery

if TYPE_CHECKING:
    from memtui.engine.searching import Partial, SearchLoop

MOST_REMEMBERED: Final = 20_000
"""Answers that are kept; of each the ids, paths and scores of its top k, about 1 kB."""
_LOOK_SECONDS: Final = 0.05
_FAILED: Final = frozenset({LegStatus.FAILED, LegStatus.PENDING})


class Asker(Protocol):
    """The half of an engine that finds and ranks."""

    now: Callable[[], datetime]

    def retrieve(
        self, request: SearchRequest, cancelled: Callable[[], bool], partial: Partial
    ) -> CandidatePool:
        """Ask both legs, on the engine thread."""

    def rank(self, pool: CandidatePool, ranking: Ranking) -> Ranked:
        """Rank a pool."""


@dataclass(frozen=True, slots=True)
class Top:
    """One of the first k results of a query."""

    chunk_id: str
    path: str
    score: float


Key = tuple[Hashable, date, str, str]


class QueryAsker:
    """Asks queries one at a time behind every search, and remembers what they brought up.

    An answer holds until the index, the ranking or the day (for decay) is another one. Any
    thread; a leg that failed or is not ready makes an answer that is not remembered.
    """

    def __init__(self, engine: Asker, loop: SearchLoop, stamp: Callable[[], Hashable]) -> None:
        self._engine = engine
        self._loop = loop
        self._stamp = stamp
        self._lock = threading.Lock()
        self._known: dict[Key, tuple[Top, ...]] = {}

    def tops(
        self,
        queries: Sequence[str],
        ranking: Ranking,
        *,
        cancelled: Callable[[], bool],
        progressed: Callable[[int, int], None],
    ) -> Mapping[str, tuple[Top, ...]]:
        """The first k results of each query; raises `Cancelled`, and what a search raises.

        Empty without an index.
        """
        stamp = self._stamp()
        wanted = [query for query in dict.fromkeys(queries) if query.strip()]
        if stamp is None:
            return {}
        found: dict[str, tuple[Top, ...]] = {}
        for done, query in enumerate(wanted):
            if cancelled():
                raise Cancelled
            progressed(done, len(wanted))
            found[query] = self._top(query, ranking, stamp, cancelled)
        progressed(len(wanted), len(wanted))
        return found

    def _top(
        self, query: str, ranking: Ranking, stamp: Hashable, cancelled: Callable[[], bool]
    ) -> tuple[Top, ...]:
        key = (stamp, self._engine.now().date(), repr(ranking), query)
        with self._lock:
            known = self._known.get(key)
        if known is not None:
            return known
        request = SearchRequest(0, query, ranking, False)

        def ask(gives_way: Callable[[], bool]) -> Ranked:
            def stops() -> bool:
                return gives_way() or cancelled()

            try:
                pool = self._engine.retrieve(request, stops, lambda part: None)
            except Exception as error:
                if stops():
                    # What was interrupted may fail in any way.
                    raise Cancelled from error
                raise
            return self._engine.rank(pool, ranking)

        ranked = self._answer(self._loop.call_later(ask), cancelled)
        top = tuple(Top(hit.chunk.id, hit.chunk.path, hit.score) for hit in ranked.hits)
        if not any(state.status in _FAILED for state in ranked.pool.states.values()):
            self._remember(key, top)
        return top

    @staticmethod
    def _answer(future: Future[Ranked], cancelled: Callable[[], bool]) -> Ranked:
        while True:
            try:
                return future.result(timeout=_LOOK_SECONDS)
            except StillRunning:
                if cancelled():
                    future.cancel()
                    raise Cancelled from None
            except CancelledError:
                raise IndexMissing("the index is closed") from None

    def _remember(self, key: Key, top: tuple[Top, ...]) -> None:
        with self._lock:
            if any(known[0] != key[0] for known in self._known):
                # Of an index that is no more.
                self._known.clear()
            while len(self._known) >= MOST_REMEMBERED:
                self._known.pop(next(iter(self._known)))
            self._known[key] = top


def answered(tops: Mapping[str, Sequence[Top]], chunk_id: str) -> list[AnsweredQuery]:
    """The queries that have a chunk among their first results, best rank first."""
    found = [
        AnsweredQuery(query, rank, hit.score)
        for query, hits in tops.items()
        for rank, hit in enumerate(hits, start=1)
        if hit.chunk_id == chunk_id
    ]
    return sorted(found, key=lambda one: (one.rank, -one.score, one.query))


def counted(tops: Mapping[str, Sequence[Top]]) -> dict[str, int]:
    """How often chunks of each file are among the first results."""
    return dict(Counter(hit.path for hits in tops.values() for hit in hits))

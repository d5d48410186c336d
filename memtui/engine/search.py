"""Searching: one thread that owns the index, the latest search wins, answers go on the bus."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from datetime import date, datetime
from functools import partial
from time import perf_counter
from typing import Any, Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from memtui.bus import Bus, SearchFailed, SearchReady
from memtui.engine.ports import Index, Progressed, SearchRequest
from memtui.errors import Cancelled, IndexMissing, IsCancelled, MemtuiError, never, stop_if
from memtui.model import CandidatePool, Leg, LegState, LegStatus, Ranked, Ranking, Reason
from memtui.ranking.pipeline import for_mode, rank
from memtui.retrieval.query import parse_query

T = TypeVar("T")

Work = Callable[[IsCancelled], T]
"""Something to do on the engine thread; what it is given turns true when it is to stop."""


class EngineThread(threading.Thread):
    """Runs searches and calls, in order, on a daemon thread that owns the read connection.

    It starts with the first of them. `interrupt()` is called to stop a running statement, from the
    thread that submits a search or closes this one; it must not block.
    """

    def __init__(self) -> None:
        super().__init__(name="memtui-engine", daemon=True)
        self.interrupt: Callable[[], None] = lambda: None
        self._condition = threading.Condition()
        self._newest = 0
        self._calls: deque[tuple[Work[Any], Future[Any]]] = deque()
        # Of searches only the newest waits.
        self._searches: deque[tuple[Work[Any], Future[Any]]] = deque(maxlen=1)
        self._later: deque[tuple[Work[Any], Future[Any]]] = deque()
        self._queues = (self._calls, self._searches, self._later)
        """In the order in which they are served."""
        self._running: deque[tuple[Work[Any], Future[Any]]] | None = None
        """The queue of what runs."""
        self._halt = False

    def submit(self, search: Callable[[int, IsCancelled], None]) -> int:
        """Have `search(number, cancelled)` run, and return its number.

        An older one is dropped or stopped: its `cancelled()` turns true.
        """
        with self._condition:
            number = self._newest = self._newest + 1
            # Before the interruption, so that what is interrupted sees that it gives way.
            self.go_on(search, number)
            # Inside the lock: a moment later the statement could be that of a call.
            if self._running is not None and self._running is not self._calls:
                self.interrupt()
            return number

    def go_on(self, search: Callable[[int, IsCancelled], None], number: int) -> None:
        """Have a search of that number run behind the calls, unless there is a newer one."""
        with self._condition:
            if number == self._newest:
                self._enter(
                    self._searches,
                    lambda _: search(number, lambda: self._halt or number != self._newest),
                )

    def call(self, function: Callable[[], T]) -> T:
        """Run a function on the thread and wait for it; it is never superseded.

        Raises `IndexMissing` once the thread is closed.
        """
        if threading.current_thread() is self:
            return function()
        try:
            return self._enter(self._calls, lambda gives_way: function()).result()
        except (Cancelled, CancelledError):
            raise IndexMissing("the index is closed") from None

    def call_later(self, function: Work[T]) -> Future[T]:
        """Run a function when nothing else waits; a search that is submitted goes before it.

        `function(gives_way)` may raise anything once `gives_way()` is true: then it is run again,
        from its beginning, when there is time. Cancelling the future takes it out.
        """
        return self._enter(self._later, function)

    def wait_idle(self, timeout: float) -> bool:
        """Wait until nothing runs and nothing waits; false after `timeout` seconds."""
        with self._condition:
            return self._condition.wait_for(
                lambda: self._running is None and not any(self._queues), timeout
            )

    def close(self, timeout: float = 2.0) -> None:
        """Stop: waiting calls are cancelled, a running statement is interrupted."""
        with self._condition:
            self._halt = True
            for queue in self._queues:
                for _, future in queue:
                    if not future.cancel():
                        # It gave way to a search: such a future cannot be cancelled any more.
                        future.set_exception(Cancelled())
                queue.clear()
            if self._running is not None:
                self.interrupt()
            self._condition.notify_all()
        if self.is_alive() and threading.current_thread() is not self:
            self.join(timeout)

    def run(self) -> None:
        """Serve calls before searches, and both before what has time, until closed."""
        while True:
            with self._condition:
                self._running = None
                self._condition.notify_all()
                self._condition.wait_for(lambda: self._halt or any(self._queues))
                if self._halt:
                    return
                queue = self._running = next(filter(None, self._queues))
                function, future = queue.popleft()
            if not (future.running() or future.set_running_or_notify_cancel()):
                continue
            try:
                future.set_result(function(lambda: bool(self._searches) or self._halt))
            except BaseException as error:
                with self._condition:
                    # What was interrupted may fail in any way.
                    if queue is self._later and self._searches and not self._halt:
                        queue.appendleft((function, future))
                        continue
                    is_closed = queue is self._later and self._halt
                if queue is self._searches:
                    # Nobody waits for the future of a search.
                    details = (type(error), error, error.__traceback__, self)
                    threading.excepthook(threading.ExceptHookArgs(details))
                future.set_exception(Cancelled() if is_closed else error)

    def _enter(self, queue: deque[tuple[Work[Any], Future[Any]]], function: Work[T]) -> Future[T]:
        future: Future[T] = Future()
        with self._condition:
            if self._halt:
                future.cancel()
                return future
            queue.append((function, future))
            if self.ident is None:
                self.start()
            self._condition.notify_all()
        return future


class Top(Struct, frozen=True):
    """One of the first k results of a query."""

    chunk_id: str
    path: str
    score: float


Tops = Mapping[str, Sequence[Top]]
"""The first k results of each query."""
MOST_REMEMBERED: Final = 20_000
"""Answers that are kept; of each the ids, paths and scores of its top k, about 1 kB."""


class Search:
    """Searches a memory, and ranks again what was found."""

    def __init__(
        self, index: Index, thread: EngineThread, bus: Bus, now: Callable[[], datetime]
    ) -> None:
        self._index = index
        self._thread = thread
        self._bus = bus
        self._now = now
        self._answers: dict[tuple[Hashable, date, str, str], tuple[Top, ...]] = {}
        """The first results by the index, the day, the ranking, and the query."""
        thread.interrupt = index.legs.interrupt

    def ask(self, text: str, *, ranking: Ranking | None = None, typing: bool = False) -> Ranked:
        """Search and wait for the whole answer.

        Raises `IndexMissing` before the first index, `IndexUnusable` when it cannot be read.
        """
        request = SearchRequest(text, ranking or self._index.ranking, typing)
        return self.rerank(self.pool_of(request), request.ranking)

    def pool_of(self, request: SearchRequest) -> CandidatePool:
        """Ask both legs and wait for their candidates; raises what `ask` raises."""
        legs = self._index.legs
        while True:
            # One call after the other: while word pieces are made, others have their turn.
            pool = self._thread.call(lambda: legs.retrieve(request, never, None))
            if not pool.pieces_due:
                return pool

    def submit(self, text: str, *, ranking: Ranking | None = None, typing: bool = True) -> int:
        """Ask for a search and return its sequence number; the latest wins.

        `SearchReady` events follow, perhaps one with the quicker leg alone first or one without
        word pieces, or one `SearchFailed`; nothing follows a search that a newer one superseded.
        """
        request = SearchRequest(text, ranking or self._index.ranking, typing)
        return self._thread.submit(partial(self._search, request, True))

    def _ask_later(self, request: SearchRequest, cancelled: IsCancelled) -> Ranked:
        """Search when nobody else searches; begins anew after every search that goes before it."""

        def ask(gives_way: IsCancelled) -> CandidatePool:
            return self._index.legs.retrieve(request, lambda: gives_way() or cancelled(), None)

        while (pool := self._thread.call_later(ask).result()).pieces_due:
            stop_if(cancelled)
        return self.rerank(pool, request.ranking)

    def rerank(self, pool: CandidatePool, ranking: Ranking) -> Ranked:
        """Rank a pool at this moment; no I/O, quick enough for the thread that draws."""
        started = perf_counter()
        ranked = rank(pool, for_mode(ranking, pool.search_mode), now=self._now())
        return replace(ranked, elapsed_ms=(perf_counter() - started) * 1000)

    def tops(
        self,
        queries: Sequence[str],
        *,
        ranking: Ranking | None = None,
        cancelled: IsCancelled = never,
        progressed: Progressed = lambda done, total: None,
    ) -> Tops:
        """Return the first k results of each query, asked one at a time behind every search.

        Not of filters alone: they list. Empty without an index. An answer is remembered until the
        index, the ranking or the day (for decay) is another one, unless a leg failed or was not
        ready. Any thread. Raises `Cancelled`, and what a search raises.
        """
        stamp = self._index.stamp()
        if stamp is None:
            return {}
        ranking = ranking or self._index.ranking
        distinct = [query for query in dict.fromkeys(queries) if parse_query(query).rest]
        tops: dict[str, tuple[Top, ...]] = {}
        for done, query in enumerate(distinct):
            stop_if(cancelled)
            progressed(done, len(distinct))
            key = stamp, self._now().date(), repr(ranking), query
            if (top := self._answers.get(key)) is not None:
                tops[query] = top
                continue
            try:
                ranked = self._ask_later(SearchRequest(query, ranking), cancelled)
            except CancelledError:
                raise IndexMissing("the index is closed") from None
            tops[query] = tuple(Top(hit.chunk.id, hit.chunk.path, hit.score) for hit in ranked.hits)
            states = ranked.pool.states.values()
            if any(one.status in _UNSETTLED or one.reason is Reason.NO_PIECES for one in states):
                continue
            if len(self._answers) >= MOST_REMEMBERED:
                self._answers.clear()
            self._answers[key] = tops[query]
        progressed(len(distinct), len(distinct))
        return tops

    def _search(
        self, request: SearchRequest, is_first: bool, number: int, cancelled: IsCancelled
    ) -> None:
        def publish(pool: CandidatePool, complete: bool = False) -> None:
            ranked = self.rerank(pool, request.ranking)
            if not cancelled():
                self._bus.publish(SearchReady(number, ranked, complete))

        try:
            pool = self._index.legs.retrieve(request, cancelled, publish if is_first else None)
            if is_first or not pool.pieces_due:
                publish(pool, complete=not pool.pieces_due)
            if pool.pieces_due:
                self._thread.go_on(partial(self._search, request, False), number)
        except Cancelled:
            return
        except Exception as error:
            # The thread outlives any one query; the screen says what happened.
            if isinstance(error, IndexMissing) and self._index.providers is not None:
                # memtui's own index is only not made yet; one that others make is gone.
                limit = request.ranking.candidates
                hits, states = dict.fromkeys(Leg, ()), dict.fromkeys(Leg, _NO_INDEX)
                pool = CandidatePool(request.text, {}, hits, states, limit, typing=request.typing)
                publish(pool, complete=True)
            elif isinstance(error, MemtuiError) or not cancelled():
                kind = "" if isinstance(error, MemtuiError) else f"{type(error).__name__}: "
                self._bus.publish(SearchFailed(number, f"{kind}{error}"))


_NO_INDEX: Final = LegState(LegStatus.SKIPPED, Reason.NO_INDEX, "no index yet")
_UNSETTLED: Final = frozenset({LegStatus.FAILED, LegStatus.PENDING})

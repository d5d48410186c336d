"""The search half of every engine: one thread, the latest search wins, answers go on the bus."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol, TypeVar

from memtui.bus import Bus, SearchFailed, SearchReady
from memtui.engine.common import timed
from memtui.engine.mailbox import EngineThread, SearchRequest
from memtui.errors import Cancelled, MemtuiError
from memtui.model import CandidatePool, Ranked, Ranking

"""So long after an answer nobody types: time for what only a later toggle needs."""

T = TypeVar("T")
Partial = Callable[[CandidatePool], None]


class Searcher(Protocol):
    """What a search asks of an engine; all but `interrupt` on the engine thread."""

    def retrieve(
        self, request: SearchRequest, cancelled: Callable[[], bool], partial: Partial
    ) -> CandidatePool:
        """Ask both legs; `partial` takes a pool with the quicker leg alone."""

    def rank(self, pool: CandidatePool, ranking: Ranking) -> Ranked:
        """Rank a pool; pure."""

    def interrupt(self) -> None:
        """Stop a running statement; from any thread."""


class SearchLoop:
    """Owns the engine thread and publishes what searches find."""

    def __init__(self, searcher: Searcher, bus: Bus) -> None:
        self._searcher = searcher
        self._bus = bus
        self._thread = EngineThread(self._search, searcher.interrupt)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def submit(self, text: str, ranking: Ranking, *, typing: bool) -> int:
        """Ask for a search and return its sequence number; the latest wins."""
        return self._thread.submit(text, ranking, typing=typing)

    def call(self, function: Callable[[], T]) -> Future[T]:
        """Run a function on the engine thread; it is never superseded."""
        return self._thread.call(function)

    def call_later(self, function: Callable[[Callable[[], bool]], T]) -> Future[T]:
        """Run a function on the engine thread when it has time; see `EngineThread.call_later`."""
        return self._thread.call_later(function)

    def cancel(self) -> None:
        """Stop the running search and forget the waiting one."""
        self._thread.cancel()

    def wait_idle(self, timeout: float) -> bool:
        """Wait until no search goes on; false after `timeout` seconds."""
        return self._thread.wait_idle(timeout)

    def close(self) -> None:
        """Stop the thread."""
        self._thread.close()

    def timed(self, pool: CandidatePool, ranking: Ranking) -> Ranked:
        """Rank a pool and say how long that took."""
        return timed(lambda: self._searcher.rank(pool, ranking))

    def _search(self, request: SearchRequest, cancelled: Callable[[], bool]) -> None:
        def publish(pool: CandidatePool, complete: bool) -> None:
            ranked = self.timed(pool, request.ranking)
            if not cancelled():
                self._bus.publish(SearchReady(request.sequence, ranked, complete))

        try:
            pool = self._searcher.retrieve(request, cancelled, lambda part: publish(part, False))
            publish(pool, True)
        except Cancelled:
            return
        except MemtuiError as error:
            self._bus.publish(SearchFailed(request.sequence, str(error)))
        except Exception as error:
            # The thread outlives any one query; the screen says what happened.
            if not cancelled():
                text = f"{type(error).__name__}: {error}"
                self._bus.publish(SearchFailed(request.sequence, text))

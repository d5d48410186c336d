"""The engine thread: one at a time, the latest search wins, exact calls are never lost."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from memtui.errors import Cancelled
from memtui.model import Ranking

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """A search that was asked for; `typing` makes the last word a prefix."""

    sequence: int
    text: str
    ranking: Ranking
    typing: bool


class EngineThread(threading.Thread):
    """Runs searches and calls, in order, on a daemon thread that owns the read connection.

    `search(request, cancelled)` handles a search; `cancelled()` turns true when a newer one was
    submitted or the thread is closing. `interrupt()` is called at that moment, from the
    submitting thread, to stop a running statement; it must not block.
    """

    def __init__(
        self,
        search: Callable[[SearchRequest, Callable[[], bool]], None],
        interrupt: Callable[[], None],
    ) -> None:
        super().__init__(name="memtui-engine", daemon=True)
        self._search = search
        self._interrupt = interrupt
        self._condition = threading.Condition()
        self._newest = 0
        self._waiting: SearchRequest | None = None
        self._calls: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._later: deque[tuple[Callable[[Callable[[], bool]], Any], Future[Any]]] = deque()
        self._searching = False
        self._giving_way = False
        self._busy = False
        self._halt = False

    def submit(self, text: str, ranking: Ranking, *, typing: bool) -> int:
        """Ask for a search and return its sequence number; an older one is dropped or stopped."""
        with self._condition:
            self._newest += 1
            self._waiting = SearchRequest(self._newest, text, ranking, typing)
            # Inside the lock: a moment later the statement could be that of a call.
            if self._searching or self._giving_way:
                self._interrupt()
            self._condition.notify_all()
            return self._newest

    def call(self, function: Callable[[], T]) -> Future[T]:
        """Run a function on the thread; it is never superseded."""
        future: Future[T] = Future()
        with self._condition:
            if self._halt:
                future.cancel()
                return future
            self._calls.append((function, future))
            self._condition.notify_all()
        return future

    def call_later(self, function: Callable[[Callable[[], bool]], T]) -> Future[T]:
        """Run a function when nothing else waits; a search that is submitted goes before it.

        `function(gives_way)` may raise `Cancelled` once `gives_way()` is true: then it is run
        again, from its beginning, when there is time. Cancelling the future takes it out.
        """
        future: Future[T] = Future()
        with self._condition:
            if self._halt:
                future.cancel()
                return future
            self._later.append((function, future))
            self._condition.notify_all()
        return future

    def cancel(self) -> None:
        """Stop the running search and forget the waiting one."""
        with self._condition:
            self._newest += 1
            self._waiting = None
            if self._searching:
                self._interrupt()

    def is_stale(self, sequence: int) -> bool:
        """Whether a newer search was submitted, or the thread is closing."""
        return self._halt or sequence != self._newest

    def wait_idle(self, timeout: float) -> bool:
        """Wait until nothing runs and nothing waits; false after `timeout` seconds."""
        with self._condition:
            return self._condition.wait_for(self._is_idle, timeout)

    def close(self, timeout: float = 2.0) -> None:
        """Stop: waiting calls are cancelled, a running statement is interrupted."""
        with self._condition:
            self._halt = True
            self._waiting = None
            for _, future in (*self._calls, *self._later):
                future.cancel()
            self._calls.clear()
            self._later.clear()
            if self._busy:
                self._interrupt()
            self._condition.notify_all()
        if self.is_alive() and threading.current_thread() is not self:
            self.join(timeout)

    def run(self) -> None:
        """Serve calls before searches, and both before what has time, until closed."""
        while True:
            with self._condition:
                self._busy = self._searching = self._giving_way = False
                self._condition.notify_all()
                self._condition.wait_for(lambda: not self._is_waiting_empty() or self._halt)
                if self._halt:
                    return
                self._busy = True
                task = self._calls.popleft() if self._calls else None
                request = later = None
                if task is None and self._waiting is not None:
                    request, self._waiting = self._waiting, None
                    self._searching = True
                elif task is None:
                    later = self._later.popleft()
                    self._giving_way = True
            if task is not None:
                self._run_call(*task)
            elif request is not None:
                self._run_search(request)
            elif later is not None:
                self._run_later(*later)

    def _run_search(self, request: SearchRequest) -> None:
        try:
            self._search(request, partial(self.is_stale, request.sequence))
        except Exception as error:
            # Reported as the end of the thread would be, but a thread that ended would leave
            # every later call waiting for ever.
            details = (type(error), error, error.__traceback__, self)
            threading.excepthook(threading.ExceptHookArgs(details))

    def _run_call(self, function: Callable[[], Any], future: Future[Any]) -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)

    def _run_later(
        self, function: Callable[[Callable[[], bool]], Any], future: Future[Any]
    ) -> None:
        if not future.running() and not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(function(self._gives_way))
        except Cancelled as error:
            with self._condition:
                if self._waiting is not None and not self._halt:
                    self._later.appendleft((function, future))
                    return
            future.set_exception(error)
        except BaseException as error:
            future.set_exception(error)

    def _gives_way(self) -> bool:
        """Whether what has time has to stop: a search waits, or the thread is closing."""
        return self._waiting is not None or self._halt

    def _is_waiting_empty(self) -> bool:
        return self._waiting is None and not self._calls and not self._later

    def _is_idle(self) -> bool:
        return not self._busy and self._is_waiting_empty()

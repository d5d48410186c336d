"""Doing something later, once, on a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from memtui.bus import Bus, Event, SyncFinished
from memtui.index.indexer import Indexer


class Timer:
    """Calls `action` on a daemon thread when it is time; the thread starts with the first use.

    One that is set again forgets the time it had. `action` must not raise. Methods may be called
    from any thread, from `action` too.
    """

    def __init__(
        self,
        action: Callable[[], None],
        *,
        name: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._action = action
        self._name = name
        self._clock = clock
        self._condition = threading.Condition()
        self._due: float | None = None
        self._closed = False
        self._thread: threading.Thread | None = None

    def set(self, seconds: float) -> None:
        """Ring in so many seconds."""
        with self._condition:
            self._due = self._clock() + seconds
            self._wake()

    def cancel(self) -> None:
        """Do not ring."""
        with self._condition:
            self._due = None
            self._condition.notify_all()

    def left(self) -> float | None:
        """Tell how many seconds are left, 0 or more; `None` when it is not set."""
        with self._condition:
            return self._left()

    def look(self) -> None:
        """Look at the clock again, where it was moved by hand."""
        with self._condition:
            self._condition.notify_all()

    def close(self, timeout: float = 1.0) -> None:
        """Ring no more; waits so long for an action that runs."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)

    def _wake(self) -> None:
        if self._thread is None and not self._closed:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        self._condition.notify_all()

    def _run(self) -> None:
        while True:
            with self._condition:
                while not self._closed and (left := self._left()) != 0.0:
                    self._condition.wait(left)
                if self._closed:
                    return
                self._due = None
            self._action()

    def _left(self) -> float | None:
        return None if self._due is None else max(0.0, self._due - self._clock())


FIRST_SECONDS: Final = 30.0
LAST_SECONDS: Final = 900.0


class PendingVectors:
    """Syncs again 30 s after a sync that left chunks without vectors, then twice as long each time.

    A sync that leaves none, or only such as are refused each time, ends it.
    """

    def __init__(
        self, indexer: Indexer, bus: Bus, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.timer = Timer(self._again, name="memtui-pending", clock=clock)
        self._indexer = indexer
        self._delay = FIRST_SECONDS
        self._subscription = bus.subscribe(SyncFinished, self._after_sync)

    def close(self) -> None:
        """Ask for nothing more."""
        self._subscription.close()
        self.timer.close(0.0)

    def _after_sync(self, event: Event) -> None:
        problem = self._indexer.snapshot().problem
        if problem is None or not problem.passes:
            self._delay = FIRST_SECONDS
            self.timer.cancel()
        else:
            self.timer.set(self._delay)

    def _again(self) -> None:
        self._delay = min(self._delay * 2, LAST_SECONDS)
        self._indexer.sync()

"""Doing something later, once, on a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from memtui.bus import Bus, Event, SyncFinished
from memtui.index.indexer import Indexer


class Timer:
    """Calls `action` on a daemon thread when it is time.

    One that is set again forgets the time it had. `action` must not raise, and never runs twice at
    once. Methods may be called from any thread, from `action` too.
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
        self._lock = threading.Lock()
        # Held by the action that runs, which may itself close the timer.
        self._running = threading.RLock()
        self._due: float | None = None
        self._closed = False
        self._thread: threading.Timer | None = None

    def set(self, seconds: float) -> None:
        """Ring in so many seconds."""
        with self._lock:
            self._start(seconds)

    def cancel(self) -> None:
        """Do not ring."""
        with self._lock:
            self._due = None
            if self._thread is not None:
                self._thread.cancel()

    def left(self) -> float | None:
        """Tell how many seconds are left, 0 or more; `None` when it is not set."""
        due = self._due
        return None if due is None else max(0.0, due - self._clock())

    def look(self) -> None:
        """Look at the clock again, where it was moved by hand."""
        with self._lock:
            if self.left() == 0.0:
                self._start(0.0)

    def close(self, timeout: float = 1.0) -> None:
        """Ring no more; waits so long for an action that runs."""
        with self._lock:
            self._closed = True
            self._due = None
            thread = self._thread
        if thread is not None:
            thread.cancel()
        # An action that runs may have set the timer anew: its thread is no longer this one.
        if self._running.acquire(timeout=timeout):
            self._running.release()

    def _start(self, seconds: float) -> None:
        if self._closed:
            return
        if self._thread is not None:
            self._thread.cancel()
        self._due = self._clock() + seconds
        self._thread = threading.Timer(seconds, self._ring)
        self._thread.name, self._thread.daemon = self._name, True
        self._thread.start()

    def _ring(self) -> None:
        with self._running:
            with self._lock:
                # It may have been set to another time, or cancelled, in the last moment.
                if self._due is None or threading.current_thread() is not self._thread:
                    return
                self._due = None
            self._action()


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

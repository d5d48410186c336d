"""Asking for another sync while chunks miss vectors because their provider failed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from memtui.bus import Bus, Event, SyncFinished
from memtui.engine.providers.alarm import Alarm
from memtui.index.indexer import Indexer

FIRST_SECONDS: Final = 30.0
LAST_SECONDS: Final = 900.0


class PendingVectors:
    """Syncs again 30 s after a sync that left chunks without vectors, then twice as long each time.

    A sync that leaves none, or only such as are refused each time, ends it.
    """

    def __init__(
        self, indexer: Indexer, bus: Bus, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.alarm = Alarm(self._again, name="memtui-pending", clock=clock)
        self._indexer = indexer
        self._delay = FIRST_SECONDS
        self._subscription = bus.subscribe(SyncFinished, self._after_sync)

    def close(self) -> None:
        """Ask for nothing more."""
        self._subscription.close()
        self.alarm.close(0.0)

    def _after_sync(self, event: Event) -> None:
        problem = self._indexer.snapshot().problem
        if problem is None or not problem.passes:
            self._delay = FIRST_SECONDS
            self.alarm.cancel()
        else:
            self.alarm.set(self._delay)

    def _again(self) -> None:
        self._delay = min(self._delay * 2, LAST_SECONDS)
        self._indexer.sync()

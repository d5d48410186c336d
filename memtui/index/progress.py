"""How far a sync is: measured rate, expected end, and not more than ten events a second."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from memtui.bus import Bus, SyncProgressed
from memtui.model import Progress

FILES = "files"
VECTORS = "vectors"

_EVENT_SECONDS = 0.1
_WINDOW_SECONDS = 20.0
_ETA_SECONDS = 5.0
_ETA_SAMPLES = 3


class ProgressReporter:
    """Publishes `SyncProgressed` for the phases of one sync; `last` may be read from any thread.

    `published` is called after each event, on the thread that reports.
    """

    def __init__(
        self,
        bus: Bus,
        *,
        clock: Callable[[], float] = time.monotonic,
        published: Callable[[], None] | None = None,
    ) -> None:
        self.last: Progress | None = None
        self._bus = bus
        self._after_publishing = published
        self._clock = clock
        self._phase = FILES
        self._done = 0
        self._total = 0
        self._started = 0.0
        self._published = 0.0
        self._samples: deque[tuple[float, int]] = deque()

    def start(self, phase: str, total: int) -> None:
        """Begin a phase of `total` steps."""
        self._phase, self._done, self._total = phase, 0, total
        self._started = self._clock()
        self._samples.clear()
        self._samples.append((self._started, 0))
        self._publish(self._started, "")

    def advance(self, steps: int, current: str = "") -> None:
        """Note that `steps` more are done; `current` names what is being worked on."""
        self._done += steps
        now = self._clock()
        last = self._done >= self._total
        if last or now - self._published >= _EVENT_SECONDS:
            self._samples.append((now, self._done))
            while now - self._samples[0][0] > _WINDOW_SECONDS and len(self._samples) > 2:
                self._samples.popleft()
            self._publish(now, current)

    @property
    def remaining(self) -> int:
        """How many steps of the phase are still to be done."""
        return self._total - self._done

    def kept_percent(self) -> int:
        """Tell how much of the phase is done, 0 to 100."""
        return 100 * self._done // self._total if self._total else 100

    def stopped(self, *, rebuild: bool) -> str:
        """Say what is left of a run that was stopped."""
        if rebuild and (self.last is None or self.last.phase != VECTORS):
            return "stopped; the index is as it was"
        return f"stopped; {self.kept_percent()} % kept"

    def _publish(self, now: float, current: str) -> None:
        self._published = now
        begin, done_then = self._samples[0]
        elapsed = now - begin
        rate = (self._done - done_then) / elapsed if elapsed > 0 else 0.0
        eta = None
        enough = len(self._samples) > _ETA_SAMPLES and now - self._started >= _ETA_SECONDS
        if enough and rate > 0:
            eta = (self._total - self._done) / rate
        progress = Progress(self._phase, self._done, self._total, rate, eta, current)
        self.last = progress
        self._bus.publish(
            SyncProgressed(
                progress.phase, progress.done, progress.total, rate, eta, progress.current
            )
        )
        if self._after_publishing is not None:
            self._after_publishing()

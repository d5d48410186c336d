"""Sending a request until it is answered well: its turn, its further tries, the pauses between."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from memtui.embedding.remote.failures import ServiceError
from memtui.embedding.remote.pacing import Pacer
from memtui.embedding.retry import LIMITED, PASSING, Schedule, retried, with_jitter
from memtui.errors import Cancelled
from memtui.model import Failure

Result = TypeVar("Result")
Stopped = Callable[[], bool]

_LOOK: Final = 0.02


@dataclass(frozen=True, slots=True)
class Patience:
    """How long is waited for an answer."""

    limited: Schedule = LIMITED
    """When the service says that too much is asked of it."""
    passing: Schedule = PASSING
    """When it fails in another way that passes."""
    most_waiting: float = float("inf")
    """Seconds of all pauses together; what would need more fails at once."""
    timeout: float = 120.0
    """Seconds for one answer."""
    overall: float = float("inf")
    """Seconds for all tries together."""


LONGEST_WAIT: Final = 8.0
"""Seconds that a query waits for its turn and between its tries, in sum (OPENCLAW.md, 10)."""


def patient(timeout: float) -> Patience:
    """For chunks: whoever indexes in the background can wait."""
    return Patience(timeout=timeout)


def hurried(timeout: float) -> Patience:
    """For a query, which somebody waits for: all tries together have `timeout` seconds."""
    return Patience(most_waiting=LONGEST_WAIT, timeout=timeout, overall=timeout)


def sleep(seconds: float, stopped: Stopped) -> None:
    """Wait; raises `Cancelled` within 0.1 s once `stopped()`."""
    end = time.monotonic() + seconds
    pause = threading.Event()
    while (left := end - time.monotonic()) > 0:
        if stopped():
            raise Cancelled
        pause.wait(min(left, _LOOK))


class Sender:
    """Sends at the pace of a service and tries again what may succeed later; any thread may."""

    def __init__(
        self,
        pacer: Pacer,
        *,
        pause: Callable[[float, Stopped], None] = sleep,
        chance: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.pacer = pacer
        self._pause = pause
        self._chance = chance
        self._clock = clock

    def send(
        self,
        attempt: Callable[[float], Result],
        *,
        tokens: int,
        patience: Patience,
        stopped: Stopped,
    ) -> Result:
        """Run `attempt`, which gets the seconds it may take, until it gives something.

        `tokens` are what it is expected to use. Raises the `ServiceError` of the last attempt,
        and `Cancelled` within 0.1 s once `stopped()`.
        """
        begun = self._clock()
        waited = _Waiting(patience.most_waiting)

        def run() -> Result:
            self._wait_for_turn(tokens, waited, stopped)
            left = patience.overall - (self._clock() - begun)
            return attempt(max(0.001, min(patience.timeout, left)))

        def pause_after(error: Exception, failures: int) -> int | None:
            if not isinstance(error, ServiceError) or not error.is_passing:
                return None
            pause = self._pause_after(error, failures, patience)
            left = patience.overall - (self._clock() - begun)
            if pause is None or pause / 1000 > waited.left or pause / 1000 >= left:
                return None
            return pause

        def wait(milliseconds: int) -> None:
            waited.add(milliseconds / 1000)
            self._pause(milliseconds / 1000, stopped)

        return retried(run, wait=wait, pause_after=pause_after)

    def _pause_after(self, error: ServiceError, failures: int, patience: Patience) -> int | None:
        limited = error.kind is Failure.RATE_LIMITED or error.retry_after is not None
        schedule = patience.limited if limited else patience.passing
        usual = schedule.pause(failures)
        if usual is None or error.retry_after is None:
            pause = usual
        elif error.retry_after * 1000 > schedule.longest_ms:
            pause = None
        else:
            pause = int(error.retry_after * 1000)
            self.pacer.hold(error.retry_after)
        return None if pause is None else with_jitter(pause, self._chance(), schedule.longest_ms)

    def _wait_for_turn(self, tokens: int, waited: _Waiting, stopped: Stopped) -> None:
        while (seconds := self.pacer.take(tokens)) > 0:
            if seconds > waited.left:
                words = f"the limit of requests or tokens a minute is reached for {seconds:.0f} s"
                raise ServiceError(words, Failure.RATE_LIMITED, is_final=True)
            waited.add(seconds)
            self._pause(seconds, stopped)


class _Waiting:
    """The seconds that may still be waited."""

    def __init__(self, most: float) -> None:
        self.left = most

    def add(self, seconds: float) -> None:
        self.left -= seconds

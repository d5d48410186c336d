"""The index gives way to a person: what has time waits while somebody types."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic, sleep

PAUSE_SECONDS = 1.0
"""So long after the last key the index goes on: longer than from one key to the next."""
MOST_SECONDS = 15.0
"""So long it waits at most, however much is typed."""
TURN_SECONDS = 0.5
"""So long it then works before it waits again."""
_LOOK_SECONDS = 0.02


class Courtesy:
    """Lets the index thread wait while keys come in, as the threads share one interpreter.

    `clock` counts seconds. Of work that never ends for typing, `TURN_SECONDS` of every
    `MOST_SECONDS` are left.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._until = 0.0
        self._since: float | None = None
        self._turn_ends = 0.0

    def typed(self) -> None:
        """Note a key; from any thread, never waits."""
        self._until = self._clock() + PAUSE_SECONDS

    def wait(self, stopped: Callable[[], bool]) -> None:
        """Wait, on the thread that works, until nobody types, `stopped()` or it is its turn."""
        while self._waits() and not stopped():
            sleep(_LOOK_SECONDS)

    def _waits(self) -> bool:
        now = self._clock()
        if now >= self._until:
            self._since = None
            return False
        if now < self._turn_ends:
            return False
        if self._since is None:
            self._since = now
        elif now - self._since >= MOST_SECONDS:
            self._since, self._turn_ends = None, now + TURN_SECONDS
            return False
        return True

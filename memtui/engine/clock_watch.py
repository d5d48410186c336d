"""Whether the clock was moved while the program runs: every age and every decay counts from it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

LEAST_MOVED: Final = timedelta(hours=1)
"""Less is a clock that is set right; no age on a screen tells the difference."""

_FORWARD_IS_TOLD: Final = sys.platform == "linux"
"""Elsewhere the time that a machine slept is in no count of seconds, and would look like a move."""


def running_seconds() -> float:
    """Seconds that no setting of the clock changes; on Linux with those the machine slept."""
    if sys.platform == "linux":
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class ClockWatch:
    """Compares the clock with the seconds since it was made."""

    def __init__(
        self, now: Callable[[], datetime], seconds: Callable[[], float] = running_seconds
    ) -> None:
        self._now = now
        self._seconds = seconds
        self._offset = self._expected()

    def moved(self) -> timedelta:
        """How far the clock was moved, negative for back; nothing while it is about right."""
        moved = self._expected() - self._offset
        if abs(moved) < LEAST_MOVED or (moved > timedelta() and not _FORWARD_IS_TOLD):
            return timedelta()
        return moved

    def warning(self) -> str | None:
        """One line for the screen while the clock is moved."""
        moved = self.moved()
        if not moved:
            return None
        hours = round(abs(moved) / timedelta(hours=1))
        far = f"{hours // 24} days" if hours >= 48 else f"{hours} h"
        way = "back" if moved < timedelta() else "forward"
        return f"the clock was moved {way} by {far}: ages and decay count from its new time"

    def _expected(self) -> datetime:
        """When the seconds began to be counted, as the clock tells it now."""
        return self._now() - timedelta(seconds=self._seconds())

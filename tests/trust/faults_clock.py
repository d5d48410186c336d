"""A clock that is moved by a year, back and forward, while the interface runs."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from unittest.mock import patch

from tests.trust.faults_stage import Scene, Stage

_YEAR = timedelta(days=365)


class Clock:
    """The time of day, which can be moved."""

    def __init__(self) -> None:
        self.moved = timedelta()
        self._time = time.time
        self._time_ns = time.time_ns

    def now(self) -> datetime:
        """The moment it shows."""
        return datetime.now(UTC) + self.moved

    def seconds(self) -> float:
        """What `time.time` gives."""
        return self._time() + self.moved.total_seconds()

    def nanoseconds(self) -> int:
        """What `time.time_ns` gives."""
        return self._time_ns() + int(self.moved.total_seconds()) * 10**9


CLOCK = Clock()


def _movable(stage: Stage) -> None:
    stage.now = CLOCK.now


async def _moved(stage: Stage, way: int) -> None:
    with (
        patch("time.time", CLOCK.seconds),
        patch("time.time_ns", CLOCK.nanoseconds),
    ):
        CLOCK.moved = way * _YEAR
        await _save(stage, "memory/moved.md", "# Moved\n\nA siskin.\n")
        await stage.finds("siskin", "memory/moved.md")
        await _save(stage, "memory/moved.md", "# Moved\n\nA linnet.\n")
        await stage.finds("linnet", "memory/moved.md")
        direction = "back" if way < 0 else "forward"
        await stage.named(f"clock was moved {direction} by 365 days", screen="4")
        CLOCK.moved = timedelta()
        # Of the same size as before, right after the clock went back to where it was.
        await _save(stage, "memory/moved.md", "# Moved\n\nA dunlin.\n")
        await stage.finds("dunlin", "memory/moved.md")
        await stage.recovers()


async def _save(stage: Stage, name: str, text: str) -> None:
    """Write a note as the clock of now dates it."""
    path = stage.write(name, text)
    at = CLOCK.nanoseconds()
    os.utime(path, ns=(at, at))


async def _dated_ahead(stage: Stage) -> None:
    """Notes of next year and of 1970, by their files' times and by their names."""
    year = datetime.now(UTC).year + 1
    path = stage.write(f"memory/{year}-06-01.md", "# Ahead\n\nA siskin.\n")
    at = CLOCK.nanoseconds() + 365 * 86_400 * 10**9
    os.utime(path, ns=(at, at))
    await stage.finds("siskin", f"memory/{year}-06-01.md")
    await stage.named(f"{year}-06-01")
    os.utime(path, ns=(0, 0))
    old = stage.write("memory/old.md", "# Old\n\nA siskin of old.\n")
    os.utime(old, ns=(-1, -1))
    await stage.finds("siskin of old", "memory/old.md")
    await stage.recovers()


SCENES: Sequence[Scene] = (
    Scene("clock moved back by a year", partial(_moved, way=-1), prepare=_movable),
    Scene("clock moved forward by a year", partial(_moved, way=1), prepare=_movable),
    Scene("notes dated ahead and before 1970", _dated_ahead),
)
"""Faults of the clock."""

"""Whether work grows with the size of its input or faster, told by CPU time at doubled sizes."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from time import thread_time
from types import FrameType
from typing import Final

FIRST: Final = 512
LAST: Final = 1 << 15
"""Characters of the largest input."""
QUICK_SECONDS: Final = 0.012
"""What takes less than this for the largest input is linear: the square of it would take seconds."""
ENOUGH_SECONDS: Final = 0.05
STEEP: Final = 3.0
"""Twice the input takes twice the time when it is linear, and four times for its square."""
_TIMES: Final = 3
_MOST_SECONDS: Final = 8


class TooLong(Exception):
    """Work that was stopped."""


@dataclass(frozen=True, slots=True)
class Pump:
    """A family of inputs: `before`, then `part` again and again, then `after`."""

    part: str
    before: str = ""
    after: str = ""

    def text(self, size: int) -> str:
        """The input of about so many characters."""
        return self.before + self.part * max(1, size // len(self.part)) + self.after

    def shown(self) -> str:
        """The family in one line, as Python."""
        return f"{self.before[:40]!a} + {self.part[:40]!a} * n + {self.after[:40]!a}"


@contextmanager
def stopped_after(seconds: float) -> Iterator[None]:
    """Raise `TooLong` in the block after so many seconds; main thread only."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def steepness(
    work: Callable[[str], object], pump: Pump, *, last: int = LAST
) -> tuple[float, float, int] | None:
    """What a doubling costs at the end, the seconds there and the size; `None` when it is linear.

    Raises nothing: what does not come to an end has a cost of infinity.
    """
    try:
        with stopped_after(_MOST_SECONDS * 4):
            return _steepness(work, pump, last)
    except TooLong:
        return float("inf"), float("inf"), 0


def _steepness(
    work: Callable[[str], object], pump: Pump, last: int
) -> tuple[float, float, int] | None:
    size = FIRST
    while size < last:
        taken = _seconds(work, pump.text(size), 1)
        if taken > ENOUGH_SECONDS:
            break
        size *= 4 if taken < ENOUGH_SECONDS / 40 else 2
    size = min(size, last)
    if _seconds(work, pump.text(size), 1) < QUICK_SECONDS:
        return None
    times = [_seconds(work, pump.text(size // part), _TIMES) for part in (4, 2, 1)]
    costs = [after / max(before, 1e-6) for before, after in pairwise(times)]
    if min(costs) < STEEP or times[-1] < QUICK_SECONDS:
        return None
    return min(costs), times[-1], size


def _seconds(work: Callable[[str], object], text: str, times: int) -> float:
    """The least CPU time of some tries."""
    best = float("inf")
    for _ in range(times):
        started = thread_time()
        work(text)
        best = min(best, thread_time() - started)
    return best


def worst(
    work: Callable[[str], object], pumps: Sequence[Pump], *, last: int = LAST
) -> tuple[int, list[str]]:
    """How many families were tried, and a line for the first that is steep."""
    for number, pump in enumerate(pumps, start=1):
        found = steepness(work, pump, last=last)
        if found is not None and (found := steepness(work, pump, last=last)) is not None:
            cost, seconds, size = found
            told = f"x{cost:.1f} a doubling, {seconds * 1000:.0f} ms at {size:,} characters"
            return number, [f"{told}: {pump.shown()}"]
    return len(pumps), []

"""Many choices out of few bytes: what hypothesis draws at once, however much is chosen with it.

A draw costs far more than the choice it stands for; a random pool of candidates takes hundreds of
choices. Bytes shrink to zeros, which choose what is named first.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Final, TypeVar

T = TypeVar("T")
_ODD = 4
"""Every so many-th number is one that breaks arithmetic rather than any."""


class Dice:
    """Reads choices off bytes, front to back; each takes two bytes, a number eight more."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def _take(self, count: int) -> int:
        part = self._data[self._at : self._at + count]
        assert len(part) == count, "too few bytes were drawn"
        self._at += count
        return int.from_bytes(part)

    def below(self, count: int) -> int:
        """A whole number from 0 to `count - 1`, which is at most 65,536."""
        return self._take(2) % count

    def fewer(self, most: int) -> int:
        """A whole number from 0 to `most`, a third of it on average."""
        return min(self.below(most + 1), self.below(most + 1))

    def one_of(self, options: Sequence[T]) -> T:
        """One of the options; the first one out of zeros."""
        return options[self.below(len(options))]

    def whole(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`, the ends and their neighbours often."""
        near = (low, high, low + 1, high - 1)
        odd, value = self.below(_ODD * len(near)), self._take(8)
        return near[odd] if odd < len(near) else low + value % (high - low + 1)

    def real(self, low: float, high: float) -> float:
        """A number from `low` to `high`: often an end or its neighbour, a zero or next to nothing."""
        near = (low, high, math.nextafter(low, high), math.nextafter(high, low))
        tiny = (5e-324, -5e-324, 2.2250738585072014e-308, 1e-9, -1e-9, -0.0, 0.0)
        odd = [*near, *(value for value in tiny if low <= value <= high)]
        chosen, value = self.below(_ODD * len(odd)), self._take(8)
        return odd[chosen] if chosen < len(odd) else low + (high - low) * (value / (2**64 - 1))

    def close(self, *values: float, low: float, high: float) -> float:
        """Half of the time one of the given values, so that there are ties; else any number."""
        given, chosen, other = self.below(2) == 0, self.one_of(values), self.real(low, high)
        return chosen if given else other


TIMES: Final = "MEMTUI_TEST_EXAMPLES"
"""The environment variable that multiplies the counts: 10 makes a run ten times as thorough."""


def examples(count: int) -> int:
    """So many examples, times what the environment asks for; at least one."""
    return max(1, round(count * float(os.environ.get(TIMES, "1"))))

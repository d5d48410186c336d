"""What a process holds, sampled over time, and whether it grows."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import apsw
import numpy as np
from textual.dom import DOMNode

LIMITS: Mapping[str, float] = {
    "bytes in use": 256.0,
    "small blocks": 3.0,
    "resident bytes": 1024.0,
    "open files": 0.001,
    "threads": 0.001,
    "connections": 0.001,
    "objects": 1.0,
    "widgets": 0.01,
}
"""By how much an event may make something grow before it counts as a leak, however sure it is.

256 bytes an event are 3.7 MB in two hours of the busy user; one file in a thousand events are
fourteen. A small block of Python has some 80 bytes.

What is resident holds the free parts of pages, too, and walks up and down by 3 MB as they are
shared out anew: runs of one engine, each with 20 ± 20 bytes more in use at most, had slopes of
14 ± 16 to 501 ± 58.
"""

_SURE = 3.0


@dataclass(frozen=True, slots=True)
class Slope:
    """How something grows by event: least squares over the second half of the samples."""

    per_event: float
    error: float
    """The standard error of `per_event`."""
    first: float
    last: float

    def leaks(self, limit: float) -> bool:
        """Whether it grows beyond its noise and beyond a limit by event."""
        return self.per_event > _SURE * self.error and self.per_event > limit


@dataclass
class Samples:
    """What the process held after so many events."""

    events: list[int] = field(default_factory=list)
    held: dict[str, list[float]] = field(default_factory=dict)

    def take(self, events: int) -> None:
        """Look at the process now."""
        # What only waits to be collected is not kept.
        gc.collect()
        _give_back()
        self.events.append(events)
        for name, value in _held().items():
            self.held.setdefault(name, []).append(value)

    def slope(self, name: str) -> Slope:
        """How a quantity grows; the first half of the samples fills what is bounded."""
        values = self.held[name]
        half = len(values) // 2
        per_event, error = least_squares(self.events[half:], values[half:])
        return Slope(per_event, error, values[0], values[-1])

    def failures(self) -> tuple[str, ...]:
        """The quantities that grow."""
        return tuple(
            f"{name}: {slope.per_event:.4g} ± {slope.error:.2g} per event, "
            f"from {slope.first:,.0f} to {slope.last:,.0f}"
            for name, limit in LIMITS.items()
            if name in self.held and (slope := self.slope(name)).leaks(limit)
        )

    def facts(self) -> dict[str, float | int | str]:
        """The slopes for the table."""
        told: dict[str, float | int | str] = {"samples": len(self.events)}
        for name in (name for name in LIMITS if name in self.held):
            slope = self.slope(name)
            told[f"{name} per event"] = f"{slope.per_event:.3g} ± {slope.error:.2g}"
            told[f"{name} at the end"] = f"{slope.last:,.0f}"
        return told


def least_squares(x: Sequence[float], y: Sequence[float]) -> tuple[float, float]:
    """The slope of the line nearest to the points, and its standard error.

    Raises ValueError for fewer than three points.
    """
    if len(x) < 3:
        raise ValueError("a slope with an error takes three points")
    at, values = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    spread = at - at.mean()
    slope = float(spread @ values / (spread @ spread))
    rest = values - values.mean() - slope * spread
    return slope, float(np.sqrt(rest @ rest / (len(x) - 2) / (spread @ spread)))


def _held() -> Mapping[str, float]:
    objects = gc.get_objects()
    in_use = _bytes_in_use()
    return {
        **({} if in_use is None else {"bytes in use": in_use}),
        "small blocks": sys.getallocatedblocks(),
        "resident bytes": _anonymous_bytes(),
        "open files": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
        "connections": len(apsw.connections()),
        "objects": len(objects),
        # By type: to ask a weak proxy itself would ask what it stands for.
        "widgets": sum(issubclass(type(one), DOMNode) for one in objects),
    }


def _give_back() -> None:
    """Let the C library give the system what is freed; where it cannot, it counts as held."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


class _MallocInfo(ctypes.Structure):
    """`struct mallinfo2` of the GNU C library, 2.33 and later."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )
    hblkhd: int
    """Bytes of large blocks, mapped one by one."""
    uordblks: int
    """Bytes of the others that are in use."""


def _bytes_in_use() -> float | None:
    """Bytes the C library has given out: all but Python's small blocks; `None`: it cannot tell."""
    told = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if told is None:
        return None
    told.restype = _MallocInfo
    info: _MallocInfo = told()
    return float(info.uordblks + info.hblkhd)


def _anonymous_bytes() -> float:
    """Resident memory that is no file's: pages of a mapped database come and go with the cache."""
    with open("/proc/self/status", encoding="ascii") as status:
        for line in status:
            if line.startswith("RssAnon:"):
                return float(line.split()[1]) * 1024
    raise OSError("this system does not tell RssAnon")

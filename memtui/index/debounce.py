"""When a burst of changes is over: plain arithmetic on times that the caller hands in."""

from __future__ import annotations

from collections.abc import Iterable

ANYTHING: tuple[str, ...] = ()
"""Paths of a change that may be anywhere."""

# More names than this are no longer worth keeping apart.
_MOST_PATHS = 10_000


class Debouncer:
    """Gathers changed paths until it was quiet for `quiet` seconds, or `longest` have passed."""

    def __init__(self, *, quiet: float, longest: float) -> None:
        self._quiet = quiet
        self._longest = longest
        self._first: float | None = None
        self._last = 0.0
        self._paths: dict[str, None] = {}
        self._anything = False

    @property
    def anything(self) -> bool:
        """Whether this burst is known to be anywhere: more names tell nothing."""
        return self._anything

    def note(self, paths: Iterable[str], now: float) -> tuple[str, ...] | None:
        """Add changed paths (none: anything); returns what is new about it, `None` for nothing."""
        if self._first is None:
            self._first = now
        self._last = now
        wanted = tuple(paths)
        if not wanted or len(self._paths) + len(wanted) > _MOST_PATHS:
            known, self._anything = self._anything, True
            return None if known else ANYTHING
        new = tuple(path for path in wanted if path not in self._paths)
        self._paths.update(dict.fromkeys(new))
        return new or None

    def due(self) -> float | None:
        """Tell when the burst counts as over; `None` without one."""
        if self._first is None:
            return None
        return min(self._last + self._quiet, self._first + self._longest)

    def take(self) -> tuple[str, ...]:
        """End the burst and return its paths; none when anything may have changed."""
        paths = ANYTHING if self._anything else tuple(self._paths)
        self._first = None
        self._paths = {}
        self._anything = False
        return paths

"""Keeping the interpreter's own pauses short while the interface runs."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from math import inf
from typing import Any

SETTLING_SECONDS = 30.0
"""What lives through a collection in this time is there to stay: modules, styles, a model."""
FULL_COLLECTIONS_RARER = 5
MOST_NEW_OBJECTS = 200_000
"""So many more objects than at the last look are looked at in any case: memory has its bound."""
NEW_OBJECTS = 5_000
"""So many are looked at where nobody types: a few milliseconds."""
LOOK_SECONDS = 0.5
PAUSE_SECONDS = 1.0
"""Without keys for so long, new objects are looked at."""
LONG_PAUSE_SECONDS = 5.0
"""Without keys for so long, all objects are: that takes up to 100 ms, every thread waits."""
FULL_SECONDS = 60.0
"""From one look at all objects to the next, at least."""
MOST_FULL_SECONDS = 300.0
"""From one to the next at most, where objects are made: then the shorter pause has to do."""


class QuietCollector:
    """Looks for garbage where no key can feel it; belongs to the thread that draws.

    `clock` counts seconds. Python looks at a moment of its own: in mid-answer, as that is when
    objects are made.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._typed_at = -inf
        self._full_at = clock()
        self._looks = 0

    def typed(self) -> None:
        """Note a key."""
        self._typed_at = self._clock()

    def look(self) -> None:
        """Look at new objects in a pause, and in a long one at all, where there are enough."""
        now = self._clock()
        quiet, since = now - self._typed_at, now - self._full_at
        is_due = quiet >= LONG_PAUSE_SECONDS and since >= FULL_SECONDS
        is_overdue = quiet >= PAUSE_SECONDS and since >= MOST_FULL_SECONDS
        if self._looks and (is_due or is_overdue):
            gc.collect()
            self._looks, self._full_at = 0, self._clock()
        elif quiet >= PAUSE_SECONDS and gc.get_count()[0] >= NEW_OBJECTS:
            gc.collect(1)
            self._looks += 1


@contextmanager
def short_pauses(clock: Callable[[], float] = time.monotonic) -> Iterator[QuietCollector]:
    """Let garbage collections come about between keys, and full ones look at little, and seldom.

    A full collection stops every thread, the one that draws too, for as long as it takes to look
    at every object there is: about 80 ms once Textual, numpy and a model are loaded, every second
    while a folder is indexed. Objects that are there to stay are therefore taken out of its sight.
    Whoever draws tells the collector of keys, and has it look every `LOOK_SECONDS`.
    """
    until = clock() + SETTLING_SECONDS

    def collected(phase: str, info: Mapping[str, Any]) -> None:
        if phase == "stop" and info["generation"] > 0 and clock() < until:
            gc.freeze()

    young, middle, full = gc.get_threshold()
    gc.set_threshold(MOST_NEW_OBJECTS, middle, full * FULL_COLLECTIONS_RARER)
    gc.freeze()
    gc.callbacks.append(collected)
    try:
        yield QuietCollector(clock)
    finally:
        gc.callbacks.remove(collected)
        gc.unfreeze()
        gc.set_threshold(young, middle, full)

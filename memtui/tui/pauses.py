"""Keeping the interpreter's own pauses short while the interface runs."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

SETTLING_SECONDS = 30.0
"""What lives through a collection in this time is there to stay: modules, styles, a model."""
FULL_COLLECTIONS_RARER = 5


@contextmanager
def short_pauses(clock: Callable[[], float] = time.monotonic) -> Iterator[None]:
    """Let full garbage collections look at little, and seldom.

    A full collection stops every thread, the one that draws too, for as long as it takes to look
    at every object there is: about 80 ms once Textual, numpy and a model are loaded, every second
    while a folder is indexed. Objects that are there to stay are therefore taken out of its sight.
    """
    until = clock() + SETTLING_SECONDS

    def collected(phase: str, info: Mapping[str, Any]) -> None:
        if phase == "stop" and info["generation"] > 0 and clock() < until:
            gc.freeze()

    young, middle, full = gc.get_threshold()
    gc.set_threshold(young, middle, full * FULL_COLLECTIONS_RARER)
    gc.freeze()
    gc.callbacks.append(collected)
    try:
        yield
    finally:
        gc.callbacks.remove(collected)
        gc.unfreeze()
        gc.set_threshold(young, middle, full)

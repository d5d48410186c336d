"""What both legs hand over: rows of the index with raw scores, and how the leg answered."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from time import perf_counter
from typing import NamedTuple, TypeAlias

from memtui.model import LegState, LegStatus, Numbers, Reason

Cancelled: TypeAlias = Callable[[], bool]
"""Tells whether the work is still wanted; asked between steps and after a failure."""


_ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def import_numpy() -> None:
    """Import numpy with its matrix products on one thread, unless the environment says otherwise.

    A product of a matrix and one vector is bound by memory: more threads read no faster and take
    the core that draws the screen. The variables are there for the import alone, so that no
    setting leaks into programs that memtui starts.
    """
    if "numpy" in sys.modules or any(name in os.environ for name in _ONE_THREAD):
        return
    os.environ.update(dict.fromkeys(_ONE_THREAD, "1"))
    try:
        import numpy as np
    finally:
        for name in _ONE_THREAD:
            del os.environ[name]
    assert np


class RowHit(NamedTuple):
    """A chunk that a leg found, by its row number in the index.

    `raw` is SQLite's `bm25()` (lower is better) or a cosine (-1 to 1, higher is better).
    """

    rowid: int
    raw: float
    terms: tuple[str, ...] = ()
    """Keyword leg only: the query terms the chunk holds, as the query spells them."""


class LegAnswer(NamedTuple):
    """The hits of a leg, best first, and how it answered."""

    hits: tuple[RowHit, ...]
    state: LegState


class Stopwatch:
    """Measures one answer of a leg and labels it."""

    def __init__(self) -> None:
        self._started = perf_counter()

    def answer(
        self,
        status: LegStatus,
        reason: Reason = Reason.OK,
        detail: str = "",
        facts: Numbers | None = None,
        hits: tuple[RowHit, ...] = (),
    ) -> LegAnswer:
        """Answer now: with hits, or with the reason why there are none."""
        elapsed = (perf_counter() - self._started) * 1000.0
        return LegAnswer(hits, LegState(status, reason, detail, elapsed, facts or {}))

"""How much the live index holds, counted again when it has changed."""

from __future__ import annotations

import time

from memtui.errors import IndexMissing, IndexUnusable
from memtui.index.database import mapped_errors, vector_extension
from memtui.index.generations import IndexFolder
from memtui.index.reader import LiveIndex, Stamp, counts
from memtui.index.state import IndexerState

COUNT_SHARE = 0.05
"""Counting a large index takes a while; it may take this part of the time at most."""

_COUNT_SECONDS = 1.0


class LiveCounter:
    """Counts what `live` holds and writes it into `state`; belongs to the thread of `live`."""

    def __init__(self, folder: IndexFolder, live: LiveIndex, state: IndexerState) -> None:
        self.stamp: Stamp | None = None
        """The index at the last count; `None` when there is none."""
        self._folder = folder
        self._live = live
        self._state = state
        self._again = 0.0

    def count(self) -> None:
        """Count, when the index is another than at the last count; raises `IndexUnusable`."""
        try:
            connection = self._live.connection()
            stamp = self._live.stamp()
        except IndexMissing:
            self.stamp = None
            self._state.update(generation=0)
            return
        if stamp == self.stamp:
            return
        with mapped_errors(self._folder.path(stamp.generation)):
            found = counts(connection)
            extension = vector_extension(connection)
        self.stamp = stamp
        self._state.update(generation=stamp.generation, counts=found, vector_extension=extension)

    def count_sometimes(self) -> None:
        """Count, but at most once a second, and not all the time."""
        now = time.monotonic()
        if now < self._again:
            return
        try:
            self.count()
        except IndexUnusable:
            # The work that goes on is what repairs it; the count after it speaks up.
            self.stamp = None
        took = time.monotonic() - now
        self._again = now + max(_COUNT_SECONDS, took / COUNT_SHARE)

"""The state that the index thread shares: one lock, one immutable snapshot, the counts."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Any

from memtui.errors import IndexMissing, IndexUnusable
from memtui.index.database import mapped_errors, vector_extension
from memtui.index.generations import IndexFolder
from memtui.index.reader import IndexCounts, LiveIndex, Stamp, counts
from memtui.model import ErrorRecord, Progress, ProviderState, SkippedFile, SyncStats, Usage

if TYPE_CHECKING:
    from memtui.index.job import ProgressReporter, VectorProblem


_ERRORS_KEPT = 20
_PENDING_SHOWN = 200


class Work(Enum):
    """What the index thread is asked for or busy with."""

    NONE = "none"
    SYNC = "sync"
    REBUILD = "rebuild"


@dataclass(frozen=True, slots=True)
class IndexerSnapshot:
    """What the index thread knows, at one moment."""

    running: Work = Work.NONE
    progress: Progress | None = None
    pending: tuple[str, ...] = ()
    """Files whose change is seen and not yet indexed, at most 200."""
    pending_count: int = 0
    last_sync: SyncStats | None = None
    errors: tuple[ErrorRecord, ...] = ()
    """The last 20, oldest first."""
    failure: str | None = None
    """Why the last sync or rebuild failed; `None` when it ended well or was stopped."""
    stopped: str | None = None
    """How far the last sync or rebuild came when somebody stopped it; else `None`."""
    skipped: tuple[SkippedFile, ...] = ()
    cache_hits: int = 0
    usage: Usage = field(default_factory=Usage)
    cache_misses: int = 0
    cache_excess: int = 0
    """By how many bytes live vectors alone exceed the bound of the cache."""
    writer: str = "none"
    """`this process`, `process 1234`, or `none`."""
    generation: int = 0
    """The live generation; 0 when there is none."""
    counts: IndexCounts = field(default_factory=IndexCounts)
    problem: VectorProblem | None = None
    """Why vectors are missing although they should be there."""
    provider: ProviderState | None = None
    """What the provider said when it was asked last; `None` before."""
    vector_extension: str | None = None
    """The version of sqlite-vec; `None` when it cannot be loaded or was not tried yet."""


class IndexerState:
    """The shared state of an indexer; every method may be called from any thread."""

    def __init__(self) -> None:
        self.condition = threading.Condition()
        self.wanted = Work.NONE
        self.running = Work.NONE
        self.closing = False
        self.reporter: ProgressReporter | None = None
        self._seen: dict[str, None] = {}
        self._in_work: dict[str, None] = {}
        self._errors: deque[ErrorRecord] = deque(maxlen=_ERRORS_KEPT)
        self._base = IndexerSnapshot()

    def snapshot(self) -> IndexerSnapshot:
        """Tell how things are."""
        with self.condition:
            pending = {**self._in_work, **self._seen}
            return replace(
                self._base,
                running=self.running,
                progress=self.reporter.last if self.reporter else None,
                pending=tuple(pending)[:_PENDING_SHOWN],
                pending_count=len(pending),
                errors=tuple(self._errors),
            )

    def update(self, **changes: Any) -> None:
        """Replace fields of the snapshot."""
        with self.condition:
            self._base = replace(self._base, **changes)

    def record(self, where: str, message: str, at: datetime) -> None:
        """Remember an error, unless it is the last one again."""
        with self.condition:
            last = self._errors[-1] if self._errors else None
            if last is not None and (last.where, last.message) == (where, message):
                self._errors.pop()
            self._errors.append(ErrorRecord(at, where, message))

    def saw(self, paths: Sequence[str]) -> None:
        """Note files that are known to have changed."""
        with self.condition:
            self._seen.update(dict.fromkeys(paths))

    def waiting(self) -> tuple[str, ...]:
        """Tell the files that are known to have changed and that nobody works on."""
        with self.condition:
            return tuple(self._seen)

    def settled(self, paths: Sequence[str]) -> None:
        """Note files that wait no longer, because another process indexed them."""
        with self.condition:
            for path in paths:
                self._seen.pop(path, None)

    def take(self) -> None:
        """Begin to work on everything seen so far."""
        with self.condition:
            self._in_work.update(self._seen)
            self._seen.clear()

    def planned(self, paths: Sequence[str]) -> None:
        """Note what the scan found; files it found unchanged wait no longer."""
        with self.condition:
            self._in_work = dict.fromkeys(paths)

    def done(self, paths: Sequence[str]) -> None:
        """Note files that are indexed or removed."""
        with self.condition:
            for path in paths:
                self._in_work.pop(path, None)

    def ended_well(self) -> None:
        """Note that nothing that was in work waits any longer."""
        with self.condition:
            self._in_work.clear()


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

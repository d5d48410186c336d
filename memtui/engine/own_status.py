"""How memtui's own index is: one word, the facts behind it, and drift from the files."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from memtui.index.database import Connection, vector_extension
from memtui.index.indexer import IndexerSnapshot, Work
from memtui.index.reader import IndexCounts, counts, known_files, plan_changes
from memtui.memory.discover import Discovery
from memtui.model import (
    IndexState,
    IndexStatus,
    ProviderState,
    Reason,
    SkippedFile,
    WatcherState,
)
from memtui.text.tokens import FTS5_TOKENIZE

if TYPE_CHECKING:
    from memtui.engine.own_index import OwnIndex


TOKENIZER = f"{FTS5_TOKENIZE.split(' categories')[0]}, CJK in pairs, Thai in threes"
_PENDING_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Look:
    """What one look at the files and at the index found."""

    generation: int
    counts: IndexCounts
    vector_extension: str | None
    waiting: tuple[str, ...]
    """Files that are new, changed (by stat) or gone since they were indexed."""
    skipped: tuple[SkippedFile, ...]

    def onto(self, snapshot: IndexerSnapshot) -> IndexerSnapshot:
        """Put what was found in the place of what the index thread knew."""
        return replace(
            snapshot,
            generation=self.generation,
            counts=self.counts,
            vector_extension=self.vector_extension,
            pending=self.waiting[:_PENDING_SHOWN],
            pending_count=len(self.waiting),
            skipped=self.skipped,
        )


def look(connection: Connection | None, generation: int, discovery: Discovery) -> Look:
    """Compare a scan of the files with the index; without an index every file is waiting."""
    if connection is None:
        waiting = tuple(file.path for file in discovery.files)
        return Look(0, IndexCounts(0, 0, 0, ()), None, waiting, discovery.skipped)
    plan = plan_changes(discovery.files, known_files(connection), discovery.unread)
    return Look(
        generation,
        counts(connection),
        vector_extension(connection),
        (*plan.changed, *plan.removed),
        discovery.skipped,
    )


def compose(
    index: OwnIndex,
    snapshot: IndexerSnapshot,
    *,
    backend: str,
    warnings: Sequence[str | None],
) -> IndexStatus:
    """Make the status out of what each part knows."""
    counts, writer = snapshot.counts, index.writer
    lines = [line for line in warnings if line]
    if snapshot.generation and snapshot.vector_extension is None:
        lines.append("sqlite-vec cannot be loaded: vectors are kept in the cache alone")
    if snapshot.problem is not None and snapshot.problem.is_of_texts:
        lines.append(snapshot.problem.detail)
    if snapshot.cache_excess:
        excess = -(-snapshot.cache_excess // 10**6)
        lines.append(
            f"the vectors in use take {excess} MB more than index.cache_mb allows: they are kept"
        )
    provider = index.provider_state()
    return IndexStatus(
        state=state_of(snapshot, provider),
        root=str(index.root),
        index_dir=str(index.folder.folder),
        generation=snapshot.generation,
        files=counts.files,
        chunks=counts.chunks,
        vectors=counts.vectors,
        sources=counts.sources,
        pending=snapshot.pending,
        pending_count=snapshot.pending_count,
        skipped=snapshot.skipped,
        provider=provider,
        vector_backend=backend,
        tokenizer=TOKENIZER,
        watcher=(writer.watcher_state() if writer is not None else None) or WatcherState("off"),
        writer=snapshot.writer,
        last_sync=snapshot.last_sync,
        progress=snapshot.progress,
        cache_hits=snapshot.cache_hits,
        cache_misses=snapshot.cache_misses,
        errors=snapshot.errors,
        warnings=tuple(lines),
        made_by=index.made_by,
        usage=snapshot.usage,
    )


def state_of(snapshot: IndexerSnapshot, provider: ProviderState) -> IndexState:
    """The one word: what runs comes first, then what is wrong, then what waits."""
    if snapshot.running is not Work.NONE:
        return IndexState.INDEXING
    if snapshot.failure is not None:
        return IndexState.ERROR
    if not snapshot.generation:
        return IndexState.NO_INDEX
    if snapshot.problem is not None or provider.state is Reason.PROVIDER_FAILED:
        return IndexState.DEGRADED
    if snapshot.pending_count or _lacks_vectors(snapshot, provider):
        return IndexState.STALE
    return IndexState.READY


def _lacks_vectors(snapshot: IndexerSnapshot, provider: ProviderState) -> bool:
    """Whether chunks still wait for a vector, as after a run that was stopped."""
    counts = snapshot.counts
    return provider.model is not None and counts.vectors < counts.chunks


LEAST_MOVED: Final = timedelta(hours=1)
"""Less is a clock that is set right; no age on a screen tells the difference."""

_FORWARD_IS_TOLD: Final = sys.platform == "linux"
"""Elsewhere the time that a machine slept is in no count of seconds, and would look like a move."""


def running_seconds() -> float:
    """Seconds that no setting of the clock changes; on Linux with those the machine slept."""
    if sys.platform == "linux":
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class ClockWatch:
    """Compares the clock with the seconds since it was made."""

    def __init__(
        self, now: Callable[[], datetime], seconds: Callable[[], float] = running_seconds
    ) -> None:
        self._now = now
        self._seconds = seconds
        self._offset = self._expected()

    def moved(self) -> timedelta:
        """How far the clock was moved, negative for back; nothing while it is about right."""
        moved = self._expected() - self._offset
        if abs(moved) < LEAST_MOVED or (moved > timedelta() and not _FORWARD_IS_TOLD):
            return timedelta()
        return moved

    def warning(self) -> str | None:
        """One line for the screen while the clock is moved."""
        moved = self.moved()
        if not moved:
            return None
        hours = round(abs(moved) / timedelta(hours=1))
        far = f"{hours // 24} days" if hours >= 48 else f"{hours} h"
        way = "back" if moved < timedelta() else "forward"
        return f"the clock was moved {way} by {far}: ages and decay count from its new time"

    def _expected(self) -> datetime:
        """When the seconds began to be counted, as the clock tells it now."""
        return self._now() - timedelta(seconds=self._seconds())

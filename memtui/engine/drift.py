"""Drift: how the files on disk differ from what the index holds, found by looking, not guessed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from memtui.index.database import Connection, vector_extension
from memtui.index.indexer_state import IndexerSnapshot
from memtui.index.reader import IndexCounts, counts
from memtui.index.scan import known_files, plan_changes
from memtui.memory.discover import Discovery
from memtui.model import SkippedFile

_SHOWN = 200


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
            pending=self.waiting[:_SHOWN],
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

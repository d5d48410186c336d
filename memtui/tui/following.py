"""Which events say that the index holds something else than before."""

from __future__ import annotations

from memtui.bus import Event, FileIndexed, IndexChanged, IndexSwapped, SyncFinished
from memtui.tui.bridge import messages_for
from memtui.tui.messages import IndexContentChanged

CHANGES = (FileIndexed, IndexChanged, IndexSwapped, SyncFinished)
"""The events to subscribe to; not each of them is a change."""


def changes_content(event: Event) -> bool:
    """Whether after an event the index may hold something else."""
    return any(isinstance(message, IndexContentChanged) for message in messages_for(event))

"""The road from the message bus to the interface: events become Textual messages."""

from __future__ import annotations

from collections.abc import Callable

from textual.message import Message

from memtui.bus import (
    Bus,
    Event,
    FileIndexed,
    FilesChanged,
    FileSkipped,
    ForeignExamined,
    IndexChanged,
    IndexSwapped,
    LegDegraded,
    LegRecovered,
    SearchFailed,
    SearchReady,
    StatusChanged,
    SyncFailed,
    SyncFinished,
    SyncProgressed,
    SyncStarted,
)
from memtui.model import SyncStats
from memtui.tui.messages import (
    IndexContentChanged,
    IndexExamined,
    IndexStatusChanged,
    LegChanged,
    SearchAnswered,
    SearchErred,
    SyncEnded,
)

_BURSTS = frozenset({IndexContentChanged, IndexStatusChanged})
"""Messages without content: while one waits to be handled, another would say nothing new."""

Post = Callable[[Message], object]

_STATUS = (StatusChanged, SyncStarted, SyncProgressed, FilesChanged, FileSkipped)
_OTHERS = (
    SearchReady,
    SearchFailed,
    FileIndexed,
    SyncFinished,
    SyncFailed,
    ForeignExamined,
    IndexChanged,
    IndexSwapped,
    LegDegraded,
    LegRecovered,
)


class Bridge:
    """Turns bus events into messages; runs on the publisher's thread and only posts."""

    def __init__(self, bus: Bus, post: Post, memory: int = 0) -> None:
        """`memory` is put on every answer: each engine counts its requests from the beginning."""
        self._post = post
        self._memory = memory
        self._waiting: set[type[Message]] = set()
        self._subscription = bus.subscribe((*_STATUS, *_OTHERS), self._forward)

    def close(self) -> None:
        """Stop forwarding."""
        self._subscription.close()

    def _forward(self, event: Event) -> None:
        for message in messages_for(event):
            kind = type(message)
            if isinstance(message, SearchAnswered | SearchErred):
                message.memory = self._memory
            if kind in _BURSTS:
                if kind in self._waiting:
                    continue
                self._waiting.add(kind)
            self._post(message)

    def taken(self, message: Message) -> None:
        """Let the next message of this kind through; call it before looking at what changed."""
        self._waiting.discard(type(message))


def messages_for(event: Event) -> tuple[Message, ...]:
    """Translate one event; unknown events give nothing."""
    match event:
        case SearchReady():
            return (SearchAnswered(event.sequence, event.ranked, event.complete),)
        case SearchFailed():
            return (SearchErred(event.sequence, event.error),)
        case SyncFinished():
            ended = SyncEnded(sync_note(event.stats))
            changed = (IndexContentChanged(),) if _changed_anything(event.stats) else ()
            return (*changed, ended, IndexStatusChanged())
        case SyncFailed():
            return (SyncEnded("", event.error), IndexStatusChanged())
        case ForeignExamined():
            return (IndexExamined(event.problem), IndexStatusChanged())
        case FileIndexed() | IndexSwapped() | IndexChanged():
            return (IndexContentChanged(), IndexStatusChanged())
        case LegDegraded():
            reason = event.detail or event.reason.value.replace("_", " ")
            return (LegChanged(f"{event.leg} leg: {reason}", False), IndexStatusChanged())
        case LegRecovered():
            return (LegChanged(f"{event.leg} leg answers again", True), IndexStatusChanged())
        case StatusChanged() | SyncStarted() | SyncProgressed() | FilesChanged() | FileSkipped():
            return (IndexStatusChanged(),)
        case _:
            return ()


def sync_note(stats: SyncStats) -> str:
    """Say in one line what a sync did."""
    parts = [
        f"{count} {word}"
        for count, word in (
            (stats.files_added, "added"),
            (stats.files_changed, "changed"),
            (stats.files_removed, "removed"),
        )
        if count
    ]
    done = ", ".join(parts) if parts else "nothing changed"
    kind = "rebuilt" if stats.rebuild else "synced"
    return f"{kind}: {done} ({stats.seconds:.1f} s)"


def _changed_anything(stats: SyncStats) -> bool:
    return stats.rebuild or any(
        (stats.files_added, stats.files_changed, stats.files_removed, stats.chunks_embedded)
    )

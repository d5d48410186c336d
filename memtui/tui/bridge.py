"""The road from the message bus to the interface: events become Textual messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

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
from memtui.model import Ranked, SyncStats
from memtui.model.status import ForeignAgent

if TYPE_CHECKING:
    from memtui.tui.memories import OpenedMemory


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


@dataclass
class EngineOpened(Message):
    """A memory is ready to be asked; its engine publishes on `bus`."""

    memory: OpenedMemory
    bus: Bus


@dataclass
class EngineFailed(Message):
    """The engine could not be opened."""

    error: str


@dataclass
class AgentsFound(Message):
    """The agents of this machine were looked for; `error` says why they could not be."""

    agents: Sequence[ForeignAgent]
    error: str = ""


@dataclass
class SearchAnswered(Message):
    """The engine answered request `sequence`; `complete` is false while a leg is still running."""

    sequence: int
    ranked: Ranked
    complete: bool
    memory: int = 0
    """Which of the memories opened so far it is from."""


@dataclass
class SearchErred(Message):
    """The engine could not answer request `sequence`."""

    sequence: int
    error: str
    memory: int = 0
    """Which of the memories opened so far it is from."""


class IndexStatusChanged(Message):
    """The index status may be different; the receiver asks for a snapshot."""

    def can_replace(self, message: Message) -> bool:
        """Let a burst collapse into its last message."""
        return isinstance(message, IndexStatusChanged)


class IndexContentChanged(Message):
    """Chunks were added, changed or removed: what is shown may be out of date."""

    def can_replace(self, message: Message) -> bool:
        """Let a burst collapse into its last message."""
        return isinstance(message, IndexContentChanged)


@dataclass
class SyncEnded(Message):
    """A sync or a rebuild ended; `error` is empty when it ended well, `note` says what it did."""

    note: str
    error: str = ""


@dataclass
class IndexExamined(Message):
    """The truth report of another program's index was made; `problem` says why it was not."""

    problem: str


@dataclass
class LegChanged(Message):
    """A leg stopped answering, or answers again."""

    note: str
    healthy: bool


_BURSTS = frozenset({IndexContentChanged, IndexStatusChanged})
"""Messages without content: while one waits to be handled, another would say nothing new."""


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


CHANGES = (FileIndexed, IndexChanged, IndexSwapped, SyncFinished)
"""The events to subscribe to; not each of them is a change."""


def changes_content(event: Event) -> bool:
    """Whether after an event the index may hold something else."""
    return any(isinstance(message, IndexContentChanged) for message in messages_for(event))

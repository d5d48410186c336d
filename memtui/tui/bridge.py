"""The road from the message bus to the interface: what an engine publishes, as Textual messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

from memtui.bus import (
    Bus,
    Event,
    FileIndexed,
    ForeignExamined,
    IndexChanged,
    IndexSwapped,
    LegDegraded,
    LegRecovered,
    SearchFailed,
    SearchReady,
    SyncFailed,
    SyncFinished,
)

if TYPE_CHECKING:
    from memtui.engine import Engine

CHANGES = (FileIndexed, IndexChanged, IndexSwapped, SyncFinished)
"""The events to subscribe to; not each of them is a change."""
_ANSWERS = (SearchReady, SearchFailed)
_HANDED_ON = (*_ANSWERS, SyncFinished, SyncFailed, ForeignExamined, LegDegraded, LegRecovered)


@dataclass
class EngineOpened(Message):
    """A memory is ready to be asked."""

    engine: Engine
    is_new: bool = False
    """Whether it was never indexed before it was opened."""


@dataclass
class Published(Message):
    """An event of an engine, with the bus of its memory: each counts requests from one."""

    event: Event
    bus: Bus


class IndexStatusChanged(Message):
    """The index status may be different; the receiver asks for a snapshot."""


class IndexContentChanged(Message):
    """Chunks were added, changed or removed: what is shown may be out of date."""


class Bridge:
    """Posts what an engine publishes, from the publisher's thread.

    The two messages without content wait to be handled at most once each: another one would say
    nothing new, and a sync publishes thousands.
    """

    def __init__(self, bus: Bus, post: Callable[[Message], object]) -> None:
        self._bus = bus
        self._post = post
        self._waiting: set[type[Message]] = set()
        self._subscription = bus.subscribe(Event, self._forward)

    def close(self) -> None:
        """Stop forwarding."""
        self._subscription.close()

    def _forward(self, event: Event) -> None:
        if isinstance(event, _ANSWERS):
            self._post(Published(event, self._bus))
            return
        if isinstance(event, CHANGES) and changes_content(event):
            self._post_once(IndexContentChanged)
        if isinstance(event, _HANDED_ON):
            self._post(Published(event, self._bus))
        self._post_once(IndexStatusChanged)

    def _post_once(self, kind: type[Message]) -> None:
        if kind not in self._waiting:
            self._waiting.add(kind)
            self._post(kind())

    def taken(self, message: Message) -> None:
        """Let the next message of this kind through; call it before looking at what changed."""
        self._waiting.discard(type(message))


def changes_content(event: Event) -> bool:
    """Tell whether after one of the `CHANGES` the index may hold something else."""
    if not isinstance(event, SyncFinished):
        return True
    stats = event.stats
    return stats.rebuild or any(
        (stats.files_added, stats.files_changed, stats.files_removed, stats.chunks_embedded)
    )

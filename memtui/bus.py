"""The in-process message bus: typed, thread-safe, unaware of any user interface."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from memtui.model import Leg, Progress, Ranked, Reason, SyncStats


@dataclass(frozen=True, slots=True)
class Event:
    """Something that has happened."""


@dataclass(frozen=True, slots=True)
class FilesChanged(Event):
    """The watcher saw changes; an empty tuple means "anything may have changed"."""

    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SyncStarted(Event):
    """A sync or a rebuild began."""

    rebuild: bool


@dataclass(frozen=True, slots=True)
class SyncProgressed(Progress, Event):
    """A sync came further in its phase, `files` or `vectors`."""


@dataclass(frozen=True, slots=True)
class FileIndexed(Event):
    """A file's chunks are in the index."""

    path: str
    chunks: int


@dataclass(frozen=True, slots=True)
class FileSkipped(Event):
    """A file is left out of the index, with the reason code."""

    path: str
    reason: Reason


@dataclass(frozen=True, slots=True)
class SyncFinished(Event):
    """A sync or a rebuild ended well."""

    stats: SyncStats


@dataclass(frozen=True, slots=True)
class SyncFailed(Event):
    """A sync or a rebuild ended early; what was committed before stays."""

    error: str
    at: datetime
    exit_code: int = 1
    """What the command line returns for it, as `MemtuiError.exit_code`."""


@dataclass(frozen=True, slots=True)
class ForeignExamined(Event):
    """The truth report of another program's index was made, or could not be."""

    problem: str
    """One line; empty when the report is there."""


@dataclass(frozen=True, slots=True)
class IndexSwapped(Event):
    """Another generation is live."""

    generation: int


@dataclass(frozen=True, slots=True)
class IndexChanged(Event):
    """Another process committed to the live index."""


@dataclass(frozen=True, slots=True)
class LegDegraded(Event):
    """A leg stopped answering, with the reason code."""

    leg: Leg
    reason: Reason
    detail: str = ""


@dataclass(frozen=True, slots=True)
class LegRecovered(Event):
    """A leg answers again."""

    leg: Leg


@dataclass(frozen=True, slots=True)
class SearchReady(Event):
    """An answer to request `sequence`; `complete` is false while a slower leg is still running."""

    sequence: int
    ranked: Ranked
    complete: bool


@dataclass(frozen=True, slots=True)
class SearchFailed(Event):
    """Request `sequence` could not be answered."""

    sequence: int
    error: str


@dataclass(frozen=True, slots=True)
class StatusChanged(Event):
    """The index status differs from the one published before."""


def changes_content(event: Event) -> bool:
    """Tell whether after an event the index may hold something else."""
    if isinstance(event, SyncFinished):
        stats = event.stats
        changed = stats.files_added + stats.files_changed + stats.files_removed
        return stats.rebuild or bool(changed + stats.chunks_embedded)
    return isinstance(event, FileIndexed | IndexChanged | IndexSwapped)


Handler = Callable[[Any], None]


@dataclass(frozen=True, slots=True, eq=False)
class Subscription:
    """A handler's registration; `close` ends it and may be called twice."""

    bus: Bus
    types: tuple[type[Event], ...]
    handler: Handler

    def close(self) -> None:
        """End the registration; a handler that is running now still finishes."""
        with self.bus.lock:
            self.bus.subscriptions = tuple(s for s in self.bus.subscriptions if s is not self)


class Bus:
    """Publish and subscribe by event type.

    A handler runs on the publisher's thread and must be quick. An exception in a handler goes to
    `on_error` and reaches neither the publisher nor the other handlers; without `on_error` it
    reaches the publisher once every handler was called.
    """

    def __init__(self, on_error: Callable[[Event, Exception], None] | None = None) -> None:
        self.lock = threading.Lock()
        self.subscriptions: tuple[Subscription, ...] = ()
        self.on_error = on_error

    def publish(self, event: Event) -> None:
        """Hand `event` to every subscriber of its type."""
        failures: list[Exception] = []
        for subscription in self.subscriptions:
            if isinstance(event, subscription.types):
                try:
                    subscription.handler(event)
                except Exception as error:
                    failures.append(error)
        for failure in failures:
            if self.on_error is None:
                raise failure
            self.on_error(event, failure)

    def subscribe(
        self, types: type[Event] | tuple[type[Event], ...], handler: Handler
    ) -> Subscription:
        """Call `handler` with every event of these types, on the publisher's thread."""
        types = types if isinstance(types, tuple) else (types,)
        subscription = Subscription(self, types, handler)
        with self.lock:
            self.subscriptions = (*self.subscriptions, subscription)
        return subscription

"""The in-process message bus: typed, thread-safe, unaware of any user interface."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeAlias

from msgspec import Struct

from memtui.model import Leg, Progress, Ranked, Reason, SkippedFile, SyncStats


class Event(Struct, frozen=True):
    """Something that has happened."""


class SyncStarted(Event, frozen=True):
    """A sync or a rebuild began."""


class SyncProgressed(Progress, Event, frozen=True):
    """A sync came further in its phase, `files` or `vectors`."""


class FileIndexed(Event, frozen=True):
    """A file's chunks are in the index."""


class TextsWithheld(Event, frozen=True):
    """Chunks with a credential were found that a service is not sent; nothing was sent before."""

    chunks: tuple[SkippedFile, ...]


class SyncFinished(Event, frozen=True):
    """A sync or a rebuild ended well."""

    stats: SyncStats


class SyncFailed(Event, frozen=True):
    """A sync or a rebuild ended early; what was committed before stays."""

    error: str
    exit_code: int = 1
    """The exit code of the command line for it, as `MemtuiError.exit_code`."""


class ForeignExamined(Event, frozen=True):
    """The truth report of another program's index was made, or could not be."""

    problem: str
    """One line; empty when the report is there."""


class IndexChanged(Event, frozen=True):
    """Another generation is live, or another process committed to the live one."""


class LegChanged(Event, frozen=True):
    """A leg stopped answering, with the reason code; or answers again, where that is `OK`."""

    leg: Leg
    reason: Reason = Reason.OK
    detail: str = ""


class SearchReady(Event, frozen=True):
    """An answer to request `sequence`; `complete` is false while a slower leg is still running."""

    sequence: int
    ranked: Ranked
    complete: bool


class SearchFailed(Event, frozen=True):
    """Request `sequence` could not be answered."""

    sequence: int
    error: str


class StatusChanged(Event, frozen=True):
    """The index status differs from the one published before."""


def changes_content(event: Event) -> bool:
    """Tell whether after an event the index may hold something else."""
    if isinstance(event, SyncFinished):
        stats = event.stats
        changed = stats.files_added + stats.files_changed + stats.files_removed
        return stats.rebuild or bool(changed + stats.chunks_embedded)
    return isinstance(event, FileIndexed | IndexChanged)


EventTypes: TypeAlias = type[Event] | tuple[type[Event], ...]


class Bus:
    """Publish and subscribe by event type.

    A handler runs on the publisher's thread and must be quick. An exception in a handler goes to
    `on_error` and reaches neither the publisher nor the other handlers; without `on_error` it
    reaches the publisher once every handler was called.
    """

    def __init__(self) -> None:
        self.on_error: Callable[[Event, Exception], None] | None = None
        self._lock = threading.Lock()
        self._handlers: tuple[tuple[EventTypes, Callable[[Any], None]], ...] = ()

    def publish(self, event: Event) -> None:
        """Hand `event` to every subscriber of its type."""
        failures: list[Exception] = []
        for types, handler in self._handlers:
            if isinstance(event, types):
                try:
                    handler(event)
                except Exception as error:
                    failures.append(error)
        for failure in failures:
            if self.on_error is None:
                raise failure
            self.on_error(event, failure)

    def subscribe(self, types: EventTypes, handler: Callable[[Any], None]) -> Callable[[], None]:
        """Call `handler` with every event of these types, on the publisher's thread.

        Returns what ends that: a handler that is running then still finishes.
        """
        registered = types, handler
        with self._lock:
            self._handlers = (*self._handlers, registered)

        def unsubscribe() -> None:
            with self._lock:
                self._handlers = tuple(one for one in self._handlers if one is not registered)

        return unsubscribe

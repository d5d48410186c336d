"""Keeping memtui's own index up to date: the index thread, what it watches, what it asks again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import datetime
from threading import TIMEOUT_MAX
from typing import TYPE_CHECKING, Final

from memtui.bus import (
    Bus,
    Event,
    FilesChanged,
    IndexChanged,
    IndexSwapped,
    StatusChanged,
    SyncFinished,
)
from memtui.engine.providers.timer import PendingVectors
from memtui.index.indexer import CacheBound, Indexer, IndexerSnapshot
from memtui.index.job import Courtesy
from memtui.index.schema import Recipe
from memtui.model import Reason, WatcherState

if TYPE_CHECKING:
    from memtui.engine.own_index import OwnIndex
    from memtui.index.watcher import Watcher

_MEGABYTE: Final = 10**6


class OwnWriter:
    """Writes the index of a memory, or follows the process that does; any thread."""

    def __init__(
        self,
        index: OwnIndex,
        bus: Bus,
        now: Callable[[], datetime],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._index = index
        self._bus = bus
        self._now = now
        self._courtesy = Courtesy()
        self.indexer = Indexer(
            index.folder,
            index.scope,
            self._recipe(),
            provider=index.providers.get,
            cache=index.cache,
            bus=bus,
            now=now,
            bound=CacheBound(
                index.settings.index.cache_mb * _MEGABYTE, lambda: index.providers.spared
            ),
            transcripts=index.transcript_scope,
            courtesy=self._courtesy,
        )
        self.pending = PendingVectors(self.indexer, bus, clock=clock)
        self._changing = threading.Lock()
        index.providers.changed = self._provider_changed
        self._watcher: Watcher | None = None
        self._subscriptions = (
            bus.subscribe(FilesChanged, lambda event: self.indexer.expect(event.paths)),
            bus.subscribe((IndexSwapped, IndexChanged, SyncFinished), self._note_provider),
        )
        if bus.on_error is None:
            # A handler that fails must not end the thread that published.
            bus.on_error = self._handler_failed

    def start(self, *, watch: bool) -> None:
        """Start the index thread; with `watch`, follow changes of the files."""
        self.indexer.start()
        if not watch:
            return
        index = self._index.settings.index
        if not index.watch:
            self.indexer.sync()
            return
        from memtui.index.watcher import Watcher, WatchTimes

        times = WatchTimes(quiet=index.debounce_seconds, rescan=index.rescan_seconds)
        self._watcher = Watcher(
            self._index.scope, self._bus, self.indexer.sync, times=times, now=self._now
        )
        self._watcher.start()
        self._index.transcripts.follow()

    def sync(self) -> None:
        self._ask_again()
        self.indexer.sync()

    def rebuild(self) -> None:
        self._ask_again()
        self.indexer.rebuild()

    def cancel(self) -> None:
        self.indexer.cancel()

    def hold(self) -> None:
        self._courtesy.typed()

    def require(self) -> None:
        self.indexer.require_writer()

    def wait_idle(self, timeout: float = TIMEOUT_MAX) -> bool:
        return self.indexer.wait_idle(timeout)

    @property
    def is_writer(self) -> bool:
        """Whether this process writes the index."""
        return self.indexer.is_writer

    def snapshot(self) -> IndexerSnapshot:
        """What the index thread knows."""
        return self.indexer.snapshot()

    def watcher_state(self) -> WatcherState | None:
        """How changes of the files are followed; `None` where they are not."""
        return self._watcher.state() if self._watcher is not None else None

    def is_filling(self) -> bool:
        """Whether an index run has still something to do."""
        progress = self.indexer.snapshot().progress
        # A run that has done everything publishes its end before it is over.
        return progress is not None and progress.done < progress.total

    def stop(self) -> None:
        if self._watcher is not None:
            self._watcher.stop()
        self._index.transcripts.close()
        for subscription in self._subscriptions:
            subscription.close()
        self.pending.close()
        self.indexer.cancel()

    def close(self) -> None:
        self.indexer.close()

    # --- providers ------------------------------------------------------------------------

    def _recipe(self) -> Recipe:
        chunking = self._index.settings.chunking
        return Recipe(self._index.providers.identity, chunking.tokens, chunking.overlap)

    def _provider_changed(self) -> None:
        """Another provider answers, or the chosen one does again; from any thread."""
        with self._changing:
            # Of two changes at once the later one is what counts.
            self.indexer.use(self._recipe())
        # Who only searches must not be made to index.
        state = self._index.providers.state().state
        if self.indexer.has_run and state is not Reason.PROVIDER_FAILED:
            self.indexer.sync()
        self._bus.publish(StatusChanged())

    def _note_provider(self, event: Event) -> None:
        """Tell other programs who made the index, on the thread that did; or hear it from them."""
        index = self._index
        if not self.is_writer:
            index.noted_state = index.noted.read()
            return
        if index.providers.is_untried:
            return
        try:
            index.noted.note(index.providers.state(lasting=True))
        except OSError as error:
            self.indexer.record("provider", f"cannot be noted: {error.strerror}")

    def _ask_again(self) -> None:
        self._index.providers.retry()
        self.indexer.ask_again()
        self._index.forget_look()

    def _handler_failed(self, event: Event, error: Exception) -> None:
        text = f"{type(event).__name__}: {type(error).__name__}: {error}"
        self.indexer.record("bus", text)

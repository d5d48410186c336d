"""The index thread: the only writer of an index, or a follower of the process that writes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial

from memtui.bus import (
    Bus,
    IndexChanged,
    IndexSwapped,
    LegRecovered,
    StatusChanged,
    SyncFailed,
    SyncFinished,
    SyncStarted,
)
from memtui.embedding.cache import EmbeddingCache
from memtui.embedding.provider import Provider
from memtui.errors import Cancelled, IndexMissing, IndexUnusable, MemtuiError
from memtui.index.database import IndexDamaged, mapped_errors, vector_extension
from memtui.index.files import known_files, plan_changes
from memtui.index.generations import IndexFolder, WriterLock
from memtui.index.job import Job, ProviderFactory, SyncResult
from memtui.index.progress import VECTORS, ProgressReporter
from memtui.index.reader import LiveIndex, Stamp, counts
from memtui.index.rebuild import rebuild
from memtui.index.recipe import Recipe
from memtui.index.state import IndexerSnapshot, IndexerState, Work
from memtui.index.sync import sync
from memtui.memory.discover import Scope, discover
from memtui.model import Leg, ProviderState

__all__ = ["Indexer", "IndexerSnapshot", "Work"]

_POLL_SECONDS = 1.0
_COUNT_SECONDS = 1.0
# Counting a large index takes a while; it may take this part of the time at most.
_COUNT_SHARE = 0.05


class Indexer:
    """One daemon thread that runs one sync or rebuild at a time.

    Requests made while one runs are run once more after it, as one. Without the writer lock it
    writes nothing, follows what the writing process does, and takes over when that one ends;
    what was asked of it is then done. With `write` false it never writes. The provider and the
    cache belong to the caller, who closes them after the indexer.
    """

    def __init__(
        self,
        folder: IndexFolder,
        scope: Scope,
        recipe: Recipe,
        *,
        provider: ProviderFactory,
        cache: EmbeddingCache,
        bus: Bus,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        write: bool = True,
        poll_seconds: float = _POLL_SECONDS,
    ) -> None:
        self._folder = folder
        self._scope = scope
        self._recipe = recipe
        self._make_provider = provider
        self._loaded: tuple[Provider, ProviderState] | None = None
        self._cache = cache
        self._bus = bus
        self._now = now
        self._write = write
        self._poll_seconds = poll_seconds
        self._lock = WriterLock(folder)
        self._live = LiveIndex(folder)
        self._stamp: Stamp | None = None
        self._count_again = 0.0
        self._settle_again = 0.0
        self._degraded = False
        self._cancelled = threading.Event()
        self._state = IndexerState()
        self._thread = threading.Thread(target=self._run, name="memtui-index", daemon=True)

    # --- called from any thread -----------------------------------------------------------

    def start(self) -> None:
        """Try for the writer lock and start the thread; raises `IndexUnusable`."""
        if self._write:
            self._lock.try_acquire()
        self._state.update(writer=self._writer_name())
        self._thread.start()

    @property
    def is_writer(self) -> bool:
        """Whether this process writes the index."""
        return self._lock.held

    def require_writer(self) -> None:
        """Raise `WriterLocked`, naming the process, when another one writes the index."""
        if not self._lock.held:
            raise self._lock.refusal()

    def record(self, where: str, message: str) -> None:
        """Add to the errors that the status lists."""
        self._state.record(where, message, self._now())

    def expect(self, paths: Sequence[str]) -> None:
        """Show files as pending that a sync, asked for later, will read."""
        self._state.saw(paths)

    def sync(self, paths: Sequence[str] = ()) -> None:
        """Ask for a sync; `paths` are files known to have changed, shown as pending until then."""
        self._state.saw(paths)
        with self._state.condition:
            if self._state.wanted is Work.NONE:
                self._state.wanted = Work.SYNC
            self._state.condition.notify_all()

    def rebuild(self) -> None:
        """Ask for a rebuild; it takes the place of a sync that waits."""
        with self._state.condition:
            self._state.wanted = Work.REBUILD
            self._state.condition.notify_all()

    def cancel(self) -> None:
        """Stop what runs and forget what waits; what was committed stays."""
        with self._state.condition:
            self._state.wanted = Work.NONE
            if self._state.running is not Work.NONE:
                self._cancelled.set()
            self._state.condition.notify_all()

    def wait_idle(self, timeout: float = 30.0) -> bool:
        """Wait until nothing runs and nothing waits that this process can do; whether it is so."""
        with self._state.condition:
            return self._state.condition.wait_for(self._idle, timeout)

    def snapshot(self) -> IndexerSnapshot:
        """Tell how things are; never waits for the disk."""
        return self._state.snapshot()

    def close(self, timeout: float = 10.0) -> None:
        """Stop what runs, end the thread, give the lock back."""
        with self._state.condition:
            self._state.closing = True
            self._state.wanted = Work.NONE
            self._cancelled.set()
            self._state.condition.notify_all()
        if self._thread.ident is not None:
            self._thread.join(timeout)
        else:
            self._lock.release()

    # --- the thread -----------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._guard(self._look)
            while (work := self._next()) is not None:
                if work is Work.NONE:
                    self._guard(self._follow)
                else:
                    self._guard(partial(self._work, work))
                    self._guard(self._count)
                self._finish()
        finally:
            self._live.close()
            self._lock.release()
            with self._state.condition:
                self._state.condition.notify_all()

    def _guard(self, action: Callable[[], None]) -> None:
        """Run one step; whatever goes wrong in it is recorded and the thread lives on."""
        try:
            action()
        except Exception as error:
            text = str(error) if isinstance(error, MemtuiError) else _describe(error)
            if self._state.snapshot().failure == text and action == self._follow:
                return
            self._state.record("index", text, self._now())
            self._state.update(failure=text)
            exit_code = error.exit_code if isinstance(error, MemtuiError) else 1
            self._bus.publish(SyncFailed(text, self._now(), exit_code))

    def _next(self) -> Work | None:
        """Wait for something to do: work, `Work.NONE` to look around, `None` to end."""
        state = self._state
        with state.condition:
            state.condition.wait_for(
                lambda: state.closing or self._can_work(),
                None if self._lock.held else self._poll_seconds,
            )
            if state.closing:
                return None
            if not self._can_work():
                return Work.NONE
            self._cancelled.clear()
            state.running, state.wanted = state.wanted, Work.NONE
            return state.running

    def _finish(self) -> None:
        with self._state.condition:
            self._state.running = Work.NONE
            self._state.reporter = None
            self._state.condition.notify_all()

    def _can_work(self) -> bool:
        return self._lock.held and self._state.wanted is not Work.NONE

    def _idle(self) -> bool:
        ended = self._thread.ident is not None and not self._thread.is_alive()
        return ended or (self._state.running is Work.NONE and not self._can_work())

    def _work(self, work: Work) -> None:
        reporter = ProgressReporter(self._bus, published=self._count_sometimes)
        self._state.reporter = reporter
        self._state.take()
        self._bus.publish(SyncStarted(work is Work.REBUILD))
        try:
            result = self._perform(work, reporter)
        except Cancelled:
            text = _stopped(work, reporter)
            self._state.update(failure=None, stopped=text)
            self._bus.publish(SyncFailed(text, self._now()))
            return
        self._note(result)
        if result.stats.rebuild:
            # What changed while the rebuild ran.
            self.sync()
        self._bus.publish(SyncFinished(result.stats))

    def _perform(self, work: Work, reporter: ProgressReporter) -> SyncResult:
        if not self._lock.confirm():
            raise self._lock.refusal()
        job = self._job(reporter)
        if work is Work.REBUILD:
            return rebuild(job)
        self._folder.clean()
        try:
            return sync(job)
        except IndexDamaged as error:
            # The files are the truth: a damaged index is named, and made again.
            self._state.record("index", error.message, self._now())
            self._bus.publish(StatusChanged())
            return rebuild(job)

    def _job(self, reporter: ProgressReporter) -> Job:
        return Job(
            folder=self._folder,
            scope=self._scope,
            recipe=self._recipe,
            cache=self._cache,
            provider=self._provider,
            bus=self._bus,
            progress=reporter,
            cancelled=self._cancelled.is_set,
            now=self._now,
            planned=self._state.planned,
            done=self._state.done,
        )

    def _provider(self) -> tuple[Provider | None, ProviderState]:
        if self._loaded is not None:
            return self._loaded
        provider, state = self._make_provider()
        if provider is not None:
            self._loaded = provider, state
        return provider, state

    def _note(self, result: SyncResult) -> None:
        if result.problem is not None:
            self._state.record("embedding", result.problem.detail, self._now())
        elif self._degraded:
            self._bus.publish(LegRecovered(Leg.VECTOR))
        self._degraded = result.problem is not None
        self._state.ended_well()
        before = self._state.snapshot()
        self._count()
        self._state.update(
            last_sync=result.stats,
            failure=None,
            stopped=None,
            skipped=result.skipped,
            cache_hits=before.cache_hits + result.stats.cache_hits,
            cache_misses=before.cache_misses + result.cache_misses,
            problem=result.problem,
            provider=result.provider or before.provider,
        )

    def _follow(self) -> None:
        """Look whether the writing process changed something, or left the lock to this one."""
        if self._write and self._lock.try_acquire(seconds=0.0):
            self._state.update(writer=self._writer_name(), failure=None)
            self._bus.publish(StatusChanged())
            # Whatever the former owner left undone.
            self.sync()
            return
        self._settle()
        before, generation = self._stamp, self._state.snapshot().generation
        writer = self._state.snapshot().writer
        self._count()
        if self._stamp is not None and self._stamp.generation != generation:
            self._bus.publish(IndexSwapped(self._stamp.generation))
        elif self._stamp != before:
            self._bus.publish(IndexChanged())
        if self._stamp != before or self._writer_name() != writer:
            self._state.update(failure=None, writer=self._writer_name())
            self._bus.publish(StatusChanged())

    def _settle(self) -> None:
        """Forget the files that wait here when the writing process has taken them in."""
        now = time.monotonic()
        waiting = self._state.waiting()
        if not waiting or now < self._settle_again:
            return
        try:
            found = discover(self._scope, cancelled=lambda: self._state.closing)
            plan = plan_changes(found.files, known_files(self._live.connection()))
        except (Cancelled, IndexMissing):
            return
        differing = {*plan.changed, *plan.removed}
        if settled := [path for path in waiting if path not in differing]:
            self._state.settled(settled)
            self._bus.publish(StatusChanged())
        self._settle_again = now + (time.monotonic() - now) / _COUNT_SHARE

    def _look(self) -> None:
        self._count()
        self._bus.publish(StatusChanged())

    def _count(self) -> None:
        """Count what the live index holds, when it is another than at the last count."""
        try:
            connection = self._live.connection()
            stamp = self._live.stamp()
        except IndexMissing:
            self._stamp = None
            self._state.update(generation=0)
            return
        if stamp == self._stamp:
            return
        with mapped_errors(self._folder.path(stamp.generation)):
            found = counts(connection)
            extension = vector_extension(connection)
        self._stamp = stamp
        self._state.update(generation=stamp.generation, counts=found, vector_extension=extension)

    def _count_sometimes(self) -> None:
        now = time.monotonic()
        if now < self._count_again:
            return
        try:
            self._count()
        except IndexUnusable:
            # The work that goes on is what repairs it; the count after it speaks up.
            self._stamp = None
        took = time.monotonic() - now
        self._count_again = now + max(_COUNT_SECONDS, took / _COUNT_SHARE)

    def _writer_name(self) -> str:
        if self._lock.held:
            return "this process"
        owner = self._lock.owner()
        return "none" if owner is None else f"process {owner.pid}"


def _stopped(work: Work, reporter: ProgressReporter) -> str:
    progress = reporter.last
    if work is Work.REBUILD and (progress is None or progress.phase != VECTORS):
        return "stopped; the index is as it was"
    return f"stopped; {reporter.kept_percent()} % kept"


def _describe(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__

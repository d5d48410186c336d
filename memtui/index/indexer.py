"""The index thread: the only writer of an index, or a follower of the process that writes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from memtui import bus
from memtui.embedding.provider import ProviderIdentity, one_line
from memtui.errors import Cancelled, IndexMissing, IndexUnusable, MemtuiError, WorkspaceNotFound
from memtui.index.database import IndexDamaged, Recipe, made_by, mapped_errors, read_meta
from memtui.index.generations import LiveIndex, WriterLock
from memtui.index.index_rows import counts
from memtui.index.job import PENDING_SHOWN, IndexerStatus, Job, ProgressReporter, Work
from memtui.index.sync import compare, rebuild, sync
from memtui.model import ErrorRecord, Leg, SkippedFile, SyncStats

FIRST_RETRY_SECONDS: Final = 30.0
"""After a sync that left chunks without vectors; then twice as long each time."""
LAST_RETRY_SECONDS: Final = 900.0
_ERRORS_KEPT = 20
_COUNT_SECONDS = 1.0


@dataclass(eq=False)
class Indexer:
    """One daemon thread that runs one sync or rebuild at a time.

    Requests made while one runs are run once more after it, as one. Without the writer lock it
    writes nothing, follows what the writing process does, and takes over when that one ends;
    what was asked of it is then done. Every run is a copy of `job`, whose cache the caller closes
    after the indexer. `spared` names who made vectors of the same chunks that stay in the cache,
    too.
    """

    job: Job
    """The model of every run; to clear the texts it has `refused` is to send them again."""
    poll_seconds: float = 1.0
    cache_limit: int | None = None
    """Largest size of the cache on disk, in bytes."""
    spared: Callable[[], ProviderIdentity | None] = lambda: None
    waiting: Callable[[], Sequence[str]] = tuple
    """Files that are pending whether they were expected or not."""

    def __post_init__(self) -> None:
        job = self.job
        self.has_run = False
        """True if a sync or rebuild runs, waits or has ended."""
        self._bus = job.bus
        self._lock = WriterLock(job.folder)
        self._live = LiveIndex(job.folder)
        self._stamp: tuple[int, int] | None = None
        self._looked_at: tuple[object, list[str]] | None = None
        """The stamp at which the folder was scanned last for what the writing process left out, and
        what waited then."""
        self._next_count = 0.0
        self._is_after_rebuild = False
        """True if the sync that is due was asked for by a rebuild."""
        self._retry_seconds: float | None = None
        """After so many chunks without vectors are asked for again; `None` where none are."""
        self._cancelled = threading.Event()
        # Guards what follows.
        self._condition = threading.Condition()
        self._status = IndexerStatus()
        self._requested = self._running = Work.NONE
        self._closing = False
        self._reporter = job.progress
        self._pending: dict[str, None] = {}
        self._thread = threading.Thread(target=self._run, name="memtui-index", daemon=True)

    def start(self) -> None:
        """Try for the writer lock and start the thread; raises `IndexUnusable`."""
        self._lock.try_acquire()
        self._update(writer=self._lock.writer())
        self._thread.start()

    @property
    def is_writer(self) -> bool:
        """True if this process writes the index."""
        return self._lock.is_held

    def require_writer(self) -> None:
        """Raise `WriterLocked`, naming the process, when another one writes the index."""
        if not self._lock.is_held:
            raise self._lock.refusal()

    def record(self, where: str, message: str) -> None:
        """Add to the errors that the status lists, unless it is the last one again."""
        with self._condition:
            errors = self._status.errors
            if errors and (errors[-1].where, errors[-1].message) == (where, message):
                errors = errors[:-1]
            errors = (*errors, ErrorRecord(self.job.now(), where, message))
            self._update(errors=errors[-_ERRORS_KEPT:])

    def expect(self, paths: Sequence[str]) -> None:
        """Show files as pending that a sync, asked for later, will read."""
        with self._condition:
            self._pending.update(dict.fromkeys(paths))

    def use(self, recipe: Recipe) -> None:
        """Make indexes by another recipe from now on; a run by the former one begins again."""
        former = self.job.recipe
        # Either may not know the dimensions yet.
        if not (recipe.matches(former.meta()) or former.matches(recipe.meta())):
            self.job.recipe = recipe

    def sync(self, *, rebuild: bool = False) -> None:
        """Ask for a sync, or for a rebuild, which takes the place of a sync that waits."""
        with self._condition:
            self.has_run = True
            if rebuild or self._requested is Work.NONE:
                self._requested = Work.REBUILD if rebuild else Work.SYNC
            self._condition.notify_all()

    def cancel(self) -> None:
        """Stop what runs and forget what waits; what was committed stays."""
        with self._condition:
            self._requested = Work.NONE
            # The first run begins by itself: it may be about to.
            if self._running is not Work.NONE or not self.has_run:
                self._cancelled.set()
            self._condition.notify_all()

    def wait_idle(self, timeout: float = 30.0) -> bool:
        """Wait until nothing runs and nothing waits that this process can do; whether it is so."""
        with self._condition:
            return self._condition.wait_for(
                lambda: (
                    (self._thread.ident is not None and not self._thread.is_alive())
                    or (self._running is Work.NONE and not self._can_work())
                ),
                timeout,
            )

    def snapshot(self) -> IndexerStatus:
        """Return how things are; never waits for the disk."""
        with self._condition:
            waiting = dict.fromkeys(self.waiting())
            pending = tuple({**self._reporter.pending, **self._pending, **waiting})
            return replace(
                self._status,
                running=self._running,
                progress=self._reporter.last if self._running is not Work.NONE else None,
                pending=pending[:PENDING_SHOWN],
                pending_count=len(pending),
            )

    def close(self, timeout: float = 10.0) -> None:
        """Stop what runs, end the thread, give the lock back."""
        with self._condition:
            self._closing = True
            self._requested = Work.NONE
            self._cancelled.set()
            self._condition.notify_all()
        if self._thread.ident is not None:
            self._thread.join(timeout)
        else:
            self._lock.release()

    def _can_work(self) -> bool:
        return self._lock.is_held and self._requested is not Work.NONE

    def _update(self, **changes: Any) -> None:
        with self._condition:
            self._status = replace(self._status, **changes)

    def _run(self) -> None:
        try:
            self._guard(self._count if self._lock.is_held else self._follow)
            self._bus.publish(bus.StatusChanged())
            while True:
                with self._condition:
                    # Waits for work, or for the time to look around or to try again.
                    is_writer = self._lock.is_held
                    can_work = self._condition.wait_for(
                        lambda: self._closing or self._can_work(),
                        self._retry_seconds if is_writer else self.poll_seconds,
                    )
                    if self._closing:
                        return
                    if is_writer and not can_work:
                        self._requested, can_work = Work.SYNC, True
                    if can_work:
                        self._running, self._requested = self._requested, Work.NONE
                        self._reporter = ProgressReporter(self._bus, advanced=self._count_sometimes)
                        self._reporter.pending, self._pending = self._pending, {}
                steps = (self._work, self._count, self._trim) if can_work else (self._follow,)
                for step in steps:
                    self._guard(step)
                with self._condition:
                    self._running = Work.NONE
                    if can_work:
                        self._cancelled.clear()
                    self._condition.notify_all()
                if can_work:
                    # Whoever asked at the end of the work was told that it still runs.
                    self._bus.publish(bus.StatusChanged())
        finally:
            try:
                self._guard(self._live.close)
            finally:
                self._lock.release()
            with self._condition:
                self._running = Work.NONE
                self._condition.notify_all()

    def _guard(self, step: Callable[[], None]) -> None:
        """Run one step; whatever goes wrong in it is recorded and the thread lives on."""
        try:
            step()
        except Exception as error:
            text = str(error) if isinstance(error, MemtuiError) else _describe(error)
            if self._status.failure == text and step == self._follow:
                return
            self.record("folder" if isinstance(error, WorkspaceNotFound) else "index", text)
            self._update(failure=text)
            exit_code = error.exit_code if isinstance(error, MemtuiError) else 1
            self._bus.publish(bus.SyncFailed(text, exit_code))

    def _work(self) -> None:
        """Do the work, and again from the start when the recipe changes meanwhile."""
        work, recipe = self._running, self.job.recipe
        seconds, self._retry_seconds = self._retry_seconds, None

        def stopped() -> bool:
            return self._cancelled.is_set() or self.job.recipe is not recipe

        self._bus.publish(bus.SyncStarted())
        while True:
            recipe = self.job.recipe
            job = replace(
                self.job,
                progress=self._reporter,
                cancelled=stopped,
                gives_way=lambda: self._requested is not Work.NONE,
                note=partial(self.record, "embedding"),
                withhold=self._withhold,
                stats=SyncStats(),
                skipped=[],
            )
            try:
                if not self._lock.confirm():
                    raise self._lock.refusal()
                job = rebuild(job) if work is Work.REBUILD else sync(job)
                # Who counts may be the first to meet the damage.
                self._count()
                break
            except IndexDamaged as error:
                # The files are the truth: a damaged index is named, and made again.
                if work is Work.REBUILD:
                    raise
                work = Work.REBUILD
                self.record("index", error.message)
                self._bus.publish(bus.StatusChanged())
            except Cancelled:
                if self._cancelled.is_set() or self.job.recipe is recipe:
                    if self._reporter.last is None and self._running is Work.SYNC:
                        # Nobody knows yet what waits.
                        self._compare()
                    text = self._reporter.stopped(rebuild=self._running is Work.REBUILD)
                    self._update(failure=None)
                    self._bus.publish(bus.SyncFailed(text))
                    return
        before = self._status
        if job.problem is not None and job.problem.passes:
            again = min(seconds * 2, LAST_RETRY_SECONDS) if seconds else FIRST_RETRY_SECONDS
            self._retry_seconds = again
        if job.problem is not None:
            self.record("embedding", job.problem.detail)
        elif before.problem is not None:
            self._bus.publish(bus.LegChanged(Leg.VECTOR))
        self._reporter.pending = {}
        finished = bus.SyncFinished(job.stats)
        # Nobody asked for the sync after a rebuild: it is news only where it found something.
        is_news = not self._is_after_rebuild or bus.changes_content(finished)
        self._is_after_rebuild = job.stats.rebuild
        self._update(
            last_sync=job.stats if is_news else before.last_sync,
            failure=None,
            skipped=tuple(job.skipped),
            usage=before.usage.plus(job.stats.usage),
            problem=job.problem,
        )
        if job.stats.rebuild:
            # What changed while the rebuild ran.
            self.sync()
        self._bus.publish(finished)

    def _withhold(self, chunks: tuple[SkippedFile, ...]) -> None:
        before = self._status.withheld
        self._update(withheld=chunks)
        if chunks and chunks != before:
            self._bus.publish(bus.TextsWithheld(chunks))

    def _count(self) -> None:
        """Count, when the index is another than at the last count; raises `IndexUnusable`."""
        try:
            connection = self._live.connection()
        except IndexMissing:
            self._stamp = None
            self._update(generation=0)
            return
        with mapped_errors(self._live.path):
            stamp = self._live.stamp()
            if stamp != self._stamp:
                self._update(generation=self._live.generation, **counts(connection))
                self._stamp = stamp

    def _count_sometimes(self) -> None:
        """Count, but at most once a second, and a twentieth of the time."""
        now = time.monotonic()
        if now >= self._next_count:
            # The work that goes on is what repairs a broken one; the count after it speaks up.
            with suppress(IndexUnusable):
                self._count()
            took = time.monotonic() - now
            self._next_count = now + max(_COUNT_SECONDS, 20 * took)

    def _follow(self) -> None:
        """Look whether the writing process changed something, or left the lock to this one."""
        if self._lock.try_acquire(seconds=0.0):
            self._update(writer=self._lock.writer(), failure=None)
            self._bus.publish(bus.StatusChanged())
            # Whatever the former owner left undone.
            self.sync()
            return
        before, status = self._stamp, self._status
        self._count()
        now, writer = self._stamp, self._lock.writer()
        has_changed = now != before
        is_settled = not (now is None or has_changed or (now, [*self._pending]) == self._looked_at)
        if has_changed:
            self._pending.clear()
        # A scan after each of many commits would take as long as the writing.
        if is_settled or (now is not None and has_changed and not self._status.files):
            self._compare()
            self._looked_at = now, [*self._pending]
        if has_changed:
            self._bus.publish(bus.IndexChanged())
        if is_settled or has_changed or writer != status.writer:
            self._update(failure=None, writer=writer)
            self._bus.publish(bus.StatusChanged())

    def _compare(self) -> None:
        """Note which files are left out, and which notes wait."""
        connection = self._live.connection()
        with mapped_errors(self._live.path):
            skipped, waiting = compare(self.job, connection)
        self._update(skipped=tuple(skipped))
        self._pending = dict.fromkeys(waiting)

    def _trim(self) -> None:
        """Keep the cache within its bound: what was stored longest ago goes.

        What the live index holds stays, and so do the vectors of the same chunks by the recipe,
        whose index may be in the making, and by a provider that is to answer again.
        """
        limit, cache, cancelled = self.cache_limit, self.job.cache, self._cancelled.is_set
        if limit is None or cancelled():
            return

        def live() -> dict[ProviderIdentity, list[str]]:
            with suppress(IndexMissing):
                connection = self._live.connection()
                rows = connection.execute("SELECT hash FROM chunks").fetchall()
                hashes = [str(row[0]) for row in rows]
                makers = made_by(read_meta(connection)), self.job.recipe.identity, self.spared()
                return {maker: hashes for maker in makers if maker is not None}
            return {}

        try:
            excess = cache.trim(limit, live, cancelled=cancelled)
        except Exception as error:
            # The index is as it should be, whatever hinders the cache from becoming smaller.
            self.record("cache", f"cannot be kept within its bound: {_describe(error)}")
            return
        if not cancelled():
            self._update(cache_excess=excess)


def _describe(error: Exception) -> str:
    name, text = type(error).__name__, one_line(error)
    return text if text == name else f"{name}: {text}"

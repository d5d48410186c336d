"""The index thread: the only writer of an index, or a follower of the process that writes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

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
from memtui.embedding.provider import ProviderIdentity
from memtui.errors import Cancelled, IndexMissing, MemtuiError
from memtui.index.database import IndexDamaged
from memtui.index.generations import IndexFolder, WriterLock
from memtui.index.indexer_state import COUNT_SHARE, IndexerSnapshot, IndexerState, LiveCounter, Work
from memtui.index.job import (
    Courtesy,
    Job,
    ProgressReporter,
    ProviderFactory,
    RefusedTexts,
    SyncResult,
)
from memtui.index.reader import LiveIndex
from memtui.index.scan import known_files, plan_changes
from memtui.index.schema import NO_MODEL, Recipe, read_meta
from memtui.index.sync import rebuild, sync
from memtui.index.transcripts.discovery import with_transcripts
from memtui.index.transcripts.scope import TranscriptScope
from memtui.memory.discover import Scope, discover
from memtui.model import Leg

if TYPE_CHECKING:
    from memtui.index.database import Connection


def _nobody() -> ProviderIdentity | None:
    return None


@dataclass(frozen=True, slots=True)
class CacheBound:
    """How large the cache may become on disk, in bytes, and whose vectors go last."""

    limit: int
    spared: Callable[[], ProviderIdentity | None] = _nobody

    def keep(
        self,
        cache: EmbeddingCache,
        live: Callable[[], Connection],
        wanted: ProviderIdentity | None,
        cancelled: Callable[[], bool],
    ) -> int:
        """Evict down to the bound; by how many bytes live vectors alone exceed it.

        Live are the vectors that the index at `live` holds, and those of the same chunks by
        `wanted`, whose index may be in the making.
        """
        cache.note_uses()
        if not cache.is_above(self.limit):
            return 0
        try:
            connection = live()
        except IndexMissing:
            return cache.trim(self.limit, {}, cancelled=cancelled).excess
        hashes = [str(row[0]) for row in connection.execute("SELECT hash FROM chunks").fetchall()]
        makers = [who for who in (_made_by(connection), wanted) if who is not None]
        spared = self.spared()
        last = {spared: hashes} if spared is not None else {}
        trimmed = cache.trim(self.limit, dict.fromkeys(makers, hashes), last, cancelled=cancelled)
        return trimmed.excess


def _made_by(connection: Connection) -> ProviderIdentity | None:
    meta = read_meta(connection)
    if meta.get("provider", NO_MODEL) == NO_MODEL:
        return None
    return ProviderIdentity(meta["provider"], meta["model"], None, meta["fingerprint"])


__all__ = ["Indexer", "IndexerSnapshot", "Work"]

_POLL_SECONDS = 1.0


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
        bound: CacheBound | None = None,
        transcripts: TranscriptScope | None = None,
        courtesy: Courtesy | None = None,
    ) -> None:
        self._folder = folder
        self._scope = scope
        self._transcripts = transcripts
        self._recipe = recipe
        self._make_provider = provider
        self._cache = cache
        self._bus = bus
        self._now = now
        self._write = write
        self._poll_seconds = poll_seconds
        self._bound = bound
        self._courtesy = courtesy or Courtesy()
        self._lock = WriterLock(folder)
        self._live = LiveIndex(folder)
        self._settle_again = 0.0
        self._refused = RefusedTexts()
        self._degraded = False
        self._has_run = False
        self._cancelled = threading.Event()
        self._state = IndexerState()
        self._counter = LiveCounter(folder, self._live, self._state)
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

    def use(self, recipe: Recipe) -> None:
        """Make indexes by another recipe from now on; a run by the former one begins again."""
        if not recipe.equals(self._recipe):
            self._recipe = recipe

    def use_transcripts(self, scope: TranscriptScope) -> None:
        """Index these conversations from the next sync on, and no others."""
        self._transcripts = scope

    @property
    def has_run(self) -> bool:
        """Whether a sync or rebuild runs, waits or has ended."""
        return self._has_run

    def sync(self, paths: Sequence[str] = ()) -> None:
        """Ask for a sync; `paths` are files known to have changed, shown as pending until then."""
        self._state.saw(paths)
        self._has_run = True
        with self._state.condition:
            if self._state.wanted is Work.NONE:
                self._state.wanted = Work.SYNC
            self._state.condition.notify_all()

    def ask_again(self) -> None:
        """Send texts again that a provider refused before."""
        self._refused.clear()

    def rebuild(self) -> None:
        """Ask for a rebuild; it takes the place of a sync that waits."""
        self._has_run = True
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
                    self._guard(self._counter.count)
                    self._guard(self._trim)
                self._finish()
        finally:
            try:
                self._guard(self._live.close)
            finally:
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
        reporter = ProgressReporter(self._bus, published=self._counter.count_sometimes)
        self._state.reporter = reporter
        self._state.take()
        self._bus.publish(SyncStarted(work is Work.REBUILD))
        try:
            result = self._perform_latest(work, reporter)
        except Cancelled:
            text = reporter.stopped(rebuild=work is Work.REBUILD)
            self._state.update(failure=None, stopped=text)
            self._bus.publish(SyncFailed(text, self._now()))
            return
        self._note(result)
        if result.stats.rebuild:
            # What changed while the rebuild ran.
            self.sync()
        self._bus.publish(SyncFinished(result.stats))

    def _perform_latest(self, work: Work, reporter: ProgressReporter) -> SyncResult:
        """Perform, and again from the start when the recipe changes meanwhile."""
        while True:
            recipe = self._recipe
            try:
                return self._perform(work, self._job(reporter, recipe))
            except Cancelled:
                if self._cancelled.is_set() or self._recipe is recipe:
                    raise

    def _perform(self, work: Work, job: Job) -> SyncResult:
        if not self._lock.confirm():
            raise self._lock.refusal()
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

    def _job(self, reporter: ProgressReporter, recipe: Recipe) -> Job:
        return Job(
            folder=self._folder,
            scope=self._scope,
            recipe=recipe,
            cache=self._cache,
            provider=self._make_provider,
            bus=self._bus,
            progress=reporter,
            cancelled=lambda: self._cancelled.is_set() or self._recipe is not recipe,
            now=self._now,
            planned=self._state.planned,
            done=self._state.done,
            wanted=lambda: self._state.wanted is not Work.NONE,
            note=partial(self.record, "embedding"),
            refused=self._refused,
            transcripts=self._transcripts,
            courtesy=self._courtesy,
        )

    def _note(self, result: SyncResult) -> None:
        if result.problem is not None:
            self._state.record("embedding", result.problem.detail, self._now())
        elif self._degraded:
            self._bus.publish(LegRecovered(Leg.VECTOR))
        self._degraded = result.problem is not None
        self._state.ended_well()
        before = self._state.snapshot()
        self._counter.count()
        self._state.update(
            last_sync=result.stats,
            failure=None,
            stopped=None,
            skipped=result.skipped,
            cache_hits=before.cache_hits + result.stats.cache_hits,
            cache_misses=before.cache_misses + result.cache_misses,
            usage=before.usage.plus(result.stats.usage),
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
        before, generation = self._counter.stamp, self._state.snapshot().generation
        writer = self._state.snapshot().writer
        self._counter.count()
        now = self._counter.stamp
        if now is not None and now.generation != generation:
            self._bus.publish(IndexSwapped(now.generation))
        elif now != before:
            self._bus.publish(IndexChanged())
        if now != before or self._writer_name() != writer:
            self._state.update(failure=None, writer=self._writer_name())
            self._bus.publish(StatusChanged())

    def _settle(self) -> None:
        """Forget the files that wait here when the writing process has taken them in."""
        now = time.monotonic()
        waiting = self._state.waiting()
        if not waiting or now < self._settle_again:
            return
        try:
            notes = discover(self._scope, cancelled=lambda: self._state.closing)
            found = with_transcripts(notes, self._transcripts)
            plan = plan_changes(found.files, known_files(self._live.connection()), found.unread)
        except (Cancelled, IndexMissing):
            return
        differing = {*plan.changed, *plan.removed}
        if settled := [path for path in waiting if path not in differing]:
            self._state.settled(settled)
            self._bus.publish(StatusChanged())
        self._settle_again = now + (time.monotonic() - now) / COUNT_SHARE

    def _look(self) -> None:
        self._counter.count()
        self._bus.publish(StatusChanged())

    def _trim(self) -> None:
        """Keep the cache within its bound; what the live index holds stays."""
        if self._bound is None or self._cancelled.is_set():
            return
        live, identity = self._live.connection, self._recipe.identity
        try:
            excess = self._bound.keep(self._cache, live, identity, self._cancelled.is_set)
        except Exception as error:
            # The index is as it should be, whatever hinders the cache from becoming smaller.
            self.record("cache", f"cannot be kept within its bound: {_describe(error)}")
            return
        if not self._cancelled.is_set():
            self._state.update(cache_excess=excess)

    def _writer_name(self) -> str:
        if self._lock.held:
            return "this process"
        owner = self._lock.owner()
        return "none" if owner is None else f"process {owner.pid}"


def _describe(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__

"""The engine: one object that owns the threads, the index and the provider of a workspace."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from threading import TIMEOUT_MAX
from time import monotonic
from typing import TYPE_CHECKING

from memtui.bus import (
    Bus,
    Event,
    FilesChanged,
    IndexChanged,
    IndexSwapped,
    SyncFinished,
    SyncStarted,
)
from memtui.embedding.cache import EmbeddingCache
from memtui.embedding.choice import choice_of, fallback_of
from memtui.engine import statuses
from memtui.engine.browsing.own import OwnBrowsing
from memtui.engine.clock_watch import ClockWatch
from memtui.engine.common import data_dir_of, depth_of, scope_of, utc_now
from memtui.engine.conversations.stores import OwnTranscripts
from memtui.engine.drift import Look, look
from memtui.engine.explaining import Explaining
from memtui.engine.mailbox import SearchRequest
from memtui.engine.providers.choosing import Providing
from memtui.engine.providers.failover import ProviderHolder
from memtui.engine.providers.provider_marker import NotedProvider
from memtui.engine.providers.timer import PendingVectors
from memtui.engine.retriever import Retriever
from memtui.engine.searching import Partial, SearchLoop
from memtui.engine.source import RecentFile, SourceText
from memtui.engine.transcript_source import own_source
from memtui.errors import Cancelled, IndexMissing
from memtui.index.database import Interrupted, open_database
from memtui.index.generations import IndexFolder
from memtui.index.indexer import CacheBound, Indexer
from memtui.index.job import Courtesy
from memtui.index.reader import ChunkRange, chunk_ranges, recent_files
from memtui.index.transcripts.discovery import with_transcripts
from memtui.index.transcripts.scope import TranscriptHomes, transcript_scope_of
from memtui.memory.discover import discover
from memtui.memory.workspace import workspace_id
from memtui.model import CandidatePool, IndexStatus, Ranked, Ranking
from memtui.ranking.pipeline import rank
from memtui.ranking.profiles import PROFILES
from memtui.retrieval.legs import import_numpy
from memtui.retrieval.query import Query, parse_query
from memtui.settings import Settings

if TYPE_CHECKING:
    from memtui.index.watcher import Watcher

_MEGABYTE = 10**6


class OwnMachine(Explaining, Providing, OwnBrowsing):
    """A memory folder that can be searched; use `OwnMachine.open`.

    Methods may be called from any thread unless they say otherwise. Answers to `submit`, and
    everything the index does, come as events on `bus`.
    """

    def __init__(
        self,
        root: Path,
        settings: Settings,
        folder: IndexFolder,
        *,
        bus: Bus,
        now: Callable[[], datetime],
        write: bool,
        clock: Callable[[], float] = monotonic,
        homes: TranscriptHomes | None = None,
    ) -> None:
        self.root = root
        self.settings = settings
        self.bus = bus
        self.now = now
        self._clock_watch = ClockWatch(now)
        self.ranking = settings.configured_ranking(PROFILES)
        """The configured ranking, used when a search names none."""
        self._folder = folder
        chosen, fallback = choice_of(settings.embedding), fallback_of(settings.embedding)
        self._holder = ProviderHolder(chosen, fallback, clock=clock)
        opener = open_database if write else partial(open_database, readonly=True)
        self._cache = EmbeddingCache(folder.cache_path, opener, writable=write)
        self._scope = scope_of(root, settings)
        transcripts = transcript_scope_of(settings, root, homes=homes)
        self._courtesy = Courtesy()
        self._indexer = Indexer(
            folder,
            self._scope,
            self._recipe(),
            provider=self._holder.get,
            cache=self._cache,
            bus=bus,
            now=now,
            write=write,
            bound=CacheBound(settings.index.cache_mb * _MEGABYTE, lambda: self._holder.spared),
            transcripts=transcripts,
            courtesy=self._courtesy,
        )
        self.transcripts = OwnTranscripts(
            transcripts,
            settings,
            folder,
            self._indexer,
            read=self._read,
            providers=self.providers,
        )
        self._pending = PendingVectors(self._indexer, bus, clock=clock)
        self._changing = threading.Lock()
        self._holder.changed = self._provider_changed
        self._noted = NotedProvider(folder.folder)
        self._noted_state = self._noted.read()
        self._retriever = Retriever(folder, self._cache, self._holder, self._is_indexing)
        self._loop = SearchLoop(self, bus)
        self._watcher: Watcher | None = None
        self._look: Look | None = None
        self._subscriptions = (
            bus.subscribe((SyncStarted, IndexSwapped), self._forget_look),
            bus.subscribe(FilesChanged, lambda event: self._indexer.expect(event.paths)),
            bus.subscribe((IndexSwapped, IndexChanged, SyncFinished), self._note_provider),
        )
        if bus.on_error is None:
            # A handler that fails must not end the thread that published.
            bus.on_error = self._handler_failed

    @classmethod
    def open(
        cls,
        root: Path,
        settings: Settings,
        *,
        bus: Bus | None = None,
        now: Callable[[], datetime] | None = None,
        data_dir: Path | None = None,
        write: bool = True,
        watch: bool = False,
        warm: bool = False,
        clock: Callable[[], float] = monotonic,
        homes: TranscriptHomes | None = None,
    ) -> OwnMachine:
        """Open the memory at `root` and start its threads.

        The index is kept in `data_dir/<workspace id>` (default: the settings' or the
        platform's data folder). Without `write` nothing is ever written; with `watch` changes
        of the files are followed; `warm` loads the model at once, beside everything else. By
        `clock` (seconds) it is told when a provider that failed is asked again. `homes` are
        where transcripts are looked for, in the place of this machine's folders. Raises
        `IndexUnusable` when the index folder cannot be used, `SettingsError` for a provider or
        model that does not exist.
        """
        # Here and not at the first need, which may be a key's: it takes longer than a frame.
        import_numpy()
        place = data_dir or data_dir_of(settings)
        folder = IndexFolder(place / workspace_id(root))
        if write:
            folder.create()
        times, bus = (now or utc_now), bus or Bus()
        engine = cls(
            root, settings, folder, bus=bus, now=times, write=write, clock=clock, homes=homes
        )
        if warm and engine._holder.identity is not None:
            threading.Thread(target=engine._warm, name="memtui-model", daemon=True).start()
        engine._indexer.start()
        engine._loop.start()
        if watch and write:
            engine._start_watching()
        return engine

    def _warm(self) -> None:
        """Load the model and then the vectors, so that the first search finds both."""
        if self._holder.get()[0] is not None:
            self._loop.call_later(self._warm_view)

    def _warm_view(self, gives_way: Callable[[], bool]) -> None:
        try:
            self._retriever.warm(gives_way)
        except Interrupted as error:
            raise Cancelled from error

    # --- search ---------------------------------------------------------------------------

    def search(self, text: str, *, ranking: Ranking | None = None, typing: bool = False) -> Ranked:
        """Search and wait for the whole answer.

        Raises `IndexMissing` before the first index, `IndexUnusable` when it cannot be read.
        """
        wanted = ranking or self.ranking
        return self._loop.call(lambda: self._answer(text, wanted, typing)).result()

    def submit(self, text: str, *, ranking: Ranking | None = None, typing: bool = True) -> int:
        """Ask for a search and return its sequence number; the latest wins.

        `SearchReady` events follow, perhaps one with the quicker leg alone first, or one
        `SearchFailed`; nothing follows a search that a newer one superseded.
        """
        return self._loop.submit(text, ranking or self.ranking, typing=typing)

    def hold_indexing(self) -> None:
        """Have what is being indexed wait a moment, because somebody types."""
        self._courtesy.typed()

    def rerank(self, pool: CandidatePool, ranking: Ranking) -> Ranked:
        """Rank a pool again; no I/O, quick enough for the thread that draws."""
        return self._loop.timed(pool, ranking)

    def parse(self, text: str) -> Query:
        """Take a query apart, for the screen: its terms, filters and problems."""
        return parse_query(text, typing=True)

    def recent(self, limit: int = 20) -> Sequence[RecentFile]:
        """The files that were written last; empty before the first index."""
        rows = self._read(lambda connection: recent_files(connection, limit))
        return [
            RecentFile(row.path, datetime.fromtimestamp(row.mtime_ns / 1e9, UTC), row.lines)
            for row in rows or ()
        ]

    # --- the index ------------------------------------------------------------------------

    def sync(self, wait: bool = False) -> None:
        """Bring the index up to date; with `wait`, return when that is done."""
        self._holder.retry()
        self._indexer.ask_again()
        self._look = None
        self._indexer.sync()
        if wait:
            self._indexer.wait_idle(timeout=TIMEOUT_MAX)

    def rebuild(self, wait: bool = False) -> None:
        """Build a new generation from the files; searches use the old one until it is live."""
        self._holder.retry()
        self._indexer.ask_again()
        self._look = None
        self._indexer.rebuild()
        if wait:
            self._indexer.wait_idle(timeout=TIMEOUT_MAX)

    def cancel(self) -> None:
        """Stop a running search, sync or rebuild; what was committed stays."""
        self._loop.cancel()
        self._indexer.cancel()

    def require_writer(self) -> None:
        """Raise `WriterLocked` when another process writes this index."""
        self._indexer.require_writer()

    def wait_idle(self, timeout: float = 30.0) -> bool:
        """Wait until no search and no index run is going on; false after `timeout` seconds."""
        return self._indexer.wait_idle(timeout) and self._loop.wait_idle(timeout)

    def status(self) -> IndexStatus:
        """A snapshot of the index and of what keeps it up to date; never waits for the disk."""
        snapshot, seen = self._indexer.snapshot(), self._look
        return statuses.compose(
            root=self.root,
            index_dir=self._folder.folder,
            snapshot=seen.onto(snapshot) if seen else snapshot,
            provider=self._provider_state(),
            watcher=self._watcher.state() if self._watcher else None,
            backend=self._retriever.backend,
            told=(self._cache.recovered, self._clock_watch.warning()),
            made_by=self._retriever.made_by,
        )

    def refresh_status(self) -> None:
        """Look at the files and the index now, for the `status` calls until the next sync.

        Raises `IndexUnusable` when there is an index that cannot be read.
        """
        self._noted_state = self._noted.read()
        self._look = self._loop.call(self._look_now).result()

    def _forget_look(self, event: Event) -> None:
        self._look = None

    # --- the notes ------------------------------------------------------------------------

    def chunk_ranges(self, path: str) -> Sequence[ChunkRange]:
        """Where the chunks of a file are."""
        return self._read(lambda connection: chunk_ranges(connection, path)) or ()

    def source(self, path: str) -> SourceText:
        """Read a note or transcript and say whether it is still what was indexed; off the loop."""
        return own_source(self.root, self.transcripts.scope, path, self._read)

    def close(self) -> None:
        """Stop the threads and close the files; a second call does nothing."""
        if self._watcher is not None:
            self._watcher.stop()
        self.transcripts.close()
        for subscription in self._subscriptions:
            subscription.close()
        # All threads are told to stop before any is waited for.
        self._holder.stop()
        self._pending.close()
        self._indexer.cancel()
        self._loop.close()
        self._indexer.close()
        self._retriever.close()
        self._cache.close()
        self._holder.close()

    def __enter__(self) -> OwnMachine:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()

    # --- on the engine thread -------------------------------------------------------------

    def retrieve(
        self, request: SearchRequest, cancelled: Callable[[], bool], partial: Partial
    ) -> CandidatePool:
        """Ask both legs, on the engine thread; see `Searcher`."""
        query = parse_query(request.text, typing=request.typing)
        depth = depth_of(request.ranking)
        typing = request.typing
        return self._retriever.retrieve(query, depth, cancelled, partial, typing=typing)

    def rank(self, pool: CandidatePool, ranking: Ranking) -> Ranked:
        """Rank a pool at this moment; pure."""
        return rank(pool, ranking, now=self.now())

    def interrupt(self) -> None:
        """Stop a running statement; from any thread."""
        self._retriever.interrupt()

    def _answer(self, text: str, ranking: Ranking, typing: bool) -> Ranked:
        query = parse_query(text, typing=typing)
        self._retriever.read(lambda connection: None)
        depth = depth_of(ranking)
        pool = self._retriever.retrieve(query, depth, lambda: False, None, typing=typing)
        return self.rerank(pool, ranking)

    def _look_now(self) -> Look:
        discovery = with_transcripts(discover(self._scope), self.transcripts.scope)
        try:
            return self._retriever.read(
                lambda connection: look(connection, self._retriever.generation, discovery)
            )
        except IndexMissing:
            return look(None, 0, discovery)

    # --- changes of the files -------------------------------------------------------------

    def _start_watching(self) -> None:
        index = self.settings.index
        if not index.watch:
            self._indexer.sync()
            return
        from memtui.index.watcher import Watcher, WatchTimes

        times = WatchTimes(quiet=index.debounce_seconds, rescan=index.rescan_seconds)
        self._watcher = Watcher(
            self._scope, self.bus, self._indexer.sync, times=times, now=self.now
        )
        self._watcher.start()
        self.transcripts.follow()

    def _handler_failed(self, event: Event, error: Exception) -> None:
        text = f"{type(event).__name__}: {type(error).__name__}: {error}"
        self._indexer.record("bus", text)

    def _is_indexing(self) -> bool:
        progress = self._indexer.snapshot().progress
        # A run that has done everything publishes its end before it is over.
        return progress is not None and progress.done < progress.total

"""A memory folder with memtui's own index: searched, read, compared with its files, written."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Collection, Hashable
from contextlib import closing, suppress
from datetime import datetime, timedelta
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec.structs import replace

from memtui.bus import (
    Bus,
    Event,
    IndexChanged,
    StatusChanged,
    SyncFailed,
    SyncFinished,
    SyncStarted,
)
from memtui.data import read_table
from memtui.embedding.provider import Provider, ProviderIdentity
from memtui.embedding.registry import other_of, registration_of
from memtui.engine.own_legs import OwnLegs
from memtui.engine.ports import Files, Index, Reading, RebuildCost, SearchRequest
from memtui.engine.providers.failover import ProviderFailover, read_marker, write_marker
from memtui.engine.search import EngineThread
from memtui.errors import IndexMissing, IndexUnusable, stop_if
from memtui.index import database, index_rows
from memtui.index.database import Connection, Recipe
from memtui.index.embedding_cache import EmbeddingCache
from memtui.index.generations import IndexFolder, LiveIndex, WriterLock
from memtui.index.index_rows import KnownFile
from memtui.index.job import PENDING_SHOWN, IndexerStatus, Job, ProgressReporter, TypingPause, Work
from memtui.memory.discover import Scope, discover
from memtui.model import (
    CONVERSATIONS,
    CandidatePool,
    ChunkSpan,
    ErrorRecord,
    IndexState,
    IndexStatus,
    ProviderState,
    Ranking,
    Reason,
    SkippedFile,
    WatcherState,
)
from memtui.retrieval.pool import import_numpy
from memtui.retrieval.query import parse_query
from memtui.settings.schema import Settings
from memtui.text.tokens import FTS5_TOKENIZE

# What a search does without is imported when it is asked for, numpy among it.
if TYPE_CHECKING:
    from memtui.engine.conversations import OwnTranscripts
    from memtui.index.indexer import Indexer
    from memtui.index.transcripts.discovery import TranscriptHomes
    from memtui.index.watcher import Watcher
    from memtui.settings.load import SettingsFiles

T = TypeVar("T")

TOKENIZER: Final = f"{FTS5_TOKENIZE.split(' categories')[0]}, CJK in pairs, Thai in threes"
LEAST_MOVED: Final = timedelta(hours=1)
"""Less is a clock that is set right; no age on a screen tells the difference."""
_MEGABYTE: Final = 10**6
_SQL: Final = read_table("queries.toml")["own"]


class OwnIndex(Index):
    """A folder of notes and the index that memtui makes of it.

    Without `write` nothing is ever written, and nothing is made that only writing needs.
    """

    def __init__(
        self,
        root: Path,
        settings: Settings,
        folder: IndexFolder,
        thread: EngineThread,
        bus: Bus,
        now: Callable[[], datetime],
        *,
        write: bool,
        clock: Callable[[], float],
        homes: TranscriptHomes | None,
        files: SettingsFiles | None,
    ) -> None:
        self.root = root
        self.settings = settings
        self.folder = folder
        self.ranking: Ranking = settings.configured_ranking()
        self.chunk_tokens = settings.chunking.tokens
        self.scope = Scope(root, settings.memory)
        self.providers: ProviderFailover = ProviderFailover(
            settings.embedding,
            other_of(settings.embedding, settings.embedding.fallback),
            clock=clock,
        )
        self.cache = EmbeddingCache(folder.cache_path, writable=write)
        self._thread = thread
        self._homes = homes
        self.settings_files = files
        self._now = now
        self._began = now() - timedelta(seconds=running_seconds())
        """The time from which the seconds are counted, by the clock."""
        self.legs: OwnLegs = OwnLegs(folder, self.providers, self.is_filling, bus)
        self._look: dict[str, Any] = {}
        """The result of the last scan of the files, in the words of `IndexerStatus`."""
        self._bus = bus
        self._pause = TypingPause()
        self._changing = threading.Lock()
        self.watcher: Watcher | None = None
        """Follows changes of the files; `None` where nobody does."""
        self.indexer: Indexer | None = None
        """The thread that writes the index; `None` where it is only read."""
        self._write = write
        self._credentials: dict[str, int | None] = {}

    @cached_property
    def transcripts(self) -> OwnTranscripts:
        """The conversations that are indexed beside the notes."""
        from memtui.engine.conversations import OwnTranscripts
        from memtui.index.transcripts.discovery import transcript_scope_of

        scope = transcript_scope_of(self.settings, self.root, homes=self._homes)
        return OwnTranscripts(self, scope)

    @cached_property
    def files(self) -> Files:
        """The files of the memory beside what the index holds of them."""
        from memtui.engine.own_reading import OwnFiles

        return OwnFiles(self)

    def start(self, *, watch: bool, warm: bool) -> None:
        """Start writing and following, as far as it is wanted; raises `IndexUnusable`."""
        # A provider that fails as it is loaded is followed by the indexer, so that comes first.
        if self._write:
            self._start_writing(watch)
        if warm and not self.providers.state().remote and self.providers.identity is not None:
            threading.Thread(target=self._warm, name="memtui-model", daemon=True).start()

    def _start_writing(self, watch: bool) -> None:
        from memtui.index.indexer import Indexer
        from memtui.index.watcher import TranscriptFollower, Watcher, WatchTimes

        job = Job(
            self.folder,
            self.scope,
            self._recipe(),
            self.cache,
            self.providers.get,
            self._bus,
            ProgressReporter(self._bus),
            now=self._now,
            transcripts=self.transcripts.scope,
            credentials=self._credentials,
            pause=self._pause,
        )
        self.indexer = indexer = Indexer(
            job,
            cache_limit=self.settings.index.cache_mb * _MEGABYTE,
            spared=lambda: self.providers.spared,
        )
        self.providers.changed = self._provider_changed
        events = (SyncStarted, IndexChanged, SyncFinished, SyncFailed)
        self._unsubscribe = self._bus.subscribe(events, self._index_changed)
        if self._bus.on_error is None:
            # A handler that fails must not end the thread that published.
            self._bus.on_error = lambda event, error: indexer.record(
                "bus", f"{type(event).__name__}: {type(error).__name__}: {error}"
            )
        indexer.start()
        if watch and not self.settings.index.watch:
            indexer.sync()
        elif watch:
            settings = self.settings.index
            follower = TranscriptFollower(
                self.transcripts.take_written,
                partial(known_transcripts, self.folder),
                self.settings.transcripts,
                partial(indexer.record, "transcripts"),
                is_writer=lambda: indexer.is_writer,
            )
            self.watcher = Watcher(
                self.scope,
                self._bus,
                indexer.expect,
                indexer.sync,
                times=WatchTimes(quiet=settings.debounce_seconds, rescan=settings.rescan_seconds),
                now=self._now,
                follower=follower,
            )
            indexer.waiting = lambda: follower.waiting
            self.watcher.start()

    @property
    def has_other_writer(self) -> bool:
        """True while another memtui keeps the index up to date."""
        if self.indexer is not None:
            return not self.indexer.is_writer
        return WriterLock(self.folder).writer() != "none"

    def is_filling(self) -> bool:
        """Return whether an index run has still something to do."""
        progress = self.indexer.snapshot().progress if self.indexer is not None else None
        # A run that has done everything publishes its end before it is over.
        return progress is not None and progress.done < progress.total

    def _warm(self) -> None:
        # What goes wrong here does so again, and is told, where somebody waits for it.
        with suppress(Exception):
            maker = self.read_rows(lambda connection: self.legs.identity)
            identity = self.providers.identity
            is_wanted = identity is not None and maker in (None, identity)
            if is_wanted and not self.providers.closing.is_set():
                import_numpy()
                if self.providers.get()[0] is not None:
                    request = SearchRequest("", self.ranking)
                    self._thread.call_later(
                        lambda gives_way: self.legs.retrieve(request, gives_way, None)
                    )

    def read(
        self, function: Callable[[Reading], T], about: CandidatePool | None = None
    ) -> T | None:
        from memtui.engine.own_reading import OwnReading

        return self.read_rows(lambda connection: function(OwnReading(connection, self)))

    def read_rows(self, function: Callable[[Connection], T]) -> T | None:
        """Read from the live generation on the engine thread; `None` before the first index."""
        return self._thread.call(lambda: self.legs.read(function))

    def measure(
        self, identity: ProviderIdentity | None, *, withholds: bool = False
    ) -> tuple[RebuildCost, Collection[int]]:
        limit = identity.input_bytes if identity is not None else None
        reads = registration_of(identity.name).reads if identity is not None else bool

        def counted(connection: Connection) -> tuple[int, list[tuple[str, int]]]:
            chunks: list[tuple[str, int]] = []
            rows: list[Any] = connection.execute(_SQL["sizes"], (limit,)).fetchall()
            for text_hash, length, text in rows:
                if text is None:
                    chunks.append((text_hash, length))
                elif reads(text):
                    parts = index_rows.within_limit([ChunkSpan(1, 1, text, text_hash)], limit)
                    chunks += [(part.hash, len(part.text)) for part in parts]
            return database.number(connection, "SELECT count(*) FROM files"), chunks

        # What cannot be read has no known cost, and a rebuild is its cure.
        files, chunks, cached = 0, list[tuple[str, int]](), dict[str, Any]()
        with suppress(IndexUnusable):
            files, chunks = self.read_rows(counted) or (0, [])
        if identity is not None:
            with database.mapped_errors(self.folder.cache_path):
                cached = self.cache.get_many(identity, [name for name, _ in chunks])
        withheld, lines = (self._withheld(cached), self._credentials) if withholds else ((), {})
        missing = {
            name: length
            for name, length in chunks
            if name not in cached and lines.get(name) is None
        }
        count = sum(name in cached for name, _ in chunks)
        cost = RebuildCost(files, len(chunks), count, 0, False, withheld=withheld)
        return cost, missing.values()

    def _withheld(self, without: Collection[str] | None = None) -> tuple[SkippedFile, ...]:
        from memtui.index.vectors import credential_chunks

        # By a connection of its own: it may take a while, and the engine thread answers queries.
        with closing(LiveIndex(self.folder)) as live, suppress(IndexMissing, IndexUnusable):
            connection = live.connection()
            check = partial(stop_if, self.providers.closing.is_set)
            with database.mapped_errors(live.path):
                return tuple(credential_chunks(connection, self._credentials, without, check))
        return ()

    def stamp(self) -> Hashable:
        return self.read_rows(lambda connection: self.legs.live.stamp())

    def sync(self, *, rebuild: bool = False, wait: bool = False) -> None:
        if self.indexer is None:
            return super().sync(rebuild=rebuild)
        # The user has asked for work: what failed before is asked again.
        self.providers.retry()
        self._look = {}
        self.indexer.job.refused.clear()
        self.indexer.sync(rebuild=rebuild)
        if wait:
            self.indexer.wait_idle(threading.TIMEOUT_MAX)

    def require_writer(self) -> None:
        if self.indexer is None:
            raise self.read_only()
        self.indexer.require_writer()

    def cancel(self) -> None:
        if self.indexer is not None:
            self.indexer.cancel()

    def hold(self) -> None:
        self._pause.typed()

    def _recipe(self) -> Recipe:
        chunking = self.settings.chunking
        return Recipe(self.providers.identity, chunking.tokens, chunking.overlap)

    def _provider_changed(self) -> None:
        """Another provider answers, or the chosen one does again; from any thread."""
        assert self.indexer is not None
        with self._changing:
            # Of two changes at once the later one is what counts.
            self.indexer.use(self._recipe())
        # Who only searches must not be made to index.
        if self.indexer.has_run and self.providers.state().state is not Reason.PROVIDER_FAILED:
            self.indexer.sync()
        self._bus.publish(StatusChanged())

    def _index_changed(self, event: Event) -> None:
        """Let `status` tell what the index thread knows, and other programs who made the index.

        On the index thread. Where another program writes, it is heard from that one.
        """
        assert self.indexer is not None
        self._look = {}
        if isinstance(event, SyncStarted):
            self.transcripts.take_written()
            return
        if self.watcher is not None and self.watcher.follower is not None:
            self.watcher.follower.forget(is_stopped=isinstance(event, SyncFailed))
        if self.indexer.is_writer and not self.providers.is_untried:
            try:
                write_marker(self.folder.folder, self.providers.state(lasting=True))
            except OSError as error:
                self.indexer.record("provider", f"cannot be noted: {error.strerror}")

    def query_text(self, query: str) -> str:
        return parse_query(query).text

    def other_queries(self, pool: CandidatePool) -> Reason:
        leg = self.legs.vector_leg
        provider = leg.provider if leg is not None else self.providers.get()[0]
        return Reason.PENDING if provider is not None and provider.remote else Reason.OK

    def local_model(self) -> tuple[Provider | None, ProviderState]:
        return self.providers.local()

    def status(self) -> IndexStatus:
        opened, indexer = self.legs.opened, self.indexer
        leg, identity = self.legs.vector_leg, self.legs.identity
        made_by = f"{identity.name}/{identity.model}" if identity is not None else ""
        status = indexer.snapshot() if indexer is not None else IndexerStatus()
        status = replace(status, **self._look)
        if damage := self.legs.damage:
            errors = (*status.errors, ErrorRecord(self._now(), "index", damage))
            status = replace(status, failure=damage, errors=errors)
        provider, recorded = self.providers.state(), read_marker(self.folder.folder)
        if recorded is not None and recorded.requested == provider.requested:
            # Where nothing was tried yet, or another program writes, what the last index run found.
            is_writer = indexer is not None and indexer.is_writer
            is_followed = not is_writer and made_by == f"{recorded.actual}/{recorded.model}"
            is_fine = provider.state is Reason.OK
            if self.providers.is_untried or (is_fine and is_followed):
                provider = recorded
        if identity is not None and provider.differs_from(made_by) and self.has_other_writer:
            # What was chosen here, or is set, waits until the other program ends.
            address, remote = registration_of(identity.name).destination(self.settings.embedding)
            makes = (identity.name, identity.model, identity.dimensions)
            provider = ProviderState(provider.requested, *makes, remote=remote, address=address)
        moved = self._now() - timedelta(seconds=running_seconds()) - self._began
        warnings = [self.cache.recovered, clock_warning(moved), *status.warnings]
        if status.problem is not None and status.problem.is_of_texts:
            warnings.append(status.problem.detail)
        if status.cache_excess:
            excess = f"{-(-status.cache_excess // _MEGABYTE)} MB more than index.cache_mb allows"
            warnings.append(f"the vectors in use take {excess}: they are kept")
        state = state_of(status, provider, made_by if opened == status.generation else "")
        if state is IndexState.NO_INDEX and indexer is not None:
            # It begins by itself as soon as the watcher is there, or another memtui makes it.
            begins = self.watcher is not None and not (indexer.is_writer and indexer.has_run)
            if begins or not indexer.wait_idle(0):
                state = IndexState.INDEXING
        return replace(
            status,
            state=state,
            root=str(self.root),
            index_dir=str(self.folder.folder),
            provider=provider,
            vector_backend=leg.view.backend if leg and leg.view else "not loaded",
            tokenizer=TOKENIZER,
            watcher=self.watcher.state() if self.watcher is not None else WatcherState("off"),
            warnings=tuple(line for line in warnings if line),
            made_by=made_by,
            **self.transcripts.standing(status.conversations),
        )

    def refresh_status(self, *, brief: bool = False) -> None:
        discovery, chosen = discover(self.scope), self.settings.transcripts
        # Of a memory that is only read, what is opted in never changes.
        if self.indexer is not None or chosen.sources or chosen.paths:
            from memtui.index.transcripts.discovery import with_transcripts

            discovery = with_transcripts(discovery, self.transcripts.scope)

        def compared(connection: Connection) -> dict[str, Any]:
            rows = index_rows.known_files(connection)
            plan = index_rows.plan_changes(discovery.files, rows, discovery.unread)
            has_left = any(rows[path].source == CONVERSATIONS for path in plan.removed)
            places = self.transcripts.locate() if has_left else ()
            off = {file.path: f"{place.name} is off" for place in places for file in place.files}
            # What another memtui has turned on for its run is in the index as it should be.
            exempt = off if off and self.has_other_writer else {}
            whys = {file.path: file.detail for file in discovery.skipped} | off
            left = {path: whys.get(path) or "gone" for path in plan.removed if path not in exempt}
            without_text = index_rows.skipped_when_read(connection)
            empty = {file.path for file in without_text}
            removals = {path: why for path, why in left.items() if path not in empty}
            return {
                "generation": self.legs.live.generation,
                "pending": (*plan.changed, *removals),
                "removals": removals,
                "skipped": (
                    *discovery.skipped,
                    *(file for file in without_text if file.path not in left),
                ),
                **index_rows.counts(connection),
            }

        look: dict[str, Any] | None = self.read_rows(compared)
        if look is None:
            look = {"generation": 0, "files": 0, "chunks": 0, "vectors": 0, "sources": ()}
            waiting = tuple(file.path for file in discovery.files)
            look |= {"skipped": discovery.skipped, "pending": waiting, "conversations": ()}
        look["pending_count"] = len(look["pending"])
        look["pending"] = look["pending"][:PENDING_SHOWN]
        # A search is not held up by what nothing hangs on.
        if look["pending"] or look["vectors"] < look["chunks"] or not brief:
            if self.providers.acting.withholds:
                look["withheld"] = self._withheld()
            if self.indexer is None:
                look["writer"] = WriterLock(self.folder).writer()
        self._look = look

    def wait_idle(self, timeout: float) -> bool:
        return self.indexer is None or self.indexer.wait_idle(timeout)

    def stop(self) -> None:
        self.providers.stop()
        if self.watcher is not None:
            self.watcher.stop()
        if self.indexer is not None:
            self._unsubscribe()
            self.indexer.cancel()

    def close(self) -> None:
        if self.indexer is not None:
            self.indexer.close()
        self.legs.close()
        self.cache.close()
        self.providers.close()


def known_transcripts(folder: IndexFolder) -> dict[str, KnownFile]:
    # By a connection of its own: the engine thread may be busy, and ends after the follower.
    with closing(LiveIndex(folder)) as live, suppress(IndexMissing):
        connection = live.connection()
        with database.mapped_errors(live.path):
            return index_rows.known_files(connection, "WHERE source = ?", CONVERSATIONS)
    return {}


def state_of(status: IndexerStatus, provider: ProviderState, made_by: str) -> IndexState:
    """Return the one word: what runs comes first, then what is wrong, then what waits."""
    if status.running is not Work.NONE:
        return IndexState.INDEXING
    if status.failure is not None:
        return IndexState.ERROR
    if not status.generation:
        return IndexState.NO_INDEX
    if status.problem is not None or provider.state is Reason.PROVIDER_FAILED:
        return IndexState.DEGRADED
    waits = provider.model is not None and status.without_vector > 0
    if status.pending_count or waits or provider.differs_from(made_by):
        return IndexState.STALE
    return IndexState.READY


def running_seconds() -> float:
    """Return seconds that no setting of the clock changes; on Linux with those it slept."""
    if sys.platform == "linux":
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


def clock_warning(moved: timedelta) -> str | None:
    """Return one line for the screen while the clock is moved against the running seconds."""
    # Off Linux the time that a machine slept is in no count of seconds, and looks like a move.
    is_sleep = moved > timedelta() and sys.platform != "linux"
    if abs(moved) < LEAST_MOVED or is_sleep:
        return None
    hours = round(abs(moved) / timedelta(hours=1))
    far = f"{hours // 24} days" if hours >= 48 else f"{hours} h"
    way = "back" if moved < timedelta() else "forward"
    return f"the clock was moved {way} by {far}: ages and decay count from its new time"

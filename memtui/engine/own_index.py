"""A memory folder with memtui's own index: searched, read, compared with its files, written."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cached_property, partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from memtui.bus import Bus, Event, IndexSwapped, SyncStarted
from memtui.embedding.cache import EmbeddingCache
from memtui.embedding.choice import choice_of, fallback_of
from memtui.embedding.provider import Provider, maker_of
from memtui.engine.own_legs import OwnLegs, maker_in
from memtui.engine.own_status import ClockWatch
from memtui.engine.ports import FileStanding, IndexedFile, Reading
from memtui.engine.providers.failover import ProviderFailover
from memtui.engine.providers.provider_marker import ProviderMarker, marked_state
from memtui.engine.search import EngineThread, Partial, SearchRequest
from memtui.errors import Cancelled, IndexMissing, IndexUnusable, MemtuiError
from memtui.index.database import DatabaseError, mapped_errors, number, open_database
from memtui.index.generations import IndexFolder, WriterLock
from memtui.index.indexer import IndexerSnapshot
from memtui.index.reader import LiveIndex
from memtui.index.transcripts.scope import TranscriptHomes, transcript_scope_of
from memtui.memory.discover import Discovery, Scope, discover
from memtui.memory.documents import read_document, reason_of
from memtui.memory.paths import absolute_path, said
from memtui.model import (
    CandidatePool,
    Document,
    IndexStatus,
    ProviderState,
    Ranking,
    Reason,
    SkippedFile,
)
from memtui.ranking.profiles import PROFILES
from memtui.retrieval.legs import import_numpy
from memtui.retrieval.query import parse_query

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memtui.embedding.provider import ProviderIdentity
    from memtui.engine.conversations.stores import OwnTranscripts
    from memtui.engine.own_status import Look
    from memtui.engine.own_writer import OwnWriter
    from memtui.engine.source import SourceText
    from memtui.index.database import Connection
    from memtui.index.transcripts.scope import TranscriptScope
    from memtui.model.browsing import MemoryFile
    from memtui.settings import Settings

T = TypeVar("T")


def scope_of(root: Path, settings: Settings) -> Scope:
    """Return where the notes of a memory are looked for."""
    memory = settings.memory
    return Scope(root, memory.extra_paths, memory.ignore, memory.max_file_bytes)


class OwnIndex:
    """A folder of notes and the index that memtui makes of it; see `memtui.engine.ports.Index`.

    Without `write` nothing is ever written, and nothing is made that only writing needs.
    """

    def __init__(
        self,
        root: Path,
        settings: Settings,
        folder: IndexFolder,
        *,
        thread: EngineThread,
        bus: Bus,
        now: Callable[[], datetime],
        write: bool,
        clock: Callable[[], float] = monotonic,
        homes: TranscriptHomes | None = None,
    ) -> None:
        self.root = root
        self.settings = settings
        self.folder = folder
        self.ranking: Ranking = settings.configured_ranking(PROFILES)
        self.scope = scope_of(root, settings)
        self._transcript_scope = transcript_scope_of(settings, root, homes=homes)
        self.providers = ProviderFailover(
            choice_of(settings.embedding), fallback_of(settings.embedding), clock=clock
        )
        opener = open_database if write else partial(open_database, readonly=True)
        self.cache = EmbeddingCache(folder.cache_path, opener, writable=write)
        self.noted = ProviderMarker(folder.folder)
        self.noted_state = self.noted.read()
        self._thread = thread
        self._clock_watch = ClockWatch(now)
        self.legs = OwnLegs(folder, self.cache, self.providers, self.is_filling)
        self._look: Look | None = None
        self._writer_name = "none"
        self.writer: OwnWriter | None = None
        self._subscription = bus.subscribe((SyncStarted, IndexSwapped), self._forget_look)
        if write:
            from memtui.engine.own_writer import OwnWriter

            self.writer = OwnWriter(self, bus, now, clock)

    def start(self, *, watch: bool, warm: bool) -> None:
        """Start writing and following, as far as it is wanted; raises `IndexUnusable`."""
        if warm and not self.providers.state().remote and self.providers.identity is not None:
            threading.Thread(target=self._warm, name="memtui-model", daemon=True).start()
        if self.writer is not None:
            self.writer.start(watch=watch)

    @cached_property
    def transcripts(self) -> OwnTranscripts:
        from memtui.engine.conversations.stores import OwnTranscripts
        from memtui.engine.providers.service import ProviderService

        return OwnTranscripts(
            self._transcript_scope,
            self.settings,
            self.folder,
            self.writer.indexer if self.writer is not None else None,
            read=self.read_rows,
            providers=ProviderService(self, self.settings).available,
        )

    @property
    def transcript_scope(self) -> TranscriptScope:
        """Which conversations are opted in now."""
        store = self.__dict__.get("transcripts")
        return store.scope if store is not None else self._transcript_scope

    # --- searching: on the engine thread --------------------------------------------------

    def require(self) -> None:
        self.legs.open()

    def retrieve(
        self, request: SearchRequest, cancelled: Callable[[], bool], partial: Partial | None
    ) -> CandidatePool:
        return self.legs.retrieve(request, cancelled, partial)

    def interrupt(self) -> None:
        self.legs.interrupt()

    def is_filling(self) -> bool:
        """Whether an index run has still something to do."""
        return self.writer is not None and self.writer.is_filling()

    def is_indexing(self) -> bool:
        """Whether an index run is going on."""
        return self.status().progress is not None

    def _warm(self) -> None:
        """Load the model that made the index, then the vectors, for the first search."""
        live = LiveIndex(self.folder)
        with suppress(MemtuiError, DatabaseError):
            maker = None
            with suppress(IndexMissing):
                maker = maker_in(live.connection())
            identity = self.providers.identity
            if identity is not None and maker in (None, maker_of(identity)):
                import_numpy()
                if self.providers.get()[0] is not None:
                    self._thread.call_later(self.legs.warm)
        live.close()

    # --- reading --------------------------------------------------------------------------

    def read(
        self, function: Callable[[Reading], T], about: CandidatePool | None = None
    ) -> T | None:
        from memtui.engine.own_reading import OwnReading

        return self.read_rows(lambda connection: function(OwnReading(connection, self)))

    def read_rows(self, function: Callable[[Connection], T]) -> T | None:
        """Read from the live generation on the engine thread; `None` before the first index."""

        def reading() -> T | None:
            try:
                self.legs.open()
            except IndexMissing:
                return None
            return self.legs.read(function)

        return self._thread.call(reading)

    def measure(
        self, identity: ProviderIdentity | None
    ) -> tuple[int, Sequence[tuple[str, int]], Collection[str]]:
        from memtui.engine.own_reading import chunk_lengths

        limit = identity.input_bytes if identity is not None else None

        def counted(connection: Connection) -> tuple[int, list[tuple[str, int]]]:
            files = number(connection, "SELECT count(*) FROM files")
            return files, chunk_lengths(connection, limit)

        try:
            files, chunks = self.read_rows(counted) or (0, [])
        except IndexUnusable:
            # What cannot be read has no known cost, and a rebuild is its cure.
            files, chunks = 0, []
        if identity is None:
            return files, chunks, ()
        with mapped_errors(self.folder.cache_path):
            return files, chunks, self.cache.get_many(identity, [name for name, _ in chunks])

    def stamp(self) -> Hashable:
        return self.read_rows(self.legs.stamp)

    # --- the files ------------------------------------------------------------------------

    @property
    def chunk_tokens(self) -> int:
        return self.settings.chunking.tokens

    @property
    def notes_missing(self) -> str:
        return ""

    def discover(self) -> Discovery:
        """Find the notes and the transcripts that are opted in."""
        from memtui.index.transcripts.discovery import with_transcripts

        return with_transcripts(discover(self.scope), self.transcript_scope)

    def files(self, cancelled: Callable[[], bool]) -> list[MemoryFile]:
        from memtui.engine import own_files

        return own_files.list_files(self, cancelled)

    def documents(self, cancelled: Callable[[], bool]) -> Iterator[Document | SkippedFile]:
        for file in discover(self.scope, cancelled=cancelled).files:
            if cancelled():
                raise Cancelled
            try:
                yield read_document(file, max_bytes=self.scope.max_file_bytes)
            except OSError as error:
                yield SkippedFile(file.path, reason_of(error), said(error))

    def file_of(self, path: str) -> Path | None:
        from memtui.engine import own_files
        from memtui.index.transcripts.discovery import SOURCE, file_at

        if own_files.source_of(self, path) == SOURCE:
            file = file_at(self.transcript_scope, path)
            return file.absolute if file is not None and not file.session else None
        return Path(absolute_path(path, str(self.root.absolute())))

    def source(self, path: str) -> SourceText:
        from memtui.engine.own_files import own_source

        return own_source(self.root, self.transcript_scope, path, self.read_rows)

    def standing(self, path: str, held: IndexedFile | None) -> FileStanding:
        from memtui.engine import own_files

        row = held.row if held is not None else None
        return own_files.standing_of(self.scope, path, row, self.transcript_scope)

    def named_on_disk(self, spelled: Sequence[str]) -> str | None:
        from memtui.engine.places import meant

        found = discover(self.scope)
        paths = [file.path for file in found.files] + [file.path for file in found.skipped]
        return meant(spelled, paths).path

    # --- explaining -----------------------------------------------------------------------

    def query_text(self, query: str) -> str:
        return parse_query(query).text

    def other_queries(self, pool: CandidatePool) -> Reason:
        leg = self.legs.vector_leg
        provider = leg.provider if leg is not None else self.providers.get()[0]
        return Reason.PENDING if provider is not None and provider.remote else Reason.OK

    def local_model(self, query: str) -> tuple[Provider | None, ProviderState, NDArray[Any] | None]:
        provider, state = self.providers.local()
        # The index may hold vectors of another model than the one that is asked here.
        leg = self._thread.call(lambda: self.legs.vector_leg)
        same = leg is not None and leg.provider is provider
        return provider, state, leg.remembered(query) if leg is not None and same else None

    # --- how it is ------------------------------------------------------------------------

    def status(self) -> IndexStatus:
        from memtui.engine import own_status

        if self.writer is not None:
            snapshot = self.writer.snapshot()
        else:
            snapshot = IndexerSnapshot(writer=self._writer_name)
        leg = self.legs.vector_leg
        return own_status.compose(
            self,
            self._look.onto(snapshot) if self._look is not None else snapshot,
            backend=leg.backend if leg is not None and leg.view is not None else "not loaded",
            warnings=(self.cache.recovered, self._clock_watch.warning()),
        )

    @property
    def made_by(self) -> str:
        """Provider and model of the live index's vectors; empty before it was read."""
        return self.legs.made_by

    def provider_state(self) -> ProviderState:
        """How the provider is; where nothing was tried yet, what the last index run found."""
        writes = self.writer is not None and self.writer.is_writer
        return marked_state(
            self.providers.state(),
            self.noted_state,
            is_untried=self.providers.is_untried,
            followed="" if writes else self.made_by,
        )

    def refresh_status(self, *, brief: bool = False) -> None:
        from memtui.engine.own_status import look

        if self.writer is None and not brief:
            owner = WriterLock(self.folder).owner()
            self._writer_name = "none" if owner is None else f"process {owner.pid}"

        self.noted_state = self.noted.read()
        discovery = self.discover()

        def compared(connection: Connection) -> Look:
            return look(connection, self.legs.generation, discovery)

        self._look = self.read_rows(compared) or look(None, 0, discovery)

    def forget_look(self) -> None:
        """Let `status` tell what the index thread knows."""
        self._look = None

    def _forget_look(self, event: Event) -> None:
        self._look = None

    def examine(self) -> None:
        """Do nothing: who writes the index compares it with the files."""

    def wait_idle(self, timeout: float) -> bool:
        return self.writer is None or self.writer.wait_idle(timeout)

    def stop(self) -> None:
        self._subscription.close()
        self.providers.stop()
        if self.writer is not None:
            self.writer.stop()

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()
        self.legs.close()
        self.cache.close()
        self.providers.close()

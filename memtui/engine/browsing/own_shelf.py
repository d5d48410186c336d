"""The files of a memory and memtui's own index of them, for browsing."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import CancelledError
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from memtui.embedding.provider import ProviderIdentity
from memtui.engine.browsing.files import Places, indexed_files, joined
from memtui.engine.browsing.own_index import OwnIndex
from memtui.engine.browsing.shelf import Holdings, never
from memtui.errors import Cancelled, IndexMissing
from memtui.index.database import number
from memtui.index.reader import Stamp
from memtui.index.transcripts.discovery import SOURCE as SESSIONS
from memtui.index.transcripts.discovery import file_at, with_transcripts
from memtui.memory.discover import Scope, discover, is_memory
from memtui.memory.documents import read_document, reason_of
from memtui.memory.paths import absolute_path, said
from memtui.model import Document, IndexStatus, SkippedFile
from memtui.model.browsing import MemoryFile
from memtui.retrieval.vector_view import VectorView, load_view

if TYPE_CHECKING:
    from memtui.embedding.cache import EmbeddingCache
    from memtui.engine.retriever import Retriever
    from memtui.engine.searching import SearchLoop
    from memtui.index.database import Connection
    from memtui.index.transcripts.scope import TranscriptScope

T = TypeVar("T")


class OwnShelf:
    """What `Shelf` asks, of a memory folder with an index of memtui's own."""

    def __init__(
        self,
        scope: Scope,
        transcripts: Callable[[], TranscriptScope | None],
        loop: SearchLoop,
        retriever: Retriever,
        cache: EmbeddingCache,
        status: Callable[[], IndexStatus],
        *,
        chunk_tokens: int,
    ) -> None:
        self._scope = scope
        self._transcripts = transcripts
        self._loop = loop
        self._retriever = retriever
        self._cache = cache
        self._status = status
        self._chunk_tokens = chunk_tokens
        self._view: tuple[Stamp, VectorView] | None = None

    @property
    def chunk_tokens(self) -> int:
        """How many tokens a chunk of the index holds at most."""
        return self._chunk_tokens

    @property
    def notes_missing(self) -> str:
        """Nothing: the folder is there, or the listing says what is wrong with it."""
        return ""

    def files(self, cancelled: Callable[[], bool] = never) -> list[MemoryFile]:
        """Every file that is found on disk or held by the index, by path."""
        notes = discover(self._scope, cancelled=cancelled)
        found = with_transcripts(notes, self._transcripts(), cancelled=cancelled)
        held = self._read(indexed_files) or {}
        if cancelled():
            raise Cancelled
        status = self._status()
        left_out = {file.path for file in found.skipped} - {file.path for file in notes.skipped}
        memory_layout = is_memory(self._scope.root)
        places = Places(self._scope, memory_layout=memory_layout, transcripts=left_out)
        return joined(
            found,
            held,
            places=places,
            failed=status.skipped,
            pending=status.pending,
            cancelled=cancelled,
        )

    def file_of(self, path: str) -> Path | None:
        """Where a file is on disk; `None` for the rows of a database."""
        transcripts = self._transcripts()
        if transcripts is not None and self._source_of(path) == SESSIONS:
            file = file_at(transcripts, path)
            return file.absolute if file is not None and not file.session else None
        return Path(absolute_path(path, str(self._scope.root.absolute())))

    def documents(self, cancelled: Callable[[], bool]) -> Iterator[Document | SkippedFile]:
        """Read the notes as they are on disk now, by path; why one cannot be read."""
        for file in discover(self._scope, cancelled=cancelled).files:
            if cancelled():
                raise Cancelled
            try:
                yield read_document(file, max_bytes=self._scope.max_file_bytes)
            except OSError as error:
                yield SkippedFile(file.path, reason_of(error), said(error))

    def read(self, function: Callable[[Holdings], T]) -> T | None:
        """Read the index on the engine thread; `None` when there is none yet."""
        return self._read(lambda connection: function(self._opened(connection)))

    def stamp(self) -> Hashable:
        """Another one whenever the index has changed; `None` without an index."""
        return self._read(self._stamp)

    def _opened(self, connection: Connection) -> OwnIndex:
        status = self._status()
        return OwnIndex(connection, self._cache, self._view_of, lambda: status.progress is not None)

    def _stamp(self, connection: Connection) -> Stamp:
        return Stamp(self._retriever.generation, number(connection, "PRAGMA data_version"))

    def _view_of(self, connection: Connection, identity: ProviderIdentity) -> VectorView:
        """The view that searches use, or else one that is kept until the index changes."""
        dims = identity.dimensions
        assert dims is not None
        searched = self._retriever.view_now()
        if searched is not None and searched.dims == dims:
            self._view = None
            return searched
        stamp = self._stamp(connection)
        if self._view is None or self._view[0] != stamp:
            view = load_view(
                connection,
                self._cache,
                identity,
                dims,
                generation=stamp.generation,
                undisturbed=self._retriever.undisturbed,
            )
            self._view = (stamp, view)
        return self._view[1]

    def _source_of(self, path: str) -> str | None:
        def source(connection: Connection) -> str | None:
            rows = connection.execute("SELECT source FROM files WHERE path = ?", (path,))
            return next((str(row[0]) for row in rows.fetchall()), None)

        found = self._read(source)
        return found or (SESSIONS if ".jsonl" in path.rpartition("/")[2] else None)

    def _read(self, read: Callable[[Connection], T]) -> T | None:
        def reading() -> T | None:
            try:
                return self._retriever.read(read)
            except IndexMissing:
                return None

        try:
            return self._loop.call(reading).result()
        except CancelledError:
            raise IndexMissing("the index is closed") from None

"""A memory folder with an index of its own and what it tells, for tests of the index."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TypeVar

from msgspec.structs import replace

from memtui.bus import Bus, Event
from memtui.embedding.provider import Provider, ProviderIdentity
from memtui.index.database import Connection, Recipe
from memtui.index.embedding_cache import EmbeddingCache
from memtui.index.generations import IndexFolder, LiveIndex, WriterLock
from memtui.index.indexer import Indexer
from memtui.index.job import Job, ProgressReporter, TypingPause
from memtui.index.sync import rebuild, sync
from memtui.index.transcripts.discovery import TranscriptScope
from memtui.index.transcripts.reading import TranscriptRow, transcript_rows
from memtui.memory.discover import Scope
from memtui.model import ProviderState
from tests.support.embedding import HashedProvider

T = TypeVar("T", bound=Event)


class EventQueue:
    """The events of some types, in their order."""

    def __init__(self, bus: Bus, types: type[Event] | tuple[type[Event], ...]) -> None:
        self._events: SimpleQueue[Event] = SimpleQueue()
        bus.subscribe(types, self._events.put)

    def get(self, timeout: float) -> Event | None:
        """Take the oldest event; `None` after `timeout` seconds."""
        try:
            return self._events.get(timeout=timeout)
        except Empty:
            return None


@contextmanager
def holding(lock: WriterLock) -> Iterator[None]:
    """Hold a writer lock, which is free, in a block."""
    assert lock.try_acquire()
    try:
        yield
    finally:
        lock.release()


@dataclass(frozen=True, slots=True)
class Contents:
    """Everything an index says, by names that do not depend on how it came about."""

    files: Mapping[str, tuple[object, ...]]
    chunks: Mapping[str, tuple[object, ...]]
    terms: frozenset[tuple[object, ...]]
    """(term, chunk id, offset) of the full-text index."""
    vectors: Mapping[str, bytes]
    transcripts: Mapping[str, TranscriptRow] = field(default_factory=dict)


@dataclass
class Workspace:
    """Notes in `root`, their index in `data`, and everything that a sync needs."""

    root: Path
    data: Path
    provider: HashedProvider = field(default_factory=HashedProvider)
    recipe: Recipe | None = None
    transcripts: TranscriptScope | None = None
    bus: Bus = field(default_factory=Bus)
    events: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        self.folder = IndexFolder(self.data)
        self.folder.create()
        self.cache = EmbeddingCache(self.folder.cache_path)
        self.bus.subscribe(Event, self.events.append)
        self.scope = Scope(self.root)
        if self.recipe is None:
            self.recipe = Recipe(self.provider.identity)

    def write(self, path: str, text: str | bytes) -> Path:
        """Write a note, with its folders."""
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text.encode() if isinstance(text, str) else text)
        return target

    def factory(self) -> tuple[Provider | None, ProviderState]:
        """Hand out the provider, as loading one would."""
        provider = self.provider
        state = ProviderState("hashed", "hashed", provider.identity.model, provider.dimensions)
        return provider, state

    def job(self, cancelled: Callable[[], bool] = lambda: False) -> Job:
        assert self.recipe is not None
        return Job(
            folder=self.folder,
            scope=self.scope,
            recipe=self.recipe,
            cache=self.cache,
            provider=self.factory,
            bus=self.bus,
            progress=ProgressReporter(self.bus),
            transcripts=self.transcripts or TranscriptScope(self.root),
            cancelled=cancelled,
        )

    def sync(self, cancelled: Callable[[], bool] = lambda: False) -> Job:
        """Run a sync here and now."""
        return sync(self.job(cancelled))

    def rebuild(self, cancelled: Callable[[], bool] = lambda: False) -> Job:
        """Run a rebuild here and now."""
        return rebuild(self.job(cancelled))

    def indexer(
        self, *, pause: TypingPause | None = None, spared: ProviderIdentity | None = None
    ) -> Indexer:
        """Make an index thread that looks around often; not started."""
        job = replace(self.job(), pause=pause or TypingPause())
        return Indexer(job, poll_seconds=0.02, spared=lambda: spared)

    def contents(self) -> Contents:
        """Read all of the live index."""
        with closing(LiveIndex(self.folder)) as live:
            return contents(live.connection())

    def fresh(self, data: Path) -> Contents:
        """Read all of an index made anew from the same notes."""
        with closing(
            Workspace(self.root, data, recipe=self.recipe, transcripts=self.transcripts)
        ) as other:
            other.sync()
            return other.contents()

    def of_type(self, kind: type[T]) -> list[T]:
        """Return the events of one type so far."""
        return [event for event in self.events if isinstance(event, kind)]

    def close(self) -> None:
        self.cache.close()


def contents(connection: Connection) -> Contents:
    """Read all of an index."""
    files = connection.execute(
        "SELECT path, source, hash, size, mtime_ns, inode, day, day_from, importance, lines, "
        "warnings FROM files"
    ).fetchall()
    chunks = connection.execute(
        "SELECT c.chunk_id, f.path, c.start_line, c.end_line, c.text, c.hash, c.model, c.embedded, "
        "c.passages, c.id FROM chunks c JOIN files f ON f.id = c.file_id"
    ).fetchall()
    names = {row[-1]: str(row[0]) for row in chunks}
    connection.execute(
        "CREATE VIRTUAL TABLE IF NOT EXISTS temp.instances USING fts5vocab(main, chunks_fts, instance)"
    )
    terms = connection.execute("SELECT term, doc, offset FROM temp.instances").fetchall()
    vectors = connection.execute("SELECT id, vector FROM vectors").fetchall()
    return Contents(
        files={str(row[0]): row[1:] for row in files},
        chunks={str(row[0]): row[1:-1] for row in chunks},
        terms=frozenset((term, names[doc], offset) for term, doc, offset in terms),
        vectors={names[row]: vector for row, vector in vectors if isinstance(vector, bytes)},
        transcripts=transcript_rows(connection),
    )


def identity(model: str) -> ProviderIdentity:
    """Tell the identity of a hashed provider of another model."""
    return HashedProvider(model=model).identity

"""Indexes of a wanted size, written in bulk, and providers that make embedding a matter apart."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from memtui.embedding.packaged import MODELS
from memtui.embedding.provider import (
    Provider,
    ProviderIdentity,
    Vector,
    Vectors,
    settings_fingerprint,
)
from memtui.embedding.registry import Availability, Registration, register, unregister
from memtui.engine import Engine
from memtui.index.database import Connection, open_database
from memtui.index.generations import IndexFolder
from memtui.index.index_rows import IndexWriter
from memtui.index.schema import Recipe, create, write_meta
from memtui.memory.workspace import workspace_id
from memtui.model import ChunkSpan, Document, Reason, SourceFile
from memtui.settings.schema import EmbeddingSettings, Settings
from tests.bench.corpus import DIMENSIONS, VERSION, Corpus, Note
from tests.support.embedding import identity_of

STORED = "bench-stored"
SHARED = "bench-shared"

FTS_BULK = {"hashsize": 64 * 2**20, "automerge": 0, "crisismerge": 64}
FTS_NORMAL = {"hashsize": 2**20, "automerge": 4, "crisismerge": 16}
_NOTED = "UPDATE files SET size = ?, mtime_ns = ?, inode = ?, seen_ns = ? WHERE path = ?"


class StoredProvider(Provider):
    """Gives vectors that were made beforehand, so that a query costs no embedding."""

    name = STORED
    model = "stored"
    dimensions = DIMENSIONS
    fingerprint = settings_fingerprint({"provider": STORED, "version": VERSION})
    batch_size = 64

    def __init__(self, vectors: Mapping[str, Vector]) -> None:
        self._vectors = vectors

    def embed_query(self, text: str, *, cancelled: Callable[[], bool] | None = None) -> Vector:
        """Look the vector up; a text that is not known has none."""
        return self._vectors.get(text, np.zeros(self.dimensions, dtype=np.float32))

    def embed_documents(
        self, texts: Sequence[str], *, cancelled: Callable[[], bool] | None = None
    ) -> Vectors:
        """Look the vectors up."""
        return np.stack([self.embed_query(text) for text in texts])


class SharedProvider(Provider):
    """A loaded provider under another name, which no engine closes."""

    name = SHARED

    def __init__(self, loaded: Provider) -> None:
        self._loaded = loaded
        self.model, self.dimensions = loaded.model, loaded.dimensions
        self.fingerprint, self.batch_size = loaded.fingerprint, loaded.batch_size

    def embed_query(self, text: str, *, cancelled: Callable[[], bool] | None = None) -> Vector:
        """Embed a query by the model."""
        return self._loaded.embed_query(text, cancelled=cancelled)

    def embed_documents(
        self, texts: Sequence[str], *, cancelled: Callable[[], bool] | None = None
    ) -> Vectors:
        """Embed texts by the model."""
        return self._loaded.embed_documents(texts, cancelled=cancelled)


@contextmanager
def registered(provider: Provider) -> Iterator[Settings]:
    """Make a provider known, and give settings that choose it."""

    def create_it(choice: EmbeddingSettings) -> Provider:
        return provider

    def identity_of_it(choice: EmbeddingSettings) -> ProviderIdentity:
        return identity_of(provider)

    name = provider.name
    register(
        Registration(
            name,
            False,
            create_it,
            lambda choice: Availability(True, "made for the bench"),
            identity_of_it,
        )
    )
    try:
        yield settings_for(name)
    finally:
        unregister(name)


def settings_for(provider: str) -> Settings:
    """Settings with that provider and without a watcher."""
    return Settings.parse({"embedding": {"provider": provider}, "index": {"watch": False}})


@dataclass(frozen=True, slots=True)
class Store:
    """An index of a corpus: the memory folder it stands for, and where its files are."""

    root: Path
    data: Path
    chunks: int

    @property
    def database(self) -> Path:
        """The file of the live generation."""
        folder = IndexFolder(self.data / workspace_id(self.root))
        generation = folder.current()
        assert generation is not None
        return folder.path(generation)

    def open(self, settings: Settings) -> Engine:
        """Open an engine that only reads."""
        return Engine.open(self.root, settings, data_dir=self.data, write=False)


def store(corpus: Corpus, chunks: int, place: Path) -> Store:
    """Make the index of `chunks` chunks below `place`, or take the one that is there."""
    made = Store(
        place / f"chunks-{chunks}-v{VERSION}", place / f"index-{chunks}-v{VERSION}", chunks
    )
    folder = IndexFolder(made.data / workspace_id(made.root))
    if folder.current() is not None:
        return made
    made.root.mkdir(parents=True, exist_ok=True)
    building = folder.begin()
    connection = open_database(building, bulk=True)
    identity = identity_of(StoredProvider({}))
    recipe = Recipe(identity)
    create(connection)
    write_meta(connection, {**recipe.meta(), "complete": "1"})
    set_options(connection, FTS_BULK)
    connection.execute("BEGIN IMMEDIATE")
    writer = IndexWriter(connection, model=recipe.model)
    row = 0
    for notes, vectors in corpus.notes(chunks):
        for note in notes:
            document, spans = _document(note, made.root)
            writer.write_document(document, spans, seen_ns=0, cancelled=lambda: False)
        writer.write_vectors({row + place: one for place, one in enumerate(vectors, start=1)})
        row += len(vectors)
    connection.execute("COMMIT")
    connection.execute("INSERT INTO chunks_fts(chunks_fts) VALUES('optimize')")
    set_options(connection, FTS_NORMAL)
    connection.close()
    folder.commit(building)
    return made


def set_options(connection: Connection, options: Mapping[str, int]) -> None:
    """Set options of the full-text table."""
    for name, value in options.items():
        connection.execute("INSERT INTO chunks_fts(chunks_fts, rank) VALUES(?, ?)", (name, value))


def _document(note: Note, root: Path) -> tuple[Document, list[ChunkSpan]]:
    spans = []
    line = 1
    for piece in note.pieces:
        lines = piece.count("\n") + 1
        digest = hashlib.sha256(piece.encode()).hexdigest()
        spans.append(ChunkSpan(line, line + lines - 1, piece, digest))
        line += lines
    text = "\n".join(note.pieces)
    mtime_ns = int(np.datetime64(note.day, "ns").astype(np.int64))
    file = SourceFile(note.path, root / note.path, "memory", len(text), mtime_ns, 0)
    digest = hashlib.sha256(text.encode()).hexdigest()
    dated = note.day.isoformat() in note.path
    document = Document(
        file=file,
        text=text,
        hash=digest,
        day=note.day if dated else None,
        day_from=Reason.FILE_NAME if dated else None,
        importance=None,
    )
    return document, spans


def folder(corpus: Corpus, chunks: int, place: Path) -> Store:
    """Make notes of `chunks` chunks below `place` and their index, or take what is there.

    The notes are on disk as the index knows them, so that a sync finds nothing to do. The vectors
    are invented, under the name of the embedded model: a search embeds its query by that.
    """
    made = Store(place / f"notes-{chunks}-v{VERSION}", place / f"noted-{chunks}-v{VERSION}", chunks)
    index = IndexFolder(made.data / workspace_id(made.root))
    if index.current() is not None:
        return made
    bare = store(corpus, chunks, place)
    _write(corpus, chunks, made.root)
    index.create()
    building = index.begin()
    shutil.copyfile(bare.database, building)
    connection = open_database(building)
    stats = []
    for (path,) in connection.execute("SELECT path FROM files").fetchall():
        found = os.stat(made.root / str(path))
        stats.append((found.st_size, found.st_mtime_ns, found.st_ino, time.time_ns(), str(path)))
    recipe = Recipe(MODELS["minilm"].identity(EmbeddingSettings()))
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany(_NOTED, stats)
    connection.execute("UPDATE chunks SET model = ?", (recipe.model,))
    write_meta(connection, recipe.meta())
    connection.execute("COMMIT")
    connection.close()
    index.commit(building)
    return made


def copy(made: Store, place: Path) -> Store:
    """Copy an index, not its notes, so that it may be written to."""
    taken = replace(made, data=place)
    shutil.copytree(made.data, place)
    return taken


def _write(corpus: Corpus, chunks: int, root: Path) -> None:
    for notes, _ in corpus.notes(chunks):
        for note in notes:
            path = root / note.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n".join(note.pieces), encoding="utf-8")
            # Long enough ago for a sync to trust what it sees.
            at = datetime(note.day.year, note.day.month, note.day.day, tzinfo=UTC).timestamp()
            os.utime(path, (at, at))

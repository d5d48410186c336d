"""Indexes as OpenClaw lays them out, of a wanted size: generation 1 (JSON) and 3 (blobs)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw
import numpy as np
from numpy.typing import NDArray

from tests.bench.corpus import DIMENSIONS, VERSION, Corpus, Note
from tests.bench.stores import FTS_BULK, FTS_NORMAL

MODEL = "text-embedding-3-small"
_PARTS = 6
_CHOICES = 400
_STATE_PAGE = 4096
_FTS = (
    "text, id UNINDEXED, path UNINDEXED, source UNINDEXED, model UNINDEXED, "
    "start_line UNINDEXED, end_line UNINDEXED"
)
_CHUNK_COLUMNS = (
    "id TEXT {key}, path TEXT NOT NULL, source TEXT NOT NULL DEFAULT 'memory', "
    "start_line INTEGER NOT NULL, end_line INTEGER NOT NULL, hash TEXT NOT NULL, "
    "model TEXT NOT NULL, text TEXT NOT NULL, embedding {kind} NOT NULL, "
    "updated_at INTEGER NOT NULL"
)


@dataclass(frozen=True, slots=True)
class Generation:
    """Names and forms of one generation's tables."""

    number: int
    prefix: str
    files: str
    profile: str
    blobs: bool

    @property
    def chunks(self) -> str:
        """The chunk table; its full-text and vector tables have its name and an ending."""
        return f"{self.prefix}chunks"

    @property
    def paths(self) -> str | None:
        """The full-text table of paths."""
        return f"{self.prefix}paths_fts" if self.blobs else None


GENERATIONS = (
    Generation(1, "", "files", "openclaw-2026.4", False),
    Generation(3, "memory_index_", "memory_index_sources", "openclaw-2026.9", True),
)


@dataclass(frozen=True, slots=True)
class ForeignStore:
    """An index and the workspace that it was made from."""

    generation: Generation
    database: Path
    workspace: Path
    chunks: int


def foreign_store(corpus: Corpus, chunks: int, generation: Generation, place: Path) -> ForeignStore:
    """Make the index of `chunks` chunks below `place`, or take the one that is there."""
    folder = place / f"foreign-{chunks}-v{VERSION}"
    database = folder / f"generation-{generation.number}.sqlite"
    made = ForeignStore(generation, database, folder / "workspace", chunks)
    if not (folder / "workspace" / "complete").exists():
        corpus.write(made.workspace, -(-chunks // 5), 5)
        (made.workspace / "complete").touch()
    if not database.exists():
        building = database.with_suffix(".building")
        building.unlink(missing_ok=True)
        _build(corpus, chunks, generation, building, made.workspace)
        building.replace(database)
    return made


def query_vector(number: int) -> NDArray[np.float64]:
    """A random unit vector, float64 numbers of single precision."""
    drawn = np.random.default_rng([7, number]).standard_normal(DIMENSIONS)
    return (drawn / np.linalg.norm(drawn)).astype(np.float32).astype(np.float64)


def _build(
    corpus: Corpus, chunks: int, generation: Generation, database: Path, workspace: Path
) -> None:
    import sqlite_vec

    connection = apsw.Connection(str(database))
    connection.enable_load_extension(True)
    connection.load_extension(sqlite_vec.loadable_path())
    connection.execute(f"PRAGMA page_size = {_STATE_PAGE}")
    connection.execute("PRAGMA journal_mode = OFF").fetchall()
    with connection:
        _tables(connection, generation)
        for table in _full_text(generation):
            _set_options(connection, table, FTS_BULK)
        rows = _rows(corpus, chunks, _Vectors(chunks))
        for file, pieces in rows:
            _write(connection, generation, file, pieces, workspace)
        for table in _full_text(generation):
            connection.execute(f"INSERT INTO {table}({table}) VALUES('optimize')")
            _set_options(connection, table, FTS_NORMAL)
        _indexes(connection, generation)
    # An idle database of the real program is one whose journal is the log, without the log.
    connection.execute("PRAGMA journal_mode = WAL").fetchall()
    connection.close()


def _tables(connection: apsw.Connection, generation: Generation) -> None:
    prefix, chunks = generation.prefix, generation.chunks
    identity = {
        "model": MODEL, "provider": "openai", "providerKey": "bench", "sources": ["memory"],
        "scopeHash": "bench", "chunkTokens": 400, "chunkOverlap": 80, "ftsTokenizer": "unicode61",
        "vectorDims": DIMENSIONS,
    }  # fmt: skip
    connection.execute(f"CREATE TABLE {prefix}meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)")
    meta = f"INSERT INTO {prefix}meta VALUES (?, ?)"
    if generation.blobs:
        identity |= {"chunkingVersion": 5, "provenanceVersion": 1}
        row, key, kind = "chunk_rowid INTEGER PRIMARY KEY, ", "NOT NULL UNIQUE", "BLOB"
        files = "id INTEGER PRIMARY KEY, path TEXT NOT NULL, "
        connection.execute(meta, ("memory_vector_rebuild_v1", "clean"))
        connection.execute("CREATE TABLE schema_meta (schema_version, agent_id, app_version)")
        connection.execute("INSERT INTO schema_meta VALUES (23, 'main', '2026.9.6')")
        connection.execute(
            f"CREATE TABLE {prefix}chunk_recall_metadata "
            "(chunk_id TEXT PRIMARY KEY, importance INTEGER, triggers TEXT, project_key TEXT)"
        )
        connection.execute(f"CREATE TABLE {prefix}state (id INTEGER PRIMARY KEY, revision INTEGER)")
        connection.execute(f"INSERT INTO {prefix}state VALUES (1, 1)")
        connection.execute(
            f"CREATE VIRTUAL TABLE {generation.paths} USING fts5(path, source UNINDEXED)"
        )
    else:
        row, key, kind, files = "", "PRIMARY KEY", "TEXT", "path TEXT PRIMARY KEY, "
    connection.execute(meta, ("memory_index_meta_v1", json.dumps(identity)))
    connection.execute(
        f"CREATE TABLE {generation.files} ({files}source TEXT NOT NULL DEFAULT 'memory', "
        "hash TEXT NOT NULL, mtime REAL NOT NULL, size INTEGER NOT NULL)"
    )
    connection.execute(f"CREATE TABLE {chunks} ({row}{_CHUNK_COLUMNS.format(key=key, kind=kind)})")
    connection.execute(f"CREATE VIRTUAL TABLE {chunks}_fts USING fts5({_FTS})")
    connection.execute(
        f"CREATE VIRTUAL TABLE {chunks}_vec USING vec0"
        f"(id TEXT PRIMARY KEY, embedding FLOAT[{DIMENSIONS}])"
    )


def _indexes(connection: apsw.Connection, generation: Generation) -> None:
    chunks = generation.chunks
    wanted = {"path": "path", "source": "source"}
    if generation.blobs:
        wanted["path_source"] = "path, source"
    for name, columns in wanted.items():
        connection.execute(f"CREATE INDEX idx_{chunks}_{name} ON {chunks}({columns})")


def _full_text(generation: Generation) -> Sequence[str]:
    body = f"{generation.chunks}_fts"
    return (body, generation.paths) if generation.paths else (body,)


def _set_options(connection: apsw.Connection, table: str, options: dict[str, int]) -> None:
    for name, value in options.items():
        connection.execute(f"INSERT INTO {table}({table}, rank) VALUES(?, ?)", (name, value))


class _Vectors:
    """Random unit vectors put together from parts, so that their JSON need not be made anew."""

    def __init__(self, count: int) -> None:
        rng = np.random.default_rng(5)
        drawn = rng.standard_normal((_PARTS, _CHOICES, DIMENSIONS // _PARTS))
        length = np.linalg.norm(drawn, axis=2, keepdims=True) * np.sqrt(_PARTS)
        self._parts = (drawn / length).astype(np.float32).astype(np.float64)
        self._texts = [
            [json.dumps(part.tolist(), separators=(",", ":"))[1:-1] for part in choices]
            for choices in self._parts
        ]
        self._chosen = rng.integers(0, _CHOICES, (count, _PARTS))

    def vector(self, number: int) -> NDArray[np.float64]:
        """The vector of a chunk."""
        return np.concatenate(
            [self._parts[place, one] for place, one in enumerate(self._chosen[number])]
        )

    def text(self, number: int) -> str:
        """The same as JSON."""
        chosen = enumerate(self._chosen[number].tolist())
        return f"[{','.join(self._texts[place][one] for place, one in chosen)}]"


@dataclass(frozen=True, slots=True)
class _Piece:
    number: int
    first: int
    last: int
    text: str
    vectors: _Vectors


def _rows(corpus: Corpus, chunks: int, vectors: _Vectors) -> Iterator[tuple[Note, list[_Piece]]]:
    number = 0
    for notes, _ in corpus.notes(chunks):
        for note in notes:
            pieces, line = [], 1
            for text in note.pieces:
                last = line + text.count("\n")
                pieces.append(_Piece(number, line, last, text, vectors))
                line, number = last + 1, number + 1
            yield note, pieces


def _write(
    connection: apsw.Connection,
    generation: Generation,
    note: Note,
    pieces: Sequence[_Piece],
    workspace: Path,
) -> None:
    file = workspace / note.path
    state = file.stat()
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    found = (note.path, "memory", digest, state.st_mtime_ns // 1_000_000, state.st_size)
    connection.execute(
        f"INSERT INTO {generation.files}(path, source, hash, mtime, size) VALUES (?, ?, ?, ?, ?)",
        found,
    )
    if generation.paths:
        connection.execute(
            f"INSERT INTO {generation.paths}(rowid, path, source) VALUES (?, ?, 'memory')",
            (connection.last_insert_rowid(), note.path),
        )
    chunks = generation.chunks
    for piece in pieces:
        row = piece.number + 1
        digest = hashlib.sha256(piece.text.encode()).hexdigest()
        name = hashlib.sha256(f"{note.path}:{piece.first}:{digest}".encode()).hexdigest()
        vector = piece.vectors.vector(piece.number)
        stored: Any = vector.tobytes() if generation.blobs else piece.vectors.text(piece.number)
        place = (note.path, "memory", piece.first, piece.last)
        connection.execute(
            f"INSERT INTO {chunks}(rowid, id, path, source, start_line, end_line, hash, model, "
            "text, embedding, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0)",
            (row, name, *place, digest, MODEL, piece.text, stored),
        )
        connection.execute(
            f"INSERT INTO {chunks}_fts(rowid, text, id, path, source, start_line, end_line, model) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (row, piece.text, name, *place, MODEL),
        )
        connection.execute(
            f"INSERT INTO {chunks}_vec(id, embedding) VALUES (?, ?)",
            (name, vector.astype("<f4").tobytes()),
        )

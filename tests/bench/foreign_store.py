"""An index as OpenClaw 2026.9 lays it out, of a wanted size."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import apsw
import numpy as np
from numpy.typing import NDArray

from tests.bench.corpus import CHUNKS_A_FILE, DIMENSIONS, VERSION, Corpus, Floats, Note

MODEL = "text-embedding-3-small"
PROFILE = "openclaw-2026.9"
PREFIX = "memory_index_"
CHUNKS = f"{PREFIX}chunks"
FILES = f"{PREFIX}sources"
PATHS = f"{PREFIX}paths_fts"

_IDENTITY = {
    "model": MODEL, "provider": "openai", "providerKey": "bench", "sources": ["memory"],
    "scopeHash": "bench", "chunkTokens": 400, "chunkOverlap": 80, "ftsTokenizer": "unicode61",
    "vectorDims": DIMENSIONS, "chunkingVersion": 5, "provenanceVersion": 1,
}  # fmt: skip
_TABLES = f"""
CREATE TABLE {PREFIX}meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE schema_meta (schema_version, agent_id, app_version);
INSERT INTO schema_meta VALUES (23, 'main', '2026.9.6');
CREATE TABLE {PREFIX}chunk_recall_metadata
  (chunk_id TEXT PRIMARY KEY, importance INTEGER, triggers TEXT, project_key TEXT);
CREATE TABLE {PREFIX}state (id INTEGER PRIMARY KEY, revision INTEGER);
INSERT INTO {PREFIX}state VALUES (1, 1);
CREATE TABLE {FILES} (id INTEGER PRIMARY KEY, path TEXT NOT NULL,
  source TEXT NOT NULL DEFAULT 'memory', hash TEXT NOT NULL, mtime REAL NOT NULL, size INTEGER NOT NULL);
CREATE TABLE {CHUNKS} (chunk_rowid INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, path TEXT NOT NULL,
  source TEXT NOT NULL DEFAULT 'memory', start_line INTEGER NOT NULL, end_line INTEGER NOT NULL,
  hash TEXT NOT NULL, model TEXT NOT NULL, text TEXT NOT NULL, embedding BLOB NOT NULL,
  updated_at INTEGER NOT NULL);
CREATE VIRTUAL TABLE {PATHS} USING fts5(path, source UNINDEXED);
CREATE VIRTUAL TABLE {CHUNKS}_fts USING fts5(text, id UNINDEXED, path UNINDEXED, source UNINDEXED,
  model UNINDEXED, start_line UNINDEXED, end_line UNINDEXED);
CREATE VIRTUAL TABLE {CHUNKS}_vec USING vec0(id TEXT PRIMARY KEY, embedding FLOAT[{DIMENSIONS}]);
"""
_INDEXES = f"""
CREATE INDEX idx_{CHUNKS}_path ON {CHUNKS}(path);
CREATE INDEX idx_{CHUNKS}_source ON {CHUNKS}(source);
CREATE INDEX idx_{CHUNKS}_path_source ON {CHUNKS}(path, source);
INSERT INTO {CHUNKS}_fts({CHUNKS}_fts) VALUES('optimize');
"""


@dataclass(frozen=True, slots=True)
class ForeignStore:
    """An index and the workspace that it was made from."""

    database: Path
    workspace: Path
    chunks: int


def foreign_store(corpus: Corpus, chunks: int, place: Path) -> ForeignStore:
    """Make the index of `chunks` chunks below `place`, or take the one that is there."""
    folder = place / f"foreign-{chunks}-v{VERSION}"
    made = ForeignStore(folder / "index.sqlite", folder / "workspace", chunks)
    if not made.database.exists():
        corpus.write(made.workspace, -(-chunks // CHUNKS_A_FILE), CHUNKS_A_FILE)
        building = made.database.with_suffix(".building")
        building.unlink(missing_ok=True)
        _build(corpus, chunks, building, made.workspace)
        building.replace(made.database)
    return made


def query_vector(number: int) -> NDArray[np.float64]:
    """A random unit vector, float64 numbers of single precision."""
    drawn = np.random.default_rng([7, number]).standard_normal(DIMENSIONS)
    return (drawn / np.linalg.norm(drawn)).astype(np.float32).astype(np.float64)


def _build(corpus: Corpus, chunks: int, database: Path, workspace: Path) -> None:
    import sqlite_vec

    connection = apsw.Connection(str(database))
    connection.enable_load_extension(True)
    connection.load_extension(sqlite_vec.loadable_path())
    connection.execute("PRAGMA journal_mode = OFF").fetchall()
    with connection:
        connection.execute(_TABLES).fetchall()
        meta = {"memory_index_meta_v1": json.dumps(_IDENTITY), "memory_vector_rebuild_v1": "clean"}
        connection.executemany(f"INSERT INTO {PREFIX}meta VALUES (?, ?)", meta.items())
        first_row = 1
        for notes, vectors in corpus.notes(chunks):
            done = 0
            for note in notes:
                own = vectors[done : done + len(note.pieces)]
                _write(connection, note, first_row + done, own, workspace / note.path)
                done += len(note.pieces)
            first_row += done
        connection.execute(_INDEXES).fetchall()
    # An idle database of the real program is one whose journal is the log, without the log.
    connection.execute("PRAGMA journal_mode = WAL").fetchall()
    connection.close()


def _write(connection: apsw.Connection, note: Note, row: int, vectors: Floats, file: Path) -> None:
    state = file.stat()
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    connection.execute(
        f"INSERT INTO {FILES}(path, source, hash, mtime, size) VALUES (?, 'memory', ?, ?, ?)",
        (note.path, digest, state.st_mtime_ns // 1_000_000, state.st_size),
    )
    connection.execute(
        f"INSERT INTO {PATHS}(rowid, path, source) VALUES (?, ?, 'memory')",
        (connection.last_insert_rowid(), note.path),
    )
    line = 1
    for place, (text, vector) in enumerate(zip(note.pieces, vectors, strict=True)):
        last = line + text.count("\n")
        digest = hashlib.sha256(text.encode()).hexdigest()
        name = hashlib.sha256(f"{note.path}:{line}:{digest}".encode()).hexdigest()
        connection.execute(
            f"INSERT INTO {CHUNKS}(chunk_rowid, id, path, source, start_line, end_line, hash, "
            "model, text, embedding, updated_at) VALUES (?, ?, ?, 'memory', ?, ?, ?, ?, ?, ?, 0)",
            (row + place, name, note.path, line, last, digest, MODEL, text,
             vector.astype("<f8").tobytes()),
        )  # fmt: skip
        connection.execute(
            f"INSERT INTO {CHUNKS}_fts(rowid, text, id, path, source, start_line, end_line, model) "
            "VALUES (?, ?, ?, ?, 'memory', ?, ?, ?)",
            (row + place, text, name, note.path, line, last, MODEL),
        )
        connection.execute(
            f"INSERT INTO {CHUNKS}_vec(id, embedding) VALUES (?, ?)",
            (name, vector.astype("<f4").tobytes()),
        )
        line = last + 1

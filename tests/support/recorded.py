"""Indexes with the rows of the real ones, and the real program's answers to many queries.

The rows (`tests/data/openclaw/recorded`) were taken out of databases that OpenClaw made; `build`
puts them into a new database with the tables of that generation. `python -m tests.sample` runs
against the databases themselves.
"""

from __future__ import annotations

import functools
import json
import lzma
import tempfile
from pathlib import Path
from typing import Any

import apsw
import numpy as np

from tests.support.openclaw import connect

FOLDER = Path(__file__).parent.parent / "data" / "openclaw" / "recorded"
RELEASES = ("2026.4.26", "2026.7.1", "2026.9.6")
VECTORS = FOLDER / "vectors.npz"
"""One for each text of the three indexes, in the order of their hashes."""
QUERY_VECTORS = FOLDER / "query_vectors.json.gz"
RECORDINGS = sorted(path.name.removesuffix(".json.xz") for path in FOLDER.glob("2026*-*.json.xz"))

_FTS = (
    "text, id UNINDEXED, path UNINDEXED, source UNINDEXED, model UNINDEXED, "
    "start_line UNINDEXED, end_line UNINDEXED"
)
_BLOBS = "2026.9.6"


def recording(name: str, folder: Path) -> Path:
    """Unpack a recording (`2026.4.26-default`) into a folder; the path of its JSON."""
    path = folder / f"{name}.json"
    path.write_bytes(_unpacked(name))
    return path


@functools.lru_cache(maxsize=4)
def _unpacked(name: str) -> bytes:
    return lzma.decompress((FOLDER / f"{name}.json.xz").read_bytes())


@functools.cache
def vectors_by_hash() -> dict[str, Any]:
    """The vector of every recorded text, float32, by the text's hash; not to be changed."""
    hashes = {row[5] for release in RELEASES for row in rows_of(release)["chunks"]}
    return dict(zip(sorted(hashes), np.load(VECTORS)["vectors"], strict=True))


@functools.cache
def rows_of(release: str) -> dict[str, Any]:
    """The rows of one database, in their order; read once, not to be changed."""
    rows: dict[str, Any] = json.loads(_unpacked(release))
    return rows


def build(release: str, database: Path) -> Path:
    """Make a database of this release's generation with the recorded rows."""
    database.parent.mkdir(parents=True, exist_ok=True)
    database.write_bytes(_built(release))
    return database


@functools.cache
def _built(release: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / "built.sqlite"
        _build(release, database)
        return database.read_bytes()


def _build(release: str, database: Path) -> None:
    rows = rows_of(release)
    by_hash = vectors_by_hash()
    vectors = np.array([by_hash[row[5]] for row in rows["chunks"]])
    connection = connect(database)
    prefix = "" if release.startswith("2026.4") else "memory_index_"
    with connection:
        _tables(connection, release, prefix, vectors.shape[1])
        _fill(connection, release, prefix, rows, vectors)
    connection.close()


def _tables(connection: apsw.Connection, release: str, prefix: str, dims: int) -> None:
    kind = "BLOB" if release == _BLOBS else "TEXT"
    files = "files" if not prefix else "memory_index_sources"
    connection.execute(f"CREATE TABLE {prefix}meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)")
    connection.execute(f"CREATE TABLE {files} (path, source, hash, mtime, size)")
    connection.execute(
        f"CREATE TABLE {prefix}chunks (id TEXT PRIMARY KEY, path, source, start_line, end_line, "
        f"hash, model, text, embedding {kind} NOT NULL, updated_at)"
    )
    connection.execute(f"CREATE VIRTUAL TABLE {prefix}chunks_fts USING fts5({_FTS})")
    connection.execute(
        f"CREATE VIRTUAL TABLE {prefix}chunks_vec USING vec0"
        f"(id TEXT PRIMARY KEY, embedding FLOAT[{dims}])"
    )
    if release == _BLOBS:
        connection.execute(
            "CREATE VIRTUAL TABLE memory_index_paths_fts USING fts5(path, source UNINDEXED)"
        )
    if prefix:
        connection.execute("CREATE TABLE schema_meta (schema_version, agent_id, app_version)")


def _fill(
    connection: apsw.Connection,
    release: str,
    prefix: str,
    rows: dict[str, Any],
    vectors: np.ndarray[Any, Any],
) -> None:
    files = "files" if not prefix else "memory_index_sources"
    connection.execute(
        f"INSERT INTO {prefix}meta VALUES ('memory_index_meta_v1', ?)", (rows["meta"],)
    )
    connection.executemany(f"INSERT INTO {files} VALUES (?, ?, ?, ?, ?)", rows["files"])
    for number, (row, vector) in enumerate(zip(rows["chunks"], vectors, strict=True), start=1):
        chunk_id, path, source, start, end, digest, model, text = row
        doubles = vector.astype("<f8")
        stored = doubles.tobytes() if release == _BLOBS else json.dumps(doubles.tolist())
        connection.execute(
            f"INSERT INTO {prefix}chunks(rowid, id, path, source, start_line, end_line, hash, "
            "model, text, embedding, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0)",
            (number, chunk_id, path, source, start, end, digest, model, text, stored),
        )
        connection.execute(
            f"INSERT INTO {prefix}chunks_fts(rowid, text, id, path, source, model, start_line, "
            "end_line) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (number, text, chunk_id, path, source, model, start, end),
        )
        connection.execute(
            f"INSERT INTO {prefix}chunks_vec(id, embedding) VALUES (?, ?)",
            (chunk_id, vector.tobytes()),
        )
    if release == _BLOBS:
        connection.execute(
            "INSERT INTO memory_index_paths_fts(rowid, path, source) "
            "SELECT rowid, path, source FROM memory_index_sources"
        )
    if prefix:
        connection.execute("INSERT INTO schema_meta VALUES (1, 'main', ?)", (rows["app_version"],))

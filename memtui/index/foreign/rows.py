"""The rows of an OpenClaw index: what it says about itself, files, chunks and vectors."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

import msgspec
import numpy as np
from msgspec import Struct
from msgspec.structs import fields
from numpy.typing import NDArray

from memtui.index.database import number
from memtui.index.foreign.opening import Opened, index_format
from memtui.memory.documents import utc_time
from memtui.model.status import Identity
from memtui.retrieval.openclaw.tables import SQL, text_of, whole
from memtui.text.sanitize import safe_line

IDENTITY_KEY: Final = "memory_index_meta_v1"
REBUILD_KEY: Final = "memory_vector_rebuild_v1"
_SHOWN = 60
_LONGEST_MS: Final = 1e15


class FileRow(Struct, frozen=True):
    """A file as it was indexed: `mtime` in ms since the epoch, `size` in bytes, SHA-256 hash."""

    path: str
    source: str
    hash: str
    mtime: float
    size: int

    @property
    def mtime_ns(self) -> int:
        """The time in nanoseconds; 0 for one that no file can have."""
        is_time = math.isfinite(self.mtime) and abs(self.mtime) < _LONGEST_MS
        return int(self.mtime * 1_000_000) if is_time else 0

    @property
    def changed(self) -> datetime | None:
        """The time in UTC; `None` for one that no calendar has."""
        return utc_time(self.mtime / 1000)


def identity(opened: Opened) -> Identity:
    """Read the stored identity; what is missing or of a wrong type becomes `None` and a line."""
    text = meta_value(opened, IDENTITY_KEY)
    if text is None:
        return Identity(present=False, problems=("the index metadata is missing",))
    try:
        stored = json.loads(text)
    except (ValueError, RecursionError):
        stored = None
    if not isinstance(stored, dict):
        return Identity(problems=(f"the index metadata is not a JSON object: {_short(text)}",))
    problems: list[str] = []
    types, values = {field.name: field.type for field in fields(Identity)}, dict[str, Any]()
    for key, part in index_format()["identity"].items():
        try:
            values[part["field"]] = msgspec.convert(stored.get(key), types[part["field"]])
        except msgspec.ValidationError:
            odd = "odd sources" if key == "sources" else f"an odd {key}"
            problems.append(f"the index metadata has {odd}: {_short(json.dumps(stored[key]))}")
    return Identity(**values, problems=tuple(problems))


def meta_value(opened: Opened, key: str) -> str | None:
    """Read one value of the meta table, as text."""
    sql = f"SELECT value FROM {opened.layout.meta} WHERE key = ?"
    rows = opened.select(sql, key)
    return str(text_of(rows[0][0])) if rows else None


def versions(opened: Opened) -> tuple[int | None, str | None]:
    """Read the versions of the schema and of the program; only an agent's own database has them."""
    schema = opened.layout.schema
    named: dict[str, Any] = {}
    if schema is not None:
        sql = f"SELECT * FROM {schema} ORDER BY schema_version DESC LIMIT 1"
        for row in (cursor := opened.connection.execute(sql)):
            named = dict(zip((name for name, *_ in cursor.description), row, strict=True))
    version, app = named.get("schema_version"), named.get("app_version")
    return version if isinstance(version, int) else None, app if isinstance(app, str) else None


def revision(opened: Opened) -> int | None:
    """Read the counter that every write to files or chunks raises; `None`: generation 1."""
    if opened.layout.state is None:
        return None
    rows = opened.select(f"SELECT revision FROM {opened.layout.state} LIMIT 1")
    return rows[0][0] if rows and isinstance(rows[0][0], int) else None


def files(opened: Opened, path: str | None = None) -> tuple[FileRow, ...]:
    """Read all files, by source and path; with `path`, those of that path."""
    layout = opened.layout
    where, values = ("", ()) if path is None else (" WHERE path = ?", (path,))
    columns = f"path, {layout.source}, hash, mtime, size"
    rows = opened.select(f"SELECT {columns} FROM {layout.files}{where} ORDER BY 2, 1", *values)
    return tuple(
        FileRow(
            str(text_of(path)),
            str(text_of(source)),
            str(text_of(digest)),
            mtime if isinstance(mtime, int | float) else 0.0,
            whole(size),
        )
        for path, source, digest, mtime, size in rows
    )


def time_of(opened: Opened, path: str, source: str) -> int:
    """Return when a file changed last as the index says, in ns; 0 where it does not."""
    return next((row.mtime_ns for row in files(opened, path) if row.source == source), 0)


def counts(opened: Opened, table: str) -> dict[str, int]:
    """Count the rows of a table by source; for chunks an index answers, no row is read."""
    sql = f"SELECT {opened.layout.source}, count(*) FROM {table} GROUP BY 1 ORDER BY 1"
    return {str(text_of(name)): int(count) for name, count in opened.select(sql)}


def chunks_by_file(opened: Opened) -> dict[tuple[str, str], tuple[int, int]]:
    """Count the chunks of each (path, source), and tell the last line that they reach."""
    layout = opened.layout
    rows = opened.select(SQL["by_file"].format(source=layout.source, chunks=layout.chunks))
    return {
        (text_of(path) or "", text_of(kind) or ""): (whole(count), whole(last))
        for path, kind, count, last in rows
    }


def _short(text: str) -> str:
    line = safe_line(text)
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"


_BATCH = 1024
_FLOAT64 = np.dtype("<f8")
_FLOAT32 = np.dtype("<f4")


class VectorBatch(Struct, frozen=True):
    """Vectors of one length in rowid order: `rowids` int64 (n,), `vectors` (n, dims)."""

    rowids: NDArray[np.int64]
    vectors: NDArray[np.floating]


def read_vectors(opened: Opened) -> Iterator[VectorBatch]:
    """Read the vectors of the chunk table, some 1000 rows at a time, in rowid order.

    Exact: the float64 numbers that the program wrote. A stretch with vectors of several lengths
    gives several batches; a chunk without a vector that can be used is left out. JSON text costs
    about 0.4 µs a number, blobs next to nothing.
    """
    chunks = opened.layout.chunks
    query = f"SELECT rowid, embedding FROM {chunks} WHERE rowid > ? ORDER BY rowid LIMIT ?"
    for rows in pieces(opened, query, _BATCH):
        by_dims: dict[int, tuple[list[int], list[NDArray[np.float64]]]] = {}
        for rowid, stored in rows:
            try:
                vector = parse_vector(stored)
            except ValueError:
                continue
            if vector.size:
                rowids, vectors = by_dims.setdefault(vector.size, ([], []))
                rowids.append(rowid)
                vectors.append(vector)
        for rowids, vectors in by_dims.values():
            yield VectorBatch(np.array(rowids, dtype=np.int64), np.array(vectors))


def parse_vector(stored: object) -> NDArray[np.float64]:
    """Read one stored vector, JSON text or float64 little-endian blob; length 0: none stored.

    Raises `ValueError` with the reason when it is neither, or holds what is not a finite number.
    """
    if isinstance(stored, bytes):
        if len(stored) % _FLOAT64.itemsize:
            raise ValueError(f"{len(stored)} bytes are not a whole number of float64")
        vector = np.frombuffer(stored, dtype=_FLOAT64)
    elif isinstance(stored, str):
        try:
            vector = np.array(msgspec.json.decode(stored, type=list[float]), dtype=np.float64)
        except msgspec.ValidationError as error:
            is_array = "`$[" in str(error)
            problem = "not an array of numbers" if is_array else "not a JSON array"
            raise ValueError(problem) from None
        except msgspec.DecodeError:
            raise ValueError("not JSON") from None
    else:
        raise ValueError(f"neither JSON text nor a blob but {type(stored).__name__}")
    if not np.isfinite(vector).all():
        raise ValueError("holds a number that is not finite")
    return vector


def vector_count(opened: Opened) -> int | None:
    """Count the rows of the vector table; `None` without one, and where its row ids are gone."""
    vec, named = opened.layout.vec, "SELECT count(*) FROM sqlite_master WHERE name = ?"
    if vec is None or not number(opened.connection, named, f"{vec}_rowids"):
        return None
    return number(opened.connection, f"SELECT count(*) FROM {vec}_rowids")


def read_indexed(opened: Opened) -> VectorBatch | None:
    """Read the vec0 table from the tables it is stored in; sqlite-vec is not needed.

    Float32, as the program's own vector search sees them; rows without a chunk are left out.
    `None` when there is no such table or its parts do not fit together. About 0.3 s for 100 000
    vectors of 384 numbers.
    """
    vec, dims = opened.layout.vec, opened.layout.vec_dims
    if vec is None or dims is None or vector_count(opened) is None:
        return None
    blocks: dict[int, NDArray[np.float32]] = {}
    sql = f"SELECT rowid, vectors FROM {vec}_vector_chunks00"
    for block, stored in opened.select(sql):
        if not isinstance(stored, bytes) or len(stored) % (dims * _FLOAT32.itemsize):
            return None
        blocks[block] = np.frombuffer(stored, dtype=_FLOAT32).reshape(-1, dims)
    rows = opened.select(SQL["vector_places"].format(vec=vec, chunks=opened.layout.chunks))
    for _, block, offset in rows:
        if not isinstance(offset, int) or not 0 <= offset < len(blocks.get(block, ())):
            return None
    rowids, places, offsets = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    vectors = np.empty((len(rowids), dims), dtype=np.float32)
    for block, matrix in blocks.items():
        inside = np.flatnonzero(places == block)
        vectors[inside] = matrix[offsets[inside]]
    return VectorBatch(rowids, vectors)


def cached_vector(opened: Opened, identity: Identity, digest: str) -> NDArray[np.float64] | None:
    """Read the vector of the text whose sha256 is `digest` (hex), made as `identity` says.

    Float64 of shape (dimensions,). Without a provider key in the identity the newest entry of
    its provider and model counts. `None` when there is no such table or entry, when it is
    damaged, and when the index does not say what its vectors were made with.
    """
    if opened.layout.cache is None or not identity.provider or not identity.model:
        return None
    query = SQL["cached"].format(cache=opened.layout.cache)
    key = identity.provider_key
    for (stored,) in opened.select(query, identity.provider, identity.model, digest, key):
        try:
            vector = parse_vector(stored)
        except ValueError:
            continue
        if vector.size and identity.vector_dims in (None, vector.size):
            return vector
    return None


def pieces(opened: Opened, query: str, size: int) -> Iterator[list[Any]]:
    """Yield up to `size` rows at a time of a `query` whose first column is the rowid.

    The query takes the rowid to begin behind and the number of rows, as
    `… WHERE rowid > ? ORDER BY rowid LIMIT ?`. Ends early where rowids do not rise: a damaged
    table may give its rows in no order, and the same ones for ever. Raises `DatabaseError`.
    """
    before, last = -(2**63) - 1, -(2**63)
    while last > before:
        rows = opened.select(query, last, size)
        if not rows:
            return
        before, last = last, max(int(str(row[0])) for row in rows)
        yield rows

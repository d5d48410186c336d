"""The rows of an OpenClaw index: what it says about itself, files, chunks and vectors."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from memtui.index.foreign.opening import Layout
from memtui.model.status import Identity
from memtui.retrieval.openclaw.tables import text_of, whole
from memtui.text.sanitize import safe_line

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memtui.index.database import Connection

IDENTITY_KEY: Final = "memory_index_meta_v1"
REBUILD_KEY: Final = "memory_vector_rebuild_v1"
MEMORY: Final = "memory"
"""The source of the notes."""
_SHOWN = 60
_FIELDS: Final[Mapping[str, tuple[str, type]]] = {
    "model": ("model", str),
    "provider": ("provider", str),
    "provider_key": ("providerKey", str),
    "scope_hash": ("scopeHash", str),
    "fts_tokenizer": ("ftsTokenizer", str),
    "chunk_tokens": ("chunkTokens", int),
    "chunk_overlap": ("chunkOverlap", int),
    "vector_dims": ("vectorDims", int),
    "chunking_version": ("chunkingVersion", int),
    "provenance_version": ("provenanceVersion", int),
}
"""The key and the type of each field of the identity; its sources are a list of texts."""


@dataclass(frozen=True, slots=True)
class StoredIdentity:
    """What the index says it was made with, and what of that cannot be read."""

    identity: Identity
    present: bool
    """Whether the meta row is there; without it the program pauses its search."""
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Origin:
    """What the agent's database says about itself; `None`: not written there."""

    schema_version: int | None = None
    app_version: str | None = None


@dataclass(frozen=True, slots=True)
class FileRow:
    """A file as it was indexed: `mtime` in ms since the epoch, `size` in bytes, SHA-256 hash."""

    path: str
    source: str
    hash: str
    mtime: float
    size: int


def identity(connection: Connection, layout: Layout) -> StoredIdentity:
    """Read the stored identity; what is missing or of a wrong type becomes `None` and a line."""
    text = meta_value(connection, layout, IDENTITY_KEY)
    if text is None:
        return StoredIdentity(Identity(), False, ("the index metadata is missing",))
    try:
        stored = json.loads(text)
    except (ValueError, RecursionError):
        stored = None
    if not isinstance(stored, dict):
        line = f"the index metadata is not a JSON object: {_short(text)}"
        return StoredIdentity(Identity(), True, (line,))
    problems: list[str] = []
    fields: dict[str, Any] = {}
    for name, (key, kind) in _FIELDS.items():
        value = stored.get(key)
        if value is not None and type(value) is not kind:
            problems.append(f"the index metadata has an odd {key}: {_short(json.dumps(value))}")
            value = None
        fields[name] = value
    sources = stored.get("sources")
    if isinstance(sources, list) and all(isinstance(source, str) for source in sources):
        fields["sources"] = tuple(sources)
    elif sources is not None:
        problems.append(f"the index metadata has odd sources: {_short(json.dumps(sources))}")
    return StoredIdentity(Identity(**fields), True, tuple(problems))


def meta_value(connection: Connection, layout: Layout, key: str) -> str | None:
    """Read one value of the meta table, as text."""
    rows = connection.execute(f"SELECT value FROM {layout.meta} WHERE key = ?", (key,)).fetchall()
    return _text(rows[0][0]) if rows else None


def origin(connection: Connection, layout: Layout) -> Origin:
    """Read `schema_meta`, which only an agent's own database has."""
    if layout.schema is None:
        return Origin()
    columns = connection.execute(
        "SELECT name FROM pragma_table_info(?)", (layout.schema,)
    ).fetchall()
    rows = connection.execute(
        f"SELECT * FROM {layout.schema} ORDER BY schema_version DESC LIMIT 1"
    ).fetchall()
    row = dict(zip((str(name) for (name,) in columns), rows[0], strict=True)) if rows else {}
    version, app = row.get("schema_version"), row.get("app_version")
    return Origin(
        schema_version=version if isinstance(version, int) else None,
        app_version=app if isinstance(app, str) else None,
    )


def revision(connection: Connection, layout: Layout) -> int | None:
    """Read the counter that every write to files or chunks raises; `None`: generation 1."""
    if layout.state is None:
        return None
    rows = connection.execute(f"SELECT revision FROM {layout.state} LIMIT 1").fetchall()
    return rows[0][0] if rows and isinstance(rows[0][0], int) else None


def files(connection: Connection, layout: Layout, path: str | None = None) -> tuple[FileRow, ...]:
    """Read all files, by source and path; with `path`, those of that path."""
    source = "source" if layout.files_have_source else "'memory'"
    where, values = ("", ()) if path is None else (" WHERE path = ?", (path,))
    rows = connection.execute(
        f"SELECT path, {source}, hash, mtime, size FROM {layout.files}{where} ORDER BY 2, 1", values
    ).fetchall()
    return tuple(
        FileRow(
            _text(path),
            _text(kind),
            _text(digest),
            mtime if isinstance(mtime, int | float) else 0.0,
            whole(size),
        )
        for path, kind, digest, mtime, size in rows
    )


def file_counts(connection: Connection, layout: Layout) -> dict[str, int]:
    """Count the files of each source."""
    return _counts(connection, layout.files, layout.files_have_source)


def chunk_counts(connection: Connection, layout: Layout) -> dict[str, int]:
    """Count the chunks of each source; an index answers, the rows are not read."""
    return _counts(connection, layout.chunks, layout.chunks_have_source)


def _counts(connection: Connection, table: str, has_source: bool) -> dict[str, int]:
    source = "source" if has_source else "'memory'"
    rows = connection.execute(f"SELECT {source}, count(*) FROM {table} GROUP BY 1 ORDER BY 1")
    return {_text(name): count for name, count in rows.fetchall() if isinstance(count, int)}


def _text(value: object) -> str:
    # A file of the older generations is not STRICT: a column may hold any type.
    return str(text_of(value))


def _short(text: str) -> str:
    line = safe_line(text)
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"


# --- vectors ----------------------------------------------------------------------------------

_BATCH = 1024
_FLOAT64 = np.dtype("<f8")
_FLOAT32 = np.dtype("<f4")


@dataclass(frozen=True, slots=True)
class VectorBatch:
    """Vectors of one length in rowid order: `rowids` int64 (n,), `vectors` (n, dims)."""

    rowids: NDArray[np.int64]
    vectors: NDArray[np.floating]


def read_vectors(connection: Connection, layout: Layout) -> Iterator[VectorBatch]:
    """Read the vectors of the chunk table, some 1000 rows at a time, in rowid order.

    Exact: the float64 numbers that the program wrote. A stretch with vectors of several lengths
    gives several batches; a chunk without a vector that can be used is left out. JSON text costs
    about 0.4 µs a number, blobs next to nothing.
    """
    query = f"SELECT rowid, embedding FROM {layout.chunks} WHERE rowid > ? ORDER BY rowid LIMIT ?"
    for rows in pieces(connection, query, _BATCH):
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
        vector = _from_json(stored)
    else:
        raise ValueError(f"neither JSON text nor a blob but {type(stored).__name__}")
    if not np.isfinite(vector).all():
        raise ValueError("holds a number that is not finite")
    return vector


def _from_json(text: str) -> NDArray[np.float64]:
    try:
        numbers = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("not JSON") from None
    if not isinstance(numbers, list):
        raise ValueError("not a JSON array")
    try:
        # Given the type, numpy would turn null and texts of digits into numbers.
        vector = np.array(numbers) if numbers else np.empty(0)
        if vector.ndim != 1 or vector.dtype.kind not in "fiu":
            raise ValueError
    except (ValueError, OverflowError):
        raise ValueError("not an array of numbers") from None
    return vector.astype(np.float64, copy=False)


def read_indexed(connection: Connection, layout: Layout) -> VectorBatch | None:
    """Read the vec0 table from the tables it is stored in; sqlite-vec is not needed.

    Float32, as the program's own vector search sees them; rows without a chunk are left out.
    `None` when there is no such table or its parts do not fit together. About 0.3 s for 100 000
    vectors of 384 numbers.
    """
    if layout.vec is None or layout.vec_dims is None:
        return None
    blocks: dict[int, NDArray[np.float32]] = {}
    stored_blocks: list[Any] = connection.execute(
        f"SELECT rowid, vectors FROM {layout.vec}_vector_chunks00"
    ).fetchall()
    for number, stored in stored_blocks:
        if not isinstance(stored, bytes) or len(stored) % (layout.vec_dims * _FLOAT32.itemsize):
            return None
        blocks[number] = np.frombuffer(stored, dtype=_FLOAT32).reshape(-1, layout.vec_dims)
    # Sorted and read row by row, so that other threads need not wait for all of it.
    rows: Iterable[Any] = connection.execute(
        f"SELECT c.rowid, v.chunk_id, v.chunk_offset FROM {layout.vec}_rowids v"
        f" JOIN {layout.chunks} c ON c.id = v.id ORDER BY 1"
    )
    order: tuple[list[int], list[int], list[int]] = ([], [], [])
    for row in rows:
        _, block, offset = row
        if not isinstance(offset, int) or not 0 <= offset < len(blocks.get(block, ())):
            return None
        for values, value in zip(order, row, strict=True):
            values.append(value)
    rowids, places, offsets = (np.array(values, dtype=np.int64) for values in order)
    vectors = np.empty((len(rowids), layout.vec_dims), dtype=np.float32)
    for block, matrix in blocks.items():
        inside = np.flatnonzero(places == block)
        vectors[inside] = matrix[offsets[inside]]
    return VectorBatch(rowids, vectors)


def cached_vector(
    connection: Connection, layout: Layout, identity: Identity, digest: str
) -> NDArray[np.float64] | None:
    """Read the vector of the text whose sha256 is `digest` (hex), made as `identity` says.

    Float64 of shape (dimensions,). Without a provider key in the identity the newest entry of
    its provider and model counts. `None` when there is no such table or entry, when it is
    damaged, and when the index does not say what its vectors were made with.
    """
    if layout.cache is None or not identity.provider or not identity.model:
        return None
    query = (
        f"SELECT embedding FROM {layout.cache} WHERE provider = ? AND model = ? AND hash = ?"
        " AND (?4 IS NULL OR provider_key = ?4) ORDER BY updated_at DESC"
    )
    values = (identity.provider, identity.model, digest, identity.provider_key)
    for (stored,) in connection.execute(query, values).fetchall():
        try:
            vector = parse_vector(stored)
        except ValueError:
            continue
        if vector.size and identity.vector_dims in (None, vector.size):
            return vector
    return None


def pieces(connection: Connection, query: str, size: int) -> Iterator[list[Any]]:
    """Yield up to `size` rows at a time of a `query` whose first column is the rowid.

    The query takes the rowid to begin behind and the number of rows, as
    `… WHERE rowid > ? ORDER BY rowid LIMIT ?`. Ends early where rowids do not rise: a damaged
    table may give its rows in no order, and the same ones for ever. Raises `DatabaseError`.
    """
    before, last = -(2**63) - 1, -(2**63)
    while last > before:
        rows = connection.execute(query, (last, size)).fetchall()
        if not rows:
            return
        before, last = last, max(int(str(row[0])) for row in rows)
        yield rows

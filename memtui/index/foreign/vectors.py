"""The vectors of an OpenClaw index, from its chunk table and from its vec0 table."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from memtui.index.foreign.layout import Layout
from memtui.index.foreign.pieces import pieces

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memtui.index.database import Connection

_BATCH = 1024
_FLOAT64 = np.dtype("<f8")
_FLOAT32 = np.dtype("<f4")


@dataclass(frozen=True, slots=True)
class DamagedVector:
    """A vector that cannot be used: the chunk it belongs to, and why."""

    chunk_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class VectorBatch:
    """Vectors of one length in rowid order: `rowids` int64 (n,), `vectors` float64 (n, dims)."""

    rowids: NDArray[np.int64]
    vectors: NDArray[np.float64]
    without: tuple[int, ...] = ()
    """Rowids of chunks of this stretch that were stored without a vector."""
    damaged: tuple[DamagedVector, ...] = ()


@dataclass(frozen=True, slots=True)
class IndexedVectors:
    """What the vec0 table holds: `rowids` int64 (n,) of the chunks, `vectors` float32 (n, dims)."""

    rowids: NDArray[np.int64]
    vectors: NDArray[np.float32]
    orphans: tuple[str, ...]
    """Ids that the vector table has and the chunk table has not."""


def read_vectors(connection: Connection, layout: Layout) -> Iterator[VectorBatch]:
    """Read the vectors of the chunk table, some 1000 rows at a time, in rowid order.

    Exact: the float64 numbers that the program wrote. A stretch with vectors of several lengths
    gives several batches, `without` and `damaged` belong to the first of them. JSON text costs
    about 0.4 µs a number, blobs next to nothing.
    """
    query = (
        f"SELECT rowid, id, embedding FROM {layout.chunks} WHERE rowid > ? ORDER BY rowid LIMIT ?"
    )
    for rows in pieces(connection, query, _BATCH):
        yield from _batches(rows)


def _batches(rows: list[Any]) -> Iterator[VectorBatch]:
    by_dims: dict[int, tuple[list[int], list[NDArray[np.float64]]]] = {}
    without: list[int] = []
    damaged: list[DamagedVector] = []
    for rowid, identifier, stored in rows:
        try:
            vector = parse_vector(stored)
        except ValueError as error:
            damaged.append(DamagedVector(str(identifier), str(error)))
            continue
        if vector.size == 0:
            without.append(rowid)
            continue
        rowids, vectors = by_dims.setdefault(vector.size, ([], []))
        rowids.append(rowid)
        vectors.append(vector)
    if not by_dims:
        by_dims[0] = ([], [])
    notes = (tuple(without), tuple(damaged))
    for dims, (rowids, vectors) in by_dims.items():
        matrix = np.array(vectors) if vectors else np.empty((0, dims))
        yield VectorBatch(np.array(rowids, dtype=np.int64), matrix, *notes)
        notes = ((), ())


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


def read_indexed(connection: Connection, layout: Layout) -> IndexedVectors | None:
    """Read the vec0 table from the tables it is stored in; sqlite-vec is not needed.

    Float32, as the program's own vector search sees them. `None` when there is no such table or
    its parts do not fit together. About 0.3 s for 100 000 vectors of 384 numbers.
    """
    if layout.vec is None or layout.vec_dims is None:
        return None
    dims = layout.vec_dims
    blocks: dict[int, NDArray[np.float32]] = {}
    stored_blocks: list[Any] = connection.execute(
        f"SELECT rowid, vectors FROM {layout.vec}_vector_chunks00"
    ).fetchall()
    for number, stored in stored_blocks:
        if not isinstance(stored, bytes) or len(stored) % (dims * _FLOAT32.itemsize):
            return None
        blocks[number] = np.frombuffer(stored, dtype=_FLOAT32).reshape(-1, dims)
    return _gather(connection, layout, blocks)


def _gather(
    connection: Connection, layout: Layout, blocks: dict[int, NDArray[np.float32]]
) -> IndexedVectors | None:
    order: tuple[list[int], list[int], list[int]] = ([], [], [])
    orphans: list[str] = []
    # Sorted and read row by row, so that other threads need not wait for all of it.
    rows: Iterable[Any] = connection.execute(
        f"SELECT c.rowid, v.id, v.chunk_id, v.chunk_offset FROM {layout.vec}_rowids v"
        f" LEFT JOIN {layout.chunks} c ON c.id = v.id ORDER BY 1"
    )
    for rowid, identifier, block, offset in rows:
        if rowid is None:
            orphans.append(str(identifier))
        elif not isinstance(offset, int) or not 0 <= offset < len(blocks.get(block, ())):
            return None
        else:
            for values, value in zip(order, (rowid, block, offset), strict=True):
                values.append(value)
    rowids, places, offsets = (np.array(values, dtype=np.int64) for values in order)
    vectors = np.empty((len(rowids), layout.vec_dims or 0), dtype=np.float32)
    for block, matrix in blocks.items():
        inside = np.flatnonzero(places == block)
        vectors[inside] = matrix[offsets[inside]]
    return IndexedVectors(rowids, vectors, tuple(orphans))

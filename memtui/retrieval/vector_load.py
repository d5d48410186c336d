"""Fills a vector view from the index, or from the cache of embeddings where it must."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from itertools import islice
from typing import Any, Protocol

import numpy as np

from memtui.errors import Cancelled
from memtui.retrieval.connection import (
    Connection,
    Rows,
    is_database_error,
    is_interruption,
    snapshot,
)
from memtui.retrieval.legs import Cancelled as IsCancelled
from memtui.retrieval.vector_view import EXACT_LIMIT, Floats, RowIds, VectorView, ViewBuilder

_CHECKED_ROWS = 16
_ROWS_AT_A_TIME = 2048
# A platform without sqlite-vec has written here: the vector table, if any, is out of date.
_ONLY_IN_CACHE = "SELECT count(*) FROM meta WHERE key = 'vectors' AND value = 'cache'"
_BLOCKS = (
    "SELECT c.validity, c.rowids, v.vectors FROM chunks_vec_chunks c "
    "JOIN chunks_vec_vector_chunks00 v ON v.rowid = c.chunk_id"
)

Undisturbed = Callable[[], AbstractContextManager[None]]


class VectorCache(Protocol):
    """Something that keeps vectors by the hash of their text."""

    def get_many(self, identity: Any, hashes: Sequence[str], /) -> Mapping[str, Floats]:
        """Give the vectors that are known, each of shape (dims,)."""


def load_view(
    connection: Connection,
    cache: VectorCache | None,
    identity: Any,
    dims: int,
    *,
    generation: int = 0,
    exact_limit: int = EXACT_LIMIT,
    undisturbed: Undisturbed = nullcontext,
    gives_way: IsCancelled | None = None,
) -> VectorView:
    """Read every vector of the index into memory.

    The blocks in which the vector table stores them are read directly when they prove to hold
    what the table itself answers; otherwise the table is asked, and where it cannot be opened
    (no sqlite-vec on this platform) `cache` gives the vectors of `identity` by text hash. All
    rows are of one moment. Raises what SQLite raises when the index cannot be read at all.

    `undisturbed` gives a block in which nobody calls `interrupt`: sqlite-vec ends the process when
    a statement of its own is interrupted while it is prepared. What is read in a moment is read in
    one such block, so that somebody who goes on typing does not start it again and again; what
    takes longer raises `Cancelled` between two storage blocks once `gives_way` says so.
    """
    with snapshot(connection):
        pending = _number(connection, "SELECT count(*) FROM chunks WHERE embedded = 0")
        builder = _from_table(connection, dims, exact_limit, undisturbed, gives_way or _never)
        if builder is None:
            builder = _from_cache(connection, cache, identity, dims, exact_limit)
    return builder.finish(generation=generation, pending=pending)


def _from_table(
    connection: Connection,
    dims: int,
    exact_limit: int,
    undisturbed: Undisturbed,
    gives_way: IsCancelled,
) -> ViewBuilder | None:
    if _number(connection, _ONLY_IN_CACHE):
        return None
    try:
        with undisturbed():
            connection.execute("SELECT rowid FROM chunks_vec LIMIT 1").fetchall()
    except Exception as error:
        if not is_database_error(error):
            raise
        # No such table, or no such module: the platform has no sqlite-vec.
        return None
    count = _count(connection, undisturbed)
    with ExitStack() as stack:
        if count * dims <= exact_limit:
            stack.enter_context(undisturbed())
            gives_way = _never
        builder = ViewBuilder(count, dims, exact_limit=exact_limit)
        is_whole = _add_blocks(connection, count, dims, builder, undisturbed, gives_way)
    if not is_whole:
        with undisturbed():
            builder = _from_rows(connection, count, dims, exact_limit)
    return builder


def _count(connection: Connection, undisturbed: Undisturbed) -> int:
    """Count the vectors, by the table of their rows where there is one: SQLite counts pages."""
    try:
        return _number(connection, "SELECT count(*) FROM chunks_vec_rowids")
    except Exception as error:
        if is_interruption(error) or not is_database_error(error):
            raise
    with undisturbed():
        return _number(connection, "SELECT count(*) FROM chunks_vec")


def _add_blocks(
    connection: Connection,
    count: int,
    dims: int,
    builder: ViewBuilder,
    undisturbed: Undisturbed,
    gives_way: IsCancelled,
) -> bool:
    """Read the storage blocks of the table; whether they are as this version expects."""
    samples: dict[int, bytes] = {}
    total = 0
    try:
        rows = connection.execute(_BLOCKS)
        for validity, ids, vectors in rows:
            if gives_way():
                rows.close(True)
                raise Cancelled
            rowids, block = _used_rows(validity, ids, vectors, dims)
            if len(rowids) > builder.room:
                return False
            builder.append(rowids, block)
            total += len(rowids)
            if len(rowids) and len(samples) < _CHECKED_ROWS:
                samples[int(rowids[-1])] = block[-1].tobytes()
    except (ValueError, IndexError):
        return False
    except Exception as error:
        if is_interruption(error) or not is_database_error(error):
            raise
        return False
    if total != count:
        return False
    with undisturbed():
        return _agree(connection, samples)


def _used_rows(validity: bytes, ids: bytes, vectors: bytes, dims: int) -> tuple[RowIds, Floats]:
    """Take a storage block apart: one bit, one row number and one vector for each place."""
    used = np.unpackbits(np.frombuffer(validity, np.uint8), bitorder="little").astype(np.bool_)
    rowids = np.frombuffer(ids, np.int64)
    block = np.frombuffer(vectors, np.float32).reshape(-1, dims)
    # A full block is taken as it is: choosing all of its rows would copy it once more.
    full = used.all() and len(used) == len(rowids) == len(block)
    return (rowids, block) if full else (rowids[used], block[used])


def _agree(connection: Connection, samples: Mapping[int, bytes]) -> bool:
    for rowid, stored in samples.items():
        rows = connection.execute(
            "SELECT embedding FROM chunks_vec WHERE rowid = ?", (rowid,)
        ).fetchall()
        if not rows or bytes(rows[0][0]) != stored:
            return False
    return True


def _from_rows(connection: Connection, count: int, dims: int, exact_limit: int) -> ViewBuilder:
    builder = ViewBuilder(count, dims, exact_limit=exact_limit)
    rows = connection.execute("SELECT rowid, embedding FROM chunks_vec")
    while part := _some(rows):
        block = np.frombuffer(b"".join(vector for _, vector in part), np.float32)
        rowids = np.array([rowid for rowid, _ in part], dtype=np.int64)
        builder.append(rowids, block.reshape(len(part), -1))
    return builder


def _from_cache(
    connection: Connection,
    cache: VectorCache | None,
    identity: Any,
    dims: int,
    exact_limit: int,
) -> ViewBuilder:
    count = _number(connection, "SELECT count(*) FROM chunks WHERE embedded = 1")
    builder = ViewBuilder(count if cache else 0, dims, exact_limit=exact_limit)
    if cache is None:
        return builder
    rows = connection.execute("SELECT id, hash FROM chunks WHERE embedded = 1 ORDER BY id")
    while part := _some(rows):
        known = cache.get_many(identity, sorted({text_hash for _, text_hash in part}))
        found = [(rowid, known[text_hash]) for rowid, text_hash in part if text_hash in known]
        usable = [(rowid, vector) for rowid, vector in found if vector.shape == (dims,)]
        if usable:
            rowids = np.array([rowid for rowid, _ in usable], dtype=np.int64)
            builder.append(rowids, np.stack([vector for _, vector in usable]))
    return builder


def _never() -> bool:
    return False


def _some(rows: Rows) -> list[Any]:
    return list(islice(iter(rows), _ROWS_AT_A_TIME))


def _number(connection: Connection, sql: str) -> int:
    return int(connection.execute(sql).fetchall()[0][0])

"""The vectors of an index in memory: an unchanging view, how it is filled, and its nearest rows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from memtui.errors import Cancelled
from memtui.retrieval.connection import (
    Connection,
    Rows,
    is_database_error,
    is_interruption,
    snapshot,
)
from memtui.retrieval.legs import Cancelled as IsCancelled

if TYPE_CHECKING:
    from memtui.embedding.cache import EmbeddingCache
    from memtui.embedding.provider import ProviderIdentity

Floats: TypeAlias = NDArray[np.float32]
RowIds: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]
Codes: TypeAlias = NDArray[np.uint64]
Positions: TypeAlias = NDArray[np.intp]

EXACT_LIMIT = 40_000_000
"""Up to so many numbers (100,000 x 384) a full product is as fast as anything."""

_ROWS_AT_A_TIME = 8192
_SPARE_ROWS = 1024
_DEAD_SHARE = 0.25
_SHORTEST = 1e-6

_SCANNED_AT_A_TIME = 65_536
_RESCORED_AT_A_TIME = 1024
_SAMPLE_STEP = 16
_SLACK = 1e-5
"""A float32 product of unit vectors is off by far less; candidates this near are all rescored."""
MIN_RESCORED = 16_384
RESCORED_PER_HIT = 100
RESCORED_SHARE = 128

_CHECKED_ROWS = 16
_READ_AT_A_TIME = 2048
# A platform without sqlite-vec has written here: the vector table, if any, is out of date.
_ONLY_IN_CACHE = "SELECT count(*) FROM meta WHERE key = 'vectors' AND value = 'cache'"
_BLOCKS = (
    "SELECT c.validity, c.rowids, v.vectors FROM chunks_vec_chunks c "
    "JOIN chunks_vec_vector_chunks00 v ON v.rowid = c.chunk_id"
)

Undisturbed = Callable[[], AbstractContextManager[None]]


class ViewBuilder:
    """Arrays with room to grow, filled block by block and shared by the views that follow.

    A view looks only at the rows below its own count, so that writing behind them disturbs no
    search; `count` says who may write there.
    """

    def __init__(self, rows: int, dims: int, *, exact_limit: int = EXACT_LIMIT) -> None:
        """Make room for `rows` rows and some more; pages that are not written cost nothing."""
        self.capacity = rows + max(_SPARE_ROWS, rows // 8)
        self.dims = dims
        self.exact_limit = exact_limit
        self.matrix: Floats = np.empty((self.capacity, dims), dtype=np.float32)
        self.rowids: RowIds = np.empty(self.capacity, dtype=np.int64)
        self.has_direction: Mask = np.empty(self.capacity, dtype=np.bool_)
        self.codes: Codes | None = None
        if rows * dims > exact_limit:
            # Word by word, so that a scan reads each array from end to end.
            self.codes = np.empty((-(-dims // 64), self.capacity), dtype=np.uint64)
        self.count = 0
        """How many rows were appended."""
        self.lock = threading.Lock()

    def append(self, rowids: RowIds, vectors: Floats) -> None:
        """Add rows; `vectors` has the shape (len(rowids), dims)."""
        start, end = self.count, self.count + len(rowids)
        self.matrix[start:end] = vectors
        self.rowids[start:end] = rowids
        for first in range(start, end, _ROWS_AT_A_TIME):
            last = min(end, first + _ROWS_AT_A_TIME)
            block = self.matrix[first:last]
            self.has_direction[first:last] = _clear_without_direction(block)
            if self.codes is not None:
                self.codes[:, first:last] = sign_codes(block).T
        self.count = end

    def finish(self, *, pending: int = 0) -> VectorView:
        """Give the view of everything that was appended."""
        return VectorView(self, self.has_direction[: self.count].copy(), pending)


@dataclass(frozen=True, slots=True, eq=False)
class VectorView:
    """The vectors of an index at one moment: searched, never changed.

    `live` (count,) marks the rows that may be found; rows that were removed, that are zero or not
    finite are not live. `pending` is how many chunks have no vector yet.
    """

    _store: ViewBuilder
    live: Mask
    pending: int

    @property
    def count(self) -> int:
        """How many rows there are, live or not."""
        return len(self.live)

    @property
    def size(self) -> int:
        """How many rows may be found."""
        return int(np.count_nonzero(self.live))

    @property
    def dims(self) -> int:
        """How many numbers a vector has."""
        return self._store.dims

    @property
    def matrix(self) -> Floats:
        """All rows, shape (count, dims), float32, C-contiguous."""
        return self._store.matrix[: self.count]

    @property
    def rowids(self) -> RowIds:
        """The chunk row number of each row, shape (count,), in no particular order."""
        return self._store.rowids[: self.count]

    @property
    def codes(self) -> Codes | None:
        """One bit per number, shape (ceil(dims / 64), count); `None` for an exact view."""
        codes = self._store.codes
        return None if codes is None else codes[:, : self.count]

    def with_changes(
        self,
        added: RowIds | Sequence[int],
        vectors: Floats,
        removed: RowIds | Sequence[int],
        *,
        pending: int | None = None,
    ) -> VectorView:
        """Make the view that follows this one; costs as much as the change, not as the index.

        A row that is added under a number that is there already takes its place. `vectors` has
        the shape (len(added), dims); raises ValueError for any other. Row numbers of an index are
        never used twice, so that a changed text is one removed and one added row.
        """
        new = np.asarray(added, dtype=np.int64)
        matrix = np.asarray(vectors, dtype=np.float32)
        if len(new) and matrix.shape != (len(new), self.dims):
            raise ValueError(f"vectors of shape {matrix.shape} for {len(new)} rows of {self.dims}")
        gone = np.concatenate([np.asarray(removed, dtype=np.int64), new])
        live = self.live & ~np.isin(self.rowids, gone) if len(gone) else self.live
        pending = self.pending if pending is None else pending
        return self._grown(new, matrix, live, pending) or self._copied(new, matrix, live, pending)

    def _grown(
        self, rowids: RowIds, vectors: Floats, live: Mask, pending: int
    ) -> VectorView | None:
        """Write into the spare room; `None` where there is too little, or too much is dead."""
        store, count = self._store, self.count + len(rowids)
        dead = self.count - int(np.count_nonzero(live))
        needs_codes = store.codes is None and count * self.dims > store.exact_limit
        if needs_codes or dead > max(_SPARE_ROWS, _DEAD_SHARE * self.count):
            return None
        with store.lock:
            if count > store.capacity or store.count != self.count:
                return None
            if len(rowids):
                store.append(rowids, vectors)
        fresh = store.has_direction[self.count : count]
        return VectorView(store, np.concatenate([live, fresh]), pending)

    def _copied(self, rowids: RowIds, vectors: Floats, live: Mask, pending: int) -> VectorView:
        rows = np.flatnonzero(live)
        limit = self._store.exact_limit
        builder = ViewBuilder(len(rows) + len(rowids), self.dims, exact_limit=limit)
        for first in range(0, len(rows), _ROWS_AT_A_TIME):
            part = rows[first : first + _ROWS_AT_A_TIME]
            builder.append(self.rowids[part], self.matrix[part])
        if len(rowids):
            builder.append(rowids, vectors)
        return builder.finish(pending=pending)


def sign_codes(vectors: Floats) -> Codes:
    """Reduce each vector to the signs of its numbers: shape (n, dims) to (n, ceil(dims / 64))."""
    packed = np.packbits(vectors > 0, axis=1)
    bytes_per_row = -(-vectors.shape[1] // 64) * 8
    padded = np.zeros((len(vectors), bytes_per_row), dtype=np.uint8)
    padded[:, : packed.shape[1]] = packed
    return padded.view(np.uint64)


def _clear_without_direction(block: Floats) -> Mask:
    """Set rows that are zero or not finite to zero; returns which rows are neither."""
    with np.errstate(over="ignore", invalid="ignore"):
        lengths = np.einsum("ij,ij->i", block, block)
    usable: Mask = np.isfinite(lengths) & (lengths > _SHORTEST)
    if not usable.all():
        block[~usable] = 0.0
    return usable


# --- the nearest rows -------------------------------------------------------------------------


def nearest(
    view: VectorView,
    query: Floats,
    limit: int,
    allowed: RowIds | None = None,
    *,
    rescored: int | None = None,
) -> list[tuple[int, float]]:
    """Find the `limit` live rows with the largest cosine, as (chunk row number, cosine).

    `query` has the shape (dims,) and length 1. Rows that are not in `allowed` are left out before
    anything is chosen. Best first, equal cosines by row number; the cosine of a row is the same
    float whichever rows surround it. `rescored` overrides how many rows of a coded view are
    compared exactly.
    """
    eligible = view.live if allowed is None else view.live & np.isin(view.rowids, allowed)
    available = int(np.count_nonzero(eligible))
    wanted = min(limit, available)
    if wanted <= 0:
        return []
    count = rescored or rescored_rows(view.count, limit)
    if view.codes is None:
        scores = view.matrix @ query
        if available < view.count:
            scores = np.where(eligible, scores, np.float32(-np.inf))
        rows = _leading(scores, wanted)
    else:
        if available > count:
            left_out = ~eligible if available < view.count else None
            near = _by_codes(view.codes, query, max(count, wanted), left_out)
        else:
            near = np.flatnonzero(eligible)
        rows = near[_leading(_products(view.matrix, near, query), wanted)]
    cosines, ids = exact_cosines(view, query, rows), view.rowids[rows]
    order = np.lexsort((ids, -cosines))[:wanted]
    return [(int(ids[place]), float(cosines[place])) for place in order]


def rescored_rows(count: int, limit: int) -> int:
    """Tell how many rows of a coded view of `count` rows are compared exactly.

    Chosen so that at least 99 % of the true nearest rows are found, also when vectors lie in
    tight clusters.
    """
    return max(MIN_RESCORED, count // RESCORED_SHARE, RESCORED_PER_HIT * limit)


def _leading(scores: Floats, wanted: int) -> Positions:
    """Find the places of the `wanted` largest scores, and of all that rounding may hide."""
    place = len(scores) - wanted
    return np.flatnonzero(scores >= np.partition(scores, place)[place] - _SLACK)


def _products(matrix: Floats, rows: Positions, query: Floats) -> Floats:
    products = np.empty(len(rows), dtype=np.float32)
    for first in range(0, len(rows), _RESCORED_AT_A_TIME):
        part = slice(first, first + _RESCORED_AT_A_TIME)
        products[part] = matrix[rows[part]] @ query
    return products


def _by_codes(codes: Codes, query: Floats, wanted: int, left_out: Mask | None) -> Positions:
    distances = hamming(codes, sign_codes(query[None, :])[0])
    if left_out is not None:
        distances[left_out] = np.iinfo(np.uint16).max
    bound = len(query)
    counts = np.bincount(distances[::_SAMPLE_STEP], minlength=bound + 1)[: bound + 1]
    threshold = int(np.searchsorted(np.cumsum(counts) * _SAMPLE_STEP, wanted))
    while threshold < bound and np.count_nonzero(distances <= threshold) < wanted:
        threshold += 1
    return np.flatnonzero(distances <= threshold)


def hamming(codes: Codes, query: Codes) -> NDArray[np.uint16]:
    """Count the signs in which each row differs from `query`: (words, n) and (words,) to (n,)."""
    words, count = codes.shape
    distances: NDArray[np.uint16] = np.zeros(count, dtype=np.uint16)
    for first in range(0, count, _SCANNED_AT_A_TIME):
        part = distances[first : first + _SCANNED_AT_A_TIME]
        for word in range(words):
            part += np.bitwise_count(codes[word, first : first + _SCANNED_AT_A_TIME] ^ query[word])
    return distances


def exact_cosines(view: VectorView, query: Floats, rows: Positions) -> Floats:
    """Return the cosines of some rows, each the same float whichever rows are beside it."""
    wide = query.astype(np.float64)
    cosines = np.empty(len(rows), dtype=np.float64)
    for first in range(0, len(rows), _RESCORED_AT_A_TIME):
        block = view.matrix[rows[first : first + _RESCORED_AT_A_TIME]].astype(np.float64)
        # Row by row: a product of the whole block would round by position.
        cosines[first : first + len(block)] = np.einsum("ij,j->i", block, wide)
    return np.clip(cosines, -1.0, 1.0).astype(np.float32)


# --- reading the index ------------------------------------------------------------------------


def load_view(
    connection: Connection,
    cache: EmbeddingCache | None,
    identity: ProviderIdentity | None,
    dims: int,
    *,
    exact_limit: int = EXACT_LIMIT,
    undisturbed: Undisturbed = nullcontext,
    gives_way: IsCancelled | None = None,
) -> VectorView:
    """Read every vector of the index into memory.

    The blocks in which the vector table stores them are read directly, 15 times as quickly, when
    they prove to hold what the table itself answers; otherwise the table is asked, and where it
    cannot be opened (no sqlite-vec on this platform) `cache` gives the vectors of `identity` by
    text hash. All rows are of one moment. Raises what SQLite raises when the index cannot be read.

    `undisturbed` gives a block in which nobody calls `interrupt`: sqlite-vec ends the process when
    a statement of its own is interrupted while it is prepared. What is read in a moment is read in
    one such block, so that somebody who goes on typing does not start it again and again; what
    takes longer raises `Cancelled` between two storage blocks once `gives_way` says so.
    """
    with snapshot(connection):
        pending = _number(connection, "SELECT count(*) FROM chunks WHERE embedded = 0")
        if _number(connection, _ONLY_IN_CACHE) or not _has_table(connection, undisturbed):
            builder = _from_cache(connection, cache, identity, dims, exact_limit)
            return builder.finish(pending=pending)
        # By the table of their rows, whose pages SQLite counts.
        count = _number(connection, "SELECT count(*) FROM chunks_vec_rowids")
        with ExitStack() as stack:
            if count * dims <= exact_limit:
                stack.enter_context(undisturbed())
                gives_way = None
            builder = ViewBuilder(count, dims, exact_limit=exact_limit)
            is_whole = _add_blocks(connection, count, builder, undisturbed, gives_way)
        if not is_whole:
            with undisturbed():
                builder = ViewBuilder(count, dims, exact_limit=exact_limit)
                rows = connection.execute("SELECT rowid, embedding FROM chunks_vec")
                while part := _some(rows):
                    block = np.frombuffer(b"".join(vector for _, vector in part), np.float32)
                    builder.append(_rowids(part), block.reshape(len(part), -1))
    return builder.finish(pending=pending)


def _has_table(connection: Connection, undisturbed: Undisturbed) -> bool:
    """Tell whether the vector table can be asked: not where the platform has no sqlite-vec."""
    try:
        with undisturbed():
            connection.execute("SELECT rowid FROM chunks_vec LIMIT 1").fetchall()
    except Exception as error:
        if not is_database_error(error):
            raise
        return False
    return True


def _add_blocks(
    connection: Connection,
    count: int,
    builder: ViewBuilder,
    undisturbed: Undisturbed,
    gives_way: IsCancelled | None,
) -> bool:
    """Read the storage blocks of the table; whether they are as this version expects."""
    samples: dict[int, bytes] = {}
    try:
        rows = connection.execute(_BLOCKS)
        for validity, ids, vectors in rows:
            if gives_way is not None and gives_way():
                rows.close(True)
                raise Cancelled
            # One bit, one row number and one vector for each place.
            used = np.unpackbits(np.frombuffer(validity, np.uint8), bitorder="little") > 0
            rowids = np.frombuffer(ids, np.int64)
            block = np.frombuffer(vectors, np.float32).reshape(-1, builder.dims)
            # A full block is taken as it is: choosing all of its rows would copy it once more.
            if not used.all():
                rowids, block = rowids[used], block[used]
            if len(rowids) != len(block) or builder.count + len(rowids) > builder.capacity:
                return False
            builder.append(rowids, block)
            if len(rowids) and len(samples) < _CHECKED_ROWS:
                samples[int(rowids[-1])] = block[-1].tobytes()
    except (ValueError, IndexError):
        return False
    except Exception as error:
        if is_interruption(error) or not is_database_error(error):
            raise
        return False
    if builder.count != count:
        return False
    sql = "SELECT embedding FROM chunks_vec WHERE rowid = ?"
    with undisturbed():
        return all(
            [bytes(row[0]) for row in connection.execute(sql, (rowid,))] == [stored]
            for rowid, stored in samples.items()
        )


def _from_cache(
    connection: Connection,
    cache: EmbeddingCache | None,
    identity: ProviderIdentity | None,
    dims: int,
    exact_limit: int,
) -> ViewBuilder:
    count = _number(connection, "SELECT count(*) FROM chunks WHERE embedded = 1")
    builder = ViewBuilder(count if cache else 0, dims, exact_limit=exact_limit)
    if cache is None or identity is None:
        return builder
    rows = connection.execute("SELECT id, hash FROM chunks WHERE embedded = 1 ORDER BY id")
    while part := _some(rows):
        known = cache.get_many(identity, sorted({text_hash for _, text_hash in part}))
        usable = [
            (rowid, known[text_hash])
            for rowid, text_hash in part
            if text_hash in known and known[text_hash].shape == (dims,)
        ]
        if usable:
            builder.append(_rowids(usable), np.stack([vector for _, vector in usable]))
    return builder


def _rowids(rows: Sequence[tuple[int, Any]]) -> RowIds:
    return np.array([rowid for rowid, _ in rows], dtype=np.int64)


def _some(rows: Rows) -> list[Any]:
    return list(islice(iter(rows), _READ_AT_A_TIME))


def _number(connection: Connection, sql: str) -> int:
    return int(connection.execute(sql).fetchall()[0][0])

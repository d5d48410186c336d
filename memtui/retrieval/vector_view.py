"""The vectors of an index in memory: how they follow it, and which are nearest to a query."""

from __future__ import annotations

import json
from collections.abc import Collection
from contextlib import closing
from itertools import islice
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from memtui.errors import Cancelled, IsCancelled
from memtui.retrieval.connection import Connection, damaged, snapshot
from memtui.retrieval.pool import CODED_BACKEND, EXACT_BACKEND

Floats: TypeAlias = NDArray[np.float32]
RowIds: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]
Codes: TypeAlias = NDArray[np.uint64]
Positions: TypeAlias = NDArray[np.intp]

EXACT_LIMIT = 40_000_000
"""Up to so many numbers (100,000 x 384) a full product is as fast as anything."""
MIN_RESCORED = 16_384
RESCORED_PER_HIT = 100
RESCORED_SHARE = 128

_PENDING = "SELECT id FROM chunks WHERE embedded = 0"
_READ_AT_A_TIME = 2048
_ROWS_AT_A_TIME = 8192
_SPARE_ROWS = 1024
_SHORTEST = 1e-6
_SCANNED_AT_A_TIME = 65_536
_RESCORED_AT_A_TIME = 1024
SLACK = 1e-5
"""A float32 product of unit vectors is off by far less; rows this near are compared exactly."""


class VectorView:
    """The vectors of an index, with room to grow; belongs to one thread.

    Rows that were removed stay, not live, until there is no more room. Above `exact_limit` numbers,
    rows are compared by one-bit codes first.
    """

    def __init__(self, dims: int, *, exact_limit: int = EXACT_LIMIT) -> None:
        self.dims = dims
        self.pending = 0
        """Number of chunks that have no vector yet."""
        self._exact_limit = exact_limit
        self._matrix: Floats = np.empty((0, dims), dtype=np.float32)
        self._rowids: RowIds = np.empty(0, dtype=np.int64)
        self._codes: Codes | None = None

        self._set_live(np.empty(0, dtype=np.bool_))

    def _set_live(self, live: Mask) -> None:
        self.live = live
        """Shape (count,): the rows that may be found; never changed in place.

        Rows that were removed, that are zero or not finite are not live.
        """
        self.count = count = len(live)
        """Number of rows, live or not."""
        self.size = int(np.count_nonzero(live))
        """Number of rows that may be found."""
        codes = self._codes if self.size * self.dims > self._exact_limit else None
        self.matrix: Floats = self._matrix[:count]
        """All rows, shape (count, dims), float32, C-contiguous."""
        self.rowids: RowIds = self._rowids[:count]
        """The chunk row number of each row, shape (count,), in no particular order; 0 when gone."""
        self.codes: Codes | None = None if codes is None else codes[:, :count]
        """One bit per number, shape (ceil(dims / 64), count); `None` for an exact view."""
        self.backend = EXACT_BACKEND if codes is None else CODED_BACKEND
        """The way rows are compared, in words."""

    def live_among(self, allowed: Collection[int] | None) -> Mask:
        """Return which rows may be found among the allowed chunks; `None`: among all."""
        return self.live if allowed is None else self.live & np.isin(self.rowids, [*allowed])

    def reserve(self, rows: int) -> None:
        """Make room for so many more rows and some to spare; rows that are not live go."""
        live_rows = np.flatnonzero(self.live)
        rows += len(live_rows)
        # Pages that are not written cost nothing.
        capacity = rows + max(_SPARE_ROWS, rows // 8)
        matrix, rowids = self.matrix, self.rowids
        self._matrix = np.empty((capacity, self.dims), dtype=np.float32)
        self._rowids = np.empty(capacity, dtype=np.int64)
        self._codes = None
        if rows * self.dims > self._exact_limit:
            # Word by word, so that a scan reads each array from end to end.
            self._codes = np.empty((-(-self.dims // 64), capacity), dtype=np.uint64)
        self._set_live(np.empty(0, dtype=np.bool_))
        for first in range(0, len(live_rows), _ROWS_AT_A_TIME):
            part = live_rows[first : first + _ROWS_AT_A_TIME]
            self.append(rowids[part], matrix[part])

    def append(self, rowids: RowIds, vectors: Floats) -> None:
        """Add rows that are not there yet; `vectors` has the shape (len(rowids), dims)."""
        start, end = self.count, self.count + len(rowids)
        is_coded = self._codes is not None or end * self.dims <= self._exact_limit
        if end > len(self._rowids) or not is_coded:
            self.reserve(len(rowids))
            start, end = self.count, self.count + len(rowids)
        block = self._matrix[start:end]
        block[:] = vectors
        self._rowids[start:end] = rowids
        with np.errstate(over="ignore", invalid="ignore"):
            lengths = np.einsum("ij,ij->i", block, block)
        has_direction: Mask = np.isfinite(lengths) & (lengths > _SHORTEST)
        block[~has_direction] = 0.0
        if self._codes is not None:
            self._codes[:, start:end] = sign_codes(block).T
        self._set_live(np.concatenate([self.live, has_direction]))

    def follow(self, connection: Connection, gives_way: IsCancelled | None = None) -> None:
        """Take in what was committed to the index since the last time.

        All rows are of one moment. Raises what SQLite raises. What takes longer than a moment
        raises `Cancelled` once `gives_way` says so, and goes on from there the next time.
        """
        with snapshot(connection):
            # Each is read from an index of its own, and no text with it.
            chunks = _ids(connection, "SELECT id FROM chunks ORDER BY id")
            pending = _ids(connection, f"{_PENDING} ORDER BY id")
            unread = _ids(connection, "SELECT id FROM chunks WHERE embedded = 2")
            without = np.concatenate([pending, unread])
            embedded = np.setdiff1d(chunks, without, assume_unique=True)
            gone = ~np.isin(self.rowids, embedded)
            self.rowids[gone] = 0
            self._set_live(self.live & ~gone)
            self.pending = len(pending)
            added = np.setdiff1d(embedded, self.rowids)
            is_long = len(added) * self.dims > self._exact_limit
            if len(added) > len(self._rowids) - self.count:
                self.reserve(len(added))
            width = self.dims * self._matrix.itemsize
            # A chunk that waits for another vector may still have its former one.
            query, ids = f"SELECT id, vector FROM vectors WHERE id NOT IN ({_PENDING})", []
            if len(added) < len(embedded):
                query += " AND id IN (SELECT value FROM json_each(?))"
                ids = [json.dumps(added.tolist())]
            # One that is left half-read would show the same moment to every later search.
            with closing(connection.execute(query, ids)) as rows:
                left = iter(rows)
                while part := list(islice(left, _READ_AT_A_TIME)):
                    if any(type(one) is not bytes or len(one) != width for _, one in part):
                        raise damaged(f"a vector is not of {self.dims} numbers")
                    block = np.frombuffer(b"".join([vector for _, vector in part]), np.float32)
                    numbers = np.array([row for row, _ in part], dtype=np.int64)
                    self.append(numbers, block.reshape(len(part), self.dims))
                    if is_long and gives_way is not None and gives_way():
                        raise Cancelled
            if missing := len(np.setdiff1d(added, self.rowids)):
                raise damaged(f"{missing} of the vectors are gone")


def _ids(connection: Connection, query: str) -> RowIds:
    return np.array([row for (row,) in connection.execute(query)], dtype=np.int64)


def sign_codes(vectors: Floats) -> Codes:
    """Reduce each vector to the signs of its numbers: shape (n, dims) to (n, ceil(dims / 64))."""
    packed = np.packbits(vectors > 0, axis=1)
    bytes_per_row = -(-vectors.shape[1] // 64) * 8
    padded = np.zeros((len(vectors), bytes_per_row), dtype=np.uint8)
    padded[:, : packed.shape[1]] = packed
    return padded.view(np.uint64)


def nearest(
    view: VectorView,
    query: Floats,
    limit: int,
    eligible: Mask | None = None,
    *,
    rescored: int | None = None,
) -> list[tuple[int, float]]:
    """Find the `limit` live rows with the largest cosine, as (chunk row number, cosine).

    Beside them there are all that equal the last; the order of equal ones means nothing.
    `query` has the shape (dims,) and length 1. Rows that are not `eligible` are left out before
    anything is chosen; `None`: all live ones are. Best first; which rows are found, and the float
    that is the cosine of each, is the same wherever they stand and whatever was there before.
    `rescored` overrides how many rows of a coded view are compared exactly: as many as find at
    least 99 % of the true nearest rows, also when vectors lie in tight clusters.
    """
    matrix, rowids = view.matrix, view.rowids
    eligible = view.live if eligible is None else eligible
    available = int(np.count_nonzero(eligible))
    limit = min(limit, available)
    if limit <= 0:
        return []
    if view.codes is None:
        scores = matrix @ query
        if available < view.count:
            scores = np.where(eligible, scores, np.float32(-np.inf))
        rows = _leading(scores, limit)
    else:
        enough = max(MIN_RESCORED, view.size // RESCORED_SHARE, RESCORED_PER_HIT * limit)
        if available > (rescored or enough):
            distances = _hamming(view.codes, sign_codes(query[None, :])[0])
            distances[~eligible] = view.dims + 1
            # At least so many rows that differ from the query in the fewest signs.
            least = max(rescored or enough, limit)
            threshold = int(np.searchsorted(np.cumsum(np.bincount(distances)), least))
            near = np.flatnonzero(distances <= threshold)
        else:
            near = np.flatnonzero(eligible)
        scores = np.empty(len(near), dtype=np.float32)
        for first in range(0, len(near), _RESCORED_AT_A_TIME):
            part = slice(first, first + _RESCORED_AT_A_TIME)
            scores[part] = matrix[near[part]] @ query
        rows = near[_leading(scores, limit)]
    cosines, ids = exact_cosines(view, query, rows), rowids[rows]
    order = np.lexsort((ids, -cosines))
    order = order[cosines[order] >= cosines[order[limit - 1]]]
    return [(int(ids[place]), float(cosines[place])) for place in order]


def _leading(scores: Floats, limit: int) -> Positions:
    """Find the places of the `limit` largest scores, and of all that rounding may hide."""
    place = len(scores) - limit
    return np.flatnonzero(scores >= np.partition(scores, place)[place] - SLACK)


def _hamming(codes: Codes, query: Codes) -> NDArray[np.uint16]:
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

"""The vectors of an index in memory, as an unchanging view that a search can hold on to."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float32]
RowIds: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]
Codes: TypeAlias = NDArray[np.uint64]

_Number = TypeVar("_Number", bound=np.generic)

EXACT_LIMIT = 40_000_000
"""Up to so many numbers (100,000 x 384) a full product is as fast as anything."""

_ROWS_AT_A_TIME = 8192
_SPARE_ROWS = 1024
_DEAD_SHARE = 0.25
_SHORTEST = 1e-6


class _Store:
    """Arrays with room to grow, shared by the views that follow one another.

    A view looks only at the rows below its own count, so that writing behind them disturbs no
    search; `used` says who may write there.
    """

    def __init__(self, capacity: int, dims: int, *, coded: bool) -> None:
        self.matrix: Floats = np.empty((capacity, dims), dtype=np.float32)
        self.rowids: RowIds = np.empty(capacity, dtype=np.int64)
        words = -(-dims // 64)
        # Word by word, so that a scan reads each array from end to end.
        self.codes: Codes | None = np.empty((words, capacity), dtype=np.uint64) if coded else None
        self.used = 0
        self.lock = threading.Lock()

    @property
    def capacity(self) -> int:
        return int(self.matrix.shape[0])

    def append(self, rowids: RowIds, vectors: Floats) -> Mask:
        """Write rows behind the used ones; returns which of them have a direction."""
        start, end = self.used, self.used + len(rowids)
        self.matrix[start:end] = vectors
        self.rowids[start:end] = rowids
        live = np.ones(len(rowids), dtype=np.bool_)
        for first in range(start, end, _ROWS_AT_A_TIME):
            last = min(end, first + _ROWS_AT_A_TIME)
            block = self.matrix[first:last]
            live[first - start : last - start] = _clear_without_direction(block)
            if self.codes is not None:
                self.codes[:, first:last] = sign_codes(block).T
        self.used = end
        return live


@dataclass(frozen=True, slots=True, eq=False)
class VectorView:
    """The vectors of an index at one moment: searched, never changed.

    `count` rows, of which `live` (count,) marks those that may be found; rows that were removed,
    that are zero or not finite are not live. `pending` is how many chunks have no vector yet.
    """

    _store: _Store
    count: int
    live: Mask
    size: int
    """How many rows may be found."""
    generation: int
    pending: int
    exact_limit: int

    @classmethod
    def build(
        cls,
        rowids: RowIds | Sequence[int],
        vectors: Floats,
        *,
        generation: int = 0,
        pending: int = 0,
        exact_limit: int = EXACT_LIMIT,
    ) -> VectorView:
        """Make a view of `vectors`, shape (n, dims), float32 of length 1; they are copied."""
        builder = ViewBuilder(len(rowids), int(vectors.shape[1]), exact_limit=exact_limit)
        builder.append(np.asarray(rowids, dtype=np.int64), vectors)
        return builder.finish(generation=generation, pending=pending)

    @property
    def dims(self) -> int:
        """How many numbers a vector has."""
        return int(self._store.matrix.shape[1])

    @property
    def matrix(self) -> Floats:
        """All rows, shape (count, dims), float32, C-contiguous, read-only."""
        return _read_only(self._store.matrix[: self.count])

    @property
    def rowids(self) -> RowIds:
        """The chunk row number of each row, shape (count,), in no particular order."""
        return _read_only(self._store.rowids[: self.count])

    @property
    def codes(self) -> Codes | None:
        """One bit per number, shape (ceil(dims / 64), count); `None` for an exact view."""
        codes = self._store.codes
        return None if codes is None else _read_only(codes[:, : self.count])

    def with_changes(
        self,
        added: RowIds | Sequence[int],
        vectors: Floats,
        removed: RowIds | Sequence[int],
        *,
        generation: int | None = None,
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
        grown = self._grown(new, matrix, live) or self._copied(new, matrix, live)
        return VectorView(
            grown._store,
            grown.count,
            grown.live,
            grown.size,
            self.generation if generation is None else generation,
            self.pending if pending is None else pending,
            self.exact_limit,
        )

    def _grown(self, rowids: RowIds, vectors: Floats, live: Mask) -> VectorView | None:
        """Write into the spare room; `None` where there is too little, or too much is dead."""
        store, count = self._store, self.count + len(rowids)
        dead = self.count - int(np.count_nonzero(live))
        needs_codes = store.codes is None and count * self.dims > self.exact_limit
        if needs_codes or dead > max(_SPARE_ROWS, _DEAD_SHARE * self.count):
            return None
        with store.lock:
            if count > store.capacity or store.used != self.count:
                return None
            fresh = store.append(rowids, vectors) if len(rowids) else np.ones(0, np.bool_)
        return _view(
            store,
            np.concatenate([live, fresh]),
            self.generation,
            self.pending,
            self.exact_limit,
        )

    def _copied(self, rowids: RowIds, vectors: Floats, live: Mask) -> VectorView:
        kept = np.flatnonzero(live)
        builder = ViewBuilder(len(kept) + len(rowids), self.dims, exact_limit=self.exact_limit)
        for first in range(0, len(kept), _ROWS_AT_A_TIME):
            rows = kept[first : first + _ROWS_AT_A_TIME]
            builder.append(self.rowids[rows], self.matrix[rows])
        builder.append(rowids, vectors)
        return builder.finish(generation=self.generation, pending=self.pending)


class ViewBuilder:
    """Collects vectors block by block, so that they are never in memory twice."""

    def __init__(self, rows: int, dims: int, *, exact_limit: int = EXACT_LIMIT) -> None:
        """Make room for `rows` rows and some more; pages that are not written cost nothing."""
        capacity = rows + max(_SPARE_ROWS, rows // 8)
        self._store = _Store(capacity, dims, coded=rows * dims > exact_limit)
        self._live: list[Mask] = []
        self._exact_limit = exact_limit

    @property
    def room(self) -> int:
        """How many rows can still be appended."""
        return self._store.capacity - self._store.used

    def append(self, rowids: RowIds, vectors: Floats) -> None:
        """Add rows; `vectors` has the shape (len(rowids), dims)."""
        if len(rowids):
            self._live.append(self._store.append(rowids, vectors))

    def finish(self, *, generation: int = 0, pending: int = 0) -> VectorView:
        """Give the view of everything that was appended."""
        live = np.concatenate([*self._live, np.ones(0, dtype=np.bool_)])
        return _view(self._store, live, generation, pending, self._exact_limit)


def sign_codes(vectors: Floats) -> Codes:
    """Reduce each vector to the signs of its numbers: shape (n, dims) to (n, ceil(dims / 64))."""
    packed = np.packbits(vectors > 0, axis=1)
    bytes_per_row = -(-vectors.shape[1] // 64) * 8
    padded = np.zeros((len(vectors), bytes_per_row), dtype=np.uint8)
    padded[:, : packed.shape[1]] = packed
    return padded.view(np.uint64)


def _view(store: _Store, live: Mask, generation: int, pending: int, exact_limit: int) -> VectorView:
    size = int(np.count_nonzero(live))
    live = _read_only(live)
    return VectorView(store, len(live), live, size, generation, pending, exact_limit)


def _clear_without_direction(block: Floats) -> Mask:
    """Set rows that are zero or not finite to zero; returns which rows are neither."""
    with np.errstate(over="ignore", invalid="ignore"):
        lengths = np.einsum("ij,ij->i", block, block)
    usable: Mask = np.isfinite(lengths) & (lengths > _SHORTEST)
    if not usable.all():
        block[~usable] = 0.0
    return usable


def _read_only(array: NDArray[_Number]) -> NDArray[_Number]:
    view = array.view()
    view.flags.writeable = False
    return view

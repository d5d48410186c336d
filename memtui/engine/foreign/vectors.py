"""The vectors of an index in memory, for where sqlite-vec cannot search them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from memtui.index.foreign import rows
from memtui.index.foreign.opening import Fingerprint, Opened
from memtui.index.foreign.rows import read_indexed, read_vectors

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memtui.retrieval.openclaw.tables import SearchScope
    from memtui.retrieval.openclaw.vector import VectorReader

Matrix: TypeAlias = "NDArray[Any]"
Batch: TypeAlias = "tuple[NDArray[np.int64], Matrix]"


class StoredVectors:
    """Reads all vectors once and keeps them until the index changes; the engine thread's.

    The vec0 table's own numbers (float32) come before those of the chunk table, which are exact
    but take long to parse: the program compares in single precision too.
    """

    def __init__(self) -> None:
        self._stamp: tuple[Fingerprint, int | None] | None = None
        self._batches: list[Batch] = []

    def of(self, opened: Opened) -> VectorReader:
        """A reader of the vectors that a scope may see."""

        def read(scope: SearchScope) -> Iterator[tuple[list[str], Matrix]]:
            self._load(opened)
            visible = _visible(opened, scope)
            for rowids, matrix in self._batches:
                kept = [place for place, rowid in enumerate(rowids.tolist()) if rowid in visible]
                yield [visible[int(rowids[place])] for place in kept], matrix[kept]

        return read

    def holds(self, opened: Opened) -> bool:
        """Whether the vectors are in memory as they are in the index now."""
        return self._stamp == _stamp(opened)

    def _load(self, opened: Opened) -> None:
        stamp = _stamp(opened)
        if stamp == self._stamp:
            return
        indexed = read_indexed(opened.connection, opened.layout)
        if indexed is not None and len(indexed.rowids):
            self._batches = [(indexed.rowids, indexed.vectors)]
        else:
            self._batches = [
                (batch.rowids, batch.vectors)
                for batch in read_vectors(opened.connection, opened.layout)
                if len(batch.rowids)
            ]
        self._stamp = stamp


def _stamp(opened: Opened) -> tuple[Fingerprint, int | None]:
    return opened.fingerprint, rows.revision(opened.connection, opened.layout)


def _visible(opened: Opened, scope: SearchScope) -> dict[int, str]:
    """The chunks of the scope: rowid to id."""
    layout = opened.layout
    where, values = scope.visible("source", has_source=layout.chunks_have_source)
    found = opened.connection.execute(
        f"SELECT rowid, id FROM {layout.chunks} WHERE model = ?{where}",
        (scope.model or "", *values),
    ).fetchall()
    return {int(str(rowid)): str(chunk_id) for rowid, chunk_id in found}

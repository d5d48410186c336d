"""The vector leg of OpenClaw's releases: sqlite-vec where it can read the index, else a scan."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Sequence
from heapq import nsmallest
from typing import TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from memtui.retrieval.connection import Connection
from memtui.retrieval.openclaw.release import Release
from memtui.retrieval.openclaw.tables import Layout, SearchScope, readable, text_of

Vector: TypeAlias = NDArray[np.float64]
VectorReader: TypeAlias = Callable[[SearchScope], Iterable[tuple[Sequence[str], Vector]]]
"""Reads chunk ids and their vectors (n, dims) of the model, in the order of rows, in batches."""

OVERSAMPLE = 8
VEC0, SCAN = "sqlite-vec", "scan"


class VectorAnswer(Struct, frozen=True):
    """Chunk ids with their cosine, best first, and how they were found."""

    hits: tuple[tuple[str, float], ...]
    backend: str
    searched: int
    """How many vectors were compared, or asked of the vector table."""


class OpenClawVectorLeg:
    """Searches the vectors of one index as one release does; the connection's thread."""

    def __init__(
        self,
        connection: Connection,
        layout: Layout,
        release: Release,
        read_vectors: VectorReader,
        *,
        vec_readable: bool,
    ) -> None:
        self._connection = connection
        self._layout = layout
        self._release = release
        self._read = read_vectors
        self._vec = layout.vec if vec_readable else None

    def search(self, vector: Vector, limit: int, scope: SearchScope) -> VectorAnswer:
        """Find the `limit` nearest chunks of the scope's model; nothing for a zero vector.

        Raises what SQLite raises: it refuses `k` above 4096.
        """
        if limit <= 0 or is_zero(vector):
            return VectorAnswer((), SCAN, 0)
        if self._vec is not None:
            answer = self._by_extension(self._vec, vector, limit, scope)
            if answer is not None:
                return answer
        return self._by_scan(vector, limit, scope)

    def _by_extension(
        self, vec: str, vector: Vector, limit: int, scope: SearchScope
    ) -> VectorAnswer | None:
        blob = vector.astype("<f4").tobytes()
        if not self._release.has_knn:
            hits = self._nearest(vec, blob, None, limit, scope)
            return VectorAnswer(hits, VEC0, len(hits))
        ceiling = self._release.max_knn or sys.maxsize
        depth = min(limit * OVERSAMPLE, ceiling)
        hits = self._nearest(vec, blob, depth, limit, scope)
        if len(hits) >= limit:
            return VectorAnswer(hits, VEC0, depth)
        where, values = self._filter(scope)
        count = f"SELECT COUNT(*) FROM {self._layout.chunks} c WHERE 1=1{where}"
        matching = self._connection.execute(count, values).fetchall()[0][0]
        if matching <= len(hits):
            return VectorAnswer(hits, VEC0, depth)
        stored = self._connection.execute(f"SELECT COUNT(*) FROM {vec}").fetchall()[0][0]
        # Among the nearest, too few are of the model: every vector is asked for.
        wider = min(stored, ceiling)
        if wider > depth:
            hits, depth = self._nearest(vec, blob, wider, limit, scope), wider
        if wider < stored and len(hits) < min(limit, matching):
            return None
        return VectorAnswer(hits, VEC0, depth)

    def _nearest(
        self, vec: str, blob: bytes, depth: int | None, limit: int, scope: SearchScope
    ) -> tuple[tuple[str, float], ...]:
        """Compare the `depth` nearest vectors by sqlite-vec's own search; `None`: every vector."""
        where, values = self._filter(scope)
        among = "1=1" if depth is None else "v.embedding MATCH ? AND k = ?"
        chosen = () if depth is None else (blob, depth)
        sql = (
            f"SELECT {readable('c.id')}, vec_distance_cosine(v.embedding, ?) AS dist FROM {vec} v "
            f"JOIN {self._layout.chunks} c ON c.id = v.id "
            f"WHERE {among}{where} ORDER BY dist ASC LIMIT ?"
        )
        rows = self._connection.execute(sql, (blob, *chosen, *values, limit)).fetchall()
        # sqlite-vec answers NULL where a stored vector is zero or not finite: SQLite sorts it
        # first, and in the program's `1 - dist` null counts as 0. Such a chunk scores 1 there.
        return tuple((text_of(chunk_id) or "", 1 - (dist or 0.0)) for chunk_id, dist in rows)

    def _by_scan(self, vector: Vector, limit: int, scope: SearchScope) -> VectorAnswer:
        """Compare every vector in double precision; equal cosines keep the order of rows."""
        best: list[tuple[float, int, str]] = []
        searched = 0
        for ids, stored in self._read(scope):
            cosines = cosine_similarities(vector, stored)
            scored = [
                (-cosine, searched + place, chunk_id)
                for place, (chunk_id, cosine) in enumerate(zip(ids, cosines, strict=True))
                if math.isfinite(cosine)
            ]
            best = nsmallest(limit, [*best, *scored])
            searched += len(ids)
        hits = tuple((chunk_id, -negative) for negative, _, chunk_id in best)
        return VectorAnswer(hits, SCAN, searched)

    def _filter(self, scope: SearchScope) -> tuple[str, tuple[str, ...]]:
        condition, sources = scope.visible("c.source", self._layout)
        return f" AND c.model = ?{condition}", (scope.model or "", *sources)


def is_zero(vector: Vector) -> bool:
    """Whether there is nothing to compare: no number, or in float32 all zero or one not finite."""
    with np.errstate(over="ignore", under="ignore"):
        single = vector.astype(np.float32)
    return not single.any() or not np.isfinite(single).all()


def cosine_similarities(vector: Vector, matrix: Vector) -> list[float]:
    """The cosine of a vector (dims,) with each row (n, dims), over the shorter length.

    0 where either is empty or zero.
    """
    size = min(len(vector), matrix.shape[1])
    first, rows = vector[:size], matrix[:, :size].astype(np.float64, copy=False)
    norms = np.sqrt(first @ first) * np.sqrt(np.einsum("ij,ij->i", rows, rows))
    products = rows @ first
    cosines = np.divide(products, norms, out=np.zeros_like(products), where=norms > 0)
    return [float(value) for value in cosines]

"""The vector leg of OpenClaw's releases: sqlite-vec where it can read the index, else a scan."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from heapq import nsmallest
from typing import TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from memtui.retrieval.connection import Connection
from memtui.retrieval.openclaw.tables import Layout, SearchScope, readable, text_of
from memtui.settings.openclaw.releases import Release

Vector: TypeAlias = NDArray[np.float64]
VectorBatches: TypeAlias = Iterable[tuple[Sequence[str], Vector]]
"""Chunk ids and their vectors (n, dims), in the order of rows, in batches."""

OVERSAMPLE = 8
VEC0, SCAN = "sqlite-vec", "scan"


class VectorAnswer(Struct, frozen=True):
    """Chunk ids with their cosine, best first, and how they were found."""

    hits: tuple[tuple[str, float], ...]
    backend: str
    searched: int
    """How many vectors were compared, or asked of the vector table."""


def nearest_chunks(
    connection: Connection,
    layout: Layout,
    release: Release,
    vector: Vector,
    limit: int,
    scope: SearchScope,
    stored: VectorBatches,
    *,
    vec_readable: bool,
) -> VectorAnswer:
    """Find the `limit` nearest chunks of the scope's model, as one release does.

    `vector` is not zero; `stored` are compared where sqlite-vec cannot read the index. Raises what
    SQLite raises: it refuses `k` above 4096.
    """
    vec, blob = layout.vec, vector.astype("<f4").tobytes()
    condition, sources = scope.visible("c.source", layout)
    where, values = f" AND c.model = ?{condition}", (scope.model or "", *sources)

    def nearest(depth: int | None) -> tuple[tuple[str, float], ...]:
        """Compare the `depth` nearest vectors by sqlite-vec's own search; `None`: every vector."""
        among = "1=1" if depth is None else "v.embedding MATCH ? AND k = ?"
        chosen = () if depth is None else (blob, depth)
        sql = (
            f"SELECT {readable('c.id')}, vec_distance_cosine(v.embedding, ?) AS dist FROM {vec} v "
            f"JOIN {layout.chunks} c ON c.id = v.id WHERE {among}{where} ORDER BY dist ASC LIMIT ?"
        )
        rows = connection.execute(sql, (blob, *chosen, *values, limit)).fetchall()
        # sqlite-vec answers NULL where a stored vector is zero or not finite: SQLite sorts it
        # first, and in the program's `1 - dist` null counts as 0. Such a chunk scores 1 there.
        return tuple((text_of(chunk_id) or "", 1 - (dist or 0.0)) for chunk_id, dist in rows)

    if vec is None or not vec_readable:
        return _scan(vector, stored, limit)
    if not release.has_knn:
        hits = nearest(None)
        return VectorAnswer(hits, VEC0, len(hits))
    ceiling = release.max_knn or sys.maxsize
    depth = min(limit * OVERSAMPLE, ceiling)
    hits = nearest(depth)
    if len(hits) < limit:
        count = f"SELECT COUNT(*) FROM {layout.chunks} c WHERE 1=1{where}"
        matching = connection.execute(count, values).fetchall()[0][0]
        every = connection.execute(f"SELECT COUNT(*) FROM {vec}").fetchall()[0][0]
        # Among the nearest, too few are of the model: every vector is asked for.
        wider = min(every, ceiling)
        if matching > len(hits) and wider > depth:
            hits, depth = nearest(wider), wider
        if wider < every and len(hits) < min(limit, matching):
            return _scan(vector, stored, limit)
    return VectorAnswer(hits, VEC0, depth)


def _scan(vector: Vector, stored: VectorBatches, limit: int) -> VectorAnswer:
    """Compare every vector in double precision; equal cosines keep the order of rows."""
    best: list[tuple[float, int, str]] = []
    searched = 0
    for ids, batch in stored:
        cosines = cosine_similarities(vector, batch)
        scored = [
            (-cosine, searched + place, chunk_id)
            for place, (chunk_id, cosine) in enumerate(zip(ids, cosines, strict=True))
            if math.isfinite(cosine)
        ]
        best = nsmallest(limit, [*best, *scored])
        searched += len(ids)
    hits = tuple((chunk_id, -negative) for negative, _, chunk_id in best)
    return VectorAnswer(hits, SCAN, searched)


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

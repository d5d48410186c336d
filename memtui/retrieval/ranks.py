"""Where a row stands among all rows that a leg could give, however few of them the pool takes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from memtui.model.inquiry import LegRank
from memtui.retrieval.connection import Connection, snapshot
from memtui.retrieval.openclaw.tables import SearchScope
from memtui.retrieval.openclaw.vector import Vector, VectorReader, cosine_similarities
from memtui.retrieval.vector_view import Floats, RowIds, VectorView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memtui.retrieval.filters import AllowedRows

Value: TypeAlias = str | int | float

_ROWS_AT_A_TIME = 1024
# A float32 product of unit vectors is off by far less; rows this near are compared exactly.
_SLACK = 1e-5


def keyword_rank(
    connection: Connection,
    table: str,
    match: str | None,
    rowid: int,
    *,
    allowed: AllowedRows | None = None,
    conditions: str = "",
    values: Sequence[Value] = (),
) -> LegRank | None:
    """Count the rows that the keyword leg puts before one: better `bm25()`, or equal and before it.

    `None` when the row is not among them. `allowed` and `conditions` (SQL that begins with ` AND `,
    its `values`) say which rows take part; a query with quoted phrases needs its allowed rows.
    Without `match` (only substrings, in `conditions`) rows are in their own order. Every matching
    row is scored, about 1 µs each. Raises what SQLite raises.
    """
    where, extra = conditions, tuple(values)
    if allowed is not None:
        # The sign keeps SQLite from asking FTS5 row by row.
        where += " AND +rowid IN (SELECT value FROM json_each(?))"
        extra += (json.dumps(allowed.rowids.tolist()),)
    asked: tuple[Value, ...] = extra
    if match is not None:
        where = f" AND {table} MATCH ?{where}"
        asked = (match, *extra)
    score = "NULL" if match is None else f"bm25({table})"
    with snapshot(connection):
        own = connection.execute(
            f"SELECT {score} FROM {table} WHERE 1=1{where} AND rowid = ?", (*asked, rowid)
        ).fetchall()
        if not own:
            return None
        raw = own[0][0]
        before = "rowid < ?"
        limits: tuple[Value, ...] = (rowid,)
        if match is not None:
            before, limits = f"({score} < ? OR ({score} = ? AND rowid < ?))", (raw, raw, rowid)
        position = _count(
            connection,
            f"{table} WHERE 1=1{where} AND {before}",
            (*asked, *limits),
        )
        total = _count(connection, f"{table} WHERE 1=1{where}", asked)
    return LegRank(position, total, raw)


def matching_rows(connection: Connection, table: str, match: str) -> int:
    """Count the rows that a MATCH finds, whatever else they have to fulfil; scores none of them."""
    return _count(connection, f"{table} WHERE {table} MATCH ?", (match,))


def view_rank(
    view: VectorView,
    query: Floats,
    rowid: int,
    allowed: RowIds | None = None,
    *,
    products: Floats | None = None,
) -> LegRank | None:
    """Count the rows of a view that are nearer to a query than one, in the order of `nearest`.

    `query` has the shape (dims,) and length 1. `None` when the row has no usable vector or is not
    in `allowed`. One product of the whole matrix, unless `products` (count,) hold it; the ranks are
    those of an exact comparison, even where the view's own search only estimates.
    """
    eligible = view.live if allowed is None else view.live & np.isin(view.rowids, allowed)
    places = np.flatnonzero(eligible & (view.rowids == rowid))
    if not len(places):
        return None
    own = _exact(view, query, places)[0]
    estimates = view.matrix @ query if products is None else products
    position = int(np.count_nonzero(eligible & (estimates > own + _SLACK)))
    close = np.flatnonzero(eligible & (np.abs(estimates - own) <= _SLACK))
    exact = _exact(view, query, close)
    ahead = (exact > own) | ((exact == own) & (view.rowids[close] < rowid))
    position += int(np.count_nonzero(ahead))
    return LegRank(position, int(np.count_nonzero(eligible)), float(own))


def stored_rank(
    read: VectorReader, vector: Vector, chunk_id: str, scope: SearchScope
) -> LegRank | None:
    """Count the chunks of an OpenClaw index nearer to a query than one, where memtui compares.

    Equal cosines keep the order of rows; their last digits are not sqlite-vec's. `None` when the
    chunk has no vector of the scope's model.
    """
    ids: list[str] = []
    cosines: list[float] = []
    for names, stored in read(scope):
        ids += names
        cosines += cosine_similarities(vector, stored)
    if chunk_id not in ids:
        return None
    place = ids.index(chunk_id)
    found = np.array(cosines)
    usable = np.isfinite(found)
    if not usable[place]:
        return None
    own = found[place]
    ahead = found > own
    ahead[:place] |= found[:place] == own
    return LegRank(int(np.count_nonzero(ahead & usable)), int(np.count_nonzero(usable)), float(own))


def _count(connection: Connection, tables: str, values: tuple[Value, ...]) -> int:
    return int(connection.execute(f"SELECT count(*) FROM {tables}", values).fetchall()[0][0])


def _exact(view: VectorView, query: Floats, places: NDArray[np.intp]) -> Floats:
    """The cosines of some rows, each the same float as in an answer of `nearest`."""
    wide = query.astype(np.float64)
    cosines = np.empty(len(places), dtype=np.float64)
    for first in range(0, len(places), _ROWS_AT_A_TIME):
        block = view.matrix[places[first : first + _ROWS_AT_A_TIME]].astype(np.float64)
        cosines[first : first + len(block)] = np.einsum("ij,j->i", block, wide)
    return np.clip(cosines, -1.0, 1.0).astype(np.float32)

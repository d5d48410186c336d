"""One chunk of a search opened up: its terms, and its rank in each leg among all chunks.

On the engine thread, over the connection that searches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from memtui.engine.inquiry import ChunkFacts
from memtui.index.schema import NO_MODEL
from memtui.model import CandidatePool, Chunk, Leg, LegStatus, Ranked, Reason
from memtui.model.inquiry import FoundBy, KeywordExplanation, LegPlace
from memtui.retrieval.filters import AllowedRows, RowFilter
from memtui.retrieval.keyword import TermPlanner
from memtui.retrieval.leg_detail import (
    NATIVE_TABLE,
    explain_keyword,
    keyword_rank,
    matching_rows,
    view_rank,
)
from memtui.retrieval.pool import fetch_chunks
from memtui.retrieval.query import Filters, Query, parse_query

if TYPE_CHECKING:
    from memtui.engine.retriever import Retriever
    from memtui.index.database import Connection

MOST_ROWS = 100_000
"""So many matching rows are scored again at most, and so many vectors of 384 numbers compared:
0.1 to 0.3 s."""
_NUMBERS_OF_A_VECTOR = 384

Places = dict[Leg, LegPlace]


def keyword_terms(retriever: Retriever, ranked: Ranked, chunk_id: str) -> KeywordExplanation | None:
    """Explain the keyword leg of one chunk; `None` when the index does not hold the chunk.

    Raises what `Retriever.read` raises.
    """

    def explained(connection: Connection) -> KeywordExplanation | None:
        rowid = row_of(connection, chunk_id)
        return None if rowid is None else _explained(connection, ranked.pool, rowid)[1]

    return retriever.read(explained)


def leg_places(retriever: Retriever, ranked: Ranked, chunk_id: str) -> Places:
    """Where a chunk stands in each leg among all chunks that the query's filters let through.

    Raises what `Retriever.read` raises.
    """

    def places(connection: Connection) -> Places:
        rowid = row_of(connection, chunk_id)
        if rowid is None:
            return dict.fromkeys(Leg, LegPlace(None, Reason.NOT_INDEXED))
        return dict(facts_of(retriever, connection, ranked.pool, rowid).places)

    return retriever.read(places)


def facts_of(
    retriever: Retriever, connection: Connection, pool: CandidatePool, rowid: int
) -> ChunkFacts:
    """Everything that a search says about one chunk, by its row; raises what SQLite raises."""
    chunk = fetch_chunks(connection, [rowid])[rowid]
    query, explanation = _explained(connection, pool, rowid)
    rows = RowFilter(connection)
    allowed = rows.allowed(query)
    if allowed is not None and not allowed.holds([rowid])[0]:
        places = dict.fromkeys(Leg, LegPlace(None, Reason.FILTERED))
        filters = tuple(_excluding(rows, query, rowid))
    else:
        places, filters = _places(retriever, connection, pool, query, explanation, allowed), ()
    vector = _vector_standing(retriever, connection, chunk, rowid)
    return ChunkFacts(chunk, explanation, places, vector, filters)


def _places(
    retriever: Retriever,
    connection: Connection,
    pool: CandidatePool,
    query: Query,
    explanation: KeywordExplanation,
    allowed: AllowedRows | None,
) -> Places:
    return {
        Leg.VECTOR: _vector_place(retriever, pool, query, explanation.rowid, allowed),
        Leg.KEYWORD: _keyword_place(connection, pool, explanation, allowed),
    }


def _excluding(rows: RowFilter, query: Query, rowid: int) -> Iterator[str]:
    """The filters of a query that leave a row out, as they can be typed."""
    filters = query.filters
    fields = (
        (Filters(sources=filters.sources), [f"source:{name}" for name in filters.sources]),
        (Filters(path_globs=filters.path_globs), [f"path:{glob}" for glob in filters.path_globs]),
        (Filters(after=filters.after), [f"after:{filters.after}"]),
        (Filters(before=filters.before), [f"before:{filters.before}"]),
    )
    for one, typed in fields:
        allowed = rows.allowed(replace(query, filters=one, phrases=()))
        if allowed is not None and not allowed.holds([rowid])[0]:
            yield from typed


def _vector_standing(
    retriever: Retriever, connection: Connection, chunk: Chunk, rowid: int
) -> Reason:
    """Why a chunk's vector cannot be compared with a query's; `OK` when it can."""
    leg = retriever.vector_leg
    provider = leg.provider if leg is not None else None
    if provider is not None and chunk.model != provider.model and chunk.model != NO_MODEL:
        return Reason.OTHER_MODEL
    embedded = connection.execute("SELECT embedded FROM chunks WHERE id = ?", (rowid,)).fetchall()
    if not embedded[0][0]:
        return Reason.NO_VECTOR
    view = retriever.view_now()
    if view is None or (view.live & (view.rowids == rowid)).any():
        return Reason.OK
    # Embedded, and not to be found: a zero vector is not kept.
    return Reason.ZERO_VECTOR


def row_of(connection: Connection, chunk_id: str) -> int | None:
    """The row of a chunk; `None` when the index does not hold it."""
    rows = connection.execute("SELECT id FROM chunks WHERE chunk_id = ?", (chunk_id,)).fetchall()
    return int(str(rows[0][0])) if rows else None


def _explained(
    connection: Connection, pool: CandidatePool, rowid: int
) -> tuple[Query, KeywordExplanation]:
    """The query as it was searched, whether still being typed or not, and what it says of a row."""
    match, planner = _sent(pool), TermPlanner(connection)
    for typing in (False, True):
        query = parse_query(pool.query, typing=typing)
        explanation = explain_keyword(connection, query, rowid, match=match, planner=planner)
        if match is None or explanation.match == match:
            break
    found_by = FoundBy.MATCH if explanation.found else FoundBy.NOTHING
    return query, replace(explanation, asked=pool.query, found_by=found_by)


def _sent(pool: CandidatePool) -> str | None:
    """The MATCH expression of a leg that answered."""
    state = pool.states.get(Leg.KEYWORD)
    match = state.facts.get("match") if state is not None else None
    return match if isinstance(match, str) else None


def _keyword_place(
    connection: Connection,
    pool: CandidatePool,
    explanation: KeywordExplanation,
    allowed: AllowedRows | None,
) -> LegPlace:
    refusal = refused(pool, Leg.KEYWORD)
    if refusal is not None or explanation.match is None:
        return LegPlace(None, refusal or Reason.NO_TERMS)
    asked, match = explanation.asked, explanation.match
    if not explanation.found:
        return LegPlace(None, Reason.NOT_MATCHED, asked)
    if matching_rows(connection, NATIVE_TABLE, match) > MOST_ROWS:
        return LegPlace(None, Reason.TOO_MANY, asked)
    rank = keyword_rank(connection, NATIVE_TABLE, match, explanation.rowid, allowed=allowed)
    return LegPlace(rank, Reason.OK if rank is not None else Reason.NOT_MATCHED, asked)


def _vector_place(
    retriever: Retriever,
    pool: CandidatePool,
    query: Query,
    rowid: int,
    allowed: AllowedRows | None,
) -> LegPlace:
    refusal = refused(pool, Leg.VECTOR)
    leg = retriever.vector_leg
    view = retriever.view_now()
    vector = leg.remembered(query.text) if leg is not None else None
    if refusal is not None or leg is None or view is None or vector is None:
        return LegPlace(None, refusal or Reason.NO_VECTORS)
    if view.count * view.dims > MOST_ROWS * _NUMBERS_OF_A_VECTOR:
        return LegPlace(None, Reason.TOO_MANY)
    rows = None if allowed is None else allowed.rowids
    rank = view_rank(view, vector, rowid, rows, products=leg.products(view, vector))
    return LegPlace(rank, Reason.OK if rank is not None else Reason.NO_VECTOR)


def refused(pool: CandidatePool, leg: Leg) -> Reason | None:
    """Why a leg did not answer; `None` when it did."""
    state = pool.states.get(leg)
    if state is None:
        return Reason.DISABLED
    if state.status is LegStatus.OK:
        return None
    return Reason.INDEX_FAILED if state.reason is Reason.OK else state.reason

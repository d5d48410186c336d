"""One chunk of a search opened up: its terms, and its rank in each leg among all chunks.

On the engine thread, over the connection that searches.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from memtui.model import CandidatePool, Leg, LegStatus, Ranked, Reason
from memtui.model.terms import FoundBy, KeywordExplanation, LegPlace
from memtui.retrieval.bm25 import NATIVE_TABLE, explain_keyword
from memtui.retrieval.filters import AllowedRows, RowFilter
from memtui.retrieval.query import Query, parse_query
from memtui.retrieval.ranks import keyword_rank, matching_rows, view_rank
from memtui.retrieval.term_plan import TermPlanner

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
        rowid = _row(connection, chunk_id)
        return None if rowid is None else _explained(connection, ranked.pool, rowid)[1]

    return retriever.read(explained)


def leg_places(retriever: Retriever, ranked: Ranked, chunk_id: str) -> Places:
    """Where a chunk stands in each leg among all chunks that the query's filters let through.

    Raises what `Retriever.read` raises.
    """

    def places(connection: Connection) -> Places:
        rowid = _row(connection, chunk_id)
        if rowid is None:
            return dict.fromkeys(Leg, LegPlace(None, Reason.NOT_INDEXED))
        query, explanation = _explained(connection, ranked.pool, rowid)
        allowed = RowFilter(connection).allowed(query)
        if allowed is not None and not allowed.holds([rowid])[0]:
            return dict.fromkeys(Leg, LegPlace(None, Reason.FILTERED))
        return {
            Leg.VECTOR: _vector_place(retriever, ranked.pool, query, rowid, allowed),
            Leg.KEYWORD: _keyword_place(connection, ranked.pool, explanation, allowed),
        }

    return retriever.read(places)


def _row(connection: Connection, chunk_id: str) -> int | None:
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
    view = leg.view if leg is not None else None
    vector = leg.remembered(query.text) if leg is not None else None
    if refusal is not None or view is None or vector is None:
        return LegPlace(None, refusal or Reason.NO_VECTORS)
    if view.count * view.dims > MOST_ROWS * _NUMBERS_OF_A_VECTOR:
        return LegPlace(None, Reason.TOO_MANY)
    rank = view_rank(view, vector, rowid, None if allowed is None else allowed.rowids)
    return LegPlace(rank, Reason.OK if rank is not None else Reason.NO_VECTOR)


def refused(pool: CandidatePool, leg: Leg) -> Reason | None:
    """Why a leg did not answer; `None` when it did."""
    state = pool.states.get(leg)
    if state is None:
        return Reason.DISABLED
    if state.status is LegStatus.OK:
        return None
    return Reason.INDEX_FAILED if state.reason is Reason.OK else state.reason

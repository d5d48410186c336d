"""The keyword leg: BM25 over the chunks that hold any word of the query."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from memtui.errors import Cancelled
from memtui.model import Reason
from memtui.retrieval.connection import Connection, is_database_error, register_fts5, snapshot
from memtui.retrieval.legs import Cancelled as IsCancelled
from memtui.retrieval.legs import LegAnswer, RowHit, Stopwatch
from memtui.retrieval.match_terms import match_terms
from memtui.retrieval.phrases import phrase_match
from memtui.retrieval.query import Query
from memtui.retrieval.term_plan import BUDGETS, Plan, Term, TermPlanner, only_stop_words

if TYPE_CHECKING:
    from memtui.retrieval.filters import AllowedRows

_HOLDS = "memtui_holds"
# With a second key SQLite sorts, and asks which phrases a row holds for the best rows alone.
_RANKED = (
    f"SELECT rowid, rank, {_HOLDS}(chunks_fts) FROM chunks_fts "
    "WHERE chunks_fts MATCH ?{} ORDER BY rank, rowid LIMIT ?"
)
# The sign keeps SQLite from asking FTS5 row by row: the postings are read once, from end to end.
_AMONG = " AND +rowid IN (SELECT value FROM json_each(?))"
_HOLDING = (
    "SELECT rowid FROM chunks_fts WHERE chunks_fts MATCH ? "
    "AND rowid IN (SELECT value FROM json_each(?))"
)


class KeywordLeg:
    """Searches the full-text index of one connection; belongs to that connection's thread.

    A chunk is found when it holds any of the query's words. Words are taken rarest first until a
    budget of postings is spent, at least the two rarest: that bounds the time, and the words left
    out change the order least. A query that finds too little is asked once more with four times
    the budget.
    """

    def __init__(self, connection: Connection, *, budget: int | None = None) -> None:
        """`budget`: postings a query may read; `None` is 100,000 or 12 % of the chunks."""
        self._connection = connection
        self._planner = TermPlanner(connection, budget)
        register_fts5(connection, _HOLDS, _held_phrases)

    def search(
        self,
        query: Query,
        limit: int,
        allowed: AllowedRows | None,
        *,
        cancelled: IsCancelled | None = None,
    ) -> LegAnswer:
        """Find the `limit` best chunks among the allowed ones, lowest `bm25()` first.

        `allowed` is what `RowFilter` says of the query: it holds what quoted phrases require. A leg
        that cannot answer says why in its state. Raises `Cancelled` when SQLite stopped and
        `cancelled` says that nobody waits for the answer.
        """
        watch = Stopwatch()
        if not query.text:
            return watch.skipped(Reason.EMPTY_QUERY, "nothing to search for")
        if not query.terms.terms and not query.phrases:
            return watch.skipped(Reason.NO_TERMS, "no letter or digit in the query")
        try:
            with snapshot(self._connection):
                return self._answer(query, limit, allowed, watch)
        except Exception as error:
            if not is_database_error(error):
                raise
            if cancelled is not None and cancelled():
                raise Cancelled from error
            return watch.failed(Reason.INDEX_FAILED, str(error) or type(error).__name__)

    def _answer(
        self, query: Query, limit: int, allowed: AllowedRows | None, watch: Stopwatch
    ) -> LegAnswer:
        plan = self._planner.plan(query)
        rows = self._ranked(plan.match, limit, allowed)
        if len(rows) < limit and plan.pruned:
            relaxed = self._planner.plan(query, times=BUDGETS[-1])
            if relaxed.match != plan.match:
                plan, rows = relaxed, self._ranked(relaxed.match, limit, allowed)
        held = self._held_terms(plan, [(rowid, phrases) for rowid, _, phrases in rows])
        hits = tuple(RowHit(row[0], row[1], terms) for row, terms in zip(rows, held, strict=True))
        facts: dict[str, float | int | str | None] = {
            "match": plan.match,
            "pruned": " ".join(term.text for term in plan.pruned),
            "stop_words": " ".join(query.terms.stop_words),
            "postings": plan.postings,
        }
        if query.phrases:
            facts["required"] = phrase_match(query.phrases)
        if plan.kept and only_stop_words(query):
            detail = "only stop words, so they are searched"
            return watch.ok(hits, facts, Reason.ONLY_STOP_WORDS, detail)
        return watch.ok(hits, facts)

    def _ranked(
        self, match: str, limit: int, allowed: AllowedRows | None
    ) -> list[tuple[int, float, str]]:
        if limit <= 0:
            return []
        if allowed is None:
            return self._connection.execute(_RANKED.format(""), (match, limit)).fetchall()
        rowids = json.dumps(allowed.rowids.tolist())
        return self._connection.execute(_RANKED.format(_AMONG), (match, rowids, limit)).fetchall()

    def _held_terms(self, plan: Plan, rows: Sequence[tuple[int, str]]) -> list[tuple[str, ...]]:
        """Tell which terms each row holds, in the order of the query.

        `rows` are row numbers with a `1` for each phrase of the expression that a row holds.
        """
        rowids = [rowid for rowid, _ in rows]
        holding = {term: set(rowids) for term in plan.phrases}
        holding |= {term: self._looked_up(term, rowids) for term in plan.pruned if rowids}
        kept = {term.match: term for term in plan.kept}
        first = 0
        for operand in match_terms(plan.match).terms if kept else ():
            last = first + len(operand.phrases)
            if operand.match in kept:
                holding[kept[operand.match]] = {
                    rowid for rowid, held in rows if "1" in held[first:last]
                }
            first = last
        in_order = sorted(holding, key=lambda term: term.place)
        return [tuple(term.text for term in in_order if row in holding[term]) for row in rowids]

    def _looked_up(self, term: Term, rowids: Sequence[int]) -> set[int]:
        """Find which of some rows hold a term that the expression leaves out."""
        rows = self._connection.execute(_HOLDING, (term.match, json.dumps(rowids)))
        return {rowid for (rowid,) in rows}


def _held_phrases(api: Any, *_: object) -> str:
    """Tell of each phrase of an expression whether the row at hand holds it, for FTS5."""
    return "".join("1" if api.phrase_columns(place) else "0" for place in range(api.phrase_count))

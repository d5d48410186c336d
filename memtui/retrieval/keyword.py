"""The keyword leg: BM25 over the chunks that hold any word of the query."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

from memtui.errors import Cancelled
from memtui.model import Reason
from memtui.retrieval.connection import Connection, is_database_error, snapshot
from memtui.retrieval.legs import Cancelled as IsCancelled
from memtui.retrieval.legs import LegAnswer, RowHit, Stopwatch
from memtui.retrieval.phrases import phrase_match
from memtui.retrieval.query import Query
from memtui.retrieval.term_plan import Plan, TermPlanner, only_stop_words

if TYPE_CHECKING:
    from memtui.retrieval.filters import AllowedRows
    from memtui.retrieval.scoring import Scorer

_ROWS_AT_A_TIME = 512
_RELAXED = 4

_RANKED = "SELECT rowid, rank FROM chunks_fts WHERE chunks_fts MATCH ? ORDER BY rank, rowid"
_HOLDING = (
    "SELECT rowid FROM chunks_fts WHERE chunks_fts MATCH ? "
    "AND {} IN (SELECT value FROM json_each(?))"
)
_LOOKED_UP = _HOLDING.format("rowid")
# The sign keeps SQLite from asking FTS5 row by row: the postings are read once, from end to end.
_SCANNED = _HOLDING.format("+rowid")
_SCANNED_POSTINGS = 25_000


class KeywordLeg:
    """Searches the full-text index of one connection; belongs to that connection's thread.

    A chunk is found when it holds any of the query's words, and all of its quoted phrases. Words
    are taken rarest first until a budget of postings is spent, at least the two rarest: that
    bounds the time, and the words left out change the order least. A query that finds too little
    so is asked once more with four times the budget. The first search leaves the scores to SQLite;
    whoever searches again has the lengths of all rows in memory, for the same scores in less time.
    """

    def __init__(self, connection: Connection, *, budget: int | None = None) -> None:
        """`budget`: postings a query may read; `None` is 100,000 or 12 % of the chunks."""
        self._connection = connection
        self._planner = TermPlanner(connection, budget)
        self._scorer: Scorer | None = None
        self._searched = False

    def search(
        self,
        query: Query,
        limit: int,
        allowed: AllowedRows | None,
        *,
        cancelled: IsCancelled | None = None,
    ) -> LegAnswer:
        """Find the `limit` best chunks among the allowed ones, lowest `bm25()` first.

        A leg that cannot answer says why in its state. Raises `Cancelled` when SQLite stopped and
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
        rows = self._mask(query, allowed, plan)
        scorer = self._ready_scorer(query)
        found = self._found(plan, limit, rows, scorer)
        if len(found) < limit and plan.pruned:
            relaxed = self._planner.plan(query, times=_RELAXED)
            if relaxed.match != plan.match:
                plan, found = relaxed, self._found(relaxed, limit, rows, scorer)
        held = self._held(plan, [rowid for rowid, _ in found], scorer)
        hits = tuple(RowHit(rowid, rank, held.get(rowid, ())) for rowid, rank in found)
        if plan.kept and only_stop_words(query):
            detail = "only stop words, so they are searched"
            return watch.ok(hits, _facts(query, plan), Reason.ONLY_STOP_WORDS, detail)
        return watch.ok(hits, _facts(query, plan))

    def _ready_scorer(self, query: Query) -> Scorer | None:
        """What scores in arrays; `None` at first, and where a phrase is required."""
        if query.phrases:
            return None
        if not self._searched:
            self._searched = True
            return None
        if self._scorer is None:
            from memtui.retrieval.scoring import Scorer

            self._scorer = Scorer(self._connection)
        self._scorer.refresh()
        return self._scorer

    def _found(
        self, plan: Plan, limit: int, allowed: AllowedRows | None, scorer: Scorer | None
    ) -> list[tuple[int, float]]:
        if scorer is None:
            return self._ranked(plan.match, limit, allowed)
        return scorer.best(self._planner.words(plan.match), limit, allowed)

    def _mask(self, query: Query, allowed: AllowedRows | None, plan: Plan) -> AllowedRows | None:
        """Add what the phrases require, unless the match expression does so by itself."""
        if not query.phrases or not plan.kept:
            return allowed
        from memtui.retrieval.filters import only_with_phrases

        return only_with_phrases(self._connection, query.phrases, allowed)

    def _ranked(
        self, match: str, limit: int, allowed: AllowedRows | None
    ) -> list[tuple[int, float]]:
        if limit <= 0:
            return []
        if allowed is None:
            rows = self._connection.execute(f"{_RANKED} LIMIT ?", (match, limit)).fetchall()
            return [(rowid, rank) for rowid, rank in rows]
        if not len(allowed):
            return []
        found: list[tuple[int, float]] = []
        cursor = self._connection.execute(_RANKED, (match,))
        ranked = iter(cursor)
        while len(found) < limit and (part := list(islice(ranked, _ROWS_AT_A_TIME))):
            inside = allowed.holds([rowid for rowid, _ in part])
            found.extend(row for row, good in zip(part, inside, strict=True) if good)
        cursor.close(True)
        return found[:limit]

    def _held(
        self, plan: Plan, rowids: Sequence[int], scorer: Scorer | None
    ) -> dict[int, tuple[str, ...]]:
        """Tell which terms each row holds, in the order of the query.

        Up to some number of postings, and for beginnings of words in any case, it is quicker to
        read them all than to look each row up.
        """
        terms = [*plan.phrases, *plan.kept, *plan.pruned]
        listed = json.dumps(rowids)
        held: dict[int, list[str]] = {}
        for term in sorted(terms, key=lambda term: term.place) if rowids else ():
            if scorer is not None and term in plan.kept:
                inside = scorer.holding(self._planner.words(term.match), rowids)
                holding = [rowid for rowid, good in zip(rowids, inside, strict=True) if good]
            else:
                scan = term.postings <= _SCANNED_POSTINGS or term.text.endswith("*")
                rows = self._connection.execute(
                    _SCANNED if scan else _LOOKED_UP, (term.match, listed)
                )
                holding = [rowid for (rowid,) in rows]
            for rowid in holding:
                held.setdefault(rowid, []).append(term.text)
        return {rowid: tuple(texts) for rowid, texts in held.items()}


def _facts(query: Query, plan: Plan) -> dict[str, float | int | str | None]:
    facts: dict[str, float | int | str | None] = {
        "match": plan.match,
        "pruned": " ".join(term.text for term in plan.pruned),
        "stop_words": " ".join(query.terms.stop_words),
        "postings": plan.postings,
    }
    if query.phrases:
        facts["required"] = phrase_match(query.phrases)
    return facts

"""The keyword leg: BM25 over the chunks that hold any word of the query."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import compress, islice
from typing import TYPE_CHECKING

from memtui.errors import Cancelled
from memtui.model import Reason
from memtui.retrieval.connection import Connection, is_database_error, snapshot
from memtui.retrieval.legs import Cancelled as IsCancelled
from memtui.retrieval.legs import LegAnswer, RowHit, Stopwatch
from memtui.retrieval.phrases import phrase_match
from memtui.retrieval.query import Query
from memtui.retrieval.term_plan import (
    BUDGETS,
    MAX_KEPT,
    Plan,
    Term,
    TermPlanner,
    Words,
    only_stop_words,
)
from memtui.text.stopwords import STOP_WORDS
from memtui.text.tokens import quote

if TYPE_CHECKING:
    from memtui.retrieval.filters import AllowedRows
    from memtui.retrieval.scoring import Scorer

_ROWS_AT_A_TIME = 512
_MOST_WANTED = 64
_LONG = 1
"""Pages of the full-text index beyond which a list is read before somebody asks for it."""
_MOST_AHEAD = 512

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

    A chunk is found when it holds any of the query's words, and all of its quoted phrases. The
    lists of words that were searched are kept in memory, and whatever is there takes part: of all
    words together the best chunks are exactly those of FTS5. Other words are taken rarest first
    until a budget of postings is spent, at least the two rarest: that bounds the time, and the
    words left out change the order least. `prepare` reads the lists of those, for the next search.
    A query that finds too little is asked once more with four times the budget. The first search
    leaves the scores to SQLite; whoever searches again has the lengths of all rows in memory, for
    the same scores in less time.
    """

    def __init__(self, connection: Connection, *, budget: int | None = None) -> None:
        """`budget`: postings a query may read; `None` is 100,000 or 12 % of the chunks."""
        self._connection = connection
        self._planner = TermPlanner(connection, budget)
        self._scorer: Scorer | None = None
        self._searches = 0
        self._wanted: dict[Words, None] = {}
        self._ahead: dict[Words, None] | None = None

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
        scorer = self._ready_scorer()
        self._planner.lists = scorer
        plan = self._planner.plan(query)
        self._want(plan.pruned if scorer is not None else (*plan.kept, *plan.pruned), plan)
        rows = self._mask(query, allowed, plan, scorer)
        found = self._found(plan, limit, rows, scorer)
        if len(found) < limit and plan.pruned:
            relaxed = self._planner.plan(query, times=BUDGETS[-1])
            if relaxed.match != plan.match:
                plan, found = relaxed, self._found(relaxed, limit, rows, scorer)
        rowids, ranks = [rowid for rowid, _ in found], [rank for _, rank in found]
        hits = tuple(map(RowHit, rowids, ranks, self._held(plan, rowids, scorer)))
        if plan.kept and only_stop_words(query):
            detail = "only stop words, so they are searched"
            return watch.ok(hits, _facts(query, plan), Reason.ONLY_STOP_WORDS, detail)
        return watch.ok(hits, _facts(query, plan))

    @property
    def can_prepare(self) -> bool:
        """Whether `prepare` has something to do."""
        return self._searches > 0 and (self._ahead is None or bool(self._wanted or self._ahead))

    def prepare(self, gives_way: IsCancelled) -> None:
        """Read the lists of words that were left out, then those of the most frequent words.

        The next searches find them. Raises `Cancelled` between two lists when `gives_way` says
        that somebody waits, and what SQLite raises; what was read is kept.
        """
        scorer = self._new_scorer()
        while scorer.is_new and scorer.advance():
            _give_way(gives_way)
        while self._wanted:
            self._read_first(self._wanted, scorer, gives_way)
        if self._ahead is None:
            self._ahead = dict.fromkeys(self._frequent())
        while self._ahead and scorer.has_room:
            self._read_first(self._ahead, scorer, gives_way)
        self._ahead.clear()
        with snapshot(self._connection):
            scorer.refresh()
            scorer.learn_pages()

    def _read_first(
        self, wanted: dict[Words, None], scorer: Scorer, gives_way: IsCancelled
    ) -> None:
        _give_way(gives_way)
        words = next(iter(wanted))
        with snapshot(self._connection):
            scorer.refresh()
            scorer.read(words)
        del wanted[words]

    def _frequent(self) -> list[Words]:
        """The words with the longest lists, without those that no query looks up."""
        from memtui.retrieval.doclists import long_lists

        with snapshot(self._connection):
            tokens = long_lists(self._connection, _LONG, _MOST_AHEAD)
        words = self._planner.words
        left_out = {
            token for stop in STOP_WORDS for one in words(quote(stop)) for token in one.tokens
        }
        # One letter is no word, and one character of a script without spaces is seldom asked for.
        asked = (token for token in tokens if len(token) > 1 and token not in left_out)
        found = map(self._planner.words_of, asked)
        return [words for words in found if words is not None]

    def _want(self, terms: Sequence[Term], plan: Plan) -> None:
        """Remember words that the next search is to have in memory."""
        if len(plan.kept) >= MAX_KEPT:
            return
        for term in terms:
            words = self._planner.words(term.match)
            if not any(one.beginning for one in words):
                self._wanted.update(dict.fromkeys(words))
        while len(self._wanted) > _MOST_WANTED:
            del self._wanted[next(iter(self._wanted))]

    def _new_scorer(self) -> Scorer:
        if self._scorer is None:
            from memtui.retrieval.scoring import Scorer

            self._scorer = Scorer(self._connection)
        return self._scorer

    def _ready_scorer(self) -> Scorer | None:
        """What scores in arrays; `None` at first, in a large index until it was prepared."""
        self._searches += 1
        if self._scorer is None and (self._searches == 1 or self._planner.is_large):
            return None
        scorer = self._new_scorer()
        if self._planner.is_large and scorer.is_new:
            return None
        scorer.refresh()
        return scorer

    def _found(
        self, plan: Plan, limit: int, allowed: AllowedRows | None, scorer: Scorer | None
    ) -> list[tuple[int, float]]:
        if scorer is None:
            return self._ranked(plan.match, limit, allowed)
        return scorer.best(self._planner.words_of_plan(plan), limit, allowed)

    def _mask(
        self, query: Query, allowed: AllowedRows | None, plan: Plan, scorer: Scorer | None
    ) -> AllowedRows | None:
        """Add what the phrases require, unless the match expression does so by itself."""
        if not query.phrases or (scorer is None and not plan.kept):
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
    ) -> list[tuple[str, ...]]:
        """Tell which terms each row holds, in the order of the query."""
        terms = sorted((*plan.phrases, *plan.kept, *plan.pruned), key=lambda term: term.place)
        if not terms or not rowids:
            return [()] * len(rowids)
        held: dict[int, Sequence[bool]] = {}
        if scorer is not None:
            kept = {term.place for term in plan.kept}
            worded = {term.place: self._planner.words(term.match) for term in terms}
            listed = [
                place
                for place, words in worded.items()
                if place in kept or all(map(scorer.has, words))
            ]
            inside = scorer.holding([worded[place] for place in listed], rowids)
            held = dict(zip(listed, inside, strict=True))
        for term in terms:
            if term.place not in held:
                held[term.place] = self._looked_up(term, rowids)
        texts = [term.text for term in terms]
        # Few rows hold a set of terms that no other row holds.
        known: dict[tuple[bool, ...], tuple[str, ...]] = {}
        answer: list[tuple[str, ...]] = []
        for which in zip(*(held[term.place] for term in terms), strict=True):
            if which not in known:
                known[which] = tuple(compress(texts, which))
            answer.append(known[which])
        return answer

    def _looked_up(self, term: Term, rowids: Sequence[int]) -> list[bool]:
        """Ask SQLite which rows hold a term.

        Up to some number of postings, and for beginnings of words in any case, it is quicker to
        read them all than to look each row up.
        """
        scan = term.postings <= _SCANNED_POSTINGS or term.text.endswith("*")
        sql, values = _SCANNED if scan else _LOOKED_UP, (term.match, json.dumps(rowids))
        holding = {rowid for (rowid,) in self._connection.execute(sql, values)}
        return [rowid in holding for rowid in rowids]


def _give_way(asked: IsCancelled) -> None:
    if asked():
        raise Cancelled


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

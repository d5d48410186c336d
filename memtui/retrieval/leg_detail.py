"""The keyword leg opened down to the term: what every phrase adds to SQLite's `bm25()`.

The formula is that of FTS5's built-in function (https://www.sqlite.org/fts5.html#the_bm25_function,
`ext/fts5/fts5_aux.c`); the numbers in it are those that FTS5 itself gives to a ranking function.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from memtui.model.inquiry import (
    KeywordExplanation,
    LegRank,
    PhraseScore,
    PrunedTerm,
    SubstringTerm,
    TermScore,
)
from memtui.retrieval.connection import Connection, register_fts5, snapshot, tokens
from memtui.retrieval.keyword import MatchTerm, Plan, TermPlanner, match_terms
from memtui.retrieval.openclaw.body import contains
from memtui.retrieval.openclaw.plan import (
    TRIGRAM,
    like_pattern,
    plan_keyword,
    searched_part,
    well_formed,
)
from memtui.retrieval.openclaw.plan import tokens as openclaw_tokens
from memtui.retrieval.openclaw.release import Release, ShortTerms
from memtui.retrieval.openclaw.tables import IndexTables, SearchScope
from memtui.retrieval.openclaw.vector import Vector, VectorReader, cosine_similarities
from memtui.retrieval.query import Query, phrase_segments
from memtui.retrieval.vector_view import Floats, RowIds, VectorView
from memtui.text.ecmascript import trim
from memtui.text.tokens import FTS5_TOKENIZE, STOP_WORDS, query_terms, quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memtui.retrieval.filters import AllowedRows


K1 = 1.2
B = 0.75
LEAST_IDF = 1e-6
"""For a phrase that half of the rows hold, or more."""

FUNCTION = "memtui_bm25_numbers"
NATIVE_TABLE = "chunks_fts"


class _Numbers(NamedTuple):
    """What FTS5 tells a ranking function about a row and the phrases of its query."""

    rows: int
    tokens: int
    """Of all rows."""
    length: int
    """Tokens of this row."""
    tf: tuple[int, ...] = ()
    """For every phrase that has a token."""


def explain_bm25(
    connection: Connection,
    table: str,
    match: str,
    rowid: int,
    *,
    tokenizer: str,
    spelled: Mapping[str, str] | None = None,
    required: Collection[str] = (),
) -> KeywordExplanation:
    """Explain one row of a full-text table under one MATCH expression, found by it or not.

    `tokenizer` is the table's `tokenize` option. `spelled` gives for operands of the expression how
    the query spells them. `required` are the operands of an OR expression that a row must hold all
    the same. The shares add up to `-bm25(table)`, every column's weight being 1. Reads as many
    postings as the search itself. Raises ValueError for an expression that `match_terms` cannot
    read, and what SQLite raises.
    """
    parts = match_terms(match)
    must = {part.match for part in parts.terms} if parts.joiner == "AND" else set(required)
    register_fts5(connection, FUNCTION, _ask_fts5)
    with snapshot(connection):
        row, score = _matching(connection, table, match, rowid)
        own = row or _numbers(connection, table, "rowid = ?", rowid)
        base = own or _without_row(connection, table)
        scorer = _Scorer(connection, table, tokenizer, rowid, base)
        tf = None if row is None else iter(row.tf)
        names = spelled or {}
        terms = tuple(
            scorer.term(part, names.get(part.match, part.text), part.match in must, tf)
            for part in parts.terms
        )
    missing = _different(term.text for term in terms if term.required and not term.held)
    return KeywordExplanation(
        rowid=rowid,
        match=match,
        tokenizer=tokenizer,
        indexed=own is not None,
        found=row is not None and not missing,
        score=score,
        terms=terms,
        rows=base.rows,
        length=base.length,
        average_length=scorer.average,
        missing=missing,
        nowhere=_different(t.text for t in terms if not any(p.df for p in t.phrases)),
        dropped=_different(t.text for t in terms if not any(p.tokens for p in t.phrases)),
    )


def explain_keyword(
    connection: Connection,
    query: Query,
    rowid: int,
    *,
    match: str | None = None,
    planner: TermPlanner | None = None,
) -> KeywordExplanation:
    """Explain a chunk of memtui's own index, by its row number.

    `match` is the expression that the leg answered (its fact `match`), which may hold more words
    than the budget allows; without it the plan of the usual budget is explained. `planner` spares
    reading the frequencies again. A query without words is explained as one that finds nothing.
    """
    plan = _plan(planner or TermPlanner(connection), query, match)
    if not plan.kept and not plan.phrases:
        explanation = _nothing_asked(connection, NATIVE_TABLE, rowid, FTS5_TOKENIZE)
        return replace(explanation, stop_words=query.terms.stop_words)
    segments = {s: phrase for phrase in query.phrases for s in phrase_segments(phrase)}
    explanation = explain_bm25(
        connection,
        NATIVE_TABLE,
        plan.match,
        rowid,
        tokenizer=FTS5_TOKENIZE,
        spelled={term.match: term.text for term in plan.kept} | segments,
        required=segments,
    )
    pruned = tuple(
        PrunedTerm(term.text, term.postings, _holds(connection, NATIVE_TABLE, term.match, rowid))
        for term in plan.pruned
    )
    return replace(explanation, pruned=pruned, stop_words=query.terms.stop_words)


def explain_openclaw(
    connection: Connection, tables: IndexTables, release: Release, query: str, rowid: int
) -> KeywordExplanation:
    """Explain a row of an OpenClaw index's full-text table, as one release asks for the query.

    For one of the keywords that a release searches one by one, `query` is that keyword; of a long
    query, the part that is searched counts. Raises ValueError for an index without a full-text
    table.
    """
    if tables.fts is None:
        raise ValueError("the index has no full-text table")
    plan = plan_keyword(
        searched_part(trim(well_formed(query))),
        tokenizer=tables.tokenizer,
        rule=release.token_rule,
        short_terms=release.short_terms,
    )
    if plan.match is None:
        explanation = _nothing_asked(connection, tables.fts, rowid, tables.tokenizer)
    else:
        explanation = explain_bm25(
            connection, tables.fts, plan.match, rowid, tokenizer=tables.tokenizer
        )
    every = release.short_terms is ShortTerms.ALL
    substrings = tuple(
        SubstringTerm(term, _has_substring(connection, tables.fts, rowid, term, every=every))
        for term in plan.substrings
    )
    lacking = [term.text for term in substrings if not term.held]
    matches = explanation.found or (plan.match is None and bool(substrings) and explanation.indexed)
    return replace(
        explanation,
        substrings=substrings,
        found=matches and not lacking,
        missing=_different([*explanation.missing, *lacking]),
    )


def openclaw_row(connection: Connection, tables: IndexTables, chunk_id: str) -> int | None:
    """Find the full-text row of a chunk; `None` when there is none.

    The releases give both rows one number; where that is not so, the table is read through.
    """
    fts, chunks = tables.fts, tables.chunks
    if fts is None:
        return None
    same = f"SELECT f.rowid FROM {chunks} c JOIN {fts} f ON f.rowid = c.rowid AND f.id = c.id"
    for sql in (f"{same} WHERE c.id = ?", f"SELECT rowid FROM {fts} WHERE id = ? LIMIT 1"):
        rows = connection.execute(sql, (chunk_id,)).fetchall()
        if rows:
            return int(rows[0][0])
    return None


class _Scorer:
    """Computes the shares of one row's terms."""

    def __init__(
        self, connection: Connection, table: str, tokenizer: str, rowid: int, numbers: _Numbers
    ) -> None:
        self._tokenizer = tokenizer
        self._connection = connection
        self._table = table
        self._rowid = rowid
        self._numbers = numbers
        self.average = numbers.tokens / numbers.rows if numbers.rows else 0.0

    def term(
        self, part: MatchTerm, text: str, required: bool, tf: Iterator[int] | None
    ) -> TermScore:
        """Score one operand; `tf` goes on phrase by phrase, `None` for a row that is not found."""
        if tf is None:
            condition = f"{self._table} MATCH ? AND rowid = ?"
            alone = _numbers(self._connection, self._table, condition, part.match, self._rowid)
            tf = iter(alone.tf) if alone is not None else None
        phrases = tuple(self._phrase(phrase, tf) for phrase in part.phrases)
        share = math.fsum(phrase.share for phrase in phrases)
        held = any(phrase.tf for phrase in phrases)
        return TermScore(text, part.match, required, held, share, phrases)

    def _phrase(self, match: str, tf: Iterator[int] | None) -> PhraseScore:
        words = tuple(tokens(match.rstrip("* ")[1:-1].replace('""', '"'), self._tokenizer))
        count = next(tf) if words and tf is not None else 0
        sql = f"SELECT count(*) FROM {self._table} WHERE {self._table} MATCH ?"
        df = int(self._connection.execute(sql, (match,)).fetchall()[0][0]) if words else 0
        idf = inverse_document_frequency(self._numbers.rows, df)
        share = 0.0
        if count:
            length = 1 - B + B * self._numbers.length / self.average
            share = idf * ((count * (K1 + 1)) / (count + K1 * length))
        return PhraseScore(match, words, count, df, idf, share)


def inverse_document_frequency(rows: int, df: int) -> float:
    """ln((rows - df + 0.5) / (df + 0.5)), and 1e-6 where that is 0 or less."""
    idf = math.log((rows - df + 0.5) / (df + 0.5))
    return idf if idf > 0 else LEAST_IDF


def _plan(planner: TermPlanner, query: Query, match: str | None) -> Plan:
    asked = planner.plan_of(query, match) if match else None
    return asked or planner.plan(query)


def _nothing_asked(
    connection: Connection, table: str, rowid: int, tokenizer: str
) -> KeywordExplanation:
    """Explain a query that sends no MATCH expression."""
    register_fts5(connection, FUNCTION, _ask_fts5)
    with snapshot(connection):
        own = _numbers(connection, table, "rowid = ?", rowid)
        base = own or _without_row(connection, table)
    return KeywordExplanation(
        rowid=rowid,
        match=None,
        tokenizer=tokenizer,
        indexed=own is not None,
        found=False,
        score=None,
        terms=(),
        rows=base.rows,
        length=base.length,
        average_length=base.tokens / base.rows if base.rows else 0.0,
    )


def _matching(
    connection: Connection, table: str, match: str, rowid: int
) -> tuple[_Numbers | None, float | None]:
    sql = (
        f"SELECT {FUNCTION}({table}), bm25({table}) FROM {table} "
        f"WHERE {table} MATCH ? AND rowid = ?"
    )
    rows = connection.execute(sql, (match, rowid)).fetchall()
    return (_read(rows[0][0]), float(rows[0][1])) if rows else (None, None)


def _numbers(
    connection: Connection, table: str, condition: str, *values: str | int
) -> _Numbers | None:
    sql = f"SELECT {FUNCTION}({table}) FROM {table} WHERE {condition}"
    rows = connection.execute(sql, values).fetchall()
    return _read(rows[0][0]) if rows else None


def _without_row(connection: Connection, table: str) -> _Numbers:
    """Count what there is, for a row that is not indexed."""
    rows = connection.execute(f"SELECT {FUNCTION}({table}) FROM {table} LIMIT 1").fetchall()
    return _read(rows[0][0])._replace(length=0) if rows else _Numbers(0, 0, 0)


def _read(answer: str) -> _Numbers:
    rows, tokens, length, tf = json.loads(answer)
    return _Numbers(rows, tokens, length, tuple(tf))


def _ask_fts5(api: Any, *_: object) -> str:
    """Hand over FTS5's own numbers, as JSON; phrases without a token are left out."""
    tf = [
        sum(map(len, api.phrase_locations(place)))
        for place, tokens in enumerate(api.phrases)
        if tokens
    ]
    return json.dumps([api.row_count, api.column_total_size(-1), api.column_size(-1), tf])


def _holds(connection: Connection, table: str, match: str, rowid: int) -> bool:
    sql = f"SELECT 1 FROM {table} WHERE {table} MATCH ? AND rowid = ?"
    return bool(connection.execute(sql, (match, rowid)).fetchall())


def _has_substring(
    connection: Connection, table: str, rowid: int, term: str, *, every: bool
) -> bool:
    """Compare as the release does: without case of any script, or as LIKE does."""
    rows = connection.execute(
        f"SELECT text, text LIKE ? ESCAPE '\\' FROM {table} WHERE rowid = ?",
        (like_pattern(term), rowid),
    ).fetchall()
    return any(bool(contains(text, term) if every else like) for text, like in rows)


def _different(texts: Collection[str] | Iterator[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))


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


_SHORTEST = 2
_LONGEST = 40
"""A run without spaces that is longer is no word that anybody would add."""
_MATCHABLE = 3
_MOST_LOOKED_UP = 400
_MOST_COUNTED = 5000

Tokens = Callable[[str], list[str]]
Count = Callable[[str], int]


def rare_words(connection: Connection, text: str, query: str, limit: int) -> tuple[str, ...]:
    """The rarest words of a text that a query lacks, by how many chunks of the index hold them.

    Words as the index tokenizes them, each stem once; pairs of characters where a script has no
    spaces. Stop words and single letters are left out. Raises what SQLite raises.
    """

    def count(word: str) -> int:
        return _rows_with(connection, NATIVE_TABLE, quote(word))

    words = (term.text for term in query_terms(text).terms if term.kind in {"word", "gram"})
    return _rarest(words, query, limit, tokens, count)


def rare_words_openclaw(
    connection: Connection, tables: IndexTables, text: str, query: str, limit: int
) -> tuple[str, ...]:
    """As `rare_words`, by the full-text table of an OpenClaw index and its tokenizer.

    Under trigram, scripts without spaces give memtui's own pairs, and words of one or two ASCII
    letters, which the table cannot look up, are left out. Nothing without a full-text table.
    """
    fts = tables.fts
    if fts is None:
        return ()
    held = well_formed(text)
    if tables.tokenizer == TRIGRAM:
        terms = (term.text for term in query_terms(held).terms if term.kind in {"word", "gram"})
        words: Iterable[str] = (w for w in terms if len(w) >= _MATCHABLE or not w.isascii())
    else:
        words = openclaw_tokens(held)

    def count(word: str) -> int:
        if tables.tokenizer == TRIGRAM and len(word) < _MATCHABLE:
            return _MOST_COUNTED
        return _rows_with(connection, fts, quote(word))

    by_table = partial(tokens, tokenizer=tables.tokenizer)
    return _rarest(words, well_formed(query), limit, by_table, count)


def _rarest(
    words: Iterable[str], query: str, limit: int, tokens_of: Tokens, count: Count
) -> tuple[str, ...]:
    asked = frozenset(tokens_of(query))
    different: dict[tuple[str, ...], str] = {}
    for word in _useful(words):
        found = tuple(tokens_of(word))
        if found and not asked.issuperset(found):
            different.setdefault(found, word)
    chosen = list(different.values())[:_MOST_LOOKED_UP]
    # Words come before numbers, which are seldom what somebody remembers.
    keyed = [
        (word.isdigit(), count(word), not word.isalpha(), place, word)
        for place, word in enumerate(chosen)
    ]
    return tuple(word for *_, word in sorted(key for key in keyed if key[1])[:limit])


def _useful(words: Iterable[str]) -> Iterator[str]:
    for word in words:
        if _SHORTEST <= len(word) <= _LONGEST and word.lower() not in STOP_WORDS:
            yield word


def _rows_with(connection: Connection, table: str, match: str) -> int:
    sql = f"SELECT count(*) FROM (SELECT 1 FROM {table} WHERE {table} MATCH ? LIMIT ?)"
    return int(connection.execute(sql, (match, _MOST_COUNTED)).fetchall()[0][0])

"""The keyword leg opened down to the term: what every phrase adds to SQLite's `bm25()`.

The formula is that of FTS5's built-in function (https://www.sqlite.org/fts5.html#the_bm25_function,
`ext/fts5/fts5_aux.c`); the numbers in it are those that FTS5 itself gives to a ranking function.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from memtui.model.inquiry import (
    KeywordExplanation,
    PhraseScore,
    PrunedTerm,
    SubstringTerm,
    TermScore,
)
from memtui.retrieval.connection import Connection, register_fts5, snapshot
from memtui.retrieval.match_terms import MatchTerm, match_terms
from memtui.retrieval.openclaw.body import contains
from memtui.retrieval.openclaw.plan import (
    like_pattern,
    plan_keyword,
    searched_part,
    well_formed,
)
from memtui.retrieval.openclaw.release import Release, ShortTerms
from memtui.retrieval.openclaw.tables import IndexTables
from memtui.retrieval.phrases import phrase_segments
from memtui.retrieval.query import Query
from memtui.retrieval.stems import tokens
from memtui.retrieval.term_plan import Plan, TermPlanner
from memtui.text.ecmascript import trim
from memtui.text.tokens import FTS5_TOKENIZE

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

"""One row of an index opened up: what each term adds to its score, and its rank in each leg.

Scores are those of FTS5's built-in function (https://www.sqlite.org/fts5.html#the_bm25_function,
`ext/fts5/fts5_aux.c`); the numbers in them are those that FTS5 itself gives to a ranking function.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple, TypeAlias
from unicodedata import category

import numpy as np
from msgspec.structs import replace

from memtui.model import inquiry
from memtui.retrieval.connection import Connection, query_tokens, register_fts5, snapshot, tokens
from memtui.retrieval.keyword import Joiner, KeywordLeg, Operand
from memtui.retrieval.openclaw.keyword_leg import contains
from memtui.retrieval.openclaw.tables import Layout
from memtui.retrieval.openclaw.terms import TRIGRAM, like_pattern, plan_keyword, searched_part
from memtui.retrieval.openclaw.terms import tokens as openclaw_tokens
from memtui.retrieval.query import Query
from memtui.retrieval.vector_view import SLACK, Floats, VectorView, exact_cosines
from memtui.settings.openclaw.releases import Release
from memtui.text.ecmascript import trim, well_formed
from memtui.text.languages import without_tag
from memtui.text.tokens import FTS5_TOKENIZE, STOP_WORDS, query_terms, quote

Value: TypeAlias = str | int | float

K1 = 1.2
B = 0.75
LEAST_IDF = 1e-6
"""For a phrase that half of the rows hold, or more."""
FUNCTION = "memtui_bm25_numbers"
NATIVE_TABLE = "chunks_fts"

_LONGEST_WORD = 40
"""A run without spaces that is longer is no word that anybody would add."""
_MATCHABLE = 3
_MOST_LOOKED_UP = 400
_MOST_COUNTED = 5000


class _Numbers(NamedTuple):
    """The numbers that FTS5 gives a ranking function for a row and the phrases of its query."""

    rows: int
    tokens: int
    """Of all rows."""
    length: int
    """Tokens of this row."""
    tf: Sequence[int]
    """For every phrase that has a token."""
    score: float


def explain_bm25(
    connection: Connection,
    table: str,
    operands: Sequence[Operand],
    rowid: int,
    *,
    tokenizer: str,
    joiner: Joiner = "OR",
    required: Collection[str] = (),
) -> inquiry.KeywordExplanation:
    """Explain one row of a full-text table under one MATCH expression, found by it or not.

    `tokenizer` is the table's `tokenize` option. `required` are the operands of an OR expression
    that a row must hold all the same. The shares add up to `-bm25(table)`, every column's weight
    being 1. Reads the postings of each operand a few times. Raises what SQLite raises.
    """
    match = f" {joiner} ".join(operand.match for operand in operands) or None
    is_all = joiner == "AND" or len(operands) == 1
    terms = []
    with snapshot(connection):
        counted = _numbers(connection, table, match, rowid) if match is not None else None
        own = counted or _numbers(connection, table, None, rowid)
        base = own or _numbers(connection, table, None, None) or _Numbers(0, 0, 0, (), 0.0)
        length = own.length if own else 0
        average = base.tokens / base.rows if base.rows else 0.0
        for operand in operands:
            alone = _numbers(connection, table, operand.match, rowid)
            counts = iter(alone.tf if alone is not None else ())
            phrases = []
            for phrase in operand.phrases or (operand.match,):
                spelled = phrase.rstrip("* ")[1:-1].replace('""', '"')
                token_forms = query_tokens(connection, spelled, tokenizer)
                different = (_different(map(without_tag, forms)) for forms in token_forms)
                words = tuple(chain.from_iterable(different))
                # FTS5 counts only phrases that have a token.
                tf = next(counts, 0) if words else 0
                df = matching_rows(connection, table, phrase) if words else 0
                idf = math.log((base.rows - df + 0.5) / (df + 0.5))
                idf = idf if idf > 0 else LEAST_IDF
                share = 0.0
                if tf:
                    weight = K1 * (1 - B + B * length / average)
                    share = idf * ((tf * (K1 + 1)) / (tf + weight))
                phrases.append(inquiry.PhraseScore(phrase, words, tf, df, idf, share))
            terms.append(
                inquiry.TermScore(
                    operand.text,
                    operand.match,
                    is_all or operand.match in required,
                    any(phrase.tf for phrase in phrases) and rowid not in operand.unlike,
                    math.fsum(phrase.share for phrase in phrases),
                    tuple(phrases),
                )
            )
    missing = _different(term.text for term in terms if term.required and not term.held)
    return inquiry.KeywordExplanation(
        rowid=rowid,
        match=match,
        tokenizer=tokenizer,
        indexed=own is not None,
        found=counted is not None and not missing and any(term.held for term in terms),
        score=None if counted is None else counted.score,
        terms=tuple(terms),
        rows=base.rows,
        length=length,
        average_length=average,
        missing=missing,
        nowhere=_different(t.text for t in terms if not any(p.df for p in t.phrases)),
        dropped=_different(t.text for t in terms if not any(p.tokens for p in t.phrases)),
    )


def explain_keyword(
    connection: Connection, query: Query, rowid: int, *, match: str = ""
) -> inquiry.KeywordExplanation:
    """Explain a chunk of memtui's own index, by its row number.

    `match` is the expression that the leg answered (its fact `match`), which may hold more words
    than the budget allows; without it the plan of the usual budget is explained. A query without
    words is explained as one that finds nothing.
    """
    leg = KeywordLeg(connection)
    plan = (leg.plan_of(query, match) if match else None) or leg.plan(query)
    explanation = explain_bm25(
        connection,
        NATIVE_TABLE,
        plan.operands,
        rowid,
        tokenizer=FTS5_TOKENIZE,
        joiner=plan.joiner,
        required=[operand.match for term in plan.phrases for operand in term.operands],
    )
    pruned = tuple(
        inquiry.PrunedTerm(
            term.text,
            term.postings,
            _numbers(connection, NATIVE_TABLE, term.operands[0].match, rowid) is not None,
        )
        for term in plan.pruned
    )
    return replace(explanation, pruned=pruned, stop_words=query.terms.stop_words)


def explain_openclaw(
    connection: Connection, layout: Layout, release: Release, query: str, rowid: int
) -> inquiry.KeywordExplanation:
    """Explain a row of an OpenClaw index's full-text table, as one release asks for the query.

    For one of the keywords that a release searches one by one, `query` is that keyword; of a long
    query, the part that is searched counts. The index has a full-text table.
    """
    assert layout.fts is not None
    plan = plan_keyword(
        searched_part(trim(well_formed(query))),
        tokenizer=layout.tokenizer,
        short_terms=release.short_terms,
    )
    # What a release writes are words in quotes, which hold no blank.
    quoted = plan.match.split(" AND ") if plan.match is not None else ()
    operands = [Operand(phrase[1:-1], phrase) for phrase in quoted]
    explanation = explain_bm25(
        connection, layout.fts, operands, rowid, tokenizer=layout.tokenizer, joiner="AND"
    )
    substrings = []
    for term in plan.substrings:
        sql = f"SELECT text, text LIKE ? ESCAPE '\\' FROM {layout.fts} WHERE rowid = ?"
        rows = list(connection.execute(sql, (like_pattern(term), rowid)))
        # Compared as the release does: without case of any script, or as LIKE does.
        every = release.short_terms == "all"
        is_held = any(contains(text, term) if every else like for text, like in rows)
        substrings.append(inquiry.SubstringTerm(term, bool(is_held)))
    lacking = [term.text for term in substrings if not term.held]
    matches = explanation.found or (plan.match is None and bool(substrings) and explanation.indexed)
    is_found = matches and not lacking
    found_by = inquiry.FoundBy.MATCH if plan.match is not None else inquiry.FoundBy.SUBSTRINGS
    return replace(
        explanation,
        substrings=tuple(substrings),
        found=is_found,
        missing=_different([*explanation.missing, *lacking]),
        asked=query,
        found_by=found_by if is_found else inquiry.FoundBy.NOTHING,
    )


def openclaw_row(connection: Connection, layout: Layout, chunk_id: str) -> int | None:
    """Find the full-text row of a chunk; `None` when there is none.

    The releases give both rows one number; where that is not so, the table is read through.
    """
    fts, chunks = layout.fts, layout.chunks
    if fts is None:
        return None
    same = f"SELECT f.rowid FROM {chunks} c JOIN {fts} f ON f.rowid = c.rowid AND f.id = c.id"
    for sql in (f"{same} WHERE c.id = ?", f"SELECT rowid FROM {fts} WHERE id = ? LIMIT 1"):
        for (rowid,) in list(connection.execute(sql, (chunk_id,))):
            return int(rowid)
    return None


def _numbers(
    connection: Connection, table: str, match: str | None, rowid: int | None
) -> _Numbers | None:
    """Ask FTS5 for its numbers of a row, or of any where none is named."""
    register_fts5(connection, FUNCTION, _ask_fts5)
    conditions = [f"{table} MATCH ?"] if match is not None else []
    conditions += ["rowid = ?"] if rowid is not None else ["1"]
    score = f"bm25({table})" if match is not None else "0.0"
    values = [value for value in (match, rowid) if value is not None]
    sql = (
        f"SELECT {FUNCTION}({table}), {score} FROM {table} WHERE {' AND '.join(conditions)} LIMIT 1"
    )
    for numbers, raw in list(connection.execute(sql, values)):
        return _Numbers(*[*json.loads(numbers), raw])
    return None


def _ask_fts5(api: Any, *_: object) -> str:
    """Hand over FTS5's own numbers, as JSON; phrases without a token are left out."""
    tf = [
        sum(map(len, api.phrase_locations(place)))
        for place, words in enumerate(api.phrases)
        if words
    ]
    return json.dumps([api.row_count, api.column_total_size(-1), api.column_size(-1), tf])


def _different(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))


def _count(connection: Connection, tables: str, values: Sequence[Value]) -> int:
    return int(connection.execute(f"SELECT count(*) FROM {tables}", values).get)


def keyword_rank(
    connection: Connection,
    table: str,
    match: str | None,
    rowid: int,
    *,
    allowed: Collection[int] | None = None,
    conditions: str = "",
    values: Sequence[Value] = (),
    in_order: Callable[[Iterable[int]], list[int]] = sorted,
) -> inquiry.LegRank | None:
    """Count the rows that the keyword leg puts before one: better `bm25()`, or equal and before it.

    `in_order` sorts the equal ones.
    `None` when the row is not among them. `allowed` and `conditions` (SQL that begins with ` AND `,
    its `values`) say which rows take part; a query with quoted phrases needs its allowed rows.
    Without `match` (only substrings, in `conditions`) rows are in their own order. Every matching
    row is scored, about 1 µs each. Raises what SQLite raises.
    """
    where, bindings = f"1=1{conditions}", list(values)
    if allowed is not None:
        # The sign keeps SQLite from asking FTS5 row by row.
        where += " AND +rowid IN (SELECT value FROM json_each(?))"
        bindings.append(json.dumps([*allowed]))
    score = "NULL"
    if match is not None:
        where = f"{table} MATCH ? AND {where}"
        bindings.insert(0, match)
        score = f"bm25({table})"
    scores = dict(connection.execute(f"SELECT rowid, {score} FROM {table} WHERE {where}", bindings))
    if rowid not in scores:
        return None
    own = scores[rowid] or 0.0
    equal = in_order([row for row, raw in scores.items() if (raw or 0.0) == own])
    better = sum((raw or 0.0) < own for raw in scores.values())
    return inquiry.LegRank(better + equal.index(rowid), len(scores), scores[rowid])


def matching_rows(connection: Connection, table: str, match: str) -> int:
    """Count the rows that a MATCH finds, whatever else they have to fulfil; scores none of them."""
    return _count(connection, f"{table} WHERE {table} MATCH ?", (match,))


def view_rank(
    view: VectorView,
    query: Floats,
    rowid: int,
    allowed: Collection[int] | None = None,
    in_order: Callable[[Iterable[int]], list[int]] = sorted,
) -> inquiry.LegRank | None:
    """Count the rows of a view that are nearer to a query than one; `in_order` sorts equal ones.

    `query` has the shape (dims,) and length 1. `None` when the row has no usable vector or is not
    in `allowed`. One product of the whole matrix; the ranks are those of an exact comparison, even
    where the view's own search only estimates.
    """
    places = np.flatnonzero(view.live_among(allowed))
    for own in exact_cosines(view, query, places[view.rowids[places] == rowid]):
        apart = (view.matrix @ query)[places] - own
        near = places[np.abs(apart) <= SLACK]
        exact = exact_cosines(view, query, near)
        equal = in_order(view.rowids[near][exact == own].tolist())
        position = np.count_nonzero(apart > SLACK) + np.count_nonzero(exact > own)
        return inquiry.LegRank(int(position) + equal.index(rowid), len(places), float(own))
    return None


def rare_words(
    connection: Connection, table: str, tokenizer: str, text: str, query: str, limit: int
) -> tuple[str, ...]:
    """Return the rarest words of a text that a query lacks, by how many rows of a table hold them.

    Words are as the table tokenizes them, each stem once; pairs of characters where a script has no
    spaces. Stop words, single letters and what has other signs are left out, and under trigram
    words of one or two ASCII letters, which the table cannot look up. Raises what SQLite raises.
    """
    text, is_trigram = well_formed(text), tokenizer == TRIGRAM
    words: Iterable[str] = openclaw_tokens(text)
    if is_trigram or tokenizer == FTS5_TOKENIZE:
        words = (term.text for term in query_terms(text).terms if term.kind in {"word", "gram"})
    of_query = frozenset(tokens(well_formed(query), tokenizer))
    different: dict[tuple[str, ...], str] = {}
    for word in words:
        shortest = _MATCHABLE if is_trigram and word.isascii() else 2
        is_plain = all(category(letter)[0] in "LM" for letter in word)
        if is_plain and shortest <= len(word) <= _LONGEST_WORD and word.lower() not in STOP_WORDS:
            stems = tuple(tokens(word, tokenizer))
            if stems and not of_query.issuperset(stems):
                different.setdefault(stems, word)
    keyed = []
    limited = f"(SELECT 1 FROM {table} WHERE {table} MATCH ? LIMIT ?)"
    for place, word in enumerate(list(different.values())[:_MOST_LOOKED_UP]):
        rows = _MOST_COUNTED
        if not is_trigram or len(word) >= _MATCHABLE:
            rows = _count(connection, limited, (quote(word), _MOST_COUNTED))
        keyed.append((rows, place, word))
    return tuple(word for *_, word in sorted(key for key in keyed if key[0])[:limit])

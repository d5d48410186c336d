"""Shares of BM25 scores on random tables: they sum to SQLite's own value, whatever is in them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import apsw
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memtui.model.inquiry import KeywordExplanation
from memtui.retrieval.keyword import match_terms
from memtui.retrieval.leg_detail import LEAST_IDF, explain_bm25, keyword_rank
from memtui.text.tokens import FTS5_TOKENIZE, index_text, quote

WORDS = [
    "router",
    "routers",
    "vlan",
    "the",
    "a",
    "running",
    "备份",
    "京都の",
    "서버",
    "hóa",
    "x",
    "-",
    "ab",
]
TOKENIZERS = [FTS5_TOKENIZE, "unicode61", "trigram", "porter ascii"]
TABLES = [
    "text, content='', contentless_delete=1",
    "text",
    "text, id UNINDEXED, path UNINDEXED",
    "title, text, id UNINDEXED",
    "text, content='', contentless_delete=1, columnsize=1",
]

rows_of_words = st.lists(st.lists(st.sampled_from(WORDS), max_size=8), max_size=12)
phrases = st.lists(st.sampled_from(WORDS), min_size=1, max_size=2)
asked = st.lists(st.tuples(phrases, st.booleans()), min_size=1, max_size=5)


def table(columns: str, tokenizer: str, rows: Sequence[Sequence[str]]) -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    tokenize = tokenizer.replace('"', '""')
    connection.execute(f'CREATE VIRTUAL TABLE notes USING fts5({columns}, tokenize="{tokenize}")')
    for number, words in enumerate(rows, 1):
        text = index_text(" ".join(words))
        names, values = ["text"], [text]
        if "title" in columns:
            names, values = ["title", "text"], [words[0] if words else "", text]
        if "UNINDEXED" in columns:
            names, values = [*names, "id"], [*values, "router vlan the"]
        marks = ", ".join("?" for _ in values)
        connection.execute(
            f"INSERT INTO notes(rowid, {', '.join(names)}) VALUES ({number}, {marks})", values
        )
    return connection


def scores(connection: apsw.Connection, match: str) -> dict[int, float]:
    rows: list[Any] = connection.execute(
        "SELECT rowid, bm25(notes) FROM notes WHERE notes MATCH ? ORDER BY bm25(notes), rowid",
        (match,),
    ).fetchall()
    return dict(rows)


def explain(
    connection: apsw.Connection, match: str, rowid: int, tokenizer: str
) -> KeywordExplanation:
    return explain_bm25(connection, "notes", match, rowid, tokenizer=tokenizer)


def expression(terms: Sequence[tuple[list[str], bool]], joiner: str) -> str:
    return f" {joiner} ".join(
        quote(index_text(" ".join(words)).strip()) + (" *" if prefix else "")
        for words, prefix in terms
    )


@given(
    st.sampled_from(TABLES), st.sampled_from(TOKENIZERS), rows_of_words, asked,
    st.sampled_from(["AND", "OR"]), st.lists(st.integers(1, 12), max_size=3),
)  # fmt: skip
@example(TABLES[0], "unicode61", [["the"], ["the"], []], [(["the"], False)], "OR", [])
@example(TABLES[1], "trigram", [["router"]], [(["ab"], False), (["router"], False)], "AND", [])
def test_shares_sum_to_bm25(
    columns: str,
    tokenizer: str,
    rows: list[list[str]],
    terms: list[tuple[list[str], bool]],
    joiner: str,
    removed: list[int],
) -> None:
    connection = table(columns, tokenizer, rows)
    for rowid in removed:
        connection.execute("DELETE FROM notes WHERE rowid = ?", (rowid,))
    match = expression(terms, joiner)
    found = scores(connection, match)
    for rowid in range(1, len(rows) + 2):
        explanation = explain(connection, match, rowid, tokenizer)
        assert explanation.score == found.get(rowid)
        assert explanation.found == (rowid in found)
        assert explanation.indexed == (rowid <= len(rows) and rowid not in removed)
        assert len(explanation.terms) == len(terms)
        assert all(
            p.idf >= LEAST_IDF and p.share >= 0 for t in explanation.terms for p in t.phrases
        )
        every = joiner == "AND" or len(terms) == 1
        assert bool(explanation.missing) == (every and rowid not in found)
        if explanation.score is not None:
            total = -math.fsum(term.share for term in explanation.terms)
            assert total == pytest.approx(explanation.score, rel=1e-12, abs=1e-15)
    for position, rowid in enumerate(found):
        rank = keyword_rank(connection, "notes", match, rowid)
        assert rank is not None
        assert (rank.position, rank.total, rank.raw) == (position, len(found), found[rowid])
    connection.close()


@given(rows_of_words, st.lists(st.sampled_from(WORDS[:6]), min_size=1, max_size=4))
def test_counts_are_literal(rows: list[list[str]], words: list[str]) -> None:
    connection = table("text", "unicode61", rows)
    match = " OR ".join(map(quote, words))
    spoken = [[word for word in row if word != "-"] for row in rows]
    for rowid, row in enumerate(spoken, 1):
        explanation = explain(connection, match, rowid, "unicode61")
        assert explanation.rows == len(rows)
        for word, term in zip(words, explanation.terms, strict=True):
            (phrase,) = term.phrases
            assert (term.text, term.required, term.held) == (word, len(words) == 1, word in row)
            assert phrase.tf == row.count(word)
            assert phrase.df == sum(word in other for other in spoken)
            assert phrase.tokens == (word,)
        assert explanation.nowhere == tuple(
            dict.fromkeys(w for w in words if not any(w in other for other in spoken))
        )
    connection.close()


@given(rows_of_words.filter(bool), st.lists(st.sampled_from(WORDS), min_size=1, max_size=3))
def test_tokens_are_those_that_fts5_sees(rows: list[list[str]], words: list[str]) -> None:
    connection = table("text", FTS5_TOKENIZE, rows)
    seen: list[tuple[str, ...]] = []

    def look(api: Any, *_: object) -> int:
        seen.extend(tuple(phrase) for phrase in api.phrases)
        return 0

    connection.register_fts5_function("look", look)
    match = expression([(words, False)], "OR")
    (term,) = explain(connection, match, 1, FTS5_TOKENIZE).terms
    connection.execute(
        "SELECT look(notes) FROM notes WHERE notes MATCH ? LIMIT 1", (match,)
    ).fetchall()
    assert all(phrase == term.phrases[0].tokens for phrase in seen)
    connection.close()


@given(st.lists(st.text(max_size=8), min_size=1, max_size=5), st.sampled_from(["AND", "OR"]))
def test_what_is_quoted_is_read_back(texts: list[str], joiner: str) -> None:
    quoted = [quote(text) for text in texts]
    joiner_read, parts = match_terms(f" {joiner} ".join(quoted))
    assert joiner_read == (joiner if len(texts) > 1 else "AND")
    assert [term.match for term in parts] == quoted
    assert [term.phrases for term in parts] == [(q,) for q in quoted]
    assert [quote(term.text) for term in parts] == quoted


def test_alternatives_stay_together() -> None:
    _, parts = match_terms('("dep" * OR "deploy") OR "b c" *  OR NEAR("x" "y", 4)')
    assert [(term.match, term.phrases, term.text) for term in parts] == [
        ('("dep" * OR "deploy")', ('"dep" *', '"deploy"'), '("dep" * OR "deploy")'),
        ('"b c" *', ('"b c" *',), "b c*"),
        ('NEAR("x" "y", 4)', ('"x"', '"y"'), 'NEAR("x" "y", 4)'),
    ]


@pytest.mark.parametrize(
    "match",
    [
        "", "router", '"a" "b"', '"a" AND', 'OR "a"', '"a" AND "b" OR "c"', '"a" NOT "b"', '("a"',
        '"a")', 'text : "a"', '^"a"', '"a" + "b"', '"a', '"a" AND AND "b"', "()",
    ],
)  # fmt: skip
def test_other_expressions_are_refused(match: str) -> None:
    with pytest.raises(ValueError, match="not an expression of quoted terms"):
        match_terms(match)

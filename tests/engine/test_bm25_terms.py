"""Every share of a BM25 score against SQLite's own sum, on real notes and recorded indexes."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memtui.model.inquiry import KeywordExplanation, LegRank
from memtui.retrieval import keyword
from memtui.retrieval.keyword import Joiner, KeywordLeg, Operand
from memtui.retrieval.leg_detail import (
    LEAST_IDF,
    explain_bm25,
    explain_keyword,
    explain_openclaw,
    keyword_rank,
    openclaw_row,
    view_rank,
)
from memtui.retrieval.openclaw.tables import Layout
from memtui.retrieval.openclaw.terms import plan_keyword
from memtui.retrieval.query import filtered_rows, parse_query
from memtui.retrieval.vector_view import nearest
from memtui.settings.openclaw.releases import RELEASES
from memtui.text.tokens import FTS5_TOKENIZE, index_text, quote
from tests.support import recorded
from tests.support.rows import IndexFile, unit_vectors, view_of


def total(explanation: KeywordExplanation) -> float:
    return -math.fsum(term.share for term in explanation.terms)


def test_a_required_phrase_is_named_when_it_is_missing(index: IndexFile) -> None:
    index.add_all(["rate limit of the router", "limit the rate of the router"])
    query = parse_query('"rate limit" router')
    held, lacking = (explain_keyword(index.connection, query, row) for row in (1, 2))
    assert (held.found, held.missing) == (True, ())
    assert (lacking.found, lacking.missing) == (False, ("rate limit",))
    assert lacking.score is not None
    assert [(t.text, t.required, t.held) for t in lacking.terms] == [
        ("rate limit", True, False),
        ("router", False, True),
    ]
    assert held.terms[0].phrases[0].tokens == ("rate", "limit")


def test_pruned_words_are_named_with_what_the_row_holds(
    index: IndexFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyword, "BUDGET", 5)
    index.add_all(["common often rare", "common"] + ["common often"] * 20 + ["rare scarce"])
    explanation = explain_keyword(index.connection, parse_query("common rare often scarce"), 2)
    assert explanation.match == '"rare" OR "scarce"'
    assert [(p.text, p.df, p.held) for p in explanation.pruned] == [
        ("common", 22, True),
        ("often", 21, False),
    ]


def test_the_expression_of_the_larger_budget_is_explained(
    index: IndexFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyword, "BUDGET", 20)
    index.add_all(["rare scarce half"] + ["half"] * 50)
    query = parse_query("rare scarce half")
    hits, state = KeywordLeg(index.connection).search(query, 50, None)
    match = str(state.facts["match"])
    assert match == '"rare" OR "scarce" OR "half"'
    explained = explain_keyword(index.connection, query, 1, match=match)
    assert explained.match == match
    assert explained.score == hits[0].raw
    usual = explain_keyword(index.connection, query, 1)
    assert usual.match == '"rare" OR "scarce"'


def test_what_is_not_there_is_explained_too(index: IndexFile) -> None:
    index.add_all(["router", "router again", "garden"])
    nothing = explain_keyword(index.connection, parse_query("?!"), 1)
    assert (nothing.match, nothing.terms, nothing.found) == (None, (), False)
    assert (nothing.indexed, nothing.length) == (True, 1)
    index.remove(2)
    gone = explain_keyword(index.connection, parse_query("what router zzz"), 2)
    assert (gone.indexed, gone.found, gone.length) == (False, False, 0)
    assert (gone.rows, gone.average_length) == (2, 1.0)
    assert [(t.phrases[0].tf, t.phrases[0].df) for t in gone.terms] == [(0, 1), (0, 0)]
    assert (gone.stop_words, gone.nowhere, gone.tokenizer) == (("what",), ("zzz",), FTS5_TOKENIZE)
    index.remove(1)
    index.remove(3)
    assert explain_keyword(index.connection, parse_query("router"), 1).rows == 0


@pytest.fixture(scope="module")
def recorded_queries(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    path = recorded.recording("2026.9.6-default", tmp_path_factory.mktemp("queries"))
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return [query["query"] for query in content["queries"]]


def scores(connection: apsw.Connection, fts: str, match: str) -> dict[int, float]:
    sql = f"SELECT rowid, bm25({fts}) FROM {fts} WHERE {fts} MATCH ? ORDER BY bm25({fts}), rowid"
    rows: list[Any] = connection.execute(sql, (match,)).fetchall()
    return dict(rows)


@pytest.fixture
def trigram(tmp_path: Path) -> Iterator[apsw.Connection]:
    connection = apsw.Connection(str(tmp_path / "trigram.db"))
    connection.execute(
        "CREATE VIRTUAL TABLE chunks_fts USING fts5(text, id UNINDEXED, tokenize='trigram')"
    )
    rows = recorded.rows_of("2026.9.6")["chunks"]
    with connection:
        connection.executemany("INSERT INTO chunks_fts VALUES (?, ?)", [(r[7], r[0]) for r in rows])
    connection.execute("CREATE TABLE chunks(id TEXT PRIMARY KEY, text)")
    connection.execute("INSERT INTO chunks SELECT id, text FROM chunks_fts WHERE rowid > 1")
    yield connection
    connection.close()


@pytest.mark.parametrize("profile_name", RELEASES)
def test_trigrams_add_up_and_short_terms_are_substrings(
    trigram: apsw.Connection, recorded_queries: list[str], profile_name: str
) -> None:
    names = Layout("chunks", "chunks_fts", None, tokenizer="trigram")
    release, compared = RELEASES[profile_name], 0
    for words in (word for query in recorded_queries for word in (query, *query.split())):
        plan = plan_keyword(words, tokenizer="trigram", short_terms=release.short_terms)
        found = scores(trigram, "chunks_fts", plan.match) if plan.match else {}
        for rowid in [*list(found)[:3], 1]:
            explanation = explain_openclaw(trigram, names, release, words, rowid)
            assert explanation.score == found.get(rowid)
            assert tuple(term.text for term in explanation.substrings) == plan.substrings
            if explanation.score is not None:
                assert total(explanation) == pytest.approx(explanation.score, rel=1e-12)
                compared += 1
            lacks = [term.text for term in explanation.substrings if not term.held]
            assert set(lacks) <= set(explanation.missing)
    assert compared > 50


def test_keyword_ranks_among_allowed_rows_only(index: IndexFile) -> None:
    for number in range(200):
        text = "router " * (1 + number % 7) + "x " * (number % 3)
        index.add(text, f"memory/{number % 4}.md", line=1 + number)
    filters = parse_query("router path:memory/2.md").filters
    allowed = filtered_rows(index.connection, filters)
    hits = index.ask("router path:memory/2.md", limit=100_000).hits
    assert len(hits) == 50
    for position, hit in enumerate(hits):
        rank = keyword_rank(index.connection, "chunks_fts", '"router"', hit.rowid, allowed=allowed)
        assert rank == LegRank(position, 50, hit.raw)
    assert keyword_rank(index.connection, "chunks_fts", '"router"', 1, allowed=allowed) is None


def test_rows_of_openclaw_are_found_by_their_chunk_and_substrings_ranked_by_row(
    trigram: apsw.Connection,
) -> None:
    names = Layout("chunks", "chunks_fts", None, tokenizer="trigram")
    ids = [str(r[0]) for r in trigram.execute("SELECT id FROM chunks_fts ORDER BY rowid")]
    assert [openclaw_row(trigram, names, name) for name in ids[:3]] == [1, 2, 3]
    assert openclaw_row(trigram, names, "no such chunk") is None
    without = Layout("chunks", None, None)
    assert openclaw_row(trigram, without, ids[0]) is None
    # A term too short for trigrams is dropped by one release and a substring for another.
    explanation = explain_openclaw(trigram, names, RELEASES["openclaw-2026.2"], "UI the", 1)
    assert (explanation.found, explanation.dropped) == (False, ("UI",))
    condition = " AND text LIKE ?"
    rows: list[Any] = trigram.execute(
        "SELECT rowid FROM chunks_fts WHERE text LIKE '%ui%'"
    ).fetchall()
    for position, (rowid,) in enumerate(rows):
        rank = keyword_rank(
            trigram, "chunks_fts", None, rowid, conditions=condition, values=("%ui%",)
        )
        assert rank == LegRank(position, len(rows), None)


@pytest.mark.parametrize("exact_limit", [10**9, 1])
def test_view_ranks_are_places_in_the_whole_order(exact_limit: int) -> None:
    vectors = unit_vectors(3000, 16, seed=5, clusters=20)
    vectors[100:140] = vectors[99]
    vectors[7] = vectors[10] = 0
    vectors[1999] = vectors[0]
    view = view_of(range(1, 3001), vectors, exact_limit=exact_limit)
    query = unit_vectors(1, 16, seed=6)[0]
    order = nearest(view, query, 3000, rescored=3000)
    assert len(order) == 2998
    for position in (0, 1, 2, 500, 1500, 2997, *range(1000, 1100)):
        rowid, cosine = order[position]
        assert view_rank(view, query, rowid) == LegRank(position, 2998, cosine)
    duplicates = [n for n, (rowid, _) in enumerate(order) if 100 <= rowid <= 140]
    ranks = [view_rank(view, query, order[n][0]) for n in duplicates]
    assert [rank.position for rank in ranks if rank is not None] == duplicates
    assert view_rank(view, query, 8) is None
    assert view_rank(view, query, 11) is None
    allowed = np.arange(1, 3001, 3)
    some = nearest(view, query, 3000, view.live_among(allowed), rescored=3000)
    assert view_rank(view, query, some[44][0], allowed) == LegRank(44, len(some), some[44][1])
    assert view_rank(view, query, 2, allowed) is None


WORDS = "router routers vlan the a running 备份 京都の 서버 hóa x - ab".split()
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


def operands_of(terms: Sequence[tuple[list[str], bool]], grouped: bool) -> list[Operand]:
    phrases = [
        quote(index_text(" ".join(words)).strip()) + (" *" if prefix else "")
        for words, prefix in terms
    ]
    if grouped and len(phrases) > 1:
        both = Operand("both", f"({phrases[0]} OR {phrases[1]})", tuple(phrases[:2]))
        return [both, *(Operand(phrase, phrase) for phrase in phrases[2:])]
    return [Operand(phrase, phrase) for phrase in phrases]


@given(
    st.sampled_from(TABLES), st.sampled_from(TOKENIZERS), rows_of_words, asked,
    st.sampled_from(["AND", "OR"]), st.lists(st.integers(1, 12), max_size=3), st.booleans(),
)  # fmt: skip
@example(TABLES[0], "unicode61", [["the"], ["the"], []], [(["the"], False)], "OR", [], False)
@example(
    TABLES[1], "trigram", [["router"]], [(["ab"], False), (["router"], False)], "AND", [], False
)
def test_shares_sum_to_bm25(
    columns: str,
    tokenizer: str,
    rows: list[list[str]],
    terms: list[tuple[list[str], bool]],
    joiner: Joiner,
    removed: list[int],
    grouped: bool,
) -> None:
    connection = table(columns, tokenizer, rows)
    for rowid in removed:
        connection.execute("DELETE FROM notes WHERE rowid = ?", (rowid,))
    operands = operands_of(terms, grouped)
    match = f" {joiner} ".join(operand.match for operand in operands)
    found = scores(connection, "notes", match)
    for rowid in range(1, len(rows) + 2):
        explanation = explain_bm25(
            connection, "notes", operands, rowid, tokenizer=tokenizer, joiner=joiner
        )
        assert explanation.score == found.get(rowid)
        assert explanation.found == (rowid in found)
        assert explanation.indexed == (rowid <= len(rows) and rowid not in removed)
        assert len(explanation.terms) == len(operands)
        assert all(
            p.idf >= LEAST_IDF and p.share >= 0 for t in explanation.terms for p in t.phrases
        )
        every = joiner == "AND" or len(operands) == 1
        assert bool(explanation.missing) == (every and rowid not in found)
        if explanation.score is not None:
            assert total(explanation) == pytest.approx(explanation.score, rel=1e-12, abs=1e-15)
    for position, rowid in enumerate(found):
        rank = keyword_rank(connection, "notes", match, rowid)
        assert rank is not None
        assert (rank.position, rank.total, rank.raw) == (position, len(found), found[rowid])
    connection.close()

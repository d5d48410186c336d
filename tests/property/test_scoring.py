"""Scores in arrays are SQLite's own `bm25()`, to the last digit, whatever the table went through."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import apsw
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memtui.index.schema import create
from memtui.retrieval import postings, term_plan
from memtui.retrieval.filters import AllowedRows
from memtui.retrieval.keyword import KeywordLeg
from memtui.retrieval.postings import PostingsReader
from memtui.retrieval.query import parse_query
from memtui.retrieval.scoring import Scorer
from memtui.retrieval.term_plan import TermPlanner, Words
from memtui.text.tokens import index_text, quote
from tests.support.rows import IndexFile

WORDS = ["router", "routers", "rout", "the", "run", "running", "备份", "京都の", "hóa", "đơn", "-"]

rows_of_words = st.lists(st.lists(st.sampled_from(WORDS), max_size=9), max_size=12)
asked = st.lists(
    st.tuples(st.lists(st.sampled_from(WORDS), min_size=1, max_size=2), st.booleans()),
    min_size=1,
    max_size=4,
)
numbers = st.lists(st.integers(1, 24), max_size=4)


def add(connection: apsw.Connection, first: int, rows: Sequence[Sequence[str]]) -> None:
    for number, words in enumerate(rows, first):
        connection.execute(
            "INSERT INTO chunks_fts(rowid, text) VALUES(?, ?)",
            (number, index_text(" ".join(words))),
        )


def bm25(connection: apsw.Connection, match: str) -> list[tuple[int, float]]:
    rows = connection.execute(
        "SELECT rowid, rank FROM chunks_fts WHERE chunks_fts MATCH ? ORDER BY rank, rowid", (match,)
    ).fetchall()
    return [(int(str(row)), float(str(score))) for row, score in rows]


def check(
    connection: apsw.Connection, scorer: Scorer, match: str, limit: int, allowed: Sequence[int]
) -> None:
    phrases = TermPlanner(connection).words(match)
    scorer.refresh()
    every = bm25(connection, match)
    assert scorer.best(phrases, 100, None) == every
    assert scorer.best(phrases, limit, None) == every[:limit]
    some = AllowedRows(np.unique(np.array(allowed, dtype=np.int64)))
    assert scorer.best(phrases, 100, some) == [row for row in every if row[0] in allowed]
    for words, phrase in zip(phrases, match.split(" OR "), strict=False):
        if len(phrases) == match.count(" OR ") + 1:
            holding = {row for row, _ in bm25(connection, phrase)}
            held = [row in holding for row in range(30)]
            assert scorer.holding([[words], [words]], range(30)) == [held, held]
            assert scorer.holding([[words]], range(29, -1, -1)) == [held[::-1]]


@given(rows_of_words, rows_of_words, asked, numbers, st.integers(0, 5))
def test_scores_are_those_of_sqlite(
    rows: list[list[str]],
    more: list[list[str]],
    terms: list[tuple[list[str], bool]],
    removed: list[int],
    limit: int,
) -> None:
    connection = apsw.Connection(":memory:")
    create(connection, None)
    match = " OR ".join(
        quote(index_text(" ".join(words)).strip()) + (" *" if prefix else "")
        for words, prefix in terms
    )
    scorer = Scorer(connection)
    add(connection, 1, rows)
    check(connection, scorer, match, limit, removed)
    for number in removed:
        connection.execute("DELETE FROM chunks_fts WHERE rowid = ?", (number,))
    check(connection, scorer, match, limit, [1, 2, 3])
    # Row numbers of an index are never used twice; some are left out.
    add(connection, len(rows) + 14, more)
    check(connection, scorer, match, limit, range(40))
    connection.close()


def test_long_rows_and_far_row_numbers() -> None:
    connection = apsw.Connection(":memory:")
    create(connection, None)
    lengths = {1: 3, 2: 127, 3: 128, 9: 17_000, 70_000: 300}
    for number, length in lengths.items():
        text = "router " + "word " * (length - 1)
        connection.execute("INSERT INTO chunks_fts(rowid, text) VALUES(?, ?)", (number, text))
    reader = PostingsReader(connection)
    reader.refresh()
    assert {row: int(reader.lengths[row]) for row in lengths} == lengths
    assert (reader.rows, reader.tokens) == (len(lengths), sum(lengths.values()))
    found = reader.get(Words(("word",), '"word"'))
    counted = dict(zip(found.rows.tolist(), found.counts.tolist(), strict=True))
    assert counted == {row: length - 1 for row, length in lengths.items()}
    connection.close()


def test_the_frequency_of_a_frequent_word_is_sampled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(term_plan, "COUNTED_INDEX", 100)
    monkeypatch.setattr(term_plan, "COUNTED_ROWS", 64)
    index = IndexFile(tmp_path, dims=None)
    index.add_all(
        f"common common {'half' * (row % 2)} {'rare' * (row % 300 == 7)} {'early' * (row < 90)}"
        for row in range(2048)
    )
    plan = TermPlanner(index.connection, 1500).plan(parse_query("rare half common early"))
    found = {term.text: term for term in (*plan.kept, *plan.pruned)}
    assert {name: term.postings for name, term in found.items()} == {
        "rare": 7,
        "half": 1024,
        "common": 2048,
        # As many as were counted, since the sample holds none of the first rows.
        "early": 64,
    }
    assert found["common"].cost == 4096
    assert [term.text for term in plan.pruned] == ["common"]
    index.connection.close()


def test_the_first_search_and_those_after_it_answer_the_same(tmp_path: Path) -> None:
    index = IndexFile(tmp_path, dims=None)
    index.add_all(f"common {'half' * (row % 2)} {'rare ' * (row % 9)}" for row in range(300))
    leg = KeywordLeg(index.connection, budget=450)
    for text in ("rare half common", "half comm", "rares 备份"):
        query = parse_query(text, typing=True)
        by_sqlite = KeywordLeg(index.connection, budget=450).search(query, 40, None)
        for _ in range(2):
            answer = leg.search(query, 40, None)
            assert answer.hits == by_sqlite.hits
            assert answer.state.facts == by_sqlite.state.facts
    index.connection.close()


def test_few_lists_are_kept() -> None:
    connection = apsw.Connection(":memory:")
    create(connection, None)
    add(connection, 1, [["router", "run"]] * 50)
    reader = PostingsReader(connection, remembered=300)
    reader.refresh()
    first = reader.get(Words(("router",), '"router"'))
    assert reader.get(Words(("router",), '"router"')) is first
    reader.get(Words(("run",), '"run"'))
    assert reader.get(Words(("router",), '"router"')) is not first
    add(connection, 60, [["router"]])
    reader.refresh()
    assert reader.get(Words(("router",), '"router"')).rows.tolist() == [*range(1, 51), 60]
    connection.close()


def test_short_lists_are_bounded_by_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postings, "MOST_LISTS", 3)
    connection = apsw.Connection(":memory:")
    create(connection, None)
    add(connection, 1, [["router"]])
    reader = PostingsReader(connection)
    reader.refresh()
    asked = [Words((f"word{number}",), f'"word{number}"') for number in range(5)]
    for words in asked:
        reader.get(words)
    assert [reader.has(words) for words in asked] == [False, False, True, True, True]
    connection.close()

"""The best chunks of the whole OR, whatever the budget, once the lists are read; and the lists."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence

import apsw
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memtui.errors import Cancelled
from memtui.index.schema import create
from memtui.retrieval import doclists, postings, scoring
from memtui.retrieval.doclists import ListPages, long_lists, stored_list
from memtui.retrieval.filters import AllowedRows
from memtui.retrieval.keyword import KeywordLeg
from memtui.retrieval.postings import PostingsReader
from memtui.retrieval.query import parse_query
from memtui.retrieval.term_plan import INSTANCES, Words
from memtui.text.tokens import index_text
from tests.property.test_scoring import add
from tests.support.examples import examples

WORDS = ["router", "routers", "cache", "train", "running", "备份", "京都の", "hóa", "đơn"]
QUERIES = [
    "router cache train",
    "cache cache router 备份",
    '"router cache" train 京都',
    '"备份" hóa đơn',
    "the running and the run",
]
UNBOUNDED = 2**62

documents = st.lists(st.lists(st.sampled_from(WORDS), max_size=9), max_size=14)
removals = st.lists(st.integers(1, 20), max_size=4)


@pytest.fixture(autouse=True, scope="module")
def small_limits() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        # Lists of a few rows are skipped, and read out of the pages, as those of a million are.
        patch.setattr(scoring, "LOOKED_UP_FROM", 1)
        patch.setattr(postings, "DECODED_FROM", 0)
        patch.setattr(postings, "SHORT", -1)
        patch.setattr(doclists, "_BYTES_AT_A_TIME", 256)
        patch.setattr(doclists, "_BLOCK", 16)
        patch.setattr(doclists, "_STEPS_AT_A_TIME", 4)
        yield


@pytest.fixture
def connection() -> Iterator[apsw.Connection]:
    made = apsw.Connection(":memory:")
    create(made, None)
    yield made
    made.close()


def never() -> bool:
    return False


def check(
    connection: apsw.Connection, leg: KeywordLeg, text: str, limit: int, allowed: AllowedRows | None
) -> None:
    query = parse_query(text)
    leg.search(query, limit, allowed)
    leg.prepare(never)
    answer = leg.search(query, limit, allowed)
    # A new leg leaves the whole expression and its scores to SQLite.
    whole = KeywordLeg(connection, budget=UNBOUNDED).search(query, limit, allowed)
    assert answer.hits == whole.hits
    assert answer.state.facts["pruned"] == ""
    assert answer.state.facts["match"] == whole.state.facts["match"]


@settings(max_examples=examples(25))
@given(
    documents,
    documents,
    removals,
    st.lists(st.integers(1, 40), max_size=9),
    st.lists(st.sampled_from(QUERIES), min_size=3, max_size=3),
    st.sampled_from([1, 2, 50]),
)
def test_prepared_searches_find_what_the_whole_query_finds(
    rows: list[list[str]],
    more: list[list[str]],
    removed: list[int],
    allowed: list[int],
    texts: list[str],
    limit: int,
) -> None:
    connection = apsw.Connection(":memory:")
    create(connection, None)
    leg = KeywordLeg(connection, budget=1)
    some = AllowedRows(np.unique(np.array(allowed, dtype=np.int64)))
    add(connection, 1, rows)
    check(connection, leg, texts[0], limit, None)
    for number in removed:
        connection.execute("DELETE FROM chunks_fts WHERE rowid = ?", (number,))
    check(connection, leg, texts[1], limit, some)
    add(connection, 30, more)
    check(connection, leg, texts[2], limit, None)
    check(connection, leg, texts[0], limit, some)
    connection.close()


@settings(max_examples=examples(25))
@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from(["a1", "a2", "b"]), st.integers(1, 40)), max_size=3),
        max_size=40,
    ),
    removals,
    st.sampled_from([32, 64, 400]),
    st.integers(1, 9),
    st.integers(1, 9000),
)
def test_stored_lists_are_those_of_the_vocabulary_table(
    rows: list[list[tuple[str, int]]], removed: list[int], page: int, together: int, step: int
) -> None:
    connection = apsw.Connection(":memory:")
    create(connection, None)
    connection.execute("INSERT INTO chunks_fts(chunks_fts, rank) VALUES('pgsz', ?)", (page,))
    connection.execute(INSTANCES)
    for first in range(0, len(rows), together):
        with connection:
            for number, words in enumerate(rows[first : first + together], first + 1):
                text = " ".join(f"{word} " * count for word, count in words)
                sql = "INSERT INTO chunks_fts(rowid, text) VALUES(?, ?)"
                connection.execute(sql, (number * step, text))
    for number in removed:
        connection.execute("DELETE FROM chunks_fts WHERE rowid = ?", (number * step,))
    for token in ("a1", "a2", "b", "0", "a", "c"):
        sql = "SELECT doc FROM temp.memtui_instances WHERE term = ?"
        expected = Counter(int(str(row)) for (row,) in connection.execute(sql, (token,)))
        found = stored_list(connection, token)
        assert found is not None
        held = dict(zip(found[0].tolist(), found[1].tolist(), strict=True))
        gone = {number * step for number in removed}
        assert {row: count for row, count in held.items() if row not in gone} == expected
        assert list(held) == sorted(held)
    connection.close()


@pytest.mark.parametrize("block", [8, 64, 512])
@pytest.mark.parametrize("seed", range(4))
def test_long_stored_lists_are_those_of_the_vocabulary_table(
    connection: apsw.Connection, monkeypatch: pytest.MonkeyPatch, block: int, seed: int
) -> None:
    monkeypatch.setattr(doclists, "_BLOCK", block)
    monkeypatch.setattr(doclists, "_BYTES_AT_A_TIME", 700 * (seed + 1))
    chance = random.Random(seed)
    connection.execute("INSERT INTO chunks_fts(chunks_fts, rank) VALUES('pgsz', 400)")
    row = 0
    with connection:
        for _ in range(900):
            row += chance.choice([1, 2, 130, 20_000])
            words = chance.choices(["often", "rare"], [9, 1], k=chance.choice([1, 2, 5, 90]))
            text = " ".join(word + " x" * chance.choice([0, 1, 150]) for word in words)
            connection.execute("INSERT INTO chunks_fts(rowid, text) VALUES(?, ?)", (row, text))
    connection.execute(INSTANCES)
    for token in ("often", "rare", "x"):
        sql = "SELECT doc FROM temp.memtui_instances WHERE term = ?"
        expected = Counter(int(str(row)) for (row,) in connection.execute(sql, (token,)))
        found = stored_list(connection, token)
        assert found is not None
        assert dict(zip(found[0].tolist(), found[1].tolist(), strict=True)) == expected
        assert found[0].tolist() == sorted(expected)


def test_a_term_is_found_among_all_of_its_page(connection: apsw.Connection) -> None:
    tokens = sorted({f"{letter}{number}" for letter in "abc" for number in range(150)} | {"a", "b"})
    with connection:
        add(connection, 1, [[token] for token in tokens])
    for number, token in enumerate(tokens, 1):
        found = stored_list(connection, token)
        assert found is not None
        assert [part.tolist() for part in found] == [[number], [1]]
    for token in ("0", "a1000", "a15x", "b0x", "c", "c1499", "d"):
        found = stored_list(connection, token)
        assert found is not None
        assert [part.tolist() for part in found] == [[], []]


def test_long_lists_are_found_by_their_pages(
    connection: apsw.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection.execute("INSERT INTO chunks_fts(chunks_fts, rank) VALUES('pgsz', 64)")
    texts = [f"often {'half' * (row % 2)} rare{row}" for row in range(400)]
    add(connection, 1, [[text] for text in texts[:200]])
    with connection:
        add(connection, 201, [[text] for text in texts[200:]])
    assert long_lists(connection, 3) == ["often", "half"]
    assert long_lists(connection, 3, 1) == ["often"]
    pages = ListPages(connection)
    tokens = ("often", "half", "a", "rare7", "z")
    told = [pages.of(token) for token in tokens]
    assert (told[0] or 0) > (told[1] or 0) > 3
    learnt = ListPages(connection)
    learnt.learn()
    monkeypatch.setattr(doclists, "_MOST_KNOWN_PAGES", 1)
    too_many = ListPages(connection)
    too_many.learn()
    assert [too_many.of(token) for token in tokens] == told
    # Nothing is to be asked for any more.
    connection.execute("DELETE FROM chunks_fts_idx")
    assert [learnt.of(token) for token in tokens] == told


@pytest.mark.parametrize("harm", [b"", b"\x00" * 8, b"\xff" * 4000])
def test_pages_of_another_format_are_not_guessed(connection: apsw.Connection, harm: bytes) -> None:
    add(connection, 1, [["router"]] * 5)
    for condition in ("id > 100", "id = 10"):
        connection.execute(f"UPDATE chunks_fts_data SET block = ? WHERE {condition}", (harm,))
        found = stored_list(connection, "router")
        assert found is None or [part.tolist() for part in found] == [[], []]


def test_lists_that_are_not_as_stored_are_asked_for(
    connection: apsw.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(connection, 1, [["router"]] * 5)
    wrong = np.array([1, 2]), np.array([1, 1])
    for answer in (wrong, None):
        monkeypatch.setattr(postings, "stored_list", lambda *_, a=answer: a)
        reader = PostingsReader(connection)
        reader.refresh()
        assert reader.get(Words(("router",), '"router"')).rows.tolist() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("seed", range(3))
def test_the_best_of_many_rows_that_differ_by_little(
    connection: apsw.Connection, seed: int
) -> None:
    chance = random.Random(seed)
    words = ["router", "cache", "train", "garden", "kitchen"]
    with connection:
        for row in range(1, 3000):
            text = " ".join(chance.choices(words, [1, 2, 5, 20, 40], k=chance.randint(2, 5)))
            padding = " x" * chance.randint(90, 96) + " garden" * 300 * (row % 500 == 7)
            sql = "INSERT INTO chunks_fts(rowid, text) VALUES(?, ?)"
            connection.execute(sql, (row, text + padding))
    leg = KeywordLeg(connection, budget=UNBOUNDED)
    for text in ("router train garden", "kitchen garden train cache router", "x garden"):
        for limit in (1, 7, 100):
            check(connection, leg, text, limit, None)


def leg_of(connection: apsw.Connection, rows: Sequence[str]) -> KeywordLeg:
    add(connection, 1, [[row] for row in rows])
    return KeywordLeg(connection, budget=1)


def test_words_are_named_as_left_out_until_they_take_part(connection: apsw.Connection) -> None:
    leg = leg_of(connection, ["common often rare", "common often", "common often half", "half"])
    query = parse_query("common rare often half")
    before = leg.search(query, 10, None)
    assert before.state.facts["pruned"] == "common often"
    assert leg.can_prepare
    leg.prepare(never)
    assert not leg.can_prepare
    after = leg.search(query, 10, None)
    assert after.state.facts["pruned"] == ""
    assert after.state.facts["match"] == '"common" OR "rare" OR "often" OR "half"'
    assert {hit.rowid: hit.terms for hit in before.hits} == {
        hit.rowid: hit.terms for hit in after.hits if hit.rowid != 2
    }


def test_preparing_gives_way_and_goes_on(connection: apsw.Connection) -> None:
    leg = leg_of(connection, ["common often rare", "common often", "half"])
    leg.search(parse_query("common rare often half"), 10, None)
    with pytest.raises(Cancelled):
        leg.prepare(lambda: True)
    assert leg.can_prepare
    leg.prepare(never)
    assert not leg.can_prepare


def test_lists_follow_the_index_without_being_read_again(
    connection: apsw.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(connection, 1, [["router", "router"], ["router"], ["cache"]])
    reader = PostingsReader(connection)
    router = Words(("router",), '"router"')
    reader.refresh()
    assert reader.get(router).rows.tolist() == [1, 2]
    # Nothing is to read a list from its beginning.
    monkeypatch.delattr(PostingsReader, "_read")
    connection.execute("DELETE FROM chunks_fts WHERE rowid = 2")
    add(connection, 7, [[index_text("router routers")]])
    reader.refresh()
    found = reader.get(router)
    assert (found.rows.tolist(), found.counts.tolist()) == ([1, 7], [2, 2])

"""The candidate pool of both legs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

from memtui.model import Leg, LegState, LegStatus, Reason
from memtui.retrieval.keyword import KeywordLeg
from memtui.retrieval.legs import LegAnswer, RowHit
from memtui.retrieval.pool import build_pool, fetch_chunks
from memtui.retrieval.query import parse_query
from tests.support.rows import IndexFile

OK = LegState(LegStatus.OK)


@pytest.fixture
def index(tmp_path: Path) -> Iterator[IndexFile]:
    made = IndexFile(tmp_path)
    yield made
    made.connection.close()


def test_a_chunk_carries_what_its_file_knows(index: IndexFile) -> None:
    index.add_file(
        "memory/2026-02-10.md",
        day=date(2026, 2, 10),
        day_from="file_name",
        mtime_ns=5,
        importance=0.5,
    )
    rowid = index.add("one\ntwo", "memory/2026-02-10.md", line=4)
    chunk = fetch_chunks(index.connection, [rowid])[rowid]
    assert chunk.id == index.chunk_ids([rowid])[0]
    assert (chunk.path, chunk.source, chunk.model) == (
        "memory/2026-02-10.md",
        "memory",
        "test-model",
    )
    assert (chunk.start_line, chunk.end_line, chunk.text) == (4, 5, "one\ntwo")
    assert (chunk.day, chunk.day_from, chunk.mtime_ns) == (date(2026, 2, 10), Reason.FILE_NAME, 5)
    assert chunk.importance == 0.5


def test_a_chunk_of_a_file_without_a_day(index: IndexFile) -> None:
    rowid = index.add("text")
    chunk = fetch_chunks(index.connection, [rowid])[rowid]
    assert (chunk.day, chunk.day_from, chunk.importance) == (None, None, None)


def test_any_number_of_rows_is_fetched_and_missing_ones_are_missing(index: IndexFile) -> None:
    rows = index.add_all(f"chunk {number}" for number in range(3000))
    fetched = fetch_chunks(index.connection, [*rows, *rows, 99_999])
    assert fetched.keys() == set(rows)


def test_both_legs_share_one_set_of_chunks(index: IndexFile) -> None:
    rows = index.add_all(["router", "fence", "router fence"])
    ids = index.chunk_ids(rows)
    keyword = KeywordLeg(index.connection).search(parse_query("router"), 10, None)
    vector = LegAnswer((RowHit(rows[1], 0.9), RowHit(rows[2], 0.4)), OK)
    pool = build_pool(
        index.connection,
        "router",
        {Leg.KEYWORD: keyword, Leg.VECTOR: vector},
        limit=10,
        generation=3,
        elapsed_ms=1.5,
    )
    assert pool.chunks.keys() == set(ids)
    assert [hit.chunk_id for hit in pool.hits[Leg.VECTOR]] == [ids[1], ids[2]]
    assert [hit.position for hit in pool.hits[Leg.VECTOR]] == [0, 1]
    assert [hit.raw for hit in pool.hits[Leg.VECTOR]] == [0.9, 0.4]
    assert [hit.terms for hit in pool.hits[Leg.KEYWORD]] == [("router",), ("router",)]
    assert pool.states[Leg.KEYWORD] is keyword.state
    assert (pool.query, pool.limit, pool.generation, pool.elapsed_ms) == ("router", 10, 3, 1.5)


def test_chunks_that_vanished_leave_no_gap(index: IndexFile) -> None:
    rows = index.add_all(["a", "b", "c"])
    ids = index.chunk_ids(rows)
    found = tuple(RowHit(row, 1.0 - row / 10) for row in rows)
    index.remove(rows[1])
    answers = {Leg.VECTOR: LegAnswer(found, OK), Leg.KEYWORD: LegAnswer((), OK)}
    pool = build_pool(index.connection, "a", answers, limit=3)
    hits = pool.hits[Leg.VECTOR]
    assert [(hit.chunk_id, hit.position) for hit in hits] == [(ids[0], 0), (ids[2], 1)]
    assert pool.hits[Leg.KEYWORD] == ()
    assert pool.chunks.keys() == {ids[0], ids[2]}

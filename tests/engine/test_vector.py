"""The vector leg: what it finds, what it loads from, why it does not answer; and the pool."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import date
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from memtui.errors import Cancelled
from memtui.index.database import number, open_database
from memtui.model import Chunk, Evidence, Leg, LegState, LegStatus, ProviderState, Reason
from memtui.retrieval.keyword import KeywordLeg
from memtui.retrieval.pool import (
    CODED_BACKEND,
    EXACT_BACKEND,
    LegAnswer,
    Measured,
    RowHit,
    build_pool,
    fetch_chunks,
)
from memtui.retrieval.query import parse_query
from memtui.retrieval.vector import VectorLeg
from memtui.retrieval.vector_view import VectorView, nearest
from tests.support.embedding import HashedProvider
from tests.support.interrupted import run_python
from tests.support.known import cases, load
from tests.support.rows import DIMS, IndexFile, numbers, unit_vectors, view_of

Floats = NDArray[np.float32]


def test_products_run_on_one_thread() -> None:
    code = (
        "from memtui.retrieval.pool import import_numpy; import_numpy(); import os, threadpoolctl;"
        "print({pool['num_threads'] for pool in threadpoolctl.threadpool_info()} - {1},"
        "'OPENBLAS_NUM_THREADS' in os.environ)"
    )
    others = {name: value for name, value in os.environ.items() if "_NUM_THREADS" not in name}
    run = run_python("-c", code, check=True, env=others)
    assert run.stdout.split() == ["set()", "False"]


POOL_DIMS = 12
POOL = unit_vectors(60, POOL_DIMS, seed=1)
POOL[7] = POOL[8] = POOL[9]
POOL[10] = 0.0
POOL[11, 3], POOL[12, 0] = np.nan, np.inf
USABLE = {*range(60)} - {10, 11, 12}


ROWS = st.sets(st.integers(0, 59), max_size=60)


def pool_brute_force(rows: set[int], query: Floats, limit: int) -> list[tuple[int, float]]:
    found = []
    for row in rows & USABLE:
        products = POOL[row].astype(np.float64) * query.astype(np.float64)
        found.append((row, float(np.float32(products.sum()))))
    return sorted(found, key=lambda hit: (-round(hit[1], 6), hit[0]))[:limit]


def check(found: list[tuple[int, float]], expected: list[tuple[int, float]]) -> None:
    assert [row for row, _ in found] == [row for row, _ in expected]
    assert [cosine for _, cosine in found] == pytest.approx([c for _, c in expected], abs=1e-6)


@given(
    rows=ROWS,
    allowed=st.none() | ROWS,
    query=st.sampled_from(sorted(USABLE)),
    limit=st.integers(0, 70),
    coded=st.booleans(),
)
@example(rows=set(range(60)), allowed=None, query=7, limit=5, coded=False)
@settings(deadline=None)
def test_the_nearest_allowed_rows_are_found(
    rows: set[int], allowed: set[int] | None, query: int, limit: int, coded: bool
) -> None:
    order = sorted(rows, key=lambda row: row * 37 % 61)
    view = view_of(order, POOL[order], exact_limit=-1 if coded else 10**6)
    assert (view.codes is not None, view.size) == (coded, len(rows & USABLE))
    mask = None if allowed is None else np.array(sorted(allowed), dtype=np.int64)
    expected = pool_brute_force(rows if allowed is None else rows & allowed, POOL[query], limit)
    check(nearest(view, POOL[query], limit, view.live_among(mask)), expected)


def test_codes_find_99_of_100_nearest_rows() -> None:
    # Tight clusters with nothing in common are the hard case.
    count, dims = 60_000, 256
    vectors = unit_vectors(count, dims, seed=12, clusters=600)
    view = view_of(range(count), vectors, exact_limit=1)
    queries = vectors[:: count // 20] + 0.5 * unit_vectors(20, dims, seed=13)
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    queries = queries.astype(np.float32)
    for step in (1, 2):
        allowed, cosines = np.arange(0, count, step), queries @ vectors[::step].T
        orders = allowed[np.argsort(-cosines, axis=1, kind="stable")]
        eligible = view.live_among(allowed)
        for limit, rescored in ((24, 4096), (200, None)):
            shared = 0
            for query, order in zip(queries, orders, strict=True):
                found = [row for row, _ in nearest(view, query, limit, eligible, rescored=rescored)]
                assert all(row in range(0, count, step) for row in found)
                shared += len({*found} & {*order[:limit].tolist()})
            assert shared / (len(queries) * limit) >= 0.99, (step, limit)


def add(index: IndexFile, dice: random.Random) -> None:
    index.add_all(f"note {dice.random()}" for _ in range(dice.randint(1, 3)))


def embed(index: IndexFile, dice: random.Random) -> None:
    rows = numbers(index.connection, "SELECT id FROM chunks WHERE embedded = 0")
    vectors = {row: unit_vectors(1, DIMS, seed=dice.randrange(2**32))[0] for row in rows}
    if rows and dice.random() < 0.2:
        vectors[rows[0]][:] = 0
    index.add_vectors(vectors)


def remove(index: IndexFile, dice: random.Random) -> None:
    for row in dice.sample(numbers(index.connection, "SELECT id FROM chunks ORDER BY id"), 2):
        index.remove(row)


def forget(index: IndexFile, dice: random.Random) -> None:
    """Let a chunk wait for another vector."""
    index.connection.execute(
        "UPDATE chunks SET embedded = 0 WHERE id = (SELECT max(id) FROM chunks)"
    )


def check_follows(view: VectorView, index: IndexFile) -> None:
    rows = index.connection.execute(
        "SELECT id, vector FROM chunks JOIN vectors USING(id) WHERE embedded = 1"
    ).fetchall()
    stored = {row: vector for row, vector in rows if any(bytes(cast("bytes", vector)))}
    live = zip(view.rowids[view.live].tolist(), view.matrix[view.live], strict=True)
    assert {row: vector.tobytes() for row, vector in live} == stored
    assert view.size == len(stored)
    assert view.pending == number(
        index.connection, "SELECT count(*) FROM chunks WHERE embedded = 0"
    )


@pytest.mark.parametrize("exact_limit", [10**6, 1100 * DIMS, 0])
@pytest.mark.parametrize("seed", range(3))
def test_a_view_is_what_the_index_holds(index: IndexFile, seed: int, exact_limit: int) -> None:
    dice = random.Random(seed)
    reader = open_database(index.path, readonly=True)
    view = VectorView(DIMS, exact_limit=exact_limit)
    index.add_vectors(
        dict(
            zip(index.add_all(map(str, range(1100))), unit_vectors(1100, DIMS, seed=1), strict=True)
        )
    )
    for step in range(80):
        dice.choice([add, add, embed, remove, forget])(index, dice)
        if step == 40:
            view.reserve(0)
        view.follow(reader)
        check_follows(view, index)
        assert (view.codes is None) == (view.size * DIMS <= exact_limit)
    fresh = VectorView(DIMS, exact_limit=exact_limit)
    fresh.follow(reader)
    check_follows(fresh, index)
    for query in unit_vectors(50, DIMS, seed=5):
        # The same rows and numbers, however the view came about.
        assert nearest(view, query, 5, rescored=20) == nearest(fresh, query, 5, rescored=20)
    reader.close()


def test_only_new_vectors_are_read(index: IndexFile) -> None:
    view, statements = VectorView(DIMS), list[tuple[str, Any]]()
    rows = index.add_all(map(str, range(50)))
    index.add_vectors(dict.fromkeys(rows, unit_vectors(1, DIMS, seed=2)[0]))
    view.follow(index.connection)
    index.add_vectors(dict.fromkeys(index.add_all(["new"]), unit_vectors(1, DIMS, seed=3)[0]))

    def note(cursor: object, sql: str, bindings: Any) -> bool:
        statements.append((sql, bindings))
        return True

    index.connection.exec_trace = note
    view.follow(index.connection)
    (bindings,) = [values for sql, values in statements if "FROM vectors" in sql]
    assert list(bindings) == ["[51]"]
    check_follows(view, index)


def test_a_long_load_gives_way_and_goes_on_where_it_was(index: IndexFile) -> None:
    rows = index.add_all(map(str, range(5000)))
    index.add_vectors(dict(zip(rows, unit_vectors(5000, DIMS, seed=4), strict=True)))
    view = VectorView(DIMS, exact_limit=0)
    sizes = []
    for _ in range(2):
        with pytest.raises(Cancelled):
            view.follow(index.connection, lambda: True)
        assert not index.connection.in_transaction
        sizes.append(view.size)
    assert 0 < sizes[0] < sizes[1] < 5000
    # What is read in a moment is not begun again and again.
    view.follow(index.connection)
    check_follows(view, index)
    short = VectorView(DIMS)
    short.follow(index.connection, lambda: True)
    check_follows(short, index)


def test_a_load_that_gave_way_keeps_no_moment(index: IndexFile) -> None:
    """Though its exception is kept, as one of a task that was given up is."""
    rows = index.add_all(map(str, range(5000)))
    index.add_vectors(dict(zip(rows, unit_vectors(5000, DIMS, seed=4), strict=True)))
    reader = open_database(index.path, readonly=True)
    with pytest.raises(Cancelled) as kept:
        VectorView(DIMS, exact_limit=0).follow(reader, lambda: True)
    index.add("one more")
    assert number(reader, "SELECT count(*) FROM chunks") == 5001
    assert kept.value.__traceback__ is not None
    reader.close()


def leg_of(texts: Sequence[str], provider: HashedProvider, **options: int) -> VectorLeg:
    view = view_of(range(1, len(texts) + 1), provider.embed_documents(texts), **options)
    return VectorLeg(view, provider)


@pytest.mark.parametrize(("limit", "backend"), [(10**6, EXACT_BACKEND), (1, CODED_BACKEND)])
def test_the_nearest_allowed_chunks_come_first_with_their_cosine(limit: int, backend: str) -> None:
    texts = ["the router config", "garden fence", "router", "router config"]
    provider = HashedProvider()
    leg = leg_of(texts, provider, pending=4, exact_limit=limit)
    hits, state = leg.search(parse_query("router config"), 2, np.array([1, 2, 3]))
    assert [hit.rowid for hit in hits] == [1, 3]
    assert 1.0 > hits[0].raw > hits[1].raw > 0
    assert state.status is LegStatus.OK
    assert state.facts == {
        "backend": backend,
        "provider": "hashed",
        "model": "hashed-trigrams",
        "searched": 3,
        "pending": 4,
    }
    calls = provider.calls
    for text in ("fence", "router config path:x", '"router config"', "fence"):
        leg.search(parse_query(text), 5, None)
    assert provider.calls == calls + 1, "a query is embedded once"


@pytest.mark.parametrize(("text", "reason"), load("reading")["queries that are not asked"])
def test_some_queries_are_not_asked(text: str, reason: str) -> None:
    provider = HashedProvider(readable=str.isascii)
    leg = leg_of(["router"], provider)
    calls = provider.calls
    hits, state = leg.search(parse_query(text), 5, None)
    assert (hits, state.status, state.reason) == ((), LegStatus.SKIPPED, reason)
    assert state.detail
    assert provider.calls == calls
    # One character is a word in a script without spaces.
    assert leg_of(["税"], HashedProvider()).search(parse_query("税"), 5, None).hits


@pytest.mark.parametrize(
    ("fault", "status", "reason", "detail"), cases("reading", "faults of the meaning match")
)
def test_a_leg_that_cannot_answer_says_why(
    fault: str, status: str, reason: str, detail: str
) -> None:
    provider = HashedProvider()
    leg = leg_of(["router"], provider)
    provider.answer = "zero" if fault == "zero" else provider.answer
    provider.fail_next = 1 if fault == "fails" else 0
    if fault == "dims":
        leg = VectorLeg(leg.view, HashedProvider(dimensions=32))
    elif fault in ("empty", "no view"):
        empty = VectorView(64)
        empty.pending = 12
        leg = VectorLeg(empty if fault == "empty" else None, provider)
    elif fault in ("no provider", "disabled", "provider failed"):
        state = ProviderState("minilm", None, None, None, Reason(reason), "why")
        leg = VectorLeg(None, None, None if fault == "no provider" else state)
    hits, answered = leg.search(parse_query("router"), 5, None)
    assert (hits, answered.status, answered.reason) == ((), status, reason)
    assert detail in answered.detail
    if fault == "fails":
        assert leg.search(parse_query("router"), 5, None).hits, "and not for ever"


def test_a_superseded_search_stops_after_the_embedding() -> None:
    leg = leg_of(["router"], HashedProvider())
    with pytest.raises(Cancelled):
        leg.search(parse_query("router"), 5, None, cancelled=lambda: True)


def test_both_legs_share_one_set_of_chunks_with_what_their_files_know(index: IndexFile) -> None:
    day = date(2026, 2, 10)
    index.add_file("memory/a.md", day=day, day_from="file_name", mtime_ns=5, importance=0.5)
    rows = [index.add("router\nline two", "memory/a.md", line=4), *index.add_all(["fence", "gone"])]
    ids = index.chunk_ids(rows)
    vector = tuple(RowHit(row, 1.0 - row / 10) for row in (rows[0], rows[2], rows[1]))
    keyword = KeywordLeg(index.connection).search(parse_query("router"), 10, None)
    index.remove(rows[2])
    answers = {Leg.KEYWORD: keyword, Leg.VECTOR: LegAnswer(vector, LegState(LegStatus.OK))}
    pool = build_pool(index.connection, "router", answers, limit=10, generation=3, elapsed_ms=1.5)
    assert pool.chunks.keys() == set(ids[:2])
    # One that vanished since leaves no gap.
    hits = pool.hits[Leg.VECTOR]
    assert [(hit.chunk_id, hit.position) for hit in hits] == [(ids[0], 0), (ids[1], 1)]
    assert [hit.raw for hit in hits] == [0.9, 0.8]
    assert [hit.terms for hit in pool.hits[Leg.KEYWORD]] == [("router",)]
    assert pool.states[Leg.KEYWORD] is keyword.state
    assert (pool.query, pool.limit, pool.generation, pool.elapsed_ms) == ("router", 10, 3, 1.5)
    chunk, other = pool.chunks[ids[0]], pool.chunks[ids[1]]
    assert (chunk.path, chunk.source, chunk.model) == ("memory/a.md", "memory", "test-model")
    assert (chunk.start_line, chunk.end_line, chunk.text) == (4, 5, "router\nline two")
    assert (chunk.day, chunk.day_from, chunk.mtime_ns) == (day, Reason.FILE_NAME, 5)
    assert chunk.importance == 0.5
    assert (other.day, other.day_from, other.importance) == (None, None, None)
    many = index.add_all(f"chunk {number}" for number in range(3000))
    assert fetch_chunks(index.connection, [*many, *many, 99_999]).keys() == set(many)
    measured: list[int] = []

    def measure(chunks: Mapping[int, Chunk]) -> Measured:
        index.remove(rows[0])
        measured.extend(fetch_chunks(reader, chunks))
        return {}, Evidence.WORDS

    with closing(open_database(index.path, readonly=True)) as reader:
        build_pool(reader, "router", answers, limit=10, measure=measure)
    assert measured == rows[:2], "of one moment, whatever another program does meanwhile"

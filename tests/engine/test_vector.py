"""The vector leg: what it finds, what it loads from, why it does not answer; and the pool."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from pathlib import Path

import apsw
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from memtui.embedding.cache import EmbeddingCache
from memtui.embedding.provider import ProviderIdentity
from memtui.errors import Cancelled
from memtui.index.database import open_database
from memtui.model import Leg, LegState, LegStatus, ProviderState, Reason
from memtui.retrieval.filters import AllowedRows
from memtui.retrieval.keyword import KeywordLeg
from memtui.retrieval.legs import LegAnswer, RowHit
from memtui.retrieval.pool import build_pool, fetch_chunks
from memtui.retrieval.query import parse_query
from memtui.retrieval.vector import CODED_BACKEND, EXACT_BACKEND, VectorLeg
from memtui.retrieval.vector_view import (
    VectorView,
    ViewBuilder,
    load_view,
    nearest,
)
from tests.support.embedding import HashedProvider
from tests.support.rows import DIMS, IndexFile, unit_vectors, view_of

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]


@pytest.fixture
def index(tmp_path: Path) -> Iterator[IndexFile]:
    made = IndexFile(tmp_path)
    yield made
    made.connection.close()


def test_products_run_on_one_thread() -> None:
    code = (
        "from memtui.retrieval.legs import import_numpy; import_numpy(); import os, threadpoolctl;"
        "print({pool['num_threads'] for pool in threadpoolctl.threadpool_info()} - {1},"
        "'OPENBLAS_NUM_THREADS' in os.environ)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["set()", "False"]


POOL_DIMS = 12
POOL = unit_vectors(60, POOL_DIMS, seed=1)
POOL[7] = POOL[8] = POOL[9]
POOL[10] = 0.0


ROWS = st.sets(st.integers(0, 59), max_size=60)


def pool_brute_force(rows: set[int], query: Floats, limit: int) -> list[tuple[int, float]]:
    found = []
    for row in rows:
        if POOL[row].any():
            products = POOL[row].astype(np.float64) * query.astype(np.float64)
            found.append((row, float(np.float32(products.sum()))))
    return sorted(found, key=lambda hit: (-round(hit[1], 6), hit[0]))[:limit]


def check(found: list[tuple[int, float]], expected: list[tuple[int, float]]) -> None:
    assert [row for row, _ in found] == [row for row, _ in expected]
    assert [cosine for _, cosine in found] == pytest.approx([c for _, c in expected], abs=1e-6)


@given(
    rows=ROWS,
    allowed=st.none() | ROWS,
    query=st.integers(0, 59).filter(lambda row: row != 10),
    limit=st.integers(0, 70),
    coded=st.booleans(),
)
@settings(deadline=None)
def test_the_nearest_allowed_rows_are_found(
    rows: set[int], allowed: set[int] | None, query: int, limit: int, coded: bool
) -> None:
    order = sorted(rows, key=lambda row: row * 37 % 61)
    view = view_of(order, POOL[order], exact_limit=-1 if coded else 10**6)
    assert (view.codes is not None) == coded
    mask = None if allowed is None else np.array(sorted(allowed), dtype=np.int64)
    expected = pool_brute_force(rows if allowed is None else rows & allowed, POOL[query], limit)
    check(nearest(view, POOL[query], limit, mask), expected)


@given(
    start=ROWS,
    steps=st.lists(st.tuples(ROWS, ROWS), max_size=6),
    limit=st.sampled_from([-1, 200, 10**6]),
)
@settings(deadline=None)
def test_any_changes_end_where_a_fresh_view_begins(
    start: set[int], steps: list[tuple[set[int], set[int]]], limit: int
) -> None:
    first = sorted(start)
    view = view_of(first, POOL[first], exact_limit=limit)
    held = set(start)
    for added, removed in steps:
        before, held_before = view, held
        new = sorted(added)
        view = view.with_changes(new, POOL[new], sorted(removed))
        held = (held - removed) | added
        check(nearest(before, POOL[0], 60), pool_brute_force(held_before, POOL[0], 60))
    check(nearest(view, POOL[3], 60), pool_brute_force(held, POOL[3], 60))
    assert view.size == sum(bool(POOL[row].any()) for row in held)


def test_two_views_may_follow_the_same_one() -> None:
    base = view_of(range(10), POOL[:10])
    one, other = base.with_changes([20], POOL[20:21], []), base.with_changes([21], POOL[21:22], [])
    assert {row for row, _ in nearest(one, POOL[0], 20)} == {*range(10), 20}
    assert {row for row, _ in nearest(other, POOL[0], 20)} == {*range(10), 21}
    with pytest.raises(ValueError, match="for 1 rows of 12"):
        base.with_changes([2], unit_vectors(1, 4, seed=6), [])


def test_rows_without_direction_never_appear() -> None:
    vectors = unit_vectors(6, 8, seed=9)
    vectors[1], vectors[2, 3], vectors[3, 0] = 0, np.nan, np.inf
    view = view_of(range(6), vectors)
    assert view.size == 3
    assert {row for row, _ in nearest(view, vectors[0], 10)} == {0, 4, 5}


def test_codes_find_99_of_100_nearest_rows() -> None:
    # Tight clusters with nothing in common are the hard case.
    count, dims = 60_000, 256
    vectors = unit_vectors(count, dims, seed=12, clusters=600)
    view = view_of(range(count), vectors, exact_limit=1)
    queries = vectors[:: count // 20] + 0.5 * unit_vectors(20, dims, seed=13)
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    for limit, rescored in ((24, 4096), (200, None)):
        shared = 0
        for query in queries.astype(np.float32):
            best = np.argsort(-(vectors @ query), kind="stable")[:limit]
            shared += len(
                {row for row, _ in nearest(view, query, limit, rescored=rescored)} & {*best}
            )
        assert shared / (len(queries) * limit) >= 0.99, limit


# --- loading ------------------------------------------------------------------------------------


GONE = {1, 2, 1024, 1025, 2400}


@pytest.fixture
def filled(index: IndexFile) -> tuple[IndexFile, dict[int, Floats]]:
    """An index of 2500 chunks, of which some are gone and the last hundred have no vector."""
    vectors = unit_vectors(2500, DIMS, seed=1)
    rows = index.add_all(f"chunk {number}" for number in range(2500))
    index.add_vectors(dict(zip(rows[:2400], vectors, strict=False)))
    for rowid in GONE:
        index.remove(rowid)
    return index, {row: vectors[row - 1] for row in range(1, 2401) if row not in GONE}


def loaded(view: VectorView) -> dict[int, bytes]:
    return {row: vector.tobytes() for row, vector in zip(view.rowids, view.matrix, strict=True)}


def stored(vectors: Mapping[int, Floats]) -> dict[int, bytes]:
    return {row: vector.tobytes() for row, vector in vectors.items()}


@pytest.mark.parametrize("blocks", ["read", "contradict", "cannot be read"])
def test_the_vector_table_is_read_by_its_blocks_or_row_by_row(
    filled: tuple[IndexFile, dict[int, Floats]], monkeypatch: pytest.MonkeyPatch, blocks: str
) -> None:
    index, vectors = filled
    other = {"contradict": "SELECT NULL, NULL, NULL WHERE 0", "cannot be read": "SELECT * FROM no"}
    if blocks in other:
        monkeypatch.setattr("memtui.retrieval.vector_view._BLOCKS", other[blocks])
    open_to_interrupts, statements = True, []

    @contextmanager
    def undisturbed() -> Iterator[None]:
        nonlocal open_to_interrupts
        before, open_to_interrupts = open_to_interrupts, False
        yield
        open_to_interrupts = before

    def note(cursor: object, sql: str, bindings: object) -> bool:
        statements.append((sql, open_to_interrupts))
        return True

    index.connection.exec_trace = note
    view = load_view(index.connection, None, None, DIMS, exact_limit=0, undisturbed=undisturbed)
    index.connection.exec_trace = None
    assert loaded(view) == stored(vectors)
    assert view.pending == 100
    assert not index.connection.in_transaction
    # sqlite-vec ends the process when a statement of its own is interrupted.
    virtual = [one for one in statements if "chunks_vec" in one[0].replace("chunks_vec_", "")]
    assert virtual
    assert not any(could_be for _, could_be in virtual)
    by_rows = any(sql.startswith("SELECT rowid, embedding") for sql, _ in statements)
    assert by_rows == (blocks != "read")


def test_a_damaged_vector_table_is_an_error(filled: tuple[IndexFile, dict[int, Floats]]) -> None:
    index, _ = filled
    index.connection.execute(
        "UPDATE chunks_vec_vector_chunks00 SET vectors = zeroblob(10) WHERE rowid = 3"
    )
    with pytest.raises(Exception, match=r"blob|vector|chunks"):
        load_view(index.connection, None, None, DIMS)


@pytest.mark.parametrize("missing", ["table", "mark", "everything"])
def test_without_a_vector_table_the_cache_serves(
    filled: tuple[IndexFile, dict[int, Floats]], missing: str, tmp_path: Path
) -> None:
    index, vectors = filled
    if missing == "mark":
        index.connection.execute("INSERT INTO meta VALUES('vectors', 'cache')")
    else:
        index.connection.execute("DROP TABLE chunks_vec")
    if missing == "everything":
        assert load_view(index.connection, None, None, DIMS).size == 0
        return
    del vectors[100]
    identity = ProviderIdentity("made", "up", DIMS, "")
    cache = EmbeddingCache(tmp_path / "cache.db", open_database)
    cache.put_many(
        identity,
        {
            hashlib.sha256(f"chunk {row - 1}".encode()).hexdigest(): vector
            for row, vector in vectors.items()
        },
    )
    assert loaded(load_view(index.connection, cache, identity, DIMS)) == stored(vectors)
    cache.close()


def test_a_long_load_gives_way_and_lets_go_of_its_snapshot(
    filled: tuple[IndexFile, dict[int, Floats]], monkeypatch: pytest.MonkeyPatch
) -> None:
    index, vectors = filled
    with pytest.raises(Cancelled):
        load_view(index.connection, None, None, DIMS, exact_limit=0, gives_way=lambda: True)
    assert not index.connection.in_transaction
    # What is read in a moment is not begun again and again.
    short = load_view(index.connection, None, None, DIMS, gives_way=lambda: True)
    assert short.size == len(vectors)
    # An interruption is not taken for blocks that cannot be read.
    index.connection.set_progress_handler(lambda: True, 1)
    with pytest.raises(apsw.InterruptError):
        load_view(index.connection, None, None, DIMS)
    index.connection.set_progress_handler(None)


# --- the leg ------------------------------------------------------------------------------------


def leg_of(texts: Sequence[str], provider: HashedProvider, **options: int) -> VectorLeg:
    view = view_of(range(1, len(texts) + 1), provider.embed_documents(texts), **options)
    return VectorLeg(view, provider)


@pytest.mark.parametrize(("limit", "backend"), [(10**6, EXACT_BACKEND), (1, CODED_BACKEND)])
def test_the_nearest_allowed_chunks_come_first_with_their_cosine(limit: int, backend: str) -> None:
    texts = ["the router config", "garden fence", "router", "router config"]
    provider = HashedProvider()
    leg = leg_of(texts, provider, pending=4, exact_limit=limit)
    hits, state = leg.search(parse_query("router config"), 2, AllowedRows(np.array([1, 2, 3])))
    assert [hit.rowid for hit in hits] == [1, 3]
    assert 1.0 > hits[0].raw > hits[1].raw > 0
    assert state.status is LegStatus.OK
    assert state.facts == {
        "backend": backend,
        "provider": "hashed",
        "model": "hashed-trigrams",
        "searched": 4,
        "pending": 4,
    }
    calls = provider.calls
    for text in ("fence", "router config path:x", '"router config"', "fence"):
        leg.search(parse_query(text), 5, None)
    assert provider.calls == calls + 1, "a query is embedded once"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", Reason.EMPTY_QUERY),
        ("path:x", Reason.EMPTY_QUERY),
        ("x", Reason.QUERY_TOO_SHORT),
        ("東京", Reason.SCRIPT_NOT_SUPPORTED),
    ],
)
def test_some_queries_are_not_asked(text: str, reason: Reason) -> None:
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
    ("fault", "status", "reason", "detail"),
    [
        ("zero", LegStatus.SKIPPED, Reason.ZERO_QUERY_VECTOR, "the model sees nothing"),
        ("fails", LegStatus.FAILED, Reason.PROVIDER_FAILED, "was told to fail"),
        (
            "dims",
            LegStatus.FAILED,
            Reason.DIMENSIONS_DIFFER,
            "vectors of 64 numbers, the model gives 32",
        ),
        ("empty", LegStatus.SKIPPED, Reason.NO_VECTORS, "12 chunks wait for their vectors"),
        ("no view", LegStatus.SKIPPED, Reason.NO_VECTORS, "no vectors yet"),
        ("no provider", LegStatus.SKIPPED, Reason.DISABLED, "no embedding provider"),
        ("disabled", LegStatus.SKIPPED, Reason.DISABLED, "why"),
        ("provider failed", LegStatus.FAILED, Reason.PROVIDER_FAILED, "why"),
    ],
)
def test_a_leg_that_cannot_answer_says_why(
    fault: str, status: LegStatus, reason: Reason, detail: str
) -> None:
    provider = HashedProvider()
    leg = leg_of(["router"], provider)
    provider.answer = "zero" if fault == "zero" else provider.answer
    provider.fail_next = 1 if fault == "fails" else 0
    if fault == "dims":
        leg = VectorLeg(leg.view, HashedProvider(dimensions=32))
    elif fault in ("empty", "no view"):
        view = ViewBuilder(0, 64).finish(pending=12) if fault == "empty" else None
        leg = VectorLeg(view, provider)
    elif fault in ("no provider", "disabled", "provider failed"):
        state = ProviderState("minilm", None, None, None, reason, "why")
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


# --- the pool of both legs ----------------------------------------------------------------------


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

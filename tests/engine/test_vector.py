"""The vector leg: what it finds, what it loads from, and why it does not answer."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

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
from memtui.model import LegStatus, ProviderState, Reason
from memtui.retrieval.filters import AllowedRows
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


def brute_force(
    rowids: Sequence[int], vectors: Floats | Doubles, query: Floats, limit: int
) -> list[tuple[int, float]]:
    exact = vectors.astype(np.float64, copy=False) @ query.astype(np.float64)
    cosines = exact.astype(np.float32)
    order = np.lexsort((np.asarray(rowids), -cosines))[:limit]
    return [(rowids[at], float(cosines[at])) for at in order.tolist()]


@pytest.fixture
def index(tmp_path: Path) -> Iterator[IndexFile]:
    made = IndexFile(tmp_path)
    yield made
    made.connection.close()


class TestSearch:
    def test_rows_without_direction_never_appear(self) -> None:
        vectors = unit_vectors(6, 8, seed=9)
        vectors[1] = 0
        vectors[2, 3] = np.nan
        vectors[3, 0] = np.inf
        view = view_of(range(6), vectors)
        assert view.size == 3
        assert {row for row, _ in nearest(view, vectors[0], 10)} == {0, 4, 5}

    def test_codes_find_99_of_100_nearest_rows(self) -> None:
        """Tight clusters with nothing in common are the hard case."""
        count, dims, most = 60_000, 256, 200
        vectors = unit_vectors(count, dims, seed=12, clusters=600)
        view = view_of(range(count), vectors, exact_limit=1)
        assert view.codes is not None
        queries = vectors[:: count // 20] + 0.5 * unit_vectors(20, dims, seed=13)
        queries /= np.linalg.norm(queries, axis=1, keepdims=True)
        shared = {24: 0, most: 0}
        doubles = vectors.astype(np.float64)
        for query in queries.astype(np.float32):
            expected = [row for row, _ in brute_force(range(count), doubles, query, most)]
            for limit in shared:
                found = nearest(view, query, limit, rescored=4096 if limit == 24 else None)
                shared[limit] += len({row for row, _ in found} & set(expected[:limit]))
        for limit, hits in shared.items():
            assert hits / (len(queries) * limit) >= 0.99, limit


class TestView:
    def test_a_changed_view_leaves_the_old_one_as_it_was(self) -> None:
        vectors = unit_vectors(50, 8, seed=2)
        old = view_of(range(40), vectors[:40], pending=10)
        query = vectors[45]
        before = nearest(old, query, 40)
        new = old.with_changes(range(40, 50), vectors[40:], [0, 1, 45], pending=0)
        assert nearest(old, query, 40) == before
        assert {row for row, _ in nearest(new, query, 99)} == set(range(2, 50))
        assert nearest(new, query, 1)[0][0] == 45
        assert (old.pending, new.pending) == (10, 0)

    def test_two_views_may_follow_the_same_one(self) -> None:
        vectors = unit_vectors(12, 8, seed=3)
        base = view_of(range(10), vectors[:10])
        one = base.with_changes([10], vectors[10:11], [])
        other = base.with_changes([11], vectors[11:], [])
        assert {row for row, _ in nearest(one, vectors[0], 20)} == set(range(11))
        assert {row for row, _ in nearest(other, vectors[0], 20)} == {*range(10), 11}

    def test_a_view_that_grows_too_large_gets_codes(self) -> None:
        vectors = unit_vectors(30, 8, seed=4)
        view = view_of(range(20), vectors[:20], exact_limit=160)
        assert view.codes is None
        assert view.with_changes(range(20, 30), vectors[20:], []).codes is not None

    def test_vectors_of_another_length_are_refused(self) -> None:
        view = view_of([1], unit_vectors(1, 8, seed=5))
        with pytest.raises(ValueError, match="for 1 rows of 8"):
            view.with_changes([2], unit_vectors(1, 4, seed=6), [])

    def test_an_empty_view_grows(self) -> None:
        view = ViewBuilder(0, 8).finish()
        assert view.size == 0
        vectors = unit_vectors(3000, 8, seed=7)
        assert nearest(view.with_changes(range(3000), vectors, []), vectors[9], 1)[0][0] == 9


class TestLoading:
    @pytest.fixture
    def filled(self, index: IndexFile) -> tuple[IndexFile, Floats]:
        vectors = unit_vectors(2500, DIMS, seed=1)
        rows = index.add_all(f"chunk {number}" for number in range(2500))
        index.add_vectors(dict(zip(rows[:2400], vectors, strict=False)))
        for rowid in (1, 2, 1024, 1025, 2400):
            index.remove(rowid)
        return index, vectors

    def expected(self, vectors: Floats) -> dict[int, Floats]:
        gone = {1, 2, 1024, 1025, 2400}
        return {row: vectors[row - 1] for row in range(1, 2401) if row not in gone}

    def check(self, view: VectorView, expected: Mapping[int, Floats]) -> None:
        loaded = dict(zip(view.rowids.tolist(), view.matrix, strict=True))
        assert loaded.keys() == expected.keys()
        assert all((loaded[row] == vector).all() for row, vector in expected.items())

    def test_storage_blocks_are_read(self, filled: tuple[IndexFile, Floats]) -> None:
        index, vectors = filled
        read: list[str] = []

        def note(cursor: object, sql: str, bindings: object) -> bool:
            read.append(sql)
            return True

        index.connection.exec_trace = note
        view = load_view(index.connection, None, None, DIMS)
        index.connection.exec_trace = None
        self.check(view, self.expected(vectors))
        assert view.pending == 100
        assert not any(sql.startswith("SELECT rowid, embedding") for sql in read)
        assert not index.connection.in_transaction

    @pytest.mark.parametrize(
        "damage",
        [
            "UPDATE chunks_vec_vector_chunks00 SET vectors = zeroblob(10) WHERE rowid = 3",
            "ALTER TABLE chunks_vec_vector_chunks00 RENAME TO gone",
        ],
    )
    def test_blocks_of_another_make_are_not_trusted(
        self, filled: tuple[IndexFile, Floats], damage: str
    ) -> None:
        """Then the table itself is asked, and what it says stands."""
        index, _ = filled
        index.connection.execute(damage)
        with pytest.raises(Exception, match=r"blob|vector|chunks"):
            load_view(index.connection, None, None, DIMS)

    def test_blocks_that_contradict_the_table_are_not_used(
        self, filled: tuple[IndexFile, Floats], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        index, vectors = filled
        no_blocks = "SELECT NULL, NULL, NULL WHERE 0"
        monkeypatch.setattr("memtui.retrieval.vector_view._BLOCKS", no_blocks)
        self.check(load_view(index.connection, None, None, DIMS), self.expected(vectors))

    @pytest.mark.parametrize("missing", ["table", "mark"])
    def test_without_a_vector_table_the_cache_serves(
        self, filled: tuple[IndexFile, Floats], missing: str, tmp_path: Path
    ) -> None:
        index, vectors = filled
        if missing == "table":
            index.connection.execute("DROP TABLE chunks_vec")
        else:
            index.connection.execute("INSERT INTO meta VALUES('vectors', 'cache')")
        by_hash = {
            hashlib.sha256(f"chunk {number}".encode()).hexdigest(): vectors[number]
            for number in range(2400)
            if number != 99
        }
        identity = ProviderIdentity("made", "up", DIMS, "")
        cache = EmbeddingCache(tmp_path / "cache.db", open_database)
        cache.put_many(identity, by_hash)
        view = load_view(index.connection, cache, identity, DIMS)
        cache.close()
        expected = self.expected(vectors)
        del expected[100]
        self.check(view, expected)

    def test_without_table_and_cache_there_is_nothing(self, tmp_path: Path) -> None:
        index = IndexFile(tmp_path, dims=None)
        index.add_all(["a", "b"])
        view = load_view(index.connection, None, None, DIMS)
        assert (view.size, view.pending, view.dims) == (0, 2, DIMS)
        index.connection.close()


class TestLeg:
    def view(self, texts: Sequence[str], provider: HashedProvider, pending: int = 0) -> VectorView:
        return view_of(range(1, len(texts) + 1), provider.embed_documents(texts), pending=pending)

    def test_the_nearest_chunks_come_first_with_their_cosine(self) -> None:
        provider = HashedProvider()
        view = self.view(["the router config", "garden fence", "router"], provider, pending=4)
        hits, state = VectorLeg(view, provider).search(parse_query("router config"), 2, None)
        assert [hit.rowid for hit in hits] == [1, 3]
        assert 1.0 > hits[0].raw > hits[1].raw > 0
        assert state.status is LegStatus.OK
        assert state.facts == {
            "backend": EXACT_BACKEND,
            "provider": "hashed",
            "model": "hashed-trigrams",
            "searched": 3,
            "pending": 4,
        }

    def test_allowed_rows_bound_the_search(self) -> None:
        provider = HashedProvider()
        leg = VectorLeg(self.view(["router", "router one", "fence"], provider), provider)
        allowed = AllowedRows(np.array([2, 3], dtype=np.int64))
        hits, _ = leg.search(parse_query("router"), 5, allowed)
        assert [hit.rowid for hit in hits] == [2, 3]

    def test_a_query_is_embedded_once(self) -> None:
        provider = HashedProvider()
        leg = VectorLeg(self.view(["router"], provider), provider)
        calls = provider.calls
        for text in ("router", "fence", "router path:x", '"router"'):
            leg.search(parse_query(text), 5, None)
        assert provider.calls == calls + 2

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ("", Reason.EMPTY_QUERY),
            ("path:x", Reason.EMPTY_QUERY),
            ("x", Reason.QUERY_TOO_SHORT),
            ("東京", Reason.SCRIPT_NOT_SUPPORTED),
        ],
    )
    def test_some_queries_are_not_asked(self, text: str, reason: Reason) -> None:
        provider = HashedProvider(readable=str.isascii)
        leg = VectorLeg(self.view(["router"], provider), provider)
        calls = provider.calls
        hits, state = leg.search(parse_query(text), 5, None)
        assert (hits, state.status, state.reason) == ((), LegStatus.SKIPPED, reason)
        assert state.detail
        assert provider.calls == calls

    def test_one_character_is_enough_without_spaces(self) -> None:
        provider = HashedProvider()
        leg = VectorLeg(self.view(["税"], provider), provider)
        assert leg.search(parse_query("税"), 5, None).state.status is LegStatus.OK

    def test_a_zero_query_vector_is_skipped(self) -> None:
        provider = HashedProvider()
        view = self.view(["router"], provider)
        provider.answer = "zero"
        hits, state = VectorLeg(view, provider).search(parse_query("router"), 5, None)
        assert hits == ()
        assert (state.status, state.reason) == (LegStatus.SKIPPED, Reason.ZERO_QUERY_VECTOR)

    def test_a_failing_provider_fails_this_leg_and_not_for_ever(self) -> None:
        provider = HashedProvider()
        leg = VectorLeg(self.view(["router"], provider), provider)
        provider.fail_next = 1
        state = leg.search(parse_query("router"), 5, None).state
        assert (state.status, state.reason) == (LegStatus.FAILED, Reason.PROVIDER_FAILED)
        assert state.detail == "the hashed provider was told to fail"
        assert leg.search(parse_query("router"), 5, None).state.status is LegStatus.OK

    def test_other_dimensions_fail_the_leg_with_both_numbers(self) -> None:
        view = self.view(["router"], HashedProvider(dimensions=64))
        leg = VectorLeg(view, HashedProvider(dimensions=32))
        state = leg.search(parse_query("router"), 5, None).state
        assert (state.status, state.reason) == (LegStatus.FAILED, Reason.DIMENSIONS_DIFFER)
        assert "64" in state.detail
        assert "32" in state.detail

    def test_before_the_first_vector_the_leg_says_what_is_pending(self) -> None:
        view = ViewBuilder(0, 64).finish(pending=12)
        for view_or_none, detail in (
            (view, "12 chunks wait for their vectors"),
            (None, "no vectors yet"),
        ):
            leg = VectorLeg(view_or_none, HashedProvider())
            state = leg.search(parse_query("router"), 5, None).state
            assert (state.status, state.reason) == (LegStatus.SKIPPED, Reason.NO_VECTORS)
            assert state.detail == detail

    @pytest.mark.parametrize(
        ("given", "status", "reason"),
        [
            (None, LegStatus.SKIPPED, Reason.DISABLED),
            (Reason.DISABLED, LegStatus.SKIPPED, Reason.DISABLED),
            (Reason.PROVIDER_FAILED, LegStatus.FAILED, Reason.PROVIDER_FAILED),
        ],
    )
    def test_without_a_provider_its_state_is_the_reason(
        self, given: Reason | None, status: LegStatus, reason: Reason
    ) -> None:
        state = ProviderState("minilm", None, None, None, given, "why") if given else None
        answer = VectorLeg(None, None, state).search(parse_query("router"), 5, None)
        assert (answer.state.status, answer.state.reason) == (status, reason)
        assert answer.state.detail == ("why" if given else "no embedding provider")

    def test_a_superseded_search_stops_after_the_embedding(self) -> None:
        provider = HashedProvider()
        leg = VectorLeg(self.view(["router"], provider), provider)
        with pytest.raises(Cancelled):
            leg.search(parse_query("router"), 5, None, cancelled=lambda: True)

    def test_the_backend_is_named(self) -> None:
        provider = HashedProvider()
        view = view_of([1], provider.embed_documents(["router"]), exact_limit=1)
        leg = VectorLeg(view, provider)
        assert leg.backend == CODED_BACKEND
        hits, state = leg.search(parse_query("router"), 5, None)
        assert state.facts["backend"] == CODED_BACKEND
        assert hits[0].raw == pytest.approx(1.0)


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


_DIMS = 2
_VIRTUAL = "chunks_vec"
_STORED = "chunks_vec_"


class _Stored:
    """A connection whose statements are noted, with whether somebody could interrupt them."""

    def __init__(self, *, fails: Exception | None = None) -> None:
        self._fails = fails
        self.open = True
        self.seen: list[tuple[str, bool]] = []

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        before, self.open = self.open, False
        yield
        self.open = before

    def execute(self, statements: str, bindings: Any = None, /) -> Any:
        self.seen.append((statements, self.open))
        if _STORED in statements and self._fails is not None:
            raise self._fails
        return _Rows([(0,)] if "count(" in statements else [])


class _Rows(list[tuple[int]]):
    def fetchall(self) -> list[tuple[int]]:
        return list(self)


def test_what_asks_the_virtual_table_is_undisturbed() -> None:
    stored = _Stored()
    load_view(stored, None, None, _DIMS, exact_limit=0, undisturbed=stored.undisturbed)  # type: ignore[arg-type]
    asked = [one for one in stored.seen if _VIRTUAL in one[0].replace(_STORED, "")]
    assert asked
    assert not any(could for _, could in asked)


def test_an_interruption_is_not_taken_for_blocks_that_cannot_be_read() -> None:
    stored = _Stored(fails=apsw.InterruptError("interrupted"))
    with pytest.raises(apsw.InterruptError):
        load_view(stored, None, None, _DIMS, exact_limit=0, undisturbed=stored.undisturbed)  # type: ignore[arg-type]


def test_other_trouble_with_the_blocks_leaves_the_table_to_be_asked() -> None:
    stored = _Stored(fails=apsw.SQLError("no such table"))
    load_view(stored, None, None, _DIMS, exact_limit=0, undisturbed=stored.undisturbed)  # type: ignore[arg-type]
    assert stored.seen[-2] == ("SELECT rowid, embedding FROM chunks_vec", False)


def test_a_long_load_gives_way_and_lets_go_of_its_snapshot(tmp_path: Path) -> None:
    index = IndexFile(tmp_path)
    row = index.add("router")
    index.add_vectors({row: unit_vectors(1, DIMS, seed=1)[0]})
    with pytest.raises(Cancelled):
        load_view(index.connection, None, None, DIMS, exact_limit=0, gives_way=lambda: True)
    assert not index.connection.in_transaction
    # What is read in a moment is not begun again and again.
    short = load_view(index.connection, None, None, DIMS, gives_way=lambda: True)
    assert short.size == 1
    index.connection.close()

"""The embedding cache gives back what was put in, and outlives a damaged file."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import apsw
import numpy as np
import pytest

from memtui.embedding.cache import EmbeddingCache
from memtui.embedding.provider import ProviderIdentity, Vector, clean_vectors
from memtui.errors import IndexUnusable
from memtui.index.database import Connection, open_database

IDENTITY = ProviderIdentity("hashed", "trigrams", 8, "f" * 64)


def vectors(count: int, *, seed: int = 0, dimensions: int = 8) -> dict[str, Vector]:
    rows = clean_vectors(np.random.default_rng(seed).normal(size=(count, dimensions)))
    return {f"hash-{seed}-{row}": rows[row] for row in range(count)}


def assert_same(found: dict[str, Vector], expected: dict[str, Vector]) -> None:
    assert found.keys() == expected.keys()
    for text_hash, vector in expected.items():
        np.testing.assert_array_equal(found[text_hash], vector)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "workspace" / "cache.db"


@pytest.fixture
def cache(path: Path) -> Iterator[EmbeddingCache]:
    cache = EmbeddingCache(path, open_database)
    yield cache
    cache.close()


@pytest.mark.parametrize(
    "other",
    [
        IDENTITY._replace(name="other"),
        IDENTITY._replace(model="other"),
        IDENTITY._replace(fingerprint="other"),
    ],
)
def test_identities_are_kept_apart(cache: EmbeddingCache, other: ProviderIdentity) -> None:
    first, second = vectors(1), vectors(1, seed=1)
    same_hash = {"hash-0-0": second["hash-1-0"]}
    cache.put_many(IDENTITY, first)
    assert cache.get_many(other, first) == {}
    cache.put_many(other, same_hash)
    assert_same(cache.get_many(IDENTITY, first), first)
    assert_same(cache.get_many(other, first), same_hash)


def test_vectors_of_other_dimensions_are_unknown(cache: EmbeddingCache) -> None:
    stored = vectors(2, dimensions=4)
    cache.put_many(IDENTITY._replace(dimensions=4), stored)
    assert cache.get_many(IDENTITY, stored) == {}
    assert_same(cache.get_many(IDENTITY._replace(dimensions=None), stored), stored)


@pytest.mark.parametrize("blob", [b"", b"\0" * 31, np.full(8, np.nan, "<f4").tobytes()])
def test_a_damaged_vector_is_unknown(cache: EmbeddingCache, path: Path, blob: bytes) -> None:
    stored = vectors(2)
    cache.put_many(IDENTITY, stored)
    connection = open_database(path)
    query = "UPDATE embedding_cache SET vector = ? WHERE text_hash = 'hash-0-0'"
    connection.execute(query, (blob,))
    connection.close()
    assert cache.get_many(IDENTITY, stored).keys() == {"hash-0-1"}


def test_stores_all_or_none(cache: EmbeddingCache, path: Path) -> None:
    assert cache.count() == 0
    connection = open_database(path)
    connection.execute(
        "CREATE TRIGGER no BEFORE INSERT ON embedding_cache WHEN new.text_hash = 'hash-0-2' "
        "BEGIN SELECT raise(ABORT, 'refused'); END"
    )
    connection.close()
    with pytest.raises(apsw.ConstraintError, match="refused"):
        cache.put_many(IDENTITY, vectors(5))
    assert cache.count() == 0
    cache.put_many(IDENTITY, vectors(1, seed=1))
    assert cache.count() == 1


def test_threads_may_use_it_at_once(cache: EmbeddingCache) -> None:
    barrier = threading.Barrier(4)

    def work(seed: int) -> None:
        barrier.wait(10)
        cache.put_many(IDENTITY, vectors(50, seed=seed))
        cache.put_many(IDENTITY, vectors(50, seed=seed + 10))
        assert_same(cache.get_many(IDENTITY, vectors(50, seed=seed)), vectors(50, seed=seed))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert cache.count() == 400


@pytest.mark.parametrize(
    "content", [b"this is no database" * 100, b"SQLite format 3\0" + b"x" * 9_000]
)
def test_a_file_that_is_no_database_is_moved_aside(
    cache: EmbeddingCache, path: Path, content: bytes
) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    stored = vectors(3)
    cache.put_many(IDENTITY, stored)
    assert_same(cache.get_many(IDENTITY, stored), stored)
    assert cache.recovered == (
        "the embedding cache was damaged and starts anew; it was kept as cache.db.corrupt-1"
    )
    assert path.with_name("cache.db.corrupt-1").read_bytes() == content


def test_damage_met_while_in_use_is_moved_aside(cache: EmbeddingCache, path: Path) -> None:
    damage(cache, path)
    reader = EmbeddingCache(path, open_database)
    assert reader.get_many(IDENTITY, vectors(500)) == {}
    assert reader.recovered is not None
    reader.put_many(IDENTITY, vectors(2))
    assert reader.count() == 2
    reader.close()
    damage(EmbeddingCache(path, open_database), path)
    again = EmbeddingCache(path, open_database)
    assert again.get_many(IDENTITY, vectors(500)) == {}
    assert again.recovered is not None
    assert "corrupt-2" in again.recovered
    again.close()


def damage(cache: EmbeddingCache, path: Path) -> None:
    """Fill the cache, close it, and overwrite the pages behind the schema."""
    cache.put_many(IDENTITY, vectors(500))
    cache.close()
    content = bytearray(path.read_bytes())
    content[4_096:] = b"\xa5" * (len(content) - 4_096)
    path.write_bytes(content)


def test_a_file_that_was_deleted_is_told_and_made_again(cache: EmbeddingCache, path: Path) -> None:
    cache.put_many(IDENTITY, vectors(3))
    for file in path.parent.glob("cache.db*"):
        file.unlink()
    assert cache.get_many(IDENTITY, vectors(3)) == {}
    assert cache.recovered == "the embedding cache was deleted and starts anew"
    cache.put_many(IDENTITY, vectors(2))
    assert cache.count() == 2


def failing_once(fault: Exception) -> Callable[[Path], Connection]:
    faults = [fault]

    def opened(path: Path) -> Connection:
        if faults:
            raise faults.pop()
        return open_database(path)

    return opened


def test_an_error_that_is_no_damage_passes_through(path: Path) -> None:
    cache = EmbeddingCache(path, failing_once(PermissionError("no")))
    with pytest.raises(PermissionError):
        cache.count()
    assert (cache.count(), cache.recovered) == (0, None)
    cache.close()


def test_a_file_that_another_process_replaced_is_kept(cache: EmbeddingCache, path: Path) -> None:
    cache.put_many(IDENTITY, vectors(2))
    wrapped = IndexUnusable("the database is damaged")
    wrapped.__cause__ = apsw.exception_for(apsw.SQLITE_CORRUPT)
    other = EmbeddingCache(path, failing_once(wrapped))
    assert (other.count(), other.recovered) == (2, None)
    other.close()


def test_damage_that_cannot_be_moved_is_said(
    cache: EmbeddingCache, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path, target: Path) -> Path:
        raise PermissionError("read-only")

    path.parent.mkdir()
    path.write_bytes(b"this is no database" * 100)
    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(IndexUnusable, match="cannot be moved"):
        cache.count()

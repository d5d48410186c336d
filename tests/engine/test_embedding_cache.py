"""The embedding cache keeps to its bound: what was stored longest ago goes, live vectors stay."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import apsw
import numpy as np
import pytest

from memtui.embedding.provider import ProviderIdentity, Vector, clean_vectors
from memtui.engine import Engine
from memtui.errors import IndexUnusable
from memtui.index import embedding_cache
from memtui.index.database import IndexDamaged, open_database
from memtui.index.embedding_cache import EmbeddingCache
from memtui.memory.documents import text_hash
from memtui.settings.schema import EmbeddingSettings, IndexSettings, Settings
from tests.support.embedding_services import Clock
from tests.support.indexing import Workspace, identity
from tests.support.services import Service, registered

IDENTITY = ProviderIdentity("hashed", "trigrams", 960, "f" * 64)
DAY = 86_400
KILO = 1000


@pytest.fixture
def calendar() -> Clock:
    return Clock(1_000.0 * DAY)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache.db"


@pytest.fixture
def cache(path: Path, calendar: Clock) -> Iterator[EmbeddingCache]:
    with closing(EmbeddingCache(path, now=calendar)) as cache:
        yield cache


def vectors(name: str, count: int, dimensions: int = 960) -> dict[str, Vector]:
    """`count` vectors of 4 kB each, four in a page."""
    rows = clean_vectors(np.random.default_rng(len(name)).normal(size=(count, dimensions)))
    return {f"{name}-{row}": rows[row] for row in range(count)}


def kept(cache: EmbeddingCache, stored: dict[str, Vector]) -> int:
    return len(cache.get_many(IDENTITY, stored))


def test_what_was_stored_first_goes_first(cache: EmbeddingCache, calendar: Clock) -> None:
    old, new = vectors("old", 200), vectors("new one", 200)
    cache.put_many(IDENTITY, old)
    calendar.now += DAY
    cache.put_many(IDENTITY, new)
    before = cache.size_bytes()
    assert cache.trim(1200 * KILO, dict) == 0
    assert kept(cache, new) == 200
    assert 0 < kept(cache, old) < 200
    assert cache.size_bytes() <= 1200 * KILO + 64 * 16384
    assert before > 1600 * KILO


def test_live_vectors_are_never_evicted(cache: EmbeddingCache, calendar: Clock) -> None:
    live, idle = vectors("live", 200), vectors("idle one", 50)
    cache.put_many(IDENTITY, live)
    calendar.now += DAY
    cache.put_many(IDENTITY, idle)
    excess = cache.trim(100 * KILO, lambda: {IDENTITY: live})
    assert (kept(cache, live), kept(cache, idle)) == (200, 0)
    assert excess > 700 * KILO


def test_trimming_can_be_stopped(cache: EmbeddingCache) -> None:
    cache.put_many(IDENTITY, vectors("a", 1200))
    asked = iter([False, True])
    cache.trim(0, dict, cancelled=lambda: next(asked, True))
    assert cache.count() == 700


def test_the_index_keeps_what_it_holds(tmp_path: Path) -> None:
    with closing(Workspace(tmp_path / "notes", tmp_path / "index")) as workspace:
        for number in range(120):
            workspace.write(f"{number}.md", f"note {number} of the old text\n")
        workspace.sync()
        for number in range(120):
            workspace.write(f"{number}.md", f"note {number} of the new text\n")
        workspace.sync()
        assert workspace.cache.count() == 240
        # A provider that is to answer again made a vector of the same text, and of another one.
        away = identity("away")
        hashes = text_hash("note 7 of the new text\n"), text_hash("note 7 of the old text\n")
        workspace.cache.put_many(away, dict.fromkeys(hashes, np.eye(1, 64, dtype=np.float32)[0]))
        with closing(workspace.indexer(spared=away)) as indexer:
            indexer.cache_limit = 1
            indexer.start()
            indexer.sync()
            assert indexer.wait_idle(20)
            assert workspace.cache.count() == 121
            assert list(workspace.cache.get_many(away, hashes)) == [hashes[0]]
            assert indexer.snapshot().cache_excess > 0
        texts = workspace.provider.texts
        assert workspace.rebuild().stats.cache_hits == 120
        assert workspace.provider.texts == texts


def test_the_status_says_when_live_vectors_alone_are_too_many(tmp_path: Path) -> None:
    root = tmp_path / "workspace"
    root.mkdir()
    for number in range(140):
        (root / f"{number}.md").write_text(f"note number {number}\n", encoding="utf-8")
    settings = Settings(
        embedding=EmbeddingSettings(provider="large", fallback="none"),
        index=IndexSettings(cache_mb=1),
    )
    large = Service("large", dimensions=2048, batch_size=64)
    with registered(large), Engine.open(root, settings, data_dir=tmp_path / "data") as engine:
        engine.index.sync(wait=True)
        (warning,) = engine.index.status().warnings
        assert "index.cache_mb" in warning
        assert engine.index.status().vectors == 140
        for number in range(100):
            (root / f"{number}.md").unlink()
        engine.index.sync(wait=True)
        assert engine.index.status().warnings == ()


def test_a_program_that_reads_meanwhile_only_puts_the_shrinking_off(
    cache: EmbeddingCache, tmp_path: Path
) -> None:
    cache.put_many(IDENTITY, vectors("a", 1000))
    with closing(open_database(tmp_path / "cache.db")) as other:
        rows = other.execute("SELECT rowid FROM embedding_cache")
        next(rows)
        cache.trim(400 * KILO, dict)
        assert cache.count() < 200
        before = cache.size_bytes()
        assert sum(1 for _ in rows) == 999
        cache.put_many(IDENTITY, vectors("other", 100))
        cache.trim(400 * KILO, dict)
        assert cache.size_bytes() < before / 4


def assert_same(found: dict[str, Vector], expected: dict[str, Vector]) -> None:
    assert found.keys() == expected.keys()
    for name, vector in expected.items():
        np.testing.assert_array_equal(found[name], vector)


@pytest.mark.parametrize("field", ["name", "model", "fingerprint"])
def test_identities_are_kept_apart(cache: EmbeddingCache, field: str) -> None:
    changed: dict[str, Any] = {field: "other"}
    other = dataclasses.replace(IDENTITY, **changed)
    first, second = vectors("a", 1), vectors("other", 1)
    same_hash = {"a-0": second["other-0"]}
    cache.put_many(IDENTITY, first)
    assert cache.get_many(other, first) == {}
    cache.put_many(other, same_hash)
    assert_same(cache.get_many(IDENTITY, first), first)
    assert_same(cache.get_many(other, first), same_hash)


def test_vectors_of_other_dimensions_are_unknown(cache: EmbeddingCache) -> None:
    stored = vectors("a", 2, dimensions=4)
    cache.put_many(dataclasses.replace(IDENTITY, dimensions=4), stored)
    assert cache.get_many(IDENTITY, stored) == {}
    assert_same(cache.get_many(dataclasses.replace(IDENTITY, dimensions=None), stored), stored)


def test_word_pieces_stand_behind_their_vector(cache: EmbeddingCache) -> None:
    stored = vectors("a", 3)
    cache.put_many(IDENTITY, stored)
    pieces = {"a-1": bytes(40), "a-2": bytes(range(9)), "of no vector": b"1"}
    for _ in range(2):
        cache.put_pieces(IDENTITY, pieces)
        assert cache.get_pieces(IDENTITY, [*stored, *pieces]) == dict([*pieces.items()][:2])
        assert_same(cache.get_many(IDENTITY, stored), stored)


@pytest.mark.parametrize(
    "blob", [b"", b"\0" * 31, *(np.full(960, one, "<f4").tobytes() for one in (np.nan, 1, 1e38))]
)
def test_a_damaged_vector_is_unknown(cache: EmbeddingCache, path: Path, blob: bytes) -> None:
    stored = vectors("a", 2)
    cache.put_many(IDENTITY, stored)
    with closing(open_database(path)) as connection:
        query = "UPDATE embedding_cache SET vector = ? WHERE text_hash = 'a-0'"
        connection.execute(query, (blob,))
    assert cache.get_many(IDENTITY, stored).keys() == {"a-1"}


def test_stores_all_or_none(cache: EmbeddingCache, path: Path) -> None:
    assert cache.count() == 0
    with closing(open_database(path)) as connection:
        connection.execute(
            "CREATE TRIGGER no BEFORE INSERT ON embedding_cache WHEN new.text_hash = 'a-2' "
            "BEGIN SELECT raise(ABORT, 'refused'); END"
        )
    with pytest.raises(apsw.ConstraintError, match="refused"):
        cache.put_many(IDENTITY, vectors("a", 5))
    assert cache.count() == 0
    cache.put_many(IDENTITY, vectors("other", 1))
    assert cache.count() == 1


def test_threads_may_use_it_at_once(cache: EmbeddingCache) -> None:
    barrier = threading.Barrier(4)

    def work(seed: int) -> None:
        barrier.wait(10)
        cache.put_many(IDENTITY, vectors(f"seed {seed}", 50))
        cache.put_many(IDENTITY, vectors(f"later {seed}", 50))
        assert_same(
            cache.get_many(IDENTITY, vectors(f"seed {seed}", 50)), vectors(f"seed {seed}", 50)
        )

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert cache.count() == 400


@pytest.mark.parametrize(
    "content", [b"this is no database" * 100, b"SQLite format 3\0" + b"x" * 9_000]
)
def test_a_file_that_is_no_database_is_moved_aside(
    cache: EmbeddingCache, path: Path, content: bytes
) -> None:
    path.write_bytes(content)
    stored = vectors("a", 3)
    cache.put_many(IDENTITY, stored)
    assert_same(cache.get_many(IDENTITY, stored), stored)
    assert cache.recovered == (
        "the embedding cache was damaged and starts anew; it was kept as cache.db.corrupt-1"
    )
    assert path.with_name("cache.db.corrupt-1").read_bytes() == content


def test_damage_met_while_in_use_is_moved_aside(cache: EmbeddingCache, path: Path) -> None:
    damage(cache, path)
    with closing(EmbeddingCache(path)) as reader:
        assert reader.get_many(IDENTITY, vectors("a", 40)) == {}
        assert reader.recovered is not None
        reader.put_many(IDENTITY, vectors("a", 2))
        assert reader.count() == 2
    damage(EmbeddingCache(path), path)
    with closing(EmbeddingCache(path)) as again:
        assert again.get_many(IDENTITY, vectors("a", 40)) == {}
        assert again.recovered is not None
        assert "corrupt-2" in again.recovered


def damage(cache: EmbeddingCache, path: Path) -> None:
    """Fill the cache, close it, and overwrite the pages behind the schema."""
    cache.put_many(IDENTITY, vectors("a", 40))
    cache.close()
    content = bytearray(path.read_bytes())
    content[4_096:] = b"\xa5" * (len(content) - 4_096)
    path.write_bytes(content)


def test_a_file_that_was_deleted_is_told_and_made_again(cache: EmbeddingCache, path: Path) -> None:
    cache.put_many(IDENTITY, vectors("a", 3))
    for file in path.parent.glob("cache.db*"):
        file.unlink()
    assert cache.get_many(IDENTITY, vectors("a", 3)) == {}
    assert cache.recovered == "the embedding cache was deleted and starts anew"
    cache.put_many(IDENTITY, vectors("a", 2))
    assert cache.count() == 2


def fail_once(monkeypatch: pytest.MonkeyPatch, path: Path, fault: Exception) -> None:
    opener = Mock(side_effect=[fault, open_database(path)])
    monkeypatch.setattr(embedding_cache, "open_database", opener)


def test_an_error_that_is_no_damage_passes_through(
    cache: EmbeddingCache, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_once(monkeypatch, path, PermissionError("no"))
    with pytest.raises(PermissionError):
        cache.count()
    assert (cache.count(), cache.recovered) == (0, None)


@pytest.mark.parametrize(
    "fault",
    [IndexDamaged("the database is damaged"), apsw.exception_for(apsw.SQLITE_CORRUPT)],
    ids=lambda fault: type(fault).__name__,
)
def test_a_file_that_another_process_replaced_is_kept(
    cache: EmbeddingCache, path: Path, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    cache.put_many(IDENTITY, vectors("a", 2))
    fail_once(monkeypatch, path, fault)
    with closing(EmbeddingCache(path)) as other:
        assert (other.count(), other.recovered) == (2, None)


def test_tables_that_are_not_of_here_are_moved_aside(cache: EmbeddingCache, path: Path) -> None:
    with closing(open_database(path)) as other:
        other.execute("CREATE TABLE embedding_cache(vector)")
    assert cache.get_many(IDENTITY, ["a"]) == {}
    assert cache.recovered is not None


def test_one_that_may_not_write_changes_no_file(cache: EmbeddingCache, path: Path) -> None:
    cache.put_many(IDENTITY, vectors("a", 2))
    with closing(EmbeddingCache(path, writable=False)) as reader:
        assert reader.count() == 2
        with pytest.raises(apsw.ReadOnlyError):
            reader.put_many(IDENTITY, vectors("b", 2))


def test_damage_that_cannot_be_moved_is_said(
    cache: EmbeddingCache, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_bytes(b"this is no database" * 100)
    monkeypatch.setattr(Path, "replace", Mock(side_effect=PermissionError("read-only")))
    with pytest.raises(IndexUnusable, match="cannot be moved"):
        cache.count()

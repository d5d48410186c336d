"""The embedding cache keeps to its bound: what was used longest ago goes, live vectors stay."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from memtui.embedding.cache import EmbeddingCache
from memtui.embedding.provider import ProviderIdentity, Vector, clean_vectors
from memtui.engine import Engine
from memtui.index.database import open_database
from memtui.index.indexer import CacheBound
from memtui.settings import EmbeddingSettings, IndexSettings, Settings
from tests.support.indexing import Workspace
from tests.support.services import Service, registered

IDENTITY = ProviderIdentity("hashed", "trigrams", 960, "f" * 64)
OTHER = IDENTITY._replace(model="other")
DAY = 86_400
KILO = 1000


class Calendar:
    """A clock that is set by hand, in seconds."""

    def __init__(self) -> None:
        self.now = 1_000 * DAY

    def __call__(self) -> float:
        return float(self.now)


@pytest.fixture
def calendar() -> Calendar:
    return Calendar()


@pytest.fixture
def cache(tmp_path: Path, calendar: Calendar) -> Iterator[EmbeddingCache]:
    cache = EmbeddingCache(tmp_path / "cache.db", open_database, now=calendar)
    yield cache
    cache.close()


def vectors(name: str, count: int) -> dict[str, Vector]:
    """`count` vectors of 4 kB each, four in a page."""
    rows = clean_vectors(np.random.default_rng(len(name)).normal(size=(count, 960)))
    return {f"{name}-{row}": rows[row] for row in range(count)}


def kept(cache: EmbeddingCache, stored: dict[str, Vector]) -> int:
    return len(cache.get_many(IDENTITY, stored))


def test_what_was_stored_first_goes_first(cache: EmbeddingCache, calendar: Calendar) -> None:
    old, new = vectors("old", 200), vectors("new one", 200)
    cache.put_many(IDENTITY, old)
    calendar.now += DAY
    cache.put_many(IDENTITY, new)
    before = cache.size_bytes()
    trimmed = cache.trim(1200 * KILO, {})
    assert (kept(cache, new), trimmed.excess) == (200, 0)
    assert 0 < kept(cache, old) == 200 - trimmed.evicted
    assert cache.size_bytes() <= 1200 * KILO + 64 * 16384
    assert before > 1600 * KILO


def test_what_was_used_again_stays(cache: EmbeddingCache, calendar: Calendar) -> None:
    first, second = vectors("first", 150), vectors("second", 150)
    cache.put_many(IDENTITY, first)
    calendar.now += DAY
    cache.put_many(IDENTITY, second)
    calendar.now += 2 * DAY
    assert kept(cache, first) == 150
    cache.note_uses()
    cache.trim(900 * KILO, {})
    assert kept(cache, first) == 150
    assert kept(cache, second) < 150


def test_a_use_is_written_once_a_day_and_not_at_each_read(
    cache: EmbeddingCache, calendar: Calendar, tmp_path: Path
) -> None:
    stored = vectors("a", 3)
    cache.put_many(IDENTITY, stored)
    reader = open_database(tmp_path / "cache.db", readonly=True)

    def version() -> object:
        return reader.execute("PRAGMA data_version").fetchall()

    before = version()
    for _ in range(3):
        kept(cache, stored)
        cache.note_uses()
    assert version() == before
    calendar.now += 2 * DAY
    kept(cache, stored)
    assert version() == before
    cache.note_uses()
    assert version() != before
    uses = reader.execute("SELECT DISTINCT used_at FROM embedding_cache").fetchall()
    assert uses == [(calendar.now,)]
    reader.close()


def test_live_vectors_are_never_evicted(cache: EmbeddingCache, calendar: Calendar) -> None:
    live, idle = vectors("live", 200), vectors("idle one", 50)
    cache.put_many(IDENTITY, live)
    calendar.now += DAY
    cache.put_many(IDENTITY, idle)
    trimmed = cache.trim(100 * KILO, {IDENTITY: live})
    assert (kept(cache, live), kept(cache, idle)) == (200, 0)
    assert trimmed.evicted == 50
    assert trimmed.excess > 700 * KILO


def test_spared_vectors_go_last(cache: EmbeddingCache, calendar: Calendar) -> None:
    live, spared, idle = vectors("l", 100), vectors("sp", 100), vectors("idle", 100)
    cache.put_many(OTHER, spared)
    calendar.now += DAY
    cache.put_many(IDENTITY, live | idle)
    assert cache.trim(1100 * KILO, {IDENTITY: live}, {OTHER: spared}).excess == 0
    assert len(cache.get_many(OTHER, spared)) == 100
    assert kept(cache, idle) < 100
    cache.trim(700 * KILO, {IDENTITY: live}, {OTHER: spared})
    assert (kept(cache, live), kept(cache, idle)) == (100, 0)
    assert 0 < len(cache.get_many(OTHER, spared)) < 100


def test_a_file_of_an_earlier_version_shrinks_too(tmp_path: Path) -> None:
    path = tmp_path / "cache.db"
    connection = open_database(path)
    connection.execute(
        "CREATE TABLE embedding_cache(provider TEXT NOT NULL, model TEXT NOT NULL, fingerprint "
        "TEXT NOT NULL, text_hash TEXT NOT NULL, dims INTEGER NOT NULL, vector BLOB NOT NULL, "
        "used_at INTEGER NOT NULL, PRIMARY KEY(provider, model, fingerprint, text_hash))"
    )
    connection.close()
    cache = EmbeddingCache(path, open_database)
    stored = vectors("a", 1500)
    cache.put_many(IDENTITY, stored)
    before = cache.size_bytes()
    # Stopped after the evictions, while the file is written anew.
    evicted = iter([False] * 4)
    cache.trim(1000 * KILO, {}, cancelled=lambda: next(evicted, True))
    assert cache.size_bytes() >= before
    cache.put_many(IDENTITY, stored)
    cache.trim(1000 * KILO, {})
    assert cache.size_bytes() < before / 2
    assert 100 < kept(cache, stored) < 300
    cache.close()


def test_trimming_can_be_stopped(cache: EmbeddingCache) -> None:
    cache.put_many(IDENTITY, vectors("a", 1200))
    asked = iter([False, True])
    trimmed = cache.trim(0, {}, cancelled=lambda: next(asked, True))
    assert trimmed.evicted == 500
    assert cache.count() == 700


def test_the_index_keeps_what_it_holds(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "notes", tmp_path / "index")
    try:
        for number in range(120):
            workspace.write(f"{number}.md", f"note {number} of the old text\n")
        workspace.sync()
        for number in range(120):
            workspace.write(f"{number}.md", f"note {number} of the new text\n")
        workspace.sync()
        assert workspace.cache.count() == 240
        indexer = workspace.indexer()
        indexer._bound = CacheBound(1)
        indexer.start()
        try:
            indexer.sync()
            assert indexer.wait_idle(20)
            assert workspace.cache.count() == 120
            assert indexer.snapshot().cache_excess > 0
        finally:
            indexer.close()
        texts = workspace.provider.texts
        assert workspace.rebuild().stats.cache_hits == 120
        assert workspace.provider.texts == texts
    finally:
        workspace.close()


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
    other = open_database(tmp_path / "cache.db")
    rows = other.execute("SELECT rowid FROM embedding_cache")
    next(rows)
    assert cache.trim(400 * KILO, {}).evicted > 800
    before = cache.size_bytes()
    assert sum(1 for _ in rows) == 999
    cache.put_many(IDENTITY, vectors("other", 100))
    cache.trim(400 * KILO, {})
    assert cache.size_bytes() < before / 4
    other.close()

"""Rebuild: the old generation answers until the new one is whole, whatever happens."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from memtui.bus import IndexSwapped, SyncProgressed
from memtui.errors import Cancelled, IndexUnusable
from memtui.index.database import (
    Connection,
    damage,
    number,
    open_database,
)
from memtui.index.generations import LiveIndex, WriterLock
from memtui.index.schema import SCHEMA_VERSION, Recipe, create, read_meta, write_meta
from tests.support.indexing import Contents, Workspace
from tests.support.interrupted import run_interrupted


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    made = Workspace(tmp_path / "notes", tmp_path / "index")
    for index in range(40):
        made.write(f"{index % 4}/{index}.md", f"# Note {index}\n\nword{index} of the garden\n")
    yield made
    made.close()


def files(workspace: Workspace) -> list[str]:
    endings = (".db", ".building", ".tmp")
    names = (path.name for path in workspace.data.iterdir() if path.name != "cache.db")
    return sorted(name for name in names if name.endswith(endings))


def test_a_rebuild_equals_a_sync_and_embeds_nothing_again(workspace: Workspace) -> None:
    workspace.sync()
    before = workspace.contents()
    texts = workspace.provider.texts
    result = workspace.rebuild()
    assert workspace.folder.current() == 2
    assert result.stats.rebuild
    assert result.stats.files_added == result.stats.cache_hits == 40
    assert workspace.contents() == before
    assert workspace.provider.texts == texts
    assert files(workspace) == ["index-2.db"]
    assert workspace.of_type(IndexSwapped) == [IndexSwapped(1), IndexSwapped(2)]


def test_the_bulk_settings_do_not_stay(workspace: Workspace) -> None:
    workspace.rebuild()
    connection = open_database(workspace.folder.path(1))
    rows = connection.execute("SELECT k, v FROM chunks_fts_config").fetchall()
    config = {str(name): value for name, value in rows}
    assert config["automerge"] == 4
    assert config["crisismerge"] == 16
    assert config["pgsz"] == 16000
    assert connection.execute("PRAGMA journal_mode").fetchall() == [("wal",)]
    connection.close()


def test_gaps_that_merging_leaves_are_closed(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace.recipe = Recipe(None)

    def create_with_little_memory(connection: Connection) -> None:
        # Full-text data is gathered in many small pieces, and merged.
        create(connection)
        connection.execute("INSERT INTO chunks_fts(chunks_fts, rank) VALUES('hashsize', 8192)")

    monkeypatch.setattr("memtui.index.sync.create", create_with_little_memory)
    for index in range(40):
        words = (f"w{number * (index + 1)}x" for number in range(1, 400))
        workspace.write(f"{index}.md", f"# Note {index}\n" + "\n".join(words))
    workspace.rebuild()
    assert files(workspace) == ["index-2.db"], "a copy went live"
    path = workspace.folder.path(2)
    assert path.stat().st_mode & 0o777 == 0o600
    connection = open_database(path, readonly=True)
    assert number(connection, "PRAGMA freelist_count") == 0
    assert damage(connection) is None
    connection.close()
    assert workspace.contents() == workspace.fresh(workspace.data.parent / "fresh")


@pytest.mark.parametrize("phase", ["files", "vectors"])
def test_a_stopped_rebuild_leaves_the_old_generation(workspace: Workspace, phase: str) -> None:
    workspace.sync()
    before = workspace.contents()
    phases: list[str] = []
    workspace.bus.subscribe(SyncProgressed, lambda event: phases.append(event.phase))
    with pytest.raises(Cancelled):
        workspace.rebuild(lambda: phase in phases)
    assert files(workspace) == ["index-1.db"]
    assert workspace.contents() == before


@pytest.mark.parametrize("made", [16, 40])
def test_vectors_made_by_a_stopped_rebuild_are_kept(workspace: Workspace, made: int) -> None:
    with pytest.raises(Cancelled):
        workspace.rebuild(lambda: workspace.cache.count() >= made)
    assert workspace.cache.count() == made
    assert workspace.folder.current() is None
    texts = workspace.provider.texts
    embedded = workspace.rebuild().stats.chunks_embedded
    assert embedded == workspace.provider.texts - texts == 40 - made


@pytest.mark.parametrize("kind", ["sync", "rebuild"])
def test_a_full_disk_is_named_and_leaves_what_was_there(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    workspace.sync()
    before = workspace.contents()

    def open_small(path: Path, *, bulk: bool = False) -> Connection:
        connection = open_database(path, bulk=bulk)
        connection.execute("PRAGMA max_page_count = 1").fetchall()
        return connection

    monkeypatch.setattr("memtui.index.sync.open_database", open_small)
    workspace.write("0/big.md", "# Big\n\n" + "garden and router\n" * 20_000)
    with pytest.raises(IndexUnusable, match="no space left"):
        workspace.rebuild() if kind == "rebuild" else workspace.sync()
    assert files(workspace) == ["index-1.db"]
    assert workspace.contents() == before
    monkeypatch.undo()
    workspace.sync()
    assert workspace.contents() == workspace.fresh(workspace.data.parent / "fresh")


def test_an_index_of_a_newer_memtui_is_left_alone(workspace: Workspace) -> None:
    workspace.sync()
    connection = open_database(workspace.folder.path(1))
    write_meta(connection, {"schema_version": str(SCHEMA_VERSION + 1)})
    connection.close()
    with pytest.raises(IndexUnusable, match="newer memtui"):
        workspace.sync()
    live = LiveIndex(workspace.folder)
    with pytest.raises(IndexUnusable, match="newer memtui"):
        live.connection()
    assert workspace.folder.path(1).exists()
    workspace.rebuild()
    assert read_meta(live.connection())["schema_version"] == str(SCHEMA_VERSION)
    live.close()


@pytest.mark.parametrize("before", ["nothing", "older"])
@pytest.mark.parametrize("kind", ["sync", "rebuild"])
@pytest.mark.timeout(300)
def test_a_killed_process_leaves_an_index_that_one_sync_completes(
    workspace: Workspace, tmp_path: Path, kind: str, before: str
) -> None:
    start = tmp_path / "start"
    start.mkdir()
    if before == "older":
        workspace.sync()
        workspace.close()
        shutil.copytree(workspace.data, start, dirs_exist_ok=True)
        for index in range(10):
            workspace.write(f"0/{index * 4}.md", f"rewritten {index}\n")
            (workspace.root / f"1/{index * 4 + 1}.md").rename(workspace.root / f"2/moved{index}.md")
            workspace.write(f"3/new{index}.md", f"word{index} is new\n")
    killed = tmp_path / "killed"
    shutil.copytree(start, killed)
    calls = run_interrupted(kind, workspace.root, killed, 0)
    expected = workspace.fresh(tmp_path / "fresh")
    for share in (0.02, 0.1, 0.5, 0.8, 0.93, 0.97, 0.99):
        shutil.rmtree(killed)
        shutil.copytree(start, killed)
        assert run_interrupted(kind, workspace.root, killed, int(calls * share)) == -9
        assert_converges(Workspace(workspace.root, killed), expected)


def assert_converges(survivor: Workspace, expected: Contents) -> None:
    """One sync makes the index whole, embedding only what no killed process had made."""
    assert survivor.recipe is not None
    assert survivor.recipe.identity is not None
    hashes = {str(chunk[4]) for chunk in expected.chunks.values()}
    with WriterLock(survivor.folder):
        survivor.folder.clean()
        check(survivor)
        known = survivor.cache.get_many(survivor.recipe.identity, hashes)
        survivor.sync()
        assert survivor.provider.texts == len(hashes - known.keys())
    assert survivor.contents() == expected
    assert len(files(survivor)) == 1
    survivor.close()


def check(workspace: Workspace) -> None:
    """Check the live generation, where there is one."""
    generation = workspace.folder.current()
    if generation is None:
        return
    connection = open_database(workspace.folder.path(generation))
    assert damage(connection) is None
    orphans = "SELECT count(*) FROM chunks WHERE file_id NOT IN (SELECT id FROM files)"
    assert number(connection, orphans) == 0
    connection.close()

"""Files and folders that are taken away, cut or replaced while this process has them open."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from memtui.embedding.cache import EmbeddingCache
from memtui.errors import WorkspaceNotFound
from memtui.index.database import PAGE_SIZE, IndexDamaged, open_database
from memtui.index.reader import LiveIndex, counts
from memtui.index.schema import Recipe
from tests.support.embedding import HashedProvider
from tests.support.indexing import Workspace, identity


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    made = Workspace(tmp_path / "notes", tmp_path / "index")
    made.write("MEMORY.md", "# Birds\n\nA heron.\n")
    made.sync()
    yield made
    made.close()


@pytest.fixture
def live(workspace: Workspace) -> Iterator[LiveIndex]:
    made = LiveIndex(workspace.folder)
    made.connection().execute("SELECT text FROM chunks").fetchall()
    yield made
    made.close()


def test_an_index_that_is_cut_while_it_is_open_is_named(
    workspace: Workspace, live: LiveIndex
) -> None:
    # Read through the connection that maps the file, this would end the process.
    os.truncate(workspace.folder.path(1), PAGE_SIZE)
    with pytest.raises(IndexDamaged):
        live.connection()


def test_an_index_that_is_replaced_while_it_is_open_is_not_read_on(
    workspace: Workspace, live: LiveIndex, tmp_path: Path
) -> None:
    other = tmp_path / "photo"
    other.write_bytes(b"\x89PNG" * 10_000)
    other.replace(workspace.folder.path(1))
    with pytest.raises(IndexDamaged):
        live.connection()
    workspace.rebuild()
    assert counts(live.connection()).files == 1


@pytest.mark.parametrize("way", ["delete", "replace"])
def test_vectors_go_to_the_cache_that_is_there(tmp_path: Path, way: str) -> None:
    path = tmp_path / "cache.db"
    of = identity("other")._replace(dimensions=2)
    cache = EmbeddingCache(path, open_database)
    cache.put_many(of, {"first": np.array([1, 0], np.float32)})
    if way == "replace":
        path.rename(tmp_path / "aside.db")
        path.touch(0o600)
    for file in tmp_path.glob("cache.db*"):
        if way == "delete":
            file.unlink()
    cache.put_many(of, {"second": np.array([0, 1], np.float32)})
    cache.close()
    again = EmbeddingCache(path, open_database)
    assert set(again.get_many(of, ["second"])) == {"second"}
    again.close()


def test_the_empty_folder_of_what_is_not_mounted_empties_no_index(
    workspace: Workspace, tmp_path: Path
) -> None:
    mounted = tmp_path / "mounted"
    workspace.root.rename(mounted)
    workspace.root.mkdir()
    with pytest.raises(WorkspaceNotFound, match="is empty and not the one that was indexed"):
        workspace.sync()
    workspace.recipe, own = Recipe(identity("other")), workspace.recipe
    workspace.provider = HashedProvider(model="other")
    with pytest.raises(WorkspaceNotFound, match="is empty and not the one that was indexed"):
        workspace.sync()
    assert set(workspace.contents().files) == {"MEMORY.md"}
    workspace.recipe, workspace.provider = own, HashedProvider()
    workspace.root.rmdir()
    mounted.rename(workspace.root)
    workspace.write("memory/owl.md", "An owl.\n")
    assert workspace.sync().stats.files_added == 1
    # The same folder may be emptied, and a rebuild takes any for what it is.
    (workspace.root / "MEMORY.md").unlink()
    assert workspace.sync().stats.files_removed == 1
    workspace.root.rename(tmp_path / "aside")
    workspace.root.mkdir()
    workspace.rebuild()
    assert not workspace.contents().files

"""A sync that passes over folders that are as before makes the index that reading all would make."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from memtui.errors import Cancelled
from memtui.index.database import number, open_database
from memtui.index.schema import read_meta
from memtui.index.standing import KEY
from memtui.memory.discover import Scope
from tests.support.indexing import Workspace

LONG_AGO = 1_700_000_000


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    """Two folders of aged notes, indexed."""
    made = Workspace(tmp_path / "notes", tmp_path / "index")
    for name in ("memory/a/1", "memory/a/2", "memory/b/3"):
        write(made, f"{name}.md", f"about {name}")
    made.sync()
    yield made
    made.close()


def write(workspace: Workspace, path: str, text: str, seconds: int = LONG_AGO) -> None:
    """Write a note with a time of change long before any scan."""
    workspace.write(path, text)
    os.utime(workspace.root / path, (seconds, seconds))


def noted(workspace: Workspace) -> bool:
    """Whether the index notes the states of folders."""
    connection = open_database(workspace.folder.path(1), readonly=True)
    meta = read_meta(connection)
    connection.close()
    return KEY in meta


def is_fresh(workspace: Workspace) -> bool:
    return workspace.contents() == workspace.fresh(workspace.data.parent / "fresh")


def test_nothing_is_written_when_nothing_changed(workspace: Workspace) -> None:
    assert noted(workspace)
    before = workspace.folder.path(1).read_bytes()
    stats = workspace.sync().stats
    assert (stats.files_seen, stats.files_changed, stats.files_removed) == (3, 0, 0)
    assert workspace.folder.path(1).read_bytes() == before


@pytest.mark.parametrize("change", ["edit", "add", "remove", "empty", "move", "new"])
def test_a_change_in_one_folder_is_taken_in(workspace: Workspace, change: str) -> None:
    root = workspace.root / "memory"
    match change:
        case "edit":
            write(workspace, "memory/a/1.md", "something else", LONG_AGO + 5)
        case "add":
            write(workspace, "memory/a/4.md", "one more")
        case "remove":
            (root / "a" / "1.md").unlink()
        case "empty":
            (root / "b" / "3.md").unlink()
            (root / "b").rmdir()
        case "move":
            (root / "a" / "1.md").rename(root / "b" / "1.md")
        case "new":
            write(workspace, "memory/c/d/5.md", "deep")
    workspace.sync()
    assert is_fresh(workspace)
    assert noted(workspace)


def test_a_stopped_sync_leaves_no_state_that_the_rows_lack(workspace: Workspace) -> None:
    path = workspace.root / "memory/a/1.md"
    original = path.read_bytes(), path.stat().st_mtime_ns
    path.write_text("in between")
    os.utime(path, (LONG_AGO + 5, LONG_AGO + 5))
    done: list[str] = []
    with pytest.raises(Cancelled):
        workspace.sync(lambda: bool(done) or not noted(workspace))
    assert not noted(workspace)
    path.write_bytes(original[0])
    os.utime(path, ns=(original[1], original[1]))
    workspace.sync()
    assert is_fresh(workspace)


def test_lost_rows_are_noticed(workspace: Workspace) -> None:
    connection = open_database(workspace.folder.path(1))
    connection.execute("DELETE FROM files WHERE path = 'memory/a/1.md'")
    assert workspace.sync().stats.files_added == 1
    assert number(connection, "SELECT count(*) FROM files") == 3
    connection.close()


@pytest.mark.parametrize("text", ["", "[]", "{", '{"scope": 1}', "9" * 5000])
def test_an_unreadable_note_of_states_is_written_anew(workspace: Workspace, text: str) -> None:
    connection = open_database(workspace.folder.path(1))
    connection.execute("UPDATE meta SET value = ? WHERE key = ?", (text, KEY))
    connection.close()
    assert workspace.sync().stats.files_seen == 3
    assert is_fresh(workspace)


def test_another_scope_looks_at_everything(workspace: Workspace) -> None:
    scope = replace(workspace.scope, ignore=("a",))
    assert isinstance(scope, Scope)
    workspace.scope = scope
    workspace.sync()
    assert set(workspace.contents().files) == {"memory/b/3.md"}

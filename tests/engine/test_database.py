"""Opening database files: settings, broken files, permissions, the extension."""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import closing
from importlib import util
from importlib.machinery import ModuleSpec
from pathlib import Path
from unittest.mock import Mock

import pytest

from memtui.errors import IndexMissing, IndexUnusable, WorkspaceNotFound, undone_on_error
from memtui.index.database import (
    PAGE_SIZE,
    DatabaseError,
    IndexDamaged,
    Interrupted,
    Recipe,
    create,
    open_database,
    transaction,
    vector_extension,
)
from memtui.index.generations import IndexFolder, LiveIndex, WriterLock
from memtui.index.index_rows import counts
from tests.support.embedding import HashedProvider
from tests.support.indexing import Workspace, holding, identity
from tests.support.interrupted import run_python, running_python
from tests.support.rows import numbers


def test_the_extension_is_loaded_without_numpy(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path\n"
        "from memtui.index.database import open_database, vector_extension\n"
        f"connection = open_database(Path({str(tmp_path / 'a.db')!r}))\n"
        "print(vector_extension(connection))\n"
        "print([name for name in ('numpy', 'sqlite_vec', 'sqlite3') if name in sys.modules])\n"
    )
    done = run_python("-c", script, check=True, timeout=60)
    version, modules = done.stdout.splitlines()
    assert version.startswith("v0.")
    assert modules == "[]"


@pytest.mark.parametrize("is_installed", [False, True])
def test_what_is_no_extension_is_not_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_installed: bool
) -> None:
    (tmp_path / "vec0.so").write_bytes(b"not a library")
    module = ModuleSpec("sqlite_vec", None, origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(util, "find_spec", lambda name: module if is_installed else None)
    with closing(open_database(tmp_path / "a.db")) as connection:
        assert vector_extension(connection) is None


def test_reading_creates_no_file(tmp_path: Path) -> None:
    with pytest.raises(IndexMissing):
        open_database(tmp_path / "a.db", readonly=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "content", [b"no database at all, " * 5000, b"SQLite format 3\0" + b"\xff" * 40000]
)
@pytest.mark.parametrize("readonly", [True, False])
def test_what_is_no_database_is_named_in_one_line(
    tmp_path: Path, content: bytes, readonly: bool
) -> None:
    path = tmp_path / "index-1.db"
    path.mkdir()
    with pytest.raises(IndexUnusable, match=r"index-1\.db cannot be opened"):
        open_database(path)
    path.rmdir()
    path.write_bytes(content)
    with pytest.raises(IndexDamaged) as caught:
        open_database(path, readonly=readonly)
    assert "index-1.db" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 3


def test_a_transaction_is_kept_whole_or_not_at_all(tmp_path: Path) -> None:
    with closing(open_database(tmp_path / "a.db")) as connection:
        connection.execute("CREATE TABLE t(x NOT NULL)")
        with pytest.raises(DatabaseError), transaction(connection):
            connection.executemany("INSERT INTO t VALUES(?)", [(1,), (None,)])
        assert not connection.in_transaction
        with transaction(connection):
            connection.execute("INSERT INTO t VALUES(2)")
        assert numbers(connection, "SELECT x FROM t") == [2]


HOLD_THE_LOCK = """
import sys
from pathlib import Path
from memtui.index.generations import IndexFolder, WriterLock
lock = WriterLock(IndexFolder(Path(sys.argv[1])))
lock.try_acquire()
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path: Path) -> IndexFolder:
    return IndexFolder(tmp_path / "index")


def build(folder: IndexFolder, value: int) -> Path:
    """Build a generation that holds one number."""
    building = folder.begin()
    with closing(open_database(building, bulk=True)) as connection:
        create(connection)
        connection.execute("CREATE TABLE t(x)")
        connection.execute("INSERT INTO t VALUES(?)", (value,))
    return building


def value(live: LiveIndex) -> list[int]:
    return numbers(live.connection(), "SELECT x FROM t")


def names(folder: IndexFolder) -> set[str]:
    return {path.name for path in folder.folder.iterdir()}


def test_a_new_folder_outlives_a_loss_of_power(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr("memtui.settings.files.sync_folder", synced.append)
    folder = IndexFolder(tmp_path / "memtui" / "workspace")
    folder.create()
    assert set(synced) == {tmp_path, tmp_path / "memtui"}
    folder.create()
    assert len(synced) == 2


def test_the_stamp_tells_of_commits_of_others(folder: IndexFolder) -> None:
    folder.commit(build(folder, 1))
    with closing(LiveIndex(folder)) as live:
        live.connection()
        before = live.stamp()
        assert live.stamp() == before
        with closing(open_database(folder.path(1))) as writer:
            writer.execute("INSERT INTO t VALUES(5)")
            assert live.stamp() != before
            assert live.stamp()[0] == 1


def test_an_interruption_undoes_what_is_half_made() -> None:
    undone: list[bool] = []
    with pytest.raises(KeyboardInterrupt), undone_on_error(lambda: undone.append(True)):
        raise KeyboardInterrupt
    assert undone


def test_readers_follow_the_pointer_while_generations_come_and_go(folder: IndexFolder) -> None:
    folder.commit(build(folder, 1))
    with closing(LiveIndex(folder)) as live:
        first = live.connection()
        assert live.connection() is first
        stop, values, errors = threading.Event(), [], []

        def read() -> None:
            with closing(LiveIndex(folder)) as other:
                while not stop.is_set():
                    try:
                        values.append(value(other))
                    except Exception as error:
                        errors.append(error)

        thread = threading.Thread(target=read)
        thread.start()
        for number in range(2, 10):
            folder.commit(build(folder, number))
            folder.clean()
        stop.set()
        thread.join()
        assert errors == []
        assert values == sorted(values)
        assert all(len(row) == 1 for row in values)
        # A connection keeps its generation until it is asked for again.
        assert numbers(first, "SELECT x FROM t") == [1]
        assert (value(live), live.generation) == ([9], 9)


def test_swaps_between_the_two_looks_of_an_opening_are_followed(folder: IndexFolder) -> None:
    folder.commit(build(folder, 1))
    swaps = iter((2, 3))

    class Swapped(IndexFolder):
        def current(self) -> int | None:
            named = super().current()
            number = next(swaps, None)
            if number is None:
                return named
            folder.commit(build(folder, number))
            folder.clean()
            # Its file went after it was named: told as none, or found out when it is opened.
            return None if number % 2 else named

    with closing(LiveIndex(Swapped(folder.folder))) as live:
        assert value(live) == [3]


def test_clean_removes_what_crashes_leave(folder: IndexFolder) -> None:
    folder.commit(build(folder, 1))
    folder.commit(build(folder, 2))
    build(folder, 3)
    for name in ("index-1.db-wal", "index-9.db.building-journal"):
        (folder.folder / name).write_bytes(b"x")
    for name in ("cache.db", "writer.lock", "notes.txt", "index-x.db"):
        (folder.folder / name).write_bytes(b"keep")
    current = folder.current_path.read_text()
    folder.current_path.unlink()
    # Without a pointer no generation is known to be superfluous.
    folder.clean()
    assert {"index-1.db", "index-2.db"} <= names(folder)
    folder.current_path.write_text(current)
    build(folder, 3)
    for name in ("index-1.db-wal", "index-9.db.building-journal"):
        (folder.folder / name).write_bytes(b"x")
    folder.clean()
    assert names(folder) == {
        *("CURRENT", "index-2.db", "cache.db", "writer.lock", "notes.txt", "index-x.db")
    }


@pytest.mark.parametrize(
    "content", [b"", b"garbage", b"index-7.db\n", b"../index-1.db", b"\xff" * 5000]
)
def test_a_foreign_pointer_counts_as_none(folder: IndexFolder, content: bytes) -> None:
    folder.commit(build(folder, 1))
    folder.current_path.write_bytes(content)
    assert folder.current() is None


def test_a_full_disk_is_an_unusable_index(
    folder: IndexFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    building = build(folder, 1)
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    monkeypatch.setattr(os, "fsync", Mock(side_effect=full))
    with pytest.raises(IndexUnusable, match="no space left"):
        folder.commit(building)


def test_a_commit_makes_a_generation_live(folder: IndexFolder) -> None:
    building = build(folder, 1)
    assert folder.current() is None
    with pytest.raises(IndexMissing):
        LiveIndex(folder).connection()
    assert folder.commit(building) == folder.current() == 1
    assert names(folder) == {"CURRENT", "index-1.db"}
    assert folder.current_path.read_text() == "index-1.db\n"
    assert stat.S_IMODE(folder.folder.stat().st_mode) == 0o700
    for path in folder.folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path.name
    with closing(open_database(folder.path(1), readonly=True)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchall() == [("wal",)]
    with closing(LiveIndex(folder)) as live:
        live.connection()
        # The file of the first is still there.
        folder.commit(build(folder, 2))
        live.connection()
        assert live.generation == 2


@pytest.mark.parametrize("fault", ["damaged", "stopped"])
def test_a_build_that_fails_its_check_does_not_go_live(folder: IndexFolder, fault: str) -> None:
    folder.commit(build(folder, 1))
    building = build(folder, 2)
    with closing(open_database(building, bulk=True)) as connection:
        connection.execute(
            "INSERT INTO t WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n "
            "LIMIT 200000) SELECT x FROM n"
        )
    if fault == "damaged":
        content = bytearray(building.read_bytes())
        for page in range(1, len(content) // PAGE_SIZE):
            content[page * PAGE_SIZE : page * PAGE_SIZE + 100] = b"\xff" * 100
        building.write_bytes(content)
    with pytest.raises(IndexDamaged if fault == "damaged" else Interrupted):
        folder.commit(building, cancelled=lambda: fault == "stopped")
    assert folder.current() == 1


def test_one_process_writes_at_a_time_and_a_killed_one_does_not(folder: IndexFolder) -> None:
    folder.create()
    lock = WriterLock(folder)
    with running_python("-c", HOLD_THE_LOCK, str(folder.folder)) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "held\n"
        assert not lock.try_acquire()
        assert f"another memtui (process {owner.pid}, since 20" in str(lock.refusal())
        assert lock.refusal().exit_code == 5
        assert lock.writer() == f"process {owner.pid}"
        # What the owner wrote down may be damaged: then nobody is named.
        for damaged in (b"\xff{", b'{"pid": "\xff"}', b'{"x":' + b"[" * 100_000):
            folder.owner_path.write_bytes(damaged)
            assert str(lock.refusal()).startswith("another memtui writes")
            assert lock.writer() == "another process"
    assert lock.writer() == "none"
    left = folder.begin()
    left.touch()
    with holding(lock):
        assert lock.try_acquire()
        assert not left.exists(), "what a killed owner was building is removed"
        assert not WriterLock(folder).try_acquire(seconds=0.0)
        assert lock.writer() == "this process"
        # The index thread releases what another thread took.
        thread = threading.Thread(target=lock.release)
        thread.start()
        thread.join()
        assert WriterLock(folder).writer() == "none"


def test_a_full_disk_does_not_keep_the_lock(folder: IndexFolder) -> None:
    folder.create()
    folder.owner_path.mkdir()
    lock = WriterLock(folder)
    with pytest.raises(IndexUnusable, match=r"writer\.json cannot be written"):
        lock.try_acquire()
    assert not lock.is_held
    folder.owner_path.rmdir()
    assert WriterLock(folder).try_acquire(seconds=0)


@pytest.fixture
def workspace(workspace: Workspace) -> Workspace:
    workspace.write("MEMORY.md", "# Birds\n\nA heron.\n")
    workspace.sync()
    return workspace


@pytest.fixture
def live(workspace: Workspace) -> Iterator[LiveIndex]:
    with closing(LiveIndex(workspace.folder)) as made:
        made.connection().execute("SELECT text FROM chunks").fetchall()
        yield made


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
    assert counts(live.connection())["files"] == 1


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

"""Generations: what is live after every step and every crash, and who may write."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from memtui.errors import IndexMissing, IndexUnusable, WriterLocked
from memtui.index.database import IndexDamaged, Interrupted, numbers, open_database
from memtui.index.generations import IndexFolder, WriterLock
from memtui.index.reader import LiveIndex
from memtui.index.schema import create

HOLD_THE_LOCK = """
import sys
from pathlib import Path
from memtui.index.generations import IndexFolder, WriterLock
lock = WriterLock(IndexFolder(Path(sys.argv[1])))
lock.acquire()
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path: Path) -> IndexFolder:
    return IndexFolder(tmp_path / "index")


def build(folder: IndexFolder, value: int) -> Path:
    """Build a generation that holds one number."""
    building = folder.begin()
    connection = open_database(building, bulk=True)
    create(connection, None)
    connection.execute("CREATE TABLE t(x)")
    connection.execute("INSERT INTO t VALUES(?)", (value,))
    connection.close()
    return building


def value(live: LiveIndex) -> list[int]:
    return numbers(live.connection(), "SELECT x FROM t")


def names(folder: IndexFolder) -> set[str]:
    return {path.name for path in folder.folder.iterdir()}


def test_there_is_nothing_before_the_first_commit(folder: IndexFolder) -> None:
    assert folder.current() is None
    build(folder, 1)
    assert folder.current() is None
    with pytest.raises(IndexMissing):
        LiveIndex(folder).connection()


def test_a_commit_makes_a_generation_live(folder: IndexFolder) -> None:
    assert folder.commit(build(folder, 1)) == 1
    assert folder.current() == 1
    assert names(folder) == {"CURRENT", "index-1.db"}
    assert folder.current_path.read_text() == "index-1.db\n"
    connection = open_database(folder.path(1), readonly=True)
    assert connection.execute("PRAGMA journal_mode").fetchall() == [("wal",)]
    connection.close()


def test_the_folder_is_for_its_owner_only(folder: IndexFolder) -> None:
    folder.commit(build(folder, 1))
    assert stat.S_IMODE(folder.folder.stat().st_mode) == 0o700
    for path in folder.folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path.name


def test_a_new_folder_outlives_a_loss_of_power(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr("memtui.index.generations.sync_folder", synced.append)
    folder = IndexFolder(tmp_path / "memtui" / "workspace")
    folder.create()
    assert set(synced) == {tmp_path, tmp_path / "memtui"}
    folder.create()
    assert len(synced) == 2


def test_readers_follow_the_pointer(folder: IndexFolder) -> None:
    folder.commit(build(folder, 1))
    live = LiveIndex(folder)
    assert value(live) == [1]
    assert live.generation == 1
    first = live.connection()
    assert live.connection() is first
    folder.commit(build(folder, 2))
    folder.clean()
    assert value(live) == [2]
    assert live.generation == 2
    live.close()


def test_a_connection_keeps_its_generation_until_it_is_asked_for_again(folder: IndexFolder) -> None:
    folder.commit(build(folder, 1))
    live = LiveIndex(folder)
    connection = live.connection()
    folder.commit(build(folder, 2))
    folder.clean()
    assert numbers(connection, "SELECT x FROM t") == [1]
    live.close()


def test_the_stamp_tells_of_commits_of_others(folder: IndexFolder) -> None:
    folder.commit(build(folder, 1))
    live = LiveIndex(folder)
    before = live.stamp()
    assert live.stamp() == before
    writer = open_database(folder.path(1))
    writer.execute("INSERT INTO t VALUES(5)")
    assert live.stamp() != before
    assert live.stamp().generation == 1
    writer.close()
    live.close()


def test_swaps_under_a_reading_thread_never_fail_and_never_mix(folder: IndexFolder) -> None:
    folder.commit(build(folder, 1))
    stop = threading.Event()
    seen: list[list[int]] = []
    errors: list[Exception] = []

    def read() -> None:
        live = LiveIndex(folder)
        while not stop.is_set():
            try:
                seen.append(value(live))
            except Exception as error:
                errors.append(error)
        live.close()

    thread = threading.Thread(target=read)
    thread.start()
    for number in range(2, 10):
        folder.commit(build(folder, number))
        folder.clean()
    stop.set()
    thread.join()
    assert errors == []
    flat = [found for row in seen for found in row]
    assert all(len(row) == 1 for row in seen)
    assert flat == sorted(flat)


def test_swaps_between_the_two_looks_of_an_opening_are_followed(folder: IndexFolder) -> None:
    folder.commit(build(folder, 1))
    swaps = iter(range(2, 12))

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

    live = LiveIndex(Swapped(folder.folder))
    assert value(live) == [11]
    live.close()


def test_a_damaged_build_does_not_go_live(folder: IndexFolder) -> None:
    folder.commit(build(folder, 1))
    building = build(folder, 2)
    content = bytearray(building.read_bytes())
    for page in range(1, len(content) // 16384):
        content[page * 16384 : page * 16384 + 100] = b"\xff" * 100
    building.write_bytes(content)
    with pytest.raises(IndexDamaged):
        folder.commit(building)
    assert folder.current() == 1


def test_a_commit_can_be_stopped_in_its_check(folder: IndexFolder) -> None:
    folder.commit(build(folder, 1))
    building = build(folder, 2)
    connection = open_database(building, bulk=True)
    connection.execute(
        "INSERT INTO t WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n "
        "LIMIT 200000) SELECT x FROM n"
    )
    connection.close()
    with pytest.raises(Interrupted):
        folder.commit(building, cancelled=lambda: True)
    assert folder.current() == 1


def test_only_what_is_being_built_can_be_committed(folder: IndexFolder) -> None:
    folder.commit(build(folder, 1))
    with pytest.raises(ValueError, match=r"index-1\.db"):
        folder.commit(folder.path(1))


def test_clean_removes_what_crashes_leave(folder: IndexFolder) -> None:
    folder.commit(build(folder, 1))
    folder.commit(build(folder, 2))
    build(folder, 3)
    half_written = ("CURRENT.tmp", "batches.json.tmp", "provider.json.tmp")
    for name in ("index-1.db-wal", "index-9.db.building-journal", *half_written):
        (folder.folder / name).write_bytes(b"x")
    for name in ("cache.db", "writer.lock", "notes.txt", "index-x.db"):
        (folder.folder / name).write_bytes(b"keep")
    removed = folder.clean()
    assert set(removed) == {
        "index-1.db",
        "index-1.db-wal",
        "index-3.db.building",
        "index-9.db.building-journal",
        *half_written,
    }
    assert names(folder) == {
        *("CURRENT", "index-2.db", "cache.db", "writer.lock", "notes.txt", "index-x.db")
    }


def test_clean_keeps_generations_when_the_pointer_is_lost(folder: IndexFolder) -> None:
    folder.commit(build(folder, 1))
    folder.current_path.unlink()
    folder.clean()
    assert "index-1.db" in names(folder)
    assert folder.commit(build(folder, 2)) == 2
    folder.clean()
    assert names(folder) == {"CURRENT", "index-2.db"}


@pytest.mark.parametrize(
    "content", [b"", b"garbage", b"index-7.db\n", b"../index-1.db", b"\xff" * 5000]
)
def test_a_foreign_pointer_counts_as_none(folder: IndexFolder, content: bytes) -> None:
    folder.commit(build(folder, 1))
    folder.current_path.write_bytes(content)
    assert folder.current() is None


def test_one_writer_at_a_time(folder: IndexFolder) -> None:
    first, second = WriterLock(folder), WriterLock(folder)
    first.acquire()
    assert first.try_acquire()
    assert not second.try_acquire(seconds=0.0)
    with pytest.raises(WriterLocked, match=f"process {os.getpid()} ") as caught:
        second.acquire()
    assert caught.value.exit_code == 5
    first.release()
    first.release()
    with second:
        assert second.held
    assert first.owner() is None


def test_the_lock_may_be_released_on_another_thread(folder: IndexFolder) -> None:
    lock = WriterLock(folder)
    lock.acquire()
    thread = threading.Thread(target=lock.release)
    thread.start()
    thread.join()
    assert WriterLock(folder).try_acquire(seconds=0.0)


def test_the_lock_of_a_killed_process_is_free(folder: IndexFolder) -> None:
    folder.create()
    owner = subprocess.Popen(
        [sys.executable, "-c", HOLD_THE_LOCK, str(folder.folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert owner.stdin is not None
    assert owner.stdout is not None
    try:
        assert owner.stdout.readline() == "held\n"
        lock = WriterLock(folder)
        with pytest.raises(WriterLocked, match=f"process {owner.pid} "):
            lock.acquire()
        found = lock.owner()
        assert found is not None
        assert found.pid == owner.pid
    finally:
        owner.send_signal(signal.SIGKILL)
        owner.wait()
        owner.stdin.close()
        owner.stdout.close()
    assert lock.owner() is None
    lock.acquire()
    found = lock.owner()
    assert found is not None
    assert found.pid == os.getpid()
    lock.release()


def test_a_damaged_owner_file_names_nobody(folder: IndexFolder) -> None:
    first, second = WriterLock(folder), WriterLock(folder)
    first.acquire()
    folder.owner_path.write_bytes(b"\xff{")
    assert second.written_owner() is None
    with pytest.raises(WriterLocked, match="another process"):
        second.acquire()
    first.release()


def test_a_full_disk_does_not_keep_the_lock(
    folder: IndexFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: WriterLock) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(WriterLock, "_write_owner", full)
        lock = WriterLock(folder)
        with pytest.raises(IndexUnusable, match="No space left"):
            lock.try_acquire()
        assert not lock.held
    assert WriterLock(folder).try_acquire(seconds=0)


def test_a_full_disk_is_an_unusable_index(
    folder: IndexFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    building = build(folder, 1)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(IndexUnusable, match="no space left"):
        folder.commit(building)

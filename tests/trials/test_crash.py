"""A seeded part of the long trials: SIGKILL and loss of power, and what an index survives."""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path

import pytest

from memtui.embedding.batch import BatchStore, Ticket
from memtui.settings.storage import sync_folder
from tests.trials.crash import Kill, PowerLoss
from tests.trials.crash_scenes import SCENES
from tests.trials.file_changes import Change, Disk, Kind, Recorder


@pytest.mark.parametrize("name", ["sync", "swap"])
def test_a_killed_process_loses_nothing(tmp_path: Path, name: str) -> None:
    stage, rng = Kill(SCENES[name], tmp_path / name, measured=1), random.Random(7)
    tried = [stage.once(rng, by_time=bool(run % 2)) for run in range(4)]
    assert [wrong for wrong, _ in tried] == [[]] * 4
    assert sum(bool(facts) for _, facts in tried) >= 2


@pytest.mark.parametrize("name", ["rebuild", "cache write"])
def test_a_loss_of_power_loses_nothing_that_was_acknowledged(tmp_path: Path, name: str) -> None:
    stage, rng = PowerLoss(SCENES[name], tmp_path / name), random.Random(7)
    assert [stage.once(rng)[0] for _ in range(5)] == [[]] * 5


def test_what_was_not_synced_may_be_lost_and_what_was_is_not(tmp_path: Path) -> None:
    start, folder = tmp_path / "start", tmp_path / "data"
    start.mkdir()
    (start / "kept").write_bytes(b"old")
    name = str(folder / "new")
    outcomes: set[tuple[tuple[str, bytes], ...]] = set()
    for luck in range(200):
        disk = Disk(start)
        for change in (
            Change(Kind.CREATE, name),
            Change(Kind.WRITE, name, 0, b"first"),
            Change(Kind.SYNC, name),
            Change(Kind.WRITE, name, 5, b", second"),
            Change(Kind.REMOVE, str(folder / "kept")),
        ):
            disk.apply(change)
        left = tmp_path / f"left-{luck}"
        left.mkdir()
        disk.lose_power(left, random.Random(luck))
        outcomes.add(tuple(sorted((path.name, path.read_bytes()) for path in left.iterdir())))
    written = {b"first", b"first, second"}
    assert {content for found in outcomes for at, content in found if at == "new"} == written
    names = {tuple(at for at, _ in found) for found in outcomes}
    assert names == {(), ("kept",), ("new",), ("kept", "new")}


def test_the_recorder_notes_what_python_wrote_before_it_is_renamed(tmp_path: Path) -> None:
    path = tmp_path / "pointer"
    path.write_bytes(b"index-1.db")
    recorder = Recorder()
    recorder.around(Change(Kind.RENAME, str(path), target="x"), lambda _: None)
    assert recorder.entries == [
        Change(Kind.WRITE, str(path), 0, b"index-1.db"),
        Change(Kind.RENAME, str(path), target="x"),
    ]


def test_a_ticket_outlives_a_loss_of_power_before_its_batch_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[Path, bool]] = []
    path = tmp_path / "batches.json"

    def sync(folder: Path) -> None:
        synced.append((folder, path.exists()))

    monkeypatch.setattr("memtui.embedding.batch.sync_folder", sync)
    ticket = Ticket("openai", "127.0.0.1:1", "openai", "m", "ab", "file-1", "", 3, 1.0, 2.0)
    BatchStore(path).put(ticket)
    assert synced == [(tmp_path, True)]


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP, errno.EIO])
def test_a_file_system_that_cannot_sync_folders_is_used_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", refuse)
    if number == errno.EIO:
        with pytest.raises(OSError, match=os.strerror(number)):
            sync_folder(tmp_path)
    else:
        sync_folder(tmp_path)

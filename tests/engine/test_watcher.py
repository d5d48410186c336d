"""The watcher: what counts as a change, when it is told, and what happens where events fail."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from memtui.bus import Bus, StatusChanged
from memtui.index import watcher as watching
from memtui.index.watcher import (
    EVENTS,
    OFF,
    POLLING,
    FileEvents,
    WatchedFolder,
    Watcher,
    WatchTimes,
    watched_folders,
)
from memtui.memory.discover import Scope
from memtui.settings.schema import MemorySettings
from tests.support.indexing import Workspace

WAIT = 20.0
QUICK = WatchTimes(quiet=0.05, longest=0.5, poll=0.05, rescan=3600, check=0.05, retry=3600)


class Watched:
    """A watcher on a folder, and everything it told."""

    def __init__(self, scope: Scope, **options: Any) -> None:
        self.bus = Bus()
        self.published: set[str] = set()
        self.bursts = 0
        self._told: list[str] = []
        self._condition = threading.Condition()
        self.bus.subscribe(StatusChanged, lambda event: self._changed())
        options.setdefault("times", QUICK)
        ended = partial(self._changed, ("*",))
        self.watcher = Watcher(scope, self.bus, self._changed, ended, **options)

    def _changed(self, paths: tuple[str, ...] = ()) -> None:
        with self._condition:
            self._told.extend(paths)
            self.published.update(path for path in paths if path != "*")
            self.bursts += paths == ("*",)
            self._condition.notify_all()

    def wait_for(self, mode: str) -> None:
        """Wait until changes are noticed in this way."""
        with self._condition:
            is_so = self._condition.wait_for(lambda: self.watcher.state().mode == mode, WAIT)
        assert is_so, self.watcher.state()

    def start(self, mode: str = EVENTS) -> Watched:
        """Start, wait for the mode and for the call that asks for a first sync."""
        self.watcher.start()
        self.wait_for(mode)
        self.expect("*")
        return self

    def expect(self, *paths: str, seconds: float = WAIT) -> bool:
        """Wait until all of these were told, and forget what was told."""
        with self._condition:
            told = self._condition.wait_for(lambda: set(paths) <= set(self._told), seconds)
            assert told or seconds < WAIT, (paths, self._told)
            self._told.clear()
        return told


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    (folder / "memory").mkdir(parents=True)
    (folder / "memory/old.md").write_text("old\n")
    return folder


@pytest.fixture
def watch(root: Path) -> Iterator[Callable[..., Watched]]:
    made: list[Watched] = []

    def make(scope: Scope | None = None, **options: Any) -> Watched:
        made.append(Watched(scope or Scope(root), **options))
        return made[-1]

    yield make
    for watched in made:
        watched.watcher.stop()
        assert watched.watcher.state().mode == OFF


def test_writing_saving_and_removing_a_note_is_told(
    root: Path, watch: Callable[..., Watched]
) -> None:
    watched = watch().start()
    (root / "memory/new.md").write_text("new\n")
    watched.expect("memory/new.md")
    with (root / "memory/old.md").open("a") as stream:
        stream.write("more\n")
    watched.expect("memory/old.md")
    # As editors do: a temporary file is renamed.
    (root / "memory/.old.md.swp~").write_text("saved\n")
    os.replace(root / "memory/.old.md.swp~", root / "memory/old.md")
    watched.expect("memory/old.md")
    (root / "memory/old.md").unlink()
    watched.expect("memory/old.md")
    assert watched.watcher.state().last_event is not None
    assert {"memory/new.md", "memory/old.md"} <= watched.published


def test_a_folder_that_comes_or_moves_is_told_as_anything(
    root: Path, watch: Callable[..., Watched]
) -> None:
    watched = watch().start()
    (root / "memory/2026/02").mkdir(parents=True)
    (root / "memory/2026/02/a.md").write_text("a\n")
    watched.expect("*")
    (root / "memory/2026/02/b.md").write_text("b\n")
    watched.expect("memory/2026/02/b.md")
    shutil.move(root / "memory/2026", root / "memory/2025")
    watched.expect("*")


def test_what_is_told_are_notes_by_the_names_of_the_index(
    root: Path, watch: Callable[..., Watched]
) -> None:
    watched = watch().start()
    for name in ("memory/a.txt", "memory/.git/x.md", "memory/node_modules/y.md"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("x\n")
    (root / "memory" / os.fsdecode(b"caf\xe9\n.md")).write_text("x\n")
    workspace = Workspace(root, root.parent / "index")
    workspace.sync()
    (path,) = set(workspace.contents().files) - {"memory/old.md"}
    workspace.close()
    watched.expect(path)
    assert watched.published == {path}


def test_a_burst_is_told_once(root: Path, watch: Callable[..., Watched]) -> None:
    times = WatchTimes(quiet=0.4, longest=30, poll=1, rescan=3600, check=1, retry=3600)
    watched = watch(times=times).start()
    for index in range(500):
        (root / f"memory/{index % 50}.md").write_text(f"{index}\n")
    watched.expect("*", *(f"memory/{index}.md" for index in range(50)))
    assert watched.bursts == 2
    assert len(watched.published) == 50


def test_a_burst_that_does_not_end_is_told_after_the_longest_time(
    root: Path, watch: Callable[..., Watched]
) -> None:
    times = WatchTimes(quiet=60, longest=1.5, poll=1, rescan=3600, check=1, retry=3600)
    # What changed before the start is told at once.
    watch(times=replace(times, longest=60)).start()
    watched = watch(times=times).start()
    (root / "memory/new.md").write_text("new\n")
    watched.expect("*")
    assert watched.published == {"memory/new.md"}


def test_a_linked_root_is_watched(root: Path, watch: Callable[..., Watched]) -> None:
    link = root.parent / "link"
    link.symlink_to(root)
    watched = watch(Scope(link)).start()
    (root / "memory/new.md").write_text("new\n")
    watched.expect("memory/new.md")
    other = root.parent / "other"
    (other / "memory").mkdir(parents=True)
    link.unlink()
    link.symlink_to(other)
    watched.expect("*")
    (other / "memory/there.md").write_text("there\n")
    watched.expect("memory/there.md")


def test_extra_paths_are_watched_when_they_come_later_too(
    root: Path, watch: Callable[..., Watched]
) -> None:
    (root.parent / "outside/deep").mkdir(parents=True)
    (root.parent / "single.md").write_text("x\n")
    extras = ("../outside/**/*.md", "../single.md", "../later")
    watched = watch(Scope(root, MemorySettings(extra_paths=extras))).start()
    for path in ("../outside/deep/a.md", "../single.md"):
        (root / path).write_text("a\n")
        watched.expect(path)
    (root.parent / "later").mkdir()
    watched.expect("*")
    for number in range(100):
        # The first ones may be written before the folder is watched, and count as anything.
        (root.parent / f"later/{number}.md").write_text("a\n")
        if watched.expect(f"../later/{number}.md", seconds=0.2):
            return
    pytest.fail("no note in the new folder was told")


def test_folders_inside_watched_ones_are_not_watched_twice(root: Path) -> None:
    outside = root.parent / "outside"
    (outside / "deep").mkdir(parents=True)
    extras = ("memory", "../outside/deep", "../outside", "../missing/x.md")
    scope = Scope(root, MemorySettings(extra_paths=extras))
    assert [(folder.real, folder.recursive) for folder in watched_folders(scope)] == [
        (str(root), True),
        (str(outside), True),
    ]


def refuse(*arguments: object, **more: object) -> None:
    raise OSError(24, "inotify instance limit reached")


@pytest.mark.parametrize(
    ("name", "fault", "detail"),
    [
        # Watching fails without a word where there are no more watches.
        ("inotify_watches", lambda: 1, "only 1 of 2 folders can be watched"),
        ("FileEvents", refuse, "inotify instance limit reached; looking every 0.05 s"),
    ],
)
def test_where_there_are_no_events_it_looks_again(
    root: Path,
    watch: Callable[..., Watched],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    fault: Any,
    detail: str,
) -> None:
    monkeypatch.setattr(watching, name, fault)
    (root / "memory/old.md").unlink()
    watched = watch().start(POLLING)
    assert detail in watched.watcher.state().detail
    (root / "memory/new.md").write_text("new\n")
    watched.expect("memory/new.md")
    (root / "memory/new.md").unlink()
    watched.expect("memory/new.md")


def test_events_that_stop_are_replaced_by_looking_and_tried_again(
    root: Path, watch: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    times = WatchTimes(quiet=0.05, longest=0.5, poll=0.05, rescan=3600, check=0.05, retry=0.3)
    with monkeypatch.context() as patched:
        patched.setattr(FileEvents, "alive", lambda events: False)
        watched = watch(times=times)
        watched.watcher.start()
        watched.wait_for(POLLING)
    assert "file events stopped" in watched.watcher.state().detail
    watched.wait_for(EVENTS)


def test_lost_events_are_found_again(
    root: Path, watch: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    times = WatchTimes(quiet=0.05, longest=0.5, poll=3600, rescan=0.1, check=3600, retry=3600)
    monkeypatch.setattr(Watcher, "_arrived", lambda watcher, *change: None)
    deaf = watch(times=times).start()
    (root / "memory/new.md").write_text("new\n")
    deaf.expect("memory/new.md")
    assert deaf.watcher.state().mode == EVENTS


def test_a_root_may_come_go_and_come_back(root: Path, watch: Callable[..., Watched]) -> None:
    away = root.with_name("away")
    root.rename(away)
    watched = watch().start(POLLING)
    assert "the folder is not there" in watched.watcher.state().detail
    for _ in range(2):
        away.rename(root)
        watched.wait_for(EVENTS)
        watched.expect("*")
        (root / "memory/new.md").write_text("new\n")
        watched.expect("memory/new.md")
        root.rename(away)
        watched.wait_for(POLLING)


def test_an_error_in_the_watcher_does_not_end_it(root: Path, watch: Callable[..., Watched]) -> None:
    errors = [RuntimeError("boom")]

    def explode() -> datetime:
        if errors:
            raise errors.pop()
        return datetime.now(UTC)

    watched = watch(now=explode).start()
    (root / "memory/new.md").write_text("new\n")
    watched.wait_for(POLLING)
    assert "RuntimeError: boom" in watched.watcher.state().detail
    (root / "memory/newer.md").write_text("newer\n")
    watched.expect("memory/newer.md")


def test_a_refused_folder_leaves_nothing_running(root: Path) -> None:
    threads = set(threading.enumerate())
    gone = str(root / "gone")
    folders = (WatchedFolder(str(root), str(root), True), WatchedFolder(gone, gone, True))
    with pytest.raises(FileNotFoundError):
        FileEvents(folders, lambda *change: None)
    for thread in set(threading.enumerate()) - threads:
        thread.join(10)
        assert not thread.is_alive()

"""The watcher: what counts as a change, when it is told, and what happens where events fail."""

from __future__ import annotations

import logging
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memtui.bus import Bus, FilesChanged
from memtui.index import events
from memtui.index.events import WatchedFolder, inotify_limit, start_events, watched_folders
from memtui.index.watcher import ANYTHING, EVENTS, OFF, POLLING, Debouncer, Watcher, WatchTimes
from memtui.memory.discover import Scope
from tests.support.indexing import Workspace

WAIT = 20.0
QUICK = WatchTimes(quiet=0.05, longest=0.5, poll=0.05, rescan=3600, check=0.05, retry=3600)


class Watched:
    """A watcher on a folder, and everything it told."""

    def __init__(self, scope: Scope, **options: Any) -> None:
        self.bus = Bus()
        self.published: list[str] = []
        self._told: list[str] = []
        self._condition = threading.Condition()
        self.bus.subscribe(FilesChanged, lambda event: self.published.extend(event.paths))
        options.setdefault("times", QUICK)
        self.watcher = Watcher(scope, self.bus, self._changed, **options)

    def _changed(self, paths: tuple[str, ...]) -> None:
        with self._condition:
            self._told.extend(paths or ["*"])
            self._condition.notify_all()

    def start(self, mode: str = EVENTS) -> Watched:
        """Start, wait for the mode and for the call that asks for a first sync."""
        self.watcher.start()
        assert self.watcher.wait_for(mode, WAIT), self.watcher.state()
        self.expect("*")
        return self

    def expect(self, *paths: str) -> None:
        """Wait until all of these were told, and forget what was told."""
        with self._condition:
            told = self._condition.wait_for(lambda: set(paths) <= set(self._told), WAIT)
            assert told, (paths, self._told)
            self._told.clear()

    def tells(self, path: str, seconds: float) -> bool:
        """Wait until this is told; whether it was."""
        with self._condition:
            return self._condition.wait_for(lambda: path in self._told, seconds)

    def told(self) -> list[str]:
        with self._condition:
            return list(self._told)


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


def test_writing_changing_and_removing_a_note_is_told(
    root: Path, watch: Callable[..., Watched]
) -> None:
    watched = watch().start()
    (root / "memory/new.md").write_text("new\n")
    watched.expect("memory/new.md")
    with (root / "memory/old.md").open("a") as stream:
        stream.write("more\n")
    watched.expect("memory/old.md")
    (root / "memory/old.md").unlink()
    watched.expect("memory/old.md")
    state = watched.watcher.state()
    assert state.mode == EVENTS
    assert state.last_event is not None
    assert {"memory/new.md", "memory/old.md"} <= set(watched.published)


def test_saving_by_renaming_a_temporary_file_is_told(
    root: Path, watch: Callable[..., Watched]
) -> None:
    watched = watch().start()
    (root / "memory/.old.md.swp~").write_text("saved\n")
    os.replace(root / "memory/.old.md.swp~", root / "memory/old.md")
    watched.expect("memory/old.md")


def test_a_new_folder_with_notes_is_told_as_anything(
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


def test_what_is_not_part_of_the_memory_is_not_told(
    root: Path, watch: Callable[..., Watched]
) -> None:
    watched = watch().start()
    for name in ("memory/a.txt", "elsewhere.md", "memory/.git/x.md", "memory/node_modules/y.md"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("x\n")
    (root / "memory/last.md").write_text("x\n")
    watched.expect("memory/last.md")
    assert watched.published == ["memory/last.md"]


def test_names_are_those_of_the_index(root: Path, watch: Callable[..., Watched]) -> None:
    watched = watch().start()
    name = os.fsdecode(b"caf\xe9\n.md")
    (root / "memory" / name).write_text("x\n")
    workspace = Workspace(root, root.parent / "index")
    workspace.sync()
    (path,) = set(workspace.contents().files) - {"memory/old.md"}
    workspace.close()
    watched.expect(path)


def test_a_burst_is_told_once(root: Path, watch: Callable[..., Watched]) -> None:
    times = WatchTimes(quiet=0.4, longest=30, poll=1, rescan=3600, check=1, retry=3600)
    watched = watch(times=times).start()
    for index in range(500):
        (root / f"memory/{index % 50}.md").write_text(f"{index}\n")
    watched.expect(*(f"memory/{index}.md" for index in range(50)))
    assert len(watched.published) == len(set(watched.published)) == 50


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


def test_extra_paths_are_watched(root: Path, watch: Callable[..., Watched]) -> None:
    outside = root.parent / "outside"
    (outside / "deep").mkdir(parents=True)
    (root.parent / "single.md").write_text("x\n")
    scope = Scope(root, extra_paths=("../outside/**/*.md", "../single.md"))
    watched = watch(scope).start()
    (outside / "deep/a.md").write_text("a\n")
    watched.expect("../outside/deep/a.md")
    (root.parent / "single.md").write_text("y\n")
    watched.expect("../single.md")


def test_folders_inside_watched_ones_are_not_watched_twice(root: Path) -> None:
    outside = root.parent / "outside"
    (outside / "deep").mkdir(parents=True)
    scope = Scope(root, extra_paths=("memory", "../outside/deep", "../outside", "../missing/x.md"))
    folders = watched_folders(scope)
    assert [(folder.real, folder.recursive) for folder in folders] == [
        (str(root), True),
        (str(outside), True),
    ]


def test_beyond_the_watch_limit_it_polls(root: Path, watch: Callable[..., Watched]) -> None:
    for index in range(20):
        (root / f"memory/{index}").mkdir()
    watched = watch(watch_limit=lambda: 10).start(POLLING)
    state = watched.watcher.state()
    assert "more than 10 folders" in state.detail
    assert "max_user_watches" in state.detail
    (root / "memory/new.md").write_text("new\n")
    watched.expect("memory/new.md")
    (root / "memory/new.md").unlink()
    watched.expect("memory/new.md")


def test_watches_that_silently_fail_are_noticed(
    root: Path, watch: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "memory/deep").mkdir()
    monkeypatch.setattr(events, "_inotify_watches", lambda: 1)
    watched = watch(watch_limit=lambda: 1000).start(POLLING)
    assert "only 1 of 3 folders" in watched.watcher.state().detail


def test_the_real_watches_are_counted(root: Path, watch: Callable[..., Watched]) -> None:
    if inotify_limit() is None:
        assert events._inotify_watches() in (None, 0)
        return
    before = events._inotify_watches()
    watch().start()
    after = events._inotify_watches()
    assert before is not None
    assert after is not None
    assert after >= before + 2


def test_a_system_that_refuses_events_means_polling(
    root: Path, watch: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object, **more: object) -> None:
        raise OSError(24, "inotify instance limit reached")

    monkeypatch.setattr("memtui.index.watcher.start_events", refuse)
    watched = watch().start(POLLING)
    assert "instance limit reached; looking every 0.05 s" in watched.watcher.state().detail
    (root / "memory/new.md").write_text("new\n")
    watched.expect("memory/new.md")


def test_events_that_stop_are_replaced_by_polling_and_tried_again(
    root: Path, watch: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    times = WatchTimes(quiet=0.05, longest=0.5, poll=0.05, rescan=3600, check=0.05, retry=0.3)
    watched = watch(times=times).start()
    monkeypatch.setattr("memtui.index.events._WatchdogSource.alive", lambda source: False)
    assert watched.watcher.wait_for(POLLING, WAIT)
    assert "file events stopped" in watched.watcher.state().detail
    (root / "memory/new.md").write_text("new\n")
    watched.expect("memory/new.md")
    monkeypatch.undo()
    assert watched.watcher.wait_for(EVENTS, WAIT)


def test_a_dead_reader_thread_is_noticed(root: Path, watch: Callable[..., Watched]) -> None:
    watched = watch().start()
    source = watched.watcher._events
    assert source is not None
    assert source.alive()
    emitter = next(iter(source._observer.emitters))  # type: ignore[attr-defined]
    emitter.dead = threading.Thread()
    assert watched.watcher.wait_for(POLLING, WAIT)


def test_an_overflow_means_that_anything_may_have_changed(watch: Callable[..., Watched]) -> None:
    watched = watch().start()
    logger = logging.getLogger("watchdog.observers.inotify_c")
    logger.warning("Inotify queue overflowed; filesystem events were lost")
    watched.expect("*")


def test_lost_events_are_found_by_looking_again(
    root: Path, watch: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    times = WatchTimes(quiet=0.05, longest=0.5, poll=3600, rescan=0.1, check=3600, retry=3600)
    monkeypatch.setattr("memtui.index.watcher.Watcher._arrived", lambda watcher, change: None)
    watched = watch(times=times).start()
    (root / "memory/new.md").write_text("new\n")
    watched.expect("memory/new.md")
    assert watched.watcher.state().mode == EVENTS


def test_a_root_that_goes_and_comes_back(root: Path, watch: Callable[..., Watched]) -> None:
    watched = watch().start()
    away = root.with_name("away")
    root.rename(away)
    assert watched.watcher.wait_for(POLLING, WAIT)
    assert "the folder is not there" in watched.watcher.state().detail
    away.rename(root)
    assert watched.watcher.wait_for(EVENTS, WAIT)
    watched.expect("*")
    (root / "memory/new.md").write_text("new\n")
    watched.expect("memory/new.md")


def test_a_root_that_is_not_there_yet(tmp_path: Path, watch: Callable[..., Watched]) -> None:
    root = tmp_path / "later"
    watched = watch(Scope(root)).start(POLLING)
    root.mkdir()
    assert watched.watcher.wait_for(EVENTS, WAIT)
    watched.expect("*")
    (root / "a.md").write_text("a\n")
    watched.expect("a.md")


def test_an_error_in_the_watcher_does_not_end_it(
    root: Path, watch: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = watch().start()
    broken = threading.Event()

    def explode(event: FilesChanged) -> None:
        if not broken.is_set():
            broken.set()
            raise RuntimeError("boom")

    watched.bus.subscribe(FilesChanged, explode)
    (root / "memory/new.md").write_text("new\n")
    assert watched.watcher.wait_for(POLLING, WAIT)
    assert "RuntimeError: boom" in watched.watcher.state().detail
    (root / "memory/newer.md").write_text("newer\n")
    watched.expect("memory/newer.md")


def test_the_watcher_and_the_index_thread_together(
    root: Path, watch: Callable[..., Watched]
) -> None:
    workspace = Workspace(root, root.parent / "index")
    indexer = workspace.indexer()
    indexer.start()
    watcher = Watcher(workspace.scope, workspace.bus, indexer.sync, times=QUICK)
    condition = threading.Condition()

    def note(event: object) -> None:
        with condition:
            condition.notify_all()

    workspace.bus.subscribe(object, note)  # type: ignore[arg-type]
    watcher.start()
    try:
        with condition:
            assert condition.wait_for(lambda: indexer.snapshot().counts.vectors == 1, WAIT)
        (root / "memory/deep").mkdir()
        for index in range(20):
            (root / f"memory/deep/{index}.md").write_text(f"note {index}\n")
        (root / "memory/old.md").rename(root / "memory/renamed.md")
        with condition:
            assert condition.wait_for(lambda: indexer.snapshot().counts.vectors == 21, WAIT)
        assert indexer.wait_idle(WAIT)
    finally:
        watcher.stop()
        indexer.close()
    assert workspace.contents() == workspace.fresh(root.parent / "fresh")
    workspace.close()


def test_a_burst_is_over_after_quiet_or_after_the_longest_time() -> None:
    debouncer = Debouncer(quiet=1.5, longest=10.0)
    assert debouncer.due() is None
    assert debouncer.note(["a.md"], 100.0) == ("a.md",)
    assert debouncer.due() == 101.5
    assert debouncer.note(["a.md", "b.md"], 101.0) == ("b.md",)
    assert debouncer.note(["a.md"], 101.2) is None
    assert debouncer.due() == 102.7
    for second in range(102, 120):
        debouncer.note(["a.md"], float(second))
    assert debouncer.due() == 110.0
    assert debouncer.take() == ("a.md", "b.md")
    assert debouncer.due() is None
    assert debouncer.note(["a.md"], 200.0) == ("a.md",)


def test_anything_swallows_the_names() -> None:
    debouncer = Debouncer(quiet=1.5, longest=10.0)
    debouncer.note(["a.md"], 0.0)
    assert debouncer.note(ANYTHING, 0.1) == ANYTHING
    assert debouncer.note(ANYTHING, 0.2) is None
    assert debouncer.note(["b.md"], 0.3) == ("b.md",)
    assert debouncer.take() == ANYTHING


def test_a_flood_of_names_becomes_anything() -> None:
    debouncer = Debouncer(quiet=1.5, longest=10.0)
    assert debouncer.note([f"{index}.md" for index in range(10_000)], 0.0) is not None
    assert debouncer.note(["more.md"], 0.1) == ANYTHING
    assert debouncer.note(["and more.md"], 0.2) is None
    assert debouncer.take() == ANYTHING


def test_an_extra_folder_that_comes_later_is_watched(
    root: Path, watch: Callable[..., Watched]
) -> None:
    later = root.parent / "later"
    watched = watch(Scope(root, extra_paths=("../later",))).start()
    later.mkdir()
    watched.expect("*")
    for number in range(100):
        # The first ones may be written before the folder is watched, and count as anything.
        (later / f"{number}.md").write_text("a\n")
        if watched.tells(f"../later/{number}.md", 0.2):
            return
    pytest.fail("no note in the new folder was told")


def test_a_refused_folder_leaves_nothing_running(root: Path) -> None:
    before = set(threading.enumerate()), list(logging.getLogger("watchdog").handlers)
    gone = str(root / "gone")
    folders = (WatchedFolder(str(root), str(root), True), WatchedFolder(gone, gone, True))
    with pytest.raises(FileNotFoundError):
        start_events(folders, lambda change: None)
    for thread in set(threading.enumerate()) - before[0]:
        thread.join(10)
        assert not thread.is_alive()
    assert logging.getLogger("watchdog").handlers == before[1]

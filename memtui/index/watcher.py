"""Notice that files changed: by events where they work, by looking again where they do not."""

from __future__ import annotations

import logging
import math
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from memtui.bus import Bus, StatusChanged
from memtui.errors import Cancelled, IsCancelled, MemtuiError, never, undone_on_error
from memtui.index.database import DatabaseError
from memtui.index.index_rows import KnownFile
from memtui.index.transcripts.discovery import (
    TranscriptScope,
    discover_transcripts,
    listed_sessions,
)
from memtui.memory.discover import Scope, bases_of, discover, is_markdown, may_contain
from memtui.memory.documents import open_regular
from memtui.memory.paths import stored_path
from memtui.model import SourceFile, WatcherState
from memtui.settings.containment import parts_below
from memtui.settings.files import file_stamp
from memtui.settings.schema import TranscriptSettings

if TYPE_CHECKING:
    from watchdog.events import FileSystemEvent

EVENTS = "events"
POLLING = "polling"
OFF = "off"

_MAX_WATCHES = Path("/proc/sys/fs/inotify/max_user_watches")
_DESCRIPTORS = Path("/proc/self/fdinfo")
# Looking at very many files takes a while; it may take this part of the time at most.
_SCAN_SHARE = 0.05
_QUIET = logging.NullHandler()


class WatchedFolder(Struct, frozen=True):
    """A folder to watch: the real path that events carry, and the path that memtui knows."""

    real: str
    shown: str
    recursive: bool


def watched_folders(scope: Scope) -> tuple[WatchedFolder, ...]:
    """Name the folders that exist now and cover the scope, none of them inside another."""
    root, *extras = bases_of(scope)
    covering = [(root, True)]
    for path in extras:
        covering.append((path, True) if os.path.isdir(path) else (os.path.dirname(path), False))
    by_place: dict[str, WatchedFolder] = {}
    for path, recursive in covering:
        real = os.path.realpath(path)
        if os.path.isdir(real):
            recursive = recursive or (real in by_place and by_place[real].recursive)
            by_place[real] = WatchedFolder(real, path, recursive)
    folders = sorted(by_place.values(), key=lambda folder: folder.real)
    return tuple(
        folder
        for folder in folders
        if not any(
            tree.recursive and tree is not folder and parts_below(folder.real, tree.real)
            for tree in folders
        )
    )


def inotify_limit() -> int | None:
    """Read how many folders this user may watch; `None` where there is no such limit."""
    try:
        return int(_MAX_WATCHES.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def count_watches(folders: Iterable[WatchedFolder]) -> int:
    trees = (os.walk(one.real) if one.recursive else (one.real,) for one in folders)
    return sum(1 for tree in trees for _ in tree)


def inotify_watches() -> int | None:
    """Count the watches that this process really has; `None` where that cannot be seen."""
    count = 0
    try:
        for descriptor in _DESCRIPTORS.iterdir():
            # Another thread may close a file meanwhile.
            with suppress(OSError):
                count += descriptor.read_bytes().count(b"inotify wd:")
    except OSError:
        return None
    return count


class FileEvents:
    """The events of some folders, by watchdog.

    `changed` gets the path that changed, as memtui knows it, and whether it is a folder; it runs
    on watchdog's thread and must be quick.
    """

    def __init__(
        self, folders: Iterable[WatchedFolder], changed: Callable[[str, bool], object]
    ) -> None:
        """Watch the folders; raises `OSError` when the system refuses, or would watch but some."""
        from watchdog import events
        from watchdog.observers import Observer

        self._folders = tuple(folders)
        self._changed = changed
        count = count_watches(self._folders) if inotify_watches() is not None else 0
        # Its messages stay off the terminal.
        logging.getLogger("watchdog").addHandler(_QUIET)
        # A folder made while its parent is being added is added twice, which does no harm.
        warnings.filterwarnings("ignore", message="Callback with id", category=RuntimeWarning)
        self._observer = Observer()
        handler = events.FileSystemEventHandler()
        handler.on_any_event = self._hand_over  # type: ignore[method-assign]
        # Without a filter, watchdog's own scans make events of opened and closed folders.
        kinds: list[type[FileSystemEvent]] = [
            events.FileCreatedEvent,
            events.FileModifiedEvent,
            events.FileMovedEvent,
            events.FileDeletedEvent,
            events.FileClosedEvent,
            events.DirCreatedEvent,
            events.DirMovedEvent,
            events.DirDeletedEvent,
        ]
        # The folders before one that is refused are watched already.
        with undone_on_error(self._observer.stop):
            for folder in self._folders:
                self._observer.schedule(
                    handler, folder.real, recursive=folder.recursive, event_filter=kinds
                )
            self._observer.start()
        # Beyond the limit of the system, folders below are left out without a word.
        if (watches := inotify_watches()) is not None and watches < count:
            self.stop()
            raise OSError(f"only {watches} of {count} folders can be watched")

    def alive(self) -> bool:
        """Tell whether the observer, its emitters and the threads that these read from all run."""
        emitters = tuple(self._observer.emitters)
        parts = [part for emitter in emitters for part in (emitter, *vars(emitter).values())]
        threads = [part for part in parts if isinstance(part, threading.Thread)]
        return all(thread.is_alive() for thread in (self._observer, *threads))

    def stop(self) -> None:
        """Stop and wait for the threads; no event is handed over afterwards."""
        self._observer.stop()
        self._observer.join()

    def _hand_over(self, event: FileSystemEvent) -> None:
        """Tell both ends of a move: editors save by renaming a temporary file."""
        for path in (event.src_path, event.dest_path):
            for folder in self._folders if path else ():
                if (parts := parts_below(os.fsdecode(path), folder.real)) is not None:
                    self._changed(os.path.join(folder.shown, *parts), bool(event.is_directory))
                    break


class WatchTimes(Struct, frozen=True):
    """The pauses of the watcher, in seconds."""

    quiet: float = 1.5
    """Without a change, before a burst counts as over."""
    longest: float = 10.0
    """For a burst that does not end."""
    poll: float = 5.0
    """Between two looks at all files where there are no events."""
    rescan: float = 300.0
    """Between two looks at all files where there are: events get lost."""
    check: float = 2.0
    """Between two looks at the health of the events and at the root folder."""
    retry: float = 60.0
    """Before events are tried again after they could not be had."""


@dataclass(eq=False)
class Watcher:
    """One daemon thread that calls `expect` with changed files, and `changed` after each burst.

    A burst ends when it was quiet for a while, or when it has lasted too long. `expect` gets
    paths as in the index, but of what is in a folder that came or went. Both run on the watcher's
    thread. `changed` is called once after the start, for what changed before.
    """

    scope: Scope
    bus: Bus
    expect: Callable[[tuple[str, ...]], None]
    changed: Callable[[], None]
    times: WatchTimes
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    follower: TranscriptFollower | None = None

    def __post_init__(self) -> None:
        self._root = os.path.abspath(self.scope.root)
        self._condition = threading.Condition()
        self._incoming: set[tuple[str, bool]] = set()
        self._closing = False
        self._state = WatcherState(OFF, "not started")
        self._events: FileEvents | None = None
        self._places: set[tuple[WatchedFolder, int, int]] | None = set()
        """The folders to watch, each with its device and inode; `None` without a root."""
        self._stats: set[tuple[str, int, int, int]] | None = None
        self._next_scan = self._next_check = self._next_retry = 0.0
        seconds = self.follower.settings.debounce_seconds if self.follower else math.inf
        self._next_look = time.monotonic() + seconds
        """The time of the next look at the conversations."""
        self._first, self._due = -math.inf, math.inf
        """The beginning of the burst and the time it counts as over, infinite without one; what
        changed before the start is due at once."""
        self._thread = threading.Thread(target=self._run, name="memtui-watch", daemon=True)

    def start(self) -> None:
        """Begin to watch; folders are counted and watched on the watcher's own thread."""
        self._thread.start()

    def state(self) -> WatcherState:
        """Return how changes are noticed; from any thread."""
        return self._state

    def stop(self, timeout: float = 10.0) -> None:
        with self._condition:
            self._closing = True
            self._condition.notify_all()
        if self._thread.ident is not None:
            self._thread.join(timeout)

    def _arrived(self, path: str, is_folder: bool) -> None:
        is_new = (is_folder or is_markdown(path)) and (path, is_folder) not in self._incoming
        if is_new and may_contain(path, self.scope):
            with self._condition:
                self._incoming.add((path, is_folder))
                self._condition.notify_all()

    def _run(self) -> None:
        try:
            while not self._closing:
                try:
                    self._step()
                except Cancelled:
                    return
                except Exception as error:
                    # Watching goes on by looking again; the status says why.
                    self._fall_back(f"watching failed: {type(error).__name__}: {error}")
                deadline = min(self._next_scan, self._next_check, self._due, self._next_look)
                with self._condition:
                    self._condition.wait_for(
                        lambda: self._closing or self._incoming,
                        max(0.0, deadline - time.monotonic()),
                    )
        finally:
            self._close_events()
            self._set_state(OFF, "stopped")

    def _step(self) -> None:
        """Take in what has come, and do what is due."""
        now, times = time.monotonic(), self.times
        with self._condition:
            incoming, self._incoming = self._incoming, set()
        changed = {stored_path(path, self._root) for path, is_folder in incoming if not is_folder}
        is_news = bool(incoming)
        if now >= self._next_check:
            self._next_check = now + times.check
            before, self._places = self._places, None
            if os.path.isdir(self._root):
                folders = watched_folders(self.scope)
                states = [(folder, file_stamp(Path(folder.real))) for folder in folders]
                self._places = {(folder, state.device, state.inode) for folder, state in states}
            # In a folder that came or came back, everything may have changed.
            is_news |= self._places != before
            if self._places != before or (self._events is None and now >= self._next_retry):
                self._next_retry = now + times.retry
                self._close_events()
                try:
                    if self._places is None:
                        raise OSError("the folder is not there")
                    self._events = FileEvents([place[0] for place in self._places], self._arrived)
                except OSError as error:
                    self._fall_back(error.strerror or str(error))
                else:
                    self._set_state(EVENTS, "")
            elif self._events is not None and not self._events.alive():
                self._fall_back("file events stopped")
        if now >= self._next_scan:
            self._next_scan = now + times.poll
            if self._places is not None:
                files = discover(self.scope, cancelled=lambda: self._closing).files
                stats = {(file.path, file.size, file.mtime_ns, file.inode) for file in files}
                changed |= {
                    path for path, *_ in stats ^ (stats if self._stats is None else self._stats)
                }
                self._stats = stats
            ended = time.monotonic()
            wait = times.poll if self._events is None else times.rescan
            self._next_scan = ended + max(wait, (ended - now) / _SCAN_SHARE)
        if incoming or changed:
            self._state = replace(self._state, last_event=self.now())
        if is_news or changed:
            self._first = min(self._first, now)
            self._due = min(now + times.quiet, self._first + times.longest)
            self.expect(tuple(sorted(changed)))
        if now >= self._due:
            self._first = self._due = math.inf
            self.changed()
        if self.follower is not None and now >= self._next_look:
            began = time.monotonic()
            self._next_look = began + self.follower.settings.debounce_seconds
            if self.follower.due(lambda: self._closing):
                self.changed()
            ended = time.monotonic()
            wait = max(self.follower.settings.debounce_seconds, (ended - began) / _SCAN_SHARE)
            self._next_look = ended + wait

    def _fall_back(self, detail: str) -> None:
        self._close_events()
        self._next_scan = min(self._next_scan, time.monotonic() + self.times.poll)
        self._set_state(POLLING, f"{detail}; looking every {self.times.poll:g} s")

    def _close_events(self) -> None:
        events, self._events = self._events, None
        if events is not None:
            events.stop()

    def _set_state(self, mode: str, detail: str) -> None:
        before = self._state
        self._state = replace(before, mode=mode, detail=detail)
        if self._state != before:
            self.bus.publish(StatusChanged())


Stamp = tuple[int, int, int]
_GONE: Stamp = (-1, -1, -1)


@dataclass(eq=False)
class TranscriptFollower:
    """Looks at the transcripts of a scope by stat; `indexed` reads what the index holds of them.

    Deltas of the settings below 1 stand for any growth.
    """

    scope: Callable[[], TranscriptScope]
    indexed: Callable[[], Mapping[str, KnownFile]]
    settings: TranscriptSettings
    failed: Callable[[str], None]
    is_writer: Callable[[], bool] = lambda: True
    """False while another memtui keeps the index, which may have other sources on for its run."""

    def __post_init__(self) -> None:
        self.waiting: tuple[str, ...] = ()
        self._reported: dict[str, Stamp] = {}
        """The files that were due, as they were then: some may be unreadable."""
        self.forget()

    def forget(self, *, is_stopped: bool = False) -> None:
        """Look at all of them again next time; what a stopped run left then begins no other."""
        self._is_stopped = is_stopped
        self._last: dict[str, Stamp] | None = None
        if self.is_writer():
            self.waiting = ()

    def due(self, cancelled: IsCancelled = never) -> tuple[str, ...]:
        """Return the paths that are new, gone, another file, shorter, or longer by a delta."""
        scope = self.scope()
        # Who opts out of all has what was there taken out.
        if scope.is_empty and self._last == {}:
            return ()
        try:
            discovery = discover_transcripts(scope, cancelled=cancelled)
            files = {file.path: file for file in discovery.files}
            stamps = {path: (file.size, file.mtime_ns, file.inode) for path, file in files.items()}
            if stamps == self._last:
                return ()
            self._last = dict(stamps)
            rows = self.indexed()
        except (OSError, MemtuiError) as error:
            self.forget()
            self.failed(f"cannot look at the transcripts: {error}")
            return ()
        gone = (path for path in rows if path not in files and self.is_writer())
        stamps |= {path: _GONE for path in gone if not path.startswith(discovery.unread)}
        indexed = {path: (row.size, row.mtime_ns, row.inode) for path, row in rows.items()}
        changed = [path for path in stamps if stamps[path] != indexed.get(path)]
        # Those that were due before are read, or cannot be, or wait for another memtui's end.
        self.waiting = tuple(one for one in changed if self._reported.get(one) != stamps[one])
        due = tuple(
            path
            for path in self.waiting
            if path not in files or self._has_grown(files[path], rows.get(path))
        )
        reported = {path: stamp for path, stamp in self._reported.items() if path in stamps}
        if self.is_writer():
            self._reported = reported | {path: stamps[path] for path in due}
        is_due, self._is_stopped = not self._is_stopped, False
        return due if is_due else ()

    def _has_grown(self, file: SourceFile, row: KnownFile | None) -> bool:
        if row is None or row.inode != file.inode or file.size <= row.size:
            return True
        size, messages = self.settings.delta_bytes, self.settings.delta_messages
        if size <= 0 or messages <= 0 or file.size - row.size >= size:
            return True
        try:
            if file.session:
                sessions = listed_sessions(file.absolute)
                events = {one.session: one.events for one in sessions}
                return events.get(file.session, 0) - row.lines >= messages
            with open(open_regular(file.absolute, file.base), "rb") as stream:
                # Less than the delta in bytes.
                stream.seek(row.size)
                return stream.read(file.size - row.size).count(b"\n") >= messages
        except (OSError, DatabaseError, MemtuiError):
            # At work, locked or gone meanwhile: the next change tells.
            return False

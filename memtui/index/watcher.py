"""Notice that files changed: by events where they work, by looking again where they do not."""

from __future__ import annotations

import logging
import math
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from memtui.bus import Bus, FilesChanged, StatusChanged
from memtui.errors import Cancelled
from memtui.memory.discover import Scope, absolute_extra, discover, is_markdown, may_contain
from memtui.memory.paths import Glob, has_magic, parts_below, stored_path
from memtui.model import WatcherState
from memtui.settings.storage import file_state

if TYPE_CHECKING:
    from watchdog.events import FileSystemEvent

EVENTS = "events"
POLLING = "polling"
OFF = "off"

ANYTHING: tuple[str, ...] = ()
"""Paths of a change that may be anywhere."""

_MAX_WATCHES = Path("/proc/sys/fs/inotify/max_user_watches")
_DESCRIPTORS = Path("/proc/self/fdinfo")
# Looking at very many files takes a while; it may take this part of the time at most.
_SCAN_SHARE = 0.05
# More names than this are no longer worth keeping apart.
MOST_PATHS = 10_000


# --- file events of the operating system --------------------------------------------------------


class WatchedFolder(Struct, frozen=True):
    """A folder to watch: the real path that events carry, and the path that memtui knows."""

    real: str
    shown: str
    recursive: bool


Places = set[tuple[WatchedFolder, int, int]]


class WatchLimitReached(OSError):
    """The operating system cannot watch this many folders."""


def watched_folders(scope: Scope) -> tuple[WatchedFolder, ...]:
    """Name the folders that exist now and cover the scope, none of them inside another."""
    root = os.path.abspath(scope.root)
    covering = [(root, True)]
    for extra in filter(str.strip, scope.extra_paths):
        path = absolute_extra(extra, root)
        if has_magic(extra) and not os.path.lexists(path):
            path = Glob.parse(path).base
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


class FileEvents:
    """The events of some folders, by watchdog.

    `changed` gets the path that changed, as memtui knows it, and whether it is a folder; it runs
    on watchdog's thread and must be quick.
    """

    def __init__(
        self,
        folders: Iterable[WatchedFolder],
        changed: Callable[[str, bool], object],
        *,
        limit: Callable[[], int | None] = inotify_limit,
    ) -> None:
        """Watch the folders.

        Raises `WatchLimitReached` when there are more folders than the system watches (which it
        would not report), and `OSError` when it refuses.
        """
        from watchdog import events
        from watchdog.observers import Observer

        self._folders = tuple(folders)
        self._changed = changed
        self._stopped = False
        most = limit()
        count = 0
        for folder in self._folders if most is not None else ():
            for _ in os.walk(folder.real):
                count += 1
                if most is not None and count > most:
                    raise WatchLimitReached(
                        f"more than {most} folders, the limit of fs.inotify.max_user_watches"
                    )
                if not folder.recursive:
                    break
        self._observer = Observer()
        # Its messages stay off the terminal; one is the only sign that events were lost.
        self._log = logging.Handler(logging.WARNING)
        self._log.emit = self._note_message  # type: ignore[method-assign]
        # A folder made while its parent is being added is added twice, which does no harm.
        warnings.filterwarnings("ignore", message="Callback with id", category=RuntimeWarning)
        logging.getLogger("watchdog").addHandler(self._log)
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
        try:
            for folder in self._folders:
                self._observer.schedule(
                    handler, folder.real, recursive=folder.recursive, event_filter=kinds
                )
            self._observer.start()
        except BaseException:
            # The folders before the one that was refused are watched already.
            logging.getLogger("watchdog").removeHandler(self._log)
            self._observer.stop()
            raise
        if most is not None and (watched := _inotify_watches()) is not None and watched < count:
            self.stop()
            raise WatchLimitReached(f"only {watched} of {count} folders can be watched")

    def alive(self) -> bool:
        """Tell whether the observer, its emitters and the threads that these read from all run."""
        emitters = tuple(self._observer.emitters)
        parts = [part for emitter in emitters for part in (emitter, *vars(emitter).values())]
        threads = [part for part in parts if isinstance(part, threading.Thread)]
        return all(thread.is_alive() for thread in (self._observer, *threads))

    def stop(self) -> None:
        """Stop and wait for the threads; no event is handed over afterwards."""
        self._stopped = True
        logging.getLogger("watchdog").removeHandler(self._log)
        self._observer.stop()
        self._observer.join()

    def _note_message(self, record: logging.LogRecord) -> None:
        if "overflow" in record.getMessage().lower():
            for folder in self._folders:
                self._changed(folder.shown, True)

    def _hand_over(self, event: FileSystemEvent) -> None:
        """Tell both ends of a move: editors save by renaming a temporary file."""
        for path in (event.src_path, event.dest_path):
            if not path or self._stopped:
                continue
            for folder in self._folders:
                if (parts := parts_below(os.fsdecode(path), folder.real)) is not None:
                    self._changed(os.path.join(folder.shown, *parts), bool(event.is_directory))
                    break


def _inotify_watches() -> int | None:
    """Count the watches that this process really has; `None` where that cannot be seen."""
    try:
        descriptors = list(_DESCRIPTORS.iterdir())
    except OSError:
        return None
    count = 0
    for descriptor in descriptors:
        # Another thread may close a file meanwhile.
        with suppress(OSError):
            text = descriptor.read_text(encoding="ascii", errors="replace")
            count += text.count("inotify wd:")
    return count


# --- following a memory -------------------------------------------------------------------------


class WatchTimes(Struct, frozen=True):
    """How long the watcher waits, in seconds."""

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


class Watcher:
    """One daemon thread that publishes `FilesChanged` and calls `changed` after each burst.

    A burst ends when it was quiet for a while, or when it has lasted too long. `changed` gets the
    paths, relative as in the index, or none when anything may have changed; it runs on the
    watcher's thread. It is called once after the start, for what changed before.
    """

    def __init__(
        self,
        scope: Scope,
        bus: Bus,
        changed: Callable[[tuple[str, ...]], None],
        *,
        times: WatchTimes | None = None,
        watch_limit: Callable[[], int | None] = inotify_limit,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._scope = scope
        self._bus = bus
        self._changed = changed
        self._times = times or WatchTimes()
        self._watch_limit = watch_limit
        self._now = now
        self._root = os.path.abspath(scope.root)
        self._condition = threading.Condition()
        self._incoming: dict[tuple[str, bool], None] = {}
        self._closing = False
        self._state = WatcherState(OFF, "not started")
        self._events: FileEvents | None = None
        self._places: Places | None = None
        self._stats: dict[str, tuple[int, int, int]] | None = None
        self._next_scan = self._next_check = self._next_retry = 0.0
        self._burst: set[str] = set()
        self._is_anywhere = False
        """Whether the burst may be anywhere: more names tell nothing."""
        self._first = self._due = math.inf
        """When the burst began and when it counts as over; infinite without one."""
        self._thread = threading.Thread(target=self._run, name="memtui-watch", daemon=True)

    def start(self) -> None:
        """Begin to watch; folders are counted and watched on the watcher's own thread."""
        self._thread.start()

    def state(self) -> WatcherState:
        """Return how changes are noticed; from any thread."""
        with self._condition:
            return self._state

    def wait_for(self, mode: str, timeout: float) -> bool:
        """Wait until changes are noticed in this way; tell whether they are."""
        with self._condition:
            return self._condition.wait_for(lambda: self._state.mode == mode, timeout)

    def stop(self, timeout: float = 10.0) -> None:
        """End watching."""
        with self._condition:
            self._closing = True
            self._condition.notify_all()
        if self._thread.ident is not None:
            self._thread.join(timeout)

    def _arrived(self, path: str, is_folder: bool) -> None:
        """Take an event in, on watchdog's thread."""
        is_new = (is_folder or is_markdown(path)) and (path, is_folder) not in self._incoming
        if is_new and may_contain(path, self._scope):
            with self._condition:
                self._incoming[path, is_folder] = None
                self._condition.notify_all()

    # --- the watcher's thread -------------------------------------------------------------------

    def _run(self) -> None:
        step = self._open
        try:
            while True:
                try:
                    step()
                except Exception as error:
                    # Watching goes on by looking again; the status says why.
                    self._fall_back(f"watching failed: {type(error).__name__}: {error}")
                step = self._step
                deadline = min(self._next_scan, self._next_check, self._due)
                with self._condition:
                    self._condition.wait_for(
                        lambda: self._closing or self._incoming,
                        max(0.0, deadline - time.monotonic()),
                    )
                    if self._closing:
                        return
        finally:
            self._close_events()
            self._set_state(OFF, "stopped")

    def _open(self) -> None:
        """Try for events; look at all files for the first time; ask for a first sync."""
        self._first = now = time.monotonic()
        self._due, self._is_anywhere = now + self._times.quiet, True
        self._next_check = now + self._times.check
        self._places = self._places_now()
        self._try_events(now)
        self._stats = self._scan()
        self._schedule_scan(now)

    def _step(self) -> None:
        """Take in what has come, and do what is due."""
        now = time.monotonic()
        with self._condition:
            incoming, self._incoming = self._incoming, {}
        changed = {stored_path(path, self._root) for path, _ in incoming}
        is_anywhere = any(is_folder for _, is_folder in incoming)
        if now >= self._next_check:
            self._next_check = now + self._times.check
            places = self._places_now()
            if places != self._places:
                self._places = places
                self._close_events()
                self._try_events(now)
                self._schedule_scan(now)
                # In a folder that came or came back, everything may have changed.
                is_anywhere = True
            elif self._events is not None and not self._events.alive():
                self._fall_back("file events stopped")
            elif self._events is None and places is not None and now >= self._next_retry:
                self._try_events(now)
        if now >= self._next_scan:
            if (stats := self._scan()) is not None:
                before, self._stats = self._stats, stats
                if before is not None:
                    changed |= {path for path, _ in before.items() ^ stats.items()}
            ended = time.monotonic()
            self._schedule_scan(ended, took=ended - now)
        if changed or is_anywhere:
            self._first = min(self._first, now)
            self._due = min(now + self._times.quiet, self._first + self._times.longest)
            new = changed - self._burst
            is_anywhere = is_anywhere or len(self._burst) + len(new) > MOST_PATHS
            is_news = not self._is_anywhere if is_anywhere else bool(new)
            self._is_anywhere = self._is_anywhere or is_anywhere
            if not is_anywhere:
                self._burst |= new
            with self._condition:
                self._state = replace(self._state, last_event=self._now())
            if is_news:
                self._bus.publish(FilesChanged(ANYTHING if is_anywhere else tuple(sorted(new))))
        if now >= self._due:
            paths = ANYTHING if self._is_anywhere else tuple(sorted(self._burst))
            self._burst, self._is_anywhere = set(), False
            self._first = self._due = math.inf
            self._changed(paths)

    def _try_events(self, now: float) -> None:
        self._next_retry = now + self._times.retry
        if self._places is None:
            self._fall_back("the folder is not there")
            return
        try:
            self._events = FileEvents(
                watched_folders(self._scope), self._arrived, limit=self._watch_limit
            )
        except OSError as error:
            self._fall_back(error.strerror or str(error))
            return
        self._set_state(EVENTS, "")

    def _fall_back(self, detail: str) -> None:
        self._close_events()
        self._schedule_scan(time.monotonic())
        self._set_state(POLLING, f"{detail}; looking every {self._times.poll:g} s")

    def _close_events(self) -> None:
        events, self._events = self._events, None
        if events is not None:
            events.stop()

    def _places_now(self) -> Places | None:
        """Return the folders to watch, each with its device and inode; `None` without a root."""
        if not os.path.isdir(self._root):
            return None
        states = {folder: file_state(Path(folder.real)) for folder in watched_folders(self._scope)}
        return {(folder, state.device, state.inode) for folder, state in states.items()}

    def _scan(self) -> dict[str, tuple[int, int, int]] | None:
        """Look at the stat of all files; `None` when the folder is gone or it is time to end."""
        if not os.path.isdir(self._root):
            return None
        try:
            discovery = discover(self._scope, cancelled=lambda: self._closing)
        except (OSError, Cancelled):
            return None
        return {file.path: (file.size, file.mtime_ns, file.inode) for file in discovery.files}

    def _schedule_scan(self, now: float, *, took: float = 0.0) -> None:
        wait = self._times.poll if self._events is None else self._times.rescan
        self._next_scan = now + max(wait, took / _SCAN_SHARE)

    def _set_state(self, mode: str, detail: str) -> None:
        with self._condition:
            before = self._state
            self._state = replace(before, mode=mode, detail=detail)
            self._condition.notify_all()
        if (before.mode, before.detail) != (mode, detail):
            self._bus.publish(StatusChanged())

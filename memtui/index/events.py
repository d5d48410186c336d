"""File events of the operating system, for the folders that a memory scope covers."""

from __future__ import annotations

import logging
import os
import threading
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from memtui.memory.discover import Scope, absolute_extra
from memtui.memory.paths import Glob, has_magic

if TYPE_CHECKING:
    from watchdog.events import FileSystemEvent, FileSystemEventHandler

_MAX_WATCHES = Path("/proc/sys/fs/inotify/max_user_watches")
_FDINFO = Path("/proc/self/fdinfo")


@dataclass(frozen=True, slots=True)
class WatchedFolder:
    """A folder to watch: the real path that events carry, and the path that memtui knows."""

    real: str
    shown: str
    recursive: bool

    def to_shown(self, path: str) -> str | None:
        """Translate the path of an event; `None` when it is not of this folder."""
        if path == self.real:
            return self.shown
        prefix = self.real.rstrip(os.sep) + os.sep
        return os.path.join(self.shown, path[len(prefix) :]) if path.startswith(prefix) else None


@dataclass(frozen=True, slots=True)
class Change:
    """Something that happened to a path, as memtui knows it."""

    path: str
    folder: bool


class EventSource(Protocol):
    """A running stream of file events."""

    def alive(self) -> bool:
        """Whether events can still arrive."""

    def stop(self) -> None:
        """End the stream; no event is handed over afterwards."""


class WatchLimitReached(OSError):
    """The operating system cannot watch this many folders."""


def watched_folders(scope: Scope) -> tuple[WatchedFolder, ...]:
    """Name the folders that exist now and cover the scope, none of them inside another."""
    found: dict[str, WatchedFolder] = {}
    for path, recursive in _covering(scope):
        real = os.path.realpath(path)
        if os.path.isdir(real):
            recursive = recursive or (real in found and found[real].recursive)
            found[real] = WatchedFolder(real, path, recursive)
    folders = sorted(found.values(), key=lambda folder: folder.real)
    return tuple(
        folder
        for folder in folders
        if not any(
            other.recursive and other is not folder and other.to_shown(folder.real) is not None
            for other in folders
        )
    )


def start_events(
    folders: Iterable[WatchedFolder],
    changed: Callable[[Change], None],
    *,
    limit: Callable[[], int | None] | None = None,
) -> EventSource:
    """Watch folders; `changed` is called on another thread and must be quick.

    Raises `WatchLimitReached` when there are more folders than the system watches (which it
    would not report), and `OSError` when it refuses.
    """
    wanted = tuple(folders)
    most = (limit or inotify_limit)()
    count = _count_folders(wanted, most) if most is not None else 0
    if most is not None and count > most:
        raise WatchLimitReached(
            f"more than {most} folders, the limit of fs.inotify.max_user_watches"
        )
    source = _WatchdogSource(wanted, changed)
    if most is not None and (watched := _inotify_watches()) is not None and watched < count:
        source.stop()
        raise WatchLimitReached(f"only {watched} of {count} folders can be watched")
    return source


def inotify_limit() -> int | None:
    """Read how many folders this user may watch; `None` where there is no such limit."""
    try:
        return int(_MAX_WATCHES.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


class _WatchdogSource:
    """Events by watchdog, with the filter that keeps its own scans from making more of them."""

    def __init__(
        self, folders: tuple[WatchedFolder, ...], changed: Callable[[Change], None]
    ) -> None:
        from watchdog.observers import Observer

        self._folders = folders
        self._changed = changed
        self._stopped = False
        self._observer = Observer()
        self._log = _WatchdogLog(self._overflowed)
        _quieten(self._log)
        try:
            self._start()
        except BaseException:
            # The folders before the one that was refused are watched already.
            logging.getLogger("watchdog").removeHandler(self._log)
            self._observer.stop()
            raise

    def _start(self) -> None:
        from watchdog import events

        for folder in self._folders:
            self._observer.schedule(
                self._handler(),
                folder.real,
                recursive=folder.recursive,
                event_filter=[
                    events.FileCreatedEvent,
                    events.FileModifiedEvent,
                    events.FileMovedEvent,
                    events.FileDeletedEvent,
                    events.FileClosedEvent,
                    events.DirCreatedEvent,
                    events.DirMovedEvent,
                    events.DirDeletedEvent,
                ],
            )
        self._observer.start()

    def alive(self) -> bool:
        """Whether the observer, its emitters and the threads that these read from all run."""
        emitters = tuple(self._observer.emitters)
        readers = [
            part
            for emitter in emitters
            for part in vars(emitter).values()
            if isinstance(part, threading.Thread)
        ]
        return all(thread.is_alive() for thread in (self._observer, *emitters, *readers))

    def stop(self) -> None:
        """Stop the observer and wait for its threads."""
        self._stopped = True
        logging.getLogger("watchdog").removeHandler(self._log)
        self._observer.stop()
        self._observer.join()

    def _overflowed(self) -> None:
        for folder in self._folders:
            self._changed(Change(folder.shown, True))

    def _handler(self) -> FileSystemEventHandler:
        from watchdog.events import FileSystemEventHandler

        source = self

        class Handler(FileSystemEventHandler):
            def on_any_event(self, event: FileSystemEvent) -> None:
                source.hand_over(event)

        return Handler()

    def hand_over(self, event: FileSystemEvent) -> None:
        """Tell both ends of a move: editors save by renaming a temporary file."""
        for path in (event.src_path, event.dest_path):
            if not path or self._stopped:
                continue
            for folder in self._folders:
                shown = folder.to_shown(os.fsdecode(path))
                if shown is not None:
                    self._changed(Change(shown, bool(event.is_directory)))
                    break


class _WatchdogLog(logging.Handler):
    """Hears from watchdog's log, its only sign of it, that events were lost."""

    def __init__(self, overflowed: Callable[[], None]) -> None:
        super().__init__(logging.WARNING)
        self._overflowed = overflowed

    def emit(self, record: logging.LogRecord) -> None:
        """Take a message in instead of writing it to the terminal."""
        if "overflow" in record.getMessage().lower():
            self._overflowed()


def _quieten(log: logging.Handler) -> None:
    """Keep watchdog's messages and warnings off the terminal, which belongs to the interface."""
    logging.getLogger("watchdog").addHandler(log)
    # A folder made while its parent is being added is added twice, which does no harm.
    warnings.filterwarnings("ignore", message="Callback with id", category=RuntimeWarning)


def _covering(scope: Scope) -> list[tuple[str, bool]]:
    root = os.path.abspath(scope.root)
    folders = [(root, True)]
    for extra in filter(str.strip, scope.extra_paths):
        path = absolute_extra(extra, root)
        if has_magic(extra) and not os.path.lexists(path):
            path = Glob.parse(path).base
        folders.append((path, True) if os.path.isdir(path) else (os.path.dirname(path), False))
    return folders


def _count_folders(folders: Iterable[WatchedFolder], most: int) -> int:
    """Count the folders that watching takes, no further than one beyond the limit."""
    count = 0
    for folder in folders:
        if not folder.recursive:
            count += 1
            continue
        for _ in os.walk(folder.real):
            count += 1
            if count > most:
                return count
    return count


def _inotify_watches() -> int | None:
    """Count the watches that this process really has; `None` where that cannot be seen."""
    try:
        return sum(
            info.read_text(encoding="ascii", errors="replace").count("inotify wd:")
            for info in _FDINFO.iterdir()
            if _is_inotify(info.name)
        )
    except OSError:
        return None


def _is_inotify(descriptor: str) -> bool:
    try:
        return "inotify" in os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return False

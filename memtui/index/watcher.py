"""Notice that files changed: by events where they work, by looking again where they do not."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from memtui.bus import Bus, FilesChanged, StatusChanged
from memtui.errors import Cancelled
from memtui.index.events import (
    Change,
    EventSource,
    WatchedFolder,
    start_events,
    watched_folders,
)
from memtui.memory.discover import Scope, discover, is_candidate, may_contain
from memtui.memory.paths import stored_path
from memtui.model import WatcherState

EVENTS = "events"
POLLING = "polling"
OFF = "off"

# Looking at very many files takes a while; it may take this part of the time at most.
_SCAN_SHARE = 0.05

Scan = dict[str, tuple[int, int, int]]
Places = frozenset[tuple[WatchedFolder, tuple[int, int] | None]]


@dataclass(frozen=True, slots=True)
class WatchTimes:
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

    `changed` gets the paths, relative as in the index, or none when anything may have changed;
    it runs on the watcher's thread. It is called once after the start, for what changed before.
    """

    def __init__(
        self,
        scope: Scope,
        bus: Bus,
        changed: Callable[[tuple[str, ...]], None],
        *,
        times: WatchTimes | None = None,
        watch_limit: Callable[[], int | None] | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._scope = scope
        self._bus = bus
        self._changed = changed
        self._times = times or WatchTimes()
        self._watch_limit = watch_limit
        self._now = now
        self._root = os.path.abspath(scope.root)
        self._everywhere = Change(self._root, True)
        self._condition = threading.Condition()
        self._incoming: dict[Change, None] = {}
        self._closing = False
        self._state = WatcherState(OFF, "not started")
        self._debouncer = Debouncer(quiet=self._times.quiet, longest=self._times.longest)
        self._events: EventSource | None = None
        self._places: Places | None = None
        self._known: Scan | None = None
        self._next_scan = 0.0
        self._next_check = 0.0
        self._next_retry = 0.0
        self._thread = threading.Thread(target=self._run, name="memtui-watch", daemon=True)

    def start(self) -> None:
        """Begin to watch; folders are counted and watched on the watcher's own thread."""
        self._thread.start()

    def state(self) -> WatcherState:
        """Tell how changes are noticed; from any thread."""
        with self._condition:
            return self._state

    def wait_for(self, mode: str, timeout: float) -> bool:
        """Wait until changes are noticed in this way; whether they are."""
        with self._condition:
            return self._condition.wait_for(lambda: self._state.mode == mode, timeout)

    def stop(self, timeout: float = 10.0) -> None:
        """End watching."""
        with self._condition:
            self._closing = True
            self._condition.notify_all()
        if self._thread.ident is not None:
            self._thread.join(timeout)

    # --- events, on watchdog's thread -----------------------------------------------------

    def _arrived(self, change: Change) -> None:
        if change in self._incoming:
            return
        if self._debouncer.anything:
            # In a flood, asking of each file whether it counts takes longer than what it saves.
            change = self._everywhere
        else:
            belongs = may_contain if change.folder else is_candidate
            if not belongs(Path(change.path), self._scope):
                return
        with self._condition:
            self._incoming[change] = None
            self._condition.notify_all()

    # --- the watcher's thread -------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._guarded(self._open)
            while self._wait():
                self._guarded(lambda: self._step(time.monotonic()))
        finally:
            self._close_events()
            self._set_state(OFF, "stopped")

    def _guarded(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:
            # Watching goes on by looking again; the status says why.
            self._close_events()
            self._fall_back(f"watching failed: {type(error).__name__}: {error}")

    def _wait(self) -> bool:
        """Sleep until something is due or arrives; `False` when it is time to end."""
        deadlines = [self._next_scan, self._next_check]
        if (due := self._debouncer.due()) is not None:
            deadlines.append(due)
        with self._condition:
            self._condition.wait_for(
                lambda: self._closing or self._incoming,
                max(0.0, min(deadlines) - time.monotonic()),
            )
            return not self._closing

    def _step(self, now: float) -> None:
        with self._condition:
            incoming, self._incoming = tuple(self._incoming), {}
        if incoming:
            folder = any(change.folder for change in incoming)
            self._note(
                ANYTHING
                if folder
                else tuple(stored_path(change.path, self._root) for change in incoming),
                now,
            )
        if now >= self._next_check:
            self._next_check = now + self._times.check
            self._check(now)
        if now >= self._next_scan:
            self._look_at_all(now)
        due = self._debouncer.due()
        if due is not None and now >= due:
            self._changed(self._debouncer.take())

    def _note(self, paths: tuple[str, ...], now: float) -> None:
        with self._condition:
            self._state = replace(self._state, last_event=self._now())
        new = self._debouncer.note(paths, now)
        if new is not None:
            self._bus.publish(FilesChanged(new))

    def _open(self) -> None:
        """Try for events; look at all files for the first time; ask for a first sync."""
        now = time.monotonic()
        self._debouncer.note(ANYTHING, now)
        self._next_check = now + self._times.check
        self._try_events(now)
        self._known = self._scan()
        self._schedule_scan(now)

    def _try_events(self, now: float) -> None:
        self._next_retry = now + self._times.retry
        self._places = self._places_now()
        if self._places is None:
            self._fall_back("the folder is not there")
            return
        try:
            self._events = start_events(
                watched_folders(self._scope), self._arrived, limit=self._watch_limit
            )
        except OSError as error:
            self._fall_back(error.strerror or str(error))
            return
        self._set_state(EVENTS, "")

    def _check(self, now: float) -> None:
        """See whether the folders are still the same ones and events still flow."""
        places = self._places_now()
        if places != self._places:
            self._close_events()
            self._try_events(now)
            self._schedule_scan(now)
            # In a folder that came or came back, everything may have changed.
            self._note(ANYTHING, now)
        elif self._events is not None and not self._events.alive():
            self._close_events()
            self._fall_back("file events stopped")
        elif self._events is None and places is not None and now >= self._next_retry:
            self._try_events(now)

    def _look_at_all(self, now: float) -> None:
        began = time.monotonic()
        found = self._scan()
        before = self._known
        if found is not None:
            self._known = found
            if before is not None:
                changed = _differences(before, found)
                if changed:
                    self._note(changed, now)
        self._schedule_scan(time.monotonic(), took=time.monotonic() - began)

    def _scan(self) -> Scan | None:
        """Look at the stat of all files; `None` when the folder is gone or it is time to end."""
        if _identity(self._root) is None:
            return None
        try:
            discovery = discover(self._scope, cancelled=lambda: self._closing)
        except (OSError, Cancelled):
            return None
        return {file.path: (file.size, file.mtime_ns, file.inode) for file in discovery.files}

    def _schedule_scan(self, now: float, *, took: float = 0.0) -> None:
        times = self._times
        wait = times.poll if self._events is None else times.rescan
        self._next_scan = now + max(wait, took / _SCAN_SHARE)

    def _fall_back(self, detail: str) -> None:
        self._events = None
        self._schedule_scan(time.monotonic())
        self._set_state(POLLING, f"{detail}; looking every {self._times.poll:g} s")

    def _close_events(self) -> None:
        events, self._events = self._events, None
        if events is not None:
            events.stop()

    def _places_now(self) -> Places | None:
        """Tell which folders there are to watch; `None` while the root is not there."""
        if _identity(self._root) is None:
            return None
        folders = watched_folders(self._scope)
        return frozenset((folder, _identity(folder.real)) for folder in folders)

    def _set_state(self, mode: str, detail: str) -> None:
        with self._condition:
            before = self._state
            self._state = replace(before, mode=mode, detail=detail)
            self._condition.notify_all()
        if (before.mode, before.detail) != (mode, detail):
            self._bus.publish(StatusChanged())


def _identity(folder: str) -> tuple[int, int] | None:
    try:
        found = os.stat(folder)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _differences(before: Scan, after: Scan) -> tuple[str, ...]:
    return tuple(sorted(path for path, _ in before.items() ^ after.items()))


ANYTHING: tuple[str, ...] = ()
"""Paths of a change that may be anywhere."""

# More names than this are no longer worth keeping apart.
_MOST_PATHS = 10_000


class Debouncer:
    """Gathers changed paths until it was quiet for `quiet` seconds, or `longest` have passed."""

    def __init__(self, *, quiet: float, longest: float) -> None:
        self._quiet = quiet
        self._longest = longest
        self._first: float | None = None
        self._last = 0.0
        self._paths: dict[str, None] = {}
        self._anything = False

    @property
    def anything(self) -> bool:
        """Whether this burst is known to be anywhere: more names tell nothing."""
        return self._anything

    def note(self, paths: Iterable[str], now: float) -> tuple[str, ...] | None:
        """Add changed paths (none: anything); returns what is new about it, `None` for nothing."""
        if self._first is None:
            self._first = now
        self._last = now
        wanted = tuple(paths)
        if not wanted or len(self._paths) + len(wanted) > _MOST_PATHS:
            known, self._anything = self._anything, True
            return None if known else ANYTHING
        new = tuple(path for path in wanted if path not in self._paths)
        self._paths.update(dict.fromkeys(new))
        return new or None

    def due(self) -> float | None:
        """Tell when the burst counts as over; `None` without one."""
        if self._first is None:
            return None
        return min(self._last + self._quiet, self._first + self._longest)

    def take(self) -> tuple[str, ...]:
        """End the burst and return its paths; none when anything may have changed."""
        paths = ANYTHING if self._anything else tuple(self._paths)
        self._first = None
        self._paths = {}
        self._anything = False
        return paths

"""Follow transcripts while they grow: a look by stat now and then, a sync when enough is new."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from memtui.errors import Cancelled, MemtuiError
from memtui.index.database import DatabaseError
from memtui.index.index_rows import KnownFile
from memtui.index.transcripts.discovery import listed_sessions
from memtui.memory.discover import Discovery
from memtui.memory.documents import open_regular
from memtui.model import SourceFile
from memtui.settings.schema import TranscriptSettings

# Looking at very many transcripts takes a while; it may take this part of the time at most.
_SCAN_SHARE = 0.05

Stamp = tuple[int, int, int]
_GONE: Stamp = (-1, -1, -1)


class TranscriptFollower:
    """One daemon thread that looks at the transcripts and calls `changed` with what is due.

    `scan` finds them, until what it is given says that it is time to end; `indexed` reads what the
    index holds of them. Both run, as `changed` does, on the follower's thread.
    """

    def __init__(
        self,
        scan: Callable[[Callable[[], bool]], Discovery],
        indexed: Callable[[], Mapping[str, KnownFile]],
        changed: Callable[[tuple[str, ...]], None],
        settings: TranscriptSettings,
        *,
        failed: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Deltas of the settings below 1 stand for any growth."""
        self._scan = scan
        self._indexed = indexed
        self._changed = changed
        self._settings = settings
        self._failed = failed
        self._clock = clock
        self._last: dict[str, Stamp] | None = None
        self._reported: dict[str, Stamp] = {}
        """The files that were due, as they were then: some may be unreadable."""
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memtui-follow", daemon=True)

    def start(self) -> None:
        """Begin to follow, with a first look after one interval."""
        self._thread.start()

    def stop(self, timeout: float = 10.0) -> None:
        """End following."""
        self._closing.set()
        if self._thread.ident is not None:
            self._thread.join(timeout)

    def look(self) -> float:
        """Look once; the seconds until the next look, so that looking stays a small load."""
        began = self._clock()
        try:
            if due := self._due(self._scan(self._closing.is_set)):
                self._changed(due)
        except (OSError, Cancelled, MemtuiError) as error:
            if not isinstance(error, Cancelled):
                self._failed(f"cannot look at the transcripts: {error}")
        return max(self._settings.debounce_seconds, (self._clock() - began) / _SCAN_SHARE)

    def _due(self, discovery: Discovery) -> tuple[str, ...]:
        """Return the paths that are new, gone, another file, shorter, or longer by a delta."""
        files = {file.path: file for file in discovery.files}
        stamps = {path: (file.size, file.mtime_ns, file.inode) for path, file in files.items()}
        if stamps == self._last:
            return ()
        rows = self._indexed()
        self._last = dict(stamps)
        gone = (path for path in rows if path not in files)
        stamps |= {path: _GONE for path in gone if not path.startswith(discovery.unread)}
        due = tuple(
            path
            for path, stamp in stamps.items()
            if self._reported.get(path) != stamp
            and (path not in files or self._has_grown(files[path], stamp, rows.get(path)))
        )
        reported = {path: stamp for path, stamp in self._reported.items() if path in stamps}
        self._reported = reported | {path: stamps[path] for path in due}
        return due

    def _has_grown(self, file: SourceFile, stamp: Stamp, row: KnownFile | None) -> bool:
        if row is None or stamp == (row.size, row.mtime_ns, row.inode):
            return row is None
        if row.inode != file.inode or file.size <= row.size:
            return True
        size, messages = self._settings.delta_bytes, self._settings.delta_messages
        if size <= 0 or messages <= 0 or file.size - row.size >= size:
            return True
        try:
            if file.session:
                sessions = listed_sessions(file.absolute)
                events = {one.session: one.events for one in sessions}
                return events.get(file.session, 0) - row.lines >= messages
            with open(open_regular(file.absolute), "rb") as stream:
                # Less than the delta in bytes.
                stream.seek(row.size)
                return stream.read(file.size - row.size).count(b"\n") >= messages
        except (OSError, DatabaseError, MemtuiError):
            # At work, locked or gone meanwhile: the next look tells.
            return False

    def _run(self) -> None:
        wait: float = self._settings.debounce_seconds
        while not self._closing.wait(wait):
            wait = self.look()

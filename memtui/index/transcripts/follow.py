"""Follow transcripts while they grow: a look by stat now and then, a sync when enough is new."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from memtui.errors import Cancelled, MemtuiError
from memtui.index.database import DatabaseError
from memtui.index.rows import KnownFile
from memtui.index.transcripts.discovery import listed_sessions
from memtui.memory.discover import Discovery
from memtui.memory.documents import open_regular
from memtui.model import SourceFile
from memtui.settings.schema import TranscriptSettings

# Looking at very many transcripts takes a while; it may take this part of the time at most.
_SCAN_SHARE = 0.05
_PIECE = 1 << 20

Stamp = tuple[int, int, int]
_GONE: Stamp = (-1, -1, -1)


class Growth:
    """Tells which transcripts have changed by so much that they should be indexed.

    `known` is what the index holds of them. One that was told of is not told of again before it
    changes once more: it may be one that cannot be read.
    """

    def __init__(
        self, settings: TranscriptSettings, known: Callable[[], Mapping[str, KnownFile]]
    ) -> None:
        """Deltas of the settings below 1 stand for any growth."""
        self._settings = settings
        self._known = known
        self._told: dict[str, Stamp] = {}
        self._counted: dict[str, tuple[int, int, int]] = {}
        self._last: dict[str, Stamp] | None = None

    def due(self, found: Discovery) -> tuple[str, ...]:
        """The paths that are new, gone, another file, shorter, or longer by a delta."""
        here = {file.path: _stamp(file) for file in found.files}
        if here == self._last:
            return ()
        known = self._known()
        self._last = here
        due = [file.path for file in found.files if self._is_due(file, known.get(file.path))]
        gone = [p for p in known if p not in here and not p.startswith(found.unread)]
        due += [path for path in gone if self._told.get(path) != _GONE]
        stamps = here | dict.fromkeys(gone, _GONE)
        told = self._told | {path: stamps[path] for path in due}
        self._told = {path: stamp for path, stamp in told.items() if path in stamps}
        self._counted = {path: at for path, at in self._counted.items() if path in here}
        return tuple(due)

    def _is_due(self, file: SourceFile, known: KnownFile | None) -> bool:
        stamp = _stamp(file)
        if self._told.get(file.path) == stamp:
            return False
        if known is None:
            return True
        if stamp == (known.size, known.mtime_ns, known.inode):
            return False
        if known.inode != file.inode or file.size <= known.size:
            return True
        size, messages = self._settings.delta_bytes, self._settings.delta_messages
        if size <= 0 or messages <= 0 or file.size - known.size >= size:
            return True
        if file.session:
            return _events(file) - known.lines >= messages
        return self._lines(file, known.size) >= messages

    def _lines(self, file: SourceFile, begin: int) -> int:
        """How many lines have come since byte `begin`; what was counted is not read again."""
        since, start, count = self._counted.get(file.path, (begin, begin, 0))
        if since != begin or start > file.size:
            start, count = begin, 0
        try:
            count += _line_feeds(file, start)
        except OSError:
            # Gone or locked meanwhile: the next look tells.
            return count
        self._counted[file.path] = (begin, file.size, count)
        return count


def _events(file: SourceFile) -> int:
    """How many events the session has by now, as its database was listed last."""
    try:
        sessions = listed_sessions(file.absolute)
    except (OSError, DatabaseError, MemtuiError):
        # At work or gone meanwhile: the next look tells.
        return 0
    return next((one.events for one in sessions if one.session == file.session), 0)


def _line_feeds(file: SourceFile, start: int) -> int:
    count = 0
    with open(open_regular(file.absolute), "rb", buffering=0) as stream:
        stream.seek(start)
        left = file.size - start
        while left > 0 and (piece := stream.read(min(_PIECE, left))):
            count += piece.count(b"\n")
            left -= len(piece)
    return count


def _stamp(file: SourceFile) -> Stamp:
    return file.size, file.mtime_ns, file.inode


class TranscriptFollower:
    """One daemon thread that looks at the transcripts and calls `changed` with what is due.

    `scan` finds them; it runs, as `changed` does, on the follower's thread, and so does what
    `growth` asks of the index.
    """

    def __init__(
        self,
        scan: Callable[[], Discovery],
        growth: Growth,
        changed: Callable[[tuple[str, ...]], None],
        *,
        seconds: float,
        failed: Callable[[str], None],
        closed: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._scan = scan
        self._growth = growth
        self._changed = changed
        self._seconds = seconds
        self._failed = failed
        self._closed = closed
        self._clock = clock
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

    @property
    def is_closing(self) -> bool:
        """Whether it is time to end; for what looks at many files."""
        return self._closing.is_set()

    def look(self) -> float:
        """Look once; the seconds until the next look, so that looking stays a small load."""
        began = self._clock()
        try:
            due = self._growth.due(self._scan())
        except (OSError, Cancelled, MemtuiError) as error:
            if not isinstance(error, Cancelled):
                self._failed(f"cannot look at the transcripts: {error}")
            due = ()
        if due:
            self._changed(due)
        return max(self._seconds, (self._clock() - began) / _SCAN_SHARE)

    def _run(self) -> None:
        wait = self._seconds
        try:
            while not self._closing.wait(wait):
                wait = self.look()
        finally:
            self._closed()

"""The folder of an index: its generations, the live one for readers, and the writer's lock.

A generation is one database file. A new one is built under a name that no reader looks at and
goes live when the file `CURRENT`, which names it, is replaced. A crash at any instruction leaves
the old generation live or the new one, and at worst files that `clean` removes.
"""

from __future__ import annotations

import os
import re
import threading
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from memtui import errors
from memtui.index import database
from memtui.retrieval.connection import find_stems
from memtui.settings import files

_CURRENT = "CURRENT"
_OWNER = "writer.json"
_GENERATION = re.compile(r"index-(\d{1,15})\.db(\.building)?(-wal|-shm|-journal)?")
# Long enough to outlast another process that only asks who holds the lock.
_LOCK_SECONDS = 0.3
_OPENING_TRIES = 3
_OLDEST_SCHEMA = 4  # An index of before lacks tables that are read: it is made anew.


class IndexFolder:
    """The files of one workspace's index: `index-<generation>.db`, `cache.db`, the lock."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.current_path = folder / _CURRENT
        self.cache_path = folder / "cache.db"
        self.lock_path = folder / "writer.lock"
        self.owner_path = folder / _OWNER

    def create(self) -> None:
        """Make the folder, for its owner only; raises `IndexUnusable` where that is impossible."""
        try:
            made = [path for path in (self.folder, *self.folder.parents) if not path.exists()]
            files.make_private(self.folder)
        except OSError as error:
            raise errors.IndexUnusable(
                f"the index folder {self.folder} cannot be made: {error.strerror}",
                hint="set XDG_DATA_HOME or index.data_dir to a folder that you may write in",
            ) from error
        for path in made:
            # A folder above may be one that this user can make folders in, but not read.
            with suppress(PermissionError):
                files.sync_folder(path.parent)

    def path(self, generation: int) -> Path:
        return self.folder / f"index-{generation}.db"

    def current(self) -> int | None:
        """Return the live generation; `None` before the first one, or when its file is gone."""
        try:
            name = self.current_path.read_bytes()[:100].decode("ascii", "replace").strip()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise errors.IndexUnusable(
                f"{self.current_path} cannot be read: {error.strerror}",
                hint="check the folder's permissions",
            ) from error
        match = re.fullmatch(r"index-(\d{1,15})\.db", name)
        return int(match[1]) if match is not None and (self.folder / name).exists() else None

    def begin(self) -> Path:
        """Return the file in which the next generation is built; nothing is there yet."""
        self.create()
        names = (_GENERATION.fullmatch(path.name) for path in self.folder.glob("index-*"))
        newest = max((int(match[1]) for match in names if match is not None), default=0)
        return self.folder / f"index-{newest + 1}.db.building"

    def commit(self, building: Path, *, cancelled: errors.IsCancelled = errors.never) -> int:
        """Check a built file and make it the live generation; its connections must be closed.

        Raises `IndexDamaged` when the file does not pass SQLite's check, `Interrupted` when
        `cancelled` says so during the check; the old generation is then still live.
        """
        live = building.with_suffix("")
        with database.mapped_errors(building):
            with closing(database.open_database(building)) as connection:
                with database.interruptible(connection, cancelled):
                    wrong = database.damage(connection)
                if wrong is not None:
                    raise database.IndexDamaged(
                        f"the new index is damaged: {wrong}", hint="check the disk"
                    )
                database.checkpoint(connection)
            journal = building.with_name(f"{building.name}-wal")
            if journal.exists() and journal.stat().st_size:
                raise errors.IndexUnusable(f"{building.name} is still in use", hint="try again")
            with building.open("rb+") as file:
                os.fsync(file.fileno())
            os.replace(building, live)
            files.sync_folder(self.folder)
            files.StateFolder(self.folder).write_text(_CURRENT, f"{live.name}\n")
            files.sync_folder(self.folder)
        return int(live.stem.removeprefix("index-"))

    def discard(self, building: Path) -> None:
        """Remove a file that was being built, with its journals."""
        for suffix in ("", "-wal", "-shm", "-journal"):
            building.with_name(building.name + suffix).unlink(missing_ok=True)

    def clean(self) -> None:
        """Remove what crashes and swaps left behind. Hold the writer lock.

        Files that another program keeps open (Windows) stay until the next time.
        """
        live = self.current()
        left = list(self.folder.glob(f"{files.TEMPORARY}*"))
        for path in self.folder.glob("index-*"):
            match = _GENERATION.fullmatch(path.name)
            # Without a pointer no generation is known to be superfluous.
            if match is not None and (match[2] or live not in (None, int(match[1]))):
                left.append(path)
        for path in left:
            with suppress(OSError):
                path.unlink()


class LiveIndex:
    """A read-only connection to the live generation; for one thread.

    `CURRENT` is read before each use, and the connection is opened again when
    it names another generation.
    """

    def __init__(self, folder: IndexFolder) -> None:
        self.generation = 0
        """The generation of the last `connection`; 0 before the first."""
        self.path = folder.path(0)
        """The file of the last `connection`."""
        self._folder = folder
        self._connection: database.Connection | None = None
        self._file = files.NO_FILE

    def connection(self) -> database.Connection:
        """Return a connection to the live generation.

        Raises `IndexMissing` when there is none, `IndexUnusable` when it cannot be read.
        """
        before, self._file = self._file, files.file_stamp(self.path)
        # Another file, or one that was cut: read through the old mapping, that kills.
        is_same = self._file.continues(before) and self._folder.current() == self.generation
        if self._connection is not None and is_same:
            return self._connection
        self.close()
        for _ in range(_OPENING_TRIES):
            generation = self._folder.current()
            # Where another generation went live between two looks, that one is opened.
            if generation is None:
                continue
            path = self._folder.path(generation)
            try:
                connection = database.open_database(path, readonly=True)
                with errors.undone_on_error(connection.close), database.mapped_errors(path):
                    database.check_version(database.read_meta(connection), path, _OLDEST_SCHEMA)
                    find_stems(connection)
            except (errors.IndexMissing, errors.IndexUnusable):
                # With another generation the files of this one go, also while they are opened.
                if self._folder.current() == generation:
                    raise
                continue
            self.generation, self.path = generation, path
            self._file = files.file_stamp(path)
            self._connection = connection
            return connection
        raise errors.IndexMissing(
            f"there is no index in {self._folder.folder}", hint="`memtui index` builds it"
        )

    def stamp(self) -> tuple[int, int]:
        """Return the generation of the last `connection`, and a number that commits change."""
        assert self._connection is not None
        return self.generation, database.number(self._connection, "PRAGMA data_version")

    def close(self) -> None:
        """Close the connection; the next use opens it again."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None


class Owner(Struct, frozen=True):
    """The process that holds the writer lock, and since when, as it wrote itself down."""

    pid: int
    started: datetime


class WriterLock:
    """The right to write to an index: one process at a time, free again when its owner dies.

    Usable from any thread of the process; acquiring it twice is once.
    """

    def __init__(self, folder: IndexFolder) -> None:
        self._folder = folder
        self._guard = threading.Lock()
        self._locked = files.NO_FILE
        # Imported where a lock is made: filelock imports asyncio, for which no search has to wait.
        from filelock import FileLock

        # The index thread releases what another thread may have taken.
        self._lock = FileLock(folder.lock_path, mode=0o600, thread_local=False)

    @property
    def is_held(self) -> bool:
        return self._lock.is_locked

    def try_acquire(self, *, seconds: float = _LOCK_SECONDS) -> bool:
        """Take the lock, waiting `seconds` for it, and tell whether it is held now."""
        from filelock import Timeout

        with self._guard:
            if self.is_held:
                return True
            self._folder.create()
            owner = {"pid": os.getpid(), "started": datetime.now(UTC).isoformat(timespec="seconds")}
            problem = f"the lock {self._folder.lock_path} cannot be taken"
            try:
                self._lock.acquire(timeout=seconds, poll_interval=0.02)
                problem = f"{self._folder.owner_path} cannot be written"
                files.StateFolder(self._folder.folder).write_json(_OWNER, owner)
            except Timeout:
                return False
            except OSError as error:
                self._lock.release()
                raise errors.IndexUnusable(
                    f"{problem}: {error.strerror or error}",
                    hint="check the disk and the folder's permissions",
                ) from error
            self._locked = files.file_stamp(self._folder.lock_path)
            # Whoever reads the index says why it cannot be read.
            with suppress(errors.IndexUnusable):
                self._folder.clean()
            return True

    def confirm(self) -> bool:
        """Tell whether the lock is held; take it again where its file was deleted or replaced.

        Another process can lock a new file of that name, and both would write.
        """
        with self._guard:
            if not self.is_held:
                return False
            if files.file_stamp(self._folder.lock_path).continues(self._locked):
                return True
            self._lock.release()
        return self.try_acquire()

    def release(self) -> None:
        """Give the lock back; without effect when it is not held."""
        with self._guard:
            if self.is_held:
                with suppress(OSError):
                    self._folder.owner_path.unlink()
                self._lock.release()

    def refusal(self) -> errors.WriterLocked:
        """Return the error that says who is writing."""
        owner = self._written_owner()
        since = f"{owner.started.astimezone():%Y-%m-%d %H:%M}" if owner else ""
        who = f" (process {owner.pid}, since {since})" if owner else ""
        return errors.WriterLocked(
            f"another memtui{who} writes this index",
            hint="searching works meanwhile; close the other memtui to write from here",
        )

    def writer(self) -> str:
        """Return who holds the lock: `this process`, `process 1234`, or `none`.

        A crashed owner holds nothing.
        """
        from filelock import FileLock, Timeout

        if self.is_held:
            return "this process"
        if not self._folder.lock_path.exists():
            return "none"
        with suppress(Timeout, OSError), FileLock(self._folder.lock_path, timeout=0, mode=0o600):
            return "none"
        owner = self._written_owner()
        return f"process {owner.pid}" if owner is not None else "another process"

    def _written_owner(self) -> Owner | None:
        """Read who wrote itself down last: the holder, if the lock is held at all."""
        with suppress(OSError, ValueError, RecursionError):
            return msgspec.json.decode(self._folder.owner_path.read_bytes(), type=Owner)
        return None

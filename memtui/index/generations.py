"""The folder of an index: its generations, the pointer to the live one, and the writer's lock.

A generation is one database file. A new one is built under a name that no reader looks at and
goes live when the file `CURRENT`, which names it, is replaced. A crash at any instruction leaves
the old generation live or the new one, and at worst files that `clean` removes.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from memtui.errors import IndexUnusable, WriterLocked
from memtui.index.database import (
    IndexDamaged,
    checkpoint,
    damage,
    interruptible,
    mapped_errors,
    open_database,
)
from memtui.settings.storage import make_private, sync_folder

if TYPE_CHECKING:
    from filelock import BaseFileLock

_CURRENT = "CURRENT"
_OWNER = "writer.json"
# What a crash leaves of the small files that only the holder of the lock replaces.
_HALF_WRITTEN = tuple(f"{name}.tmp" for name in (_CURRENT, _OWNER, "batches.json", "provider.json"))
_BUILDING = ".building"
_GENERATION = re.compile(r"index-(\d{1,15})\.db(\.building)?(-wal|-shm|-journal)?")
# Long enough to outlast another process that only asks who holds the lock.
_LOCK_SECONDS = 0.3


def _never() -> bool:
    return False


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
            make_private(self.folder)
        except OSError as error:
            raise IndexUnusable(
                f"the index folder {self.folder} cannot be made: {error.strerror}",
                hint="set another data folder, or check the permissions",
            ) from error
        for path in made:
            # A folder above may be one that this user can make folders in, but not read.
            with suppress(PermissionError):
                sync_folder(path.parent)

    def path(self, generation: int) -> Path:
        """Return the database file of a generation."""
        return self.folder / f"index-{generation}.db"

    def current(self) -> int | None:
        """Return the live generation; `None` before the first one, or when its file is gone."""
        generation = self.named()
        return generation if generation is not None and self.path(generation).exists() else None

    def named(self) -> int | None:
        """Return the generation that `CURRENT` names, whether or not its file is there."""
        try:
            name = self.current_path.read_bytes()[:100].decode("ascii", "replace").strip()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise IndexUnusable(
                f"{self.current_path} cannot be read: {error.strerror}",
                hint="check the folder's permissions",
            ) from error
        match = re.fullmatch(r"index-(\d{1,18})\.db", name)
        return None if match is None else int(match[1])

    def begin(self) -> Path:
        """Return the file in which the next generation is built; nothing is there yet."""
        self.create()
        newest = max((generation for generation, _ in self._generation_files()), default=0)
        building = self.folder / f"index-{newest + 1}.db{_BUILDING}"
        self.discard(building)
        return building

    def commit(self, building: Path, *, cancelled: Callable[[], bool] = _never) -> int:
        """Check a built file and make it the live generation; its connections must be closed.

        Raises `IndexDamaged` when the file does not pass SQLite's check, `Interrupted` when
        `cancelled` says so during the check; the old generation is then still live.
        """
        match = _GENERATION.fullmatch(building.name)
        if match is None or match[2] is None:
            raise ValueError(f"{building.name} is no generation that is being built")
        generation = int(match[1])
        with mapped_errors(building):
            _seal(building, cancelled)
            live = self.path(generation)
            descriptor = os.open(building, os.O_RDWR)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            os.replace(building, live)
            sync_folder(self.folder)
            _replace_text(self.current_path, f"{live.name}\n", sync=True)
            sync_folder(self.folder)
        return generation

    def discard(self, building: Path) -> None:
        """Remove a file that was being built, with its journals."""
        for suffix in ("", "-wal", "-shm", "-journal"):
            building.with_name(building.name + suffix).unlink(missing_ok=True)

    def clean(self) -> tuple[str, ...]:
        """Remove what crashes and swaps left behind; returns the names. Hold the writer lock.

        Files that another program keeps open (Windows) stay until the next time.
        """
        live = self.current()
        superfluous = [self.folder / name for name in _HALF_WRITTEN]
        for generation, path in self._generation_files():
            # Without a pointer no generation is known to be superfluous.
            if _BUILDING in path.name or (live is not None and generation != live):
                superfluous.append(path)
        removed = []
        for path in superfluous:
            with suppress(OSError):
                path.unlink()
                removed.append(path.name)
        return tuple(sorted(removed))

    def _generation_files(self) -> list[tuple[int, Path]]:
        try:
            paths = list(self.folder.iterdir())
        except FileNotFoundError:
            return []
        matched = [(_GENERATION.fullmatch(path.name), path) for path in paths]
        return [(int(match[1]), path) for match, path in matched if match is not None]


def _seal(building: Path, cancelled: Callable[[], bool]) -> None:
    connection = open_database(building)
    try:
        with interruptible(connection, cancelled):
            wrong = damage(connection)
        if wrong is not None:
            raise IndexDamaged(f"the new index is damaged: {wrong}", hint="check the disk")
        checkpoint(connection)
    finally:
        connection.close()
    journal = building.with_name(f"{building.name}-wal")
    if journal.exists() and journal.stat().st_size:
        raise IndexUnusable(f"{building.name} is still in use", hint="try again")


def _replace_text(path: Path, text: str, *, sync: bool = False) -> None:
    new = path.with_name(f"{path.name}.tmp")
    descriptor = os.open(new, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as stream:
        stream.write(text)
        if sync:
            stream.flush()
            os.fsync(stream.fileno())
    os.replace(new, path)


@dataclass(frozen=True, slots=True)
class Owner:
    """The process that holds the writer lock, as it wrote itself down."""

    pid: int
    started: str
    """ISO 8601, UTC."""


class WriterLock:
    """The right to write to an index: one process at a time, free again when its owner dies.

    Usable from any thread of the process; acquiring it twice is once.
    """

    def __init__(self, folder: IndexFolder) -> None:
        self.held = False
        """Whether this object holds the lock."""
        self._folder = folder
        self._guard = threading.Lock()
        self._identity: tuple[int, int] | None = None
        self._lock = _file_lock(folder.lock_path)

    def try_acquire(self, *, seconds: float = _LOCK_SECONDS) -> bool:
        """Take the lock unless somebody has it for `seconds` still; whether it is held now."""
        from filelock import Timeout

        with self._guard:
            if self.held:
                return True
            self._folder.create()
            try:
                self._lock.acquire(timeout=seconds, poll_interval=0.02)
            except Timeout:
                return False
            except OSError as error:
                raise IndexUnusable(
                    f"the lock {self._folder.lock_path} cannot be taken: {error}",
                    hint="check the folder's permissions",
                ) from error
            started = datetime.now(UTC).isoformat(timespec="seconds")
            try:
                owner = json.dumps({"pid": os.getpid(), "started": started})
                _replace_text(self._folder.owner_path, owner)
            except OSError as error:
                self._lock.release()
                raise IndexUnusable(
                    f"{self._folder.owner_path} cannot be written: {error.strerror}",
                    hint="check the disk and the folder's permissions",
                ) from error
            self._identity = _identity(self._folder.lock_path)
            self.held = True
            return True

    def confirm(self) -> bool:
        """Whether the lock is held, taking it again where its file was deleted or replaced.

        Another process can lock a new file of that name, and both would write.
        """
        with self._guard:
            if not self.held:
                return False
            if _identity(self._folder.lock_path) == self._identity:
                return True
            self.held = False
            self._lock.release()
        return self.try_acquire()

    def release(self) -> None:
        """Give the lock back; without effect when it is not held."""
        with self._guard:
            if self.held:
                with suppress(OSError):
                    self._folder.owner_path.unlink()
                self.held = False
                self._lock.release()

    def refusal(self) -> WriterLocked:
        """Make the error that says who is writing."""
        owner = self._written_owner()
        who = f"process {owner.pid} (since {owner.started})" if owner else "another process"
        return WriterLocked(
            f"{who} is writing to the index in {self._folder.folder}",
            hint="searching works meanwhile; close the other memtui to write from here",
        )

    def owner(self) -> Owner | None:
        """Return who holds the lock; `None` when nobody does (a crashed owner holds nothing)."""
        if not self.held and (not self._folder.lock_path.exists() or self._is_free()):
            return None
        return self._written_owner()

    def _written_owner(self) -> Owner | None:
        """Read who wrote itself down last: the holder, if the lock is held at all."""
        try:
            owner = json.loads(self._folder.owner_path.read_bytes())
            return Owner(int(owner["pid"]), str(owner["started"]))
        except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return None

    def _is_free(self) -> bool:
        from filelock import Timeout

        probe = _file_lock(self._folder.lock_path)
        try:
            probe.acquire(timeout=0)
        except (Timeout, OSError):
            return False
        probe.release()
        return True

    def __enter__(self) -> WriterLock:
        if not self.try_acquire():
            raise self.refusal()
        return self

    def __exit__(self, *details: object) -> None:
        self.release()


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_dev, stat.st_ino


def _file_lock(path: Path) -> BaseFileLock:
    from filelock import FileLock

    # The index thread releases what another thread may have taken.
    return FileLock(path, mode=0o600, thread_local=False)

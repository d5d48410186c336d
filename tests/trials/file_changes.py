"""Every change that a process makes to the files of a folder, and what a loss of power leaves.

SQLite's own changes are seen through a virtual file system that becomes the default one, those of
Python through the functions of `os`. Both stay replaced: only for a process that does one thing.

The model of a disk: a write, or a new size, is kept when the file was synced after it; else each
may be kept, lost, or torn, that is kept in some of its 512-byte sectors only, whatever became of
others before and after it. A new name, a renaming or a removal is kept when the folder was synced
after it; else each may be kept or lost as well.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import apsw
from msgspec import Struct

# Logs and rollback journals: SQLite makes their names durable with their first sync.
_NAMED_BY_SYNC = (
    apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL
)
SECTOR = 512
_SHM_BYTES = 32768
_CHANCES = (0.0, 0.1, 0.5, 0.9, 1.0)


class Kind(StrEnum):
    """What is done to a file or folder."""

    CREATE = "create"
    WRITE = "write"
    TRUNCATE = "truncate"
    SYNC = "sync"
    RENAME = "rename"
    REMOVE = "remove"
    MAKE_FOLDER = "make folder"
    SYNC_FOLDER = "sync folder"


class Change(Struct, frozen=True):
    """One call that changes what is stored, or makes it durable."""

    kind: Kind
    path: str
    """Absolute."""
    offset: int = 0
    """Where is written; of a truncation the new size."""
    data: bytes = b""
    target: str = ""
    """The new name of a rename."""
    by_sqlite: bool = False


class Acknowledged(Struct, frozen=True):
    """The cache has said that it holds these texts' vectors."""

    hashes: tuple[str, ...]


Entry = Change | Acknowledged
Perform = Callable[[Change], object]
Observer = Callable[[Change, Perform], None]
"""Sees every change before it happens, and makes it or a part of it happen."""


def observe(folder: str, around: Observer, *, sqlite: bool = True) -> None:
    """Let every later change below `folder` go through `around`, for the rest of the process.

    Without `sqlite` only those of Python.
    """
    if sqlite:
        _Files.installed = _Files(folder, around)
    usual_open, usual_fsync = os.open, os.fsync
    paths: dict[int, str] = {}

    def opened(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        name, descriptors = os.fspath(path), []

        def perform(_: Change) -> None:
            descriptors.append(usual_open(path, flags, mode, dir_fd=dir_fd))

        if not _is_below(name, folder):
            return usual_open(path, flags, mode, dir_fd=dir_fd)
        if flags & os.O_CREAT and not os.path.exists(name):
            around(Change(Kind.CREATE, name), perform)
        elif flags & os.O_TRUNC:
            around(Change(Kind.TRUNCATE, name), perform)
        else:
            perform(Change(Kind.CREATE, name))
        paths[descriptors[0]] = name
        return descriptors[0]

    def fsync(descriptor: int) -> None:
        path = paths.get(descriptor)
        if path is None:
            usual_fsync(descriptor)
        else:
            kind = Kind.SYNC_FOLDER if os.path.isdir(path) else Kind.SYNC
            around(Change(kind, path), lambda _: usual_fsync(descriptor))

    def seen(kind: Kind, function: Callable[..., object]) -> Callable[..., None]:
        def call(path: Any, *arguments: Any, **named: Any) -> None:
            target = os.fspath(arguments[0]) if kind is Kind.RENAME else ""
            change = Change(kind, os.fspath(path), target=target)
            if _is_below(change.path, folder):
                around(change, lambda _: function(path, *arguments, **named))
            else:
                function(path, *arguments, **named)

        return call

    for name, function in {
        "open": opened,
        "fsync": fsync,
        "replace": seen(Kind.RENAME, os.replace),
        "unlink": seen(Kind.REMOVE, os.unlink),
        "mkdir": seen(Kind.MAKE_FOLDER, os.mkdir),
    }.items():
        setattr(os, name, function)


def _is_below(path: Any, folder: str) -> bool:
    return isinstance(path, str) and (path == folder or path.startswith(folder + os.sep))


class _File(apsw.VFSFile):
    """A file of SQLite's whose changes are seen."""

    def __init__(
        self, base: str, name: str | apsw.URIFilename, flags: list[int], around: Observer
    ) -> None:
        self._path = name if isinstance(name, str) else name.filename()
        self._around = around
        is_new = bool(flags[0] & apsw.SQLITE_OPEN_CREATE) and not os.path.exists(self._path)
        self._names_folder = is_new and bool(flags[0] & _NAMED_BY_SYNC)

        def create(change: Change) -> None:
            super(_File, self).__init__(base, name, flags)

        if is_new:
            around(Change(Kind.CREATE, self._path, by_sqlite=True), create)
        else:
            super().__init__(base, name, flags)

    def xLock(self, level: int) -> None:
        # A file open for reading only is never locked for writing: SQLite tries, and goes on
        # without; here the attempt would become an exception of its own.
        try:
            super().xLock(level)
        except apsw.IOError as error:
            raise apsw.BusyError from error

    def xWrite(self, data: Any, offset: int) -> None:
        change = Change(Kind.WRITE, self._path, offset, bytes(data), by_sqlite=True)
        self._around(change, lambda now: super(_File, self).xWrite(now.data, now.offset))

    def xTruncate(self, newsize: int) -> None:
        change = Change(Kind.TRUNCATE, self._path, newsize, by_sqlite=True)
        self._around(change, lambda now: super(_File, self).xTruncate(now.offset))

    def xSync(self, flags: int) -> None:
        change = Change(Kind.SYNC, self._path, by_sqlite=True)
        self._around(change, lambda _: super(_File, self).xSync(flags))
        if self._names_folder:
            self._names_folder = False
            named = Change(Kind.SYNC_FOLDER, os.path.dirname(self._path), by_sqlite=True)
            self._around(named, lambda _: None)


class _Files(apsw.VFS):
    """The default file system of SQLite, with what happens in one folder seen."""

    installed: _Files | None = None
    """Lives as long as the process."""

    def __init__(self, folder: str, around: Observer) -> None:
        self._folder, self._around = folder, around
        self._base = apsw.vfs_names()[0]
        super().__init__("memtui-observed", self._base, makedefault=True)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        path = name if name is None or isinstance(name, str) else name.filename()
        if name is None or path is None or not _is_below(path, self._folder):
            return apsw.VFSFile(self._base, name, flags)
        return _File(self._base, name, flags, self._around)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        if not _is_below(filename, self._folder):
            super().xDelete(filename, syncdir)
            return
        change = Change(Kind.REMOVE, filename, by_sqlite=True)
        self._around(change, lambda _: super(_Files, self).xDelete(filename, syncdir))
        if syncdir:
            named = Change(Kind.SYNC_FOLDER, os.path.dirname(filename), by_sqlite=True)
            self._around(named, lambda _: None)


class Recorder:
    """Writes down every change of files, in its order, with what was written."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._lock = threading.RLock()
        self._by_sqlite: set[str] = set()
        self._plain: dict[str, bytes] = {}

    def around(self, change: Change, perform: Perform) -> None:
        """Let a change happen and write it down."""
        with self._lock:
            path = change.path
            if change.by_sqlite:
                self._by_sqlite.add(path)
            elif change.kind in (Kind.SYNC, Kind.RENAME) and path not in self._by_sqlite:
                # Python's own files are written unseen: what they hold is noted before it matters.
                content = Path(path).read_bytes()
                if self._plain.get(path) != content:
                    self._plain[path] = content
                    self.entries.append(Change(Kind.WRITE, path, 0, content))
            perform(change)
            self.entries.append(change)

    def acknowledge(self, hashes: list[str]) -> None:
        """Write down that vectors were taken."""
        with self._lock:
            self.entries.append(Acknowledged(tuple(hashes)))


@dataclass(slots=True)
class _Content:
    """A file, whatever its name: what is safe, and what was done to it since."""

    safe: bytearray = field(default_factory=bytearray)
    since: list[Change] = field(default_factory=list)


class _Naming(Struct, frozen=True):
    """A name that is given or, without content, taken away."""

    name: str
    content: _Content | None
    former: str = ""


class Disk:
    """A folder as a disk holds it: what is safe, and what a loss of power may undo."""

    def __init__(self, start: Path) -> None:
        self._safe = {path.name: _Content(bytearray(path.read_bytes())) for path in start.iterdir()}
        self._names = dict(self._safe)
        self._renamed: list[_Naming] = []

    def apply(self, change: Change) -> None:
        """Do what the log says."""
        name = Path(change.path).name
        match change.kind:
            case Kind.CREATE:
                self._name(_Naming(name, _Content()))
            case Kind.WRITE | Kind.TRUNCATE:
                self._names[name].since.append(change)
            case Kind.SYNC:
                content = self._names[name]
                for one in content.since:
                    _store(content.safe, one)
                content.since.clear()
            case Kind.RENAME:
                self._name(_Naming(Path(change.target).name, self._names[name], name))
            case Kind.REMOVE:
                self._name(_Naming(name, None))
            case Kind.SYNC_FOLDER:
                self._safe = dict(self._names)
                self._renamed.clear()

    def _name(self, naming: _Naming) -> None:
        self._renamed.append(naming)
        _give(self._names, naming)

    def lose_power(self, target: Path, rng: random.Random) -> None:
        """Write into `target` what one of the possible losses leaves."""
        names = dict(self._safe)
        pending = self._renamed
        kept = [naming for naming in pending if rng.random() < 0.5]
        match rng.randrange(3):
            case 0:
                # As a file system with a journal does it: what came first is kept first.
                kept = pending[: rng.randint(0, len(pending))]
            case 1 if pending:
                # One alone is lost, a renaming where there is one: what builds on it is worst off.
                lost = rng.choice([naming for naming in pending if naming.former] or pending)
                kept = [naming for naming in pending if naming is not lost]
        for naming in kept:
            _give(names, naming)
        chance = rng.choice(_CHANCES)
        for name, content in names.items():
            data = bytearray(content.safe)
            for change in content.since:
                if rng.random() < chance:
                    _store(data, change)
                elif change.kind is Kind.WRITE and rng.random() < 0.3:
                    _store(data, change, lambda: rng.random() < 0.5)
            left = {name: bytes(data)}
            if name.endswith((".db", ".building")) and rng.random() < 0.3:
                # The shared memory of the log is never synced: anything may be in it.
                left[f"{name}-shm"] = rng.randbytes(_SHM_BYTES)
            for one, written in left.items():
                (target / one).write_bytes(written)
                (target / one).chmod(0o600)


def _give(names: dict[str, _Content], naming: _Naming) -> None:
    if naming.content is None:
        names.pop(naming.name, None)
        return
    names[naming.name] = naming.content
    if naming.former:
        names.pop(naming.former, None)


def _store(data: bytearray, change: Change, is_kept: Callable[[], bool] = lambda: True) -> None:
    """Make a change, of a write only the sectors that are kept."""
    if change.kind is Kind.TRUNCATE:
        del data[change.offset :]
        data.extend(bytes(change.offset - len(data)))
        return
    end = change.offset + len(change.data)
    for start in range(change.offset // SECTOR * SECTOR, end, SECTOR):
        first, last = max(start, change.offset), min(start + SECTOR, end)
        if is_kept():
            data.extend(bytes(max(0, first - len(data))))
            data[first:last] = change.data[first - change.offset : last - change.offset]

"""Every change that this process makes to the files of a folder, seen one by one.

SQLite's own changes are seen through a virtual file system that becomes the default one, those of
Python through the functions of `os`. Both stay replaced: only for a process that does one thing.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Protocol

import apsw

# Logs and rollback journals: SQLite makes their names durable with their first sync.
_NAMED_BY_SYNC = (
    apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL
)


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


@dataclass(frozen=True, slots=True)
class Change:
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


Perform = Callable[[Change], None]


class Observer(Protocol):
    """Sees every change before it happens, and makes it happen."""

    def around(self, change: Change, perform: Perform) -> None:
        """Do `perform(change)`, or something else."""


def observe(folder: str, observer: Observer) -> None:
    """Let every later change below `folder` go through `observer`, for the rest of the process."""
    _Files.register(folder, observer)
    _replace_functions(folder, observer)


class _File(apsw.VFSFile):
    """A file of SQLite's whose changes are seen."""

    def __init__(
        self, base: str, name: str | apsw.URIFilename, flags: list[int], observer: Observer
    ) -> None:
        self._path = name if isinstance(name, str) else name.filename()
        self._observer = observer
        is_new = bool(flags[0] & apsw.SQLITE_OPEN_CREATE) and not os.path.exists(self._path)
        self._names_folder = is_new and bool(flags[0] & _NAMED_BY_SYNC)

        def create(change: Change) -> None:
            super(_File, self).__init__(base, name, flags)

        if is_new:
            observer.around(Change(Kind.CREATE, self._path, by_sqlite=True), create)
        else:
            super().__init__(base, name, flags)

    def xLock(self, level: int) -> None:
        """Take a lock; a file open for reading only is never locked for writing.

        SQLite tries, and goes on without; here the attempt would become an exception of its own.
        """
        try:
            super().xLock(level)
        except apsw.IOError as error:
            raise apsw.BusyError from error

    def xWrite(self, data: Any, offset: int) -> None:
        """Write a piece."""
        change = Change(Kind.WRITE, self._path, offset, bytes(data), by_sqlite=True)
        self._observer.around(change, lambda now: super(_File, self).xWrite(now.data, now.offset))

    def xTruncate(self, newsize: int) -> None:
        """Shorten the file."""
        change = Change(Kind.TRUNCATE, self._path, newsize, by_sqlite=True)
        self._observer.around(change, lambda now: super(_File, self).xTruncate(now.offset))

    def xSync(self, flags: int) -> None:
        """Make what was written durable."""
        change = Change(Kind.SYNC, self._path, by_sqlite=True)
        self._observer.around(change, lambda _: super(_File, self).xSync(flags))
        if self._names_folder:
            self._names_folder = False
            named = Change(Kind.SYNC_FOLDER, os.path.dirname(self._path), by_sqlite=True)
            self._observer.around(named, lambda _: None)


class _Files(apsw.VFS):
    """The default file system of SQLite, with what happens in one folder seen."""

    _kept: _Files | None = None

    def __init__(self, folder: str, observer: Observer) -> None:
        self._folder, self._observer = folder, observer
        self._base = apsw.vfs_names()[0]
        super().__init__("memtui-observed", self._base, makedefault=True)

    @classmethod
    def register(cls, folder: str, observer: Observer) -> None:
        """Make it the default file system; it lives as long as the process."""
        cls._kept = cls(folder, observer)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        """Open a file; a temporary one has no name."""
        path = name if name is None or isinstance(name, str) else name.filename()
        if name is None or path is None or not _is_below(path, self._folder):
            return apsw.VFSFile(self._base, name, flags)
        return _File(self._base, name, flags, self._observer)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        """Remove a file."""
        if not _is_below(filename, self._folder):
            super().xDelete(filename, syncdir)
            return
        change = Change(Kind.REMOVE, filename, by_sqlite=True)
        self._observer.around(change, lambda _: super(_Files, self).xDelete(filename, syncdir))
        if syncdir:
            named = Change(Kind.SYNC_FOLDER, os.path.dirname(filename), by_sqlite=True)
            self._observer.around(named, lambda _: None)


def _replace_functions(folder: str, observer: Observer) -> None:
    usual = _Usual(folder, observer)
    replaced: dict[str, Callable[..., Any]] = {
        "open": usual.open,
        "fsync": usual.fsync,
        "replace": usual.replace,
        "unlink": usual.unlink,
        "mkdir": usual.mkdir,
    }
    for name, function in replaced.items():
        setattr(os, name, function)


class _Usual:
    """The functions of `os` that change files, with what happens in one folder seen."""

    def __init__(self, folder: str, observer: Observer) -> None:
        self._folder, self._observer = folder, observer
        self._paths: dict[int, str] = {}
        self._open, self._fsync = os.open, os.fsync
        self._replace, self._unlink, self._mkdir = os.replace, os.unlink, os.mkdir

    def open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        """Open a file; it may be new, or lose what it holds."""
        name = os.fspath(path)
        if not _is_below(name, self._folder):
            return self._open(path, flags, mode, dir_fd=dir_fd)
        opened: list[int] = []

        def perform(change: Change) -> None:
            opened.append(self._open(path, flags, mode, dir_fd=dir_fd))

        if flags & os.O_CREAT and not os.path.exists(name):
            self._observer.around(Change(Kind.CREATE, name), perform)
        elif flags & os.O_TRUNC:
            self._observer.around(Change(Kind.TRUNCATE, name), perform)
        else:
            perform(Change(Kind.CREATE, name))
        self._paths[opened[0]] = name
        return opened[0]

    def fsync(self, descriptor: int) -> None:
        """Make a file's content durable, or a folder's names."""
        path = self._paths.get(descriptor)
        if path is None:
            self._fsync(descriptor)
            return
        kind = Kind.SYNC_FOLDER if os.path.isdir(path) else Kind.SYNC
        self._observer.around(Change(kind, path), lambda _: self._fsync(descriptor))

    def replace(self, source: Any, target: Any) -> None:
        """Give a file another name."""
        change = Change(Kind.RENAME, os.fspath(source), target=os.fspath(target))
        self._see(change, lambda _: self._replace(source, target))

    def unlink(self, path: Any, *, dir_fd: int | None = None) -> None:
        """Remove a file."""
        change = Change(Kind.REMOVE, os.fspath(path))
        self._see(change, lambda _: self._unlink(path, dir_fd=dir_fd))

    def mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        """Make a folder."""
        change = Change(Kind.MAKE_FOLDER, os.fspath(path))
        self._see(change, lambda _: self._mkdir(path, mode, dir_fd=dir_fd))

    def _see(self, change: Change, perform: Perform) -> None:
        if _is_below(change.path, self._folder):
            self._observer.around(change, perform)
        else:
            perform(change)


def _is_below(path: Any, folder: str) -> bool:
    return isinstance(path, str) and (path == folder or path.startswith(folder + os.sep))


def first_half(change: Change, page: int) -> Change:
    """A write of which only a first part, in whole pages of `page` bytes, came through."""
    pages = len(change.data) // page
    return replace(change, data=change.data[: pages // 2 * page])

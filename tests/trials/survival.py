"""Every change that this process makes to the files of a folder, seen one by one.

SQLite's own changes are seen through a virtual file system that becomes the default one, those of
Python through the functions of `os`. Both stay replaced: only for a process that does one thing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

import apsw

from memtui.embedding.provider import ProviderIdentity
from memtui.errors import MemtuiError
from memtui.index.database import Connection, DatabaseError, open_database
from memtui.index.generations import IndexFolder, LiveIndex, WriterLock
from memtui.index.schema import read_meta
from tests.support.embedding import identity_of
from tests.support.indexing import Contents, Workspace
from tests.trials.kill_scenes import Ground, Scene, run_indexer

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


_MAY_LIE_AROUND = re.compile(
    r"CURRENT(\.tmp)?|cache\.db(-wal|-shm|-journal)?|writer\.(lock|json|json\.tmp)|"
    r"index-\d+\.db(\.building)?(-wal|-shm|-journal)?"
)
# A reader that closes last may not remove the log of the live index, which is empty then.
_LEFT = re.compile(r"CURRENT|cache\.db|writer\.lock|index-\d+\.db(-wal|-shm)?")

Digest = tuple[frozenset[tuple[object, ...]], tuple[tuple[str, str], ...]]


@dataclass(frozen=True, slots=True)
class Expected:
    """What a scene's folder is to hold afterwards, and what it held before."""

    contents: Contents
    meta: dict[str, str]
    whole: Digest
    before: Digest | None
    live: frozenset[str]
    """Text hashes of all chunks: their vectors are never lost once they were stored."""
    cached: frozenset[str]
    """Text hashes in the cache before."""


@dataclass(frozen=True, slots=True)
class Found:
    """What was seen in a folder that was left behind."""

    wrong: tuple[str, ...]
    cached: int = 0
    """Vectors that were found in the cache."""
    embedded: int = 0
    """Texts that the sync afterwards had to embed."""


def expected(scene: Scene, ground: Ground) -> Expected:
    """Index the notes afresh, and look at what there is before."""
    fresh = ground.place / "fresh"
    with closing(ground.workspace(fresh)) as workspace:
        run_indexer(workspace)
        contents = workspace.contents()
        whole = _digest(workspace.folder)
        meta = _meta(workspace.folder)
        assert whole is not None
    with closing(ground.workspace(ground.start)) as workspace:
        cached = _cached(workspace)
        before = _digest(workspace.folder)
    return Expected(contents, meta, whole, before, frozenset(_hashes(contents)), frozenset(cached))


def look(
    scene: Scene,
    ground: Ground,
    data: Path,
    wanted: Expected,
    acknowledged: Iterable[str],
    *,
    after_power_loss: bool = False,
) -> Found:
    """Check everything that is promised about the folder `data`."""
    wrong: list[str] = []
    note = wrong.append
    try:
        _look_around(data, note)
        with closing(ground.workspace(data)) as workspace:
            _look_at_live(scene, workspace.folder, wanted, note, power=after_power_loss)
            cached = _cached(workspace)
            _look_at_cache(scene, cached, wanted, set(acknowledged), note)
            missing = wanted.live - cached
            if after_power_loss:
                # What the cache lost may still be in the index, which is not embedded again.
                missing -= _embedded(workspace)
            run_indexer(workspace)
            embedded = workspace.provider.texts
            if embedded != len(missing):
                note(f"{embedded} texts were embedded, not the {len(missing)} without a vector")
            _compare(workspace, wanted, note)
            if workspace.cache.recovered:
                note(workspace.cache.recovered)
        _look_at_the_end(data, note)
    except (MemtuiError, DatabaseError, OSError, AssertionError, KeyError) as error:
        note(f"{type(error).__name__}: {error}")
        return Found(tuple(wrong))
    return Found(tuple(wrong), len(cached), embedded)


def _look_around(data: Path, note: Callable[[str], None]) -> None:
    for path in data.iterdir():
        if not _MAY_LIE_AROUND.fullmatch(path.name):
            note(f"a stray file: {path.name}")
    if WriterLock(IndexFolder(data)).owner() is not None:
        note("the lock is not free")


def _look_at_live(
    scene: Scene,
    folder: IndexFolder,
    wanted: Expected,
    note: Callable[[str], None],
    *,
    power: bool,
) -> None:
    for path in (folder.cache_path, *_live_path(folder)):
        if path.exists():
            with closing(open_database(path)) as connection:
                for line in check_connection(connection):
                    note(f"{path.name}: {line}")
    found = _digest(folder)
    if found is None and wanted.before is not None:
        note("there is no live index any more")
    # A sync that follows a rebuild may have begun already: it changes nothing of the digest.
    if scene.swaps and found not in (wanted.before, wanted.whole):
        note("the live index is neither the old one nor the new one")


def _look_at_cache(
    scene: Scene,
    cached: set[str],
    wanted: Expected,
    acknowledged: set[str],
    note: Callable[[str], None],
) -> None:
    if lost := len(acknowledged - cached):
        note(f"{lost} of {len(acknowledged)} acknowledged vectors are gone")
    kept = wanted.cached & wanted.live if scene.evicts else wanted.cached
    if lost := len(kept - cached):
        note(f"{lost} of {len(kept)} vectors of before are gone")


def _compare(workspace: Workspace, wanted: Expected, note: Callable[[str], None]) -> None:
    contents = workspace.contents()
    for name in Contents.__slots__:
        if getattr(contents, name) != getattr(wanted.contents, name):
            note(f"after one sync the {name} differ from those of a fresh index")
    if _meta(workspace.folder) != wanted.meta:
        note("after one sync the index says something else about itself")


def _look_at_the_end(data: Path, note: Callable[[str], None]) -> None:
    names = sorted(path.name for path in data.iterdir())
    for name in names:
        if not _LEFT.fullmatch(name):
            note(f"left over: {name}")
        elif (data / name).stat().st_mode & 0o077:
            note(f"readable for others: {name}")
        elif name.endswith("-wal") and (data / name).stat().st_size:
            note(f"not empty: {name}")
    if len({name.split(".")[0] for name in names if name.startswith("index-")}) != 1:
        note(f"not one generation: {', '.join(names)}")


def check_connection(connection: Connection) -> list[str]:
    """Look for damage in a database, and in its full-text index when there is one."""
    wrong = [str(row[0]) for row in connection.execute("PRAGMA quick_check").fetchall()]
    wrong += [str(row) for row in connection.execute("PRAGMA foreign_key_check").fetchall()]
    tables = connection.execute("SELECT name FROM sqlite_master").fetchall()
    if ("chunks_fts",) in tables:
        connection.execute("INSERT INTO chunks_fts(chunks_fts) VALUES('integrity-check')")
    return [line for line in wrong if line != "ok"]


def _live_path(folder: IndexFolder) -> list[Path]:
    generation = folder.current()
    return [] if generation is None else [folder.path(generation)]


def _digest(folder: IndexFolder) -> Digest | None:
    """What a reader sees of the live index: its chunks, and by whom the vectors are."""
    if folder.current() is None:
        return None
    with closing(LiveIndex(folder)) as live:
        connection = live.connection()
        rows = connection.execute("SELECT chunk_id, text, hash, embedded FROM chunks").fetchall()
        meta = read_meta(connection)
    names = ("schema_version", "provider", "model", "fingerprint")
    return frozenset(rows), tuple((name, meta[name]) for name in names)


def _meta(folder: IndexFolder) -> dict[str, str]:
    with closing(LiveIndex(folder)) as live:
        return read_meta(live.connection())


def _hashes(contents: Contents) -> set[str]:
    return {str(chunk[4]) for chunk in contents.chunks.values()}


def _cached(workspace: Workspace) -> set[str]:
    """The hashes of all usable vectors of the usual model."""
    identity: ProviderIdentity = identity_of(workspace.provider)
    path = workspace.folder.cache_path
    with closing(open_database(path)) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master").fetchall()
        if ("embedding_cache",) not in tables:
            return set()
        rows = connection.execute("SELECT text_hash FROM embedding_cache").fetchall()
    return set(workspace.cache.get_many(identity, [str(row[0]) for row in rows]))


def _embedded(workspace: Workspace) -> set[str]:
    """The hashes of the chunks whose vectors the live index holds, where a sync keeps it."""
    assert workspace.recipe is not None
    if workspace.folder.current() is None:
        return set()
    with closing(LiveIndex(workspace.folder)) as live:
        connection = live.connection()
        if not workspace.recipe.matches(read_meta(connection)):
            return set()
        rows = connection.execute("SELECT hash FROM chunks WHERE embedded = 1").fetchall()
    return {str(row[0]) for row in rows}

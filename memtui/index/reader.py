"""What is known of an index: its rows, read through a connection that follows it, and its state."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from memtui.errors import IndexMissing, IndexUnusable
from memtui.index.database import mapped_errors, number, open_database
from memtui.index.generations import IndexFolder
from memtui.index.schema import check_version, read_meta
from memtui.model import (
    ErrorRecord,
    Progress,
    ProviderState,
    SkippedFile,
    SourceCount,
    SourceFile,
    SyncStats,
    Usage,
)
from memtui.settings.storage import NO_FILE, file_state

if TYPE_CHECKING:
    from memtui.index.database import Connection
    from memtui.index.job import VectorProblem

# Within this time of a scan, a second write may leave size and modification time as they were.
RACY_NS = 2 * 10**9


class Stamp(NamedTuple):
    """Changes whenever another connection has committed to the live index."""

    generation: int
    data_version: int


class LiveIndex:
    """A read-only connection to the live generation; for one thread.

    `CURRENT` is looked at (one stat) before each use, and the connection is opened again when
    it names another generation.
    """

    def __init__(self, folder: IndexFolder) -> None:
        self.generation = 0
        """The generation of the last `connection`; 0 before the first."""
        self._folder = folder
        self._connection: Connection | None = None
        self._pointer: tuple[int, int] | None = None
        self._file = NO_FILE

    def connection(self) -> Connection:
        """Return a connection to the live generation.

        Raises `IndexMissing` when there is none, `IndexUnusable` when it cannot be read.
        """
        before, self._file = self._file, file_state(self._folder.path(self.generation))
        # Another file, or one that was cut: read through the old mapping, that kills.
        is_same = self._file.continues(before) and self._look() == self._pointer
        if self._connection is not None and is_same:
            return self._connection
        self.close()
        missed: int | None = None
        while (connection := self._open_current()) is None:
            generation = self._folder.named()
            # Where another generation went live between the two looks, that one is opened.
            if generation == missed:
                raise IndexMissing(
                    f"there is no index in {self._folder.folder}", hint="memtui index builds it"
                )
            missed = generation
        self._connection = connection
        return connection

    def stamp(self) -> Stamp:
        """Return a value to compare: was anything committed since the last stamp?"""
        connection = self.connection()
        with mapped_errors(self._folder.path(self.generation)):
            return Stamp(self.generation, number(connection, "PRAGMA data_version"))

    def close(self) -> None:
        """Close the connection; the next use opens it again."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None
        self._pointer = None

    def _look(self) -> tuple[int, int] | None:
        try:
            stat = os.stat(self._folder.current_path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise IndexUnusable(
                f"{self._folder.current_path} cannot be read: {error.strerror}",
                hint="check the folder's permissions",
            ) from error
        return stat.st_ino, stat.st_mtime_ns

    def _open_current(self) -> Connection | None:
        """Open what `CURRENT` names; `None` when no such file is there."""
        self._pointer = self._look()
        generation = self._folder.current()
        if generation is None:
            return None
        path = self._folder.path(generation)
        try:
            connection = open_database(path, readonly=True)
        except IndexMissing:
            return None
        try:
            with mapped_errors(path):
                check_version(read_meta(connection), path)
        except BaseException:
            connection.close()
            raise
        self.generation, self._file = generation, file_state(path)
        return connection


# --- files --------------------------------------------------------------------------------------


class KnownFile(NamedTuple):
    """A file as the index holds it: the stat it had, and when it was seen."""

    path: str
    source: str
    hash: str
    size: int
    mtime_ns: int
    inode: int
    seen_ns: int
    lines: int = 0
    day: str | None = None
    """The day that it is about, ISO 8601."""
    warnings: str = "[]"
    """What was wrong with it, as a JSON list of lines."""


_FILES = (
    "SELECT path, source, hash, size, mtime_ns, inode, seen_ns, lines, day, warnings FROM files"
)


def known_files(connection: Connection) -> dict[str, KnownFile]:
    """Read what the index knows about its files, by path."""
    rows = connection.execute(_FILES).fetchall()
    return {str(row[0]): KnownFile._make(row) for row in rows}


def known_file(connection: Connection, path: str) -> KnownFile | None:
    """Read what the index knows about one file; `None` when it does not hold it."""
    rows = connection.execute(f"{_FILES} WHERE path = ?", (path,)).fetchall()
    return KnownFile._make(rows[0]) if rows else None


def recent_files(connection: Connection, limit: int) -> list[KnownFile]:
    """Read the files that were written last, newest first."""
    query = f"{_FILES} ORDER BY mtime_ns DESC, path LIMIT ?"
    return [KnownFile._make(row) for row in connection.execute(query, (limit,)).fetchall()]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a scan says has to be done."""

    read: tuple[SourceFile, ...]
    """New files, files with another stat, and files written too close to the last scan."""
    changed: tuple[str, ...]
    """The paths in `read` that are new or have another stat."""
    removed: tuple[str, ...]


def plan_changes(
    files: Sequence[SourceFile], known: Mapping[str, KnownFile], unread: tuple[str, ...] = ()
) -> Plan:
    """Compare a scan with the index by stat alone; nothing is read.

    `unread` are beginnings of paths below which the scan could not look: nothing there is gone.
    """
    read = []
    changed = []
    for file in files:
        row = known.get(file.path)
        stat = (file.size, file.mtime_ns, file.inode, file.source)
        if row is None or stat != (row.size, row.mtime_ns, row.inode, row.source):
            read.append(file)
            changed.append(file.path)
        elif file.mtime_ns >= row.seen_ns - RACY_NS:
            read.append(file)
    here = {file.path for file in files}
    removed = sorted(path for path in known if path not in here and not path.startswith(unread))
    return Plan(tuple(read), tuple(changed), tuple(removed))


# --- chunks -------------------------------------------------------------------------------------


class ChunkRange(NamedTuple):
    """Where a chunk is in its file; lines are 1-based and inclusive."""

    start_line: int
    end_line: int
    chunk_id: str


def chunk_ranges(connection: Connection, path: str) -> list[ChunkRange]:
    """Read where the chunks of a file are, in the order of their lines."""
    rows = connection.execute(
        "SELECT c.start_line, c.end_line, c.chunk_id "
        "FROM chunks c JOIN files f ON f.id = c.file_id "
        "WHERE f.path = ? ORDER BY c.start_line, c.end_line, c.id",
        (path,),
    ).fetchall()
    return [ChunkRange._make(row) for row in rows]


@dataclass(frozen=True, slots=True)
class IndexCounts:
    """How much an index holds."""

    files: int = 0
    chunks: int = 0
    vectors: int = 0
    """Chunks whose vector was made, in the vector table or in the cache."""
    sources: tuple[SourceCount, ...] = ()


def counts(connection: Connection) -> IndexCounts:
    """Count what the index holds, by source."""
    files = connection.execute("SELECT source, count(*) FROM files GROUP BY source").fetchall()
    if len(files) == 1:
        # Then all chunks are of that source, and no row has to be read to count them.
        chunks = {files[0][0]: number(connection, "SELECT count(*) FROM chunks")}
    else:
        rows = connection.execute(
            "SELECT f.source, sum(c.number) FROM (SELECT file_id, count(*) AS number FROM chunks "
            "GROUP BY file_id) c JOIN files f ON f.id = c.file_id GROUP BY f.source"
        ).fetchall()
        chunks = {source: int(str(count)) for source, count in rows}
    sources = tuple(
        SourceCount(str(source), int(str(count)), chunks.get(source, 0))
        for source, count in sorted(files)
    )
    total = sum(source.chunks for source in sources)
    missing = number(connection, "SELECT count(*) FROM chunks WHERE embedded = 0")
    return IndexCounts(sum(source.files for source in sources), total, total - missing, sources)


# --- the index thread ---------------------------------------------------------------------------

PENDING_SHOWN = 200


class Work(Enum):
    """What the index thread is asked for or busy with."""

    NONE = "none"
    SYNC = "sync"
    REBUILD = "rebuild"


@dataclass(frozen=True, slots=True)
class IndexerSnapshot:
    """What the index thread knows, at one moment."""

    running: Work = Work.NONE
    progress: Progress | None = None
    pending: tuple[str, ...] = ()
    """Files whose change is seen and not yet indexed, at most 200."""
    pending_count: int = 0
    last_sync: SyncStats | None = None
    errors: tuple[ErrorRecord, ...] = ()
    """The last 20, oldest first."""
    failure: str | None = None
    """Why the last sync or rebuild failed; `None` when it ended well or was stopped."""
    stopped: str | None = None
    """How far the last sync or rebuild came when somebody stopped it; else `None`."""
    skipped: tuple[SkippedFile, ...] = ()
    cache_hits: int = 0
    usage: Usage = field(default_factory=Usage)
    cache_misses: int = 0
    cache_excess: int = 0
    """By how many bytes live vectors alone exceed the bound of the cache."""
    writer: str = "none"
    """`this process`, `process 1234`, or `none`."""
    generation: int = 0
    """The live generation; 0 when there is none."""
    counts: IndexCounts = field(default_factory=IndexCounts)
    problem: VectorProblem | None = None
    """Why vectors are missing although they should be there."""
    provider: ProviderState | None = None
    """What the provider said when it was asked last; `None` before."""
    vector_extension: str | None = None
    """The version of sqlite-vec; `None` when it cannot be loaded or was not tried yet."""

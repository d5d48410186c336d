"""Rows out of an index file, and a connection that follows the live generation."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, NamedTuple

from memtui.errors import IndexMissing, IndexUnusable
from memtui.index.database import mapped_errors, number, open_database
from memtui.index.generations import IndexFolder
from memtui.index.schema import check_version, read_meta
from memtui.model import Reason, SourceCount
from memtui.settings.storage import NO_FILE, file_state

if TYPE_CHECKING:
    from memtui.index.database import Connection


@dataclass(frozen=True, slots=True)
class FileRow:
    """A file as the index holds it."""

    path: str
    source: str
    hash: str
    size: int
    mtime_ns: int
    day: date | None
    day_from: Reason | None
    importance: float | None
    lines: int
    warnings: tuple[str, ...]


class ChunkRange(NamedTuple):
    """Where a chunk is in its file; lines are 1-based and inclusive."""

    start_line: int
    end_line: int
    chunk_id: str


@dataclass(frozen=True, slots=True)
class IndexCounts:
    """How much an index holds."""

    files: int = 0
    chunks: int = 0
    vectors: int = 0
    """Chunks whose vector was made, in the vector table or in the cache."""
    sources: tuple[SourceCount, ...] = ()


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
        self._folder = folder
        self._connection: Connection | None = None
        self._generation = 0
        self._pointer: tuple[int, int] | None = None
        self._file = NO_FILE

    @property
    def generation(self) -> int:
        """The generation of the last `connection`; 0 before the first."""
        return self._generation

    def connection(self) -> Connection:
        """Return a connection to the live generation.

        Raises `IndexMissing` when there is none, `IndexUnusable` when it cannot be read.
        """
        pointer = self._look()
        if self._connection is None or pointer != self._pointer or self._is_another():
            self._open()
        if self._connection is None:
            raise IndexMissing("the index is closed")
        return self._connection

    def stamp(self) -> Stamp:
        """Tell whether anything was committed since the last stamp, by comparing the two."""
        connection = self.connection()
        with mapped_errors(self._folder.path(self._generation)):
            version = number(connection, "PRAGMA data_version")
        return Stamp(self._generation, version)

    def close(self) -> None:
        """Close the connection; the next use opens it again."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None
        self._pointer = None

    def _is_another(self) -> bool:
        """Whether the file is not the one that was opened, or was cut: read mapped, that kills."""
        before, self._file = self._file, file_state(self._folder.path(self._generation))
        return not self._file.continues(before)

    def _look(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self._folder.current_path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise IndexUnusable(
                f"{self._folder.current_path} cannot be read: {error.strerror}",
                hint="check the folder's permissions",
            ) from error
        return found.st_ino, found.st_mtime_ns

    def _open(self) -> None:
        self.close()
        missed: int | None = None
        while not self._open_current():
            named = self._folder.named()
            # Where another generation went live between the two looks, that one is opened.
            if named == missed:
                raise IndexMissing(
                    f"there is no index in {self._folder.folder}", hint="memtui index builds it"
                )
            missed = named

    def _open_current(self) -> bool:
        """Open what `CURRENT` names; false when no such file is there."""
        pointer = self._look()
        generation = self._folder.current()
        if generation is None:
            return False
        path = self._folder.path(generation)
        try:
            connection = open_database(path, readonly=True)
        except IndexMissing:
            return False
        try:
            with mapped_errors(path):
                check_version(read_meta(connection), path)
        except BaseException:
            connection.close()
            raise
        self._connection, self._generation, self._pointer = connection, generation, pointer
        self._file = file_state(path)
        return True


def file_rows(connection: Connection) -> list[FileRow]:
    """Read every file, by path."""
    return [_file_row(row) for row in connection.execute(f"{_FILES} ORDER BY path").fetchall()]


def file_row(connection: Connection, path: str) -> FileRow | None:
    """Read one file; `None` when the index does not hold it."""
    rows = connection.execute(f"{_FILES} WHERE path = ?", (path,)).fetchall()
    return _file_row(rows[0]) if rows else None


def recent_files(connection: Connection, limit: int) -> list[FileRow]:
    """Read the files that were written last, newest first."""
    query = f"{_FILES} ORDER BY mtime_ns DESC, path LIMIT ?"
    return [_file_row(row) for row in connection.execute(query, (limit,)).fetchall()]


def chunk_ranges(connection: Connection, path: str) -> list[ChunkRange]:
    """Read where the chunks of a file are, in the order of their lines."""
    rows = connection.execute(
        "SELECT c.start_line, c.end_line, c.chunk_id "
        "FROM chunks c JOIN files f ON f.id = c.file_id "
        "WHERE f.path = ? ORDER BY c.start_line, c.end_line, c.id",
        (path,),
    ).fetchall()
    return [ChunkRange._make(row) for row in rows]


def pending_count(connection: Connection) -> int:
    """Count the chunks that have no vector yet."""
    return number(connection, "SELECT count(*) FROM chunks WHERE embedded = 0")


def counts(connection: Connection) -> IndexCounts:
    """Count what the index holds, by source."""
    files: dict[str, int] = {}
    for source, count in connection.execute(
        "SELECT source, count(*) FROM files GROUP BY source"
    ).fetchall():
        files[str(source)] = int(str(count))
    if len(files) == 1:
        # Then all chunks are of that source, and no row has to be read to count them.
        chunks = dict.fromkeys(files, number(connection, "SELECT count(*) FROM chunks"))
    else:
        chunks = _chunks_by_source(connection)
    total = sum(chunks.values())
    return IndexCounts(
        files=sum(files.values()),
        chunks=total,
        vectors=total - pending_count(connection),
        sources=tuple(
            SourceCount(source, files[source], chunks.get(source, 0)) for source in sorted(files)
        ),
    )


def _chunks_by_source(connection: Connection) -> dict[str, int]:
    chunks: dict[str, int] = {}
    for source, count in connection.execute(
        "SELECT f.source, sum(c.number) FROM (SELECT file_id, count(*) AS number FROM chunks "
        "GROUP BY file_id) c JOIN files f ON f.id = c.file_id GROUP BY f.source"
    ).fetchall():
        chunks[str(source)] = int(str(count))
    return chunks


_FILES = (
    "SELECT path, source, hash, size, mtime_ns, day, day_from, importance, lines, warnings "
    "FROM files"
)


def _file_row(row: tuple[object, ...]) -> FileRow:
    path, source, text_hash, size, mtime_ns, day, day_from, importance, lines, warnings = row
    return FileRow(
        path=str(path),
        source=str(source),
        hash=str(text_hash),
        size=int(str(size)),
        mtime_ns=int(str(mtime_ns)),
        day=date.fromisoformat(str(day)) if day else None,
        day_from=Reason(str(day_from)) if day_from else None,
        importance=importance if isinstance(importance, float) else None,
        lines=int(str(lines)),
        warnings=tuple(json.loads(str(warnings))),
    )

"""Rows of an index file: files, chunks and vectors, read, compared with a scan, and written."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from msgspec import Struct
from msgspec.structs import replace

from memtui.embedding.provider import byte_size, split_input
from memtui.errors import Cancelled
from memtui.index.database import Connection, number
from memtui.memory.chunking import chunk_id
from memtui.memory.documents import text_hash
from memtui.model import ChunkSpan, Document, SourceCount, SourceFile
from memtui.text.tokens import index_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Within this time of a scan, a second write may leave size and modification time as they were.
RACY_NS = 2 * 10**9


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


_FILES = f"SELECT {', '.join(KnownFile._fields)} FROM files"


def known_files(connection: Connection) -> dict[str, KnownFile]:
    """Read what the index knows about its files, by path."""
    return {str(row[0]): KnownFile._make(row) for row in connection.execute(_FILES).fetchall()}


def known_file(connection: Connection, path: str) -> KnownFile | None:
    """Read what the index knows about one file; `None` when it does not hold it."""
    rows = connection.execute(f"{_FILES} WHERE path = ?", (path,)).fetchall()
    return KnownFile._make(rows[0]) if rows else None


def recent_files(connection: Connection, limit: int) -> list[KnownFile]:
    """Read the files that were written last, newest first."""
    query = f"{_FILES} ORDER BY mtime_ns DESC, path LIMIT ?"
    return [KnownFile._make(row) for row in connection.execute(query, (limit,)).fetchall()]


class Plan(Struct, frozen=True):
    """What a scan says has to be done."""

    read: tuple[SourceFile, ...]
    """New files, files with another stat, and files written too close to the last scan."""
    changed: tuple[str, ...]
    """The paths in `read` that are new or have another stat."""
    removed: tuple[str, ...]


def plan_changes(
    files: Sequence[SourceFile], rows: Mapping[str, KnownFile], unread: tuple[str, ...] = ()
) -> Plan:
    """Compare a scan with the index by stat alone; nothing is read.

    `unread` are beginnings of paths below which the scan could not look: nothing there is gone.
    """
    read = []
    changed = []
    for file in files:
        row = rows.get(file.path)
        stat = (file.size, file.mtime_ns, file.inode, file.source)
        if row is None or stat != (row.size, row.mtime_ns, row.inode, row.source):
            read.append(file)
            changed.append(file.path)
        elif file.mtime_ns >= row.seen_ns - RACY_NS:
            read.append(file)
    here = {file.path for file in files}
    removed = sorted(path for path in rows if path not in here and not path.startswith(unread))
    return Plan(tuple(read), tuple(changed), tuple(removed))


def counts(connection: Connection) -> dict[str, Any]:
    """Count what the index holds, by the names of an `IndexStatus`."""
    rows = connection.execute(
        "SELECT f.source, count(*), ifnull(sum(c.number), 0) FROM files f LEFT JOIN "
        "(SELECT file_id, count(*) AS number FROM chunks GROUP BY file_id) c ON c.file_id = f.id "
        "GROUP BY f.source ORDER BY f.source"
    ).fetchall()
    sources = tuple(SourceCount(*row) for row in cast("list[tuple[str, int, int]]", rows))
    chunks = sum(source.chunks for source in sources)
    return {
        "sources": sources,
        "files": sum(source.files for source in sources),
        "chunks": chunks,
        "vectors": chunks - number(connection, "SELECT count(*) FROM chunks WHERE embedded = 0"),
    }


# --- writing ------------------------------------------------------------------------------------

_CHECK_EVERY = 50
_COLUMNS = (
    *("source", "hash", "size", "mtime_ns", "inode", "day", "day_from", "importance", "lines"),
    *("warnings", "seen_ns"),
)
# Neither returns what it wrote: a statement that does has a journal of its own, for which the
# full-text rows that are gathered in memory would be written out.
_INSERT_FILE = f"INSERT INTO files({', '.join(_COLUMNS)}, path) VALUES({'?, ' * len(_COLUMNS)}?)"
_UPDATE_FILE = f"UPDATE files SET {' = ?, '.join(_COLUMNS)} = ? WHERE path = ?"
_INSERT_CHUNK = (
    "INSERT INTO chunks(chunk_id, file_id, start_line, end_line, text, hash, model) "
    "VALUES(?, ?, ?, ?, ?, ?, ?)"
)


class IndexWriter:
    """Changes the rows of one index file, on the connection's own thread.

    Nothing here begins or ends a transaction; the caller decides what belongs together.
    """

    def __init__(self, connection: Connection, model: str) -> None:
        self._connection = connection
        self._model = model

    def write_document(
        self,
        document: Document,
        spans: Sequence[ChunkSpan],
        seen_ns: int,
        cancelled: Callable[[], bool],
    ) -> int:
        """Make the rows of a file those of its document; return how many chunks are new.

        A chunk whose id stays keeps its row and its vector. `seen_ns` is the time of the scan that
        found the file. Raises `Cancelled` in mid-work: roll back.
        """
        file, text = document.file, document.text
        lines = text.count("\n") + (0 if not text or text.endswith("\n") else 1)
        file_id = self.write_file(file, document.hash, lines, seen_ns, document)
        chunks = {self.chunk_name(file, span): span for span in spans}
        before = self.chunks_of(file_id)
        self.delete_chunks([row for name, row in before.items() if name not in chunks], cancelled)
        new = [(name, span) for name, span in chunks.items() if name not in before]
        for place, (name, span) in enumerate(new):
            if place % _CHECK_EVERY == 0 and cancelled():
                raise Cancelled
            self.insert_chunk(file_id, name, span)
        return len(new)

    def write_file(
        self,
        file: SourceFile,
        text_hash: str,
        lines: int,
        seen_ns: int,
        document: Document | None = None,
    ) -> int:
        """Make the row of a file, dated as its document says; return its number."""
        day = document.day if document is not None else None
        origin = document.day_from if document is not None else None
        warnings = document.warnings if document is not None else ()
        values = (
            file.source,
            text_hash,
            file.size,
            file.mtime_ns,
            file.inode,
            day.isoformat() if day else None,
            origin.value if origin else None,
            document.importance if document is not None else None,
            lines,
            json.dumps(warnings, ensure_ascii=False),
            seen_ns,
            file.path,
        )
        file_id = self.file_id(file.path)
        self._connection.execute(_UPDATE_FILE if file_id is not None else _INSERT_FILE, values)
        return file_id if file_id is not None else self._connection.last_insert_rowid()

    def chunks_of(self, file_id: int) -> dict[str, int]:
        """Return the rows of a file's chunks, by id."""
        rows = self._connection.execute(
            "SELECT chunk_id, id FROM chunks WHERE file_id = ?", (file_id,)
        ).fetchall()
        return {str(name): int(str(row)) for name, row in rows}

    def file_id(self, path: str) -> int | None:
        """Return the row of a file; `None` when there is none."""
        query = "SELECT ifnull((SELECT id FROM files WHERE path = ?), 0)"
        return number(self._connection, query, path) or None

    def chunk_count(self, path: str) -> int:
        """Count the chunks of a file."""
        query = "SELECT count(*) FROM chunks WHERE file_id = (SELECT id FROM files WHERE path = ?)"
        return number(self._connection, query, path)

    def holds(self, name: str) -> bool:
        """Tell whether there is a chunk of that id."""
        query = "SELECT count(*) FROM chunks WHERE chunk_id = ?"
        return bool(number(self._connection, query, name))

    def touch(self, file: SourceFile, seen_ns: int) -> None:
        """Note a new stat of a file whose content is unchanged."""
        self._connection.execute(
            "UPDATE files SET size = ?, mtime_ns = ?, inode = ?, seen_ns = ? WHERE path = ?",
            (file.size, file.mtime_ns, file.inode, seen_ns, file.path),
        )

    def remove_files(self, paths: Iterable[str], cancelled: Callable[[], bool]) -> int:
        """Remove files with everything that came from them; return how many there were."""
        removed = 0
        for path in paths:
            if (file_id := self.file_id(path)) is not None:
                self.delete_chunks(list(self.chunks_of(file_id).values()), cancelled)
                self._connection.execute("DELETE FROM files WHERE id = ?", (file_id,))
                removed += 1
        return removed

    def write_vectors(self, vectors: Mapping[int, NDArray[np.float32]]) -> None:
        """Store unit vectors, or zeros, by chunk row and mark the chunks as embedded."""
        self._connection.executemany(
            "INSERT OR REPLACE INTO vectors(id, vector) VALUES(?, ?)",
            [(row, vector.tobytes()) for row, vector in vectors.items()],
        )
        self._connection.executemany(
            "UPDATE chunks SET embedded = 1 WHERE id = ?", [(row,) for row in vectors]
        )

    def chunk_name(self, file: SourceFile, span: ChunkSpan) -> str:
        """Return the id of a chunk of a file."""
        return chunk_id(
            file.source, file.path, span.start_line, span.end_line, span.hash, self._model
        )

    def insert_chunk(self, file_id: int, name: str, span: ChunkSpan) -> None:
        """Add a chunk that is not there yet, in a row that never had another one."""
        values = (name, file_id, span.start_line, span.end_line, span.text, span.hash, self._model)
        self._connection.execute(_INSERT_CHUNK, values)
        self._connection.execute(
            "INSERT INTO chunks_fts(rowid, text) VALUES(?, ?)",
            (self._connection.last_insert_rowid(), index_text(span.text)),
        )

    def delete_chunks(self, rows: Sequence[int], cancelled: Callable[[], bool]) -> None:
        """Remove chunks by their rows; raises `Cancelled` in mid-work: roll back."""
        for place, row in enumerate(rows):
            if place % _CHECK_EVERY == 0 and cancelled():
                raise Cancelled
            self._connection.execute("DELETE FROM chunks_fts WHERE rowid = ?", (row,))
            self._connection.execute("DELETE FROM chunks WHERE id = ?", (row,))


def within_limit(spans: Sequence[ChunkSpan], limit: int | None) -> list[ChunkSpan]:
    """Split every chunk of more than `limit` UTF-8 bytes; `None` leaves all as they are.

    Each part keeps the lines of its chunk and has a hash of its own (OPENCLAW.md, section 3).
    Blank parts are left out, and of parts with the same lines and text all but the first, as
    they would have one id.
    """
    if limit is None:
        return list(spans)
    parts: dict[tuple[int, int, str], ChunkSpan] = {}
    for span in spans:
        pieces = [span]
        if byte_size(span.text) > limit:
            texts = [text for text in split_input(span.text, limit) if text.strip()]
            pieces = [replace(span, text=text, hash=text_hash(text)) for text in texts]
        for part in pieces:
            parts.setdefault((part.start_line, part.end_line, part.hash), part)
    return list(parts.values())

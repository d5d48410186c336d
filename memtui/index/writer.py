"""Rows into an index file: the chunks of a document, their vectors, and their removal.

Nothing here begins or ends a transaction; the caller decides what belongs together.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from memtui.embedding.limits import byte_size, split_input
from memtui.errors import Cancelled
from memtui.index.database import number, numbers
from memtui.index.schema import create_vector_table, has_vector_table
from memtui.memory.chunking import chunk_id
from memtui.memory.documents import text_hash
from memtui.model import ChunkSpan, Document, SourceFile
from memtui.text.tokens import index_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from memtui.index.database import Connection

_CHECK_EVERY = 50

# Neither returns what it wrote: a statement that does has a journal of its own, for which the
# full-text rows that are gathered in memory would be written out.
_INSERT_FILE = (
    "INSERT INTO files(source, hash, size, mtime_ns, inode, day, day_from, importance, lines, "
    "warnings, seen_ns, path) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_UPDATE_FILE = (
    "UPDATE files SET source = ?, hash = ?, size = ?, mtime_ns = ?, inode = ?, day = ?, "
    "day_from = ?, importance = ?, lines = ?, warnings = ?, seen_ns = ? WHERE path = ?"
)
_INSERT_CHUNK = (
    "INSERT INTO chunks(chunk_id, file_id, start_line, end_line, text, hash, model) "
    "VALUES(?, ?, ?, ?, ?, ?, ?)"
)


class IndexWriter:
    """Changes the rows of one index file, on the connection's own thread."""

    def __init__(self, connection: Connection, *, model: str) -> None:
        self._connection = connection
        self._model = model
        self._vectors = has_vector_table(connection)

    def write_document(
        self,
        document: Document,
        spans: Sequence[ChunkSpan],
        *,
        seen_ns: int,
        cancelled: Callable[[], bool],
    ) -> int:
        """Make the rows of a file those of its document; how many chunks are new.

        A chunk whose id stays keeps its row and its vector. `seen_ns` is the time of the scan that
        found the file. Raises `Cancelled` in mid-work: roll back.
        """
        text = document.text
        file_id = self.write_file(
            document.file,
            text_hash=document.hash,
            lines=text.count("\n") + (0 if not text or text.endswith("\n") else 1),
            warnings=json.dumps(document.warnings, ensure_ascii=False),
            seen_ns=seen_ns,
            document=document,
        )
        chunks = {self.chunk_name(document.file, span): span for span in spans}
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
        *,
        text_hash: str,
        lines: int,
        warnings: str,
        seen_ns: int,
        document: Document | None = None,
    ) -> int:
        """Make the row of a file, dated as its document says; its number."""
        day = document.day if document is not None else None
        origin = document.day_from if document is not None else None
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
            warnings,
            seen_ns,
            file.path,
        )
        file_id = self.file_id(file.path)
        self._connection.execute(_INSERT_FILE if file_id is None else _UPDATE_FILE, values)
        return self._connection.last_insert_rowid() if file_id is None else file_id

    def chunks_of(self, file_id: int) -> dict[str, int]:
        """Return the rows of a file's chunks, by id."""
        rows = self._connection.execute(
            "SELECT chunk_id, id FROM chunks WHERE file_id = ?", (file_id,)
        ).fetchall()
        return {str(name): int(str(row)) for name, row in rows}

    def file_id(self, path: str) -> int | None:
        """Return the row of a file; `None` when there is none."""
        return next(iter(self._numbers("SELECT id FROM files WHERE path = ?", path)), None)

    def chunk_count(self, path: str) -> int:
        """Count the chunks of a file."""
        query = "SELECT count(*) FROM chunks WHERE file_id = (SELECT id FROM files WHERE path = ?)"
        return number(self._connection, query, path)

    def holds(self, name: str) -> bool:
        """Whether there is a chunk of that id."""
        return bool(self._numbers("SELECT 1 FROM chunks WHERE chunk_id = ?", name))

    def touch(self, file: SourceFile, *, seen_ns: int) -> None:
        """Note a new stat of a file whose content is unchanged."""
        self._connection.execute(
            "UPDATE files SET size = ?, mtime_ns = ?, inode = ?, seen_ns = ? WHERE path = ?",
            (file.size, file.mtime_ns, file.inode, seen_ns, file.path),
        )

    def remove_files(self, paths: Iterable[str], cancelled: Callable[[], bool]) -> int:
        """Remove files with everything that came from them; how many there were."""
        removed = 0
        for path in paths:
            for file_id in self._numbers("SELECT id FROM files WHERE path = ?", path):
                rows = self._numbers("SELECT id FROM chunks WHERE file_id = ?", file_id)
                self.delete_chunks(rows, cancelled)
                self._connection.execute("DELETE FROM files WHERE id = ?", (file_id,))
                removed += 1
        return removed

    def write_vectors(self, vectors: Mapping[int, NDArray[np.float32]]) -> None:
        """Store unit vectors by chunk row and mark the chunks as embedded.

        A zero vector has no direction and therefore no row in the vector table, whose distance
        to it would be NULL.
        """
        if not vectors:
            return
        dims = next(iter(vectors.values())).shape[0]
        if not self._vectors:
            self._vectors = create_vector_table(self._connection, dims)
        if self._vectors:
            self._connection.executemany(
                "INSERT INTO chunks_vec(rowid, embedding) VALUES(?, ?)",
                [(row, vector.tobytes()) for row, vector in vectors.items() if vector.any()],
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
            if self._vectors:
                self._connection.execute("DELETE FROM chunks_vec WHERE rowid = ?", (row,))
            self._connection.execute("DELETE FROM chunks WHERE id = ?", (row,))

    def _numbers(self, query: str, value: str | int) -> list[int]:
        return numbers(self._connection, query, value)


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

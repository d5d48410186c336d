"""Rows into an index file: the chunks of a document, their vectors, and their removal.

Nothing here begins or ends a transaction; the caller decides what belongs together.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

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

T = TypeVar("T")

_FileRow = tuple[str | int | float | None, ...]

_CHECK_EVERY = 50

_FILE_COLUMNS = (
    "path, source, hash, size, mtime_ns, inode, day, day_from, importance, lines, warnings, seen_ns"
)
_INSERT_FILE = (
    f"INSERT INTO files(id, {_FILE_COLUMNS}) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_UPSERT_FILE = f"""
INSERT INTO files({_FILE_COLUMNS})
VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT(path) DO UPDATE SET source = excluded.source, hash = excluded.hash,
  size = excluded.size, mtime_ns = excluded.mtime_ns, inode = excluded.inode, day = excluded.day,
  day_from = excluded.day_from, importance = excluded.importance, lines = excluded.lines,
  warnings = excluded.warnings, seen_ns = excluded.seen_ns
RETURNING id
"""


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
        """Do what `write_documents` does for one."""
        return self.write_documents([(document, spans)], seen_ns=seen_ns, cancelled=cancelled)

    def write_documents(
        self,
        documents: Iterable[tuple[Document, Sequence[ChunkSpan]]],
        *,
        seen_ns: int,
        cancelled: Callable[[], bool],
        may_be_held: Callable[[str], bool] = lambda path: True,
    ) -> int:
        """Make the rows of files those of their documents; how many chunks are new.

        Files for whose path `may_be_held` is false are known to have no row. A chunk whose id
        stays keeps its row and its vector. `seen_ns` is the time of the scan that found the files.
        Raises `Cancelled` in mid-work: roll back.
        """
        last = number(self._connection, "SELECT ifnull(max(id), 0) FROM files")
        pairs = list(documents)
        held = {document.file.path for document, _ in pairs if may_be_held(document.file.path)}
        held = {path for path in held if self.file_id(path) is not None} if last else set()
        rows = self._write_document_rows([document for document, _ in pairs], last, held, seen_ns)
        new: list[tuple[int, str, ChunkSpan]] = []
        for file_id, (document, spans) in zip(rows, pairs, strict=True):
            wanted = {self.chunk_name(document.file, span): span for span in spans}
            before = self.chunks_of(file_id) if file_id <= last else {}
            if gone := [before[name] for name in before if name not in wanted]:
                self.delete_chunks(gone, cancelled)
            new += [(file_id, name, span) for name, span in wanted.items() if name not in before]
        self._insert_chunks(new, cancelled)
        return len(new)

    def write_file(
        self, file: SourceFile, *, text_hash: str, lines: int, warnings: str, seen_ns: int
    ) -> int:
        """Make the row of a file without a date of its own; its number."""
        stat = (file.size, file.mtime_ns, file.inode)
        undated = (None, None, None)
        return self._upsert(
            (file.path, file.source, text_hash, *stat, *undated, lines, warnings, seen_ns)
        )

    def chunks_of(self, file_id: int) -> dict[str, int]:
        """The rows of a file's chunks, by id."""
        rows = self._connection.execute(
            "SELECT chunk_id, id FROM chunks WHERE file_id = ?", (file_id,)
        ).fetchall()
        return {str(name): int(str(row)) for name, row in rows}

    def file_id(self, path: str) -> int | None:
        """The row of a file; `None` when there is none."""
        return next(iter(self._numbers("SELECT id FROM files WHERE path = ?", path)), None)

    def chunk_count(self, path: str) -> int:
        """How many chunks a file has."""
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

    def _numbers(self, query: str, value: str | int) -> list[int]:
        return numbers(self._connection, query, value)

    def chunk_name(self, file: SourceFile, span: ChunkSpan) -> str:
        """The id of a chunk of a file."""
        return chunk_id(
            file.source, file.path, span.start_line, span.end_line, span.hash, self._model
        )

    def _write_document_rows(
        self, documents: Sequence[Document], last: int, held: Container[str], seen_ns: int
    ) -> list[int]:
        """Make the rows of files, of those `held` from what there is, the others behind `last`."""
        fresh: dict[str, _FileRow] = {}
        rows: dict[str, int] = {}
        for document in documents:
            path, values = document.file.path, _document_row(document, seen_ns)
            if path in held:
                rows[path] = self._upsert(values)
            else:
                # Without a journal of its own, a statement leaves the full-text rows in memory.
                row = rows.setdefault(path, last + len(fresh) + 1)
                fresh[path] = (row, *values)
        self._connection.executemany(_INSERT_FILE, list(fresh.values()))
        return [rows[document.file.path] for document in documents]

    def _upsert(self, values: _FileRow) -> int:
        rows = self._connection.execute(_UPSERT_FILE, values).fetchall()
        return int(str(rows[0][0]))

    def insert_chunk(self, file_id: int, name: str, span: ChunkSpan) -> None:
        """Add a chunk that is not there yet."""
        self._insert_chunks([(file_id, name, span)], lambda: False)

    def _insert_chunks(
        self, chunks: Sequence[tuple[int, str, ChunkSpan]], cancelled: Callable[[], bool]
    ) -> None:
        """Add chunks (row of the file, id, span) in rows that never had another chunk."""
        if not chunks:
            return
        used = numbers(self._connection, "SELECT seq FROM sqlite_sequence WHERE name = 'chunks'")
        first = max(used, default=0) + 1
        self._connection.executemany(
            "INSERT INTO chunks(id, chunk_id, file_id, start_line, end_line, text, hash, model) "
            "VALUES(?, ?, ?, ?, ?, ?, ?, ?)",
            (
                (row, name, file_id, span.start_line, span.end_line, span.text, span.hash, model)
                for model in (self._model,)
                for row, (file_id, name, span) in _counted(chunks, first, cancelled)
            ),
        )
        self._connection.executemany(
            "INSERT INTO chunks_fts(rowid, text) VALUES(?, ?)",
            (
                (row, index_text(span.text))
                for row, (_, _, span) in _counted(chunks, first, cancelled)
            ),
        )

    def delete_chunks(self, rows: Sequence[int], cancelled: Callable[[], bool]) -> None:
        """Remove chunks by their rows; raises `Cancelled` in mid-work: roll back."""
        for position, row in enumerate(rows):
            if position % _CHECK_EVERY == 0 and cancelled():
                raise Cancelled
            self._connection.execute("DELETE FROM chunks_fts WHERE rowid = ?", (row,))
            if self._vectors:
                self._connection.execute("DELETE FROM chunks_vec WHERE rowid = ?", (row,))
            self._connection.execute("DELETE FROM chunks WHERE id = ?", (row,))


def _document_row(document: Document, seen_ns: int) -> _FileRow:
    file, text = document.file, document.text
    return (
        file.path,
        file.source,
        document.hash,
        file.size,
        file.mtime_ns,
        file.inode,
        document.day.isoformat() if document.day else None,
        document.day_from.value if document.day_from else None,
        document.importance,
        text.count("\n") + (0 if not text or text.endswith("\n") else 1),
        json.dumps(document.warnings, ensure_ascii=False) if document.warnings else "[]",
        seen_ns,
    )


def _counted(
    chunks: Sequence[T], first: int, cancelled: Callable[[], bool]
) -> Iterator[tuple[int, T]]:
    """Number chunks from `first` on; raises `Cancelled` between two of them."""
    for place, chunk in enumerate(chunks):
        if place % _CHECK_EVERY == 0 and cancelled():
            raise Cancelled
        yield first + place, chunk


def within_limit(spans: Sequence[ChunkSpan], limit: int | None) -> list[ChunkSpan]:
    """Split every chunk of more than `limit` UTF-8 bytes; `None` leaves all as they are.

    Each part keeps the lines of its chunk and has a hash of its own (OPENCLAW.md, section 3).
    Blank parts are left out, and of parts with the same lines and text all but the first, as
    they would have one id.
    """
    if limit is None or all(byte_size(span.text) <= limit for span in spans):
        return list(spans)
    kept: dict[tuple[int, int, str], ChunkSpan] = {}
    for span in spans:
        for part in _parts(span, limit):
            kept.setdefault((part.start_line, part.end_line, part.hash), part)
    return list(kept.values())


def _parts(span: ChunkSpan, limit: int) -> list[ChunkSpan]:
    if byte_size(span.text) <= limit:
        return [span]
    texts = [text for text in split_input(span.text, limit) if text.strip()]
    return [ChunkSpan(span.start_line, span.end_line, text, text_hash(text)) for text in texts]

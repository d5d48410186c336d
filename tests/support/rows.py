"""Index files made row by row, for tests of retrieval."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path

import apsw
import numpy as np
from numpy.typing import NDArray

from memtui.index.database import Connection, create, open_database
from memtui.index.index_rows import write_vectors, write_words
from memtui.memory.chunking import chunk_id
from memtui.memory.documents import text_hash
from memtui.retrieval.connection import find_stems
from memtui.retrieval.keyword import KeywordLeg
from memtui.retrieval.passages import pack_passages
from memtui.retrieval.pool import LegAnswer
from memtui.retrieval.query import narrowed, parse_query
from memtui.retrieval.vector_view import EXACT_LIMIT, VectorView

DIMS = 16


def numbers(connection: Connection, query: str) -> list[int]:
    """Return the numbers that a query answers with, one a row."""
    return [int(str(value)) for (value,) in connection.execute(query)]


def view_of(
    rowids: Iterable[int],
    vectors: NDArray[np.float32],
    *,
    pending: int = 0,
    exact_limit: int = EXACT_LIMIT,
) -> VectorView:
    """A view of some vectors, shape (n, dims)."""
    rows = np.array(list(rowids), dtype=np.int64)
    view = VectorView(int(vectors.shape[1]), exact_limit=exact_limit)
    view.append(rows, vectors)
    view.pending = pending
    return view


class IndexFile:
    """A real index file on one connection; row numbers are given out from 1 on."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "index-1.db"
        self.connection: apsw.Connection = open_database(self.path)
        find_stems(self.connection)
        create(self.connection)
        self._files: dict[str, int] = {}

    def ask(self, text: str, *, limit: int = 50, typing: bool = False) -> LegAnswer:
        """Search a query by its words, among the files that its filters let through."""
        query, allowed = narrowed(self.connection, parse_query(text, typing=typing))
        return KeywordLeg(self.connection).search(query, limit, allowed)

    def add_file(
        self,
        path: str,
        *,
        source: str = "memory",
        day: date | None = None,
        day_from: str | None = None,
        mtime_ns: int = 0,
        importance: float | None = None,
    ) -> int:
        """Add a file without chunks; gives its number."""
        self.connection.execute(
            "INSERT INTO files(path, source, hash, size, mtime_ns, inode, day, day_from, "
            "importance, lines, seen_ns) VALUES(?, ?, '', 0, ?, 0, ?, ?, ?, 1, 0)",
            (path, source, mtime_ns, day.isoformat() if day else None, day_from, importance),
        )
        self._files[path] = self.connection.last_insert_rowid()
        return self._files[path]

    def add(self, text: str, path: str = "memory/note.md", line: int = 1) -> int:
        """Add a chunk, and its file where it is new; gives its row number."""
        if path not in self._files:
            self.add_file(path)
        end, hashed = line + text.count("\n"), text_hash(text)
        source = self.connection.execute("SELECT source FROM files WHERE path = ?", (path,)).get
        name = chunk_id(source, path, line, end, hashed, "test-model")
        words, packed = pack_passages(text)
        self.connection.execute(
            "INSERT INTO chunks"
            "(chunk_id, file_id, start_line, end_line, text, hash, model, passages) "
            "VALUES(?, ?, ?, ?, ?, ?, 'test-model', ?)",
            (name, self._files[path], line, end, text, hashed, packed),
        )
        rowid = self.connection.last_insert_rowid()
        write_words(self.connection, rowid, words)
        return rowid

    def add_all(self, texts: Iterable[str]) -> list[int]:
        """Add chunks of one file in one transaction; gives their row numbers."""
        with self.connection:
            rows = [self.add(text, line=line) for line, text in enumerate(texts, 1)]
        return rows

    def add_vectors(self, vectors: Mapping[int, NDArray[np.float32]]) -> None:
        """Store vectors by row number and mark the chunks as embedded."""
        with self.connection:
            write_vectors(
                self.connection, {row: one.astype(np.float32) for row, one in vectors.items()}
            )

    def remove(self, rowid: int) -> None:
        """Remove a chunk with everything that belongs to it."""
        with self.connection:
            self.connection.execute("DELETE FROM chunks_fts WHERE rowid = ?", (rowid,))
            self.connection.execute("DELETE FROM chunks WHERE id = ?", (rowid,))

    def text_of(self, rowid: int) -> str:
        """Read the text of a chunk."""
        rows = self.connection.execute("SELECT text FROM chunks WHERE id = ?", (rowid,))
        return str(rows.fetchall()[0][0])

    def chunk_ids(self, rowids: Sequence[int]) -> list[str]:
        """Read the chunk ids of rows."""
        sql = "SELECT chunk_id FROM chunks WHERE id = ?"
        return [str(self.connection.execute(sql, (row,)).fetchall()[0][0]) for row in rowids]


def unit_vectors(count: int, dims: int, *, seed: int, clusters: int = 0) -> NDArray[np.float32]:
    """Make unit vectors of shape (count, dims); with `clusters` they lie close together."""
    random = np.random.default_rng(seed)
    vectors = random.standard_normal((count, dims))
    if clusters:
        centres = random.standard_normal((clusters, dims))
        vectors = centres[random.integers(0, clusters, count)] + 0.5 * vectors
    unit: NDArray[np.float32] = np.empty((count, dims), dtype=np.float32)
    unit[:] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit

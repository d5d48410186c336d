"""One reading of memtui's own index, for browsing; on the engine thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from memtui.embedding.provider import ProviderIdentity
from memtui.engine.browsing.shelf import StoredVector, Vectors, Words
from memtui.engine.insight import row_of
from memtui.index.database import number
from memtui.index.schema import NO_MODEL, has_vector_table, read_meta
from memtui.model import Chunk, Reason
from memtui.retrieval.leg_detail import NATIVE_TABLE
from memtui.retrieval.pool import fetch_chunks
from memtui.retrieval.vector_view import VectorView
from memtui.text.tokens import FTS5_TOKENIZE, index_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from memtui.embedding.cache import EmbeddingCache
    from memtui.index.database import Connection

ViewOf = Callable[["Connection", ProviderIdentity], VectorView]
"""The vectors of an index in memory, as they are now."""


class OwnIndex:
    """What `Holdings` asks, of the live generation."""

    def __init__(
        self,
        connection: Connection,
        cache: EmbeddingCache,
        view_of: ViewOf,
        is_indexing: Callable[[], bool],
    ) -> None:
        self._connection = connection
        self._cache = cache
        self._view_of = view_of
        self._is_indexing = is_indexing
        self._meta = read_meta(connection)

    @property
    def words(self) -> Words:
        """The full-text table."""
        return Words(self._connection, NATIVE_TABLE, FTS5_TOKENIZE, index_text)

    @property
    def size(self) -> int:
        """How many chunks there are."""
        return number(self._connection, "SELECT count(*) FROM chunks")

    def row_of(self, chunk_id: str) -> int | None:
        """The row of a chunk; `None` when it is gone."""
        return row_of(self._connection, chunk_id)

    def chunks(self, rowids: Iterable[int]) -> Mapping[int, Chunk]:
        """Read chunks by row."""
        return fetch_chunks(self._connection, rowids)

    def rows_of(self, path: str) -> Sequence[int]:
        """The rows of a file's chunks, in the order of their lines."""
        return self._rows(
            "SELECT c.id FROM chunks c JOIN files f ON f.id = c.file_id WHERE f.path = ? "
            "ORDER BY c.start_line, c.end_line, c.id",
            path,
        )

    def rows_after(self, rowid: int, limit: int, source: str) -> Sequence[int]:
        """The next rows of one source, ascending."""
        return self._rows(
            "SELECT c.id FROM chunks c JOIN files f ON f.id = c.file_id "
            "WHERE c.id > ? AND f.source = ? ORDER BY c.id LIMIT ?",
            rowid,
            source,
            limit,
        )

    def same_text(self, rowid: int) -> Sequence[int]:
        """The other rows with exactly the text of one."""
        return self._rows(
            "SELECT id FROM chunks WHERE hash = (SELECT hash FROM chunks WHERE id = ?1) "
            "AND id != ?1 ORDER BY id",
            rowid,
        )

    def changed(self, chunk: Chunk) -> datetime | None:
        """When the file changed last, as it was indexed."""
        return moment(chunk.mtime_ns)

    def vector(self, rowid: int) -> StoredVector:
        """The vector of a chunk, from the vector table or else from the cache."""
        identity = self._identity()
        if identity is None:
            return StoredVector(None, Reason.NO_VECTORS, "", None)
        row = self._connection.execute(
            "SELECT embedded, hash FROM chunks WHERE id = ?", (rowid,)
        ).fetchall()
        name, dims = identity.name, identity.dimensions
        if not row or not row[0][0]:
            waits = Reason.PENDING if row and self._is_indexing() else Reason.NO_VECTOR
            return StoredVector(None, waits, name, dims)
        values = self._from_table(rowid) if self._has_table() else None
        if values is None:
            text_hash = str(row[0][1])
            values = self._cache.get_many(identity, [text_hash]).get(text_hash)
            if values is None:
                # A zero vector has no row in the table.
                missing = Reason.ZERO_VECTOR if self._has_table() else Reason.NO_VECTOR
                return StoredVector(None, missing, name, dims)
        state = Reason.OK if values.any() else Reason.ZERO_VECTOR
        return StoredVector(values, state, name, len(values))

    def vectors(self, rowid: int) -> Vectors | Reason:
        """All vectors of the index: they are of one model."""
        identity = self._identity()
        if identity is None or identity.dimensions is None:
            return Reason.NO_VECTORS
        view = self._view_of(self._connection, identity)
        if not view.size:
            return Reason.NO_VECTORS
        return Vectors(view.rowids, view.matrix, view.live)

    def _identity(self) -> ProviderIdentity | None:
        """Who made the vectors; `None` for an index that is to hold none."""
        name, model, fingerprint, dims = (
            self._meta.get(key, "") for key in ("provider", "model", "fingerprint", "dimensions")
        )
        if not name or name == NO_MODEL:
            return None
        return ProviderIdentity(name, model, int(dims) if dims.isdecimal() else None, fingerprint)

    def _has_table(self) -> bool:
        # A platform without sqlite-vec may have written last: then the table is out of date.
        return self._meta.get("vectors") != "cache" and has_vector_table(self._connection)

    def _from_table(self, rowid: int) -> NDArray[np.floating] | None:
        import numpy as np

        rows = self._connection.execute(
            "SELECT embedding FROM chunks_vec WHERE rowid = ?", (rowid,)
        ).fetchall()
        if not rows or not isinstance(rows[0][0], bytes):
            return None
        return np.frombuffer(rows[0][0], dtype=np.float32)

    def _rows(self, sql: str, *values: str | int) -> list[int]:
        return [int(str(row[0])) for row in self._connection.execute(sql, values).fetchall()]


def moment(time_ns: int) -> datetime | None:
    """A time of a file in UTC; `None` for none, and for one outside the calendar."""
    if not time_ns:
        return None
    try:
        return datetime.fromtimestamp(time_ns / 1e9, UTC)
    except (OverflowError, OSError, ValueError):
        return None

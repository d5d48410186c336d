"""One reading of another program's index, for browsing; on the engine thread."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from memtui.engine.browsing.shelf import StoredVector, Vectors, Words
from memtui.engine.foreign.insight import MOST_SCANNED
from memtui.engine.foreign.retriever import tables_of
from memtui.engine.insight import MOST_ROWS
from memtui.index.database import number
from memtui.index.foreign import rows
from memtui.index.foreign.drift import moment
from memtui.index.foreign.opening import Opened
from memtui.index.foreign.rows import parse_vector
from memtui.model import Chunk, Reason
from memtui.ranking.decay import chunk_day
from memtui.retrieval.openclaw.plan import well_formed
from memtui.retrieval.openclaw.pool import read_chunks
from memtui.retrieval.openclaw.tables import DEFAULT_SOURCE, SearchScope, readable, text_of, whole
from memtui.retrieval.pool import with_mask

if TYPE_CHECKING:
    from memtui.engine.foreign.facts import ForeignFacts
    from memtui.engine.foreign.retriever import ForeignRetriever
    from memtui.model import Decay

_TEMPORARY = "memtui_"
_NO_ROW = -(2**63)


def chunks_by_file(opened: Opened) -> dict[tuple[str, str], tuple[int, int]]:
    """How many chunks each (path, source) has, and the last line that they reach."""
    layout = opened.layout
    source = readable("source") if layout.chunks_have_source else f"'{DEFAULT_SOURCE}'"
    found = opened.connection.execute(
        f"SELECT {readable('path')}, {source}, count(*), max(end_line) FROM {layout.chunks} "
        "GROUP BY 1, 2"
    ).fetchall()
    return {
        (text_of(path) or "", text_of(kind) or ""): (whole(count), whole(last))
        for path, kind, count, last in found
    }


class ForeignHoldings:
    """What `Holdings` asks, of one commit of an agent's index."""

    def __init__(
        self, opened: Opened, facts: ForeignFacts, retriever: ForeignRetriever, decay: Decay
    ) -> None:
        self._opened = opened
        self._facts = facts
        self._retriever = retriever
        self._decay = decay
        self._connection, self._layout = opened.connection, opened.layout

    @property
    def words(self) -> Words | None:
        """The full-text table; `None` for an index without one."""
        table = self._layout.fts
        if table is None:
            return None
        schema = "temp" if table.startswith(_TEMPORARY) else "main"
        tokenizer = self._layout.tokenizer
        return Words(self._connection, table, tokenizer, well_formed, schema)

    @property
    def size(self) -> int:
        """How many chunks there are."""
        return number(self._connection, f"SELECT count(*) FROM {self._layout.chunks}")

    def row_of(self, chunk_id: str) -> int | None:
        """The row of a chunk; `None` when it is gone."""
        found = self._rows("WHERE id = ?", chunk_id)
        return found[0] if found else None

    def chunks(self, rowids: Iterable[int]) -> Mapping[int, Chunk]:
        """Read chunks by row, dated as the release dates them."""
        held = rows.chunks(self._connection, self._layout, sorted(set(rowids)))
        names = {row.id: rowid for rowid, row in held.items()}
        found = read_chunks(self._connection, tables_of(self._layout), names)
        return {names[name]: self._dated(with_mask(chunk)) for name, chunk in found.items()}

    def rows_of(self, path: str) -> Sequence[int]:
        """The rows of a file's chunks, in the order of their lines."""
        return self._rows("WHERE path = ? ORDER BY start_line, end_line, rowid", path)

    def rows_after(self, rowid: int, limit: int, source: str) -> Sequence[int]:
        """The next rows of one source, ascending."""
        if not self._layout.chunks_have_source:
            wanted = "" if source == DEFAULT_SOURCE else " AND 0"
            return self._rows(f"WHERE rowid > ?{wanted} ORDER BY rowid LIMIT ?", rowid, limit)
        where = "WHERE rowid > ? AND source = ? ORDER BY rowid LIMIT ?"
        return self._rows(where, rowid, source, limit)

    def same_text(self, rowid: int) -> Sequence[int]:
        """The other rows with exactly the text of one."""
        same = f"(SELECT hash FROM {self._layout.chunks} WHERE rowid = ?1)"
        return self._rows(f"WHERE hash = {same} AND rowid != ?1 ORDER BY rowid", rowid)

    def changed(self, chunk: Chunk) -> datetime | None:
        """When the file changed last, as the index says."""
        for row in rows.files(self._connection, self._layout, chunk.path):
            if row.source == chunk.source:
                return moment(row.mtime)
        return None

    def vector(self, rowid: int) -> StoredVector:
        """The vector of a chunk, from the chunk table: the exact numbers."""
        provider = self._facts.identity.provider or ""
        sql = f"SELECT embedding FROM {self._layout.chunks} WHERE rowid = ?"
        found = self._connection.execute(sql, (rowid,)).fetchall()
        dims = self._facts.identity.vector_dims
        try:
            values = parse_vector(found[0][0]) if found else None
        except ValueError:
            values = None
        if values is None or not values.size:
            return StoredVector(None, Reason.NO_VECTOR, provider, dims)
        state = Reason.OK if values.any() else Reason.ZERO_VECTOR
        return StoredVector(values, state, provider, len(values))

    def vectors(self, rowid: int) -> Vectors | Reason:
        """The vectors of the model of one chunk that have as many numbers."""
        import numpy as np

        own = self.chunks([rowid]).get(rowid)
        stored = self.vector(rowid)
        if own is None or stored.values is None:
            return stored.state
        known = self._retriever.stored
        if self.size > (MOST_ROWS if known.holds(self._opened) else MOST_SCANNED):
            return Reason.TOO_MANY
        places = self._places()
        dims = len(stored.values)
        batches = [
            # The index of a damaged table may name rows that the table does not have.
            (np.array([places.get(name, _NO_ROW) for name in names], dtype=np.int64), matrix)
            for names, matrix in known.of(self._opened)(SearchScope(own.model))
            if matrix.shape[1] == dims and len(names)
        ]
        if not batches:
            return Reason.NO_VECTORS
        rowids = np.concatenate([batch[0] for batch in batches])
        matrix = batches[0][1] if len(batches) == 1 else np.concatenate([b[1] for b in batches])
        if (rowids == _NO_ROW).any():
            rowids, matrix = rowids[rowids != _NO_ROW], matrix[rowids != _NO_ROW]
        live = np.isfinite(matrix).all(axis=1) & matrix.any(axis=1)
        return Vectors(rowids, np.where(live[:, None], matrix, 0.0), live)

    def _dated(self, chunk: Chunk) -> Chunk:
        timed = replace(chunk, mtime_ns=self._retriever.file_time(chunk.source, chunk.path))
        dated, day_from = chunk_day(timed, self._decay.dates)
        named = dated is not None and day_from is Reason.FILE_NAME
        return replace(timed, day=dated.date() if dated is not None and named else None)

    def _places(self) -> dict[str, int]:
        sql = f"SELECT rowid, {readable('id')} FROM {self._layout.chunks}"
        found = self._connection.execute(sql).fetchall()
        return {text_of(name) or "": int(str(rowid)) for rowid, name in found}

    def _rows(self, where: str, *values: str | int) -> list[int]:
        sql = f"SELECT rowid FROM {self._layout.chunks} {where}"
        return [int(str(row[0])) for row in self._connection.execute(sql, values).fetchall()]

"""One look at memtui's own index, on the engine thread."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from memtui.engine.ports import (
    ChunkFacts,
    IndexedFile,
    Reading,
    RecentFile,
    StoredVector,
    Vectors,
    Words,
    refused,
)
from memtui.index.database import Connection, number
from memtui.index.index_rows import known_file, recent_files
from memtui.index.schema import NO_MODEL, made_by, read_meta
from memtui.model import CandidatePool, Chunk, Leg, Ranked, Reason
from memtui.model.inquiry import FoundBy, KeywordExplanation, LegPlace, Place
from memtui.retrieval.keyword import TermPlanner
from memtui.retrieval.leg_detail import (
    NATIVE_TABLE,
    explain_keyword,
    keyword_rank,
    matching_rows,
    view_rank,
)
from memtui.retrieval.pool import fetch_chunks
from memtui.retrieval.query import Query, allowed_rows, parse_query
from memtui.text.tokens import FTS5_TOKENIZE, index_text

if TYPE_CHECKING:
    from memtui.engine.own_index import OwnIndex
    from memtui.retrieval.vector_view import RowIds

MOST_ROWS: Final = 100_000
"""So many matching rows are scored again at most, and so many vectors of 384 numbers compared:
0.1 to 0.3 s."""
_NUMBERS_OF_A_VECTOR: Final = 384


class OwnReading(Reading):
    """A look at the live generation."""

    def __init__(self, connection: Connection, index: OwnIndex) -> None:
        self._connection = connection
        self._index = index
        self.words = Words(connection, NATIVE_TABLE, FTS5_TOKENIZE, index_text)

    # --- rows -----------------------------------------------------------------------------

    @property
    def size(self) -> int:
        return number(self._connection, "SELECT count(*) FROM chunks")

    def row_of(self, chunk_id: str) -> int | None:
        return next(iter(self._rows("SELECT id FROM chunks WHERE chunk_id = ?", chunk_id)), None)

    def chunks(self, rowids: Iterable[int]) -> Mapping[int, Chunk]:
        return fetch_chunks(self._connection, rowids)

    def rows_of(self, path: str) -> Sequence[int]:
        return self._rows(
            "SELECT c.id FROM chunks c JOIN files f ON f.id = c.file_id WHERE f.path = ? "
            "ORDER BY c.start_line, c.end_line, c.id",
            path,
        )

    def rows_after(self, rowid: int, limit: int, source: str) -> Sequence[int]:
        return self._rows(
            "SELECT c.id FROM chunks c JOIN files f ON f.id = c.file_id "
            "WHERE c.id > ? AND f.source = ? ORDER BY c.id LIMIT ?",
            rowid,
            source,
            limit,
        )

    def _rows(self, sql: str, *values: str | int) -> list[int]:
        return [int(str(row[0])) for row in self._connection.execute(sql, values).fetchall()]

    # --- vectors --------------------------------------------------------------------------

    def vector(self, rowid: int) -> StoredVector:
        identity = made_by(read_meta(self._connection))
        if identity is None:
            return StoredVector(None, Reason.NO_VECTORS, "", None)
        rows = self._connection.execute(
            "SELECT v.vector FROM chunks c JOIN vectors v ON v.id = c.id "
            "WHERE c.id = ? AND c.embedded = 1",
            (rowid,),
        ).fetchall()
        if not rows or not isinstance(rows[0][0], bytes):
            is_indexing = self._index.status().progress is not None
            waits = Reason.PENDING if is_indexing else Reason.NO_VECTOR
            return StoredVector(None, waits, identity.name, identity.dimensions)
        import numpy as np

        values = np.frombuffer(rows[0][0], dtype=np.float32)
        state = Reason.OK if values.any() else Reason.ZERO_VECTOR
        return StoredVector(values, state, identity.name, len(values))

    def vectors(self, rowid: int) -> Vectors | Reason:
        view = self._index.legs.view()
        if view is None or not view.size:
            return Reason.NO_VECTORS
        return Vectors(view.rowids, view.matrix, view.live)

    # --- files ----------------------------------------------------------------------------

    def paths(self) -> Sequence[str]:
        rows = self._connection.execute("SELECT path FROM files ORDER BY path").fetchall()
        return [str(path) for (path,) in rows]

    def recent(self, limit: int) -> Sequence[RecentFile]:
        return [
            RecentFile(row.path, datetime.fromtimestamp(row.mtime_ns / 1e9, UTC), row.lines)
            for row in recent_files(self._connection, limit)
        ]

    def indexed_text(self, path: str) -> tuple[str | None, str]:
        """Return the hash and the text of a note; lines that no chunk holds are empty."""
        row = known_file(self._connection, path)
        if row is None:
            return None, ""
        lines: dict[int, str] = {}
        parts: dict[tuple[int, int], str] = {}
        for _, chunk in sorted(self.chunks(self.rows_of(path)).items()):
            place = chunk.start_line, chunk.end_line
            # Parts of one chunk have its lines; pieces of one long line overlap: no parts.
            earlier = parts.get(place, "") if chunk.start_line < chunk.end_line else ""
            parts[place] = earlier + chunk.text
        for (start, _), text in parts.items():
            lines.update(enumerate(text.split("\n"), start=start))
        last = max(lines, default=0)
        return row.hash, "\n".join(lines.get(number, "") for number in range(1, last + 1))

    def file_at(self, place: Place, source: str | None = None) -> IndexedFile:
        row = known_file(self._connection, place.path)
        if row is None:
            return IndexedFile(place)
        return IndexedFile(place, row, self.chunk_ranges(row.path), row.source)

    # --- one chunk under one search -------------------------------------------------------

    def facts(self, ranked: Ranked, chunk_id: str) -> ChunkFacts | None:
        stored = self.chunk(chunk_id)
        if stored is None:
            return None
        rowid, chunk = stored
        pool, connection = ranked.pool, self._connection
        # As it was searched, still being typed or not.
        state = pool.states.get(Leg.KEYWORD)
        match = state.facts.get("match") if state is not None else None
        planner, match = TermPlanner(connection), match if isinstance(match, str) else None
        for typing in (False, True):
            query = parse_query(pool.query, typing=typing)
            terms = explain_keyword(connection, query, rowid, match=match, planner=planner)
            if match is None or terms.match == match:
                break
        found_by = FoundBy.MATCH if terms.found else FoundBy.NOTHING
        terms = replace(terms, asked=pool.query, found_by=found_by)
        allowed = allowed_rows(connection, query)
        filters: tuple[str, ...] = ()
        if allowed is not None and rowid not in allowed:
            places = dict.fromkeys(Leg, LegPlace(None, Reason.FILTERED))
            for one, typed in query.filters.fields():
                passing = allowed_rows(connection, replace(query, filters=one, phrases=()))
                if passing is not None and rowid not in passing:
                    filters += tuple(typed)
        else:
            places = {
                Leg.VECTOR: self._vector_place(pool, query, rowid, allowed),
                Leg.KEYWORD: self._keyword_place(pool, terms, allowed),
            }
        return ChunkFacts(chunk, terms, places, self._vector_state(chunk, rowid), filters)

    def _keyword_place(
        self, pool: CandidatePool, terms: KeywordExplanation, allowed: RowIds | None
    ) -> LegPlace:
        refusal, match = refused(pool, Leg.KEYWORD), terms.match
        if refusal is not None or match is None:
            return LegPlace(None, refusal or Reason.NO_TERMS)
        if not terms.found:
            return LegPlace(None, Reason.NOT_MATCHED, terms.asked)
        if matching_rows(self._connection, NATIVE_TABLE, match) > MOST_ROWS:
            return LegPlace(None, Reason.TOO_MANY, terms.asked)
        rank = keyword_rank(self._connection, NATIVE_TABLE, match, terms.rowid, allowed=allowed)
        return LegPlace(rank, Reason.OK if rank is not None else Reason.NOT_MATCHED, terms.asked)

    def _vector_place(
        self, pool: CandidatePool, query: Query, rowid: int, allowed: RowIds | None
    ) -> LegPlace:
        refusal, leg = refused(pool, Leg.VECTOR), self._index.legs.vector_leg
        vector = leg.vectors.get(query.text) if leg is not None else None
        view = self._index.legs.view() if vector is not None else None
        if refusal is not None or view is None or vector is None:
            return LegPlace(None, refusal or Reason.NO_VECTORS)
        if view.count * view.dims > MOST_ROWS * _NUMBERS_OF_A_VECTOR:
            return LegPlace(None, Reason.TOO_MANY)
        rank = view_rank(view, vector, rowid, allowed)
        return LegPlace(rank, Reason.OK if rank is not None else Reason.NO_VECTOR)

    def _vector_state(self, chunk: Chunk, rowid: int) -> Reason:
        """Return why a chunk's vector cannot be compared with a query's; `OK` when it can."""
        leg = self._index.legs.vector_leg
        provider = leg.provider if leg is not None else None
        if provider is not None and chunk.model not in (provider.model, NO_MODEL):
            return Reason.OTHER_MODEL
        if not any(self._rows("SELECT embedded FROM chunks WHERE id = ?", rowid)):
            return Reason.NO_VECTOR
        view = self._index.legs.view() if provider is not None else None
        if view is None or (view.live & (view.rowids == rowid)).any():
            return Reason.OK
        # Embedded, and not to be found: a zero vector is not kept.
        return Reason.ZERO_VECTOR

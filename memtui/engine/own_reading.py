"""One look at memtui's own index: chunks, vectors, terms and ranks; on the engine thread."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from memtui.engine.inquiry import ChunkFacts, refused
from memtui.engine.ports import IndexedFile, StoredVector, Vectors, Words
from memtui.engine.source import RecentFile
from memtui.index.database import number
from memtui.index.reader import ChunkRange, chunk_ranges, known_file, recent_files
from memtui.index.schema import NO_MODEL, has_vector_table, made_by, read_meta
from memtui.index.writer import within_limit
from memtui.model import CandidatePool, Chunk, ChunkSpan, Leg, Ranked, Reason
from memtui.model.inquiry import FoundBy, KeywordExplanation, LegPlace, Place
from memtui.retrieval.filters import AllowedRows, RowFilter
from memtui.retrieval.keyword import TermPlanner
from memtui.retrieval.leg_detail import (
    NATIVE_TABLE,
    explain_keyword,
    keyword_rank,
    matching_rows,
    rare_words,
    view_rank,
)
from memtui.retrieval.pool import fetch_chunks
from memtui.retrieval.query import Filters, Query, parse_query
from memtui.text.tokens import FTS5_TOKENIZE, index_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from memtui.engine.own_index import OwnIndex
    from memtui.index.database import Connection

MOST_ROWS: Final = 100_000
"""So many matching rows are scored again at most, and so many vectors of 384 numbers compared:
0.1 to 0.3 s."""
_NUMBERS_OF_A_VECTOR: Final = 384


class OwnReading:
    """A look at the live generation; see `memtui.engine.ports.Reading`."""

    def __init__(self, connection: Connection, index: OwnIndex) -> None:
        self._connection = connection
        self._index = index

    # --- rows -----------------------------------------------------------------------------

    @property
    def words(self) -> Words:
        return Words(self._connection, NATIVE_TABLE, FTS5_TOKENIZE, index_text)

    @property
    def size(self) -> int:
        return number(self._connection, "SELECT count(*) FROM chunks")

    def row_of(self, chunk_id: str) -> int | None:
        rows = self._rows("SELECT id FROM chunks WHERE chunk_id = ?", chunk_id)
        return rows[0] if rows else None

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

    def same_text(self, rowid: int) -> Sequence[int]:
        return self._rows(
            "SELECT id FROM chunks WHERE hash = (SELECT hash FROM chunks WHERE id = ?1) "
            "AND id != ?1 ORDER BY id",
            rowid,
        )

    def changed(self, chunk: Chunk) -> datetime | None:
        return moment(chunk.mtime_ns)

    # --- vectors --------------------------------------------------------------------------

    def vector(self, rowid: int) -> StoredVector:
        meta = read_meta(self._connection)
        identity = made_by(meta)
        if identity is None:
            return StoredVector(None, Reason.NO_VECTORS, "", None)
        row = self._connection.execute(
            "SELECT embedded, hash FROM chunks WHERE id = ?", (rowid,)
        ).fetchall()
        name, dims = identity.name, identity.dimensions
        if not row or not row[0][0]:
            is_indexing = self._index.status().progress is not None
            waits = Reason.PENDING if row and is_indexing else Reason.NO_VECTOR
            return StoredVector(None, waits, name, dims)
        # A platform without sqlite-vec may have written last: then the table is out of date.
        has_table = meta.get("vectors") != "cache" and has_vector_table(self._connection)
        values = self._from_table(rowid) if has_table else None
        if values is None:
            text_hash = str(row[0][1])
            values = self._index.cache.get_many(identity, [text_hash]).get(text_hash)
            if values is None:
                # A zero vector has no row in the table.
                missing = Reason.ZERO_VECTOR if has_table else Reason.NO_VECTOR
                return StoredVector(None, missing, name, dims)
        state = Reason.OK if values.any() else Reason.ZERO_VECTOR
        return StoredVector(values, state, name, len(values))

    def vectors(self, rowid: int) -> Vectors | Reason:
        identity = made_by(read_meta(self._connection))
        if identity is None or identity.dimensions is None:
            return Reason.NO_VECTORS
        view = self._index.legs.view_of(self._connection, identity)
        if not view.size:
            return Reason.NO_VECTORS
        return Vectors(view.rowids, view.matrix, view.live)

    def _from_table(self, rowid: int) -> NDArray[np.floating] | None:
        import numpy as np

        rows = self._connection.execute(
            "SELECT embedding FROM chunks_vec WHERE rowid = ?", (rowid,)
        ).fetchall()
        if not rows or not isinstance(rows[0][0], bytes):
            return None
        return np.frombuffer(rows[0][0], dtype=np.float32)

    # --- files ----------------------------------------------------------------------------

    def paths(self) -> Sequence[str]:
        rows = self._connection.execute("SELECT path FROM files ORDER BY path").fetchall()
        return [str(path) for (path,) in rows]

    def recent(self, limit: int) -> Sequence[RecentFile]:
        return [
            RecentFile(row.path, datetime.fromtimestamp(row.mtime_ns / 1e9, UTC), row.lines)
            for row in recent_files(self._connection, limit)
        ]

    def chunk_ranges(self, path: str) -> Sequence[ChunkRange]:
        return chunk_ranges(self._connection, path)

    def indexed_text(self, path: str) -> tuple[str | None, str]:
        return indexed_note(self._connection, path)

    def file_at(self, place: Place, source: str | None = None) -> IndexedFile:
        known = known_file(self._connection, place.path)
        if known is None:
            return IndexedFile(place)
        return IndexedFile(place, known, self.chunk_ranges(known.path), known.source)

    # --- one chunk under one search -------------------------------------------------------

    def facts(self, ranked: Ranked, chunk_id: str) -> ChunkFacts | None:
        rowid = self.row_of(chunk_id)
        if rowid is None:
            return None
        chunk = self.chunks([rowid])[rowid]
        query, explanation = self._explained(ranked.pool, rowid)
        rows = RowFilter(self._connection)
        allowed = rows.allowed(query)
        if allowed is not None and not allowed.holds([rowid])[0]:
            places = dict.fromkeys(Leg, LegPlace(None, Reason.FILTERED))
            filters = tuple(_excluding(rows, query, rowid))
        else:
            places = {
                Leg.VECTOR: self._vector_place(ranked.pool, query, rowid, allowed),
                Leg.KEYWORD: self._keyword_place(ranked.pool, explanation, allowed),
            }
            filters = ()
        return ChunkFacts(chunk, explanation, places, self._vector_state(chunk, rowid), filters)

    def nearest(self, ranked: Ranked, ids: Sequence[str]) -> Sequence[str]:
        """Return the chunk with the best BM25 score, the one with the best cosine, the first.

        Of those that the filters and quoted phrases of the query leave; all where they leave none.
        """
        rows = {row: name for name in ids if (row := self.row_of(name)) is not None}
        if len(rows) < 2:
            return list(rows.values())
        allowed = RowFilter(self._connection).allowed(parse_query(ranked.pool.query))
        if allowed is not None:
            held = zip(rows, allowed.holds(list(rows)), strict=True)
            rows = {row: rows[row] for row, is_in in held if is_in} or rows
        found = [*self._best_rows(ranked.pool, list(rows)), next(iter(rows))]
        return list(dict.fromkeys(rows[row] for row in found))

    def rare_words(self, chunk_id: str, query: str, limit: int) -> tuple[str, ...]:
        rowid = self.row_of(chunk_id)
        if rowid is None:
            return ()
        text = self.chunks([rowid])[rowid].text
        return rare_words(self._connection, text, parse_query(query).text, limit)

    def _explained(self, pool: CandidatePool, rowid: int) -> tuple[Query, KeywordExplanation]:
        """The query as it was searched, still being typed or not, and what it says of a row."""
        match, planner = _match_of(pool), TermPlanner(self._connection)
        for typing in (False, True):
            query = parse_query(pool.query, typing=typing)
            explanation = explain_keyword(
                self._connection, query, rowid, match=match, planner=planner
            )
            if match is None or explanation.match == match:
                break
        found_by = FoundBy.MATCH if explanation.found else FoundBy.NOTHING
        return query, replace(explanation, asked=pool.query, found_by=found_by)

    def _keyword_place(
        self, pool: CandidatePool, explanation: KeywordExplanation, allowed: AllowedRows | None
    ) -> LegPlace:
        refusal = refused(pool, Leg.KEYWORD)
        if refusal is not None or explanation.match is None:
            return LegPlace(None, refusal or Reason.NO_TERMS)
        asked, match, connection = explanation.asked, explanation.match, self._connection
        if not explanation.found:
            return LegPlace(None, Reason.NOT_MATCHED, asked)
        if matching_rows(connection, NATIVE_TABLE, match) > MOST_ROWS:
            return LegPlace(None, Reason.TOO_MANY, asked)
        rank = keyword_rank(connection, NATIVE_TABLE, match, explanation.rowid, allowed=allowed)
        return LegPlace(rank, Reason.OK if rank is not None else Reason.NOT_MATCHED, asked)

    def _vector_place(
        self, pool: CandidatePool, query: Query, rowid: int, allowed: AllowedRows | None
    ) -> LegPlace:
        refusal = refused(pool, Leg.VECTOR)
        leg, view = self._index.legs.vector_leg, self._index.legs.view_now()
        vector = leg.remembered(query.text) if leg is not None else None
        if refusal is not None or leg is None or view is None or vector is None:
            return LegPlace(None, refusal or Reason.NO_VECTORS)
        if view.count * view.dims > MOST_ROWS * _NUMBERS_OF_A_VECTOR:
            return LegPlace(None, Reason.TOO_MANY)
        rows = None if allowed is None else allowed.rowids
        rank = view_rank(view, vector, rowid, rows)
        return LegPlace(rank, Reason.OK if rank is not None else Reason.NO_VECTOR)

    def _vector_state(self, chunk: Chunk, rowid: int) -> Reason:
        """Why a chunk's vector cannot be compared with a query's; `OK` when it can."""
        leg = self._index.legs.vector_leg
        provider = leg.provider if leg is not None else None
        if provider is not None and chunk.model != provider.model and chunk.model != NO_MODEL:
            return Reason.OTHER_MODEL
        if not number(self._connection, f"SELECT embedded FROM chunks WHERE id = {rowid}"):
            return Reason.NO_VECTOR
        view = self._index.legs.view_now()
        if view is None or (view.live & (view.rowids == rowid)).any():
            return Reason.OK
        # Embedded, and not to be found: a zero vector is not kept.
        return Reason.ZERO_VECTOR

    def _best_rows(self, pool: CandidatePool, rows: list[int]) -> Iterator[int]:
        match = _match_of(pool)
        if match is not None and refused(pool, Leg.KEYWORD) is None:
            sql = (
                f"SELECT rowid FROM {NATIVE_TABLE} WHERE {NATIVE_TABLE} MATCH ? AND rowid IN "
                f"(SELECT value FROM json_each(?)) ORDER BY bm25({NATIVE_TABLE}), rowid LIMIT 1"
            )
            yield from self._rows(sql, match, json.dumps(rows))
        leg, view = self._index.legs.vector_leg, self._index.legs.view_now()
        # What is embedded does not depend on whether the query was finished.
        vector = leg.remembered(parse_query(pool.query).text) if leg is not None else None
        if view is None or vector is None or refused(pool, Leg.VECTOR) is not None:
            return
        import numpy as np

        places = np.flatnonzero(view.live & np.isin(view.rowids, np.array(rows, dtype=np.int64)))
        if len(places):
            yield int(view.rowids[places[(view.matrix[places] @ vector).argmax()]])

    def _rows(self, sql: str, *values: str | int) -> list[int]:
        return [int(str(row[0])) for row in self._connection.execute(sql, values).fetchall()]


def indexed_note(connection: Connection, path: str) -> tuple[str | None, str]:
    """Return the hash and the text of a note as it was indexed; (`None`, "") for none.

    Lines that no chunk holds (blank ones between chunks) are empty.
    """
    row = known_file(connection, path)
    if row is None:
        return None, ""
    rows = connection.execute(
        "SELECT c.id FROM chunks c JOIN files f ON f.id = c.file_id WHERE f.path = ?", (path,)
    ).fetchall()
    lines: dict[int, str] = {}
    parts: dict[tuple[int, int], str] = {}
    for _, chunk in sorted(fetch_chunks(connection, [int(str(one[0])) for one in rows]).items()):
        place = chunk.start_line, chunk.end_line
        # Parts of one chunk have its lines; pieces of one long line overlap, and are no parts.
        earlier = parts.get(place, "") if chunk.start_line < chunk.end_line else ""
        parts[place] = earlier + chunk.text
    for (start, _), text in parts.items():
        lines.update(enumerate(text.split("\n"), start=start))
    last = max(lines, default=0)
    return row.hash, "\n".join(lines.get(number, "") for number in range(1, last + 1))


def moment(time_ns: int) -> datetime | None:
    """Return a time of a file in UTC; `None` for none, and for one outside the calendar."""
    if not time_ns:
        return None
    try:
        return datetime.fromtimestamp(time_ns / 1e9, UTC)
    except (OverflowError, OSError, ValueError):
        return None


def _match_of(pool: CandidatePool) -> str | None:
    """The MATCH expression of a keyword leg that answered."""
    state = pool.states.get(Leg.KEYWORD)
    match = state.facts.get("match") if state is not None else None
    return match if isinstance(match, str) else None


def _excluding(rows: RowFilter, query: Query, rowid: int) -> Iterator[str]:
    """Return the filters of a query that leave a row out, as they can be typed."""
    filters = query.filters
    kinds = (
        (Filters(sources=filters.sources), [f"source:{name}" for name in filters.sources]),
        (Filters(path_globs=filters.path_globs), [f"path:{glob}" for glob in filters.path_globs]),
        (Filters(after=filters.after), [f"after:{filters.after}"]),
        (Filters(before=filters.before), [f"before:{filters.before}"]),
    )
    for one, typed in kinds:
        allowed = rows.allowed(replace(query, filters=one, phrases=()))
        if allowed is not None and not allowed.holds([rowid])[0]:
            yield from typed


def chunk_lengths(connection: Connection, input_bytes: int | None = None) -> list[tuple[str, int]]:
    """Return the text hash and the length in characters of every chunk, split above the limit."""
    # No character takes more than four bytes.
    rows = connection.execute(
        "SELECT hash, length(text), CASE WHEN length(text) * 4 > ? THEN text END FROM chunks",
        (input_bytes,),
    ).fetchall()
    lengths: list[tuple[str, int]] = []
    for text_hash, length, text in rows:
        if text is None:
            lengths.append((str(text_hash), int(str(length))))
        else:
            parts = within_limit([ChunkSpan(1, 1, str(text), str(text_hash))], input_bytes)
            lengths += [(part.hash, len(part.text)) for part in parts]
    return lengths

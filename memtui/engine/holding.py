"""What memtui's own index holds at a place; on the engine thread, over one connection."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from memtui.engine.best_chunk import best_by_legs, best_in_pool
from memtui.engine.inquiry import ChunkFacts
from memtui.engine.insight import facts_of, refused, row_of
from memtui.engine.places import Meant, meant, readings, spellings
from memtui.index.reader import ChunkRange, chunk_ranges
from memtui.index.scan import KnownFile, known_file
from memtui.model import CandidatePool, Leg, Ranked
from memtui.model.inquiry import Place
from memtui.retrieval.filters import RowFilter
from memtui.retrieval.leg_detail import NATIVE_TABLE
from memtui.retrieval.query import parse_query

if TYPE_CHECKING:
    from memtui.engine.retriever import Retriever
    from memtui.index.database import Connection


@dataclass(frozen=True, slots=True)
class Held:
    """A file of the index: `place` as it was understood, `several` where it is not clear."""

    place: Place
    known: KnownFile | None = None
    ranges: Sequence[ChunkRange] = ()
    several: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """As the index stores it; as it was asked for when the index does not hold it."""
        return self.known.path if self.known is not None else self.place.path


def _held(connection: Connection, place: Place, known: KnownFile) -> Held:
    return Held(place, known, chunk_ranges(connection, known.path))


def all_paths(connection: Connection) -> list[str]:
    """Every file of the index, sorted."""
    return [str(path) for (path,) in connection.execute("SELECT path FROM files ORDER BY path")]


def held_at(connection: Connection, place: Place, root: Path) -> Held:
    """Find the file that a place names, as people write paths."""
    for reading in readings(place):
        for path in spellings(reading.path, root):
            known = known_file(connection, path)
            if known is not None:
                return _held(connection, reading, known)
    paths = all_paths(connection)
    several: tuple[str, ...] = ()
    for reading in readings(place):
        found: Meant = meant(spellings(reading.path, root), paths)
        known = known_file(connection, found.path) if found.path is not None else None
        if known is not None:
            return _held(connection, reading, known)
        several = several or found.several
    return Held(place, several=several)


def facts_by_id(
    retriever: Retriever, connection: Connection, ranked: Ranked, chunk_id: str
) -> tuple[ChunkFacts, KnownFile | None] | None:
    """What the search says of a chunk, and its file; `None` when the index does not hold it."""
    rowid = row_of(connection, chunk_id)
    if rowid is None:
        return None
    facts = facts_of(retriever, connection, ranked.pool, rowid)
    return facts, known_file(connection, facts.chunk.path)


def best_facts(
    retriever: Retriever, connection: Connection, ranked: Ranked, ids: Sequence[str]
) -> ChunkFacts | None:
    """What the search says of the chunk that comes nearest to the list; `None` for none held."""
    best = best_in_pool(ranked, ids)
    chosen = [best] if best is not None else ids
    rows = [row for row in (row_of(connection, chunk_id) for chunk_id in chosen) if row is not None]
    if len(rows) > 1:
        rows = _let_through(connection, ranked.pool, rows)
        rows = list(dict.fromkeys([*_nearest(retriever, connection, ranked.pool, rows), rows[0]]))
    if not rows:
        return None
    return best_by_legs(facts_of(retriever, connection, ranked.pool, row) for row in rows)


def _let_through(connection: Connection, pool: CandidatePool, rows: list[int]) -> list[int]:
    """The rows that the query's filters and quoted phrases leave; all where they leave none."""
    allowed = RowFilter(connection).allowed(parse_query(pool.query))
    if allowed is None:
        return rows
    holds = allowed.holds(rows)
    return [row for row, is_in in zip(rows, holds, strict=True) if is_in] or rows


def _nearest(
    retriever: Retriever, connection: Connection, pool: CandidatePool, rows: Sequence[int]
) -> Iterator[int]:
    """The row with the best BM25 score, and the one with the best cosine."""
    state = pool.states.get(Leg.KEYWORD)
    match = state.facts.get("match") if state is not None else None
    if isinstance(match, str) and refused(pool, Leg.KEYWORD) is None:
        sql = (
            f"SELECT rowid FROM {NATIVE_TABLE} WHERE {NATIVE_TABLE} MATCH ? AND rowid IN "
            f"(SELECT value FROM json_each(?)) ORDER BY bm25({NATIVE_TABLE}), rowid LIMIT 1"
        )
        for (rowid,) in connection.execute(sql, (match, json.dumps(list(rows)))).fetchall():
            yield int(str(rowid))
    leg = retriever.vector_leg
    view = retriever.view_now()
    # What is embedded does not depend on whether the query was finished.
    vector = leg.remembered(parse_query(pool.query).text) if leg is not None else None
    if view is None or vector is None or refused(pool, Leg.VECTOR) is not None:
        return
    import numpy as np

    places = np.flatnonzero(view.live & np.isin(view.rowids, np.array(rows, dtype=np.int64)))
    if len(places):
        yield int(view.rowids[places[(view.matrix[places] @ vector).argmax()]])

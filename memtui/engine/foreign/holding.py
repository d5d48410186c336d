"""What another program's index holds at a place; on the engine thread, over one connection."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from memtui.engine.best_chunk import best_by_legs, best_in_pool
from memtui.engine.foreign.insight import MOST_SCANNED
from memtui.engine.foreign.reading import chunk_ranges, indexed_text
from memtui.engine.foreign.retriever import tables_of
from memtui.engine.insight import MOST_ROWS, refused
from memtui.engine.places import meant, readings, spellings
from memtui.index.foreign import rows
from memtui.index.foreign.drift import SOURCE as MEMORY
from memtui.index.foreign.opening import Opened
from memtui.index.foreign.rows import FileRow
from memtui.index.reader import ChunkRange
from memtui.model import Leg, Ranked
from memtui.model.inquiry import Place
from memtui.retrieval.leg_detail import rare_words_openclaw
from memtui.retrieval.openclaw.plan import well_formed
from memtui.retrieval.openclaw.pool import read_chunks
from memtui.retrieval.openclaw.tables import readable, text_of
from memtui.retrieval.openclaw.vector import cosine_similarities
from memtui.retrieval.pool import with_mask

if TYPE_CHECKING:
    from memtui.engine.foreign.vectors import StoredVectors
    from memtui.engine.inquiry import ChunkFacts
    from memtui.engine.standing import FileStanding
    from memtui.retrieval.openclaw.tables import SearchScope
    from memtui.retrieval.openclaw.vector import Vector


@dataclass(frozen=True, slots=True)
class Held:
    """A file of the index: `place` as it was understood, `several` where it is not clear."""

    place: Place
    row: FileRow | None = None
    ranges: Sequence[ChunkRange] = ()
    source: str = MEMORY
    several: tuple[str, ...] = ()
    transcript: FileStanding | None = None
    """How it stands, where it is a transcript."""

    @property
    def path(self) -> str:
        """As the index stores it."""
        return self.place.path

    @property
    def is_held(self) -> bool:
        """Whether the index has a row or a chunk of it."""
        return self.row is not None or bool(self.ranges)


def all_paths(opened: Opened) -> list[str]:
    """Every path of the file table and of the chunk table, sorted."""
    layout, column = opened.layout, readable("path")
    found = opened.connection.execute(
        f"SELECT {column} FROM {layout.files} UNION SELECT {column} FROM {layout.chunks}"
    ).fetchall()
    return sorted({text_of(path) or "" for (path,) in found} - {""})


def held_at(opened: Opened, place: Place, root: Path) -> Held:
    """Find the file that a place names, as people write paths."""
    for reading in readings(place):
        for path in spellings(reading.path, root):
            held = held_path(opened, reading, well_formed(path))
            if held.is_held:
                return held
    paths = all_paths(opened)
    several: tuple[str, ...] = ()
    for reading in readings(place):
        found = meant(spellings(reading.path, root), paths)
        if found.path is not None:
            return held_path(opened, reading, found.path)
        several = several or found.several
    return Held(place, several=several)


def held_path(opened: Opened, place: Place, path: str, source: str | None = None) -> Held:
    """What the index holds of one path; of several sources, the notes come first."""
    found = rows.files(opened.connection, opened.layout, path)
    named = [row for row in found if source is None or row.source == source]
    row = min(named, key=lambda row: (row.source != MEMORY, row.source), default=None)
    kind = row.source if row is not None else source or MEMORY
    return Held(Place(path, place.line), row, chunk_ranges(opened, path), kind)


def indexed_lines(opened: Opened, path: str) -> str:
    """The text of a file as its chunks hold it."""
    return indexed_text(opened, path)[1]


def text_by_id(opened: Opened, chunk_id: str) -> str | None:
    """The text of a chunk; `None` when the index does not hold it."""
    found = read_chunks(opened.connection, tables_of(opened.layout), [chunk_id])
    return with_mask(found[chunk_id]).text if chunk_id in found else None


def rare_words(opened: Opened, chunk_id: str, query: str, limit: int) -> tuple[str, ...]:
    """The most distinctive words of a chunk that a query lacks; none for one that is gone."""
    text = text_by_id(opened, chunk_id)
    if text is None:
        return ()
    tables = tables_of(opened.layout)
    return rare_words_openclaw(opened.connection, tables, text, query, limit)


def nearest(
    opened: Opened,
    ranked: Ranked,
    ids: Sequence[str],
    scope: SearchScope,
    vectors: StoredVectors,
    vector: Vector | None,
) -> list[str]:
    """The chunks of a file that can be the nearest to the list: by rank, BM25 score or cosine."""
    best = best_in_pool(ranked, ids)
    if best is not None:
        return [best]
    found = [*_by_text(opened, ranked, ids), *_by_vector(opened, ids, scope, vectors, vector)]
    return list(dict.fromkeys([*found, *ids[:1]]))


def best(found: Iterable[ChunkFacts | None]) -> ChunkFacts | None:
    """The one that a leg ranks best; `None` where the index holds none of them."""
    held = [facts for facts in found if facts is not None]
    return best_by_legs(held) if held else None


def _by_text(opened: Opened, ranked: Ranked, ids: Sequence[str]) -> Iterator[str]:
    state, fts = ranked.pool.states.get(Leg.KEYWORD), opened.layout.fts
    match = state.facts.get("match") if state is not None else None
    if not match or fts is None or refused(ranked.pool, Leg.KEYWORD) is not None:
        return
    sql = (
        f"SELECT {readable('id')} FROM {fts} WHERE {fts} MATCH ? AND id IN "
        f"(SELECT value FROM json_each(?)) ORDER BY bm25({fts}), rowid LIMIT 1"
    )
    for (chunk_id,) in opened.connection.execute(sql, (str(match), json.dumps(list(ids)))):
        yield text_of(chunk_id) or ""


def _by_vector(
    opened: Opened,
    ids: Sequence[str],
    scope: SearchScope,
    vectors: StoredVectors,
    vector: Vector | None,
) -> Iterator[str]:
    sql = f"SELECT count(*) FROM {opened.layout.chunks}"
    chunks = int(str(opened.connection.execute(sql).fetchall()[0][0]))
    most = MOST_ROWS if vectors.holds(opened) else MOST_SCANNED
    if vector is None or len(ids) < 2 or chunks > most:
        return
    wanted = frozenset(ids)
    cosines: list[tuple[float, str]] = []
    for names, stored in vectors.of(opened)(scope):
        places = [place for place, name in enumerate(names) if name in wanted]
        found = cosine_similarities(vector, stored[places])
        cosines += zip(found, (names[place] for place in places), strict=True)
    if cosines:
        yield max(cosines)[1]

"""One look at another program's index: chunks, vectors, terms and ranks; on the engine thread."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final

import numpy as np
from msgspec.structs import replace

from memtui.engine.foreign.agent import AgentLegs, filtered_scope, fits_file
from memtui.engine.own_reading import MOST_ROWS
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
from memtui.index.foreign import rows
from memtui.index.foreign.opening import Opened
from memtui.index.foreign.rows import parse_vector
from memtui.memory.documents import utc_time
from memtui.model import EPOCH, NOTES, CandidatePool, Chunk, Leg, Ranked, Reason
from memtui.model.inquiry import FoundBy, KeywordExplanation, LegPlace, LegRank, Place
from memtui.ranking.stages import chunk_day
from memtui.retrieval import leg_detail
from memtui.retrieval.marks import match_spans
from memtui.retrieval.openclaw.candidates import Vector, chunk_rows, is_zero, scan
from memtui.retrieval.openclaw.keyword_leg import OpenClawKeywordLeg
from memtui.retrieval.openclaw.tables import SQL, SearchScope, finite, readable, text_of
from memtui.retrieval.openclaw.terms import TRIGRAM, KeywordPlan, extract_keywords, searched_part
from memtui.retrieval.pool import with_mask
from memtui.retrieval.query import parse_query
from memtui.text.ecmascript import trim, well_formed

MOST_SCANNED: Final = 20_000
"""So many rows are compared with substrings at most, or vectors read for the first time."""


class OpenClawReading(Reading):
    """A look at one commit of an agent's index.

    `vector` is that of the query that is asked about; `None` without one.
    """

    def __init__(self, opened: Opened, legs: AgentLegs, vector: Vector | None) -> None:
        self.opened = opened
        self.legs = legs
        self.query_vector = vector
        self._layout = opened.layout
        self._facts, self._release = legs.facts, legs.release
        self._select = opened.select
        if opened.layout.fts is not None:
            table, tokenizer = opened.layout.fts, opened.layout.tokenizer
            self.words = Words(opened.connection, table, tokenizer, well_formed)

    @property
    def size(self) -> int:
        return int(self._select(f"SELECT count(*) FROM {self._layout.chunks}")[0][0])

    def row_of(self, chunk_id: str) -> int | None:
        return next(iter(self._rows("WHERE id = ?", chunk_id)), None)

    def chunks(self, rowids: Iterable[int]) -> Mapping[int, Chunk]:
        chunks = chunk_rows(self.opened.connection, self._layout, "rowid", rowids)
        return {rowid: self._dated(with_mask(chunk)) for rowid, chunk in chunks.items()}

    def rows_of(self, path: str) -> Sequence[int]:
        return self._rows("WHERE path = ? ORDER BY start_line, end_line, rowid", path)

    def changed(self, chunk: Chunk) -> datetime | None:
        files = rows.files(self.opened, chunk.path)
        return next((row.changed for row in files if row.source == chunk.source), None)

    def _dated(self, chunk: Chunk) -> Chunk:
        timed = replace(chunk, mtime_ns=self.legs.file_time(chunk.source, chunk.path))
        dated, day_from = chunk_day(timed, self._facts.ranking.decay.dates)
        is_named = dated is not None and day_from is Reason.FILE_NAME
        return replace(timed, day=dated.date() if dated is not None and is_named else None)

    def _rows(self, where: str, *values: str | int) -> list[int]:
        rowids = self._select(f"SELECT rowid FROM {self._layout.chunks} {where}", *values)
        return [rowid for (rowid,) in rowids]

    def vector(self, rowid: int) -> StoredVector:
        identity = self._facts.identity
        provider, values = identity.provider or "", None
        sql = f"SELECT embedding FROM {self._layout.chunks} WHERE rowid = ?"
        for (stored,) in self._select(sql, rowid):
            with suppress(ValueError):
                values = parse_vector(stored)
        if values is None or not values.size:
            return StoredVector(None, Reason.NO_VECTOR, provider, identity.vector_dims)
        state = Reason.OK if values.any() else Reason.ZERO_VECTOR
        return StoredVector(values, state, provider, len(values))

    def vectors(self, rowid: int) -> Vectors | Reason:
        stored = self.vector(rowid)
        if stored.values is None:
            return stored.state
        if self.is_too_large:
            return Reason.TOO_MANY
        dims, batches = len(stored.values), self.legs.vectors.batches(self.opened)
        parts = [part for part in batches if part.vectors.shape[1] == dims]
        if not parts:
            return Reason.NO_VECTORS
        rowids = np.concatenate([part.rowids for part in parts])
        of_model = f"WHERE model = (SELECT model FROM {self._layout.chunks} WHERE rowid = ?)"
        # The index of a damaged table may name rows that the table does not have.
        comparable = np.isin(rowids, self._rows(of_model, rowid))
        rowids, matrix = rowids[comparable], np.concatenate([p.vectors for p in parts])[comparable]
        live = np.isfinite(matrix).all(axis=1) & matrix.any(axis=1)
        return Vectors(rowids, np.where(live[:, None], matrix, 0.0), live)

    @property
    def is_too_large(self) -> bool:
        """Tell whether comparing every vector would take too long now."""
        # Those of the vector table are read at once, those of the chunks one by one.
        is_quick = self.opened.vec_readable or self.legs.vectors.are_loaded(self.opened)
        return self.size > (MOST_ROWS if is_quick else MOST_SCANNED)

    def paths(self) -> Sequence[str]:
        layout, column = self._layout, readable("path")
        sql = f"SELECT {column} FROM {layout.files} UNION SELECT {column} FROM {layout.chunks}"
        return sorted({text_of(path) or "" for (path,) in self._select(sql)} - {""})

    def recent(self, limit: int) -> Sequence[RecentFile]:
        sql = SQL["recent"].format(files=self._layout.files)
        return [
            RecentFile(str(path), utc_time((finite(mtime) or 0) / 1000) or EPOCH)
            for path, mtime in self._select(sql, limit)
        ]

    def file_at(self, place: Place, source: str | None = None) -> IndexedFile:
        path = well_formed(place.path)
        files = rows.files(self.opened, path)
        named = [row for row in files if source is None or row.source == source]
        row = min(named, key=lambda row: (row.source != NOTES, row.source), default=None)
        kind = row.source if row is not None else source or NOTES
        return IndexedFile(replace(place, path=path), row, self.chunks_of(path), kind)

    def facts(self, ranked: Ranked, chunk_id: str) -> ChunkFacts | None:
        """Return everything that the search says of the chunk; `None` when the index lacks it.

        Keyword leg: by `bm25()` of the whole query's MATCH, or of the keyword where it stands
        best; a release puts path hits and its boost on top of that. Vector leg: by cosine.
        """
        pool, opened = ranked.pool, self.opened
        parsed = parse_query(pool.query)
        # As it is searched: without blanks around it, and no longer than the leg reads.
        query = searched_part(trim(well_formed(parsed.rest)))
        scope = filtered_scope(opened, self._facts.scope, parsed.filters)
        stored = chunk_rows(opened.connection, self._layout, "id", [chunk_id])
        # A full-text row whose chunk is gone still is a hit up to 2026.5.
        rowid, chunk = next(iter(stored.items()), (None, pool.chunks.get(chunk_id)))
        if chunk is None:
            return None
        chunk, terms = with_mask(chunk), self._keyword_terms(pool, query, scope, chunk_id)
        time = rows.time_of(opened, chunk.path, chunk.source)
        texts = [own.text for own in self.chunks_of(chunk.path)]
        left_out = tuple(
            typed
            for one, every in parsed.filters.fields()
            if not fits_file(one, chunk.path, chunk.source, time)
            or (one.tags and not any(map(one.fits_tags, texts)))
            or match_spans(chunk.text, one.excluded)
            for typed in every
        )
        places = dict.fromkeys(Leg, LegPlace(None, Reason.FILTERED))
        if not left_out:
            places = {
                Leg.VECTOR: self._vector_place(pool, scope, chunk_id),
                Leg.KEYWORD: self._keyword_place(pool, query, scope, terms),
            }
        vector = Reason.NO_VECTOR
        values = self.vector(rowid).values if rowid is not None else None
        if scope.model is not None and chunk.model not in ("", scope.model):
            vector = Reason.OTHER_MODEL
        elif values is not None and (scope.model is None or chunk.model):
            is_nothing = is_zero(values.astype(np.float64, copy=False))
            vector = Reason.ZERO_VECTOR if is_nothing else Reason.OK
        return ChunkFacts(chunk, terms, places, vector, left_out, gone=rowid is None)

    def _keyword_terms(
        self, pool: CandidatePool, query: str, scope: SearchScope, chunk_id: str
    ) -> KeywordExplanation | None:
        """Explain the keyword leg of the chunk, and every keyword that was searched by itself.

        `None` when the full-text table has no row of it.
        """
        connection, layout = self.opened.connection, self._layout
        rowid, release = leg_detail.openclaw_row(connection, layout, chunk_id), self._release
        if rowid is None or layout.fts is None:
            return None
        listed = str(pool.states[Leg.KEYWORD].facts.get("keywords") or "")
        words = tuple(listed.split())
        is_trigram = layout.tokenizer == TRIGRAM
        if listed == query and len(extract_keywords(listed, trigram=is_trigram)) <= 1:
            # A query without keywords of its own stands for them.
            words = ()
        texts = (query, *words)
        entire, *single = (
            leg_detail.explain_openclaw(connection, layout, release, text, rowid) for text in texts
        )
        found_by, hits = entire.found_by, pool.hits[Leg.KEYWORD]
        if any(hit.chunk_id == chunk_id and not hit.has_body for hit in hits):
            found_by = FoundBy.PATH
        elif found_by is FoundBy.NOTHING and any(one.found for one in single):
            found_by = FoundBy.KEYWORDS
        always = release.expansion == "without_provider_always"
        sent = not (words and always and scope.model is None)
        return replace(entire, sent=sent, keywords=tuple(single), found_by=found_by)

    def _keyword_place(
        self, pool: CandidatePool, query: str, scope: SearchScope, terms: KeywordExplanation | None
    ) -> LegPlace:
        """Return the rank for the whole query, else for the keyword where it is best."""
        refusal, fts = refused(pool, Leg.KEYWORD), self._layout.fts
        connection = self.opened.connection
        if refusal is not None or terms is None or fts is None:
            return LegPlace(None, refusal or Reason.NOT_INDEXED)
        searched = [*([terms] if terms.sent else []), *terms.keywords]
        matching = [one for one in searched if one.found]
        if not matching:
            by_path = terms.found_by is FoundBy.PATH
            return LegPlace(None, Reason.PATH_ALONE if by_path else Reason.NOT_MATCHED)
        places = []
        for one in matching[:1] if matching[0].asked == query else matching:
            plan = KeywordPlan(one.match, tuple(term.text for term in one.substrings))
            count = one.rows
            if plan.match is not None:
                count = leg_detail.matching_rows(connection, fts, plan.match)
            if count > (MOST_SCANNED if plan.substrings else MOST_ROWS):
                places.append(LegPlace(None, Reason.TOO_MANY, one.asked))
                continue
            # Under the conditions of the release.
            leg = OpenClawKeywordLeg(connection, self._layout, self._release, scope)
            conditions, values = leg.conditions(plan)
            rank = leg_detail.keyword_rank(
                connection, fts, plan.match, one.rowid, conditions=conditions, values=values
            )
            reason = Reason.OK if rank is not None else Reason.FILTERED
            places.append(LegPlace(rank, reason, one.asked))
        return min(places, key=lambda one: one.rank.position if one.rank else math.inf)

    def _vector_place(self, pool: CandidatePool, scope: SearchScope, chunk_id: str) -> LegPlace:
        refusal, vector = refused(pool, Leg.VECTOR), self.query_vector
        if refusal is not None or vector is None:
            return LegPlace(None, refusal or Reason.NO_VECTORS)
        if self.is_too_large:
            return LegPlace(None, Reason.TOO_MANY)
        # As memtui compares: the last digits are not sqlite-vec's.
        hits = scan(vector, self.legs.vectors.visible(self.opened, scope)).hits
        for position, (name, cosine) in enumerate(hits):
            if name == chunk_id:
                return LegPlace(LegRank(position, len(hits), cosine))
        return LegPlace(None, Reason.NO_VECTOR)

"""One chunk of a search of another program's index opened up: its terms, its rank in each leg.

On the engine thread, over the connection that searches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from memtui.engine.foreign.filtering import excluding, stored_time
from memtui.engine.foreign.retriever import tables_of
from memtui.engine.foreign.vectors import StoredVectors
from memtui.engine.inquiry import ChunkFacts
from memtui.engine.insight import MOST_ROWS, Places, refused
from memtui.index.foreign.opening import Opened
from memtui.index.foreign.rows import parse_vector
from memtui.model import CandidatePool, Chunk, Leg, LegHit, Ranked, Reason
from memtui.model.inquiry import FoundBy, KeywordExplanation, LegPlace, LegRank
from memtui.retrieval.leg_detail import (
    explain_openclaw,
    keyword_rank,
    matching_rows,
    openclaw_row,
    stored_rank,
)
from memtui.retrieval.openclaw.body import BodySearch
from memtui.retrieval.openclaw.keywords import extract_keywords
from memtui.retrieval.openclaw.plan import TRIGRAM, KeywordPlan, searched_part, well_formed
from memtui.retrieval.openclaw.pool import read_chunks
from memtui.retrieval.openclaw.release import Expansion, Release
from memtui.retrieval.openclaw.tables import SearchScope
from memtui.retrieval.openclaw.vector import Vector, is_zero
from memtui.retrieval.pool import with_mask
from memtui.retrieval.query import NO_FILTERS, Filters, split_filters
from memtui.text.ecmascript import trim

MOST_SCANNED = 20_000
"""So many rows are compared with substrings at most, or vectors read for the first time."""


@dataclass(frozen=True, slots=True)
class ForeignInsight:
    """What one search of one index said about a chunk; belongs to the engine thread."""

    opened: Opened
    release: Release
    scope: SearchScope
    ranked: Ranked
    chunk_id: str
    filters: Filters = NO_FILTERS
    """Those of the query; `scope` is masked by them."""

    def keyword_terms(self) -> KeywordExplanation | None:
        """Explain the keyword leg of the chunk, and every keyword that was searched by itself.

        `None` when the full-text table has no row of it.
        """
        tables = tables_of(self.opened.layout)
        rowid = openclaw_row(self.opened.connection, tables, self.chunk_id)
        if rowid is None or tables.fts is None:
            return None
        words = self._keywords()
        whole, *single = (self._explained(asked, rowid) for asked in (self._query, *words))
        return replace(
            whole,
            sent=not (words and self._never_whole),
            keywords=tuple(single),
            found_by=_found_by(self._hit(), whole, single),
        )

    def places(self, vectors: StoredVectors, vector: Vector | None) -> Places:
        """Where the chunk stands in each leg among all that the agent may see.

        Keyword leg: by `bm25()` of the whole query's MATCH, or of the keyword where it stands
        best; a release puts path hits and its boost on top of that. Vector leg: by cosine.
        `vector` is that of the query.
        """
        chunk = self._pool.chunks.get(self.chunk_id) or self._stored()
        if chunk is not None and self._left_out(chunk):
            return dict.fromkeys(Leg, LegPlace(None, Reason.FILTERED))
        return self._places(self.keyword_terms(), vectors, vector)

    def facts(self, vectors: StoredVectors, vector: Vector | None) -> ChunkFacts | None:
        """Everything that the search says of the chunk; `None` when the index does not hold it."""
        chunk = self._stored()
        gone = chunk is None
        if chunk is None:
            # A full-text row whose chunk is gone still is a hit up to 2026.5.
            chunk = self._pool.chunks.get(self.chunk_id)
        if chunk is None:
            return None
        terms = self.keyword_terms()
        left_out = self._left_out(chunk)
        places = self._places(terms, vectors, vector)
        if left_out:
            places = dict.fromkeys(Leg, LegPlace(None, Reason.FILTERED))
        standing = self._vector_standing(chunk)
        return ChunkFacts(chunk, terms, places, standing, left_out, gone=gone)

    def _stored(self) -> Chunk | None:
        tables = tables_of(self.opened.layout)
        found = read_chunks(self.opened.connection, tables, [self.chunk_id]).get(self.chunk_id)
        return with_mask(found) if found is not None else None

    def _left_out(self, chunk: Chunk) -> tuple[str, ...]:
        """The filters of the query that leave the chunk's file out."""
        if not self.filters:
            return ()
        time = stored_time(self.opened, chunk.path, chunk.source)
        return tuple(excluding(self.filters, chunk.path, chunk.source, time))

    def _places(
        self, terms: KeywordExplanation | None, vectors: StoredVectors, vector: Vector | None
    ) -> Places:
        return {
            Leg.VECTOR: self._vector_place(vectors, vector),
            Leg.KEYWORD: self._keyword_place(terms),
        }

    def _vector_standing(self, chunk: Chunk) -> Reason:
        """Why the chunk's vector cannot be compared with the query's; `OK` when it can."""
        if self.scope.model is not None and chunk.model != self.scope.model:
            return Reason.OTHER_MODEL if chunk.model else Reason.NO_VECTOR
        layout, connection = self.opened.layout, self.opened.connection
        sql = f"SELECT embedding FROM {layout.chunks} WHERE id = ?"
        for (stored,) in connection.execute(sql, (chunk.id,)).fetchall():
            try:
                vector = parse_vector(stored)
            except ValueError:
                return Reason.NO_VECTOR
            if vector.size:
                return Reason.ZERO_VECTOR if is_zero(vector) else Reason.OK
        return Reason.NO_VECTOR

    @property
    def _pool(self) -> CandidatePool:
        return self.ranked.pool

    @property
    def _query(self) -> str:
        """As it is searched: without blanks around it, and no longer than the leg reads."""
        return searched_part(trim(well_formed(split_filters(self._pool.query)[0])))

    @property
    def _never_whole(self) -> bool:
        """Whether the release asks for keywords instead of the query."""
        always = self.release.expansion is Expansion.WITHOUT_PROVIDER_ALWAYS
        return always and self.scope.model is None

    def _keywords(self) -> tuple[str, ...]:
        """The keywords that were searched one by one."""
        state = self._pool.states.get(Leg.KEYWORD)
        listed = str(state.facts.get("keywords") or "") if state is not None else ""
        if listed == self._query and not self._has_several_keywords():
            # A query without keywords of its own stands for them.
            return ()
        return tuple(listed.split())

    def _has_several_keywords(self) -> bool:
        trigram = self.opened.layout.tokenizer == TRIGRAM
        return len(extract_keywords(self._query, trigram=trigram)) > 1

    def _hit(self) -> LegHit | None:
        hits = self._pool.hits.get(Leg.KEYWORD, ())
        return next((hit for hit in hits if hit.chunk_id == self.chunk_id), None)

    def _explained(self, asked: str, rowid: int) -> KeywordExplanation:
        tables = tables_of(self.opened.layout)
        found = explain_openclaw(self.opened.connection, tables, self.release, asked, rowid)
        return replace(found, asked=asked, found_by=_by_itself(found))

    def _keyword_place(self, explanation: KeywordExplanation | None) -> LegPlace:
        refusal = refused(self._pool, Leg.KEYWORD)
        if refusal is not None:
            return LegPlace(None, refusal)
        if explanation is None:
            return LegPlace(None, Reason.NOT_INDEXED)
        matching = [one for one in _searched(explanation) if one.found]
        if not matching:
            by_path = explanation.found_by is FoundBy.PATH
            return LegPlace(None, Reason.PATH_ALONE if by_path else Reason.NOT_MATCHED)
        if matching[0].asked == self._query:
            matching = matching[:1]
        places = [self._place_of(one) for one in matching]
        ranked = [place for place in places if place.rank is not None]
        return min(ranked, key=_position) if ranked else places[0]

    def _place_of(self, one: KeywordExplanation) -> LegPlace:
        """The rank for one MATCH, under the conditions of the release."""
        connection, tables = self.opened.connection, tables_of(self.opened.layout)
        assert tables.fts is not None
        plan = KeywordPlan(one.match, tuple(term.text for term in one.substrings))
        most = MOST_SCANNED if plan.substrings else MOST_ROWS
        rows = one.rows
        if plan.match is not None:
            rows = matching_rows(connection, tables.fts, plan.match)
        if rows > most:
            return LegPlace(None, Reason.TOO_MANY, one.asked)
        body = BodySearch(connection, tables, self.release)
        conditions, values = body.conditions(plan, self.scope)
        rank = keyword_rank(
            connection, tables.fts, plan.match, one.rowid, conditions=conditions, values=values
        )
        return LegPlace(rank, Reason.OK if rank is not None else Reason.FILTERED, one.asked)

    def _vector_place(self, vectors: StoredVectors, vector: Vector | None) -> LegPlace:
        refusal = refused(self._pool, Leg.VECTOR)
        if refusal is not None or vector is None:
            return LegPlace(None, refusal or Reason.NO_VECTORS)
        sql = f"SELECT count(*) FROM {self.opened.layout.chunks}"
        chunks = int(str(self.opened.connection.execute(sql).fetchall()[0][0]))
        if chunks > (MOST_ROWS if vectors.holds(self.opened) else MOST_SCANNED):
            return LegPlace(None, Reason.TOO_MANY)
        rank = stored_rank(vectors.of(self.opened), vector, self.chunk_id, self.scope)
        return LegPlace(rank, Reason.OK if rank is not None else Reason.NO_VECTOR)


def _searched(explanation: KeywordExplanation) -> Iterator[KeywordExplanation]:
    if explanation.sent:
        yield explanation
    yield from explanation.keywords


def _position(place: LegPlace) -> int:
    rank: LegRank | None = place.rank
    assert rank is not None
    return rank.position


def _by_itself(explanation: KeywordExplanation) -> FoundBy:
    if not explanation.found:
        return FoundBy.NOTHING
    return FoundBy.MATCH if explanation.match is not None else FoundBy.SUBSTRINGS


def _found_by(
    hit: LegHit | None, whole: KeywordExplanation, single: list[KeywordExplanation]
) -> FoundBy:
    if hit is not None and not hit.has_body:
        return FoundBy.PATH
    if whole.found_by is not FoundBy.NOTHING:
        return whole.found_by
    return FoundBy.KEYWORDS if any(one.found for one in single) else FoundBy.NOTHING

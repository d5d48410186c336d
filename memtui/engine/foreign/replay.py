"""Ranking from recorded legs: what the program's own hits become, without reading its tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from memtui.engine.foreign.answers import RecordedHit, RecordedLeg, RecordedQuery
from memtui.model import (
    CandidatePool,
    Chunk,
    DateRule,
    Leg,
    LegState,
    LegStatus,
    Reason,
    SearchMode,
)
from memtui.retrieval.openclaw.keyword import merge_keyword_hits
from memtui.retrieval.openclaw.pool import make_pool, read_chunks, with_file_times
from memtui.retrieval.openclaw.release import Release
from memtui.retrieval.openclaw.tables import KeywordHit

if TYPE_CHECKING:
    from memtui.index.foreign.opening import Opened
    from memtui.retrieval.openclaw.pool import FileTime
    from memtui.retrieval.openclaw.tables import IndexTables

KEYWORD, VECTOR = "searchKeyword", "searchVector"
SHOWN_DIGITS = 16


class ChunkIds:
    """The chunks of an index by the beginning of their id, as recordings name them."""

    def __init__(self, opened: Opened) -> None:
        found = opened.connection.execute(f"SELECT id FROM {opened.layout.chunks}").fetchall()
        self._whole = {str(row[0])[:SHOWN_DIGITS]: str(row[0]) for row in found}

    def of(self, legs: Sequence[RecordedLeg]) -> dict[str, str] | None:
        """The whole ids of all recorded hits; `None` when one belongs to another index."""
        named = {hit.chunk for leg in legs for hit in leg.hits}
        if not named <= self._whole.keys():
            return None
        return {name: self._whole[name] for name in named}


def pool_from_legs(
    opened: Opened,
    tables: IndexTables,
    release: Release,
    record: RecordedQuery,
    ids: ChunkIds,
    *,
    limit: int,
    mode: SearchMode,
    dates: DateRule,
    file_time: FileTime,
) -> CandidatePool | None:
    """The pool that the recorded legs make.

    `None` when that cannot be told: no legs, legs of another index, or a release that does not
    record its whole-query leg (2026.9).
    """
    if record.legs is None or release.has_paths:
        return None
    whole = ids.of(record.legs)
    if whole is None:
        return None
    chunks = read_chunks(opened.connection, tables, whole.values())
    if not chunks.keys() >= set(whole.values()):
        return None
    keyword = [
        [_keyword_hit(hit, chunks[whole[hit.chunk]]) for hit in leg.hits]
        for leg in record.legs
        if leg.kind == KEYWORD
    ]
    vector = [
        (whole[hit.chunk], hit.vector_score if hit.vector_score is not None else hit.score)
        for leg in record.legs
        if leg.kind == VECTOR
        for hit in leg.hits
    ]
    state = LegState(LegStatus.OK)
    return make_pool(
        record.text,
        with_file_times(chunks, dates, file_time),
        keyword=merge_keyword_hits(keyword, release, has_provider=mode is SearchMode.HYBRID),
        vector=vector,
        states=dict.fromkeys(Leg, state),
        limit=limit,
        search_mode=mode,
        names_files=False,
        tokenizer=tables.tokenizer,
    )


def empty_pool(query: str, why: str, limit: int, mode: SearchMode) -> CandidatePool:
    """The pool of a query that no leg was asked; `why` as a phrase."""
    return CandidatePool(
        query=query,
        chunks={},
        hits=dict.fromkeys(Leg, ()),
        states=dict.fromkeys(Leg, LegState(LegStatus.SKIPPED, Reason.DISABLED, why)),
        limit=limit,
        sized=True,
        search_mode=mode,
    )


def _keyword_hit(hit: RecordedHit, chunk: Chunk) -> KeywordHit:
    text = hit.text_score if hit.text_score is not None else hit.score
    return KeywordHit(
        chunk.id, chunk.path, chunk.source, chunk.start_line, chunk.text, None, text, hit.score
    )

"""Ten chunks, and the pool of a search that scored them, as values."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, date, datetime

from memtui.model import (
    CandidatePool,
    Chunk,
    Decay,
    Drop,
    Hit,
    Leg,
    LegHit,
    LegState,
    LegStatus,
    Mmr,
    Ranked,
    Ranking,
    Reason,
)
from memtui.ranking.pipeline import rank
from tests.support.known import load

NOW = datetime(2026, 2, 13, 12, 0, tzinfo=UTC)

NOTES: tuple[tuple[str, int, int, str], ...] = tuple(
    (path, start, end, text) for path, start, end, text in load("sample_notes")
)
_VECTOR = (0.92, 0.90, 0.71, 0.66, 0.61, 0.58, 0.55, 0.52, 0.40, 0.31)
_KEYWORD = (-6.9, -6.8, -7.4, -5.2, None, -3.1, -4.4, -7.2, -3.9, None)


def make_chunk(path: str, start: int, end: int, text: str) -> Chunk:
    """A chunk whose day is the date in its file name."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    name = path.rpartition("/")[2].removesuffix(".md")
    try:
        day: date | None = date.fromisoformat(name)
    except ValueError:
        day = None
    chunk_id = hashlib.sha256(
        f"{path}:{start}:{digest}".encode("utf-8", "surrogatepass")
    ).hexdigest()
    return Chunk(
        chunk_id,
        path,
        "memory",
        start,
        end,
        text,
        digest,
        "demo",
        day=day,
        day_from=Reason.FILE_NAME if day else None,
        mtime_ns=1_760_000_000_000_000_000,
    )


CHUNKS: tuple[Chunk, ...] = tuple(make_chunk(*note) for note in NOTES)


def make_pool(
    query: str = "router config",
    chunks: Sequence[Chunk] = CHUNKS,
    *,
    terms: tuple[str, ...] = ("router", "config"),
    vector: LegState | None = None,
    limit: int = 50,
) -> CandidatePool:
    """A pool of these chunks, scored as the sample's tables say."""
    cosines = _VECTOR[: len(chunks)]
    texts = [(chunk, raw) for chunk, raw in zip(chunks, _KEYWORD, strict=False) if raw is not None]
    by_bm25 = sorted(texts, key=lambda pair: pair[1])
    vector_state = vector or LegState(LegStatus.OK, elapsed_ms=11.0)
    vector_hits = tuple(
        LegHit(chunk.id, place, raw)
        for place, (chunk, raw) in enumerate(zip(chunks, cosines, strict=False))
    )
    keyword_hits = tuple(
        LegHit(chunk.id, place, raw, terms) for place, (chunk, raw) in enumerate(by_bm25)
    )
    return CandidatePool(
        query=query,
        chunks={chunk.id: chunk for chunk in chunks},
        hits={
            Leg.VECTOR: vector_hits if vector_state.status is LegStatus.OK else (),
            Leg.KEYWORD: keyword_hits,
        },
        states={Leg.VECTOR: vector_state, Leg.KEYWORD: LegState(LegStatus.OK, elapsed_ms=4.0)},
        limit=limit,
        generation=1,
        elapsed_ms=15.0,
    )


RANKING = Ranking(
    k=6, decay=Decay(enabled=True), mmr=Mmr(enabled=True, lambda_=0.7), min_score=0.05
)
"""With every stage at work."""


def make_ranked(ranking: Ranking | None = None, **pool: object) -> Ranked:
    """The sample ranked at a fixed clock."""
    return rank(make_pool(**pool), ranking or Ranking(), now=NOW)  # type: ignore[arg-type]


def everything(result: Ranked) -> list[Hit | Drop]:
    """The hits and the near misses."""
    return [*result.hits, *result.drops]

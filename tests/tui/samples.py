"""Ten chunks, and the pool of a search that scored them, as values."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime

from msgspec.structs import replace

from memtui.memory.documents import day_of_path
from memtui.model import (
    CandidatePool,
    Chunk,
    Decay,
    Drop,
    Hit,
    Leg,
    LegState,
    LegStatus,
    Mmr,
    Ranked,
    Ranking,
    Reason,
)
from memtui.ranking.pipeline import rank
from tests.support.known import load
from tests.support.pools import chunk, pool

NOW = datetime(2026, 2, 13, 12, 0, tzinfo=UTC)

NOTES: tuple[tuple[str, int, int, str], ...] = tuple(
    (path, start, end, text) for path, start, end, text in load("sample_notes")
)
_VECTOR = (0.92, 0.90, 0.71, 0.66, 0.61, 0.58, 0.55, 0.52, 0.40, 0.31)
_KEYWORD = (-6.9, -6.8, -7.4, -5.2, None, -3.1, -4.4, -7.2, -3.9, None)


def make_chunk(path: str, start: int, end: int, text: str) -> Chunk:
    """A chunk whose day is the date in its file name."""
    day, digest = day_of_path(path), _digest(text)
    made = chunk(_digest(f"{path}:{start}:{digest}"), path=path, line=start, day=day)
    origin = Reason.FILE_NAME if day else None
    fields = {"end_line": end, "text": text, "hash": digest, "model": "demo", "day_from": origin}
    return replace(made, mtime_ns=1_760_000_000_000_000_000, **fields)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


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
    ids = [one.id for one in chunks]
    found = [(name, raw) for name, raw in zip(ids, _KEYWORD, strict=False) if raw is not None]
    by_bm25 = sorted(found, key=lambda pair: pair[1])
    state = vector or LegState(LegStatus.OK, elapsed_ms=11.0)
    cosines = zip(ids, _VECTOR, strict=False) if state.status is LegStatus.OK else ()
    made = pool(chunks, list(cosines), by_bm25, query=query, terms=terms)
    states = {Leg.VECTOR: state, Leg.KEYWORD: LegState(LegStatus.OK, elapsed_ms=4.0)}
    return replace(made, states=states, limit=limit, generation=1, elapsed_ms=15.0)


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

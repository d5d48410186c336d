"""Fusion: the legs' hits become one list of candidates with one score each.

Every method writes its result as contributions (weight * mapped score), one per leg, so that a
fused score is always the sum of what is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from posixpath import splitext
from typing import NamedTuple

from memtui.model import (
    CandidatePool,
    Chunk,
    Fusion,
    Leg,
    LegHit,
    LegScore,
    Ranking,
    ScoreMapping,
)
from memtui.ranking.scores import bm25_score, min_max

LEG_ORDER = (Leg.VECTOR, Leg.KEYWORD)
"""Vector first: ties keep the order in which OpenClaw's `mergeHybridResults` merges the legs."""

TEXT_SUFFIXES = frozenset({".md", ".markdown", ".txt", ".jsonl"})
RRF_K_DEFAULT = 5.0


class FusedRow(NamedTuple):
    """A candidate and its parts: leg -> (hit, mapped score, weight)."""

    chunk: Chunk
    parts: tuple[tuple[Leg, LegHit, float, float], ...]
    score: float

    @property
    def path_tier(self) -> int:
        """How exactly the query names the file, over all legs."""
        return max((hit.path_tier for _, hit, _, _ in self.parts), default=0)

    def leg_scores(self) -> dict[Leg, LegScore]:
        """The parts as they are shown."""
        return {
            leg: LegScore(hit.raw, mapped, weight, weight * mapped, hit.position, hit.terms)
            for leg, hit, mapped, weight in self.parts
        }


def weighted_sum(hits: Mapping[Leg, Sequence[LegHit]], ranking: Ranking) -> dict[Leg, list[float]]:
    """The cosine as it is, BM25 through the profile's mapping; no normalisation of either leg.

    A cosine that is not finite counts as 0. A hit on the path alone maps its path score instead
    of the missing body score.
    """
    mapping = ranking.keyword_mapping

    def keyword(hit: LegHit) -> float:
        body = bm25_score(hit.raw, mapping)
        return hit.path_raw if hit.path_raw is not None and body <= 0 else body

    return {
        Leg.VECTOR: [hit.raw if isfinite(hit.raw) else 0.0 for hit in hits[Leg.VECTOR]],
        Leg.KEYWORD: [keyword(hit) for hit in hits[Leg.KEYWORD]],
    }


def relative_score(
    hits: Mapping[Leg, Sequence[LegHit]], ranking: Ranking
) -> dict[Leg, list[float]]:
    """Each leg scaled to 0..1 between its worst and its best candidate (memini `FuseScores`)."""
    sign = 1.0 if ranking.keyword_mapping is ScoreMapping.GIVEN else -1.0
    return {
        Leg.VECTOR: min_max([hit.raw for hit in hits[Leg.VECTOR]]),
        Leg.KEYWORD: min_max([sign * hit.raw for hit in hits[Leg.KEYWORD]]),
    }


def reciprocal_rank(
    hits: Mapping[Leg, Sequence[LegHit]], ranking: Ranking
) -> dict[Leg, list[float]]:
    """1 / (k + position), position from 0 (Cormack et al. 2009; memini `Fuse`); k <= 0 means 5."""
    k = ranking.rrf_k if ranking.rrf_k > 0 else RRF_K_DEFAULT
    return {leg: [1 / (k + index) for index in range(len(hits[leg]))] for leg in LEG_ORDER}


Mapped = Callable[[Mapping[Leg, Sequence[LegHit]], Ranking], dict[Leg, list[float]]]

METHODS: Mapping[Fusion, Mapped] = {
    Fusion.WEIGHTED_SUM: weighted_sum,
    Fusion.RELATIVE_SCORE: relative_score,
    Fusion.RRF: reciprocal_rank,
}


def fuse(pool: CandidatePool, ranking: Ranking) -> tuple[list[FusedRow], list[str]]:
    """Fuse the first `ranking.candidates` hits of each leg.

    Returns the candidates in the order in which the legs name them (vector first), unsorted, and
    the ids of chunks of the pool that no leg has among its candidates.
    """
    window = ranking.candidates
    hits = {leg: pool.hits.get(leg, ())[:window] for leg in LEG_ORDER}
    mapped = METHODS[ranking.fusion](hits, ranking)
    weights = {Leg.VECTOR: ranking.vector_weight, Leg.KEYWORD: ranking.keyword_weight}
    parts: dict[str, list[tuple[Leg, LegHit, float, float]]] = {}
    for leg in LEG_ORDER:
        weight = weights[leg]
        for hit, value in zip(hits[leg], mapped[leg], strict=True):
            parts.setdefault(hit.chunk_id, []).append((leg, hit, value, weight))
    rows = [_row(pool.chunks[chunk_id], legs, ranking) for chunk_id, legs in parts.items()]
    outside = [chunk_id for chunk_id in pool.chunks if chunk_id not in parts]
    return rows, outside


def _row(chunk: Chunk, parts: list[tuple[Leg, LegHit, float, float]], ranking: Ranking) -> FusedRow:
    if ranking.media_keeps_vector and _is_vector_only_media(chunk, parts):
        leg, hit, value, _ = parts[0]
        parts = [(leg, hit, value, 1.0)]
    score = 0.0
    for _, _, value, weight in parts:
        score += weight * value
    return FusedRow(chunk, tuple(parts), score)


def _is_vector_only_media(chunk: Chunk, parts: list[tuple[Leg, LegHit, float, float]]) -> bool:
    is_media = splitext(chunk.path)[1].lower() not in TEXT_SUFFIXES
    return is_media and len(parts) == 1 and parts[0][0] is Leg.VECTOR

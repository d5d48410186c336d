"""Score mappings: from what a leg returns to what fusion adds up."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from posixpath import splitext
from typing import NamedTuple

from memtui.model import (
    CandidatePool,
    Chunk,
    Fusion,
    Leg,
    LegHit,
    Ranking,
    ScoreMapping,
    SearchMode,
)


def bm25_score(raw: float, mapping: ScoreMapping) -> float:
    """Map SQLite's `bm25()` to a score.

    `clamp` is 1 / (1 + max(0, raw)) (OpenClaw up to 2026.3.2): FTS5 values are negative, so every
    match scores 1. `signed` (2026.3.13 on) is r / (1 + r) with r = -raw for negative values, and
    1 / (1 + raw) otherwise. A value that is not finite scores 1/1000 under both. `given` returns
    the value itself.
    """
    if mapping is ScoreMapping.GIVEN:
        return raw
    if not math.isfinite(raw):
        return 1 / 1000
    if mapping is ScoreMapping.SIGNED and raw < 0:
        return -raw / (1 - raw)
    return 1 / (1 + max(0.0, raw))


def min_max(values: Sequence[float]) -> list[float]:
    """Scale values to 0..1; a flat list becomes all 1 (memini `FuseScores`).

    A value that is not finite becomes 0 and does not count for the others.
    """
    finite = [value for value in values if math.isfinite(value)]
    if len(finite) < len(values):
        scaled = iter(min_max(finite))
        return [next(scaled) if math.isfinite(value) else 0.0 for value in values]
    if not values:
        return []
    low, high = min(values), max(values)
    span = high - low
    if not span > 0:
        return [1.0] * len(values)
    return [(value - low) / span for value in values]


LEG_ORDER = (Leg.VECTOR, Leg.KEYWORD)
"""Vector first: ties keep the order in which OpenClaw's `mergeHybridResults` merges the legs."""

ONLY_LEG: Mapping[SearchMode, Leg] = {
    SearchMode.KEYWORD_ONLY: Leg.KEYWORD,
    SearchMode.VECTOR_ONLY: Leg.VECTOR,
}

TEXT_SUFFIXES = frozenset({".md", ".markdown", ".txt", ".jsonl"})
RRF_K_DEFAULT = 5.0

LegHits = Mapping[Leg, Sequence[LegHit]]


class FusedRow(NamedTuple):
    """A candidate and its parts: leg -> (hit, mapped score, weight), in the order of the legs."""

    chunk: Chunk
    parts: tuple[tuple[Leg, LegHit, float, float], ...]
    score: float
    path_tier: int
    """The exactness with which the query names the file, over all legs."""

    @property
    def keyword_hit(self) -> LegHit | None:
        """Return the hit of the keyword leg, if there is one."""
        leg, hit, _, _ = self.parts[-1]
        return hit if leg is Leg.KEYWORD else None


def text_score(hit: LegHit, mapping: ScoreMapping) -> float:
    """Return the score of a keyword hit's text before any boost: the leg's, else its BM25."""
    return hit.score if hit.score is not None else bm25_score(hit.raw, mapping)


def keyword_value(hit: LegHit, ranking: Ranking) -> float:
    """Return what the profile weights of a keyword hit.

    The text score, boosted where the profile boosts. A hit without a text score (a path alone)
    counts by its path score, unless the query names the file exactly: that is another stage's
    business (OpenClaw 2026.9 `hybrid.ts`). On its own the keyword leg counts every body match,
    and an exact name without one as 1.
    """
    text = text_score(hit, ranking.keyword_mapping) if hit.has_body else 0.0
    boosted = hit.boosted if ranking.lexical_boost and hit.boosted is not None else text
    alone = ranking.search_mode is SearchMode.KEYWORD_ONLY
    if text > 0 or (alone and hit.has_body):
        return boosted
    if hit.path_tier > 0:
        return 1.0 if alone else 0.0
    return hit.path_raw if hit.path_raw is not None else text


def mapped_scores(hits: LegHits, ranking: Ranking) -> dict[Leg, list[float]]:
    """Return the score of every hit of each leg that fusion weights, by the method of the profile.

    `weighted_sum`: the cosine as it is, 0 where it is not finite, and the text through the
    profile's mapping. `relative_score`: each leg scaled to 0..1 between its worst and its best
    candidate (memini `FuseScores`). `rrf`: 1 / (k + position), position from 0 (Cormack et al.
    2009; memini `Fuse`); k <= 0 means 5.
    """
    if ranking.fusion is Fusion.RRF:
        k = ranking.rrf_k if ranking.rrf_k > 0 else RRF_K_DEFAULT
        return {leg: [1 / (k + index) for index in range(len(hits[leg]))] for leg in LEG_ORDER}
    cosines = [hit.raw for hit in hits[Leg.VECTOR]]
    if ranking.fusion is Fusion.RELATIVE_SCORE:
        sign = 1.0 if ranking.keyword_mapping is ScoreMapping.GIVEN else -1.0
        texts = [sign * hit.raw for hit in hits[Leg.KEYWORD]]
        return {Leg.VECTOR: min_max(cosines), Leg.KEYWORD: min_max(texts)}
    return {
        Leg.VECTOR: [cosine if math.isfinite(cosine) else 0.0 for cosine in cosines],
        Leg.KEYWORD: [keyword_value(hit, ranking) for hit in hits[Leg.KEYWORD]],
    }


def fuse(pool: CandidatePool, ranking: Ranking) -> tuple[list[FusedRow], list[str]]:
    """Fuse the first `ranking.candidates` hits of each leg.

    Returns the candidates in the order in which the legs name them (vector first), unsorted, and
    the ids of chunks of the pool that no leg has among its candidates.
    """
    mode = ranking.search_mode
    takes_all = pool.sized and pool.limit == ranking.candidates
    hits: dict[Leg, Sequence[LegHit]] = {}
    for leg in LEG_ORDER:
        leg_hits = pool.hits.get(leg, ()) if ONLY_LEG.get(mode, leg) is leg else ()
        hits[leg] = leg_hits if takes_all else leg_hits[: ranking.candidates]
    mapped = mapped_scores(hits, ranking)
    weights = {Leg.VECTOR: ranking.vector_weight, Leg.KEYWORD: ranking.keyword_weight}
    if mode is not SearchMode.HYBRID:
        weights = dict.fromkeys(LEG_ORDER, 1.0)
    keeps_media = ranking.media_keeps_vector and ranking.vector_weight > 0
    parts: dict[str, list[tuple[Leg, LegHit, float, float]]] = {}
    for leg in LEG_ORDER:
        weight = weights[leg]
        for hit, value in zip(hits[leg], mapped[leg], strict=True):
            parts.setdefault(hit.chunk_id, []).append((leg, hit, value, weight))
    rows = []
    for chunk_id, legs in parts.items():
        chunk, score, tier = pool.chunks[chunk_id], 0.0, 0
        if keeps_media and is_vector_only_media(chunk, legs):
            legs = [(*legs[0][:3], 1.0)]
        for _, hit, value, weight in legs:
            score += weight * value
            tier = max(tier, hit.path_tier)
        rows.append(FusedRow(chunk, tuple(legs), score, tier))
    return rows, [chunk_id for chunk_id in pool.chunks if chunk_id not in parts]


def is_vector_only_media(chunk: Chunk, parts: Sequence[tuple[Leg, LegHit, float, float]]) -> bool:
    """Return whether only the vector leg found a file that is not text, by its suffix."""
    is_vector_only = len(parts) == 1 and parts[0][0] is Leg.VECTOR
    return is_vector_only and splitext(chunk.path)[1].lower() not in TEXT_SUFFIXES

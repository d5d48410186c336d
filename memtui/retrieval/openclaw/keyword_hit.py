"""A hit of the keyword leg while a release puts its candidates together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from memtui.ranking.stage_state import collation_key

EXACT_PATH_LIMIT = 200


@dataclass(frozen=True, slots=True)
class KeywordHit:
    """A chunk that body or path search found."""

    id: str
    path: str
    source: str
    start_line: int
    text: str
    """The text as the full-text index holds it."""
    rank: float | None
    """SQLite's `bm25()`; `None` for a substring match or a path."""
    text_score: float
    score: float
    """What the release ranks by: the boosted text score, or the path score."""
    path_score: float = 0.0
    tier: int = 0
    has_body: bool = True


def order_key(hit: KeywordHit) -> tuple[Any, ...]:
    """How 2026.9 orders keyword hits (`compareKeywordSearchHits`)."""
    return (
        -hit.tier,
        0 if hit.tier == 0 or hit.has_body else 1,
        -hit.score,
        -hit.text_score,
        -hit.path_score if hit.tier == 0 else 0.0,
        collation_key(hit.path),
        hit.start_line,
        hit.id,
    )


def best_by_score(found: Iterable[Iterable[KeywordHit]]) -> list[KeywordHit]:
    """Each chunk once, with its best score (2026.2 to 2026.5); in the order they came."""
    best: dict[str, KeywordHit] = {}
    for hits in found:
        for hit in hits:
            known = best.get(hit.id)
            if known is None or hit.score > known.score:
                best[hit.id] = hit
    return list(best.values())


def merged_hits(found: Iterable[Iterable[KeywordHit]], tiers: dict[str, int]) -> list[KeywordHit]:
    """Each chunk once, with its best scores of body and path (`mergeKeywordSearchHits`, 2026.9).

    `tiers` holds how exactly the whole query names each path: a keyword cannot.
    """
    merged: dict[str, KeywordHit] = {}
    for hits in found:
        for hit in hits:
            known = merged.get(hit.id)
            merged[hit.id] = hit if known is None else _together(known, hit)
    placed = [_placed(hit, tiers.get(hit.path, 0)) for hit in merged.values()]
    return sorted(map(_settled, placed), key=order_key)


def limited(hits: list[KeywordHit], limit: int) -> list[KeywordHit]:
    """At most `limit` hits without an exact name, and 200 files with one (2026.9)."""
    exact_body = [hit for hit in hits if hit.tier and hit.has_body][:limit]
    exact_path = [hit for hit in hits if hit.tier and not hit.has_body]
    exact = sorted([*exact_body, *exact_path], key=order_key)
    named = dict.fromkeys((hit.source, hit.path) for hit in exact)
    kept = frozenset(list(named)[:EXACT_PATH_LIMIT])
    others = [hit for hit in hits if not hit.tier][:limit]
    return [*(hit for hit in exact if (hit.source, hit.path) in kept), *others]


def _together(known: KeywordHit, hit: KeywordHit) -> KeywordHit:
    body = max(known.score if known.has_body else 0.0, hit.score if hit.has_body else 0.0)
    path_score = max(known.path_score, hit.path_score)
    better = hit if hit.text_score > known.text_score else known
    return replace(
        known,
        text=hit.text if hit.has_body and not known.has_body else known.text,
        rank=better.rank if better.rank is not None else known.rank,
        text_score=max(known.text_score, hit.text_score),
        path_score=path_score,
        has_body=known.has_body or hit.has_body,
        score=body if body > 0 else path_score,
    )


def _placed(hit: KeywordHit, tier: int) -> KeywordHit:
    return hit if hit.tier == tier else replace(hit, tier=tier)


def _settled(hit: KeywordHit) -> KeywordHit:
    """Without a body match an exact name counts 1, and any other path its path score."""
    if hit.has_body:
        return hit
    return replace(hit, score=1.0 if hit.tier else hit.path_score)

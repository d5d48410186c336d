"""Composite rerank, multipliers of the fused score, and removal of equal texts."""

from __future__ import annotations

import math
from collections.abc import Sequence

from memtui.model import Chunk, Rerank

NEUTRAL_IMPORTANCE = 0.5
INVALID_PROJECT = "!invalid-project-annotation"
"""The project key that OpenClaw gives an annotation it could not read."""


def recency(age_days: float, scale_days: float) -> float:
    """exp(-age / scale), 0 to 1: 1/e at one scale (memini `RerankWith`); a future date gives 1."""
    if scale_days <= 0:
        return 1.0
    return math.exp(-max(0.0, age_days) / scale_days)


def composite(
    score: float, maximum: float, recency_value: float, importance: float, weights: Rerank
) -> float:
    """w_rel * score / maximum + w_rec * recency + w_imp * importance (memini `RerankWith`).

    `maximum` is the best score of the list; when it is not above 0 the relevance part is 0.
    `importance` is cut to 0..1.
    """
    relevance = score / maximum if maximum > 0 else 0.0
    return (
        weights.relevance * relevance
        + weights.recency * recency_value
        + weights.importance * min(1.0, max(0.0, importance))
    )


def importance_multiplier(importance: float | None) -> float:
    """0.75 + 0.05 * n with n cut to whole numbers 1..10 (OpenClaw 2026.9); none gives 1."""
    if importance is None:
        return 1.0
    return 0.75 + 0.05 * min(10, max(1, math.floor(importance)))


def project_multiplier(keys: Sequence[str], active: Sequence[str]) -> float:
    """1.15 when every key is active, 0.9 otherwise, 1 without keys or active keys (2026.9)."""
    if not keys or not active:
        return 1.0
    return 1.15 if set(keys) <= set(active) else 0.9


def text_key(chunk: Chunk) -> str:
    """Chunks with equal keys are duplicates: lower case, white space folded (memini `Dedup`).

    Of a text that is masked, which then has a snippet of its own, only the same text is one.
    """
    folded = " ".join(chunk.text.lower().split())
    return folded if chunk.snippet is None else f"{folded}\n{chunk.hash}"

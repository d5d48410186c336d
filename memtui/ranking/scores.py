"""Score mappings: from what a leg returns to what fusion adds up."""

from __future__ import annotations

import math
from collections.abc import Sequence

from memtui.model import ScoreMapping


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

"""What happens to candidates below the minimum score, by the rule of the profile.

Each rule takes the survivors (best first), their scores, the fused rows and the ranking, and
returns which stay, in order, and which of them stay although they are below the minimum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from memtui.model import Leg, MinScoreRule, Ranking
from memtui.ranking.fusion import FusedRow

Kept = tuple[list[int], set[int]]
Rule = Callable[[Sequence[int], Sequence[float], Sequence[FusedRow], Ranking, float], Kept]


def plain(
    order: Sequence[int],
    scores: Sequence[float],
    rows: Sequence[FusedRow],
    ranking: Ranking,
    minimum: float,
) -> Kept:
    """Everything at or above the minimum (OpenClaw up to 2026.2.17)."""
    return [index for index in order if scores[index] >= minimum], set()


def relaxed(
    order: Sequence[int],
    scores: Sequence[float],
    rows: Sequence[FusedRow],
    ranking: Ranking,
    minimum: float,
) -> Kept:
    """Strict hits alone if there are any, else keyword hits above a lower minimum.

    That is `relaxed_min_score`, or min(minimum, keyword weight) where it is not set.
    """
    strict, _ = plain(order, scores, rows, ranking, minimum)
    if strict:
        return strict, set()
    lower = ranking.relaxed_min_score
    if lower is None:
        lower = min(minimum, ranking.keyword_weight)
    named = _keyword_ranges(rows)
    rescued = [i for i in order if scores[i] >= lower and _range(rows[i]) in named]
    return rescued, set(rescued)


def fill(
    order: Sequence[int],
    scores: Sequence[float],
    rows: Sequence[FusedRow],
    ranking: Ranking,
    minimum: float,
) -> Kept:
    """Strict hits first, free places for keyword-only hits below the minimum (OpenClaw 2026.9)."""
    strict, _ = plain(order, scores, rows, ranking, minimum)
    named = _keyword_ranges(rows)
    if not strict:
        rescued = [i for i in order if scores[i] >= 0 and _range(rows[i]) in named]
        return rescued, set(rescued)
    taken = {_range(rows[i]) for i in strict[: max(0, ranking.k)]}
    filled: list[int] = []
    for index in order:
        place = _range(rows[index])
        if len(strict) + len(filled) >= ranking.k:
            break
        if scores[index] >= minimum or place in taken or place not in named:
            continue
        if _cosine(rows[index]) == 0:
            taken.add(place)
            filled.append(index)
    return strict + filled, set(filled)


RULES: Mapping[MinScoreRule, Rule] = {
    MinScoreRule.PLAIN: plain,
    MinScoreRule.RELAXED: relaxed,
    MinScoreRule.FILL: fill,
}


def _range(row: FusedRow) -> tuple[str, str, int, int]:
    """What the program tells results apart by: two models' chunks of one range are the same."""
    chunk = row.chunk
    return chunk.source, chunk.path, chunk.start_line, chunk.end_line


def _keyword_ranges(rows: Sequence[FusedRow]) -> frozenset[tuple[str, str, int, int]]:
    return frozenset(_range(row) for row in rows if row.keyword_hit is not None)


def _cosine(row: FusedRow) -> float:
    return next((value for leg, _, value, _ in row.parts if leg is Leg.VECTOR), 0.0)

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
    """Strict hits alone if there are any, else keyword hits above min(minimum, keyword weight)."""
    strict, _ = plain(order, scores, rows, ranking, minimum)
    if strict:
        return strict, set()
    lower = min(minimum, ranking.keyword_weight)
    rescued = [i for i in order if scores[i] >= lower and _has_keyword(rows[i])]
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
    if not strict:
        rescued = [i for i in order if scores[i] >= 0 and _has_keyword(rows[i])]
        return rescued, set(rescued)
    passed = set(strict)
    weak = [i for i in order if i not in passed and _is_keyword_only(rows[i])]
    filled = weak[: max(0, ranking.k - len(strict))]
    return strict + filled, set(filled)


RULES: Mapping[MinScoreRule, Rule] = {
    MinScoreRule.PLAIN: plain,
    MinScoreRule.RELAXED: relaxed,
    MinScoreRule.FILL: fill,
}


def _has_keyword(row: FusedRow) -> bool:
    return any(leg is Leg.KEYWORD for leg, _, _, _ in row.parts)


def _is_keyword_only(row: FusedRow) -> bool:
    cosine = next((value for leg, _, value, _ in row.parts if leg is Leg.VECTOR), 0.0)
    return cosine == 0 and _has_keyword(row)

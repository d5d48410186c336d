"""Where the candidates stand between two stages, and how equal scores are told apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby, pairwise

from memtui.model import CandidatePool, LegHit, Ranking, SearchMode, TieRule
from memtui.ranking.collation import collation_key
from memtui.ranking.fusion import FusedRow, text_score
from memtui.ranking.record import Step


@dataclass(frozen=True, slots=True)
class Standing:
    """Where every candidate stands before a stage; `order` holds the survivors, best first."""

    pool: CandidatePool
    ranking: Ranking
    now: datetime
    rows: Sequence[FusedRow]
    scores: Sequence[float]
    order: Sequence[int]

    def sorted_by(self, scores: Sequence[float], order: Sequence[int] | None = None) -> list[int]:
        """Sort by score, best first; equal scores as the profile's tie rule says.

        `order` defaults to the survivors.
        """
        chosen = self.order if order is None else order
        if self.ranking.tie_rule is TieRule.STABLE:
            return sorted(chosen, key=scores.__getitem__, reverse=True)
        if self.ranking.tie_rule is TieRule.LEG_ORDER:
            # A release sorts once, after decay: ties that decay makes keep the order of the merge.
            return sorted(chosen, key=lambda index: (-scores[index], index))
        ordered = sorted(chosen, key=lambda index: -scores[index])
        if all(scores[a] != scores[b] for a, b in pairwise(ordered)):
            return ordered
        # Where a candidate lies takes long to find out, and only tells equal scores apart.
        return [
            index
            for _, tied in groupby(ordered, key=scores.__getitem__)
            for index in self._placed(list(tied))
        ]

    def _placed(self, tied: list[int]) -> list[int]:
        return sorted(tied, key=self.location) if len(tied) > 1 else tied

    def lexical_rank(self, index: int) -> float:
        """The private score of a body match that has no BM25 value (2026.9 `hybrid.ts`)."""
        hit = self.keyword_hit(index)
        if hit is None or not hit.has_body or self.text_score(index) != 0:
            return 0.0
        return hit.boosted or 0.0

    def keyword_hit(self, index: int) -> LegHit | None:
        """What the keyword leg found of a candidate."""
        return self.rows[index].keyword_hit

    def text_score(self, index: int) -> float:
        """The text score of a candidate before any boost; 0 without one."""
        hit = self.keyword_hit(index)
        if hit is None or not hit.has_body:
            return 0.0
        return text_score(hit, self.ranking.keyword_mapping)

    def location(self, index: int) -> tuple[object, ...]:
        """What tells equal scores apart under `TieRule.LOCATION`; the smaller comes first."""
        row = self.rows[index]
        chunk = row.chunk
        path = collation_key(chunk.path)
        if self.ranking.search_mode is SearchMode.KEYWORD_ONLY:
            hit = self.keyword_hit(index)
            path_score = hit.path_raw or 0.0 if hit is not None and not row.path_tier else 0.0
            return (-self.text_score(index), -path_score, path, chunk.start_line, chunk.id)
        return (-self.lexical_rank(index), path, chunk.start_line, chunk.end_line)


StageFunction = Callable[[Standing], Step | None]
"""Returns `None` when the stage is off."""

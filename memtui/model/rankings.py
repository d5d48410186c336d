"""How to rank: every parameter that changes an order and needs no I/O."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from memtui.model.reasons import Stage


class Fusion(StrEnum):
    """How the legs' scores become one."""

    WEIGHTED_SUM = "weighted_sum"
    RELATIVE_SCORE = "relative_score"
    RRF = "rrf"


class ScoreMapping(StrEnum):
    """How a raw BM25 value becomes a score: `given` means that it already is one."""

    CLAMP = "clamp"
    SIGNED = "signed"
    GIVEN = "given"


NATIVE_STAGES = (
    Stage.FUSION,
    Stage.DECAY,
    Stage.RERANK,
    Stage.DEDUP,
    Stage.MIN_SCORE,
    Stage.MMR,
    Stage.CUT,
)
"""memtui's own order: nothing that is going to be dropped can push another result down."""


class DateRule(StrEnum):
    """How a chunk's date is found; OpenClaw's rules by the release that brought them."""

    MEMTUI = "memtui"
    OPENCLAW_2026_2 = "openclaw-2026.2"
    OPENCLAW_2026_4 = "openclaw-2026.4"
    OPENCLAW_2026_8 = "openclaw-2026.8"


class MinScoreRule(StrEnum):
    """What happens to hits below the minimum score (by OpenClaw release)."""

    PLAIN = "plain"
    RELAXED = "relaxed"
    FILL = "fill"


class SearchMode(StrEnum):
    """Which legs rank: both, or one alone with weight 1."""

    HYBRID = "hybrid"
    KEYWORD_ONLY = "keyword_only"
    VECTOR_ONLY = "vector_only"


class TieRule(StrEnum):
    """What decides between equal scores: the order so far, that of the legs, or the place."""

    STABLE = "stable"
    LEG_ORDER = "leg_order"
    LOCATION = "location"


@dataclass(frozen=True, slots=True)
class Decay:
    """Temporal decay: factor = floor + (1 - floor) * 2^(-age_days / half_life_days)."""

    enabled: bool = False
    half_life_days: float = 30.0
    floor: float = 0.0
    dates: DateRule = DateRule.MEMTUI


@dataclass(frozen=True, slots=True)
class Rerank:
    """Composite rerank: w_rel * score / max + w_rec * exp(-age / scale) + w_imp * importance."""

    enabled: bool = False
    relevance: float = 0.80
    recency: float = 0.05
    importance: float = 0.15
    recency_scale_days: float = 7.0


@dataclass(frozen=True, slots=True)
class Mmr:
    """Maximal marginal relevance over Jaccard similarity of snippet tokens."""

    enabled: bool = False
    lambda_: float = 0.7
    """0 to 1; 1 is relevance alone, 0 is variety alone."""
    empty_similarity: str = "one"
    """Two texts without tokens: `one` (alike) or `text` (alike only when equal)."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """Everything that changes an order and needs no I/O."""

    profile: str = "memtui"
    stages: tuple[Stage, ...] = NATIVE_STAGES
    k: int = 6
    candidate_multiplier: int = 4
    min_candidates: int = 50
    max_candidates: int = 200
    fusion: Fusion = Fusion.RELATIVE_SCORE
    vector_weight: float = 0.3
    keyword_weight: float = 0.7
    keyword_mapping: ScoreMapping = ScoreMapping.SIGNED
    rrf_k: float = 5.0
    decay: Decay = Decay()
    rerank: Rerank = Rerank()
    dedup: bool = False
    min_score: float | None = None
    min_score_rule: MinScoreRule = MinScoreRule.PLAIN
    mmr: Mmr = Mmr()
    importance_multiplier: bool = False
    """Fused score times 0.75 + 0.05 * importance (OpenClaw 2026.9)."""
    project_keys: tuple[str, ...] = ()
    """The active project keys; empty turns the project multiplier off."""
    search_mode: SearchMode = SearchMode.HYBRID
    lexical_boost: bool = False
    """The keyword leg's boosted score is weighted where there is one (OpenClaw)."""
    relaxed_min_score: float | None = None
    """What keyword hits need when nothing reaches the minimum; `None`: the lower of the minimum
    and the keyword weight."""
    tie_rule: TieRule = TieRule.STABLE
    media_keeps_vector: bool = False
    """A vector-only hit on a file that is not text keeps its whole vector score (2026.9)."""

    @property
    def candidates(self) -> int:
        """How many hits of each leg take part in the ranking."""
        wanted = max(1, int(self.k * self.candidate_multiplier))
        return max(self.min_candidates, min(self.max_candidates, wanted))

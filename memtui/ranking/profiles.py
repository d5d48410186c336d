"""Named rankings: memtui's own, and what other programs do."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec.structs import replace

from memtui.model import (
    DateRule,
    Decay,
    Fusion,
    MinScoreRule,
    Mmr,
    Ranking,
    Rerank,
    ScoreMapping,
    Stage,
    TieRule,
)

_OPENCLAW_STAGES = (Stage.FUSION, Stage.DECAY, Stage.MMR, Stage.MIN_SCORE, Stage.CUT)

_OPENCLAW_2026_9_STAGES = (
    Stage.FUSION,
    Stage.IDENTITY,
    Stage.DECAY,
    Stage.IMPORTANCE,
    Stage.PROJECT,
    Stage.TIERS,
    Stage.MMR,
    Stage.EXACT_PATH,
    Stage.MIN_SCORE,
    Stage.CUT,
)

_OPENCLAW = Ranking(
    profile="openclaw-2026.4",
    stages=_OPENCLAW_STAGES,
    k=6,
    candidate_multiplier=4,
    min_candidates=1,
    fusion=Fusion.WEIGHTED_SUM,
    vector_weight=0.7,
    keyword_weight=0.3,
    keyword_mapping=ScoreMapping.SIGNED,
    decay=Decay(dates=DateRule.OPENCLAW_2026_4),
    tie_rule=TieRule.LEG_ORDER,
    min_score=0.35,
    min_score_rule=MinScoreRule.RELAXED,
)

_MEMINI = Ranking(
    profile="memini",
    candidate_multiplier=5,
    fusion=Fusion.RELATIVE_SCORE,
    vector_weight=0.5,
    keyword_weight=0.5,
    stages=(Stage.FUSION, Stage.DEDUP, Stage.RERANK, Stage.CUT),
    dedup=True,
    rerank=Rerank(enabled=True),
)

PROFILES: Mapping[str, Ranking] = MappingProxyType(
    {
        "memtui": Ranking(),
        "openclaw-2026.2": replace(
            _OPENCLAW,
            profile="openclaw-2026.2",
            keyword_mapping=ScoreMapping.CLAMP,
            min_score_rule=MinScoreRule.PLAIN,
            decay=Decay(dates=DateRule.OPENCLAW_2026_2),
        ),
        "openclaw-2026.4": _OPENCLAW,
        "openclaw-2026.7": replace(_OPENCLAW, profile="openclaw-2026.7", relaxed_min_score=0.0),
        "openclaw-2026.9": replace(
            _OPENCLAW,
            profile="openclaw-2026.9",
            stages=_OPENCLAW_2026_9_STAGES,
            min_candidates=200,
            decay=Decay(enabled=True, dates=DateRule.OPENCLAW_2026_8),
            mmr=Mmr(enabled=True, empty_similarity="text"),
            min_score_rule=MinScoreRule.FILL,
            lexical_boost=True,
            importance_multiplier=True,
            tie_rule=TieRule.LOCATION,
            media_keeps_vector=True,
        ),
        "memini": _MEMINI,
    }
)

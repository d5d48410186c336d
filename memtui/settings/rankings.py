"""A ranking as the keys of `[ranking]` that make it, and what no key can change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from memtui.model import Ranking
from memtui.settings.keys import RANKING, leaves
from memtui.settings.schema import RankingSettings

NO_MINIMUM: Final = "off"
WEIGHTS: Final = ("vector_weight", "keyword_weight")
_PLAIN: Final = Ranking()


def values_of(ranking: Ranking) -> dict[str, Any]:
    """Every key of `[ranking]` but the profile with the value that the ranking has."""
    return {
        "k": ranking.k,
        "candidate_multiplier": ranking.candidate_multiplier,
        "fusion": ranking.fusion,
        "vector_weight": ranking.vector_weight,
        "keyword_weight": ranking.keyword_weight,
        "rrf_k": ranking.rrf_k,
        "dedup": ranking.dedup,
        "min_score": NO_MINIMUM if ranking.min_score is None else ranking.min_score,
        "project_keys": ranking.project_keys,
        "mmr.enabled": ranking.mmr.enabled,
        "mmr.lambda": ranking.mmr.lambda_,
        "decay.enabled": ranking.decay.enabled,
        "decay.half_life_days": ranking.decay.half_life_days,
        "decay.floor": ranking.decay.floor,
        "rerank.enabled": ranking.rerank.enabled,
        "rerank.relevance": ranking.rerank.relevance,
        "rerank.recency": ranking.rerank.recency,
        "rerank.importance": ranking.rerank.importance,
    }


def keys_for(wanted: Ranking, base: Ranking) -> dict[str, Any]:
    """The fewest keys that make `wanted` of `base`, in the order of the table.

    The vector weight stands alone where the keyword weight is the rest to 1. What no key can
    change is not compared: see `rules_of`.
    """
    here, there = values_of(wanted), values_of(base)
    differing = {key: value for key, value in here.items() if value != there[key]}
    if not differing.keys() & set(WEIGHTS):
        return differing
    weights = {key: here[key] for key in WEIGHTS}
    if is_rest(wanted):
        del weights["keyword_weight"]
    chosen = differing.keys() - set(WEIGHTS) | weights.keys()
    return {key: value for key, value in here.items() if key in chosen}


def is_rest(ranking: Ranking) -> bool:
    """Whether the keyword weight is what the vector weight leaves of 1."""
    return ranking.keyword_weight == round(1.0 - ranking.vector_weight, 10)


def rules_of(ranking: Ranking) -> Ranking:
    """The ranking with everything that keys can change as it is by default, and without a name.

    Two rankings with the same rules differ in what `keys_for` names alone.
    """
    rules = replace(
        ranking,
        profile="",
        mmr=replace(ranking.mmr, enabled=False, lambda_=_PLAIN.mmr.lambda_),
        decay=replace(
            ranking.decay, enabled=False, half_life_days=_PLAIN.decay.half_life_days, floor=0.0
        ),
        rerank=replace(
            ranking.rerank,
            enabled=False,
            relevance=_PLAIN.rerank.relevance,
            recency=_PLAIN.rerank.recency,
            importance=_PLAIN.rerank.importance,
        ),
    )
    plain = ("k", "candidate_multiplier", "fusion", *WEIGHTS, "rrf_k", "dedup", "min_score")
    return replace(rules, project_keys=(), **{name: getattr(_PLAIN, name) for name in plain})


def base_of(ranking: Ranking, built_in: Mapping[str, Ranking]) -> str:
    """The built-in profile whose rules a ranking has: its own name, else the first that fits.

    A ranking with rules of its own belongs to the first profile of all, memtui's.
    """
    rules = rules_of(ranking)
    names = dict.fromkeys((ranking.profile, *built_in))
    fitting = (n for n in names if n in built_in and rules_of(built_in[n]) == rules)
    return next(fitting, next(iter(built_in)))


def as_built_in(ranking: Ranking, built_in: Mapping[str, Ranking]) -> Ranking:
    """The ranking under the name of the built-in profile whose rules it has."""
    return replace(ranking, profile=base_of(ranking, built_in))


def set_keys(settings: RankingSettings) -> dict[str, Any]:
    """The keys that are set, in the order of the table; always with the profile."""
    values: dict[str, Any] = {"profile": settings.profile}
    for key, leaf in leaves().items():
        table, _, within = key.partition(".")
        if table != RANKING or within == "profile":
            continue
        value: Any = settings
        for attribute in leaf.attributes[1:]:
            value = getattr(value, attribute)
        if value is not None:
            values[within] = value
    return values

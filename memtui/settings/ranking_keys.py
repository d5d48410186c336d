"""A ranking as the keys of `[ranking]` that make it, and what no key can change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from operator import attrgetter
from typing import Any, Final

from memtui.model import Ranking
from memtui.settings.keys import RANKING, leaves
from memtui.settings.schema import RankingSettings

NO_MINIMUM: Final = "off"
WEIGHTS: Final = ("vector_weight", "keyword_weight")


@cache
def _attributes() -> Mapping[str, str]:
    """The attribute, of a part after a dot, that holds the value of each key of `[ranking]`."""
    start = f"{RANKING}."
    ranking = (leaf for leaf in leaves().values() if leaf.key.startswith(start))
    return {leaf.key.removeprefix(start): leaf.attribute.removeprefix(start) for leaf in ranking}


def values_of(ranking: Ranking) -> dict[str, Any]:
    """Every key of `[ranking]` but the profile with the value that the ranking has."""
    values = {
        key: attrgetter(name)(ranking)
        for key, name in _attributes().items()
        if key not in {"profile", "decay.preset"}
    }
    return values | {"min_score": NO_MINIMUM if ranking.min_score is None else ranking.min_score}


def set_keys(settings: RankingSettings) -> dict[str, Any]:
    """The keys that are set, in the order of the table; always with the profile."""
    values = {key: attrgetter(name)(settings) for key, name in _attributes().items()}
    return {key: value for key, value in values.items() if value is not None}


def keys_for(wanted: Ranking, base: Ranking) -> dict[str, Any]:
    """The fewest keys that make `wanted` of `base`, in the order of the table.

    The vector weight stands alone where the keyword weight is the rest to 1. What no key can
    change is not compared: see `has_rules_of`.
    """
    there = values_of(base)
    keys = {key: value for key, value in values_of(wanted).items() if value != there[key]}
    if not keys.keys() & set(WEIGHTS):
        return keys
    weights = WEIGHTS[:1] if is_rest(wanted) else WEIGHTS
    chosen = (keys.keys() - set(WEIGHTS)) | set(weights)
    return {key: value for key, value in values_of(wanted).items() if key in chosen}


def is_rest(ranking: Ranking) -> bool:
    """Whether the keyword weight is what the vector weight leaves of 1."""
    return ranking.keyword_weight == round(1.0 - ranking.vector_weight, 10)


def has_rules_of(ranking: Ranking, base: Ranking) -> bool:
    """Whether two rankings differ only in their names and in what `keys_for` tells."""
    for name in (name for key, name in _attributes().items() if key != "decay.preset"):
        value = attrgetter(name)(ranking)
        part, dot, within = name.partition(".")
        base = replace(
            base, **{part: replace(getattr(base, part), **{within: value}) if dot else value}
        )
    return base == ranking


def base_of(ranking: Ranking, built_in: Mapping[str, Ranking]) -> str:
    """The built-in profile whose rules a ranking has: its own name, else the first that fits.

    A ranking with rules of its own belongs to the first profile of all, memtui's.
    """
    names = [name for name in dict.fromkeys((ranking.profile, *built_in)) if name in built_in]
    fitting = (name for name in names if has_rules_of(ranking, built_in[name]))
    return next(fitting, next(iter(built_in)))


def as_built_in(ranking: Ranking, built_in: Mapping[str, Ranking]) -> Ranking:
    """The ranking under the name of the built-in profile whose rules it has."""
    return replace(ranking, profile=base_of(ranking, built_in))

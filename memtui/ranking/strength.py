"""The absolute strength of a match: a score only compares the results of one query."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from memtui.data import read_table
from memtui.model import Drop, Hit, Leg, Ranked, SearchMode

_CUTS: Final = read_table("strength.toml")


class Strength(StrEnum):
    """The strength of a match, whatever else was found."""

    STRONG = "strong"
    WEAK = "weak"
    NONE = "none"


def strength(ranked: Ranked, scored: Hit | Drop) -> Strength | None:
    """Return how well a candidate matches the query; `None` where that was not measured.

    Strong: it holds more than half of the query's words, and not only a letter, its name is the
    query, or its cosine is above that of any nonsense. Weak: it holds one word, or its cosine is
    above that of half the nonsense. The cosine counts for models in `strength.toml` alone.
    """
    pool, share, is_named = ranked.pool, 0.0, False
    if pool.search_mode is SearchMode.FILTERS_ONLY:
        return None
    if (keyword := scored.legs.get(Leg.KEYWORD)) is not None:
        hit = pool.hits[Leg.KEYWORD][keyword.position]
        is_named = hit.path_tier > 0
        if any(len(term) > 1 or not term.isascii() for term in hit.terms):
            share = hit.share
    if is_named or share > _CUTS["strong_share"]:
        return Strength.STRONG
    nearness: Strength | None = Strength.NONE
    if (vector := scored.legs.get(Leg.VECTOR)) is not None:
        cuts = _CUTS["cosine"].get(str(pool.states[Leg.VECTOR].facts.get("model")))
        if cuts is None:
            nearness = None
        elif vector.raw >= cuts[0]:
            nearness = Strength.STRONG if vector.raw >= cuts[1] else Strength.WEAK
    return nearness if nearness is Strength.STRONG or not keyword else Strength.WEAK


def is_all_weak(ranked: Ranked) -> bool:
    """Tell whether nothing of a list matches well, as far as that was measured."""
    found = {strength(ranked, hit) for hit in ranked.hits}
    return bool(found) and found <= {Strength.WEAK, Strength.NONE}

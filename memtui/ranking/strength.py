"""The absolute strength of a match: a score only compares the results of one query."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct

from memtui.data import read_table
from memtui.model import FEATURES, Drop, Evidence, Hit, Leg, Ranked
from memtui.ranking.trace import best_passage

_CUTS: Final = read_table("strength.toml")


class Strength(StrEnum):
    """The strength of a match, whatever else was found."""

    STRONG = "strong"
    WEAK = "weak"
    NONE = "none"


class Match(Struct, frozen=True):
    """The strength of a match, and the weighted sum that tells it in context."""

    strength: Strength
    shares: tuple[tuple[str, float, float], ...] = ()
    """Names, weights and values."""
    total: float = 0.0
    limit: float = 0.0
    """The least sum of a strong match; for none, of a weak one."""
    rule: str = ""
    """The rule without context: `name`, `words` or `cosine`; `total` is the share or that."""


def measure(ranked: Ranked, scored: Hit | Drop) -> Match | None:
    """Return how well a candidate matches the query; `None` where that was not measured.

    In context: by the weighted sum of its `absolute_numbers`. Else strong: it holds more than half
    of the query's words, and not only a letter, its name is the query, or its cosine is above that
    of any nonsense. Weak: it holds one word, or its cosine is above that of half the nonsense. The
    cosine counts for models in `strength.toml` alone.
    """
    pool, share, holds_words = ranked.pool, 0.0, False
    if not pool.is_scored:
        return None
    if (keyword := scored.legs.get(Leg.KEYWORD)) is not None:
        hit = pool.hits[Leg.KEYWORD][keyword.position]
        if hit.path_tier > 0:
            return Match(Strength.STRONG, rule="name")
        holds_words = any(len(term) > 1 or not term.isascii() for term in hit.terms)
        share = hit.share if holds_words else 0.0
    facts, evidence = pool.states[Leg.VECTOR].facts, pool.evidence
    if facts.get("pending") and Leg.VECTOR not in scored.legs:
        # Its vector may not be made yet.
        evidence = Evidence.WORDS
    model = str(facts.get("model"))
    sums, numbers = _CUTS["context"][evidence], absolute_numbers(ranked, scored)
    if numbers and (holds_words or not keyword) and model == sums.get("model", model):
        shares = tuple((name, weight, numbers[name]) for name, weight in sums["weights"].items())
        total = sum(weight * value for _, weight, value in shares)
        if total < (weak := sums.get("weak", 0.0)):
            return Match(Strength.NONE, shares, total, weak)
        level = Strength.STRONG if total >= sums["strong"] else Strength.WEAK
        return Match(level, shares, total, sums["strong"])
    vector, cuts = scored.legs.get(Leg.VECTOR), _CUTS["cosine"].get(model, ())
    passed = bisect_right(cuts, vector.raw) if vector else 0
    is_strong, by_words = share > _CUTS["strong_share"], keyword is not None and passed < 2
    if not (cuts or keyword) and vector:
        return None
    level = Strength.WEAK if keyword or passed else Strength.NONE
    level = Strength.STRONG if is_strong or passed == 2 else level
    cosine = vector.raw if vector is not None else 0.0
    rule, total = ("words", share) if is_strong or by_words else ("cosine", cosine)
    return Match(level, total=total, rule=rule)


def strength(ranked: Ranked, scored: Hit | Drop) -> Strength | None:
    """Return the strength of the match of a candidate; `None` where that was not measured."""
    match = measure(ranked, scored)
    return match.strength if match is not None else None


def absolute_numbers(ranked: Ranked, scored: Hit | Drop) -> Mapping[str, float]:
    """Return what compares between queries: the features of the best passage and the cosine.

    Empty without context.
    """
    place, vector = best_passage(scored), scored.legs.get(Leg.VECTOR)
    for one in ranked.pool.passages.get(scored.chunk.id, ()):
        if (one.start, one.end) == place:
            features = dict(zip(FEATURES[1:], one.values, strict=True))
            return features | {"vector": vector.raw if vector else 0.0}
    return {}


def is_all_weak(ranked: Ranked) -> bool:
    """Tell whether nothing of a list matches well or has all words, as far as it was measured."""
    matches = [measure(ranked, hit) for hit in ranked.hits]
    strengths = {match and match.strength for match in matches}
    values = {(name, value) for match in matches if match for name, _, value in match.shares}
    is_weak = bool(strengths) and strengths <= {Strength.WEAK, Strength.NONE}
    return is_weak and ("near_cover", 1.0) not in values

"""The values of a counterfactual: parameters, a change of one of them, and its cost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from memtui.data import read_table
from memtui.model import FEATURES, HIGHEST_MINIMUM, Fusion, Ranking, Stage, value_at, with_value
from memtui.model.inquiry import LegRank
from memtui.ranking.pipeline import runs

Value: TypeAlias = float | int | bool | str | None


class Parameter(StrEnum):
    """A parameter of a ranking, by its key in the settings."""

    VECTOR_WEIGHT = "vector_weight"
    FUSION = "fusion"
    RRF_K = "rrf_k"
    CONTEXT = "context.enabled"
    CHUNK = "context.chunk"
    KEYWORD = "context.keyword"
    COVER = "context.cover"
    NEAR_COVER = "context.near_cover"
    TWO_AWAY = "context.two_away"
    WORD_PIECES = "context.word_pieces"
    NEAR_WORD_PIECES = "context.near_word_pieces"
    REPLY = "context.reply"
    SPEAKER = "context.speaker"
    TIME = "context.time"
    QUESTION = "context.question"
    DATE = "context.date"
    DECAY = "decay.enabled"
    HALF_LIFE = "decay.half_life_days"
    FLOOR = "decay.floor"
    RERANK = "rerank.enabled"
    DEDUP = "dedup"
    MIN_SCORE = "min_score"
    MMR = "mmr.enabled"
    LAMBDA = "mmr.lambda"
    K = "k"
    CANDIDATE_MULTIPLIER = "candidate_multiplier"


class NoChangeReason(StrEnum):
    NO_VALUE = "no value does it"
    NOT_USED = "not used by this profile"
    NEW_SEARCH = "needs a new search"


class Change(Struct, frozen=True):
    """The least change of one parameter that brings a chunk into the list.

    `old` and `new` are values of the parameter (a minimum score of `None` is off), `new` rounded
    to the fewest decimals; `cost` is 0 to 1, see `cost`; `rank_after` is the 1-based rank of the
    chunk in the changed list.
    """

    parameter: Parameter
    old: Value
    new: Value
    cost: float
    rank_after: int


class NoChange(Struct, frozen=True):
    """A parameter of which no value within its range brings the chunk into the list."""

    parameter: Parameter
    reason: NoChangeReason


class Needed(Struct, frozen=True):
    """The depth of a search for a chunk to be a candidate; its rank then is not known.

    `candidates` are needed of each leg instead of `taken`. `k` and `candidate_multiplier` are the
    smallest values that take so many, each alone; `None` where none does, and where as many are
    taken already: then the leg's own merge left the chunk out.
    """

    candidates: int
    taken: int
    k: int | None
    candidate_multiplier: int | None


class Counterfactuals(Struct, frozen=True):
    """Changes of one parameter that bring one chunk into the list; cheapest first."""

    changes: tuple[Change, ...] = ()
    without: tuple[NoChange, ...] = ()
    needs: Needed | None = None
    """Of a chunk that is not in the pool and that a leg ranks."""

    @property
    def cheapest(self) -> Change | None:
        """The change that moves its parameter least; `None` when no single one does it."""
        return self.changes[0] if self.changes else None


FEATURE_OF: Mapping[Parameter, int] = {
    Parameter(f"context.{name}"): number for number, name in enumerate(FEATURES)
}
"""Each weight of context, and the place of its feature in `FEATURES`."""

RANGES: Mapping[Parameter, tuple[float, float]] = {
    Parameter(key): (low, high) for key, (low, high) in read_table("ranges.toml").items()
} | {Parameter.MIN_SCORE: (0.0, HIGHEST_MINIMUM)}
"""Within which a value is looked for."""

DEPTH = (Parameter.K, Parameter.CANDIDATE_MULTIPLIER)
"""Only these change how many hits of each leg take part."""

LOGARITHMIC = frozenset({Parameter.RRF_K, Parameter.HALF_LIFE})
"""Parameters whose doubling is the same step wherever it starts."""


def range_of(ranking: Ranking, parameter: Parameter) -> tuple[float, float]:
    """Lowest and highest value that is looked at, always with the present one.

    The vector weight goes from 0 to the sum of both weights, which is kept; a minimum score to 1
    where scores do.
    """
    low, high = RANGES[parameter]
    if parameter is Parameter.VECTOR_WEIGHT:
        return 0.0, ranking.vector_weight + ranking.keyword_weight
    if parameter is Parameter.MIN_SCORE and not runs(ranking, Stage.CONTEXT):
        high = 1.0
    now = value_of(ranking, parameter)
    is_linear = parameter not in LOGARITHMIC
    if isinstance(now, (int, float)) and math.isfinite(now) and (is_linear or now > 0):
        low, high = min(low, now), max(high, now)
    return low, high


def value_of(ranking: Ranking, parameter: Parameter) -> Value:
    value: Value = value_at(ranking, parameter)
    return str(value) if parameter is Parameter.FUSION else value


def apply(ranking: Ranking, parameter: Parameter, value: Value) -> Ranking:
    """Return the ranking with one parameter changed.

    The keyword weight follows the vector weight so that their sum stays: 1 - w where it is 1.
    """
    if parameter is Parameter.VECTOR_WEIGHT:
        assert isinstance(value, (int, float))
        rest = round(ranking.vector_weight + ranking.keyword_weight - value, 12)
        return replace(ranking, vector_weight=value, keyword_weight=max(0.0, rest))
    if parameter in DEPTH:
        value = int(value or 0)
    return with_value(ranking, parameter, Fusion(value) if isinstance(value, str) else value)


def cost(ranking: Ranking, parameter: Parameter, new: Value) -> float:
    """Return what a change costs, 0 to 1: the part of the parameter's range that it crosses.

    A weight from 0.3 to 0.4 crosses a tenth of 0 to 1 and costs 0.1; one more result of at most
    200 costs 1/199. Half-life and RRF constant count in doublings. A switch, another method and
    a minimum score that goes or comes cross everything there is: 1. So what stays nearest to the
    present list in the parameter's own terms comes first, and no switch before a number.
    """
    old = value_of(ranking, parameter)
    if parameter not in RANGES:
        return 1.0
    if not isinstance(new, (int, float)) or not isinstance(old, (int, float)):
        return 1.0
    low, high = range_of(ranking, parameter)
    if parameter in LOGARITHMIC:
        if old <= 0:
            return 1.0
        old, new, low, high = (math.log2(number) for number in (old, new, low, high))
    return min(1.0, abs(new - old) / (high - low)) if high > low else 1.0


def change_to(ranking: Ranking, parameter: Parameter, new: Value, rank_after: int) -> Change:
    """Describe the change of a parameter to a value that gives the chunk a rank."""
    old, price = value_of(ranking, parameter), cost(ranking, parameter, new)
    return Change(parameter, old, new, price, rank_after)


def needed(ranking: Ranking, ranks: Iterable[LegRank]) -> Needed | None:
    """Return what the leg takes in which the chunk stands best; `None` where no leg ranks it."""
    candidates = min((rank.position + 1 for rank in ranks), default=None)
    if candidates is None:
        return None

    smallest: list[int | None] = []
    for parameter in DEPTH:
        low, high = (int(value) for value in RANGES[parameter])
        values = range(low, high + 1) if ranking.candidates < candidates else ()
        enough = (one for one in values if apply(ranking, parameter, one).candidates >= candidates)
        smallest.append(next(enough, None))
    return Needed(candidates, ranking.candidates, *smallest)


def outside_pool(needs: Needed | None) -> tuple[NoChange, ...]:
    """Say why no parameter alone brings in a chunk that is not among the candidates."""
    reasons = dict.fromkeys(Parameter, NoChangeReason.NO_VALUE)
    if needs is not None:
        enough = (one for one in DEPTH if getattr(needs, one) is not None)
        reasons |= dict.fromkeys(enough, NoChangeReason.NEW_SEARCH)
    return tuple(NoChange(parameter, reason) for parameter, reason in reasons.items())

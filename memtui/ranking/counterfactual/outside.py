"""What a chunk needs that no leg brought into the pool: a search that takes more candidates."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from memtui.model import Ranking
from memtui.model.inquiry import LegRank
from memtui.ranking.counterfactual.change import (
    RANGES,
    NoChange,
    NoChangeReason,
    Parameter,
    apply,
)

DEPTH = (Parameter.K, Parameter.CANDIDATE_MULTIPLIER)
"""Only these change how many hits of each leg take part."""


@dataclass(frozen=True, slots=True)
class Needed:
    """How deep a search has to go for a chunk to be a candidate; its rank then is not known.

    `candidates` are needed of each leg instead of `taken`. `k` and `candidate_multiplier` are the
    smallest values that take so many, each alone; `None` where none does, and where as many are
    taken already: then the leg's own merge left the chunk out.
    """

    candidates: int
    taken: int
    k: int | None
    candidate_multiplier: int | None


def needed(ranking: Ranking, ranks: Iterable[LegRank]) -> Needed | None:
    """What the leg takes in which the chunk stands best; `None` where no leg ranks it."""
    wanted = min((rank.position + 1 for rank in ranks), default=None)
    if wanted is None:
        return None
    k, multiplier = (_smallest(ranking, parameter, wanted) for parameter in DEPTH)
    return Needed(wanted, ranking.candidates, k, multiplier)


def outside_pool(found: Needed | None) -> tuple[NoChange, ...]:
    """Why no parameter alone brings in a chunk that is not among the candidates."""
    reachable = {
        Parameter.K: found is not None and found.k is not None,
        Parameter.CANDIDATE_MULTIPLIER: found is not None
        and found.candidate_multiplier is not None,
    }
    return tuple(
        NoChange(
            parameter,
            NoChangeReason.NEW_SEARCH if reachable.get(parameter) else NoChangeReason.NO_VALUE,
        )
        for parameter in Parameter
    )


def _smallest(ranking: Ranking, parameter: Parameter, wanted: int) -> int | None:
    if ranking.candidates >= wanted:
        return None
    low, high = (int(value) for value in RANGES[parameter])
    values = range(low, high + 1)
    return next((n for n in values if apply(ranking, parameter, n).candidates >= wanted), None)

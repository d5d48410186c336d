"""Which chunk of a file or line is asked about: the one that comes nearest to the list."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from memtui.engine.inquiry import ChunkFacts
from memtui.model import Ranked

if TYPE_CHECKING:
    from memtui.model import Drop


def best_in_pool(ranked: Ranked, ids: Collection[str]) -> str | None:
    """The chunk with the best rank in the list, else with the best rank after fusion.

    Candidates come before chunks of the pool that the ranking does not look at; `None` when the
    pool holds none of `ids`.
    """
    wanted = frozenset(ids)
    shown = [hit for hit in ranked.hits if hit.chunk.id in wanted]
    if shown:
        return min(shown, key=lambda hit: hit.rank).chunk.id
    if not any(chunk_id in ranked.pool.chunks for chunk_id in wanted):
        return None
    drops = [drop for drop in ranked.drops if drop.chunk.id in wanted]
    return min(drops, key=_fused_rank).chunk.id if drops else None


def _fused_rank(drop: Drop) -> tuple[bool, float]:
    if drop.stages:
        return False, drop.stages[0].rank
    ranks = [number for name, number in drop.numbers.items() if name.endswith("_rank")]
    return True, min((float(rank) for rank in ranks if rank is not None), default=0.0)


def best_by_legs(found: Iterable[ChunkFacts]) -> ChunkFacts:
    """The chunk that a leg ranks best among all; the first where no leg ranks any.

    Raises ValueError for none at all.
    """
    return min(found, key=_best_position)


def _best_position(facts: ChunkFacts) -> float:
    ranks = [place.rank.position for place in facts.places.values() if place.rank is not None]
    return min(ranks, default=float("inf"))

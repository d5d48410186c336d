"""Reading a trace: compare two lists, explain one chunk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from memtui.model import (
    Chunk,
    Drop,
    Hit,
    Leg,
    Ranked,
    Ranking,
    Stage,
    StageScore,
)
from memtui.model import citation as cite
from memtui.ranking.mmr import snippet_text, tokenize
from memtui.ranking.pipeline import rank


@dataclass(frozen=True, slots=True)
class Difference:
    """How a result list differs from the one before it."""

    moved: Mapping[str, int]
    """Chunk id -> places gained (above 0) or lost, for chunks in both lists that moved."""
    entered: tuple[str, ...]
    left: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.moved or self.entered or self.left)


def difference(before: Ranked | None, after: Ranked) -> Difference:
    """Compare two result lists by chunk; without a list before, everything has entered."""
    old = {hit.chunk.id: hit.rank for hit in before.hits} if before else {}
    new = {hit.chunk.id: hit.rank for hit in after.hits}
    moved = {
        chunk_id: old[chunk_id] - rank
        for chunk_id, rank in new.items()
        if chunk_id in old and old[chunk_id] != rank
    }
    entered = tuple(chunk_id for chunk_id in new if chunk_id not in old)
    left = tuple(chunk_id for chunk_id in old if chunk_id not in new)
    return Difference(moved, entered, left)


def movement(hit: Hit) -> int:
    """Places gained (above 0) or lost between fusion and the final list."""
    return hit.stages[0].rank - hit.rank if hit.stages else 0


@dataclass(frozen=True, slots=True)
class Similar:
    """The chunk that a chunk was held to repeat, and the words they share."""

    chunk_id: str
    citation: str
    similarity: float
    shared: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why one chunk of a ranked pool is where it is."""

    scored: Hit | Drop
    rank: int | None
    """1-based; `None` when it is not in the list."""
    ranks: tuple[tuple[Stage, int], ...]
    """The rank after fusion's legs and after every active stage."""
    leg_ranks: Mapping[str, int]
    """1-based rank in each leg that found it."""
    without: Mapping[str, int | None]
    """The rank it would have without `mmr`, without `decay`; `None` when it would not be shown."""
    similar: Similar | None


def explain(ranked: Ranked, chunk_id: str) -> Explanation:
    """Say why a chunk of the pool is where it is.

    The counterfactual ranks come from ranking the same pool again with one stage turned off.
    Raises `KeyError` when the pool does not hold the chunk.
    """
    scored = find(ranked, chunk_id)
    ranks = tuple((stage.stage, stage.rank) for stage in scored.stages)
    leg_ranks = {str(leg): part.position + 1 for leg, part in scored.legs.items()}
    without = {
        name: _rank_under(ranked, changed, chunk_id)
        for name, changed in _without(ranked.ranking).items()
    }
    own_rank = scored.rank if isinstance(scored, Hit) else None
    return Explanation(scored, own_rank, ranks, leg_ranks, without, _similar(ranked, scored))


def find(ranked: Ranked, chunk_id: str) -> Hit | Drop:
    """The hit or the near miss of a chunk; raises `KeyError` when the pool does not hold it."""
    for hit in ranked.hits:
        if hit.chunk.id == chunk_id:
            return hit
    for drop in ranked.drops:
        if drop.chunk.id == chunk_id:
            return drop
    raise KeyError(chunk_id)


def other_model(ranked: Ranked, chunk: Chunk) -> str | None:
    """The model of a chunk whose vector the query's cannot be compared with; else `None`."""
    state = ranked.pool.states.get(Leg.VECTOR)
    searched = state.facts.get("model") if state is not None else None
    return chunk.model if searched and chunk.model and chunk.model != searched else None


def stage_score(scored: Hit | Drop, stage: Stage) -> StageScore | None:
    """What a stage did to a chunk; `None` when it was off or not reached."""
    return next((score for score in scored.stages if score.stage is stage), None)


def _without(ranking: Ranking) -> dict[str, Ranking]:
    changed = {}
    if ranking.mmr.enabled:
        changed["mmr"] = replace(ranking, mmr=replace(ranking.mmr, enabled=False))
    if ranking.decay.enabled:
        changed["decay"] = replace(ranking, decay=replace(ranking.decay, enabled=False))
    return changed


def _rank_under(ranked: Ranked, ranking: Ranking, chunk_id: str) -> int | None:
    other = rank(ranked.pool, ranking, now=ranked.trace.now)
    return next((hit.rank for hit in other.hits if hit.chunk.id == chunk_id), None)


def _similar(ranked: Ranked, scored: Hit | Drop) -> Similar | None:
    stage = stage_score(scored, Stage.MMR)
    twin_id = stage.numbers.get("similar_to") if stage else None
    if stage is None or not isinstance(twin_id, str):
        return None
    twin = ranked.pool.chunks[twin_id]
    shared = tokenize(snippet_text(scored.chunk)) & tokenize(snippet_text(twin))
    similarity = stage.numbers["max_similarity"]
    return Similar(
        twin_id,
        cite(twin.path, twin.start_line, twin.end_line),
        float(similarity or 0.0),
        tuple(sorted(shared)),
    )

"""The stages of the ranking as one chunk of the pool went through them."""

from __future__ import annotations

from collections.abc import Iterator

from memtui.model import Drop, Hit, Leg, Ranked, Reason, Stage, StageScore, citation
from memtui.model.inquiry import Outcome, TraceStep
from memtui.ranking.trace import find

_OTHER = {Stage.MMR: "similar_to", Stage.DEDUP: "duplicate_of"}
_RENAMED = {"max_similarity": "similarity"}
_DATED = frozenset({Stage.DECAY, Stage.RERANK})


def stage_steps(ranked: Ranked, chunk_id: str) -> Iterator[TraceStep]:
    """Every active stage that a candidate went through, the one that lost it last.

    `PUSHED_OUT` where a stage moves it from within k to beyond. Each step holds k and what the
    stage did to the score: `before`, `after`, `operand`, and the stage's own numbers. Raises
    `KeyError` when the pool does not hold the chunk.
    """
    scored = find(ranked, chunk_id)
    among = {
        trace.stage: len(trace.order) + len(trace.dropped)
        for trace in ranked.trace.stages
        if trace.active
    }
    before: int | None = None
    for stage in scored.stages:
        is_loss = isinstance(scored, Drop) and stage is scored.stages[-1]
        yield _step(ranked, scored, stage, before, among.get(stage.stage), is_loss)
        before = stage.rank


def _step(
    ranked: Ranked,
    scored: Hit | Drop,
    stage: StageScore,
    before: int | None,
    among: int | None,
    is_loss: bool,
) -> TraceStep:
    k = max(0, ranked.ranking.k)
    outcome, reason = Outcome.PASSED, stage.reason
    if is_loss:
        outcome = Outcome.LOST
    elif before is not None and before <= k < stage.rank:
        outcome, reason = Outcome.PUSHED_OUT, Reason.PUSHED_DOWN
    return TraceStep(
        stage.stage,
        outcome,
        reason,
        _numbers(scored, stage) | {"k": k},
        stage.rank,
        among,
        other=_other(ranked, stage),
    )


def _numbers(scored: Hit | Drop, stage: StageScore) -> dict[str, float | int | str | None]:
    """What the stage compared, by name; ids of chunks are told as citations elsewhere."""
    numbers: dict[str, float | int | str | None] = {"after": stage.after}
    if stage.stage is Stage.FUSION:
        numbers |= _fused(scored)
    else:
        numbers["before"] = stage.before
    if stage.operand is not None:
        numbers["operand"] = stage.operand
    if stage.stage is Stage.MIN_SCORE:
        numbers["score"] = stage.before
    if stage.stage in _DATED:
        numbers["date_from"] = str(stage.reason)
    hidden = _OTHER.get(stage.stage)
    return numbers | {
        _RENAMED.get(name, name): value for name, value in stage.numbers.items() if name != hidden
    }


def _fused(scored: Hit | Drop) -> dict[str, float | int | str | None]:
    numbers: dict[str, float | int | str | None] = {}
    for leg in Leg:
        part = scored.legs.get(leg)
        if part is not None:
            numbers |= {
                f"{leg}_raw": part.raw,
                f"{leg}_mapped": part.mapped,
                f"{leg}_weight": part.weight,
                f"{leg}_contribution": part.contribution,
            }
    return numbers


def _other(ranked: Ranked, stage: StageScore) -> str:
    chunk_id = stage.numbers.get(_OTHER.get(stage.stage, ""))
    chunk = ranked.pool.chunks.get(chunk_id) if isinstance(chunk_id, str) else None
    return citation(chunk.path, chunk.start_line, chunk.end_line) if chunk is not None else ""

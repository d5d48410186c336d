"""The parts of a JSON document of a search: every number of the trace, none computed here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memtui.model import (
    Chunk,
    Drop,
    Hit,
    LegScore,
    LegState,
    Ranked,
    StageScore,
    citation,
)
from memtui.model.status import FileState
from memtui.report.jsonable import plain

FileStates = Mapping[str, FileState]
"""By path, how the files of an agent's index agree with it."""


def legs_entry(ranked: Ranked) -> dict[str, Any]:
    """How each leg answered, and what it searched for."""
    return {str(leg): _leg_state(state) for leg, state in ranked.pool.states.items()}


def ranking_entry(ranked: Ranked) -> dict[str, Any]:
    """Every parameter of the ranking, and how many candidates of each leg that makes."""
    entry: dict[str, Any] = plain(ranked.ranking)
    return {**entry, "candidates": ranked.ranking.candidates}


def hit_entry(hit: Hit, snippet: str, states: FileStates | None = None) -> dict[str, Any]:
    """A result; with `states`, of an agent's index, also how its file is.

    `file_state` is null for a file that nobody could compare.
    """
    file_state = {} if states is None else {"file_state": states.get(hit.chunk.path)}
    return {
        "rank": hit.rank,
        **_chunk(hit.chunk),
        "score": hit.score,
        "effective": hit.effective,
        "legs": _legs(hit.legs),
        "stages": [_stage(stage) for stage in hit.stages],
        "snippet": snippet,
        **file_state,
    }


def drop_entry(drop: Drop) -> dict[str, Any]:
    """A candidate that is not in the list."""
    return {
        **_chunk(drop.chunk),
        "stage": drop.stage,
        "reason": drop.reason,
        "score": drop.score,
        "numbers": drop.numbers,
        "legs": _legs(drop.legs),
        "stages": [_stage(stage) for stage in drop.stages],
    }


def _chunk(chunk: Chunk) -> dict[str, Any]:
    return {
        "chunk_id": chunk.id,
        "path": chunk.path,
        "source": chunk.source,
        "start_line": chunk.start_line,
        "end_line": chunk.end_line,
        "citation": citation(chunk.path, chunk.start_line, chunk.end_line),
        "model": chunk.model,
    }


def _legs(legs: Mapping[Any, LegScore]) -> dict[str, Any]:
    return {
        str(leg): {
            "raw": part.raw,
            "mapped": part.mapped,
            "weight": part.weight,
            "contribution": part.contribution,
            "position": part.position,
            "terms": part.terms,
            "text_score": part.text_score,
        }
        for leg, part in legs.items()
    }


def _stage(stage: StageScore) -> dict[str, Any]:
    return {
        "stage": stage.stage,
        "before": stage.before,
        "after": stage.after,
        "operation": stage.operation,
        "operand": stage.operand,
        "rank": stage.rank,
        "reason": stage.reason,
        "numbers": stage.numbers,
    }


def _leg_state(state: LegState) -> dict[str, Any]:
    return {
        "state": state.status,
        "reason": state.reason,
        "detail": state.detail,
        "elapsed_ms": state.elapsed_ms,
        "facts": state.facts,
    }

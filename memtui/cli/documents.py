"""The JSON documents of a search: every number of the trace, none computed here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from memtui.model import (
    Chunk,
    Drop,
    Hit,
    IndexStatus,
    LegScore,
    LegState,
    Ranked,
    StageScore,
    citation,
)


def search_document(
    ranked: Ranked, snippets: Mapping[str, str], status: IndexStatus, warnings: Sequence[str]
) -> dict[str, Any]:
    """The document of a search; `snippets` by chunk id."""
    return {
        "query": ranked.pool.query,
        "now": ranked.trace.now,
        "ranking": ranking_entry(ranked),
        "legs": {leg: _leg_state(state) for leg, state in ranked.pool.states.items()},
        "timings": {"pool_ms": ranked.pool.elapsed_ms, "rank_ms": ranked.elapsed_ms},
        "hits": [hit_entry(hit, snippets.get(hit.chunk.id, "")) for hit in ranked.hits],
        "drops": [drop_entry(drop) for drop in ranked.drops],
        "stages": [
            {
                "stage": trace.stage,
                "active": trace.active,
                "order": trace.order,
                "dropped": trace.dropped,
                "numbers": trace.numbers,
            }
            for trace in ranked.trace.stages
        ],
        "index": index_entry(status),
        "warnings": warnings,
    }


def ranking_entry(ranked: Ranked) -> dict[str, Any]:
    """Every parameter of the ranking, and how many candidates of each leg that makes."""
    from memtui.cli.output import plain

    entry: dict[str, Any] = plain(ranked.ranking)
    return {**entry, "candidates": ranked.ranking.candidates}


def hit_entry(hit: Hit, snippet: str) -> dict[str, Any]:
    """A result."""
    return {
        "rank": hit.rank,
        **_chunk(hit.chunk),
        "score": hit.score,
        "effective": hit.effective,
        "legs": _legs(hit.legs),
        "stages": [_stage(stage) for stage in hit.stages],
        "snippet": snippet,
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


def index_entry(status: IndexStatus) -> dict[str, Any]:
    """Which index answered."""
    return {
        "root": status.root,
        "dir": status.index_dir,
        "generation": status.generation,
        "state": status.state,
        "files": status.files,
        "chunks": status.chunks,
        "vectors": status.vectors,
        "pending": status.pending_count,
        "provider": status.provider.actual,
        "model": status.provider.model,
        "dimensions": status.provider.dimensions,
        "vector_backend": status.vector_backend,
        "tokenizer": status.tokenizer,
    }


def _chunk(chunk: Chunk) -> dict[str, Any]:
    return {
        "chunk_id": chunk.id,
        "path": chunk.path,
        "source": chunk.source,
        "start_line": chunk.start_line,
        "end_line": chunk.end_line,
        "citation": citation(chunk.path, chunk.start_line, chunk.end_line),
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

"""The JSON documents of a search: every number of the trace, none computed here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from memtui.model import IndexStatus, Ranked
from memtui.report.documents import FileStates, drop_entry, hit_entry, legs_entry, ranking_entry


def search_document(
    ranked: Ranked, snippets: Mapping[str, str], status: IndexStatus, warnings: Sequence[str]
) -> dict[str, Any]:
    """The document of a search; `snippets` by chunk id.

    `generation` is the one that was searched; `index` tells how the index is by now.
    """
    states = file_states(status)
    return {
        "query": ranked.pool.query,
        "now": ranked.trace.now,
        "ranking": ranking_entry(ranked),
        "search_mode": ranked.pool.search_mode,
        "generation": ranked.pool.generation,
        "legs": legs_entry(ranked),
        "timings": {"pool_ms": ranked.pool.elapsed_ms, "rank_ms": ranked.elapsed_ms},
        "hits": [hit_entry(hit, snippets.get(hit.chunk.id, ""), states) for hit in ranked.hits],
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


def file_states(status: IndexStatus) -> FileStates | None:
    """By path, the files of an agent's index as far as they were compared; `None` before that."""
    truth = status.foreign.truth if status.foreign is not None else None
    return None if truth is None else {file.path: file.state for file in truth.files}


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
        "provider_state": status.provider,
        "vector_backend": status.vector_backend,
        "tokenizer": status.tokenizer,
        **_foreign_entry(status),
    }


def _foreign_entry(status: IndexStatus) -> dict[str, Any]:
    """Whose index it is; the examination is what `memtui status` prints."""
    foreign = status.foreign
    if foreign is None:
        return {}
    names = [field.name for field in fields(foreign) if field.name not in {"truth", "examining"}]
    return {"foreign": {name: getattr(foreign, name) for name in names}}

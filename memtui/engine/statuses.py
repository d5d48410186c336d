"""Putting the one-word state and all the facts behind it together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from memtui.index.indexer_state import IndexerSnapshot, Work
from memtui.model import IndexState, IndexStatus, ProviderState, Reason, WatcherState
from memtui.text.tokens import FTS5_TOKENIZE

TOKENIZER = f"{FTS5_TOKENIZE.split(' categories')[0]}, CJK in pairs, Thai in threes"


def compose(
    *,
    root: Path,
    index_dir: Path,
    snapshot: IndexerSnapshot,
    provider: ProviderState,
    watcher: WatcherState | None,
    backend: str,
    told: Sequence[str | None] = (),
    made_by: str = "",
) -> IndexStatus:
    """Make the status out of what each part knows; `told`: what other parts have to tell."""
    counts = snapshot.counts
    warnings = [line for line in told if line]
    if snapshot.generation and snapshot.vector_extension is None:
        warnings.append("sqlite-vec cannot be loaded: vectors are kept in the cache alone")
    if snapshot.problem is not None and snapshot.problem.is_of_texts:
        warnings.append(snapshot.problem.detail)
    if snapshot.cache_excess:
        excess = -(-snapshot.cache_excess // 10**6)
        warnings.append(
            f"the vectors in use take {excess} MB more than index.cache_mb allows: they are kept"
        )
    return IndexStatus(
        state=state_of(snapshot, provider),
        root=str(root),
        index_dir=str(index_dir),
        generation=snapshot.generation,
        files=counts.files,
        chunks=counts.chunks,
        vectors=counts.vectors,
        sources=counts.sources,
        pending=snapshot.pending,
        pending_count=snapshot.pending_count,
        skipped=snapshot.skipped,
        provider=provider,
        vector_backend=backend,
        tokenizer=TOKENIZER,
        watcher=watcher or WatcherState("off"),
        writer=snapshot.writer,
        last_sync=snapshot.last_sync,
        progress=snapshot.progress,
        cache_hits=snapshot.cache_hits,
        cache_misses=snapshot.cache_misses,
        errors=snapshot.errors,
        warnings=tuple(warnings),
        made_by=made_by,
        usage=snapshot.usage,
    )


def state_of(snapshot: IndexerSnapshot, provider: ProviderState) -> IndexState:
    """The one word: what runs comes first, then what is wrong, then what waits."""
    if snapshot.running is not Work.NONE:
        return IndexState.INDEXING
    if snapshot.failure is not None:
        return IndexState.ERROR
    if not snapshot.generation:
        return IndexState.NO_INDEX
    if snapshot.problem is not None or provider.state is Reason.PROVIDER_FAILED:
        return IndexState.DEGRADED
    if snapshot.pending_count or _lacks_vectors(snapshot, provider):
        return IndexState.STALE
    return IndexState.READY


def _lacks_vectors(snapshot: IndexerSnapshot, provider: ProviderState) -> bool:
    """Whether chunks still wait for a vector, as after a run that was stopped."""
    counts = snapshot.counts
    return provider.model is not None and counts.vectors < counts.chunks

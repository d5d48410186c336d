"""The status of an index that another program owns."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from memtui.index.foreign import rows
from memtui.index.foreign.findings import agent_gets
from memtui.index.foreign.opening import Opened
from memtui.model import (
    ErrorRecord,
    IndexState,
    IndexStatus,
    ProviderState,
    SourceCount,
    WatcherState,
)
from memtui.model.status import ForeignStatus, IndexGeneration, Severity, Truth

if TYPE_CHECKING:
    from memtui.engine.foreign.agent import ForeignFacts

_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Counts:
    """What an index holds, and how it is read."""

    generation: IndexGeneration
    opened: str
    tokenizer: str
    vectors: int
    sources: tuple[SourceCount, ...]
    warnings: tuple[str, ...]


def count(opened: Opened) -> Counts:
    """Count files, chunks and vectors; indexes answer, no text or vector is read."""
    connection, layout = opened.connection, opened.layout
    files = rows.file_counts(connection, layout)
    chunks = rows.chunk_counts(connection, layout)
    sources = tuple(
        SourceCount(source, files.get(source, 0), chunks.get(source, 0))
        for source in sorted({*files, *chunks})
    )
    vectors = 0
    if layout.vec is not None:
        found = connection.execute(f"SELECT count(*) FROM {layout.vec}_rowids").fetchall()
        vectors = int(str(found[0][0]))
    return Counts(
        layout.generation,
        opened.how.value,
        layout.tokenizer,
        vectors,
        sources,
        opened.warnings,
    )


def compose(
    facts: ForeignFacts,
    *,
    counts: Counts | None,
    truth: Truth | None,
    examining: bool,
    backend: str,
    problem: str,
    now: datetime,
) -> IndexStatus:
    """Make the status out of what is known."""
    sources = counts.sources if counts else ()
    drifted = truth.drifted if truth else ()
    gets, because = agent_gets(truth, facts.choice.profile) if truth else (None, "")
    return IndexStatus(
        state=_state(truth, problem),
        root=str(facts.target.workspace or ""),
        index_dir=str(facts.target.database),
        generation=0,
        files=sum(source.files for source in sources),
        chunks=sum(source.chunks for source in sources),
        vectors=counts.vectors if counts else 0,
        sources=sources,
        pending=tuple(file.path for file in drifted[:_SHOWN]),
        pending_count=len(drifted),
        skipped=(),
        provider=_provider(facts),
        vector_backend=backend,
        tokenizer=counts.tokenizer if counts else "",
        watcher=WatcherState("off", "the index is looked at before each search"),
        writer="the agent's program",
        last_sync=None,
        progress=None,
        cache_hits=0,
        cache_misses=0,
        errors=(ErrorRecord(now, "index", problem),) if problem else (),
        warnings=_warnings(counts, truth),
        foreign=ForeignStatus(
            agent=facts.target.agent,
            generation=counts.generation if counts else IndexGeneration.SIDECAR,
            profile=facts.choice.profile,
            chosen_because=facts.choice.because,
            opened=counts.opened if counts else "",
            app_version=facts.origin.app_version,
            query_vectors=facts.needs,
            truth=truth,
            examining=examining,
            agent_gets=gets,
            agent_gets_because=because,
        ),
    )


def _state(truth: Truth | None, problem: str) -> IndexState:
    if problem:
        return IndexState.ERROR
    if truth is None:
        return IndexState.READY
    worst = {finding.severity for finding in truth.findings}
    if Severity.ERROR in worst:
        return IndexState.DEGRADED
    return IndexState.STALE if truth.drifted else IndexState.READY


def _provider(facts: ForeignFacts) -> ProviderState:
    identity = facts.identity
    requested = facts.search.provider if facts.search is not None else identity.provider or "?"
    return ProviderState(
        requested=requested,
        actual=identity.provider,
        model=identity.model,
        dimensions=identity.vector_dims,
        remote=True,
    )


def _warnings(counts: Counts | None, truth: Truth | None) -> tuple[str, ...]:
    found = counts.warnings if counts else ()
    if truth is None:
        return found
    told = (f.message for f in truth.findings if f.severity is not Severity.INFO)
    return (*found, *told)

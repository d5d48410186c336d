"""`memtui status`: how the index is, in words or as a document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from memtui.cli.invocation import Invocation
from memtui.cli.session import Session, open_session
from memtui.model import IndexState, IndexStatus
from memtui.report import words
from memtui.report.documents import plain
from memtui.report.providers import (
    cache_words,
    provider_lines,
    provider_summary,
    usage_words,
)

if TYPE_CHECKING:
    from memtui.cli.probes import Probe

EXIT_OK, EXIT_NO_INDEX = 0, 3


def run_status(invocation: Invocation, *, deep: bool) -> int:
    """Print the state of the index; 3 when there is none. `deep` asks every part, too."""
    with open_session(invocation) as session:
        session.engine.index.refresh_status()
        status = session.engine.index.status()
        probes = _probes(session) if deep else ()
        warnings = session.loaded.warnings
        output = invocation.output()
        if invocation.json:
            document: dict[str, Any] = plain(status)
            document["warnings"] = [*warnings, *status.warnings]
            if deep:
                document["probes"] = probes
            output.document(document)
        else:
            for warning in warnings:
                output.note(f"memtui: {warning}")
            for line in status_lines(status):
                output.line(output.clean(line))
            for probe in probes:
                output.line(output.clean(_probe_line(probe)))
    return EXIT_NO_INDEX if status.state is IndexState.NO_INDEX else EXIT_OK


def _probes(session: Session) -> tuple[Probe, ...]:
    from memtui.cli.probes import probe_all

    return probe_all(session)


def _probe_line(probe: Probe) -> str:
    hint = f" ({probe.hint})" if probe.hint else ""
    return f"{'works' if probe.works else 'FAILS':<10}{probe.name}: {probe.detail}{hint}"


def status_lines(status: IndexStatus) -> Iterator[str]:
    """The state in lines: the word first, then what is in the index, then what is wrong."""
    yield f"state     {status.state.value.replace('_', ' ')}{_pending(status)}"
    yield f"memory    {status.root}"
    yield f"index     {status.index_dir} (generation {status.generation})"
    sources = ", ".join(
        f"{s.source} {words.count(s.files, 'file')} {words.count(s.chunks, 'chunk')}"
        for s in status.sources
    )
    yield (
        f"holds     {words.count(status.files, 'file')}, {words.count(status.chunks, 'chunk')}, "
        f"{words.count(status.vectors, 'vector')}" + (f" ({sources})" if sources else "")
    )
    yield f"provider  {provider_summary(status.provider)}"
    for label, text in provider_lines(status.provider):
        yield f"{label:<10}{text}"
    yield f"vectors   {status.vector_backend}"
    yield f"tokenizer {status.tokenizer}"
    yield f"watcher   {status.watcher.mode}{_detail(status.watcher.detail)}"
    yield f"writer    {status.writer}"
    yield f"last sync {_last_sync(status)}"
    if status.usage.requests:
        yield f"spent     {usage_words(status.usage)}"
    if status.cache_hits or status.cache_misses:
        yield f"cache     {cache_words(status.cache_hits, status.cache_misses)}"
    for path in status.pending:
        yield f"pending   {path}"
    for skipped in status.skipped:
        yield f"skipped   {skipped.path}: {skipped.detail or words.reason_words(skipped.reason)}"
    for error in status.errors:
        yield f"error     {error.at:%Y-%m-%d %H:%M:%S} {error.where}: {error.message}"
    for warning in status.warnings:
        yield f"warning   {warning}"


def _pending(status: IndexStatus) -> str:
    if not status.pending_count:
        return ""
    if status.state is IndexState.NO_INDEX:
        return f" ({words.count(status.pending_count, 'file', ' to index')})"
    return f" ({words.count(status.pending_count, 'changed file')})"


def _last_sync(status: IndexStatus) -> str:
    stats = status.last_sync
    if stats is None:
        return "not by this process"
    return f"{stats.finished_at:%Y-%m-%d %H:%M:%S}, {words.duration(stats.seconds)}"


def _detail(text: str) -> str:
    return f" ({text})" if text else ""

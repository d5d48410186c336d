"""`memtui index`: bring the index up to date, with progress on stderr."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from memtui.bus import Bus, SyncFailed, SyncFinished, SyncProgressed
from memtui.cli.foreign import refuse_foreign
from memtui.cli.invocation import Invocation
from memtui.cli.output import Output, OutputFailed
from memtui.cli.session import Session, open_session
from memtui.errors import MemtuiError
from memtui.model import IndexState, IndexStatus, Reason, SyncStats
from memtui.report import words
from memtui.report.providers import cost_words, usage_words, vectors_note

if TYPE_CHECKING:
    from memtui.engine.source import RebuildCost

EXIT_PROVIDER = 4


class IndexingFailed(MemtuiError):
    """A sync or rebuild that failed, with the exit code of what went wrong in it."""

    code = "indexing_failed"

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def run_index(invocation: Invocation, *, force: bool, watch: bool, dry_run: bool) -> int:
    """Sync or rebuild and print what was done; with `watch` go on until interrupted.

    4 when the provider failed and none took over: the notes are indexed, without vectors.
    """
    refuse_foreign(invocation, rebuild=force)
    output = invocation.output()
    if dry_run:
        with open_session(invocation) as session:
            return _dry_run(invocation, output, session, force=force)
    bus = Bus()
    bus.subscribe(SyncProgressed, lambda event: output.progress(progress_line(event)))
    ends: list[SyncFailed | SyncFinished] = []
    bus.subscribe((SyncFailed, SyncFinished), ends.append)
    with open_session(invocation, write=True, watch=watch, bus=bus) as session:
        for warning in session.loaded.warnings:
            output.note(f"memtui: {warning}")
        session.engine.index.require_writer()
        _announce(output, session)
        if force:
            session.engine.index.rebuild(wait=True)
        else:
            session.engine.index.sync(wait=True)
        output.progress("")
        stats = _outcome(ends)
        session.engine.index.refresh_status()
        _report(invocation, output, session.engine.index.status(), stats)
        if watch:
            _follow(invocation, output, session, bus)
        failed = session.engine.index.status().provider.state is Reason.PROVIDER_FAILED
    return EXIT_PROVIDER if failed else 0


def _announce(output: Output, session: Session) -> None:
    """Before text goes to a service: which, where, and what that is expected to take."""
    provider = session.engine.index.status().provider
    if provider.actual is None or not provider.address:
        return
    session.engine.index.refresh_status()
    status = session.engine.index.status()
    cost = _cost(session, status)
    if status.state is IndexState.NO_INDEX:
        parts = [words.count(cost.files, "file"), cost_words(cost)]
    else:
        parts = [cost_words(cost)] if cost.chunks else []
        if status.pending_count:
            parts.append(words.count(status.pending_count, "changed file"))
    chosen = session.loaded.settings.transcripts
    if opted_in := (*chosen.sources, *chosen.paths):
        parts.append(f"conversations among them: {', '.join(opted_in)}")
    text = f"embedding by {provider.actual} {provider.model} at {provider.address}"
    output.note(output.clean(f"memtui: {text}: {', '.join(parts) or 'nothing to embed'}"))


def _cost(session: Session, status: IndexStatus) -> RebuildCost:
    """What a rebuild takes; of a first index with a service what the files let one expect."""
    provider = status.provider
    if status.state is not IndexState.NO_INDEX or not provider.address:
        return session.engine.index.rebuild_cost()
    from memtui.engine.providers.service import first_cost

    return first_cost(Path(status.root), session.loaded.settings, provider)


def _outcome(ends: Sequence[SyncFailed | SyncFinished]) -> SyncStats:
    """The rebuild, if there was one (a short sync always follows it), else the last sync.

    What ended last decides: a damaged index is a failure first and then built again.
    """
    last = ends[-1] if ends else None
    if last is None:
        raise MemtuiError("nothing was indexed")
    if isinstance(last, SyncFailed):
        raise IndexingFailed(last.error, last.exit_code)
    finished = [event.stats for event in ends if isinstance(event, SyncFinished)]
    return next((stats for stats in reversed(finished) if stats.rebuild), finished[-1])


def progress_line(event: SyncProgressed) -> str:
    """`vectors 420/1284 33 %  61/s  0:14 left  memory/2026-02-10.md`."""
    parts = [f"{event.phase} {event.done}/{event.total}" if event.total else event.phase]
    if event.total:
        parts.append(f"{100 * event.done // event.total} %")
    if event.rate > 0:
        parts.append(f"{event.rate:.0f}/s")
    if event.eta is not None:
        parts.append(f"{words.duration(event.eta)} left")
    if event.current:
        parts.append(event.current)
    return "  ".join(parts)


def _report(invocation: Invocation, output: Output, status: IndexStatus, stats: SyncStats) -> None:
    if invocation.json:
        output.document(
            {
                "sync": stats,
                "state": status.state,
                "root": status.root,
                "index_dir": status.index_dir,
                "generation": status.generation,
                "files": status.files,
                "chunks": status.chunks,
                "vectors": status.vectors,
                "skipped": status.skipped,
                "provider": status.provider,
                "warnings": status.warnings,
            }
        )
        return
    output.line(output.clean(sync_line(stats)))
    if status.provider.address and stats.usage.requests:
        output.line(output.clean(f"spent: {usage_words(stats.usage)} of {status.provider.actual}"))
    output.line(
        f"index: {words.count(status.files, 'file')}, {words.count(status.chunks, 'chunk')}, "
        f"{words.count(status.vectors, 'vector')}"
    )
    for skipped in status.skipped:
        reason = words.reason_words(skipped.reason)
        output.note(output.clean(f"memtui: skipped {skipped.path}: {skipped.detail or reason}"))
    if status.provider.state is Reason.PROVIDER_FAILED:
        output.note(f"memtui: no vectors were made: {status.provider.detail}")
    elif instead := vectors_note({}, status.provider, full=True):
        output.note(f"memtui: {instead}")
    for warning in status.warnings:
        output.note(f"memtui: {warning}")


def sync_line(stats: SyncStats) -> str:
    """What a sync did, in one line."""
    parts = [
        f"{number} {word}"
        for number, word in (
            (stats.files_added, "added"),
            (stats.files_changed, "changed"),
            (stats.files_removed, "removed"),
            (stats.files_skipped, "skipped"),
        )
        if number
    ]
    did = "rebuilt" if stats.rebuild else "synced"
    asked = stats.chunks_embedded + stats.cache_hits
    rate = f" ({100 * stats.cache_hits / asked:.0f} %)" if stats.cache_hits else ""
    return (
        f"{did} {words.count(stats.files_seen, 'file')} in {words.duration(stats.seconds)}: "
        f"{', '.join(parts) or 'nothing to do'}; "
        f"{words.count(stats.chunks_written, 'chunk')} written, "
        f"{words.count(stats.chunks_embedded, 'vector')} made, "
        f"{stats.cache_hits} from the cache{rate}"
    )


def _dry_run(invocation: Invocation, output: Output, session: Session, *, force: bool) -> int:
    session.engine.index.refresh_status()
    status = session.engine.index.status()
    cost = _cost(session, status)
    is_rebuild = force or status.state is IndexState.NO_INDEX
    if invocation.json:
        output.document(
            {
                "dry_run": True,
                "rebuild": is_rebuild,
                "pending": status.pending,
                "pending_count": status.pending_count,
                "skipped": status.skipped,
                "cost": cost,
            }
        )
        return 0
    if is_rebuild and (status.chunks or cost.tokens_estimate):
        place = f"at {cost.address}" if cost.address else "on this machine"
        output.line(f"would index {words.count(cost.files, 'file')} {place}: {cost_words(cost)}")
    else:
        output.line(f"would index {words.count(status.pending_count, 'file')}")
    for path in status.pending:
        output.data(path)
    return 0


def _follow(invocation: Invocation, output: Output, session: Session, bus: Bus) -> None:
    """Print every later sync, until Ctrl-C or until nobody reads any more."""
    unread: list[OSError | OutputFailed] = []
    ended = threading.Event()

    def report(event: SyncFinished) -> None:
        output.progress("")
        try:
            if invocation.json:
                output.record({"sync": event.stats})
            else:
                output.line(sync_line(event.stats))
            output.flush()
        except (OSError, OutputFailed) as error:
            unread.append(error)
            ended.set()

    bus.subscribe(SyncFinished, report)
    bus.subscribe(SyncFailed, lambda event: output.note(f"memtui: {event.error}"))
    output.note(f"memtui: following changes of {session.workspace.root}; Ctrl-C ends")
    ended.wait()
    raise unread[0]

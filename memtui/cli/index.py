"""`memtui index`, `memtui status` and `memtui verify`: the index itself."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from memtui.bus import Bus, SyncFailed, SyncFinished, SyncProgressed, TextsWithheld
from memtui.cli.common_options import Invocation, command
from memtui.cli.output import EXIT_OK, GREEN, RED, Line, Output, OutputFailed
from memtui.cli.session import (
    Session,
    agent_target,
    open_agent,
    open_session,
    refuse_agent,
    run_sync,
    stale_warning,
)
from memtui.errors import SettingsError
from memtui.memory.workspace import beside_words
from memtui.model import IndexState, IndexStatus, Reason, SyncStats
from memtui.report import words
from memtui.report.json_text import plain
from memtui.report.layout import Section
from memtui.report.status import (
    LOOKS_FOR,
    cost_words,
    held_words,
    skipped_words,
    status_sections,
    usage_words,
    vectors_note,
    withheld_words,
)
from memtui.text.sanitize import safe_line

if TYPE_CHECKING:
    from memtui.engine.foreign.verify import Verification
    from memtui.engine.ports import RebuildCost

EXIT_DIFFERS, EXIT_NO_INDEX, EXIT_PROVIDER = 1, 3, 4
_LONGEST_QUERY = 44
_PENDING_NAMED, _SKIPPED_NAMED = 10, 3


@command("index")
def index(invocation: Invocation, force: bool, watch: bool, dry_run: bool) -> int:
    """Index what has changed since the last time."""
    # 4 when the provider failed and none took over: the notes are indexed, without vectors.
    if watch and dry_run:
        raise click.UsageError("--watch and --dry-run exclude each other")
    refuse_agent(invocation, rebuild=force)
    if dry_run:
        return _dry_run(invocation, force=force)
    output, bus = invocation.output(), Bus()
    bus.subscribe(SyncProgressed, lambda event: output.progress(progress_line(event)))
    bus.subscribe(
        TextsWithheld,
        lambda event: output.note(f"memtui: not sent: {withheld_words(event.chunks)}"),
    )
    with open_session(invocation, write=True, watch=watch, bus=bus) as session:
        output.warn(session.loaded.warnings)
        engine = session.engine.index
        engine.require_writer()
        _announce(output, session)
        finished = run_sync(session, rebuild=force)
        output.progress("")
        # A short sync always follows a rebuild.
        stats = next((stats for stats in reversed(finished) if stats.rebuild), finished[-1])
        engine.refresh_status()
        _report(invocation, engine.status(), stats, _beside(invocation, session))
        if watch:
            _follow(invocation, output, session, bus)
        failed = engine.status().provider.state is Reason.PROVIDER_FAILED
    return EXIT_PROVIDER if failed else EXIT_OK


def _announce(output: Output, session: Session) -> None:
    provider = session.engine.index.status().provider
    if provider.actual is None or not provider.address:
        return
    status, cost = _current_cost(session)
    is_first = status.state is IndexState.NO_INDEX
    parts = [words.count(cost.files, "file", after=" to read")] if is_first else []
    if is_first or cost.chunks:
        parts.append(cost_words(cost))
    if status.pending_count and not is_first:
        parts.append(words.count(status.pending_count, "changed file"))
    chosen = session.loaded.settings.transcripts
    if opted_in := (*chosen.sources, *chosen.paths):
        parts.append(f"conversations among them: {', '.join(opted_in)}")
    text = f"embedding by {provider.actual} {provider.model} at {provider.address}"
    output.note(f"memtui: {text}: {', '.join(parts) or 'nothing to embed'}")


def _current_cost(session: Session) -> tuple[IndexStatus, RebuildCost]:
    """Return the state of the index, and what a rebuild is expected to cost.

    Of a first index with a service that is what the files let one expect.
    """
    status = session.current_status()
    if status.state is not IndexState.NO_INDEX or not status.provider.address:
        return status, session.engine.providers.cost()
    from memtui.engine.providers.catalog import first_cost

    return status, first_cost(Path(status.root), session.loaded.settings, status.provider)


def progress_line(event: SyncProgressed) -> str:
    """`vectors 420/1284 33 %  61/s  0:14 left  memory/2026-02-10.md`."""
    parts = [f"{event.phase} {event.done}/{event.total}" if event.total else event.phase]
    if event.total:
        parts.append(words.percent(event.done, event.total))
    if event.rate > 0:
        parts.append(f"{event.rate:.0f}/s")
    if event.eta is not None:
        parts.append(f"{words.duration(event.eta)} left")
    if event.current:
        parts.append(event.current)
    return "  ".join(parts)


def _report(
    invocation: Invocation, status: IndexStatus, stats: SyncStats, notes: list[str]
) -> None:
    names = (
        *("state", "root", "index_dir", "generation", "files", "chunks", "vectors"),
        *("skipped", "withheld", "unread", "provider", "warnings"),
    )
    lines = [sync_line(stats)]
    if status.provider.address and stats.usage.requests:
        provider = status.provider.actual or status.provider.requested
        lines.append(f"usage: {usage_words(stats.usage)} of {provider}")
    lines.append(f"index: {held_words(status, 'vector')}")
    if not (stats.files_seen or stats.files_skipped):
        notes.append(f"memtui: no notes in {safe_line(status.root)}: {LOOKS_FOR}")
    left_out = [f"{file.path}: {skipped_words(file)}" for file in status.skipped]
    if len(left_out) > _SKIPPED_NAMED:
        left_out = [f"{words.count(len(left_out), 'file')}: `memtui status` lists them"]
    notes += [safe_line(f"memtui: skipped {line}") for line in left_out]
    if status.provider.state is Reason.PROVIDER_FAILED:
        notes.append(f"memtui: no vectors were made: {status.provider.detail}")
    elif instead := vectors_note({}, status.provider, full=True):
        notes.append(f"memtui: {instead}")
    notes += [f"memtui: {warning}" for warning in status.warnings]
    document = {name: getattr(status, name) for name in names}
    invocation.respond({"sync": stats, **document}, lines, notes=notes)


def sync_line(stats: SyncStats) -> str:
    """Return what a sync did, in one line."""
    done = ("added", "changed", "removed", "skipped")
    counts = {word: getattr(stats, f"files_{word}") for word in done}
    parts = [f"{number} {word}" for word, number in counts.items() if number]
    did = "rebuilt" if stats.rebuild else "synced"
    vectors = stats.chunks_embedded + stats.cache_hits
    rate = f" ({words.percent(stats.cache_hits, vectors)})" if stats.cache_hits else ""
    return (
        f"{did} {words.count(stats.files_seen, 'file')} in {words.duration(stats.seconds)}: "
        f"{', '.join(parts) or 'no file changed'}; "
        f"{words.count(stats.chunks_written, 'chunk')} written, "
        f"{words.count(stats.chunks_embedded, 'vector')} made, "
        f"{stats.cache_hits} from the cache{rate}"
    )


def _dry_run(invocation: Invocation, *, force: bool) -> int:
    with open_session(invocation) as session:
        status, cost = _current_cost(session)
    is_of_another = status.provider.differs_from(status.made_by)
    is_rebuild = force or is_of_another or status.state is IndexState.NO_INDEX
    document = {
        "dry_run": True,
        "rebuild": is_rebuild,
        "pending": status.pending,
        "pending_count": status.pending_count,
        "removals": status.removals,
        "skipped": status.skipped,
        "cost": cost,
    }
    would = words.count(status.pending_count - len(status.removals), "file")
    if status.removals:
        would += f" and take {words.count(len(status.removals), 'file')} out of the index"
    if status.without_vector and status.provider.model is not None:
        would += f", and make {words.count(status.without_vector, 'vector')} of chunks that wait"
    if is_rebuild and (status.chunks or cost.tokens_estimate):
        place = f"at {cost.address}" if cost.address else "on this machine"
        would = f"{words.count(cost.files, 'file')}; {place}: {cost_words(cost)}"
    notes = [f"memtui: not sent: {withheld_words(cost.withheld)}"] if cost.withheld else []
    return invocation.respond(document, [f"would read {would}"], data=status.pending, notes=notes)


def _follow(invocation: Invocation, output: Output, session: Session, bus: Bus) -> None:
    unread: list[OSError | OutputFailed] = []
    ended = threading.Event()

    def report(event: SyncFinished) -> None:
        output.progress("")
        try:
            if invocation.json:
                output.document({"sync": event.stats}, indent=None)
            else:
                output.lines([sync_line(event.stats)])
            output.flush()
        except (OSError, OutputFailed) as error:
            unread.append(error)
            ended.set()

    bus.subscribe(SyncFinished, report)
    bus.subscribe(SyncFailed, lambda event: output.note(f"memtui: {event.error}"))
    output.note(f"memtui: following changes of {session.workspace.root}; Ctrl-C ends")
    ended.wait()
    raise unread[0]


@command("status")
def status(invocation: Invocation, deep: bool) -> int:
    """Show the state of the index, and everything that is wrong with it."""
    output, is_foreign = invocation.output(), invocation.foreign
    opened = open_agent(invocation, examine=False) if is_foreign else open_session(invocation)
    with opened as session:
        if is_foreign:
            output.progress("comparing the index with its files, and with itself")
        session.engine.index.refresh_status()
        output.progress("")
        now = session.engine.index.status()
        probes = list(_probe(session)) if deep and not is_foreign else []
    warnings = session.loaded.warnings
    document: dict[str, Any] = {**plain(now), "warnings": [*warnings, *now.warnings]}
    if deep and not is_foreign:
        document["probes"] = probes
    if not invocation.json:
        output.warn(warnings)
    more = now.pending_count - _PENDING_NAMED
    named = now.pending[:_PENDING_NAMED] + (f"and {words.count(more)} more",) * (more > 0)
    sections = status_sections(replace(now, pending=named))
    titles = {"technical": "technical details"}
    lines: list[Line | Section] = [replace(one, title=titles.get(one.id, "")) for one in sections]
    for probe in probes:
        hint = f" ({probe['hint']})" if probe["hint"] else ""
        word = "works" if probe["works"] else "FAILS"
        lines.append(f"{word:<10}{probe['name']}: {probe['detail']}{hint}")
    code = EXIT_NO_INDEX if now.state is IndexState.NO_INDEX else EXIT_OK
    notes = [] if is_foreign else _beside(invocation, session)
    if now.state in (IndexState.STALE, IndexState.NO_INDEX) and not is_foreign:
        notes.append(f"memtui: {stale_warning(now)}")
    return invocation.respond(document, lines, notes=notes, exit_code=code)


def _beside(invocation: Invocation, session: Session) -> list[str]:
    """Return a note about notes elsewhere that belong to the project, unless paths are named."""
    if session.loaded.settings.memory.extra_paths:
        return []
    offer = beside_words(session.workspace.root, invocation.env, invocation.home)
    return [f"memtui: {offer}"] if offer else []


def _probe(session: Session) -> Iterator[dict[str, Any]]:
    from memtui.engine.doctor import answer_words, database_checks
    from memtui.engine.providers.catalog import probe
    from memtui.index.generations import IndexFolder

    result = probe(session.loaded.settings.embedding)
    model = f"{result.name} {result.model}: " if result.model else ""
    detail = f"{model}{answer_words(result) if result.works else result.detail}"
    yield {"name": "provider", "works": result.works, "detail": detail, "hint": result.hint}
    for check in database_checks(IndexFolder(Path(session.engine.index.status().index_dir))):
        works = check.grade != "problem"
        yield {"name": check.name, "works": works, "detail": check.detail, "hint": check.hint}


@command("verify")
def verify(
    invocation: Invocation, against: Sequence[str], profile: str | None, verbose: bool
) -> int:
    """Run recorded queries on an agent's index and compare with the recorded answers."""
    from memtui.engine.foreign.verify import load_recording
    from memtui.engine.foreign.verify import verify as compare

    if not invocation.foreign:
        raise SettingsError("nothing to verify", hint="give --agent NAME or --index FILE")
    output = invocation.output()
    # A recording that cannot be used is named before any is compared.
    recordings = [(path, load_recording(path)) for path in map(invocation.path, against)]
    target, vectors = agent_target(invocation)
    compared: list[tuple[Path, Verification]] = []
    for path, recording in recordings:

        def tell(done: int, total: int, name: str = path.name) -> None:
            output.progress(f"{name}: {done}/{total}")

        result = compare(
            target, recording, vectors=vectors, profile=profile, env=invocation.env, progress=tell
        )
        output.progress("")
        compared.append((path, result))
    agrees = all(verification.agrees for _, verification in compared)
    return invocation.respond(
        {"agrees": agrees, "recordings": [{"path": p, **plain(one)} for p, one in compared]},
        (line for one in compared for line in _verification_lines(*one, everything=verbose)),
        exit_code=EXIT_OK if agrees else EXIT_DIFFERS,
    )


def _verification_lines(
    path: Path, verification: Verification, *, everything: bool
) -> Iterator[Line]:
    agreed = sum(verdict.agrees for verdict in verification.queries)
    outcome, difference = ("agrees", GREEN), verification.score_difference
    largest = "" if difference is None else f", largest difference {difference:.2g}"
    if not verification.agrees:
        outcome = ("NOT COMPARED" if difference is None else "DIFFERS", RED)
    yield [f"{path.name}: ", outcome, f", {agreed} of {len(verification.queries)} queries{largest}"]
    yield f"  profile {verification.profile}: {verification.chosen_because}"
    yield from (f"  {note}" for note in verification.notes)
    details = [one.detail for one in verification.queries]
    for number, verdict in enumerate(verification.queries):
        query, alike = verdict.query, 1 if everything else details.count(verdict.detail)
        shown = query if len(query) <= _LONGEST_QUERY else query[: _LONGEST_QUERY - 1] + "…"
        legs = verdict.from_legs
        from_legs = "" if legs is None else f", from recorded scores {legs:.2g}"
        if not verdict.agrees and (alike == 1 or number == details.index(verdict.detail)):
            which = repr(shown) if alike == 1 else words.count(alike, "query", "queries")
            yield f"  {verdict.stage}  {which}: {verdict.detail}"
        elif everything and verdict.score_difference is not None:
            yield f"  ok  {shown!r}: {verdict.score_difference:.2g}{from_legs}"

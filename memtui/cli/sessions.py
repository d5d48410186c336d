"""`memtui sessions` and `memtui replay`: the conversations behind the memory."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import click

from memtui.cli.group import Subgroup
from memtui.cli.invocation import Invocation, refuse_several
from memtui.cli.options import added, on_memory, parameter_options
from memtui.cli.output import EXIT_NOTHING, EXIT_OK, Output, spaced
from memtui.cli.session import Session, open_reading, refuse_agent, stale_warning
from memtui.errors import MemtuiError, SettingsError
from memtui.index.transcripts.scope import is_source, transcript_scope_of
from memtui.model import IndexState
from memtui.model.conversations import ConversationListing, MemoryCall, Replayed, TranscriptSource
from memtui.report import words
from memtui.report.conversations import (
    listing_lines,
    replay_lines,
    searches,
    source_lines,
    turn_lines,
)
from memtui.report.json_text import plain
from memtui.settings.load import SettingsFiles
from memtui.settings.write import opted_in, plan_transcripts, write

if TYPE_CHECKING:
    from memtui.engine import Engine

SHOW = "show"
"""Name of the hidden command that prints one conversation."""
EPILOG = "`memtui help sessions` tells what is read, what is indexed and how to opt in."
_MOST_NAMED = 5
_VERDICTS = {
    "changed": "changed",
    "same": "the same",
    "unrecorded": "without a record of what came back",
    "failed": "that could not be asked",
}


def source_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a source."""
    return [name for name in ("openclaw", "claude-code", "codex") if name.startswith(incomplete)]


turn_options = added(
    click.option("--full", is_flag=True, help="Of one: whole texts, and all that tools gave."),
    click.option("--jsonl", is_flag=True, help="Of one: a JSON document for each turn."),
)
names_argument = click.argument(
    "names", nargs=-1, required=True, metavar="NAME...", shell_complete=source_names
)


@click.group(
    cls=Subgroup,
    default=SHOW,
    invoke_without_command=True,
    subcommand_metavar="[PATH_OR_ID | COMMAND]",
    short_help="List the conversations behind the memory, or print one.",
    epilog=EPILOG,
)
@click.option("--source", metavar="NAME", shell_complete=source_names, help="Only of this source.")
@click.option(
    "--limit", type=click.IntRange(0), default=20, show_default=True, help="How many; 0: all."
)
@click.option("--coverage", is_flag=True, help="What of each source is indexed, what not and why.")
@turn_options
@on_memory(agent=True, demo=True)
def sessions(
    invocation: Invocation, source: str | None, limit: int, coverage: bool, full: bool, jsonl: bool
) -> int | None:
    """List the conversations behind the memory, newest first, or print one of them.

    PATH_OR_ID is a path of the list, a file, or (the beginning of) a session's id. Nothing is
    opted in by looking: `memtui sessions --coverage` says what is indexed, `memtui sessions
    enable` opts in. Exits with 1 when there is no conversation.
    """
    ctx = click.get_current_context()
    ctx.obj = invocation
    if ctx.invoked_subcommand is not None:
        return None
    if full or jsonl:
        raise click.UsageError("--full and --jsonl need PATH_OR_ID", ctx)
    return _show_coverage(invocation, source) if coverage else _list(invocation, source, limit)


def _list(invocation: Invocation, source: str | None, limit: int) -> int:
    """Print the newest conversations; those that nobody has counted are read for it."""
    output = invocation.output()
    with open_reading(invocation) as session:
        place = invocation.path(source or "")
        listings = [
            listing
            for listing in session.engine.conversations.listings()
            if source is None or _is_of(listing, source, place)
        ]
        shown = _counted(session.engine, listings[: limit or len(listings)], output)
        warnings = session.loaded.warnings
    notes = []
    if not listings:
        of = f" of {source}" if source else ""
        notes = [f"memtui: no conversation{of}: `memtui sessions --coverage` says where it looks"]
    elif len(shown) < len(listings):
        number = words.count(len(listings), "conversation")
        notes = [f"{len(shown)} of {number}; --limit 0: all"]
    return invocation.respond(
        {"conversations": shown, "found": len(listings)},
        spaced(listing_lines(listing, output.width()) for listing in shown),
        warnings=warnings,
        notes=notes,
        exit_code=EXIT_OK if shown else EXIT_NOTHING,
    )


def _is_of(listing: ConversationListing, source: str, place: Path) -> bool:
    """Tell whether a conversation belongs to a source, or lies at a place."""
    program, _, part = source.partition(":")
    if program == listing.kind:
        return not part or any(
            fnmatchcase(one, part) for one in (listing.agent, *PurePath(listing.path).parts[1:2])
        )
    return Path(listing.place).is_relative_to(place)


def _counted(
    engine: Engine, shown: Sequence[ConversationListing], output: Output
) -> list[ConversationListing]:
    by_path = {one.path: one for one in shown}

    def take(listing: ConversationListing) -> None:
        by_path[listing.path] = listing
        output.progress(f"reading {listing.path}")

    engine.conversations.count(shown, take)
    output.progress("")
    return [by_path[one.path] for one in shown]


@sessions.command(SHOW, hidden=True)
@click.argument("name", metavar="PATH_OR_ID")
@turn_options
@on_memory(agent=True, demo=True)
def show(invocation: Invocation, name: str, full: bool, jsonl: bool) -> int:
    """Print one conversation: who says what, tools folded to one line with its size."""
    parent = click.get_current_context().parent
    before = parent.params if parent is not None else {}
    full, jsonl = full or before.get("full", False), jsonl or before.get("jsonl", False)
    refuse_several({"--json": invocation.json, "--jsonl": jsonl})
    output = invocation.output()
    with open_reading(invocation) as session:
        listing = _named(session.engine, name, invocation)
        conversation = session.engine.conversations.read(listing.path)
        turns = conversation.wholes() if full else iter(conversation.turns)
        if jsonl:
            for turn in turns:
                output.record({"turn": turn})
        elif invocation.json:
            malformed = [{"line": line, "why": why} for line, why in conversation.malformed]
            document = {"conversation": conversation.listing, "malformed": malformed}
            output.document({**document, "turns": map(plain, turns)})
        else:
            output.lines(listing_lines(conversation.listing, output.width()))
            output.line()
            for turn in turns:
                output.lines(turn_lines(turn, full=full, width=output.width()))
    return EXIT_OK


def _named(engine: Engine, name: str, invocation: Invocation) -> ConversationListing:
    """The conversation that a path or the beginning of an id means.

    Raises `MemtuiError`, and `SettingsError` when several could be meant.
    """
    listings = engine.conversations.listings()
    place = str(invocation.here() / name)
    alike = [one for one in listings if name == one.path or place == one.place]
    alike = alike or [one for one in listings if name in _ids(one)]
    alike = alike or [
        one
        for one in listings
        if one.path.endswith(f"/{name}") or any(id_.startswith(name) for id_ in _ids(one))
    ]
    if len(alike) == 1:
        return alike[0]
    if not alike:
        raise MemtuiError(
            f"no conversation {name}",
            hint="`memtui sessions --limit 0` lists them",
            code="no_conversation",
        )
    several = ", ".join(one.path for one in alike[:_MOST_NAMED])
    more = f" and {len(alike) - _MOST_NAMED} more" if len(alike) > _MOST_NAMED else ""
    raise SettingsError(f"{name} could be {several}{more}", hint="give the whole path")


def _ids(listing: ConversationListing) -> tuple[str, ...]:
    """What a conversation is called: its session, its file's name without the ending."""
    name = PurePath(listing.path).name
    return tuple(filter(None, (listing.session, name.partition(".jsonl")[0], name)))


def _show_coverage(invocation: Invocation, name: str | None) -> int:
    """Print every source: found, indexed, skipped and why; 1 when nothing was found anywhere."""
    with open_reading(invocation) as session:
        sources = [
            source
            for source in session.engine.conversations.sources()
            if name is None or _is_part(source.name, name)
        ]
        warnings = session.loaded.warnings
        can_opt_in = not session.is_foreign

    def lines_of(source: TranscriptSource) -> Iterator[str]:
        yield from source_lines(source, invocation.output().width())
        if can_opt_in and source.found and not source.is_indexed:
            yield f"    opt in: memtui sessions enable {source.name}"

    unknown = "memtui: no such source: `memtui sessions --coverage` lists them"
    return invocation.respond(
        {"sources": sources},
        spaced(map(lines_of, sources)),
        warnings=warnings,
        notes=[] if sources else [unknown],
        exit_code=EXIT_OK if any(source.found for source in sources) else EXIT_NOTHING,
    )


@sessions.command("enable", short_help="Index the conversations of a source, too.")
@names_argument
@on_memory(refuses_agent=True)
def enable(invocation: Invocation, names: Sequence[str]) -> int:
    """Opt in to the conversations of NAME: openclaw, openclaw:AGENT, claude-code,
    claude-code:PROJECT, codex, or the path of a transcript or a folder of them.

    Says what will be indexed and writes it to your configuration; `memtui index` then takes the
    conversations in. Credentials are masked before anything is kept.
    """
    return _change(invocation, names, is_on=True)


@sessions.command("disable", short_help="Index the conversations of a source no longer.")
@names_argument
@on_memory(refuses_agent=True)
def disable(invocation: Invocation, names: Sequence[str]) -> int:
    """Take NAME out of your configuration; `memtui index` then takes it out of the index."""
    return _change(invocation, names, is_on=False)


def _change(invocation: Invocation, names: Sequence[str], *, is_on: bool) -> int:
    refuse_agent(invocation, rebuild=False)
    files = SettingsFiles(invocation.env, invocation.root_if_any())
    sources, paths = (list(values) for values in opted_in(files))
    chosen = [_as_written(invocation, name, must_exist=is_on) for name in names]
    for name in chosen:
        present = sources if is_source(name) else paths
        if is_on and name not in present:
            present.append(name)
        elif not is_on:
            _remove(present, name)
    plan = plan_transcripts(files, sources, paths)
    future = _future_sources(invocation, sources, paths, chosen) if is_on else []
    if not invocation.json:
        # Said before it is written.
        output = invocation.output()
        for source in future:
            output.note(f"memtui: {source.name}: {source.detail}")
            output.note(f"  in {source.folder or 'no folder yet'}")
    if plan.changes:
        write(plan, files)
    done, path = "enabled" if is_on else "disabled", plan.target.path
    document = {done: chosen, "path": path, "changed": plan.changes}
    already = "" if plan.changes else " already"
    follows = "takes them in" if is_on else "takes them out of the index"
    return invocation.respond(
        {**document, "sources": future} if is_on else document,
        [f"{done} {', '.join(chosen)} in {path}{already}"],
        warnings=plan.notes,
        notes=[f"memtui: `memtui index` {follows}"] if plan.changes else [],
    )


def _as_written(invocation: Invocation, name: str, *, must_exist: bool) -> str:
    """The name of a source as the settings have it.

    Raises `SettingsError` for one that means nothing; one that is taken out may have gone.
    """
    if is_source(name):
        return name
    path = invocation.path(name)
    if not must_exist or os.path.lexists(path) or any(mark in name for mark in "*?["):
        return str(path)
    raise SettingsError(
        f"no such source: {name}",
        hint="openclaw, openclaw:AGENT, claude-code, claude-code:PROJECT, codex, or a path",
    )


def _remove(present: list[str], name: str) -> None:
    """Take a name out; raises `SettingsError` when another one opts it in."""
    program, _, part = name.partition(":")
    if name in present:
        present.remove(name)
    elif part and program in present:
        raise SettingsError(
            f"{name} is opted in by {program}",
            hint=f"`memtui sessions disable {program}`, then enable what is to stay",
        )


def _future_sources(
    invocation: Invocation, sources: Sequence[str], paths: Sequence[str], names: Sequence[str]
) -> list[TranscriptSource]:
    """The sources of those names as they will be; none without a memory folder."""
    from memtui.engine.conversations.service import transcript_sources
    from memtui.engine.conversations.stores import hosts_in, text_goes
    from memtui.index.transcripts.discovery import locate

    root = invocation.root_if_any()
    if root is None:
        return []
    settings = invocation.settings(root).settings
    scope = transcript_scope_of(settings, root, env=invocation.env, home=invocation.home())
    scope = replace(scope, sources=tuple(sources), paths=tuple(paths))
    located = locate(scope, everything=True)
    future = transcript_sources(scope, located, {}, text_goes(hosts_in(settings)))
    return [source for source in future if any(_is_part(source.name, name) for name in names)]


def _is_part(source: str, name: str) -> bool:
    """Tell whether a source is the one of that name, a part of it, or what it is a part of."""
    return source == name or name == source.partition(":")[0] or source == name.partition(":")[0]


@click.command(short_help="Ask again what the agent asked its memory, and compare.", epilog=EPILOG)
@click.argument("name", required=False, metavar="[PATH_OR_ID]")
@click.option("--changed", is_flag=True, help="Only searches that give something else now.")
@click.option(
    *("--limit", "most"),
    type=click.IntRange(1),
    help="So many searches, the newest. [default: all]",
)
@click.option(
    *("--k", "ranking__k"),
    type=click.IntRange(1, 200),
    help="So many results, whatever was asked for.",
)
@parameter_options
@click.option("--jsonl", is_flag=True, help="One JSON document for each search.")
@on_memory(vectors=True, agent=True, demo=True)
def replay(
    invocation: Invocation,
    name: str | None,
    changed: bool,
    most: int | None,
    jsonl: bool,
) -> int:
    """Ask every search of the memory again that a conversation records, and compare.

    What came back then is beside what comes back now: = the same rank, ~ moved, + new, - gone and
    why. With PATH_OR_ID the searches of one conversation. Exits with 1 when there is nothing to
    show.
    """
    from memtui.engine.conversations.replay import without_limit

    refuse_several({"--json": invocation.json, "--jsonl": jsonl})
    output = invocation.output()
    counts: Counter[str] = Counter()
    with open_reading(invocation) as session:
        status = session.status()
        if status.state is IndexState.NO_INDEX:
            raise session.no_index()
        ranking = session.ranking()
        calls = _calls(session, name, invocation, output)
        warnings = [*filter(None, [stale_warning(status)]), *session.warnings(ranking)]

        def replayed() -> Iterator[tuple[str, Replayed]]:
            as_asked = "ranking.k" not in (invocation.flags or {})
            for call in calls[:most]:
                asked = call if as_asked else without_limit(call)
                answer = session.engine.conversations.replay(asked, ranking=ranking)
                answer = replace(answer, call=call)
                verdict = _verdict(answer)
                counts[verdict] += 1
                if not changed or verdict == "changed":
                    yield verdict, answer

        if invocation.json:
            replays = [_replay_entry(*one) for one in replayed()]
            tally = {"found": len(calls), "asked": counts.total()}
            tally |= {verdict: counts[verdict] for verdict in _VERDICTS}
            document = {"replays": replays, "counts": tally, "ranking": ranking}
            output.document({**document, "warnings": warnings})
            return EXIT_OK if replays else EXIT_NOTHING
        output.warn(warnings)
        printed = 0
        for verdict, answer in replayed():
            if jsonl:
                output.record(_replay_entry(verdict, answer))
            else:
                if printed:
                    output.line()
                output.lines(replay_lines(answer, output.width()))
            printed += 1
    if not calls and not jsonl:
        output.note("memtui: no search of the memory is recorded in these conversations")
    elif not jsonl:
        parts = [f"{counts[verdict]} {said}" for verdict, said in _VERDICTS.items()]
        told = ", ".join(part for part in parts if not part.startswith("0 "))
        output.note(f"{searches(counts.total())} of {len(calls)}: {told}")
    return EXIT_OK if printed else EXIT_NOTHING


def _verdict(replayed: Replayed) -> str:
    """`same`, `changed`, `unrecorded` (what came back then is not known) or `failed`."""
    if replayed.problem:
        return "failed"
    if replayed.call.returned is None:
        return "unrecorded"
    return "same" if replayed.is_same else "changed"


def _calls(
    session: Session, name: str | None, invocation: Invocation, output: Output
) -> Sequence[MemoryCall]:
    paths = None if name is None else [_named(session.engine, name, invocation).path]
    number = 0

    def count(calls: Sequence[MemoryCall]) -> None:
        nonlocal number
        number += len(calls)
        output.progress(f"reading conversations: {searches(number)} so far")

    calls = session.engine.conversations.memory_calls(paths, found=count)
    output.progress("")
    return calls


def _replay_entry(verdict: str, replayed: Replayed) -> dict[str, Any]:
    return {"verdict": verdict, **plain(replayed)}

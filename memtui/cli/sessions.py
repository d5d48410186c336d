"""`memtui sessions` and `memtui replay`: the conversations behind the memory."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import chain, filterfalse, product
from pathlib import PurePath
from typing import Any

import click
from msgspec.structs import replace

from memtui.cli.common_options import Invocation, Subgroup, command, refuse_several
from memtui.cli.output import EXIT_NOTHING, EXIT_OK, spaced
from memtui.cli.session import open_reading, refuse_agent, stale_warning
from memtui.engine import Engine
from memtui.errors import MemtuiError, SettingsError
from memtui.model import IndexState, Reason
from memtui.model.conversations import (
    ConversationListing,
    MemoryCall,
    TranscriptSource,
    covers,
    is_source,
)
from memtui.report import conversations as report
from memtui.report import words
from memtui.report.json_text import plain
from memtui.settings.containment import absolute_setting, is_inside
from memtui.settings.load import SettingsFiles
from memtui.settings.write import opted_in, plan_transcripts, write
from memtui.text.redact import redact_path
from memtui.text.sanitize import listed

_MOST_NAMED = 5


@command("sessions", cls=Subgroup)
def sessions(
    invocation: Invocation, source: str | None, limit: int, coverage: bool, full: bool, jsonl: bool
) -> int | None:
    """List the conversations behind the memory, newest first, or print one of them."""
    ctx = click.get_current_context()
    if ctx.invoked_subcommand is not None:
        return None
    if full or jsonl:
        raise click.UsageError("--full and --jsonl need PATH_OR_ID", ctx)
    if coverage:
        return _show_coverage(invocation, source)
    output = invocation.output()
    place = invocation.path(source or "")
    program, _, part = (source or "").partition(":")

    def is_of(listing: ConversationListing) -> bool:
        """Tell whether a conversation belongs to the source, or lies at the place."""
        if program != listing.kind:
            return is_inside(listing.place, str(place))
        names = (listing.agent, *PurePath(listing.path).parts[1:2])
        return not part or any(fnmatchcase(name, part) for name in names)

    with open_reading(invocation) as session:
        conversations = session.engine.conversations
        listings = [one for one in conversations.listings() if source is None or is_of(one)]
        by_path = {one.path: one for one in listings[: limit or None]}

        def take(listing: ConversationListing) -> None:
            by_path[listing.path] = listing
            output.progress(f"reading {listing.path}")

        conversations.count(tuple(by_path.values()), take)
        output.progress("")
    shown = list(by_path.values())
    notes = []
    if not listings:
        of = f" of {source}" if source else ""
        notes = [f"memtui: no conversation{of}: `memtui sessions --coverage` says where it looks"]
    elif len(shown) < len(listings):
        number = words.count(len(listings), "conversation")
        notes = [f"{len(shown)} of {number}; --limit 0: all"]
    is_off = any(one.state is Reason.DISABLED for one in shown)
    if is_off and not (session.is_foreign or invocation.demo):
        notes.append(words.WORDS["opted"]["off"])
    return invocation.respond(
        {"conversations": list(map(_as_shown, shown)), "found": len(listings)},
        spaced(report.listing_lines(listing, output.width) for listing in shown),
        warnings=session.loaded.warnings,
        notes=notes,
        exit_code=EXIT_OK if shown else EXIT_NOTHING,
    )


@command("sessions show", of=sessions)
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
                output.document({"turn": turn}, indent=None)
        elif invocation.json:
            malformed = [{"line": line, "why": why} for line, why in conversation.malformed]
            document = {"conversation": _as_shown(conversation.listing), "malformed": malformed}
            output.document({**document, "turns": map(plain, turns)})
        else:
            output.lines([*report.listing_lines(conversation.listing, output.width), ""])
            for turn in turns:
                output.lines(report.turn_lines(turn, full=full, width=output.width))
    return EXIT_OK


def _as_shown(listing: ConversationListing) -> ConversationListing:
    return replace(listing, place=redact_path(listing.place))


def _named(engine: Engine, name: str, invocation: Invocation) -> ConversationListing:
    """Find the conversation that a path or the beginning of an id means.

    It is called by its session, and by its file's name with and without the ending.

    Raises `MemtuiError`, and `SettingsError` when several could be meant.
    """
    listings = engine.conversations.listings()
    place = str(invocation.here / name)
    ids: dict[str, tuple[str, ...]] = {}
    for one in listings:
        file = PurePath(one.path).name
        ids[one.path] = tuple(filter(None, (one.session, file.partition(".jsonl")[0], file)))
    same = [one for one in listings if name == one.path or place == one.place]
    called = [one for one in listings if name in ids[one.path]]
    begun = {path for path, names in ids.items() if any(id_.startswith(name) for id_ in names)}
    ending = [one for one in listings if one.path.endswith(f"/{name}") or one.path in begun]
    alike = same or called or ending
    if len(alike) == 1:
        return alike[0]
    if not alike:
        hint = "`memtui sessions --limit 0` lists them"
        raise MemtuiError(f"no conversation {name}", hint=hint, code="no_conversation")
    several = listed([one.path for one in alike], _MOST_NAMED)
    raise SettingsError(f"{name} could be {several}", hint="give the whole path")


def _show_coverage(invocation: Invocation, name: str | None) -> int:
    with open_reading(invocation) as session:
        known = session.engine.conversations.sources()
    sources = [source for source in known if name is None or covers(name, source.name)]

    def lines_of(source: TranscriptSource) -> Iterator[str]:
        yield from report.source_lines(source, invocation.output().width)
        if source.found and not (source.is_indexed or session.is_foreign or invocation.demo):
            command = f"`memtui sessions enable {shlex.quote(source.name)}`"
            yield f"    opt in: {invocation.completed(command)}"

    return invocation.respond(
        {"sources": sources},
        spaced(map(lines_of, sources)),
        warnings=session.loaded.warnings,
        notes=[] if sources else [words.WORDS["opted"]["unknown" if name else "none"]],
        exit_code=EXIT_OK if any(source.found for source in sources) else EXIT_NOTHING,
    )


@command("sessions enable", of=sessions)
def enable(invocation: Invocation, names: Sequence[str]) -> int:
    """Opt in to the conversations of NAME: openclaw, openclaw:AGENT, claude-code,
    claude-code:PROJECT, codex, or the path of a transcript or a folder of them.
    """
    return _change(invocation, names, is_on=True)


@command("sessions disable", of=sessions)
def disable(invocation: Invocation, names: Sequence[str]) -> int:
    """Take NAME out of your configuration; it is then taken out of the index."""
    return _change(invocation, names, is_on=False)


def _opts_in(name: str, other: str) -> bool:
    """Tell whether a name of the settings opts in all that another one does."""
    if is_source(name):
        return name == other or (covers(name, other) and (":" in other or ":" not in name))
    return not is_source(other) and (is_inside(other, name) or fnmatchcase(other, name))


def _change(invocation: Invocation, names: Sequence[str], *, is_on: bool) -> int:
    refuse_agent(invocation, rebuild=False)
    root = invocation.root_if_any()
    files, base = SettingsFiles(invocation.env, root), str(root or invocation.here)
    sources, paths = opted_in(files)
    opted = {one: one for one in sources} | {absolute_setting(one, base): one for one in paths}
    chosen = [name if is_source(name) else str(invocation.path(name)) for name in names]
    matches = {name: [one for one in opted if _opts_in(name, one)] for name in chosen}
    changed = chosen if is_on else list(dict.fromkeys(chain(*matches.values())))
    selection = [*opted, *chosen] if is_on else [one for one in opted if one not in changed]
    for name, wider in product(chosen, () if is_on else selection):
        if _opts_in(wider, name):
            hint = words.WORDS["opted"]["wider"].format(shlex.quote(wider))
            raise SettingsError(f"{name} is opted in by {wider}", hint=hint)
    for argument, name in zip(names, chosen, strict=True):
        is_known = is_source(name) or any(mark in argument for mark in "*?[")
        # One that is taken out may have gone.
        if not (is_known or os.path.lexists(name) or (matches[name] and not is_on)):
            raise SettingsError(f"no such source: {argument}", hint=words.WORDS["opted"]["names"])
    sources = tuple(filter(is_source, selection))
    paths = tuple(opted.get(one, one) for one in filterfalse(is_source, selection))
    plan = plan_transcripts(files, sources, paths)
    future: list[TranscriptSource] = []
    if is_on and root is not None:
        from memtui.engine.conversations import hosts_in, text_goes, transcript_sources
        from memtui.index.transcripts.discovery import locate, transcript_scope_of

        settings = invocation.settings(root).settings
        scope = transcript_scope_of(settings, root, env=invocation.env, home=invocation.home)
        scope = replace(scope, sources=sources, paths=paths)
        located, destinations = locate(scope, everything=True), text_goes(hosts_in(settings))
        # As they will be.
        all_sources = transcript_sources(scope, located, {}, destinations)
        future = [one for one in all_sources if any(covers(name, one.name) for name in chosen)]
        nowhere = [name for name in chosen if not any(covers(name, one.name) for one in future)]
        future += [TranscriptSource(one, None, "", True, detail="nothing found") for one in nowhere]
    if plan.changes and not invocation.json:
        # Said before it is written.
        output = invocation.output()
        for source in future:
            output.note(f"memtui: {source.name}: {source.detail}")
            if source.folder:
                output.note(f"  in {source.folder}")
    if plan.changes:
        write(plan, files)
    done, path = "enabled" if is_on else "disabled", plan.file.path
    document = {done: changed, "path": path, "changed": plan.changes}
    already = "" if plan.changes else " already"
    summary = f"{done} {', '.join(changed)} for every memory folder, in {path}{already}"
    absent = [f"{name} was not enabled" for name in chosen if not (is_on or matches[name])]
    follows = words.WORDS["opted"][done]
    if future and not any(source.found for source in future):
        follows = words.WORDS["opted"]["later"]
    return invocation.respond(
        {**document, "sources": future} if is_on else document,
        [summary, *absent] if changed else absent,
        warnings=plan.notes,
        notes=[f"memtui: `memtui index` or an open memtui {follows}"] if plan.changes else [],
    )


@command("replay")
def replay(
    invocation: Invocation, name: str | None, changed: bool, most: int | None, jsonl: bool
) -> int:
    """Ask every search of the memory again that a conversation records, and compare."""
    refuse_several({"--json": invocation.json, "--jsonl": jsonl})
    output = invocation.output()
    counts: Counter[str] = Counter()
    with open_reading(invocation) as session:
        status = session.current_status()
        if status.state is IndexState.NO_INDEX:
            raise session.no_index()
        paths = None if name is None else [_named(session.engine, name, invocation).path]
        number = 0

        def count_calls(calls: Sequence[MemoryCall]) -> None:
            nonlocal number
            number += len(calls)
            count = words.count(number, "search", "searches")
            output.progress(f"reading conversations: {count} so far")

        calls = session.engine.conversations.memory_calls(paths, receive=count_calls)
        sources = calls or session.engine.conversations.sources()
        output.progress("")
        stale = [stale_warning(status)] if status.pending_count else []
        warnings = [*stale, *session.warnings()]
        if not invocation.json:
            output.warn(warnings)
        is_compared = any(call.returned is not None for call in calls)
        if is_compared and not (invocation.json or jsonl):
            scale = report.scale_words(status.foreign, session.ranking)
            for note in filter(None, (scale, report.SIGNS)):
                output.note(note)
        shown, replays = 0, list[dict[str, Any]]()
        for call in calls[:most]:
            answer = session.engine.conversations.replay(
                call, ranking=session.ranking, as_many="ranking.k" not in invocation.flags
            )
            verdict = answer.verdict
            counts[verdict] += 1
            notes = [words.leg_note(*failed, brief=False) for failed in answer.failed.items()]
            warnings += (missing := [note for note in notes if note not in warnings])
            output.warn(() if invocation.json else missing)
            if changed and verdict != "changed":
                continue
            shown += 1
            if invocation.json:
                replays.append({"verdict": verdict, **plain(answer)})
            elif jsonl:
                output.document({"verdict": verdict, **plain(answer)}, indent=None)
            else:
                output.lines([""] if shown > 1 else [])
                output.lines(report.replay_lines(answer, output.width))
    if invocation.json:
        tally = {"found": len(calls), "asked": counts.total()}
        tally |= {verdict: counts[verdict] for verdict in words.VERDICT_WORDS}
        document = {"replays": replays, "counts": tally, "ranking": session.ranking}
        output.document({**document, "warnings": warnings})
    elif not calls and not jsonl:
        output.note(words.WORDS["opted"]["unasked" if sources else "none"])
    elif not jsonl:
        verdicts = ((counts[verdict], label) for verdict, label in words.VERDICT_WORDS.items())
        ended = ", ".join(f"{number} {label}" for number, label in verdicts if number)
        searches = words.count(counts.total(), "search", "searches")
        output.note(f"{searches} of {len(calls)}: {ended}")
    return EXIT_OK if shown else EXIT_NOTHING

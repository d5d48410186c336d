"""`memtui sessions --coverage`, `enable` and `disable`: which conversations are indexed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from memtui.cli.foreign import refuse_foreign
from memtui.cli.invocation import Invocation
from memtui.cli.output import Output
from memtui.cli.session import open_reading
from memtui.errors import SettingsError
from memtui.model.conversations import TranscriptSource
from memtui.report.conversations import source_lines

if TYPE_CHECKING:
    from memtui.settings.write import Plan

EXIT_OK, EXIT_NOTHING = 0, 1
_HOW = "memtui sessions enable {name}"


def show_coverage(invocation: Invocation, name: str | None) -> int:
    """Print every source: found, indexed, skipped and why; 1 when nothing was found anywhere."""
    output = invocation.output()
    with open_reading(invocation) as session:
        found = session.engine.conversations.sources()
        sources = [one for one in found if name is None or _is_part(one.name, name)]
        warnings = session.loaded.warnings
        is_foreign = session.is_foreign
    if invocation.json:
        output.document({"sources": sources, "warnings": warnings})
    else:
        for warning in warnings:
            output.note(f"memtui: {warning}")
        _print(output, sources, can_opt_in=not is_foreign)
    return EXIT_OK if any(source.found for source in sources) else EXIT_NOTHING


def _print(output: Output, sources: Sequence[TranscriptSource], *, can_opt_in: bool) -> None:
    for number, source in enumerate(sources):
        if number:
            output.line()
        for line in source_lines(source, output.width()):
            output.line(output.clean(line))
        if can_opt_in and source.found and not source.is_indexed:
            output.line(output.clean(f"    opt in: {_HOW.format(name=source.name)}"))
    if not sources:
        output.note("memtui: no such source: `memtui sessions --coverage` lists them")


def enable_sources(invocation: Invocation, names: Sequence[str]) -> int:
    """Say what will be indexed, and write it to the user's settings."""
    refuse_foreign(invocation, rebuild=False)
    return _change(invocation, names, is_on=True)


def disable_sources(invocation: Invocation, names: Sequence[str]) -> int:
    """Take sources out of the user's settings."""
    refuse_foreign(invocation, rebuild=False)
    return _change(invocation, names, is_on=False)


def _change(invocation: Invocation, names: Sequence[str], *, is_on: bool) -> int:
    from memtui.index.transcripts.scope import is_source
    from memtui.settings.write import SettingsFiles, opted_in, plan_transcripts, write

    found = invocation.workspace_if_any()
    files = SettingsFiles(invocation.env, found.root if found is not None else None)
    sources, paths = (list(values) for values in opted_in(files))
    wanted = [_checked(invocation, name) if is_on else _known(name, invocation) for name in names]
    for name in wanted:
        there = sources if is_source(name) else paths
        if is_on and name not in there:
            there.append(name)
        elif not is_on:
            _remove(there, name)
    plan = plan_transcripts(files, sources, paths)
    output = invocation.output()
    told = _told(invocation, sources, paths, wanted) if is_on else []
    if not invocation.json:
        for line in (line for source in told for line in _will_index(source)):
            output.note(line)
    if plan.changes:
        write(plan, files)
    _say(invocation, output, wanted, plan, told, is_on=is_on)
    return EXIT_OK


def _say(
    invocation: Invocation,
    output: Output,
    names: Sequence[str],
    plan: Plan,
    told: Sequence[TranscriptSource],
    *,
    is_on: bool,
) -> None:
    done = "enabled" if is_on else "disabled"
    path = plan.target.path
    if invocation.json:
        document = {done: names, "path": path, "changed": plan.changes, "warnings": plan.notes}
        output.document({**document, "sources": told} if is_on else document)
        return
    for note in plan.notes:
        output.note(f"memtui: {note}")
    already = "" if plan.changes else " already"
    output.line(output.clean(f"{done} {', '.join(names)} in {path}{already}"))
    if plan.changes:
        follows = "takes them in" if is_on else "takes them out of the index"
        output.note(f"memtui: `memtui index` {follows}")


def _checked(invocation: Invocation, name: str) -> str:
    """The name of a source as it is written; raises `SettingsError` for one that means nothing."""
    from memtui.index.transcripts.scope import is_source

    if is_source(name):
        return name
    path = invocation.here() / os.path.expanduser(name)
    if os.path.lexists(path) or any(mark in name for mark in "*?["):
        return str(path)
    raise SettingsError(
        f"no such source: {name}",
        hint="openclaw, openclaw:AGENT, claude-code, claude-code:PROJECT, codex, or a path",
    )


def _known(name: str, invocation: Invocation) -> str:
    """The name of a source that may be taken out, although it is not there any more."""
    from memtui.index.transcripts.scope import is_source

    return name if is_source(name) else str(invocation.here() / os.path.expanduser(name))


def _remove(there: list[str], name: str) -> None:
    """Take a name out; raises `SettingsError` when another one opts it in."""
    program, _, part = name.partition(":")
    if name in there:
        there.remove(name)
    elif part and program in there:
        raise SettingsError(
            f"{name} is opted in by {program}",
            hint=f"`memtui sessions disable {program}`, then enable what is to stay",
        )


def _told(
    invocation: Invocation, sources: Sequence[str], paths: Sequence[str], names: Sequence[str]
) -> list[TranscriptSource]:
    """The sources as they will be; none without a memory folder."""
    found = invocation.workspace_if_any()
    if found is None:
        return []
    from memtui.engine.conversations.service import transcript_sources
    from memtui.engine.conversations.stores import hosts_in, text_goes
    from memtui.index.transcripts.discovery import locate
    from memtui.index.transcripts.scope import transcript_scope_of

    settings = invocation.settings(found.root).settings
    scope = transcript_scope_of(
        settings,
        found.root,
        env=invocation.env,
        home=invocation.home(),
    )
    scope = replace(scope, sources=tuple(sources), paths=tuple(paths))
    located = locate(scope, everything=True)
    sources_then = transcript_sources(scope, located, {}, text_goes(hosts_in(settings)))
    return [source for source in sources_then if any(_is_part(source.name, name) for name in names)]


def _is_part(source: str, name: str) -> bool:
    """Whether a source is the one of that name, a part of it, or what it is a part of."""
    return source == name or name == source.partition(":")[0] or source == name.partition(":")[0]


def _will_index(source: TranscriptSource) -> tuple[str, ...]:
    return f"memtui: {source.name}: {source.detail}", f"  in {source.folder or 'no folder yet'}"

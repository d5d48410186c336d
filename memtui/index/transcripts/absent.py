"""Opted-in places that are not there: a disk that is not mounted is no deletion."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from memtui.index.transcripts.places import AGENTS, EVENTS_DATABASE, PROJECTS, SESSIONS
from memtui.index.transcripts.scope import TranscriptScope
from memtui.memory.documents import reason_of
from memtui.memory.paths import has_magic, said, written
from memtui.model import SkippedFile
from memtui.model.conversations import TranscriptKind

_KEPT = "what was indexed of it stays"


@dataclass(frozen=True, slots=True)
class AbsentPlace:
    """A folder of an opted-in program that cannot be listed."""

    unread: str
    """The beginning of the stored paths of what would be in it."""
    skipped: SkippedFile


def absent_places(scope: TranscriptScope) -> Iterator[AbsentPlace]:
    """The folders of opted-in programs and agents that are not there, or cannot be listed.

    Of those that are opted out nothing stays, wherever their folder is.
    """
    for source in scope.sources:
        name, _, part = source.partition(":")
        kind = TranscriptKind(name)
        home = scope.homes.of(kind)
        if home is None:
            continue
        match kind:
            case TranscriptKind.OPENCLAW:
                yield from _openclaw(scope, home / AGENTS, source, part)
            case TranscriptKind.CLAUDE_CODE:
                yield from _absent(home / PROJECTS, source, f"{name}/{_literal(part)}")
            case TranscriptKind.CODEX:
                yield from _absent(home / SESSIONS, source, f"{name}/")


def _openclaw(
    scope: TranscriptScope, agents: Path, source: str, part: str
) -> Iterator[AbsentPlace]:
    above = f"{SESSIONS}/"
    if (problem := _problem(agents)) is not None:
        tail = f"{_literal(part)}{'' if not part or has_magic(part) else '/'}"
        yield _place(agents, source, f"{above}{tail if scope.rules.stores_agent else ''}", problem)
        return
    with os.scandir(agents) as entries:
        names = sorted(entry.name for entry in entries if not entry.name.startswith("."))
    for name in names:
        agent, folder = written(name), agents / name / SESSIONS
        wanted = scope.source_of(TranscriptKind.OPENCLAW, agent) == source
        if wanted and os.path.isdir(agents / name) and not (agents / name).is_symlink():
            prefix = f"{above}{agent}/" if scope.rules.stores_agent else above
            if not os.path.isfile(agents / name / EVENTS_DATABASE):
                yield from _absent(folder, f"{TranscriptKind.OPENCLAW}:{agent}", prefix)


def _absent(folder: Path, source: str, unread: str) -> Iterator[AbsentPlace]:
    # One that is there and may not be listed is found so by who looks into it.
    if not os.path.isdir(folder) and (problem := _problem(folder)) is not None:
        yield _place(folder, source, unread, problem)


def _problem(folder: Path) -> OSError | None:
    try:
        with os.scandir(folder):
            return None
    except OSError as error:
        return error


def _place(folder: Path, source: str, unread: str, problem: OSError) -> AbsentPlace:
    detail = f"{written(str(folder))}: {said(problem)}; {_KEPT}"
    return AbsentPlace(unread, SkippedFile(source, reason_of(problem), detail))


def _literal(pattern: str) -> str:
    """What of a pattern comes before its first wildcard."""
    at = next((n for n, letter in enumerate(pattern) if letter in "*?["), len(pattern))
    return pattern[:at]

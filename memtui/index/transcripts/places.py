"""The known places of transcripts: one for each agent, program or path of the settings."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from memtui.index.transcripts.scope import TranscriptScope
from memtui.memory.discover import absolute_extra
from memtui.memory.paths import written
from memtui.model.conversations import TranscriptKind

AGENTS: Final = "agents"
SESSIONS: Final = "sessions"
EVENTS_DATABASE: Final = Path("agent", "openclaw-agent.sqlite")
PROJECTS: Final = "projects"
ARCHIVED: Final = "archived_sessions"


@dataclass(frozen=True, slots=True)
class TranscriptPlace:
    """A folder, file or glob in which transcripts are looked for."""

    name: str
    """What it is opted in by: `openclaw:main`, `claude-code`, `codex`, or a path."""
    kind: TranscriptKind | None
    folder: str
    """Absolute; of a glob the pattern."""
    is_indexed: bool
    agent: str = ""
    database: str = ""
    """Where an agent keeps its newer transcripts; empty when there is no such file."""


def places_of(scope: TranscriptScope) -> tuple[TranscriptPlace, ...]:
    """Every place of transcripts on this machine, opted in or not; folders are listed, no more."""
    return (*_openclaw(scope), *_programs(scope), *_paths(scope))


def _openclaw(scope: TranscriptScope) -> Iterator[TranscriptPlace]:
    kind = TranscriptKind.OPENCLAW
    home = scope.homes.openclaw
    if home is None:
        return
    agents = home / AGENTS
    for name in _folders(agents):
        database = agents / name / EVENTS_DATABASE
        sessions = agents / name / SESSIONS
        there = os.path.isfile(database)
        if there or os.path.isdir(sessions):
            agent = written(name)
            yield TranscriptPlace(
                f"{kind}:{agent}",
                kind,
                os.fspath(sessions),
                scope.source_of(kind, agent) is not None,
                agent,
                os.fspath(database) if there else "",
            )


def _programs(scope: TranscriptScope) -> Iterator[TranscriptPlace]:
    below = {TranscriptKind.CLAUDE_CODE: (PROJECTS,), TranscriptKind.CODEX: (SESSIONS, ARCHIVED)}
    for kind, names in below.items():
        home = scope.homes.of(kind)
        if home is not None and any(os.path.isdir(home / name) for name in names):
            opted = any(source.partition(":")[0] == kind for source in scope.sources)
            yield TranscriptPlace(kind.value, kind, os.fspath(home), opted)


def _paths(scope: TranscriptScope) -> Iterator[TranscriptPlace]:
    root = os.path.abspath(scope.root)
    for path in scope.paths:
        yield TranscriptPlace(written(path), None, absolute_extra(path, root), True)


def _folders(parent: Path) -> list[str]:
    try:
        with os.scandir(parent) as entries:
            return sorted(e.name for e in entries if e.is_dir() and not e.name.startswith("."))
    except OSError:
        # Without such a folder there are no agents; one that may not be listed has none to show.
        return []

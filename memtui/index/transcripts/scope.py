"""Which transcripts are indexed, and where the programs that write them keep them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from memtui.memory.discover import absolute_extra
from memtui.memory.paths import written
from memtui.memory.transcripts.openclaw_files import RULES, TranscriptRules
from memtui.memory.transcripts.stream import MAX_LINE_BYTES
from memtui.memory.workspace import demo_root
from memtui.model.conversations import TranscriptKind
from memtui.settings.openclaw.read import expanded, state_dir_of
from memtui.settings.schema import Redaction, Settings

NEWEST_RULES: Final = "openclaw-2026.9"


@dataclass(frozen=True, slots=True)
class TranscriptHomes:
    """The folders in which the programs keep their transcripts; they need not exist."""

    openclaw: Path | None = None
    """OpenClaw's state folder, with `agents/*/sessions` in it; `None`: not looked at."""
    claude_code: Path | None = None
    """Claude Code's configuration folder, with `projects/*` in it."""
    codex: Path | None = None
    """Codex's home folder, with `sessions` and `archived_sessions` in it."""

    def of(self, kind: TranscriptKind) -> Path | None:
        """Return the folder of one program."""
        homes = (self.openclaw, self.claude_code, self.codex)
        return dict(zip(TranscriptKind, homes, strict=True))[kind]


def homes_of(env: Mapping[str, str], home: Path) -> TranscriptHomes:
    """Find the programs' folders as they do: by their environment variables, else below `home`."""
    claude_code, codex = (
        expanded(env.get(variable, "").strip() or f"~/{default}", home)
        for variable, default in (("CLAUDE_CONFIG_DIR", ".claude"), ("CODEX_HOME", ".codex"))
    )
    return TranscriptHomes(state_dir_of(env, home), claude_code, codex)


def demo_homes() -> TranscriptHomes:
    """Return the folders of the sample memory's conversations: none of this machine."""
    folder = demo_root().with_name("demo_sessions")
    return TranscriptHomes(folder / "openclaw", folder / "claude", folder / "codex")


@dataclass(frozen=True, slots=True)
class TranscriptScope:
    """Which transcripts are opted in, and by which rules they are read."""

    root: Path
    """The memory folder: what `paths` are relative to."""
    homes: TranscriptHomes = TranscriptHomes()
    sources: tuple[str, ...] = ()
    """`openclaw`, `openclaw:AGENT`, `claude-code`, `claude-code:GLOB` and `codex`."""
    paths: tuple[str, ...] = ()
    """Files, folders and globs."""
    rules: TranscriptRules = RULES[NEWEST_RULES]
    max_line_bytes: int = MAX_LINE_BYTES

    @property
    def is_empty(self) -> bool:
        """Whether nothing is opted in."""
        return not (self.sources or self.paths)

    @property
    def recipe(self) -> str:
        """What decides, besides the files, what is read of them."""
        redaction = "" if self.rules.masks_more else f":{Redaction.OPENCLAW}"
        return f"{self.rules.profile}:{self.max_line_bytes}{redaction}"

    def source_of(self, kind: TranscriptKind, part: str = "") -> str | None:
        """Return the opted-in source that an agent or project belongs to, if any."""
        for source in self.sources:
            name, _, pattern = source.partition(":")
            if name == kind and (not pattern or fnmatchcase(part, pattern)):
                return source
        return None

    def with_sources(self, names: tuple[str, ...]) -> TranscriptScope:
        """Return the same with other sources: programs by name, everything else as a path."""
        sources = tuple(dict.fromkeys(name for name in names if is_source(name)))
        paths = tuple(dict.fromkeys(name for name in names if not is_source(name)))
        return replace(self, sources=sources, paths=paths)


def is_source(name: str) -> bool:
    """Return whether a name is that of a program, perhaps of a part of one, and no path."""
    program, separator, _ = name.partition(":")
    return program in set(TranscriptKind) and (not separator or program != TranscriptKind.CODEX)


def transcript_scope_of(
    settings: Settings,
    root: Path,
    *,
    homes: TranscriptHomes | None = None,
    env: Mapping[str, str] | None = None,
    home: Path | None = None,
) -> TranscriptScope:
    """Return the scope of the settings; `homes` stands in for what `env` and `home` say."""
    chosen = settings.transcripts
    if homes is None:
        # Where there is no home folder, `~` stays and names nothing.
        user = home or Path(os.path.expanduser("~"))
        homes = homes_of(os.environ if env is None else env, user)
    return TranscriptScope(
        root,
        homes,
        chosen.sources,
        tuple(path for path in chosen.paths if path.strip()),
        rules_of(settings),
        chosen.max_line_bytes,
    )


def rules_of(settings: Settings) -> TranscriptRules:
    """Return the rules of the release that the configured profile stands for; else the newest ones.

    Credentials are masked by `transcripts.redaction`.
    """
    name = settings.ranking.profile
    own = settings.profiles.get(name)
    rules = RULES.get(own.profile if own is not None else name)
    chosen = settings.transcripts.redaction
    is_exact = chosen is Redaction.OPENCLAW or (chosen is Redaction.AUTO and rules is not None)
    return replace(rules or RULES[NEWEST_RULES], masks_more=not is_exact)


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


def places_of(scope: TranscriptScope) -> Iterator[TranscriptPlace]:
    """Iterate over the places of transcripts, opted in or not; folders are listed, no more."""
    if scope.homes.openclaw is not None:
        yield from _agents(scope, scope.homes.openclaw / AGENTS)
    below = {TranscriptKind.CLAUDE_CODE: (PROJECTS,), TranscriptKind.CODEX: (SESSIONS, ARCHIVED)}
    for kind, names in below.items():
        home = scope.homes.of(kind)
        if home is not None and any(os.path.isdir(home / name) for name in names):
            opted = any(source.partition(":")[0] == kind for source in scope.sources)
            yield TranscriptPlace(kind.value, kind, os.fspath(home), opted)
    root = os.path.abspath(scope.root)
    for path in scope.paths:
        yield TranscriptPlace(written(path), None, absolute_extra(path, root), True)


def _agents(scope: TranscriptScope, agents: Path) -> Iterator[TranscriptPlace]:
    kind = TranscriptKind.OPENCLAW
    for agent, folder in agent_folders(agents):
        sessions, is_indexed = folder / SESSIONS, scope.source_of(kind, agent) is not None
        database = os.fspath(folder / EVENTS_DATABASE) if has_events(folder) else ""
        if database or sessions.is_dir():
            name = f"{kind}:{agent}"
            yield TranscriptPlace(name, kind, os.fspath(sessions), is_indexed, agent, database)


def agent_folders(agents: Path) -> list[tuple[str, Path]]:
    """List the agents in OpenClaw's folder of them by name, each with its folder."""
    try:
        with os.scandir(agents) as entries:
            names = sorted(e.name for e in entries if e.is_dir() and not e.name.startswith("."))
    except OSError:
        # Without such a folder there are no agents; one that may not be listed has none to show.
        return []
    return [(written(name), agents / name) for name in names]


def has_events(folder: Path) -> bool:
    """Return whether an agent has a database of its own, where it keeps its newer transcripts."""
    return os.path.isfile(folder / EVENTS_DATABASE)

"""The places of OpenClaw's indexes: the agents of this machine, and the files beside an index."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from memtui.errors import IndexMissing, IndexUnusable, MemtuiError
from memtui.index.database import number
from memtui.index.foreign import rows
from memtui.index.foreign.opening import NotRecognised, Opened, read_once
from memtui.index.transcripts.discovery import EVENTS_DATABASE
from memtui.memory.documents import utc_time
from memtui.model.status import ForeignAgent
from memtui.retrieval.openclaw.tables import SQL
from memtui.settings.openclaw import read as openclaw
from memtui.settings.openclaw.schema import DEFAULT_AGENT, AgentConfig, OpenClawConfig
from memtui.text.sanitize import safe_line

_SUFFIX: Final = ".sqlite"
_REINDEX_PREFIX: Final = "memory-reindex-"
_LOCK: Final = ".reindex-lock.sqlite"
_NEWEST_ROWS: Final = 64
_LATEST_MS: Final = 253_402_300_799_000
_SHOWN_AGENTS: Final = 8


def state_dirs(env: Mapping[str, str], home: Path) -> tuple[Path, ...]:
    """List the state folders that exist, the one that the program would use first.

    `$OPENCLAW_STATE_DIR`, then `.openclaw`, the folders of its profiles (`.openclaw-<profile>`)
    and the older names in the home folder (`$OPENCLAW_HOME` before `home`).
    """
    home = openclaw.home_of(env, home)
    named = filter(None, (openclaw.variable(env, name) for name in openclaw.STATE_VARIABLES))
    folders = [openclaw.expanded(value, home) for value in named]
    newest, *older = openclaw.STATE_FOLDERS
    profile = env.get("OPENCLAW_PROFILE", "").strip()
    if profile and profile.lower() != "default":
        folders.append(home / f"{newest}-{profile}")
    profiles = [name for name in _names(home)[0] if name.startswith(f"{newest}-")]
    folders += [home / name for name in (newest, *sorted(profiles), *older)]
    there: dict[str, Path] = {}
    for folder in filter(os.path.isdir, folders):
        there.setdefault(os.path.realpath(folder), folder)
    return tuple(there.values())


def agents_here(env: Mapping[str, str], home: Path) -> tuple[ForeignAgent, ...]:
    """Describe every agent of every state folder, by name; each index is opened once or twice.

    What cannot be read has its `problem` and does not keep the others from the list. `name` is
    the raw file name: sanitise it before it is shown.
    """
    agents: list[ForeignAgent] = []
    for state_dir in state_dirs(env, home):
        names, problems = _agent_names(state_dir)
        config = openclaw.read_config(env, home, state_dir=state_dir)
        agents += [_describe(state_dir, config.agent(name)) for name in sorted(names)]
        agents += [ForeignAgent("?", state_dir, problem=problem) for problem in problems]
    return tuple(agents)


def _agent_names(state_dir: Path) -> tuple[set[str], list[str]]:
    sidecars, sidecar_problem = _names(state_dir / "memory")
    folders, folder_problem = _names(state_dir / "agents")
    names = {
        name.removesuffix(_SUFFIX)
        for name in sidecars
        if name.endswith(_SUFFIX)
        and not name.startswith((_REINDEX_PREFIX, "."))
        and not name.endswith(_LOCK)
    }
    names |= {
        name
        for name in folders
        if not name.startswith(".") and os.path.isdir(state_dir / "agents" / name)
    }
    return names, [problem for problem in (sidecar_problem, folder_problem) if problem]


def _names(folder: Path) -> tuple[list[str], str]:
    """Return the names in a folder, and why it cannot be listed."""
    try:
        return os.listdir(folder), ""
    except (FileNotFoundError, NotADirectoryError):
        return [], ""
    except OSError as error:
        return [], f"{safe_line(str(folder))} cannot be read: {error.strerror}"


def _describe(state_dir: Path, config: AgentConfig) -> ForeignAgent:
    agent = ForeignAgent(config.name, state_dir, workspace=_workspace_of(state_dir, config))

    def with_contents(opened: Opened) -> ForeignAgent:
        stored, layout = rows.identity(opened), opened.layout
        newest = opened.select(SQL["newest"].format(chunks=layout.chunks), _NEWEST_ROWS)
        model, dims = None, None
        if newest:
            model = newest[0][0] if isinstance(newest[0][0], str) else None
            with suppress(ValueError):
                dims = rows.parse_vector(newest[0][1]).size or None
        latest = max((time for _, _, time in newest if isinstance(time, int)), default=0)
        changed_ns = max(opened.fingerprint.database.mtime_ns, opened.fingerprint.log.mtime_ns)
        return replace(
            agent,
            generation=layout.generation,
            provider=stored.provider,
            model=stored.model or model,
            dimensions=stored.vector_dims or layout.vec_dims or dims,
            files=sum(rows.counts(opened, layout.files).values()),
            chunks=sum(rows.counts(opened, layout.chunks).values()),
            changed=utc_time((latest if 0 < latest <= _LATEST_MS else changed_ns / 1e6) / 1000),
            problem=stored.problems[0] if stored.problems else "",
        )

    try:
        database = databases_of(state_dir, config).read
        if database is None:
            return replace(agent, problem="has no memory index yet")
        agent = replace(agent, database=database)
        return read_once(database, with_contents)
    except MemtuiError as error:
        return replace(agent, problem=error.message)


def _workspace_of(state_dir: Path, agent: AgentConfig) -> Path | None:
    """Find the workspace of an agent; `None`: none is configured, and no folder has its name."""
    name = "workspace" if agent.name == DEFAULT_AGENT else f"workspace-{agent.name}"
    usual = state_dir / name if os.path.isdir(state_dir / name) else None
    return agent.workspace if agent.workspace is not None else usual


class Databases(Struct, frozen=True):
    """The databases of one agent; `None`: there is no such file."""

    sidecar: Path | None
    """Of generation 1."""
    agent: Path | None
    """The agent's own database, of generations 2 and 3."""
    read: Path | None
    """The one that the program would read."""
    reason: str
    """The reason why it is that one, in one line."""


def databases_of(state_dir: Path, config: AgentConfig) -> Databases:
    """Find the databases of an agent and tell which of them its program would read.

    The agent's own database, as soon as it has memory tables with content; else the sidecar,
    which the configuration may put elsewhere (`store.path`).
    """
    store = config.search.store_path or state_dir / "memory" / f"{config.name}{_SUFFIX}"
    sidecar = _present(Path(store))
    agent = _present(state_dir / "agents" / config.name / EVENTS_DATABASE)
    if agent is None or sidecar is None:
        only = agent or sidecar
        return Databases(sidecar, agent, only, "the only index" if only else "no index")
    read, reason = agent, "the agent's own database has the memory; the older file is left over"

    def is_filled(opened: Opened) -> int:
        chunks, files = opened.layout.chunks, opened.layout.files
        filled = f"SELECT EXISTS(SELECT 1 FROM {chunks}) OR EXISTS(SELECT 1 FROM {files})"
        return number(opened.connection, filled)

    try:
        if not read_once(agent, is_filled):
            read, reason = sidecar, "the memory tables of the agent's own database are empty"
    except NotRecognised:
        read, reason = sidecar, "the agent's own database has no memory tables"
    except (IndexUnusable, IndexMissing) as error:
        reason = f"the agent's own database comes first, but {error.message}"
    return Databases(sidecar, agent, read, reason)


def _present(path: Path) -> Path | None:
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        # Something is there that may not be looked at; opening it says what.
        pass
    return path


class ForeignTarget(Struct, frozen=True):
    """An index to open and what belongs to it; `None`: not known."""

    database: Path
    agent: str | None = None
    state_dir: Path | None = None
    workspace: Path | None = None
    config: OpenClawConfig | None = None
    search: AgentConfig | None = None
    """Of the configuration; the program's defaults without a file, `None` for a broken one."""
    databases: Databases | None = None
    home: Path | None = None
    """The home folder that `~` stands for in the configuration."""
    allow_insecure: bool = False
    """True if the user's settings let its keys cross a network unencrypted."""

    @property
    def expected(self) -> AgentConfig | None:
        """Return what the agent is configured for; `None` where no configuration could be read."""
        return self.search if self.config is not None and self.config.path is not None else None


def find_target(
    *,
    agent: str | None,
    index: Path | None,
    workspace: Path | None,
    env: Mapping[str, str],
    home: Path,
) -> ForeignTarget:
    """Find what `--agent` or `--index` names; `workspace` wins over what is configured.

    Of several state folders with the agent the first counts. Raises `IndexMissing` when there is
    no such agent, with a hint that names those that are there, or when it has no index.
    """
    name, state_dir = agent or "", None
    if index is None:
        names_in = {folder: _agent_names(folder)[0] for folder in state_dirs(env, home)}
        state_dir = next((folder for folder, names in names_in.items() if name in names), None)
        if state_dir is None:
            others = dict.fromkeys(other for names in names_in.values() for other in sorted(names))
            shown = ", ".join(safe_line(other) for other in list(others)[:_SHOWN_AGENTS])
            raise IndexMissing(
                f"there is no OpenClaw agent {safe_line(name)!r} on this machine",
                hint=f"there are: {shown}; `memtui agents` lists them"
                if others
                else "`memtui agents` says where it looks; --index FILE opens an index",
            )
    else:
        # The agent and the state folder are told by where the file lies, if it lies as it should.
        parents = index.absolute().parents
        if parents[0].name == "agent" and len(parents) > 3 and parents[2].name == "agents":
            name, state_dir = parents[1].name, parents[3]
        elif parents[0].name == "memory" and len(parents) > 1:
            folder, names = parents[1], (*openclaw.CONFIG_NAMES, "agents", "credentials")
            if folder.name.startswith(".") or any((folder / each).exists() for each in names):
                name, state_dir = index.absolute().stem, folder
        if state_dir is None:
            return ForeignTarget(index, workspace=workspace)
    config = openclaw.read_config(env, home, state_dir=state_dir)
    search = config.agent(name)
    databases = databases_of(state_dir, search)
    database = index or databases.read
    if database is None:
        hint = "openclaw memory index builds one"
        raise IndexMissing(f"agent {name!r} has no memory index yet", hint=hint)
    return ForeignTarget(
        database=database,
        agent=name if agent is None else agent,
        state_dir=state_dir,
        workspace=workspace or _workspace_of(state_dir, search),
        config=config,
        search=None if config.broken else search,
        databases=databases,
        home=home,
    )

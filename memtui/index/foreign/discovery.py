"""Where OpenClaw keeps its indexes, and the agents that are found there."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from memtui.errors import IndexMissing, IndexUnusable, MemtuiError
from memtui.index.foreign import rows
from memtui.index.foreign.opening import IndexChanged, NotRecognised, Opened, open_foreign
from memtui.index.foreign.rows import parse_vector
from memtui.model.status import ForeignAgent
from memtui.settings.openclaw import AgentConfig, read_config
from memtui.settings.openclaw.document import STATE_FOLDERS, expanded
from memtui.text.sanitize import safe_line

DEFAULT_AGENT: Final = "main"
_STATE_VARIABLES: Final = ("OPENCLAW_STATE_DIR", "CLAWDBOT_STATE_DIR")
_UNSET: Final = frozenset({"", "undefined", "null"})
_AGENT_DATABASE: Final = Path("agent", "openclaw-agent.sqlite")
_SUFFIX: Final = ".sqlite"
_REINDEX_PREFIX: Final = "memory-reindex-"
_LOCK_SUFFIX: Final = ".reindex-lock.sqlite"
_NEWEST_ROWS: Final = 64
_LATEST_MS: Final = 253_402_300_799_000
_SHOWN_AGENTS: Final = 8


@dataclass(frozen=True, slots=True)
class Databases:
    """The databases of one agent; `None`: there is no such file."""

    sidecar: Path | None
    """Of generation 1."""
    agent: Path | None
    """The agent's own database, of generations 2 and 3."""
    read: Path | None
    """The one that the program would read."""
    reason: str
    """Why it is that one, in one line."""


def state_dirs(env: Mapping[str, str], home: Path) -> tuple[Path, ...]:
    """List the state folders that exist, the one that the program would use first.

    `$OPENCLAW_STATE_DIR`, then `.openclaw`, the folders of its profiles (`.openclaw-<profile>`)
    and the older names in the home folder (`$OPENCLAW_HOME` before `home`).
    """
    other_home = env.get("OPENCLAW_HOME", "").strip()
    if other_home not in _UNSET:
        home = expanded(other_home, home)
    named = (env.get(variable, "").strip() for variable in _STATE_VARIABLES)
    folders = [expanded(value, home) for value in named if value not in _UNSET]
    newest, *older = STATE_FOLDERS
    profile = env.get("OPENCLAW_PROFILE", "").strip()
    if profile and profile.lower() != "default":
        folders.append(home / f"{newest}-{profile}")
    profiles = [name for name in _names(home)[0] if name.startswith(f"{newest}-")]
    folders += [home / name for name in (newest, *sorted(profiles), *older)]
    there: dict[str, Path] = {}
    for folder in folders:
        if os.path.isdir(folder):
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
        config = read_config(env, home, state_dir=state_dir)
        agents += [_describe(state_dir, config.agent(name)) for name in sorted(names)]
        agents += [ForeignAgent("?", state_dir, problem=problem) for problem in problems]
    return tuple(agents)


def find_agent(name: str, env: Mapping[str, str], home: Path) -> Path:
    """Return the first state folder that has an agent of that name.

    Raises `IndexMissing` when there is none; the hint names those that are there.
    """
    others: list[str] = []
    for state_dir in state_dirs(env, home):
        names, _ = _agent_names(state_dir)
        if name in names:
            return state_dir
        others += [other for other in sorted(names) if other not in others]
    shown = ", ".join(safe_line(other) for other in others[:_SHOWN_AGENTS])
    raise IndexMissing(
        f"there is no OpenClaw agent {safe_line(name)!r} on this machine",
        hint=f"there are: {shown}" if others else "set OPENCLAW_STATE_DIR to its state folder",
    )


def _agent_names(state_dir: Path) -> tuple[set[str], list[str]]:
    sidecars, sidecar_problem = _names(state_dir / "memory")
    folders, folder_problem = _names(state_dir / "agents")
    names = {
        name.removesuffix(_SUFFIX)
        for name in sidecars
        if name.endswith(_SUFFIX)
        and not name.startswith((_REINDEX_PREFIX, "."))
        and not name.endswith(_LOCK_SUFFIX)
    }
    names |= {
        name
        for name in folders
        if not name.startswith(".") and os.path.isdir(state_dir / "agents" / name)
    }
    return names, [problem for problem in (sidecar_problem, folder_problem) if problem]


def _names(folder: Path) -> tuple[list[str], str]:
    try:
        return os.listdir(folder), ""
    except (FileNotFoundError, NotADirectoryError):
        return [], ""
    except OSError as error:
        return [], f"{safe_line(str(folder))} cannot be read: {error.strerror}"


def workspace_of(state_dir: Path, agent: AgentConfig) -> Path | None:
    """Find the workspace of an agent; `None`: none is configured, and no folder has its name."""
    if agent.workspace is not None:
        return agent.workspace
    name = "workspace" if agent.name == DEFAULT_AGENT else f"workspace-{agent.name}"
    return state_dir / name if os.path.isdir(state_dir / name) else None


def store_of(agent: AgentConfig) -> Path | None:
    """Return the index of generation 1, where it is configured not to be at its usual place."""
    return Path(agent.search.store_path) if agent.search.store_path else None


def database_of(state_dir: Path, name: str, store: Path | None = None) -> Databases:
    """Find the databases of an agent and tell which of them its program would read.

    The agent's own database, as soon as it has memory tables with content; else the sidecar.
    `store` is where the configuration puts the sidecar (`store.path`).
    """
    sidecar = _present(store or state_dir / "memory" / f"{name}{_SUFFIX}")
    agent = _present(state_dir / "agents" / name / _AGENT_DATABASE)
    if agent is None or sidecar is None:
        only = agent or sidecar
        return Databases(sidecar, agent, only, "the only index" if only else "no index")
    try:
        opened = open_foreign(agent)
        try:
            with opened.errors():
                filled = _has_rows(opened)
        finally:
            opened.close()
    except NotRecognised:
        reason = "the agent's own database has no memory tables"
        return Databases(sidecar, agent, sidecar, reason)
    except (IndexUnusable, IndexMissing) as error:
        reason = f"the agent's own database comes first, but {error.message}"
        return Databases(sidecar, agent, agent, reason)
    if not filled:
        reason = "the memory tables of the agent's own database are empty"
        return Databases(sidecar, agent, sidecar, reason)
    reason = "the agent's own database has the memory; the older file is left over"
    return Databases(sidecar, agent, agent, reason)


def _present(path: Path) -> Path | None:
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        # Something is there that may not be looked at; opening it says what.
        return path
    return path


def _has_rows(opened: Opened) -> bool:
    layout = opened.layout
    query = f"SELECT EXISTS(SELECT 1 FROM {layout.chunks}) OR EXISTS(SELECT 1 FROM {layout.files})"
    return bool(opened.connection.execute(query).fetchall()[0][0])


def _describe(state_dir: Path, config: AgentConfig) -> ForeignAgent:
    """Describe one agent: opens its index, counts, and closes it again."""
    agent = ForeignAgent(config.name, state_dir, workspace=workspace_of(state_dir, config))
    try:
        database = database_of(state_dir, config.name, store_of(config)).read
        if database is None:
            return replace(agent, problem="has no memory index yet")
        agent = replace(agent, database=database)
        try:
            return _counted(agent, database)
        except IndexChanged:
            return _counted(agent, database)
    except MemtuiError as error:
        return replace(agent, problem=error.message)


def _counted(agent: ForeignAgent, database: Path) -> ForeignAgent:
    opened = open_foreign(database)
    connection, layout = opened.connection, opened.layout
    try:
        with opened.errors():
            stored = rows.identity(connection, layout)
            model, dims, changed = _newest(opened)
            return replace(
                agent,
                generation=layout.generation,
                provider=stored.identity.provider,
                model=stored.identity.model or model,
                dimensions=stored.identity.vector_dims or layout.vec_dims or dims,
                files=sum(rows.file_counts(connection, layout).values()),
                chunks=sum(rows.chunk_counts(connection, layout).values()),
                changed=changed or _changed_on_disk(opened),
                problem=stored.problems[0] if stored.problems else "",
            )
    finally:
        opened.close()


def _newest(opened: Opened) -> tuple[str | None, int | None, datetime | None]:
    """Model, vector length and time of the chunks written last.

    The latest of the rows with the highest rowids: the time stands behind the vector, and the
    maximum over all rows would read the whole file.
    """
    newest = opened.connection.execute(
        "SELECT model, embedding, updated_at"
        f" FROM {opened.layout.chunks} ORDER BY rowid DESC LIMIT {_NEWEST_ROWS}"
    ).fetchall()
    if not newest:
        return None, None, None
    latest = max((time for _, _, time in newest if isinstance(time, int)), default=0)
    changed = None
    if 0 < latest <= _LATEST_MS:
        changed = datetime.fromtimestamp(latest / 1000, UTC)
    model, stored, _ = newest[0]
    try:
        dims = parse_vector(stored).size or None
    except ValueError:
        dims = None
    return (model if isinstance(model, str) else None), dims, changed


def _changed_on_disk(opened: Opened) -> datetime | None:
    stamps = (opened.fingerprint.database, opened.fingerprint.log)
    times = [stamp.mtime_ns for stamp in stamps if stamp is not None]
    return datetime.fromtimestamp(max(times) / 1e9, UTC) if times else None

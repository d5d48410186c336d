"""From `--agent NAME` or `--index FILE` to the database, its agent, configuration and workspace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from memtui.errors import IndexMissing
from memtui.index.foreign.discovery import (
    Databases,
    database_of,
    find_agent,
    find_agents,
    workspace_by_default,
)
from memtui.model.status import ForeignAgent
from memtui.settings.openclaw import read_config

if TYPE_CHECKING:
    from memtui.settings.openclaw import AgentConfig, OpenClawConfig


@dataclass(frozen=True, slots=True)
class ForeignTarget:
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

    @property
    def is_configured(self) -> bool:
        """Whether a configuration could be read: without one, what is expected is not known."""
        config = self.config
        return config is not None and config.path is not None and not config.broken

    @property
    def sessions(self) -> Path | None:
        """Where the agent's transcripts are."""
        if self.state_dir is None or self.agent is None:
            return None
        return self.state_dir / "agents" / self.agent / "sessions"


def find_target(
    *,
    agent: str | None,
    index: Path | None,
    workspace: Path | None,
    env: Mapping[str, str],
    home: Path,
) -> ForeignTarget:
    """Find what `--agent` or `--index` names; `workspace` wins over what is configured.

    Raises `IndexMissing` when there is no such agent or it has no index.
    """
    if index is not None:
        target = _of_file(index, env, home)
        if agent is not None and target.state_dir is not None:
            target = replace(target, agent=agent)
    else:
        target = _of_agent(agent or "", env, home)
    return replace(target, workspace=workspace) if workspace is not None else target


def agents_here(env: Mapping[str, str], home: Path) -> tuple[ForeignAgent, ...]:
    """Every agent of this machine, with the workspace that its configuration gives it."""
    configured = _Configured(env, home)
    return find_agents(env, home, workspace_of=configured.workspace, store_of=configured.store)


def _of_agent(name: str, env: Mapping[str, str], home: Path) -> ForeignTarget:
    configured = _Configured(env, home)
    found = find_agent(
        name, env, home, workspace_of=configured.workspace, store_of=configured.store
    )
    if found.database is None:
        hint = "openclaw memory index builds one"
        raise IndexMissing(f"agent {name!r} {found.problem or 'has no memory index'}", hint=hint)
    return _completed(found.database, name, found.state_dir, env, home)


def _of_file(index: Path, env: Mapping[str, str], home: Path) -> ForeignTarget:
    """The agent and the state folder are told by where the file lies, if it lies as it should."""
    place = index.absolute()
    parents = place.parents
    if place.parent.name == "agent" and len(parents) > 3 and parents[2].name == "agents":
        return _completed(index, parents[1].name, parents[3], env, home)
    if place.parent.name == "memory" and len(parents) > 1 and _is_state_dir(parents[1]):
        return _completed(index, place.stem, parents[1], env, home)
    return ForeignTarget(index)


def _is_state_dir(folder: Path) -> bool:
    names = ("openclaw.json", "clawdbot.json", "agents", "credentials")
    return folder.name.startswith(".") or any((folder / name).exists() for name in names)


def _completed(
    database: Path, agent: str, state_dir: Path, env: Mapping[str, str], home: Path
) -> ForeignTarget:
    config = read_config(env, home, state_dir=state_dir)
    search = config.agent(agent)
    return ForeignTarget(
        database=database,
        agent=agent,
        state_dir=state_dir,
        workspace=search.workspace or workspace_by_default(state_dir, agent),
        config=config,
        search=None if config.broken else search,
        databases=database_of(state_dir, agent, _store(search)),
        home=home,
    )


class _Configured:
    """Tells what the configuration of a state folder gives an agent; reads each once."""

    def __init__(self, env: Mapping[str, str], home: Path) -> None:
        self._env, self._home = env, home
        self._known: dict[Path, OpenClawConfig] = {}

    def workspace(self, state_dir: Path, name: str) -> Path | None:
        """The folder of its notes."""
        return self._agent(state_dir, name).workspace

    def store(self, state_dir: Path, name: str) -> Path | None:
        """Its index of generation 1, where that is not at its usual place."""
        return _store(self._agent(state_dir, name))

    def _agent(self, state_dir: Path, name: str) -> AgentConfig:
        if state_dir not in self._known:
            self._known[state_dir] = read_config(self._env, self._home, state_dir=state_dir)
        return self._known[state_dir].agent(name)


def _store(agent: AgentConfig) -> Path | None:
    return Path(agent.search.store_path) if agent.search.store_path else None

"""The memories that the interface can open beside the notes folder: agents of this machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

from memtui.bus import Bus
from memtui.model import Ranking
from memtui.model.status import ForeignAgent

if TYPE_CHECKING:
    from memtui.engine import Engine
    from memtui.engine.foreign import ForeignTarget
    from memtui.engine.foreign.query_vectors import GivenVectors


@dataclass(frozen=True, slots=True)
class OpenedMemory:
    """An engine and what the interface starts from."""

    engine: Engine
    ranking: Ranking | None = None
    """What `0` goes back to; `None`: the configured one."""
    root: Path | None = None
    """The folder of the notes; `None`: the one of the options."""
    is_new: bool = False
    """Whether it was never indexed before it was opened."""


EngineFactory: TypeAlias = "Callable[[Bus], Engine | OpenedMemory]"


class AgentSource(Protocol):
    """Tells which agents there are, and opens their indexes; both read files."""

    def find(self) -> Sequence[ForeignAgent]:
        """Every agent; one whose index cannot be read has its `problem`."""

    def open(self, agent: ForeignAgent, bus: Bus) -> Engine | OpenedMemory:
        """Open the index of an agent; raises `MemtuiError`."""


@dataclass(frozen=True, slots=True)
class MachineAgents:
    """The agents of this machine."""

    env: Mapping[str, str]
    home: Path

    @classmethod
    def of_user(cls) -> MachineAgents:
        """Those of the user; below the top folder for one who has no home."""
        try:
            home = Path.home()
        except RuntimeError:
            home = Path(os.sep)
        return cls(os.environ, home)

    def find(self) -> Sequence[ForeignAgent]:
        """Every agent of every state folder."""
        from memtui.engine.foreign.agent import agents_here

        return agents_here(self.env, self.home)

    def open(self, agent: ForeignAgent, bus: Bus) -> OpenedMemory:
        """Open the database that was listed, with the configuration of its state folder."""
        from memtui.engine.foreign import find_target
        from memtui.errors import IndexMissing

        if agent.database is None:
            raise IndexMissing(agent.problem or "there is no memory index")
        target = find_target(
            agent=agent.name,
            index=agent.database,
            workspace=agent.workspace,
            env=self.env,
            home=self.home,
        )
        return open_target(target, bus)


def open_target(
    target: ForeignTarget,
    bus: Bus,
    *,
    given: GivenVectors | None = None,
    profile: str | None = None,
) -> OpenedMemory:
    """Open an index that another program made; raises `IndexMissing`, `IndexUnusable`."""
    from memtui.engine import Engine

    return foreign_memory(Engine.open_agent(target, bus=bus, given=given, profile=profile))


def foreign_memory(engine: Engine) -> OpenedMemory:
    """An open foreign engine, starting from what its agent is configured for."""
    return OpenedMemory(engine, engine.ranking, engine.root)


def as_memory(opened: Engine | OpenedMemory) -> OpenedMemory:
    """What a factory gave, as a memory."""
    if isinstance(opened, OpenedMemory):
        return opened
    return OpenedMemory(opened, is_new=opened.index.status().generation == 0)

"""The memories that the interface can open, notes and agents' indexes, and which one is open."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

from memtui.bus import Bus
from memtui.model import Ranking
from memtui.model.status import ForeignAgent
from memtui.tui import format as fmt
from memtui.tui.bridge import Bridge, EngineOpened

if TYPE_CHECKING:
    from memtui.engine import Engine
    from memtui.engine.foreign.query_vectors import GivenVectors
    from memtui.index.foreign.discovery import ForeignTarget
    from memtui.tui.app import MemtuiApp


CLOSE_SECONDS = 0.25
NO_NOTES = "no notes folder here; ctrl+p opens an agent's index"


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
        from memtui.index.foreign.discovery import agents_here

        return agents_here(self.env, self.home)

    def open(self, agent: ForeignAgent, bus: Bus) -> OpenedMemory:
        """Open the database that was listed, with the configuration of its state folder."""
        from memtui.errors import IndexMissing
        from memtui.index.foreign.discovery import find_target

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


def in_thread(work: Callable[[], object], name: str) -> threading.Thread:
    """Run something on a thread that nobody waits for at the end."""
    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    return thread


class Memories:
    """Opens a memory, goes from one to another, and closes what is left."""

    def __init__(
        self, app: MemtuiApp, open_notes: EngineFactory | None, agents: AgentSource | None
    ) -> None:
        self._app = app
        self._open_notes = open_notes
        self.agents = agents
        self.number = 0
        """How often another memory was opened: answers of the one before are dropped."""
        self._last: EngineFactory | None = None
        """What was opened last, or not."""
        self._closer: threading.Thread | None = None
        self.bridge = Bridge(app.bus, app.post_message)

    # --- at the start ---------------------------------------------------------------------------

    def start(self, *, choose: bool) -> None:
        """Open the notes, or look first whether there is an agent to choose."""
        if choose and self.agents is not None:
            in_thread(partial(self._find_agents, self.agents), "memtui-agents")
        else:
            self.open_notes()

    def _find_agents(self, source: AgentSource) -> None:
        agents: Sequence[ForeignAgent] = ()
        problem = ""
        try:
            agents = source.find()
        except Exception as error:
            # Whatever lies in the home folder, the notes can be opened.
            problem = str(error) or type(error).__name__
        self._app.call_later(self._agents_found, agents, problem)

    def _agents_found(self, agents: Sequence[ForeignAgent], problem: str) -> None:
        """Offer what there is; open the only thing there is."""
        usable = [agent for agent in agents if agent.database is not None]
        if self._open_notes is not None and not usable:
            self.open_notes()
        elif self._open_notes is None and len(usable) == len(agents) == 1:
            self._open_in_thread(partial(self._agent, usable[0]))
        elif agents:
            self.choose_agent(agents)
        else:
            self._failed(problem or NO_NOTES)

    def open_notes(self) -> None:
        """Open the notes folder off the event loop."""
        if self._open_notes is None:
            self._failed(NO_NOTES)
        else:
            self._open_in_thread(self._open_notes)

    def open_again(self) -> None:
        """Open again what could not be opened."""
        if self._last is None:
            self.open_notes()
        else:
            self._open_in_thread(self._last)

    def _open_in_thread(self, factory: EngineFactory) -> None:
        in_thread(partial(self._open, factory), "memtui-open")

    def _open(self, factory: EngineFactory) -> None:
        self._last = factory
        try:
            memory = as_memory(factory(self._app.bus))
        except Exception as error:
            # Whatever keeps the engine from opening is shown on the screen that is already there.
            self._app.call_later(self._failed, str(error) or type(error).__name__)
            return
        if not self._app.call_later(self._opened, memory):
            memory.engine.close()
            return
        # What the first preview needs, while the first query is typed.
        from memtui.tui.highlight import prepare

        prepare()

    def _opened(self, memory: OpenedMemory) -> None:
        if self._app.search_screen.is_built:
            self.show(memory, self._app.bus)
        else:
            in_thread(memory.engine.close, "memtui-close")

    def _failed(self, error: str) -> None:
        if self._app.search_screen.is_built:
            self._app.search_screen.engine_failed(error)

    # --- from one to another --------------------------------------------------------------------

    def show(self, memory: OpenedMemory, bus: Bus) -> None:
        """Show a memory in place of the one before, which is closed."""
        app, before = self._app, self._app.engine
        if before is not None and memory.engine is not before:
            app.forget_screens()
        if bus is not app.bus:
            self.bridge.close()
            self.number += 1
            app.bus = bus
            self.bridge = Bridge(bus, app.post_message, self.number)
        app.engine = memory.engine
        app.options = replace(
            app.configured,
            ranking=memory.ranking or app.configured.ranking,
            root=memory.root or app.configured.root,
        )
        app.search_screen.engine_opened(memory.engine, app.options)
        if before is not None and before is not memory.engine:
            in_thread(before.close, "memtui-close")
        app.providers.memory_opened(memory)

    def choose_agent(self, agents: Sequence[ForeignAgent] | None = None) -> None:
        """Choose among the agents of this machine; those that are known are shown at once."""
        from memtui.tui.screens.agents import AgentsScreen

        app = self._app
        if self.agents is None or isinstance(app.screen, AgentsScreen):
            return
        notes = fmt.home_relative(str(app.configured.root)) if self._open_notes else ""
        screen = AgentsScreen(self.agents.find, self._opening, found=agents, notes=notes)
        app.push_screen(screen, self._chosen)

    def _opening(self, agent: ForeignAgent | None) -> EngineOpened:
        """Open an agent's index, or with `None` the notes; for a worker."""
        bus = Bus()
        factory = self._open_notes if agent is None else partial(self._agent, agent)
        assert factory is not None
        memory = as_memory(factory(bus))

        return EngineOpened(memory, bus)

    def _agent(self, agent: ForeignAgent, bus: Bus) -> Engine | OpenedMemory:
        assert self.agents is not None
        return self.agents.open(agent, bus)

    def _chosen(self, opened: EngineOpened | None) -> None:
        if opened is not None:
            self._app.action_show_search()
            self.show(opened.memory, opened.bus)
        elif self._app.engine is None:
            self.open_notes()

    # --- at the end -----------------------------------------------------------------------------

    def begin_closing(self) -> None:
        """Close the engine, so that nothing waits for it any more.

        Threads of workers are waited for when the loop ends: one that tries a provider, say.
        """
        self.bridge.close()
        engine = self._app.engine
        if engine is not None and self._closer is None:
            self._closer = in_thread(engine.close, "memtui-close")

    def close(self) -> None:
        """Close the engine, waiting a quarter of a second at most."""
        self.begin_closing()
        if self._closer is not None:
            self._closer.join(CLOSE_SECONDS)

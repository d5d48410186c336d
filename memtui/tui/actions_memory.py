"""Opening a memory, and going from one to another: the notes folder, the agents' indexes."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from textual.app import App

from memtui.bus import Bus
from memtui.model.status import ForeignAgent
from memtui.tui import format as fmt
from memtui.tui.bridge import Bridge
from memtui.tui.memories import AgentSource, EngineFactory, OpenedMemory, as_memory
from memtui.tui.messages import AgentsFound, EngineFailed, EngineOpened, OpenAgain
from memtui.tui.options import UiOptions
from memtui.tui.screens.main import MainScreen
from memtui.tui.theme import THEMES, automatic_theme, variable_defaults

if TYPE_CHECKING:
    from memtui.engine import Engine

CLOSE_SECONDS = 0.25
NO_NOTES = "no notes folder here; ctrl+p opens an agent's index"


class MemoryActions(App[int]):
    """Which memory is open, how another is opened, and what closes."""

    options: UiOptions
    theme_problems: tuple[str, ...] = ()
    """What is wrong with the configured theme."""

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Leg and state colours for themes that do not define them."""
        return variable_defaults(self.current_theme.dark)

    def on_load(self) -> None:
        """Set the theme before the first screen."""
        for theme in THEMES:
            self.register_theme(theme)
        self.theme_problems = self._apply_theme(self.options.theme)

    def refresh_css(self, animate: bool = True) -> None:
        """Before the first screen take the colours alone: nothing is parsed that has others."""
        if self.screen_stack:
            super().refresh_css(animate)
        else:
            self.stylesheet.set_variables(self.get_css_variables())

    def _apply_theme(self, name: str) -> tuple[str, ...]:
        chosen = automatic_theme(os.environ) if name == "auto" else name
        if chosen in self.available_themes:
            self.theme = chosen
            return ()
        self.theme = automatic_theme(os.environ)
        return (f"no theme {name!r}; ctrl+p lists them",)

    def __init__(
        self,
        open_engine: EngineFactory | None,
        options: UiOptions | None = None,
        *,
        agents: AgentSource | None = None,
        choose: bool = False,
        bus: Bus | None = None,
    ) -> None:
        """`open_engine` opens the notes; `None`: there is no folder of notes.

        `agents` are offered beside them, with `choose` at the start already. `bus` is the one of
        an engine that is open already.
        """
        super().__init__()
        self.options = options or UiOptions()
        self.engine: Engine | None = None
        """The engine; `None` until it is open."""
        self.agents = agents
        self.bus = bus or Bus()
        self._configured = self.options
        self._open_notes = open_engine
        self._choose = choose and agents is not None
        self._last: EngineFactory | None = None
        """What was opened last, or not."""
        self._number = 0
        self._closer: threading.Thread | None = None
        self._bridge = Bridge(self.bus, self.post_message)
        self.search_screen = MainScreen(self.options)

    # --- at the start ---------------------------------------------------------------------------

    def start_opening(self) -> None:
        """Open the notes, or look first whether there is something to choose from."""
        if self._choose:
            self._in_thread(self._find_agents, "memtui-agents")
        else:
            self.open_notes()

    def _find_agents(self) -> None:
        assert self.agents is not None
        try:
            self.post_message(AgentsFound(self.agents.find()))
        except Exception as error:
            # Whatever lies in the home folder, the notes can be opened.
            self.post_message(AgentsFound((), str(error) or type(error).__name__))

    def on_agents_found(self, message: AgentsFound) -> None:
        """Offer what there is; open the only thing there is."""
        found = [agent for agent in message.agents if agent.database is not None]
        if self._open_notes is not None and not found:
            self.open_notes()
        elif self._open_notes is None and len(found) == 1 and len(message.agents) == 1:
            self._in_thread(partial(self._open, partial(self._agent, found[0])))
        elif message.agents:
            self._pick(message.agents)
        else:
            self.post_message(EngineFailed(message.error or NO_NOTES))

    def open_notes(self) -> None:
        """Open the notes folder beside the loop."""
        if self._open_notes is None:
            self.post_message(EngineFailed(NO_NOTES))
        else:
            self._in_thread(partial(self._open, self._open_notes))

    def _in_thread(self, work: Callable[[], object], name: str = "memtui-open") -> None:
        threading.Thread(target=work, name=name, daemon=True).start()

    def on_open_again(self, message: OpenAgain) -> None:
        """Open again what could not be opened."""
        if self._last is None:
            self.open_notes()
        else:
            self._in_thread(partial(self._open, self._last))

    def _open(self, factory: EngineFactory) -> None:
        self._last = factory
        try:
            memory = as_memory(factory(self.bus))
            # What the first answer needs, imported here: on the loop it would be a stall.
            import memtui.tui.widgets.result_row  # noqa: F401
        except Exception as error:
            # Whatever keeps the engine from opening is shown on the screen that is already there.
            self.post_message(EngineFailed(str(error) or type(error).__name__))
            return
        if not self.post_message(EngineOpened(memory, self.bus)):
            memory.engine.close()
            return
        # What the first preview needs, while the first query is typed.
        from memtui.tui.highlight import prepare

        prepare()

    def on_engine_opened(self, message: EngineOpened) -> None:
        """Hand the engine to the search screen; close it where the program ends meanwhile."""
        if self.search_screen.is_built:
            self.show_memory(message.memory, message.bus)
        else:
            self._in_thread(message.memory.engine.close, "memtui-close")

    def on_engine_failed(self, message: EngineFailed) -> None:
        """Say why there is no engine."""
        if self.search_screen.is_built:
            self.search_screen.engine_failed(message.error)

    # --- from one to another --------------------------------------------------------------------

    def show_memory(self, memory: OpenedMemory, bus: Bus) -> None:
        """Show a memory in place of the one before, which is closed."""
        before = self.engine
        if bus is not self.bus:
            self._bridge.close()
            self._number += 1
            self.bus = bus
            self._bridge = Bridge(bus, self.post_message, self._number)
        self.engine = memory.engine
        self.options = replace(
            self._configured,
            ranking=memory.ranking or self._configured.ranking,
            root=memory.root or self._configured.root,
        )
        self.search_screen.engine_opened(memory.engine, self.options)
        if before is not None and before is not memory.engine:
            self._in_thread(before.close, "memtui-close")

    def is_current(self, memory: int) -> bool:
        """Whether an answer is from the memory that is shown."""
        return memory == self._number

    def action_open_agent(self) -> None:
        """Choose among the agents of this machine."""
        self._pick(None)

    def _pick(self, agents: Sequence[ForeignAgent] | None) -> None:
        from memtui.tui.screens.agents import AgentsScreen

        if self.agents is None or isinstance(self.screen, AgentsScreen):
            return
        notes = fmt.home_relative(str(self._configured.root)) if self._open_notes else ""
        screen = AgentsScreen(self.agents.find, self._opening, found=agents, notes=notes)
        self.push_screen(screen, self._picked)

    def _opening(self, agent: ForeignAgent | None) -> EngineOpened:
        """Open an agent's index, or with `None` the notes; for a worker."""
        bus = Bus()
        factory = self._open_notes if agent is None else partial(self._agent, agent)
        assert factory is not None
        memory = as_memory(factory(bus))
        import memtui.tui.widgets.result_row  # noqa: F401

        return EngineOpened(memory, bus)

    def _agent(self, agent: ForeignAgent, bus: Bus) -> Engine | OpenedMemory:
        assert self.agents is not None
        return self.agents.open(agent, bus)

    def _picked(self, opened: EngineOpened | None) -> None:
        if opened is not None:
            self.action_show_search()
            self.show_memory(opened.memory, opened.bus)
        elif self.engine is None:
            self.open_notes()

    def action_show_search(self) -> None:
        """Go to the search screen."""
        raise NotImplementedError

    def on_unmount(self) -> None:
        """Close the engine, so that nothing waits for it any more.

        Threads of workers are waited for when the loop ends: one that tries a provider, say.
        """
        self._begin_closing()

    def close_engine(self) -> None:
        """Close the engine, waiting a quarter of a second at most."""
        self._begin_closing()
        if self._closer is not None:
            self._closer.join(CLOSE_SECONDS)

    def _begin_closing(self) -> None:
        self._bridge.close()
        if self.engine is not None and self._closer is None:
            self._closer = threading.Thread(
                target=self.engine.close, name="memtui-close", daemon=True
            )
            self._closer.start()

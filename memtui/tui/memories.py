"""The memories that the interface can open, which one is open, and who makes its vectors."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from memtui.bus import Bus
from memtui.engine import Engine
from memtui.errors import IndexMissing
from memtui.memory.workspace import beside_words, home_folder
from memtui.model.status import ForeignAgent
from memtui.report import status as words
from memtui.report.words import WORDS
from memtui.settings.files import StateFolder
from memtui.text.sanitize import safe_line
from memtui.tui import fmt
from memtui.tui.background import in_background, start_thread, tell
from memtui.tui.options import EngineOpened

if TYPE_CHECKING:
    from memtui.tui.app import MemtuiApp

CLOSE_SECONDS = 0.25
TYPING_SECONDS = 0.7
"""Seconds after a key during which no question interrupts."""
ASKED = "provider.json"
FOREIGN = "another program's index: its own provider is used there"
NO_NOTES = "no notes folder here; ctrl+p opens an agent's index"

EngineFactory = Callable[[Bus], Engine]


class MachineAgents(Struct, frozen=True):
    """The agents of this machine; finding and opening read files."""

    env: Mapping[str, str] = msgspec.field(default_factory=lambda: os.environ)
    home: Path = msgspec.field(default_factory=home_folder)
    allow_insecure: bool = False

    def find(self) -> Sequence[ForeignAgent]:
        """Return every agent of every state folder; one that cannot be read has its `problem`."""
        from memtui.index.foreign.agents import agents_here

        return agents_here(self.env, self.home)

    def open(self, agent: ForeignAgent, bus: Bus) -> Engine:
        """Open the database that was listed, with the configuration of its state folder."""
        from memtui.index.foreign.agents import find_target

        if agent.database is None:
            raise IndexMissing(agent.problem or "there is no memory index")
        target = find_target(
            agent=agent.name,
            index=agent.database,
            workspace=agent.workspace,
            env=self.env,
            home=self.home,
        )
        target = replace(target, allow_insecure=self.allow_insecure)
        return Engine.open_agent(target, bus=bus)


class Memories:
    """Opens a memory, goes from one to another, or to another provider; closes what is left."""

    def __init__(
        self, app: MemtuiApp, open_notes: EngineFactory | None, agents: MachineAgents | None
    ) -> None:
        self._app = app
        self._open_notes = open_notes
        self.agents = agents
        self.factory = open_notes
        """The factory of the memory that was opened last, or could not be."""
        self._closer: threading.Thread | None = None

    def start(self, *, choose: bool) -> None:
        """Open the notes, or look first whether there is an agent to choose."""
        source = self.agents
        if not choose or source is None:
            self.open_again()
            return

        def find() -> None:
            try:
                agents, problem = source.find(), ""
            except Exception as error:
                # Whatever lies in the home folder, the notes can be opened.
                agents, problem = (), str(error) or type(error).__name__
            self._app.call_later(offer, agents, problem)

        def offer(agents: Sequence[ForeignAgent], problem: str) -> None:
            """Offer what there is; open the only thing there is."""
            usable = [agent for agent in agents if agent.database is not None]
            is_only_one = self._open_notes is None and len(usable) == len(agents) == 1
            if is_only_one:
                self.factory = partial(source.open, usable[0])
            if is_only_one or (self._open_notes is not None and not usable):
                self.open_again()
            elif agents:
                self.choose_agent(agents)
            else:
                self._failed(problem or NO_NOTES)

        # Quitting does not wait for a slow home folder.
        start_thread(find, "memtui-agents")

    def open_again(self) -> None:
        """Open the memory that was opened last, or could not be: at first the notes."""
        app, factory = self._app, self.factory
        if factory is None:
            self._failed(NO_NOTES)
            return

        def open_memory() -> None:
            try:
                opened = _opened(factory(app.bus))
            except Exception as error:
                # Whatever keeps it from opening is shown on the screen that is already there.
                app.call_later(self._failed, str(error) or type(error).__name__)
                return
            if not app.call_later(self.show, opened):
                opened.engine.close()
                return
            # What the first preview needs, while the first query is typed.
            from memtui.tui.highlight import code_pieces

            code_pieces(["# note"], "markdown")

        start_thread(open_memory, "memtui-open")

    def _failed(self, error: str) -> None:
        screen, error = self._app.search_screen, self._app.completed(error)
        if screen.is_built:
            screen.engine_error = error
            screen.refresh_bindings()
            if hasattr(self._app.screen, "CLOSING_KEYS"):
                # A greeting would cover it.
                self._app.screen.dismiss(None)
            screen.status_bar.show_note(error, error=True)
            screen.search.show_start()

    def show(self, opened: EngineOpened) -> None:
        """Show a memory in place of the one before, which is closed."""
        app, engine, before = self._app, opened.engine, self._app.engine
        if not app.search_screen.is_built:
            start_thread(engine.close, "memtui-close")
            return
        if before is not None:
            app.forget_screens()
        if engine.bus is not app.bus:
            app.unsubscribe()
            app.listen(engine.bus)
        app.engine = engine
        app.options = app.configured
        if (status := engine.index.status()).foreign is not None:
            memory = {"index": status.index_dir}
            app.options = replace(
                app.configured, ranking=engine.ranking, root=engine.root, memory=memory
            )
        app.search_screen.engine_opened(engine, app.options)
        if before is not None:
            start_thread(before.close, "memtui-close")
        if opened.is_new:
            self._offer_providers(engine)
            if offer := beside_words(engine.root, os.environ, home_folder()):
                tell(app.search_screen, offer)

    def choose_agent(self, agents: Sequence[ForeignAgent] | None = None) -> None:
        """Choose among the agents of this machine; those that are known are shown at once."""
        from memtui.tui.screens.choosers import AgentsScreen

        app, source = self._app, self.agents
        if source is None or isinstance(app.screen, AgentsScreen):
            return

        def open_memory(agent: ForeignAgent | None) -> EngineOpened:
            factory = self._open_notes if agent is None else partial(source.open, agent)
            assert factory is not None
            return _opened(factory(Bus()))

        def chosen(opened: EngineOpened | None) -> None:
            if opened is not None:
                app.action_show_screen("search")
                self.show(opened)
            elif app.engine is None:
                self.open_again()

        notes = fmt.home_relative(str(app.configured.root)) if self._open_notes else ""
        app.push_screen(AgentsScreen(source.find, open_memory, agents, notes), chosen)

    def choose_provider(self, name: str = "", *, is_first_run: bool = False) -> None:
        """Show the embedding providers, with one of them chosen."""
        from memtui.tui.screens.providers import Chosen, ProvidersScreen

        app = self._app
        if (engine := app.opened_engine()) is None:
            return
        if engine.index.status().foreign is not None:
            app.notify(FOREIGN, markup=False)
            return
        for screen in app.screen_stack:
            if isinstance(screen, ProvidersScreen):
                screen.show_provider(name)
                return

        def chosen(result: Chosen | None) -> None:
            if result is None:
                return
            choice, written = result
            provider = words.brief(choice.provider)
            saved = "for this session"
            app.search_screen.is_switched = True
            if written is not None:
                saved = f"saved in {fmt.home_relative(str(written.plan.file.path))}"
                embedding = written.settings.embedding
                settings = replace(app.configured.settings, embedding=embedding)
                app.configured = replace(app.configured, settings=settings, is_provider_given=True)

            def switched(_: None) -> None:
                status = engine.index.status()
                now = WORDS["writer"]["waits" if status.has_other_writer else "switched"]
                text = safe_line(f"provider {provider}, {saved}: {now.format(status.writer)}")
                app.notify(text, markup=False, timeout=8)
                if app.search_screen.is_built:
                    app.search_screen.refresh_status()
                    app.search_screen.search.refresh()

            switch = partial(engine.providers.switch, choice)
            in_background(app.search_screen, switch, switched, f"go over to {provider}")

        screen = ProvidersScreen(engine, app.configured, name, is_first_run=is_first_run)
        app.push_screen(screen, chosen)

    def _offer_providers(self, engine: Engine) -> None:
        """Over a memory that was never indexed, offer the providers that were found, once."""
        app, options = self._app, self._app.configured
        if options.is_provider_given or options.state_dir is None:
            return
        folder = StateFolder(options.state_dir)
        search = app.search_screen
        text_before = ""

        def is_worth_asking() -> bool:
            from memtui.tui.screens.providers import worth_asking

            if folder.read_json(ASKED) or not worth_asking(engine.providers.available()):
                return False
            # A state folder that cannot be written would ask for ever: no question then.
            folder.write_json(ASKED, {"asked": True})
            return True

        def ask_when_free(is_wanted: bool) -> None:
            """Ask as soon as nothing else is in front, and nobody has typed for a moment."""

            def ask() -> None:
                nonlocal text_before
                if app.screen is search and search.state.text == text_before:
                    timer.stop()
                    if engine is app.engine:
                        self.choose_provider(is_first_run=True)
                text_before = search.state.text

            if is_wanted:
                timer = app.set_interval(TYPING_SECONDS, ask)

        # Nobody asked for this question: what keeps it from being asked is told to nobody. The
        # list itself, when it is opened, says what is wrong.
        in_background(search, is_worth_asking, ask_when_free, lambda error: None)

    def begin_closing(self) -> None:
        """Close the engine, so that nothing waits for it any more.

        Threads of workers are waited for when the loop ends: one that tries a provider, say.
        """
        self._app.unsubscribe()
        engine = self._app.engine
        if engine is not None and self._closer is None:
            self._closer = start_thread(engine.close, "memtui-close")

    def close(self) -> None:
        """Close the engine, waiting a quarter of a second at most."""
        self.begin_closing()
        if self._closer is not None:
            self._closer.join(CLOSE_SECONDS)


def _opened(engine: Engine) -> EngineOpened:
    status = engine.index.status()
    return EngineOpened(engine, is_new=status.foreign is None and status.generation == 0)

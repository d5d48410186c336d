"""Going over to another embedding provider, and offering those that were found in a first run."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from memtui.report import status as words
from memtui.settings.storage import StateFolder
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.background import in_background, tell
from memtui.tui.options import EngineOpened

if TYPE_CHECKING:
    from memtui.engine import Engine
    from memtui.tui.app import MemtuiApp
    from memtui.tui.screens.providers import Chosen

ASKED = "provider.json"
FOREIGN = "another program's index: its own provider is used there"
TYPING_SECONDS = 0.7
"""Seconds after a key during which no question interrupts."""


class ProviderSwitch:
    """The choice of the provider that makes the vectors."""

    def __init__(self, app: MemtuiApp) -> None:
        self._app = app

    def choose(self, name: str = "", *, is_first_run: bool = False) -> None:
        """Show the providers, with one of them chosen."""
        from memtui.tui.screens.providers import ProvidersScreen

        app, engine = self._app, self._app.engine
        if engine is None:
            app.notify("Still opening.", markup=False)
        elif engine.index.status().foreign is not None:
            app.notify(FOREIGN, markup=False)
        elif isinstance(app.screen, ProvidersScreen):
            app.screen.show_provider(name)
        elif not any(isinstance(screen, ProvidersScreen) for screen in app.screen_stack):
            screen = ProvidersScreen(engine, app.configured, name, is_first_run=is_first_run)
            app.push_screen(screen, partial(self._chosen, engine))

    def _chosen(self, engine: Engine, chosen: Chosen | None) -> None:
        if chosen is None:
            return
        app, name = self._app, words.brief(chosen.choice.provider)
        app.search_screen.is_switched = True
        if chosen.written is not None:
            embedding = chosen.written.settings.embedding
            app.configured = replace(app.configured, embedding=embedding, is_provider_given=True)

        def switched(_: None) -> None:
            """Tell what happens now, and where it was written."""
            saved = "for this session"
            if chosen.written is not None:
                saved = f"saved in {fmt.home_relative(str(chosen.written.plan.file.path))}"
            text = f"provider {name}, {saved}: indexing anew; the present index answers until then"
            app.notify(safe_line(text), markup=False, timeout=8)
            if app.search_screen.is_built:
                app.search_screen.refresh_status()
                app.search_screen.search.refresh()

        in_background(
            app.search_screen,
            lambda: engine.providers.switch(chosen.choice),
            switched,
            lambda error: tell(app.search_screen, f"{name} cannot take over: {error}", error=True),
        )

    # --- the first run --------------------------------------------------------------------------

    def memory_opened(self, opened: EngineOpened) -> None:
        """Over a memory that was never indexed, offer the providers that were found, once."""
        app, options, engine = self._app, self._app.configured, opened.engine
        is_answered = options.is_provider_given or options.demo or options.state_dir is None
        if is_answered or not opened.is_new:
            return

        def is_worth_asking() -> bool:
            from memtui.tui.screens.providers import worth_asking

            folder = StateFolder(options.state_dir)
            if folder.read_json(ASKED) is not None:
                return False
            if not worth_asking(engine.providers.available()):
                return False
            # A state folder that cannot be written would ask for ever: no question then.
            folder.write_json(ASKED, {"asked": True})
            return True

        def ask_when_free(is_wanted: bool) -> None:
            """Ask as soon as nothing else is in front, and nobody has typed for a moment."""
            search, text_before = app.search_screen, ""

            def ask() -> None:
                nonlocal text_before
                if app.screen is search and search.state.text == text_before:
                    timer.stop()
                    if engine is app.engine:
                        self.choose(is_first_run=True)
                text_before = search.state.text

            if is_wanted:
                timer = app.set_interval(TYPING_SECONDS, ask)

        # Nobody asked for this question: what keeps it from being asked is told to nobody. The
        # list itself, when it is opened, says what is wrong.
        in_background(app.search_screen, is_worth_asking, ask_when_free, lambda error: None)

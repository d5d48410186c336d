"""Going over to another embedding provider, and offering those that were found in a first run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from textual.screen import Screen

from memtui.model.status import ProviderListing
from memtui.report import providers as words
from memtui.settings.storage import StateFolder
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.background import start_thread
from memtui.tui.bridge import EngineOpened

if TYPE_CHECKING:
    from memtui.engine import Engine
    from memtui.tui.app import MemtuiApp
    from memtui.tui.screens.providers import Chosen

ASKED = "provider.json"
FOREIGN = "another program's index: its own provider is used there"
FIRST_SECONDS = 0.1
"""So long keys of the screen before are waited for."""
TYPING_SECONDS = 0.7
"""Who typed within so long is not interrupted by a question."""


class ProviderSwitch:
    """Which provider makes the vectors."""

    def __init__(self, app: MemtuiApp) -> None:
        self._app = app
        self._typed_before = ""
        """The query when the question of the first run was last to be asked."""

    def choose(
        self,
        name: str = "",
        listings: Sequence[ProviderListing] | None = None,
        *,
        is_first_run: bool = False,
    ) -> None:
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
            options = replace(app.options, embedding=app.configured.embedding)
            screen = ProvidersScreen(
                engine, options, listings=listings, choose=name, is_first_run=is_first_run
            )
            app.push_screen(screen, partial(self._chosen, engine))

    def _chosen(self, engine: Engine, chosen: Chosen | None) -> None:
        if chosen is None:
            return
        app = self._app
        app.search_screen.index.is_switched = True
        if chosen.configured is not None:
            app.configured = replace(
                app.configured, embedding=chosen.configured, is_provider_given=True
            )

        def switch() -> None:
            problem = ""
            try:
                engine.providers.switch(chosen.choice)
            except Exception as error:
                # The thread has nobody to tell but the screen.
                problem = str(error) or type(error).__name__
            app.call_later(self._switched, chosen, problem)

        start_thread(switch, "memtui-switch")

    def _switched(self, chosen: Chosen, problem: str) -> None:
        """Tell what happens now, and where it was written."""
        app, name = self._app, words.brief(chosen.choice.provider)
        if problem:
            text = f"{name} cannot take over: {problem}"
            app.notify(safe_line(text), markup=False, severity="error", timeout=30)
            return
        saved = "for this session"
        if chosen.plan is not None:
            saved = f"saved in {fmt.home_relative(str(chosen.plan.file.path))}"
        text = f"provider {name}, {saved}: indexing anew; the present index answers until then"
        app.notify(safe_line(text), markup=False, timeout=8)
        if app.search_screen.is_built:
            app.search_screen.index.refresh_status()
            app.search_screen.search.refresh()

    # --- the first run --------------------------------------------------------------------------

    def memory_opened(self, opened: EngineOpened) -> None:
        """Over a memory that was never indexed, offer the providers that were found, once."""
        options, engine = self._app.configured, opened.engine
        is_answered = options.is_provider_given or options.demo or options.state_dir is None
        if is_answered or not opened.is_new:
            return

        def look() -> None:
            from memtui.tui.screens.providers import worth_asking

            try:
                folder = StateFolder(options.state_dir)
                if folder.read_json(ASKED) is not None:
                    return
                listings = engine.providers.available()
                if not worth_asking(listings):
                    return
                # A state folder that cannot be written would ask for ever: no question then.
                folder.write_json(ASKED, {"asked": True})
            except Exception:
                # Nobody asked for this question: what keeps it from being asked is told to nobody.
                # The list itself, when it is opened, says what is wrong.
                return
            self._app.call_later(self._ask_when_free, listings, engine)

        start_thread(look, "memtui-providers")

    def _ask_when_free(self, listings: Sequence[ProviderListing], engine: Engine) -> None:
        """Ask as soon as nothing else is in front, and nobody types."""
        app, search = self._app, self._app.search_screen
        is_asked = False

        def ask() -> None:
            nonlocal is_asked
            if is_asked or app.screen is not search:
                return
            if search.search.text != self._typed_before:
                self._typed_before = search.search.text
                app.set_timer(TYPING_SECONDS, ask)
                return
            is_asked = True
            app.screen_change_signal.unsubscribe(search)
            if engine is app.engine:
                self.choose(listings=listings, is_first_run=True)

        def screen_changed(screen: Screen[Any]) -> None:
            if screen is search:
                app.set_timer(FIRST_SECONDS, ask)

        app.screen_change_signal.subscribe(search, screen_changed)
        screen_changed(app.screen)

"""Choosing an embedding provider: what is asked of the engine, and when a choice is offered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace as changed
from textual.screen import Screen

from memtui.embedding.registry import AUTO, AUTO_REMOTE, EMBEDDED_DEFAULT, other_of, resolve
from memtui.model.status import ProviderListing
from memtui.report import providers as words
from memtui.settings.schema import EmbeddingSettings
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.memories import OpenedMemory, in_thread

if TYPE_CHECKING:
    from memtui.engine import Engine
    from memtui.settings.write import Plan
    from memtui.tui.app import MemtuiApp


@dataclass(frozen=True, slots=True)
class Chosen:
    """A provider that was chosen, and for how long."""

    choice: EmbeddingSettings
    is_other: bool
    """Whether it is another one than the settings asked for."""
    plan: Plan | None = None
    """What was written to the settings; `None`: it is for this session."""
    configured: EmbeddingSettings | None = None
    """What the settings ask for, after they were written."""


def choice_named(configured: EmbeddingSettings, name: str) -> tuple[EmbeddingSettings, bool]:
    """The choice of a provider by its name, and whether it is another than the configured one.

    Another one gets nothing that was set for the configured one: no model, no address, no place
    of a key. Looks at files where `auto` has to be worked out.
    """
    if configured.provider == name:
        return configured, False
    if configured.provider == AUTO:
        meant = resolve(configured)
        if meant is not None and meant.name == name:
            return changed(configured, provider=name), False
    return other_of(configured, name), True


def worth_asking(listings: Sequence[ProviderListing]) -> tuple[ProviderListing, ...]:
    """Services whose key, and the model file, that were found where the embedded model is taken.

    What is only installed is no reason to ask. Empty when the settings lead to another one, too.
    """
    default = next((each for each in listings if each.name == EMBEDDED_DEFAULT), None)
    if default is None or not default.is_requested:
        return ()
    return tuple(each for each in listings if each.works and each.name in ("gguf", *AUTO_REMOTE))


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
        self._question: tuple[Sequence[ProviderListing], Engine] | None = None
        """A question that waits until the search screen is in front."""
        self._typed_before = ""
        """The query when the question was last to be asked."""

    # --- on demand ------------------------------------------------------------------------------

    def choose(
        self,
        name: str = "",
        listings: Sequence[ProviderListing] | None = None,
        *,
        is_first_run: bool = False,
    ) -> None:
        """Show the providers, with one of them chosen."""
        from memtui.tui.screens.providers.screen import ProvidersScreen

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
        in_thread(partial(self._switch, engine, chosen), "memtui-switch")

    def _switch(self, engine: Engine, chosen: Chosen) -> None:
        problem = ""
        try:
            engine.providers.switch(chosen.choice)
        except Exception as error:
            # The thread has nobody to tell but the screen.
            problem = str(error) or type(error).__name__
        self._app.call_later(self._switched, chosen, problem)

    def _switched(self, chosen: Chosen, problem: str) -> None:
        """Tell what happens now, and where it was written."""
        app, name = self._app, words.brief(chosen.choice.provider)
        if problem:
            text = f"{name} cannot take over: {problem}"
            app.notify(safe_line(text), markup=False, severity="error", timeout=30)
            return
        plan = chosen.plan
        saved = "for this session"
        if plan is not None:
            saved = f"saved in {fmt.home_relative(str(plan.target.path))}"
        text = f"provider {name}, {saved}: indexing anew; the present index answers until then"
        app.notify(safe_line(text), markup=False, timeout=8)
        if app.search_screen.is_built:
            app.search_screen.index.refresh_status()
            app.search_screen.search.refresh()

    # --- the first run --------------------------------------------------------------------------

    def memory_opened(self, memory: OpenedMemory) -> None:
        """Over a memory that was never indexed, offer the providers that were found."""
        options = self._app.configured
        asks = not (options.is_provider_given or options.demo or options.state_dir is None)
        if asks and memory.is_new:
            in_thread(partial(self._look_for_choice, memory.engine), "memtui-providers")

    def _look_for_choice(self, engine: Engine) -> None:
        from memtui.settings.storage import StateFolder

        try:
            folder = StateFolder(self._app.configured.state_dir)
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

    def _ask_when_free(self, listings: Sequence[ProviderListing], engine: Engine) -> None:
        """Ask as soon as nothing else is in front."""
        app = self._app
        self._question = listings, engine
        app.screen_change_signal.subscribe(app.search_screen, self._screen_changed)
        self._screen_changed(app.screen)

    def _screen_changed(self, screen: Screen[Any]) -> None:
        if self._question is not None and screen is self._app.search_screen:
            self._app.set_timer(FIRST_SECONDS, self._ask)

    def _ask(self) -> None:
        app, question = self._app, self._question
        if question is None or app.screen is not app.search_screen:
            return
        typed = app.search_screen.flow.wanted
        if typed != self._typed_before:
            self._typed_before = typed
            app.set_timer(TYPING_SECONDS, self._ask)
            return
        self._question = None
        app.screen_change_signal.unsubscribe(app.search_screen)
        listings, engine = question
        if engine is app.engine:
            self.choose(listings=listings, is_first_run=True)

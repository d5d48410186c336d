"""The embedding provider from any screen: choosing another, and the question of a first run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from textual.screen import Screen

from memtui.bus import Bus
from memtui.model.status import ProviderListing
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui import provider_words as words
from memtui.tui.actions_memory import MemoryActions
from memtui.tui.choosing import Chosen, worth_asking
from memtui.tui.memories import OpenedMemory
from memtui.tui.messages import ProviderFirstRun, ProviderSwitched

if TYPE_CHECKING:
    from memtui.engine import Engine

ASKED = "provider.json"
FOREIGN = "another program's index: its own provider is used there"
FIRST_SECONDS = 0.1
"""So long keys of the screen before are waited for."""
TYPING_SECONDS = 0.7
"""Who typed within so long is not interrupted by a question."""


class ProviderActions(MemoryActions):
    """Which provider makes the vectors."""

    _first_run: ProviderFirstRun | None = None
    """A question that waits until the search screen is in front."""
    _typed_before = ""
    """The query when the question was last to be asked."""

    # --- on demand ------------------------------------------------------------------------------

    def action_choose_provider(self, name: str = "") -> None:
        """Show the providers, with one of them chosen."""
        self._show_providers(choose=name)

    def _show_providers(
        self,
        listings: Sequence[ProviderListing] | None = None,
        *,
        choose: str = "",
        is_first_run: bool = False,
    ) -> None:
        from memtui.tui.screens.providers import ProvidersScreen

        engine = self.engine
        if engine is None:
            self.notify("Still opening.", markup=False)
        elif engine.index.status().foreign is not None:
            self.notify(FOREIGN, markup=False)
        elif isinstance(self.screen, ProvidersScreen):
            self.screen.show_provider(choose)
        elif not any(isinstance(screen, ProvidersScreen) for screen in self.screen_stack):
            options = replace(self.options, embedding=self._configured.embedding)
            screen = ProvidersScreen(
                engine, options, listings=listings, choose=choose, is_first_run=is_first_run
            )
            self.push_screen(screen, partial(self._provider_chosen, engine))

    def _provider_chosen(self, engine: Engine, chosen: Chosen | None) -> None:
        if chosen is None:
            return
        self.search_screen.is_switched = True
        if chosen.configured is not None:
            self._configured = replace(
                self._configured, embedding=chosen.configured, is_provider_given=True
            )
        self._in_thread(partial(self._switch, engine, chosen), "memtui-switch")

    def _switch(self, engine: Engine, chosen: Chosen) -> None:
        try:
            engine.providers.switch(chosen.choice)
        except Exception as error:
            # The thread has nobody to tell but the screen.
            self.post_message(ProviderSwitched(chosen, str(error) or type(error).__name__))
            return
        self.post_message(ProviderSwitched(chosen))

    def on_provider_switched(self, message: ProviderSwitched) -> None:
        """Tell what happens now, and where it was written."""
        name = words.brief(message.chosen.choice.provider)
        if message.error:
            text = f"{name} cannot take over: {message.error}"
            self.notify(safe_line(text), markup=False, severity="error", timeout=30)
            return
        plan = message.chosen.plan
        kept = "for this session"
        if plan is not None:
            kept = f"saved in {fmt.home_relative(str(plan.target.path))}"
        text = f"provider {name}, {kept}: indexing anew; the present index answers until then"
        self.notify(safe_line(text), markup=False, timeout=8)
        if self.search_screen.is_built:
            self.search_screen.refresh_status()
            self.search_screen.refresh_results()

    # --- the first run --------------------------------------------------------------------------

    def show_memory(self, memory: OpenedMemory, bus: Bus) -> None:
        """Show a memory; over one that was never indexed, offer the providers that were found."""
        super().show_memory(memory, bus)
        options = self._configured
        asks = not (options.is_provider_given or options.demo or options.state_dir is None)
        if asks and memory.is_new:
            self._in_thread(partial(self._look_for_choice, memory.engine), "memtui-providers")

    def _look_for_choice(self, engine: Engine) -> None:
        from memtui.settings.storage import StateFolder

        try:
            folder = StateFolder(self._configured.state_dir)
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
        self.post_message(ProviderFirstRun(listings, engine))

    def on_provider_first_run(self, message: ProviderFirstRun) -> None:
        """Ask as soon as nothing else is in front."""
        self._first_run = message
        self.screen_change_signal.subscribe(self.search_screen, self._screen_changed)
        self._screen_changed(self.screen)

    def _screen_changed(self, screen: Screen[Any]) -> None:
        if self._first_run is not None and screen is self.search_screen:
            self.set_timer(FIRST_SECONDS, self._ask_first)

    def _ask_first(self) -> None:
        message = self._first_run
        if message is None or self.screen is not self.search_screen:
            return
        typed = self.search_screen.flow.wanted
        if typed != self._typed_before:
            self._typed_before = typed
            self.set_timer(TYPING_SECONDS, self._ask_first)
            return
        self._first_run = None
        self.screen_change_signal.unsubscribe(self.search_screen)
        if message.engine is self.engine:
            self._show_providers(message.listings, is_first_run=True)

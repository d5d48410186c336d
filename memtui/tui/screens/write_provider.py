"""Writing the chosen provider into the settings: the difference is shown before it is written."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from memtui.embedding.choice import choice_of
from memtui.tui import format as fmt
from memtui.tui.choosing import Chosen
from memtui.tui.glyphs import Glyphs
from memtui.tui.screens.write_base import WriteScreen

if TYPE_CHECKING:
    from memtui.settings.saving import Plan
    from memtui.settings.settings_files import SettingsFiles

NO_KEYS = "No key is ever written."
_KEYS = "enter write  j/k scroll  esc leave"


class WriteProvider(WriteScreen[Chosen]):
    """The difference of the user's settings file; Enter writes it. Returns what to go over to."""

    CSS_PATH = "providers.tcss"
    PARTS = "write-provider"
    BINDING_GROUP_TITLE = "Write the provider"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "write", "write", id="write_provider.write"),
        Binding("j,down", "scroll(1)", "down", show=False, id="write_provider.down"),
        Binding("k,up", "scroll(-1)", "up", show=False, id="write_provider.up"),
        Binding("escape,q", "close", "leave", id="write_provider.close"),
    ]

    already = "The settings ask for this provider already."

    def __init__(self, files: SettingsFiles, chosen: Chosen, glyphs: Glyphs) -> None:
        super().__init__(files, glyphs)
        self._chosen = chosen

    def compose(self) -> ComposeResult:
        """The file, the difference, what else there is to know."""
        with Vertical(id="write-provider-box", classes="provider-box"):
            yield Static(id="write-provider-path", markup=False)
            with VerticalScroll(id="write-provider-scroll"):
                yield Static(id="write-provider-difference", markup=False)
            yield Static(id="write-provider-notes", markup=False)

    def on_mount(self) -> None:
        """Find out what would change."""
        box = self.query_one("#write-provider-box")
        box.border_title = Content(self.BINDING_GROUP_TITLE or "")
        box.border_subtitle = Content(_KEYS)
        self.scroll.focus()
        self.draw()
        self.plan_anew()

    def plan_of(self, asked: object) -> Plan:
        """The plan of the settings with the chosen provider."""
        from memtui.settings.saving_provider import plan_provider

        name, is_other = self._chosen.choice.provider, self._chosen.is_other
        return plan_provider(self._files, name, is_other=is_other)

    def result_of(self, plan: Plan) -> Chosen:
        """What was chosen, as the settings have it now."""
        configured = choice_of(self._files.load().settings.embedding)
        chosen = replace(self._chosen, plan=plan, configured=configured)
        if configured.provider == chosen.choice.provider:
            # What else the settings say for it counts from now on, too.
            chosen = replace(chosen, choice=configured)
        return chosen

    def draw(self) -> None:
        """Draw the file, the difference, and what else there is to know."""
        self.query_one("#write-provider-path", Static).update(self.named_target)
        self.draw_difference()
        lines = [self.warning(self._told)] if self._told else []
        lines += [*self.warnings, Content.styled(NO_KEYS, fmt.MUTED)]
        self.query_one("#write-provider-notes", Static).update(Content("\n").join(lines))
        self.call_after_refresh(self.fit)

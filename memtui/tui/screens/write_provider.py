"""Writing the chosen provider into the settings: the difference is shown before it is written."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from textual.binding import BindingType
from textual.content import Content

from memtui.embedding.choice import choice_of
from memtui.tui import format as fmt
from memtui.tui.bindings import bindings
from memtui.tui.choosing import Chosen
from memtui.tui.glyphs import Glyphs
from memtui.tui.screens.write_base import WriteUserFile

if TYPE_CHECKING:
    from memtui.settings.write import Plan, SettingsFiles

NO_KEYS = "No key is ever written."


class WriteProvider(WriteUserFile[Chosen]):
    """The difference of the user's settings file; Enter writes it. Returns what to go over to."""

    CSS_PATH = "providers.tcss"
    PARTS = "write-provider"
    BOX_CLASS = "provider-box"
    BINDING_GROUP_TITLE = "Write the provider"
    BINDINGS: ClassVar[list[BindingType]] = bindings("write_file")

    already = "The settings ask for this provider already."
    always = (Content.styled(NO_KEYS, fmt.MUTED),)

    def __init__(self, files: SettingsFiles, chosen: Chosen, glyphs: Glyphs) -> None:
        super().__init__(files, glyphs)
        self._chosen = chosen

    def plan_of(self, asked: object) -> Plan:
        """The plan of the settings with the chosen provider."""
        from memtui.settings.write import plan_provider

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

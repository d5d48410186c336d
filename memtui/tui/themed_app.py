"""The application's theme, set before there is a style sheet that it would have parsed again."""

from __future__ import annotations

import os
from typing import TypeVar

from textual.app import App

from memtui.tui.options import UiOptions
from memtui.tui.palette import automatic_theme
from memtui.tui.theme import THEMES, variable_defaults

Returned = TypeVar("Returned")


class ThemedApp(App[Returned]):
    """Registers memtui's themes and takes the one that is configured."""

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

"""memtui's themes for Textual, and the colours of legs and states under every other theme."""

from __future__ import annotations

from textual.theme import Theme

from memtui.tui.palette import DARK_LEGS, LIGHT_LEGS, PALETTES, Palette


def _theme(palette: Palette) -> Theme:
    return Theme(
        name=palette.name,
        primary=palette.primary,
        secondary=palette.secondary,
        accent=palette.accent,
        foreground=palette.foreground,
        background=palette.background,
        surface=palette.surface,
        panel=palette.panel,
        success=palette.success,
        warning=palette.warning,
        error=palette.error,
        dark=palette.dark,
        variables=dict(palette.variables),
    )


MEMTUI_DARK, MEMTUI_LIGHT, MEMTUI_HIGH_CONTRAST = THEMES = tuple(map(_theme, PALETTES))


def variable_defaults(dark: bool) -> dict[str, str]:
    """Return the colours that a theme which does not know memtui gets."""
    return dict(DARK_LEGS if dark else LIGHT_LEGS)

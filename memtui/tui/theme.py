"""memtui's themes, and the colours of legs and states under every other theme."""

from __future__ import annotations

from collections.abc import Mapping

from textual.theme import Theme

DARK_LEGS: Mapping[str, str] = {
    "leg-vector": "#56B4E9",
    "leg-keyword": "#E69F00",
    "leg-decay": "#8A8A8A",
    "leg-mmr": "#CC79A7",
    "leg-rerank": "#B9A5F5",
    "state-ok": "#4FC58F",
    "state-warn": "#E8C547",
    "state-error": "#F2785C",
    "mark": "#FFE08A",
}
"""Leg colours after Okabe and Ito, at least 5:1 on a dark background."""

LIGHT_LEGS: Mapping[str, str] = {
    "leg-vector": "#0072B2",
    "leg-keyword": "#8F4A00",
    "leg-decay": "#5F5F5F",
    "leg-mmr": "#A0457A",
    "leg-rerank": "#5B46B5",
    "state-ok": "#00694C",
    "state-warn": "#6B5500",
    "state-error": "#A63F00",
    "mark": "#7A4B00",
}
"""The same hues darkened to at least 4.5:1 on #EFEFEF."""

_CONTRAST_LEGS: Mapping[str, str] = {
    "leg-vector": "#6CC8FF",
    "leg-keyword": "#FFB000",
    "leg-decay": "#BDBDBD",
    "leg-mmr": "#FF9ED2",
    "leg-rerank": "#CDBDFF",
    "state-ok": "#5CF2AE",
    "state-warn": "#FFE14D",
    "state-error": "#FF9B85",
    "mark": "#FFFF66",
}


MEMTUI_DARK = Theme(
    name="memtui-dark",
    dark=True,
    primary="#7FD6C2",
    secondary="#8FB3D9",
    accent="#7FD6C2",
    foreground="#DDE3EA",
    background="#0E1116",
    surface="#12161C",
    panel="#1A2028",
    success="#4FC58F",
    warning="#E8C547",
    error="#F2785C",
    variables={
        **DARK_LEGS,
        "block-cursor-background": "#2A323D",
        "block-cursor-foreground": "#DDE3EA",
        "block-cursor-text-style": "none",
        "input-cursor-background": "#7FD6C2",
        "input-selection-background": "#7FD6C2 30%",
        "border": "#7FD6C2",
        "scrollbar": "#2A323D",
        "scrollbar-hover": "#3A4553",
        "scrollbar-active": "#7FD6C2",
        "scrollbar-background": "#12161C",
        "scrollbar-background-hover": "#12161C",
        "scrollbar-background-active": "#12161C",
        "scrollbar-corner-color": "#12161C",
    },
)

MEMTUI_LIGHT = Theme(
    name="memtui-light",
    dark=False,
    primary="#00695C",
    secondary="#2F5D8A",
    accent="#00695C",
    foreground="#1C2126",
    background="#FAFAF7",
    surface="#F4F4EF",
    panel="#E9E9E2",
    success="#00694C",
    warning="#6B5500",
    error="#A63F00",
    variables={
        **LIGHT_LEGS,
        "block-cursor-background": "#DCE3E0",
        "block-cursor-foreground": "#1C2126",
        "block-cursor-text-style": "none",
        "input-cursor-background": "#00695C",
        "input-cursor-foreground": "#FFFFFF",
        "input-selection-background": "#00695C 25%",
        "border": "#00695C",
        "scrollbar": "#C9CEC8",
        "scrollbar-hover": "#AEB5AE",
        "scrollbar-active": "#00695C",
        "scrollbar-background": "#F4F4EF",
        "scrollbar-background-hover": "#F4F4EF",
        "scrollbar-background-active": "#F4F4EF",
        "scrollbar-corner-color": "#F4F4EF",
    },
)

MEMTUI_HIGH_CONTRAST = Theme(
    name="memtui-high-contrast",
    dark=True,
    primary="#00FFFF",
    secondary="#FFFFFF",
    accent="#00FFFF",
    foreground="#FFFFFF",
    background="#000000",
    surface="#000000",
    panel="#1C1C1C",
    success="#5CF2AE",
    warning="#FFE14D",
    error="#FF9B85",
    variables={
        **_CONTRAST_LEGS,
        "block-cursor-background": "#3A3A3A",
        "block-cursor-foreground": "#FFFFFF",
        "block-cursor-text-style": "bold",
        "border": "#00FFFF",
        "border-blurred": "#FFFFFF",
    },
)

THEMES = (MEMTUI_DARK, MEMTUI_LIGHT, MEMTUI_HIGH_CONTRAST)


def automatic_theme(environment: Mapping[str, str]) -> str:
    """Choose dark or light by `COLORFGBG` (`15;0` is light on black), else dark."""
    background = environment.get("COLORFGBG", "").rpartition(";")[2]
    return MEMTUI_LIGHT.name if background in {"7", "15"} else MEMTUI_DARK.name


def variable_defaults(dark: bool) -> dict[str, str]:
    """Return the colours for a theme that does not define memtui's own."""
    return dict(DARK_LEGS if dark else LIGHT_LEGS)

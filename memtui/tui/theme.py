"""memtui's themes, and the colours of legs and states under every other theme.

The colours stand in `memtui/data/themes.toml`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

from textual.theme import Theme

_COLOURS = tomllib.loads((Path(__file__).parents[1] / "data" / "themes.toml").read_text("utf-8"))
DARK, LIGHT = "memtui-dark", "memtui-light"
THEMES = tuple(
    Theme(
        name=name,
        variables={**colours["legs"], **colours["variables"]},
        **{key: value for key, value in colours.items() if key not in ("legs", "variables")},
    )
    for name, colours in _COLOURS.items()
)


def automatic_theme(environment: Mapping[str, str]) -> str:
    """Choose dark or light by `COLORFGBG` (`15;0` is light on black), else dark."""
    background = environment.get("COLORFGBG", "").rpartition(";")[2]
    return LIGHT if background in {"7", "15"} else DARK


def variable_defaults(dark: bool) -> dict[str, str]:
    """Return the colours of legs and states for a theme that does not define them."""
    return dict(_COLOURS[DARK if dark else LIGHT]["legs"])

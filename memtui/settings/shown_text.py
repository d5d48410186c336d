"""The text of a settings file as it may be shown: as it is, but for what may be secret."""

from __future__ import annotations

import re
import tomllib
from typing import Any, Final

from memtui.settings.shown import KEY_COMMAND, masked_text, shown_value
from memtui.settings.toml_layout import Pair, read_layout
from memtui.settings.toml_text import toml_value

HIDDEN: Final = "…"
_TOOL: Final = ("tool", "memtui")
_COMMENTED: Final = re.compile(
    rf"^(?P<head>[ \t]*#.*?\b{KEY_COMMAND.rpartition('.')[2]}\s*=\s*)(?P<value>.*)"
)


def shown_text(text: str) -> str:
    """A TOML document in which every text is as `shown_value` shows it, comments among them.

    The lines stay lines, but for a secret of several. A text that is not TOML is not shown at all.
    """
    try:
        tomllib.loads(text)
    except ValueError:
        return HIDDEN if text else ""
    shown = text
    for pair in sorted(read_layout(text).pairs(), key=lambda pair: pair.start, reverse=True):
        if not pair.is_inline:
            value = _shown(text[pair.value_start : pair.value_end], pair)
            shown = shown[: pair.value_start] + value + shown[pair.value_end :]
    return "\n".join(_comment_shown(line) for line in shown.split("\n"))


def _shown(source: str, pair: Pair) -> str:
    """The TOML of a value: its own where there is nothing to hide."""
    value: Any = tomllib.loads(f"x = {source}")["x"]
    path = pair.path[len(_TOOL) :] if pair.path[: len(_TOOL)] == _TOOL else pair.path
    seen = shown_value(".".join(path), value)
    return source if seen == value else toml_value(seen)


def _comment_shown(line: str) -> str:
    """A line without what its comment may give away."""
    if "#" not in line:
        return line
    match = _COMMENTED.match(line)
    if match is not None and match["value"].strip() not in {"", '""', "''"}:
        return match["head"] + toml_value(HIDDEN)
    before, mark, comment = line.partition("#")
    return before + mark + masked_text(comment)

"""Styles and colours: of themes, legs and states, of numbers; the words are those of a report."""

from __future__ import annotations

import os
from collections.abc import Sequence

from textual.content import Content
from textual.theme import Theme

from memtui.data import read_table
from memtui.report.words import MINUS as MINUS
from memtui.report.words import NOTHING as NOTHING
from memtui.report.words import ago as ago
from memtui.report.words import count as count
from memtui.report.words import percent as percent
from memtui.report.words import rank as rank
from memtui.report.words import reason_words as reason_words
from memtui.report.words import rounded as rounded
from memtui.report.words import score as score
from memtui.text.sanitize import safe_line
from memtui.text.sanitize import size_words as size_words

MUTED = "$foreground 68%"
"""The style of labels and asides; `$text-muted` has no colour inside `Content`."""
DIM = "$foreground 66%"
"""The style of what matters less than these."""


def home_relative(path: str) -> str:
    """Write a folder with `~` for the home folder, safe for one line."""
    home = os.path.expanduser("~")
    inside = path == home or path.startswith(home + os.sep)
    return safe_line("~" + path[len(home) :] if inside and len(home) > 1 else path)


def fit(content: Content, width: int, *, pad: bool = False) -> Content:
    """Cut a line to `width` cells, at least one, with an ellipsis where something is lost.

    With `pad` a shorter line is filled up with blanks.
    """
    return content.truncate(max(width, 1), ellipsis=True, pad=pad)


def holds_words(text: str, typed: str) -> bool:
    """Tell whether a text holds every word that is typed, in any case."""
    folded = text.casefold()
    return all(word in folded for word in typed.casefold().split())


def spread(left: Content, right: Content, width: int) -> Content:
    """Write two texts at the ends of a line; the left one is cut where there is no room for it."""
    return Content.assemble(fit(left, width - right.cell_length - 1, pad=True), " ", right)


def hanging(line: Content, width: int, indent: int) -> list[Content]:
    """Wrap a line, all but its first cells under themselves."""
    parts = line[indent:].wrap(max(8, width - indent)) or [Content("")]
    return [line[:indent] + parts[0], *(" " * indent + part for part in parts[1:])]


def flowing(parts: Sequence[Content], width: int, gap: str = "   ") -> list[Content]:
    """Return lines of parts, none of them broken, each line as long as the width allows."""
    lines = [*parts[:1]]
    for part in parts[1:]:
        longer = Content(gap).join([lines[-1], part])
        lines[-1:] = [longer] if longer.cell_length <= width else [lines[-1], part]
    return lines


_COLOURS = read_table("themes.toml")
DARK, LIGHT = "memtui-dark", "memtui-light"
THEMES = tuple(
    Theme(
        name=name,
        variables={**colours["legs"], **colours["variables"]},
        **{key: value for key, value in colours.items() if key not in ("legs", "variables")},
    )
    for name, colours in _COLOURS.items()
)


def variable_defaults(dark: bool) -> dict[str, str]:
    """Return the colours of legs and states for a theme that does not define them."""
    return dict(_COLOURS[DARK if dark else LIGHT]["legs"])

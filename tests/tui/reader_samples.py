"""A believable note and index status, and an application for the tests of single widgets."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec.structs import replace
from textual.app import App
from textual.theme import Theme
from textual.widget import Widget

from memtui.engine.ports import RebuildCost, SourceText
from memtui.model import IndexState, IndexStatus
from memtui.tui.app import MemtuiApp
from memtui.tui.fmt import THEMES, variable_defaults
from tests.support.known import load

NOW = datetime(2026, 2, 13, 9, 30, tzinfo=UTC)


def Source(
    path: str, lines: list[str], state: str = "current", detail: str = "", **more: Any
) -> SourceText:
    """A note as the engine would hand it out."""
    return SourceText(path, lines, state, detail=detail, **more)


def Cost(**more: Any) -> RebuildCost:
    """The cost of a rebuild."""
    model = "all-MiniLM-L6-v2-int8"
    cost = RebuildCost(142, 1284, 1233, 512_000, False, provider="minilm", model=model)
    return replace(cost, **more)


def note(lines: int = 60) -> SourceText:
    """A Markdown note of about this many lines with the first chunk at lines 12 to 31."""
    head = load("notes")["panes"]["memory/2026-02-10.md"].splitlines()
    tail = [f"plain line {number} about nothing" for number in range(len(head) + 1, lines + 1)]
    return Source("memory/2026-02-10.md", head + tail)


def status(state: IndexState = IndexState.READY) -> IndexStatus:
    """An index of 142 files in a state."""
    sample = load("index_status")
    values = sample["believable"] | sample["states"].get(state, {}) | {"state": state}
    provider = {"actual": None} | values["provider"]
    return msgspec.convert(values | {"provider": provider}, IndexStatus)


class ReaderApp(App[object]):
    """An application around a few widgets, with memtui's themes and colours."""

    DEFAULT_CSS = MemtuiApp.DEFAULT_CSS
    SCOPED_CSS = False

    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide"), (160, "-huge")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-short"), (30, "-tall")]  # noqa: RUF012

    def __init__(self, *widgets: Widget, theme: str = "memtui-dark", css: str = "") -> None:
        super().__init__()
        self._widgets = widgets
        for known in THEMES:
            self.register_theme(known)
        self.theme = theme
        self._extra = css

    def compose(self) -> list[Widget]:
        return list(self._widgets)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """The leg and state colours."""
        theme: Theme = self.current_theme
        return variable_defaults(theme.dark)

"""Choosing among the queries asked before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input

from memtui.text.sanitize import safe_line
from memtui.tui.bindings import bindings
from memtui.tui.screens.base import Modal
from memtui.tui.widgets.row_list import Row, RowList
from memtui.tui.widgets.safe_input import SafeInput

SHOWN = 50


class HistoryScreen(Modal[str | None]):
    """The queries asked before, newest first; typing narrows them. Returns the chosen one."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("history")

    DEFAULT_CSS = """
    HistoryScreen {
        align: center middle;
        background: $background 60%;
        & > Vertical { width: 76; max-width: 100%; height: 18; max-height: 100%; }
        & Input { border: round $primary; border-title-color: $primary; background: $background; }
        & Input:focus { background-tint: $foreground 0%; }
        & RowList { height: 1fr; background: $background; }
    }
    """

    def __init__(self, queries: Sequence[str]) -> None:
        super().__init__()
        self._queries = tuple(queries)

    def compose(self) -> ComposeResult:
        """A filter over a list."""
        with Vertical():
            yield SafeInput(placeholder="filter", id="history-filter")
            yield RowList(id="history-list")

    def on_mount(self) -> None:
        """Show every query."""
        self.query_one(Input).border_title = Content("Queries asked before")
        self._show("")

    @on(Input.Changed)
    def filter_changed(self, event: Input.Changed) -> None:
        """Show the queries that hold every typed word."""
        event.stop()
        self._show(event.value)

    @on(Input.Submitted)
    def filter_submitted(self, event: Input.Submitted) -> None:
        """Return the chosen query."""
        event.stop()
        self.dismiss(self.query_one(RowList).chosen_id)

    @on(RowList.Opened)
    def query_opened(self, message: RowList.Opened) -> None:
        """Return the query that was opened."""
        message.stop()
        self.dismiss(message.row_id)

    @on(RowList.Chosen)
    def query_chosen(self, message: RowList.Chosen) -> None:
        """Keep the choice in this screen."""
        message.stop()

    def action_move(self, step: int) -> None:
        """Move the choice while typing."""
        self.query_one(RowList).move(step)

    def action_dismiss_none(self) -> None:
        """Go back without a query."""
        self.dismiss(None)

    def _show(self, text: str) -> None:
        words = text.lower().split()
        found = [q for q in self._queries if all(word in q.lower() for word in words)][:SHOWN]
        self.query_one(RowList).set_rows([_row(query) for query in found])


def _row(query: str) -> Row:
    def draw(width: int) -> Content:
        line = Content(safe_line(query))
        return line.truncate(max(width, 1), ellipsis=True)

    return Row(query, draw)

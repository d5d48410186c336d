"""A choice between rows, over the screen: files, or the chunks of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content

from memtui.text.sanitize import safe_line
from memtui.tui.bindings import bindings
from memtui.tui.screens.base import Modal
from memtui.tui.widgets.row_list import Row, RowList

_MOST_LINES = 14


class Chooser(Modal[str]):
    """Rows with one of them chosen; the result is the id of the row that was opened."""

    BINDING_GROUP_TITLE = "Choice"
    BINDINGS: ClassVar[list[BindingType]] = bindings("chooser")
    DEFAULT_CSS = """
    Chooser {
        align: center middle;
        background: $background 60%;
        & #chooser-box { width: 80; max-width: 100%; height: auto; max-height: 100%; }
        & #chooser { background: $surface; }
    }
    """

    def __init__(self, title: str, rows: Sequence[Row], chosen: str | None = None) -> None:
        super().__init__()
        self._title = title
        self._rows = rows
        self._first = chosen

    def compose(self) -> ComposeResult:
        with Vertical(id="chooser-box"):
            yield RowList(id="chooser")

    def on_mount(self) -> None:
        """List the rows."""
        lines = self.query_one("#chooser", RowList)
        lines.styles.height = min(len(self._rows), _MOST_LINES) + 2
        lines.border_title = Content(safe_line(self._title))
        lines.border_subtitle = Content("⏎ open  esc back")
        lines.set_rows(self._rows, self._first)
        lines.focus()

    @on(RowList.Opened)
    def opened(self, message: RowList.Opened) -> None:
        """Take the row."""
        message.stop()
        self.dismiss(message.row_id)

    @on(RowList.Chosen)
    def chosen(self, message: RowList.Chosen) -> None:
        """Keep the choice here."""
        message.stop()

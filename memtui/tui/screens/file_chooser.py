"""A choice between a few files."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content

from memtui.model.browsing import MemoryFile
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.browsing.file_words import badge
from memtui.tui.browsing.marks import Marks
from memtui.tui.screens.modal import Modal
from memtui.tui.widgets.long_list import LongList
from memtui.tui.widgets.row_list import Row

_MOST_LINES = 14


class FileChooser(Modal[str]):
    """Files by path; the result is the path of the one that was chosen."""

    BINDING_GROUP_TITLE = "Files"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "close", "back", id="file_chooser.close"),
    ]
    DEFAULT_CSS = """
    FileChooser {
        align: center middle;
        background: $background 60%;
        & #chooser-box { width: 80; max-width: 100%; height: auto; max-height: 100%; }
        & #chooser { background: $surface; }
    }
    """

    def __init__(
        self, title: str, files: Sequence[MemoryFile], marks: Marks, now: datetime
    ) -> None:
        super().__init__()
        self._title = title
        self._files = files
        self._marks = marks
        self._now = now

    def compose(self) -> ComposeResult:
        with Vertical(id="chooser-box"):
            yield LongList(id="chooser")

    def on_mount(self) -> None:
        """List the files."""
        lines = self.query_one("#chooser", LongList)
        lines.styles.height = min(len(self._files), _MOST_LINES) + 2
        lines.border_title = Content(safe_line(self._title))
        lines.border_subtitle = Content("⏎ open  esc back")
        lines.set_rows([Row(file.path, partial(self._draw, file)) for file in self._files])
        lines.focus()

    def _draw(self, file: MemoryFile, width: int) -> Content:
        right = f" {badge(file.state, self._marks)} {fmt.counted(file.chunks, 'chunk')}"
        left = Content(safe_line(file.path)).truncate(max(1, width - len(right)), ellipsis=True)
        gap = " " * max(0, width - left.cell_length - len(right))
        return Content.assemble(left, gap, (right, fmt.MUTED))

    @on(LongList.Opened)
    def opened(self, message: LongList.Opened) -> None:
        """Take the file."""
        message.stop()
        self.dismiss(message.row_id)

    @on(LongList.Chosen)
    def chosen(self, message: LongList.Chosen) -> None:
        """Keep the choice here."""
        message.stop()

    def action_close(self) -> None:
        """Take none."""
        self.dismiss(None)

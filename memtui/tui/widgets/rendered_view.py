"""A file as rendered Markdown, scrolled line by line."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from textual import events
from textual.content import Content
from textual.message import Message

from memtui.text.sanitize import safe_line
from memtui.tui.screens.browse.markdown import RenderedLine
from memtui.tui.widgets.line_view import LineView


class RenderedView(LineView):
    """Lines that were rendered for a width; asks for others when it has another."""

    DEFAULT_CSS = """
    RenderedView {
        padding: 0;
        overflow-y: scroll;
        scrollbar-gutter: auto;
        width: 1fr;
    }
    """
    HELP = "The file as rendered Markdown; links are shown and not followed."
    BINDING_GROUP_TITLE = "Rendered"

    class Widened(Message):
        """The view has another width than what it shows was rendered for."""

    def __init__(self) -> None:
        super().__init__(id="rendered-view")
        self.border_title = "Rendered"
        self._sources: Sequence[int] = ()

    @property
    def text_width(self) -> int:
        """Cells for the text, without a margin of one on both sides."""
        return max(1, self.scrollable_content_region.width - 2)

    @property
    def source_line(self) -> int:
        """The 1-based line of the file at the top of the view."""
        top = int(self.scroll_offset.y)
        return self._sources[top] if top < len(self._sources) else 1

    def show_lines(self, path: str, lines: Sequence[RenderedLine], width: int, line: int) -> None:
        """Show what was rendered, scrolled to a line of the file."""
        self._lines = [" " + line.content for line in lines]
        self._sources, self._width = [line.source for line in lines], width
        self.border_subtitle = Content(safe_line(path))
        self.set_extent(len(lines))
        self.go_to_line(line)
        self.refresh()
        if self.size and self.text_width != width:
            self.post_message(self.Widened())

    def go_to_line(self, line: int) -> None:
        """Scroll to where a line of the file is drawn."""
        place = bisect_left(self._sources, line)
        self.scroll_to(y=max(0, place if line > 1 else 0), animate=False, force=True)

    def on_resize(self, event: events.Resize) -> None:
        """Ask for lines of the new width."""
        event.prevent_default()
        if self._lines and self.text_width != self._width:
            self.post_message(self.Widened())

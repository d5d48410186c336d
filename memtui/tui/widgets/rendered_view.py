"""A file as rendered Markdown, scrolled line by line."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from memtui.text.sanitize import safe_line
from memtui.tui.browsing.rendering import RenderedLine


class RenderedView(ScrollView, can_focus=True):
    """Lines that were rendered for a width; asks for others when it has another."""

    DEFAULT_CSS = """
    RenderedView {
        border: round $foreground 25%;
        border-title-color: $text-muted;
        border-subtitle-color: $text-muted;
        overflow-x: hidden;
        overflow-y: scroll;
        scrollbar-size-horizontal: 0;
        scrollbar-size-vertical: 1;
        background: transparent;
        height: 1fr;
        width: 1fr;
        &:focus { border: round $primary; border-title-color: $primary; }
    }
    """
    HELP = "The file as rendered Markdown; links are shown and not followed."
    BINDING_GROUP_TITLE = "Rendered"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "scroll(1)", "down", show=False, id="rendered.down"),
        Binding("k,up", "scroll(-1)", "up", show=False, id="rendered.up"),
        Binding("space,ctrl+d,pagedown", "page(1)", "page down", show=False, id="rendered.page"),
        Binding("ctrl+u,pageup", "page(-1)", "page up", show=False, id="rendered.page_back"),
        Binding("g,home", "scroll(-1000000)", "first line", show=False, id="rendered.first"),
        Binding("G,end", "scroll(1000000)", "last line", show=False, id="rendered.last"),
    ]

    class Widened(Message):
        """The view has another width than what it shows was rendered for."""

    def __init__(self) -> None:
        super().__init__(id="rendered-view")
        self.border_title = "Rendered"
        self._lines: Sequence[RenderedLine] = ()
        self._width = 0

    @property
    def text_width(self) -> int:
        """Cells for the text, without a margin of one on both sides."""
        return max(1, self.scrollable_content_region.width - 2)

    @property
    def source_line(self) -> int:
        """The 1-based line of the file at the top of the view."""
        top = int(self.scroll_offset.y)
        return self._lines[top].source if top < len(self._lines) else 1

    def show_lines(self, path: str, lines: Sequence[RenderedLine], width: int, line: int) -> None:
        """Show what was rendered, scrolled to a line of the file."""
        self._lines, self._width = lines, width
        self.border_subtitle = Content(safe_line(path))
        extent = Size(0, len(lines))
        self.set_reactive(ScrollView.virtual_size, extent)
        if self.is_mounted and self.size:
            self._scroll_update(extent)
        self.go_to_line(line)
        self.refresh()
        if self.size and self.text_width != width:
            self.post_message(self.Widened())

    def go_to_line(self, line: int) -> None:
        """Scroll to where a line of the file is drawn."""
        place = bisect_left(self._lines, line, key=lambda drawn: drawn.source)
        self.scroll_to(y=max(0, place if line > 1 else 0), animate=False, force=True)

    def on_resize(self, event: events.Resize) -> None:
        """Ask for lines of the new width."""
        if self._lines and self.text_width != self._width:
            self.post_message(self.Widened())

    def action_scroll(self, lines: int) -> None:
        """Scroll by lines."""
        self.scroll_to(y=self.scroll_y + lines, animate=False)

    def action_page(self, direction: int) -> None:
        """Scroll by almost a page."""
        self.scroll_to(y=self.scroll_y + direction * max(1, self.size.height - 1), animate=False)

    def render_line(self, y: int) -> Strip:
        """Draw one line of the view."""
        width = self.scrollable_content_region.width
        index = int(self.scroll_offset.y) + y
        base = self.visual_style.rich_style
        if index >= len(self._lines):
            return Strip.blank(max(0, width), base)
        strip = Strip((" " + self._lines[index].content).render_segments(self.visual_style))
        return strip.crop_extend(0, width, base)

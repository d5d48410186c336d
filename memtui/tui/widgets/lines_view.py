"""A scrolled view of lines that are laid out for its width; only those in view are drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from memtui.tui import format as fmt
from memtui.tui.widgets.text_block import Draw


def _nothing(width: int) -> Sequence[Content]:
    return ()


class LinesView(ScrollView, can_focus=True):
    """Lines of styled text, wrapped by whoever lays them out."""

    DEFAULT_CSS = """
    LinesView {
        height: 1fr;
        border: round $foreground 25%;
        border-title-color: $text-muted;
        border-subtitle-color: $text-muted;
        background: transparent;
        padding: 0 1;
        overflow-x: hidden;
        overflow-y: auto;
        scrollbar-size-vertical: 1;
        scrollbar-gutter: stable;
        &:focus { border: round $primary; border-title-color: $primary; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "scroll_lines(1)", "down", show=False, id="lines.down"),
        Binding("k,up", "scroll_lines(-1)", "up", show=False, id="lines.up"),
        Binding(
            "space,ctrl+d,pagedown", "scroll_pages(1)", "page down", show=False, id="lines.page"
        ),
        Binding("ctrl+u,pageup", "scroll_pages(-1)", "page up", show=False, id="lines.page_back"),
        Binding("g,home", "scroll_end_of(-1)", "first line", show=False, id="lines.first"),
        Binding("G,end", "scroll_end_of(1)", "last line", show=False, id="lines.last"),
    ]

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._lay_out: Draw = _nothing
        self._lines: Sequence[Content] = ()
        self._width = -1

    @property
    def plain(self) -> str:
        """What is laid out, as text."""
        return "\n".join(line.plain for line in self._lines)

    def show(self, lay_out: Draw, *, again: bool = False) -> None:
        """Show other lines from the top; `again` keeps the place of a reader of the same."""
        self._lay_out = lay_out
        self._width = -1
        self._arrange()
        if not again:
            self.scroll_to(y=0, animate=False, force=True)
        self.refresh()

    def _arrange(self) -> None:
        width = self.scrollable_content_region.width
        if width <= 0 or width == self._width:
            return
        self._width = width
        self._lines = self._lay_out(width)
        extent = Size(1, len(self._lines))
        if extent != self.virtual_size:
            self.set_reactive(ScrollView.virtual_size, extent)
            if self.is_mounted and self.size:
                self._scroll_update(extent)

    def on_resize(self, event: events.Resize) -> None:
        """Lay out for the new width."""
        self._arrange()
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw one line of the view."""
        width = self.scrollable_content_region.width
        at = int(self.scroll_offset.y) + y
        if at >= len(self._lines):
            return Strip.blank(width, self.rich_style)
        line = fmt.fit(self._lines[at], width)
        strip = Strip(line.render_segments(self.visual_style))
        return strip.crop_extend(0, width, self.rich_style)

    def action_scroll_lines(self, lines: int) -> None:
        """Scroll by lines."""
        self.scroll_relative(y=lines, animate=False)

    def action_scroll_pages(self, pages: int) -> None:
        """Scroll by pages."""
        self.scroll_relative(y=pages * max(1, self.size.height - 1), animate=False)

    def action_scroll_end_of(self, step: int) -> None:
        """Go to the first or the last line."""
        self.scroll_to(y=self.max_scroll_y if step > 0 else 0, animate=False)

"""A scrolled view of lines, of which only those in view are drawn, and blocks of a few lines."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.binding import BindingType
from textual.content import Content
from textual.geometry import Size
from textual.reactive import Reactive
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip
from textual.style import Style
from textual.widget import Widget

from memtui.tui import format as fmt
from memtui.tui.bindings import bindings

Draw = Callable[[int], Sequence[Content]]
"""From a width in cells to lines of at most that width."""


class LineView(ScrollView, can_focus=True):
    """Lines of styled text that can be scrolled and selected; the base of every such widget.

    It shows what `lay_out` is given. Another kind of text overrides `line_at`, and `frame_at` for
    what stands around each line; one of blocks, each of some lines, gives their heights.
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings("lines")
    COMPONENT_CLASSES: ClassVar[set[str]] = {"line-view--message"}

    virtual_size: Reactive[Size] = Reactive(Size(0, 0), layout=False)
    """The area to scroll over. Textual lays out the whole screen for every change of it, but
    neither the size nor the place of anything depends on how long a text is."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self._draw_lines: Draw = lambda width: ()
        self._lines: Sequence[Content] = ()
        self._width = -1
        self.tops = [0]
        """The first line of each block, and the number of all lines."""
        self._message: Sequence[Content] = ()

    # --- what is shown --------------------------------------------------------------------------

    def lay_out(self, draw_lines: Draw, *, again: bool = False) -> None:
        """Show other lines from the top; `again` keeps the place of a reader of the same."""
        self._draw_lines, self._width = draw_lines, self.scrollable_content_region.width
        if self._width > 0:
            self._lines = draw_lines(self._width)
            widest = max((line.cell_length for line in self._lines), default=1)
            self.virtual_size = Size(widest, len(self._lines))
        if not again:
            self.scroll_to_line(0)
        self.refresh()

    def on_resize(self, event: events.Resize) -> None:
        if self.scrollable_content_region.width != self._width:
            self.lay_out(self._draw_lines, again=True)
        self.refresh()

    def line_at(self, at: int) -> Content | None:
        """Return a line; `None` below the last one."""
        return self._lines[at] if at < len(self._lines) else None

    def frame_at(self, at: int) -> tuple[Style, Content]:
        """Return the style of a line that there is, and what stands before it.

        That neither scrolls to the side nor is selected.
        """
        return self.visual_style, Content("")

    # --- blocks of lines ------------------------------------------------------------------------

    def set_heights(self, heights: Iterable[int]) -> None:
        """Say how many lines each block has."""
        self.tops = [0, *accumulate(heights)]
        self.virtual_size = Size(1, self.tops[-1])
        self.refresh()

    def block_at(self, line: int) -> tuple[int, int] | None:
        """Return the block that a line is in, and its place there; `None` beyond all of them."""
        at = bisect_right(self.tops, line) - 1
        return (at, line - self.tops[at]) if 0 <= line < self.tops[-1] else None

    def block_under(self, event: events.MouseEvent) -> tuple[int, int] | None:
        """Return the same of the line under the mouse."""
        offset = event.get_content_offset(self)
        return None if offset is None else self.block_at(int(self.scroll_offset.y) + offset.y)

    # --- drawing --------------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        width, at = self.scrollable_content_region.width, int(self.scroll_offset.y) + y
        if self._message:
            return self._message_line(y, width)
        if (line := self.line_at(at)) is None:
            return Strip.blank(width, self.rich_style)
        style, margin = self.frame_at(at)
        base, gutter = style.rich_style, Strip(margin.render_segments(style))
        room, left = max(1, width - gutter.cell_length), int(self.scroll_offset.x)
        if (selection := self.text_selection) and (span := selection.get_span(at)) is not None:
            selected = Style.from_styles(self.screen.get_component_styles("screen--selection"))
            line = line.stylize(selected, span[0], len(line) if span[1] == -1 else span[1])
        text = Strip(line.render_segments(style))
        shown = text.crop_extend(left, left + room, base)
        if text.cell_length > left + room:
            shown = Strip.join([shown.crop(0, room - 1), Strip([Segment("…", base)])])
        if self.ALLOW_SELECT:
            shown = shown.apply_offsets(len(line.truncate(left)) if left else 0, at)
        return Strip.join([gutter, shown]).crop_extend(0, width, base)

    def _message_line(self, y: int, width: int) -> Strip:
        # The first line is free where there is room for that.
        number = y - 1 if self.size.height > len(self._message) + 1 else y
        lines = [line for part in self._message for line in part.wrap(max(1, width - 2))]
        shown = " " + lines[number] if 0 <= number < len(lines) else Content("")
        strip = Strip(shown.render_segments(self.get_visual_style("line-view--message")))
        return strip.crop_extend(0, width, self.rich_style)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        last = self.virtual_size.height - 1
        start = selection.start.y if selection.start is not None else 0
        end = min(selection.end.y if selection.end is not None else last, last)
        chosen = []
        for at in range(max(0, start), end + 1):
            span, line = selection.get_span(at), self.line_at(at)
            if span is not None and line is not None:
                chosen.append(line.plain[span[0] : None if span[1] == -1 else span[1]])
        return ("\n".join(chosen), "\n") if chosen else None

    # --- scrolling ------------------------------------------------------------------------------

    def watch_virtual_size(self, size: Size) -> None:
        """Fit the scroll bar and the place, which Textual does as it lays out."""
        height = self.scrollable_content_region.height
        if height <= 0:
            return
        self.show_vertical_scrollbar = self.styles.overflow_y == "scroll" or size.height > height
        self.scroll_y = self.validate_scroll_y(self.scroll_y)
        if self.show_vertical_scrollbar:
            bar = self.vertical_scrollbar
            bar.display = True
            bar.window_virtual_size, bar.window_size = size.height, height
            bar.position = self.scroll_y

    def scroll_to_line(self, line: int) -> None:
        """Scroll so that a line is at the top, as far as there is to scroll."""
        self.scroll_to(y=max(0, line), animate=False, force=True, immediate=True)

    def action_scroll_lines(self, lines: int) -> None:
        self.scroll_relative(y=lines, animate=False)

    def action_scroll_pages(self, pages: int) -> None:
        self.scroll_relative(y=pages * max(1, self.size.height - 1), animate=False)

    def action_scroll_end_of(self, step: int) -> None:
        if step > 0:
            self.scroll_to(y=self.max_scroll_y, animate=False)
        else:
            self.scroll_to(x=0, y=0, animate=False)


class TextBlock(Widget):
    """As tall as its lines; not there while it has none."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._draw_lines: Draw = lambda width: ()
        self._counted: tuple[int, int] = (-1, -1)
        """Width and lines when the height was chosen."""

    def show(self, draw: Draw) -> None:
        self._draw_lines = draw
        width, lines = self._counted
        # Where nothing was counted yet, the layout that first shows it counts.
        self.refresh(layout=width >= 0 and len(draw(width)) != lines)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        self._counted = (width, len(self._draw_lines(width)))
        return self._counted[1]

    def render(self) -> Content:
        return Content("\n").join(self._draw_lines(max(1, self.content_size.width)))


Fact = tuple[str, Content]
"""A constant label and its value; an empty label continues the fact above."""

_MIN_VALUE = 8


def fact_lines(facts: Sequence[Fact], width: int, label_width: int | None = None) -> list[Content]:
    """Lay out facts in `width` cells, one line or more for each."""
    column = label_width or max((len(label) for label, _ in facts), default=0) + 2
    room = max(_MIN_VALUE, width - column)
    lines: list[Content] = []
    for label, value in facts:
        for number, line in enumerate(value.wrap(room) or [Content("")]):
            head = label if number == 0 else ""
            lines.append(Content.assemble((f"{head:<{column}}", fmt.MUTED), line))
    return lines


class Facts(TextBlock):
    """A block of facts, as tall as they need."""

    def __init__(self, *, label_width: int | None = None, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._label_width = label_width

    def show_facts(self, facts: Sequence[Fact]) -> None:
        self.show(lambda width: fact_lines(facts, width, self._label_width))

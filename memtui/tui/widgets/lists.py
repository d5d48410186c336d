"""Views of lines that scroll, blocks of a few lines, and lists of rows with a chosen one."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from operator import attrgetter
from typing import ClassVar

from msgspec import Struct
from rich.segment import Segment
from textual import events
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.reactive import Reactive
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip
from textual.style import Style
from textual.widget import Widget

from memtui.report.layout import Section
from memtui.tui import fmt, glyphs
from memtui.tui.bindings import bindings
from memtui.tui.present import INDENT, section_rows
from memtui.tui.widgets.bars import ON_CLICK

Draw = Callable[[int], Sequence[Content]]
"""From a width in cells to lines of at most that width."""


class LineView(ScrollView, can_focus=True):
    """Lines of styled text that can be scrolled and selected; the base of every such widget.

    It shows what `lay_out` is given. Another kind of text overrides `line_at`, and `frame_at` for
    what stands around each line; one of blocks, each of some lines, gives their heights.
    """

    BINDINGS = bindings("lines")
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

        That is not selected.
        """
        return self.visual_style, Content("")

    def joint_at(self, at: int) -> str:
        """Return what stands between a line and the one above it in a text that is copied."""
        return "\n"

    def set_heights(self, heights: Iterable[int]) -> None:
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

    def render_line(self, y: int) -> Strip:
        width, at = self.scrollable_content_region.width, int(self.scroll_offset.y) + y
        if y == 0 and self._width != width:
            # What was measured after a change and before its layout gets no Resize from Textual.
            self.post_message(events.Resize(self.size, self.virtual_size, self.container_size))
        if self._message:
            # The first line is free where there is room for that.
            number = y - 1 if self.size.height > len(self._message) + 1 else y
            lines = [line for part in self._message for line in part.wrap(max(1, width - 2))]
            message = " " + lines[number] if 0 <= number < len(lines) else Content("")
            strip = Strip(message.render_segments(self.get_visual_style("line-view--message")))
            return strip.crop_extend(0, width, self.rich_style)
        if (line := self.line_at(at)) is None:
            return Strip.blank(width, self.rich_style)
        style, margin = self.frame_at(at)
        base, gutter = style.rich_style, Strip(margin.render_segments(style))
        room = max(1, width - gutter.cell_length)
        if (selection := self.text_selection) and (span := selection.get_span(at)) is not None:
            selected = Style.from_styles(self.screen.get_component_styles("screen--selection"))
            line = line.stylize(selected, span[0], len(line) if span[1] == -1 else span[1])
        text = Strip(line.render_segments(style))
        shown = text.crop_extend(0, room, base)
        if text.cell_length > room:
            shown = Strip.join([shown.crop(0, room - 1), Strip([Segment("…", base)])])
        if self.ALLOW_SELECT:
            shown = shown.apply_offsets(0, at)
        return Strip.join([gutter, shown]).crop_extend(0, width, base)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        last = self.virtual_size.height - 1
        start = selection.start.y if selection.start is not None else 0
        end = min(selection.end.y if selection.end is not None else last, last)
        chosen = []
        for at in range(max(0, start), end + 1):
            span, line = selection.get_span(at), self.line_at(at)
            if span is not None and line is not None:
                text = line.plain[span[0] : None if span[1] == -1 else span[1]]
                chosen += [self.joint_at(at), text]
        return ("".join(chosen[1:]), "\n") if chosen else None

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
        # At once, since a key held down comes more often than the screen is drawn.
        self.scroll_relative(y=lines, animate=False, immediate=True)

    def action_scroll_pages(self, pages: int) -> None:
        self.action_scroll_lines(pages * max(1, self.size.height - 1))

    def action_scroll_end_of(self, step: int) -> None:
        if step > 0:
            self.scroll_to(y=self.max_scroll_y, animate=False, immediate=True)
        else:
            self.scroll_to(x=0, y=0, animate=False, immediate=True)


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
        cells = max(1, width)
        self._counted = (cells, len(self._draw_lines(cells)))
        return self._counted[1]

    def render(self) -> Content:
        lines, room = self._draw_lines(max(1, self.content_size.width)), self.content_size.height
        if len(lines) > room > 0:
            lines = [*lines[: room - 1], Content.styled("…", fmt.MUTED)]
        return Content("\n").join(lines)


Fact = tuple[str, Content]
"""A constant label and its value; an empty label continues the fact above."""


def fact_lines(facts: Sequence[Fact], width: int, column: int) -> list[Content]:
    """Lay out facts in `width` cells, `column` for the labels, one line or more for each."""
    lines = (Content.assemble((f"{label:<{column}}", fmt.MUTED), value) for label, value in facts)
    return [part for line in lines for part in fmt.hanging(line, width, column)]


class Row(Struct, frozen=True):
    """A row: its id, and how it is drawn in a number of cells."""

    id: str
    draw: Callable[[int], Content]
    lines: int = 1
    """So many lines at every width; 0: as many as are drawn."""
    is_heading: bool = False
    """True if it is passed over: it cannot be chosen, and stands where others have their marker."""


def rows_of(section: Section, ids: Sequence[str]) -> list[Row]:
    """Return the rows of a section by these ids; the lines around them are headings."""

    @lru_cache(1)
    def lines_by_row(width: int) -> Mapping[int, list[Content]]:
        # Before the rows stands what is -1, behind them what has the number behind the last one.
        lines, at = defaultdict[int, list[Content]](list), -1
        for row, line in section_rows(section, width):
            at = row if row is not None else at if at < 0 else len(ids)
            lines[at].append(line if row is None else line[INDENT:])
        return lines

    def row(at: int) -> Row:
        # The marker takes the cells that rows are indented by.
        is_row = 0 <= at < len(ids)
        indent = INDENT if is_row else 0
        return Row(
            ids[at] if is_row else "",
            lambda width: Content("\n").join(lines_by_row(width + indent)[at]),
            lines=0,
            is_heading=not is_row,
        )

    return list(map(row, lines_by_row(80)))


class RowList(LineView, inherit_bindings=False):
    """Rows of one or more lines, the chosen one kept by its id."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {"row-list--hover", "row-list--chosen"}
    BINDINGS = bindings("list")

    @dataclass
    class Chosen(Message):
        """Another row was chosen; `row_id` is `None` when there is none left."""

        row_list: RowList
        row_id: str | None
        by_user: bool
        control = property(attrgetter("row_list"))

    @dataclass
    class Opened(Message):
        """Enter was pressed on a row, or the chosen row was clicked again."""

        row_list: RowList
        row_id: str
        control = property(attrgetter("row_list"))

    def __init__(
        self,
        *,
        id: str,  # noqa: A002 - Textual's name
        gap: int = 1,
        opens: str = "",
        secondary: bool = False,
        classes: str = "",
    ) -> None:
        """`gap` is the number of cells between the marker and the row.

        `opens` is what Enter does, in a word for the key bar.
        `secondary`: the chosen row is marked only while the list has the focus.
        """
        super().__init__(id=id, classes=f"{classes} -secondary" if secondary else classes)
        self.rows: tuple[Row, ...] = ()
        """The rows as they were given."""
        self.cursor: int | None = None
        """Place of the chosen row, from 0; `None` when there is none."""
        self._margin = 1 + gap
        self.opens = opens
        self._places: list[int] = []
        """The places of the rows that can be chosen."""
        self._drawn: dict[int, list[Content]] = {}
        """The lines of the rows that were drawn, by place."""
        self._hover: int | None = None
        self._ahead = 0
        """The steps of keys that were pressed before there were rows."""

    @property
    def chosen_id(self) -> str | None:
        return self.rows[self.cursor].id if self.cursor is not None else None

    def set_rows(
        self, rows: Sequence[Row], keep: str | None = None, *, first: bool = False, empty: str = ""
    ) -> str | None:
        """Show these rows with `keep` chosen, at the line of the view it was at.

        When `keep` is not among them the row at the same place is chosen, so that nobody loses the
        place, with `first` the first one. `empty` is said where there are no rows. Returns the id
        of the row that is chosen now.
        """
        before, at = self.chosen_id, self.cursor or 0
        # The line of the view that the chosen row begins at.
        offset = self.tops[at] - int(self.scroll_offset.y)
        was_in_view = before is not None and 0 <= offset < self.scrollable_content_region.height
        self.rows, self.cursor, self._hover = tuple(rows), None, None
        self._message = [Content(empty)] if empty and not rows else []
        self.redraw()
        self._places = [place for place, row in enumerate(rows) if not row.is_heading]
        if self._places:
            start = 0 if keep is None or first else at
            near = next((place for place in self._places if place >= start), self._places[-1])
            is_kept = (place for place in self._places if rows[place].id == keep)
            self.cursor = next(is_kept, near)
        chosen = self.chosen_id
        if was_in_view and keep is not None and (keep == before or not (first or chosen == keep)):
            self._reveal(self.tops[self.cursor or 0] - offset)
        elif chosen != before or keep is None:
            self._reveal(0)
        if chosen != before:
            self.refresh_bindings()
            self.post_message(self.Chosen(self, chosen, by_user=False))
        if self._ahead and self._places:
            self.action_move(self._ahead if self.has_focus else 0)
            self._ahead = 0
        return self.chosen_id

    def show_message(self, lines: Sequence[Content]) -> None:
        self.set_rows(())
        self._message = lines

    def redraw(self) -> None:
        """Draw every row again, for another width or by another clock."""
        lines, self._drawn = self.tops[-1], {}
        self._width = self.scrollable_content_region.width
        self.set_heights(
            row.lines or len(self._lines_of(place)) for place, row in enumerate(self.rows)
        )
        if self.styles.auto_dimensions and self.tops[-1] != lines:
            self.refresh(layout=True)

    def _lines_of(self, place: int) -> list[Content]:
        if place not in self._drawn:
            row = self.rows[place]
            width = max(1, self._width - (0 if row.is_heading else self._margin))
            lines = row.draw(width).split("\n", allow_blank=True)
            self._drawn[place] = [line.truncate(width, ellipsis=True) for line in lines]
        return self._drawn[place]

    def notify_style_update(self) -> None:
        """Forget what was drawn in the old colours."""
        super().notify_style_update()
        self._drawn.clear()

    def _reveal(self, top: int | None = None) -> None:
        """Show the chosen row and the headings right above it; `top` is to be the first line.

        Scrolls as little as is needed for that.
        """
        height, at = self.scrollable_content_region.height, self.cursor
        top = int(self.scroll_offset.y) if top is None else top
        if at is not None and height > 0:
            first = at
            while first > 0 and self.rows[first - 1].is_heading:
                first -= 1
            lowest = min(self.tops[at + 1] - height, self.tops[at])
            top = max(lowest, min(top, max(self.tops[first], lowest)))
        if top != self.scroll_offset.y:
            self.scroll_to_line(top)

    def on_resize(self, event: events.Resize) -> None:
        event.prevent_default()
        if self._width != self.scrollable_content_region.width:
            self.redraw()
        self._reveal()

    def _go(self, place: int, *, by_user: bool = True) -> None:
        is_other, self.cursor = place != self.cursor, place
        self._reveal()
        self.refresh()
        if is_other:
            self.post_message(self.Chosen(self, self.chosen_id, by_user))

    def choose(self, row_id: str, *, by_user: bool = False) -> bool:
        """Choose a row by its id; false when it is not there."""
        place = next((at for at in self._places if self.rows[at].id == row_id), None)
        if place is not None:
            self._go(place, by_user=by_user)
        return place is not None

    def action_move(self, step: int) -> None:
        if self.cursor is not None:
            at = self._places.index(self.cursor) + step
            self._go(self._places[min(max(at, 0), len(self._places) - 1)])
        elif self.has_focus:
            self._ahead += step

    def action_end(self, step: int) -> None:
        if self._places:
            self._go(self._places[0 if step < 0 else -1])

    def action_page(self, pages: int) -> None:
        if self.cursor is None:
            return
        top = self.tops[self.cursor]
        own = self.tops[self.cursor + 1] - top
        page = max(own, self.scrollable_content_region.height - own)
        # Upwards as well, a row that would be cut is not gone to.
        line = top + (page if pages > 0 else own - 1 - page)
        row = bisect_right(self.tops, line) - 1
        places = self._places
        at = bisect_left(places, row) if pages > 0 else bisect_right(places, row) - 1
        self._go(places[min(max(at, 0), len(places) - 1)])

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave Enter out where there is nothing to open."""
        return action != "open" or self.cursor is not None

    def action_open(self) -> None:
        if self.chosen_id is not None:
            self.post_message(self.Opened(self, self.chosen_id))

    def on_click(self, event: events.Click) -> None:
        """First click chooses, a click on the chosen row opens, unless it runs an action."""
        place, _ = self.block_under(event) or (-1, 0)
        if place in self._places:
            is_again = place == self.cursor
            self._go(place)
            if is_again and ON_CLICK not in event.style.meta:
                self.post_message(self.Opened(self, self.rows[place].id))

    def on_mouse_move(self, event: events.MouseMove) -> None:
        place, _ = self.block_under(event) or (-1, 0)
        self._hover = place if place in self._places else None
        self.refresh()

    def on_leave(self) -> None:
        self._hover = None
        self.refresh()

    def line_at(self, at: int) -> Content | None:
        place, below = self.block_at(at) or (-1, 0)
        lines = self._lines_of(place) if place >= 0 else []
        return lines[below] if below < len(lines) else None

    def frame_at(self, at: int) -> tuple[Style, Content]:
        place, below = self.block_at(at) or (0, 0)
        style = self.visual_style
        name = "chosen" if place == self.cursor else "hover" if place == self._hover else ""
        if name:
            # A visual style leaves out `reverse`, by which a row is chosen without colours.
            reverse = self.get_component_styles(f"row-list--{name}").text_style.reverse
            style = self.get_visual_style(f"row-list--{name}") + Style(reverse=reverse)
        if self.rows[place].is_heading:
            return style, Content("")
        is_marked = (place, below) == (self.cursor, 0) and (
            self.has_focus or not self.has_class("-secondary")
        )
        return style, Content((glyphs.MARKER if is_marked else " ").ljust(self._margin))

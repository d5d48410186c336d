"""A list of rows with a chosen one: only the rows on screen are ever drawn."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.strip import Strip

from memtui.tui import format as fmt
from memtui.tui.bindings import bindings
from memtui.tui.present.report import BAR_META
from memtui.tui.widgets.line_view import LineView

_ROWS_KEPT = 500
_REVERSED = Style(reverse=True)


@dataclass(frozen=True, slots=True)
class Row:
    """A row: its id, and how it is drawn in a number of cells."""

    id: str
    draw: Callable[[int], Content]
    lines: int = 1
    """So many lines at every width; 0: as many as are drawn."""
    is_heading: bool = False
    """Whether it is passed over: it cannot be chosen."""


class RowPainter:
    """The lines of rows at one width: where each row begins, and how it is drawn when in view."""

    def __init__(self) -> None:
        self.rows: tuple[Row, ...] = ()
        self.tops: list[int] = [0]
        """The first line of each row, and the number of lines of all."""
        self.width = 1
        self._drawn: dict[int, list[Content]] = {}

    def lay_out(self, rows: Sequence[Row], width: int) -> None:
        """Take rows for a number of cells, and find the first line of every one."""
        self.rows, self.width = tuple(rows), width
        self._drawn.clear()
        heights = (row.lines or len(self.lines_of(at)) for at, row in enumerate(self.rows))
        self.tops = [0, *accumulate(heights)]

    def lines_of(self, at: int) -> list[Content]:
        """Return the lines of a row, none wider than the width; those drawn last are kept."""
        if at not in self._drawn:
            if len(self._drawn) > _ROWS_KEPT:
                self._drawn.clear()
            lines = self.rows[at].draw(self.width).split("\n", allow_blank=True)
            self._drawn[at] = [fmt.fit(line, self.width) for line in lines]
        return self._drawn[at]

    def row_at(self, line: int) -> int:
        """Return the place of the row that has a line; of one below all rows, their number."""
        return bisect_right(self.tops, line) - 1

    def next_row(self, start: int, step: int) -> int | None:
        """Return the first row that can be chosen from `start` on."""
        end = len(self.rows)
        places = range(max(start, 0), end) if step > 0 else range(min(start, end - 1), -1, -1)
        return next((at for at in places if not self.rows[at].is_heading), None)


class RowList(LineView, inherit_bindings=False):
    """Rows of one or more lines, the chosen one kept by its id."""

    DEFAULT_CSS = """
    RowList {
        background: $background;
        padding: 0;
        & > .row-list--hover { background: $foreground 5%; }
        & > .row-list--chosen { background: $foreground 9%; }
        & > .row-list--message { color: $foreground 68%; }
        &.-secondary:blur > .row-list--chosen { background: $background 0%; }
        &:focus > .row-list--chosen { background: $foreground 15%; }
    }
    RowList:nocolor > .row-list--chosen { text-style: reverse; }
    RowList.-secondary:nocolor:blur > .row-list--chosen { text-style: none; }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "row-list--hover", "row-list--chosen", "row-list--message",
    }  # fmt: skip
    BINDINGS: ClassVar[list[BindingType]] = bindings("list")

    class Chosen(Message):
        """Another row was chosen; `row_id` is `None` when there is none left."""

        def __init__(self, row_list: RowList, row_id: str | None, by_user: bool) -> None:
            super().__init__()
            self.row_list = row_list
            self.row_id = row_id
            self.by_user = by_user

        @property
        def control(self) -> RowList:
            """The list."""
            return self.row_list

    class Opened(Message):
        """Enter was pressed on a row, or the chosen row was clicked again."""

        def __init__(self, row_list: RowList, row_id: str, on_bar: bool = False) -> None:
            super().__init__()
            self.row_list = row_list
            self.row_id = row_id
            self.on_bar = on_bar
            """The click was on the score bar."""

        @property
        def control(self) -> RowList:
            """The list."""
            return self.row_list

    def __init__(
        self,
        *,
        id: str,  # noqa: A002 - Textual's name
        marker: str = "›",
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
        self._marker = marker
        self._margin = 1 + gap
        self._opens = opens
        self._secondary = secondary
        self._painter = RowPainter()
        self._places: dict[str, int] = {}
        self._at: int | None = None
        self._hover: int | None = None
        self._message: tuple[Content, ...] = ()

    def worded(self, binding: Binding) -> Binding:
        """Say what Enter does."""
        if binding.action == "open" and self._opens:
            return replace(binding, description=self._opens, show=True)
        return binding

    # --- what is shown --------------------------------------------------------------------------

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows as they were given."""
        return self._painter.rows

    @property
    def cursor(self) -> int | None:
        """Place of the chosen row, from 0; `None` when there is none."""
        return self._at

    @property
    def chosen_id(self) -> str | None:
        """Id of the chosen row."""
        return self._painter.rows[self._at].id if self._at is not None else None

    def set_rows(
        self, rows: Sequence[Row], keep: str | None = None, *, first: bool = False, empty: str = ""
    ) -> None:
        """Show these rows with `keep` chosen, at the line of the view it was at.

        When `keep` is not among them the row at the same place is chosen, so that nobody loses the
        place, with `first` the first one. `empty` is said where there are no rows.
        """
        painter, before, at = self._painter, self.chosen_id, self._at
        # The line of the view that the chosen row begins at.
        offset = painter.tops[at or 0] - int(self.scroll_offset.y)
        was_in_view = at is not None and 0 <= offset < self.scrollable_content_region.height
        painter.lay_out(rows, self._room)
        self._places = {row.id: at for at, row in enumerate(painter.rows) if not row.is_heading}
        self._message = (Content(empty),) if empty else ()
        self._hover = None
        self._at = self._places.get(keep) if keep is not None else None
        is_there = self._at is not None
        if self._at is None:
            start = min(at or 0, len(painter.rows) - 1) if keep is not None and not first else 0
            below = painter.next_row(start, 1)
            self._at = painter.next_row(start, -1) if below is None else below
        self.set_extent(painter.tops[-1])
        if was_in_view and keep is not None and (keep == before or not (first or is_there)):
            self.scroll_to_line(painter.tops[self._at or 0] - offset)
            self._show_chosen()
        elif self.chosen_id != before or keep is None:
            self.scroll_to_line(0)
            self._show_chosen()
        self.refresh()
        if self.chosen_id != before:
            self.post_message(self.Chosen(self, self.chosen_id, by_user=False))

    def show_message(self, lines: Sequence[Content]) -> None:
        """Say something in place of rows."""
        self.set_rows(())
        self._message = tuple(lines)
        self.refresh()

    def redraw(self) -> None:
        """Draw every row again, for another width or by another clock."""
        self._painter.lay_out(self.rows, self._room)
        self.set_extent(self._painter.tops[-1])
        self.refresh()

    def choose(self, row_id: str, *, by_user: bool = False) -> bool:
        """Choose a row by its id; false when it is not there."""
        place = self._places.get(row_id)
        self._go(place, by_user=by_user)
        return place is not None

    # --- scrolling ------------------------------------------------------------------------------

    @property
    def _room(self) -> int:
        """The cells of a row, at least one."""
        return max(1, self.scrollable_content_region.width - self._margin)

    def _show_chosen(self) -> None:
        """Scroll as little as shows the chosen row, and the headings right above it."""
        height = self.scrollable_content_region.height
        if self._at is None or height <= 0:
            return
        first, rows, tops = self._at, self._painter.rows, self._painter.tops
        while first > 0 and rows[first - 1].is_heading:
            first -= 1
        end, own = tops[self._at + 1], tops[self._at]
        begin = max(tops[first], min(end - height, own))
        top = int(self.scroll_offset.y)
        if begin < top:
            self.scroll_to_line(begin)
        elif end > top + height:
            self.scroll_to_line(min(end - height, own))

    def on_resize(self, event: events.Resize) -> None:
        """Draw for the new width, and keep the chosen row in sight."""
        event.prevent_default()
        if self._room != self._painter.width:
            self.redraw()
        self._show_chosen()

    # --- moving ---------------------------------------------------------------------------------

    def action_move(self, step: int) -> None:
        """Choose the row so many rows further, headings not counted; the ends hold."""
        place = self._at
        for _ in range(abs(step)):
            start = 0 if place is None else place + (1 if step > 0 else -1)
            beyond = self._painter.next_row(start, step)
            if beyond is None:
                break
            place = beyond
        self._go(place)

    def _go(self, place: int | None, *, by_user: bool = True) -> None:
        if place is None:
            return
        is_other, self._at = place != self._at, place
        self._show_chosen()
        self.refresh()
        if is_other:
            self.post_message(self.Chosen(self, self.chosen_id, by_user))

    def action_end(self, step: int) -> None:
        """Choose the first row or the last."""
        self._go(self._painter.next_row(0 if step < 0 else len(self.rows) - 1, -step))

    def action_page(self, pages: int) -> None:
        """Choose a row almost a page further."""
        if self._at is None:
            return
        painter = self._painter
        own = painter.tops[self._at + 1] - painter.tops[self._at]
        page = max(own, self.scrollable_content_region.height - own)
        # Upwards as well, a row that would be cut is not gone to.
        line = painter.tops[self._at] + (page if pages > 0 else own - 1 - page)
        start = min(max(painter.row_at(line), 0), len(self.rows) - 1)
        place = painter.next_row(start, pages)
        self._go(painter.next_row(start, -pages) if place is None else place)

    def action_open(self) -> None:
        """Open the chosen row."""
        if self.chosen_id is not None:
            self.post_message(self.Opened(self, self.chosen_id))

    # --- mouse ----------------------------------------------------------------------------------

    def on_click(self, event: events.Click) -> None:
        """First click chooses, a click on the chosen row opens, a click on the bar explains."""
        place = self._under(event)
        if place is None:
            return
        on_bar = event.style.meta.get("part") == BAR_META["part"]
        again = place == self._at
        self._go(place)
        if again or on_bar:
            self.post_message(self.Opened(self, self.rows[place].id, on_bar))

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Show which row the mouse is over."""
        self._hover = self._under(event)
        self.refresh()

    def on_leave(self) -> None:
        """Show no row below the mouse any more."""
        self._hover = None
        self.refresh()

    def _under(self, event: events.MouseEvent) -> int | None:
        """Return the row under the mouse that can be chosen; `None` for none."""
        offset = event.get_content_offset(self)
        line = -1 if offset is None else int(self.scroll_offset.y) + offset.y
        place = self._painter.row_at(line)
        return place if 0 <= place < len(self.rows) and not self.rows[place].is_heading else None

    # --- drawing --------------------------------------------------------------------------------

    def notify_style_update(self) -> None:
        """Forget what was drawn in the old colours."""
        super().notify_style_update()
        self._painter.lay_out(self.rows, self._room)

    def render_line(self, y: int) -> Strip:
        """Draw one line of the view."""
        width, painter = self.scrollable_content_region.width, self._painter
        if not painter.rows:
            return self._message_line(y, width)
        if self._room != painter.width:
            # The rows came while the list was hidden.
            self.redraw()
        line = int(self.scroll_offset.y) + y
        place = painter.row_at(line)
        below = line - painter.tops[min(place, len(painter.rows))]
        if place >= len(painter.rows) or below >= len(lines := painter.lines_of(place)):
            return Strip.blank(max(0, width), self.rich_style)
        is_chosen = place == self._at
        state = "chosen" if is_chosen else "hover" if place == self._hover else ""
        style = self.get_visual_style(f"row-list--{state}") if state else self.visual_style
        base = style.rich_style
        is_marked = is_chosen and not below and (self.has_focus or not self._secondary)
        head = (self._marker if is_marked else " ").ljust(self._margin)
        segments = [Segment(head, base), *lines[below].render_segments(style)]
        strip = Strip(segments).crop_extend(0, max(0, width), base)
        # A visual style does not hold `reverse`, by which a row is chosen without colours.
        if state and self.get_component_styles(f"row-list--{state}").text_style.reverse:
            strip = strip.apply_style(_REVERSED)
        return strip

    def _message_line(self, y: int, width: int) -> Strip:
        # The first line is free where there is room for that.
        number = y - 1 if self.size.height > len(self._message) + 1 else y
        lines = [line for part in self._message for line in part.wrap(max(1, width - 2))]
        if not 0 <= number < len(lines):
            return Strip.blank(max(0, width), self.rich_style)
        strip = Strip(
            (" " + lines[number]).render_segments(self.get_visual_style("row-list--message"))
        )
        return strip.crop_extend(0, width, self.rich_style)

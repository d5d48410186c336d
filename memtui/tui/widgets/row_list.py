"""A list of rows with a chosen one: only the rows on screen are ever drawn."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from operator import attrgetter
from typing import ClassVar

from msgspec import Struct
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip

from memtui.tui.bindings import bindings
from memtui.tui.widgets.line_view import LineView

BAR_META = {"part": "bar"}
"""In the style of a score bar, on which a click explains the row."""


class Row(Struct, frozen=True):
    """A row: its id, and how it is drawn in a number of cells."""

    id: str
    draw: Callable[[int], Content]
    lines: int = 1
    """So many lines at every width; 0: as many as are drawn."""
    is_heading: bool = False
    """Whether it is passed over: it cannot be chosen."""


class RowList(LineView, inherit_bindings=False):
    """Rows of one or more lines, the chosen one kept by its id."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"row-list--hover", "row-list--chosen"}
    BINDINGS: ClassVar[list[BindingType]] = bindings("list")

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
        on_bar: bool = False
        """The click was on the score bar."""
        control = property(attrgetter("row_list"))

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
        self.rows: tuple[Row, ...] = ()
        """The rows as they were given."""
        self.cursor: int | None = None
        """Place of the chosen row, from 0; `None` when there is none."""
        self._marker = marker
        self._margin = 1 + gap
        self._opens = opens
        self._secondary = secondary
        self._room = 1
        """The cells of a row for which `_tops` and `_drawn` are."""
        self._places: list[int] = []
        """The places of the rows that can be chosen."""
        self._tops = [0]
        """The first line of each row, and the number of lines of all."""
        self._drawn: dict[int, list[Content]] = {}
        """The lines of the rows that were drawn, by place."""
        self._hover: int | None = None

    def worded(self, binding: Binding) -> Binding:
        """Say what Enter does."""
        if binding.action == "open" and self._opens:
            return replace(binding, description=self._opens, show=True)
        return binding

    # --- what is shown --------------------------------------------------------------------------

    @property
    def chosen_id(self) -> str | None:
        """Id of the chosen row."""
        return self.rows[self.cursor].id if self.cursor is not None else None

    def set_rows(
        self, rows: Sequence[Row], keep: str | None = None, *, first: bool = False, empty: str = ""
    ) -> str | None:
        """Show these rows with `keep` chosen, at the line of the view it was at.

        When `keep` is not among them the row at the same place is chosen, so that nobody loses the
        place, with `first` the first one. `empty` is said where there are no rows. Returns the id
        of the row that is chosen now.
        """
        at, lines = self.cursor, self._tops[-1]
        before = self.rows[at].id if at is not None else None
        # The line of the view that the chosen row begins at.
        offset = self._tops[at or 0] - int(self.scroll_offset.y)
        was_in_view = at is not None and 0 <= offset < self.scrollable_content_region.height
        self.rows, self.cursor, self._hover = tuple(rows), None, None
        self._message = (Content(empty),) if empty else ()
        self._lay_out()
        if self._places:
            start = at or 0 if keep is not None and not first else 0
            next_place = next((place for place in self._places if place >= start), self._places[-1])
            is_kept = (place for place in self._places if self.rows[place].id == keep)
            self.cursor = next(is_kept, next_place)
        chosen = self.rows[self.cursor].id if self.cursor is not None else None
        if was_in_view and keep is not None and (keep == before or not (first or chosen == keep)):
            self._show_chosen(self._tops[self.cursor or 0] - offset)
        elif chosen != before or keep is None:
            self._show_chosen(0)
        self.refresh(layout=self.styles.auto_dimensions and self._tops[-1] != lines)
        if chosen != before:
            self.post_message(self.Chosen(self, chosen, by_user=False))
        return chosen

    def show_message(self, lines: Sequence[Content]) -> None:
        """Say something in place of rows."""
        self.set_rows(())
        self._message = tuple(lines)

    def redraw(self) -> None:
        """Draw every row again, for another width or by another clock."""
        self._lay_out()
        self.refresh()

    def _lay_out(self) -> None:
        self._room = max(1, self.scrollable_content_region.width - self._margin)
        self._drawn = {at: self._lines_of(at) for at, row in enumerate(self.rows) if not row.lines}
        self._places = [at for at, row in enumerate(self.rows) if not row.is_heading]
        heights = (row.lines or len(self._drawn[at]) for at, row in enumerate(self.rows))
        self._tops = [0, *accumulate(heights)]
        self.virtual_size = Size(1, self._tops[-1])

    def _lines_of(self, at: int) -> list[Content]:
        """Return the lines of a row, none wider than the room."""
        lines = self.rows[at].draw(self._room).split("\n", allow_blank=True)
        return [line.truncate(self._room, ellipsis=True) for line in lines]

    def choose(self, row_id: str, *, by_user: bool = False) -> bool:
        """Choose a row by its id; false when it is not there."""
        place = next((at for at in self._places if self.rows[at].id == row_id), None)
        if place is not None:
            self._go(place, by_user=by_user)
        return place is not None

    # --- moving and scrolling -------------------------------------------------------------------

    def _show_chosen(self, top: int | None = None) -> None:
        """Show the chosen row and the headings right above it; `top` is to be the first line.

        Scrolls as little as is needed for that.
        """
        height, tops, at = self.scrollable_content_region.height, self._tops, self.cursor
        top = int(self.scroll_offset.y) if top is None else top
        if at is not None and height > 0:
            first = at
            while first > 0 and self.rows[first - 1].is_heading:
                first -= 1
            lowest = min(tops[at + 1] - height, tops[at])
            top = max(lowest, min(top, max(tops[first], lowest)))
        if top != self.scroll_offset.y:
            self.scroll_to_line(top)

    def on_resize(self, event: events.Resize) -> None:
        event.prevent_default()
        if self._room != self.scrollable_content_region.width - self._margin:
            self.redraw()
        self._show_chosen()

    def _go(self, place: int, *, by_user: bool = True) -> None:
        is_other, self.cursor = place != self.cursor, place
        self._show_chosen()
        self.refresh()
        if is_other:
            self.post_message(self.Chosen(self, self.chosen_id, by_user))

    def action_move(self, step: int) -> None:
        """Choose the row so many rows further, headings not counted; the ends hold."""
        if self.cursor is not None:
            at = self._places.index(self.cursor) + step
            self._go(self._places[min(max(at, 0), len(self._places) - 1)])

    def action_end(self, step: int) -> None:
        if self._places:
            self._go(self._places[0 if step < 0 else -1])

    def action_page(self, pages: int) -> None:
        if self.cursor is None:
            return
        top = self._tops[self.cursor]
        own = self._tops[self.cursor + 1] - top
        page = max(own, self.scrollable_content_region.height - own)
        # Upwards as well, a row that would be cut is not gone to.
        line = top + (page if pages > 0 else own - 1 - page)
        row = bisect_right(self._tops, line) - 1
        places = self._places
        at = bisect_left(places, row) if pages > 0 else bisect_right(places, row) - 1
        self._go(places[min(max(at, 0), len(places) - 1)])

    def action_open(self) -> None:
        if self.chosen_id is not None:
            self.post_message(self.Opened(self, self.chosen_id))

    # --- mouse ----------------------------------------------------------------------------------

    def on_click(self, event: events.Click) -> None:
        """First click chooses, a click on the chosen row opens, a click on the bar explains."""
        if (place := self._under(event)) is None:
            return
        on_bar = event.style.meta.get("part") == BAR_META["part"]
        is_again = place == self.cursor
        self._go(place)
        if is_again or on_bar:
            self.post_message(self.Opened(self, self.rows[place].id, on_bar))

    def on_mouse_move(self, event: events.MouseMove) -> None:
        self._hover = self._under(event)
        self.refresh()

    def on_leave(self) -> None:
        self._hover = None
        self.refresh()

    def _under(self, event: events.MouseEvent) -> int | None:
        """Return the row under the mouse that can be chosen; `None` for none."""
        offset = event.get_content_offset(self)
        line = -1 if offset is None else int(self.scroll_offset.y) + offset.y
        place = bisect_right(self._tops, line) - 1
        return place if place in self._places else None

    # --- drawing --------------------------------------------------------------------------------

    def notify_style_update(self) -> None:
        """Forget what was drawn in the old colours."""
        super().notify_style_update()
        self._drawn.clear()

    def render_line(self, y: int) -> Strip:
        width = max(0, self.scrollable_content_region.width)
        if not self.rows:
            return self._message_line(y, width)
        if self._room != max(1, width - self._margin):
            # The rows came while the list was hidden.
            self.redraw()
        line = int(self.scroll_offset.y) + y
        place = bisect_right(self._tops, line) - 1
        if place >= len(self.rows):
            return Strip.blank(width, self.rich_style)
        if place not in self._drawn:
            self._drawn[place] = self._lines_of(place)
        lines, below = self._drawn[place], line - self._tops[place]
        if below >= len(lines):
            return Strip.blank(width, self.rich_style)
        is_chosen = place == self.cursor
        state = "chosen" if is_chosen else "hover" if place == self._hover else ""
        style = self.get_visual_style(f"row-list--{state}") if state else self.visual_style
        base = style.rich_style
        is_marked = is_chosen and not below and (self.has_focus or not self._secondary)
        head = (self._marker if is_marked else " ").ljust(self._margin)
        segments = [Segment(head, base), *lines[below].render_segments(style)]
        strip = Strip(segments).crop_extend(0, width, base)
        # A visual style does not hold `reverse`, by which a row is chosen without colours.
        if state and self.get_component_styles(f"row-list--{state}").text_style.reverse:
            strip = strip.apply_style(Style(reverse=True))
        return strip

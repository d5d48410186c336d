"""A list of thousands of rows of one height: only the rows on screen are ever drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from memtui.tui import format as fmt
from memtui.tui.bindings import LIST_BINDINGS
from memtui.tui.widgets.row_list import Row

_ROWS_KEPT = 500
_REVERSED = Style(reverse=True)


@dataclass(frozen=True, slots=True)
class HeadingRow(Row):
    """A row that is passed over: it cannot be chosen."""


class LongList(ScrollView, can_focus=True):
    """Rows of one height with a chosen one, which is kept by its id."""

    DEFAULT_CSS = """
    LongList {
        border: round $foreground 25%;
        border-title-color: $text-muted;
        border-subtitle-color: $text-muted;
        background: $background;
        height: 1fr;
        overflow-x: hidden;
        scrollbar-size-vertical: 1;
        scrollbar-size-horizontal: 0;
        scrollbar-gutter: stable;
        & > .long-list--chosen { background: $foreground 9%; }
        & > .long-list--message { color: $foreground 68%; }
        &.-secondary:blur > .long-list--chosen { background: $background 0%; }
        &:focus {
            border: round $primary;
            border-title-color: $primary;
            & > .long-list--chosen { background: $foreground 15%; }
        }
    }
    LongList:nocolor > .long-list--chosen { text-style: reverse; }
    LongList.-secondary:nocolor:blur > .long-list--chosen { text-style: none; }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"long-list--chosen", "long-list--message"}
    BINDINGS: ClassVar[list[BindingType]] = [
        *LIST_BINDINGS,
        Binding("down", "cursor_down", "down", show=False),
        Binding("up", "cursor_up", "up", show=False),
        Binding("home", "first", "first", show=False),
        Binding("end", "last", "last", show=False),
        Binding("space,ctrl+d,pagedown", "page(1)", "page down", show=False, id="lines.page"),
        Binding("ctrl+u,pageup", "page(-1)", "page up", show=False, id="lines.page_back"),
        Binding("enter", "open", "open", show=False, id="list.open", tooltip="The chosen row"),
    ]

    class Chosen(Message):
        """Another row was chosen; `row_id` is `None` when there is none left."""

        def __init__(self, long_list: LongList, row_id: str | None, by_user: bool) -> None:
            super().__init__()
            self.long_list = long_list
            self.row_id = row_id
            self.by_user = by_user

        @property
        def control(self) -> LongList:
            """The list."""
            return self.long_list

    class Opened(Message):
        """Enter was pressed on a row, or the chosen row was clicked again."""

        def __init__(self, long_list: LongList, row_id: str) -> None:
            super().__init__()
            self.long_list = long_list
            self.row_id = row_id

        @property
        def control(self) -> LongList:
            """The list."""
            return self.long_list

    def __init__(
        self,
        *,
        id: str,  # noqa: A002 - Textual's name
        marker: str = "›",
        opens: str = "",
        gap: int = 1,
        secondary: bool = False,
        classes: str = "",
    ) -> None:
        """`opens` is what Enter does, in a word for the key bar.

        `gap` is the number of cells between the marker and the row.
        `secondary`: the chosen row is marked only while the list has the focus.
        """
        super().__init__(id=id, classes=f"{classes} -secondary" if secondary else classes)
        self._opens = opens
        self._marker = marker
        self._margin = 1 + gap
        self._secondary = secondary
        self._rows: tuple[Row, ...] = ()
        self._places: dict[str, int] = {}
        self._lines = 1
        self._at: int | None = None
        self._message: tuple[Content, ...] = ()
        self._drawn: dict[int, list[Content]] = {}
        self._drawn_width = -1

    def worded(self, binding: Binding) -> Binding:
        """Say what Enter does."""
        if binding.action == "open" and self._opens:
            return replace(binding, description=self._opens, show=True)
        return binding

    # --- what is shown --------------------------------------------------------------------------

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows as they were given."""
        return self._rows

    @property
    def cursor(self) -> int | None:
        """Place of the chosen row, from 0; `None` when there is none."""
        return self._at

    @property
    def chosen_id(self) -> str | None:
        """Id of the chosen row."""
        return self._rows[self._at].id if self._at is not None else None

    def set_rows(
        self, rows: Sequence[Row], keep: str | None = None, *, lines: int = 1, empty: str = ""
    ) -> None:
        """Show rows of so many lines each with `keep` chosen; at the line of the view it was at.

        When `keep` is not among them, the row at the same place is chosen, so that nobody loses
        the place; without `keep` it is the first. `empty` is what stands there without rows.
        """
        before, at, offset = self.chosen_id, self._at, self._offset
        self._rows, self._lines = tuple(rows), max(1, lines)
        self._places = {
            row.id: place for place, row in enumerate(self._rows) if not isinstance(row, HeadingRow)
        }
        self._drawn.clear()
        self._message = (Content(empty),) if empty else ()
        self._at = self._kept(keep, at)
        self._set_extent()
        stays = keep is not None and (keep == before or keep not in self._places)
        self._scroll_back(offset if stays else None, stays=self.chosen_id == before)
        self.refresh()
        if self.chosen_id != before:
            self.post_message(self.Chosen(self, self.chosen_id, by_user=False))

    def _kept(self, keep: str | None, at: int | None) -> int | None:
        place = self._places.get(keep) if keep is not None else None
        if place is None:
            start = min(at or 0, len(self._rows) - 1) if keep is not None else 0
            place = self._next(start, 1)
            place = self._next(start, -1) if place is None else place
        return place

    def show_message(self, lines: Sequence[Content]) -> None:
        """Say something in place of rows."""
        self.set_rows(())
        self._message = tuple(lines)
        self.refresh()

    def choose(self, row_id: str, *, by_user: bool = False) -> bool:
        """Choose a row by its id; false when it is not there."""
        place = self._places.get(row_id)
        self._go(place, by_user=by_user)
        return place is not None

    # --- scrolling ------------------------------------------------------------------------------

    @property
    def _height(self) -> int:
        return self.scrollable_content_region.height

    @property
    def _offset(self) -> int | None:
        """The line of the view that the chosen row begins at; `None` when it is out of view."""
        offset = (self._at or 0) * self._lines - int(self.scroll_offset.y)
        return offset if self._at is not None and 0 <= offset < self._height else None

    def _set_extent(self) -> None:
        # Not by assigning `virtual_size`: that lays out the whole screen, for nothing.
        extent = Size(0, len(self._rows) * self._lines)
        if extent != self.virtual_size:
            self.set_reactive(ScrollView.virtual_size, extent)
            if self.is_mounted and self.size:
                self._scroll_update(extent)

    def _scroll_back(self, offset: int | None, *, stays: bool) -> None:
        """Put the chosen row where it was; leave what was scrolled away from it as it is."""
        if offset is not None:
            self._scroll_to_line((self._at or 0) * self._lines - offset)
        elif not stays:
            self._scroll_to_line(0)
        if offset is not None or not stays:
            self._show_chosen()

    def _scroll_to_line(self, line: int) -> None:
        self.scroll_to(y=max(0, line), animate=False, force=True, immediate=True)

    def _show_chosen(self) -> None:
        """Scroll as little as shows the chosen row, and the headings right above it."""
        if self._at is None or self._height <= 0:
            return
        first = self._at
        while first > 0 and isinstance(self._rows[first - 1], HeadingRow):
            first -= 1
        end = (self._at + 1) * self._lines
        begin = max(first * self._lines, end - max(self._height, self._lines))
        top = int(self.scroll_offset.y)
        if begin < top:
            self._scroll_to_line(begin)
        elif end > top + self._height:
            self._scroll_to_line(end - self._height)

    def on_resize(self) -> None:
        """Keep the chosen row in sight."""
        self._show_chosen()

    # --- moving ---------------------------------------------------------------------------------

    def move(self, step: int) -> None:
        """Choose the row so many rows further, headings not counted; the ends hold."""
        place = self._at
        for _ in range(abs(step)):
            beyond = self._next(0 if place is None else place + (1 if step > 0 else -1), step)
            if beyond is None:
                break
            place = beyond
        self._go(place)

    def _next(self, start: int, step: int) -> int | None:
        """The first row that can be chosen from `start` on."""
        end = len(self._rows)
        places = range(max(start, 0), end) if step > 0 else range(min(start, end - 1), -1, -1)
        return next((at for at in places if not isinstance(self._rows[at], HeadingRow)), None)

    def _go(self, place: int | None, *, by_user: bool = True) -> None:
        if place is None:
            return
        is_other, self._at = place != self._at, place
        self._show_chosen()
        self.refresh()
        if is_other:
            self.post_message(self.Chosen(self, self.chosen_id, by_user))

    def action_cursor_down(self) -> None:
        """Choose the next row."""
        self.move(1)

    def action_cursor_up(self) -> None:
        """Choose the row before."""
        self.move(-1)

    def action_first(self) -> None:
        """Choose the first row."""
        self._go(self._next(0, 1))

    def action_last(self) -> None:
        """Choose the last row."""
        self._go(self._next(len(self._rows) - 1, -1))

    def action_page(self, pages: int) -> None:
        """Choose a row almost a page further."""
        if self._at is None:
            return
        page = max(1, self._height // self._lines - 1)
        start = min(max(self._at + pages * page, 0), len(self._rows) - 1)
        place = self._next(start, pages)
        self._go(self._next(start, -pages) if place is None else place)

    def action_open(self) -> None:
        """Open the chosen row."""
        if self.chosen_id is not None:
            self.post_message(self.Opened(self, self.chosen_id))

    def on_click(self, event: events.Click) -> None:
        """First click chooses, a click on the chosen row opens."""
        offset = event.get_content_offset(self)
        if offset is None:
            return
        at = (int(self.scroll_offset.y) + offset.y) // self._lines
        if at >= len(self._rows) or isinstance(self._rows[at], HeadingRow):
            return
        if at == self._at:
            self.action_open()
        else:
            self._go(at)

    # --- drawing --------------------------------------------------------------------------------

    def notify_style_update(self) -> None:
        """Forget what was drawn in the old colours."""
        super().notify_style_update()
        self._drawn.clear()

    def render_line(self, y: int) -> Strip:
        """Draw one line of the view."""
        width = self.scrollable_content_region.width
        if not self._rows:
            return self._message_line(y, width)
        at, line = divmod(int(self.scroll_offset.y) + y, self._lines)
        if at >= len(self._rows) or width < 1:
            return Strip.blank(max(0, width), self.rich_style)
        is_chosen = at == self._at
        style = self.get_visual_style("long-list--chosen") if is_chosen else self.visual_style
        lines = self._lines_of(at, max(1, width - self._margin))
        content = lines[line] if line < len(lines) else Content("")
        marked = is_chosen and line == 0 and (self.has_focus or not self._secondary)
        head = (self._marker if marked else " ").ljust(self._margin)
        strip = Strip([Segment(head, style.rich_style), *content.render_segments(style)])
        strip = strip.crop_extend(0, width, style.rich_style)
        # A visual style does not hold `reverse`, by which a row is seen as chosen without colours.
        chosen_style = self.get_component_styles("long-list--chosen").text_style
        return strip.apply_style(_REVERSED) if is_chosen and chosen_style.reverse else strip

    def _message_line(self, y: int, width: int) -> Strip:
        # The first line is free where there is room for that.
        number = y - 1 if self.size.height > len(self._message) + 1 else y
        lines = [line for part in self._message for line in part.wrap(max(1, width - 2))]
        if not 0 <= number < len(lines):
            return Strip.blank(max(0, width), self.rich_style)
        style = self.get_visual_style("long-list--message")
        strip = Strip((" " + lines[number]).render_segments(style))
        return strip.crop_extend(0, width, self.rich_style)

    def _lines_of(self, at: int, width: int) -> list[Content]:
        if width != self._drawn_width or len(self._drawn) > _ROWS_KEPT:
            self._drawn.clear()
            self._drawn_width = width
        if at not in self._drawn:
            drawn = self._rows[at].draw(width).split("\n", allow_blank=True)
            self._drawn[at] = [fmt.fit(line, width) for line in drawn]
        return self._drawn[at]

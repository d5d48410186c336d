"""A list whose rows are drawn for the width at hand, with a marker beside the chosen one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal, TypeAlias

from rich.segment import Segment
from rich.style import Style as RichStyle
from textual import events
from textual.binding import BindingType
from textual.content import Content
from textual.css.styles import RulesMap
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import Reactive
from textual.strip import Strip
from textual.style import Style
from textual.visual import RenderOptions, Visual
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from memtui.tui.bindings import LIST_BINDINGS
from memtui.tui.format import fit
from memtui.tui.widgets.score_bar import BAR_META

ParseStyle: TypeAlias = Callable[[str | Style], Style]

MARKER_PLACE = "\u00a0"
"""First character of a row: the marker takes its place on the chosen row."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row: its id, and how it is drawn in a number of cells."""

    id: str
    draw: Callable[[int], Content]
    lines: int = 0
    """So many lines at every width; 0: as many as are drawn."""


class _RowVisual(Visual):
    """A row that is drawn when it comes into view, or when it alone knows how high it is."""

    def __init__(self, row: Row) -> None:
        self.row = row
        self._width = -1
        self._content = Content("")
        self._strips: tuple[Style, list[Strip]] | None = None

    @property
    def is_drawn(self) -> bool:
        """Whether anything of it can be on screen."""
        return self._width >= 0

    def content(self, width: int) -> Content:
        """Draw the row for a width, once."""
        if width != self._width:
            self._content = self.row.draw(width) if width > 0 else Content("")
            self._width = width
            self._strips = None
        return self._content

    def take(self, row: Row) -> bool:
        """Be another row from now on; false, and unchanged, where that would be seen."""
        if self.is_drawn and self._width > 0:
            content = row.draw(self._width)
            if not content.is_same(self._content):
                return False
        self.row = row
        return True

    def get_optimal_width(self, rules: RulesMap, container_width: int) -> int:
        """As wide as there is room."""
        return container_width

    def get_height(self, rules: RulesMap, width: int) -> int:
        """The lines of the row."""
        return self.row.lines or self.content(width).get_height(rules, width)

    def render_strips(
        self, width: int, height: int | None, style: Style, options: RenderOptions
    ) -> list[Strip]:
        """Draw the row."""
        return self.content(width).render_strips(width, height, style, options)

    def strips(self, width: int, style: Style, parse: ParseStyle) -> Sequence[Strip]:
        """The lines of the row, each as wide as the list; those of one style are kept."""
        content = self.content(width)
        if self._strips is None or self._strips[0] != style:
            lines = content.split("\n", allow_blank=True)
            self._strips = style, [_strip(fit(line, width), width, style, parse) for line in lines]
        return self._strips[1]


class RowList(OptionList):
    """An option list of `Row`s that keeps the chosen row by id and redraws on resize."""

    BINDINGS: ClassVar[list[BindingType]] = list(LIST_BINDINGS)

    DEFAULT_CSS = """
    RowList {
        border: round $foreground 25%;
        border-title-color: $text-muted;
        border-subtitle-color: $text-muted;
        border-title-style: none;
        background: $background;
        padding: 0;
        height: 1fr;
        scrollbar-size-vertical: 1;
        scrollbar-size-horizontal: 0;
        scrollbar-gutter: stable;
        text-wrap: nowrap;
        text-overflow: ellipsis;
        & > .option-list--option { padding: 0; }
        & > .option-list--option-highlighted {
            background: $foreground 9%;
            color: $foreground;
            text-style: none;
        }
        &.-secondary:blur > .option-list--option-highlighted { background: $background 0%; }
        & > .option-list--option-hover { background: $foreground 5%; }
        & > .option-list--option-disabled { color: $text-muted; }
        &:focus {
            border: round $primary;
            border-title-color: $primary;
            background-tint: $foreground 0%;
            & > .option-list--option-highlighted {
                background: $foreground 15%;
                color: $foreground;
                text-style: none;
            }
        }
    }
    RowList:nocolor > .option-list--option-highlighted { text-style: reverse; }
    """

    virtual_size = Reactive(Size(0, 0))
    """How far there is to scroll, without the layout of the whole screen that Textual does for it.

    A list as high as its rows is laid out as they are set; any other does not depend on it.
    """

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
        secondary: bool = False,
    ) -> None:
        """`secondary`: the chosen row is marked only while the list has the focus."""
        super().__init__(id=id, markup=False, classes="-secondary" if secondary else None)
        self._secondary = secondary
        self._rows: tuple[Row, ...] = ()
        self._visuals: list[_RowVisual] = []
        self._drawn_width = -1
        self._marker = marker
        self._looks: dict[str, Style] = {}

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows as they were given."""
        return self._rows

    @property
    def chosen_id(self) -> str | None:
        """Id of the chosen row."""
        option = self.highlighted_option
        return option.id if option is not None else None

    def set_rows(self, rows: Sequence[Row], keep: str | None = None) -> None:
        """Show these rows; choose `keep` when it is among them, else the first."""
        before = self.chosen_id
        top = self.scroll_offset.y if keep is not None else 0
        if not self._take(rows, keep, top):
            self._rows = tuple(rows)
            self._draw(keep, top)
        if self.chosen_id != before:
            self.post_message(self.Chosen(self, self.chosen_id, by_user=False))

    def _take(self, rows: Sequence[Row], keep: str | None, top: int) -> bool:
        """Take rows that look like those on screen, so that nothing is drawn; false for others."""
        places = [(row.id, row.lines) for row in rows]
        if (
            not rows
            or top != self.scroll_offset.y
            or self._drawn_width != self.scrollable_content_region.width
            or places != [(row.id, row.lines) for row in self._rows]
            or self.chosen_id != (keep if keep in {row.id for row in rows} else rows[0].id)
            or not all(map(_RowVisual.take, self._visuals, rows))
        ):
            return False
        self._rows = tuple(rows)
        return True

    def move(self, step: int) -> None:
        """Choose the next or the previous row; the ends hold."""
        if not self._rows:
            return
        at = self.highlighted if self.highlighted is not None else -1
        self.highlighted = min(max(at + step, 0), len(self._rows) - 1)

    def choose(self, row_id: str) -> None:
        """Choose a row by id; does nothing when it is not there."""
        for index, row in enumerate(self._rows):
            if row.id == row_id:
                self.highlighted = index

    def action_page_up(self) -> None:
        """Choose the row one page further up."""
        self._turn_page(-1)

    def action_page_down(self) -> None:
        """Choose the row one page further down."""
        self._turn_page(1)

    def _turn_page(self, direction: Literal[-1, 1]) -> None:
        # Without room no row has lines, by which Textual counts the page.
        if self.highlighted is not None and self._lines:
            self._move_page(direction)

    def redraw(self) -> None:
        """Draw every row again, for instance for other colours or another clock."""
        self._draw(self.chosen_id, self.scroll_offset.y)

    def _draw(self, keep: str | None, top: int) -> None:
        self._drawn_width = self.scrollable_content_region.width
        self._visuals = [_RowVisual(row) for row in self._rows]
        with self.prevent(OptionList.OptionHighlighted):
            self.set_options(Option(visual, id=visual.row.id) for visual in self._visuals)
            places = {row.id: index for index, row in enumerate(self._rows)}
            self.scroll_to(y=top, animate=False, immediate=True)
            self.highlighted = places.get(keep or "", 0 if self._rows else None)

    def on_resize(self, event: events.Resize) -> None:
        """Draw the rows for the new width."""
        if self.scrollable_content_region.width != self._drawn_width:
            self.call_after_refresh(self.redraw)

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Tell that the user chose a row."""
        event.stop()
        self.post_message(self.Chosen(self, event.option_id, by_user=True))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Tell that Enter was pressed on a row."""
        event.stop()
        if event.option_id is not None:
            self.post_message(self.Opened(self, event.option_id))

    def on_click(self, event: events.Click) -> None:
        """First click chooses, a click on the chosen row opens, a click on the bar explains."""
        event.prevent_default()
        index = self._row_at(event)
        if index is None:
            return
        on_bar = event.style.meta.get("part") == BAR_META["part"]
        again = self.highlighted == index
        self.highlighted = index
        if again or on_bar:
            self.post_message(self.Opened(self, self._rows[index].id, on_bar))

    def _on_mouse_move(self, event: events.MouseMove) -> None:
        """Show which row the mouse is over."""
        event.prevent_default()
        self._mouse_hovering_over = self._row_at(event)

    def _row_at(self, event: events.MouseEvent) -> int | None:
        """The row under the mouse; `None` for none."""
        place = event.get_content_offset(self)
        at = -1 if place is None else place.y + int(self.scroll_offset.y)
        return self._lines[at][0] if 0 <= at < len(self._lines) else None

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw some lines; what they have in common is asked for once."""
        self._looks.clear()
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        """Draw a line; the chosen row has the marker in its first cell."""
        width = self.scrollable_content_region.width
        lines = self._line_cache.lines
        at = int(self.scroll_offset.y) + y
        if at >= len(lines):
            return Strip.blank(width, self._look("").rich_style)
        index, line = lines[at]
        strips = self._visuals[index].strips(width, self._look(self._state(index)), self._get_style)
        if line >= len(strips):
            return Strip.blank(width, self._look("").rich_style)
        return self._marked(strips[line], index)

    def _state(self, index: int) -> str:
        """The component class of a row, beside that of every row; empty for none."""
        if self.options[index].disabled:
            return "option-list--option-disabled"
        if self.highlighted == index:
            return "option-list--option-highlighted"
        return "option-list--option-hover" if self._mouse_hovering_over == index else ""

    def _look(self, state: str) -> Style:
        if state not in self._looks:
            classes = ("option-list--option", state) if state else ("option-list--option",)
            self._looks[state] = self.get_visual_style(*classes)
        return self._looks[state]

    def _marked(self, strip: Strip, index: int) -> Strip:
        first = next(iter(strip), None)
        if first is None or not first.text.startswith(MARKER_PLACE):
            return strip
        marked = index == self.highlighted and (self.has_focus or not self._secondary)
        head = Segment((self._marker if marked else " ") + first.text[1:], first.style)
        return Strip([head, *list(strip)[1:]], strip.cell_length)


def _strip(line: Content, width: int, style: Style, parse: ParseStyle) -> Strip:
    segments = [Segment(text, _rich(look)) for text, look in line.render(style, "", parse)]
    return Strip(segments, line.cell_length).extend_cell_length(width, _rich(style))


@lru_cache(maxsize=1024)
def _rich(style: Style) -> RichStyle:
    """The same style as the terminal gets it; rows are drawn in a few dozen of them."""
    return style.rich_style

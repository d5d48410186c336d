"""The days of a memory as a map of weeks and weekdays, with a cursor on one day."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.binding import BindingType
from textual.content import Content
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from memtui.model.browsing import DayTotals
from memtui.tui.bindings import bindings
from memtui.tui.browsing.file_words import WEEKDAYS
from memtui.tui.browsing.marks import UNICODE, Marks
from memtui.tui.browsing.weeks import (
    WEEKS,
    Measure,
    Window,
    levels,
    month_labels,
    moved,
    nearest_with_notes,
    window_ending,
)

ROWS = 8
"""The months and the seven days of a week."""
LABEL_CELLS = 5
_DOUBLE = 2 * WEEKS + LABEL_CELLS
_YEAR = 7 * 52


class HeatMap(Widget, can_focus=True):
    """Weeks from left to right, Monday on top; the darker a day the more there is of it."""

    DEFAULT_CSS = """
    HeatMap {
        height: 8;
        width: 59;
        & > .heat-map--label { color: $foreground 68%; }
        & > .heat-map--0 { color: $foreground 30%; }
        & > .heat-map--1 { color: $primary 55%; }
        & > .heat-map--2 { color: $primary 70%; }
        & > .heat-map--3 { color: $primary 85%; }
        & > .heat-map--4 { color: $primary; }
        & > .heat-map--cursor { color: $foreground 75%; }
        &:focus > .heat-map--cursor { color: $state-warn; text-style: bold reverse; }
    }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "heat-map--label",
        "heat-map--0",
        "heat-map--1",
        "heat-map--2",
        "heat-map--3",
        "heat-map--4",
        "heat-map--cursor",
    }
    HELP = "One character a day; five densities from none to the fullest days."
    BINDING_GROUP_TITLE = "Timeline"
    BINDINGS: ClassVar[list[BindingType]] = bindings("heat_map")

    class Moved(Message):
        """The cursor is on another day."""

        def __init__(self, day: date) -> None:
            super().__init__()
            self.day = day

    class Opened(Message):
        """Enter was pressed on a day, or it was clicked."""

        def __init__(self, day: date) -> None:
            super().__init__()
            self.day = day

    def __init__(self, marks: Marks = UNICODE) -> None:
        super().__init__(id="heat-map")
        self._marks = marks
        self.day = date(2000, 1, 1)
        """The day under the cursor."""
        self._today = self.day
        self._window = window_ending(self.day)
        self._days: Mapping[date, DayTotals] = {}
        self._levels: Mapping[date, int] = {}

    @property
    def window(self) -> Window:
        """The weeks that are shown."""
        return self._window

    @property
    def step(self) -> int:
        """Cells of a week."""
        return 2 if self.size.width >= _DOUBLE else 1

    def show_days(self, days: Sequence[DayTotals], measure: Measure, today: date) -> None:
        """Show these days; the cursor stays on its day, at first it is on today."""
        if not self._days and self._today != today:
            self.day = today
            self._window = window_ending(today, self._window.weeks)
        self._today = today
        self._days = {totals.day: totals for totals in days}
        self._levels = levels(days, measure)
        self.refresh()

    def go_to(self, day: date) -> None:
        """Put the cursor on a day and show it; where there are neither notes nor today it stops."""
        first = min([*self._days, moved(self._today, -_YEAR - self._today.weekday())])
        day = min(max(day, first), max([*self._days, self._today]))
        if day == self.day:
            return
        self.day = day
        self._window = self._window.holding(day)
        self.refresh()
        self.post_message(self.Moved(day))

    def on_resize(self, event: events.Resize) -> None:
        """Show as many weeks as there is room for, at most 53."""
        room = max(1, (event.size.width - LABEL_CELLS) // self.step)
        weeks = min(WEEKS, room)
        if weeks != self._window.weeks:
            last = date.fromordinal(min(max(self._window.last, 1), date.max.toordinal()))
            self._window = window_ending(last, weeks).holding(self.day)
            self.refresh()

    # --- keys and mouse ---------------------------------------------------------------------------

    def action_move(self, days: int) -> None:
        """Move the cursor by days."""
        self.go_to(moved(self.day, days))

    def action_year(self, direction: int) -> None:
        """Move the weeks and the cursor by 52 weeks."""
        window = Window(self._window.first + direction * _YEAR, self._window.weeks)
        if not any(window.place(day) is not None for day in (*self._days, self._today)):
            return
        self.go_to(moved(self.day, direction * _YEAR))
        if window.place(self.day) is not None:
            self._window = window
            self.refresh()

    def action_noted(self, direction: int) -> None:
        """Go to the next day that has notes."""
        day = nearest_with_notes(self._days, self.day, direction)
        if day is not None:
            self.go_to(day)

    def action_end(self, place: int) -> None:
        """Go to the first or the last day that has notes."""
        if self._days:
            self.go_to(sorted(self._days)[place])

    def action_open(self) -> None:
        """Open the day under the cursor."""
        self.post_message(self.Opened(self.day))

    def on_click(self, event: events.Click) -> None:
        """Go to a day and open it."""
        place = event.get_content_offset(self)
        if place is None or place.x < LABEL_CELLS or place.y < 1:
            return
        day = self._window.day((place.x - LABEL_CELLS) // self.step, place.y - 1)
        if day is not None:
            self.go_to(day)
            self.action_open()

    # --- drawing ----------------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        """The months, or one weekday of every week."""
        width = self.size.width
        base = self.visual_style.rich_style
        label = self.get_visual_style("heat-map--label").rich_style
        if y == 0:
            months = month_labels(self._window, self.step)
            return _line([Segment(" " * LABEL_CELLS + months, label)], width, base)
        if y >= ROWS:
            return Strip.blank(width, base)
        name = WEEKDAYS[y - 1] if y % 2 else ""
        segments = [Segment(f" {name:<{LABEL_CELLS - 1}}", label)]
        segments += [self._cell(week, y - 1) for week in range(self._window.weeks)]
        return _line(segments, width, base)

    def _cell(self, week: int, weekday: int) -> Segment:
        day = self._window.day(week, weekday)
        if day is None or (day > self._today and day not in self._days and day != self.day):
            return Segment(" " * self.step, self.visual_style.rich_style)
        level = self._levels.get(day, 0)
        glyph = self._marks.density[level]
        text = glyph * self.step if level else glyph.ljust(self.step)
        style = self.get_visual_style(f"heat-map--{level}").rich_style
        if day == self.day:
            cursor = self.get_component_rich_style("heat-map--cursor")
            return Segment(self._marks.cursor.ljust(self.step), cursor)
        return Segment(text, style)


def _line(segments: list[Segment], width: int, base: object) -> Strip:
    return Strip(segments).adjust_cell_length(width, base)  # type: ignore[arg-type]


def legend(marks: Marks, measure: Measure) -> Content:
    """What the characters stand for."""
    return Content(f"less {marks.density} more {measure.value}")

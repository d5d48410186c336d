"""The timeline: the days of a memory by week and weekday, as a heat map or a list of days.

Days are counted as proleptic Gregorian ordinals, so that no arithmetic leaves the calendar.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from functools import partial
from typing import ClassVar

from rich.segment import Segment
from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.content import Content
from textual.getters import query_one
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from memtui.model.browsing import DayTotals
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.bindings import bindings
from memtui.tui.glyphs import UNICODE, Glyphs
from memtui.tui.widgets.line_view import TextBlock
from memtui.tui.widgets.row_list import Row, RowList

WEEKS = 53
"""So many weeks always hold the same day of the year before."""
LEVELS = 4
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
ROWS = 8
"""The months and the seven days of a week."""
LABEL_CELLS = 5
_DOUBLE = 2 * WEEKS + LABEL_CELLS
_YEAR = 7 * 52
_LAST = date.max.toordinal()
_BESIDE = 78
"""From so many columns on there is room for the day beside the map."""
_BROAD = 140
"""From so many cells on a week may have two of them."""


class Measure(StrEnum):
    """What makes a day dark."""

    BYTES = "bytes"
    CHUNKS = "chunks"
    RECALLS = "recalls"
    """How often its chunks come up in the searches of the query history."""


def moved(day: date, days: int) -> date:
    """Return a day some days later or earlier; the ends of the calendar hold."""
    return date.fromordinal(min(max(day.toordinal() + days, 1), _LAST))


@dataclass(frozen=True, slots=True)
class Window:
    """The weeks that are shown; `first` is the ordinal of a Monday and may lie before year 1."""

    first: int
    weeks: int

    @property
    def ends(self) -> tuple[date, date]:
        """The first Monday and the last Sunday, within the calendar."""
        last = self.first + 7 * self.weeks - 1
        return moved(date.min, self.first - 1), moved(date.min, last - 1)

    def day(self, week: int, weekday: int) -> date | None:
        """Return the day at a place, Monday being 0; `None` outside the calendar or the window."""
        ordinal = self.first + 7 * week + weekday
        inside = 0 <= week < self.weeks and 0 <= weekday < 7 and 1 <= ordinal <= _LAST
        return date.fromordinal(ordinal) if inside else None

    def place(self, day: date) -> tuple[int, int] | None:
        """Return the week and weekday of a day, `None` when it is not shown."""
        week, weekday = divmod(day.toordinal() - self.first, 7)
        return (week, weekday) if 0 <= week < self.weeks else None

    def holding(self, day: date) -> Window:
        """Return this window, or where it does not show a day one that ends or begins with it."""
        week = (day.toordinal() - self.first) // 7
        beyond = week if week < 0 else max(0, week - self.weeks + 1)
        return Window(self.first + 7 * beyond, self.weeks)


def window_ending(day: date, weeks: int = WEEKS) -> Window:
    """Return the weeks up to the one that holds a day."""
    monday = day.toordinal() - day.weekday()
    return Window(monday - 7 * (weeks - 1), weeks)


def levels(days: Iterable[DayTotals], measure: Measure) -> dict[date, int]:
    """Return how dark each day is: 1 to 4 by its rank among the days that have any, 0 for none.

    A level is the quarter of those days that have at most as much, so one large day does not
    make all others pale.
    """
    values = {
        one.day: {
            Measure.BYTES: one.size,
            Measure.CHUNKS: one.chunks,
            Measure.RECALLS: one.recalls or 0,
        }[measure]
        for one in days
    }
    ranked = sorted(value for value in values.values() if value > 0)
    return {
        day: -(-LEVELS * bisect_right(ranked, value) // len(ranked)) if value > 0 else 0
        for day, value in values.items()
    }


def month_labels(window: Window, step: int = 1) -> str:
    """Write the months above the weeks that their first day is in; `step` cells for each week.

    Of two names that would touch, the later one is left out.
    """
    labels = [" "] * (window.weeks * step)
    free = 0
    for week in range(window.weeks):
        starts = (window.day(week, weekday) for weekday in range(7))
        first = next((day for day in starts if day is not None and day.day == 1), None)
        at = week * step
        if first is not None and free <= at <= len(labels) - 3:
            labels[at : at + 3] = MONTHS[first.month - 1]
            free = at + 4
    return "".join(labels)


def nearest_with_notes(days: Mapping[date, DayTotals], day: date, step: int) -> date | None:
    """Return the next day with notes after a day, or with a negative step the one before it."""
    if step > 0:
        return min((other for other in days if other > day), default=None)
    return max((other for other in days if other < day), default=None)


def day_words(totals: DayTotals | None, day: date) -> list[str]:
    """Describe a day in short lines: its name, then what its notes hold."""
    name = f"{WEEKDAYS[day.weekday()]} {day}"
    if totals is None or not totals.paths:
        return [name, "no notes"]
    notes = f"{fmt.counted(len(totals.paths), 'note')}  {fmt.size(totals.size)}"
    lines = [name, notes, fmt.counted(totals.chunks, "chunk")]
    if totals.recalls is not None:
        lines.append(f"recalled {fmt.count(totals.recalls)}×")
    return lines


def _draw_day(totals: DayTotals, width: int) -> Content:
    """Draw a day on one line, for the list of small terminals."""
    _, *words = day_words(totals, totals.day)
    return Content("  ".join([totals.day.isoformat(), *words[:2]])).truncate(width, ellipsis=True)


class DayMoved(Message):
    """The cursor of the heat map is on another day."""


class DayOpened(Message):
    """A day is to be opened."""

    def __init__(self, day: date) -> None:
        super().__init__()
        self.day = day


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
        f"heat-map--{part}" for part in ("label", "cursor", *range(LEVELS + 1))
    }
    HELP = "One character a day; five densities from none to the fullest days."
    BINDING_GROUP_TITLE = "Timeline"
    BINDINGS: ClassVar[list[BindingType]] = bindings("heat_map")

    def __init__(self, glyphs: Glyphs = UNICODE) -> None:
        super().__init__(id="heat-map")
        self._glyphs = glyphs
        self.day = date(2000, 1, 1)
        """The day under the cursor."""
        self.window = window_ending(self.day)
        """The weeks that are shown."""
        self._today = self.day
        self._days: Mapping[date, DayTotals] = {}
        self._levels: Mapping[date, int] = {}

    @property
    def step(self) -> int:
        """Cells of a week."""
        return 2 if self.size.width >= _DOUBLE else 1

    def show_days(self, days: Mapping[date, DayTotals], measure: Measure, today: date) -> None:
        """Show these days; the cursor stays on its day, at first it is on today."""
        if not self._days and self._today != today:
            self.day = today
            self.window = window_ending(today, self.window.weeks)
        self._today, self._days = today, days
        self._levels = levels(days.values(), measure)
        self.refresh()

    def go_to(self, day: date) -> None:
        """Put the cursor on a day and show it; where there are neither notes nor today it stops."""
        first = min([*self._days, moved(self._today, -_YEAR - self._today.weekday())])
        day = min(max(day, first), max([*self._days, self._today]))
        if day != self.day:
            self.day = day
            self.window = self.window.holding(day)
            self.refresh()
            self.post_message(DayMoved())

    def on_resize(self, event: events.Resize) -> None:
        """Show as many weeks as there is room for, at most 53."""
        room = max(1, (event.size.width - LABEL_CELLS) // self.step)
        weeks = min(WEEKS, room)
        if weeks != self.window.weeks:
            self.window = window_ending(self.window.ends[1], weeks).holding(self.day)
            self.refresh()

    # --- keys and mouse -------------------------------------------------------------------------

    def action_move(self, days: int) -> None:
        """Move the cursor by days."""
        self.go_to(moved(self.day, days))

    def action_year(self, direction: int) -> None:
        """Move the weeks and the cursor by 52 weeks."""
        window = Window(self.window.first + direction * _YEAR, self.window.weeks)
        if any(window.place(day) is not None for day in (*self._days, self._today)):
            self.go_to(moved(self.day, direction * _YEAR))
            if window.place(self.day) is not None:
                self.window = window
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
        self.post_message(DayOpened(self.day))

    def on_click(self, event: events.Click) -> None:
        """Go to a day and open it."""
        place = event.get_content_offset(self)
        if place is None or place.x < LABEL_CELLS:
            return
        day = self.window.day((place.x - LABEL_CELLS) // self.step, place.y - 1)
        if day is not None:
            self.go_to(day)
            self.action_open()

    # --- drawing --------------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        """Draw the months, or one weekday of every week."""
        label = self.get_visual_style("heat-map--label").rich_style
        if y == 0:
            months = month_labels(self.window, self.step)
            segments = [Segment(" " * LABEL_CELLS + months, label)]
        elif y < ROWS:
            name = WEEKDAYS[y - 1] if y % 2 else ""
            segments = [Segment(f" {name:<{LABEL_CELLS - 1}}", label)]
            segments += [self._cell(week, y - 1) for week in range(self.window.weeks)]
        else:
            segments = []
        return Strip(segments).adjust_cell_length(self.size.width, self.visual_style.rich_style)

    def _cell(self, week: int, weekday: int) -> Segment:
        day, step = self.window.day(week, weekday), self.step
        if day is not None and day == self.day:
            cursor = self.get_component_rich_style("heat-map--cursor")
            return Segment(self._glyphs.chosen_day.ljust(step), cursor)
        if day is None or (day > self._today and day not in self._days):
            return Segment(" " * step, self.visual_style.rich_style)
        level = self._levels.get(day, 0)
        glyph = self._glyphs.density[level]
        style = self.get_visual_style(f"heat-map--{level}").rich_style
        return Segment(glyph * step if level else glyph.ljust(step), style)


class DayList(RowList):
    """The days that have notes, newest first."""

    HELP = "The days that have notes, newest first."
    BINDING_GROUP_TITLE = "Timeline"


class Timeline(Container):
    """Days by week and weekday; as a list while it has the class `-list`."""

    DEFAULT_CSS = """
    Timeline {
        height: 10;
        layout: horizontal;
        border: round $foreground 25%;
        border-title-color: $text-muted;
        border-subtitle-color: $text-muted;
        &:focus-within { border: round $primary; border-title-color: $primary; }
        & > #day-words { width: 1fr; padding: 0 0 0 1; height: 8; }
        & > #day-list { display: none; border: none; }
        &.-slim > #day-words { display: none; }
        &.-slim > HeatMap { width: 1fr; }
        &.-broad > HeatMap { width: 112; }
        &.-list > HeatMap, &.-list > #day-words { display: none; }
        &.-list > #day-list { display: block; }
    }
    """
    heat_map = query_one(HeatMap)
    day_list = query_one(DayList)

    def __init__(self, glyphs: Glyphs = UNICODE) -> None:
        super().__init__(id="timeline")
        self._glyphs = glyphs
        self.days: dict[date, DayTotals] = {}
        """What there is of each day."""
        self.measure = Measure.BYTES
        self._note = ""

    def compose(self) -> ComposeResult:
        yield HeatMap(self._glyphs)
        yield TextBlock(id="day-words")
        yield DayList(id="day-list", marker=self._glyphs.marker)

    @property
    def day(self) -> date:
        """The day that is chosen."""
        if self.has_class("-list") and self.day_list.chosen_id:
            return date.fromisoformat(self.day_list.chosen_id)
        return self.heat_map.day

    def give_keys(self) -> None:
        """Focus the map or the list, whichever is shown."""
        (self.day_list if self.has_class("-list") else self.heat_map).focus()

    def show_days(self, days: Sequence[DayTotals], today: date) -> None:
        """Show these days."""
        self.days = {totals.day: totals for totals in days}
        rows = [
            Row(day.isoformat(), partial(_draw_day, self.days[day]))
            for day in sorted(self.days, reverse=True)
        ]
        self.day_list.set_rows(rows, self.day_list.chosen_id, empty="no dated notes")
        self.show_measure(self.measure, today)

    def show_measure(self, measure: Measure, today: date) -> None:
        """Make days dark by something else."""
        self.measure = measure
        self.heat_map.show_days(self.days, measure, today)
        self.describe()

    def show_note(self, note: str) -> None:
        """Show what goes on, in place of the legend; empty for nothing."""
        self._note = note
        self.describe()

    @on(DayMoved)
    def describe(self) -> None:
        """Write the title, the legend and the chosen day."""
        day = self.heat_map.day
        first, last = (end.year for end in self.heat_map.window.ends)
        years = f"{last}" if first == last else f"{first}–{last}"
        self.border_title = Content(f"Timeline  {years}")
        words = day_words(self.days.get(day), day)
        legend = f"less {self._glyphs.density} more {self.measure.value}"
        if self.has_class("-slim") and not self.has_class("-list"):
            legend = "  ".join(words[:3])
        elif self._note:
            legend = safe_line(self._note)
        self.border_subtitle = Content(legend)
        self.query_one("#day-words", TextBlock).show(lambda width: self._day_lines(words, width))

    def _day_lines(self, words: Sequence[str], width: int) -> list[Content]:
        totals = self.days.get(self.heat_map.day)
        lines = [Content.styled(words[0], "bold"), *map(Content, words[1:])]
        if totals is not None:
            names = [safe_line(path.rpartition("/")[2]) for path in totals.paths]
            room = ROWS - len(lines)
            if len(names) > room:
                names[room - 1 :] = [f"{len(names) - room + 1} more"]
            lines += [Content.styled(name, fmt.MUTED) for name in names]
        return [line.truncate(width, ellipsis=True) for line in lines[:ROWS]]

    def on_resize(self, event: events.Resize) -> None:
        """Put the day beside the map where there is room."""
        width = event.size.width
        self.update_classes({"-slim": width + 2 < _BESIDE, "-broad": width >= _BROAD})
        self.describe()

    @on(RowList.Chosen)
    def line_chosen(self, message: RowList.Chosen) -> None:
        """Keep the map on the day of the list."""
        message.stop()
        if message.row_id is not None and message.by_user:
            self.heat_map.go_to(date.fromisoformat(message.row_id))

    @on(RowList.Opened)
    def line_opened(self, message: RowList.Opened) -> None:
        """Open a day of the list."""
        message.stop()
        self.post_message(DayOpened(date.fromisoformat(message.row_id)))

"""The timeline: the days of a memory by week and weekday, as a heat map.

Days are counted as proleptic Gregorian ordinals, so that no arithmetic leaves the calendar.
"""

from __future__ import annotations

from bisect import bisect_right
from calendar import day_abbr
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import ClassVar

from rich.segment import Segment
from textual import events, on
from textual.containers import Container
from textual.content import Content
from textual.getters import query_one
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Static

from memtui.model.browsing import DayTotals
from memtui.text.sanitize import safe_line
from memtui.tui import fmt, glyphs
from memtui.tui.background import tell
from memtui.tui.bindings import bindings
from memtui.tui.widgets.bars import draw_key

WEEKS = 53
"""So many weeks always hold the same day of the year before."""
LEVELS = 4
ROWS = 8
"""The months and the seven days of a week."""
LABEL_CELLS = 5
_YEAR = 7 * 52
_LAST = date.max.toordinal()
_BESIDE = 78
"""From so many columns on there is room for the day beside the map."""
_BROAD = 140
"""From so many cells on a week may have two of them."""


class Measure(StrEnum):
    """The measure that makes a day dark."""

    BYTES = "bytes"
    CHUNKS = "chunks"
    RECALLS = "recalls"
    """The times its chunks come up in the searches of the query history."""


def moved(day: date, days: int) -> date:
    """Return a day some days later or earlier; the ends of the calendar hold."""
    return date.fromordinal(min(max(day.toordinal() + days, 1), _LAST))


def levels(days: Iterable[DayTotals], measure: Measure) -> dict[date, int]:
    """Return how dark each day is: 1 to 4 by its rank among the days that have any, 0 for none.

    A level is the quarter of those days that have at most as much, so one large day does not
    make all others pale.
    """
    field = "size" if measure is Measure.BYTES else measure.value
    values = {one.day: getattr(one, field) or 0 for one in days}
    ranked = sorted(value for value in values.values() if value > 0)
    return {
        day: -(-LEVELS * bisect_right(ranked, value) // len(ranked)) if value > 0 else 0
        for day, value in values.items()
    }


def month_labels(first: int, weeks: int, step: int = 1) -> str:
    """Write the months above the weeks that their first day is in; `step` cells for each week.

    `first` is the ordinal of the Monday that the weeks begin with. Of two names that would touch,
    the later one is left out.
    """
    line = ""
    for at in range(0, weeks * step - 2, step):
        sunday = first + 7 * (at // step) + 6
        day = date.fromordinal(sunday) if 1 <= sunday <= _LAST else None
        # The first of a month is in a week whose Sunday is one of the first seven days.
        if day is not None and day.day <= 7 and (at > len(line) or not line):
            line = f"{line:<{at}}{day:%b}"
    return line.ljust(weeks * step)


class DayMoved(Message):
    """The heat map shows other days or weeks, or its cursor is on another day."""


@dataclass
class DayOpened(Message):
    day: date


class HeatMap(Widget, can_focus=True):
    """Weeks from left to right, Monday on top; the darker a day the more there is of it."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"heat-map--{part}" for part in ("label", "cursor", *range(LEVELS + 1))
    }
    BINDINGS = bindings("heat_map")

    def __init__(self) -> None:
        super().__init__(id="heat-map")
        self.day = self._today = date(2000, 1, 1)
        """The day under the cursor."""
        self.days: Mapping[date, DayTotals] = {}
        self.measure = Measure.BYTES
        self._end = 1
        """The ordinal after the last Sunday that is shown; weeks may lie before year 1."""
        self._weeks = WEEKS
        self._step = 1
        """Cells of a week."""
        self._levels: Mapping[date, int] = {}

    @property
    def first(self) -> int:
        """The ordinal of the first Monday that is shown."""
        return self._end - 7 * self._weeks

    @property
    def years(self) -> str:
        """The year, or the first and the last year, that is shown."""
        first, last = (moved(date.min, at - 1).year for at in (self.first, self._end - 1))
        return f"{last}" if first == last else f"{first}–{last}"

    def day_at(self, week: int, weekday: int) -> date | None:
        """Return the day at a place, Monday being 0; `None` outside the calendar or the map."""
        ordinal = self.first + 7 * week + weekday
        is_inside = 0 <= week < self._weeks and 0 <= weekday < 7 and 1 <= ordinal <= _LAST
        return date.fromordinal(ordinal) if is_inside else None

    def show_days(self, days: Mapping[date, DayTotals], today: date) -> None:
        """Show these days; the cursor stays on its day, at first it is on today."""
        if not self.days and self._today != today:
            self.day = today
        self._today, self.days = today, days
        self._levels = levels(days.values(), self.measure)
        self._show_cursor()

    def _show_cursor(self) -> None:
        """Scroll as few weeks as needed for the day under the cursor."""
        monday = self.day.toordinal() - self.day.weekday()
        self._end = min(max(self._end, monday + 7), monday + 7 * self._weeks)
        self.refresh()
        self.post_message(DayMoved())

    def go_to(self, day: date) -> None:
        """Put the cursor on a day and show it; where there are neither notes nor today it stops."""
        first = min([*self.days, moved(self._today, -_YEAR - self._today.weekday())])
        self.day = min(max(day, first), max([*self.days, self._today]))
        self._show_cursor()

    def on_resize(self, event: events.Resize) -> None:
        """Show as many weeks as there is room for, at most 53; the last one stays."""
        room = event.size.width - LABEL_CELLS
        self._step = 2 if room >= 2 * WEEKS else 1
        self._weeks = min(WEEKS, max(1, room // self._step))
        self._show_cursor()

    def action_move(self, days: int) -> None:
        self.go_to(moved(self.day, days))

    def action_year(self, direction: int) -> None:
        first = self.first + direction * _YEAR
        shown = range(first, first + 7 * self._weeks)
        if any(day.toordinal() in shown for day in (*self.days, self._today)):
            self._end += direction * _YEAR
            self.action_move(direction * _YEAR)

    def action_noted(self, direction: int) -> None:
        ahead = [day for day in self.days if (day - self.day).days * direction > 0]
        if not ahead:
            tell(self, f"No notes of {'a later' if direction > 0 else 'an earlier'} day.")
        self.go_to(min(ahead, key=lambda day: abs(day - self.day), default=self.day))

    def action_end(self, place: int) -> None:
        self.go_to(sorted(self.days)[place])

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return bool(self.days) or action not in ("open", "noted", "end")

    def action_open(self) -> None:
        self.post_message(DayOpened(self.day))

    def on_click(self, event: events.Click) -> None:
        place = event.get_content_offset(self)
        if place is not None and place.x >= LABEL_CELLS:
            day = self.day_at((place.x - LABEL_CELLS) // self._step, place.y - 1)
            if day is not None:
                self.go_to(day)
                self.action_open()

    def render_line(self, y: int) -> Strip:
        base, step = self.visual_style.rich_style, self._step

        def cell(day: date | None) -> Segment:
            if day is not None and day == self.day:
                cursor = self.get_component_rich_style("heat-map--cursor")
                return Segment(glyphs.CHOSEN_DAY.ljust(step), cursor)
            if day is None or (day > self._today and day not in self.days):
                return Segment(" " * step, base)
            level = self._levels.get(day, 0)
            style = self.get_visual_style(f"heat-map--{level}").rich_style
            glyph = glyphs.DENSITY[level]
            return Segment(glyph * step if level else glyph.ljust(step), style)

        name, cells = "", []
        if y == 0:
            name = " " * (LABEL_CELLS - 1) + month_labels(self.first, self._weeks, step)
        elif y < ROWS:
            name = day_abbr[y - 1]
            cells = [cell(self.day_at(week, y - 1)) for week in range(self._weeks)]
        label = self.get_visual_style("heat-map--label").rich_style
        strip = Strip([Segment(f" {name:<{LABEL_CELLS - 1}}", label), *cells])
        return strip.adjust_cell_length(self.size.width, base)


class Timeline(Container):
    """Days by week and weekday, with what there is of the chosen one."""

    heat_map = query_one(HeatMap)

    def __init__(self) -> None:
        super().__init__(HeatMap(), Static(id="day-words", markup=False), id="timeline")
        self._note = ""

    def show_note(self, note: str) -> None:
        """Show how the count of recalls goes, in place of their scale; empty for nothing."""
        self._note = note
        self.describe()

    @on(DayMoved)
    def describe(self) -> None:
        """Write the title, the legend and the chosen day."""
        heat_map = self.heat_map
        day, totals = heat_map.day, heat_map.days.get(heat_map.day)
        words = ["no notes" if heat_map.days else "no dated notes"]
        if totals is not None:
            notes = f"{fmt.count(len(totals.paths), 'dated note')}  {fmt.size_words(totals.size)}"
            words = [notes, fmt.count(totals.chunks, "chunk")]
            words += [] if totals.recalls is None else [f"recalled {fmt.count(totals.recalls)}×"]
        words = [f"{glyphs.CHOSEN_DAY} {day:%a} {day}", *words]
        scale = f"less {glyphs.DENSITY} more"
        if self._note and heat_map.measure is Measure.RECALLS:
            scale = safe_line(self._note)
        legend = draw_key("B", f"by {heat_map.measure.value}  {scale}")
        self.border_title = draw_key("T", f"Timeline  {heat_map.years}")
        self.border_subtitle = Content("  ".join(words[:2])) if self.has_class("-slim") else legend
        names = [safe_line(path.rpartition("/")[2]) for path in totals.paths] if totals else []
        room = ROWS - len(words)
        if len(names) > room:
            names[room - 1 :] = [f"{len(names) - room + 1} more"]
        lines = (Content.styled(words[0], "bold"), *map(Content, words[1:]))
        asides = (Content.styled(name, fmt.MUTED) for name in names)
        block = self.query_one("#day-words", Static)
        block.update(Content("\n").join([*lines, *asides]), layout=False)

    def on_resize(self, event: events.Resize) -> None:
        """Put the day beside the map where there is room."""
        width = event.size.width
        self.update_classes({"-slim": width + 2 < _BESIDE, "-broad": width >= _BROAD})
        self.describe()

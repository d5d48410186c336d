"""The days of a memory by week and weekday: what the heat map shows. Pure functions.

Days are counted as proleptic Gregorian ordinals, so that no arithmetic leaves the calendar.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from enum import StrEnum

from memtui.model.browsing import DayTotals
from memtui.tui import format as fmt

WEEKS = 53
"""So many weeks always hold the same day of the year before."""
LEVELS = 4
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_LAST = date.max.toordinal()


class Measure(StrEnum):
    """What makes a day dark."""

    BYTES = "bytes"
    CHUNKS = "chunks"
    RECALLS = "recalls"
    """How often its chunks come up in the searches of the query history."""


@dataclass(frozen=True, slots=True)
class Window:
    """The weeks that are shown; `first` is the ordinal of a Monday and may lie before year 1."""

    first: int
    weeks: int

    @property
    def last(self) -> int:
        """The ordinal of the last Sunday."""
        return self.first + 7 * self.weeks - 1

    def day(self, week: int, weekday: int) -> date | None:
        """The day at a place, Monday being 0; `None` outside the calendar or the window."""
        ordinal = self.first + 7 * week + weekday
        inside = 0 <= week < self.weeks and 0 <= weekday < 7 and 1 <= ordinal <= _LAST
        return date.fromordinal(ordinal) if inside else None

    def place(self, day: date) -> tuple[int, int] | None:
        """The week and weekday of a day, `None` when it is not shown."""
        week, weekday = divmod(day.toordinal() - self.first, 7)
        return (week, weekday) if 0 <= week < self.weeks else None

    def holding(self, day: date) -> Window:
        """This window, or where it does not show a day the one that ends or begins with it."""
        week = (day.toordinal() - self.first) // 7
        if week < 0:
            return Window(self.first + 7 * week, self.weeks)
        return Window(self.first + 7 * max(0, week - self.weeks + 1), self.weeks)


def window_ending(day: date, weeks: int = WEEKS) -> Window:
    """The weeks up to the one that holds a day."""
    monday = day.toordinal() - day.weekday()
    return Window(monday - 7 * (weeks - 1), weeks)


def moved(day: date, days: int) -> date:
    """A day some days later or earlier; the ends of the calendar hold."""
    return date.fromordinal(min(max(day.toordinal() + days, 1), _LAST))


def value_of(totals: DayTotals, measure: Measure) -> int:
    """The number of a day that a measure is about; 0 for recalls not counted."""
    if measure is Measure.BYTES:
        return totals.size
    return totals.chunks if measure is Measure.CHUNKS else totals.recalls or 0


def levels(days: Iterable[DayTotals], measure: Measure) -> dict[date, int]:
    """How dark each day is: 1 to 4 by its rank among the days that have any, 0 for none.

    A level is the quarter of those days that have at most as much, so one large day does not
    make all others pale.
    """
    values = {totals.day: value_of(totals, measure) for totals in days}
    ranked = sorted(value for value in values.values() if value > 0)
    return {
        day: -(-LEVELS * bisect_right(ranked, value) // len(ranked)) if value > 0 else 0
        for day, value in values.items()
    }


def month_labels(window: Window, step: int = 1) -> str:
    """The months above the weeks that their first day is in; `step` cells for each week.

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
    """The next day with notes after a day, or with a negative step the one before it."""
    if step > 0:
        return min((other for other in days if other > day), default=None)
    return max((other for other in days if other < day), default=None)


def day_words(totals: DayTotals | None, day: date) -> list[str]:
    """A day in short lines: its name, then what its notes hold."""
    lines = [f"{('Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun')[day.weekday()]} {day}"]
    if totals is None or not totals.paths:
        return [*lines, "no notes"]
    lines.append(f"{fmt.counted(len(totals.paths), 'note')}  {fmt.size(totals.size)}")
    lines.append(fmt.counted(totals.chunks, "chunk"))
    if totals.recalls is not None:
        lines.append(f"recalled {fmt.count(totals.recalls)}×")
    return lines


def day_row(totals: DayTotals) -> str:
    """A day on one line, for the list of small terminals."""
    return "  ".join(
        (
            totals.day.isoformat(),
            fmt.counted(len(totals.paths), "note"),
            fmt.size(totals.size),
            fmt.counted(totals.chunks, "chunk"),
        )
    )

"""The timeline: the heat map with its day beside it, or on small terminals a list of days."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from functools import partial

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Container
from textual.content import Content
from textual.message import Message

from memtui.model.browsing import DayTotals
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.browsing.marks import UNICODE, Marks
from memtui.tui.browsing.weeks import Measure, Window, day_row, day_words
from memtui.tui.widgets.heat_map import ROWS, HeatMap, legend
from memtui.tui.widgets.line_view import TextBlock
from memtui.tui.widgets.row_list import Row, RowList

_BESIDE = 78
"""From so many columns on there is room for the day beside the map."""
_BROAD = 140
"""From so many cells on a week may have two of them."""


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
        & > DayList { display: none; border: none; }
        &.-slim > #day-words { display: none; }
        &.-slim > HeatMap { width: 1fr; }
        &.-broad > HeatMap { width: 112; }
        &.-list > HeatMap, &.-list > #day-words { display: none; }
        &.-list > DayList { display: block; }
    }
    """

    class DayChosen(Message):
        """The cursor is on another day."""

        def __init__(self, day: date) -> None:
            super().__init__()
            self.day = day

    class DayOpened(Message):
        """A day is to be opened."""

        def __init__(self, day: date) -> None:
            super().__init__()
            self.day = day

    def __init__(self, marks: Marks = UNICODE, *, marker: str = "›") -> None:
        super().__init__(id="timeline")
        self._marks = marks
        self._marker = marker
        self._days: dict[date, DayTotals] = {}
        self.measure = Measure.BYTES
        self._note = ""

    def compose(self) -> ComposeResult:
        yield HeatMap(self._marks)
        yield TextBlock(id="day-words")
        yield DayList(id="day-list", marker=self._marker)

    @property
    def heat_map(self) -> HeatMap:
        """The heat map."""
        return self.query_one(HeatMap)

    @property
    def day_list(self) -> DayList:
        """The list of days."""
        return self.query_one(DayList)

    @property
    def day(self) -> date:
        """The day that is chosen."""
        if self.has_class("-list") and self.day_list.chosen_id:
            return date.fromisoformat(self.day_list.chosen_id)
        return self.heat_map.day

    def totals(self, day: date) -> DayTotals | None:
        """What there is of a day."""
        return self._days.get(day)

    def give_keys(self) -> None:
        """Focus the map or the list, whichever is shown."""
        (self.day_list if self.has_class("-list") else self.heat_map).focus()

    def show_days(self, days: Sequence[DayTotals], today: date) -> None:
        """Show these days."""
        self._days = {totals.day: totals for totals in days}
        self.heat_map.show_days(days, self.measure, today)
        newest = sorted(days, key=lambda totals: totals.day, reverse=True)

        rows = [Row(totals.day.isoformat(), partial(_day_line, totals)) for totals in newest]
        self.day_list.set_rows(rows, self.day_list.chosen_id, empty="no dated notes")
        self.describe()

    def show_measure(self, measure: Measure, today: date) -> None:
        """Make days dark by something else."""
        self.measure = measure
        self.heat_map.show_days(list(self._days.values()), measure, today)
        self.describe()

    def show_note(self, note: str) -> None:
        """Show what goes on, in place of the legend; empty for nothing."""
        self._note = note
        self.describe()

    def describe(self) -> None:
        """Write the title, the legend and the chosen day."""
        day = self.heat_map.day
        self.border_title = Content(f"Timeline  {_years(self.heat_map.window)}")
        words = day_words(self._days.get(day), day)
        if self.has_class("-slim") and not self.has_class("-list"):
            self.border_subtitle = Content("  ".join(words[:3]))
        elif self._note:
            self.border_subtitle = Content(safe_line(self._note))
        else:
            self.border_subtitle = legend(self._marks, self.measure)
        self.query_one("#day-words", TextBlock).show(lambda width: self._day_lines(words, width))

    def _day_lines(self, words: Sequence[str], width: int) -> list[Content]:
        totals = self._days.get(self.heat_map.day)
        lines = [Content.styled(words[0], "bold"), *map(Content, words[1:])]
        if totals is not None:
            names = [safe_line(path.rpartition("/")[2]) for path in totals.paths]
            room = ROWS - len(lines)
            shown = names if len(names) <= room else names[: room - 1]
            lines += [Content.styled(name, fmt.MUTED) for name in shown]
            if len(shown) < len(names):
                lines.append(Content.styled(f"{len(names) - len(shown)} more", fmt.MUTED))
        return [line.truncate(width, ellipsis=True) for line in lines[:ROWS]]

    def on_resize(self, event: events.Resize) -> None:
        """Put the day beside the map where there is room."""
        width = event.size.width
        self.update_classes({"-slim": width + 2 < _BESIDE, "-broad": width >= _BROAD})
        self.describe()

    @on(HeatMap.Moved)
    def day_moved(self, message: HeatMap.Moved) -> None:
        """Describe the day under the cursor."""
        message.stop()
        self.describe()
        self.post_message(self.DayChosen(message.day))

    @on(HeatMap.Opened)
    def day_opened(self, message: HeatMap.Opened) -> None:
        """Open a day of the map."""
        message.stop()
        self.post_message(self.DayOpened(message.day))

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
        self.post_message(self.DayOpened(date.fromisoformat(message.row_id)))


def _day_line(totals: DayTotals, width: int) -> Content:
    return Content(day_row(totals)).truncate(width, ellipsis=True)


def _years(window: Window) -> str:
    """The years that are shown."""
    limit = date.max.toordinal()
    first, last = (
        date.fromordinal(min(max(ordinal, 1), limit)).year
        for ordinal in (window.first, window.last)
    )
    return str(last) if first == last else f"{first}–{last}"

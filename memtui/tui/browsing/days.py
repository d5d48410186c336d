"""The timeline: what makes a day dark, counting recalls, opening a day."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual import on, work

from memtui.errors import Cancelled
from memtui.model import Ranking
from memtui.tui.browsing.messages import RecallsCounted, RecallsProgressed
from memtui.tui.browsing.places import day_filter
from memtui.tui.browsing.reading import ReadingActions
from memtui.tui.browsing.tree import Sort
from memtui.tui.browsing.weeks import Measure
from memtui.tui.widgets.timeline import Timeline

if TYPE_CHECKING:
    from memtui.engine import Engine


class DayActions(ReadingActions):
    """The days of the memory."""

    _counting = 0
    """The ticket of the count of recalls that goes on; 0 for none."""
    _tickets = 0
    _counted: tuple[Sequence[str], Ranking] | None = None
    """The queries and the ranking that recalls were counted with."""

    def action_toggle_timeline(self) -> None:
        """Show the timeline and go to it, or hide it."""
        inside = self.timeline.display and self.timeline.has_focus_within
        self.timeline_wanted = not inside
        if inside:
            self.file_tree.focus()
        self.apply_layout()
        if not inside:
            self.call_after_refresh(self.timeline.give_keys)

    def action_cycle_measure(self) -> None:
        """Make days dark by bytes, by chunks, or by how often they come up in the searches."""
        order = list(Measure)
        measure = order[(order.index(self.timeline.measure) + 1) % len(order)]
        if not self.timeline.display and not self.is_small:
            self.timeline_wanted = True
            self.apply_layout()
        self.timeline.show_measure(measure, self.today())
        self._follow_recalls()

    def action_cycle_sort(self) -> None:
        """Show the files in another order; by recalls as soon as they are counted."""
        super().action_cycle_sort()
        self._follow_recalls()

    def _follow_recalls(self) -> None:
        """Count recalls where days or files show them; stop where neither does any more."""
        if Measure.RECALLS is not self.timeline.measure and self.sort is not Sort.RECALLS:
            self.stop_counting()
        elif not self._counting:
            self._count_recalls()

    def _count_recalls(self) -> None:
        search = self.memtui.search_screen
        asked = tuple(search.notes.history.queries), search.ranking
        if not asked[0]:
            self._note_recalls("no queries asked yet, nothing to count", "no queries yet")
        elif self.recalled is not None and self._counted == asked:
            self._note_recalls("", "")
        elif self.engine is not None:
            self._tickets += 1
            self._counting = self._tickets
            self._counted = asked
            self._note_recalls("counting…", "counting recalls")
            self._recall(self.engine, self._counting, *asked)

    def _note_recalls(self, told: str, brief: str) -> None:
        """Say how the count stands above the days, and briefly above the files."""
        self.timeline.show_note(told)
        self.recall_note = brief
        self.show_count()

    @work(thread=True, group="recalls", exit_on_error=False, description="count the recalls")
    def _recall(
        self, engine: Engine, ticket: int, queries: Sequence[str], ranking: Ranking
    ) -> None:
        try:
            recalled = engine.browse.recalled(
                queries,
                ranking=ranking,
                cancelled=lambda: self._counting != ticket,
                progressed=lambda done, total: self._tell_progress(ticket, done, total),
            )
            days = tuple(engine.browse.days(recalled))
        except Cancelled:
            return
        except Exception as error:
            told = str(error) or type(error).__name__
            self.post_message(RecallsCounted(ticket, None, error=told))
            return
        self.post_message(RecallsCounted(ticket, recalled, days))

    def _tell_progress(self, ticket: int, done: int, total: int) -> None:
        self.post_message(RecallsProgressed(ticket, done, total))

    @on(RecallsProgressed)
    def recalls_progressed(self, message: RecallsProgressed) -> None:
        """Show how far the count is."""
        message.stop()
        if message.ticket == self._counting and self.is_built:
            told = f"counting recalls: query {message.done} of {message.total}  esc stops"
            self._note_recalls(told, f"recalls {message.done}/{message.total} esc stops")

    @on(RecallsCounted)
    def recalls_counted(self, message: RecallsCounted) -> None:
        """Show how often each day and each file comes up."""
        message.stop()
        if message.ticket != self._counting or not self.is_built:
            return
        self._counting = 0
        self._note_recalls("", "recalls not counted" if message.recalled is None else "")
        if message.recalled is None:
            self._counted = None
            self.tell(f"recalls not counted: {message.error}", error=True)
            return
        self.recalled, self.days = message.recalled, message.days
        self.timeline.show_days(self.days, self.today())
        if self.sort is Sort.RECALLS:
            self.arrange_files()

    def stop_running(self) -> bool:
        """Stop counting recalls; false when they are not counted."""
        return self.stop_counting()

    def stop_counting(self) -> bool:
        """Stop counting recalls; whether that went on."""
        went_on = self._counting != 0
        self._counting = 0
        if went_on:
            self._counted = None
        if self.is_built and went_on:
            self._note_recalls("not counted", "recalls not counted")
        elif self.is_built:
            self.timeline.show_note("")
        return went_on

    @on(Timeline.DayChosen)
    def day_chosen(self, message: Timeline.DayChosen) -> None:
        """Keep the choice in this screen."""
        message.stop()

    @on(Timeline.DayOpened)
    def day_opened(self, message: Timeline.DayOpened) -> None:
        """Open a day: its one note, or the tree with the notes of that day alone."""
        message.stop()
        totals = self.timeline.totals(message.day)
        if totals is None or not totals.paths:
            self.tell(f"No notes of {message.day}.")
        elif len(totals.paths) == 1:
            self.show_file(totals.paths[0])
            self.call_after_refresh(self.focus_view)
        else:
            self.set_filter(day_filter(message.day))
            self.file_tree.focus()

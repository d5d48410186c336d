"""Counting how often each file and each day comes up in the searches of the query history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from memtui.model import Ranking
from memtui.model.browsing import DayTotals
from memtui.tui.background import in_background, tell
from memtui.tui.screens.browse.tree import Sort
from memtui.tui.widgets.timeline import Measure

if TYPE_CHECKING:
    from memtui.engine import Engine
    from memtui.tui.screens.browse.screen import BrowseScreen


class RecallCounter:
    """Asks the queries of the history again while days or files show the counts."""

    def __init__(self, screen: BrowseScreen) -> None:
        self._screen = screen
        self._running = 0
        """The ticket of the count that goes on; 0 for none."""
        self._tickets = 0
        self._counted: tuple[Sequence[str], Ranking] | None = None
        """The queries and the ranking that recalls were counted with."""

    def cycle_measure(self) -> None:
        """Make days dark by bytes, by chunks, or by how often they come up in the searches."""
        timeline, order = self._screen.timeline, list(Measure)
        measure = order[(order.index(timeline.measure) + 1) % len(order)]
        if not timeline.display and not self._screen.is_small:
            self._screen.timeline_wanted = True
            self._screen.apply_layout()
        timeline.show_measure(measure, self._screen.today())
        self.follow()

    @property
    def is_in_view(self) -> bool:
        """Whether days or files show the counts."""
        by_recalls = self._screen.file_list.sort is Sort.RECALLS
        return by_recalls or self._screen.timeline.measure is Measure.RECALLS

    def follow(self) -> None:
        """Count where days or files show it; stop where neither does any more."""
        if not self.is_in_view:
            self.stop()
        elif not self._running:
            self._count()

    def _count(self) -> None:
        screen, engine = self._screen, self._screen.engine
        search = screen.memtui.search_screen
        asked = tuple(search.notes.history.queries), search.ranking
        if not asked[0]:
            self._note("no queries asked yet, nothing to count", "no queries yet")
        elif screen.file_list.recalled is not None and self._counted == asked:
            self._note("", "")
        elif engine is not None:
            self._tickets += 1
            self._running = ticket = self._tickets
            self._counted = asked
            self._note("counting…", "counting recalls")
            in_background(
                screen,
                lambda: self._recalled(engine, ticket, *asked),
                lambda counts: self._take(ticket, *counts),
                lambda error: self._failed(ticket, error),
                description="count the recalls",
            )

    def _recalled(
        self, engine: Engine, ticket: int, queries: Sequence[str], ranking: Ranking
    ) -> tuple[Mapping[str, int], Sequence[DayTotals]]:
        def progressed(done: int, total: int) -> None:
            self._screen.call_later(lambda: self._progressed(ticket, done, total))

        recalled = engine.browse.recalled(
            queries,
            ranking=ranking,
            cancelled=lambda: self._running != ticket,
            progressed=progressed,
        )
        return recalled, engine.browse.days(recalled)

    def _progressed(self, ticket: int, done: int, total: int) -> None:
        if ticket == self._running:
            self._note(
                f"counting recalls: query {done} of {total}  esc stops",
                f"recalls {done}/{total} esc stops",
            )

    def _take(self, ticket: int, recalled: Mapping[str, int], days: Sequence[DayTotals]) -> None:
        if ticket != self._running:
            return
        self._running = 0
        files = self._screen.file_list
        files.recalled, files.days = recalled, days
        self._note("", "")
        self._screen.timeline.show_days(days, self._screen.today())
        if files.sort is Sort.RECALLS:
            files.arrange()

    def _failed(self, ticket: int, error: str) -> None:
        if ticket == self._running:
            self._running, self._counted = 0, None
            self._note("", "recalls not counted")
            tell(self._screen, f"recalls not counted: {error}", error=True)

    def stop(self) -> bool:
        """Stop counting; false when nothing was counted."""
        was_running, self._running = self._running != 0, 0
        if was_running:
            self._counted = None
            self._note("not counted", "recalls not counted")
        elif self._screen.is_built:
            self._screen.timeline.show_note("")
        return was_running

    def _note(self, text: str, brief: str) -> None:
        """Say how the count stands above the days, and briefly above the files."""
        if self._screen.is_built:
            self._screen.timeline.show_note(text)
            self._screen.file_list.note = brief
            self._screen.file_list.show_count()

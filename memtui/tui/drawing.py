"""Drawing an answer: the rows first, and what is beside them once the rows are on screen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from textual.content import Content
from textual.timer import Timer

from memtui.model import LegStatus, Ranked
from memtui.tui import format as fmt
from memtui.tui.list_notes import list_notes
from memtui.tui.search_base import SearchBase
from memtui.tui.widgets import results_message as messages
from memtui.tui.widgets.result_list import query_terms, sorted_hits

HIGHLIGHT_SECONDS = 2.0
PANES_AFTER = 0.005
"""Seconds from the rows of an answer to what is beside them: time for a key to come first."""
PANES_AFTER_PART = 0.120
"""The same for a part of an answer: as a rule the whole of it comes sooner."""
PANES_AFTER_KEY = 0.250
"""The same for a key that came first: its own answer has them drawn then."""


class DrawingActions(SearchBase):
    """The list, and near misses, preview and why-panel, which take longer to draw than the list."""

    _results_height: int | str = "1fr"
    _panes_delay = 0.0
    """Seconds that what is beside the list may wait; 0 while nobody types."""
    _panes_timer: Timer | None = None
    _when_drawn: Callable[[], None] | None = None
    _in_panes: Ranked | None = None
    """The answer that near misses, preview and why-panel show."""

    def show_ranked(
        self,
        ranked: Ranked,
        *,
        keep: str | None,
        moved: Mapping[str, int] | None = None,
        entered: frozenset[str] = frozenset(),
        left: Mapping[str, int] | None = None,
    ) -> None:
        """Put a result list on screen, keeping the chosen chunk when it is there.

        What changed against the list before is marked for a while: places gained by chunk id,
        ids that are new, and the former ranks of those that are gone.
        """
        # Imported late: ranking needs numpy, and the first paint does not.
        from memtui.report.arithmetic import bar_scale
        from memtui.tui.widgets.result_row import RowLook

        had_answer = self.ranked is not None
        self.ranked = ranked
        if not had_answer:
            self.apply_layout()
        self.look = RowLook(
            glyphs=self.glyphs,
            lines=self.row_lines,
            scale=bar_scale(ranked.hits),
            now=ranked.trace.now,
            dates=ranked.ranking.decay.dates,
            terms=query_terms(ranked),
            moved=moved,
            entered=entered,
            left=left or {},
            pinned=frozenset(self.pinned),
        )
        if ranked.pool.search_mode is not self.mode:
            self.mode = ranked.pool.search_mode
            self.show_parameters()
        self._show_count(ranked)
        self._draw_lists(ranked, keep)
        if moved is not None or entered:
            self._end_highlight_later()

    def redraw_lists(self) -> None:
        """Draw the rows again, for another width, order or look."""
        if self.ranked is not None and self.look is not None:
            self.show_ranked(self.ranked, keep=self.selected_id)
        elif self.results.rows:
            self.results.redraw()

    def _draw_lists(self, ranked: Ranked, keep: str | None) -> None:
        assert self.look is not None
        hits = sorted_hits(ranked, self.sort)
        if hits:
            self.show_list()
            self.fit_results(len(hits))
            self.results.show_hits(hits, self.look, keep)
        else:
            self.results.set_rows(())
            self.show_message(messages.nothing_found(ranked))
        self.name_list(Content(self._list_title(ranked)), self._list_subtitle(ranked))
        if self._panes_delay and self.query_input.has_focus:
            self.selected_id = self.results.chosen_id
            self._draw_panes_after(self._panes_delay)
        else:
            self._draw_panes(ranked, keep)

    def _draw_panes(self, ranked: Ranked, keep: str | None) -> None:
        """Draw what is beside the list."""
        assert self.look is not None
        self._stop_panes_timer()
        chosen = self.results.chosen_id
        if self.has_class("-near"):
            # In the near misses, reading one of them, or the same list again: that place is kept.
            in_list = self.query_input.has_focus or self.results.has_focus
            away = ranked is self._in_panes or not in_list
            self.near.show_drops(ranked.drops, self.look, keep if away else None)
            if self.near.has_focus or (away and keep is not None and self.near.chosen_id == keep):
                chosen = self.near.chosen_id or chosen
        self._in_panes = ranked
        self.select(chosen)

    @contextmanager
    def panes_later(self, *, complete: bool) -> Iterator[None]:
        """Let what is drawn in this block have its rows on screen before the other panes."""
        self._panes_delay = PANES_AFTER if complete else PANES_AFTER_PART
        try:
            yield
        finally:
            self._panes_delay = 0.0

    def let_keys_go_first(self) -> None:
        """Put off what is still to be drawn beside the list: a key asks for another one."""
        if self._panes_timer is not None:
            self._draw_panes_after(PANES_AFTER_KEY)

    def _draw_panes_after(self, seconds: float) -> None:
        self._stop_panes_timer()
        self._panes_timer = self.set_timer(seconds, self._draw_waiting_panes)

    def _draw_waiting_panes(self) -> None:
        self._panes_timer = None
        if not self.is_built:
            return
        if self.ranked is not None:
            self._draw_panes(self.ranked, self.selected_id)
        if (drawn := self._when_drawn) is not None:
            self._when_drawn = None
            drawn()

    def when_drawn(self, action: Callable[[], None]) -> None:
        """Do something once all of an answer is drawn, at once when it is; the last wish counts."""
        if self._panes_timer is None:
            action()
        else:
            self._when_drawn = action

    def _stop_panes_timer(self) -> None:
        if self._panes_timer is not None:
            self._panes_timer.stop()
            self._panes_timer = None

    def _list_title(self, ranked: Ranked) -> str:
        title = f"Results by {self.sort}" if self.sort != "rank" else "Results"
        return title if self.flow.complete else f"{title} ~"

    def _list_subtitle(self, ranked: Ranked) -> Content:
        """What is special about the list, and a scale other than 1."""
        parts = list_notes(ranked, self.status)
        if self.look is not None and self.look.scale != 1.0 and ranked.hits:
            parts.append(Content(f"full bar = {fmt.score(self.look.scale)}"))
        return Content(" · ").join(parts)

    def show_subtitle(self) -> None:
        """Write below the list again what is special about it."""
        if self.ranked is not None:
            title = Content(self._list_title(self.ranked))
            self.name_list(title, self._list_subtitle(self.ranked))

    def name_list(self, title: Content, subtitle: Content) -> None:
        """Write above and below the list; the same again draws nothing."""
        if title.markup != self.results.border_title:
            self.results.border_title = title
        if subtitle.markup != (self.results.border_subtitle or ""):
            self.results.border_subtitle = subtitle

    def _show_count(self, ranked: Ranked) -> None:
        pending = [
            leg.value
            for leg, state in ranked.pool.states.items()
            if state.status is LegStatus.PENDING
        ]
        self.query_bar.show_count(
            len(ranked.hits),
            len(ranked.pool.chunks),
            ranked.pool.elapsed_ms + ranked.elapsed_ms,
            partial=" ".join(pending),
        )

    def _end_highlight_later(self) -> None:
        if self.highlight_timer is not None:
            self.highlight_timer.stop()
        self.highlight_timer = self.set_timer(HIGHLIGHT_SECONDS, self.redraw_lists)

    def fit_results(self, count: int) -> None:
        """Make the list as high as its rows where near misses follow it, else let it fill."""
        height = count * self.row_lines + 2 if self.has_class("-near") else "1fr"
        if height != self._results_height:
            self._results_height = height
            self.results.styles.height = height

    def show_list(self) -> None:
        """Show the list in the results pane."""
        had_focus = self.message.has_focus
        self.results.display = True
        self.message.display = False
        if had_focus:
            self.results.focus()

    def show_message(self, content: Content) -> None:
        """Show a message in the results pane, in place of the list."""
        had_focus = self.results.has_focus
        self.message.show(content)
        self.message.display = True
        self.results.display = False
        if had_focus:
            self.message.focus()

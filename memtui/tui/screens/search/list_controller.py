"""Drawing an answer: the rows first, and what is beside them once the rows are on screen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from textual.content import Content

from memtui.model import Drop, Leg, LegStatus, Ranked
from memtui.tui import format as fmt
from memtui.tui.provider_words import vectors_note
from memtui.tui.widgets import index_status
from memtui.tui.widgets import results_message as messages
from memtui.tui.widgets.result_rows import (
    SHOWN_DROPS,
    SORTS,
    RowLook,
    drop_rows,
    hit_rows,
    query_terms,
    sorted_hits,
)

if TYPE_CHECKING:
    from textual.message_pump import MessagePump
    from textual.timer import Timer
    from textual.widget import Widget

    from memtui.tui.screens.search.screen import SearchScreen

HIGHLIGHT_SECONDS = 2.0
PANES_AFTER_KEY = 0.250
"""Seconds that what is beside the list waits after a key: its own answer has it drawn then."""


class Timers:
    """Timers by name; another one of the same name takes the place of the first."""

    def __init__(self, view: MessagePump) -> None:
        self._view = view
        self._running: dict[str, Timer] = {}

    def start(self, name: str, seconds: float, action: Callable[[], object]) -> None:
        """Do something after so many seconds."""

        def act() -> None:
            self._running.pop(name, None)
            action()

        self.stop(name)
        self._running[name] = self._view.set_timer(seconds, act)

    def stop(self, *names: str) -> None:
        """Do it no more."""
        for name in names:
            if (timer := self._running.pop(name, None)) is not None:
                timer.stop()

    def is_running(self, name: str) -> bool:
        """Whether it is still to be done."""
        return name in self._running


class ListController:
    """The list, and near misses, preview and why-panel, which take longer to draw than the list."""

    def __init__(self, view: SearchScreen) -> None:
        self.view = view
        self.sort = "rank"
        self.followed: str | None = None
        """The chunk to choose in the list that answers a change made from its explanation."""
        self._timers = Timers(view)
        self._when_drawn: Callable[[], None] | None = None
        self._in_panes: Ranked | None = None
        """The answer that near misses, preview and why-panel show."""
        self._height: int | str = "1fr"

    def show(
        self,
        ranked: Ranked,
        *,
        keep: str | None,
        moved: Mapping[str, int] | None = None,
        entered: frozenset[str] = frozenset(),
        left: Mapping[str, int] | None = None,
        panes_after: float = 0.0,
    ) -> None:
        """Put a result list on screen, keeping the chosen chunk when it is there.

        What changed against the list before is marked for a while: places gained by chunk id,
        ids that are new, and the former ranks of those that are gone. While somebody types, what
        is beside the list is drawn `panes_after` seconds later.
        """
        # Imported late: ranking needs numpy, and the first paint does not.
        from memtui.report.arithmetic import bar_scale

        view = self.view
        had_answer, is_other = view.ranked is not None, ranked is not view.ranked
        view.ranked = ranked
        if not had_answer:
            view.apply_layout()
        view.look = RowLook(
            glyphs=view.glyphs,
            lines=view.row_lines,
            scale=bar_scale(ranked.hits),
            now=ranked.trace.now,
            dates=ranked.ranking.decay.dates,
            terms=query_terms(ranked),
            moved=moved,
            entered=entered,
            left=left or {},
            pinned=frozenset(view.pinned),
        )
        if ranked.pool.search_mode is not view.mode:
            view.mode = ranked.pool.search_mode
            view.rankings.show_parameters()
        self._show_count(ranked)
        self._draw(ranked, self.followed or keep, panes_after)
        if view.shown_complete:
            self.followed = None
        if moved is not None or entered:
            self._timers.start("highlight", HIGHLIGHT_SECONDS, self.redraw)
        view.rankings.list_shown(ranked)
        view.inquiry.list_shown(ranked, is_other)

    def redraw(self) -> None:
        """Draw the rows again, for another width, order or look."""
        if self.view.ranked is not None and self.view.look is not None:
            self.show(self.view.ranked, keep=self.view.selected_id)
        elif self.view.results.rows:
            self.view.results.redraw()

    def _draw(self, ranked: Ranked, keep: str | None, panes_after: float) -> None:
        view = self.view
        assert view.look is not None
        hits = sorted_hits(ranked, self.sort)
        if hits:
            self.show_list()
            self.fit(len(hits))
            view.results.set_rows(hit_rows(hits, view.look), keep, first=True)
        else:
            view.results.set_rows(())
            self.show_message(messages.nothing_found(ranked))
        self.show_subtitle()
        if panes_after and view.query_input.has_focus:
            view.selected_id = view.results.chosen_id
            self._timers.start("panes", panes_after, self._draw_waiting_panes)
        else:
            self._draw_panes(ranked, keep)

    def _draw_panes(self, ranked: Ranked, keep: str | None) -> None:
        """Draw what is beside the list."""
        view = self.view
        assert view.look is not None
        self._timers.stop("panes")
        chosen = view.results.chosen_id
        if view.has_class("-near"):
            # In the near misses, reading one of them, or the same list again: that place is kept.
            in_list = view.query_input.has_focus or view.results.has_focus
            away = ranked is self._in_panes or not in_list
            self._show_drops(ranked.drops, view.look, keep if away else None)
            if view.near.has_focus or (away and keep is not None and view.near.chosen_id == keep):
                chosen = view.near.chosen_id or chosen
        self._in_panes = ranked
        view.notes.select(chosen)

    def _show_drops(self, drops: Sequence[Drop], look: RowLook, keep: str | None) -> None:
        """Show why chunks of the pool are not in the list; what has just left it is marked.

        Without a chunk to keep, another list starts at its top.
        """
        near, rows = self.view.near, drop_rows(drops, look)
        if keep is None and [row.id for row in rows] == [row.id for row in near.rows]:
            keep = near.chosen_id
        near.set_rows(rows, keep, first=True)
        gone = sum(drop.chunk.id in look.left for drop in drops)
        more = f", first {SHOWN_DROPS}" if len(drops) > SHOWN_DROPS else ""
        out = (f"  {look.glyphs.down} {gone} out", "$state-error bold") if gone else ""
        near.border_title = Content.assemble(f"Not shown ({fmt.count(len(drops))}{more})", out)
        near.border_subtitle = Content("n hides")

    def let_keys_go_first(self) -> None:
        """Put off what is still to be drawn beside the list: a key asks for another one."""
        if self._timers.is_running("panes"):
            self._timers.start("panes", PANES_AFTER_KEY, self._draw_waiting_panes)

    def _draw_waiting_panes(self) -> None:
        if not self.view.is_built:
            return
        if self.view.ranked is not None:
            self._draw_panes(self.view.ranked, self.view.selected_id)
        drawn, self._when_drawn = self._when_drawn, None
        if drawn is not None:
            drawn()

    def when_drawn(self, action: Callable[[], None]) -> None:
        """Do something once all of an answer is drawn, at once when it is; the last wish counts."""
        if self._timers.is_running("panes"):
            self._when_drawn = action
        else:
            action()

    def choose(self, chunk_id: str) -> None:
        """Choose a chunk in whichever list has it, and show it."""
        self.view.selected_by_user = True
        self.view.results.choose(chunk_id, by_user=True)
        self.view.near.choose(chunk_id, by_user=True)
        self.view.notes.select(chunk_id)

    # --- above and below the list ---------------------------------------------------------------

    def show_subtitle(self) -> None:
        """Write above and below the list what is special about it."""
        ranked = self.view.ranked
        if ranked is None:
            return
        title = f"Results by {self.sort}" if self.sort != "rank" else "Results"
        notes = [
            index_status.agent_note(self.view.status.foreign if self.view.status else None),
            vectors_note(ranked, self.view.status.provider if self.view.status else None),
        ]
        for leg in (Leg.VECTOR, Leg.KEYWORD):
            state = ranked.pool.states.get(leg)
            if state is not None and state.status is not LegStatus.OK:
                notes.append(fmt.leg_note(leg, state))
        parts = [Content.styled(note, "$state-warn") for note in notes if note]
        look = self.view.look
        if look is not None and look.scale != 1.0 and ranked.hits:
            parts.append(Content(f"full bar = {fmt.score(look.scale)}"))
        subtitle = Content(" · ").join(parts)
        against = self.view.rankings.against_configured(ranked)
        longer = Content.assemble(subtitle, " · " if subtitle else "", against)
        if against and longer.cell_length <= self.view.results.size.width - 4:
            subtitle = longer
        self.name(title if self.view.flow.complete else f"{title} ~", subtitle)

    def name(self, title: str, subtitle: Content | None = None) -> None:
        """Write above and below the list; the same again draws nothing."""
        results, below = self.view.results, subtitle or Content("")
        if title != results.border_title:
            results.border_title = Content(title)
        if below.markup != (results.border_subtitle or ""):
            results.border_subtitle = below

    def _show_count(self, ranked: Ranked) -> None:
        pending = [
            leg.value
            for leg, state in ranked.pool.states.items()
            if state.status is LegStatus.PENDING
        ]
        self.view.query_bar.show_count(
            len(ranked.hits),
            len(ranked.pool.chunks),
            ranked.pool.elapsed_ms + ranked.elapsed_ms,
            partial=" ".join(pending),
        )

    # --- the pane of the list -------------------------------------------------------------------

    def fit(self, count: int) -> None:
        """Make the list as high as its rows where near misses follow it, else let it fill."""
        view = self.view
        height = count * view.row_lines + 2 if view.has_class("-near") else "1fr"
        if height != self._height:
            self._height = height
            view.results.styles.height = height

    def show_list(self) -> None:
        """Show the list in the results pane."""
        self._swap(self.view.message, self.view.results)

    def show_message(self, content: Content) -> None:
        """Show a message in the results pane, in place of the list."""
        self.view.message.show(content)
        self._swap(self.view.results, self.view.message)

    def _swap(self, hidden: Widget, shown: Widget) -> None:
        had_focus = hidden.has_focus
        shown.display, hidden.display = True, False
        if had_focus:
            shown.focus()

    def cycle_sort(self) -> None:
        """Show the list in another order; ranks and scores stay what they are."""
        self.sort = SORTS[(SORTS.index(self.sort) + 1) % len(SORTS)]
        self.view.rankings.note(f"list by {self.sort}")
        self.redraw()

    def toggle_near_misses(self) -> None:
        """Show or hide the candidates that are not in the list."""
        view = self.view
        view.near_wanted = not view.has_class("-near")
        if not view.near_wanted and view.near.has_focus:
            view.show_pane("results")
        view.apply_layout()
        self.redraw()

    def show_near_misses(self) -> None:
        """Bring the candidates that are not in the list on screen."""
        if not self.view.has_class("-near"):
            self.toggle_near_misses()

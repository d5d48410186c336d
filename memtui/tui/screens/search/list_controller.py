"""Drawing an answer: the rows first, and what is beside them once the rows are on screen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from textual.content import Content

from memtui.model import Leg, LegStatus, Ranked
from memtui.report.arithmetic import bar_scale
from memtui.report.providers import vectors_note
from memtui.tui import format as fmt
from memtui.tui.background import Timers
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
    from textual.widget import Widget

    from memtui.tui.screens.search.screen import SearchScreen

HIGHLIGHT_SECONDS = 2.0
PANES_AFTER = 0.020
"""Seconds from the rows of an answer to what is beside them: Textual paints 60 times a second."""
PANES_AFTER_PART = 0.120
"""The same for a part of an answer: as a rule the whole of it comes sooner."""


class ListController:
    """The list, and near misses, preview and why-panel, which take longer to draw than the list."""

    def __init__(self, view: SearchScreen) -> None:
        self.view = view
        self.sort = "rank"
        self.followed: str | None = None
        """The chunk to choose in the list that answers a change made from its explanation."""
        self._timers = Timers(view)
        self._keep: str | None = None
        """The chunk that the panes are to show, where it is there."""
        self._in_panes: Ranked | None = None
        """The answer that near misses, preview and why-panel show."""

    def show(
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
        view, is_first = self.view, self.view.ranked is None
        view.ranked = ranked
        if is_first:
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
        self._keep = self.followed or keep
        if hits := sorted_hits(ranked, self.sort):
            self.fit(len(hits))
            view.results.set_rows(hit_rows(hits, view.look), self._keep, first=True)
            if not view.results.display:
                self.show_list()
        else:
            view.results.set_rows(())
            self.show_message(messages.nothing_found(ranked))
        if not view.flow.complete:
            self._show_count(ranked)
        if not view.near.has_focus:
            view.selected_id = view.results.chosen_id
        if moved is not None or entered:
            self._timers.start("highlight", HIGHLIGHT_SECONDS, self.redraw)
        panes_after = PANES_AFTER if view.flow.complete else PANES_AFTER_PART
        self._timers.start("panes", panes_after, self._draw_panes)

    def redraw(self) -> None:
        """Draw the rows again, for another width, order or look."""
        if self.view.ranked is not None:
            keep = self._keep if self._timers.is_running("panes") else self.view.selected_id
            self.show(self.view.ranked, keep=keep)
        elif self.view.results.rows:
            self.view.results.redraw()

    def _draw_panes(self) -> None:
        """Draw what is beside the list, and let the screens above follow it."""
        view, ranked, look = self.view, self.view.ranked, self.view.look
        if ranked is None or look is None or not view.is_built:
            return
        is_other, keep = ranked is not self._in_panes, self._keep
        if view.shown_complete:
            self.followed = None
        if ranked.pool.search_mode is not view.mode:
            view.mode = ranked.pool.search_mode
            view.rankings.show_parameters()
        view.rankings.list_shown()
        self._show_count(ranked)
        self.show_subtitle()
        chosen = view.results.chosen_id
        if view.has_class("-near"):
            # In the near misses, reading one of them, or the same list again: that place is kept.
            in_list = view.query_input.has_focus or view.results.has_focus
            away = not is_other or not in_list
            self._show_drops(ranked, look, keep if away else None)
            if view.near.has_focus or (away and keep is not None and view.near.chosen_id == keep):
                chosen = view.near.chosen_id or chosen
        self._in_panes = ranked
        view.notes.select(chosen)
        view.inquiry.list_shown(ranked, is_other)
        if view.flow.complete:
            view.search.answer_drawn()

    def _show_drops(self, ranked: Ranked, look: RowLook, keep: str | None) -> None:
        """Show why chunks of the pool are not in the list; what has just left it is marked.

        Without a chunk to keep, another list starts at its top.
        """
        near, drops = self.view.near, ranked.drops
        rows = drop_rows(drops, look)
        if keep is None and [row.id for row in rows] == [row.id for row in near.rows]:
            keep = near.chosen_id
        near.set_rows(rows, keep, first=True)
        gone = sum(drop.chunk.id in look.left for drop in drops)
        more = f", first {SHOWN_DROPS}" if len(drops) > SHOWN_DROPS else ""
        out = (f"  {look.glyphs.down} {gone} out", "$state-error bold") if gone else ""
        near.border_title = Content.assemble(f"Not shown ({fmt.count(len(drops))}{more})", out)
        near.border_subtitle = Content("n hides")

    def choose(self, chunk_id: str) -> None:
        """Choose a chunk in whichever list has it, and show it."""
        self.view.selected_by_user = True
        self._keep = chunk_id
        self.view.results.choose(chunk_id, by_user=True)
        self.view.near.choose(chunk_id, by_user=True)
        self.view.notes.select(chunk_id)

    # --- above and below the list ---------------------------------------------------------------

    def show_subtitle(self) -> None:
        """Write above and below the list what is special about it."""
        view, ranked, look = self.view, self.view.ranked, self.view.look
        if ranked is None:
            return
        title = f"Results by {self.sort}" if self.sort != "rank" else "Results"
        notes = [index_status.agent_note(view.status.foreign if view.status else None)]
        vector = ranked.pool.states.get(Leg.VECTOR)
        if vector is not None and vector.status is LegStatus.OK:
            provider = view.status.provider if view.status else None
            notes.append(vectors_note(ranked.pool.states, provider))
        for leg in (Leg.VECTOR, Leg.KEYWORD):
            state = ranked.pool.states.get(leg)
            if state is not None and state.status is not LegStatus.OK:
                notes.append(fmt.leg_note(leg, state))
        parts = [Content.styled(note, "$state-warn") for note in notes if note]
        if look is not None and look.scale != 1.0 and ranked.hits:
            parts.append(Content(f"full bar = {fmt.score(look.scale)}"))
        subtitle = Content(" · ").join(parts)
        against = view.rankings.against_configured(ranked)
        longer = Content.assemble(subtitle, " · " if subtitle else "", against)
        if against and longer.cell_length <= view.results.size.width - 4:
            subtitle = longer
        self.name(title if view.flow.complete else f"{title} ~", subtitle)

    def name(self, title: str, subtitle: Content | None = None) -> None:
        """Write above and below the list; the same again draws nothing."""
        results, below = self.view.results, subtitle or Content("")
        if title != results.border_title:
            results.border_title = Content(title)
        if below.markup != (results.border_subtitle or ""):
            results.border_subtitle = below

    def _show_count(self, ranked: Ranked) -> None:
        states = ranked.pool.states.items()
        pending = [leg.value for leg, state in states if state.status is LegStatus.PENDING]
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
        view.results.styles.height = (
            count * view.row_lines + 2 if view.has_class("-near") else "1fr"
        )

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

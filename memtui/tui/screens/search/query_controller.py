"""Searching as you type: from a key to a request, from an answer to the list and its panes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import inf
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from memtui.bus import SearchFailed, SearchReady
from memtui.model import Leg, LegStatus, Ranked
from memtui.ranking.pipeline import for_mode
from memtui.report.arithmetic import bar_scale
from memtui.report.providers import vectors_note
from memtui.report.status import agent_gets_words
from memtui.retrieval.query import MAX_LENGTH, parse_query
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.background import Timers, in_background, tell
from memtui.tui.widgets.result_rows import (
    SHOWN_DROPS,
    SORTS,
    RowContext,
    draw_hit,
    drop_rows,
    empty_memory,
    engine_failed,
    nothing_found,
    opening,
    query_terms,
    searching_not_possible,
    sorted_hits,
    start_rows,
)
from memtui.tui.widgets.row_list import Row

if TYPE_CHECKING:
    from memtui.engine.ports import RecentFile
    from memtui.tui.screens.search.search_screen import SearchScreen

SHORTEST_PAUSE, LONGEST_PAUSE = 0.400, 1.200
SLOW_AFTER = 0.300
"""Seconds after which a running search is named."""
REFRESH_SECONDS = 0.5
"""At most two refreshes a second while the index changes under the list."""
AT_ONCE = 0.01
"""So long what changes at one stroke is waited for: a message for each file of it."""
PROBLEM_SECONDS = 0.5
"""Without keys for so long, what is wrong with the query is told."""
RECENT_NOTES = 30
HIGHLIGHT_SECONDS = 2.0
PANES_AFTER = 0.020
"""Seconds from the rows of an answer to what is beside them: Textual paints 60 times a second."""
PANES_AFTER_PART = 0.120
"""The same for a part of an answer: as a rule the whole of it comes sooner."""


class QueryController:
    """Asks the engine, believes its newest answer, and draws it: the rows before the panes."""

    def __init__(self, view: SearchScreen) -> None:
        self.view = view
        self.text = ""
        """The text in the query box."""
        self.requested_text: str | None = None
        """The text of the newest request; `None` before the first."""
        self.answered_text: str | None = None
        """The text that what is on screen answers."""
        self.submitted_text: str | None = None
        """The text that is finished, by Enter or a pause: a remote model may be asked."""
        self.complete = True
        """Whether the newest request is answered by every leg."""
        self.remote = False
        """Whether the model is on another machine, which only a finished text is sent to."""
        self.sort = SORTS[0]
        self.followed: str | None = None
        """The chunk to choose in the list that answers a change made from its explanation."""
        self.sequence = -1
        """The number of the newest request."""
        self._latency = 0.0
        """Seconds of the last complete answer."""
        self._typing = True
        """Whether the newest request was for a text that is still typed."""
        self._problems: tuple[str, ...] = ()
        self._refreshed_at = -inf
        self._keep: str | None = None
        """The chunk that the panes are to show, where it is there."""
        self._in_panes: Ranked | None = None
        """The answer that near misses, preview and why-panel show."""
        self._timers = Timers(view)

    @property
    def running(self) -> bool:
        """Whether the newest request has not been answered completely."""
        return self.requested_text is not None and not self.complete

    # --- asking ---------------------------------------------------------------------------------

    def typed(self, text: str) -> None:
        """Ask at once; the engine drops what it was asked before."""
        self.text = text.strip()
        if self._problems or ":" in text or '"' in text or len(text) > MAX_LENGTH:
            self._show_problems(text)
        if self.view.engine is not None:
            self.view.engine.index.hold()
        if not self.text:
            self.show_start()
        elif self.text != self.requested_text:
            self.ask()
        if self.remote and self.text:
            self._finish_after_pause()

    def _finish_after_pause(self) -> None:
        """Ask a model on another machine once no key was pressed for a while."""

        def finish() -> None:
            if self.text and self.submitted_text != self.text:
                self.submitted_text = self.text
                self.ask(quiet=True)

        pause = min(max(SHORTEST_PAUSE, self._latency), LONGEST_PAUSE)
        self._timers.start("pause", pause, finish)

    def submitted(self) -> None:
        """Ask at once on Enter; when the answer is on screen open the chosen result."""
        self.view.notes.remember_query()
        is_part = self.running and self.answered_text != self.requested_text
        asks = self.text != self.requested_text or is_part or self._waits_for_enter()
        self.submitted_text = self.text
        if self.text and asks:
            self.ask()
        else:
            results = self.view.results
            self.view.notes.row_opened((results.display and results.chosen_id) or "")

    def _waits_for_enter(self) -> bool:
        """Tell whether a remote model is asked only once Enter says that the query is finished."""
        ranked = self.view.ranked
        if ranked is None or self.running:
            return False
        return any(state.status is LegStatus.PENDING for state in ranked.pool.states.values())

    def ask(self, *, quiet: bool = False) -> None:
        """Send the text in the box to the engine; `quiet` leaves the count as it is."""
        view = self.view
        if view.engine is None or not self.text:
            return
        # memtui's own query language takes the last word as unfinished until another follows.
        is_foreign = view.status is not None and view.status.foreign is not None
        asks_this_machine = not (is_foreign or self.remote)
        self._typing = asks_this_machine or self.submitted_text != self.text
        self.requested_text, self.complete = self.text, False
        self.sequence = view.engine.search.submit(
            self.text, ranking=view.ranking, typing=self._typing
        )
        if not quiet:
            view.query_bar.show_note("", stale=True)
            self._timers.start("slow", SLOW_AFTER, self._name_slow_search)

    def ask_query(self, text: str) -> None:
        """Ask another query at once, as if it were typed and entered."""
        if self.view.engine is not None:
            self.view.query_input.value = text
            self.view.query_input.action_end()
            self.view.shown_complete = False
            self.text = self.submitted_text = text.strip()
            self.ask()

    def set_query(self, query: str) -> None:
        """Put a query into the box, which asks it."""
        self.view.query_input.value = query
        self.view.query_input.action_end()
        self.view.query_input.focus()

    def refresh(self) -> None:
        """Ask again because the index changed: at once, and then twice a second at most."""

        def ask_again() -> None:
            self._refreshed_at = monotonic()
            if self.text:
                self.ask(quiet=True)
            else:
                self.show_start()

        if not self._timers.is_running("refresh"):
            wait = REFRESH_SECONDS - (monotonic() - self._refreshed_at)
            self._timers.start("refresh", max(wait, AT_ONCE), ask_again)

    def _name_slow_search(self) -> None:
        if self.running:
            self.view.query_bar.show_note("searching", stale=True)

    def stop(self) -> bool:
        """Drop the request that is out; false when there is none."""
        if not self.running:
            return False
        self.complete, self.sequence = True, -1
        self.view.query_bar.show_note("stopped")
        return True

    def forget(self) -> None:
        """Forget the request that is out: its answer will not be believed."""
        self.submitted_text = self.requested_text = self.answered_text = None
        self.complete, self.sequence = True, -1

    def _show_problems(self, text: str) -> None:
        """Show below the box what of the query cannot be understood."""
        # Of another program's index, what is no filter that can be used is a word of the query.
        problems = () if self.view.is_foreign else parse_query(text).problems

        def draw() -> None:
            self._problems = problems
            line = self.view.query_one("#problems", Static)
            line.display = bool(problems)
            line.update(Content(safe_line("; ".join(problems))))

        if problems and not self._problems:
            # Half a filter is no problem yet, and a line that comes and goes moves the list.
            self._timers.start("problems", PROBLEM_SECONDS, draw)
        else:
            self._timers.stop("problems")
            draw()

    # --- answers --------------------------------------------------------------------------------

    def answered(self, event: SearchReady) -> None:
        """Draw the newest answer; drop every other."""
        view, ranked = self.view, event.ranked
        if not self.text or event.sequence != self.sequence:
            return
        same_query = self.answered_text == self.requested_text
        self.answered_text, self.complete = self.requested_text, event.complete
        if event.complete:
            self._latency = (ranked.pool.elapsed_ms + ranked.elapsed_ms) / 1000
        # The parameters may have changed since it was asked; one leg alone ranks by fewer of them.
        if view.engine is not None and ranked.ranking not in (
            view.ranking, for_mode(view.ranking, ranked.pool.search_mode),
        ):  # fmt: skip
            ranked = view.engine.search.rerank(ranked.pool, view.ranking)
        # The first row of a part of the answer was nobody's choice.
        is_refresh = same_query and view.shown_complete
        keep = view.selected_id if is_refresh or view.selected_by_user else None
        view.shown_complete = event.complete
        entered: frozenset[str] = frozenset()
        if not same_query:
            view.selected_by_user = view.selected_by_user and keep in ranked.pool.chunks
        elif view.ranked is not None and view.ranked.hits:
            before = {hit.chunk.id for hit in view.ranked.hits}
            entered = frozenset(hit.chunk.id for hit in ranked.hits) - before
        self.show(ranked, keep=keep, entered=entered)

    def failed(self, event: SearchFailed) -> None:
        """Tell a failure; the list that is on screen stays."""
        if event.sequence != self.sequence:
            return
        self.complete = True
        self.view.query_bar.show_note(f"{self.view.glyphs.error} failed")
        if self.view.ranked is None:
            self.show_message(searching_not_possible(event.error))
        else:
            tell(self.view, safe_line(event.error), error=True)

    # --- drawing --------------------------------------------------------------------------------

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
        context = view.row_context = RowContext(
            glyphs=view.glyphs,
            lines=view.row_lines,
            scale=bar_scale(ranked.hits),
            now=ranked.trace.now,
            dates=ranked.ranking.decay.dates,
            terms=query_terms(ranked),
            moved=moved,
            entered=entered,
            left=left or {},
            pinned=frozenset(view.notes.pins),
        )
        self._keep = self.followed or keep
        hits = ranked.hits if self.sort == SORTS[0] else sorted_hits(ranked, self.sort)
        rows = [Row(hit.chunk.id, partial(draw_hit, hit, context), context.lines) for hit in hits]
        chosen = view.results.set_rows(rows, self._keep, first=True)
        if not rows:
            self.show_message(nothing_found(ranked, self.view.glyphs))
        elif not view.results.display:
            self._swap(view.message, view.results)
        if not view.near.has_focus:
            view.selected_id = chosen
        if moved is not None or entered:
            self._timers.start("highlight", HIGHLIGHT_SECONDS, self.redraw)
        panes_after = PANES_AFTER if self.complete else PANES_AFTER_PART
        self._timers.start("panes", panes_after, self._show_panes)

    def redraw(self) -> None:
        """Draw the rows again, for another width, order or number of lines."""
        if self.view.ranked is not None:
            keep = self._keep if self._timers.is_running("panes") else self.view.selected_id
            self.show(self.view.ranked, keep=keep)
        else:
            self.view.results.redraw()

    def _show_panes(self) -> None:
        """Draw what is beside the list, and let the screens above follow it."""
        view, ranked, context = self.view, self.view.ranked, self.view.row_context
        if ranked is None or context is None or not view.is_built:
            return
        is_other, keep, pool = ranked is not self._in_panes, self._keep, ranked.pool
        self._in_panes = ranked
        if view.shown_complete:
            self.followed = None
        if pool.search_mode is not view.mode:
            view.mode = pool.search_mode
            view.rankings.show_parameters()
        view.rankings.list_shown()
        states = pool.states.items()
        pending = [leg.value for leg, state in states if state.status is LegStatus.PENDING]
        waiting = f"~ {' '.join(pending)} pending  " if pending else ""
        took = fmt.duration((pool.elapsed_ms + ranked.elapsed_ms) / 1e3)
        count = f"{len(ranked.hits)}/{fmt.count(len(pool.chunks))}"
        view.query_bar.show_note(f"{waiting}{count}  {took}")
        self.show_title()
        chosen = view.results.chosen_id
        if view.has_class("-near"):
            # In the near misses, reading one of them, or the same list again: that place is kept.
            in_list = view.query_input.has_focus or view.results.has_focus
            away = not is_other or not in_list
            self._show_drops(ranked, context, keep if away else None)
            if view.near.has_focus or (away and keep is not None and view.near.chosen_id == keep):
                chosen = view.near.chosen_id or chosen
        view.notes.select(chosen)
        view.notes.list_shown(ranked, is_other)
        if self.complete:
            view.index.refresh_status()
            if self.remote and self._typing and self._waits_for_enter():
                # Typed, and perhaps entered, before another machine's model took over.
                self.submitted_text = None
                self._finish_after_pause()

    def _show_drops(self, ranked: Ranked, context: RowContext, keep: str | None) -> None:
        """Show why chunks of the pool are not in the list; what has just left it is marked.

        Without a chunk to keep, another list starts at its top.
        """
        near, drops = self.view.near, ranked.drops
        rows = drop_rows(drops, context)
        if keep is None and [row.id for row in rows] == [row.id for row in near.rows]:
            keep = near.chosen_id
        near.set_rows(rows, keep, first=True)
        gone = sum(drop.chunk.id in context.left for drop in drops)
        more = f", first {SHOWN_DROPS}" if len(drops) > SHOWN_DROPS else ""
        out = (f"  {context.glyphs.down} {gone} out", "$state-error bold") if gone else ""
        near.border_title = Content.assemble(f"Not shown ({fmt.count(len(drops))}{more})", out)
        near.border_subtitle = Content("n hides")

    def show_title(self) -> None:
        """Write above and below the list what is special about it."""
        view, ranked, context = self.view, self.view.ranked, self.view.row_context
        if ranked is None or context is None:
            return
        provider = view.status.provider if view.status is not None else None
        states = ranked.pool.states
        notes = [agent_gets_words(view.status.foreign if view.status else None).partition(" (")[0]]
        if Leg.VECTOR in states and states[Leg.VECTOR].status is LegStatus.OK:
            notes.append(vectors_note(states, provider))
        for leg in (Leg.VECTOR, Leg.KEYWORD):
            if leg in states and states[leg].status is not LegStatus.OK:
                notes.append(fmt.leg_note(leg, states[leg]))
        parts = [Content.styled(note, "$state-warn") for note in notes if note]
        if context.scale != 1.0 and ranked.hits:
            parts.append(Content(f"full bar = {fmt.score(context.scale)}"))
        against = view.rankings.against_configured(ranked)
        longer = Content(" · ").join([*parts, Content(against)])
        fits = against and longer.cell_length <= view.results.size.width - 4
        title = "Results" if self.sort == SORTS[0] else f"Results by {self.sort}"
        view.results.border_title = Content(title if self.complete else f"{title} ~")
        view.results.border_subtitle = longer if fits else Content(" · ").join(parts)

    def choose(self, chunk_id: str) -> None:
        """Choose a chunk in whichever list has it, and show it."""
        self.view.selected_by_user = True
        self._keep = chunk_id
        self.view.results.choose(chunk_id, by_user=True)
        self.view.near.choose(chunk_id, by_user=True)
        self.view.notes.select(chunk_id)

    def cycle_sort(self) -> None:
        """Show the list in another order; ranks and scores stay what they are."""
        self.sort = SORTS[(SORTS.index(self.sort) + 1) % len(SORTS)]
        self.view.rankings.note(f"list by {self.sort}")
        self.redraw()

    def toggle_near_misses(self) -> None:
        """Show or hide the candidates that are not in the list."""
        view = self.view
        view.shows_near_misses = not view.has_class("-near")
        if not view.shows_near_misses and view.near.has_focus:
            view.show_pane("results")
        view.apply_layout()
        self.redraw()

    # --- without a list -------------------------------------------------------------------------

    def show_start(self) -> None:
        """Show what there is before a query: notes changed last, queries asked last."""
        view, engine = self.view, self.view.engine
        self.forget()
        view.ranked = view.row_context = None
        view.query_bar.show_note("")
        view.apply_layout()
        if engine is not None:
            in_background(
                view,
                lambda: engine.browse.recent(RECENT_NOTES),
                lambda notes: self._show_recent(notes) if engine is view.engine else None,
                group="recent",
                description="list the recent notes",
                exclusive=True,
            )
        elif view.engine_error:
            self.show_message(engine_failed(view.engine_error))
        else:
            root = view.options.root
            self.show_message(opening(str(root) if root != Path() else ""))

    def _show_recent(self, notes: Sequence[RecentFile]) -> None:
        """Show the notes that changed last, unless a query was typed meanwhile."""
        view = self.view
        if self.text or not view.is_built:
            return
        rows = start_rows(view.notes.queries, notes, view.clock())
        view.results.border_title = Content("Recent")
        view.results.border_subtitle = Content("")
        view.results.set_rows(rows, view.results.chosen_id)
        if rows:
            self._swap(view.message, view.results)
        elif view.status is not None:
            self.show_message(empty_memory(view.status))

    def show_message(self, content: Content) -> None:
        """Show a message in the results pane, in place of the list."""
        self.view.message.show(content)
        self._swap(self.view.results, self.view.message)

    def _swap(self, hidden: Widget, shown: Widget) -> None:
        had_focus = hidden.has_focus
        shown.display, hidden.display = True, False
        if had_focus:
            shown.focus()

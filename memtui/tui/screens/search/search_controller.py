"""Searching as you type, from a key to a request, from an answer to the list and its panes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from textual.content import Content
from textual.widgets import Static

from memtui.bus import SearchFailed, SearchReady
from memtui.model import Chunk, Leg, LegStatus, Ranked, Ranking, SearchMode
from memtui.ranking.pipeline import for_mode
from memtui.ranking.trace import Difference
from memtui.report.arithmetic import bar_scale
from memtui.report.status import agent_gets_words, vectors_note
from memtui.retrieval.query import MAX_LENGTH, parse_query
from memtui.text.sanitize import safe, safe_line
from memtui.tui import format as fmt
from memtui.tui.background import Timers, in_background, tell
from memtui.tui.widgets.lists import Row
from memtui.tui.widgets.result_rows import (
    SHOWN_DROPS,
    SORTS,
    RowContext,
    draw_hit,
    drop_rows,
    empty_memory,
    message,
    message_row,
    nothing_found,
    query_terms,
    sorted_hits,
    start_rows,
)
from memtui.tui.widgets.why_panel import Pin

if TYPE_CHECKING:
    from memtui.engine.ports import RecentFile, SourceText
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


@dataclass(slots=True)
class Request:
    """A query that the engine was asked."""

    number: int
    text: str
    typing: bool
    """True while the text is still typed: no model on another machine is asked."""
    is_answered: bool = False
    """True once every leg has answered it."""


@dataclass(slots=True)
class SearchState:
    """The query to the memory that is open, and the list that is shown."""

    ranking: Ranking
    text: str = ""
    """The text in the query box."""
    finished_text: str | None = None
    """The text that Enter or a pause ended: a model on another machine may be asked."""
    request: Request | None = None
    """The newest request, while its answer is believed; without a query there is none."""
    answered_text: str | None = None
    """The query that `ranked` answers."""
    ranked: Ranked | None = None
    """The answer on screen; `None` while the query is empty."""
    is_whole: bool = False
    """True if every leg is in the answer on screen."""
    mode: SearchMode = SearchMode.HYBRID
    """The legs that could search for the last answer."""
    context: RowContext | None = None
    """The values by which the rows on screen are drawn."""
    selected_id: str | None = None
    """Chunk id of the chosen result or near miss."""
    selected_by_user: bool = False
    followed: str | None = None
    """The chunk to choose in the list that answers a change made from its explanation."""
    undoable: list[Ranking] = field(default_factory=list)
    """The rankings before the last changes; undo takes the last."""
    redoable: list[Ranking] = field(default_factory=list)
    pins: dict[str, Pin] = field(default_factory=dict)
    """The chunks that are followed through every query by id, the newest last, at most two."""
    source: SourceText | None = None
    """The note that was read last."""

    @property
    def is_pending(self) -> bool:
        """True until the newest request is answered by every leg."""
        return self.request is not None and not self.request.is_answered

    @property
    def waits_for_enter(self) -> bool:
        """True if a remote model is asked only once Enter says that the query is finished."""
        if self.ranked is None or self.is_pending:
            return False
        return any(leg.status is LegStatus.PENDING for leg in self.ranked.pool.states.values())

    @property
    def selected_chunk(self) -> Chunk | None:
        """The chunk of the chosen result or near miss."""
        chunks = self.ranked.pool.chunks if self.ranked is not None else {}
        return chunks.get(self.selected_id or "")


class SearchController:
    """Asks the engine, believes its newest answer, and draws it: the rows before the panes."""

    def __init__(self, view: SearchScreen) -> None:
        self.view = view
        self.sort = SORTS[0]
        self._latency = 0.0
        """Seconds of the last complete answer."""
        self._problems: tuple[str, ...] = ()
        self._refreshed_at = -inf
        self._timers = Timers(view)

    # --- asking ---------------------------------------------------------------------------------

    def typed(self, text: str) -> None:
        """Ask at once, and show below the box what of the query cannot be understood.

        The engine drops what it was asked before.
        """
        view, state = self.view, self.view.state
        state.text = text.strip()
        # Of another program's index, what is no filter that can be used is a word of the query.
        can_fail = ":" in text or '"' in text or len(text) > MAX_LENGTH
        problems = parse_query(text).problems if can_fail and not view.is_foreign else ()

        def show_problems() -> None:
            if text == view.query_input.value:
                self._problems = problems
                line = view.query_one("#problems", Static)
                line.display = bool(problems)
                line.update(Content(safe_line("; ".join(problems))))

        if problems and not self._problems:
            # Half a filter is no problem yet, and a line that comes and goes moves the list.
            self._timers.start("problems", PROBLEM_SECONDS, show_problems)
        elif problems != self._problems:
            show_problems()
        if view.engine is not None:
            view.engine.index.hold()
        if not state.text:
            self.show_start()
        elif state.request is None or state.text != state.request.text:
            self.ask()

    def ask(self, *, quiet: bool = False) -> None:
        """Send the text in the box to the engine; `quiet` leaves the count as it is."""
        view, state = self.view, self.view.state
        if view.engine is None or not state.text:
            return
        is_remote = view.status is not None and view.status.provider.remote
        # memtui's own query language takes the last word as unfinished until another follows.
        typing = not (is_remote or view.is_foreign) or state.finished_text != state.text
        number = view.engine.search.submit(state.text, ranking=state.ranking, typing=typing)
        state.request = Request(number, state.text, typing)
        if is_remote and not view.is_foreign and typing:
            self._finish_after_pause()
        if not quiet:

            def name_slow_search() -> None:
                if view.state.is_pending:
                    view.query_bar.show_note("searching", stale=True)

            view.query_bar.show_note("", stale=True)
            self._timers.start("slow", SLOW_AFTER, name_slow_search)

    def _finish_after_pause(self) -> None:
        """Ask a model on another machine once no key was pressed for a while.

        That of an agent is asked when Enter is pressed.
        """

        def finish() -> None:
            state = self.view.state
            if state.text and state.finished_text != state.text:
                state.finished_text = state.text
                self.ask(quiet=True)

        pause = min(max(SHORTEST_PAUSE, self._latency), LONGEST_PAUSE)
        self._timers.start("pause", pause, finish)

    def ask_query(self, text: str) -> None:
        """Ask another query at once, as if it were typed and entered."""
        view, state = self.view, self.view.state
        if view.engine is not None:
            view.query_input.value = text
            view.query_input.action_end()
            state.text = state.finished_text = text.strip()
            self.ask()

    def set_query(self, query: str) -> None:
        """Put a query into the box, which asks it."""
        self.view.query_input.focus()
        self.view.query_input.value = query
        self.view.query_input.action_end()

    def refresh(self) -> None:
        """Ask again because the index changed: at once, and then twice a second at most."""

        def ask_again() -> None:
            self._refreshed_at = monotonic()
            if self.view.state.text:
                self.ask(quiet=True)
            else:
                self.show_start()

        if not self._timers.is_running("refresh"):
            wait = REFRESH_SECONDS - (monotonic() - self._refreshed_at)
            self._timers.start("refresh", max(wait, AT_ONCE), ask_again)

    # --- answers --------------------------------------------------------------------------------

    def answered(self, event: SearchReady) -> None:
        """Draw the newest answer; drop every other."""
        view, state, ranked = self.view, self.view.state, event.ranked
        request, pool = state.request, ranked.pool
        if request is None or event.sequence != request.number or not state.text:
            return
        is_same_query = state.answered_text == request.text
        # The first row of a part of the answer was nobody's choice.
        is_kept = state.selected_by_user or (is_same_query and state.is_whole)
        keep = state.selected_id if is_kept else None
        state.answered_text = request.text
        request.is_answered = state.is_whole = event.complete
        if state.mode is not pool.search_mode:
            state.mode = pool.search_mode
            view.rankings.show_parameters()
        if event.complete:
            self._latency = (pool.elapsed_ms + ranked.elapsed_ms) / 1000
        # The parameters may have changed since it was asked; one leg alone ranks by fewer of them.
        rankings = state.ranking, for_mode(state.ranking, state.mode)
        if view.engine is not None and ranked.ranking not in rankings:
            ranked = view.engine.search.rerank(pool, state.ranking)
        entered: frozenset[str] = frozenset()
        if not is_same_query:
            state.selected_by_user = state.selected_by_user and keep in pool.chunks
        elif state.ranked is not None and state.ranked.hits:
            old = {hit.chunk.id for hit in state.ranked.hits}
            entered = frozenset(hit.chunk.id for hit in ranked.hits) - old
        self.show(ranked, keep=keep, entered=entered)

    def failed(self, event: SearchFailed) -> None:
        """Tell a failure; the list that is on screen stays."""
        state = self.view.state
        if state.request is None or event.sequence != state.request.number:
            return
        state.request = None
        self.view.query_bar.show_note(f"{self.view.glyphs.error} failed")
        if state.ranked is None:
            self.show_message(message("failed", error=safe(event.error)))
        else:
            tell(self.view, safe_line(event.error), error=True)

    # --- drawing --------------------------------------------------------------------------------

    def show(
        self,
        ranked: Ranked,
        *,
        keep: str | None,
        change: Difference | None = None,
        entered: frozenset[str] = frozenset(),
    ) -> None:
        """Put a list of results on screen, and the near misses where there is room for them.

        The chunk `keep` stays chosen where it is there. What another ranking made of the list
        before, or the ids that another answer brought, are marked for a while.
        """
        view, state, before = self.view, self.view.state, self.view.state.ranked
        state.ranked = ranked
        if before is None:
            view.apply_layout()
        if before is not ranked:
            state.pins = {chunk_id: Pin(pin.chunk) for chunk_id, pin in state.pins.items()}
        context = state.context = RowContext(
            glyphs=view.glyphs,
            lines=view.row_lines,
            scale=bar_scale(ranked.hits),
            now=ranked.trace.now,
            dates=ranked.ranking.decay.dates,
            terms=query_terms(ranked),
            moved=change.moved if change is not None else None,
            entered=entered.union(change.entered if change is not None else ()),
            left=change.left if change is not None else {},
            pinned=frozenset(state.pins),
        )
        keep = state.followed or keep
        hits = ranked.hits if self.sort == SORTS[0] else sorted_hits(ranked, self.sort)
        rows = [Row(hit.chunk.id, partial(draw_hit, hit, context), context.lines) for hit in hits]
        if rows:
            state.selected_id = view.results.set_rows(rows, keep, first=True)
        else:
            state.selected_id = None
            self.show_message(nothing_found(ranked, view.glyphs))
        if view.has_class("-near"):
            near, drops = view.near, ranked.drops
            # One that nobody reads starts at its top when the list is another.
            in_list = view.query_input.has_focus or view.results.has_focus
            keep = None if before is not ranked and in_list else keep
            rows = drop_rows(drops, context)
            is_same = [row.id for row in rows] == [row.id for row in near.rows]
            chosen = near.set_rows(rows, keep or (near.chosen_id if is_same else None), first=True)
            gone = sum(drop.chunk.id in context.left for drop in drops)
            more = f", first {SHOWN_DROPS}" if len(drops) > SHOWN_DROPS else ""
            out = (f"  {context.glyphs.down} {gone} out", "$state-error bold") if gone else ""
            near.border_title = Content.assemble(f"Not shown ({fmt.count(len(drops))}{more})", out)
            near.border_subtitle = Content("n hides")
            if chosen is not None and (near.has_focus or chosen == keep):
                state.selected_id = chosen
        if change is not None or entered:
            self._timers.start("highlight", HIGHLIGHT_SECONDS, self.redraw)
        panes_after = PANES_AFTER if state.is_whole else PANES_AFTER_PART
        self._timers.start("panes", panes_after, self._show_panes)

    def redraw(self) -> None:
        if self.view.state.ranked is not None:
            self.show(self.view.state.ranked, keep=self.view.state.selected_id)
        else:
            self.view.results.redraw()

    def _show_panes(self) -> None:
        view, state, ranked = self.view, self.view.state, self.view.state.ranked
        if ranked is None or not view.is_built:
            return
        if not state.is_pending:
            state.followed = None
        pool = ranked.pool
        view.rankings.tell_effect()
        states = pool.states.items()
        pending = [leg.value for leg, one in states if one.status is LegStatus.PENDING]
        waiting = f"~ {' '.join(pending)} pending  " if pending else ""
        took = fmt.duration((pool.elapsed_ms + ranked.elapsed_ms) / 1e3)
        count = f"{len(ranked.hits)}/{fmt.count(len(pool.chunks))}"
        view.query_bar.show_note(f"{waiting}{count}  {took}")
        self.show_title()
        view.notes.select(state.selected_id)
        view.notes.show_pins()
        for screen in view.app.screen_stack:
            if (follow := getattr(screen, "follow_list", None)) is not None:
                follow(ranked, state.ranking)
        if not state.is_pending:
            view.refresh_status()
            is_remote = view.status is not None and view.status.provider.remote
            is_typed = state.request is not None and state.request.typing
            if is_remote and not view.is_foreign and is_typed and state.waits_for_enter:
                # Typed, and perhaps entered, before another machine's model took over.
                state.finished_text = None
                self._finish_after_pause()

    def show_title(self) -> None:
        """Write above and below the list what is special about it."""
        view, state, ranked = self.view, self.view.state, self.view.state.ranked
        if ranked is None or state.context is None or not ranked.hits:
            return
        status, states = view.status, ranked.pool.states
        notes = [agent_gets_words(status.foreign if status else None).partition(" (")[0]]
        if Leg.VECTOR in states and states[Leg.VECTOR].status is LegStatus.OK:
            notes.append(vectors_note(states, status.provider if status else None))
        for leg in (Leg.VECTOR, Leg.KEYWORD):
            if leg in states and states[leg].status is not LegStatus.OK:
                notes.append(fmt.leg_note(leg, states[leg]))
        parts = [Content.styled(note, "$state-warn") for note in notes if note]
        if state.context.scale != 1.0:
            parts.append(Content(f"full bar = {fmt.score(state.context.scale)}"))
        against = view.rankings.against_configured(ranked)
        longer = Content(" · ").join([*parts, Content(against)])
        fits = against and longer.cell_length <= view.results.size.width - 4
        title = "Results" if self.sort == SORTS[0] else f"Results by {self.sort}"
        view.results.border_title = Content(f"{title} ~" if state.is_pending else title)
        view.results.border_subtitle = longer if fits else Content(" · ").join(parts)

    def choose(self, chunk_id: str) -> None:
        """Choose a chunk in whichever list has it, and show it."""
        self.view.state.selected_by_user = True
        self.view.results.choose(chunk_id, by_user=True)
        self.view.near.choose(chunk_id, by_user=True)
        self.view.notes.select(chunk_id)

    def cycle_sort(self) -> None:
        """Show the list in another order; ranks and scores stay what they are."""
        self.sort = SORTS[(SORTS.index(self.sort) + 1) % len(SORTS)]
        self.view.rankings.note(f"list by {self.sort}")
        self.redraw()

    def toggle_near_misses(self) -> None:
        view = self.view
        view.shows_near_misses = not view.has_class("-near")
        if not view.shows_near_misses and view.near.has_focus:
            view.show_pane("results")
        view.apply_layout()

    # --- without a list -------------------------------------------------------------------------

    def show_start(self) -> None:
        """Show what there is before a query: notes changed last, queries asked last."""
        view, state, engine = self.view, self.view.state, self.view.engine
        state.request = state.ranked = state.context = None
        state.answered_text = state.finished_text = None
        view.query_bar.show_note("")
        view.apply_layout()
        if engine is None:
            if view.engine_error:
                self.show_message(message("closed", error=safe(view.engine_error)))
            else:
                root = str(view.options.root) if view.options.root != Path() else ""
                self.show_message(message("opening", root=fmt.home_relative(root)))
            return

        def show_recent(notes: Sequence[RecentFile]) -> None:
            if engine is not view.engine or view.state.text or not view.is_built:
                return
            if rows := start_rows(view.notes.queries, notes, engine.now()):
                view.results.border_title, view.results.border_subtitle = "Recent", ""
                view.results.set_rows(rows, view.results.chosen_id)
            elif view.status is not None:
                self.show_message(empty_memory(view.status))

        in_background(
            view,
            lambda: engine.browse.recent(RECENT_NOTES),
            show_recent,
            "list the recent notes",
            group="recent",
        )

    def show_message(self, content: Content) -> None:
        results = self.view.results
        results.border_title, results.border_subtitle = "Results", ""
        results.set_rows([message_row(content)])

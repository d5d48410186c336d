"""From a key to the list and its panes: searching as you type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from textual.content import Content

from memtui.bus import SearchFailed, SearchReady
from memtui.model import (
    Chunk,
    Evidence,
    IndexState,
    Leg,
    LegStatus,
    Ranked,
    Ranking,
    Reason,
    SearchMode,
)
from memtui.ranking.pipeline import Difference, cut_pool, for_mode
from memtui.ranking.strength import is_all_weak
from memtui.ranking.trace import cited_lines, find
from memtui.report.arithmetic import bar_scale, relative_words
from memtui.report.status import agent_gets_words, vectors_note
from memtui.report.words import LEG_WORDS, NOTHING_GOOD, TOLD_REASONS, duration, leg_name, leg_note
from memtui.retrieval.query import day_rule, parse_query, query_problems
from memtui.text.sanitize import safe, safe_line
from memtui.tui import fmt, glyphs
from memtui.tui.background import in_background, tell
from memtui.tui.bindings import next_of
from memtui.tui.place_actions import app_of
from memtui.tui.screens.common import WIDE, Timers
from memtui.tui.widgets.bars import draw_action, draw_key
from memtui.tui.widgets.lists import Row, TextBlock
from memtui.tui.widgets.result_rows import (
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
WHOLE_WORD_AFTER = 1.000
"""Seconds without a key after which the last word is searched as it stands."""
SLOW_AFTER = 0.300
"""Seconds after which a running search is named."""
REFRESH_SECONDS = 0.5
"""At most two refreshes a second while the index changes under the list."""
AT_ONCE = 0.01
"""So long what changes at one stroke is waited for: a message for each file of it."""
PROBLEM_SECONDS = 0.5
"""Without keys for so long, what is wrong with the query is told."""
RECENT_NOTES = 30
PANES_AFTER = 0.020
"""Seconds from the rows of an answer to what is beside them: Textual paints 60 times a second."""
PANES_AFTER_PART = 0.120
"""The same for a part of an answer: as a rule the whole of it comes sooner."""
NOTE_SECONDS = 6.0
_ALL_SHOWN = "none: the list has all that was found"


@dataclass(slots=True)
class Request:
    """A query that the engine was asked."""

    number: int
    text: str
    typing: bool = False
    """True if the last word is still being typed."""
    is_answered: bool = False
    """True once every leg has answered it."""


@dataclass(slots=True)
class SearchState:
    """The query to the memory that is open, and the list that is shown."""

    ranking: Ranking
    text: str = ""
    finished_text: str | None = None
    """The text that Enter or a pause ended: a model on another machine may be asked."""
    request: Request | None = None
    """The newest request, while its answer is believed; without a query there is none."""
    answered_text: str | None = None
    """The query that `ranked` answers."""
    ranked: Ranked | None = None
    """The answer on screen; `None` while the query is empty."""
    mode: SearchMode = SearchMode.HYBRID
    """The legs that could search for the last answer."""
    terms: tuple[str, ...] = ()
    """The terms of the query that candidates hold."""
    context: RowContext | None = None
    """The values by which the rows on screen are drawn."""
    selected_id: str | None = None
    """Chunk id of the chosen result or near miss."""
    selected_by_user: bool = False
    """True if the user chose it for this query, or changed the ranking of its list."""
    followed: str | None = None
    """The chunk to choose in the list that answers a change made from its explanation."""
    undoable: list[Ranking] = field(default_factory=list)
    """The rankings before the last changes; undo takes the last."""
    redoable: list[Ranking] = field(default_factory=list)
    replaced: dict[tuple[str, Ranking], str] = field(default_factory=dict)
    """The queries that Explain changed, by what it asked instead and the ranking of then."""
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
    def evidence(self) -> Evidence:
        """The parts of the index that the passages of the list are measured by."""
        return self.ranked.pool.evidence if self.ranked is not None else Evidence.WORDS

    @property
    def lines(self) -> tuple[int, int]:
        """The first and the last line of the chosen result: of its best passage, or its chunk."""
        chunk = self.selected_chunk
        if self.ranked is None or chunk is None:
            return 0, 0
        return cited_lines(find(self.ranked, chunk.id))

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
        self._problems: list[str] = []
        self._refreshed_at = -inf
        self._timers = Timers(view)

    def typed(self, text: str) -> None:
        """Ask at once, and show below the box what of the query cannot be understood.

        The engine drops what it was asked before. A blank at the end finishes the last word, but
        sends no text to another machine.
        """
        view, state = self.view, self.view.state
        if state.text != text.strip():
            view.rankings.note("")
        state.text = text.strip()
        if text[-1:].isspace() and not view.is_remote and not view.foreign:
            state.finished_text = state.text
        sources = view.status.sources if view.status is not None else ()
        by_release, names = view.foreign is not None, [one.source for one in sources]
        problems = [*query_problems(text, names, by_release=by_release), *day_rule(text)]

        def show_problems() -> None:
            if text == view.query_input.value:
                self._problems = problems
                self.show_below()

        if len(problems) > len(self._problems):
            # Half a filter is no problem yet, and a line that comes and goes moves the list.
            self._timers.start("problems", PROBLEM_SECONDS, show_problems)
        else:
            self._problems = problems
        self.show_below()
        if view.engine is not None:
            view.engine.index.hold()
        request, is_finished = state.request, state.finished_text == state.text
        if request is None or state.text != request.text or (is_finished and request.typing):
            self.ask()

    def show_below(self, *, offers: bool = False) -> None:
        """Show below the box all that is not understood, or what a query can have.

        That is offered while nothing is typed, or as long as what is typed next replaces all.
        """
        text = Content(safe_line("; ".join(self._problems)))
        if not text and (offers or not self.view.state.text):
            text = message("operators").stylize(fmt.MUTED)

        def draw(width: int) -> list[Content]:
            if self._problems:
                return fmt.hanging(text, width, 0)
            return [fmt.fit(text, width)] if text else []

        self.view.query_one("#problems", TextBlock).show(draw)

    def begins_word(self) -> bool:
        """Tell whether the last word finds longer ones while it is typed."""
        text = self.view.state.text
        is_other = parse_query(text, typing=True).terms != parse_query(text).terms
        return is_other and not self.view.foreign

    def ask(self, *, quiet: bool = False) -> None:
        """Send the text in the box to the engine; without one show what there is before a query.

        `quiet` leaves the count as it is.
        """
        view, state = self.view, self.view.state
        if not state.text:
            self.show_start()
        if view.engine is None or not state.text:
            return
        if state.request is None or state.text != state.request.text:
            state.selected_by_user = False
        typing = state.finished_text != state.text
        number = view.engine.search.submit(state.text, ranking=state.ranking, typing=typing)
        state.request = Request(number, state.text, typing)
        view.query_input.show_ending("*" if typing and self.begins_word() else "")
        if typing and (view.is_remote or not view.foreign):
            self._finish_after_pause()
        if not quiet:

            def name_slow_search() -> None:
                if view.state.is_pending:
                    view.query_bar.show_note("searching", stale=True)

            view.query_bar.show_note("", stale=True)
            self._timers.start("slow", SLOW_AFTER, name_slow_search)

    def _finish_after_pause(self) -> None:
        """Ask what waits for the end of the query, once no key was pressed for a while.

        That is the whole last word, a model elsewhere, and the word pieces that a large index
        lacks. That of an agent is asked when Enter is pressed.
        """

        def finish() -> None:
            state = self.view.state
            if state.text and state.finished_text != state.text:
                state.finished_text = state.text
                self.ask(quiet=True)

        pause = min(max(SHORTEST_PAUSE, self._latency), LONGEST_PAUSE)
        if not self.view.is_remote:
            pause = WHOLE_WORD_AFTER
        self._timers.start("pause", pause, finish)

    def ask_query(self, query: str) -> None:
        """Ask another query at once, as if it were typed and entered."""
        state = self.view.state
        state.text = state.finished_text = query.strip()
        self.view.query_input.value = query
        self.view.query_input.action_end()
        self.ask()

    def set_query(self, query: str, *, typing: bool = False) -> None:
        """Put a query into the box and ask it; `typing`: as one that is not finished."""
        self.view.query_input.focus()
        if not typing:
            self.ask_query(query)
            return
        self.view.query_input.value = query
        self.view.query_input.action_end()

    def refresh(self) -> None:
        """Ask again because the index changed: at once, and then twice a second at most."""

        def ask_again() -> None:
            self._refreshed_at = monotonic()
            self.ask(quiet=True)

        if not self._timers.is_running("refresh"):
            wait = REFRESH_SECONDS - (monotonic() - self._refreshed_at)
            self._timers.start("refresh", max(wait, AT_ONCE), ask_again)

    def answered(self, event: SearchReady) -> None:
        """Draw the newest answer; drop every other."""
        view, state, ranked = self.view, self.view.state, event.ranked
        request, pool = state.request, ranked.pool
        if request is None or event.sequence != request.number or not state.text:
            return
        is_same_query = state.answered_text == request.text
        # The first row was nobody's choice.
        keep = state.selected_id if state.selected_by_user else None
        state.answered_text = request.text
        state.terms = query_terms(ranked)
        request.is_answered = event.complete
        if state.mode is not pool.search_mode:
            state.mode = pool.search_mode
            view.rankings.show_parameters()
        if event.complete:
            self._latency = (pool.elapsed_ms + ranked.elapsed_ms) / 1000
        if pool.pieces_due:
            self._timers.stop("slow")
        # The parameters may have changed since it was asked; one leg alone ranks by fewer of them.
        rankings = state.ranking, for_mode(state.ranking, state.mode)
        if view.engine is not None and ranked.ranking not in rankings:
            ranked = view.engine.search.rerank(cut_pool(pool, state.ranking), state.ranking)
        entered: frozenset[str] = frozenset()
        if is_same_query and state.ranked is not None and state.ranked.hits:
            old = {hit.chunk.id for hit in state.ranked.hits}
            entered = frozenset(hit.chunk.id for hit in ranked.hits) - old
        self.show(ranked, keep=keep, entered=entered)
        if event.complete:
            view.rankings.tell_effect(ranked)

    def failed(self, event: SearchFailed) -> None:
        """Tell a failure; the list that is on screen stays."""
        state = self.view.state
        if state.request is None or event.sequence != state.request.number:
            return
        state.request = None
        self.view.query_bar.show_note(f"{glyphs.ERROR} failed")
        status = self.view.engine.index.status() if self.view.engine is not None else None
        if state.ranked is None and status is not None and status.state is IndexState.ERROR:
            self.show_message(empty_memory(status, app_of(self.view).keymap))
        elif state.ranked is None:
            self.show_message(message("failed", error=safe(event.error)))
        else:
            tell(self.view, safe_line(event.error), error=True)

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
            lines=view.row_lines,
            scale=bar_scale(ranked.hits) if ranked.pool.is_scored else 0.0,
            ranked=ranked,
            terms=state.terms,
            moved=change.moved if change is not None else None,
            entered=entered.union(change.entered if change is not None else ()),
            left=change.left if change is not None else {},
            pinned=frozenset(state.pins),
        )
        keep = state.followed or keep
        hits = ranked.hits if self.sort == SORTS[0] else sorted_hits(ranked, self.sort)
        rows = [Row(hit.chunk.id, partial(draw_hit, hit, context), context.lines) for hit in hits]
        view.results.opens = "read" * bool(rows)
        if rows:
            # One that is chosen in the other list leaves this one at its own.
            is_elsewhere = keep is not None and keep not in ranked.ranks
            own = view.results.chosen_id if is_elsewhere else keep
            state.selected_id = view.results.set_rows(rows, own, first=True)
        else:
            state.selected_id = None
            status = view.engine.index.status() if view.engine is not None else None
            self.show_message(nothing_found(ranked, status, app_of(view).keymap))
        if view.has_class("-near"):
            near = view.near
            # One that nobody reads starts at its top when the list is another.
            in_list = view.query_input.has_focus or view.results.has_focus
            keep = None if before is not ranked and in_list else keep
            rows = drop_rows(context)
            is_same = [row.id for row in rows] == [row.id for row in near.rows]
            keep_near = keep or (near.chosen_id if is_same else None)
            chosen = near.set_rows(rows, keep_near, first=True, empty=_ALL_SHOWN)
            if chosen is not None and (near.has_focus or chosen == keep):
                state.selected_id = chosen
        if change is not None or entered:
            self._timers.start("highlight", NOTE_SECONDS, self.redraw)
        panes_after = PANES_AFTER_PART if state.is_pending else PANES_AFTER
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
        states = pool.states.items()
        pending = [leg_name(leg) for leg, one in states if one.status is LegStatus.PENDING]
        waiting = f"~ {', '.join(pending)} still searching  " if pending else ""
        waiting = waiting or ("~ making word pieces  " if pool.pieces_due else "")
        took = duration((pool.elapsed_ms + ranked.elapsed_ms) / 1e3)
        noun = " found" if view.size.width >= WIDE else ""
        count = f"{len(ranked.hits)} of {fmt.count(pool.total)}{noun}"
        view.query_bar.show_note(f"{waiting}{count}  {took}")
        self.show_title()
        view.notes.select(state.selected_id)
        view.notes.show_pins()
        for screen in view.app.screen_stack:
            if (follow := getattr(screen, "follow_list", None)) is not None:
                follow(ranked, state.ranking)
        if not state.is_pending:
            view.refresh_status()
            is_typed = state.request is not None and pool.typing
            if view.is_remote and is_typed and state.waits_for_enter:
                # Typed, and perhaps entered, before another machine's model took over.
                state.finished_text = None
                self._finish_after_pause()

    def show_title(self) -> None:
        """Write above and below the list what is special about it."""
        view, state, ranked = self.view, self.view.state, self.view.state.ranked
        if ranked is None or state.context is None:
            return
        gone = len(state.context.left)
        out = Content.styled(f"  {glyphs.DOWN} {gone} out" if gone else "", "$state-error bold")
        counts = f"{fmt.count(len(ranked.drops))} of {fmt.count(ranked.pool.total)} found"
        hidden = f"Not shown ({counts})"
        view.near.border_title = draw_action(view, "near_misses.toggle", hidden) + out
        tracing = draw_action(view, "trace")
        view.near.border_subtitle = tracing and tracing + " traces any other chunk"
        if not ranked.hits:
            return
        status, states = view.status, ranked.pool.states
        notes = [agent_gets_words(view.foreign).partition(" (")[0]]
        notes += [state.detail for state in states.values() if state.reason in TOLD_REASONS]
        if Leg.VECTOR in states and states[Leg.VECTOR].status is LegStatus.OK:
            notes.append(vectors_note(states, status.provider if status else None))
        for leg in (Leg.VECTOR, Leg.KEYWORD):
            answered = leg in states and states[leg].status is LegStatus.OK
            if leg in states and not (answered or states[leg].reason is Reason.EMPTY_QUERY):
                notes.append(leg_note(leg, states[leg]))
        parts = [Content.styled(safe_line(note), "$state-warn") for note in notes if note]
        if is_all_weak(ranked):
            parts.append(Content.styled(NOTHING_GOOD, "$state-warn"))
        if ranked.drops and not view.has_class("-near"):
            hidden = f"{fmt.count(len(ranked.drops))} not shown"
            parts.append(draw_action(view, "near_misses.toggle", hidden))
        if state.context.scale not in (0.0, 1.0) and state.context.lines > 1:
            parts.append(Content(f"full bar: score {fmt.score(state.context.scale)}"))
        if against := view.rankings.against_configured(ranked):
            parts.append(Content(against))
        # The last ones are worth least, and half of one is worth nothing.
        room = view.results.size.width - 4
        while len(parts) > 1 and Content(" · ").join(parts).cell_length > room:
            parts.pop()
        title, relative = Content("Results"), relative_words(ranked)
        if self.sort != SORTS[0]:
            leg_names = {LEG_WORDS[leg] for hit in ranked.hits for leg in hit.legs}
            is_missing = self.sort in LEG_WORDS.values() and self.sort not in leg_names
            order = f"rank: no {self.sort} match" if is_missing else self.sort
            title = Content(f"Results by {order}, ") + draw_action(view, "sort.cycle", "changes")
        scores = title + f", scores {relative}"
        title = scores if relative and scores.cell_length <= room else title
        view.results.border_title = title + " ~" if state.is_pending else title
        view.results.border_subtitle = Content(" · ").join(parts)

    def choose(self, chunk_id: str) -> None:
        """Choose a chunk in the list that has it, which is shown for it, and show it."""
        ranked = self.view.state.ranked
        if ranked is not None and chunk_id not in ranked.ranks and not self.view.has_class("-near"):
            self.toggle_near_misses()
        self.view.state.selected_by_user = True
        self.view.results.choose(chunk_id, by_user=True)
        self.view.near.choose(chunk_id, by_user=True)
        self.view.notes.select(chunk_id)

    def cycle_sort(self) -> None:
        """Show the list in another order; ranks and scores stay what they are."""
        self.sort = next_of(SORTS, self.sort)
        self.view.rankings.note(f"list by {self.sort}")
        self.redraw()

    def toggle_near_misses(self) -> None:
        """Show what is not shown and give it the keys, or take it away."""
        view = self.view
        if view.state.ranked is None or view.is_small:
            why = "no room on this screen" if view.is_small else "search for something first"
            tell(view, f"Nothing to show: {why}.")
            return
        view.shows_near_misses = not view.has_class("-near")
        if not view.shows_near_misses and view.near.has_focus:
            view.notes.select(view.results.chosen_id)
            view.show_pane("results")
        view.apply_layout()
        if view.shows_near_misses:
            view.call_after_refresh(view.near.focus)

    def show_start(self) -> None:
        """Show what there is before a query: notes changed last, queries asked last."""
        view, state, engine = self.view, self.view.state, self.view.engine
        had_list = state.ranked is not None
        state.request = state.ranked = state.context = None
        state.terms = ()
        state.answered_text = state.finished_text = None
        view.query_bar.show_note("")
        view.results.opens = ""
        if had_list:
            view.notes.select(None)
            view.notes.show_pins()
        self.show_below()
        view.apply_layout()
        if engine is None:
            error, keymap = safe(view.engine_error), app_of(view).keymap
            root = str(view.options.root) if view.options.root != Path() else ""
            closed, opening = message("closed", keymap, error=error), message("opening", root=root)
            self.show_message(closed if error else opening)
            return

        def show_recent(notes: Sequence[RecentFile]) -> None:
            if engine is not view.engine or view.state.text or not view.is_built:
                return
            has_some = notes or view.status is None or view.status.chunks
            if has_some and (rows := start_rows(view.notes.queries, notes, engine.now)):
                again = draw_key("enter", "ask again") + "  " if view.notes.queries else Content("")
                view.results.border_title = "Recent"
                view.results.border_subtitle = again + "changed"
                view.results.set_rows(rows, view.results.chosen_id)
            elif view.status is not None:
                self.show_message(empty_memory(view.status, app_of(view).keymap))

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

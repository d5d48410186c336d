"""Searching as you type: when to ask, which answer to believe, and the empty query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from textual.content import Content
from textual.widgets import Static

from memtui.bus import SearchFailed, SearchReady
from memtui.model import IndexStatus, LegStatus
from memtui.ranking.profiles import for_mode
from memtui.retrieval.query import MAX_LENGTH, parse_query
from memtui.text.sanitize import safe_line
from memtui.tui.background import Timers, in_background, tell
from memtui.tui.widgets import results_message as messages
from memtui.tui.widgets.result_rows import start_rows

if TYPE_CHECKING:
    from memtui.engine.ports import RecentFile
    from memtui.tui.screens.search.screen import SearchScreen

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


@dataclass(slots=True)
class SearchFlow:
    """The text in the box, the request that is out and what came back; of the event loop alone."""

    wanted: str = ""
    """The text in the query box."""
    asked: str | None = None
    """The text of the newest request; `None` before the first."""
    answered: str | None = None
    """The text that what is on screen answers."""
    submitted: str | None = None
    """The text that is finished, by Enter or a pause: a remote model may be asked."""
    sequence: int = -1
    complete: bool = True
    remote: bool = False
    """Whether the model is on another machine, which only a finished text is sent to."""
    latency: float = 0.0
    """Seconds of the last complete answer."""

    @property
    def running(self) -> bool:
        """Whether the newest request has not been answered completely."""
        return self.asked is not None and not self.complete

    def pause(self) -> float:
        """Seconds without keys after which a text is finished: the last latency, 0.4 to 1.2."""
        return min(max(SHORTEST_PAUSE, self.latency), LONGEST_PAUSE)

    def ask(self, text: str, sequence: int) -> None:
        """Note that a request went out."""
        self.asked = text
        self.sequence = sequence
        self.complete = False

    def accept(self, sequence: int, *, complete: bool, seconds: float) -> bool:
        """Note an answer; false when it is not the answer to the newest request."""
        if sequence != self.sequence or self.asked is None:
            return False
        self.answered = self.asked
        self.complete = complete
        if complete:
            self.latency = seconds
        return True

    def fail(self, sequence: int) -> bool:
        """Note a failure; false when it belongs to an older request."""
        if sequence != self.sequence:
            return False
        self.complete = True
        return True

    def clear(self) -> None:
        """Forget the request that is out: its answer will not be believed."""
        self.submitted = self.asked = self.answered = None
        self.sequence = -1
        self.complete = True


class SearchController:
    """From a key to a request, and from an answer to the list."""

    def __init__(self, view: SearchScreen) -> None:
        self.view = view
        self.flow = SearchFlow()
        self._timers = Timers(view)
        self._problems: tuple[str, ...] = ()
        self._typing = True
        """Whether the newest request was for a text that is still typed."""
        self._refreshed_at = -inf

    # --- asking ---------------------------------------------------------------------------------

    def query_changed(self, text: str) -> None:
        """Ask at once; the engine drops what it was asked before."""
        flow = self.flow
        flow.wanted = text.strip()
        self._timers.stop("problems")
        if self._problems or ":" in text or '"' in text or len(text) > MAX_LENGTH:
            self._show_problems(text)
        if self.view.engine is not None:
            self.view.engine.index.hold()
        if not flow.wanted:
            self.show_start()
        elif flow.wanted != flow.asked:
            self.ask()
        if flow.remote and flow.wanted:
            self._timers.start("pause", flow.pause(), self._finish)

    def _finish(self) -> None:
        """After a pause the text is finished: a model on another machine may be asked."""
        if self.flow.wanted and self.flow.submitted != self.flow.wanted:
            self.flow.submitted = self.flow.wanted
            self.ask(quiet=True)

    def submitted(self) -> None:
        """Enter asks at once; when the answer is on screen it opens the chosen result."""
        flow = self.flow
        self.view.notes.remember_query()
        is_unanswered = flow.wanted != flow.asked or (flow.running and flow.answered != flow.asked)
        waits = self._waits_for_enter()
        flow.submitted = flow.wanted
        if flow.wanted and (is_unanswered or waits):
            self.ask()
        else:
            self.view.notes.open_selected()

    def _waits_for_enter(self) -> bool:
        """Whether a remote model is asked only once Enter says that the query is finished."""
        ranked = self.view.ranked
        if ranked is None or self.flow.running:
            return False
        return any(state.status is LegStatus.PENDING for state in ranked.pool.states.values())

    def ask(self, *, quiet: bool = False) -> None:
        """Send the text in the box to the engine; `quiet` leaves the count as it is."""
        view, text = self.view, self.flow.wanted
        if view.engine is None or not text:
            return
        # memtui's own query language takes the last word as unfinished until another follows.
        asks_this_machine = not (view.is_foreign or self.flow.remote)
        self._typing = asks_this_machine or self.flow.submitted != text
        sequence = view.engine.search.submit(text, ranking=view.ranking, typing=self._typing)
        self.flow.ask(text, sequence)
        if not quiet:
            view.query_bar.show_searching()
            self._timers.start("slow", SLOW_AFTER, self._name_slow_search)

    def ask_query(self, text: str) -> None:
        """Ask another query at once, as if it were typed and entered."""
        if self.view.engine is None:
            return
        self.view.query_input.value = text
        self.view.query_input.action_end()
        self.view.shown_complete = False
        self.flow.wanted = self.flow.submitted = text.strip()
        self.ask()

    def set_query(self, query: str) -> None:
        """Put a query into the box, which asks it."""
        self.view.query_input.value = query
        self.view.query_input.action_end()
        self.view.query_input.focus()

    def refresh(self) -> None:
        """Ask again because the index changed: at once, and then twice a second at most."""
        if not self._timers.is_running("refresh"):
            wait = REFRESH_SECONDS - (monotonic() - self._refreshed_at)
            self._timers.start("refresh", max(wait, AT_ONCE), self._refresh)

    def _refresh(self) -> None:
        self._refreshed_at = monotonic()
        if self.flow.wanted:
            self.ask(quiet=True)
        else:
            self.show_start()

    def _name_slow_search(self) -> None:
        if self.flow.running:
            self.view.query_bar.show_searching(long=True)

    def stop(self) -> bool:
        """Drop the request that is out; false when there is none."""
        if not self.flow.running:
            return False
        self.flow.complete = True
        self.flow.sequence = -1
        self.view.query_bar.show_note("stopped")
        return True

    # --- answers --------------------------------------------------------------------------------

    def answered(self, event: SearchReady) -> None:
        """Draw the newest answer; drop every other."""
        view, flow, ranked = self.view, self.flow, event.ranked
        seconds = (ranked.pool.elapsed_ms + ranked.elapsed_ms) / 1000
        same_query = flow.answered == flow.asked
        if not flow.wanted or not flow.accept(
            event.sequence, complete=event.complete, seconds=seconds
        ):
            return
        if event.complete:
            self._timers.stop("slow")
        # The parameters may have changed since it was asked; one leg alone ranks by fewer of them.
        is_as_asked = ranked.ranking == view.ranking or (
            ranked.ranking == for_mode(view.ranking, ranked.pool.search_mode)
        )
        if view.engine is not None and not is_as_asked:
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
        view.lists.show(ranked, keep=keep, entered=entered)

    def answer_drawn(self) -> None:
        """Go on once all of a complete answer is on screen."""
        self.view.index.refresh_status()
        if self.flow.remote and self._typing and self._waits_for_enter():
            # Typed, and perhaps entered, before another machine's model took over.
            self.flow.submitted = None
            self._timers.start("pause", self.flow.pause(), self._finish)

    def failed(self, event: SearchFailed) -> None:
        """Tell a failure; the list that is on screen stays."""
        if not self.flow.fail(event.sequence):
            return
        self.view.query_bar.show_note(f"{self.view.glyphs.error} failed")
        if self.view.ranked is None:
            self.view.lists.show_message(messages.searching_not_possible(event.error))
        else:
            tell(self.view, safe_line(event.error), error=True)

    # --- problems of the query ------------------------------------------------------------------

    def _show_problems(self, text: str) -> None:
        """Show below the box what of the query cannot be understood."""
        # Of another program's index, what is no filter that can be used is a word of the query.
        problems = () if self.view.is_foreign else parse_query(text).problems
        if problems and not self._problems:
            # Half a filter is no problem yet, and a line that comes and goes moves the list.
            self._timers.start("problems", PROBLEM_SECONDS, lambda: self._draw_problems(problems))
        else:
            self._draw_problems(problems)

    def _draw_problems(self, problems: tuple[str, ...]) -> None:
        if problems != self._problems:
            self._problems = problems
            line = self.view.query_one("#problems", Static)
            line.display = bool(problems)
            line.update(Content(safe_line("; ".join(problems))))

    # --- the empty query ------------------------------------------------------------------------

    def show_start(self) -> None:
        """Show what there is before a query: notes changed last, queries asked last."""
        view, engine = self.view, self.view.engine
        self.flow.clear()
        view.ranked = view.look = None
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
            view.lists.show_message(messages.engine_failed(view.engine_error))
        else:
            root = view.options.root
            view.lists.show_message(messages.opening(str(root) if root != Path() else ""))

    def _show_recent(self, notes: Sequence[RecentFile]) -> None:
        """Show the notes that changed last, unless a query was typed meanwhile."""
        view = self.view
        if self.flow.wanted or not view.is_built:
            return
        rows = start_rows(view.notes.history.queries, notes, view.clock())
        view.lists.name("Recent")
        if rows:
            view.lists.show_list()
            view.results.set_rows(rows, view.results.chosen_id)
        elif view.status is not None:
            view.results.set_rows(())
            self.show_empty(view.status)

    def show_empty(self, status: IndexStatus) -> None:
        """Say how the index is, where there is nothing to list."""
        self.view.lists.show_message(messages.empty_memory(status))

"""Searching as you type: asking, and believing the newest answer."""

from __future__ import annotations

from math import inf
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from textual import on, work
from textual.content import Content
from textual.timer import Timer
from textual.widgets import Input, Static

from memtui.model import IndexStatus, LegStatus, Ranked
from memtui.text.sanitize import safe_line
from memtui.tui.drawing import DrawingActions
from memtui.tui.messages import RecentLoaded, SearchAnswered, SearchErred
from memtui.tui.search_flow import DELAY, SLOW_AFTER
from memtui.tui.widgets import results_message as messages

if TYPE_CHECKING:
    from memtui.engine import Engine

REFRESH_SECONDS = 0.5
"""At most two refreshes a second while the index changes under the list."""
AT_ONCE = 0.01
"""So long what changes at one stroke is waited for: a message for each file of it."""
PROBLEM_SECONDS = 0.5
"""Without keys for so long, what is wrong with the query is told."""
RECENT = 30
_RECENT = "list the recent notes"


class SearchActions(DrawingActions):
    """The query box and the list."""

    _problems: tuple[str, ...] = ()
    _typing = True
    """Whether the newest request was for a text that is still typed."""
    _debounce: Timer | None = None
    _pause: Timer | None = None
    _slow: Timer | None = None
    _problem_timer: Timer | None = None
    _refresh_timer: Timer | None = None
    _refreshed_at = -inf

    # --- asking ---------------------------------------------------------------------------------

    @on(Input.Changed, "#query")
    def query_changed(self, event: Input.Changed) -> None:
        """Ask at once, or after a moment without keys where they come in a burst."""
        event.stop()
        self.flow.wanted = event.value.strip()
        self.show_problems(event.value)
        self.let_keys_go_first()
        if self.engine is not None:
            self.engine.index.hold()
        if self._debounce is not None:
            self._debounce.stop()
        if not self.flow.wanted:
            self.show_start()
        elif self.flow.pending and self.flow.is_burst(monotonic()):
            self._debounce = self.set_timer(DELAY, self.ask)
        elif self.flow.pending:
            self.ask()
        if self._pause is not None:
            self._pause.stop()
            self._pause = None
        if self.flow.remote and self.flow.wanted:
            self._finish_later()

    def _finish_later(self) -> None:
        if self._pause is None:
            self._pause = self.set_timer(self.flow.pause(), self._finish)

    def _finish(self) -> None:
        """After a pause the text is finished: a model on another machine may be asked."""
        self._pause = None
        if self.flow.wanted and self.flow.submitted != self.flow.wanted:
            self.flow.submitted = self.flow.wanted
            self.ask(quiet=True)

    @on(Input.Submitted, "#query")
    def query_submitted(self, event: Input.Submitted) -> None:
        """Enter asks at once; when the answer is on screen it opens the chosen result."""
        event.stop()
        self.remember_query()
        waits = self._waits_for_enter() or self.flow.unanswered
        self.flow.submitted = self.flow.wanted
        if self.flow.wanted and (self.flow.pending or waits):
            if self._debounce is not None:
                self._debounce.stop()
            self.ask()
        else:
            self.open_selected()

    def _waits_for_enter(self) -> bool:
        """Whether a remote model is asked only once Enter says that the query is finished."""
        if self.ranked is None or self.flow.running:
            return False
        states = self.ranked.pool.states.values()
        return any(state.status is LegStatus.PENDING for state in states)

    def ask(self, *, quiet: bool = False) -> None:
        """Send the text in the box to the engine; `quiet` leaves the count as it is."""
        text = self.flow.wanted
        if self.engine is None or not text:
            return
        # memtui's own query language takes the last word as unfinished until another follows.
        asks_this_machine = not (self.is_foreign or self.flow.remote)
        self._typing = asks_this_machine or self.flow.submitted != text
        sequence = self.engine.search.submit(text, ranking=self.ranking, typing=self._typing)
        self.flow.ask(text, sequence)
        if not quiet:
            self.query_bar.show_searching()
            self._watch_slow_search()

    def refresh_results(self) -> None:
        """Ask again because the index changed: at once, and then twice a second at most."""
        if self._refresh_timer is None:
            wait = REFRESH_SECONDS - (monotonic() - self._refreshed_at)
            self._refresh_timer = self.set_timer(max(wait, AT_ONCE), self._refresh)

    def _refresh(self) -> None:
        self._refresh_timer = None
        self._refreshed_at = monotonic()
        if self.flow.wanted:
            self.ask(quiet=True)
        else:
            self.show_start()

    def _watch_slow_search(self) -> None:
        if self._slow is not None:
            self._slow.stop()
        self._slow = self.set_timer(SLOW_AFTER, self._name_slow_search)

    def _name_slow_search(self) -> None:
        if self.flow.running:
            self.query_bar.show_searching(long=True)

    # --- answers --------------------------------------------------------------------------------

    def search_answered(self, message: SearchAnswered) -> None:
        """Draw the newest answer; drop every other."""
        ranked = message.ranked
        seconds = (ranked.pool.elapsed_ms + ranked.elapsed_ms) / 1000
        same_query = self.flow.answered == self.flow.asked
        if not self.flow.wanted or not self.flow.accept(
            message.sequence, complete=message.complete, seconds=seconds
        ):
            return
        if self.engine is not None and not self._ranks_as_asked(ranked):
            ranked = self.engine.search.rerank(ranked.pool, self.ranking)
        # The first row of a part of the answer was nobody's choice.
        is_refresh = same_query and self.shown_complete
        keep = self.selected_id if is_refresh or self.selected_by_user else None
        self.shown_complete = message.complete
        entered = self._entered(ranked) if same_query else frozenset()
        if not same_query:
            self.selected_by_user = self.selected_by_user and keep in ranked.pool.chunks
        with self.panes_later(complete=message.complete):
            self.show_ranked(ranked, keep=keep, entered=entered)
        if message.complete:
            self.when_drawn(self._answer_drawn)

    def _answer_drawn(self) -> None:
        self.refresh_status()
        if self.flow.remote and self._typing and self._waits_for_enter():
            # Typed, and perhaps entered, before another machine's model took over.
            self.flow.submitted = None
            self._finish_later()

    def _ranks_as_asked(self, ranked: Ranked) -> bool:
        """Whether a list is ranked by the present parameters, as far as its legs allow."""
        # Imported late: ranking needs numpy, and the first paint does not.
        from memtui.ranking.profiles import for_mode

        asked = self.ranking
        return ranked.ranking in (asked, for_mode(asked, ranked.pool.search_mode))

    def search_erred(self, message: SearchErred) -> None:
        """Tell a failure; the list that is on screen stays."""
        if not self.flow.fail(message.sequence):
            return
        self.query_bar.show_note(f"{self.glyphs.error} failed")
        if self.ranked is None:
            self.show_message(messages.searching_not_possible(message.error))
        else:
            self.tell(safe_line(message.error), error=True)

    def _entered(self, ranked: Ranked) -> frozenset[str]:
        if self.ranked is None:
            return frozenset()
        before = {hit.chunk.id for hit in self.ranked.hits}
        return frozenset(hit.chunk.id for hit in ranked.hits) - before if before else frozenset()

    # --- problems of the query ------------------------------------------------------------------

    def show_problems(self, text: str) -> None:
        """Show below the box what of the query cannot be understood."""
        # Imported late: nothing of retrieval is needed for the first paint.
        from memtui.retrieval.query import MAX_LENGTH, parse_query

        if self._problem_timer is not None:
            self._problem_timer.stop()
        if self.is_foreign:
            # What is no filter that can be used is a word of the query there, as anything else.
            self._draw_problems(())
            return
        suspect = ":" in text or '"' in text or len(text) > MAX_LENGTH
        problems = parse_query(text).problems if suspect else ()
        if problems and not self._problems:
            # Half a filter is no problem yet, and a line that comes and goes moves the list.
            self._problem_timer = self.set_timer(
                PROBLEM_SECONDS, lambda: self._draw_problems(problems)
            )
        else:
            self._draw_problems(problems)

    def _draw_problems(self, problems: tuple[str, ...]) -> None:
        if problems == self._problems:
            return
        self._problems = problems
        line = self.query_one("#problems", Static)
        line.display = bool(problems)
        line.update(Content(safe_line("; ".join(problems))))

    # --- the empty query ------------------------------------------------------------------------

    def show_start(self) -> None:
        """Show what there is before a query: notes changed last, queries asked last."""
        self.flow.clear()
        self.ranked = self.look = None
        self.query_bar.show_note("")
        self.apply_layout()
        if self.engine is None:
            root = self.options.root
            opening = messages.opening(str(root) if root != Path() else "")
            failed = messages.engine_failed(self.engine_error)
            self.show_message(failed if self.engine_error else opening)
        else:
            self._load_recent(self.engine)

    @work(thread=True, exclusive=True, group="recent", exit_on_error=False, description=_RECENT)
    def _load_recent(self, engine: Engine) -> None:
        self.post_message(RecentLoaded(engine.browse.recent(RECENT), engine))

    @on(RecentLoaded)
    def recent_loaded(self, message: RecentLoaded) -> None:
        """Show the notes that changed last, unless a query was typed meanwhile."""
        if self.flow.wanted or message.engine is not self.engine:
            return
        from memtui.tui.widgets.start_rows import start_rows

        rows = start_rows(self.history.queries, message.files, self.clock())
        self.name_list(Content("Recent"), Content(""))
        if rows:
            self.show_list()
            self.results.set_rows(rows, self.results.chosen_id)
        elif self.status is not None:
            self.results.set_rows(())
            self.show_empty(self.status)

    def show_empty(self, status: IndexStatus) -> None:
        """Say how the index is, where there is nothing to list."""
        self.show_message(messages.empty_memory(status))

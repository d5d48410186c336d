"""The chosen result: its note, its explanation, pins, copies; and the queries asked before."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from memtui.memory.workspace import workspace_id
from memtui.model import Chunk, Ranked, Ranking
from memtui.settings.files import MOST, StateFolder, history_name, queries_in
from memtui.text.sanitize import safe, safe_line
from memtui.tui import fmt
from memtui.tui.background import in_background, tell
from memtui.tui.place_actions import app_of, cite, edit_at, show_difference
from memtui.tui.screens.common import Timers
from memtui.tui.widgets.result_rows import FILE, QUERY
from memtui.tui.widgets.why_panel import MOST_PINS, Pin

if TYPE_CHECKING:
    from memtui.engine.ports import SourceText
    from memtui.model.inquiry import Inquiry, Place
    from memtui.report.explanation import Subject
    from memtui.tui.screens.search.search_screen import SearchScreen

T = TypeVar("T")

SLOW_READ = 0.1
"""Seconds after which the chunk itself is shown in place of the note that is being read."""
_NO_QUERY = "Nothing asked yet: type a query first; a trace says why its answer has a place or not."


class ResultController:
    """The actions on the chosen row, and on the chunks that are followed."""

    def __init__(self, view: SearchScreen) -> None:
        self.view = view
        self.queries: tuple[str, ...] = ()
        """The queries asked before, newest first, without repetition."""
        self._path: str | None = None
        """The note that is to be shown."""
        self._timers = Timers(view)

    def select(self, chunk_id: str | None) -> None:
        """Show a chunk of the pool in the preview and the why-panel."""
        view, state = self.view, self.view.state
        state.selected_id = chunk_id
        view.why.explain(state.ranked, chunk_id)
        if state.ranking.context.enabled:
            view.rankings.show_panels()
        # The chosen row is marked in the list that has what is shown: never two rows.
        is_near = state.ranked is not None and chunk_id not in (None, *state.ranked.ranks)
        view.results.set_class(is_near, "-secondary")
        view.near.set_class(not is_near, "-secondary")
        if (chunk := state.selected_chunk) is not None:
            self.show_note(chunk.path)
        else:
            self._path = None
            view.preview.show(None, None, ())
        view.refresh_bindings()

    def row_opened(self, row_id: str) -> None:
        """Open a row: a query goes into the box, a note is read."""
        view = self.view
        if row_id.startswith(QUERY) and view.state.ranked is None:
            view.search.set_query(row_id.removeprefix(QUERY))
        else:
            self.read(row_id)

    def read(self, row_id: str = "") -> None:
        """Read the note of the chosen result, or of a row, over the whole width.

        A conversation is read on the screen of conversations, at the turn of the result. Without
        a note the list gets the keys.
        """
        state, app = self.view.state, app_of(self.view)
        self.remember_query()
        if (chunk := state.selected_chunk) is None and row_id.startswith(FILE):
            app.open_place(row_id.removeprefix(FILE), alone=True)
        elif self._selected("open") is None or chunk is None:
            self.view.show_pane("results")
        else:
            self.read_chunk(chunk, *state.lines)

    def read_chunk(self, chunk: Chunk, line: int, end_line: int) -> None:
        """Read a note over the screen in front, or a conversation at the turn, of these lines."""
        app = app_of(self.view)
        if app.is_conversation(chunk.path):
            app.open_turn(chunk.path, line, end_line)
        else:
            app.open_place(chunk.path, line, chunk.id, self.view.state.terms, alone=True)

    def _selected(self, verb: str) -> Chunk | None:
        """Return the chunk of the chosen result; where there is none, that is told."""
        chunk = self.view.state.selected_chunk
        if chunk is None:
            ranked = self.view.state.ranked
            why = "search for something first" if ranked is None else "there are no results"
            tell(self.view, f"Nothing to {verb}: {why}.")
        return chunk

    def show_note(self, path: str, *, again: bool = False) -> None:
        """Show a note, read `again` or for the first time; only the newest wish is kept."""
        view, state, engine = self.view, self.view.state, self.view.engine
        self._path = path
        self._timers.stop("slow")
        if engine is None:
            return

        def draw(source: SourceText | None) -> None:
            view.preview.show(source, state.selected_chunk, state.terms, lines=state.lines)

        def show(source: SourceText) -> None:
            if state is view.state and view.is_built and path == self._path:
                self._timers.stop("slow")
                # The preview draws the same value for a note that is the same.
                state.source = state.source if source == state.source else source
                draw(state.source)

        def failed(error: str) -> None:
            self._timers.stop("slow")
            tell(view, safe_line(f"cannot show {path}: {error}"), error=True)

        def show_chunk_meanwhile() -> None:
            if state is view.state and state.selected_chunk is not None:
                draw(None)

        if not again and state.source is not None and state.source.path == path:
            draw(state.source)
            return
        in_background(view, lambda: engine.index.files.source(path), show, failed, group="source")
        self._timers.start("slow", SLOW_READ, show_chunk_meanwhile)

    def reload(self) -> None:
        if self._path is not None:
            self.show_note(self._path, again=True)

    def edit(self) -> None:
        view = self.view
        row_id = view.results.chosen_id or ""
        if view.state.ranked is None and row_id.startswith(FILE):
            path, line = row_id.removeprefix(FILE), 1
        elif (chunk := self._selected("edit")) is not None:
            path, (line, _) = chunk.path, view.state.lines
        else:
            return
        self.remember_query()
        edit_at(view, path, line, self.reload)

    def show_in_browse(self) -> None:
        if (chunk := self._selected("show")) is not None:
            app_of(self.view).open_place(chunk.path, self.view.state.lines[0], chunk.id)

    def search_here(self) -> None:
        """Ask the query in the file of the chosen result alone, or again in all of them."""
        from memtui.tui.screens.browse.reader import path_filter

        if (chunk := self._selected("search in")) is not None:
            here, text = f"{path_filter(chunk.path)} ", self.view.state.text
            again = text.removeprefix(here)
            self.view.search.ask_query(again if again != text else here + text)

    def show_chunk(self) -> None:
        if (chunk := self._selected("show")) is not None:
            app_of(self.view).open_chunk(chunk.id)

    def show_turn(self) -> None:
        app = app_of(self.view)
        if (chunk := self._selected("show")) is None:
            return
        if app.is_conversation(chunk.path):
            app.open_turn(chunk.path, chunk.start_line, chunk.end_line)
        else:
            tell(self.view, "No turn: this result is of a note, not of a conversation.")

    def copy_citation(self) -> None:
        if (chunk := self._selected("copy")) is not None:
            self.remember_query()
            cite(self.view, chunk.path, *self.view.state.lines)

    def copy_text(self, chunk: Chunk | None = None) -> None:
        """Copy the text of a chunk, else of the chosen one; control characters are replaced."""
        if (chunk := chunk or self._selected("copy")) is not None:
            self.view.app.copy_to_clipboard(safe(chunk.text))
            lines = chunk.text.count("\n") + 1
            tell(self.view, f"copied {fmt.count(lines, 'line')}")

    def show_difference(self) -> None:
        """Show what of the note changed since it was indexed."""
        show_difference(self.view, self._path or "")

    def explain(self, chunk_id: str = "") -> None:
        """Explain the chosen result, or that of a bar that is clicked."""
        ranked = self.view.state.ranked
        if chunk_id:
            self.select(chunk_id)
        if (chunk := self._selected("explain")) is not None and ranked is not None:
            self.remember_query()
            self.explain_in(ranked, chunk.id)

    def explain_in(self, ranked: Ranked, subject: Subject, ranking: Ranking | None = None) -> None:
        """Explain a chunk of a list; `ranking` is what was asked for."""
        from memtui.tui.screens.explain import ExplainScreen

        view = self.view

        def explained(chunk_id: str | None) -> None:
            state = view.state
            if not state.is_pending:
                state.followed = None
            self.show_pins()
            candidates = state.ranked.pool.chunks if state.ranked is not None else {}
            if chunk_id is not None and chunk_id in candidates and chunk_id != state.selected_id:
                view.search.choose(chunk_id)

        view.app.push_screen(ExplainScreen(view, ranked, subject, ranking), explained)

    def follow_chunk(self, chunk_id: str | None) -> None:
        """Choose this chunk in the next whole list."""
        if chunk_id is not None:
            state = self.view.state
            state.selected_id = state.followed = chunk_id
            state.selected_by_user = True

    def trace_place(self) -> None:
        """Name a file or a line, and learn why it is shown or not."""
        from memtui.tui.screens.choosers import PlacePrompt

        view, state = self.view, self.view.state
        if state.ranked is None or view.engine is None:
            tell(view, _NO_QUERY)
            return

        def explain(place: Place | None) -> None:
            if place is not None and view.state.ranked is not None:
                self.remember_query()
                self.explain_in(view.state.ranked, place)

        place = ""
        if view.preview.has_focus and state.source is not None:
            place = f"{state.source.path}:{view.preview.top[0]}"
        view.app.push_screen(PlacePrompt(view.engine.browse.files, place), explain)

    def toggle_pin(self, chunk: Chunk | None = None) -> None:
        """Follow a chunk, else the chosen one, through every query, or do not any more.

        Of more than two the oldest goes.
        """
        if (chunk := chunk or self._selected("pin")) is not None:
            pins = self.view.state.pins
            if pins.pop(chunk.id, None) is None:
                pins[chunk.id] = Pin(chunk)
            for oldest in [*pins][:-MOST_PINS]:
                tell(self.view, f"no longer pinned: {safe_line(pins.pop(oldest).chunk.citation)}")
            self.set_pins(pins)

    def set_pins(self, pins: dict[str, Pin]) -> None:
        """Follow these chunks alone."""
        self.view.state.pins = pins
        counts = range(1, MOST_PINS + 1)
        self.view.update_classes({f"-pins-{count}": len(pins) == count for count in counts})
        self.show_pins()
        self.view.search.redraw()

    def show_pins(self) -> None:
        """Show how the pins stand in the list; of those outside the pool ask why, one by one."""
        view, state, engine = self.view, self.view.state, self.view.engine
        ranked = state.ranked
        view.pin_strip.show_pins(list(state.pins.values()), ranked)
        if ranked is None or engine is None:
            return
        untraced = (id_ for id_, pin in state.pins.items() if not (pin.inquiry or pin.problem))
        chunk_id = next((id_ for id_ in untraced if id_ not in ranked.pool.chunks), "")
        if not chunk_id:
            return

        def show(inquiry: Inquiry | None, problem: str = "") -> None:
            pins = view.state.pins
            if ranked is view.state.ranked and chunk_id in pins:
                pins[chunk_id] = replace(pins[chunk_id], inquiry=inquiry, problem=problem)
            self.show_pins()

        in_background(
            view,
            lambda: engine.explain.inquire(ranked, chunk_id),
            show,
            lambda error: show(None, error),
            group="pins",
        )

    def remember_query(self, *, at_end: bool = False) -> None:
        """Put the query into the history, and the history into the state folder.

        There it comes before those of other programs. `at_end` of the program it is waited for.
        """
        query = safe_line(self.view.state.text).strip()
        if not query or self.queries[:1] == (query,):
            return
        queries = self.queries = tuple(dict.fromkeys((query, *self.queries)))[:MOST]

        def save(folder: StateFolder, workspace: str) -> None:
            history = dict.fromkeys((query, *queries_in(folder, workspace), *queries))
            folder.write_json(history_name(workspace), list(history)[:MOST])

        self._with_history_file(save, lambda nothing: None, "save the history", at_end=at_end)

    def load_history(self) -> None:
        """Read the history of former sessions, behind the queries of this one."""

        def loaded(older: list[str]) -> None:
            queries = dict.fromkeys((*self.queries, *map(safe_line, older)))
            self.queries = tuple(queries)[:MOST]
            if not self.view.state.text and self.view.engine is not None:
                self.view.search.show_start()

        self._with_history_file(queries_in, loaded, "load the history")

    def _with_history_file(
        self,
        work: Callable[[StateFolder, str], T],
        then: Callable[[T], object],
        description: str,
        *,
        at_end: bool = False,
    ) -> None:
        options, state_dir = self.view.options, self.view.options.state_dir
        if not options.settings.ui.history or state_dir is None:
            return

        def run() -> T:
            # The id of the workspace resolves links, so it is asked for off the loop.
            return work(StateFolder(state_dir), workspace_id(options.root))

        if at_end:
            with suppress(OSError):
                run()
        else:
            in_background(self.view, run, then, description)

    def choose_query(self) -> None:
        from memtui.tui.screens.choosers import choose_query

        def choose(query: str | None) -> None:
            if query is not None:
                self.view.search.set_query(query)

        self.remember_query()
        self.view.app.push_screen(choose_query(self.queries), choose)

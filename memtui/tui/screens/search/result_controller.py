"""The chosen result: its note, its explanation, pins, copies; and the queries asked before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from memtui.model import Chunk, Ranked, Ranking
from memtui.settings.storage import StateFolder, history_name, queries_in
from memtui.text.sanitize import safe, safe_line
from memtui.tui.background import Timers, in_background, tell
from memtui.tui.place_actions import cite_lines, edit_place
from memtui.tui.screens.common import close
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
MOST_QUERIES = 500
_NO_QUERY = "Nothing asked yet: type a query first; a trace says why its answer has a place or not."


class ResultController:
    """What happens with the row that is chosen, and with the chunks that are followed."""

    def __init__(self, view: SearchScreen) -> None:
        self.view = view
        self.source: SourceText | None = None
        """The note that was read last."""
        self.queries: tuple[str, ...] = ()
        """The queries asked before, newest first, without repetition."""
        self.pins: dict[str, Pin] = {}
        """The followed chunks by id, the newest last, at most two."""
        self._path: str | None = None
        """The note that is to be shown."""
        self._reading = False
        self._tracing: Ranked | None = None
        self._timers = Timers(view)

    # --- choosing -------------------------------------------------------------------------------

    def row_chosen(self, row_id: str, *, by_user: bool) -> None:
        """Show what was chosen in the preview and the why-panel."""
        if by_user:
            self.view.selected_by_user = True
        if self.view.ranked is None:
            if row_id.startswith(FILE):
                self._show_note(row_id.removeprefix(FILE))
        elif by_user:  # else whoever draws an answer selects in it
            self.select(row_id)

    def select(self, chunk_id: str | None) -> None:
        """Show a chunk of the pool in the preview and the why-panel."""
        view = self.view
        view.selected_id = chunk_id
        view.why.explain(view.ranked, chunk_id)
        chunk = view.selected_chunk()
        if chunk is not None:
            self._show_note(chunk.path)
        else:
            self._path = None
            view.preview.show(None, None, ())
        view.refresh_bindings()

    def row_opened(self, row_id: str, *, on_bar: bool = False) -> None:
        """Open a row: a query goes into the box, a result into the preview, a bar is explained."""
        view = self.view
        if row_id.startswith(QUERY) and view.ranked is None:
            view.search.set_query(row_id.removeprefix(QUERY))
        elif on_bar and view.ranked is not None:
            self.select(row_id)
            self.explain()
        else:
            self.remember_query()
            view.show_pane("preview")

    # --- the note -------------------------------------------------------------------------------

    def _show_note(self, path: str, *, again: bool = False) -> None:
        """Show a note, read `again` or for the first time; only the newest wish is kept."""
        view, engine = self.view, self.view.engine
        self._path = path
        if not again and self.source is not None and self.source.path == path:
            self._show(self.source)
            return
        if engine is None:
            return

        def show(source: SourceText) -> None:
            self._reading = False
            if engine is view.engine and view.is_built and path == self._path:
                if source != self.source:
                    self.source = source
                self._show(self.source)

        def failed(error: str) -> None:
            self._reading = False
            tell(view, safe_line(f"cannot show {path}: {error}"), error=True)

        in_background(
            view,
            lambda: engine.browse.source(path),
            show,
            failed,
            group="source",
            description="read a note",
            exclusive=True,
        )
        self._reading = True
        self._timers.start("slow", SLOW_READ, self._show_chunk_meanwhile)

    def _show_chunk_meanwhile(self) -> None:
        """Show the chunk as the index holds it while a slow disk is read."""
        if self._reading and self.view.selected_chunk() is not None:
            self._show(None)

    def _show(self, source: SourceText | None) -> None:
        terms = self.view.row_context.terms if self.view.row_context is not None else ()
        self.view.preview.show(source, self.view.selected_chunk(), terms)

    def reload(self) -> None:
        """Read the note that is shown."""
        if self._path is not None:
            self._show_note(self._path, again=True)

    def forget(self) -> None:
        """Forget what was read and followed in another memory, and close what explains it."""
        from memtui.tui.screens.explain import ExplainScreen

        self.source, self._reading = None, False
        self.select(None)
        self.clear_pins()
        for screen in tuple(self.view.app.screen_stack):
            if isinstance(screen, ExplainScreen):
                close(screen)

    def _chosen(self, verb: str) -> Chunk | None:
        """Return the chunk of the chosen result; where there is none, that is told."""
        chunk = self.view.selected_chunk()
        if chunk is None:
            tell(self.view, f"Nothing to {verb}: choose a result first.")
        return chunk

    def edit(self) -> None:
        """Open the note in the editor, at the line of the chunk."""
        view = self.view
        row_id = view.results.chosen_id or ""
        if view.ranked is None and row_id.startswith(FILE):
            path, line = row_id.removeprefix(FILE), 1
        elif (chunk := self._chosen("edit")) is not None:
            path, line = chunk.path, chunk.start_line
        else:
            return
        if view.is_foreign and view.status is not None and not view.status.root:
            tell(view, "No file to edit: the agent's workspace is not known.", warning=True)
            return
        self.remember_query()
        if edit_place(view, view.options.root / path, line):
            if view.engine is not None:
                view.engine.index.sync()
            self.reload()

    def copy_citation(self) -> None:
        """Copy `path#L12-L31`."""
        if (chunk := self._chosen("copy")) is not None:
            self.remember_query()
            cite_lines(self.view, chunk.path, chunk.start_line, chunk.end_line)

    def copy_text(self) -> None:
        """Copy the text of the chunk; control characters are replaced."""
        if (chunk := self._chosen("copy")) is not None:
            self.view.app.copy_to_clipboard(safe(chunk.text))
            tell(self.view, f"copied {chunk.end_line - chunk.start_line + 1} lines")

    def show_difference(self) -> None:
        """Show what of the note changed since it was indexed."""
        from memtui.tui.screens.dialogs import DifferenceScreen

        source = self.source
        if source is None or source.path != self._path:
            tell(self.view, "No difference to show: choose a result first.")
        elif source.on_disk is None:
            tell(self.view, "No difference to show: this is the note as it is on disk.")
        else:
            screen = DifferenceScreen(source.path, source.lines, source.on_disk)
            self.view.app.push_screen(screen)

    # --- explaining -----------------------------------------------------------------------------

    def explain(self) -> None:
        """Open the whole arithmetic of the chosen result."""
        ranked = self.view.ranked
        if (chunk := self._chosen("explain")) is not None and ranked is not None:
            self.remember_query()
            self.explain_in(ranked, chunk.id)

    def explain_in(self, ranked: Ranked, subject: Subject, ranking: Ranking | None = None) -> None:
        """Explain a chunk of a list; `ranking` is what was asked for."""
        from memtui.tui.screens.explain import ExplainScreen

        view = self.view

        def explained(chunk_id: str | None) -> None:
            """Choose the chunk that was explained last."""
            if view.shown_complete:
                view.search.followed = None
            self._show_pins()
            candidates = view.ranked.pool.chunks if view.ranked is not None else {}
            if chunk_id is not None and chunk_id in candidates and chunk_id != view.selected_id:
                view.search.choose(chunk_id)

        view.app.push_screen(ExplainScreen(view, ranked, subject, ranking), explained)

    def follow_chunk(self, chunk_id: str | None) -> None:
        """Choose this chunk in the next whole list."""
        if chunk_id is not None:
            self.view.selected_id = self.view.search.followed = chunk_id
            self.view.selected_by_user = True

    def trace_place(self) -> None:
        """Name a file or a line, and learn why it is shown or not."""
        from memtui.tui.screens.place_prompt import PlacePrompt

        view, source = self.view, self.source
        if view.ranked is None or view.engine is None:
            tell(view, _NO_QUERY)
            return

        def explain(place: Place | None) -> None:
            if place is not None and view.ranked is not None:
                self.remember_query()
                self.explain_in(view.ranked, place)

        place = ""
        if view.preview.has_focus and source is not None:
            place = f"{source.path}:{view.preview.first_visible_line}"
        view.app.push_screen(PlacePrompt(view.engine.browse.paths, place), explain)

    def list_shown(self, ranked: Ranked, is_other: bool) -> None:
        """Let what follows a chunk or a change follow it to the list on screen."""
        view = self.view
        if is_other:
            self.pins = {chunk_id: Pin(pin.chunk) for chunk_id, pin in self.pins.items()}
        self._show_pins()
        self._trace_pins()
        if len(view.app.screen_stack) < 2:
            return
        from memtui.tui.screens.compare import CompareScreen
        from memtui.tui.screens.explain import ExplainScreen
        from memtui.tui.screens.sweep import SweepScreen

        for screen in view.app.screen_stack:
            if isinstance(screen, CompareScreen | ExplainScreen | SweepScreen):
                screen.follow(ranked, view.ranking)

    # --- pinning --------------------------------------------------------------------------------

    def toggle_pin(self) -> None:
        """Follow the chosen chunk through every query, or do not any more."""
        if (chunk := self._chosen("pin")) is not None:
            self.pin_chunk(chunk)

    def pin_chunk(self, chunk: Chunk) -> None:
        """Pin a chunk, or unpin it; of more than two the oldest goes."""
        if self.pins.pop(chunk.id, None) is None:
            self.pins[chunk.id] = Pin(chunk)
        self._set_pins(dict([*self.pins.items()][-MOST_PINS:]))

    def clear_pins(self) -> None:
        """Follow nothing any more."""
        self._set_pins({})

    def _set_pins(self, pins: dict[str, Pin]) -> None:
        self.pins = pins
        counts = range(1, MOST_PINS + 1)
        self.view.update_classes({f"-pins-{count}": len(pins) == count for count in counts})
        self._show_pins()
        self._trace_pins()
        self.view.search.redraw()

    def _show_pins(self) -> None:
        self.view.pin_strip.show_pins(list(self.pins.values()), self.view.ranked)

    def _trace_pins(self) -> None:
        """Ask why pins outside the pool are not there; one question at a time, newest list only."""
        ranked, engine = self.view.ranked, self.view.engine
        if ranked is None or engine is None or self._tracing is not None:
            return
        outside = (
            chunk_id
            for chunk_id, pin in self.pins.items()
            if chunk_id not in ranked.pool.chunks and not (pin.inquiry or pin.problem)
        )
        chunk_id = next(outside, None)
        if chunk_id is None:
            return
        self._tracing = ranked

        def show(inquiry: Inquiry | None, problem: str = "") -> None:
            self._tracing = None
            if ranked is self.view.ranked and chunk_id in self.pins:
                pin = self.pins[chunk_id]
                self.pins[chunk_id] = replace(pin, inquiry=inquiry, problem=problem)
                self._show_pins()
            self._trace_pins()

        in_background(
            self.view,
            lambda: engine.explain.inquire(ranked, chunk_id),
            show,
            lambda error: show(None, error),
            group="pins",
            description="trace a pinned chunk",
        )

    # --- history --------------------------------------------------------------------------------

    def remember_query(self) -> None:
        """Put the query into the history, and the history into the state folder."""
        query = safe_line(self.view.search.text).strip()
        if not query or self.queries[:1] == (query,):
            return
        queries = self.queries = tuple(dict.fromkeys((query, *self.queries)))[:MOST_QUERIES]
        self._with_history_file(
            lambda folder, workspace: folder.write_json(history_name(workspace), list(queries)),
            lambda nothing: None,
            "save the history",
        )

    def load_history(self) -> None:
        """Read the history of former sessions, behind the queries of this one."""

        def loaded(older: list[str]) -> None:
            queries = dict.fromkeys((*self.queries, *map(safe_line, older)))
            self.queries = tuple(queries)[:MOST_QUERIES]
            if not self.view.search.text and self.view.engine is not None:
                self.view.search.show_start()

        self._with_history_file(queries_in, loaded, "load the history")

    def _with_history_file(
        self,
        work: Callable[[StateFolder, str], T],
        then: Callable[[T], object],
        description: str,
    ) -> None:
        options = self.view.options
        if not options.history or options.state_dir is None:
            return

        def run() -> T:
            from memtui.memory.workspace import workspace_id

            # It resolves links, so it is asked for off the loop.
            return work(StateFolder(options.state_dir), workspace_id(options.root))

        in_background(self.view, run, then, group="history", description=description)

    def choose_query(self) -> None:
        """Choose among the queries asked before."""
        from memtui.tui.screens.dialogs import choose_query

        def choose(query: str | None) -> None:
            if query is not None:
                self.view.search.set_query(query)

        self.remember_query()
        self.view.app.push_screen(choose_query(self.queries), choose)

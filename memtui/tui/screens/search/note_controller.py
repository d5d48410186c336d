"""The chosen result and its note: previewing, opening in an editor, copying; the query history."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from memtui.settings.storage import StateFolder, history_name, queries_in
from memtui.text.sanitize import safe, safe_line
from memtui.tui.background import Timers, in_background, tell
from memtui.tui.place_actions import cite_lines, edit_place
from memtui.tui.screens.dialogs import DifferenceScreen, choose_query
from memtui.tui.widgets.result_rows import FILE, QUERY

if TYPE_CHECKING:
    from memtui.engine.ports import SourceText
    from memtui.tui.screens.search.screen import SearchScreen
    from memtui.tui.widgets.row_list import RowList

T = TypeVar("T")

SLOW_READ = 0.1
"""Seconds after which the chunk itself is shown in place of the note that is being read."""


MOST_QUERIES = 500


class QueryHistory:
    """Queries, newest first, without repetition."""

    def __init__(self) -> None:
        self._queries: list[str] = []

    @property
    def queries(self) -> tuple[str, ...]:
        """Newest first."""
        return tuple(self._queries)

    def add(self, query: str) -> bool:
        """Put a query first; false when it is blank or first already."""
        query = safe_line(query).strip()
        if not query or (self._queries and self._queries[0] == query):
            return False
        self._queries = [query, *(old for old in self._queries if old != query)][:MOST_QUERIES]
        return True

    def extend(self, older: Iterable[str]) -> None:
        """Add queries of former sessions behind those of this one."""
        queries = dict.fromkeys([*self._queries, *map(safe_line, older)])
        self._queries = list(queries)[:MOST_QUERIES]


class NoteController:
    """What happens with the row that is chosen."""

    def __init__(self, view: SearchScreen) -> None:
        self.view = view
        self.history = QueryHistory()
        self.source: SourceText | None = None
        """The note that was read last."""
        self._wanted_path: str | None = None
        self._loading_path: str | None = None
        self._timers = Timers(view)

    # --- choosing -------------------------------------------------------------------------------

    def row_chosen(self, row_id: str, *, by_user: bool) -> None:
        """Show what was chosen in the preview and the why-panel."""
        view = self.view
        if by_user:
            view.selected_by_user = True
        elif view.ranked is not None:
            return  # whoever draws an answer selects in it
        if view.ranked is not None:
            self.select(row_id)
        elif row_id.startswith(FILE):
            self._want_source(row_id.removeprefix(FILE))

    def list_entered(self, rows: RowList) -> None:
        """Show the row that is marked in the list that got the keys."""
        chosen = rows.chosen_id
        if self.view.ranked is not None and chosen not in (None, self.view.selected_id):
            self.select(chosen)

    def select(self, chunk_id: str | None) -> None:
        """Show a chunk of the pool in the preview and the why-panel."""
        view = self.view
        view.selected_id = chunk_id
        view.why.explain(view.ranked, chunk_id)
        chunk = view.selected_chunk()
        if chunk is not None:
            self._want_source(chunk.path)
        else:
            self._wanted_path = None
            view.preview.show(None, None, ())
        view.show_bindings()

    def row_opened(self, row_id: str, *, on_bar: bool) -> None:
        """Open a row: a query goes into the box, a result into the preview, a bar is explained."""
        view = self.view
        if row_id.startswith(QUERY) and view.ranked is None:
            view.search.set_query(row_id.removeprefix(QUERY))
        elif on_bar and view.ranked is not None:
            self.select(row_id)
            view.inquiry.explain()
        else:
            self.remember_query()
            self.open_selected()

    def open_selected(self) -> None:
        """Bring the preview to the front and give it the keys."""
        view = self.view
        row_id = view.results.chosen_id or ""
        if (
            view.ranked is None
            and view.results.display
            and view.query_input.has_focus
            and row_id.startswith(QUERY)
        ):
            view.search.set_query(row_id.removeprefix(QUERY))
        else:
            view.show_pane("preview")

    # --- the note -------------------------------------------------------------------------------

    def _want_source(self, path: str) -> None:
        """Show a note; one file is read at a time and only the newest wish is kept."""
        self._wanted_path = path
        if self.source is not None and self.source.path == path:
            self._show_source()
        elif self._loading_path is None and self.view.engine is not None:
            self.reload()
            self._timers.start("slow", SLOW_READ, self._show_chunk_meanwhile)

    def _show_chunk_meanwhile(self) -> None:
        """Show the chunk as the index holds it while a slow disk is read."""
        chunk = self.view.selected_chunk()
        if self._loading_path is not None and chunk is not None:
            self.view.preview.show(None, chunk, self._terms())

    def reload(self) -> None:
        """Read the note that is shown."""
        path, engine = self._wanted_path, self.view.engine
        if path is None or self._loading_path is not None or engine is None:
            return
        self._loading_path = path

        def read() -> SourceText | str:
            try:
                return engine.browse.source(path)
            except Exception as error:
                # Whatever a file can do to its reader is told in the preview's place.
                return f"{type(error).__name__}: {error}"

        def show(source: SourceText | str) -> None:
            if engine is self.view.engine and self.view.is_built:
                self._source_read(path, source)

        in_background(self.view, read, show, group="source", description="read a note")

    def _source_read(self, path: str, source: SourceText | str) -> None:
        """Show the note that was read, or read the one that is wanted by now."""
        self._loading_path = None
        if isinstance(source, str):
            if path == self._wanted_path:
                tell(self.view, safe_line(f"cannot show {path}: {source}"), error=True)
                return
        elif source != self.source:
            self.source = source
        if self._wanted_path == path:
            self._show_source()
        elif self._wanted_path is not None:
            self._want_source(self._wanted_path)

    def _show_source(self) -> None:
        self.view.preview.show(self.source, self.view.selected_chunk(), self._terms())

    def _terms(self) -> tuple[str, ...]:
        return tuple(self.view.look.terms) if self.view.look is not None else ()

    def forget(self) -> None:
        """Forget what was read of another memory."""
        self.source = self._wanted_path = self._loading_path = None
        self.select(None)

    # --- actions --------------------------------------------------------------------------------

    def edit(self) -> None:
        """Open the note in the editor, at the line of the chunk."""
        view = self.view
        chunk, row_id = view.selected_chunk(), view.results.chosen_id or ""
        if chunk is not None:
            path, line = chunk.path, chunk.start_line
        elif view.ranked is None and row_id.startswith(FILE):
            path, line = row_id.removeprefix(FILE), 1
        else:
            tell(view, "Nothing to edit: choose a result first.")
            return
        if view.is_foreign and view.status is not None and not view.status.root:
            tell(view, "No file to edit: the agent's workspace is not known.", warning=True)
            return
        self.remember_query()
        if not edit_place(view, view.options.root / path, line):
            return
        if view.engine is not None:
            view.engine.index.sync()
        self.reload()

    def copy_citation(self) -> None:
        """Copy `path#L12-L31`."""
        chunk = self.view.selected_chunk()
        if chunk is None:
            tell(self.view, "Nothing to copy: choose a result first.")
            return
        self.remember_query()
        cite_lines(self.view, chunk.path, chunk.start_line, chunk.end_line)

    def copy_text(self) -> None:
        """Copy the text of the chunk; control characters are replaced."""
        chunk = self.view.selected_chunk()
        if chunk is None:
            tell(self.view, "Nothing to copy: choose a result first.")
            return
        self.view.app.copy_to_clipboard(safe(chunk.text))
        tell(self.view, f"copied {chunk.end_line - chunk.start_line + 1} lines")

    def show_difference(self) -> None:
        """Show what of the note changed since it was indexed."""
        source = self.source
        if source is None or source.path != self._wanted_path:
            tell(self.view, "No difference to show: choose a result first.")
        elif source.on_disk is None:
            tell(self.view, "No difference to show: this is the note as it is on disk.")
        else:
            screen = DifferenceScreen(source.path, source.lines, source.on_disk)
            self.view.app.push_screen(screen)

    # --- history --------------------------------------------------------------------------------

    def remember_query(self) -> None:
        """Put the query into the history, and the history into the state folder."""
        if self.view.flow.wanted and self.history.add(self.view.flow.wanted):
            queries = list(self.history.queries)
            self._with_history_file(
                lambda folder, workspace: folder.write_json(history_name(workspace), queries),
                lambda nothing: None,
                "save the history",
            )

    def load_history(self) -> None:
        """Read the history of former sessions."""
        self._with_history_file(queries_in, self._history_loaded, "load the history")

    def _history_loaded(self, queries: list[str]) -> None:
        self.history.extend(queries)
        if not self.view.flow.wanted and self.view.engine is not None:
            self.view.search.show_start()

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

        def choose(query: str | None) -> None:
            if query is not None:
                self.view.search.set_query(query)

        self.remember_query()
        self.view.app.push_screen(choose_query(self.history.queries), choose)

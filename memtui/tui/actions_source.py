"""The chosen result: previewing, opening in an editor, copying."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import events, on, work
from textual.getters import query_one

from memtui.model import citation
from memtui.text.sanitize import safe, safe_line
from memtui.tui.actions_profiles import ProfileActions
from memtui.tui.editing import edit_place
from memtui.tui.messages import HistoryLoaded, SourceLoaded
from memtui.tui.widgets.preview import Preview
from memtui.tui.widgets.row_list import RowList
from memtui.tui.widgets.start_rows import FILE, QUERY
from memtui.tui.widgets.why_panel import WhyPanel

if TYPE_CHECKING:
    from memtui.engine import Engine

SLOW_READ = 0.1
"""Seconds after which the chunk itself is shown in place of the note that is being read."""


class SourceActions(ProfileActions):
    """What happens with the row that is chosen."""

    preview = query_one("#preview", Preview)
    why = query_one("#why", WhyPanel)

    _wanted_path: str | None = None
    _loading_path: str | None = None

    # --- choosing -------------------------------------------------------------------------------

    @on(RowList.Chosen)
    def row_chosen(self, message: RowList.Chosen) -> None:
        """Show what was chosen in the preview and the why-panel."""
        message.stop()
        row_id = message.row_id
        if row_id is None or row_id != message.row_list.chosen_id:
            return
        if message.by_user:
            self.selected_by_user = True
        elif self.ranked is not None:
            return  # whoever draws an answer selects in it
        if self.ranked is not None:
            self.select(row_id)
        elif row_id.startswith(FILE):
            self._want_source(row_id.removeprefix(FILE))

    @on(events.DescendantFocus)
    def list_entered(self, event: events.DescendantFocus) -> None:
        """Show the row that is marked in the list that got the keys."""
        if self.ranked is None or not isinstance(event.widget, RowList):
            return
        chosen = event.widget.chosen_id
        if chosen is not None and chosen != self.selected_id:
            self.select(chosen)

    def select(self, chunk_id: str | None) -> None:
        """Show a chunk of the pool in the preview and the why-panel."""
        self.selected_id = chunk_id
        self.why.show(self.ranked, chunk_id)
        chunk = self.selected_chunk()
        if chunk is not None:
            self._want_source(chunk.path)
        else:
            self._wanted_path = None
            self.preview.show(None, None, ())
        self.show_bindings()

    @on(RowList.Opened)
    def row_opened(self, message: RowList.Opened) -> None:
        """Open a row: a query goes into the box, a result into the preview, a bar is explained."""
        message.stop()
        if message.row_id.startswith(QUERY) and self.ranked is None:
            self.set_query(message.row_id.removeprefix(QUERY))
        elif message.on_bar and self.ranked is not None:
            self.select(message.row_id)
            self.action_explain()
        else:
            self.remember_query()
            self.open_selected()

    def open_selected(self) -> None:
        """Bring the preview to the front and give it the keys."""
        if self.ranked is None and self.results.display and self.query_input.has_focus:
            row_id = self.results.chosen_id or ""
            if row_id.startswith(QUERY):
                self.set_query(row_id.removeprefix(QUERY))
                return
        self.show_pane("preview")

    def set_query(self, query: str) -> None:
        """Put a query into the box and ask it."""
        self.query_input.value = query
        self.query_input.action_end()
        self.query_input.focus()

    # --- the note -------------------------------------------------------------------------------

    def _want_source(self, path: str) -> None:
        """Show a note; one file is read at a time and only the newest wish is kept."""
        self._wanted_path = path
        if self.source is not None and self.source.path == path:
            self._show_source()
            return
        if self._loading_path is None and self.engine is not None:
            self._loading_path = path
            self._read_source(self.engine, path)
            self.set_timer(SLOW_READ, self._show_chunk_meanwhile)

    def _show_chunk_meanwhile(self) -> None:
        """Show the chunk as the index holds it while a slow disk is read."""
        chunk = self.selected_chunk()
        if self._loading_path is not None and chunk is not None:
            self.preview.show(None, chunk, self._terms())

    def reload_source(self) -> None:
        """Read the note again, because files changed."""
        path = self._wanted_path
        if path is not None and self._loading_path is None and self.engine is not None:
            self._loading_path = path
            self._read_source(self.engine, path)

    @work(thread=True, group="source", exit_on_error=False, description="read a note")
    def _read_source(self, engine: Engine, path: str) -> None:
        try:
            source = engine.browse.source(path)
        except Exception as error:
            # Whatever a file can do to its reader is told in the preview's place, not raised here.
            told = f"{type(error).__name__}: {error}"
            self.post_message(SourceLoaded(path, None, told, engine))
            return
        self.post_message(SourceLoaded(path, source, engine=engine))

    @on(SourceLoaded)
    def source_loaded(self, message: SourceLoaded) -> None:
        """Show the note that was read, or read the one that is wanted by now."""
        if message.engine is not self.engine:
            return
        self._loading_path = None
        if message.source is not None:
            if message.source != self.source:
                self.source = message.source
        elif message.path == self._wanted_path:
            self.tell(safe_line(f"cannot show {message.path}: {message.error}"), error=True)
            return
        if self._wanted_path == message.path:
            self._show_source()
        elif self._wanted_path is not None:
            self._want_source(self._wanted_path)

    def _show_source(self) -> None:
        self.preview.show(self.source, self.selected_chunk(), self._terms())

    def _terms(self) -> tuple[str, ...]:
        return tuple(self.look.terms) if self.look is not None else ()

    # --- actions --------------------------------------------------------------------------------

    def action_edit(self) -> None:
        """Open the note in the editor, at the line of the chunk."""
        place = self._place()
        if place is None:
            self.tell("Nothing to edit: choose a result first.")
            return
        path, line = place
        if self.is_foreign and self.status is not None and not self.status.root:
            self.tell("No file to edit: the agent's workspace is not known.", warning=True)
            return
        self.remember_query()
        edited = edit_place(self.app, self.options.editor, self.options.root / path, line)
        if edited.told:
            self.tell(edited.told, warning=not edited.is_error, error=edited.is_error)
        if not edited.ran:
            return
        self.refresh()
        if self.engine is not None:
            self.engine.index.sync()
        self.reload_source()

    def forget_notes(self) -> None:
        """Forget what was read of another memory."""
        self.source = self._wanted_path = self._loading_path = None
        self.select(None)

    def _place(self) -> tuple[str, int] | None:
        chunk = self.selected_chunk()
        if chunk is not None:
            return chunk.path, chunk.start_line
        if self.ranked is None and (self.results.chosen_id or "").startswith(FILE):
            return (self.results.chosen_id or "").removeprefix(FILE), 1
        return None

    def action_copy_citation(self) -> None:
        """Copy `path#L12-L31`."""
        chunk = self.selected_chunk()
        if chunk is None:
            self.tell("Nothing to copy: choose a result first.")
            return
        self.remember_query()
        place = citation(chunk.path, chunk.start_line, chunk.end_line)
        self.app.copy_to_clipboard(safe_line(place))
        self.tell(f"copied {safe_line(place)}")

    def action_copy_text(self) -> None:
        """Copy the text of the chunk; control characters are replaced."""
        chunk = self.selected_chunk()
        if chunk is None:
            self.tell("Nothing to copy: choose a result first.")
            return
        self.app.copy_to_clipboard(safe(chunk.text))
        self.tell(f"copied {chunk.end_line - chunk.start_line + 1} lines")

    def action_show_difference(self) -> None:
        """Show what of the note changed since it was indexed."""
        from memtui.tui.screens.difference import DifferenceScreen

        source = self.source
        if source is None or source.path != self._wanted_path:
            self.tell("No difference to show: choose a result first.")
        elif source.on_disk is None:
            self.tell("No difference to show: this is the note as it is on disk.")
        else:
            self.app.push_screen(DifferenceScreen(source.path, source.lines, source.on_disk))

    # --- history --------------------------------------------------------------------------------

    def remember_query(self) -> None:
        """Put the query into the history, and the history into the state folder."""
        if self.flow.wanted and self.history.add(self.flow.wanted):
            self._save_history()

    def load_history(self) -> None:
        """Read the history of former sessions."""
        if self.options.history and self.options.state_dir is not None:
            self._load_history()

    def _history_name(self) -> str:
        """The file's name; `workspace_id` resolves links, so it is asked for off the loop."""
        from memtui.memory.workspace import workspace_id

        return f"history-{workspace_id(self.options.root)}.json"

    @work(thread=True, group="history", exit_on_error=False, description="load the history")
    def _load_history(self) -> None:
        from memtui.settings.storage import StateFolder
        from memtui.tui.history import load

        folder = StateFolder(self.options.state_dir)
        self.post_message(HistoryLoaded(load(folder, self._history_name())))

    @on(HistoryLoaded)
    def history_loaded(self, message: HistoryLoaded) -> None:
        """Take over the queries of former sessions."""
        self.history.extend(message.queries)
        if not self.flow.wanted and self.engine is not None:
            self.show_start()

    def _save_history(self) -> None:
        if self.options.history and self.options.state_dir is not None:
            self._write_history(self.history.queries)

    @work(thread=True, group="history", exit_on_error=False, description="save the history")
    def _write_history(self, queries: tuple[str, ...]) -> None:
        from memtui.settings.storage import StateFolder
        from memtui.tui.history import save

        save(StateFolder(self.options.state_dir), self._history_name(), queries)

    def action_history(self) -> None:
        """Choose among the queries asked before."""
        from memtui.tui.screens.history import HistoryScreen

        self.remember_query()
        self.app.push_screen(HistoryScreen(self.history.queries), self._query_picked)

    def _query_picked(self, query: str | None) -> None:
        if query is not None:
            self.set_query(query)

    def show_pane(self, pane: str) -> None:
        """Bring a pane to the front and give it the keys."""
        raise NotImplementedError

    def action_explain(self) -> None:
        """Open the whole arithmetic of the chosen result."""
        raise NotImplementedError

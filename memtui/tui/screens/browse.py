"""The browse screen: the files of a memory as a tree, the one that is chosen, and their days."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Horizontal
from textual.content import Content
from textual.widgets import Static

from memtui.model import citation
from memtui.text.sanitize import safe_line
from memtui.tui.bindings import bindings
from memtui.tui.browsing.base import Wanted
from memtui.tui.browsing.days import DayActions
from memtui.tui.browsing.messages import PlaceFound
from memtui.tui.browsing.places import day_filter, path_filter
from memtui.tui.browsing.tree import Sort
from memtui.tui.editor import edit_place
from memtui.tui.screens.base import HEIGHTS, TOO_SMALL, WIDTHS
from memtui.tui.widgets.file_tree import FileTree
from memtui.tui.widgets.file_view import FileView
from memtui.tui.widgets.key_bar import KeyBar
from memtui.tui.widgets.query_bar import LONGEST, SafeInput
from memtui.tui.widgets.rendered_view import RenderedView
from memtui.tui.widgets.row_list import RowList
from memtui.tui.widgets.timeline import Timeline

if TYPE_CHECKING:
    from memtui.engine import Engine

TALL = 30
WIDE = 100
HUGE = 160
_CHOOSE = "Choose a file to read it here."


class BrowseScreen(DayActions):
    """Tree, preview, outline and timeline; the layout is in browse.tcss, by size classes."""

    CSS_PATH = "browse.tcss"
    BINDING_GROUP_TITLE = "Browse"
    HORIZONTAL_BREAKPOINTS = WIDTHS
    VERTICAL_BREAKPOINTS = HEIGHTS
    BINDINGS: ClassVar[list[BindingType]] = bindings("browse")

    _is_behind = False
    """Whether the index changed since the file was read."""

    def compose(self) -> ComposeResult:
        """Top to bottom: filter, timeline, tree and file, the line about it, keys."""
        with Horizontal(id="filter-bar"):
            yield Static(Content(" / "), id="filter-prompt", markup=False)
            yield SafeInput(
                placeholder="filter files", id="browse-filter", compact=True, max_length=LONGEST
            )
            yield Static(id="browse-count", markup=False)
        yield Timeline(self.marks, marker=self.glyphs.marker)
        with Container(id="browse-body"):
            yield FileTree(self.marks, marker=self.glyphs.marker)
            with Horizontal(id="browse-right"):
                yield FileView(self.marks)
                yield RenderedView()
                yield RowList(id="outline", marker=self.glyphs.marker, secondary=True)
        yield Static(id="browse-detail", markup=False)
        yield KeyBar()
        with Horizontal(id="too-small"):
            yield Static(Content(TOO_SMALL), markup=False)

    def on_mount(self) -> None:
        """List the files; show the place that was asked for meanwhile."""
        self.file_tree.border_title = Content("Files")
        self.outline_list.border_title = Content("Outline")
        self.rendered_view.display = False
        self.file_tree.set_rows((), empty=f"listing the files{self.marks.ellipsis}")
        self.view.show_note(_CHOOSE)
        self.apply_layout()
        if self.wanted is None:
            self.file_tree.focus()
        else:
            self.open_place(self.wanted.path, self.wanted.line, self.wanted.chunk_id)
        self.timeline.show_days((), self.today())
        self.load()

    def open_place(self, path: str, line: int, chunk_id: str | None = None) -> None:
        """Show a file at a line or a chunk, also before there are widgets or files."""
        wanted = Wanted(path, line, chunk_id, is_asked=True)
        if not self.is_built:
            self.wanted = wanted
            return
        self.reveal(path)
        self.want(wanted)
        self.focus_view()

    # --- what changes outside ---------------------------------------------------------------------

    def content_changed(self) -> None:
        """Follow a changed index: the files, and the one that is shown."""
        self.changed_outside()
        if self.is_built and self.is_current:
            self.read_again()
        else:
            self._is_behind = True

    def on_screen_resume(self) -> None:
        """Catch up with what changed while another screen was in front."""
        if self.listed:
            self.load()
        if self._is_behind and self.is_built:
            self._is_behind = False
            self.read_again()

    def status_changed(self) -> None:
        """Follow changed files that wait for the next sync."""
        self.changed_outside()

    # --- layout -----------------------------------------------------------------------------------

    def on_resize(self, event: events.Resize) -> None:
        """Choose the layout for the size."""
        self.apply_layout()
        self.describe()

    def apply_layout(self) -> None:
        """Set the classes that depend on the size, the focus and what the user chose."""
        tall = self.size.height >= TALL
        timeline = self.timeline_wanted
        outline = self.outline_wanted
        pane = self._pane()
        panes = {f"-pane-{name}": pane == name for name in ("tree", "file", "days")}
        self.update_classes({"-single": self.is_small, **panes})
        self.timeline.set_class(self.is_small or self.size.width < 40, "-list")
        wanted = tall if timeline is None else timeline
        self.timeline.display = pane == "days" if self.is_small else wanted
        wanted = self.size.width >= HUGE if outline is None else outline
        self.outline_list.display = wanted and (self.size.width >= WIDE or pane == "file")

    def _pane(self) -> str:
        focused = self.focused
        if focused is not None and self.timeline in focused.ancestors_with_self:
            return "days"
        right = self.query_one("#browse-right")
        inside = focused is not None and right in focused.ancestors_with_self
        return "file" if inside else "tree"

    @on(events.DescendantFocus)
    def pane_entered(self, event: events.DescendantFocus) -> None:
        """Give the pane that got the keys its room."""
        self.apply_layout()
        self.describe()

    # --- choosing ---------------------------------------------------------------------------------

    @on(RowList.Chosen, "#file-tree")
    def file_chosen(self, message: RowList.Chosen) -> None:
        """Show the file under the cursor; a file that is being read stays, even when it is gone."""
        message.stop()
        file = self.file_tree.chosen_file
        self.describe()
        if message.by_user:
            self.forget_wish()
            self.came_to_read = False
        if file is None or (self.wanted is not None and self.wanted.path == file.path):
            return
        is_lost = self.wanted is None or self.wanted.path not in self.by_path
        if message.by_user or (is_lost and self._pane() != "file"):
            self.want(Wanted(file.path))

    @on(RowList.Opened, "#file-tree")
    def file_opened(self, message: RowList.Opened) -> None:
        """Open a folder, a conversation, or go into the file."""
        message.stop()
        line = self.file_tree.chosen
        if line is None:
            return
        if line.folder is not None:
            self.file_tree.toggle(line.id)
        elif line.file is not None:
            if self.memtui.is_conversation(line.file.path):
                self.memtui.open_turn(line.file.path)
                return
            if self.wanted is None or self.wanted.path != line.file.path:
                self.want(Wanted(line.file.path))
            self.focus_view()

    @on(RowList.Chosen, "#outline")
    def heading_chosen(self, message: RowList.Chosen) -> None:
        """Keep the choice in this screen."""
        message.stop()

    # --- keys -------------------------------------------------------------------------------------

    def panes(self) -> list[FileTree | FileView | RenderedView | RowList | Timeline]:
        """The panes in the order of Tab."""
        view = self.rendered_view if self.rendered_view.display else self.view
        panes: list[FileTree | FileView | RenderedView | RowList | Timeline] = [
            self.file_tree,
            view,
        ]
        panes += [self.outline_list] if self.outline_list.display else []
        return [*panes, self.timeline] if self.timeline.display or self.is_small else panes

    def action_next_pane(self, step: int) -> None:
        """Give the keys to the next pane."""
        panes = self.panes()
        at = next((n for n, pane in enumerate(panes) if pane.has_focus_within), None)
        pane = panes[(at + step) % len(panes)] if at is not None else panes[0]
        if isinstance(pane, Timeline):
            pane.display = True
            self.call_after_refresh(pane.give_keys)
        else:
            pane.focus()

    def action_move(self, step: int) -> None:
        """Move the cursor of the tree, also while the filter is typed."""
        self.file_tree.move(step)

    def action_close(self) -> None:
        """Go to the tree; from there take the filter away, then go back.

        What is being counted is stopped first. From a place that another screen led to, the first
        step is back there.
        """
        shows_recalls = self.timeline.has_focus_within or self.sort is Sort.RECALLS
        if shows_recalls and self.stop_counting():
            return
        if self.came_to_read and self._pane() == "file":
            self._leave()
        elif not self.file_tree.has_focus:
            self.file_tree.focus()
        elif self.filter_input.value:
            self.set_filter("")
        else:
            self._leave()

    def _leave(self) -> None:
        self.came_to_read = False
        self.app.pop_screen()

    def action_sync(self) -> None:
        """Index what changed."""
        if self.engine is not None:
            self.engine.index.sync()

    def action_show_chunk(self) -> None:
        """Show everything that the index holds about the current chunk."""
        if self.current_chunk is not None:
            self.memtui.open_chunk(self.current_chunk.id)
        else:
            self.tell("This file has no chunk in the index.")

    def action_copy_citation(self) -> None:
        """Copy the citation of the current chunk; without chunks the path."""
        chunk = self.current_chunk
        if chunk is not None:
            place = citation(chunk.path, chunk.start_line, chunk.end_line)
        elif self.wanted is not None:
            place = self.wanted.path
        else:
            self.tell("Nothing to copy: choose a file first.")
            return
        self.app.copy_to_clipboard(safe_line(place))
        self.tell(f"copied {place}")

    def action_search_here(self) -> None:
        """Put a filter for this file, folder or day into the query box."""
        line = self.file_tree.chosen if self.file_tree.has_focus else None
        if self.timeline.has_focus_within:
            words = day_filter(self.timeline.day)
        elif line is not None and line.folder is not None:
            inside = line.id.partition("\0")[2].partition("/")[2]
            words = path_filter(f"{inside}/") if inside else f"source:{line.folder.source}"
        elif self.wanted is not None:
            words = path_filter(self.wanted.path)
        else:
            self.tell("Nothing to search in: choose a file first.")
            return
        self.memtui.run_query(f"{words} ")

    # --- the editor -------------------------------------------------------------------------------

    def action_edit(self) -> None:
        """Open the file in the editor, at the line that is looked at."""
        if self.wanted is None or self.engine is None:
            self.tell("Nothing to edit: choose a file first.")
            return
        self._find_file(self.engine, self.wanted.path, self._line_looked_at())

    def _line_looked_at(self) -> int:
        """The line of the current chunk while that is in view, else the first one in view."""
        if self.rendered_view.display:
            return self.rendered_view.source_line
        top, chunk = self.view.first_visible_line, self.current_chunk
        if chunk is not None and top <= chunk.start_line < top + max(1, self.view.size.height):
            return chunk.start_line
        return top

    @work(thread=True, group="place", exit_on_error=False, description="find the file")
    def _find_file(self, engine: Engine, path: str, line: int) -> None:
        found = engine.browse.file_of(path)
        self.post_message(PlaceFound(path, str(found) if found is not None else None, line))

    @on(PlaceFound)
    def place_found(self, message: PlaceFound) -> None:
        """Run the editor, then index what it changed."""
        message.stop()
        if message.file is None:
            self.tell(f"No file to edit: {message.path} lies in a database.", warning=True)
            return
        edited = edit_place(self.app, self.options.editor, Path(message.file), message.line)
        if edited.told:
            self.tell(edited.told, warning=not edited.is_error, error=edited.is_error)
        if not edited.ran:
            return
        self.refresh()
        if self.engine is not None:
            self.engine.index.sync()
        self.read_again()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Grey what cannot be done now."""
        if action == "sync":
            return True if self.engine is not None else None
        return True

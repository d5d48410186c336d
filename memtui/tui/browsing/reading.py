"""The file that is shown: reading it, its chunks, its headings, rendered or as it is."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from textual import on, work
from textual.content import Content

from memtui.engine.source import SourceText
from memtui.model import Chunk
from memtui.model.browsing import FileState, MemoryFile
from memtui.model.reasons import Reason
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.browsing.base import Wanted
from memtui.tui.browsing.choices import chunk_choice, file_choice
from memtui.tui.browsing.file_words import state_words
from memtui.tui.browsing.listing import ListingActions
from memtui.tui.browsing.messages import FileRead, MarkdownRendered
from memtui.tui.browsing.outline import Heading, headings
from memtui.tui.browsing.places import chunk_at, same_day
from memtui.tui.browsing.rendering import render, too_much
from memtui.tui.widgets.rendered_view import RenderedView
from memtui.tui.widgets.row_list import Row, RowList

if TYPE_CHECKING:
    from memtui.engine import Engine

LARGEST = 16_000_000
"""Bytes of a file that is shown; the editor takes more."""
_NOT_READ = frozenset(
    {
        Reason.SYMLINK,
        Reason.NOT_REGULAR,
        Reason.OUTSIDE_ROOT,
        Reason.UNREADABLE,
        Reason.IGNORED,
        Reason.ARCHIVE_NOT_READ,
    }
)
"""Why a file is not indexed that speaks against opening it, too."""


class ReadingActions(ListingActions):
    """The file in the preview."""

    _reading: str | None = None

    # --- reading ----------------------------------------------------------------------------------

    def want(self, wanted: Wanted) -> None:
        """Show a place; one file is read at a time and only the newest wish is kept."""
        before = self.wanted
        self.wanted = wanted
        if before is None or before.path != wanted.path:
            self._drop_outline()
        file = self.shown_file
        note = "" if file is None else not_shown(file)
        if note and self.memtui.is_conversation(wanted.path):
            note = "Enter opens this conversation."
        if note:
            self.source = None
            self.view.show_note(note)
            self._show_right_view(rendered=False)
            self.describe()
        elif self._reading is None and self.engine is not None:
            self._reading = wanted.path
            self._read(self.engine, wanted.path)

    def read_again(self) -> None:
        """Read the file that is shown again, because files changed."""
        if self.wanted is not None:
            line = self.view.first_visible_line
            self.want(Wanted(self.wanted.path, line))

    @work(thread=True, group="file", exit_on_error=False, description="read a file")
    def _read(self, engine: Engine, path: str) -> None:
        try:
            source = engine.browse.source(path)
            chunks = tuple(engine.browse.chunks_of(path))
            outline = headings(source.lines)
        except Exception as error:
            # Whatever a file can do to its reader is told in the preview's place.
            told = str(error) or type(error).__name__
            self.post_message(FileRead(engine, path, error=told))
            return
        self.post_message(FileRead(engine, path, source, chunks, outline))

    @on(FileRead)
    def file_read(self, message: FileRead) -> None:
        """Show the file that was read, or read the one that is wanted by now."""
        message.stop()
        self._reading = None
        wanted = self.wanted
        if message.engine is not self.engine or wanted is None or not self.is_built:
            return
        if wanted.path != message.path:
            self.want(wanted)
            return
        if message.source is None:
            self.source = None
            self.view.show_note(safe_line(f"cannot be shown: {message.error}"))
            self._show_right_view(rendered=False)
            return
        self._show(message, wanted)

    def _show(self, message: FileRead, wanted: Wanted) -> None:
        assert message.source is not None
        same = self.source is not None and self.source.path == message.path
        again = same and not wanted.is_asked and not wanted.is_last
        top = self.view.scroll_offset.y
        before = self.view.current if same else None
        source = message.source
        if source.state == "gone" and not any(source.lines) and same and self.source is not None:
            detail = "file gone, no longer in the index"
            source = SourceText(source.path, self.source.lines, "gone", "", detail)
        self.source = source
        place = _place(message.chunks, wanted, before)
        file = self.shown_file
        note = "not in the index" if not message.chunks and file is not None else ""
        self.view.show_file(source, message.chunks, place, note)
        if again:
            self.view.scroll_to(y=top, animate=False, force=True)
        elif wanted.is_asked and wanted.chunk_id is None:
            self.view.go_to_line(wanted.line)
        self.wanted = Wanted(wanted.path, wanted.line)
        if list(message.outline) != list(self.outline):
            self._fill_outline(message.outline)
        line = self.rendered_view.source_line if again else self._chunk_line(wanted)
        self._show_right_view(rendered=self.is_rendered, line=line)
        self.describe()
        self.refresh_bindings()

    def _chunk_line(self, wanted: Wanted) -> int:
        chunk = self.current_chunk
        return wanted.line if chunk is None or wanted.line > 1 else chunk.start_line

    # --- chunks -----------------------------------------------------------------------------------

    def action_step_chunk(self, step: int) -> None:
        """Go to the next or the previous chunk, at the ends to the file beside."""
        place, chunks = self.view.place, self.view.chunks
        if self.source is not None and place is not None and 0 <= place + step < len(chunks):
            self._go_to_chunk(place + step)
            return
        path = self.wanted.path if self.wanted is not None else ""
        file = self.file_tree.neighbour(path, step)
        if file is None:
            self.tell("No chunks after this one." if step > 0 else "No chunks before this one.")
            return
        self.tell(f"{'next' if step > 0 else 'previous'} file: {file.path}")
        self.reveal(file.path)
        self.want(Wanted(file.path, is_last=step < 0, is_asked=True, chunk_id=""))

    def action_choose_chunk(self) -> None:
        """Go to any chunk of the file, chosen by its lines and its first words."""
        from memtui.tui.screens.dialogs import Chooser

        place, chunks = self.view.place, self.view.chunks
        if self.source is None or place is None:
            self.tell("No chunks: choose a file of the index first.")
            return
        rows = [chunk_choice(number, chunk) for number, chunk in enumerate(chunks)]
        title = f"Chunks of {self.source.path}"
        self.app.push_screen(Chooser(title, rows, str(place)), self._chunk_chosen)

    def _chunk_chosen(self, place: str | None) -> None:
        # The file may have been read again meanwhile, and have fewer.
        if place is not None and self.source is not None and int(place) < len(self.view.chunks):
            self._go_to_chunk(int(place))
            self.focus_view()

    def _go_to_chunk(self, place: int) -> None:
        assert self.source is not None
        self.view.show_file(self.source, self.view.chunks, place)
        if self.is_rendered:
            self.rendered_view.go_to_line(self.view.chunks[place].start_line)
        self._mark_heading()

    # --- headings ---------------------------------------------------------------------------------

    def _drop_outline(self) -> None:
        if self.outline:
            self._fill_outline(())

    def _fill_outline(self, outline: Sequence[Heading]) -> None:
        self.outline = outline

        rows = [Row(str(heading.line), partial(_heading_line, heading)) for heading in outline]
        self.outline_list.set_rows(rows, self.outline_list.chosen_id, empty="no headings")
        self.outline_list.border_title = Content(f"Outline  {fmt.count(len(rows))}")
        self._mark_heading()

    def _mark_heading(self) -> None:
        """Put the cursor of the outline on the heading that the current chunk is under."""
        chunk = self.current_chunk
        line = chunk.start_line if chunk is not None else 1
        above = [heading.line for heading in self.outline if heading.line <= line]
        if above and not self.outline_list.has_focus:
            self.outline_list.choose(str(above[-1]))

    def action_toggle_outline(self) -> None:
        """Show the headings and go to them, or hide them."""
        shown = self.outline_list.display
        self.outline_wanted = not shown
        if shown and self.outline_list.has_focus:
            self.focus_view()
        self.apply_layout()
        if not shown:
            self.call_after_refresh(self.outline_list.focus)

    @on(RowList.Opened, "#outline")
    def heading_opened(self, message: RowList.Opened) -> None:
        """Jump to a heading."""
        message.stop()
        line = int(message.row_id)
        place = chunk_at(self.view.chunks, line)
        if self.source is not None and place is not None:
            self.view.show_file(self.source, self.view.chunks, place)
        self.view.go_to_line(line)
        self.rendered_view.go_to_line(line)
        self.focus_view()

    # --- rendered ---------------------------------------------------------------------------------

    def action_toggle_rendered(self) -> None:
        """Show the file as rendered Markdown, or as it is."""
        self.is_rendered = not self.is_rendered
        had_focus = self.view.has_focus or self.rendered_view.has_focus
        line = self.view.first_visible_line if self.is_rendered else self.rendered_view.source_line
        if self.source is None:
            return
        self._show_right_view(rendered=self.is_rendered, line=line)
        if not self.is_rendered:
            self.view.go_to_line(line + 1)
        if had_focus:
            self.focus_view()

    def _show_right_view(self, *, rendered: bool, line: int = 1) -> None:
        """Show the file as it is, or ask for it rendered."""
        lines = self.source.lines if self.source is not None else ()
        why = too_much(lines) if rendered else ""
        if why:
            self.tell(f"{why}.")
        rendered = rendered and not why
        had_focus = self.view.has_focus or self.rendered_view.has_focus
        self.view.display, self.rendered_view.display = not rendered, rendered
        if had_focus:
            self.focus_view()
        if rendered and self.source is not None:
            place = self.rendered_view if self.rendered_view.size else self.view
            width = max(1, place.scrollable_content_region.width - 2)
            self._render_file(self.source.path, lines, width, line)

    @work(thread=True, group="render", exit_on_error=False, description="render a file")
    def _render_file(self, path: str, lines: Sequence[str], width: int, line: int) -> None:
        drawn = render(lines, width, self.marks)
        self.post_message(MarkdownRendered(path, drawn, width, line))

    @on(MarkdownRendered)
    def markdown_rendered(self, message: MarkdownRendered) -> None:
        """Show what was rendered, unless another file is shown by now."""
        message.stop()
        if self.source is not None and self.source.path == message.path and self.is_built:
            self.rendered_view.show_lines(message.path, message.lines, message.width, message.line)

    @on(RenderedView.Widened)
    def rendered_widened(self, message: RenderedView.Widened) -> None:
        """Render again for another width."""
        message.stop()
        if self.rendered_view.display and self.source is not None:
            self._show_right_view(rendered=True, line=self.rendered_view.source_line)

    def focus_view(self) -> None:
        """Give the keys to the file, as it is or rendered."""
        (self.rendered_view if self.rendered_view.display else self.view).focus()

    def action_show_difference(self) -> None:
        """Show what of the file changed since it was indexed."""
        from memtui.tui.screens.difference import DifferenceScreen

        source = self.source
        if source is None or source.on_disk is None:
            self.tell("No difference to show: this is the file as it is on disk.")
        else:
            self.app.push_screen(DifferenceScreen(source.path, source.lines, source.on_disk))

    # --- the same day -----------------------------------------------------------------------------

    def action_same_day(self) -> None:
        """Go to another file of the same day; several are offered."""
        from memtui.tui.screens.dialogs import Chooser

        file = self.shown_file
        if file is None or file.day is None:
            self.tell("This file is of no day.")
            return
        others = same_day(self.files, file)
        if not others:
            self.tell(f"No other file of {file.day}.")
        elif len(others) == 1:
            self.show_file(others[0].path)
        else:
            rows = [file_choice(other, self.marks) for other in others]
            self.app.push_screen(Chooser(f"Files of {file.day}", rows), self._chosen)

    def _chosen(self, path: str | None) -> None:
        if path:
            self.show_file(path)

    def show_file(self, path: str) -> None:
        """Show a file and put the cursor of the tree on it."""
        self.reveal(path)
        self.want(Wanted(path))

    # --- given by the screen ----------------------------------------------------------------------

    def apply_layout(self) -> None:
        """Set the classes that depend on the size and on what the user chose."""
        raise NotImplementedError


def _heading_line(heading: Heading, width: int) -> Content:
    indent = "  " * min(heading.level - 1, 4)
    style = "bold" if heading.level == 1 else ""
    text = safe_line(heading.text) or "(no text)"
    return Content.assemble(indent, (text, style)).truncate(width, ellipsis=True)


def not_shown(file: MemoryFile) -> str:
    """Why a file is not opened to be shown, in one line; empty when it is."""
    if file.size is not None and file.size > LARGEST:
        return f"too large to show ({fmt.size(file.size)}): e edits it"
    if file.state is FileState.NOT_INDEXED and file.reason in _NOT_READ:
        return state_words(file)
    return ""


def _place(chunks: Sequence[Chunk], wanted: Wanted, before: Chunk | None) -> int | None:
    """Which chunk is the current one: the wanted one, else the one before, else the first."""
    if not chunks:
        return None
    if wanted.chunk_id:
        for place, chunk in enumerate(chunks):
            if chunk.id == wanted.chunk_id:
                return place
    if wanted.is_last:
        return len(chunks) - 1
    if wanted.is_asked:
        return chunk_at(chunks, wanted.line)
    return chunk_at(chunks, before.start_line) if before is not None else 0

"""The file that is read on the browse screen: its text, chunks and headings, plain or rendered."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from textual.content import Content

from memtui.engine.ports import SourceText
from memtui.model import Chunk, Reason
from memtui.model.browsing import FileState, MemoryFile
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.background import in_background, tell
from memtui.tui.place_actions import cite, cite_lines, edit_at
from memtui.tui.screens.browse.file_list import badge, state_words
from memtui.tui.screens.browse.markdown import Heading, headings, too_much
from memtui.tui.screens.choosers import Chooser
from memtui.tui.screens.dialogs import DifferenceScreen
from memtui.tui.widgets.row_list import Row
from memtui.tui.widgets.timeline import moved

if TYPE_CHECKING:
    from memtui.tui.screens.browse.browse_screen import BrowseScreen

LARGEST = 16_000_000
"""Bytes of a file that is shown; the editor takes more."""
_LAST_LINE = LARGEST
_HEAD_CHARACTERS = 200
"""So much of a chunk is looked at for its first words."""
_NOT_READ = frozenset(
    {
        *(Reason.SYMLINK, Reason.NOT_REGULAR, Reason.OUTSIDE_ROOT, Reason.UNREADABLE),
        *(Reason.IGNORED, Reason.ARCHIVE_NOT_READ),
    }
)
"""Why a file is not indexed that speaks against opening it, too."""


class Target(Struct, frozen=True):
    """A place that is to be shown, as soon as the file is read."""

    path: str
    line: int = 1
    chunk_id: str | None = None
    is_asked: bool = False
    """Whether somebody asked for this line or chunk, and not for the file alone."""


class Reader:
    """Reads one file at a time: another one that is asked for takes its place."""

    def __init__(self, screen: BrowseScreen) -> None:
        self.target: Target | None = None
        """The file that is shown, or is to be."""
        self.source: SourceText | None = None
        """The file that was read last."""
        self.outline: Sequence[Heading] = ()
        self.outline_wanted: bool | None = None
        """Whether the headings are shown; `None` lets the size decide."""
        self.is_rendered = False
        self._screen = screen

    @property
    def path(self) -> str | None:
        """The path of the file that is shown, or is to be."""
        return self.target.path if self.target is not None else None

    @property
    def file(self) -> MemoryFile | None:
        """The file that is shown, as the list knows it."""
        return self._screen.file_list.by_path.get(self.path or "")

    # --- reading --------------------------------------------------------------------------------

    def show(self, target: Target) -> None:
        """Show a place of a file, once it is read."""
        screen, engine = self._screen, self._screen.engine
        if target.path != self.path and self.outline:
            self._fill_outline(())
        self.target = target
        file, note = self.file, ""
        if file is not None and (file.size or 0) > LARGEST:
            note = f"too large to show ({fmt.size(file.size or 0)}): e edits it"
        elif file is not None and file.state is FileState.NOT_INDEXED and file.reason in _NOT_READ:
            note = state_words(file)
        if note and screen.memtui.is_conversation(target.path):
            note = "Enter opens this conversation."
        if note or engine is None:
            screen.workers.cancel_group(screen, "file")
            self._show_note(note)
            return

        def read() -> tuple[SourceText, Sequence[Chunk], Sequence[Heading]]:
            source = engine.browse.source(target.path)
            return source, engine.browse.chunks_of(target.path), headings(source.lines)

        in_background(
            screen,
            read,
            lambda reading: self._show_reading(target, *reading),
            lambda error: self._show_note(safe_line(f"cannot be shown: {error}")),
            description="read a file",
            group="file",
            exclusive=True,
        )

    def show_file(self, path: str) -> None:
        """Show a file and put the cursor of the list on it."""
        self._screen.file_list.reveal(path)
        self.show(Target(path))

    def show_other(self, path: str) -> None:
        """Show a file, unless it is the one that is shown."""
        if path != self.path:
            self.show(Target(path))

    def read_again(self) -> None:
        """Read the file that is shown again, because files changed."""
        if self.target is not None:
            self.show(Target(self.target.path, self._screen.view.first_visible_line))

    def _show_note(self, note: str) -> None:
        self.source = None
        self._screen.view.show_note(note)
        self._show_right_view(is_rendered=False)
        self._screen.describe()

    def _show_reading(
        self,
        target: Target,
        source: SourceText,
        chunks: Sequence[Chunk],
        outline: Sequence[Heading],
    ) -> None:
        view, before = self._screen.view, self.source
        is_same = before is not None and before.path == source.path
        is_again = is_same and not target.is_asked
        top, chunk = view.scroll_offset.y, view.current if is_same else None
        if before is not None and is_same and source.state == "gone" and not any(source.lines):
            detail = "file gone, no longer in the index"
            source = SourceText(source.path, before.lines, "gone", "", detail)
        self.source = source
        note = "not in the index" if not chunks and self.file is not None else ""
        # The chunk that is asked for, else that of the line, else the one before, else the first.
        line = target.line if target.is_asked else chunk.start_line if chunk is not None else 0
        by_id = {chunk.id: place for place, chunk in enumerate(chunks)}
        place = by_id.get(target.chunk_id or "", chunk_at(chunks, line))
        view.show_file(source, chunks, place, note)
        if is_again:
            view.scroll_to(y=top, animate=False, force=True)
        elif target.is_asked and target.chunk_id is None:
            view.go_to_line(target.line)
        self.target = Target(target.path)
        if list(outline) != list(self.outline):
            self._fill_outline(outline)
        line = target.line
        if is_again:
            line = self._screen.rendered_view.source_line
        elif view.current is not None and (line == 1 or target.chunk_id is not None):
            line = view.current.start_line
        self._show_right_view(is_rendered=self.is_rendered, line=line)
        self._screen.describe()
        self._screen.refresh_bindings()

    # --- chunks ---------------------------------------------------------------------------------

    def step_chunk(self, step: int) -> None:
        """Go to the next or the previous chunk, at the ends to the file beside."""
        screen, view = self._screen, self._screen.view
        place = view.place + step if self.source is not None and view.place is not None else -1
        if 0 <= place < len(view.chunks):
            self._go_to_chunk(place)
            return
        file = screen.file_list.neighbour(self.path or "", step)
        if file is None:
            tell(screen, f"No chunks {'after' if step > 0 else 'before'} this one.")
            return
        tell(screen, f"{'next' if step > 0 else 'previous'} file: {file.path}")
        screen.file_list.reveal(file.path)
        # The first or the last of its chunks, whichever that is.
        self.show(Target(file.path, 1 if step > 0 else _LAST_LINE, "", is_asked=True))

    def choose_chunk(self) -> None:
        """Go to any chunk of the file, chosen by its lines and its first words."""
        view = self._screen.view
        if self.source is None or view.place is None:
            tell(self._screen, "No chunks: choose a file of the index first.")
            return

        def go(place: str | None) -> None:
            # The file may have been read again meanwhile, and have fewer.
            if place is not None and int(place) < len(view.chunks):
                self._go_to_chunk(int(place))
                self.focus_view()

        rows = []
        for at, chunk in enumerate(view.chunks):
            lines = f"{chunk.start_line}-{chunk.end_line}"
            words = safe_line(" ".join(chunk.text[:_HEAD_CHARACTERS].split()))
            line = Content.assemble(f"{at + 1:>4}", (f"  {lines:<11} ", fmt.MUTED), words)
            rows.append(Row(str(at), partial(fmt.fit, line)))
        chooser = Chooser(f"Chunks of {self.source.path}", rows, str(view.place))
        self._screen.app.push_screen(chooser, go)

    def _go_to_chunk(self, place: int) -> None:
        view = self._screen.view
        if self.source is not None:
            view.show_file(self.source, view.chunks, place)
            if self.is_rendered:
                self._screen.rendered_view.go_to_line(view.chunks[place].start_line)
            self._mark_heading()

    # --- headings -------------------------------------------------------------------------------

    def _fill_outline(self, outline: Sequence[Heading]) -> None:
        self.outline, rows = outline, []
        for heading in outline:
            text = safe_line(heading.text) or "(no text)"
            style = "bold" if heading.level == 1 else ""
            line = "  " * min(heading.level - 1, 4) + Content.styled(text, style)
            rows.append(Row(str(heading.line), partial(fmt.fit, line)))
        widget = self._screen.outline_rows
        widget.set_rows(rows, widget.chosen_id, empty="no headings")
        widget.border_title = Content(f"Outline  {fmt.count(len(rows))}")
        self._mark_heading()

    def _mark_heading(self) -> None:
        """Put the cursor of the outline on the heading that the current chunk is under."""
        chunk = self._screen.view.current
        line = chunk.start_line if chunk is not None else 1
        above = [heading.line for heading in self.outline if heading.line <= line]
        if above and not self._screen.outline_rows.has_focus:
            self._screen.outline_rows.choose(str(above[-1]))

    def toggle_outline(self) -> None:
        """Show the headings and go to them, or hide them."""
        rows = self._screen.outline_rows
        self.outline_wanted = not rows.display
        if rows.has_focus and not self.outline_wanted:
            self.focus_view()
        self._screen.apply_layout()
        if self.outline_wanted:
            self._screen.call_after_refresh(rows.focus)

    def go_to_line(self, line: int) -> None:
        """Jump to a line, and to the chunk that it is in."""
        view = self._screen.view
        place = chunk_at(view.chunks, line)
        if self.source is not None and place is not None:
            view.show_file(self.source, view.chunks, place)
        view.go_to_line(line)
        self._screen.rendered_view.go_to_line(line)
        self.focus_view()

    # --- plain or rendered ----------------------------------------------------------------------

    def toggle_rendered(self) -> None:
        """Show the file as rendered Markdown, or as it is."""
        view, rendered = self._screen.view, self._screen.rendered_view
        self.is_rendered = not self.is_rendered
        line = view.first_visible_line if self.is_rendered else rendered.source_line
        if self.source is not None:
            self._show_right_view(is_rendered=self.is_rendered, line=line)
            if not self.is_rendered:
                view.go_to_line(line + 1)

    def _show_right_view(self, *, is_rendered: bool, line: int = 1) -> None:
        view, rendered, source = self._screen.view, self._screen.rendered_view, self.source
        refusal = too_much(source.lines) if is_rendered and source is not None else ""
        if refusal:
            tell(self._screen, f"{refusal}.")
        had_focus = view.has_focus or rendered.has_focus
        rendered.display = is_rendered and not refusal
        view.display = not rendered.display
        if had_focus:
            self.focus_view()
        if rendered.display and source is not None:
            rendered.show_text(source, line, view.scrollable_content_region.width)

    def focus_view(self) -> None:
        """Give the keys to the file, as it is or rendered."""
        rendered = self._screen.rendered_view
        (rendered if rendered.display else self._screen.view).focus()

    # --- elsewhere ------------------------------------------------------------------------------

    def show_difference(self) -> None:
        """Show what of the file changed since it was indexed."""
        source = self.source
        if source is None or source.on_disk is None:
            tell(self._screen, "No difference to show: this is the file as it is on disk.")
        else:
            screen = DifferenceScreen(source.path, source.lines, source.on_disk)
            self._screen.app.push_screen(screen)

    def same_day(self) -> None:
        """Go to another file of the same day; several are offered."""
        screen, file = self._screen, self.file
        if file is None or file.day is None:
            tell(screen, "This file is of no day.")
            return
        others = screen.file_list.same_day(file)
        if not others:
            tell(screen, f"No other file of {file.day}.")
        elif len(others) == 1:
            self.show_file(others[0].path)
        else:

            def row(one: MemoryFile) -> Row:
                right = f" {badge(one.state, screen.glyphs)} {fmt.counted(one.chunks, 'chunk')}"

                def draw(width: int) -> Content:
                    room = max(1, width - len(right))
                    path = Content(safe_line(one.path)).truncate(room, ellipsis=True, pad=True)
                    return Content.assemble(path, (right, fmt.MUTED))

                return Row(one.path, draw)

            chooser = Chooser(f"Files of {file.day}", [row(one) for one in others])
            screen.app.push_screen(chooser, lambda path: self.show_file(path) if path else None)

    def show_chunk(self) -> None:
        """Show everything that the index holds about the current chunk."""
        if self._screen.view.current is not None:
            self._screen.memtui.open_chunk(self._screen.view.current.id)
        else:
            tell(self._screen, "This file has no chunk in the index.")

    def cite(self) -> None:
        """Copy the citation of the current chunk; without chunks the path."""
        chunk = self._screen.view.current
        if chunk is not None:
            cite_lines(self._screen, chunk.path, chunk.start_line, chunk.end_line)
        elif self.path is not None:
            cite(self._screen, self.path)
        else:
            tell(self._screen, "Nothing to copy: choose a file first.")

    def edit(self) -> None:
        """Open the file in the editor, at the current chunk while that is in view."""
        if self.path is None:
            tell(self._screen, "Nothing to edit: choose a file first.")
            return
        view, rendered = self._screen.view, self._screen.rendered_view
        line, chunk = view.first_visible_line, view.current
        if rendered.display:
            line = rendered.source_line
        elif chunk is not None and line <= chunk.start_line < line + max(1, view.size.height):
            line = chunk.start_line
        edit_at(self._screen, self.path, line, self.read_again)

    def search_here(self) -> None:
        """Put a filter for this file, folder or day into the query box."""
        screen = self._screen
        line = screen.file_list.chosen if screen.file_rows.has_focus else None
        if screen.timeline.has_focus_within:
            words = day_filter(screen.timeline.day)
        elif line is not None and line.file is None:
            source, _, folder = line.id.partition("\0")[2].partition("/")
            words = path_filter(f"{folder}/") if folder else f"source:{source}"
        elif self.path is not None:
            words = path_filter(self.path)
        else:
            tell(screen, "Nothing to search in: choose a file first.")
            return
        screen.memtui.run_query(f"{words} ")


def chunk_at(chunks: Sequence[Chunk], line: int) -> int | None:
    """Return which chunk a line is in: the last that begins before it; else the first."""
    inside = [place for place, chunk in enumerate(chunks) if chunk.start_line <= line]
    return inside[-1] if inside else 0 if chunks else None


def path_filter(path: str) -> str:
    """Return the filter of a query that lets this file through and, of like ones, few others."""
    value = re.sub(r"[*?\[]", lambda match: f"[{match[0]}]", path)
    value = re.sub(r'["\x00-\x1f]', "?", value)
    return f'path:"{value}"' if re.search(r"\s", value) else f"path:{value}"


def day_filter(day: date) -> str:
    """Return the filters of a query that let the files of one day through."""
    return f"after:{day} before:{moved(day, 1)}"

"""The file that is read on the browse screen: its text, chunks and headings, plain or rendered."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import TYPE_CHECKING

from textual.content import Content

from memtui.engine.ports import SourceText
from memtui.model import Chunk
from memtui.model.browsing import FileState, MemoryFile
from memtui.model.reasons import Reason
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.background import in_background, tell
from memtui.tui.glyphs import Glyphs
from memtui.tui.place_actions import cite, cite_lines, edit_at
from memtui.tui.screens.browse.file_words import badge, state_words
from memtui.tui.screens.browse.markdown import Heading, headings, render, too_much
from memtui.tui.screens.dialogs import Chooser, DifferenceScreen
from memtui.tui.widgets.row_list import Row
from memtui.tui.widgets.timeline import moved

if TYPE_CHECKING:
    from memtui.tui.screens.browse.screen import BrowseScreen

LARGEST = 16_000_000
"""Bytes of a file that is shown; the editor takes more."""
_HEAD_CHARACTERS = 200
"""So much of a chunk is looked at for its first words."""
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
_WILD = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True)
class Target:
    """A place that is to be shown, as soon as the file is read."""

    path: str
    line: int = 1
    chunk_id: str | None = None
    is_last: bool = False
    """Whether its last chunk is meant."""
    is_asked: bool = False
    """Whether somebody asked for this line or chunk, and not for the file alone."""


@dataclass(frozen=True, slots=True)
class _Reading:
    source: SourceText
    chunks: Sequence[Chunk]
    outline: Sequence[Heading]


class Reader:
    """One file is read at a time, and of those asked for meanwhile only the newest is kept."""

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
        self._is_reading = False

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
        note = "" if self.file is None else not_shown(self.file)
        if note:
            is_conversation = screen.memtui.is_conversation(target.path)
            self._show_note("Enter opens this conversation." if is_conversation else note)
        elif not self._is_reading and engine is not None:
            self._is_reading = True

            def read() -> _Reading:
                source = engine.browse.source(target.path)
                chunks = engine.browse.chunks_of(target.path)
                return _Reading(source, chunks, headings(source.lines))

            def take(reading: _Reading | str) -> None:
                self._is_reading = False
                if engine is screen.engine and screen.is_built:
                    self._take(target.path, reading)

            in_background(screen, read, take, take, description="read a file")

    def _take(self, path: str, reading: _Reading | str) -> None:
        """Show what was read, or read what is asked for by now."""
        assert self.target is not None
        if self.target.path != path:
            self.show(self.target)
        elif isinstance(reading, str):
            self._show_note(safe_line(f"cannot be shown: {reading}"))
        else:
            self._show_reading(reading, self.target)

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
        self._show_right_view(rendered=False)
        self._screen.describe()

    def _show_reading(self, reading: _Reading, target: Target) -> None:
        view, before, source = self._screen.view, self.source, reading.source
        is_same = before is not None and before.path == source.path
        is_again = is_same and not target.is_asked and not target.is_last
        top, chunk = view.scroll_offset.y, view.current if is_same else None
        if before is not None and is_same and source.state == "gone" and not any(source.lines):
            detail = "file gone, no longer in the index"
            source = SourceText(source.path, before.lines, "gone", "", detail)
        self.source = source
        note = "not in the index" if not reading.chunks and self.file is not None else ""
        view.show_file(source, reading.chunks, _place(reading.chunks, target, chunk), note)
        if is_again:
            view.scroll_to(y=top, animate=False, force=True)
        elif target.is_asked and target.chunk_id is None:
            view.go_to_line(target.line)
        self.target = Target(target.path, target.line)
        if list(reading.outline) != list(self.outline):
            self._fill_outline(reading.outline)
        line = target.line
        if is_again:
            line = self._screen.rendered_view.source_line
        elif line == 1 and view.current is not None:
            line = view.current.start_line
        self._show_right_view(rendered=self.is_rendered, line=line)
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
        self.show(Target(file.path, is_last=step < 0, is_asked=True, chunk_id=""))

    def choose_chunk(self) -> None:
        """Go to any chunk of the file, chosen by its lines and its first words."""
        view = self._screen.view
        if self.source is None or view.place is None:
            tell(self._screen, "No chunks: choose a file of the index first.")
            return
        rows = [
            Row(str(place), partial(_draw_chunk, place, chunk))
            for place, chunk in enumerate(view.chunks)
        ]

        def go(place: str | None) -> None:
            # The file may have been read again meanwhile, and have fewer.
            if place is not None and int(place) < len(view.chunks):
                self._go_to_chunk(int(place))
                self.focus_view()

        chooser = Chooser(f"Chunks of {self.source.path}", rows, str(view.place))
        self._screen.app.push_screen(chooser, go)

    def _go_to_chunk(self, place: int) -> None:
        view = self._screen.view
        if self.source is None:
            return
        view.show_file(self.source, view.chunks, place)
        if self.is_rendered:
            self._screen.rendered_view.go_to_line(view.chunks[place].start_line)
        self._mark_heading()

    # --- headings -------------------------------------------------------------------------------

    def _fill_outline(self, outline: Sequence[Heading]) -> None:
        self.outline = outline
        rows = [Row(str(heading.line), partial(_draw_heading, heading)) for heading in outline]
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
        is_shown = rows.display
        self.outline_wanted = not is_shown
        if is_shown and rows.has_focus:
            self.focus_view()
        self._screen.apply_layout()
        if not is_shown:
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

    # --- rendered -------------------------------------------------------------------------------

    def toggle_rendered(self) -> None:
        """Show the file as rendered Markdown, or as it is."""
        view, rendered = self._screen.view, self._screen.rendered_view
        self.is_rendered = not self.is_rendered
        had_focus = view.has_focus or rendered.has_focus
        line = view.first_visible_line if self.is_rendered else rendered.source_line
        if self.source is None:
            return
        self._show_right_view(rendered=self.is_rendered, line=line)
        if not self.is_rendered:
            view.go_to_line(line + 1)
        if had_focus:
            self.focus_view()

    def render_again(self) -> None:
        """Render for another width."""
        if self._screen.rendered_view.display and self.source is not None:
            self._show_right_view(rendered=True, line=self._screen.rendered_view.source_line)

    def _show_right_view(self, *, rendered: bool, line: int = 1) -> None:
        """Show the file as it is, or ask for it rendered."""
        screen, source = self._screen, self.source
        view, other = screen.view, screen.rendered_view
        lines = source.lines if source is not None else ()
        refusal = too_much(lines) if rendered else ""
        if refusal:
            tell(screen, f"{refusal}.")
        rendered = rendered and not refusal
        had_focus = view.has_focus or other.has_focus
        view.display, other.display = not rendered, rendered
        if had_focus:
            self.focus_view()
        if not rendered or source is None:
            return
        width = max(1, (other if other.size else view).scrollable_content_region.width - 2)
        in_background(
            screen,
            lambda: render(lines, width, screen.glyphs),
            # Unless another file is shown by now.
            lambda drawn: (
                other.show_lines(source.path, drawn, width, line)
                if self.source is source and screen.is_built
                else None
            ),
            description="render a file",
        )

    def focus_view(self) -> None:
        """Give the keys to the file, as it is or rendered."""
        rendered = self._screen.rendered_view
        (rendered if rendered.display else self._screen.view).focus()

    def line_in_view(self) -> int:
        """Return the line of the current chunk while that is in view, else the first in view."""
        view, rendered = self._screen.view, self._screen.rendered_view
        if rendered.display:
            return rendered.source_line
        top, chunk = view.first_visible_line, view.current
        if chunk is not None and top <= chunk.start_line < top + max(1, view.size.height):
            return chunk.start_line
        return top

    # --- elsewhere ------------------------------------------------------------------------------

    def show_difference(self) -> None:
        """Show what of the file changed since it was indexed."""
        source = self.source
        if source is None or source.on_disk is None:
            tell(self._screen, "No difference to show: this is the file as it is on disk.")
        else:
            difference = DifferenceScreen(source.path, source.lines, source.on_disk)
            self._screen.app.push_screen(difference)

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
            rows = [Row(one.path, partial(_draw_file, one, screen.glyphs)) for one in others]
            screen.app.push_screen(
                Chooser(f"Files of {file.day}", rows),
                lambda path: self.show_file(path) if path else None,
            )

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
        """Open the file in the editor, at the line that is looked at."""
        if self.path is None:
            tell(self._screen, "Nothing to edit: choose a file first.")
        else:
            edit_at(self._screen, self.path, self.line_in_view(), self.read_again)

    def search_here(self) -> None:
        """Put a filter for this file, folder or day into the query box."""
        screen = self._screen
        line = screen.file_list.chosen if screen.file_rows.has_focus else None
        if screen.timeline.has_focus_within:
            words = day_filter(screen.timeline.day)
        elif line is not None and line.folder is not None:
            inside = line.id.partition("\0")[2].partition("/")[2]
            words = path_filter(f"{inside}/") if inside else f"source:{line.folder.source}"
        elif self.path is not None:
            words = path_filter(self.path)
        else:
            tell(screen, "Nothing to search in: choose a file first.")
            return
        screen.memtui.run_query(f"{words} ")


def not_shown(file: MemoryFile) -> str:
    """Say in one line why a file is not opened to be shown; empty when it is."""
    if file.size is not None and file.size > LARGEST:
        return f"too large to show ({fmt.size(file.size)}): e edits it"
    if file.state is FileState.NOT_INDEXED and file.reason in _NOT_READ:
        return state_words(file)
    return ""


def chunk_at(chunks: Sequence[Chunk], line: int) -> int | None:
    """Return which chunk a line is in: the last that begins before it; else the first."""
    inside = [place for place, chunk in enumerate(chunks) if chunk.start_line <= line]
    return inside[-1] if inside else 0 if chunks else None


def path_filter(path: str) -> str:
    """Return the filter of a query that lets this file through and, of like ones, few others."""
    value = _WILD.sub(lambda match: f"[{match[0]}]", path)
    value = re.sub(r'["\x00-\x1f]', "?", value)
    return f'path:"{value}"' if re.search(r"\s", value) else f"path:{value}"


def day_filter(day: date) -> str:
    """Return the filters of a query that let the files of one day through."""
    return f"after:{day} before:{moved(day, 1)}"


def _place(chunks: Sequence[Chunk], target: Target, before: Chunk | None) -> int | None:
    """Return the place of the current chunk: the target, else the one before, else the first."""
    by_id = {chunk.id: place for place, chunk in enumerate(chunks)}
    if target.chunk_id in by_id:
        return by_id[target.chunk_id]
    if target.is_last and chunks:
        return len(chunks) - 1
    if target.is_asked:
        return chunk_at(chunks, target.line)
    return chunk_at(chunks, before.start_line if before is not None else 0)


def _draw_file(file: MemoryFile, glyphs: Glyphs, width: int) -> Content:
    right = f" {badge(file.state, glyphs)} {fmt.counted(file.chunks, 'chunk')}"
    left = Content(safe_line(file.path)).truncate(
        max(1, width - len(right)), ellipsis=True, pad=True
    )
    return Content.assemble(left, (right, fmt.MUTED))


def _draw_heading(heading: Heading, width: int) -> Content:
    indent = "  " * min(heading.level - 1, 4)
    style = "bold" if heading.level == 1 else ""
    text = safe_line(heading.text) or "(no text)"
    return Content.assemble(indent, (text, style)).truncate(width, ellipsis=True)


def _draw_chunk(place: int, chunk: Chunk, width: int) -> Content:
    lines = f"{chunk.start_line}-{chunk.end_line}"
    words = " ".join(chunk.text[:_HEAD_CHARACTERS].split())
    row = Content.assemble(f"{place + 1:>4}", (f"  {lines:<11} ", fmt.MUTED), safe_line(words))
    return row.truncate(width, ellipsis=True)

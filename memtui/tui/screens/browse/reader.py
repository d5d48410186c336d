"""The file that is read on the browse screen: its text, chunks and headings, plain or rendered."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from functools import partial
from itertools import dropwhile, islice
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace
from textual.content import Content

from memtui.engine.ports import SourceText
from memtui.memory.care.rules import WrittenLink
from memtui.model import Chunk, FileState, Reason
from memtui.model.browsing import LinkTarget, MemoryFile
from memtui.text.sanitize import safe_line
from memtui.tui import fmt
from memtui.tui.background import in_background, tell
from memtui.tui.place_actions import app_of, cite, edit_at, show_difference
from memtui.tui.present import sign_of
from memtui.tui.screens.browse.file_list import state_words
from memtui.tui.screens.browse.markdown import Heading, headings, render, too_much
from memtui.tui.screens.choosers import Chooser
from memtui.tui.widgets.bars import draw_key
from memtui.tui.widgets.lists import Row
from memtui.tui.widgets.preview import RenderedLine
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
"""Reasons for not indexing a file that speak against opening it, too."""


class Target(Struct, frozen=True):
    """A place that is to be shown, as soon as the file is read."""

    path: str
    line: int | None = None
    """The line that was asked for; `None` for the file alone."""
    chunk_id: str | None = None
    """The chunk that was asked for, else the one of the line; `None`: the line itself."""
    heading: str | None = None
    """The heading that was asked for, as a link has it."""
    rows: int | None = None
    """The rows of the line that were above the view, for a place that was left."""


Reading = tuple[SourceText, Sequence[Chunk], Sequence[Heading], Sequence[RenderedLine]]
"""A file as it was read: text, chunks, headings, and its rendered lines where they are shown."""


class Reader:
    """Reads one file at a time: another one that is asked for takes its place."""

    def __init__(self, screen: BrowseScreen) -> None:
        self.target: Target | None = None
        """The file that is shown, or is to be."""
        self.source: SourceText | None = None
        """The file that was read last."""
        self.outline_wanted: bool | None = None
        """True if the headings are shown; `None` lets the size decide."""
        self.terms: Sequence[str] = ()
        """The words of the query that led here."""
        self.is_rendered = screen.is_alone
        """True if files are shown as rendered Markdown."""
        self._width = 0
        """The cells that the file was rendered in."""
        self.before: list[Target] = []
        """The places that links led from, last the newest."""
        self._after: list[Target] = []
        """The places that were gone back from, last the nearest."""
        self._screen = screen

    @property
    def path(self) -> str:
        """The path of the file that is shown, or is to be; empty without one."""
        return self.target.path if self.target is not None else ""

    @property
    def file(self) -> MemoryFile | None:
        """The file that is shown, as the list knows it."""
        return self._screen.file_list.files.get(self.path)

    @property
    def has_text(self) -> bool:
        """True if there is text to show."""
        return self.source is not None and any(self.source.lines)

    def show(self, target: Target) -> None:
        """Show a place of a file, once it is read."""
        screen, engine, note = self._screen, self._screen.engine, ""
        self.target, file = target, screen.file_list.files.get(target.path)
        if file is not None and (file.size or 0) > LARGEST:
            note = f"too large to show ({fmt.size_words(file.size or 0)}): e edits it"
        elif file is not None and file.state is FileState.SKIPPED and file.reason in _NOT_READ:
            note = state_words(file)
        if note and app_of(screen).is_conversation(target.path):
            note = "Enter opens this conversation."
        if note:
            self._show_note(note)
            return
        self._width, is_rendered = screen.view.render_width, self.is_rendered

        def read() -> Reading:
            source = engine.index.files.source(target.path)
            chunks, lines = engine.browse.chunks_of(target.path), source.lines
            is_drawn = is_rendered and not too_much(lines)
            rendered = render(lines, self._width) if is_drawn else ()
            return source, chunks, headings(lines), rendered

        in_background(
            screen,
            read,
            partial(self._show_reading, target),
            lambda error: self._show_note(safe_line(f"cannot be shown: {error}")),
            group="file",
        )

    def come_to(self, target: Target, terms: Sequence[str]) -> None:
        """Take a place that another screen leads to; it is shown once the file is read."""
        self.target, self.terms, self.before, self._after = target, terms, [], []

    def show_file(self, path: str) -> None:
        """Show a file, unless it is the one that is shown; what led here is forgotten."""
        if path != self.path:
            self.come_to(Target(path), ())
            self.read_again()

    def leave(self, note: str) -> None:
        """Show no file, and say why."""
        self.target = None
        self._show_note(note)

    def read_again(self) -> None:
        """Read the file that is shown again, because files changed."""
        if self.target is not None:
            self.show(self.target)

    def follow_width(self) -> None:
        """Render the file anew for another width."""
        if self.is_rendered and self.source and self._screen.view.render_width != self._width:
            self.read_again()

    def toggle_rendered(self) -> None:
        """Show the file as rendered Markdown, or as it is."""
        if not self.has_text:
            tell(self._screen, "Nothing to render: no text is shown.")
            return
        self.is_rendered = not self.is_rendered
        self.read_again()

    def follow(self, link: WrittenLink) -> None:
        """Go to the note that a link of the file leads to; tell where it leads nowhere."""
        engine, path, screen = self._screen.engine, self.path, self._screen

        def go(target: LinkTarget) -> None:
            if target.problem:
                tell(screen, safe_line(target.problem))
            elif path == self.path:
                self.before.append(self._here())
                self._after.clear()
                self._go_to(Target(target.path, 1, heading=target.heading))

        in_background(screen, lambda: engine.browse.follow(path, link), go, "follow the link")

    def go_back(self, step: int = -1) -> None:
        """Go to the place that the last link led from, or on to where it led."""
        places, others = (self.before, self._after)[::-step]
        if not places:
            tell(self._screen, f"No place {'before' if step < 0 else 'after'} this one.")
        else:
            others.append(self._here())
            self._go_to(places.pop())

    def _here(self) -> Target:
        view = self._screen.view
        line, rows = view.top
        return Target(self.path, line, view.chunk.id if view.chunk else None, rows=rows)

    def _go_to(self, target: Target) -> None:
        self._screen.file_list.reveal(target.path)
        self.show(target)

    def _show_note(self, note: str) -> None:
        self.source = None
        self._screen.workers.cancel_group(self._screen, "file")
        self._screen.view.show(None, None, note=note)
        self._fill_outline(())
        self._screen.describe()
        self._screen.refresh_bindings()

    def _show_reading(self, target: Target, reading: Reading) -> None:
        source, chunks, outline, rendered = reading
        view, before = self._screen.view, self.source
        if rendered and self._width != view.render_width:
            # The first layout came meanwhile.
            self.show(target)
            return
        if self.is_rendered and (refusal := too_much(source.lines)):
            tell(self._screen, f"{refusal}.")
        is_same = before is not None and before.path == source.path
        if before is not None and is_same and source.detail == "file gone":
            detail = "file gone, no longer in the index"
            source = SourceText(source.path, before.lines, "gone", detail)
        # The chunk that is asked for, else that of the line, else the one before, else the first.
        top, was_rendered = view.top, bool(view.rendered)
        if target.heading:
            name = heading_name(target.heading)
            at = next((one.line for one in outline if heading_name(one.text) == name), None)
            if at is None:
                tell(self._screen, safe_line(f"no heading “{target.heading}” in {target.path}"))
            target = replace(target, line=at or 1, rows=0)
        line, chunk_id = target.line, target.chunk_id
        if line is None and is_same and view.chunk is not None:
            line, chunk_id = max(view.chunk.start_line, view.passage[0]), view.chunk.id
        by_id = {chunk.id: chunk for chunk in chunks}
        chunk = by_id.get(chunk_id or "", chunk_at(chunks, line or 0))
        file, note = self.file, ""
        if file is not None and not chunks:
            # The list may be of before.
            known = file
            if file.state is FileState.STALE and source.state == "current":
                known = replace(file, state=FileState.CURRENT, reason=Reason.OK, detail="")
            note = state_words(replace(known, chunks=0))
        lines = 0, 0
        if chunk_id in by_id and line is not None and line > by_id[chunk_id].start_line:
            # That of a passage.
            lines = line, line
        view.show(
            source, chunk, self.terms, chunks=chunks, rendered=rendered, note=note, lines=lines
        )
        if target.rows is not None and target.line is not None:
            view.go_to_line(target.line, target.rows)
        elif target.line is None and is_same:
            # The same lines stay where they are.
            if was_rendered != bool(rendered) or top != view.top:
                view.go_to_line(*top)
        elif target.line is not None and target.chunk_id is None:
            view.go_to_line(target.line - 1)
        # Only once: what is read again stays where it is.
        self.source, self.target = source, Target(target.path)
        self._fill_outline(outline)
        self._screen.describe()
        self._screen.refresh_bindings()

    def step_chunk(self, step: int) -> None:
        """Go to the next or the previous chunk, at the ends to the file beside."""
        screen, view = self._screen, self._screen.view
        at = view.chunks.index(view.chunk) + step if view.chunk is not None else -1
        if 0 <= at < len(view.chunks):
            self._go_to_chunk(view.chunks[at])
            return
        files = [line.file for line in screen.file_list.lines if line.file is not None][::step]
        ahead = dropwhile(lambda file: file.path != self.path, files)
        file = next((file for file in islice(ahead, 1, None) if file.chunks), None)
        if file is None:
            tell(screen, f"No chunks {'after' if step > 0 else 'before'} this one.")
            return
        tell(screen, f"{'next' if step > 0 else 'previous'} file: {file.path}")
        # The first or the last of its chunks, whichever that is.
        self._go_to(Target(file.path, 1 if step > 0 else _LAST_LINE, ""))

    def choose_chunk(self) -> None:
        """Go to any chunk of the file, chosen by its lines and its first words."""
        view = self._screen.view
        if self.source is None or view.chunk is None:
            tell(self._screen, "No chunks: choose a file of the index first.")
            return
        if len(view.chunks) == 1:
            tell(self._screen, "Nothing to choose: this file is one chunk.")
            return

        def go(chunk_id: str | None) -> None:
            # The file may have been read again meanwhile.
            for chunk in view.chunks:
                if chunk.id == chunk_id:
                    self._go_to_chunk(chunk)
                    view.focus()

        rows = []
        for number, chunk in enumerate(view.chunks, start=1):
            lines = f"{chunk.start_line}-{chunk.end_line}"
            words = safe_line(" ".join(chunk.text[:_HEAD_CHARACTERS].split()))
            line = Content.assemble(f"{number:>4}", (f"  {lines:<11} ", fmt.MUTED), words)
            rows.append(Row(chunk.id, partial(fmt.fit, line)))
        chooser = Chooser(f"Chunks of {self.source.path}", rows, view.chunk.id)
        self._screen.app.push_screen(chooser, go)

    def _go_to_chunk(self, chunk: Chunk) -> None:
        view = self._screen.view
        view.show(self.source, chunk, self.terms, chunks=view.chunks, rendered=view.rendered)
        self._mark_heading()

    def _fill_outline(self, outline: Sequence[Heading]) -> None:
        rows = []
        for heading in outline:
            text = safe_line(heading.text) or "(no text)"
            style = "bold" if heading.level == 1 else ""
            line = "  " * min(heading.level - 1, 4) + Content.styled(text, style)
            rows.append(Row(str(heading.line), partial(fmt.fit, line)))
        widget = self._screen.outline_rows
        widget.set_rows(rows, widget.chosen_id, empty="no headings")
        widget.border_title = draw_key("L", f"Outline  {fmt.count(len(rows))}")
        self._mark_heading()

    def _mark_heading(self) -> None:
        chunk = self._screen.view.chunk
        line = chunk.start_line if chunk is not None else 1
        rows = self._screen.outline_rows
        above = [row.id for row in rows.rows if int(row.id) <= line]
        if above and not rows.has_focus:
            rows.choose(above[-1])

    def toggle_outline(self) -> None:
        """Show the headings and go to them, or hide them."""
        rows = self._screen.outline_rows
        self.outline_wanted = not rows.display
        if rows.has_focus and not self.outline_wanted:
            self._screen.view.focus()
        self._screen.apply_layout()
        if self.outline_wanted:
            self._screen.call_after_refresh(rows.focus)

    def go_to_line(self, line: int) -> None:
        """Jump to a line, and to the chunk that it is in."""
        view = self._screen.view
        if (chunk := chunk_at(view.chunks, line)) is not None:
            self._go_to_chunk(chunk)
        view.go_to_line(line)
        view.focus()

    def show_difference(self) -> None:
        """Show what of the file changed since it was indexed."""
        show_difference(self._screen, self.path)

    def same_day(self) -> None:
        """Go to another file of the same day; several are offered."""
        screen, file = self._screen, self.file
        if file is None or file.day is None:
            tell(screen, "This file is of no day.")
            return

        def draw(file: MemoryFile, width: int) -> Content:
            state = f"{sign_of('browsed', file.state)[0]} {fmt.count(file.chunks, 'chunk')}"
            path = Content(safe_line(file.path))
            return fmt.spread(path, Content.styled(state, fmt.MUTED), width)

        others = {
            path: Row(path, partial(draw, one))
            for path, one in sorted(screen.file_list.files.items())
            if one.day == file.day and path != file.path and one.state is not FileState.ERROR
        }
        if not others:
            tell(screen, f"No other file of {file.day}.")
        elif len(others) == 1:
            self._go_to_file(*others)
        else:
            chooser = Chooser(f"Files of {file.day}", list(others.values()))
            screen.app.push_screen(chooser, self._go_to_file)

    def _go_to_file(self, path: str | None) -> None:
        if path is not None:
            self._go_to(Target(path))

    def show_chunk(self) -> None:
        """Show everything that the index holds about the current chunk."""
        if (chunk := self._screen.view.chunk) is not None:
            app_of(self._screen).open_chunk(chunk.id)
        else:
            why = "this file has none in the index" if self.path else "choose an indexed file"
            tell(self._screen, f"No chunk to show: {why}.")

    def cite(self) -> None:
        """Copy the citation of the current chunk; without chunks the path."""
        if (chunk := self._screen.view.chunk) is not None:
            cite(self._screen, chunk.path, chunk.start_line, chunk.end_line)
        elif self.path:
            cite(self._screen, self.path)
        else:
            tell(self._screen, "Nothing to copy: choose a file first.")

    def edit(self) -> None:
        """Open the file in the editor, at the current chunk while that is in view."""
        if not self.path:
            tell(self._screen, "Nothing to edit: choose a file first.")
            return
        view, chunk = self._screen.view, self._screen.view.chunk
        line, _ = view.top
        if chunk is not None and not view.rendered:
            line = chunk.start_line if 0 <= chunk.start_line - line < view.size.height else line
        edit_at(self._screen, self.path, line, self.read_again)

    def search_here(self) -> None:
        """Put a filter for this file, folder or day into the query box."""
        screen = self._screen
        line = screen.file_list.chosen if screen.file_rows.has_focus else None
        if screen.timeline.has_focus_within:
            words = day_filter(screen.timeline.heat_map.day)
        elif line is not None and line.file is None:
            source, _, folder = line.id.partition("\0")[2].partition("/")
            words = path_filter(f"{folder}/") if folder else f"source:{source}"
        elif self.path:
            words = path_filter(self.path)
        else:
            tell(screen, "Nothing to search in: choose a file first.")
            return
        app_of(screen).run_query(f"{words} ")
        app_of(screen).search_screen.query_input.focus()


def chunk_at(chunks: Sequence[Chunk], line: int) -> Chunk | None:
    """Return the chunk that a line is in: the last that begins before it; else the first."""
    inside = [chunk for chunk in chunks if chunk.start_line <= line]
    return inside[-1] if inside else chunks[0] if chunks else None


def heading_name(text: str) -> str:
    """Return what a heading and an anchor that is made of it have in common."""
    return "".join(filter(str.isalnum, text.casefold()))


def path_filter(path: str) -> str:
    """Return the filter of a query that lets this file through and, of like ones, few others."""
    value = re.sub(r"[*?\[]", lambda match: f"[{match[0]}]", path)
    value = re.sub(r'["\x00-\x1f]', "?", value)
    return f'path:"{value}"' if re.search(r"\s", value) else f"path:{value}"


def day_filter(day: date) -> str:
    """Return the filters of a query that let the files of one day through."""
    return f"after:{day} before:{moved(day, 1)}"

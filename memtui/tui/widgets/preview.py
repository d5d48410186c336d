"""The preview: a note around one of its chunks, or with the borders of them all."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.content import Content, Span
from textual.geometry import Size
from textual.style import Style

from memtui.engine.ports import SourceText
from memtui.model import Chunk, citation
from memtui.retrieval.marks import match_spans
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.bindings import bindings
from memtui.tui.glyphs import UNICODE, Glyphs
from memtui.tui.highlight import MAX_CELLS, Highlighter, display_line
from memtui.tui.widgets.line_view import LineView

CONTEXT_LINES = 2
SCROLL_COLUMNS = 8
_EMPTY = "Select a result to read its note here."
_INDEXED = "Indexed text · file changed · D difference"
_INDEXED_BRIEF = "Indexed text · D difference"
_LOOKBACK = 8
"""So many chunks before a line may still reach it: chunks overlap by less than a chunk."""


class Preview(LineView):
    """A note, scrolled to a chunk: only the lines on screen are ever coloured and drawn.

    `show` is for one chunk, `show_file` for a file with all of its chunks in the margin.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "preview--number", "preview--chunk-number", "preview--marker", "preview--chunk",
        "preview--match", "preview--gone", "preview--border",
    }  # fmt: skip
    HELP = "The bar ▌ in the margin marks the chunk; ╭ │ ├ ╰ [ are all chunks of a file."
    BINDING_GROUP_TITLE = "Preview"
    BINDINGS: ClassVar[list[BindingType]] = bindings("preview")

    def __init__(self, glyphs: Glyphs = UNICODE, *, is_file: bool = False) -> None:
        """`is_file`: it is given whole files with all of their chunks."""
        super().__init__(id="file-view" if is_file else "preview")
        self._is_file = is_file
        self.border_title = "Preview"
        self.chunks: Sequence[Chunk] = ()
        """All chunks of the file; empty where only the current one is marked."""
        self.place: int | None = None
        """Which of the chunks is the current one."""
        self._glyphs = glyphs
        self._source: SourceText | None = None
        self._chunk: Chunk | None = None
        self._terms: tuple[str, ...] = ()
        self._note = ""
        self._texts: Sequence[str] = ()
        self._first = 1
        self._highlighter = Highlighter((), "")
        self._message = [Content(_EMPTY)]
        self._is_placed = True

    # --- what is shown --------------------------------------------------------------------------

    def show(
        self, source: SourceText | None, chunk: Chunk | None, terms: Sequence[str] = ()
    ) -> None:
        """Show a note scrolled to a chunk, with the words of the query marked.

        Without a source the chunk itself is shown, as the index holds it, until the note is
        read. A note that is gone is shown grey. Without either there is a hint.
        """
        before = self._source, self._chunk
        is_same_place = _place(source, chunk) == _place(*before)
        is_same_place &= chunk is None or tuple(terms) == self._terms
        self._source, self._chunk, self._terms = source, chunk, tuple(terms)
        if source is None or source is not before[0]:
            self._take_lines()
        self._write_title()
        if not is_same_place:
            self.action_chunk()
        self.refresh()

    def show_file(
        self, source: SourceText, chunks: Sequence[Chunk], place: int | None, note: str = ""
    ) -> None:
        """Show a file with its chunks, one of them the current one."""
        self.chunks, self.place, self._note = chunks, place, note
        self.show(source, self.current)

    def show_note(self, note: str) -> None:
        """Show one line in place of a file."""
        self.chunks, self.place, self._note = (), None, ""
        self.show(None, None)
        self._message = [Content(note)] if note else []

    @property
    def current(self) -> Chunk | None:
        """The current chunk of the file."""
        return self.chunks[self.place] if self.place is not None else None

    def _take_lines(self) -> None:
        source, chunk = self._source, self._chunk
        self._first, message = 1, ""
        if source is not None and (source.lines or chunk is None):
            self._texts = source.lines
        elif chunk is not None:
            self._texts, self._first = chunk.text.split("\n"), chunk.start_line
        else:
            self._texts, message = (), _EMPTY
        if source is not None and not any(self._texts[:1]) and len(self._texts) <= 1:
            message = "This note is empty." if source.state != "gone" else _state(source)
        self._message = [Content(message)] if message else []
        path = source.path if source is not None else chunk.path if chunk is not None else ""
        self._highlighter = Highlighter(self._texts, path)
        self.virtual_size = Size(MAX_CELLS + self.margin_cells, len(self._texts))

    def _write_title(self) -> None:
        source, chunk = self._source, self._chunk
        is_gone = source is not None and source.state == "gone"
        is_indexed = source is not None and source.on_disk is not None
        note, state = self._note, "loading" if chunk is not None else ""
        if self.place is not None:
            note = f"chunk {fmt.count(self.place + 1)} of {fmt.count(len(self.chunks))}"
        self.border_title = Content(f"Preview  {note}" if note else "Preview")
        if source is not None:
            state = _state(source)
        if is_indexed:
            notice = _INDEXED if self.size.width > len(_INDEXED) else _INDEXED_BRIEF
            self.border_title, state = Content.styled(notice, "$state-warn"), ""
        place = source.path if source is not None else ""
        if chunk is not None:
            place = citation(chunk.path, chunk.start_line, chunk.end_line)
        style = "$state-error" if is_gone else "$state-warn" if source is not None else ""
        parts = (Content.styled(state, style), Content(safe_line(place)))
        self.border_subtitle = Content(" · ").join(part for part in parts if part)
        self.set_class(is_indexed, "-indexed")
        self.set_class(is_gone, "-gone")

    # --- scrolling ------------------------------------------------------------------------------

    @property
    def first_visible_line(self) -> int:
        """The line of the note at the top of the view, 1-based."""
        return self._first + int(self.scroll_offset.y)

    def go_to_line(self, line: int) -> None:
        """Scroll a line of the file to the top, with a line of context."""
        self._is_placed = True
        self.scroll_to(x=0, y=max(0, line - self._first - 1), animate=False, force=True)

    def action_chunk(self) -> None:
        """Scroll to the chunk, so far that the first word of the query in it is in sight."""
        self._is_placed = bool(self.is_mounted and self.size)
        if not self._is_placed:
            return
        top = 0
        if (chunk := self._chunk) is not None:
            height = self.scrollable_content_region.height
            start, end = (max(0, line - self._first) for line in (chunk.start_line, chunk.end_line))
            top = start - CONTEXT_LINES
            lines = range(start, min(len(self._texts), end + 1)) if self._terms else ()
            matching = (at for at in lines if match_spans(self.text_at(at) or "", self._terms))
            match = next(matching, start)
            if match >= top + height:
                top = match - height + 1 if match < start + height else match - CONTEXT_LINES
        self.scroll_to(x=0, y=max(0, top), animate=False, force=True)

    def on_resize(self, event: events.Resize) -> None:
        """Write the title for the width; place the chunk once there is a size to place it in."""
        event.prevent_default()
        self._write_title()
        if not self._is_placed:
            self.action_chunk()

    def action_scroll_columns(self, steps: int) -> None:
        """Scroll to the side by a few columns, as far as the lines in view are long."""
        top, size = int(self.scroll_offset.y), self.scrollable_content_region.size
        lines = (self.text_at(at) or "" for at in range(top, top + size.height))
        widest = max((Content(line).cell_length for line in lines), default=0)
        end = max(0, widest + self.margin_cells - size.width)
        goal = self.scroll_x + steps * SCROLL_COLUMNS
        self.scroll_to(x=max(0, min(goal, end)), animate=False)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave the key that leads back to the chunk to the screen where there are several."""
        return action != "chunk" or not self._is_file

    # --- drawing --------------------------------------------------------------------------------

    @property
    def margin_cells(self) -> int:
        """Cells before the text: the line number, a space, the marker, and borders of chunks."""
        digits = max(4, len(str(self._first + len(self._texts))))
        return digits + (4 if self.chunks else 2)

    def border_at(self, line: int) -> str:
        """The character in the margin of a line, 1-based: where chunks begin, run and end."""
        after = bisect_right(self.chunks, line, key=lambda chunk: chunk.start_line)
        near = self.chunks[max(0, after - _LOOKBACK) : after]
        inside = [chunk for chunk in near if chunk.end_line >= line]
        if not inside:
            return " "
        begins = any(chunk.start_line == line for chunk in inside)
        ends = any(chunk.end_line == line for chunk in inside)
        if len(inside) > 1:
            return self._glyphs.chunk_both if begins or ends else self._glyphs.chunk_overlap
        if begins:
            return self._glyphs.chunk_only if ends else self._glyphs.chunk_start
        return self._glyphs.chunk_end if ends else self._glyphs.chunk_line

    def _is_in_chunk(self, at: int) -> bool:
        chunk = self._chunk
        return chunk is not None and chunk.start_line <= at + self._first <= chunk.end_line

    def style_at(self, at: int) -> Style:
        is_inside = self._is_in_chunk(at)
        return self.get_visual_style("preview--chunk") if is_inside else self.visual_style

    def gutter_at(self, at: int) -> Content:
        is_inside, line = self._is_in_chunk(at), at + self._first
        kinds = "chunk-number" if is_inside else "number", "marker", "border"
        styles = (self.get_visual_style(f"preview--{kind}", partial=True) for kind in kinds)
        border = f"{self.border_at(line)} " if self.chunks else ""
        number = f"{line:>{self.margin_cells - 2 - len(border)}} "
        texts = number, self._glyphs.in_chunk if is_inside else " ", border
        return Content.assemble(*zip(texts, styles, strict=True))

    def text_at(self, at: int) -> str | None:
        return display_line(self._texts[at]) if at < len(self._texts) else None

    def line_at(self, at: int) -> Content | None:
        if at >= len(self._texts):
            return None
        line = Content.assemble(*self._highlighter.line(at))
        if self._source is not None and self._source.state == "gone":
            line = Content(line.plain).stylize(self.get_visual_style("preview--gone", partial=True))
        mark = self.get_visual_style("preview--match", partial=True)
        spans = match_spans(line.plain, self._terms) if self._terms else ()
        return line.add_spans([Span(start, end, mark) for start, end in spans])


def _place(source: SourceText | None, chunk: Chunk | None) -> tuple[str | None, str | None]:
    """Return what the reader looks at: reading the same note again does not scroll."""
    return source.path if source is not None else None, chunk.id if chunk is not None else None


def _state(source: SourceText) -> str:
    if source.state == "current":
        return ""
    usual = {"changed": "changed since it was indexed", "gone": "file gone"}
    return safe_line(source.detail or usual.get(source.state, source.state))

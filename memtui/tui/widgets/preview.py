"""The preview: a note around one of its chunks, or with the borders of them all, or rendered."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from textual import events
from textual.content import Content, Span
from textual.geometry import Size
from textual.style import Style

from memtui.engine.ports import SourceText
from memtui.model import Chunk
from memtui.retrieval.marks import match_spans
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.bindings import bindings
from memtui.tui.glyphs import UNICODE, Glyphs
from memtui.tui.highlight import MAX_CELLS, Highlighter, display_line
from memtui.tui.widgets.lists import LineView

CONTEXT_LINES = 2
SCROLL_COLUMNS = 8
_INDEXED = "Indexed text · file changed · D difference"
_LOOKBACK = 8
"""So many chunks before a line may still reach it: chunks overlap by less than a chunk."""
_STATES = {"current": "", "changed": "changed since it was indexed", "gone": "file gone"}


def chunks_on(chunks: Sequence[Chunk], line: int) -> list[int]:
    """Return the places of the chunks that hold a line, 1-based, of chunks in the file's order."""
    after = bisect_right(chunks, line, key=lambda chunk: chunk.start_line)
    near = range(max(0, after - _LOOKBACK), after)
    return [place for place in near if chunks[place].end_line >= line]


class RenderedLine(NamedTuple):
    """A line as it is drawn, and the 1-based line of the file that it came from."""

    content: Content
    source: int


class Preview(LineView):
    """A note, scrolled to a chunk: only the lines on screen are ever coloured and drawn."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "preview--number", "preview--chunk-number", "preview--marker", "preview--chunk",
        "preview--match", "preview--gone", "preview--border",
    }  # fmt: skip
    HELP = "The bar ▌ in the margin marks the chunk; ╭ │ ├ ╰ [ are all chunks of a file."
    BINDING_GROUP_TITLE = "Preview"
    BINDINGS = bindings("preview")

    def __init__(self, glyphs: Glyphs = UNICODE, *, is_file: bool = False) -> None:
        """`is_file`: it is given whole files with all of their chunks."""
        super().__init__(id="file-view" if is_file else "preview")
        self._is_file = is_file
        what = "Choose a file to read it" if is_file else "Select a result to read its note"
        self._hint = f"{what} here."
        self.border_title = "Preview"
        self.chunks: Sequence[Chunk] = ()
        """All chunks of the file; empty where only the current one is marked."""
        self.chunk: Chunk | None = None
        """The current chunk."""
        self.rendered: Sequence[RenderedLine] = ()
        """The lines that are shown in place of those of the file."""
        self._glyphs = glyphs
        self._source: SourceText | None = None
        self._terms: tuple[str, ...] = ()
        self._texts: Sequence[str] = ()
        self._first = 1
        """The line of the note that the first text is."""
        self._highlighter = Highlighter((), "")
        self._message = [Content(self._hint)]
        self._is_placed = True

    def show(
        self,
        source: SourceText | None,
        chunk: Chunk | None,
        terms: Sequence[str] = (),
        *,
        chunks: Sequence[Chunk] = (),
        rendered: Sequence[RenderedLine] = (),
        note: str = "",
    ) -> None:
        """Show a note scrolled to a chunk, with the words of the query and all `chunks` marked.

        Without a source the chunk itself is shown, as the index holds it, until the note is
        read. A note that is gone is shown grey. Without either `note` is shown, or a hint.
        Reading the same note again does not scroll.
        """
        is_other_source = source is not self._source
        is_same_text = tuple(terms) == self._terms
        before = self._place
        self._source, self.chunk, self._terms = source, chunk, tuple(terms)
        self.chunks, self.rendered = chunks, rendered
        is_gone = source is not None and source.state == "gone"
        is_indexed = source is not None and source.on_disk is not None
        place = path = source.path if source is not None else ""
        state = "loading" if source is None and chunk is not None else ""
        if source is not None:
            usual = _STATES.get(source.state, source.state)
            state = safe_line(source.detail or usual) if source.state != "current" else ""
        if chunk is not None:
            place = chunk.citation
            path = chunk.path
        if is_other_source or source is None:
            self._texts, self._first = (), 1
            self._message = []
            if chunk is not None:
                self._texts, self._first = chunk.text.split("\n"), chunk.start_line
            if source is not None and (source.lines or chunk is None):
                self._texts, self._first = source.lines, 1
            self._highlighter = Highlighter(self._texts, path)
            if source is None and chunk is None:
                self._message = [Content(note or self._hint)]
            elif source is not None and not any(self._texts[:1]) and len(self._texts) <= 1:
                self._message = [Content(state if is_gone else "This note is empty.")]
        lines = len(self.rendered or self._texts)
        self.virtual_size = Size(MAX_CELLS + self.margin_cells, lines)
        title = note if source is not None else ""
        if chunk in chunks:
            title = f"chunk {fmt.count(chunks.index(chunk) + 1)} of {fmt.count(len(chunks))}"
        kind = "Rendered" if rendered else "Preview"
        self.border_title = Content(f"{kind}  {title}" if title else kind)
        if is_indexed:
            self.border_title, state = Content.styled(_INDEXED, "$state-warn"), ""
        style = "$state-error" if is_gone else "$state-warn" if source is not None else ""
        parts = (Content.styled(state, style), Content(safe_line(place)))
        self.border_subtitle = Content(" · ").join(part for part in parts if part)
        self.update_classes({"-indexed": is_indexed, "-gone": is_gone})
        if before != self._place or not (is_same_text or chunk is None):
            self.action_chunk()
        self.refresh()

    @property
    def _place(self) -> tuple[str | None, str | None]:
        path = self._source.path if self._source is not None else None
        return path, self.chunk.id if self.chunk is not None else None

    @property
    def first_visible_line(self) -> int:
        """The line of the note at the top of the view, 1-based."""
        top = int(self.scroll_offset.y)
        if self.rendered:
            return self.rendered[min(top, len(self.rendered) - 1)].source
        return self._first + top

    def go_to_line(self, line: int) -> None:
        """Scroll a line of the file to the top."""
        top = line - self._first
        if self.rendered and line > 1:
            top = bisect_left(self.rendered, line, key=lambda one: one.source)
        self._is_placed = True
        self.scroll_to(x=0, y=max(0, top), animate=False, force=True)

    def action_chunk(self) -> None:
        """Scroll to the chunk, so far that the first word of the query in it is in sight."""
        self._is_placed = bool(self.is_mounted and self.size)
        if not self._is_placed:
            return
        top = self._first
        if (chunk := self.chunk) is not None:
            height = self.scrollable_content_region.height
            top = max(self._first, chunk.start_line - CONTEXT_LINES)
            last = min(self._first + len(self._texts) - 1, chunk.end_line)
            lines = range(max(self._first, chunk.start_line), last + 1)
            matching = (line for line in lines if self._marked(line - self._first))
            match = next(matching, chunk.start_line)
            if match >= top + height:
                fits = match < chunk.start_line + height
                top = match - height + 1 if fits else match - CONTEXT_LINES
        self.go_to_line(top)

    def _marked(self, at: int) -> Sequence[tuple[int, int]]:
        return match_spans(display_line(self._texts[at]), self._terms) if self._terms else ()

    def on_resize(self, event: events.Resize) -> None:
        """Place the chunk once there is a size to place it in."""
        event.prevent_default()
        if not self._is_placed:
            self.action_chunk()

    def action_scroll_columns(self, steps: int) -> None:
        top, size = int(self.scroll_offset.y), self.scrollable_content_region.size
        lines = filter(None, map(self.line_at, range(top, top + size.height)))
        widest = max((line.cell_length for line in lines), default=0)
        end = max(0, widest + self.margin_cells - size.width)
        goal = self.scroll_x + steps * SCROLL_COLUMNS
        self.scroll_to(x=max(0, min(goal, end)), animate=False)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave the key that leads back to the chunk to the screen where there are several."""
        return action != "chunk" or not self._is_file

    @property
    def margin_cells(self) -> int:
        """Cells before the text: the line number, a space, the marker, and borders of chunks."""
        if self.rendered:
            return 1
        digits = max(4, len(str(self._first + len(self._texts))))
        return digits + (4 if self.chunks else 2)

    def border_at(self, line: int) -> str:
        """The character in the margin of a line, 1-based: where chunks begin, run and end."""
        inside = [self.chunks[place] for place in chunks_on(self.chunks, line)]
        begins = any(chunk.start_line == line for chunk in inside)
        ends = any(chunk.end_line == line for chunk in inside)
        glyphs = self._glyphs
        match len(inside):
            case 0:
                return " "
            case 1 if begins:
                return glyphs.chunk_only if ends else glyphs.chunk_start
            case 1:
                return glyphs.chunk_end if ends else glyphs.chunk_line
        return glyphs.chunk_both if begins or ends else glyphs.chunk_overlap

    def frame_at(self, at: int) -> tuple[Style, Content]:
        if self.rendered:
            return self.visual_style, Content(" ")
        line, chunk = at + self._first, self.chunk
        is_inside = chunk is not None and chunk.start_line <= line <= chunk.end_line
        style = self.get_visual_style("preview--chunk") if is_inside else self.visual_style
        kinds = "chunk-number" if is_inside else "number", "marker", "border"
        styles = (self.get_visual_style(f"preview--{kind}", partial=True) for kind in kinds)
        border = f"{self.border_at(line)} " if self.chunks else ""
        number = f"{line:>{self.margin_cells - 2 - len(border)}} "
        texts = number, self._glyphs.in_chunk if is_inside else " ", border
        return style, Content.assemble(*zip(texts, styles, strict=True))

    def line_at(self, at: int) -> Content | None:
        if at >= len(self.rendered or self._texts):
            return None
        if self.rendered:
            return self.rendered[at].content
        line = Content.assemble(*self._highlighter.line(at))
        if self._source is not None and self._source.state == "gone":
            line = Content(line.plain).stylize(self.get_visual_style("preview--gone", partial=True))
        mark = self.get_visual_style("preview--match", partial=True)
        return line.add_spans([Span(start, end, mark) for start, end in self._marked(at)])

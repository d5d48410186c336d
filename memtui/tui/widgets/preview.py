"""The preview: a note around the selected chunk, however long the note is."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.binding import BindingType
from textual.content import Content, Span
from textual.selection import Selection
from textual.strip import Strip
from textual.style import Style

from memtui.model import Chunk, citation
from memtui.retrieval.marks import match_spans
from memtui.text.sanitize import safe_line
from memtui.tui.bindings import bindings
from memtui.tui.highlight import Highlighter, display_line
from memtui.tui.widgets.line_view import LineView

if TYPE_CHECKING:
    from memtui.engine.ports import SourceText

CONTEXT_LINES = 2
SCROLL_COLUMNS = 8
_EMPTY = "Select a result to read its note here."
_ELLIPSIS = "…"
_MARKER = "▌"
_INDEXED = "Indexed text · file changed · D difference"
_INDEXED_BRIEF = "Indexed text · D difference"


class Preview(LineView):
    """A note, scrolled to a chunk: only the lines on screen are ever coloured and drawn."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "preview--number", "preview--chunk-number", "preview--marker", "preview--chunk",
        "preview--match", "preview--gone", "preview--message",
    }  # fmt: skip
    HELP = "The note of the selected result. The bar in the margin marks the chunk that was found."
    BINDING_GROUP_TITLE = "Preview"
    BINDINGS: ClassVar[list[BindingType]] = bindings("preview")

    def __init__(self, *, id: str | None = "preview") -> None:  # noqa: A002
        super().__init__(id=id)
        self.border_title = "Preview"
        self._source: SourceText | None = None
        self._chunk: Chunk | None = None
        self._terms: tuple[str, ...] = ()
        self._texts: Sequence[str] = ()
        self._first = 1
        self._highlighter: Highlighter | None = None
        self._widest = 0
        self._message = _EMPTY
        self._place_chunk_later = False

    # --- what is shown --------------------------------------------------------------------------

    def show(
        self, source: SourceText | None, chunk: Chunk | None, terms: Sequence[str] = ()
    ) -> None:
        """Show a note scrolled to a chunk, with the words of the query marked.

        Without a source the chunk itself is shown, as the index holds it, until the note is
        read. A note that is gone is shown grey. Without either there is a hint.
        """
        moved = _place(source, chunk) != _place(self._source, self._chunk)
        moved = moved or (chunk is not None and tuple(terms) != self._terms)
        same_text = source is not None and source is self._source and self._highlighter is not None
        if same_text and not moved and chunk == self._chunk:
            return
        self._source, self._chunk, self._terms = source, chunk, tuple(terms)
        if not same_text:
            self._take_lines()
        self._name_place()
        if moved:
            self._scroll_to_chunk()
        self.refresh()

    @property
    def first_visible_line(self) -> int:
        """The line of the note at the top of the view, 1-based."""
        return self._first + int(self.scroll_offset.y)

    def _take_lines(self) -> None:
        source, chunk = self._source, self._chunk
        self._first, self._widest, self._message = 1, 0, ""
        if source is not None and (source.lines or chunk is None):
            self._texts = source.lines
        elif chunk is not None:
            self._texts, self._first = chunk.text.split("\n"), chunk.start_line
        else:
            self._texts, self._message = (), _EMPTY
        if source is not None and not any(self._texts[:1]) and len(self._texts) <= 1:
            self._message = "This note is empty." if source.state != "gone" else _state(source)
        path = source.path if source is not None else chunk.path if chunk is not None else ""
        self._highlighter = Highlighter(self._texts, path)
        self.set_extent(len(self._texts), 0)

    def _name_place(self) -> None:
        source, chunk = self._source, self._chunk
        if chunk is not None:
            place = citation(chunk.path, chunk.start_line, chunk.end_line)
        else:
            place = source.path if source is not None else ""
        indexed = source is not None and source.on_disk is not None
        notice = _INDEXED if self.size.width > len(_INDEXED) else _INDEXED_BRIEF
        self.border_title = Content.styled(notice, "$state-warn") if indexed else "Preview"
        state = _state(source) if source is not None else "loading" if chunk is not None else ""
        state = "" if indexed else state
        style = "$state-error" if source is not None and source.state == "gone" else "$state-warn"
        parts = [Content.styled(state, style if source else "")] if state else []
        parts += [Content(safe_line(place))] if place else []
        self.border_subtitle = Content(" · ").join(parts)
        self.set_class(indexed, "-indexed")
        self.set_class(source is not None and source.state == "gone", "-gone")

    def _in_chunk(self, index: int) -> bool:
        chunk = self._chunk
        return chunk is not None and chunk.start_line <= index + self._first <= chunk.end_line

    # --- scrolling ------------------------------------------------------------------------------

    def _scroll_to_chunk(self) -> None:
        if not self.is_mounted or not self.size:
            self._place_chunk_later = True
            return
        self._place_chunk_later = False
        line = 0
        if self._chunk is not None:
            start = self._chunk.start_line - self._first
            line = _top_line(start, self._first_match(), self.scrollable_content_region.height)
        self.scroll_to(x=0, y=max(0, line), animate=False, force=True)

    def _first_match(self) -> int | None:
        """The first line of the chunk that holds a word of the query."""
        if self._chunk is None or not self._terms:
            return None
        start = max(0, self._chunk.start_line - self._first)
        end = min(len(self._texts), self._chunk.end_line - self._first + 1)
        matching = (
            index
            for index in range(start, end)
            if match_spans(display_line(self._texts[index]), self._terms)
        )
        return next(matching, None)

    def on_resize(self, event: events.Resize) -> None:
        """Write the title for the width; place the chunk once there is a size to place it in."""
        event.prevent_default()
        self._name_place()
        if self._place_chunk_later:
            self._scroll_to_chunk()

    def action_chunk(self) -> None:
        """Scroll back to the chunk."""
        self._scroll_to_chunk()

    def action_scroll_columns(self, steps: int) -> None:
        """Scroll to the side by a few columns."""
        self.scroll_to(x=self.scroll_x + steps * SCROLL_COLUMNS, animate=False)

    # --- drawing --------------------------------------------------------------------------------

    @property
    def margin_cells(self) -> int:
        """Cells before the text: the line number, a space and the marker."""
        return max(4, len(str(self._first + len(self._texts)))) + 2

    def render_line(self, y: int) -> Strip:
        """Draw one line of the view."""
        width = self.scrollable_content_region.width
        index = int(self.scroll_offset.y) + y
        if self._message:
            return self._message_line(y, width)
        if index >= len(self._texts):
            return Strip.blank(width, self.rich_style)
        room = max(1, width - self.margin_cells)
        left = int(self.scroll_offset.x)
        in_chunk = self._in_chunk(index)
        style = self.get_visual_style("preview--chunk") if in_chunk else self.visual_style
        base = style.rich_style
        text = Strip(self._line_content(index).render_segments(style))
        self._widen(text.cell_length)
        shown = text.crop_extend(left, left + room, base)
        if text.cell_length > left + room:
            shown = Strip.join([shown.crop(0, room - 1), Strip([Segment(_ELLIPSIS, base)])])
        shown = shown.apply_offsets(self._characters_left_of(index, left), index)
        return Strip.join([self._gutter_strip(index, style), shown]).crop_extend(0, width, base)

    def _message_line(self, y: int, width: int) -> Strip:
        if y != min(1, max(0, self.size.height - 1)):
            return Strip.blank(width, self.rich_style)
        content = Content(" " + self._message).truncate(width, ellipsis=True)
        style = self.get_visual_style("preview--message")
        return Strip(content.render_segments(style)).extend_cell_length(width, self.rich_style)

    def _gutter_strip(self, index: int, base: Style) -> Strip:
        inside = self._in_chunk(index)
        number = "preview--chunk-number" if inside else "preview--number"
        content = Content.assemble(
            (f"{index + self._first:>{self.margin_cells - 2}} ", self._part_style(number)),
            (_MARKER if inside else " ", self._part_style("preview--marker")),
        )
        return Strip(content.render_segments(base))

    def _part_style(self, name: str) -> Style:
        return self.get_visual_style(name, partial=True)

    def _line_content(self, index: int) -> Content:
        """Return a line, coloured, with matches and the selection marked."""
        pieces = self._highlighter.line(index) if self._highlighter is not None else []
        text = "".join(part for part, _ in pieces)
        if self._source is not None and self._source.state == "gone":
            spans = [Span(0, len(text), self._part_style("preview--gone"))]
        else:
            ends = accumulate(len(part) for part, _ in pieces)
            spans = [
                Span(end - len(part), end, style)
                for end, (part, style) in zip(ends, pieces, strict=True)
                if style
            ]
        if self._terms:
            mark = self._part_style("preview--match")
            spans += [Span(start, end, mark) for start, end in match_spans(text, self._terms)]
        content = Content(text, spans)
        selection = self.text_selection
        if selection is not None and (selected := selection.get_span(index)) is not None:
            end = len(text) if selected[1] == -1 else selected[1]
            style = Style.from_styles(self.screen.get_component_styles("screen--selection"))
            content = content.stylize(style, selected[0], end)
        return content

    def _widen(self, cells: int) -> None:
        """Let the view scroll as far as the widest line seen so far."""
        if cells > self._widest:
            self._widest = cells
            if cells > self.virtual_size.width - self.margin_cells:
                self.call_next(
                    lambda: self.set_extent(len(self._texts), self._widest + self.margin_cells)
                )

    def _characters_left_of(self, index: int, cells: int) -> int:
        if not cells:
            return 0
        text = display_line(self._texts[index])
        if text.isascii():
            return min(cells, len(text))
        return sum(1 for total in accumulate(cell_len(part) for part in text) if total <= cells)

    # --- selection ------------------------------------------------------------------------------

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the selected text as it is shown."""
        first = selection.start.y if selection.start is not None else 0
        last = selection.end.y if selection.end is not None else len(self._texts) - 1
        chosen = []
        for index in range(max(0, first), min(last, len(self._texts) - 1) + 1):
            span = selection.get_span(index)
            if span is not None:
                text = display_line(self._texts[index])
                chosen.append(text[span[0] : None if span[1] == -1 else span[1]])
        return ("\n".join(chosen), "\n") if chosen else None

    def selection_updated(self, selection: Selection | None) -> None:
        """Draw the selection."""
        self.refresh()


def _place(source: SourceText | None, chunk: Chunk | None) -> tuple[str | None, str | None]:
    """What the reader looks at: reading the same note again does not scroll."""
    return source.path if source is not None else None, chunk.id if chunk is not None else None


def _top_line(start: int, match: int | None, height: int) -> int:
    """The first line to show: the chunk's beginning with context, but never without the match."""
    top = start - CONTEXT_LINES
    if match is None or match < top + height:
        return top
    if match < start + height:
        return match - height + 1
    return match - CONTEXT_LINES


def _state(source: SourceText) -> str:
    """The state of a note in words, empty when it is as it was indexed."""
    if source.state == "current":
        return ""
    usual = {"changed": "changed since it was indexed", "gone": "file gone"}
    return safe_line(source.detail or usual.get(source.state, source.state))

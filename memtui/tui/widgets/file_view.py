"""A file of the memory: its text with the borders of all its chunks, and as rendered Markdown."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.binding import BindingType
from textual.content import Content
from textual.message import Message
from textual.strip import Strip
from textual.style import Style

from memtui.model import Chunk
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.bindings import bindings
from memtui.tui.glyphs import UNICODE, Glyphs
from memtui.tui.widgets.line_view import LineView
from memtui.tui.widgets.preview import Preview

if TYPE_CHECKING:
    from memtui.engine.ports import SourceText
    from memtui.tui.screens.browse.markdown import RenderedLine

_BORDER_CELLS = 2
_LOOKBACK = 8
"""So many chunks before a line may still reach it: chunks overlap by less than a chunk."""


class FileView(Preview):
    """The preview with every chunk's first and last line marked, and a current chunk."""

    DEFAULT_CSS = """
    FileView { height: 1fr; width: 1fr; & > .file-view--border { color: $foreground 45%; } }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"file-view--border"}
    HELP = "╭ │ ├ ╰ [ in the margin are the chunks of the index, ▌ is the current one."
    BINDING_GROUP_TITLE = "Preview"
    BINDINGS: ClassVar[list[BindingType]] = bindings("file_view")

    def __init__(self, glyphs: Glyphs = UNICODE) -> None:
        super().__init__(id="file-view")
        self._glyphs = glyphs
        self.chunks: Sequence[Chunk] = ()
        self.place: int | None = None
        """Which of the chunks is the current one."""
        self._starts: list[int] = []
        self._note = ""

    def show_file(
        self, source: SourceText, chunks: Sequence[Chunk], place: int | None, note: str = ""
    ) -> None:
        """Show a file with its chunks, one of them the current one."""
        self.chunks, self.place = chunks, place
        self._starts = [chunk.start_line for chunk in chunks]
        self._note = note
        self.show(source, chunks[place] if place is not None else None)

    def show_note(self, note: str) -> None:
        """Show one line in place of a file."""
        self.chunks, self.place, self._starts, self._note = (), None, [], ""
        self.show(None, None)
        self._message = note
        self._name_place()
        self.refresh()

    @property
    def current(self) -> Chunk | None:
        """The current chunk."""
        return self.chunks[self.place] if self.place is not None else None

    def go_to_line(self, line: int) -> None:
        """Scroll a line of the file to the top, with a line of context."""
        self._place_chunk_later = False
        self.scroll_to(x=0, y=max(0, line - self._first - 1), animate=False, force=True)

    def _name_place(self) -> None:
        super()._name_place()
        if self.place is not None and not self.has_class("-indexed"):
            number = f"chunk {fmt.count(self.place + 1)} of {fmt.count(len(self.chunks))}"
            self.border_title = Content(f"Preview  {number}")
        elif self._note:
            self.border_title = Content(f"Preview  {self._note}")

    # --- the margin -------------------------------------------------------------------------------

    @property
    def margin_cells(self) -> int:
        """Wider than without borders, where there are chunks."""
        return super().margin_cells + (_BORDER_CELLS if self.chunks else 0)

    def border_at(self, line: int) -> str:
        """The character in the margin of a line, 1-based: where chunks begin, run and end."""
        after = bisect_right(self._starts, line)
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

    def _gutter_strip(self, index: int, base: Style) -> Strip:
        gutter = super()._gutter_strip(index, base)
        if not self.chunks:
            return gutter
        border = Content.styled(
            f"{self.border_at(index + self._first)} ", self._part_style("file-view--border")
        )
        # The preview gives the room of the border to the line number.
        return Strip.join([gutter.crop(_BORDER_CELLS), Strip(border.render_segments(base))])


class RenderedView(LineView):
    """Lines that were rendered for a width; asks for others when it has another."""

    DEFAULT_CSS = """
    RenderedView {
        padding: 0;
        overflow-y: scroll;
        scrollbar-gutter: auto;
        width: 1fr;
    }
    """
    HELP = "The file as rendered Markdown; links are shown and not followed."
    BINDING_GROUP_TITLE = "Rendered"

    class Widened(Message):
        """The view has another width than what it shows was rendered for."""

    def __init__(self) -> None:
        super().__init__(id="rendered-view")
        self.border_title = "Rendered"
        self._sources: Sequence[int] = ()

    @property
    def text_width(self) -> int:
        """Cells for the text, without a margin of one on both sides."""
        return max(1, self.scrollable_content_region.width - 2)

    @property
    def source_line(self) -> int:
        """The 1-based line of the file at the top of the view."""
        top = int(self.scroll_offset.y)
        return self._sources[top] if top < len(self._sources) else 1

    def show_lines(self, path: str, lines: Sequence[RenderedLine], width: int, line: int) -> None:
        """Show what was rendered, scrolled to a line of the file."""
        self._lines = [" " + line.content for line in lines]
        self._sources, self._width = [line.source for line in lines], width
        self.border_subtitle = Content(safe_line(path))
        self.set_extent(len(lines))
        self.go_to_line(line)
        self.refresh()
        if self.size and self.text_width != width:
            self.post_message(self.Widened())

    def go_to_line(self, line: int) -> None:
        """Scroll to where a line of the file is drawn."""
        place = bisect_left(self._sources, line)
        self.scroll_to(y=max(0, place if line > 1 else 0), animate=False, force=True)

    def on_resize(self, event: events.Resize) -> None:
        """Ask for lines of the new width."""
        event.prevent_default()
        if self._lines and self.text_width != self._width:
            self.post_message(self.Widened())

"""A file of the memory: its text with the borders of all its chunks."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import ClassVar

from textual.binding import BindingType
from textual.content import Content
from textual.strip import Strip
from textual.style import Style

from memtui.engine.ports import SourceText
from memtui.model import Chunk
from memtui.tui import format as fmt
from memtui.tui.bindings import bindings
from memtui.tui.glyphs import UNICODE, Glyphs
from memtui.tui.widgets.preview import Preview

_BORDER_CELLS = 2
_LOOKBACK = 8
"""So many chunks before a line may still reach it: chunks overlap by less than a chunk."""


class FileView(Preview):
    """The preview with every chunk's first and last line marked, and a current chunk."""

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

"""The chart of a sweep and the list at its cursor, as widgets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from textual import events
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from memtui.model import Chunk, Ranked
from memtui.tui import format as fmt
from memtui.tui.glyphs import Glyphs
from memtui.tui.widgets.chart import FOOT, LABEL, Axis, Line, Mark, Plot, chart_lines
from memtui.tui.widgets.result_row import place_text

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
STYLES = (
    "$leg-vector",
    "$leg-keyword",
    "$leg-mmr",
    "$state-ok",
    "$leg-rerank",
    "$state-error",
    "$secondary",
    "$state-warn",
    "$foreground",
)
"""The colours of the lines, in the order of their letters; then again from the first."""
_NOBODY = "·"


class RankChart(Widget):
    """Ranks against a parameter; a click chooses a value."""

    DEFAULT_CSS = """
    RankChart { height: 1fr; width: 1fr; text-wrap: nowrap; text-overflow: clip; }
    """

    @dataclass
    class Pointed(Message):
        """A value was clicked."""

        value: float

    def __init__(self, glyphs: Glyphs, *, braille: bool, id: str) -> None:  # noqa: A002
        super().__init__(id=id)
        self.glyphs = glyphs
        self._braille = braille
        self._axis = Axis(0.0, 1.0)
        self._ranks = 1
        self._lines: tuple[Line, ...] = ()
        self._marks: tuple[Mark, ...] = ()

    def show(
        self, axis: Axis, ranks: int, lines: Sequence[Line], marks: Sequence[Mark] = ()
    ) -> None:
        """Draw these lines; the y axis ends at `ranks`."""
        self._axis, self._ranks = axis, max(1, ranks)
        self._lines, self._marks = tuple(lines), tuple(marks)
        self.refresh()

    def plot(self) -> Plot:
        """The plot at the present size."""
        width, height = self.content_size
        return Plot(
            self._axis, self._ranks, max(width - LABEL, 1), max(height - FOOT, 1), self._braille
        )

    def render(self) -> Content:
        """Draw the chart."""
        return Content("\n").join(chart_lines(self.plot(), self._lines, self._marks))

    def on_click(self, event: events.Click) -> None:
        """Choose the value that was clicked."""
        offset = event.get_content_offset(self)
        if offset is not None and offset.x >= LABEL:
            event.stop()
            self.post_message(self.Pointed(self.plot().value(offset.x - LABEL)))


@dataclass(frozen=True, slots=True)
class Traced:
    """A chunk with a line of its own."""

    chunk: Chunk
    letter: str
    style: str
    pinned: bool = False


def order_lines(
    ranked: Ranked,
    traced: Mapping[str, Traced],
    now: Mapping[str, int],
    *,
    width: int,
    glyphs: Glyphs,
    chosen: str | None = None,
) -> list[Content]:
    """A list as lines: rank, letter, movement against the ranks `now`, place; then what is out."""
    lines = []
    for hit in ranked.hits:
        was = now.get(hit.chunk.id)
        moved = _moved(was, hit.rank, glyphs)
        one = traced.get(hit.chunk.id)
        lines.append(_order_line(hit.chunk, str(hit.rank), one, moved, width, glyphs, chosen))
    shown = {hit.chunk.id for hit in ranked.hits}
    for chunk_id, one in traced.items():
        if chunk_id not in shown:
            gone = ("out", "$state-error") if chunk_id in now else ("", "")
            lines.append(_order_line(one.chunk, fmt.NOTHING, one, gone, width, glyphs, chosen))
    return lines


def _moved(was: int | None, rank: int, glyphs: Glyphs) -> tuple[str, str]:
    if was is None:
        return "new", "$state-warn bold"
    if was > rank:
        return f"{glyphs.up}{was - rank}", "$state-ok"
    if was < rank:
        return f"{glyphs.down}{rank - was}", "$state-error"
    return "", ""


def _order_line(
    chunk: Chunk,
    rank: str,
    traced: Traced | None,
    moved: tuple[str, str],
    width: int,
    glyphs: Glyphs,
    chosen: str | None,
) -> Content:
    is_chosen = chunk.id == chosen
    letter = (traced.letter, f"bold {traced.style}") if traced else (_NOBODY, fmt.MUTED)
    pin = (glyphs.pin, "$state-warn") if traced is not None and traced.pinned else (" ", "")
    head = Content.assemble(
        (glyphs.marker if is_chosen else " ", "$primary bold"),
        (f"{rank:>2} ", "bold"),
        letter,
        pin,
        (f"{moved[0]:<4}", moved[1]),
    )
    place = place_text(chunk.path, chunk.start_line, max(width - head.cell_length, 1))
    line = head + place
    if not is_chosen:
        return line
    blank = " " * max(width - line.cell_length, 0)
    return Content.assemble(line, blank).stylize_before("bold on $foreground 12%")

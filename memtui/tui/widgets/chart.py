"""Charts in a grid of characters: a canvas of dots, ranks against a parameter, and their widget."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from textual import events
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from memtui.model import Chunk, Ranked
from memtui.tui import format as fmt
from memtui.tui.glyphs import Glyphs
from memtui.tui.widgets.result_rows import place_text

_BRAILLE = 0x2800
_BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""The bit of a dot, by its row and column within a cell."""
_MIDDLE = 2
"""The dot row of a cell that stands for its middle; a thick line has the one above it too."""
_WHOLE = {0x24: "─", 0x36: "━"}
"""Cells that a level line crosses in the middle: drawn without gaps."""


@dataclass
class Canvas:
    """Draws into `width` × `height` cells; what is drawn later lies above.

    In braille a cell has 2 × 4 dots; else it is one dot, and a stroke `-`, `|`, `\\` or `/`.
    Points outside are left out.
    """

    width: int
    height: int
    braille: bool = True
    _dots: dict[tuple[int, int], int] = field(default_factory=dict)
    _strokes: dict[tuple[int, int], str] = field(default_factory=dict)
    _styles: dict[tuple[int, int], str] = field(default_factory=dict)

    @property
    def across(self) -> int:
        """Dots of a cell from left to right."""
        return 2 if self.braille else 1

    @property
    def down(self) -> int:
        """Dots of a cell from top to bottom."""
        return 4 if self.braille else 1

    def middle(self, row: int) -> int:
        """The dot row in the middle of a row of cells."""
        return row * self.down + (_MIDDLE if self.braille else 0)

    def line(self, start: tuple[int, int], end: tuple[int, int], style: str) -> None:
        """Draw from one dot to another, both included."""
        (x, y), (to_x, to_y) = start, end
        dots = list(_bresenham(x, y, to_x, to_y))
        for here, there in pairwise([*dots, dots[-1]]):
            across, down = there[0] - here[0], there[1] - here[1]
            if here == there and len(dots) > 1:
                across, down = here[0] - dots[-2][0], here[1] - dots[-2][1]
            self.dot(*here, style, _character(across, down))

    def dot(self, x: int, y: int, style: str, stroke: str = "-") -> None:
        """Draw one dot."""
        cell = x // self.across, y // self.down
        if not (0 <= cell[0] < self.width and 0 <= cell[1] < self.height):
            return
        if self.braille:
            bit = _BITS[y % 4][x % 2]
            self._dots[cell] = self._dots.get(cell, 0) | bit
            dots = self._dots[cell]
            self._strokes[cell] = _WHOLE.get(dots) or chr(_BRAILLE + dots)
        else:
            self._strokes[cell] = stroke
        self._styles[cell] = style

    def put(self, column: int, row: int, text: str, style: str) -> None:
        """Write a text of characters of width 1 over what is drawn, as far as there is room."""
        for place, character in enumerate(text, start=column):
            if 0 <= place < self.width and 0 <= row < self.height:
                self._strokes[place, row] = character
                self._styles[place, row] = style

    def is_free(self, column: int, row: int) -> bool:
        """Whether nothing is drawn in a cell."""
        return (column, row) not in self._strokes

    def row(self, row: int) -> Content:
        """One line of cells, blanks where nothing is drawn."""
        pieces: list[tuple[str, str]] = []
        for column in range(self.width):
            stroke = self._strokes.get((column, row), " ")
            style = self._styles.get((column, row), "")
            if pieces and pieces[-1][1] == style:
                pieces[-1] = (pieces[-1][0] + stroke, style)
            else:
                pieces.append((stroke, style))
        return Content.assemble(*pieces)


def _character(across: int, down: int) -> str:
    if down == 0:
        return "-"
    if across == 0:
        return "|"
    return "\\" if (across > 0) == (down > 0) else "/"


def _bresenham(x: int, y: int, to_x: int, to_y: int) -> Iterator[tuple[int, int]]:
    """The dots of a straight line (Bresenham 1965)."""
    across, down = abs(to_x - x), -abs(to_y - y)
    step_x = 1 if to_x >= x else -1
    step_y = 1 if to_y >= y else -1
    error = across + down
    while True:
        yield x, y
        if (x, y) == (to_x, to_y):
            return
        doubled = 2 * error
        if doubled >= down:
            error += down
            x += step_x
        if doubled <= across:
            error += across
            y += step_y


LABEL = 4
"""Cells left of the plot: the ranks."""
FOOT = 3
"""Lines below the plot: the axis, its numbers, the marks."""
OUT = "out"
_EVERY = 18
"""Cells from one letter on a line to the next."""
_SLOPE = 2
"""Most cells on each side of a flip over which a line goes to its next rank."""


@dataclass(frozen=True, slots=True)
class Axis:
    """The values from left to right."""

    low: float
    high: float
    logarithmic: bool = False
    ticks: tuple[tuple[float, str], ...] = ()

    def share(self, value: float) -> float:
        """Where a value lies, 0 at the left end to 1 at the right one."""
        low, high, value = (self._scaled(one) for one in (self.low, self.high, value))
        if high <= low:
            return 0.0
        return min(1.0, max(0.0, (value - low) / (high - low)))

    def value(self, share: float) -> float:
        """The value at a share of the axis."""
        share = min(1.0, max(0.0, share))
        if not self.logarithmic:
            return self.low + share * (self.high - self.low)
        return self.low * math.pow(self.high / self.low, share)

    def _scaled(self, value: float) -> float:
        return math.log(max(value, 1e-12)) if self.logarithmic else value


@dataclass(frozen=True, slots=True)
class Span:
    """Values between which a line keeps its rank; `None` is not in the list."""

    start: float
    end: float
    rank: int | None


@dataclass(frozen=True, slots=True)
class Line:
    """One chunk: its letter, its colour, and its ranks from the left to the right."""

    letter: str
    style: str
    spans: tuple[Span, ...]
    chosen: bool = False
    """Drawn last and thicker."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A value that is marked: a vertical stroke through the chart, and a word below it."""

    value: float
    stroke: str
    foot: str
    label: str
    style: str


@dataclass(frozen=True, slots=True)
class Plot:
    """Where things lie in a plot of `width` × `height` cells."""

    axis: Axis
    ranks: int
    width: int
    height: int
    braille: bool = True

    def column(self, value: float) -> int:
        """The cell of a value."""
        return round(self.axis.share(value) * (self.width - 1))

    def value(self, column: int) -> float:
        """The value in the middle of a cell."""
        return self.axis.value(column / max(1, self.width - 1))

    def row(self, rank: int | None) -> int:
        """The row of cells of a rank; `None`, out of the list, is the last."""
        level = self.ranks if rank is None else min(rank, self.ranks) - 1
        return round(level * (self.height - 1) / self.ranks)

    def x(self, value: float) -> int:
        """The dot column of a value: the middle of its cell at both ends of the axis."""
        across = 2 if self.braille else 1
        return round(self.axis.share(value) * (self.width - 1) * across)


def chart_lines(
    plot: Plot,
    lines: Sequence[Line],
    marks: Sequence[Mark],
    *,
    faint: str = fmt.MUTED,
) -> list[Content]:
    """Draw a chart in `LABEL + plot.width` × `plot.height + FOOT` cells.

    Above: rank 1 to `plot.ranks`, then the row of what is out of the list. Below: the axis, its
    numbers and the marks. Of two marks that would overlap, the first one keeps its label.
    """
    canvas = Canvas(plot.width, plot.height, plot.braille)
    for _, line in sorted(enumerate(lines), key=lambda one: (one[1].chosen, -one[0])):
        _draw_line(canvas, plot, line)
    for index, line in enumerate(lines):
        _write_letters(canvas, plot, line, index)
    for mark in marks:
        column = plot.column(mark.value)
        for row in range(plot.height):
            if canvas.is_free(column, row):
                canvas.put(column, row, mark.stroke, mark.style)
    drawn = [
        Content.assemble((f"{label:>{LABEL - 1}} ", faint), canvas.row(row))
        for row, label in enumerate(_rank_labels(plot))
    ]
    return [*drawn, *_foot(plot, marks, faint)]


def _rank_labels(plot: Plot) -> list[str]:
    labels = [""] * plot.height
    for rank in range(plot.ranks, 0, -1):
        labels[plot.row(rank)] = str(rank)
    labels[plot.row(None)] = OUT
    return labels


def _runs(plot: Plot, line: Line) -> list[tuple[int, int]]:
    """First and last dot of each stretch of a line without the slopes over its flips."""
    across = 2 if plot.braille else 1
    edges = [plot.x(span.start) for span in line.spans]
    # The last cell is filled to its edge.
    edges += [plot.x(span.end) + across - 1 for span in line.spans[-1:]]
    runs = []
    for index, (start, end) in enumerate(pairwise(edges)):
        half = min(_SLOPE * across, (end - start) // 2)
        first = start if index == 0 else start + half
        runs.append((first, end if index == len(line.spans) - 1 else end - half))
    return runs


def _draw_line(canvas: Canvas, plot: Plot, line: Line) -> None:
    """A line keeps its height between flips, and goes over a flip in a short slope."""
    here: tuple[int, int] | None = None
    for span, (first, last) in zip(line.spans, _runs(plot, line), strict=True):
        y = canvas.middle(plot.row(span.rank))
        if here is not None:
            _stroke(canvas, here, (first, y), line)
        here = (last, y)
        if span.rank is None:
            for x in range(first, last + 1, 4 if plot.braille else 2):
                canvas.dot(x, y, line.style, ".")
        else:
            _stroke(canvas, (first, y), here, line)


def _stroke(canvas: Canvas, start: tuple[int, int], end: tuple[int, int], line: Line) -> None:
    canvas.line(start, end, line.style)
    if line.chosen and canvas.braille:
        canvas.line((start[0], start[1] - 1), (end[0], end[1] - 1), line.style)


def _write_letters(canvas: Canvas, plot: Plot, line: Line, index: int) -> None:
    """The letter of a line at the beginning of every stretch, and again on long ones."""
    for span, run in zip(line.spans, _runs(plot, line), strict=True):
        start, end = (dot // canvas.across for dot in run)
        # Out of the list the lines lie upon one another: each has its letter at another place.
        first = start + 1 if span.rank is not None else start + 1 + 2 * index
        if span.rank is not None and end - start < 2:
            continue
        for column in range(first, end + 1, _EVERY):
            canvas.put(column, plot.row(span.rank), line.letter, f"bold {line.style}")


def _foot(plot: Plot, marks: Sequence[Mark], faint: str) -> list[Content]:
    axis, numbers, below = ([" "] * plot.width for _ in range(3))
    axis[:] = ["─" if plot.braille else "-"] * plot.width
    taken: list[tuple[int, int]] = []
    for value, label in plot.axis.ticks:
        column = plot.column(value)
        first = min(max(column - len(label) // 2, 0), plot.width - len(label))
        if first < 0 or any(first <= end and start <= first + len(label) for start, end in taken):
            continue
        taken.append((first, first + len(label)))
        axis[column] = "┴" if plot.braille else "+"
        numbers[first : first + len(label)] = label
    indent = " " * LABEL
    return [
        Content.styled(indent + "".join(axis), faint),
        Content.styled(indent + "".join(numbers), faint),
        _mark_line(plot, marks, below, indent),
    ]


def _mark_line(plot: Plot, marks: Sequence[Mark], cells: list[str], indent: str) -> Content:
    """The marks below the axis: the glyph under its value, the word to its right or its left."""
    placed: list[tuple[int, str, str]] = []
    for mark in marks:
        column = plot.column(mark.value)
        right, left = f"{mark.foot} {mark.label}", f"{mark.label} {mark.foot}"
        ways = [(right, column), (left, column - len(left) + 1), (mark.foot, column)]
        if any(column < plot.column(one.value) <= column + len(right) for one in marks):
            ways[:2] = ways[1::-1]
        for text, first in ways:
            if _is_free(cells, first, len(text)):
                cells[first : first + len(text)] = text
                placed.append((first, text, mark.style))
                break
    pieces: list[tuple[str, str]] = [(indent, "")]
    at = 0
    for first, text, style in sorted(placed):
        pieces += [(" " * (first - at), ""), (text, style)]
        at = first + len(text)
    return Content.assemble(*pieces)


def _is_free(cells: Sequence[str], first: int, length: int) -> bool:
    """Whether a text has room there, with a blank on both sides."""
    if first < 0 or first + length > len(cells):
        return False
    around = cells[max(first - 1, 0) : first + length + 1]
    return all(cell == " " for cell in around)


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

"""Charts in a grid of characters: a canvas of dots, ranks against a parameter, and their widget."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from msgspec import Struct
from textual import events
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from memtui.ranking.counterfactual.solve import Segment
from memtui.tui import format as fmt

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
    _cells: dict[tuple[int, int], tuple[str, str]] = field(default_factory=dict)
    """The character and the style of each cell that is drawn in."""

    @property
    def across(self) -> int:
        """Dots of a cell from left to right."""
        return 2 if self.braille else 1

    def middle(self, row: int) -> int:
        """Return the dot row in the middle of a row of cells."""
        return row * 4 + _MIDDLE if self.braille else row

    def path(self, dots: Sequence[tuple[int, int]], style: str, *, is_thick: bool = False) -> None:
        """Draw from dot to dot; in braille a thick line has the dots above it, too."""
        for above in (0, 1) if is_thick and self.braille else (0,):
            for (x, y), (to_x, to_y) in pairwise(dots):
                steps = max(abs(to_x - x), abs(to_y - y))
                parts = [at / max(steps, 1) for at in range(steps + 1)]
                places = [
                    (round(x + (to_x - x) * part), round(y - above + (to_y - y) * part))
                    for part in parts
                ]
                strokes = [_stroke(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(places)] or ["-"]
                for place, stroke in zip(places, [*strokes, strokes[-1]], strict=False):
                    self.dot(*place, style, stroke)

    def dot(self, x: int, y: int, style: str, stroke: str = "-") -> None:
        """Draw one dot."""
        cell = x // self.across, y // (4 if self.braille else 1)
        if not (0 <= cell[0] < self.width and 0 <= cell[1] < self.height):
            return
        if self.braille:
            dots = self._dots.get(cell, 0) | _BITS[y % 4][x % 2]
            self._dots[cell] = dots
            stroke = _WHOLE.get(dots) or chr(_BRAILLE + dots)
        self._cells[cell] = stroke, style

    def put(self, column: int, row: int, text: str, style: str) -> None:
        """Write a text of characters of width 1 over what is drawn, as far as there is room."""
        for place, character in enumerate(text, start=column):
            if 0 <= place < self.width and 0 <= row < self.height:
                self._cells[place, row] = character, style

    def is_free(self, column: int, row: int) -> bool:
        """Tell whether nothing is drawn in a cell."""
        return (column, row) not in self._cells

    def has_room(self, first: int, row: int, length: int) -> bool:
        """Tell whether a text has room in a row, with a blank on both sides."""
        around = range(first - 1, first + length + 1)
        is_inside = first >= 0 and first + length <= self.width
        return is_inside and all(self.is_free(column, row) for column in around)

    def row(self, row: int) -> Content:
        """Return one line of cells, blanks where nothing is drawn."""
        cells = (self._cells.get((column, row), (" ", "")) for column in range(self.width))
        return Content.assemble(*cells)


def _stroke(across: int, down: int) -> str:
    if down == 0:
        return "-"
    if across == 0:
        return "|"
    return "\\" if (across > 0) == (down > 0) else "/"


LABEL = 4
"""Cells left of the plot: the ranks."""
FOOT = 3
"""Lines below the plot: the axis, its numbers, the marks."""
_EVERY = 18
"""Cells from one letter on a line to the next."""
_SLOPE = 2
"""Most cells on each side of a flip over which a line goes to its next rank."""


class Axis(Struct, frozen=True):
    """The values from left to right."""

    low: float
    high: float
    logarithmic: bool = False
    ticks: tuple[tuple[float, str], ...] = ()

    def share(self, value: float) -> float:
        """Return where a value lies, 0 at the left end to 1 at the right one."""
        low, high = self.low, self.high
        if self.logarithmic:
            low, high, value = (math.log(max(one, 1e-12)) for one in (low, high, value))
        return min(1.0, max(0.0, (value - low) / (high - low))) if high > low else 0.0

    def value(self, share: float) -> float:
        """Return the value at a share of the axis."""
        share = min(1.0, max(0.0, share))
        if self.logarithmic:
            return self.low * math.pow(self.high / self.low, share)
        return self.low + share * (self.high - self.low)


class Line(Struct, frozen=True):
    """One chunk: its letter, its colour, and its ranks from the left to the right."""

    letter: str
    style: str
    segments: tuple[Segment, ...]
    chosen: bool = False
    """Drawn last and thicker."""


class Mark(Struct, frozen=True):
    """A value that is marked: a vertical stroke through the chart, and a word below it."""

    value: float
    stroke: str
    foot: str
    label: str
    style: str


class Plot(Struct, frozen=True):
    """A plot of `width` × `height` cells, and where things lie in it."""

    axis: Axis
    ranks: int
    width: int
    height: int
    braille: bool = True

    def column(self, value: float) -> int:
        """Return the cell of a value."""
        return round(self.axis.share(value) * (self.width - 1))

    def value(self, column: int) -> float:
        """Return the value in the middle of a cell."""
        return self.axis.value(column / max(1, self.width - 1))

    def row(self, rank: int | None) -> int:
        """Return the row of cells of a rank; `None`, out of the list, is the last."""
        level = self.ranks if rank is None else min(rank, self.ranks) - 1
        return round(level * (self.height - 1) / self.ranks)

    def runs(self, line: Line, across: int) -> list[tuple[Segment, int, int]]:
        """Return each stretch of a line with its first and last dot, without slopes over flips."""
        values = (*(one.start for one in line.segments), line.segments[-1].end)
        edges = [round(self.axis.share(value) * (self.width - 1) * across) for value in values]
        # The last cell is filled to its edge.
        edges[-1] += across - 1
        runs = []
        for segment, (start, end) in zip(line.segments, pairwise(edges), strict=True):
            half = min(_SLOPE * across, (end - start) // 2)
            first = start if segment is line.segments[0] else start + half
            runs.append((segment, first, end if segment is line.segments[-1] else end - half))
        return runs

    def draw(self, lines: Sequence[Line], marks: Sequence[Mark]) -> list[Content]:
        """Draw a chart in `LABEL + width` × `height + FOOT` cells.

        Above: rank 1 to `ranks`, then the row of what is out of the list. Below: the axis, its
        numbers and the marks. Of two marks that would overlap, the first one keeps its label.
        """
        canvas = Canvas(self.width, self.height, self.braille)
        in_order = list(reversed(lines))
        for line in sorted(in_order, key=lambda line: line.chosen):
            self._draw_line(canvas, line)
        for index, line in enumerate(lines):
            for segment, first, last in self.runs(line, canvas.across):
                start, end = first // canvas.across, last // canvas.across
                if segment.rank is None:
                    # Out of the list lines lie upon one another: each has its letter elsewhere.
                    start += 2 * index
                elif end - start < 2:
                    continue
                for column in range(start + 1, end + 1, _EVERY):
                    canvas.put(column, self.row(segment.rank), line.letter, f"bold {line.style}")
        for mark in marks:
            for row in range(self.height):
                if canvas.is_free(self.column(mark.value), row):
                    canvas.put(self.column(mark.value), row, mark.stroke, mark.style)
        labels = {self.row(rank): str(rank) for rank in range(self.ranks, 0, -1)}
        labels[self.row(None)] = "out"
        drawn = [
            Content.assemble((f"{labels.get(row, ''):>{LABEL - 1}} ", fmt.MUTED), canvas.row(row))
            for row in range(self.height)
        ]
        foot = self._foot(marks)
        return [*drawn, *(" " * LABEL + foot.row(row) for row in range(FOOT))]

    def _draw_line(self, canvas: Canvas, line: Line) -> None:
        """Draw a line level between flips, and in a short slope over each."""
        before: list[tuple[int, int]] = []
        for segment, first, last in self.runs(line, canvas.across):
            y = canvas.middle(self.row(segment.rank))
            here = [(first, y), (last, y)]
            if segment.rank is None:
                for x in range(first, last + 1, 2 * canvas.across):
                    canvas.dot(x, y, line.style, ".")
            stretch = here[:1] if segment.rank is None else here
            canvas.path([*before, *stretch], line.style, is_thick=line.chosen)
            before = here[1:]

    def _foot(self, marks: Sequence[Mark]) -> Canvas:
        """Return the axis, its numbers, and the marks with their words right or left of them."""
        foot = Canvas(self.width, FOOT)
        foot.put(0, 0, ("─" if self.braille else "-") * self.width, fmt.MUTED)
        for value, label in self.axis.ticks:
            column = self.column(value)
            first = min(max(column - len(label) // 2, 0), self.width - len(label))
            if foot.has_room(first, 1, len(label)):
                foot.put(column, 0, "┴" if self.braille else "+", fmt.MUTED)
                foot.put(first, 1, label, fmt.MUTED)
        for mark in marks:
            column = self.column(mark.value)
            right, left = f"{mark.foot} {mark.label}", f"{mark.label} {mark.foot}"
            ways = [(right, column), (left, column - len(left) + 1), (mark.foot, column)]
            if any(column < self.column(one.value) <= column + len(right) for one in marks):
                ways[:2] = ways[1::-1]
            for text, first in ways:
                if foot.has_room(first, 2, len(text)):
                    foot.put(first, 2, text, mark.style)
                    break
        return foot


class RankChart(Widget):
    """Ranks against a parameter; a click chooses a value."""

    DEFAULT_CSS = """
    RankChart { height: 1fr; width: 1fr; text-wrap: nowrap; text-overflow: clip; }
    """

    @dataclass
    class Pointed(Message):
        """A value was clicked."""

        value: float

    def __init__(self, *, braille: bool) -> None:
        super().__init__()
        self._braille = braille
        self._axis, self._ranks = Axis(0.0, 1.0), 1
        self._lines: Sequence[Line] = ()
        self._marks: Sequence[Mark] = ()

    def show(self, axis: Axis, ranks: int, lines: Sequence[Line], marks: Sequence[Mark]) -> None:
        """Draw these lines; the y axis ends at `ranks`."""
        self._axis, self._ranks, self._lines, self._marks = axis, max(1, ranks), lines, marks
        self.refresh()

    def plot(self) -> Plot:
        """Return the plot at the present size."""
        width, height = self.content_size
        room = max(width - LABEL, 1), max(height - FOOT, 1)
        return Plot(self._axis, self._ranks, *room, self._braille)

    def render(self) -> Content:
        """Draw the chart."""
        return Content("\n").join(self.plot().draw(self._lines, self._marks))

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is not None and offset.x >= LABEL:
            self.post_message(self.Pointed(self.plot().value(offset.x - LABEL)))

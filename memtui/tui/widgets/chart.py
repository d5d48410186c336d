"""Ranks against one parameter as a line chart: a pure function from values to lines of cells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from textual.content import Content

from memtui.tui import format as fmt
from memtui.tui.widgets.canvas import Canvas

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

"""Charts in a grid of characters: a canvas of dots, ranks against a parameter, and their widget."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from msgspec import Struct
from textual import events
from textual.content import Content
from textual.reactive import Reactive
from textual.widget import Widget

from memtui.ranking.counterfactual.solve import Segment
from memtui.tui import fmt, glyphs

_BRAILLE = 0x2800
_BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""The bit of a dot, by its row and column within a cell."""
_MIDDLE = 2
"""The dot row of a cell that stands for its middle; a thick line has the one above it too."""
_WHOLE = {0x24: "─", 0x36: "━"}
"""Cells that a level line crosses in the middle: drawn without gaps."""
LABEL = 4
"""Cells left of the plot: the ranks."""
FOOT = 3
"""Lines below the plot: the axis, its numbers, the marks."""
_EVERY = 18
"""Cells from one letter on a line to the next."""
_SLOPE = 2
"""Most cells on each side of a flip over which a line goes to its next rank."""


@dataclass
class Canvas:
    """Draws into `width` × `height` cells; what is drawn later lies above.

    In braille a cell has 2 × 4 dots; in ASCII it is one dot, and a stroke `-`, `|`, `\\` or `/`.
    Points outside are left out.
    """

    width: int
    height: int
    braille: bool = field(default_factory=lambda: not glyphs.ASCII_ONLY.get())
    cells: dict[tuple[int, int], tuple[str, str]] = field(default_factory=dict)
    """The character and the style of each cell that is drawn in, by column and row."""
    _dots: dict[tuple[int, int], int] = field(default_factory=dict)

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
                steps = max(abs(to_x - x), abs(to_y - y), 1)
                places = [
                    (round(x + (to_x - x) * step / steps), round(y + (to_y - y) * step / steps))
                    for step in range(steps + 1)
                ]
                for here, there in pairwise(places):
                    across, down = there[0] - here[0], there[1] - here[1]
                    slope = "\\" if across == down else "/"
                    stroke = "-" if down == 0 else "|" if across == 0 else slope
                    for column, row in (here, there):
                        self.dot(column, row - above, style, stroke)

    def dot(self, x: int, y: int, style: str, stroke: str) -> None:
        cell = x // self.across, y // (4 if self.braille else 1)
        if self.braille:
            self._dots[cell] = dots = self._dots.get(cell, 0) | _BITS[y % 4][x % 2]
            stroke = _WHOLE.get(dots) or chr(_BRAILLE + dots)
        self.put(*cell, stroke, style)

    def put(self, column: int, row: int, text: str, style: str) -> None:
        """Write a text of characters of width 1 over what is drawn, as far as there is room."""
        for place, character in enumerate(text, start=column):
            if 0 <= place < self.width and 0 <= row < self.height:
                self.cells[place, row] = character, style

    def row(self, row: int) -> Content:
        """Return one line of cells, blanks where nothing is drawn."""
        cells = (self.cells.get((column, row), (" ", "")) for column in range(self.width))
        return Content.assemble(*cells)


class Axis(Struct, frozen=True):
    """The values from left to right."""

    low: float
    high: float
    logarithmic: bool = False
    ticks: Sequence[tuple[float, str]] = ()

    def place(self, value: float, places: int) -> int:
        """Return where a value lies, 0 at the left end to `places` - 1 at the right one."""
        low, high = self.low, self.high
        if self.logarithmic:
            low, high, value = (math.log(max(one, 1e-12)) for one in (low, high, value))
        share = (value - low) / (high - low) if high > low else 0.0
        return round(min(1.0, max(0.0, share)) * (places - 1))

    def value(self, place: int, places: int) -> float:
        share = min(1.0, place / max(1, places - 1))
        if self.logarithmic:
            return self.low * math.pow(self.high / self.low, share)
        return self.low + share * (self.high - self.low)


class Line(Struct, frozen=True):
    """One chunk: its letter, its colour, and its ranks from the left to the right."""

    letter: str
    style: str
    segments: Sequence[Segment]
    chosen: bool = False
    """Drawn last and thicker."""


class Mark(Struct, frozen=True):
    """A value that is marked: a vertical stroke through the chart, and a word below it."""

    value: float
    stroke: str
    foot: str
    label: str
    style: str


class Chart(Struct, frozen=True):
    """Ranks 1 to `ranks` against the values of an axis."""

    axis: Axis
    ranks: int = 1
    lines: Sequence[Line] = ()
    marks: Sequence[Mark] = ()

    def draw(self, width: int, height: int) -> list[Content]:
        """Draw a plot of these cells in `LABEL + width` × `height + FOOT` cells.

        Above: rank 1 to `ranks`, then the row of what is out of the list. Below: the axis, its
        numbers and the marks. Lines are level between flips, with a short slope over each.
        """
        canvas = Canvas(width, height)
        across = canvas.across
        # Where ranks share rows none shares that of what is out.
        below = height - 1
        rows = [min(round(at * below / self.ranks), below - 1) for at in range(self.ranks)]
        rows.append(below)
        letters: list[tuple[int, int, Line]] = []
        # The chosen line last, above the others.
        for index, line in sorted(enumerate(self.lines), key=lambda one: (one[1].chosen, -one[0])):
            segments = line.segments
            before: list[tuple[int, int]] = []
            values = (*(one.start for one in segments), segments[-1].end)
            edges = [self.axis.place(value, (width - 1) * across + 1) for value in values]
            # The last cell is filled to its edge.
            edges[-1] += across - 1
            for segment, (start, end) in zip(segments, pairwise(edges), strict=True):
                is_out = segment.rank is None
                row = rows[-1 if segment.rank is None else segment.rank - 1]
                # Level but for the slopes.
                y = canvas.middle(row)
                half = min(_SLOPE * across, (end - start) // 2)
                first = start if segment is segments[0] else start + half
                last = end if segment is segments[-1] else end - half
                level = [(first, y)] if is_out else [(first, y), (last, y)]
                if is_out:
                    for x in range(first, last + 1, 2 * across):
                        canvas.dot(x, y, line.style, ".")
                canvas.path([*before, *level], line.style, is_thick=line.chosen)
                before = [(last, y)]
                if is_out or last // across - first // across >= 2:
                    # Out of the list lines lie upon one another: each has its letter elsewhere.
                    aside = 2 * index if is_out else 0
                    columns = range(first // across + 1 + aside, last // across + 1, _EVERY)
                    letters += [(column, row, line) for column in columns]
        for column, row, line in letters:
            canvas.put(column, row, line.letter, f"bold {line.style}")
        for mark in self.marks:
            column = self.axis.place(mark.value, width)
            for at in range(height):
                if (column, at) not in canvas.cells:
                    canvas.put(column, at, mark.stroke, mark.style)
        labels = {below: "out"}
        for row in sorted({*rows[:-1]}):
            best = rows.index(row) + 1
            worst = best + rows.count(row) - 1
            both = f"{best}-{worst}" if worst > best else str(best)
            labels[row] = both if len(both) < LABEL else str(best)
        return [
            *(
                Content.assemble((f"{labels.get(at, ''):>{LABEL - 1}} ", fmt.MUTED), canvas.row(at))
                for at in range(height)
            ),
            *(" " * LABEL + line for line in self._foot(width)),
        ]

    def _foot(self, width: int) -> list[Content]:
        """Draw the axis, its numbers, and the marks with their words right or left of them.

        Of two marks that would overlap, the first one keeps its label.
        """
        foot = Canvas(width, FOOT)

        def has_room(first: int, row: int, text: str) -> bool:
            around = range(first - 1, first + len(text) + 1)
            is_inside = first >= 0 and first + len(text) <= width
            return is_inside and all((column, row) not in foot.cells for column in around)

        foot.put(0, 0, "─" * width, fmt.MUTED)
        for value, label in self.axis.ticks:
            column = self.axis.place(value, width)
            first = min(max(column - len(label) // 2, 0), width - len(label))
            if has_room(first, 1, label):
                foot.put(column, 0, "┴", fmt.MUTED)
                foot.put(first, 1, label, fmt.MUTED)
        columns = [self.axis.place(mark.value, width) for mark in self.marks]
        for column, mark in zip(columns, self.marks, strict=True):
            right, left = f"{mark.foot} {mark.label}", f"{mark.label} {mark.foot}"
            ways = [(right, column), (left, column - len(left) + 1), (mark.foot, column)]
            if any(column < other <= column + len(right) for other in columns):
                ways[:2] = ways[1::-1]
            text, first = next((way for way in ways if has_room(way[1], 2, way[0])), ("", 0))
            foot.put(first, 2, text, mark.style)
        return [foot.row(row) for row in range(FOOT)]


class RankChart(Widget):
    """Ranks against a parameter; a click goes to a value by the action `point` of the screen."""

    chart = Reactive(Chart(Axis(0.0, 1.0)))

    def render(self) -> Content:
        width, height = max(self.content_size.width - LABEL, 1), self.content_size.height - FOOT
        return Content("\n").join(self.chart.draw(width, max(height, 1)))

    async def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is not None and offset.x >= LABEL:
            places = self.content_size.width - LABEL
            value = self.chart.axis.value(offset.x - LABEL, places)
            await self.run_action(f"screen.point({value!r})")

"""Lines in a grid of characters: braille dots, or one ASCII stroke a cell."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from textual.content import Content

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
            self.dot(*here, style, _stroke(across, down))

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


def _stroke(across: int, down: int) -> str:
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

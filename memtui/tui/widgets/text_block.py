"""A block of lines that are drawn for the width at hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual.content import Content
from textual.geometry import Size
from textual.widget import Widget

Draw = Callable[[int], Sequence[Content]]
"""From a width in cells to lines of at most that width."""


def _nothing(width: int) -> Sequence[Content]:
    return ()


class TextBlock(Widget):
    """As tall as its lines; not there while it has none."""

    DEFAULT_CSS = """
    TextBlock {
        width: 1fr;
        height: auto;
        text-wrap: nowrap;
        text-overflow: ellipsis;
    }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._draw_lines: Draw = _nothing
        self._counted: tuple[int, int] = (-1, -1)
        """Width and lines when the height was chosen."""

    def show(self, draw: Draw) -> None:
        """Draw these lines from now on."""
        self._draw_lines = draw
        width, lines = self._counted
        self.refresh(layout=width < 0 or len(draw(width)) != lines)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Count the lines at this width."""
        self._counted = (width, len(self._draw_lines(width)))
        return self._counted[1]

    def render(self) -> Content:
        """Draw the lines at the present width."""
        return Content("\n").join(self._draw_lines(max(1, self.content_size.width)))

"""Labelled facts in two columns: a dim label, and a value that wraps under itself."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content
from textual.geometry import Size
from textual.widget import Widget

from memtui.tui import format as fmt

Fact = tuple[str, Content]
"""A constant label and its value; an empty label continues the fact above."""

_MIN_VALUE = 8


def fact_lines(facts: Sequence[Fact], width: int, label_width: int | None = None) -> list[Content]:
    """Lay out facts in `width` cells, one line or more for each."""
    column = label_width or max((len(label) for label, _ in facts), default=0) + 2
    room = max(_MIN_VALUE, width - column)
    lines: list[Content] = []
    for label, value in facts:
        wrapped = value.wrap(room) or [Content("")]
        for number, line in enumerate(wrapped):
            head = label if number == 0 else ""
            lines.append(Content.assemble((f"{head:<{column}}", fmt.MUTED), line))
    return lines


class Facts(Widget):
    """A block of facts, as tall as they need."""

    DEFAULT_CSS = """
    Facts {
        width: 1fr;
        height: auto;
        text-wrap: nowrap;
        text-overflow: ellipsis;
    }
    """

    def __init__(
        self,
        facts: Sequence[Fact] = (),
        *,
        label_width: int | None = None,
        id: str | None = None,  # noqa: A002 - Textual's name
        classes: str | None = None,
    ) -> None:
        super().__init__(id=id, classes=classes)
        self._facts = tuple(facts)
        self._label_width = label_width

    def show(self, facts: Sequence[Fact]) -> None:
        """Replace the facts."""
        self._facts = tuple(facts)
        self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Count the lines at this width."""
        return len(fact_lines(self._facts, width, self._label_width))

    def render(self) -> Content:
        """Lay the facts out at the present width."""
        return Content("\n").join(
            fact_lines(self._facts, self.content_size.width, self._label_width)
        )

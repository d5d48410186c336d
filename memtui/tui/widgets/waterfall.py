"""The waterfall: every step of one score as a bar on one axis, with its arithmetic."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content
from textual.geometry import Size
from textual.widget import Widget

from memtui.tui import format as fmt
from memtui.tui.arithmetic import ScoreStep, glyph_of
from memtui.tui.glyphs import UNICODE, Glyphs

LABEL = 11
VALUE = 8
RANK = 5
_GAP = 2
_TRACK = "on $foreground 6%"
_BAR_SHARE = 0.42
_BAR_LIMITS = (8, 60)


def bar_cells(extent: tuple[float, float], axis: float, width: int) -> tuple[int, int]:
    """Place an extent on an axis of `width` cells: first cell and count, at least one cell."""
    low, high = (min(1.0, max(0.0, value / axis)) for value in extent)
    start, stop = round(low * width), round(high * width)
    if high > low and stop == start:
        start = min(start, width - 1)
        stop = start + 1
    return start, stop - start


def step_bar(step: ScoreStep, axis: float, width: int, glyphs: Glyphs) -> Content:
    """The bar of one step, exactly `width` cells; empty for a step that moves nothing."""
    start, cells = bar_cells(step.extent, axis, width)
    glyph = glyphs.vector if step.sign == "=" else glyph_of(step, glyphs)
    rest = width - start - cells
    bar = Content.assemble(" " * start, (glyph * cells, step.style), " " * rest)
    return bar.stylize_before(_TRACK)


def bar_width(width: int) -> int:
    """How many cells of a line are the bar."""
    free = width - LABEL - VALUE - RANK - _GAP
    return max(_BAR_LIMITS[0], min(_BAR_LIMITS[1], int(free * _BAR_SHARE)))


def waterfall_lines(
    steps: Sequence[ScoreStep], axis: float, width: int, glyphs: Glyphs = UNICODE
) -> list[Content]:
    """One line of `width` cells for each step: sign, word, bar, value, rank, arithmetic.

    A note that does not fit goes on a line of its own.
    """
    cells = bar_width(width)
    room = width - LABEL - cells - VALUE - RANK - _GAP
    lines = [_scale_line(axis, cells)] if steps else []
    for step in steps:
        word = "bold $state-error" if step.failed else step.style
        value = fmt.score(step.value) if step.value is not None else ""
        head = Content.assemble(
            (f"{step.sign:<2}", fmt.MUTED),
            (f"{step.word:<{LABEL - 2}}", word),
            step_bar(step, axis, cells, glyphs),
            (f"{value:>{VALUE}}", "bold"),
            (f"{fmt.rank(step.rank) if step.rank else '':>{RANK}}", fmt.MUTED),
            " " * _GAP,
        )
        lines += _with_arithmetic(head, step, room)
    return lines


def _scale_line(axis: float, cells: int) -> Content:
    ends = f"0{fmt.score(axis):>{cells - 1}}"
    return Content.styled(f"{'':<{LABEL}}{ends}{'score':>{VALUE}}{'rank':>{RANK}}", fmt.MUTED)


def _with_arithmetic(head: Content, step: ScoreStep, room: int) -> list[Content]:
    formula = Content.styled(step.formula, "" if step.value is not None else fmt.MUTED)
    note = Content.styled(step.note, fmt.MUTED)
    together = Content("  ").join([part for part in (formula, note) if part])
    if together.cell_length <= room:
        return [head + together]
    short = Content.assemble(formula, "  ", (step.brief, fmt.MUTED))
    if step.brief and short.cell_length <= room:
        return [head + short]
    if formula.cell_length > room:
        lines = [head]
        rest = together
    else:
        lines = [head + formula]
        rest = note
    indent = " " * LABEL
    width = head.cell_length + room - LABEL
    return lines + [Content.assemble(indent, line) for line in rest.wrap(max(8, width))]


class Waterfall(Widget):
    """The waterfall of one chunk."""

    DEFAULT_CSS = """
    Waterfall {
        width: 1fr;
        height: auto;
        text-wrap: nowrap;
        text-overflow: ellipsis;
    }
    """

    def __init__(self, *, glyphs: Glyphs = UNICODE, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.glyphs = glyphs
        self._steps: tuple[ScoreStep, ...] = ()
        self._axis = 1.0

    def show(self, steps: Sequence[ScoreStep], axis: float) -> None:
        """Draw these steps; `axis` is the value at the right end."""
        self._steps = tuple(steps)
        self._axis = axis
        self.refresh(layout=True)

    def lines(self, width: int) -> list[Content]:
        """Return the lines at a width, as they are drawn and copied."""
        return waterfall_lines(self._steps, self._axis, width, self.glyphs)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Count the lines at this width."""
        return len(self.lines(width))

    def render(self) -> Content:
        """Draw the waterfall at the present width."""
        return Content("\n").join(self.lines(self.content_size.width))

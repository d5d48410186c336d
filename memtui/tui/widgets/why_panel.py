"""The why-panel: the arithmetic of the selected result in a few lines."""

from __future__ import annotations

from rich.cells import cell_len
from textual.content import Content
from textual.geometry import Size
from textual.widget import Widget

from memtui.model import Hit, Leg, Ranked, Stage
from memtui.tui import format as fmt
from memtui.tui.arithmetic import ScoreStep, glyph_of, steps_of
from memtui.tui.glyphs import UNICODE, Glyphs
from memtui.tui.verdicts import verdict

_WORD = 9
_BESIDE_ONLY = (Stage.FUSION, Stage.IDENTITY, Stage.TIERS, Stage.EXACT_PATH)
"""Stages whose note is left out where it does not fit beside the numbers."""
_EMPTY = "Select a result to see why it ranks where it does."


def why_lines(ranked: Ranked, chunk_id: str, width: int, glyphs: Glyphs = UNICODE) -> list[Content]:
    """The steps of a chunk and the verdict, in lines of at most `width` cells.

    Raises `KeyError` when the pool does not hold the chunk.
    """
    # Imported late: ranking needs numpy, and the first paint does not.
    from memtui.ranking.trace import find

    scored = find(ranked, chunk_id)
    steps = [step for step in steps_of(ranked, scored) if _is_remarkable(step)]
    column = max((len(_expression(step)) for step in steps if step.rank), default=0) + 1
    lines: list[Content] = []
    for step in steps:
        lines += _step_lines(step, column, width, glyphs)
    style = "bold $state-ok" if isinstance(scored, Hit) else "bold $state-warn"
    lines += Content.styled(verdict(ranked, scored), style).wrap(width)
    return lines


def _is_remarkable(step: ScoreStep) -> bool:
    return step.kind is not Stage.MIN_SCORE or bool(step.note) or step.failed


def _expression(step: ScoreStep) -> str:
    if step.value is None:
        return step.brief
    value = fmt.score(step.value)
    formula = step.formula.replace(" × ", "×").replace("× ", "×")
    match step.kind:
        case Leg.VECTOR | Leg.KEYWORD:
            return f"{formula}={value}"
        case Stage.FUSION:
            return value
        case Stage.MIN_SCORE | Stage.DEDUP | Stage.CUT:
            return step.formula
        case Stage.IDENTITY if formula != value:
            return f"{formula.replace(' + ', '+')}→{value}"
        case Stage.RERANK | Stage.EXACT_PATH | Stage.IDENTITY | Stage.TIERS:
            return f"→ {value}"
        case _:
            return f"{formula.replace(fmt.MINUS + ' ', fmt.MINUS)} → {value}"


def _step_lines(step: ScoreStep, column: int, width: int, glyphs: Glyphs) -> list[Content]:
    style = "bold $state-error" if step.failed else step.style
    if step.value is None and cell_len(step.brief) > width - _WORD - 2:
        head = Content.assemble((glyph_of(step, glyphs), style), " ", (step.word, style))
        room = max(8, width - 2)
        return [head, *(Content.assemble("  ", part) for part in _folded(step.brief, room))]
    line = Content.assemble(
        (glyph_of(step, glyphs), style),
        " ",
        (f"{step.word:<{_WORD - 1}} ", style),
        (f"{_expression(step):<{column}}", "" if step.value is not None else fmt.MUTED),
        (fmt.rank(step.rank) if step.rank else "", fmt.MUTED),
    )
    note = step.formula if step.kind is Stage.FUSION else step.brief
    if not note or step.value is None:
        return [line]
    if line.cell_length + cell_len(note) + 2 <= width:
        return [Content.assemble(line, "  ", (note, fmt.MUTED))]
    if step.kind in _BESIDE_ONLY:
        return [line]
    if step.kind is Stage.DECAY:
        note = step.note
    deep = cell_len(note) <= width - _WORD - 2
    indent = " " * (_WORD + 2 if deep else 2)
    room = max(8, width - len(indent))
    return [line, *(Content.assemble(indent, part) for part in _folded(note, room))]


def _folded(text: str, room: int) -> list[Content]:
    return list(Content.styled(text, fmt.MUTED).wrap(room))


class WhyPanel(Widget, can_focus=True):
    """Why the selected result has its rank; as tall as that needs."""

    DEFAULT_CSS = """
    WhyPanel {
        height: auto;
        min-height: 3;
        border: round $foreground 25%;
        border-title-color: $text-muted;
        padding: 0 1;
        text-wrap: nowrap;
        text-overflow: ellipsis;
        &:focus {
            border: round $primary;
            border-title-color: $primary;
        }
    }
    """

    HELP = "The numbers that put the selected result where it is. `x` shows all of them."

    def __init__(self, *, glyphs: Glyphs = UNICODE, id: str | None = "why") -> None:  # noqa: A002
        super().__init__(id=id)
        self.glyphs = glyphs
        self.border_title = "Why this rank"
        self._ranked: Ranked | None = None
        self._chunk_id: str | None = None
        self._counted = 0
        """Lines when the height was chosen."""

    def show(self, ranked: Ranked | None, chunk_id: str | None) -> None:
        """Explain a chunk of a result list; nothing when there is none."""
        self._ranked = ranked
        self._chunk_id = chunk_id
        lines = len(self._lines(self.content_size.width))
        # Not against the height at hand, which may be capped: that would be a layout every time.
        # Where nothing was counted yet, the layout that first shows this pane counts.
        self.refresh(layout=0 < self._counted != lines)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Count the lines at this width."""
        self._counted = len(self._lines(width))
        return self._counted

    def render(self) -> Content:
        """Write the lines at the present width."""
        return Content("\n").join(self._lines(self.content_size.width))

    def _lines(self, width: int) -> list[Content]:
        room = max(16, width)
        ranked, chunk_id = self._ranked, self._chunk_id
        if ranked is None or chunk_id is None or chunk_id not in ranked.pool.chunks:
            return Content.styled(_EMPTY, fmt.MUTED).wrap(room)
        return why_lines(ranked, chunk_id, room, self.glyphs)

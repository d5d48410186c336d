"""The why-panel: the arithmetic of the selected result in a few lines."""

from __future__ import annotations

from rich.cells import cell_len
from textual.content import Content

from memtui.model import Hit, Leg, Ranked, Stage
from memtui.ranking.trace import find
from memtui.report.arithmetic import ScoreStep, score_steps
from memtui.report.explanation import verdict_words
from memtui.tui import format as fmt
from memtui.tui.glyphs import UNICODE, Glyphs
from memtui.tui.present.report import STYLES, step_glyph
from memtui.tui.widgets.line_view import TextBlock

_WORD = 12
_BESIDE_ONLY = (Stage.FUSION, Stage.IDENTITY, Stage.TIERS, Stage.EXACT_PATH)
"""Stages whose note is left out where it does not fit beside the numbers."""
_EMPTY = "Select a result to see why it ranks where it does."


def why_lines(ranked: Ranked, chunk_id: str, width: int, glyphs: Glyphs = UNICODE) -> list[Content]:
    """The steps of a chunk and the verdict, in lines of at most `width` cells.

    Raises `KeyError` when the pool does not hold the chunk.
    """
    scored = find(ranked, chunk_id)
    lines: list[Content] = []
    for step in score_steps(ranked, scored):
        if step.kind is not Stage.MIN_SCORE or step.note or step.failed:
            lines += _step_lines(step, width, glyphs)
    style = "bold $state-ok" if isinstance(scored, Hit) else "bold $state-warn"
    lines += Content.styled(verdict_words(ranked, scored), style).wrap(width)
    return lines


def _expression(step: ScoreStep) -> str:
    if step.value is None:
        return step.brief
    value, formula = fmt.score(step.value), step.formula.replace(" × ", "×").replace("× ", "×")
    match step.kind:
        case Leg():
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


def _step_lines(step: ScoreStep, width: int, glyphs: Glyphs) -> list[Content]:
    style = "bold $state-error" if step.failed else STYLES[step.tone]
    expression = _expression(step)
    head = Content.styled(f"{step_glyph(step, glyphs)} {step.word:<{_WORD - 1}} ", style)
    room = width - head.cell_length
    if step.value is None:
        aside = Content.styled(expression, fmt.MUTED)
        if cell_len(expression) <= room:
            return [head + aside]
        return [head, *(Content.assemble("  ", part) for part in aside.wrap(max(8, width - 2)))]
    rank = f"  {fmt.rank(step.rank)}" if step.rank else ""
    line = Content.assemble(head, expression, (rank, fmt.MUTED))
    note = step.formula if step.kind is Stage.FUSION else step.brief
    if not note:
        return [line]
    if line.cell_length + cell_len(note) + 2 <= width:
        return [Content.assemble(line, "  ", (note, fmt.MUTED))]
    if step.kind in _BESIDE_ONLY:
        return [line]
    indent = " " * (_WORD + 2 if cell_len(note) <= room else 2)
    parts = Content.styled(note, fmt.MUTED).wrap(max(8, width - len(indent)))
    return [line, *(Content.assemble(indent, part) for part in parts)]


class WhyPanel(TextBlock, can_focus=True):
    """Why the selected result has its rank; as tall as that needs."""

    DEFAULT_CSS = """
    WhyPanel {
        min-height: 3;
        border: round $foreground 25%;
        border-title-color: $text-muted;
        padding: 0 1;
        &:focus { border: round $primary; border-title-color: $primary; }
    }
    """
    HELP = "The numbers that put the selected result where it is. `x` shows all of them."

    def __init__(self, *, glyphs: Glyphs = UNICODE, id: str | None = "why") -> None:  # noqa: A002
        super().__init__(id=id)
        self.glyphs = glyphs
        self.border_title = "Why this rank"
        self.explain(None, None)

    def explain(self, ranked: Ranked | None, chunk_id: str | None) -> None:
        """Explain a chunk of a result list; nothing when there is none."""

        def lines(width: int) -> list[Content]:
            room = max(16, width)
            if ranked is None or chunk_id is None or chunk_id not in ranked.pool.chunks:
                return Content.styled(_EMPTY, fmt.MUTED).wrap(room)
            return why_lines(ranked, chunk_id, room, self.glyphs)

        self.show(lines)

"""The arithmetic of the selected result in a few lines, and how pinned chunks stand in the list."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from rich.cells import cell_len
from textual.content import Content

from memtui.model import Chunk, Drop, Hit, Leg, Ranked, Stage
from memtui.model.inquiry import Inquiry
from memtui.ranking.trace import cited_lines, find_in
from memtui.report.arithmetic import TONES, ScoreStep, score_steps
from memtui.report.explanation import drop_words, failure_words, verdict_words
from memtui.report.words import result_score
from memtui.tui import fmt, glyphs
from memtui.tui.present import STYLES, bar_glyph, step_glyph
from memtui.tui.widgets.lists import TextBlock
from memtui.tui.widgets.result_rows import place_text

_WORD = 12
_BESIDE_ONLY = (Stage.FUSION, Stage.IDENTITY, Stage.TIERS, Stage.EXACT_PATH)
"""Stages whose note is left out where it does not fit beside the numbers."""
_LEGEND = f"{glyphs.VECTOR} meaning  {glyphs.KEYWORD} words  {glyphs.RERANK} the rest"
_EMPTY = "Select a result to see why it ranks where it does."


def why_lines(ranked: Ranked, scored: Hit | Drop, width: int) -> list[Content]:
    """The steps of a candidate and the verdict, in lines of at most `width` cells."""
    lines: list[Content] = []
    for step in score_steps(ranked, scored):
        if step.kind is Stage.MIN_SCORE and not (step.brief or step.failed):
            continue
        lines += _step_lines(step, width)
        for share in step.shares:
            if share.value:
                tones = [TONES[leg] for leg in Leg if leg in share.legs] or [share.tone]
                signs = ((bar_glyph(tone), STYLES[tone]) for tone in tones)
                number = f" {fmt.score(share.value)}  ", STYLES[share.tone]
                indent = " " * (3 - len(tones))
                line = Content.assemble(indent, *signs, number, (share.word, fmt.MUTED))
                lines.append(fmt.fit(line, width))
    style = "bold $state-ok" if isinstance(scored, Hit) else "bold $state-warn"
    return lines + Content.styled(verdict_words(ranked, scored), style).wrap(width)


def _step_lines(step: ScoreStep, width: int) -> list[Content]:
    style = "bold $state-error" if step.failed else STYLES[step.tone]
    line = Content.styled(f"{step_glyph(step)} {step.word:<{_WORD - 1}} ", style)
    note, gap, indent = step.brief, "", 2
    if step.value is not None:
        if cell_len(note) <= width - line.cell_length:
            indent = line.cell_length
        rank = f"  {fmt.rank(step.rank)}" if step.rank else ""
        line += Content.assemble(_expression(step, fmt.score(step.value)), (rank, fmt.MUTED))
        note, gap = step.formula if step.kind is Stage.FUSION else note, "  "
    if line.cell_length + len(gap) + cell_len(note) <= width:
        return [Content.assemble(line, gap if note else "", (note, fmt.MUTED))]
    lines = [line]
    if not gap or (note and step.kind not in _BESIDE_ONLY):
        parts = Content.styled(note, fmt.MUTED).wrap(max(8, width - indent))
        lines += [" " * indent + part for part in parts]
    return lines


def _expression(step: ScoreStep, value: str) -> str:
    formula = step.formula.replace(" × ", "×").replace("× ", "×")
    match step.kind:
        case Leg():
            return f"{formula}={value}"
        case Stage.FUSION | Stage.CONTEXT:
            return value
        case Stage.MIN_SCORE | Stage.DEDUP | Stage.CUT:
            return step.formula
        case Stage.IDENTITY if formula != value:
            return f"{formula.replace(' + ', '+')}→{value}"
        case Stage.RERANK | Stage.EXACT_PATH | Stage.IDENTITY | Stage.TIERS:
            return f"→ {value}"
        case _:
            return f"{formula.replace(fmt.MINUS + ' ', fmt.MINUS)} → {value}"


class WhyPanel(TextBlock, can_focus=True):
    """The reasons for the rank of the selected result; as tall as they need."""

    def __init__(self) -> None:
        super().__init__(id="why")
        self.border_title = "Why this rank"
        self.border_subtitle = _LEGEND
        self.explain(None, None)

    def explain(self, ranked: Ranked | None, chunk_id: str | None) -> None:
        """Explain a chunk of a result list; nothing when there is none."""

        def lines(width: int) -> list[Content]:
            room, scored = max(16, width), find_in(ranked, chunk_id)
            if ranked is None or scored is None:
                return Content.styled(_EMPTY, fmt.MUTED).wrap(room)
            return why_lines(ranked, scored, room)

        self.show(lines)


MOST_PINS = 2
"""The oldest makes room for a third."""


class Pin(Struct, frozen=True):
    """A pinned chunk, and what the engine found of one that is outside the pool."""

    chunk: Chunk
    inquiry: Inquiry | None = None
    problem: str = ""

    def standing(self, ranked: Ranked | None) -> Content:
        if ranked is None:
            return Content.styled("followed from the next query on", fmt.MUTED)
        scored = find_in(ranked, self.chunk.id)
        if isinstance(scored, Hit):
            return Content.assemble(
                (fmt.rank(scored.rank), "bold $state-ok"),
                (f" of {len(ranked.hits)}  {result_score(ranked, scored)}", fmt.MUTED),
            )
        if scored is not None:
            why = drop_words(scored, ranked)
        elif self.inquiry is None:
            why = self.problem or "…"
        else:
            failure = self.inquiry.first_failure
            why = failure_words(failure, brief=True) if failure is not None else "not in this list"
        return Content.assemble(("not shown: ", "$state-warn"), (why, fmt.MUTED))


class Pins(TextBlock):
    """The pinned chunks through every query and every change: one line each; not there without."""

    def show_pins(self, pins: Sequence[Pin], ranked: Ranked | None) -> None:
        def draw(pin: Pin, width: int) -> Content:
            standing = pin.standing(ranked)
            mark = Content.styled(f"{glyphs.PIN} ", "bold $primary")
            room = max(width // 5, width - standing.cell_length - mark.cell_length - 2)
            scored = find_in(ranked, pin.chunk.id)
            line = cited_lines(scored)[0] if scored is not None else pin.chunk.start_line
            place = place_text(pin.chunk.path, line, room)
            return fmt.fit(Content.assemble(mark, place, "  ", standing), width)

        self.display = bool(pins)
        self.show(lambda width: [draw(pin, width) for pin in pins])

"""The arithmetic of two results of one list, mirrored around the names of the steps."""

from __future__ import annotations

from dataclasses import replace
from itertools import zip_longest

from textual.content import Content

from memtui.model import Drop, Hit, Leg, Ranked, Stage
from memtui.ranking.trace import better, deciding_step
from memtui.report.arithmetic import LEGS, ScoreStep, axis, place, score_steps
from memtui.report.explanation import verdict_words
from memtui.report.words import step_name
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.glyphs import ASCII, Glyphs
from memtui.tui.present.report import STYLES, step_glyph

_WORD, _VALUE, _RANK = 13, 8, 5
_DIFFERENCE = 9
_TAIL = 3
"""Cells of the mark of the step that decides."""
_TEXT_LINES = 14
_FORMULA = 24
_WIDE = 110

Scored = Hit | Drop


def two_results(
    ranked: Ranked, first: Scored, second: Scored, width: int, glyphs: Glyphs
) -> list[Content]:
    """The steps of both as mirrored bars with values, ranks and the difference of the second.

    The step that made the better one the better one is marked; the last lines say why in words.
    """
    steps = [{step.kind: step for step in score_steps(ranked, one)} for one in (first, second)]
    decided = deciding_step(first, second)
    outer = _FORMULA if width >= _WIDE else 0
    fixed = _WORD + 2 * (_VALUE + _RANK + outer) + _DIFFERENCE + _TAIL
    cells = max((width - fixed) // 2, 4)
    half = width // 2 - 1
    lines = [
        _halves(
            [
                Content.assemble((f"{name}  ", "$primary bold"), (place(one.chunk), "bold"))
                for name, one in (("A", first), ("B", second))
            ],
            half,
            width,
        ),
        _halves([_verdict(ranked, one) for one in (first, second)], half, width),
        Content(""),
        _head(cells, outer),
    ]
    kinds: list[Leg | Stage] = [*LEGS, *ranked.ranking.stages]
    for kind in kinds:
        pair = [known.get(kind) for known in steps]
        if pair == [None, None]:
            continue
        line = _row(pair, kind, cells, outer, axis(ranked), glyphs)
        if kind is decided:
            mark = "◀" if glyphs is not ASCII else "<"
            line = Content.assemble(line, (f" {mark} ", "$primary"))
            blank = " " * max(width - line.cell_length, 0)
            line = Content.assemble(line, blank).stylize_before("bold on $primary 22%")
        lines.append(fmt.fit(line, width))
    lines += [Content(""), *_sentence(first, second, decided, steps).wrap(width), Content("")]
    texts = [
        Content(" ".join(safe_line(one.chunk.text[: half * _TEXT_LINES]).split())).wrap(half - 1)
        for one in (first, second)
    ]
    pairs = list(zip_longest(*texts, fillvalue=Content("")))[:_TEXT_LINES]
    return [*lines, *(_halves(list(pair), half, width).stylize(fmt.MUTED) for pair in pairs)]


def _halves(sides: list[Content], half: int, width: int) -> Content:
    left, right = (fmt.fit(side, half) for side in sides)
    return Content.assemble(left, " " * (width - half - left.cell_length), right)


def _verdict(ranked: Ranked, scored: Scored) -> Content:
    style = "$state-ok" if isinstance(scored, Hit) else "$state-error"
    return Content.styled(verdict_words(ranked, scored), style)


def _sentence(
    first: Scored,
    second: Scored,
    decided: Leg | Stage | None,
    steps: list[dict[Leg | Stage, ScoreStep]],
) -> Content:
    """Which of the two is ahead, which step made it so, and what each of them got there."""
    if decided is None:
        return Content("Nothing decides between them: neither was a candidate, or they are one.")
    names = "AB" if better(first, second) is first else "BA"
    told = []
    for name, known in zip("AB", steps, strict=True):
        step = known.get(decided)
        if step is not None and step.formula:
            note = f" ({step.brief})" if step.brief else ""
            told.append(f"{name}: {step.formula}{note}")
    leg = " leg" if isinstance(decided, Leg) else ""
    return Content.assemble(
        (f"{names[0]} is ahead of {names[1]}", "bold"),
        ": ",
        (step_name(decided) + leg, "bold $primary"),
        " decides. ",
        ("; ".join(told), fmt.MUTED),
    )


def _head(cells: int, outer: int) -> Content:
    left = f"{'':>{outer}}{'rank':<{_RANK}}{'score':>{_VALUE}}{'':>{cells}}"
    right = f"{'':>{cells}}{'score':>{_VALUE}}{'rank':>{_RANK}}{'':>{outer}}"
    return Content.styled(f"{left}{'':^{_WORD}}{right}{'B − A':>{_DIFFERENCE}}", fmt.MUTED)


def _row(
    pair: list[ScoreStep | None],
    kind: Leg | Stage,
    cells: int,
    outer: int,
    scale: float,
    glyphs: Glyphs,
) -> Content:
    # A step that only keeps or loses a result has no score of its own to compare.
    is_gate = isinstance(kind, Stage) and not any(step is not None and step.sign for step in pair)
    one, other = (
        replace(step, value=None) if step is not None and is_gate else step for step in pair
    )
    known = one or other
    assert known is not None
    return Content.assemble(
        _formula(one, outer, left=True),
        (f"{_rank(one):<{_RANK}}", fmt.MUTED),
        (f"{_value(one):>{_VALUE}}", "bold"),
        _bar(one, cells, scale, glyphs, mirrored=True),
        (f"{step_name(kind):^{_WORD}}", STYLES[known.tone]),
        _bar(other, cells, scale, glyphs, mirrored=False),
        (f"{_value(other):>{_VALUE}}", "bold"),
        (f"{_rank(other):>{_RANK}}", fmt.MUTED),
        _formula(other, outer, left=False),
        _difference(one, other),
    )


def _value(step: ScoreStep | None) -> str:
    return fmt.score(step.value) if step is not None and step.value is not None else fmt.NOTHING


def _rank(step: ScoreStep | None) -> str:
    return fmt.rank(step.rank) if step is not None and step.rank else ""


def _formula(step: ScoreStep | None, width: int, *, left: bool) -> Content:
    if width == 0:
        return Content("")
    text = fmt.fit(Content.styled(step.formula if step is not None else "", fmt.MUTED), width - 2)
    blank = Content(" " * (width - text.cell_length - 1))
    return text + blank + Content(" ") if left else Content(" ") + text + blank


def _difference(one: ScoreStep | None, other: ScoreStep | None) -> Content:
    if one is None or other is None or one.value is None or other.value is None:
        return Content(f"{fmt.NOTHING:>{_DIFFERENCE}}")
    value = other.value - one.value
    style = "$state-ok" if value > 0 else "$state-error" if value < 0 else fmt.MUTED
    sign = "+" if value > 0 else ""
    return Content.styled(f"{sign + fmt.score(value):>{_DIFFERENCE}}", style)


def _bar(
    step: ScoreStep | None, cells: int, scale: float, glyphs: Glyphs, *, mirrored: bool
) -> Content:
    """What is left after a step as a solid bar, then what it took; from the middle outwards."""
    if step is None or step.value is None:
        return Content(" " * cells)
    room = cells - 1
    kept = min(room, round(max(step.value, 0.0) / scale * room))
    taken = step.extent.high if step.extent is not None and step.sign in ("×", fmt.MINUS) else 0.0
    lost = max(0, min(room, round(taken / scale * room)) - kept)
    is_leg = isinstance(step.kind, Leg)
    solid = step_glyph(step, glyphs) if is_leg else glyphs.vector
    style = STYLES[step.tone] if is_leg else "$foreground 60%"
    pieces = [(solid * kept, style), (step_glyph(step, glyphs) * lost, STYLES[step.tone])]
    blank = (" " * (cells - kept - lost), "")
    return Content.assemble(blank, *pieces[::-1]) if mirrored else Content.assemble(*pieces, blank)

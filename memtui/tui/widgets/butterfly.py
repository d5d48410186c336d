"""The arithmetic of two results of one list, mirrored around the names of the steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from textual.content import Content

from memtui.model import Drop, Hit, Leg, Ranked, Stage
from memtui.ranking.trace import better, deciding_step
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.arithmetic import LEGS, ScoreStep, axis, glyph_of, steps_of
from memtui.tui.glyphs import ASCII, Glyphs
from memtui.tui.verdicts import place, verdict

_WORD = 12
_VALUE = 8
_RANK = 5
_GAP = 12
_TAIL = 3
"""Cells of the mark of the step that decides."""
_TEXT_LINES = 14
_FORMULA = 24
_WIDE = 110
_LEG_NAMES = {Leg.VECTOR: "the vector leg", Leg.KEYWORD: "the keyword leg"}


@dataclass(frozen=True, slots=True)
class _Row:
    kind: Leg | Stage
    word: str
    style: str
    first: ScoreStep | None
    second: ScoreStep | None


def two_results(
    ranked: Ranked, first: Hit | Drop, second: Hit | Drop, width: int, glyphs: Glyphs
) -> list[Content]:
    """The steps of both as mirrored bars with values, ranks and the difference of the second.

    The step that made the better one the better one is marked; the last lines say why in words.
    """
    rows = _rows(ranked, first, second)
    decided = deciding_step(first, second)
    wide = width >= _WIDE
    outer = _FORMULA if wide else 0
    fixed = _WORD + 2 * (_VALUE + _RANK + outer) + _GAP
    cells = max((width - fixed) // 2, 4)
    scale = axis(ranked)
    lines = [_places(first, second, width), _verdicts(ranked, first, second, width), Content("")]
    lines.append(_head(cells, outer))
    for row in rows:
        line = _row_line(row, cells, outer, scale, glyphs)
        if row.kind is decided:
            mark = "◀" if glyphs is not ASCII else "<"
            line = Content.assemble(line, (f" {mark} ", "$primary"))
            blank = " " * max(width - line.cell_length, 0)
            line = Content.assemble(line, blank).stylize_before("bold on $primary 22%")
        lines.append(fmt.fit(line, width))
    lines += [Content(""), *sentence(ranked, first, second, decided).wrap(width), Content("")]
    return [*lines, *_texts(first, second, width)]


def _texts(first: Hit | Drop, second: Hit | Drop, width: int) -> list[Content]:
    """The beginning of both texts, side by side."""
    half = max(width // 2 - 2, 4)
    sides = [
        Content(" ".join(safe_line(one.chunk.text[: half * _TEXT_LINES]).split())).wrap(half)
        for one in (first, second)
    ]
    lines = []
    for left, right in zip_longest(*sides, fillvalue=Content("")):
        blank = Content(" " * (width - half - left.cell_length))
        lines.append((left + blank + right).stylize(fmt.MUTED))
    return lines[:_TEXT_LINES]


def sentence(
    ranked: Ranked, first: Hit | Drop, second: Hit | Drop, decided: Leg | Stage | None
) -> Content:
    """Which of the two is ahead and which step made it so."""
    if decided is None:
        return Content("Nothing decides between them: neither was a candidate, or they are one.")
    name = "A" if better(first, second) is first else "B"
    other = "B" if name == "A" else "A"
    return Content.assemble(
        (f"{name} is ahead of {other}", "bold"),
        ": ",
        (_name(decided), "bold $primary"),
        " decides. ",
        (_detail(ranked, first, second, decided), fmt.MUTED),
    )


def _name(step: Leg | Stage) -> str:
    return _LEG_NAMES[step] if isinstance(step, Leg) else fmt.STAGE_NAMES[step]


def _detail(ranked: Ranked, first: Hit | Drop, second: Hit | Drop, decided: Leg | Stage) -> str:
    """The numbers of the step that decides: what each of the two got there."""
    told = []
    for name, scored in (("A", first), ("B", second)):
        step = next((one for one in steps_of(ranked, scored) if one.kind is decided), None)
        if step is not None and step.formula:
            note = f" ({step.brief or step.note})" if step.brief or step.note else ""
            told.append(f"{name}: {step.formula}{note}")
    return "; ".join(told)


def _rows(ranked: Ranked, first: Hit | Drop, second: Hit | Drop) -> list[_Row]:
    mine, others = (
        {step.kind: _scored(step) for step in steps_of(ranked, one)} for one in (first, second)
    )
    order: Sequence[Leg | Stage] = (*LEGS, *ranked.ranking.stages)
    rows = []
    for kind in order:
        one, other = mine.get(kind), others.get(kind)
        known = one or other
        if known is not None:
            rows.append(_Row(kind, known.word, known.style, one, other))
    return rows


def _scored(step: ScoreStep) -> ScoreStep:
    """A step that only keeps or loses a result has no score of its own to compare."""
    is_gate = isinstance(step.kind, Stage) and not step.sign
    return replace(step, value=None) if is_gate else step


def _places(first: Hit | Drop, second: Hit | Drop, width: int) -> Content:
    half = width // 2 - 1
    left = fmt.fit(Content.assemble(("A  ", "$primary bold"), (place(first.chunk), "bold")), half)
    right = fmt.fit(Content.assemble(("B  ", "$primary bold"), (place(second.chunk), "bold")), half)
    return left + Content(" " * (width - left.cell_length - right.cell_length)) + right


def _verdicts(ranked: Ranked, first: Hit | Drop, second: Hit | Drop, width: int) -> Content:
    half = width // 2 - 1
    left, right = (
        fmt.fit(Content.styled(verdict(ranked, one), _verdict_style(one)), half)
        for one in (first, second)
    )
    return left + Content(" " * (width - left.cell_length - right.cell_length)) + right


def _verdict_style(scored: Hit | Drop) -> str:
    return "$state-ok" if isinstance(scored, Hit) else "$state-error"


def _head(cells: int, outer: int) -> Content:
    left = f"{'':>{outer}}{'rank':<{_RANK}}{'score':>{_VALUE}}{'':>{cells}}"
    right = f"{'':>{cells}}{'score':>{_VALUE}}{'rank':>{_RANK}}{'':>{outer}}"
    gap = f"{'B − A':>{_GAP - _TAIL}}"
    return Content.styled(f"{left}{'':^{_WORD}}{right}{gap}", fmt.MUTED)


def _row_line(row: _Row, cells: int, outer: int, scale: float, glyphs: Glyphs) -> Content:
    one, other = row.first, row.second
    return Content.assemble(
        _formula(one, outer, left=True),
        (f"{_rank(one):<{_RANK}}", fmt.MUTED),
        (f"{_value(one):>{_VALUE}}", "bold"),
        _bar(one, cells, scale, glyphs, mirrored=True),
        (f"{row.word:^{_WORD}}", row.style),
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
        return Content(f"{fmt.NOTHING:>{_GAP - _TAIL}}")
    value = other.value - one.value
    style = "$state-ok" if value > 0 else "$state-error" if value < 0 else fmt.MUTED
    sign = "+" if value > 0 else ""
    return Content.styled(f"{sign + fmt.score(value):>{_GAP - _TAIL}}", style)


def _bar(
    step: ScoreStep | None, cells: int, scale: float, glyphs: Glyphs, *, mirrored: bool
) -> Content:
    """What is left after a step as a solid bar, then what it took; from the middle outwards."""
    if step is None or step.value is None:
        return Content(" " * cells)
    room = cells - 1
    kept = min(room, round(max(step.value, 0.0) / scale * room))
    taken = step.extent[1] if step.sign in ("×", fmt.MINUS) else 0.0
    lost = max(0, min(room, round(taken / scale * room)) - kept)
    solid = glyph_of(step, glyphs) if isinstance(step.kind, Leg) else glyphs.vector
    style = step.style if isinstance(step.kind, Leg) else "$foreground 60%"
    pieces = [(solid * kept, style), (glyph_of(step, glyphs) * lost, step.style)]
    blank = (" " * (cells - kept - lost), "")
    return Content.assemble(blank, *pieces[::-1]) if mirrored else Content.assemble(*pieces, blank)

"""Two result lists side by side, or the arithmetic of two results, as lines of styled text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from textual.content import Content

from memtui.model import Drop, Hit, Leg, Ranked, Stage
from memtui.ranking.trace import (
    Difference,
    Pair,
    SettingDifference,
    better,
    deciding_step,
)
from memtui.report.arithmetic import LEGS, ScoreStep, axis, place, score_steps
from memtui.report.explanation import value_words, verdict_words
from memtui.report.words import PARAMETER_WORDS, step_name
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.glyphs import ASCII, Glyphs
from memtui.tui.present.report import STYLES, step_glyph
from memtui.tui.widgets.chart import Canvas
from memtui.tui.widgets.result_rows import best_part, place_text, shown_score

NAMES = "AB"
"""The sides, left and right."""
_LIST_RANK = 3
_SCORE = 7
_MARK = 4
_SCORED = 20
"""Cells of a list from which on it shows scores."""
_SLACK = 24
"""Characters that a part of a text is asked for beyond the room, which is then filled."""


@dataclass(frozen=True, slots=True)
class Look:
    """How a comparison is drawn."""

    width: int
    lines: int
    """Lines of a row: the place, then the text, then a blank one where there are three."""
    glyphs: Glyphs
    chosen: str | None = None
    active: int = 1
    """The side that the keys move in: 0 or 1."""
    terms: tuple[str, ...] = ()
    """What the part of the text that is shown should hold."""

    @property
    def gutter(self) -> int:
        """Cells between the lists."""
        if self.width >= 150:
            return 30
        if self.width >= 96:
            return 20
        return 12 if self.width >= 48 else 6

    @property
    def column(self) -> int:
        """Cells of a list."""
        return max((self.width - self.gutter) // 2, 1)


def setting_words(one: SettingDifference, glyphs: Glyphs) -> Content:
    """Write a parameter that differs: `λ 0.7→0.5`, `MMR off→on`."""
    if one.name == "stages":
        return Content.styled("other stages", "bold")
    name = PARAMETER_WORDS.get(one.name, one.name.replace(".", " ").replace("_", " "))
    first, second = value_words(one.first, one.second), value_words(one.second, one.first)
    return Content.assemble((f"{name} ", fmt.MUTED), f"{first}{glyphs.arrow}", (second, "bold"))


def setting_lines(
    differing: Sequence[SettingDifference], width: int, most: int, glyphs: Glyphs
) -> list[Content]:
    """The parameters that differ in at most `most` lines; what has no room is counted."""
    if not differing:
        return [Content.styled("the same parameters", fmt.MUTED)]
    lines: list[Content] = []
    line = Content("")
    for number, one in enumerate(differing):
        words = setting_words(one, glyphs)
        rest = f"  +{len(differing) - number} more"
        room = width - (len(rest) if len(lines) == most - 1 and number < len(differing) - 1 else 0)
        added = Content.assemble(line, "   " if line else "", words)
        if added.cell_length <= room:
            line = added
        elif len(lines) < most - 1:
            lines.append(line)
            line = words
        else:
            return [*lines, fmt.fit(line + Content.styled(rest, fmt.MUTED), width)]
    return [*lines, fmt.fit(line, width)]


def side_heads(sides: Sequence[tuple[str, str, str]], look: Look) -> Content:
    """The name, the profile and the state of both sides over their columns, the active reversed."""
    heads = []
    for which, (name, profile, state) in enumerate(sides):
        style = "bold reverse" if which == look.active else "bold"
        head = Content.assemble(
            (f" {NAMES[which]} ", f"$primary {style}"),
            (f" {safe_line(name)}", "bold"),
            (f"  {safe_line(profile)}" if profile else "", fmt.MUTED),
            (f"  {safe_line(state)}" if state else "", "$state-warn"),
        )
        heads.append(_padded(head, look.column))
    return heads[0] + Content(" " * look.gutter) + heads[1]


def comparison_lines(
    first: Ranked | None, second: Ranked | None, difference: Difference, look: Look
) -> list[Content]:
    """Draw both lists with lines between the places of each chunk; a missing list is empty."""
    left = first.hits if first is not None else ()
    right = second.hits if second is not None else ()
    count = max(len(left), len(right))
    pairs = {pair.chunk_id: pair for pair in difference.pairs}
    canvas = _slopes(difference, look, count)
    lines: list[Content] = []
    for index, (one, other) in enumerate(zip_longest(left, right)):
        cells = _cells(one, pairs, look, 0), _cells(other, pairs, look, 1)
        for line in range(look.lines):
            middle = canvas.row(index * look.lines + line)
            lines.append(Content("").join([cells[0][line], middle, cells[1][line]]))
    return lines


def _cells(hit: Hit | None, pairs: Mapping[str, Pair], look: Look, side: int) -> list[Content]:
    """Draw a row of one list, its rank next to the lines between the lists."""
    width = look.column
    if hit is None:
        return [Content(" " * width)] * look.lines
    is_chosen = hit.chunk.id == look.chosen
    marker = (
        look.glyphs.marker if is_chosen else " ",
        f"{'$primary' if side == look.active else '$foreground'} bold",
    )
    score = f"{fmt.score(shown_score(hit)):>{_SCORE - side}}" if width >= _SCORED else ""
    mark, style = _movement(pairs[hit.chunk.id], look.glyphs)
    rank = (f"{hit.rank:>{_LIST_RANK - side}}", "bold")
    tail: list[str | tuple[str, str]] = [score, rank, " "]
    if side:
        tail = [rank, " ", (f"{mark:<{_MARK}}", style), score, "  "]
    taken = sum(len(piece if isinstance(piece, str) else piece[0]) for piece in tail)
    place = place_text(hit.chunk.path, hit.chunk.start_line, max(width - taken - 1, 1))
    if side:
        head = Content.assemble(marker, *tail, place)
    else:
        blank = " " * max(width - taken - 1 - place.cell_length, 0)
        head = Content.assemble(marker, blank, place, *tail)
    lines = [head]
    if look.lines > 1:
        indent = _MARK * 2 if side else 2
        room = max(width - indent - (0 if side else _LIST_RANK), 4)
        text = best_part(hit.chunk.text, look.terms, room + _SLACK).text
        shown = fmt.fit(Content(" ".join(safe_line(text).split())), room).stylize(fmt.MUTED)
        lines.append(" " * indent + shown)
    lines = [_padded(line, width) for line in lines]
    if is_chosen:
        background = "on $foreground 12%" if side == look.active else "on $foreground 7%"
        lines = [line.stylize_before(background) for line in lines]
    return [*lines, *[Content(" " * width)] * (look.lines - len(lines))]


def _padded(content: Content, width: int) -> Content:
    return content.truncate(max(width, 1), ellipsis=True, pad=True)


def _movement(pair: Pair, glyphs: Glyphs) -> tuple[str, str]:
    if pair.first is None:
        return "new", "$state-warn bold"
    if pair.gained > 0:
        return f"{glyphs.up}{pair.gained}", "$state-ok bold"
    if pair.gained < 0:
        return f"{glyphs.down}{-pair.gained}", "$state-error bold"
    return glyphs.same, fmt.MUTED


def _slopes(difference: Difference, look: Look, count: int) -> Canvas:
    """Draw the lines between the lists; the chosen chunk's last and thicker."""
    canvas = Canvas(look.gutter, max(count * look.lines, 1), look.glyphs is not ASCII)
    end, flat = look.gutter * canvas.across - 1, canvas.across
    dash = ("╌" if canvas.braille else "-") * 2
    # Words stand over lines, and the chosen line over the others.
    for pair in sorted(
        difference.pairs,
        key=lambda pair: (None in (pair.first, pair.second), pair.chunk_id == look.chosen),
    ):
        style = _slope_style(pair)
        rows = [(rank - 1) * look.lines for rank in (pair.first, pair.second) if rank is not None]
        if pair.second is None:
            canvas.put(0, rows[0], f"{dash} out", f"{style} bold")
        elif pair.first is None:
            canvas.put(look.gutter - 6, rows[0], f"new {dash}", f"{style} bold")
        else:
            is_chosen = pair.chunk_id == look.chosen
            style = f"{style} bold" if is_chosen else style
            for offset in (0, -1) if is_chosen and canvas.braille else (0,):
                start, stop = (canvas.middle(row) + offset for row in rows)
                canvas.line((0, start), (flat, start), style)
                canvas.line((flat, start), (end - flat, stop), style)
                canvas.line((end - flat, stop), (end, stop), style)
    return canvas


def _slope_style(pair: Pair) -> str:
    if pair.first is None:
        return "$state-warn"
    if pair.second is None or pair.gained < 0:
        return "$state-error"
    return "$state-ok" if pair.gained > 0 else "$foreground 45%"


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
    sides = (("A", first), ("B", second))
    named = [
        Content.assemble((f"{name}  ", "$primary bold"), (place(one.chunk), "bold"))
        for name, one in sides
    ]
    lines = [
        _halves(named, half, width),
        _halves([_verdict(ranked, one) for _, one in sides], half, width),
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
    left, right = sides
    return _padded(left, half) + " " * (width - 2 * half) + fmt.fit(right, half)


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
    formulas = []
    for name, known in zip("AB", steps, strict=True):
        step = known.get(decided)
        if step is not None and step.formula:
            note = f" ({step.brief})" if step.brief else ""
            formulas.append(f"{name}: {step.formula}{note}")
    leg = " leg" if isinstance(decided, Leg) else ""
    return Content.assemble(
        (f"{names[0]} is ahead of {names[1]}", "bold"),
        ": ",
        (step_name(decided) + leg, "bold $primary"),
        " decides. ",
        ("; ".join(formulas), fmt.MUTED),
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
    if isinstance(kind, Stage) and not any(step is not None and step.sign for step in pair):
        pair = [replace(step, value=None) if step is not None else None for step in pair]
    one, other = pair
    tone = next(step.tone for step in pair if step is not None)
    return Content.assemble(
        _formula(one, outer, left=True),
        (f"{_rank(one):<{_RANK}}", fmt.MUTED),
        (f"{_value(one):>{_VALUE}}", "bold"),
        _bar(one, cells, scale, glyphs, mirrored=True),
        (f"{step_name(kind):^{_WORD}}", STYLES[tone]),
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
    formula = Content.styled(step.formula if step is not None else "", fmt.MUTED)
    text = formula.truncate(width - 1, ellipsis=True, pad=True)
    return text + " " if left else " " + text


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
    solid_cells = min(room, round(max(step.value, 0.0) / scale * room))
    taken = step.extent.high if step.extent is not None and step.sign in ("×", fmt.MINUS) else 0.0
    lost_cells = max(0, min(room, round(taken / scale * room)) - solid_cells)
    is_leg = isinstance(step.kind, Leg)
    solid = step_glyph(step, glyphs) if is_leg else glyphs.vector
    style = STYLES[step.tone] if is_leg else "$foreground 60%"
    pieces = [
        (solid * solid_cells, style),
        (step_glyph(step, glyphs) * lost_cells, STYLES[step.tone]),
    ]
    blank = (" " * (cells - solid_cells - lost_cells), "")
    return Content.assemble(*([blank, *pieces[::-1]] if mirrored else [*pieces, blank]))

"""Two result lists side by side, or the arithmetic of two results, as lines of styled text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from textual.content import Content

from memtui.model import Drop, Fusion, Hit, Leg, Ranked, Stage
from memtui.ranking.trace import (
    ListComparison,
    Pair,
    Setting,
    SettingDifference,
    better,
    deciding_step,
)
from memtui.report.arithmetic import LEGS, ScoreStep, axis, place, score_steps
from memtui.report.explanation import verdict_words
from memtui.report.words import step_name
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.glyphs import ASCII, Glyphs
from memtui.tui.parameters import FUSION_NAMES
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
_NAMES: Mapping[str, str] = {
    "vector_weight": "vector",
    "keyword_weight": "keyword",
    "mmr.enabled": "MMR",
    "mmr.lambda": "λ",
    "mmr.empty_similarity": "empty texts alike",
    "decay.enabled": "decay",
    "decay.half_life_days": "half-life",
    "decay.floor": "floor",
    "decay.dates": "dates",
    "min_score": "min",
    "min_score_rule": "min rule",
    "candidate_multiplier": "multiplier",
    "rerank.enabled": "rerank",
    "tie_rule": "ties",
    "keyword_mapping": "bm25 mapping",
}
"""Parameters that have a shorter name than their key in the settings."""


@dataclass(frozen=True, slots=True)
class Look:
    """How a comparison is drawn."""

    width: int
    lines: int
    """Lines of a row: the place, then a part of the text, then a blank one."""
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


def _list_score(hit: Hit, width: int, look: Look) -> str:
    """The score in so many cells; nothing where it would leave no room for the place."""
    return f"{fmt.score(shown_score(hit)):>{width}}" if look.column >= _SCORED else ""


def setting_words(one: SettingDifference, glyphs: Glyphs) -> Content:
    """A parameter that differs: `λ 0.70→0.50`, `MMR off→on`."""
    name = _NAMES.get(one.name, one.name.replace("_", " "))
    values = [_setting_value(one.name, value) for value in (one.first, one.second)]
    if one.name == "stages":
        return Content.assemble(("other stages", "bold"))
    return Content.assemble(
        (f"{name} ", fmt.MUTED), f"{values[0]}{glyphs.arrow}", (values[1], "bold")
    )


def _setting_value(name: str, value: Setting) -> str:
    if value is None:
        return "off"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, str):
        words = FUSION_NAMES[Fusion(value)] if name == "fusion" else value.replace("_", " ")
        return safe_line(words) or "none"
    text = fmt.short_number(float(value), 4)
    hundredths = name in ("vector_weight", "keyword_weight", "mmr.lambda", "min_score")
    return f"{value:.2f}" if hundredths and len(text) < 4 else text


def setting_lines(
    found: Sequence[SettingDifference], width: int, most: int, glyphs: Glyphs
) -> list[Content]:
    """The parameters that differ in at most `most` lines; what has no room is counted."""
    if not found:
        return [Content.styled("the same parameters", fmt.MUTED)]
    lines: list[Content] = []
    line = Content("")
    for number, one in enumerate(found):
        words = setting_words(one, glyphs)
        rest = f"  +{len(found) - number} more"
        room = width - (len(rest) if len(lines) == most - 1 and number < len(found) - 1 else 0)
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
    first: Ranked | None, second: Ranked | None, found: ListComparison, look: Look
) -> list[Content]:
    """Both lists with lines between the places of each chunk; a missing list is drawn empty."""
    left = first.hits if first is not None else ()
    right = second.hits if second is not None else ()
    count = max(len(left), len(right))
    pairs = {pair.chunk_id: pair for pair in found.pairs}
    canvas = _slopes(found, look, count)
    lines = []
    for index in range(count):
        one = left[index] if index < len(left) else None
        other = right[index] if index < len(right) else None
        here = _left_cell(one, look), _right_cell(other, pairs, look)
        for line in range(look.lines):
            middle = canvas.row(index * look.lines + line)
            row = Content("").join([here[0][line], middle, here[1][line]])
            lines.append(row)
    return lines


def _left_cell(hit: Hit | None, look: Look) -> list[Content]:
    """Place, score, rank: the rank is next to the lines."""
    width = look.column
    if hit is None:
        return [Content(" " * width)] * look.lines
    score = _list_score(hit, _SCORE, look)
    room = max(width - _LIST_RANK - len(score) - 2, 1)
    place = place_text(hit.chunk.path, hit.chunk.start_line, room)
    head = Content.assemble(
        _marker(hit, look, 0),
        " " * (room - place.cell_length),
        place,
        score,
        (f"{hit.rank:>{_LIST_RANK}}", "bold"),
        " ",
    )
    return _cell(hit, head, look, 0)


def _right_cell(hit: Hit | None, pairs: Mapping[str, Pair], look: Look) -> list[Content]:
    width = look.column
    if hit is None:
        return [Content(" " * width)] * look.lines
    mark, style = _movement(pairs[hit.chunk.id], look.glyphs)
    score = _list_score(hit, _SCORE - 1, look)
    room = max(width - _LIST_RANK - _MARK - len(score) - 3, 1)
    place = place_text(hit.chunk.path, hit.chunk.start_line, room)
    head = Content.assemble(
        _marker(hit, look, 1),
        (f"{hit.rank:>{_LIST_RANK - 1}}", "bold"),
        " ",
        (f"{mark:<{_MARK}}", style),
        score,
        "  ",
        place,
    )
    return _cell(hit, head, look, 1)


def _marker(hit: Hit, look: Look, side: int) -> tuple[str, str]:
    chosen = hit.chunk.id == look.chosen
    style = "$primary bold" if side == look.active else "$foreground bold"
    return (look.glyphs.marker if chosen else " ", style)


def _cell(hit: Hit, head: Content, look: Look, side: int) -> list[Content]:
    """The head of a row, then its text, then what is left blank."""
    width = look.column
    texts = {1: 0, 2: 1, 3: 1}.get(look.lines, look.lines - 2)
    first = 2 if side == 0 else _MARK * 2
    room = max(width - first - (_LIST_RANK if side == 0 else 0), 4)
    part = best_part(hit.chunk.text, look.terms, room * max(texts, 1) + _SLACK)
    wrapped = Content(" ".join(safe_line(part.text).split())).wrap(room)
    if len(wrapped) > texts > 0:
        wrapped = [*wrapped[: texts - 1], Content(" ").join(wrapped[texts - 1 : texts + 1])]
    shown = [fmt.fit(line, room).stylize(fmt.MUTED) for line in wrapped[:texts]]
    cells = [head, *(Content(" " * first) + line for line in shown)]
    cells += [Content("")] * (look.lines - len(cells))
    style = "on $foreground 12%" if side == look.active else "on $foreground 7%"
    padded = [_padded(cell, width) for cell in cells]
    if hit.chunk.id != look.chosen:
        return padded
    used = 1 + texts
    return [cell.stylize_before(style) if at < used else cell for at, cell in enumerate(padded)]


def _padded(content: Content, width: int) -> Content:
    content = fmt.fit(content, width)
    return content + Content(" " * (width - content.cell_length))


def _movement(pair: Pair, glyphs: Glyphs) -> tuple[str, str]:
    if pair.first is None:
        return "new", "$state-warn bold"
    if pair.gained > 0:
        return f"{glyphs.up}{pair.gained}", "$state-ok bold"
    if pair.gained < 0:
        return f"{glyphs.down}{-pair.gained}", "$state-error bold"
    return glyphs.same, fmt.MUTED


def _slopes(found: ListComparison, look: Look, count: int) -> Canvas:
    """The lines between the lists; the chosen chunk's last and thicker."""
    canvas = Canvas(look.gutter, max(count * look.lines, 1), look.glyphs is not ASCII)
    end = look.gutter * canvas.across - 1
    flat = canvas.across

    def y(rank: int) -> int:
        return canvas.middle((rank - 1) * look.lines)

    for pair in sorted(found.pairs, key=lambda pair: pair.chunk_id == look.chosen):
        chosen = pair.chunk_id == look.chosen
        style = f"{_slope_style(pair)} bold" if chosen else _slope_style(pair)
        if pair.first is None or pair.second is None:
            continue
        for offset in (0, -1) if chosen and canvas.braille else (0,):
            start, stop = y(pair.first) + offset, y(pair.second) + offset
            canvas.line((0, start), (flat, start), style)
            canvas.line((flat, start), (end - flat, stop), style)
            canvas.line((end - flat, stop), (end, stop), style)
    for pair in found.pairs:
        _stub(canvas, pair, look, _slope_style(pair))
    return canvas


def _slope_style(pair: Pair) -> str:
    if pair.first is None:
        return "$state-warn"
    if pair.second is None or pair.gained < 0:
        return "$state-error"
    return "$state-ok" if pair.gained > 0 else "$foreground 45%"


def _stub(canvas: Canvas, pair: Pair, look: Look, style: str) -> None:
    """What only one list has: a short line with `out` or `new`."""
    dash = "╌" if canvas.braille else "-"
    if pair.second is None:
        assert pair.first is not None
        canvas.put(0, (pair.first - 1) * look.lines, f"{dash * 2} out", f"{style} bold")
    elif pair.first is None:
        row = (pair.second - 1) * look.lines
        canvas.put(look.gutter - 6, row, f"new {dash * 2}", f"{style} bold")


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

"""Two texts side by side, line beside line, with the words that only one of them has marked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import groupby, zip_longest

from textual.content import Content, Span

from memtui.retrieval.marks import match_spans
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.glyphs import ASCII, Glyphs
from memtui.tui.highlight import display_line

MOST_LINES = 400
"""Lines of a text that are shown; the rest is counted."""
MOST_CHARACTERS = 20_000
"""Characters after which no other line is begun."""
CONTEXT = 3
"""Equal lines that are left beside one that differs where the rest is left out."""
NARROWEST = 24
"""Cells of a column; in less room one text stands below the other."""
_MARKED = "bold underline $mark"
_WORD = re.compile(r"\w+")
_FOLD = "fold"
_ONLY = ("$state-error", "$state-ok")
"""The style of what only the left or only the right text has."""


@dataclass(frozen=True, slots=True)
class SideText:
    """One of the texts: its name, the number of its first line, and its text."""

    name: str
    first_line: int
    text: str
    last_line: int = 0
    """Of the place; later than that of the text where only its beginning is there."""


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    text: str
    mark: str = " "
    spans: tuple[Span, ...] = ()


_Pair = tuple[_Line | None, _Line | None]


def one_text(side: SideText, width: int, terms: Sequence[str] = ()) -> list[Content]:
    """A text with its line numbers, wrapped to `width` cells, with these words marked."""
    lines, more = _lines_of(side)
    if terms:
        lines = [replace(line, spans=_found(line.text, terms)) for line in lines]
    column = _digits(lines)
    drawn = [part for line in lines for part in _draw(line, column, width)]
    return drawn + _more(more)


def two_texts(
    left: SideText,
    right: SideText,
    width: int,
    glyphs: Glyphs,
    *,
    compared: bool = True,
    folded: bool = False,
) -> list[Content]:
    """Both texts beside each other, or one below the other where `width` is too little.

    Where they are `compared`, a line is marked `~` where its words differ, `-` or `+` where only
    one text has it. `folded` leaves out what is the same and far from what is not.
    """
    (first, more_first), (second, more_second) = _lines_of(left), _lines_of(right)
    pairs = list(_pairs(first, second) if compared else zip_longest(first, second))
    more = (more_first, more_second)
    bar = " | " if glyphs is ASCII else " │ "
    column = (width - len(bar)) // 2
    if column < NARROWEST:
        return _stacked((left, right), _folded(pairs) if folded else pairs, more, width, glyphs)
    digits = max(_digits(first), _digits(second))
    drawn = [_beside([_name(left)], [_name(right)], column, bar)]
    for one, other in _folded(pairs) if folded else pairs:
        first_part, second_part = (
            _draw(line, digits, column) if line is not None else [] for line in (one, other)
        )
        drawn.append(_beside(first_part, second_part, column, bar))
    if any(more):
        drawn.append(_beside(_more(more[0]), _more(more[1]), column, bar))
    return [line for lines in drawn for line in lines]


def _found(text: str, terms: Sequence[str]) -> tuple[Span, ...]:
    return tuple(Span(start, end, _MARKED) for start, end in match_spans(text, terms))


def _name(side: SideText) -> Content:
    return Content.styled(safe_line(side.name), "bold")


def _stacked(
    sides: tuple[SideText, SideText],
    pairs: Sequence[_Pair],
    more: tuple[int, int],
    width: int,
    glyphs: Glyphs,
) -> list[Content]:
    drawn: list[Content] = []
    for which in (0, 1):
        lines = [line for pair in pairs if (line := pair[which]) is not None]
        drawn += [Content.styled(glyphs.rule * width, "$foreground 25%")] if which else []
        drawn.append(_name(sides[which]))
        drawn += [part for line in lines for part in _draw(line, _digits(lines), width)]
        drawn += _more(more[which])
    return drawn


def _lines_of(side: SideText) -> tuple[list[_Line], int]:
    """The lines that are shown, and how many are not."""
    texts = side.text.split("\n")
    shown: list[_Line] = []
    room = MOST_CHARACTERS
    for text in texts[:MOST_LINES]:
        if room <= 0:
            break
        shown.append(_Line(side.first_line + len(shown), display_line(text)))
        room -= len(shown[-1].text)
    whole = max(len(texts), side.last_line - side.first_line + 1)
    return shown, whole - len(shown)


def _more(count: int) -> list[Content]:
    return [Content.styled(f"and {fmt.counted(count, 'more line')}", fmt.MUTED)] if count else []


def _digits(lines: Sequence[_Line]) -> int:
    return len(str(max((line.number for line in lines), default=1)))


def _draw(line: _Line, digits: int, width: int) -> list[Content]:
    """A line with its number and mark, wrapped under itself."""
    if line.mark == _FOLD:
        return [Content.styled(" " * (digits + 3) + line.text, f"italic {fmt.MUTED}")]
    room = max(4, width - digits - 3)
    parts = Content(line.text, list(line.spans)).wrap(room) or [Content("")]
    head = Content.assemble(
        (f"{line.number:>{digits}} ", fmt.MUTED),
        (line.mark, {"-": _ONLY[0], "+": _ONLY[1], "~": "$state-warn"}.get(line.mark, "")),
        " ",
    )
    rest = Content(" " * (digits + 3))
    return [
        Content.assemble(head if place == 0 else rest, part) for place, part in enumerate(parts)
    ]


def _beside(
    left: Sequence[Content], right: Sequence[Content], column: int, bar: str
) -> list[Content]:
    return [
        Content.assemble(
            (one or Content("")).truncate(column, ellipsis=True, pad=True),
            (bar, "$foreground 25%"),
            (other or Content("")).truncate(column, ellipsis=True),
        )
        for one, other in zip_longest(left, right)
    ]


def _folded(pairs: Sequence[_Pair]) -> list[_Pair]:
    """The pairs without long runs of equal ones; in place of a run stands how long it is."""
    near = {
        place + step
        for place, (one, other) in enumerate(pairs)
        if one is None or other is None or one.mark != " "
        for step in range(-CONTEXT, CONTEXT + 1)
    }
    kept: list[_Pair] = []
    runs = groupby(range(len(pairs)), lambda place: place in near)
    for is_near, places in ((is_near, list(found)) for is_near, found in runs):
        if is_near or len(places) <= CONTEXT:
            kept += [pairs[place] for place in places]
        else:
            told = _Line(0, f"{fmt.counted(len(places), 'line')} the same", _FOLD)
            kept.append((told, told))
    return kept


# --- what differs -------------------------------------------------------------------------------


def _pairs(first: Sequence[_Line], second: Sequence[_Line]) -> Iterator[_Pair]:
    """The lines that stand beside each other."""
    matcher = SequenceMatcher(None, [line.text for line in first], [line.text for line in second])
    for kind, from_1, to_1, from_2, to_2 in matcher.get_opcodes():
        one, other = first[from_1:to_1], second[from_2:to_2]
        if kind == "equal":
            yield from zip(one, other, strict=True)
        elif kind == "replace":
            marked = _changed(one, other, _ONLY[0]), _changed(other, one, _ONLY[1])
            yield from zip_longest(*marked)
        else:
            yield from ((_only(line, "-", _ONLY[0]), None) for line in one)
            yield from ((None, _only(line, "+", _ONLY[1])) for line in other)


def _only(line: _Line, mark: str, style: str) -> _Line:
    return _Line(line.number, line.text, mark, (Span(0, len(line.text), style),))


def _changed(lines: Sequence[_Line], others: Sequence[_Line], style: str) -> list[_Line]:
    """Lines with the words marked that the other block has not, whatever their order."""
    known = {word for line in others for word in _WORD.findall(line.text.casefold())}
    return [
        _Line(
            line.number,
            line.text,
            "~",
            tuple(
                Span(found.start(), found.end(), f"bold {style}")
                for found in _WORD.finditer(line.text)
                if found.group().casefold() not in known
            ),
        )
        for line in lines
    ]

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
    marked = [
        replace(line, spans=tuple(Span(*span, _MARKED) for span in match_spans(line.text, terms)))
        for line in (lines if terms else ())
    ]
    return _draw(marked or lines, width) + more


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
    shown = _folded(pairs) if folded else pairs
    names = [[Content.styled(safe_line(side.name), "bold")] for side in (left, right)]
    bar = " | " if glyphs is ASCII else " │ "
    column = (width - len(bar)) // 2
    if column < NARROWEST:
        above = _draw([one for one, _ in shown if one is not None], width)
        below = _draw([other for _, other in shown if other is not None], width)
        rule = Content.styled(glyphs.rule * width, "$foreground 25%")
        return [*names[0], *above, *more_first, rule, *names[1], *below, *more_second]
    digits = max(_digits(first), _digits(second))
    blocks = [
        (
            _draw([one] if one is not None else [], column, digits),
            _draw([other] if other is not None else [], column, digits),
        )
        for one, other in shown
    ]
    return [
        Content.assemble(
            (one or Content("")).truncate(column, ellipsis=True, pad=True),
            (bar, "$foreground 25%"),
            (other or Content("")).truncate(column, ellipsis=True),
        )
        for block in ((names[0], names[1]), *blocks, (more_first, more_second))
        for one, other in zip_longest(*block)
    ]


def _lines_of(side: SideText) -> tuple[list[_Line], list[Content]]:
    """Return the lines that are shown, and a line that counts the others."""
    texts = side.text.split("\n")
    shown: list[_Line] = []
    room = MOST_CHARACTERS
    for text in texts[:MOST_LINES]:
        if room <= 0:
            break
        shown.append(_Line(side.first_line + len(shown), display_line(text)))
        room -= len(shown[-1].text)
    more = max(len(texts), side.last_line - side.first_line + 1) - len(shown)
    words = f"and {fmt.counted(more, 'more line')}"
    return shown, [Content.styled(words, fmt.MUTED)] if more else []


def _digits(lines: Sequence[_Line]) -> int:
    return len(str(max((line.number for line in lines), default=1)))


def _draw(lines: Sequence[_Line], width: int, digits: int = 0) -> list[Content]:
    """Lines with their numbers and marks, each wrapped under itself."""
    digits = digits or _digits(lines)
    indent = Content(" " * (digits + 3))
    drawn: list[Content] = []
    for line in lines:
        if line.mark == _FOLD:
            drawn.append(indent + Content.styled(line.text, f"italic {fmt.MUTED}"))
            continue
        parts = Content(line.text, list(line.spans)).wrap(max(4, width - digits - 3))
        style = {"-": _ONLY[0], "+": _ONLY[1], "~": "$state-warn"}.get(line.mark, "")
        number = (f"{line.number:>{digits}} ", fmt.MUTED)
        head = Content.assemble(number, (line.mark, style), " ")
        drawn += [(indent if at else head) + part for at, part in enumerate(parts or [Content("")])]
    return drawn


def _folded(pairs: Sequence[_Pair]) -> list[_Pair]:
    """The pairs without long runs of equal ones; in place of a run stands how long it is."""
    near = {
        place + step
        for place, (one, other) in enumerate(pairs)
        if one is None or other is None or one.mark != " "
        for step in range(-CONTEXT, CONTEXT + 1)
    }
    shown: list[_Pair] = []
    for is_near, run in groupby(range(len(pairs)), lambda place: place in near):
        places = list(run)
        if is_near or len(places) <= CONTEXT:
            shown += [pairs[place] for place in places]
        else:
            fold = _Line(0, f"{fmt.counted(len(places), 'line')} the same", _FOLD)
            shown.append((fold, fold))
    return shown


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
    other_words = {word for line in others for word in _WORD.findall(line.text.casefold())}
    return [
        _Line(
            line.number,
            line.text,
            "~",
            tuple(
                Span(word.start(), word.end(), f"bold {style}")
                for word in _WORD.finditer(line.text)
                if word.group().casefold() not in other_words
            ),
        )
        for line in lines
    ]

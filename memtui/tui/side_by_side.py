"""Two texts compared: side by side with the words that differ marked, or as a unified diff."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher, unified_diff
from itertools import accumulate, zip_longest

from msgspec import Struct
from msgspec.structs import replace
from textual.content import Content, Span

from memtui.retrieval.marks import match_spans
from memtui.text.languages import language_of
from memtui.text.sanitize import safe_line
from memtui.tui import fmt
from memtui.tui.highlight import display_line

MOST_LINES = 400
"""Lines of a text that are shown; the rest is counted."""
MOST_CHARACTERS = 20_000
"""Characters after which no other line is begun."""
CONTEXT = 3
"""Equal lines that are left beside one that differs where the rest is left out."""
HUNK = "@"
_MARKED = "bold underline $mark"
_WORD = re.compile(r"\w+")
_LIKE = 3
"""Lines are like each other that share at least one word in so many of the longer one."""
_FOLD = "fold"
_STYLES = {"-": "$state-error", "+": "$state-ok", "~": "$state-warn", HUNK: "bold $accent"}
"""By mark: `-` for what only the left text has, `+` for what only the right one has."""


class SideText(Struct, frozen=True):
    """One of the texts: its name, the number of its first line, and its text."""

    name: str
    first_line: int
    text: str
    last_line: int = 0
    """Of the place; later than that of the text where only its beginning is there."""


class _Line(Struct, frozen=True):
    number: int
    content: Content
    mark: str = " "


_Pair = tuple[_Line | None, _Line | None]


def one_text(side: SideText, width: int, terms: Sequence[str] = ()) -> list[Content]:
    """Draw a text with its line numbers, wrapped to `width` cells, with these words marked."""
    lines, more = _lines_of(side)
    if terms:
        language = language_of("\n".join(line.content.plain for line in lines))
        for at, line in enumerate(lines):
            spans = match_spans(line.content.plain, terms, language)
            lines[at] = replace(line, content=_styled(line.content, spans, _MARKED))
    return _draw(lines, width) + more


def two_texts(
    left: SideText, right: SideText, width: int, *, compared: bool = True, folded: bool = False
) -> list[Content]:
    """Draw both texts beside each other.

    Where they are `compared`, a line is marked `~` where some of its words differ, `-` or `+` where
    only one text has one like it. `folded` leaves out what is the same and far from what is not.
    """
    (first, more_first), (second, more_second) = _lines_of(left), _lines_of(right)
    pairs = _pairs(first, second, folded=folded) if compared else zip_longest(first, second)
    names = [[Content.styled(safe_line(side.name), "bold")] for side in (left, right)]
    bar = " │ "
    column = max(1, (width - len(bar)) // 2)
    digits = max((len(str(line.number)) for line in (*first, *second)), default=1)
    blocks = [
        tuple(_draw([line] if line is not None else [], column, digits) for line in pair)
        for pair in pairs
    ]
    return [
        Content.assemble(
            (one or Content("")).truncate(column, ellipsis=True, pad=True),
            (bar, "$foreground 25%"),
            (other or Content("")).truncate(column, ellipsis=True),
        )
        for block in (names, *blocks, (more_first, more_second))
        for one, other in zip_longest(*block)
    ]


def _lines_of(side: SideText) -> tuple[list[_Line], list[Content]]:
    """Return the lines that are shown, and a line that counts the others."""
    texts = side.text.split("\n")
    lines = [display_line(text) for text in texts[:MOST_LINES]]
    before = accumulate(map(len, lines), initial=0)
    shown = [
        _Line(number, Content(text))
        for number, (text, used) in enumerate(zip(lines, before, strict=False), side.first_line)
        if used < MOST_CHARACTERS
    ]
    more = max(len(texts), side.last_line - side.first_line + 1) - len(shown)
    words = f"and {fmt.count(more, 'more line')}"
    return shown, [Content.styled(words, fmt.MUTED)] if more else []


def _draw(lines: Sequence[_Line], width: int, digits: int = 0) -> list[Content]:
    """Draw lines with their numbers and marks, each wrapped under itself."""
    digits = digits or max((len(str(line.number)) for line in lines), default=1)
    indent = Content(" " * (digits + 3))
    drawn: list[Content] = []
    for line in lines:
        if line.mark == _FOLD:
            drawn.append(indent + line.content)
            continue
        parts = line.content.wrap(max(4, width - digits - 3))
        mark = (line.mark, _STYLES.get(line.mark, ""))
        head = Content.assemble((f"{line.number:>{digits}} ", fmt.MUTED), mark, " ")
        drawn += [(indent if at else head) + part for at, part in enumerate(parts or [Content("")])]
    return drawn


def _pairs(first: Sequence[_Line], second: Sequence[_Line], *, folded: bool) -> Iterator[_Pair]:
    """Yield the lines that stand beside each other, marked where they differ.

    `folded`: long runs of equal lines are left out, and in place of a run stands how long it is.
    """
    texts = [line.content.plain for line in first]
    matcher = SequenceMatcher(None, texts, [line.content.plain for line in second])
    for kind, from_1, to_1, from_2, to_2 in matcher.get_opcodes():
        one, other = first[from_1:to_1], second[from_2:to_2]
        if kind == "equal":
            pairs = list(zip(one, other, strict=True))
            start = CONTEXT if from_1 or from_2 else 0
            stop = len(one) - (CONTEXT if (to_1, to_2) != (len(first), len(second)) else 0)
            if folded and stop - start > CONTEXT:
                words = f"{fmt.count(stop - start, 'line')} the same"
                fold = _Line(0, Content.styled(words, f"italic {fmt.MUTED}"), _FOLD)
                pairs[start:stop] = [(fold, fold)]
            yield from pairs
        else:
            yield from zip_longest(_changed(one, other, "-"), _changed(other, one, "+"))


def _changed(lines: Sequence[_Line], others: Sequence[_Line], mark: str) -> Iterator[_Line]:
    """Mark the words that the other block has not, or a whole line that is like none of its."""
    style, theirs = _STYLES[mark], [_words_of(line) for line in others]
    other_words = frozenset[str]().union(*theirs)
    for line in lines:
        words = _words_of(line)
        if any(_LIKE * len(words & some) >= max(len(words), len(some)) > 0 for some in theirs):
            matches = _WORD.finditer(line.content.plain)
            new = [match.span() for match in matches if match.group().casefold() not in other_words]
            yield replace(line, mark="~", content=_styled(line.content, new, f"bold {style}"))
        else:
            yield replace(line, mark=mark, content=line.content.stylize(style))


def _words_of(line: _Line) -> frozenset[str]:
    return frozenset(_WORD.findall(line.content.plain.casefold()))


def _styled(content: Content, spans: Iterable[tuple[int, int]], style: str) -> Content:
    return content.add_spans([Span(start, end, style) for start, end in spans])


def unified_lines(before: Sequence[str], after: Sequence[str], context: int = CONTEXT) -> list[str]:
    """Return the lines of a unified diff without its heads; empty when both are equal."""
    return list(unified_diff(before, after, n=context, lineterm=""))[2:]


def diff_contents(lines: Sequence[str]) -> list[Content]:
    """Draw the lines of a unified diff, each with its mark.

    After a mark stands a blank: notes are full of lines that begin with a dash themselves.
    """
    return [
        Content.styled(
            line if line[0] == HUNK else f"{line[0]} {display_line(line[1:])}",
            _STYLES.get(line[0], ""),
        )
        for line in lines
    ]

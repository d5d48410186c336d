"""The lines of a Markdown note by what they are, so that a rule looks only where it applies.

After CommonMark (https://spec.commonmark.org/0.31.2/), as far as whole lines go: fenced and
indented code, headings of both kinds, HTML comments; front matter and tables besides. Linear in
the text.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from memtui.memory.documents import front_matter, split_lines

_FENCE = re.compile(r"[ \t>]*(?:[-*+]\s+|\d+[.)]\s+)?(`{3,}(?=[^`]*$)|~{3,})")
_ATX = re.compile(r" {0,3}#{1,6}(?:[ \t]+|$)")
_UNDERLINE = re.compile(r" {0,3}(?:=+|-+)[ \t]*")
_ITEM = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])(?:[ \t]|$)")
_INDENTED = re.compile(r"(?: {4}| {0,3}\t)")
_RULE = re.compile(r" {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})")
_RUN = re.compile("`+")


class LineKind(StrEnum):
    """What a line is."""

    FRONT_MATTER = "front_matter"
    CODE = "code"
    HEADING = "heading"
    TABLE = "table"
    BLANK = "blank"
    """Nothing, a rule, the underline of a heading, or a comment alone."""
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class NoteLine:
    """A line of a note, 1-based; `text` without what stands in HTML comments."""

    number: int
    text: str
    kind: LineKind
    section: str = ""
    """The headings above it, outermost first, each after a blank."""


@lru_cache(maxsize=1)
def note_lines(text: str) -> tuple[NoteLine, ...]:
    """Tell of each line of a note what it is; the last note is kept, for the next rule."""
    return tuple(lines_as_read(text))


def lines_as_read(text: str) -> Iterator[NoteLine]:
    """Yield the same one by one, for who only wants the beginning of a note."""
    lines, matter_end = split_lines(text), front_matter(text).end_line
    fence, headings = "", [(0, "")]
    in_comment = in_list = False
    after_blank = True
    for place, raw in enumerate(lines):
        if place < matter_end:
            yield NoteLine(place + 1, raw, LineKind.FRONT_MATTER)
            continue
        line, kind = raw, LineKind.CODE
        opened = None if in_comment else _FENCE.match(raw)
        if fence:
            mark = raw.strip(" \t>")
            if len(mark) >= len(fence) and not mark.strip(fence[0]):
                fence = ""
        elif opened is not None:
            fence = opened[1]
        else:
            line, in_comment = _uncommented(raw, in_comment)
            below = lines[place + 1] if place + 1 < len(lines) else ""
            is_underline = _UNDERLINE.fullmatch(line) and place and not after_blank
            if not line.strip() or _RULE.fullmatch(line) or is_underline:
                kind = LineKind.BLANK
            elif after_blank and not in_list and _INDENTED.match(line):
                kind = LineKind.CODE
            elif heading := _heading(line, below if after_blank else ""):
                headings = [one for one in headings if one[0] < heading[0]] + [heading]
                in_list, kind = False, LineKind.HEADING
            else:
                in_list = _ITEM.match(line) is not None or (in_list and line[0] in " \t")
                is_table = line.lstrip().startswith("|") and line.count("|") > 1
                kind = LineKind.TABLE if is_table else LineKind.TEXT
        after_blank = kind is LineKind.BLANK or (kind is LineKind.CODE and after_blank)
        yield NoteLine(place + 1, line, kind, " ".join(title for _, title in headings[1:]))


def _heading(line: str, below: str) -> tuple[int, str] | None:
    """Return the level and the title of a heading, underlined by the line below or not."""
    if mark := _ATX.match(line):
        return mark[0].count("#"), line[mark.end() :].strip().rstrip("#").strip()
    if _UNDERLINE.fullmatch(below) and not _ITEM.match(line):
        return (1 if "=" in below else 2), line.strip()
    return None


def _uncommented(raw: str, in_comment: bool) -> tuple[str, bool]:
    """Blank the HTML comments of a line; a comment may go on in the next one."""
    parts: list[str] = []
    at = 0
    while at < len(raw):
        mark = "-->" if in_comment else "<!--"
        start = raw.find(mark, at)
        end = len(raw) if start < 0 else start + (3 if in_comment else 0)
        parts.append(" " * (end - at) if in_comment else raw[at:end])
        if start < 0:
            break
        at, in_comment = end, not in_comment
    return "".join(parts), in_comment


def without_code(text: str) -> str:
    """A line with its code spans blanked, length kept; linear, whatever backticks it has."""
    if "`" not in text:
        return text
    runs = [found.span() for found in _RUN.finditer(text)]
    of_length: dict[int, list[int]] = defaultdict(list)
    for place in range(len(runs) - 1, -1, -1):
        of_length[runs[place][1] - runs[place][0]].append(place)
    kept: list[str] = []
    at, place = 0, 0
    while place < len(runs):
        start, end = runs[place]
        closing = of_length[end - start]
        while closing and closing[-1] <= place:
            closing.pop()
        if closing and not _is_escaped(text, start):
            place = closing[-1]
            kept += (text[at:start], " " * (runs[place][1] - start))
            at = runs[place][1]
        place += 1
    return "".join((*kept, text[at:]))


def _is_escaped(text: str, at: int) -> bool:
    before = at
    while before and text[before - 1] == "\\":
        before -= 1
    return (at - before) % 2 == 1

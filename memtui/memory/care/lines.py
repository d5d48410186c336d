"""The lines of a Markdown note by what they are, so that a rule looks only where it applies.

After CommonMark (https://spec.commonmark.org/0.31.2/), as far as whole lines go: fenced and
indented code, headings of both kinds, HTML comments; front matter and tables besides. Linear in
the text.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from memtui.memory.documents import front_matter, split_lines

_FENCE = re.compile(r"[ \t>]*(?:[-*+]\s+|\d+[.)]\s+)?(`{3,}(?=[^`]*$)|~{3,})")
_ATX = re.compile(r" {0,3}#{1,6}(?:[ \t]+|$)")
_UNDERLINE = re.compile(r" {0,3}(?:=+|-+)[ \t]*")
_ITEM = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])(?:[ \t]|$)")
_INDENTED = re.compile(r"(?: {4}| {0,3}\t)")
_RULE = re.compile(r" {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})")
_COMMENT = re.compile(r"<!(?=--).*?(?:-->|$)")
_RUN = re.compile(r"(?<!\\)(\\*)(`+)")


class LineKind(StrEnum):
    """What a line is."""

    FRONT_MATTER = "front_matter"
    CODE = "code"
    HEADING = "heading"
    TABLE = "table"
    BLANK = "blank"
    """Nothing, a rule, the underline of a heading, or a comment alone."""
    TEXT = "text"


class NoteLine(NamedTuple):
    """A line of a note, 1-based; `text` without what stands in HTML comments."""

    number: int
    text: str
    kind: LineKind
    section: str = ""
    """The headings above it, outermost first, each after a blank."""


@lru_cache(maxsize=1)
def note_lines(text: str) -> tuple[NoteLine, ...]:
    """Return each line of a note with its kind; those of the last note are cached."""
    lines, matter_end = split_lines(text), front_matter(text).end_line
    result = [
        NoteLine(number, line, LineKind.FRONT_MATTER)
        for number, line in enumerate(lines[:matter_end], start=1)
    ]
    fence, headings = "", [(0, "")]
    in_comment = in_list = False
    after_blank = True
    for number, raw in enumerate(lines[matter_end:], start=matter_end + 1):
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
            below = lines[number] if number < len(lines) else ""
            is_underline = _UNDERLINE.fullmatch(line) and number > 1 and not after_blank
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
        section = " ".join(title for _, title in headings[1:])
        result.append(NoteLine(number, line, kind, section))
    return tuple(result)


def _heading(line: str, below: str) -> tuple[int, str] | None:
    """Return the level and the title of a heading, underlined by the line below or not."""
    if mark := _ATX.match(line):
        return mark[0].count("#"), line[mark.end() :].strip().rstrip("#").strip()
    if _UNDERLINE.fullmatch(below) and not _ITEM.match(line):
        return (1 if "=" in below else 2), line.strip()
    return None


def _uncommented(raw: str, in_comment: bool) -> tuple[str, bool]:
    """Blank the HTML comments of a line; tell whether the last one goes on in the next line."""
    text = "<!-- " + raw if in_comment else raw
    comments = _COMMENT.findall(text)
    line = _COMMENT.sub(lambda comment: " " * len(comment[0]), text)
    return line[len(text) - len(raw) :], bool(comments) and not comments[-1].endswith("-->")


def without_code(text: str) -> str:
    """Blank the code spans of a line, length kept; linear, whatever backticks it has."""
    closing: dict[int, int] = {}
    next_ends: dict[int, int] = {}
    runs = [(len(run[1]), *run.span(2)) for run in _RUN.finditer(text)]
    for _, start, end in reversed(runs):
        # A span ends at the next run of the same length.
        if end - start in next_ends:
            closing[start] = next_ends[end - start]
        next_ends[end - start] = end
    pieces, at = [], 0
    for backslashes, start, _ in runs:
        if start >= at and start in closing and backslashes % 2 == 0:
            pieces += [text[at:start], " " * (closing[start] - start)]
            at = closing[start]
    return "".join([*pieces, text[at:]])

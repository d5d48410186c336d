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

from memtui.memory.dates import front_matter
from memtui.memory.documents import split_lines

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
    """As `note_lines`, for who only wants the beginning of a note."""
    return _Reader(split_lines(text), front_matter(text).end_line).lines()


class _Reader:
    """One pass over the lines of a note."""

    def __init__(self, lines: list[str], matter_end: int) -> None:
        self._lines = lines
        self._matter_end = matter_end
        self._fence = ""
        self._in_comment = False
        self._in_list = False
        self._after_blank = True
        self._headings: list[tuple[int, str]] = []

    def lines(self) -> Iterator[NoteLine]:
        for place, raw in enumerate(self._lines):
            if place < self._matter_end:
                yield NoteLine(place + 1, raw, LineKind.FRONT_MATTER)
                continue
            kind, text = self._kind(place, raw)
            self._after_blank = kind is LineKind.BLANK or (
                kind is LineKind.CODE and self._after_blank
            )
            yield NoteLine(place + 1, text, kind, " ".join(title for _, title in self._headings))

    def _kind(self, place: int, raw: str) -> tuple[LineKind, str]:
        if self._fence:
            self._close_fence(raw)
            return LineKind.CODE, raw
        opened = None if self._in_comment else _FENCE.match(raw)
        if opened is not None:
            self._fence = opened[1]
            return LineKind.CODE, raw
        text = self._uncommented(raw)
        if not text.strip() or _RULE.fullmatch(text):
            return LineKind.BLANK, text
        if _UNDERLINE.fullmatch(text) and place and not self._after_blank:
            return LineKind.BLANK, text
        if self._is_indented_code(text):
            return LineKind.CODE, text
        if self._heads(place, text):
            return LineKind.HEADING, text
        self._in_list = _ITEM.match(text) is not None or (self._in_list and text[0] in " \t")
        is_table = text.lstrip().startswith("|") and text.count("|") > 1
        return (LineKind.TABLE if is_table else LineKind.TEXT), text

    def _close_fence(self, raw: str) -> None:
        mark = raw.strip(" \t>")
        if len(mark) >= len(self._fence) and not mark.strip(self._fence[0]):
            self._fence = ""

    def _is_indented_code(self, text: str) -> bool:
        return self._after_blank and not self._in_list and _INDENTED.match(text) is not None

    def _heads(self, place: int, text: str) -> bool:
        """Whether a line is a heading; it is remembered as the section of what follows."""
        found = _ATX.match(text)
        below = self._lines[place + 1] if place + 1 < len(self._lines) else ""
        if found is not None:
            level, title = found[0].count("#"), text[found.end() :].strip().rstrip("#").strip()
        elif _UNDERLINE.fullmatch(below) and self._after_blank and not _ITEM.match(text):
            level, title = (1 if "=" in below else 2), text.strip()
        else:
            return False
        self._headings = [(above, one) for above, one in self._headings if above < level]
        self._headings.append((level, title))
        self._in_list = False
        return True

    def _uncommented(self, raw: str) -> str:
        """A line with its HTML comments blanked; a comment may go on over lines."""
        if not self._in_comment and "<!--" not in raw:
            return raw
        kept: list[str] = []
        at = 0
        while at < len(raw):
            mark = "-->" if self._in_comment else "<!--"
            found = raw.find(mark, at)
            end = len(raw) if found < 0 else found + (3 if self._in_comment else 0)
            kept.append(" " * (end - at) if self._in_comment else raw[at:end])
            if found < 0:
                break
            at, self._in_comment = end, not self._in_comment
        return "".join(kept)


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

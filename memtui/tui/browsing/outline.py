"""The headings of a Markdown text: `#` headings and underlined ones, none inside code."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

MOST_HEADINGS = 5_000
_HEAD = 400
"""Characters of a line that are looked at."""
_MATTER_LINES = 200

_FENCE = re.compile(r" {0,3}(?:> ?)*(`{3,}|~{3,})(.*)")
_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*))?$")
_UNDERLINE = re.compile(r" {0,3}(=+|-{2,})[ \t]*$")
_NO_PARAGRAPH = re.compile(r"\s*$| {0,3}(?:[-*+>|]|\d{1,9}[.)])| {4}|\t")


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading; `line` is 1-based, `level` 1 to 6."""

    line: int
    level: int
    text: str


def headings(lines: Sequence[str]) -> list[Heading]:
    """The headings of a text in their order, at most 5,000.

    As CommonMark 0.31 has them (sections 4.2, 4.3 and 4.5), without those in quotes and lists,
    and without those in the front matter.
    """
    found: list[Heading] = []
    fence, before = "", ""
    for index in range(front_matter_lines(lines), len(lines)):
        line = lines[index][:_HEAD]
        if fence:
            if _closes(line, fence):
                fence = ""
            continue
        opened = _FENCE.match(line)
        if opened and not (opened[1][0] == "`" and "`" in opened[2]):
            fence, before = opened[1], ""
            continue
        heading = _heading(line, before, index)
        if heading is not None:
            found.append(heading)
            if len(found) == MOST_HEADINGS:
                break
        before = "" if heading is not None or _NO_PARAGRAPH.match(line) else line
    return found


def front_matter_lines(lines: Sequence[str]) -> int:
    """How many lines at the top are front matter, with its fences."""
    if not lines or lines[0].rstrip() != "---":
        return 0
    for index in range(1, min(len(lines), _MATTER_LINES)):
        if lines[index].rstrip() in {"---", "..."}:
            return index + 1
    return 0


def _heading(line: str, before: str, index: int) -> Heading | None:
    match = _HEADING.match(line.rstrip("\r"))
    if match is not None:
        return Heading(index + 1, len(match[1]), _without_closing(match[2] or ""))
    under = _UNDERLINE.match(line.rstrip("\r")) if before else None
    if under is not None:
        return Heading(index, 1 if under[1][0] == "=" else 2, before.strip())
    return None


def _without_closing(text: str) -> str:
    """The text of a heading without the `#` that may close it."""
    text = text.strip()
    opened = text.rstrip("#")
    return opened.strip() if not opened or opened[-1] in " \t" else text


def _closes(line: str, fence: str) -> bool:
    match = _FENCE.match(line.rstrip())
    return match is not None and match[1].startswith(fence) and not match[2].strip()

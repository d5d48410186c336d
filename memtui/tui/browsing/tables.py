"""Tables of Markdown with their columns below one another."""

from __future__ import annotations

import re
from collections.abc import Sequence

from textual.content import Content

from memtui.tui.browsing.inline import inline
from memtui.tui.browsing.marks import Marks
from memtui.tui.format import MUTED

MOST_ROWS = 500
MOST_COLUMNS = 24
_WIDEST = 40
_SPLIT = re.compile(r"(?<!\\)\|")
_DASHES = re.compile(r"[\s|:-]+$")


def table_lines(texts: Sequence[str], width: int, marks: Marks) -> list[Content]:
    """One line for each line of a table, at most `width` cells wide.

    A table of more than 500 lines or 24 columns stays as it is written.
    """
    rows = [_cells(text) for text in texts]
    if len(rows) > MOST_ROWS or max(map(len, rows)) > MOST_COLUMNS:
        return [Content(text).truncate(width, ellipsis=True) for text in texts]
    rules = [bool(_DASHES.fullmatch(text)) and "-" in text for text in texts]
    head = rules.index(True) if True in rules else 0
    drawn = [[inline(cell) for cell in row] for row in rows]
    widths = _widths(drawn, rules)
    lines = []
    for number, (row, is_rule) in enumerate(zip(drawn, rules, strict=True)):
        line = _rule(widths, marks) if is_rule else _row(row, widths, marks, bold=number < head)
        lines.append(line.truncate(width, ellipsis=True))
    return lines


def _cells(text: str) -> list[str]:
    inner = text.strip().removeprefix("|")
    if inner.endswith("|") and not inner.endswith("\\|"):
        inner = inner[:-1]
    return [cell.strip() for cell in _SPLIT.split(inner)]


def _widths(rows: Sequence[Sequence[Content]], rules: Sequence[bool]) -> list[int]:
    widths: list[int] = []
    for row, is_rule in zip(rows, rules, strict=True):
        widths += [1] * (len(row) - len(widths))
        for column, cell in enumerate(row):
            if not is_rule:
                widths[column] = max(widths[column], min(cell.cell_length, _WIDEST))
    return widths


def _row(row: Sequence[Content], widths: Sequence[int], marks: Marks, *, bold: bool) -> Content:
    cells = [
        cell.truncate(width, ellipsis=True, pad=True)
        for cell, width in zip(row, widths, strict=False)
    ]
    between = Content.styled(f" {marks.column} ", MUTED)
    line = between.join(cells)
    return line.stylize("bold") if bold else line


def _rule(widths: Sequence[int], marks: Marks) -> Content:
    return Content.styled(
        f"{marks.rule}{marks.crossing}{marks.rule}".join(marks.rule * width for width in widths),
        MUTED,
    )

"""A report as text, for a terminal, a pipe or a file."""

from __future__ import annotations

from collections.abc import Iterator

from memtui.report.layout import Clean, Layout, Line
from memtui.report.model import Report
from memtui.text.sanitize import safe_line


def text_lines(
    report: Report,
    *,
    width: int | None = None,
    ascii_only: bool = False,
    clean: Clean = safe_line,
) -> Iterator[Line]:
    """The report in lines of at most `width` cells; without a width, one line for each row."""
    return Layout(clean, width, ascii_only).lines(report)


def text_of(report: Report, *, width: int | None = None, ascii_only: bool = False) -> str:
    """The report as text that no terminal acts on."""
    lines = text_lines(report, width=width, ascii_only=ascii_only)
    return "".join(f"{line.text}\n" for line in lines)

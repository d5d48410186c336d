"""A report as GitHub Markdown, out of which no text of a note can break.

What was found in notes, paths, queries and answers stands in code spans and fenced blocks: there
neither HTML nor links, mentions or emphasis mean anything (GFM 0.29, sections 4.5 and 6.3).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from memtui.report.layout import UNICODE_MARKS, Report, Row, Section
from memtui.text.sanitize import safe, safe_line

_HARMLESS = re.compile(r"(?! |\d+\))(?:[A-Za-z ,;()]|\d|(?<=\d)\.(?=\d))*")
"""Text without any character that means something in Markdown, not even together."""
_TICKS = re.compile("`+")
_PIPE = "&#124;"


def markdown_of(report: Report) -> str:
    """The report as a document of its own: a heading, the verdict, a table for each section."""
    parts = [f"## {code(report.title)}", _verdict(report), f"Query: {code(report.query)}"]
    parts += ["\n".join(_section(section)) for section in report.sections]
    return "\n\n".join(parts) + "\n"


def code(text: str) -> str:
    """Text from outside as a code span, whatever it holds; nothing for an empty one."""
    text = safe_line(text)
    if not text.strip():
        return ""
    fence = "`" * _longer_than_any(text, 0)
    is_padded = text.startswith(("`", " ")) or text.endswith(("`", " "))
    return f"{fence} {text} {fence}" if is_padded else f"{fence}{text}{fence}"


def fenced(text: str) -> str:
    """Lines from outside as a code block."""
    text = safe(text)
    fence = "`" * _longer_than_any(text, 2)
    return f"{fence}text\n{text}\n{fence}"


def _longer_than_any(text: str, least: int) -> int:
    return max([least, *(len(run) for run in _TICKS.findall(text))]) + 1


def _verdict(report: Report) -> str:
    shown, _, why = report.verdict.partition("SHOWN")
    return f"**{shown}SHOWN**{_phrase(why)}"


def _phrase(text: str) -> str:
    bare = text.removeprefix(": ").strip()
    return f" {code(bare)}" if bare else ""


def _section(section: Section) -> Iterator[str]:
    yield f"### {_words_or_code(section.title[:1].upper() + section.title[1:])}"
    if section.rows:
        marked = any(row.mark is not None for row in section.rows)
        heads = [column.name for column in section.columns]
        yield ""
        yield _table_row([*([" "] if marked else []), *heads])
        aligned = ["--:" if column.right else "---" for column in section.columns]
        yield _table_row([*([":-:"] if marked else []), *aligned])
        for row in section.rows:
            yield _table_row([*([_mark(row)] if marked else []), *_cells(row)])
    if section.notes:
        yield ""
        for note in section.notes:
            yield f"- {_words_or_code(note)}"
    if section.quoted:
        yield f"\n{fenced(section.quoted)}"
    if section.missing:
        yield f"\n({section.missing})"


def _table_row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _mark(row: Row) -> str:
    return UNICODE_MARKS[row.mark] if row.mark is not None else " "


def _cells(row: Row) -> Iterator[str]:
    for place, cell in enumerate(row.cells):
        text = _in_table(cell)
        yield f"**{text}**" if row.strong and place == 0 else text


def _in_table(text: str) -> str:
    """A cell: a bar would end it even within code, so that each stands between two spans."""
    return _PIPE.join(_words_or_code(part) for part in text.strip().split("|"))


def _words_or_code(text: str) -> str:
    return text if _HARMLESS.fullmatch(text) else code(text)

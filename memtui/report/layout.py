"""A report laid out in cells: lines of spans, which text and pictures draw alike."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from memtui.report.model import Extent, Mark, Report, Row, Section, Tone
from memtui.report.words import cells_of, fitting, short

Clean: TypeAlias = Callable[[str], str]
"""Makes text from outside safe for one line, one character for one."""

INDENT = 2
_PIECES = re.compile(r" +|[^ ]+")
_MOST_CELLS = 32
"""A longer cell moves the rest of its row instead of all rows."""
_LEAST_ROOM = 24
"""A last cell with less room goes on a line of its own."""

UNICODE_MARKS: Mapping[Mark, str] = {Mark.PASSED: "✓", Mark.FAILED: "✗", Mark.NOT_ASKED: "–"}
ASCII_MARKS: Mapping[Mark, str] = {Mark.PASSED: "+", Mark.FAILED: "x", Mark.NOT_ASKED: "-"}


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a line."""

    text: str
    tone: Tone = Tone.PLAIN
    strong: bool = False


@dataclass(frozen=True, slots=True)
class Bar:
    """Where a line leaves room for a bar: its first cell, its width and what to fill of it."""

    column: int
    width: int
    extent: Extent
    """As parts of the axis: 0 to 1."""
    tone: Tone


@dataclass(frozen=True, slots=True)
class Line:
    """One row of cells."""

    spans: tuple[Span, ...] = ()
    bar: Bar | None = None
    heading: bool = False
    """Whether a section begins here."""

    @property
    def text(self) -> str:
        """What the line says."""
        return "".join(span.text for span in self.spans).rstrip()

    @property
    def strong(self) -> bool:
        """Whether the line is told louder than the others."""
        return any(span.strong for span in self.spans)


@dataclass(frozen=True, slots=True)
class Layout:
    """How a report is laid out; `width` in cells, `None` for lines of any length."""

    clean: Clean
    width: int | None = None
    ascii_only: bool = False
    """Whether marks are ASCII."""
    bars: int = 0
    """So many cells are left for bars; 0 for none."""

    def lines(self, report: Report) -> Iterator[Line]:
        """Every line: the title, the verdict, then the sections, each after an empty line."""
        clean = self.clean
        yield from self._wrapped([Span(clean(report.title), Tone.HEADING, True)], 0)
        tone = Tone.OK if report.shown else Tone.WARN
        yield from self._wrapped([Span(" " * INDENT), Span(clean(report.verdict), tone)], INDENT)
        query = Span(clean(report.query))
        yield from self._wrapped([Span(" " * INDENT), Span("query  ", Tone.MUTED), query], INDENT)
        for section in report.sections:
            yield Line()
            yield from self.section(section)

    def section(self, section: Section) -> Iterator[Line]:
        """The title, the rows in columns, the notes, the quotation."""
        title = Span(" " * INDENT + self.clean(section.title), Tone.HEADING)
        first, *others = self._wrapped([title], 2 * INDENT)
        yield replace(first, heading=True)
        yield from others
        if section.rows:
            yield from self._table(section)
        for note in section.notes:
            span = Span(self.clean(note), Tone.MUTED)
            yield from self._wrapped([Span(" " * 2 * INDENT), span], 3 * INDENT)
        if section.quoted:
            for text in section.quoted.split("\n"):
                span = Span(self.clean(text.replace("\t", "    ")))
                yield from self._wrapped([Span(" " * 2 * INDENT), span], 2 * INDENT)
        if section.missing:
            yield Line((Span(" " * 2 * INDENT + f"({section.missing})", Tone.MUTED),))

    def _table(self, section: Section) -> Iterator[Line]:
        rows = [tuple(map(self.clean, row.cells)) for row in section.rows]
        named = len(section.columns) > 2 and not _marked(section, only=True)
        heads = tuple(column.name for column in section.columns)
        widths = _widths([*rows, heads] if named else rows)
        bars = self.bars if section.axis is not None else 0
        if named:
            scale = _scale(section.axis, bars)
            head = Row(heads, tone=Tone.MUTED)
            yield from self._row(self._spans(section, heads, head, widths, scale), None)
        for row, cells in zip(section.rows, rows, strict=True):
            spans = self._spans(section, cells, row, widths, " " * bars)
            yield from self._row(spans, self._bar(section, row, widths, bars))

    def _spans(
        self, section: Section, cells: Sequence[str], row: Row, widths: Sequence[int], bar: str
    ) -> list[Span]:
        """The indent with the mark, the cells with their padding; the last one is not padded.

        `bar` is what stands in the place of a bar.
        """
        spans = [Span(" " * 2 * INDENT)]
        if _marked(section):
            marks = ASCII_MARKS if self.ascii_only else UNICODE_MARKS
            mark = marks[row.mark] if row.mark is not None else " "
            spans.append(Span(f"{mark} ", row.tone, row.strong))
        last = len(cells) - 1
        for place, (cell, width) in enumerate(zip(cells, widths, strict=True)):
            padding = " " * max(0, width - cells_of(cell))
            text = padding + cell if section.columns[place].right else cell + padding
            tone = row.tone if place == 0 or row.tone is Tone.MUTED else Tone.PLAIN
            spans.append(Span(cell if place == last else f"{text}  ", tone, row.strong))
            if place == 0 and bar:
                spans.append(Span(f"{bar}  ", Tone.MUTED))
        return spans

    def _bar(self, section: Section, row: Row, widths: Sequence[int], bars: int) -> Bar | None:
        if not bars or section.axis is None or row.extent is None:
            return None
        low, high = (
            min(1.0, max(0.0, value / section.axis)) for value in (row.extent.low, row.extent.high)
        )
        column = 2 * INDENT + (2 if _marked(section) else 0) + widths[0] + 2
        return Bar(column, bars, Extent(low, high), row.tone)

    def _row(self, spans: list[Span], bar: Bar | None) -> Iterator[Line]:
        """A row whose last cell wraps under itself, or below the others where there is no room."""
        used = sum(cells_of(span.text) for span in spans[:-1])
        if self.width is not None and self.width - used < _LEAST_ROOM:
            used = 4 * INDENT
        first, *others = self._wrapped(spans, used)
        yield Line(first.spans, bar)
        yield from others

    def _wrapped(self, spans: Sequence[Span], indent: int) -> Iterator[Line]:
        """The spans in lines no longer than the width, all but the first one indented."""
        if self.width is None or sum(cells_of(span.text) for span in spans) <= self.width:
            yield Line(tuple(spans))
            return
        yield from _folded(spans, self.width, min(indent, max(0, self.width - 8)))


def _folded(spans: Sequence[Span], width: int, indent: int) -> Iterator[Line]:
    """Break between words; a word that is longer than a line is cut."""
    line: list[Span] = []
    used, is_empty = 0, True
    for span in spans:
        for piece in _PIECES.findall(span.text):
            if piece.isspace():
                if line and not (is_empty and used == indent):
                    line.append(replace(span, text=piece))
                    used += len(piece)
                elif not line:
                    line, used = [replace(span, text=piece)], len(piece)
                continue
            rest = piece
            while cells_of(rest) > width - used:
                if is_empty and used <= indent:
                    fits = max(1, fitting(rest, width - used))
                    line.append(replace(span, text=rest[:fits]))
                    rest = rest[fits:]
                yield Line(tuple(line))
                line, used, is_empty = [Span(" " * indent)], indent, True
            line.append(replace(span, text=rest))
            used, is_empty = used + cells_of(rest), False
    yield Line(tuple(line))


def _marked(section: Section, *, only: bool = False) -> bool:
    """Whether rows carry marks; with `only`, whether every row does."""
    marks = [row.mark is not None for row in section.rows]
    return all(marks) if only else any(marks)


def _scale(axis: float | None, width: int) -> str:
    """The ends of the axis over the bars; empty where there is no room for them."""
    return f"0{short(axis):>{width - 1}}" if axis is not None and width else ""


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    columns = zip(*rows, strict=True)
    return [
        max((cells for cell in column if (cells := cells_of(cell)) <= _MOST_CELLS), default=0)
        for column in columns
    ]

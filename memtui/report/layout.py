"""A report: sections of rows, and how they are laid out in cells for text, pictures and screens.

Cells hold text as it was found, notes and paths included: renderers make it safe.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import zip_longest
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from memtui.data import read_table
from memtui.report.words import cells_of, count, fitting, padded, score
from memtui.text.sanitize import safe_line

Clean: TypeAlias = Callable[[str], str]
"""Makes text from outside safe for one line, one character for one."""

INDENT = 2
_PIECES = re.compile(r" +|[^ ]+")
_MOST_CELLS = 40
"""A longer cell moves the rest of its row instead of all rows."""
_LEAST_ROOM = 24
"""A last cell with less room goes on a line of its own."""


class SectionId(StrEnum):
    LEGS = "legs"
    TRACE = "trace"
    ARITHMETIC = "arithmetic"
    SHARES = "shares"
    WORDS = "words"
    RANKS = "ranks"
    TERMS = "terms"
    PASSAGES = "passages"
    LEAST_CHANGES = "least_changes"
    WORD_CHANGES = "word_changes"
    EXCERPT = "excerpt"


class Mark(StrEnum):
    """The outcome of something, shown by a glyph beside the words."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_ASKED = "not_asked"


UNICODE_MARKS: Mapping[Mark, str] = {Mark.PASSED: "✓", Mark.FAILED: "✗", Mark.NOT_ASKED: "–"}
IN_ASCII = str.maketrans(read_table("signs.toml")["report"] | dict.fromkeys("▁▂▃▄▅▆▇█", ""))
"""ASCII characters for those of memtui's own words."""


class Tone(StrEnum):
    """The meaning of a colour, by its name in a theme; no meaning is in the colour alone."""

    PLAIN = "foreground"
    MUTED = "muted"
    HEADING = "primary"
    OK = "state-ok"
    WARN = "state-warn"
    ERROR = "state-error"
    VECTOR = "leg-vector"
    KEYWORD = "leg-keyword"
    DECAY = "leg-decay"
    MMR = "leg-mmr"
    RERANK = "leg-rerank"


class Extent(Struct, frozen=True):
    """The part of the axis that a step of the arithmetic adds, takes away or ends with."""

    low: float
    high: float


class Column(Struct, frozen=True):
    """A column of a section; the last one takes what room there is and wraps."""

    name: str = ""
    right: bool = False
    """Aligned to the right, as numbers are."""
    optional: bool = False
    """Not needed on a narrow screen."""
    width: int = 0
    """Cells with the blanks behind it; 0 for as many as its longest cell needs."""


LABELLED = (Column("label", width=12), Column("value"))
"""The columns of a section of labelled values."""


class Row(Struct, frozen=True):
    """One line: a cell for each column; one with fewer is an aside, whose last cell runs on."""

    cells: tuple[str, ...]
    mark: Mark | None = None
    tone: Tone = Tone.PLAIN
    """Of the first cell, and of the bar."""
    strong: bool = False
    extent: Extent | None = None
    names: tuple[str, ...] = ()
    """The subjects of the row, where they are named in full."""
    count: int = 0
    """Number of subjects, those that are not among `names` included."""


class Section(Struct, frozen=True):
    """A titled table, what is to be said below it, and text that is quoted."""

    id: str
    """A `SectionId`, or the name of another part of an answer."""
    title: str
    columns: tuple[Column, ...] = ()
    rows: tuple[Row, ...] = ()
    notes: tuple[str, ...] = ()
    quoted: str = ""
    """Text of a note, lines and all."""
    axis: float | None = None
    """The value at the right end of the bars, above 0; `None` where there are none."""
    missing: str = ""
    """The words for the part that a quotation leaves out at its end."""
    pending: str = ""
    """The words for what is still being looked for."""
    problem: str = ""
    """The reason why it could not be found out."""


class Report(Struct, frozen=True):
    """Everything that is told about one place and one search."""

    title: str
    """The citation of the chunk, or the place that was asked about."""
    query: str
    verdict: str
    shown: bool
    sections: tuple[Section, ...]


class Span(Struct, frozen=True):
    """A piece of a line."""

    text: str
    tone: Tone = Tone.PLAIN
    strong: bool = False
    extent: Extent | None = None
    """The filled part of a bar, as parts of the axis: 0 to 1."""


class Line(Struct, frozen=True):
    """One row of cells."""

    spans: tuple[Span, ...] = ()
    heading: bool = False
    """True if a section begins here."""
    row: int | None = None
    """The row of the section that it is a part of."""

    @property
    def text(self) -> str:
        return "".join(span.text for span in self.spans).rstrip()

    @property
    def strong(self) -> bool:
        """True if the line is drawn stronger than the others."""
        return any(span.strong for span in self.spans)


class Layout(Struct, frozen=True):
    """The layout of a report; `width` in cells, `None` for lines of any length."""

    clean: Clean = safe_line
    width: int | None = None
    ascii_only: bool = False
    """True if marks, and the report's own words, are ASCII."""
    bars: int = 0
    """So many cells are left for bars; 0 for none."""
    indent: int = 2 * INDENT
    """Of everything below a title."""
    drops_columns: bool = False
    """True if optional columns are left out where a line is too short for all."""

    def lines(self, report: Report) -> Iterator[Line]:
        """Every line: the title, the verdict, then the sections, each after an empty line."""
        head = " " * INDENT
        yield from self._wrapped([Span(self._safe(report.title), Tone.HEADING, True)], 0)
        tone = Tone.OK if report.shown else Tone.WARN
        yield from self._wrapped([Span(head), Span(self._safe(report.verdict), tone)], INDENT)
        query = Span(self._safe(report.query))
        yield from self._wrapped([Span(head), Span("query  ", Tone.MUTED), query], INDENT)
        for section in report.sections:
            yield Line()
            yield from self.section(section)

    def section(self, section: Section) -> Iterator[Line]:
        """The title where there is one, the rows in columns, the notes, the quotation."""
        if section.title:
            title = " " * (self.indent - INDENT) + self._safe(section.title)
            first, *others = self._wrapped([Span(title, Tone.HEADING)], self.indent)
            yield replace(first, heading=True)
            yield from others
        if section.rows:
            yield from self._table(section)
        for note in section.notes:
            yield from self._aside(note, Tone.MUTED)
        for text in section.quoted.split("\n") if section.quoted else ():
            yield from self._aside(text.replace("\t", "    "), Tone.PLAIN, hanging=0)
        if section.missing:
            yield from self._aside(f"({section.missing})", Tone.MUTED)
        if section.pending:
            yield from self._aside(f"… {section.pending}", Tone.MUTED)
        if section.problem:
            yield from self._aside(f"! {section.problem}", Tone.ERROR)

    def _safe(self, text: str) -> str:
        clean = self.clean(text)
        return clean.translate(IN_ASCII) if self.ascii_only else clean

    def _aside(self, text: str, tone: Tone, hanging: int = INDENT) -> Iterator[Line]:
        spans = [Span(" " * self.indent), Span(self._safe(text), tone)]
        yield from self._wrapped(spans, self.indent + hanging)

    def _table(self, section: Section) -> Iterator[Line]:
        """Yield the names of the columns where there are several, then the rows.

        The mark comes first, the bar behind the first cell. The last cell wraps under itself, or
        below the others where there is no room.
        """
        columns, axis = section.columns, section.axis
        places = list(range(len(columns)))
        names = tuple(self._safe(column.name) for column in columns)
        bars = self.bars if axis is not None else 0
        rows: list[tuple[int | None, Row, tuple[str, ...], str]] = [
            (number, row, tuple(map(self._safe, row.cells)), " " * bars)
            for number, row in enumerate(section.rows)
        ]
        cells = [texts for _, _, texts, _ in rows]
        widths = _widths([*cells, names])
        used = self.indent + bars + sum(widths) + 2 * len(widths)
        if self.drops_columns and self.width is not None and used > self.width:
            places = [place for place in places if not columns[place].optional]
        has_marks = any(row.mark is not None for row in section.rows)
        if len(places) > 2 and any(names):
            end = "" if not axis else count(axis, "chunk") if isinstance(axis, int) else score(axis)
            scale = f"0{end:>{bars - 1}}" if bars and end else ""
            rows.insert(0, (None, Row(names, tone=Tone.MUTED), names, scale))
        else:
            widths = _widths(cells)
        for number, row, texts, bar in rows:
            spans = [Span(" " * self.indent)]
            if has_marks:
                mark = self._safe(UNICODE_MARKS[row.mark]) if row.mark is not None else " "
                spans.append(Span(f"{mark} ", row.tone, row.strong))
            *fixed, last = places[: len(texts)]
            for place in (*fixed, last):
                text, column = texts[place], columns[place]
                if place != last and column.width:
                    is_right, width = column.right, column.width
                    text = f"{text:>{width - 1}} " if is_right else padded(text, width)
                elif place != last:
                    padding = " " * max(0, widths[place] - cells_of(text))
                    text = f"{padding + text if column.right else text + padding}  "
                tone = row.tone if place == 0 or row.tone is Tone.MUTED else Tone.PLAIN
                spans.append(Span(text, tone, row.strong))
                if place == 0 and bar:
                    extent, tone = row.extent, row.tone if row.extent else Tone.MUTED
                    if extent is not None and axis is not None:
                        ends = (min(1.0, max(0.0, end / axis)) for end in (extent.low, extent.high))
                        extent = Extent(*ends)
                    spans.append(Span(f"{bar}  ", tone, extent=extent))
            used = sum(cells_of(span.text) for span in spans[:-1])
            lines, room = [spans], cells_of(spans[-1].text)
            if self.width is not None and self.width - used < min(room, _LEAST_ROOM):
                used = 2 * self.indent
                lines = [spans[:-1], [Span(" " * used), spans[-1]]]
            for line in lines:
                yield from (replace(one, row=number) for one in self._wrapped(line, used))

    def _wrapped(self, spans: Sequence[Span], indent: int) -> Iterator[Line]:
        """The spans in lines no longer than the width, all but the first one indented."""
        if self.width is None or sum(cells_of(span.text) for span in spans) <= self.width:
            yield Line(tuple(spans))
            return
        # Broken between words; a word that is longer than a line is cut.
        width, indent = self.width, min(indent, max(0, self.width - 8))
        line: list[Span] = []
        used, is_empty = 0, True
        for span in spans:
            for piece in _PIECES.findall(span.text):
                if piece.isspace():
                    if not (line and is_empty and used == indent):
                        line.append(replace(span, text=piece))
                        used += len(piece)
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


def text_of(report: Report, *, ascii_only: bool = False) -> str:
    """The report as text that no terminal acts on, one line for each row."""
    return "".join(f"{line.text}\n" for line in Layout(ascii_only=ascii_only).lines(report))


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [
        max((cells for cell in column if (cells := cells_of(cell)) <= _MOST_CELLS), default=0)
        for column in zip_longest(*rows, fillvalue="")
    ]

"""A report: sections of rows that every renderer draws in its own way.

Cells hold text as it was found, notes and paths included: renderers make it safe.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class SectionId(StrEnum):
    """What a section is about."""

    LEGS = "legs"
    TRACE = "trace"
    ARITHMETIC = "arithmetic"
    RANKS = "ranks"
    TERMS = "terms"
    PASSAGES = "passages"
    LEAST_CHANGES = "least_changes"
    WORD_CHANGES = "word_changes"
    EXCERPT = "excerpt"


class Mark(StrEnum):
    """How something ended, told by a glyph beside the words."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_ASKED = "not_asked"


class Tone(StrEnum):
    """What a colour stands for; no meaning is in the colour alone."""

    PLAIN = "plain"
    MUTED = "muted"
    HEADING = "heading"
    OK = "ok"
    WARN = "warn"
    ERROR = "error"
    VECTOR = "vector"
    KEYWORD = "keyword"
    DECAY = "decay"
    MMR = "mmr"
    RERANK = "rerank"


@dataclass(frozen=True, slots=True)
class Extent:
    """The part of the axis that a step of the arithmetic adds, takes away or ends with."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a section; the last one takes what room there is and wraps."""

    name: str = ""
    right: bool = False
    """Aligned to the right, as numbers are."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line: a cell for each column."""

    cells: tuple[str, ...]
    mark: Mark | None = None
    tone: Tone = Tone.PLAIN
    """Of the first cell, and of the bar."""
    strong: bool = False
    extent: Extent | None = None


@dataclass(frozen=True, slots=True)
class Section:
    """A titled table, what is to be said below it, and text that is quoted."""

    id: SectionId
    title: str
    columns: tuple[Column, ...] = ()
    rows: tuple[Row, ...] = ()
    notes: tuple[str, ...] = ()
    quoted: str = ""
    """Text of a note, lines and all."""
    axis: float | None = None
    """The value at the right end of the bars, above 0; `None` where there are none."""
    missing: str = ""
    """What a quotation leaves out at its end, in words."""


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that is told about one place and one search."""

    title: str
    """The citation of the chunk, or the place that was asked about."""
    query: str
    verdict: str
    shown: bool
    sections: tuple[Section, ...]

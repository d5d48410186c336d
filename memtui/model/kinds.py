"""Enumerations that are needed where the values that hold them are not: cheap to import."""

from __future__ import annotations

from enum import StrEnum


class CareRule(StrEnum):
    """What a note may need care for; each rule's precision is measured."""

    NEAR_DUPLICATE = "near_duplicate"
    UNREACHABLE = "unreachable"
    """No query by its own first words reaches it."""
    EMPTY_FILE = "empty_file"
    LONG_FILE = "long_file"
    DATED_FACT = "dated_fact"
    """A fact with a date in a file that has none and never decays."""
    BROKEN_LINK = "broken_link"
    LONG_LINE = "long_line"
    CREDENTIAL = "credential"


class FileState(StrEnum):
    """How a file on disk and the index agree."""

    CURRENT = "current"
    STALE = "stale"
    """Indexed, and changed since."""
    ORPHAN = "orphan"
    """In the index, and no longer on disk or no longer part of the memory."""
    NEVER_INDEXED = "never_indexed"
    SKIPPED = "skipped"
    """On disk, and left out by a rule."""


class Severity(StrEnum):
    """How much a finding matters: `error` when searches are wrong or impossible."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Station(StrEnum):
    """What a chunk passes before it is ranked, in this order; the stages of the ranking follow."""

    DISCOVERED = "discovered"
    """Its file belongs to the memory."""
    INDEXED = "indexed"
    """The index holds the file as it is now, and a chunk at the line."""
    KEYWORD_LEG = "keyword_leg"
    """The keyword leg finds it."""
    VECTOR_LEG = "vector_leg"
    """It has a vector that the query's can be compared with."""
    KEYWORD_POOL = "keyword_pool"
    """The keyword leg ranks it among its candidates."""
    VECTOR_POOL = "vector_pool"
    """The vector leg ranks it among its candidates."""

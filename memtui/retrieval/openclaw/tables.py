"""What a search reads of an OpenClaw index: tables, values of any type, scopes, and its hits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from memtui.retrieval.connection import is_database_error

_MOST_LINES: Final = 2**53
"""A larger number of a line is none that the program can have written."""


def readable(column: str) -> str:
    """SQL that reads a text column whatever it holds; `text_of` makes text of what it gives."""
    return f"CAST({column} AS BLOB)"


def text_of(value: object) -> str | None:
    """The text of a value read with `readable`; `None` where there is nothing."""
    if value is None or isinstance(value, str):
        return value
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def whole(value: object) -> int:
    """The whole number of a column; 0 for what is none."""
    number = finite(value)
    return int(number) if number is not None and abs(number) <= _MOST_LINES else 0


def finite(value: object) -> float | None:
    """The number of a column as it is; `None` for what is none."""
    return value if isinstance(value, int | float) and math.isfinite(value) else None


_REFUSAL = "SQLError"


def is_refusal(error: BaseException) -> bool:
    """Tell whether SQLite refused a statement, rather than being stopped or failed by the file.

    That is its general error: a MATCH that is none, an expression that is too deep, a `k` that is
    too large.
    """
    named = any(kind.__name__ == _REFUSAL for kind in type(error).__mro__)
    return named and is_database_error(error)


DEFAULT_SOURCE = "memory"
"""The source of a row that names none."""


@dataclass(frozen=True, slots=True)
class IndexTables:
    """The tables of one index; `None` for what it does not have."""

    chunks: str
    fts: str | None
    vec: str | None
    paths_fts: str | None = None
    recall: str | None = None
    tokenizer: str = "unicode61"
    has_source: bool = True
    """False for the oldest files, whose tables have no `source` column."""


@dataclass(frozen=True, slots=True)
class FileMask:
    """The files that a query's filters let through."""

    keys: str
    """A JSON array of what `file_key` gives."""
    has_source: bool


def file_key(source: str, *, has_source: bool) -> str:
    """SQL that names the file of a row by the bytes of its path and source, whatever they are."""
    path = f"hex({source.removesuffix('source')}path)"
    return f"{path} || '/' || hex({source})" if has_source else path


@dataclass(frozen=True, slots=True)
class SearchScope:
    """What a search may see: the provider's model, the enabled sources, the files of a filter."""

    model: str | None
    """The model of the provider; `None` when the agent has no provider."""
    sources: tuple[str, ...] | None = None
    """`None`: every source."""
    files: FileMask | None = None
    """`None`: every file."""

    def visible(self, column: str, *, has_source: bool) -> tuple[str, tuple[str, ...]]:
        """Return SQL and its values that keep the enabled sources and the files of a filter.

        `column` is the table's `source`, with the table's name where it needs one.
        """
        condition = ""
        values: tuple[str, ...] = ()
        if self.files is not None:
            # By the bytes of path and source, whatever they are.
            key = file_key(column, has_source=self.files.has_source)
            condition = f" AND {key} IN (SELECT value FROM json_each(?))"
            values = (self.files.keys,)
        if self.sources is None or not has_source:
            return condition, values
        marks = ", ".join("?" for _ in self.sources)
        return f" AND {column} IN ({marks}){condition}", (*self.sources, *values)


EXACT_PATH_LIMIT = 200


@dataclass(frozen=True, slots=True)
class KeywordHit:
    """A chunk that body or path search found."""

    id: str
    path: str
    source: str
    start_line: int
    text: str
    """The text as the full-text index holds it."""
    rank: float | None
    """SQLite's `bm25()`; `None` for a substring match or a path."""
    text_score: float
    score: float
    """What the release ranks by: the boosted text score, or the path score."""
    path_score: float = 0.0
    tier: int = 0
    has_body: bool = True

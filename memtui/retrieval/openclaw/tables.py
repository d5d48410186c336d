"""The parts of an OpenClaw index that a search reads: tables, values, scopes, hits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from memtui.data import read_table
from memtui.model import NOTES
from memtui.model.status import IndexGeneration

EXACT_PATH_LIMIT: Final = 200
SQL: Final[Mapping[str, str]] = read_table("queries.toml")["openclaw"]
_MOST_LINES: Final = 2**53
"""A larger number of a line is none that the program can have written."""


class Layout(Struct, frozen=True):
    """The tables of an OpenClaw memory index, by name; `None`: this file has no such table."""

    chunks: str
    fts: str | None = None
    vec: str | None = None
    paths_fts: str | None = None
    recall: str | None = None
    files: str = "files"
    meta: str = "meta"
    cache: str | None = None
    state: str | None = None
    schema: str | None = None
    generation: IndexGeneration = IndexGeneration.SIDECAR
    tokenizer: str = "unicode61"
    """`unicode61`, `trigram`, or the words of the CREATE statement when they are others."""
    vec_dims: int | None = None
    """Numbers in a vector of the vec0 table, as its CREATE statement says."""
    has_source: bool = True
    """False in the oldest files, in which everything is of the source `memory`."""
    fts_has_source: bool = True

    @property
    def source(self) -> str:
        """SQL for the source of a file or a chunk."""
        return "source" if self.has_source else f"'{NOTES}'"

    @property
    def legs_see_source(self) -> bool:
        """Tell whether rows of both legs can be filtered by their source."""
        return self.has_source and (self.fts is None or self.fts_has_source)


def readable(column: str) -> str:
    """SQL that reads a text column whatever it holds; `text_of` makes text of what it gives.

    A file of the older generations is not STRICT: a column may hold any type.
    """
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


def file_key(source: str, *, has_source: bool) -> str:
    """SQL that names the file of a row by the bytes of its path and source, whatever they are."""
    path = f"hex({source.removesuffix('source')}path)"
    return f"{path} || '/' || hex({source})" if has_source else path


class SearchScope(Struct, frozen=True):
    """The part of an index that a search may see: model, enabled sources, files of a filter."""

    model: str | None
    """The model of the provider; `None` when the agent has no provider."""
    sources: tuple[str, ...] | None = None
    """`None`: every source."""
    files: str | None = None
    """A JSON array of what `file_key` gives for the files of a filter; `None`: every file."""
    excluded: str | None = None
    """A JSON array of the ids of chunks that are not to be seen; `None`: there are none."""

    def visible(self, column: str, layout: Layout) -> tuple[str, tuple[str, ...]]:
        """Return SQL that begins with ` AND `, and its values: the sources and files to see.

        `column` is the `source` of a table that has the `id` of a chunk, too, with the table's
        name where it needs one.
        """
        has_source = layout.legs_see_source
        condition = ""
        values: tuple[str, ...] = ()
        if self.sources is not None and has_source:
            condition = f" AND {column} IN ({', '.join('?' * len(self.sources))})"
            values = self.sources
        if self.files is not None:
            key = file_key(column, has_source=has_source)
            condition += f" AND {key} IN (SELECT value FROM json_each(?))"
            values = (*values, self.files)
        if self.excluded is not None:
            condition += f" AND {column.removesuffix('source')}id NOT IN"
            condition += " (SELECT value FROM json_each(?))"
            values = (*values, self.excluded)
        return condition, values


class KeywordHit(Struct, frozen=True):
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
    """The score that the release ranks by: the boosted text score, or the path score."""
    path_score: float = 0.0
    tier: int = 0
    has_body: bool = True

"""Where an OpenClaw index keeps what a search reads: table names, as they are in the file."""

from __future__ import annotations

from dataclasses import dataclass

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

    def condition(self, source: str) -> tuple[str, tuple[str, ...]]:
        """SQL that begins with ` AND `, for a table by the name of its `source` column."""
        key = file_key(source, has_source=self.has_source)
        return f" AND {key} IN (SELECT value FROM json_each(?))", (self.keys,)


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

    def source_filter(self, column: str, tables: IndexTables) -> tuple[str, tuple[str, ...]]:
        """SQL and parameters that keep the enabled sources and the files of a filter."""
        return self.visible(column, has_source=tables.has_source)

    def visible(self, column: str, *, has_source: bool) -> tuple[str, tuple[str, ...]]:
        """As `source_filter`, for a table by the name of its `source` column."""
        condition, values = ("", ()) if self.files is None else self.files.condition(column)
        if self.sources is None or not has_source:
            return condition, values
        marks = ", ".join("?" for _ in self.sources)
        return f" AND {column} IN ({marks}){condition}", (*self.sources, *values)

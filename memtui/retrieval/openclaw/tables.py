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
class SearchScope:
    """What a search may see: the provider's model and the enabled sources."""

    model: str | None
    """The model of the provider; `None` when the agent has no provider."""
    sources: tuple[str, ...] | None = None
    """`None`: every source."""

    def source_filter(self, column: str, tables: IndexTables) -> tuple[str, tuple[str, ...]]:
        """SQL and parameters that keep the enabled sources."""
        if self.sources is None or not tables.has_source:
            return "", ()
        marks = ", ".join("?" for _ in self.sources)
        return f" AND {column} IN ({marks})", self.sources

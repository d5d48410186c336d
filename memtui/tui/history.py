"""The queries asked before, one file a workspace in the state folder."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from memtui.text.sanitize import safe_line

if TYPE_CHECKING:
    from memtui.settings.storage import StateFolder

LIMIT = 500


class QueryHistory:
    """Queries, newest first, without repetition. Not thread-safe; `load` and `save` do the I/O."""

    def __init__(self) -> None:
        self._queries: list[str] = []

    @property
    def queries(self) -> tuple[str, ...]:
        """Newest first."""
        return tuple(self._queries)

    def add(self, query: str) -> bool:
        """Put a query first; false when it is blank or first already."""
        query = safe_line(query).strip()
        if not query or (self._queries and self._queries[0] == query):
            return False
        self._queries = [query, *(old for old in self._queries if old != query)][:LIMIT]
        return True

    def extend(self, older: Iterable[str]) -> None:
        """Add queries of former sessions behind those of this one."""
        seen = dict.fromkeys([*self._queries, *older])
        self._queries = list(seen)[:LIMIT]


def load(folder: StateFolder, name: str) -> list[str]:
    """Read a history file, newest first; what is missing or no query is left out."""
    value = folder.read_json(name)
    queries = value if isinstance(value, list) else []
    return [safe_line(query) for query in queries if isinstance(query, str)][:LIMIT]


def save(folder: StateFolder, name: str, queries: Iterable[str]) -> None:
    """Replace a history file; raises OSError when the state folder cannot be written."""
    folder.write_json(name, list(queries))

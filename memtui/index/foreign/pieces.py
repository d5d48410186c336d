"""The rows of a table of an agent's, piece by piece."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memtui.index.database import Connection


def pieces(connection: Connection, query: str, size: int) -> Iterator[list[Any]]:
    """Yield up to `size` rows at a time of a `query` whose first column is the rowid.

    The query takes the rowid to begin behind and the number of rows, as
    `… WHERE rowid > ? ORDER BY rowid LIMIT ?`. Ends early where rowids do not rise: a damaged
    table may give its rows in no order, and the same ones for ever. Raises `DatabaseError`.
    """
    before, last = -(2**63) - 1, -(2**63)
    while last > before:
        rows = connection.execute(query, (last, size)).fetchall()
        if not rows:
            return
        before, last = last, max(int(str(row[0])) for row in rows)
        yield rows

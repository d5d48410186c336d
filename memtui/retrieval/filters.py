"""Which rows of the index a query's filters and quoted phrases let through."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memtui.retrieval.connection import Connection
from memtui.retrieval.file_filter import FileFilter
from memtui.retrieval.legs import import_numpy
from memtui.retrieval.phrases import phrase_match
from memtui.retrieval.query import Filters, Query

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_REMEMBERED = 32


@dataclass(frozen=True, slots=True, eq=False)
class AllowedRows:
    """The chunk rows among which the legs choose."""

    rowids: NDArray[np.int64]
    """Ascending, read-only."""

    def __len__(self) -> int:
        return len(self.rowids)

    def holds(self, rowids: Sequence[int]) -> list[bool]:
        """Tell of each row number whether it is among them."""
        import numpy as np

        inside: list[bool] = np.isin(np.array(rowids, dtype=np.int64), self.rowids).tolist()
        return inside


class RowFilter:
    """Turns filters and required phrases into rows; belongs to one connection.

    The rows of the last filters are kept until another connection commits, since filters stay
    the same while words are being typed.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._known: OrderedDict[tuple[Filters, tuple[str, ...]], AllowedRows] = OrderedDict()
        self._version: tuple[int, int] | None = None

    def allowed(self, query: Query) -> AllowedRows | None:
        """Tell which chunk rows may be found; `None` when the query restricts nothing.

        Raises what SQLite raises.
        """
        if not query.filters and not query.phrases:
            return None
        self._forget_when_changed()
        key = (query.filters, query.phrases)
        rows = self._known.pop(key, None)
        if rows is None:
            import_numpy()
            rows = _allowed_rows(self._connection, query.filters, query.phrases)
        self._known[key] = rows
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return rows

    def _forget_when_changed(self) -> None:
        """Drop everything when rows may have changed, by this connection or by another."""
        others = self._connection.execute("PRAGMA data_version").fetchall()[0][0]
        own = self._connection.execute("SELECT total_changes()").fetchall()[0][0]
        if (others, own) != self._version:
            self._known.clear()
            self._version = (others, own)


def phrase_rows(connection: Connection, phrases: tuple[str, ...]) -> NDArray[np.int64]:
    """Find the chunk rows that hold every one of `phrases`, ascending."""
    import numpy as np

    match = phrase_match(phrases)
    if match is None:
        return np.empty(0, dtype=np.int64)
    sql = "SELECT rowid FROM chunks_fts WHERE chunks_fts MATCH ?"
    return _ascending(connection.execute(sql, (match,)).fetchall())


def _allowed_rows(
    connection: Connection, filters: Filters, phrases: tuple[str, ...]
) -> AllowedRows:
    import numpy as np

    rows: NDArray[np.int64] | None = None
    if filters:
        rows = _file_rows(connection, filters)
    if phrases:
        holding = phrase_rows(connection, phrases)
        rows = holding if rows is None else np.intersect1d(rows, holding, assume_unique=True)
    allowed = np.empty(0, dtype=np.int64) if rows is None else rows
    allowed.flags.writeable = False
    return AllowedRows(allowed)


def _file_rows(connection: Connection, filters: Filters) -> NDArray[np.int64]:
    test = FileFilter(filters)
    files = [
        file_id
        for file_id, path, source, day, mtime_ns in connection.execute(
            "SELECT id, path, source, day, mtime_ns FROM files"
        )
        if test.fits(path=path, source=source, day=day, mtime_ns=mtime_ns)
    ]
    # As text, so that any number of files is one statement and one parameter.
    listed = f"[{','.join(map(str, files))}]"
    sql = "SELECT id FROM chunks WHERE file_id IN (SELECT value FROM json_each(?))"
    return _ascending(connection.execute(sql, (listed,)).fetchall())


def _ascending(rows: list[tuple[int]]) -> NDArray[np.int64]:
    import numpy as np

    return np.sort(np.array([rowid for (rowid,) in rows], dtype=np.int64))

"""Whether a file fits the filters of a query: one rule for the index, the screens and commands."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from fnmatch import translate
from functools import lru_cache
from typing import TYPE_CHECKING

from memtui.retrieval.connection import Connection
from memtui.retrieval.legs import import_numpy
from memtui.retrieval.query import Filters, Query, phrase_match

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_WILD = re.compile(r"[*?\[]")


class FileFilter:
    """Filters made ready for many files; pure."""

    def __init__(self, filters: Filters) -> None:
        folded = [pattern.casefold() for pattern in filters.path_globs]
        self._parts = [pattern for pattern in folded if not _WILD.search(pattern)]
        # A path, or its end from a folder on.
        globs = [pattern for pattern in folded if _WILD.search(pattern)]
        self._globs = [re.compile(f"{translate(glob)}|{translate(f'*/{glob}')}") for glob in globs]
        self._sources = frozenset(source.casefold() for source in filters.sources)
        self._after, self._before = filters.after, filters.before

    def fits(self, *, path: str, source: str, day: date | str | None, mtime_ns: int) -> bool:
        """Tell whether a file takes part.

        `path` as the index stores it; `day` is the file's own, or its ISO form; a file without
        one is of the local day of `mtime_ns` (ns since the epoch). Letter case does not count.
        """
        if self._sources and source.casefold() not in self._sources:
            return False
        folded = path.casefold()
        fits_path = any(part in folded for part in self._parts) or any(
            glob.match(folded) for glob in self._globs
        )
        if (self._parts or self._globs) and not fits_path:
            return False
        if self._after is None and self._before is None:
            return True
        own = date.fromisoformat(day) if isinstance(day, str) and day else day
        if not isinstance(own, date):
            own = local_day(mtime_ns)
        late_enough = self._after is None or own >= self._after
        return late_enough and (self._before is None or own < self._before)


@lru_cache(maxsize=8)
def _ready(filters: Filters) -> FileFilter:
    return FileFilter(filters)


def fits(
    filters: Filters, *, path: str, source: str, day: date | str | None, mtime_ns: int
) -> bool:
    """Tell whether one file takes part in a query with these filters; see `FileFilter.fits`."""
    return _ready(filters).fits(path=path, source=source, day=day, mtime_ns=mtime_ns)


def local_day(mtime_ns: int) -> date:
    """The day of a file's last change, as a calendar here shows it."""
    try:
        return datetime.fromtimestamp(mtime_ns / 1e9).date()
    except (OverflowError, OSError, ValueError):
        # A file system may hold years that no calendar here has.
        return date.max if mtime_ns > 0 else date.min


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

    The rows of the last filters are kept until a row may have changed, since filters stay the same
    while words are being typed.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._last: tuple[object, AllowedRows] | None = None

    def allowed(self, query: Query) -> AllowedRows | None:
        """Tell which chunk rows may be found; `None` when the query restricts nothing.

        Raises what SQLite raises.
        """
        if not query.filters and not query.phrases:
            return None
        others = self._connection.execute("PRAGMA data_version").fetchall()[0][0]
        own = self._connection.execute("SELECT total_changes()").fetchall()[0][0]
        key = (query.filters, query.phrases, others, own)
        if self._last is None or self._last[0] != key:
            self._last = (key, self._read(query))
        return self._last[1]

    def _read(self, query: Query) -> AllowedRows:
        import_numpy()
        import numpy as np

        kinds: list[NDArray[np.int64]] = []
        if query.filters:
            test = FileFilter(query.filters)
            files = [
                file_id
                for file_id, path, source, day, mtime_ns in self._connection.execute(
                    "SELECT id, path, source, day, mtime_ns FROM files"
                )
                if test.fits(path=path, source=source, day=day, mtime_ns=mtime_ns)
            ]
            # As text, so that any number of files is one statement and one parameter.
            sql = "SELECT id FROM chunks WHERE file_id IN (SELECT value FROM json_each(?))"
            kinds.append(self._rows(sql, json.dumps(files)))
        if query.phrases:
            sql = "SELECT rowid FROM chunks_fts WHERE chunks_fts MATCH ?"
            kinds.append(self._rows(sql, phrase_match(query.phrases) or '""'))
        allowed = kinds[0]
        for others in kinds[1:]:
            allowed = np.intersect1d(allowed, others, assume_unique=True)
        allowed.flags.writeable = False
        return AllowedRows(allowed)

    def _rows(self, sql: str, value: str) -> NDArray[np.int64]:
        import numpy as np

        rows = self._connection.execute(sql, (value,)).fetchall()
        return np.sort(np.array([rowid for (rowid,) in rows], dtype=np.int64))

"""The filters of a query over another program's index, which knows none: a mask on its rows.

They are taken off the query before the program's own rule reads it, and both legs choose among the
files that fit. Without a filter nothing is masked, and the query is read as it stands.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from memtui.index.foreign import rows
from memtui.memory.dates import day_of_path
from memtui.retrieval.filters import fits
from memtui.retrieval.openclaw.tables import (
    DEFAULT_SOURCE,
    FileMask,
    SearchScope,
    file_key,
    finite,
    readable,
    text_of,
)
from memtui.retrieval.query import Filters

if TYPE_CHECKING:
    from memtui.index.foreign.opening import Fingerprint, Opened

_REMEMBERED: Final = 32
_MS: Final = 1_000_000
_LONGEST_TIME: Final = 1e15


class FileMasks:
    """The masks of the last filters, kept until the index changes; the engine thread's."""

    def __init__(self) -> None:
        self._stamp: tuple[Fingerprint, int | None] | None = None
        self._files: tuple[_File, ...] = ()
        self._known: OrderedDict[Filters, FileMask] = OrderedDict()

    def scope(self, opened: Opened, scope: SearchScope, filters: Filters) -> SearchScope:
        """A scope with the mask of some filters; itself without any. Raises what SQLite raises."""
        if not filters:
            return scope
        stamp = opened.fingerprint, rows.revision(opened.connection, opened.layout)
        if stamp != self._stamp:
            self._known.clear()
            self._files = tuple(_files(opened))
            self._stamp = stamp
        mask = self._known.pop(filters, None) or self._mask(opened, filters)
        self._known[filters] = mask
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return replace(scope, files=mask)

    def _mask(self, opened: Opened, filters: Filters) -> FileMask:
        fitting = {
            file.key
            for file in self._files
            if fits_file(filters, file.path, file.source, file.mtime_ns)
        }
        return FileMask(json.dumps(sorted(fitting)), _has_source(opened))


class _File(NamedTuple):
    """A file that a row names."""

    key: str
    path: str
    source: str
    mtime_ns: int


def fits_file(filters: Filters, path: str, source: str, mtime_ns: int) -> bool:
    """Whether a file takes part: a note is of the day in its name, anything else of its change."""
    day = day_of_path(path) if source == DEFAULT_SOURCE else None
    return fits(filters, path=path, source=source, day=day, mtime_ns=mtime_ns)


def excluding(filters: Filters, path: str, source: str, mtime_ns: int) -> Iterator[str]:
    """The filters that leave a file out, as they can be typed."""
    fields = (
        (Filters(sources=filters.sources), [f"source:{name}" for name in filters.sources]),
        (Filters(path_globs=filters.path_globs), [f"path:{glob}" for glob in filters.path_globs]),
        (Filters(after=filters.after), [f"after:{filters.after}"]),
        (Filters(before=filters.before), [f"before:{filters.before}"]),
    )
    for one, typed in fields:
        if one and not fits_file(one, path, source, mtime_ns):
            yield from typed


def stored_time(opened: Opened, path: str, source: str) -> int:
    """When a file changed last as the index says, in ns; 0 where it does not."""
    for row in rows.files(opened.connection, opened.layout, path):
        if row.source == source:
            return _nanoseconds(row.mtime)
    return 0


def _files(opened: Opened) -> Iterator[_File]:
    """Every file that a row of a text or path names; it may have no row of a file."""
    layout, has_source = opened.layout, _has_source(opened)
    held = rows.files(opened.connection, layout)
    times = {(row.path, row.source): _nanoseconds(row.mtime) for row in held}
    # Up to 2026.5 a full-text row whose chunk is gone still is a hit.
    for table in dict.fromkeys(filter(None, (layout.chunks, layout.fts, layout.paths_fts))):
        source = readable("source") if has_source else "NULL"
        key = file_key("source", has_source=has_source)
        sql = f"SELECT DISTINCT {key}, {readable('path')}, {source} FROM {table}"
        for name, stored_path, stored_source in opened.connection.execute(sql).fetchall():
            path, origin = text_of(stored_path) or "", text_of(stored_source) or DEFAULT_SOURCE
            yield _File(str(name), path, origin, times.get((path, origin), 0))


def _has_source(opened: Opened) -> bool:
    layout = opened.layout
    return layout.chunks_have_source and (layout.fts is None or layout.fts_has_source)


def _nanoseconds(milliseconds: object) -> int:
    value = finite(milliseconds)
    return int(value * _MS) if value is not None and abs(value) < _LONGEST_TIME else 0

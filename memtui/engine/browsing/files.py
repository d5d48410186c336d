"""Every file of a memory: what was found on disk against what the index holds."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any, Final

from memtui.engine.browsing.own_index import moment
from memtui.engine.browsing.shelf import never
from memtui.errors import Cancelled
from memtui.index.scan import KnownFile, plan_changes
from memtui.index.transcripts.discovery import SOURCE as SESSIONS
from memtui.memory.dates import day_of_path
from memtui.memory.discover import (
    MEMORY_FOLDER,
    ROOT_FILES,
    SOURCE,
    Discovery,
    Scope,
    absolute_extra,
)
from memtui.memory.paths import Glob, absolute_path, has_magic, stored_path
from memtui.model import Reason, SkippedFile
from memtui.model.browsing import FileState, MemoryFile
from memtui.model.conversations import TranscriptKind

if TYPE_CHECKING:
    from memtui.index.database import Connection

WORKSPACE: Final = "workspace"
NEXT_SYNC: Final = "the next sync takes it in"
_BROKEN: Final = frozenset({Reason.UNREADABLE, Reason.VANISHED})
_MOST_STATS: Final = 2000
_CHECK_EVERY: Final = 500


@dataclass(frozen=True, slots=True)
class IndexedFile:
    """A file as the index holds it."""

    known: KnownFile
    lines: int
    day: date | None
    chunks: int
    warnings: str
    """One line; empty when there is nothing to say."""


def indexed_files(connection: Connection) -> dict[str, IndexedFile]:
    """Read every file of memtui's own index, by path."""
    chunks = {
        int(str(file_id)): int(str(count))
        for file_id, count in connection.execute(
            "SELECT file_id, count(*) FROM chunks GROUP BY file_id"
        ).fetchall()
    }
    rows = connection.execute(
        "SELECT path, source, hash, size, mtime_ns, inode, seen_ns, id, lines, day, warnings "
        "FROM files"
    ).fetchall()
    return {str(row[0]): _indexed(row, chunks) for row in rows}


def _indexed(row: tuple[Any, ...], chunks: Mapping[int, int]) -> IndexedFile:
    *known, file_id, lines, day, warnings = row
    return IndexedFile(
        KnownFile(*known),
        lines,
        date.fromisoformat(day) if day else None,
        chunks.get(file_id, 0),
        "" if warnings == "[]" else _one_line(warnings),
    )


def _one_line(warnings: str) -> str:
    import json

    return "; ".join(str(warning) for warning in json.loads(warnings))


def joined(
    discovery: Discovery,
    held: Mapping[str, IndexedFile],
    *,
    places: Places,
    failed: Iterable[SkippedFile] = (),
    pending: Collection[str] = (),
    cancelled: Callable[[], bool] = never,
) -> list[MemoryFile]:
    """Put what was found and what is held together, by path.

    `failed` are the files that the last sync left out or could not read whole, `pending` those
    that are known to have changed. Raises `Cancelled`.
    """
    known = {path: row.known for path, row in held.items()}
    changed = frozenset(plan_changes(discovery.files, known).changed) | frozenset(pending)
    unread = {file.path: file for file in failed}
    files: dict[str, MemoryFile] = {}
    for number, found in enumerate(discovery.files):
        if number % _CHECK_EVERY == 0 and cancelled():
            raise Cancelled
        path, row = found.path, held.get(found.path)
        state, reason, detail = _standing(path, row, path in changed, unread.get(path))
        files[path] = MemoryFile(
            path=path,
            source=found.source,
            place=places.of(path, found.source, found.kind),
            state=state,
            size=found.size,
            changed=moment(found.mtime_ns),
            chunks=row.chunks if row is not None else 0,
            lines=row.lines if row is not None else 0,
            day=row.day if row is not None else day_of_path(path),
            reason=reason,
            detail=detail,
        )
    left_out = {file.path: file for file in discovery.skipped}
    for path, row in held.items():
        if path not in files:
            files[path] = _gone(path, row, left_out.pop(path, None), places)
    for number, skipped in enumerate(file for file in left_out.values() if file.path not in files):
        files[skipped.path] = _left_out(skipped, places, measured=number < _MOST_STATS)
    return [files[path] for path in sorted(files)]


def _standing(
    path: str, row: IndexedFile | None, changed: bool, unread: SkippedFile | None
) -> tuple[FileState, Reason, str]:
    if unread is not None and (row is None or changed):
        is_broken = unread.reason in _BROKEN
        state = FileState.ERROR if is_broken else FileState.NOT_INDEXED
        return state, unread.reason, unread.detail
    if row is None:
        return FileState.NOT_INDEXED, Reason.NOT_YET_INDEXED, NEXT_SYNC
    if changed:
        return FileState.CHANGED, Reason.STALE, f"changed since it was indexed; {NEXT_SYNC}"
    told = unread.detail if unread is not None else ""
    return FileState.CURRENT, Reason.OK, row.warnings or told


def _gone(path: str, row: IndexedFile, left_out: SkippedFile | None, places: Places) -> MemoryFile:
    """A file that the index still holds and discovery does not give any more."""
    state, reason, detail = FileState.STALE, Reason.VANISHED, "gone; the next sync drops it"
    if left_out is not None:
        reason, detail = left_out.reason, f"{left_out.detail}; the next sync drops it"
        if reason in _BROKEN:
            state, detail = FileState.ERROR, left_out.detail
    return MemoryFile(
        path=path,
        source=row.known.source,
        place=places.of(path, row.known.source),
        state=state,
        size=row.known.size,
        changed=moment(row.known.mtime_ns),
        chunks=row.chunks,
        lines=row.lines,
        day=row.day,
        reason=reason,
        detail=detail,
    )


def _left_out(skipped: SkippedFile, places: Places, *, measured: bool) -> MemoryFile:
    is_broken = skipped.reason in _BROKEN
    size, changed = places.measure(skipped.path) if measured else (None, 0)
    source = places.source_of(skipped.path)
    return MemoryFile(
        path=skipped.path,
        source=source,
        place=places.of(skipped.path, source),
        state=FileState.ERROR if is_broken else FileState.NOT_INDEXED,
        size=size,
        changed=moment(changed),
        reason=skipped.reason,
        detail=skipped.detail,
    )


class Places:
    """Under what a file is listed: the workspace, an extra path by its name, a source."""

    def __init__(
        self, scope: Scope, *, memory_layout: bool, transcripts: Collection[str] = ()
    ) -> None:
        """`transcripts`: the paths of those that were left out."""
        self._transcripts = transcripts
        self._root = os.path.abspath(scope.root)
        self._memory_layout = memory_layout
        self._extras = sorted(self._bases(scope), key=lambda base: -len(base[0]))

    def of(self, path: str, source: str, kind: str = "") -> str:
        """The place of a file, by its path as the index stores it; `kind` is a transcript's."""
        if source != SOURCE:
            program = path.partition("/")[0]
            return str(kind) or (program if program in set(TranscriptKind) else source)
        if self._is_own(path):
            return WORKSPACE
        for base, name in self._extras:
            if path == base or path.startswith(f"{base}/") or base == ".":
                return name
        return WORKSPACE

    def source_of(self, path: str) -> str:
        """The source that a file would be of, had it not been left out."""
        return SESSIONS if path in self._transcripts else SOURCE

    def measure(self, path: str) -> tuple[int | None, int]:
        """The size of a file in bytes and its time in ns; `None` and 0 for what is none."""
        try:
            state = os.lstat(absolute_path(path, self._root))
        except (OSError, ValueError):
            # What cannot be looked at has no size: its reason is told beside it.
            return None, 0
        return state.st_size, state.st_mtime_ns

    def _is_own(self, path: str) -> bool:
        if os.path.isabs(path) or path.startswith("../"):
            return False
        if not self._memory_layout:
            return True
        return path in ROOT_FILES or path.startswith(f"{MEMORY_FOLDER}/")

    def _bases(self, scope: Scope) -> Iterator[tuple[str, str]]:
        for extra in scope.extra_paths:
            if extra.strip():
                path = absolute_extra(extra, self._root)
                is_glob = has_magic(extra) and not os.path.lexists(path)
                base = Glob.parse(path).base if is_glob else path
                yield stored_path(base, self._root), extra.strip()

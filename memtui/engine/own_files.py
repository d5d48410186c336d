"""The files of a memory folder: on disk against the index, each file by itself, and its text."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any, Final

from memtui.engine.own_reading import moment
from memtui.engine.ports import FileStanding
from memtui.errors import Cancelled
from memtui.index.scan import KnownFile, known_file, plan_changes
from memtui.index.transcripts.discovery import SOURCE as SESSIONS
from memtui.index.transcripts.discovery import file_at, with_transcripts
from memtui.index.transcripts.scope import TranscriptScope
from memtui.memory.dates import day_of_path
from memtui.memory.discover import (
    MEMORY_FOLDER,
    ROOT_FILES,
    SOURCE,
    Discovery,
    Scope,
    absolute_extra,
    discover,
    is_memory,
    look_at,
)
from memtui.memory.documents import read_document, reason_of, split_lines
from memtui.memory.paths import Glob, absolute_path, has_magic, said, stored_path
from memtui.model import Numbers, Reason, SkippedFile, SourceFile
from memtui.model.browsing import FileState, MemoryFile
from memtui.model.conversations import TranscriptKind

if TYPE_CHECKING:
    from memtui.engine.own_index import OwnIndex
    from memtui.index.database import Connection

WORKSPACE: Final = "workspace"
NEXT_SYNC: Final = "the next sync takes it in"
_BROKEN: Final = frozenset({Reason.UNREADABLE, Reason.VANISHED})
_MOST_STATS: Final = 2000
_CHECK_EVERY: Final = 500


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file as the index holds it."""

    known: KnownFile
    lines: int
    day: date | None
    chunks: int
    warnings: str
    """One line; empty when there is nothing to say."""


def indexed_files(connection: Connection) -> dict[str, ListedFile]:
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


def _indexed(row: tuple[Any, ...], chunks: Mapping[int, int]) -> ListedFile:
    *known, file_id, lines, day, warnings = row
    return ListedFile(
        KnownFile(*known),
        lines,
        date.fromisoformat(day) if day else None,
        chunks.get(file_id, 0),
        "" if warnings == "[]" else _one_line(warnings),
    )


def _one_line(warnings: str) -> str:
    return "; ".join(str(warning) for warning in json.loads(warnings))


def join_files(
    discovery: Discovery,
    held: Mapping[str, ListedFile],
    *,
    places: Places,
    failed: Iterable[SkippedFile] = (),
    pending: Collection[str] = (),
    cancelled: Callable[[], bool],
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
        state, reason, detail = _listed_state(path, row, path in changed, unread.get(path))
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


def _listed_state(
    path: str, row: ListedFile | None, changed: bool, unread: SkippedFile | None
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


def _gone(path: str, row: ListedFile, left_out: SkippedFile | None, places: Places) -> MemoryFile:
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


def list_files(index: OwnIndex, cancelled: Callable[[], bool]) -> list[MemoryFile]:
    """Return every file that is found on disk or held by the index, by path."""
    notes = discover(index.scope, cancelled=cancelled)
    found = with_transcripts(notes, index.transcript_scope, cancelled=cancelled)
    held = index.read_rows(indexed_files) or {}
    if cancelled():
        raise Cancelled
    status = index.status()
    left_out = {file.path for file in found.skipped} - {file.path for file in notes.skipped}
    memory_layout = is_memory(index.root)
    places = Places(index.scope, memory_layout=memory_layout, transcripts=left_out)
    return join_files(
        found,
        held,
        places=places,
        failed=status.skipped,
        pending=status.pending,
        cancelled=cancelled,
    )


def source_of(index: OwnIndex, path: str) -> str | None:
    """Return the source of a file, by the index or else by its name."""
    held = index.read_rows(lambda connection: known_file(connection, path))
    if held is not None:
        return held.source
    return SESSIONS if ".jsonl" in path.rpartition("/")[2] else None


def standing_of(
    scope: Scope, path: str, known: KnownFile | None, transcripts: TranscriptScope
) -> FileStanding:
    """Look at one file; `known` is its row in the index, if there is one.

    Reads the file only where its state is not the one that was indexed. Any thread.
    """
    if known is not None and known.source == SESSIONS:
        return _transcript_standing(transcripts, known)
    found = look_at(scope, path)
    if not isinstance(found, SourceFile):
        reason = found.reason
        if known is not None and reason is Reason.NO_FILE:
            reason = Reason.VANISHED
        return FileStanding(found.path, reason, found.detail, _sizes(scope, path, reason))
    if known is not None and not plan_changes((found,), {found.path: known}).read:
        return FileStanding(found.path)
    try:
        document = read_document(found, max_bytes=scope.max_file_bytes)
    except OSError as error:
        return FileStanding(found.path, reason_of(error), said(error))
    if known is None or document.hash == known.hash:
        return FileStanding(found.path)
    change = "changed since it was indexed"
    lines = tuple(split_lines(document.text))
    return FileStanding(found.path, detail=change, stale=True, lines=lines)


def _transcript_standing(scope: TranscriptScope, known: KnownFile) -> FileStanding:
    """Compare by stat alone: a transcript that grew still says what was indexed of it."""
    file = file_at(scope, known.path)
    if file is None:
        return FileStanding(known.path, Reason.VANISHED, "the transcript is gone")
    if file.size < known.size or file.inode != known.inode:
        return FileStanding(known.path, detail="changed since it was indexed", stale=True)
    return FileStanding(known.path)


def _sizes(scope: Scope, path: str, reason: Reason) -> Numbers:
    if reason is not Reason.TOO_LARGE:
        return {}
    try:
        size = os.lstat(absolute_path(path, os.path.abspath(scope.root))).st_size
    except (OSError, ValueError):
        # Gone in the meantime: the limit alone still says why.
        return {"limit_bytes": scope.max_file_bytes}
    return {"bytes": size, "limit_bytes": scope.max_file_bytes}

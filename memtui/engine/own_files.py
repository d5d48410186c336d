"""The files of a memory folder: on disk against the index, each by itself, and its text."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterator
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Final

from memtui.engine.places import read_source
from memtui.engine.ports import Files, FileStanding, IndexedFile, SourceText, moment
from memtui.errors import Cancelled
from memtui.index.database import Connection
from memtui.index.index_rows import KnownFile, known_file, known_files, plan_changes
from memtui.index.transcripts.discovery import SOURCE as SESSIONS
from memtui.index.transcripts.discovery import file_at
from memtui.index.transcripts.reading import format_for
from memtui.index.transcripts.streams import open_stream
from memtui.memory.discover import (
    MEMORY_FOLDER,
    ROOT_FILES,
    SOURCE,
    Scope,
    absolute_extra,
    discover,
    is_memory,
    look_at,
)
from memtui.memory.documents import day_of_path, read_document, reason_of, split_lines
from memtui.memory.paths import Glob, absolute_path, has_magic, said, stored_path
from memtui.memory.transcripts.records import TranscriptFormat, parse_record
from memtui.memory.transcripts.stream import HashingStream, RawLine, raw_lines, text_of
from memtui.model import Document, Reason, SkippedFile, SourceFile
from memtui.model.browsing import FileState, MemoryFile
from memtui.model.conversations import TranscriptKind, Turn, TurnKind
from memtui.text.redact import redact, redact_spoken
from memtui.text.sanitize import safe_line, size_words

if TYPE_CHECKING:
    from memtui.engine.own_index import OwnIndex

WORKSPACE: Final = "workspace"
NEXT_SYNC: Final = "the next sync takes it in"
CHANGED: Final = "changed since it was indexed"
_BROKEN: Final = frozenset({Reason.UNREADABLE, Reason.VANISHED})
_LONGEST = 2000
_SHORTEST = 80
_MASKED = 1 << 16
_BUDGET = 16 * 2**20


class OwnFiles(Files):
    """The files of one memory; any thread."""

    def __init__(self, index: OwnIndex) -> None:
        self._index = index

    def entries(self, cancelled: Callable[[], bool]) -> list[MemoryFile]:
        scope = self._index.scope
        notes = discover(scope, cancelled=cancelled)
        discovery = self._index.transcripts.added_to(notes, cancelled=cancelled)
        rows = self._index.read_rows(known_files) or {}
        chunks = self._index.read_rows(_chunk_counts) or {}
        status = self._index.status()
        on_disk = {file.path: file for file in discovery.files}
        left_out = {file.path: file for file in discovery.skipped if file.path not in on_disk}
        # What the last sync left out or could not read whole, and what is known to have changed.
        unread = {file.path: file for file in status.skipped}
        changed = {*plan_changes(discovery.files, rows).changed, *status.pending}
        transcripts = left_out.keys() - {file.path for file in notes.skipped}
        place_of = _place_names(scope)
        files = []
        for path in sorted({*on_disk, *rows, *left_out}):
            if cancelled():
                raise Cancelled
            file, row, skipped = on_disk.get(path), rows.get(path), left_out.get(path)
            size: int | None
            if file is not None:
                size, mtime_ns, source = file.size, file.mtime_ns, file.source
                skipped = unread.get(path)
            elif row is not None:
                size, mtime_ns, source = row.size, row.mtime_ns, row.source
            else:
                source = SESSIONS if path in transcripts else SOURCE
                size, mtime_ns = _measure(scope, path)
            is_changed = file is not None and path in changed
            warnings = "; ".join(map(str, json.loads(row.warnings))) if row is not None else ""
            state, reason, detail = FileState.CURRENT, Reason.OK, warnings
            if skipped is not None and (row is None or file is None or is_changed):
                state = FileState.ERROR if skipped.reason in _BROKEN else FileState.NOT_INDEXED
                reason, detail = skipped.reason, skipped.detail
                if file is None and row is not None and state is not FileState.ERROR:
                    state, detail = FileState.STALE, f"{detail}; the next sync drops it"
            elif file is None:
                state, reason = FileState.STALE, Reason.VANISHED
                detail = "gone; the next sync drops it"
            elif row is None:
                state, reason, detail = FileState.NOT_INDEXED, Reason.NOT_YET_INDEXED, NEXT_SYNC
            elif is_changed:
                state, reason, detail = FileState.CHANGED, Reason.STALE, f"{CHANGED}; {NEXT_SYNC}"
            elif skipped is not None:
                detail = detail or skipped.detail
            day = date.fromisoformat(row.day) if row is not None and row.day else None
            if row is None and file is not None:
                day = day_of_path(path)
            files.append(
                MemoryFile(
                    path=path,
                    source=source,
                    place=place_of(path, source, file.kind if file is not None else ""),
                    state=state,
                    size=size,
                    changed=moment(mtime_ns),
                    chunks=chunks.get(path, 0),
                    lines=row.lines if row is not None else 0,
                    day=day,
                    reason=reason,
                    detail=detail,
                )
            )
        return files

    def documents(self, cancelled: Callable[[], bool]) -> Iterator[Document | SkippedFile]:
        scope = self._index.scope
        for file in discover(scope, cancelled=cancelled).files:
            if cancelled():
                raise Cancelled
            try:
                yield read_document(file, max_bytes=scope.max_file_bytes)
            except OSError as error:
                yield SkippedFile(file.path, reason_of(error), said(error))

    def path_of(self, path: str) -> Path | None:
        row = self._index.read_rows(lambda connection: known_file(connection, path))
        is_transcript = row.source == SESSIONS if row else ".jsonl" in path.rpartition("/")[2]
        if not is_transcript:
            return Path(absolute_path(path, str(self._index.root.absolute())))
        file = file_at(self._index.transcripts.scope, path)
        return file.absolute if file is not None and not file.session else None

    def standing(self, path: str, indexed: IndexedFile | None) -> FileStanding:
        """Look at one file; it is read only where its state is not the one that was indexed."""
        row: KnownFile | None = indexed.row if indexed is not None else None
        if row is not None and row.source == SESSIONS:
            file = file_at(self._index.transcripts.scope, row.path)
            if file is None:
                return FileStanding(row.path, Reason.VANISHED, "the transcript is gone")
            # One that grew still says what was indexed of it.
            is_stale = file.size < row.size or file.inode != row.inode
            return FileStanding(row.path, detail=CHANGED if is_stale else "", stale=is_stale)
        scope = self._index.scope
        note = look_at(scope, path)
        if not isinstance(note, SourceFile):
            reason, numbers = note.reason, dict[str, float | int | str | None]()
            if row is not None and reason is Reason.NO_FILE:
                reason = Reason.VANISHED
            if reason is Reason.TOO_LARGE:
                size = _measure(scope, path)[0]
                numbers = {"bytes": size} if size is not None else {}
                numbers["limit_bytes"] = scope.max_file_bytes
            return FileStanding(note.path, reason, note.detail, numbers)
        if row is not None and not plan_changes((note,), {note.path: row}).read:
            return FileStanding(note.path)
        try:
            document = read_document(note, max_bytes=scope.max_file_bytes)
        except OSError as error:
            return FileStanding(note.path, reason_of(error), said(error))
        if row is None or document.hash == row.hash:
            return FileStanding(note.path)
        lines = tuple(split_lines(document.text))
        return FileStanding(note.path, detail=CHANGED, stale=True, lines=lines)

    def source(self, path: str) -> SourceText:
        """Read a note or transcript; of one that is gone, what the index holds is shown.

        Credentials are masked in transcripts. The memory that this takes does not depend on how
        long a file or its lines are.
        """
        row = self._index.read_rows(lambda connection: known_file(connection, path))
        is_transcript = row is not None and row.source == SESSIONS
        file = None
        if is_transcript or row is None:
            file = file_at(self._index.transcripts.scope, path)
        if file is None and not is_transcript:
            note = self._index.read(lambda reading: reading.indexed_text(path))
            return read_source(self._index.root, path, *(note or (None, "")))
        why = "transcript gone"
        if file is not None:
            limit = self._index.transcripts.scope.max_line_bytes
            lines: list[str] = []
            used, problem = 0, ""
            try:
                form = format_for(file, limit=limit)
                with open_stream(file, limit=limit) as stream:
                    hashing = HashingStream(stream)
                    try:
                        for raw in raw_lines(hashing, limit=limit):
                            most = _LONGEST if used < _BUDGET else _SHORTEST
                            lines.append(_shown(raw, form)[:most])
                            used += len(lines[-1])
                    except OSError as error:
                        # What was read before a file broke is shown.
                        problem = said(error)
            except OSError as error:
                why = said(error)
            else:
                is_current = row is None or row.hash == hashing.digest()
                state, detail = ("current", "") if is_current else ("changed", CHANGED)
                return SourceText(path, lines or [""], state, hashing.digest(), problem or detail)
        indexed = self._index.read_rows(lambda connection: _indexed_lines(connection, path)) or []
        return SourceText(path, indexed, "gone", "", f"{why}; indexed text")

    def paths_on_disk(self) -> Collection[str]:
        discovery = discover(self._index.scope)
        on_disk = {file.path for file in discovery.files}
        return on_disk | {file.path for file in discovery.skipped}


def _chunk_counts(connection: Connection) -> dict[str, int]:
    """Count the chunks of each file."""
    rows = connection.execute(
        "SELECT f.path, c.number FROM (SELECT file_id, count(*) AS number FROM chunks "
        "GROUP BY file_id) c JOIN files f ON f.id = c.file_id"
    ).fetchall()
    return {str(path): int(str(count)) for path, count in rows}


def _measure(scope: Scope, path: str) -> tuple[int | None, int]:
    """Return the size of a file in bytes and its time in ns; `None` and 0 for what is none."""
    try:
        state = os.lstat(absolute_path(path, os.path.abspath(scope.root)))
    except (OSError, ValueError):
        # What cannot be looked at has no size: its reason is told beside it.
        return None, 0
    return state.st_size, state.st_mtime_ns


def _place_names(scope: Scope) -> Callable[[str, str, str], str]:
    """Return what tells under what a file is listed: the workspace, an extra path, a source.

    It takes the path of the file in the index, its source, and the kind of a transcript.
    """
    root, whole_folder = os.path.abspath(scope.root), not is_memory(scope.root)
    extras: list[tuple[str, str]] = []
    for extra in filter(str.strip, scope.extra_paths):
        path = absolute_extra(extra, root)
        is_glob = has_magic(extra) and not os.path.lexists(path)
        extras.append(
            (stored_path(Glob.parse(path).base if is_glob else path, root), extra.strip())
        )
    # Of paths inside each other the innermost counts.
    extras.sort(key=lambda extra: -len(extra[0]))

    def name(path: str, source: str, kind: str) -> str:
        if source != SOURCE:
            program = path.partition("/")[0]
            return str(kind) or (program if program in set(TranscriptKind) else source)
        is_below = not os.path.isabs(path) and not path.startswith("../")
        is_note = path in ROOT_FILES or path.startswith(f"{MEMORY_FOLDER}/")
        if is_below and (is_note or whole_folder):
            return WORKSPACE
        for base, extra in extras:
            if path == base or path.startswith(f"{base}/") or base == ".":
                return extra
        return WORKSPACE

    return name


# --- the text of a file ---------------------------------------------------------------------------

_MARKS = {TurnKind.RESET: "— a new conversation —", TurnKind.COMPACTION: "— compacted —"}


def _indexed_lines(connection: Connection, path: str) -> list[str]:
    """Return what the index holds of a transcript, each chunk at the line it begins with."""
    rows = connection.execute(
        "SELECT c.start_line, c.text FROM chunks c JOIN files f ON f.id = c.file_id "
        "WHERE f.path = ? ORDER BY c.start_line, c.id",
        (path,),
    ).fetchall()
    lines: list[str] = []
    for start, text in rows:
        at = int(str(start))
        lines += [""] * (at - len(lines))
        shown = safe_line(redact_spoken(str(text)))
        lines[at - 1] = f"{lines[at - 1]} {shown}".strip()[:_LONGEST]
    return lines


def _shown(raw: RawLine, form: TranscriptFormat | None) -> str:
    if raw.data is None:
        return f"· a line of {size_words(raw.length)}, too long to be read"
    text = text_of(raw)
    if not text.strip():
        return ""
    try:
        record = parse_record(text)
    except ValueError:
        return f"· malformed: {size_words(raw.length)} that are no record"
    if form is None or not isinstance(record, dict):
        return f"· {size_words(raw.length)} of another kind"
    turns = form.turns(record, raw.number)
    return "  ".join(_turn_words(turn) for turn in turns) or f"· record {size_words(raw.length)}"


def _turn_words(turn: Turn) -> str:
    size = size_words(turn.size)
    tool = f" {safe_line(redact(turn.tool))}" if turn.tool else ""
    match turn.kind:
        case TurnKind.MESSAGE:
            said_by = "User" if turn.role == "user" else "Assistant"
            # Masked first, with far more than is shown: no credential may lose its mask to the cut.
            shown = safe_line(redact(turn.text[:_MASKED]))
            return f"{said_by}: {' '.join(shown.split())[:_LONGEST]}"
        case TurnKind.THINKING:
            return f"· thinking {size}"
        case TurnKind.TOOL_CALL:
            return f"· tool call{tool} {size}"
        case TurnKind.TOOL_RESULT:
            failed = " failed" if turn.is_error else ""
            return f"· tool result{tool}{failed} {size}"
        case TurnKind.RESET | TurnKind.COMPACTION:
            return _MARKS[turn.kind]
        case TurnKind.OTHER | TurnKind.MALFORMED:
            return f"· record {size}"

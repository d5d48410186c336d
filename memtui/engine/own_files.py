"""The files of a memory folder: on disk against the index, each file by itself, and its text."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Final

from memtui.engine.own_reading import indexed_note, moment
from memtui.engine.ports import FileStanding
from memtui.engine.source import SourceText, read_source
from memtui.errors import Cancelled
from memtui.index.reader import KnownFile, known_file, known_files, plan_changes
from memtui.index.transcripts.discovery import SOURCE as SESSIONS
from memtui.index.transcripts.discovery import file_at, with_transcripts
from memtui.index.transcripts.reading import format_for
from memtui.index.transcripts.streams import HashingStream, open_stream
from memtui.memory.dates import day_of_path
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
from memtui.memory.documents import read_document, reason_of, split_lines
from memtui.memory.paths import Glob, absolute_path, has_magic, said, stored_path
from memtui.memory.transcripts.records import TranscriptFormat, parse_record
from memtui.memory.transcripts.stream import RawLine, raw_lines, text_of
from memtui.model import Numbers, Reason, SkippedFile, SourceFile
from memtui.model.browsing import FileState, MemoryFile
from memtui.model.conversations import TranscriptKind, Turn, TurnKind
from memtui.text.redact import redact, redact_spoken
from memtui.text.sanitize import safe_line, size_words

if TYPE_CHECKING:
    from memtui.engine.own_index import OwnIndex
    from memtui.index.database import Connection

WORKSPACE: Final = "workspace"
NEXT_SYNC: Final = "the next sync takes it in"
CHANGED: Final = "changed since it was indexed"
_BROKEN: Final = frozenset({Reason.UNREADABLE, Reason.VANISHED})
_MOST_STATS: Final = 2000
_CHECK_EVERY: Final = 500


# --- the list -----------------------------------------------------------------------------------


def _indexed(connection: Connection) -> tuple[dict[str, KnownFile], dict[str, int]]:
    """Read every file of memtui's own index, and how many chunks each has, by path."""
    rows = connection.execute(
        "SELECT f.path, c.number FROM (SELECT file_id, count(*) AS number FROM chunks "
        "GROUP BY file_id) c JOIN files f ON f.id = c.file_id"
    ).fetchall()
    return known_files(connection), {str(path): int(str(count)) for path, count in rows}


def list_files(index: OwnIndex, cancelled: Callable[[], bool]) -> list[MemoryFile]:
    """Return every file that is on disk or in the index, by path; raises `Cancelled`."""
    notes = discover(index.scope, cancelled=cancelled)
    discovery = with_transcripts(notes, index.transcript_scope, cancelled=cancelled)
    rows, chunks = index.read_rows(_indexed) or ({}, {})
    status = index.status()
    on_disk = {file.path: file for file in discovery.files}
    left_out = {file.path: file for file in discovery.skipped if file.path not in on_disk}
    # What the last sync left out or could not read whole, and what is known to have changed.
    unread = {file.path: file for file in status.skipped}
    changed = {*plan_changes(discovery.files, rows).changed, *status.pending}
    transcripts = left_out.keys() - {file.path for file in notes.skipped}
    places, measured = _Places(index.scope), set(list(left_out)[:_MOST_STATS])
    files = []
    for number, path in enumerate(sorted({*on_disk, *rows, *left_out})):
        if number % _CHECK_EVERY == 0 and cancelled():
            raise Cancelled
        file, row = on_disk.get(path), rows.get(path)
        size: int | None
        if file is not None:
            size, mtime_ns, source = file.size, file.mtime_ns, file.source
            state = _state(path, row, path in changed, unread.get(path))
        elif row is not None:
            size, mtime_ns, source = row.size, row.mtime_ns, row.source
            state = _state_of_gone(left_out.get(path))
        else:
            skipped = left_out[path]
            size, mtime_ns = places.measure(path) if path in measured else (None, 0)
            source = SESSIONS if path in transcripts else SOURCE
            is_broken = skipped.reason in _BROKEN
            state = FileState.ERROR if is_broken else FileState.NOT_INDEXED, *_why(skipped)
        own_day = row.day if row is not None else None
        files.append(
            MemoryFile(
                path=path,
                source=source,
                place=places.of(path, source, file.kind if file is not None else ""),
                state=state[0],
                size=size,
                changed=moment(mtime_ns),
                chunks=chunks.get(path, 0),
                lines=row.lines if row is not None else 0,
                day=date.fromisoformat(own_day) if own_day else _day_of(path, file, row),
                reason=state[1],
                detail=state[2],
            )
        )
    return files


def _day_of(path: str, file: SourceFile | None, row: KnownFile | None) -> date | None:
    """Return the day that the name of a file tells which is not indexed yet."""
    return day_of_path(path) if file is not None and row is None else None


def _why(skipped: SkippedFile) -> tuple[Reason, str]:
    return skipped.reason, skipped.detail


def _state(
    path: str, row: KnownFile | None, changed: bool, unread: SkippedFile | None
) -> tuple[FileState, Reason, str]:
    """Return how a file on disk and its row agree."""
    if unread is not None and (row is None or changed):
        is_broken = unread.reason in _BROKEN
        return FileState.ERROR if is_broken else FileState.NOT_INDEXED, *_why(unread)
    if row is None:
        return FileState.NOT_INDEXED, Reason.NOT_YET_INDEXED, NEXT_SYNC
    if changed:
        return FileState.CHANGED, Reason.STALE, f"{CHANGED}; {NEXT_SYNC}"
    warnings = "; ".join(str(warning) for warning in json.loads(row.warnings))
    return FileState.CURRENT, Reason.OK, warnings or (unread.detail if unread else "")


def _state_of_gone(left_out: SkippedFile | None) -> tuple[FileState, Reason, str]:
    """Return how a file is that the index still holds and discovery does not give any more."""
    if left_out is None:
        return FileState.STALE, Reason.VANISHED, "gone; the next sync drops it"
    if left_out.reason in _BROKEN:
        return FileState.ERROR, *_why(left_out)
    return FileState.STALE, left_out.reason, f"{left_out.detail}; the next sync drops it"


class _Places:
    """Under what a file is listed: the workspace, an extra path by its name, a source."""

    def __init__(self, scope: Scope) -> None:
        self._root = os.path.abspath(scope.root)
        self._is_memory = is_memory(scope.root)
        self._extras: list[tuple[str, str]] = []
        for extra in filter(str.strip, scope.extra_paths):
            path = absolute_extra(extra, self._root)
            is_glob = has_magic(extra) and not os.path.lexists(path)
            base = Glob.parse(path).base if is_glob else path
            self._extras.append((stored_path(base, self._root), extra.strip()))
        # Of paths inside each other the innermost counts.
        self._extras.sort(key=lambda extra: -len(extra[0]))

    def of(self, path: str, source: str, kind: str = "") -> str:
        """Return the place of a file, by its path in the index; `kind` is that of a transcript."""
        if source != SOURCE:
            program = path.partition("/")[0]
            return str(kind) or (program if program in set(TranscriptKind) else source)
        if not os.path.isabs(path) and not path.startswith("../"):
            in_memory = path in ROOT_FILES or path.startswith(f"{MEMORY_FOLDER}/")
            if in_memory or not self._is_memory:
                return WORKSPACE
        for base, name in self._extras:
            if path == base or path.startswith(f"{base}/") or base == ".":
                return name
        return WORKSPACE

    def measure(self, path: str) -> tuple[int | None, int]:
        """Return the size of a file in bytes and its time in ns; `None` and 0 for what is none."""
        try:
            state = os.lstat(absolute_path(path, self._root))
        except (OSError, ValueError):
            # What cannot be looked at has no size: its reason is told beside it.
            return None, 0
        return state.st_size, state.st_mtime_ns


# --- one file -----------------------------------------------------------------------------------


def path_of(index: OwnIndex, path: str) -> Path | None:
    """Return where a note or a transcript is; `None` for what is no file of its own."""
    row = index.read_rows(lambda connection: known_file(connection, path))
    is_transcript = row.source == SESSIONS if row else ".jsonl" in path.rpartition("/")[2]
    if not is_transcript:
        return Path(absolute_path(path, str(index.root.absolute())))
    file = file_at(index.transcript_scope, path)
    return file.absolute if file is not None and not file.session else None


def standing_of(index: OwnIndex, path: str, known: KnownFile | None) -> FileStanding:
    """Look at one file; `known` is its row in the index, if there is one.

    Reads the file only where its state is not the one that was indexed. Any thread.
    """
    if known is not None and known.source == SESSIONS:
        file = file_at(index.transcript_scope, known.path)
        if file is None:
            return FileStanding(known.path, Reason.VANISHED, "the transcript is gone")
        # One that grew still says what was indexed of it.
        is_stale = file.size < known.size or file.inode != known.inode
        return FileStanding(known.path, detail=CHANGED if is_stale else "", stale=is_stale)
    scope = index.scope
    note = look_at(scope, path)
    if not isinstance(note, SourceFile):
        reason = note.reason
        if known is not None and reason is Reason.NO_FILE:
            reason = Reason.VANISHED
        return FileStanding(note.path, reason, note.detail, _sizes(scope, path, reason))
    if known is not None and not plan_changes((note,), {note.path: known}).read:
        return FileStanding(note.path)
    try:
        document = read_document(note, max_bytes=scope.max_file_bytes)
    except OSError as error:
        return FileStanding(note.path, reason_of(error), said(error))
    if known is None or document.hash == known.hash:
        return FileStanding(note.path)
    lines = tuple(split_lines(document.text))
    return FileStanding(note.path, detail=CHANGED, stale=True, lines=lines)


def _sizes(scope: Scope, path: str, reason: Reason) -> Numbers:
    if reason is not Reason.TOO_LARGE:
        return {}
    try:
        size = os.lstat(absolute_path(path, os.path.abspath(scope.root))).st_size
    except (OSError, ValueError):
        # Gone in the meantime: the limit alone still says why.
        return {"limit_bytes": scope.max_file_bytes}
    return {"bytes": size, "limit_bytes": scope.max_file_bytes}


# --- the text -----------------------------------------------------------------------------------

_LONGEST = 2000
_SHORTEST = 80
_MASKED = 1 << 16
_BUDGET = 16 * 2**20
_MARKS = {TurnKind.RESET: "— a new conversation —", TurnKind.COMPACTION: "— compacted —"}


def own_source(index: OwnIndex, path: str) -> SourceText:
    """Read a note or transcript and say whether it is still what was indexed.

    Line N of a transcript stands for line N of its file, in one readable line with credentials
    masked; what the index holds is shown of one that is gone. The memory that this takes does not
    depend on how long it or its lines are.
    """
    known = index.read_rows(lambda connection: known_file(connection, path))
    is_transcript = known is not None and known.source == SESSIONS
    file = file_at(index.transcript_scope, path) if is_transcript or known is None else None
    if file is None and not is_transcript:
        note = index.read_rows(lambda connection: indexed_note(connection, path))
        return read_source(index.root, path, *(note or (None, "")))
    why = "transcript gone"
    if file is not None:
        limit = index.transcript_scope.max_line_bytes
        try:
            form = format_for(file, limit=limit)
            with open_stream(file, limit=limit) as stream:
                hashing = HashingStream(stream)
                lines, problem = _lines(hashing, form, limit)
        except OSError as error:
            why = said(error)
        else:
            is_current = known is None or known.hash == hashing.digest()
            state, detail = ("current", "") if is_current else ("changed", CHANGED)
            return SourceText(path, lines or [""], state, hashing.digest(), problem or detail)
    indexed = index.read_rows(lambda connection: _indexed_lines(connection, path)) or []
    return SourceText(path, indexed, "gone", "", f"{why}; indexed text")


def _lines(
    hashing: HashingStream, form: TranscriptFormat | None, limit: int
) -> tuple[list[str], str]:
    """Return the readable lines, and why there are no more when the file cannot be read on."""
    lines: list[str] = []
    used = 0
    try:
        for raw in raw_lines(hashing, limit=limit):
            lines.append(_shown(raw, form)[: _LONGEST if used < _BUDGET else _SHORTEST])
            used += len(lines[-1])
    except OSError as error:
        return lines, said(error)
    return lines, ""


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

"""The files of a memory folder: on disk against the index, each file by itself, and its text."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from memtui.engine.own_reading import indexed_note, moment
from memtui.engine.ports import FileStanding
from memtui.engine.source import SourceText, read_source
from memtui.errors import Cancelled
from memtui.index.reader import KnownFile, known_file, plan_changes
from memtui.index.transcripts.discovery import SOURCE as SESSIONS
from memtui.index.transcripts.discovery import file_at, with_transcripts
from memtui.index.transcripts.reading import format_for
from memtui.index.transcripts.scope import TranscriptScope
from memtui.index.transcripts.streams import HashingStream, open_stream
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
from memtui.memory.transcripts.records import TranscriptFormat, parse_record
from memtui.memory.transcripts.stream import MAX_LINE_BYTES, RawLine, raw_lines, text_of
from memtui.model import Numbers, Reason, SkippedFile, SourceFile
from memtui.model.browsing import FileState, MemoryFile
from memtui.model.conversations import TranscriptKind, Turn, TurnKind
from memtui.text.redact import redact, redact_spoken
from memtui.text.sanitize import safe_line
from memtui.text.sizes import size_words

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


T = TypeVar("T")

_LONGEST = 2000
_SHORTEST = 80
_MASKED = 1 << 16
_BUDGET = 16 * 2**20
_MARKS = {TurnKind.RESET: "— a new conversation —", TurnKind.COMPACTION: "— compacted —"}


class IndexReader(Protocol):
    """Reads the index on the engine thread."""

    def __call__(self, read: Callable[[Connection], T], /) -> T | None:
        """Return what `read` returns; `None` when there is no index yet."""


def own_source(root: Path, scope: TranscriptScope, path: str, read: IndexReader) -> SourceText:
    """Read a note or transcript and say whether it is still what was indexed.

    Line N of a transcript stands for line N of its file, in one readable line. `read` reads the
    index, and returns `None` when there is none.
    """
    known = read(lambda connection: known_file(connection, path))
    is_transcript = known is not None and known.source == SESSIONS
    if is_transcript or known is None:
        file = file_at(scope, path)
        if file is not None or is_transcript:
            return transcript_source(
                path,
                file,
                known,
                lambda: read(lambda connection: indexed_lines(connection, path)) or (),
                limit=scope.max_line_bytes,
            )
    text_hash, text = read(lambda connection: indexed_note(connection, path)) or (None, "")
    return read_source(root, path, text_hash, text)


def transcript_source(
    path: str,
    file: SourceFile | None,
    known: KnownFile | None,
    indexed: Callable[[], Sequence[str]],
    *,
    limit: int = MAX_LINE_BYTES,
) -> SourceText:
    """Read a transcript, in memory that does not depend on how long it or its lines are.

    `known` is its row in the index, `None` when it has none; what `indexed` gives is shown of one
    that is gone. Credentials are masked.
    """
    if file is None:
        return SourceText(path, list(indexed()), "gone", "", "transcript gone; indexed text")
    try:
        form = format_for(file, limit=limit)
        with open_stream(file, limit=limit) as stream:
            hashing = HashingStream(stream)
            lines, problem = _lines(hashing, form, limit)
    except OSError as error:
        return SourceText(path, list(indexed()), "gone", "", f"{said(error)}; indexed text")
    is_current = known is None or known.hash == hashing.digest()
    state, detail = ("current", "") if is_current else ("changed", "changed since it was indexed")
    return SourceText(path, lines or [""], state, hashing.digest(), problem or detail)


def _lines(
    hashing: HashingStream, form: TranscriptFormat | None, limit: int
) -> tuple[list[str], str]:
    """The readable lines, and why there are no more of them when the file cannot be read on."""
    lines: list[str] = []
    used = 0
    try:
        for raw in raw_lines(hashing, limit=limit):
            lines.append(_shown(raw, form)[: _LONGEST if used < _BUDGET else _SHORTEST])
            used += len(lines[-1])
    except OSError as error:
        return lines, said(error)
    return lines, ""


def indexed_lines(connection: Connection, path: str) -> tuple[str, ...]:
    """What the index holds of a transcript, each chunk at the line of the file it begins with."""
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
    return tuple(lines)


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

"""The transcripts that OpenClaw would index: files by name, or rows of the agent's database."""

from __future__ import annotations

import json
import os
import stat
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from memtui.errors import Cancelled
from memtui.index.foreign.findings import Code, counted, finding, listed, of_things
from memtui.index.foreign.notes import Counts, Found, Why, as_stored, missing, moment
from memtui.index.foreign.rows import FileRow
from memtui.memory.transcripts import openclaw_files
from memtui.memory.transcripts.openclaw_files import ARCHIVES, REGISTRY, RULES, file_kind, is_listed
from memtui.model.status import FileState, FileTruth, Finding, IndexGeneration
from memtui.settings.openclaw import known_release

if TYPE_CHECKING:
    from memtui.index.foreign.opening import Opened

SESSIONS: Final = "sessions"
"""The source of the transcripts, and the name of their folder."""
DELTA_BYTES: Final = 100_000
"""What the program lets pile up before it indexes a transcript again."""
_EVENTS: Final = "transcript_events"
_RECENT_S: Final = 86_400.0
_TURN_MS: Final = 60_000.0
"""How far the last event of a turn may lie behind the time that the program keeps of it."""
_EARLIEST_MS: Final = 1e11


@dataclass(frozen=True, slots=True)
class Sessions:
    """The transcripts that count, by the last part of their stored path."""

    found: dict[str, Found]
    unregistered: tuple[str, ...] = ()
    """Transcripts whose session the program's own list does not name."""


def session_id(name: str, release: str) -> str | None:
    """The session of a transcript's file name; `None`: the program does not index such a file."""
    if not is_listed(name, RULES[f"openclaw-{known_release(release)}"]):
        return None
    return openclaw_files.session_id(name) or name.removesuffix(".jsonl")


def sessions_folder(opened: Opened, agent: str) -> Path:
    """Where the transcripts of an agent are when its database is at the usual place."""
    if opened.layout.generation is IndexGeneration.SIDECAR:
        return opened.real.parent.parent / "agents" / agent / SESSIONS
    return opened.real.parent.parent / SESSIONS


def list_sessions(
    opened: Opened,
    folder: Path | None,
    release: str,
    *,
    cancelled: Callable[[], bool] | None = None,
) -> Sessions | None:
    """List the transcripts that count; `None` when there is no place to count them.

    From 2026.9 on they are rows of the agent's database, and files only when archived.
    """
    in_rows = _in_rows(opened) if known_release(release) == "2026.9" else None
    in_files = _in_files(folder, release, cancelled) if folder is not None else None
    if in_rows is not None:
        archived = in_files or {}
        archived = {name: file for name, file in archived.items() if file_kind(name) in ARCHIVES}
        return Sessions(archived | in_rows)
    if in_files is None or folder is None:
        return None
    registered = _registered(folder)
    unregistered: tuple[str, ...] = ()
    if registered is not None:
        unregistered = tuple(
            name
            for name in in_files
            if name.endswith(".jsonl") and name.removesuffix(".jsonl") not in registered
        )
    return Sessions(in_files, unregistered)


def _in_files(
    folder: Path, release: str, cancelled: Callable[[], bool] | None
) -> dict[str, Found] | None:
    files: dict[str, Found] = {}
    try:
        with os.scandir(folder) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if cancelled is not None and cancelled():
                    raise Cancelled
                if session_id(entry.name, release) is None:
                    continue
                state = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(state.st_mode):
                    name = as_stored(entry.name)
                    files[name] = Found(
                        f"{SESSIONS}/{name}",
                        entry.path,
                        "the agent's transcripts",
                        state.st_size,
                        state.st_mtime_ns / 1e6,
                    )
    except OSError:
        # No such folder, or none that may be listed: the report says that it cannot be counted.
        return None
    return files


def _in_rows(opened: Opened) -> dict[str, Found] | None:
    """Transcripts of the database; `size` is the number of the last event, not bytes."""
    columns = opened.connection.execute(
        "SELECT count(*) FROM pragma_table_info(?)"
        " WHERE name IN ('session_id', 'seq', 'created_at')",
        (_EVENTS,),
    ).fetchall()[0][0]
    if columns != 3:
        return None
    rows = opened.connection.execute(
        f"SELECT session_id, max(created_at), max(seq) FROM {_EVENTS} GROUP BY 1 ORDER BY 1"
    ).fetchall()
    files: dict[str, Found] = {}
    for session, changed, last in rows:
        name = f"{session}.jsonl"
        size = last if isinstance(last, int) else 0
        time = float(changed) if isinstance(changed, int | float) else 0.0
        files[name] = Found(f"{SESSIONS}/{name}", "", "the agent's database", size, time)
    return files


def _registered(folder: Path) -> frozenset[str] | None:
    try:
        entries = json.loads((folder / REGISTRY).read_text("utf-8", "replace"))
    except (OSError, ValueError, RecursionError):
        # Without a readable list nothing can be said about what it lacks.
        return None
    if not isinstance(entries, dict):
        return None
    values = [entry for entry in entries.values() if isinstance(entry, dict)]
    return frozenset(str(entry["sessionId"]) for entry in values if "sessionId" in entry)


def compare_sessions(
    rows: Iterable[FileRow],
    sessions: Sessions,
    chunks: Counts,
    *,
    enabled: bool,
    delta_bytes: float,
    now: datetime,
) -> tuple[tuple[FileTruth, ...], list[Finding]]:
    """Compare transcripts with their rows, by file name; what is to be said about them.

    Their hash is that of the cleaned conversation and cannot be told from the file: a transcript
    only grows, so its size (from 2026.9 on the time of its last event) decides.
    """
    by_name = {row.path.rpartition("/")[2]: row for row in rows}
    behind: dict[str, int] = {}
    """How many bytes of a transcript are not indexed, by path."""
    files: list[FileTruth] = []
    for name, row in by_name.items():
        file = sessions.found.get(name)
        state, reason = _verdict(row, file, enabled)
        if file is not None:
            behind[row.path] = file.size - row.size if file.absolute else 0
        count = chunks.get((row.path, row.source), 0)
        on_disk = moment(file.mtime_ms) if file is not None else None
        in_index = moment(row.mtime)
        files.append(FileTruth(row.path, row.source, state, reason, count, on_disk, in_index))
    for name, file in sessions.found.items():
        if name not in by_name:
            behind[file.path] = file.size
            files.append(missing(file, SESSIONS, enabled=enabled))

    def is_waiting(truth: FileTruth) -> bool:
        """Whether a transcript is merely waiting for the next sync."""
        if truth.on_disk is None or behind.get(truth.path, 0) >= delta_bytes:
            return False
        return now.timestamp() - truth.on_disk.timestamp() < _RECENT_S

    findings = _findings(files, sessions, behind, is_waiting) if enabled else _off(files)
    return tuple(sorted(files, key=lambda truth: (truth.path, truth.state))), findings


def _verdict(row: FileRow, file: Found | None, enabled: bool) -> tuple[FileState, str]:
    if not enabled:
        return FileState.ORPHAN, Why.SOURCE_OFF.value
    if file is None:
        return FileState.ORPHAN, "its transcript is gone"
    if not file.absolute:
        # The time of a row is that of the session, or the number of its last event.
        is_time = row.mtime >= _EARLIEST_MS
        newer = file.mtime_ms > row.mtime + _TURN_MS if is_time else file.size > row.mtime
        if newer:
            return FileState.STALE, "events were added since it was indexed"
        return FileState.CURRENT, "no event since it was indexed"
    grown = file.size - row.size
    if grown:
        change = f"grew by {grown:,} bytes" if grown > 0 else f"shrank by {-grown:,} bytes"
        return FileState.STALE, f"{change} since it was indexed"
    return FileState.CURRENT, "same size as indexed; its hash cannot be told from the file"


def _off(files: list[FileTruth]) -> list[Finding]:
    kept = [file.path for file in files if file.state is FileState.ORPHAN]
    skipped = [file.path for file in files if file.state is FileState.SKIPPED]
    findings = []
    if skipped:
        text = f"{counted(len(skipped), 'transcript')} not searched: sessions are not a source"
        findings.append(finding(Code.SESSIONS_DISABLED, text, skipped))
    if kept:
        text = f"{counted(len(kept), 'indexed transcript')} kept although sessions are not a source"
        findings.append(finding(Code.SESSIONS_ORPHANED, text, kept))
    return findings


def _findings(
    files: list[FileTruth],
    sessions: Sessions,
    behind: dict[str, int],
    is_waiting: Callable[[FileTruth], bool],
) -> list[Finding]:
    pending: list[str] = []
    paths: dict[FileState, list[str]] = defaultdict(list)
    for file in files:
        if file.state in {FileState.NEVER_INDEXED, FileState.STALE} and is_waiting(file):
            pending.append(f"{file.path} (+{behind.get(file.path, 0):,} bytes)")
        else:
            paths[file.state].append(file.path)
    never, stale = paths[FileState.NEVER_INDEXED], paths[FileState.STALE]
    findings: list[Finding] = []
    if never:
        total = counted(len(sessions.found), "transcript")
        text = f"{len(never):,} of {total} not in the index: {listed(never)}"
        findings.append(finding(Code.SESSIONS_NEVER_INDEXED, text, never))
    added = sum(behind.get(path, 0) for path in stale)
    text = f"changed since indexed ({added:+,} bytes)"
    findings += of_things(Code.SESSIONS_STALE, stale, "transcript", text)
    gone = paths[FileState.ORPHAN]
    findings += of_things(Code.SESSIONS_ORPHANED, gone, "indexed transcript", "no longer there")
    text = "waiting for the next sync"
    findings += of_things(Code.SESSIONS_PENDING, pending, "recent transcript", text)
    return findings + of_things(
        Code.SESSIONS_UNREGISTERED, sessions.unregistered, "transcript", "not in sessions.json"
    )

"""The transcripts that OpenClaw would index: files by name, or rows of the agent's database."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from memtui.errors import Cancelled
from memtui.index.foreign.discovery import Found, Why, as_stored
from memtui.index.foreign.drift import Counts, moment
from memtui.index.foreign.findings import Code, counted, finding, listed
from memtui.index.foreign.rows import FileRow
from memtui.memory.transcripts import openclaw_files
from memtui.memory.transcripts.openclaw_files import ARCHIVES, REGISTRY, RULES, file_kind, is_listed
from memtui.model.status import FileState, FileTruth, Finding, IndexGeneration
from memtui.settings.openclaw import known_release

if TYPE_CHECKING:
    from memtui.index.foreign.opening import Opened


SOURCE: Final = "sessions"
_EVENTS: Final = "transcript_events"


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
        return opened.real.parent.parent / "agents" / agent / SOURCE
    return opened.real.parent.parent / SOURCE


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
    if in_files is None and in_rows is None:
        return None
    files = in_files if in_files is not None else {}
    if in_rows is not None:
        files = {name: file for name, file in files.items() if file_kind(name) in ARCHIVES}
    registered = _registered(folder) if folder is not None and in_rows is None else None
    unregistered: tuple[str, ...] = ()
    if registered is not None:
        unregistered = tuple(
            name
            for name in files
            if name.endswith(".jsonl") and name.removesuffix(".jsonl") not in registered
        )
    return Sessions(files | (in_rows or {}), unregistered)


def _in_files(
    folder: Path, release: str, cancelled: Callable[[], bool] | None
) -> dict[str, Found] | None:
    found: dict[str, Found] = {}
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
                    found[name] = Found(
                        f"{SOURCE}/{name}",
                        entry.path,
                        "the agent's transcripts",
                        state.st_size,
                        state.st_mtime_ns / 1e6,
                    )
    except OSError:
        # No such folder, or none that may be listed: the report says that it cannot be counted.
        return None
    return found


def _in_rows(opened: Opened) -> dict[str, Found] | None:
    """Transcripts of the database; `size` is the number of the last event, not bytes."""
    known = opened.connection.execute(
        "SELECT count(*) FROM pragma_table_info(?)"
        " WHERE name IN ('session_id', 'seq', 'created_at')",
        (_EVENTS,),
    ).fetchall()[0][0]
    if known != 3:
        return None
    rows = opened.connection.execute(
        f"SELECT session_id, max(created_at), max(seq) FROM {_EVENTS} GROUP BY 1 ORDER BY 1"
    ).fetchall()
    found: dict[str, Found] = {}
    for session, changed, last in rows:
        name = f"{session}.jsonl"
        found[name] = Found(
            f"{SOURCE}/{name}",
            "",
            "the agent's database",
            last if isinstance(last, int) else 0,
            float(changed) if isinstance(changed, int | float) else 0.0,
        )
    return found


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


DELTA_BYTES: Final = 100_000
"""What the program lets pile up before it indexes a transcript again."""
_RECENT_MS: Final = 86_400_000.0
_TURN_MS: Final = 60_000.0
"""How far the last event of a turn may lie behind the time that the program keeps of it."""
_EARLIEST_MS: Final = 1e11


@dataclass(frozen=True, slots=True)
class SessionTruth:
    """The transcripts one by one, and what is to be said about them."""

    files: tuple[FileTruth, ...]
    findings: tuple[Finding, ...]


def compare_sessions(
    rows: Iterable[FileRow],
    sessions: Sessions,
    chunks: Counts,
    *,
    enabled: bool,
    delta_bytes: float,
    now: datetime,
) -> SessionTruth:
    """Compare transcripts with their rows, by file name.

    Their hash is that of the cleaned conversation and cannot be told from the file: a transcript
    only grows, so its size (from 2026.9 on the time of its last event) decides.
    """
    by_name = {row.path.rpartition("/")[2]: row for row in rows}
    files: list[FileTruth] = []
    pending: list[tuple[str, int]] = []
    waiting = _Waiting(now.timestamp() * 1000, delta_bytes)
    for name, row in by_name.items():
        found = sessions.found.get(name)
        truth = _judged(row, found, chunks.get((row.path, row.source), 0), enabled)
        if truth.state is FileState.STALE and found is not None:
            pending.append((truth.path, _grown(found, row)))
        files.append(truth)
    for name, found in sessions.found.items():
        if name not in by_name:
            files.append(_missing(found, enabled))
    findings = _findings(files, sessions, dict(pending), waiting) if enabled else _off(files)
    if enabled and sessions.unregistered:
        names = sessions.unregistered
        text = f"{counted(len(names), 'transcript')} not in sessions.json: {listed(names)}"
        findings.append(finding(Code.SESSIONS_UNREGISTERED, text, names))
    ordered = tuple(sorted(files, key=lambda truth: (truth.path, truth.state)))
    return SessionTruth(ordered, tuple(findings))


@dataclass(frozen=True, slots=True)
class _Waiting:
    """When a transcript is merely waiting for the next sync."""

    now_ms: float
    delta_bytes: float

    def holds(self, changed: datetime | None, grown: int) -> bool:
        if changed is None or grown >= self.delta_bytes:
            return False
        return self.now_ms - changed.timestamp() * 1000 < _RECENT_MS


def _grown(found: Found, row: FileRow) -> int:
    return found.size - row.size if found.absolute else 0


def _has_newer_events(found: Found, row: FileRow) -> bool:
    """Rows of a database: the time is that of the session, or the number of its last event."""
    if row.mtime < _EARLIEST_MS:
        return found.size > row.mtime
    return found.mtime_ms > row.mtime + _TURN_MS


def _judged(row: FileRow, found: Found | None, chunks: int, enabled: bool) -> FileTruth:
    state, reason = FileState.CURRENT, "same size as indexed; its hash cannot be told from the file"
    if not enabled:
        state, reason = FileState.ORPHAN, Why.SOURCE_OFF.value
    elif found is None:
        state, reason = FileState.ORPHAN, "its transcript is gone"
    elif not found.absolute:
        reason = "no event since it was indexed"
        if _has_newer_events(found, row):
            state, reason = FileState.STALE, "events were added since it was indexed"
    elif found.size != row.size:
        grown = _grown(found, row)
        state = FileState.STALE
        reason = f"grew by {grown:,} bytes" if grown > 0 else f"shrank by {-grown:,} bytes"
        reason += " since it was indexed"
    return FileTruth(
        row.path,
        row.source,
        state,
        reason,
        chunks,
        moment(found.mtime_ms) if found is not None else None,
        moment(row.mtime),
    )


def _missing(found: Found, enabled: bool) -> FileTruth:
    state = FileState.NEVER_INDEXED if enabled else FileState.SKIPPED
    reason = f"no row in the index; from {found.root}" if enabled else Why.SOURCE_OFF.value
    return FileTruth(found.path, SOURCE, state, reason, on_disk=moment(found.mtime_ms))


def _off(files: list[FileTruth]) -> list[Finding]:
    kept = [file.path for file in files if file.state is FileState.ORPHAN]
    skipped = [file.path for file in files if file.state is FileState.SKIPPED]
    found: list[Finding] = []
    if skipped:
        text = f"{counted(len(skipped), 'transcript')} not searched: sessions are not a source"
        found.append(finding(Code.SESSIONS_DISABLED, text, skipped))
    if kept:
        text = f"{counted(len(kept), 'indexed transcript')} kept although sessions are not a source"
        found.append(finding(Code.SESSIONS_ORPHANED, text, kept))
    return found


def _findings(
    files: list[FileTruth], sessions: Sessions, grown: dict[str, int], waiting: _Waiting
) -> list[Finding]:
    sizes = {file.path: file.size for file in sessions.found.values()}
    pending: list[str] = []
    by_state: dict[FileState, list[str]] = {}
    for file in files:
        is_new = file.state is FileState.NEVER_INDEXED
        behind = sizes.get(file.path, 0) if is_new else grown.get(file.path, 0)
        recent = is_new or file.state is FileState.STALE
        if recent and waiting.holds(file.on_disk, behind):
            pending.append(f"{file.path} (+{behind:,} bytes)")
        else:
            by_state.setdefault(file.state, []).append(file.path)
    found: list[Finding] = []
    total = len(sessions.found)
    never = by_state.get(FileState.NEVER_INDEXED, [])
    if never:
        text = f"{len(never):,} of {counted(total, 'transcript')} not in the index: {listed(never)}"
        found.append(finding(Code.SESSIONS_NEVER_INDEXED, text, never))
    stale = by_state.get(FileState.STALE, [])
    if stale:
        added = sum(grown.get(path, 0) for path in stale)
        text = f"{counted(len(stale), 'transcript')} changed since indexed ({added:+,} bytes):"
        found.append(finding(Code.SESSIONS_STALE, f"{text} {listed(stale)}", stale))
    gone = by_state.get(FileState.ORPHAN, [])
    if gone:
        text = f"{counted(len(gone), 'indexed transcript')} no longer there: {listed(gone)}"
        found.append(finding(Code.SESSIONS_ORPHANED, text, gone))
    if pending:
        text = f"{counted(len(pending), 'recent transcript')} waiting for the next sync"
        found.append(finding(Code.SESSIONS_PENDING, f"{text}: {listed(pending)}", pending))
    return found

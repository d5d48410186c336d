"""The transcripts that OpenClaw would index: files by name, or rows of the agent's database."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from memtui.errors import Cancelled
from memtui.index.foreign.discovery import Found, as_stored
from memtui.memory.transcripts import names
from memtui.memory.transcripts.names import REGISTRY
from memtui.memory.transcripts.rules import RULES
from memtui.model.status import IndexGeneration
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
    if not names.is_listed(name, RULES[f"openclaw-{known_release(release)}"]):
        return None
    return names.session_id(name) or name.removesuffix(".jsonl")


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
        files = {
            name: file for name, file in files.items() if names.file_kind(name) in names.ARCHIVES
        }
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

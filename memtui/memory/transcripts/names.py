"""OpenClaw's session files by name: which are listed, which are read, how they are stored."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Final

from memtui.memory.transcripts.rules import TranscriptRules

SESSIONS: Final = "sessions"
REGISTRY: Final = "sessions.json"

_ENDING: Final = ".jsonl"
_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_CHECKPOINT = re.compile(rf".+\.checkpoint\.{_UUID}\.jsonl", re.IGNORECASE | re.ASCII)
_ARCHIVE = re.compile(
    r"(?P<id>.+)\.jsonl\.(?P<why>reset|deleted|bak)\."
    r"\d{4}-\d{2}-\d{2}T\d{2}-\d{2}-\d{2}(?:\.\d{3})?Z(?:\.zst)?",
    re.ASCII,
)


class FileKind(StrEnum):
    """What a file in a sessions folder is."""

    TRANSCRIPT = "transcript"
    RESET = "reset"
    """Put away when the conversation was started again."""
    DELETED = "deleted"
    """Put away when the conversation was deleted."""
    BACKUP = "bak"
    """A copy made before a repair."""
    CHECKPOINT = "checkpoint"
    """A copy made before a compaction."""
    TRAJECTORY = "trajectory"
    """What the runtime did, not what was said."""
    REGISTRY = "registry"
    OTHER = "other"


ARCHIVES: Final = frozenset({FileKind.RESET, FileKind.DELETED})


def file_kind(name: str) -> FileKind:
    """Tell what a file of a sessions folder is by its name; a name with a folder is none of it."""
    if "/" in name or "\\" in name:
        return FileKind.OTHER
    if name == REGISTRY:
        return FileKind.REGISTRY
    if name.endswith((".trajectory.jsonl", ".trajectory-path.json")):
        return FileKind.TRAJECTORY
    if _CHECKPOINT.fullmatch(name):
        return FileKind.CHECKPOINT
    if name.endswith(_ENDING) and name != _ENDING:
        return FileKind.TRANSCRIPT
    archive = _ARCHIVE.fullmatch(name)
    return FileKind(archive["why"]) if archive else FileKind.OTHER


def session_id(name: str) -> str | None:
    """The session that a transcript or an archive holds; `None` for every other file."""
    kind = file_kind(name)
    if kind is FileKind.TRANSCRIPT:
        return name.removesuffix(_ENDING)
    archive = _ARCHIVE.fullmatch(name) if kind in ARCHIVES else None
    return archive["id"] if archive else None


def is_listed(name: str, rules: TranscriptRules) -> bool:
    """Whether a release has the file in its index, if only with no text."""
    kind = file_kind(name)
    if rules.lists_every_jsonl:
        return "/" not in name and name.endswith(_ENDING)
    return kind is FileKind.TRANSCRIPT or kind in ARCHIVES


def is_read(name: str, rules: TranscriptRules) -> bool:
    """Whether a release indexes what the file says; 2026.4 lists archives and leaves them empty."""
    return is_listed(name, rules) and (rules.reads_archives or file_kind(name) not in ARCHIVES)


def listed(names: Iterable[str], rules: TranscriptRules) -> list[str]:
    """The names of a sessions folder that a release has in its index, in the order given."""
    return [name for name in names if is_listed(name, rules)]


def stored_path(file: str, rules: TranscriptRules) -> str:
    """The path of a session file as the index stores it: `sessions/<file>`.

    From 2026.9 on `sessions/<agent>/<file>`, where the file is in `agents/<agent>/sessions`.
    """
    parts = PurePosixPath(file.replace("\\", "/")).parts
    match parts:
        case (*_, "agents", agent, "sessions", name) if rules.stores_agent:
            return f"{SESSIONS}/{agent}/{name}"
    return f"{SESSIONS}/{parts[-1]}"

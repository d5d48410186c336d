"""OpenClaw's session files by name, and the rules by which each release reads them."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

from msgspec import Struct

from memtui.memory.transcripts.generated import WRITTEN


class TranscriptRules(Struct, frozen=True):
    """The rules of one release (OPENCLAW.md section 8)."""

    profile: str
    lists_every_jsonl: bool = False
    """Takes every `.jsonl` file, and nothing else."""
    reads_archives: bool = True
    """Indexes conversations that were reset or deleted; else they are listed with no text."""
    stores_agent: bool = False
    """Has the agent's name in the stored path."""
    drops_generated: bool = True
    """Leaves out what the program wrote into the conversation, and wraps long lines."""
    drops_whole_turns: bool = False
    """Leaves out heartbeats and recalled memory with all that answers them."""
    cuts_at_reset: bool = False
    """No chunk holds lines from both sides of the last reset of a conversation."""
    masks_more: bool = True
    """Masks what the release masks and more; else exactly what it masks."""


RULES: Final = {name: TranscriptRules(name, **rules) for name, rules in WRITTEN["rules"].items()}
"""Those of every release, oldest first."""

REGISTRY: Final = "sessions.json"

_ENDING: Final = ".jsonl"
_NAMES: Final = WRITTEN["openclaw"]["names"]
_CHECKPOINT = re.compile(_NAMES["checkpoint"], re.IGNORECASE | re.ASCII)
_ARCHIVE = re.compile(_NAMES["archive"], re.ASCII)


class FileKind(StrEnum):
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
    """The acts of the runtime, no talk."""
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
    """Return the session that a transcript or an archive holds; `None` for other files."""
    kind = file_kind(name)
    return name.rpartition(_ENDING)[0] if kind is FileKind.TRANSCRIPT or kind in ARCHIVES else None


def is_listed(name: str, rules: TranscriptRules) -> bool:
    """Return whether a release has the file in its index, if only with no text."""
    if rules.lists_every_jsonl:
        return "/" not in name and name.endswith(_ENDING)
    return session_id(name) is not None


def is_read(name: str, rules: TranscriptRules) -> bool:
    """Return whether a release indexes the text; 2026.4 lists archives and leaves them empty."""
    return is_listed(name, rules) and (rules.reads_archives or file_kind(name) not in ARCHIVES)

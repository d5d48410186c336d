"""Telling an emptied memory folder from one whose file system is not mounted."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from memtui.errors import WorkspaceNotFound
from memtui.index.database import number
from memtui.index.transcripts.discovery import SOURCE as TRANSCRIPTS
from memtui.memory.discover import Discovery

if TYPE_CHECKING:
    from memtui.index.database import Connection

KEY = "root"
"""Which folder the notes were found in; a key of the index's meta table."""


def identity_of_root(root: Path) -> str:
    """Tell a folder from another one that takes its place, by device and inode; empty without."""
    try:
        found = os.stat(root)
    except OSError:
        return ""
    return f"{found.st_dev}:{found.st_ino}"


def is_another_root(meta: Mapping[str, str], root: Path) -> bool:
    """Whether the folder is known not to be the one whose notes the index holds."""
    return meta.get(KEY, "") not in ("", identity_of_root(root))


def require_mounted(
    connection: Connection, meta: Mapping[str, str], root: Path, discovery: Discovery
) -> None:
    """Raise `WorkspaceNotFound` where another, empty folder is in the place of the indexed one.

    The folder on which a file system was mounted is there without it, and has no notes.
    """
    is_empty = all(file.source == TRANSCRIPTS for file in discovery.files)
    if not is_empty or not is_another_root(meta, root):
        return
    if number(connection, "SELECT count(*) FROM files WHERE source <> ?", TRANSCRIPTS):
        raise WorkspaceNotFound(
            f"the memory folder {root} is empty and not the one that was indexed: not mounted?",
            hint="the index is kept until the notes are back; memtui index --force empties it",
        )

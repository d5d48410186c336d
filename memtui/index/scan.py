"""Compare the files with what the index knows of them, by their stat alone."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from memtui.errors import WorkspaceNotFound
from memtui.index.database import number
from memtui.index.transcripts.discovery import SOURCE as TRANSCRIPTS
from memtui.memory.discover import Discovery
from memtui.model import SourceFile

if TYPE_CHECKING:
    from memtui.index.database import Connection


# Within this time of a scan, a second write may leave size and modification time as they were.
RACY_NS = 2 * 10**9
_KNOWN = "SELECT path, source, hash, size, mtime_ns, inode, seen_ns, lines FROM files"


class KnownFile(NamedTuple):
    """What the index knows about a file: the stat it had, and when it was seen."""

    path: str
    source: str
    hash: str
    size: int
    mtime_ns: int
    inode: int
    seen_ns: int
    lines: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """What a scan says has to be done."""

    read: tuple[SourceFile, ...]
    """New files, files with another stat, and files written too close to the last scan."""
    changed: tuple[str, ...]
    """The paths in `read` that are new or have another stat."""
    removed: tuple[str, ...]


def known_files(connection: Connection) -> dict[str, KnownFile]:
    """Read what the index knows about its files, by path."""
    rows = connection.execute(_KNOWN).fetchall()
    return {str(row[0]): KnownFile._make(row) for row in rows}


def known_file(connection: Connection, path: str) -> KnownFile | None:
    """Read what the index knows about one file; `None` when it does not hold it."""
    rows = connection.execute(f"{_KNOWN} WHERE path = ?", (path,)).fetchall()
    return KnownFile._make(rows[0]) if rows else None


def plan_changes(
    files: Sequence[SourceFile], known: Mapping[str, KnownFile], unread: tuple[str, ...] = ()
) -> Plan:
    """Compare a scan with the index by stat alone; nothing is read.

    `unread` are beginnings of paths below which the scan could not look: nothing there is gone.
    """
    read = []
    changed = []
    for file in files:
        row = known.get(file.path)
        stat = (file.size, file.mtime_ns, file.inode, file.source)
        if row is None or stat != (row.size, row.mtime_ns, row.inode, row.source):
            read.append(file)
            changed.append(file.path)
        elif file.mtime_ns >= row.seen_ns - RACY_NS:
            read.append(file)
    here = {file.path for file in files}
    removed = tuple(
        sorted(path for path in known if path not in here and not path.startswith(unread))
    )
    return Plan(tuple(read), tuple(changed), removed)


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

"""Files that reindexing leaves beside a database: reported with their age, never touched."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from memtui.errors import MemtuiError
from memtui.index.foreign import rows
from memtui.index.foreign.opening import open_foreign

_LOCK: Final = ".reindex-lock.sqlite"
_SIDES: Final = ("-wal", "-shm", "-journal")


class LeftoverKind(StrEnum):
    """What a file beside a database is."""

    TEMPORARY = "temporary"
    """`<db>.tmp-<uuid>`: a full reindex up to 2026.5, under way or cut off."""
    BACKUP = "backup"
    """`<db>.backup-<uuid>`: the index before a full reindex, which was not removed."""
    SHADOW = "shadow"
    """`<db>.memory-reindex-<uuid>`, `memory-reindex-*.sqlite`: a rebuild since 2026.6."""
    LOCK = "lock"
    """`<db>.reindex-lock.sqlite`: searches wait for it, even when it is empty."""
    LOG = "log"
    """`-wal`, `-shm`, `-journal` of the database: it is open somewhere, or was not closed."""


_HOLDS_CHUNKS: Final = frozenset({LeftoverKind.TEMPORARY, LeftoverKind.BACKUP, LeftoverKind.SHADOW})


@dataclass(frozen=True, slots=True)
class Leftover:
    """A file beside a database; `size` in bytes, with the logs that belong to it."""

    path: Path
    kind: LeftoverKind
    size: int
    age_s: float
    """Seconds since it was last written to; 0 when that lies in the future."""
    chunks: int | None = None
    """Chunks in an index that was being built or replaced; `None`: not an index."""
    problem: str = ""
    """One line when it should be an index and cannot be read."""


def find_leftovers(database: Path, now: float) -> tuple[Leftover, ...]:
    """List what lies beside a database (links followed), by name.

    `now` is in seconds since the epoch. A log with content, or shared memory, is listed whether
    or not a program has the database open: from outside nobody can tell without touching it.
    Raises nothing: a folder that cannot be listed has no leftovers.
    """
    real = Path(os.path.realpath(database))
    try:
        names = os.listdir(real.parent)
    except OSError:
        return ()
    present = frozenset(names)
    found: list[Leftover] = []
    for name in sorted(present):
        kind = kind_of(name, real.name)
        if kind is not None:
            sides = () if kind is LeftoverKind.LOG else _sides(name, present)
            leftover = _leftover(real.parent / name, kind, sides, now)
            if leftover is not None:
                found.append(leftover)
    return tuple(found)


def kind_of(name: str, database: str) -> LeftoverKind | None:
    """Tell what a file name beside `database` means; `None`: nothing to report."""
    rest = name.removeprefix(database) if name.startswith(database) else ""
    if rest in _SIDES:
        return LeftoverKind.LOG
    if name.endswith(_SIDES):
        return None
    if rest == _LOCK or (name.startswith("memory-reindex") and name.endswith(_LOCK)):
        return LeftoverKind.LOCK
    if rest.startswith(".tmp-"):
        return LeftoverKind.TEMPORARY
    if rest.startswith(".backup-"):
        return LeftoverKind.BACKUP
    if rest.startswith(".memory-reindex-"):
        return LeftoverKind.SHADOW
    if name.startswith("memory-reindex-") and name.endswith(".sqlite"):
        return LeftoverKind.SHADOW
    return None


def _sides(name: str, present: frozenset[str]) -> tuple[str, ...]:
    return tuple(name + side for side in _SIDES if name + side in present)


def _leftover(path: Path, kind: LeftoverKind, sides: Iterable[str], now: float) -> Leftover | None:
    try:
        found = [os.lstat(path), *(os.lstat(path.with_name(side)) for side in sides)]
    except OSError:
        # Removed by its owner between the listing and here.
        return None
    if not stat.S_ISREG(found[0].st_mode):
        return None
    size = sum(item.st_size for item in found)
    if kind is LeftoverKind.LOG and size == 0:
        return None
    age = max(0.0, now - max(item.st_mtime for item in found))
    chunks, problem = _chunks_in(path) if kind in _HOLDS_CHUNKS else (None, "")
    return Leftover(path, kind, size, age, chunks, problem)


def _chunks_in(path: Path) -> tuple[int | None, str]:
    try:
        opened = open_foreign(path)
        try:
            with opened.errors():
                return sum(rows.chunk_counts(opened.connection, opened.layout).values()), ""
        finally:
            opened.close()
    except MemtuiError as error:
        return None, error.message

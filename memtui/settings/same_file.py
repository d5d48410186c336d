"""Noticing that a file which stays open is no longer the one under its name, or was cut."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple


class FileState(NamedTuple):
    """Which file it is, and how large, in bytes."""

    device: int
    inode: int
    size: int

    def continues(self, before: FileState) -> bool:
        """Whether this is the file of `before` and has all of it still."""
        return self[:2] == before[:2] and self.size >= before.size


NO_FILE = FileState(0, 0, 0)


def file_state(path: Path) -> FileState:
    """Look at a file; `NO_FILE` where there is none that can be looked at."""
    try:
        found = os.stat(path)
    except OSError:
        return NO_FILE
    return FileState(found.st_dev, found.st_ino, found.st_size)

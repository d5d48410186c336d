"""Folders that hold the text of notes or of queries: for their owner alone."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

_OTHERS = 0o077


def make_private(folder: Path) -> None:
    """Make a folder of mode 0700, with those above it; take what is in it away from others.

    Raises OSError when the folder cannot be made.
    """
    missing = [folder]
    while not missing[-1].parent.exists():
        missing.append(missing[-1].parent)
    for path in reversed(missing):
        path.mkdir(mode=0o700, exist_ok=True)
    narrow(folder)


def narrow(folder: Path) -> None:
    """Give a folder mode 0700 and all files below it 0600, where there is one.

    No right is added, no link is followed; what belongs to another user stays as it is.
    """
    if os.name == "nt":
        return
    # A file may be replaced or removed by another memtui while the folder is looked through.
    with suppress(FileNotFoundError, PermissionError):
        _narrow(folder, folder.stat().st_mode)
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    narrow(Path(entry.path))
                elif entry.is_file(follow_symlinks=False):
                    _narrow(entry, entry.stat().st_mode)


def _narrow(path: os.PathLike[str], mode: int) -> None:
    if mode & _OTHERS:
        with suppress(FileNotFoundError, PermissionError):
            os.chmod(path, stat.S_IMODE(mode) & ~_OTHERS)

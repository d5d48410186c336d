"""Small looks at files and links that discovery asks for."""

from __future__ import annotations

import os
import stat

from memtui.memory.paths import parts_below


def leads_to_folder(entry: os.DirEntry[str]) -> bool:
    """Whether a link leads to a folder that can be looked at."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def first_link(path: str, root: str) -> str | None:
    """Find the link that an absolute path is, or, below the root, leads through."""
    place = root
    for name in (parts_below(path, root) or ())[:-1]:
        place = os.path.join(place, name)
        if os.path.islink(place):
            return place
    return path if path != root and os.path.islink(path) else None


def link_target(path: str) -> str:
    """Say where a link leads."""
    try:
        return f"link to {os.readlink(path)}"
    except OSError as error:
        return f"link ({said(error)})"


def kind(mode: int) -> str:
    """Name what is no regular file."""
    kinds = {
        stat.S_IFIFO: "named pipe",
        stat.S_IFSOCK: "socket",
        stat.S_IFCHR: "character device",
        stat.S_IFBLK: "block device",
        stat.S_IFDIR: "folder",
    }
    return kinds.get(stat.S_IFMT(mode), "not a regular file")


def said(error: Exception) -> str:
    """What the operating system said, in lower case."""
    strerror = error.strerror if isinstance(error, OSError) else None
    return (strerror or str(error)).lower()

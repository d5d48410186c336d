"""The one normal form of a path of the settings, and the one judge of what is inside a folder."""

from __future__ import annotations

import os


def expand_path(text: str) -> str:
    """Take the blanks off both ends of a path of the settings, and expand `~`."""
    return os.path.expanduser(text.strip())


def absolute_setting(text: str, root: str) -> str:
    """Return the normal form of a path of the settings: expanded, absolute, without `..`."""
    return os.path.normpath(os.path.join(root, expand_path(text)))


def parts_below(path: str, folder: str) -> tuple[str, ...] | None:
    """Give the components of a path below a folder, by its name alone; `None` when it is not."""
    if path == folder:
        return ()
    prefix = folder if folder.endswith(os.sep) else folder + os.sep
    return tuple(path[len(prefix) :].split(os.sep)) if path.startswith(prefix) else None


def is_inside(path: str, folder: str) -> bool:
    """Tell whether a path leads now, through whatever links, into a folder."""
    try:
        return parts_below(os.path.realpath(path), os.path.realpath(folder)) is not None
    except (OSError, ValueError):
        return False


def stays_inside(text: str, root: str) -> bool:
    """Tell whether a path of the settings, or a glob, names only what is inside the root.

    One that comes back into the root through links outside of it does not: they may lead elsewhere
    by the time it is used. Links below the root are refused then. What is named outside is not
    looked at, as its owner would be told on a network.
    """
    path, folder = absolute_setting(text, root), os.path.abspath(root)
    return parts_below(path, folder) is not None and is_inside(path, folder)

"""Whether one path belongs to a memory, by discovery's own rules, and why not."""

from __future__ import annotations

import errno
import os
import stat

from memtui.memory.discover import Scope, discover, is_markdown
from memtui.memory.documents import reason_of
from memtui.memory.looks import kind, said
from memtui.memory.paths import absolute_path, stored_path
from memtui.model import Reason, SkippedFile, SourceFile

_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ})


def look_at(scope: Scope, path: str) -> SourceFile | SkippedFile:
    """Look at one path as `discover` would: only the folders that lead to it are listed.

    `path` is as the index stores paths: relative to the root, or absolute. What discovery passes
    over without a word is `NO_FILE`, `NOT_A_NOTE` or `OUTSIDE_ROOT`.
    """
    root = os.path.abspath(scope.root)
    place = absolute_path(path, root)
    name = stored_path(place, root)
    nothing = absent(place)
    if nothing is not None:
        return SkippedFile(name, *nothing)
    found = discover(scope, only=place)
    for file in found.files:
        if file.path == name:
            return file
    above = [skipped for skipped in found.skipped if _is_at_or_above(skipped.path, name)]
    if above:
        nearest = max(above, key=lambda skipped: len(skipped.path))
        return SkippedFile(name, nearest.reason, nearest.detail)
    real = os.path.realpath(place)
    for file in found.files:
        if os.path.realpath(file.absolute) == real:
            return SkippedFile(name, Reason.DUPLICATE_FILE, f"already found as {file.path}")
    return SkippedFile(name, *_passed_over(place))


def absent(place: str) -> tuple[Reason, str] | None:
    """Why nothing can be looked at there; `None` when something is there."""
    try:
        os.lstat(place)
    except ValueError as error:
        # A NUL in the name: no file can be called so.
        return Reason.NO_FILE, said(error)
    except OSError as error:
        is_absent = error.errno in _ABSENT
        return (Reason.NO_FILE if is_absent else reason_of(error)), said(error)
    return None


def _is_at_or_above(folder: str, name: str) -> bool:
    return folder in {".", name} or name.startswith(f"{folder}/")


def _passed_over(place: str) -> tuple[Reason, str]:
    try:
        mode = os.lstat(place).st_mode
    except OSError as error:
        return reason_of(error), said(error)
    if stat.S_ISDIR(mode):
        return Reason.NOT_A_NOTE, kind(mode)
    if not is_markdown(place):
        return Reason.NOT_A_NOTE, "its name does not end in .md or .markdown"
    return Reason.OUTSIDE_ROOT, "below no folder that belongs to the memory"

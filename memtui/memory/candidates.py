"""Telling by where a path is and what it is called whether it belongs to a memory."""

from __future__ import annotations

import os
import re
from pathlib import Path

from memtui.memory.discover import (
    MEMORY_FOLDER,
    ROOT_FILES,
    Scope,
    absolute_extra,
    is_markdown,
    is_memory,
    spellings,
)
from memtui.memory.paths import parts_below
from memtui.memory.patterns import Glob, has_magic, name_filter


def is_candidate(path: Path, scope: Scope) -> bool:
    """Tell cheaply whether a path, by where it is and what it is called, is one to be indexed.

    For file events: the file need not exist any more, and is not looked at.
    """
    return is_markdown(path.name) and _in_scope(path, scope, folder=False)


def may_contain(folder: Path, scope: Scope) -> bool:
    """Tell cheaply whether files to be indexed can lie below a folder; it need not exist."""
    return _in_scope(folder, scope, folder=True)


def _in_scope(path: Path, scope: Scope, *, folder: bool) -> bool:
    place = os.path.abspath(path)
    root = os.path.abspath(scope.root)
    ignored = name_filter(scope.ignore)
    marks = (os.path.join(root, ROOT_FILES[0]), os.path.join(root, MEMORY_FOLDER))
    memory = any(map(os.path.lexists, marks)) and is_memory(scope.root)
    for base in spellings(root):
        parts = parts_below(place, base)
        if parts is not None and _below_root(parts, ignored, memory=memory, folder=folder):
            return True
    extras = [extra for extra in scope.extra_paths if extra.strip()]
    return any(_below_extra(place, extra, root, ignored, folder=folder) for extra in extras)


def _below_root(
    parts: tuple[str, ...], ignored: re.Pattern[str], *, memory: bool, folder: bool
) -> bool:
    if not parts:
        return folder
    if len(parts) == 1 and parts[0] in (*ROOT_FILES, MEMORY_FOLDER):
        return True
    if memory and parts[0] != MEMORY_FOLDER:
        return False
    return not any(map(ignored.match, parts))


def _below_extra(
    place: str, extra: str, root: str, ignored: re.Pattern[str], *, folder: bool
) -> bool:
    path = absolute_extra(extra, root)
    glob = Glob.parse(path) if has_magic(extra) and not os.path.lexists(path) else Glob(path, ())
    for base in spellings(glob.base):
        parts = parts_below(place, base)
        if parts is None:
            if folder and parts_below(base, place) is not None:
                return True
            continue
        at = glob.start
        for name in parts:
            at = glob.step(at, name)
        if (glob.done(at) or (folder and at)) and not any(map(ignored.match, parts)):
            return True
    return False

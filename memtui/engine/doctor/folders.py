"""Looking at the folders that memtui writes to: there, writable, private, with room."""

from __future__ import annotations

import os
import shlex
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from memtui.engine.doctor.checks import Area, Check, fine, note, problem
from memtui.text.sizes import size_words

LEAST_FREE: Final = 100 * 10**6
"""Bytes below which the room is a problem: a generation of a large index does not fit."""

_AREA = Area.FOLDERS


def folder_checks(state: Path, data: Path, index: Path | None) -> Iterator[Check]:
    """Look at the state folder, at the folder of the indexes, and at that of one index."""
    yield folder_check("state", state)
    yield folder_check("data", data, private=False)
    if index is not None and index.is_dir():
        yield folder_check("index", index)


def folder_check(name: str, path: Path, *, private: bool = True) -> Check:
    """Look at one folder; one that is not there yet is judged by where it would be made.

    In a `private` one the text of notes, or what was searched for, can be read.
    """
    try:
        return _looked_at(name, path, private)
    except OSError as error:
        detail = f"{path} cannot be looked at: {error.strerror or type(error).__name__}"
        return problem(_AREA, name, detail, "check its permissions")


def _looked_at(name: str, path: Path, private: bool) -> Check:
    is_there = os.path.lexists(path)
    if is_there and not path.is_dir():
        return problem(_AREA, name, f"{path} is no folder", "move it away")
    nearest = path if is_there else _nearest(path)
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        hint = "give yourself the right to write there, or set another place"
        return problem(_AREA, name, f"{nearest} cannot be written", hint)
    free = shutil.disk_usage(nearest).free
    detail = f"{path}, {size_words(free)} free"
    if free < LEAST_FREE:
        return problem(_AREA, name, detail, "make room on this disk, or set another place")
    if not is_there:
        return fine(_AREA, name, f"{detail}; made when it is needed")
    if private and os.name == "posix" and stat.S_IMODE(path.stat().st_mode) & 0o077:
        hint = f"chmod 700 {shlex.quote(str(path))}"
        return note(_AREA, name, f"{detail}; others can read it", hint)
    return fine(_AREA, name, detail)


def _nearest(path: Path) -> Path:
    """The nearest folder above that is there."""
    return next((folder for folder in path.parents if os.path.lexists(folder)), path)

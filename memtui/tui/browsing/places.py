"""Where one can go from a file: filters that name it, files of the same day."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import date

from memtui.model import Chunk
from memtui.model.browsing import FileState, MemoryFile
from memtui.tui.browsing.weeks import moved

_WILD = re.compile(r"[*?\[]")


def path_filter(path: str) -> str:
    """The filter of a query that lets this file through and, of like named ones, few others."""
    value = path
    if '"' in path or any(ord(character) < 32 for character in path):
        value = re.sub(r'["\x00-\x1f]', "?", _WILD.sub(lambda match: f"[{match[0]}]", path))
    elif _WILD.search(path):
        value = _WILD.sub(lambda match: f"[{match[0]}]", path)
    quoted = f'"{value}"' if re.search(r"\s", value) else value
    return f"path:{quoted}"


def day_filter(day: date) -> str:
    """The filters of a query that let the files of one day through."""
    return f"after:{day} before:{moved(day, 1)}"


def same_day(files: Iterable[MemoryFile], file: MemoryFile) -> list[MemoryFile]:
    """The other files of the same day that can be shown, by path."""
    if file.day is None:
        return []
    others = [
        other
        for other in files
        if other.day == file.day and other.path != file.path and other.state is not FileState.ERROR
    ]
    return sorted(others, key=lambda other: other.path)


def chunk_at(chunks: Sequence[Chunk], line: int) -> int | None:
    """Which chunk a line is in: the last that begins before it; else the nearest one after."""
    if not chunks:
        return None
    inside = [place for place, chunk in enumerate(chunks) if chunk.start_line <= line]
    return inside[-1] if inside else 0

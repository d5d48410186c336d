"""Which files of the memory a typed filter lets through."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memtui.model.browsing import MemoryFile
from memtui.tui.browsing.tree import WORKSPACE


@dataclass(frozen=True, slots=True)
class Filtered:
    """The files that fit, and what of the filter could not be understood."""

    files: Sequence[MemoryFile]
    problems: tuple[str, ...] = ()


def filter_files(files: Sequence[MemoryFile], text: str) -> Filtered:
    """The files whose paths hold every word, and that fit `path:`, `source:`, `after:`, `before:`.

    The letter case does not count. The name of a place is looked at too, except for the one that
    most files are in.
    """
    if not text.strip():
        return Filtered(files)
    # Imported late: nothing of retrieval is needed for the first paint.
    from memtui.retrieval.filters import FileFilter
    from memtui.retrieval.query import parse_query

    query = parse_query(text, typing=True)
    words = [word.casefold() for word in query.text.split()]
    accepts = FileFilter(query.filters)
    kept = [
        file
        for file in files
        if _holds(file, words)
        and (
            not query.filters
            or accepts.fits(
                path=file.path, source=file.source, day=file.day, mtime_ns=_mtime_ns(file)
            )
        )
    ]
    return Filtered(kept, query.problems)


def _holds(file: MemoryFile, words: Sequence[str]) -> bool:
    if not words:
        return True
    place = "" if file.place == WORKSPACE else file.place
    text = f"{place} {file.path}".casefold()
    return all(word in text for word in words)


def _mtime_ns(file: MemoryFile) -> int:
    return int(file.changed.timestamp()) * 1_000_000_000 if file.changed is not None else 0

"""The files of a memory as a tree: filtered, by place and source, then by folder."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum

from memtui.model.browsing import FileState, MemoryFile
from memtui.retrieval.filters import FileFilter
from memtui.retrieval.query import parse_query

WORKSPACE = "workspace"
"""The place of the files below the folder that was opened."""
MOST_LEVELS = 32
"""Folders deeper than this are shown as one."""

_WORST = (FileState.ERROR, FileState.NOT_INDEXED, FileState.STALE, FileState.CHANGED)
_DIGITS = re.compile(r"(\d{1,18})", re.ASCII)
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class Sort(StrEnum):
    """The order of the files; all but `name` put the files of a place into one list."""

    NAME = "name"
    DATE = "date"
    """Newest first."""
    SIZE = "size"
    """Largest first."""
    CHUNKS = "chunks"
    """Most first."""
    RECALLS = "recalls"
    """Fewest first: what no query brings up; then files that have no chunk to bring up."""


@dataclass(frozen=True, slots=True)
class TreeLine:
    """A line of the tree: a folder, or a file."""

    id: str
    depth: int
    folder: Folder | None = None
    file: MemoryFile | None = None
    name: str = ""
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class Folder:
    """A place or a folder, and what is in it."""

    id: str
    name: str
    source: str
    """Of a place: what its files are; empty for a folder."""
    folders: tuple[Folder, ...]
    files: tuple[MemoryFile, ...]
    count: int
    """Files, those of the folders in it included."""
    chunks: int
    size: int
    """Bytes."""
    worst: FileState
    """The state of its files that wants most attention."""
    depth: int
    lines: tuple[TreeLine, ...]
    """The lines of its files."""


@dataclass(slots=True)
class _Node:
    folders: dict[str, _Node] = field(default_factory=dict)
    files: list[tuple[str, MemoryFile]] = field(default_factory=list)


def shown_path(file: MemoryFile) -> str:
    """The path below its place, where the place is a folder that it lies in."""
    place = file.place.rstrip("/") + "/"
    return file.path.removeprefix(place) if len(place) > 1 else file.path


def build_tree(
    files: Iterable[MemoryFile],
    sort: Sort = Sort.NAME,
    recalled: Mapping[str, int] | None = None,
) -> tuple[Folder, ...]:
    """Put files under their places; with `Sort.NAME` under their folders too.

    Folders with nothing but one folder in them are joined with it. `recalled`: how often the
    queries bring up each file, by path; without it `Sort.RECALLS` is by name.
    """
    keys = _Order(sort, recalled)
    places: dict[tuple[str, str], _Node] = {}
    for file in files:
        node = places.setdefault((file.place, file.source), _Node())
        *folders, name = _parts(shown_path(file)) if sort is Sort.NAME else [shown_path(file)]
        for part in folders:
            node = node.folders.setdefault(part, _Node())
        node.files.append((name, file))
    return tuple(
        _folder(node, place, f"{place}\0{source}", keys, 0, source)
        for (place, source), node in sorted(places.items(), key=lambda item: _place_key(*item[0]))
    )


def flatten(tree: Sequence[Folder], folded: Collection[str]) -> list[TreeLine]:
    """The lines of a tree from top to bottom, without what lies in folded folders."""
    lines: list[TreeLine] = []
    for place in tree:
        _add_lines(lines, place, folded)
    return lines


def all_folders(tree: Iterable[Folder]) -> Iterator[Folder]:
    """Every place and every folder."""
    for folder in tree:
        yield folder
        yield from all_folders(folder.folders)


def folders_around(tree: Iterable[Folder], path: str) -> tuple[str, ...]:
    """The ids of the folders that a file lies in, outermost first; empty for an unknown file."""
    for folder in tree:
        if any(file.path == path for file in folder.files):
            return (folder.id,)
        inner = folders_around(folder.folders, path)
        if inner:
            return (folder.id, *inner)
    return ()


def _parts(path: str) -> list[str]:
    parts = [part for part in path.split("/") if part] or [path]
    if path.startswith("/"):
        parts[0] = "/" + parts[0]
    if len(parts) > MOST_LEVELS:
        parts = [*parts[: MOST_LEVELS - 2], "/".join(parts[MOST_LEVELS - 2 : -1]), parts[-1]]
    return parts


def _place_key(place: str, source: str) -> tuple[int, str, str]:
    """The workspace first, then memory before sessions, then by name."""
    return (0 if place == WORKSPACE else 1 if source == "memory" else 2, place, source)


def _folder(
    node: _Node, name: str, id_: str, order: _Order, depth: int, source: str = ""
) -> Folder:
    while not source and not node.files and len(node.folders) == 1:
        ((only, inner),) = node.folders.items()
        name, id_, node = f"{name}/{only}", f"{id_}/{only}", inner
    folders = tuple(
        _folder(inner, part, f"{id_}/{part}", order, depth + 1)
        for part, inner in sorted(node.folders.items(), key=lambda item: natural(item[0]))
    )
    named = sorted(node.files, key=lambda pair: order.key(pair[0], pair[1]))
    files = tuple(file for _, file in named)
    states = {file.state for file in files} | {folder.worst for folder in folders}
    return Folder(
        id=id_,
        name=name,
        source=source,
        folders=folders,
        files=files,
        count=len(files) + sum(folder.count for folder in folders),
        chunks=sum(file.chunks for file in files) + sum(folder.chunks for folder in folders),
        size=sum(file.size or 0 for file in files) + sum(folder.size for folder in folders),
        worst=next((state for state in _WORST if state in states), FileState.CURRENT),
        depth=depth,
        lines=tuple(
            TreeLine(f"{file.source}\0{file.path}", depth + 1, file=file, name=file_name)
            for file_name, file in named
        ),
    )


def natural(name: str) -> tuple[tuple[int, str], ...]:
    """A key that sorts names by their letters, and numbers in them by their value."""
    pieces = _DIGITS.split(name.casefold())
    return tuple(
        (int(piece), "") if index % 2 else (-1, piece) for index, piece in enumerate(pieces)
    )


@dataclass(frozen=True, slots=True)
class _Order:
    sort: Sort
    recalled: Mapping[str, int] | None

    def key(self, name: str, file: MemoryFile) -> tuple[float, tuple[tuple[int, str], ...]]:
        """What a file is sorted by, smallest first."""
        first = 0.0
        if self.sort is Sort.DATE:
            first = -_moment(file)
        elif self.sort is Sort.SIZE:
            first = -(file.size or 0)
        elif self.sort is Sort.CHUNKS:
            first = -file.chunks
        elif self.sort is Sort.RECALLS and self.recalled is not None:
            first = self.recalled.get(file.path, 0) if file.chunks else math.inf
        return first, natural(name)


def _moment(file: MemoryFile) -> float:
    """The file's own day, else its last change, in seconds; far back without either."""
    if file.day is not None:
        return float(file.day.toordinal() * 86_400)
    when = file.changed or _LONG_AGO
    return float(when.toordinal() * 86_400 + when.hour * 3600 + when.minute * 60 + when.second)


def _add_lines(lines: list[TreeLine], folder: Folder, folded: Collection[str]) -> None:
    is_open = folder.id not in folded
    lines.append(TreeLine(folder.id, folder.depth, folder, name=folder.name, is_open=is_open))
    if is_open:
        lines.extend(folder.lines)
        for inner in folder.folders:
            _add_lines(lines, inner, folded)


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

"""The files of a memory as a tree: filtered, by place and source, then by folder."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from memtui.model.browsing import FileState, MemoryFile
from memtui.retrieval.query import FileFilter, parse_query

WORKSPACE = "workspace"
"""The place of the files below the folder that was opened."""
MOST_LEVELS = 32
"""Folders deeper than this are shown as one."""

_WORST = (FileState.ERROR, FileState.NOT_INDEXED, FileState.STALE, FileState.CHANGED)
_DIGITS = re.compile(r"(\d{1,18})", re.ASCII)


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
class Folder:
    """A place or a folder, and what is in it."""

    id: str
    name: str
    source: str
    """Of a place: what its files are; empty for a folder."""
    depth: int
    folders: tuple[Folder, ...]
    named: tuple[tuple[str, MemoryFile], ...]
    """Its own files, with the names that they have here."""
    count: int
    """Files, those of the folders in it included; so are the next two."""
    chunks: int
    size: int
    """Bytes."""
    worst: FileState
    """The state of its files that wants most attention."""


@dataclass(frozen=True, slots=True)
class TreeLine:
    """A line of the tree: a folder, or a file."""

    id: str
    depth: int
    name: str
    folder: Folder | None = None
    file: MemoryFile | None = None
    is_open: bool = False


@dataclass(slots=True)
class _Node:
    folders: dict[str, _Node] = field(default_factory=dict)
    files: list[tuple[str, MemoryFile]] = field(default_factory=list)


_Key = Callable[[tuple[str, MemoryFile]], tuple[float, tuple[tuple[int, str], ...]]]


def build_tree(
    files: Iterable[MemoryFile],
    sort: Sort = Sort.NAME,
    recalled: Mapping[str, int] | None = None,
) -> tuple[Folder, ...]:
    """Put files under their places; with `Sort.NAME` under their folders too.

    Folders with nothing but one folder in them are joined with it. `recalled`: how often the
    queries bring up each file, by path; without it `Sort.RECALLS` is by name.
    """

    def key(named: tuple[str, MemoryFile]) -> tuple[float, tuple[tuple[int, str], ...]]:
        return _number(named[1], sort, recalled), natural(named[0])

    places: dict[tuple[str, str], _Node] = {}
    for file in files:
        node = places.setdefault((file.place, file.source), _Node())
        place = file.place.rstrip("/") + "/"
        path = file.path.removeprefix(place) if len(place) > 1 else file.path
        *folders, name = _parts(path) if sort is Sort.NAME else [path]
        for part in folders:
            node = node.folders.setdefault(part, _Node())
        node.files.append((name, file))

    def rank(at: tuple[str, str]) -> tuple[int, str, str]:
        # The workspace first, then memory before sessions, then by name.
        place, source = at
        return (0 if place == WORKSPACE else 1 if source == "memory" else 2, place, source)

    return tuple(
        _folder(places[at], at[0], f"{at[0]}\0{at[1]}", key, 0, at[1])
        for at in sorted(places, key=rank)
    )


def _number(file: MemoryFile, sort: Sort, recalled: Mapping[str, int] | None) -> float:
    """Return what a file is sorted by before its name, the smallest first."""
    if sort is Sort.DATE:
        # The file's own day, else its last change; far back without either.
        if file.day is not None:
            return -file.day.toordinal() * 86_400
        when = file.changed
        return -(when.toordinal() * 86_400 + (when.hour * 60 + when.minute) * 60) if when else 0
    if sort is Sort.SIZE:
        return -(file.size or 0)
    if sort is Sort.CHUNKS:
        return -file.chunks
    if sort is Sort.RECALLS and recalled is not None:
        return recalled.get(file.path, 0) if file.chunks else math.inf
    return 0.0


def _parts(path: str) -> list[str]:
    parts = [part for part in path.split("/") if part] or [path]
    if path.startswith("/"):
        parts[0] = "/" + parts[0]
    if len(parts) > MOST_LEVELS:
        parts = [*parts[: MOST_LEVELS - 2], "/".join(parts[MOST_LEVELS - 2 : -1]), parts[-1]]
    return parts


def _folder(node: _Node, name: str, id_: str, key: _Key, depth: int, source: str = "") -> Folder:
    while not source and not node.files and len(node.folders) == 1:
        ((only, inner),) = node.folders.items()
        name, id_, node = f"{name}/{only}", f"{id_}/{only}", inner
    folders = tuple(
        _folder(node.folders[part], part, f"{id_}/{part}", key, depth + 1)
        for part in sorted(node.folders, key=natural)
    )
    named = tuple(sorted(node.files, key=key))
    states = {file.state for _, file in named} | {folder.worst for folder in folders}
    return Folder(
        id=id_,
        name=name,
        source=source,
        depth=depth,
        folders=folders,
        named=named,
        count=len(named) + sum(folder.count for folder in folders),
        chunks=sum(file.chunks for _, file in named) + sum(folder.chunks for folder in folders),
        size=sum(file.size or 0 for _, file in named) + sum(folder.size for folder in folders),
        worst=next((state for state in _WORST if state in states), FileState.CURRENT),
    )


def natural(name: str) -> tuple[tuple[int, str], ...]:
    """Return a key that sorts names by their letters, and numbers in them by their value."""
    pieces = _DIGITS.split(name.casefold())
    return tuple(
        (int(piece), "") if index % 2 else (-1, piece) for index, piece in enumerate(pieces)
    )


def flatten(tree: Iterable[Folder], folded: Collection[str]) -> Iterator[TreeLine]:
    """Yield the lines of a tree from top to bottom, without what lies in folded folders."""
    for folder in tree:
        is_open = folder.id not in folded
        yield TreeLine(folder.id, folder.depth, folder.name, folder, is_open=is_open)
        if is_open:
            for name, file in folder.named:
                yield TreeLine(f"{file.source}\0{file.path}", folder.depth + 1, name, file=file)
            yield from flatten(folder.folders, folded)


def all_folders(tree: Iterable[Folder]) -> Iterator[Folder]:
    """Yield every place and every folder."""
    for folder in tree:
        yield folder
        yield from all_folders(folder.folders)


def folders_around(tree: Iterable[Folder], path: str) -> tuple[str, ...]:
    """Return the ids of the folders that a file lies in, outermost first; empty: no such file."""
    for folder in tree:
        if any(file.path == path for _, file in folder.named):
            return (folder.id,)
        inner = folders_around(folder.folders, path)
        if inner:
            return (folder.id, *inner)
    return ()


@dataclass(frozen=True, slots=True)
class Filtered:
    """The files that fit, and what of the filter could not be understood."""

    files: Sequence[MemoryFile]
    problems: tuple[str, ...] = ()


def filter_files(files: Sequence[MemoryFile], text: str) -> Filtered:
    """Return files whose paths hold every word and fit `path:`, `source:`, `after:`, `before:`.

    The letter case does not count. The name of a place is looked at too, except for the one that
    most files are in.
    """
    if not text.strip():
        return Filtered(files)
    query = parse_query(text, typing=True)
    words = [word.casefold() for word in query.text.split()]
    filters = FileFilter(query.filters)

    def fits(file: MemoryFile) -> bool:
        place = "" if file.place == WORKSPACE else file.place
        name = f"{place} {file.path}".casefold()
        if not all(word in name for word in words):
            return False
        changed = int(file.changed.timestamp()) * 1_000_000_000 if file.changed is not None else 0
        return not query.filters or filters.fits(
            path=file.path, source=file.source, day=file.day, mtime_ns=changed
        )

    return Filtered([file for file in files if fits(file)], query.problems)

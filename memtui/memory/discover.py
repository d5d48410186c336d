"""Finding the files of a memory: the workspace's own notes and the extra paths a user named.

Only folders are listed and file states asked; no file is opened. Links are never followed. Whatever
looks like a note and is left out is listed with its reason.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from memtui.errors import Cancelled
from memtui.memory.documents import MAX_FILE_BYTES, reason_of
from memtui.memory.paths import (
    Glob,
    absolute_path,
    first_link,
    has_magic,
    kind,
    leads_to_folder,
    link_target,
    name_filter,
    parts_below,
    said,
    stored_path,
    written,
)
from memtui.model import Reason, SkippedFile, SourceFile
from memtui.model.chunks import DEFAULT_IGNORE
from memtui.settings.schema import MemorySettings

ROOT_FILES = ("MEMORY.md", "USER.md")
MEMORY_FOLDER = "memory"
SOURCE = "memory"
SUFFIXES = (".md", ".markdown")


class Scope(Struct, frozen=True):
    """Where to look.

    `extra_paths` are files, folders or globs, relative to the root, absolute or with `~`; `ignore`
    are names or globs of single path components.
    """

    root: Path
    extra_paths: tuple[str, ...] = ()
    ignore: tuple[str, ...] = DEFAULT_IGNORE
    max_file_bytes: int = MAX_FILE_BYTES

    @classmethod
    def of(cls, root: Path, settings: MemorySettings) -> Scope:
        """Return where the notes of a memory are, as the settings say."""
        return cls(root, settings.extra_paths, settings.ignore, settings.max_file_bytes)


class Discovery(Struct, frozen=True):
    """What was found and what was left out, each sorted by path."""

    files: tuple[SourceFile, ...]
    skipped: tuple[SkippedFile, ...]
    unread: tuple[str, ...] = ()
    """Beginnings of paths below which nothing could be listed: what is known there still holds."""


def discover(
    scope: Scope,
    *,
    cancelled: Callable[[], bool] | None = None,
    only: str | None = None,
) -> Discovery:
    """Find the Markdown files of a workspace.

    A root with `MEMORY.md` or `memory/` is a memory: `MEMORY.md`, `USER.md` and what is below
    `memory/` count. Any other root counts as a whole. Extra paths come last; a file that is reached
    twice is kept once. A root that cannot be listed is itself the one skipped path, `.`.
    Raises `Cancelled` when `cancelled()` turns true. With `only`, an absolute path, folders and
    files that do not lead to it are passed over.
    """
    search = _Search(scope, cancelled, only)
    search.look_at_root()
    for extra in filter(None, map(str.strip, scope.extra_paths)):
        search.look_at_extra(extra)
    files = sorted(search.files.values(), key=lambda file: file.path)
    skipped = sorted(search.skipped.values(), key=lambda file: (file.path, file.reason))
    return Discovery(tuple(files), tuple(skipped))


def is_memory(root: Path) -> bool:
    """Tell whether a folder holds a memory: `MEMORY.md`, named exactly so, or a folder `memory`."""
    try:
        with os.scandir(root) as entries:
            return any(_marks_memory(entry) for entry in entries)
    except OSError:
        return False


def is_markdown(name: str) -> bool:
    """Tell by its name whether a file is Markdown."""
    return name.lower().endswith(SUFFIXES)


def absolute_extra(extra: str, root: str) -> str:
    """Expand `~` in an extra path and make it absolute, from the workspace's root."""
    return os.path.normpath(os.path.join(root, os.path.expanduser(extra.strip())))


class _Folder(Struct, frozen=True):
    path: str
    real: str
    stored: str
    """Prefix of the stored paths of what it holds."""
    at: frozenset[int] = frozenset()
    """How far a glob has matched."""


_INT64_MAX = 2**63 - 1


class _Search:
    """One run of discovery, with what it has found so far."""

    def __init__(
        self, scope: Scope, cancelled: Callable[[], bool] | None, only: str | None
    ) -> None:
        self.files: dict[str, SourceFile] = {}
        """By their real paths."""
        self.skipped: dict[tuple[str, Reason], SkippedFile] = {}
        self._scope = scope
        self._cancelled = cancelled
        self._only = () if only is None else (only, os.path.realpath(only))
        self._root = os.path.abspath(scope.root)
        self._ignored = name_filter(scope.ignore)
        self._memory_layout = False

    def look_at_root(self) -> None:
        """Look at the root itself, and below it or below `memory/` as its layout asks."""
        top = _Folder(self._root, os.path.realpath(self._root), "")
        entries = self._list(top)
        self._memory_layout = any(map(_marks_memory, entries))
        if not self._memory_layout:
            self._walk([top], entries=entries)
            return
        for entry in entries:
            stored = written(entry.name)
            if entry.name in ROOT_FILES:
                self._take(entry.path, stored, os.path.join(top.real, entry.name))
            elif entry.name == MEMORY_FOLDER:
                self._walk([top], entries=[entry])
            elif entry.name.lower() == ROOT_FILES[0].lower():
                self._skip(stored, Reason.IGNORED, _NOT_ROOT_FILE)

    def look_at_extra(self, extra: str) -> None:
        """Look at one extra path: a file, a folder or a glob."""
        path = absolute_extra(extra, self._root)
        glob = None
        try:
            state = os.lstat(path)
        except (OSError, ValueError) as error:
            if not (has_magic(extra) and isinstance(error, FileNotFoundError)):
                reason = reason_of(error) if isinstance(error, OSError) else Reason.VANISHED
                self._skip(written(extra), reason, f"extra path: {said(error)}")
                return
            glob = Glob.parse(path)
            path = glob.base
        name = stored_path(path, self._root)
        prefix = "" if name == "." else name.removesuffix("/") + "/"
        folder = _Folder(path, os.path.realpath(path), prefix, glob.start if glob else frozenset())
        if (link := first_link(path, self._root)) is not None:
            self._skip(name, Reason.SYMLINK, link_target(link))
        elif glob is not None:
            before = len(self.files) + len(self.skipped)
            is_reached = os.path.isdir(path) and self._walk([folder], glob)
            if not is_reached and len(self.files) + len(self.skipped) == before:
                self._skip(written(extra), Reason.VANISHED, "extra path: no file matches")
        elif stat.S_ISDIR(state.st_mode):
            self._walk([folder])
        elif stat.S_ISREG(state.st_mode) and not is_markdown(path):
            self._skip(name, Reason.IGNORED, "extra path: not a Markdown file")
        else:
            parent, own = os.path.split(path)
            self._take(path, name, os.path.join(os.path.realpath(parent), own))

    def _list(self, folder: _Folder) -> list[os.DirEntry[str]]:
        """List a folder by name; where one path is asked for, what leads to it alone."""
        if self._cancelled is not None and self._cancelled():
            raise Cancelled
        try:
            with os.scandir(folder.path) as entries:
                listed = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            self._skip(folder.stored.rstrip("/") or ".", reason_of(error), said(error))
            return []
        if not self._only:
            return listed
        # These decide what the root is.
        always = (*ROOT_FILES, MEMORY_FOLDER) if folder.path == self._root else ()
        return [
            entry
            for entry in listed
            if entry.name in always
            or any(
                parts_below(only, place) is not None
                for only in self._only
                for place in (entry.path, os.path.join(folder.real, entry.name))
            )
        ]

    def _walk(
        self,
        folders: list[_Folder],
        glob: Glob | None = None,
        entries: list[os.DirEntry[str]] | None = None,
    ) -> bool:
        """Take in or skip what the folders hold, `entries` of the first, and the glob leaves.

        Return whether there was something that the glob looks for.
        """
        is_reached = False
        while folders:
            folder = folders.pop()
            listed, entries = self._list(folder) if entries is None else entries, None
            for entry in listed:
                at = glob.step(folder.at, entry.name) if glob is not None else folder.at
                if glob is not None and not at:
                    continue
                is_asked = glob is None or glob.done(at)
                name, stored = entry.name, folder.stored + written(entry.name)
                real, is_note = os.path.join(folder.real, name), is_markdown(name)
                try:
                    is_link = entry.is_symlink()
                    is_folder = not is_link and entry.is_dir(follow_symlinks=False)
                except OSError as error:
                    self._skip(stored, reason_of(error), said(error))
                    is_reached = True
                    continue
                if self._ignored.match(name):
                    if is_asked and (is_folder or is_note):
                        self._skip(stored, Reason.IGNORED, "name in the ignore list")
                        is_reached = True
                elif is_link:
                    if is_asked and (is_note or leads_to_folder(entry)):
                        self._skip(stored, Reason.SYMLINK, link_target(entry.path))
                        is_reached = True
                elif is_folder:
                    folders.append(_Folder(entry.path, real, f"{stored}/", at))
                elif is_asked and is_note:
                    self._take(entry.path, stored, real)
                    is_reached = True
        return is_reached

    def _take(self, path: str, stored: str, real: str) -> None:
        """Take a file in, or list it as skipped."""
        limit = self._scope.max_file_bytes
        is_lowercase = stored.lower() == ROOT_FILES[0].lower() and stored != ROOT_FILES[0]
        try:
            state = os.lstat(path)
        except OSError as error:
            self._skip(stored, reason_of(error), said(error))
            return
        if stat.S_ISLNK(state.st_mode):
            self._skip(stored, Reason.SYMLINK, link_target(path))
        elif not stat.S_ISREG(state.st_mode):
            self._skip(stored, Reason.NOT_REGULAR, kind(state.st_mode))
        elif state.st_size > limit:
            detail = f"{state.st_size:,} bytes, the limit is {limit:,}"
            self._skip(stored, Reason.TOO_LARGE, detail)
        elif self._memory_layout and is_lowercase:
            self._skip(stored, Reason.IGNORED, _NOT_ROOT_FILE)
        elif not state.st_mode & stat.S_IROTH and not os.access(path, os.R_OK):
            self._skip(stored, Reason.UNREADABLE, "permission denied")
        elif real in self.files:
            first = self.files[real].path
            self._skip(stored, Reason.DUPLICATE_FILE, f"already found as {first}")
        else:
            self.files[real] = source_file(stored, path, state, SOURCE)

    def _skip(self, path: str, reason: Reason, detail: str) -> None:
        self.skipped.setdefault((path, reason), SkippedFile(path, reason, written(detail)))


def source_file(
    stored: str, path: str, state: os.stat_result, source: str, kind: str = ""
) -> SourceFile:
    """Return a file as it was found on disk; `stored` is its path in the index."""
    return SourceFile(
        path=stored,
        absolute=Path(path),
        source=source,
        size=state.st_size,
        # A file may be dated beyond what 64 bits of nanoseconds hold (the year 2262).
        mtime_ns=max(-_INT64_MAX, min(_INT64_MAX, state.st_mtime_ns)),
        # File systems that make numbers up (pooled, networked) use all 64 bits and more.
        inode=state.st_ino & _INT64_MAX,
        kind=kind,
    )


_NOT_ROOT_FILE = f"only a file named exactly {ROOT_FILES[0]} is the root memory"


def _marks_memory(entry: os.DirEntry[str]) -> bool:
    if entry.name == ROOT_FILES[0]:
        return True
    try:
        return entry.name == MEMORY_FOLDER and entry.is_dir()
    except OSError:
        return False


def may_contain(place: str, scope: Scope) -> bool:
    """Tell whether a path that an event names may be a file to be indexed, or lead to some.

    Nothing is looked at; what is told too much costs a sync that finds nothing.
    """
    place, root = os.path.abspath(place), os.path.abspath(scope.root)
    ignored = name_filter(scope.ignore)
    extras = [absolute_extra(extra, root) for extra in scope.extra_paths if extra.strip()]
    for base in (root, *(Glob.parse(path).base for path in extras)):
        # The operating system may name it in events by its real path.
        for spelled in (base, os.path.realpath(base)):
            parts = parts_below(place, spelled)
            is_above = parts_below(spelled, place) is not None
            if is_above or (parts is not None and not any(map(ignored.match, parts))):
                return True
    return False


_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ})


def look_at(scope: Scope, path: str) -> SourceFile | SkippedFile:
    """Look at one path as `discover` does: only the folders that lead to it are listed.

    `path` is as the index stores paths: relative to the root, or absolute. What discovery passes
    over without a word is `NO_FILE`, `NOT_A_NOTE` or `OUTSIDE_ROOT`.
    """
    root = os.path.abspath(scope.root)
    place = absolute_path(path, root)
    name = stored_path(place, root)
    nothing = absent(place)
    if nothing is not None:
        return SkippedFile(name, *nothing)
    discovery = discover(scope, only=place)
    for file in discovery.files:
        if file.path == name:
            return file
    above = [
        skipped
        for skipped in discovery.skipped
        if skipped.path in {".", name} or name.startswith(f"{skipped.path}/")
    ]
    if above:
        nearest = max(above, key=lambda skipped: len(skipped.path))
        return SkippedFile(name, nearest.reason, nearest.detail)
    real = os.path.realpath(place)
    for file in discovery.files:
        if os.path.realpath(file.absolute) == real:
            return SkippedFile(name, Reason.DUPLICATE_FILE, f"already found as {file.path}")
    if os.path.isdir(place):
        return SkippedFile(name, Reason.NOT_A_NOTE, kind(stat.S_IFDIR))
    if not is_markdown(place):
        return SkippedFile(name, Reason.NOT_A_NOTE, "its name does not end in .md or .markdown")
    return SkippedFile(name, Reason.OUTSIDE_ROOT, "below no folder that belongs to the memory")


def absent(place: str) -> tuple[Reason, str] | None:
    """Return why nothing can be looked at there; `None` when something is there."""
    try:
        os.lstat(place)
    except ValueError as error:
        # A NUL in the name: no file can be called so.
        return Reason.NO_FILE, said(error)
    except OSError as error:
        is_absent = error.errno in _ABSENT
        return (Reason.NO_FILE if is_absent else reason_of(error)), said(error)
    return None

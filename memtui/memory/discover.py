"""Finding the files of a memory: the workspace's own notes and the extra paths a user named.

Only folders are listed and file states asked; no file is opened. Links are never followed. Whatever
looks like a note and is left out is listed with its reason.
"""

from __future__ import annotations

import errno
import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import ClassVar

from msgspec import Struct

from memtui.data import DEMO_PRESENT, DEMO_ROOT
from memtui.errors import IsCancelled, never, stop_if
from memtui.memory.documents import reason_of
from memtui.memory.paths import (
    Glob,
    absolute_path,
    first_link,
    has_magic,
    kind,
    link_target,
    message_of,
    name_filter,
    stored_path,
    written,
)
from memtui.model import NOTES, Reason, SkippedFile, SourceFile
from memtui.settings.containment import absolute_setting, parts_below
from memtui.settings.schema import MemorySettings

ROOT_FILES = ("MEMORY.md", "USER.md")
MEMORY_FOLDER = "memory"
PROJECT_FILES = ("CLAUDE.md", "CLAUDE.local.md", "AGENTS.md")
"""Files of a project that Claude Code and Codex read at the start of every conversation."""
SUFFIXES = (".md", ".markdown")

INT64_MAX = 2**63 - 1


class Scope(Struct, frozen=True):
    """The folder to search, and the settings that say what more and what not.

    `extra_paths` are files, folders or globs, relative to the root, absolute or with `~`; `ignore`
    are names or globs of single path components.
    """

    root: Path
    settings: MemorySettings = MemorySettings()


class Discovery(Struct, frozen=True):
    """The files of a memory and those that are left out, each sorted by path."""

    files: tuple[SourceFile, ...]
    skipped: tuple[SkippedFile, ...]
    unread: tuple[str, ...] = ()
    """Beginnings of paths below which nothing could be listed: what is known there still holds."""


def discover(scope: Scope, *, cancelled: IsCancelled = never, only: str | None = None) -> Discovery:
    """Find the Markdown files of a workspace.

    A root with `MEMORY.md` or `memory/` is a memory: `MEMORY.md`, `USER.md` and what is below
    `memory/` count. Any other root counts as a whole, and so does a folder `memory` with
    `MEMORY.md` in it, as Claude Code has them. Extra paths come last; a file that is reached twice
    is kept once. A root that cannot be listed is itself the one skipped path, `.`.
    Raises `Cancelled` when `cancelled()` turns true. With `only`, an absolute path, folders that
    do not lead to it are passed over.
    """
    search = _NoteSearch(scope, cancelled, only)
    files = sorted(search.files.values(), key=lambda file: file.path)
    skipped = sorted(search.skipped.values(), key=lambda file: (file.path, file.reason))
    return Discovery(tuple(files), tuple(skipped), tuple(search.unread))


def is_memory(root: Path) -> bool:
    """Tell whether a folder holds a memory: `MEMORY.md`, named exactly so, or a folder `memory`."""
    return bool(_marks_in(root))


def is_project(root: Path) -> bool:
    """Tell whether a folder holds a file, and no link, that Claude Code or Codex reads."""
    paths = [root / name for name in PROJECT_FILES]
    return any(path.is_file() and not path.is_symlink() for path in paths)


def counts_whole(root: Path) -> bool:
    """Tell whether every note in a root counts, not only `MEMORY.md` and those in `memory/`."""
    marks = _marks_in(root)
    return not marks or (root.name == MEMORY_FOLDER and MEMORY_FOLDER not in marks)


def _marks_in(root: Path) -> set[str]:
    try:
        marks = {ROOT_FILES[0], MEMORY_FOLDER}.intersection(os.listdir(root))
    except OSError:
        return set()
    return {name for name in marks if name != MEMORY_FOLDER or (root / name).is_dir()}


def is_markdown(name: str) -> bool:
    return name.lower().endswith(SUFFIXES)


class FileSearch(ABC):
    """One run of discovery, with what it has found and left out so far."""

    path_words: ClassVar[str]
    """The name of a path of the settings in details."""
    source: ClassVar[str]

    def __init__(self, root: Path, cancelled: IsCancelled) -> None:
        self.files: dict[str, SourceFile] = {}
        self.skipped: dict[tuple[str, Reason], SkippedFile] = {}
        self.unread: list[str] = []
        """Beginnings of stored paths below which nothing could be listed."""
        self.root = self.base = os.path.abspath(root)
        """`base` is the folder below which no link is followed."""
        self._cancelled = cancelled
        # Those of the demo are as old as their installation; none is younger than its story.
        is_demo = root == DEMO_ROOT
        self._newest_ns = int(DEMO_PRESENT.timestamp()) * 10**9 if is_demo else INT64_MAX

    @abstractmethod
    def is_wanted(self, name: str) -> bool:
        """Tell by its name whether a file is looked for."""

    @abstractmethod
    def why_ignored(self, name: str) -> str | None:
        """Return why a file or folder of that name is passed over."""

    def leads_on(self, folder: str) -> bool:
        """Tell whether a folder is to be listed."""
        return True

    @abstractmethod
    def take(self, path: str, stored: str, state: os.stat_result) -> None:
        """Take a regular file in, or list it as skipped."""

    def look_at_extra(self, extra: str) -> None:
        """Look at a path of the settings: a file, a folder or a glob."""
        path, glob = absolute_setting(extra, self.root), None
        try:
            is_folder = stat.S_ISDIR(os.lstat(path).st_mode)
        except (OSError, ValueError) as error:
            if not (has_magic(extra) and isinstance(error, FileNotFoundError)):
                reason = reason_of(error) if isinstance(error, OSError) else Reason.VANISHED
                self.skip(written(extra), reason, f"{self.path_words}: {message_of(error)}")
                # If it was a folder, it may be one that is not mounted.
                self.unread.append(f"{stored_path(path, self.root)}/")
                return
            glob = Glob.parse(path, self.root)
            path, is_folder = glob.base, True
        name = stored_path(path, self.root)
        # What is outside of the root has a base of its own.
        is_below = parts_below(path, self.root) is not None
        self.base = self.root if is_below else path if is_folder else os.path.dirname(path)
        prefix = "" if name == "." else f"{name.removesuffix('/')}/"
        if (link := first_link(path, self.root)) is not None:
            self.skip(name, Reason.SYMLINK, link_target(link))
        elif glob is not None and not os.path.isdir(path):
            self.skip(written(extra), Reason.VANISHED, f"{self.path_words}: no file matches")
            self.unread.append(prefix)
        elif is_folder:
            before = len(self.skipped)
            is_met = self.walk(self.list_folder(path, prefix), prefix, glob)
            if glob is not None and not is_met and len(self.skipped) == before:
                self.skip(written(extra), Reason.VANISHED, f"{self.path_words}: no file matches")
        else:
            self.look_at_file(path, name)

    def list_folder(self, folder: str, prefix: str) -> list[os.DirEntry[str]]:
        """List a folder by name; `prefix` begins the stored paths of what it holds."""
        stop_if(self._cancelled)
        try:
            with os.scandir(folder) as entries:
                return sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            self.skip(prefix.rstrip("/") or ".", reason_of(error), message_of(error))
            if prefix:
                self.unread.append(prefix)
            return []

    def walk(
        self, entries: Iterable[os.DirEntry[str]], prefix: str, glob: Glob | None = None
    ) -> bool:
        """Take in or skip what is among these or below them, if the glob leads there.

        Return whether there was a file of a name that is looked for.
        """
        is_met = False
        at = glob.start if glob is not None else frozenset[int]()
        waiting = [(entry, prefix, at) for entry in entries]
        while waiting:
            entry, above, at = waiting.pop()
            if glob is not None and not (at := glob.step(at, entry.name)):
                continue
            is_asked = glob is None or glob.done(at)
            stored, is_wanted = above + written(entry.name), self.is_wanted(entry.name)
            is_met |= is_asked and is_wanted
            try:
                is_link = entry.is_symlink()
                is_folder = not is_link and entry.is_dir(follow_symlinks=False)
            except OSError as error:
                self.skip(stored, reason_of(error), message_of(error))
                continue
            if (why := self.why_ignored(entry.name)) is not None:
                if is_asked and (is_folder or is_wanted):
                    self.skip(stored, Reason.IGNORED, why)
            elif is_link:
                # A folder, or what leads nowhere, such as a link to itself.
                if is_asked and (is_wanted or not os.path.isfile(entry.path)):
                    self.skip(stored, Reason.SYMLINK, link_target(entry.path))
            elif is_folder:
                if self.leads_on(entry.path):
                    below = f"{stored}/"
                    listed = self.list_folder(entry.path, below)
                    waiting += [(inner, below, at) for inner in listed]
            elif is_asked and is_wanted:
                self.look_at_file(entry.path, stored)
        return is_met

    def look_at_file(self, path: str, stored: str) -> None:
        """Take a file in, or list it as skipped."""
        try:
            state = os.lstat(path)
        except OSError as error:
            self.skip(stored, reason_of(error), message_of(error))
            return
        if stat.S_ISLNK(state.st_mode):
            self.skip(stored, Reason.SYMLINK, link_target(path))
        elif not stat.S_ISREG(state.st_mode):
            self.skip(stored, Reason.NOT_REGULAR, kind(state.st_mode))
        elif not state.st_mode & stat.S_IROTH and not os.access(path, os.R_OK):
            self.skip(stored, Reason.UNREADABLE, "permission denied")
        else:
            self.take(path, stored, state)

    def source_file(
        self, path: str, stored: str, state: os.stat_result, kind: str = ""
    ) -> SourceFile:
        """Return a file as it was found on disk; `stored` is its path in the index."""
        return SourceFile(
            path=stored,
            place=path,
            source=self.source,
            size=state.st_size,
            # A file may be dated beyond what 64 bits of nanoseconds hold (the year 2262).
            mtime_ns=max(-INT64_MAX, min(self._newest_ns, state.st_mtime_ns)),
            # File systems that make numbers up (pooled, networked) use all 64 bits and more.
            inode=state.st_ino & INT64_MAX,
            kind=kind,
            base=self.base,
        )

    def skip(self, path: str, reason: Reason, detail: str) -> None:
        """List a file or folder as left out."""
        self.skipped.setdefault((path, reason), SkippedFile(path, reason, written(detail)))


class _NoteSearch(FileSearch):
    """The notes of a workspace, by their real paths."""

    path_words = "extra path"
    source = NOTES

    def __init__(self, scope: Scope, cancelled: IsCancelled, only: str | None) -> None:
        super().__init__(scope.root, cancelled)
        self._limit = scope.settings.max_file_bytes
        self._only = () if only is None else (only, os.path.realpath(only))
        self._ignored = name_filter(scope.settings.ignore)
        self._real_folder = cache(os.path.realpath)
        entries = self.list_folder(self.root, "")
        self._memory_layout = not counts_whole(Path(self.root))
        if not self._memory_layout:
            self.walk(entries, "")
        for entry in entries if self._memory_layout else ():
            if entry.name in ROOT_FILES:
                self.look_at_file(entry.path, entry.name)
            elif entry.name == MEMORY_FOLDER:
                self.walk([entry], "")
        for extra in filter(None, map(str.strip, scope.settings.extra_paths)):
            self.look_at_extra(extra)
        paths = {file.path for file in self.files.values()} | {path for path, _ in self.skipped}
        for entry in entries if self._memory_layout else ():
            stored = written(entry.name)
            if is_markdown(entry.name) and os.path.isfile(entry.path) and stored not in paths:
                self.skip(stored, Reason.IGNORED, self.why_ignored(entry.name) or _BESIDE)

    def is_wanted(self, name: str) -> bool:
        return is_markdown(name)

    def why_ignored(self, name: str) -> str | None:
        return "name in the ignore list" if self._ignored.match(name) else None

    def leads_on(self, folder: str) -> bool:
        spelled = (folder, self._real(folder))
        places = [(only, place) for only in self._only for place in spelled]
        return not places or any(parts_below(*place) is not None for place in places)

    def _real(self, path: str) -> str:
        folder, name = os.path.split(path)
        return os.path.join(self._real_folder(folder), name)

    def take(self, path: str, stored: str, state: os.stat_result) -> None:
        is_like_root = stored.lower() == ROOT_FILES[0].lower() and stored != ROOT_FILES[0]
        real = self._real(path)
        if not is_markdown(path):
            self.skip(stored, Reason.IGNORED, f"{self.path_words}: not a Markdown file")
        elif state.st_size > self._limit:
            detail = f"{state.st_size:,} bytes, the limit is {self._limit:,}"
            self.skip(stored, Reason.TOO_LARGE, detail)
        elif self._memory_layout and is_like_root:
            self.skip(stored, Reason.IGNORED, _NOT_ROOT_FILE)
        elif real in self.files:
            first = self.files[real].path
            self.skip(stored, Reason.DUPLICATE_FILE, f"already found as {first}")
        else:
            self.files[real] = self.source_file(path, stored, state)


_BESIDE = f"only {', '.join(ROOT_FILES)} and {MEMORY_FOLDER}/ count; memory.extra_paths adds more"
_NOT_ROOT_FILE = f"only a file named exactly {ROOT_FILES[0]} is the root memory"


def bases_of(scope: Scope) -> list[str]:
    """Return the root and what each extra path names; of a glob the folder it starts in."""
    bases = [root := os.path.abspath(scope.root)]
    for extra in filter(str.strip, scope.settings.extra_paths):
        path = absolute_setting(extra, root)
        is_glob = has_magic(extra) and not os.path.lexists(path)
        bases.append(Glob.parse(path, root).base if is_glob else path)
    return bases


def may_contain(place: str, scope: Scope) -> bool:
    """Tell whether a path that an event names may be a file to be indexed, or lead to some.

    No file is opened; what is told too much costs a sync that finds nothing.
    """
    place, ignored = os.path.abspath(place), name_filter(scope.settings.ignore)
    for base in bases_of(scope):
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
    if nothing := absent(place):
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
        if os.path.realpath(file.place) == real:
            return SkippedFile(name, Reason.DUPLICATE_FILE, f"already found as {file.path}")
    if os.path.isdir(place):
        return SkippedFile(name, Reason.NOT_A_NOTE, kind(stat.S_IFDIR))
    if not is_markdown(place):
        return SkippedFile(name, Reason.NOT_A_NOTE, "its name does not end in .md or .markdown")
    is_below = parts_below(place, root) is not None
    why = _BESIDE if is_below else "lies outside the folder; memory.extra_paths adds more"
    return SkippedFile(name, Reason.OUTSIDE_ROOT, why)


def absent(place: str) -> tuple[Reason, str] | None:
    """Return why nothing can be looked at there; `None` when something is there."""
    try:
        os.lstat(place)
    except ValueError as error:
        # A NUL in the name: no file can be called so.
        return Reason.NO_FILE, message_of(error)
    except OSError as error:
        is_absent = error.errno in _ABSENT
        return (Reason.NO_FILE if is_absent else reason_of(error)), message_of(error)
    return None

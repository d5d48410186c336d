"""Paths as the index stores them, globs of extra paths, and looks at files and links."""

from __future__ import annotations

import os
import re
import stat
import unicodedata
from fnmatch import fnmatchcase, translate
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

from memtui.settings.containment import parts_below
from memtui.settings.files import cause_of

_UNWRITABLE = re.compile("[\ud800-\udfff\ufffd]")
_WRITTEN = re.compile("\ufffd(\ufffd|[0-9a-f]{4})")
_MARK = "\ufffd"


def written(text: str) -> str:
    """Write a path as valid UTF-8: a byte that is none becomes U+FFFD and four hex digits.

    A U+FFFD of the path itself is doubled, so that no two paths are written alike.
    """
    return _UNWRITABLE.sub(
        lambda match: _MARK * 2 if match[0] == _MARK else f"{_MARK}{ord(match[0]):04x}", text
    )


def unwritten(text: str) -> str:
    """Undo `written`: the path as the operating system knows it."""
    return _WRITTEN.sub(lambda match: _MARK if match[1] == _MARK else chr(int(match[1], 16)), text)


def stored_path(path: str, root: str) -> str:
    """Name an absolute path relative to an absolute root, with `/` between the parts.

    A path on another drive than the root keeps its absolute form.
    """
    try:
        relative = os.path.relpath(path, root)
    except ValueError:
        relative = path
    return written(relative.replace(os.sep, "/"))


def absolute_path(stored: str, root: str) -> str:
    """Find the path on disk that `stored_path` named."""
    return os.path.normpath(os.path.join(root, unwritten(stored)))


_MAGIC = re.compile(r"[*?\[]")
_ANY_DEPTH = "**"


def has_magic(text: str) -> bool:
    """Tell whether a path holds a glob character."""
    return _MAGIC.search(text) is not None


@lru_cache(maxsize=64)
def name_filter(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """Compile names and globs of one path component into a pattern for `match`."""
    return re.compile("|".join(translate(pattern) for pattern in patterns) or r"(?!)")


class Glob(Struct, frozen=True):
    """An absolute glob: the folder it starts in and one pattern for each component below it.

    `**` stands for any number of folders. A folder that matches stands for all it holds.
    """

    base: str
    parts: tuple[str, ...]

    @classmethod
    def parse(cls, pattern: str, root: str = "") -> Glob:
        """Split an absolute pattern where its first glob character below the root is."""
        anchor, *names = Path(os.path.normpath(pattern)).parts
        below = parts_below(pattern, root) if root else None
        start, parts = (anchor, tuple(names)) if below is None else (root, below)
        fixed = next((at for at, part in enumerate(parts) if has_magic(part)), len(parts))
        return cls(os.path.join(start, *parts[:fixed]), parts[fixed:])

    @property
    def start(self) -> frozenset[int]:
        """Return the state at the base folder: the patterns that may match the next name."""
        return self._skip({0})

    def step(self, at: frozenset[int], name: str) -> frozenset[int]:
        """Move on by one name; an empty result means that nothing below can match."""
        if self.done(at):
            return at
        moved: set[int] = set()
        for index in at:
            if self.parts[index] == _ANY_DEPTH:
                moved.add(index)
            elif fnmatchcase(name, self.parts[index]):
                moved.add(index + 1)
        return self._skip(moved)

    def done(self, at: frozenset[int]) -> bool:
        """Tell whether the whole pattern has matched."""
        return len(self.parts) in at

    def _skip(self, at: set[int]) -> frozenset[int]:
        for index in range(len(self.parts)):
            if index in at and self.parts[index] == _ANY_DEPTH:
                at.add(index + 1)
        return frozenset(at)


def first_link(path: str, root: str) -> str | None:
    """Find the link that an absolute path is, or, below the root, leads through."""
    place = root
    for name in (parts_below(path, root) or ())[:-1]:
        place = os.path.join(place, name)
        if os.path.islink(place):
            return place
    return path if path != root and os.path.islink(path) else None


def link_target(path: str) -> str:
    try:
        return f"link to {os.readlink(path)}"
    except OSError as error:
        return f"link ({message_of(error)})"


def kind(mode: int) -> str:
    """Name what is no regular file."""
    kinds = {
        stat.S_IFIFO: "named pipe",
        stat.S_IFSOCK: "socket",
        stat.S_IFCHR: "character device",
        stat.S_IFBLK: "block device",
        stat.S_IFDIR: "folder",
    }
    return kinds.get(stat.S_IFMT(mode), "not a regular file")


def fold_path(path: str) -> str:
    """Return a path for a comparison that ignores letters' case and how accents are composed."""
    return unicodedata.normalize("NFC", path).casefold()


def message_of(error: Exception) -> str:
    """Return the message of the operating system, as the end of a sentence."""
    message = cause_of(error)
    return message[:1].lower() + message[1:]

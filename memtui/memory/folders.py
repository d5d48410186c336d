"""The state of a folder's notes in a few bytes, so that what did not change is seen at a glance."""

from __future__ import annotations

import hashlib
import marshal
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

SUFFIXES = (".md", ".markdown")

_Key = tuple[str, int, int, int, tuple[int, ...]]

# The first form of `marshal` that is the same for the same values.
_MARSHAL_VERSION = 2
_DIGEST_BYTES = 16
# A folder that is opened is looked up once, and not again for each of its files.
_BY_DESCRIPTOR = os.scandir in os.supports_fd
_FLAGS = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)


class FolderState(NamedTuple):
    """What the notes directly in a folder were: their names, sizes, times, owners and numbers."""

    digest: str
    files: int
    """How many notes."""
    newest: int
    """The latest time of change of one, in ns of Unix time."""


@dataclass(frozen=True, slots=True)
class FolderLook:
    """What a look into a folder found."""

    digest: str
    keys: list[_Key]
    folders: list[str]
    """The names of the folders in it."""

    @property
    def state(self) -> FolderState:
        """What the notes are."""
        newest = max((key[1] for key in self.keys), default=0)
        return FolderState(self.digest, len(self.keys), newest)


def look_into(path: str) -> FolderLook | None:
    """Ask the state of every Markdown file of a folder; `None` where one look does not do.

    That is where it cannot be listed, or holds anything but files and folders. The digest depends
    on the order in which the system lists the folder.
    """
    descriptor = -1
    try:
        if _BY_DESCRIPTOR:
            descriptor = os.open(path, _FLAGS)
        with os.scandir(descriptor if _BY_DESCRIPTOR else path) as entries:
            found = _keys(entries)
    except OSError:
        # Whoever looks at the entries one by one says what is wrong.
        return None
    finally:
        if descriptor >= 0:
            os.close(descriptor)
    if found is None:
        return None
    keys, folders = found
    digest = hashlib.blake2b(marshal.dumps(keys, _MARSHAL_VERSION), digest_size=_DIGEST_BYTES)
    return FolderLook(digest.hexdigest(), keys, folders)


def _keys(entries: Iterable[os.DirEntry[str]]) -> tuple[list[_Key], list[str]] | None:
    keys: list[_Key] = []
    folders: list[str] = []
    for entry in entries:
        name = entry.name
        if entry.is_file(follow_symlinks=False):
            if name.endswith(SUFFIXES) or name.lower().endswith(SUFFIXES):
                s = entry.stat(follow_symlinks=False)
                # Owner, group and size are neighbours in the tuple: one step instead of three.
                keys.append((name, s.st_mtime_ns, s.st_ino, s.st_mode, s[4:7]))
        elif entry.is_dir(follow_symlinks=False):
            folders.append(name)
        else:
            return None
    return keys, folders

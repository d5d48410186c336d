"""Places as people write them: a path, perhaps a line, and which file of the index is meant."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from memtui.memory.paths import stored_path, written
from memtui.model.inquiry import Place

_WITH_LINE = re.compile(r"(?P<path>.+?)(?:#L|:)(?P<line>\d{1,9})(?:-L?\d{1,9})?\Z", re.DOTALL)
_ABOVE = re.compile(r"/|\.\.?(?:/|\Z)")
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")


@dataclass(frozen=True, slots=True)
class Meant:
    """The files that a path could mean; one of them, where it is clear."""

    path: str | None
    several: tuple[str, ...] = ()


def parse_place(text: str) -> Place:
    """Read `PATH`, `PATH:12`, `PATH#L12` or a citation, of which the first line counts."""
    found = _WITH_LINE.fullmatch(text)
    return Place(text) if found is None else Place(found["path"], int(found["line"]))


def readings(place: Place) -> tuple[Place, ...]:
    """The place as it is, and with a line at the end of its path taken for one."""
    if place.line is not None:
        return (place,)
    parsed = parse_place(place.path)
    return (place,) if parsed == place else (place, parsed)


def spellings(path: str, root: Path) -> tuple[str, ...]:
    """How an index may store the path that somebody wrote, the most literal first.

    Understands paths relative to the root, absolute ones, `~`, `./`, and `\\` between folders.
    """
    return tuple(dict.fromkeys(_spellings(path, root)))


def _spellings(path: str, root: Path) -> Iterator[str]:
    if not any("\ud800" <= char <= "\udfff" for char in path):
        yield path
    yield written(path)
    bases = dict.fromkeys((os.path.abspath(root), os.path.realpath(root)))
    trimmed = path.strip()
    for form in dict.fromkeys((path, trimmed, trimmed.replace("\\", "/"))):
        if not form or "\0" in form:
            continue
        expanded = os.path.expanduser(form)
        if not os.path.isabs(expanded) and _DRIVE.match(expanded):
            continue
        for base in bases:
            yield stored_path(os.path.normpath(os.path.join(base, expanded)), base)


def meant(wanted: Iterable[str], paths: Iterable[str]) -> Meant:
    """The one file whose path ends in one of the spellings.

    Where none does, letters' case and how accents are composed are ignored.
    """
    ends = tuple(f"/{end}" for end in wanted if end and not _ABOVE.match(end))
    known = tuple(paths)
    for fold in (str, _alike):
        tails = tuple(fold(end) for end in ends)
        fitting = [path for path in known if tails and fold(f"/{path}").endswith(tails)]
        if len(fitting) == 1:
            return Meant(fitting[0])
        if fitting:
            return Meant(None, tuple(sorted(fitting)))
    return Meant(None)


def _alike(text: str) -> str:
    return unicodedata.normalize("NFC", text).casefold()

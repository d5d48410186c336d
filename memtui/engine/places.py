"""Places as people write them, which file of the index is meant, and its text as it is now."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable
from pathlib import Path

from memtui.engine.ports import SourceText
from memtui.memory.documents import read_document, split_lines
from memtui.memory.paths import absolute_path, stored_path, written
from memtui.model import SourceFile
from memtui.model.inquiry import Place

_WITH_LINE = re.compile(r"(?P<path>.+?)(?:#L|:)(?P<line>\d{1,9})(?:-L?\d{1,9})?\Z", re.DOTALL)
_ABOVE = re.compile(r"/|\.\.?(?:/|\Z)")
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")


def parse_place(text: str) -> Place:
    """Parse `PATH`, `PATH:12`, `PATH#L12` or a citation, of which the first line counts."""
    match = _WITH_LINE.fullmatch(text)
    return Place(text) if match is None else Place(match["path"], int(match["line"]))


def readings(place: Place) -> tuple[Place, ...]:
    """Return the place as it is, and with a line at the end of its path taken for one."""
    parsed = parse_place(place.path) if place.line is None else place
    return (place,) if parsed == place else (place, parsed)


def spellings(path: str, root: Path) -> tuple[str, ...]:
    """Return how an index may store the path that somebody wrote, the most literal first.

    Understands paths relative to the root, absolute ones, `~`, `./`, and `\\` between folders.
    """
    forms = [] if any("\ud800" <= char <= "\udfff" for char in path) else [path]
    forms.append(written(path))
    trimmed = path.strip()
    for form in (path, trimmed, trimmed.replace("\\", "/")):
        expanded = os.path.expanduser(form)
        is_of_windows = not os.path.isabs(expanded) and _DRIVE.match(expanded)
        if form and "\0" not in form and not is_of_windows:
            for base in (os.path.abspath(root), os.path.realpath(root)):
                forms.append(stored_path(os.path.normpath(os.path.join(base, expanded)), base))
    return tuple(dict.fromkeys(forms))


def fitting(spelled: Iterable[str], paths: Iterable[str]) -> list[str]:
    """Return the files whose path ends in one of the spellings, sorted; one where it is clear.

    Where none does, letters' case and how accents are composed are ignored.
    """

    def alike(text: str) -> str:
        return unicodedata.normalize("NFC", text).casefold()

    ends, paths = [f"/{end}" for end in spelled if end and not _ABOVE.match(end)], tuple(paths)
    for fold in (str, alike):
        tails = tuple(fold(end) for end in ends)
        matching = sorted(path for path in paths if tails and fold(f"/{path}").endswith(tails))
        if matching:
            return matching
    return []


def read_source(root: Path, path: str, indexed_hash: str | None, indexed_text: str) -> SourceText:
    """Read the note at `path` below `root`.

    `indexed_hash` is the hash in the index, `None` when it is not indexed; when the file is gone
    or cannot be read, `indexed_text` is shown instead and `detail` says why.
    """
    absolute = Path(absolute_path(path, str(root)))
    try:
        stat = absolute.stat()
        document = read_document(
            SourceFile(path, absolute, "memory", stat.st_size, stat.st_mtime_ns, stat.st_ino)
        )
    except OSError as error:
        is_gone = isinstance(error, FileNotFoundError)
        why = "file gone" if is_gone else error.strerror or type(error).__name__
        return SourceText(path, split_lines(indexed_text), "gone", "", f"{why}; indexed text")
    is_current = indexed_hash is None or document.hash == indexed_hash
    state, detail = ("current", "") if is_current else ("changed", "changed since it was indexed")
    return SourceText(path, split_lines(document.text), state, document.hash, detail)

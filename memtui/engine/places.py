"""Places as people write them, which file of the index is meant, and its text as it is now."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from urllib.parse import unquote

from memtui.engine.ports import SourceText
from memtui.memory.documents import read_document, split_lines
from memtui.memory.paths import absolute_path, fold_path, stored_path, written
from memtui.model import NOTES, SourceFile
from memtui.model.inquiry import Place
from memtui.settings.containment import parts_below

CITED = re.compile(
    r"(?P<path>.+?)(?:#L|:)(?P<line>\d{1,9})(?:-L?(?P<end>\d{1,9}))?\Z", re.DOTALL | re.IGNORECASE
)
"""A path with a line or some lines at its end, as people and programs write them."""
_ABOVE = re.compile(r"/|\.\.?(?:/|\Z)")
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")


def parse_place(text: str) -> Place:
    """Parse `PATH`, `PATH:12`, `PATH#L12` or a citation, of which the first line counts."""
    match = CITED.fullmatch(text)
    return Place(text) if match is None else Place(match["path"], int(match["line"]))


def readings(place: Place, root: Path) -> list[tuple[Place, tuple[str, ...]]]:
    """Return the place as it is, and with a line at the end of its path taken for one.

    Each with the `spellings` of its path.
    """
    parsed = parse_place(place.path) if place.line is None else place
    return [(one, spellings(one.path, root)) for one in dict.fromkeys((place, parsed))]


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


def fitting(spelled: Iterable[str], paths: Collection[str]) -> list[str]:
    """Return the files whose path ends in one of the spellings, sorted; one where it is clear.

    Where none does, letters' case and how accents are composed are ignored, and a whole path goes
    before the end of another one.
    """
    ends = [end for end in spelled if end and not _ABOVE.match(end)]
    for fold in (str, fold_path):
        whole = {fold(end) for end in ends}
        tails = tuple(f"/{end}" for end in whole)
        matching = sorted(path for path in paths if fold(f"/{path}").endswith(tails))
        if matching:
            return [path for path in matching if fold(path) in whole] or matching
    return []


def file_meant(path: str, root: Path, paths: Collection[str]) -> str | None:
    """Return the file of an index that another program means by a path.

    Understands besides what `spellings` does `file://`, `qmd://COLLECTION/PATH` and absolute paths
    of another machine. `None` when the index holds no such file, or several could be meant.
    """
    text = path.strip().replace("\\", "/")
    if text.lower().startswith("file://"):
        text = unquote(text[len("file://") :])
    elif text.lower().startswith("qmd://"):
        text = text[len("qmd://") :].partition("/")[2]
    forms = (path, text, *spellings(text, root))
    for form in forms:
        if form in paths:
            return form
    matching, expanded = fitting(forms, paths), os.path.expanduser(text)
    # A file elsewhere on this machine is none of the index.
    if not matching and not (os.path.isabs(expanded) and os.path.lexists(expanded)):
        end = f"/{fold_path(text)}"
        ends = [one for one in paths if end.endswith(f"/{fold_path(one)}")]
        longest = max(map(len, ends), default=0)
        matching = [one for one in ends if len(one) == longest]
    return matching[0] if len(matching) == 1 else None


def read_source(
    bases: Sequence[str],
    path: str,
    indexed_hash: str | None,
    indexed_text: str,
    *,
    any_bytes: bool = False,
) -> SourceText:
    """Read the note at `path` from the root, the first of `bases`: no link is followed below any.

    `indexed_hash` is the hash in the index, `None` when it is not indexed; when the file is gone
    or cannot be read, `indexed_text` is shown instead and `detail` says why.
    """
    absolute = absolute_path(path, bases[0])
    base = next((one for one in bases if parts_below(absolute, one)), "")
    try:
        file = SourceFile(path, absolute, NOTES, 0, 0, 0, base=base)
        document = read_document(file, any_bytes=any_bytes)
    except OSError as error:
        is_gone = isinstance(error, FileNotFoundError)
        why = "file gone" if is_gone else error.strerror or type(error).__name__
        why += "; indexed text" if indexed_text else ""
        return SourceText(path, split_lines(indexed_text), "gone", why)
    is_current = indexed_hash is None or document.hash == indexed_hash
    state, detail = ("current", "") if is_current else ("changed", "changed since it was indexed")
    return SourceText(path, split_lines(document.text), state, detail)

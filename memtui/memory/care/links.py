"""Links between notes that lead nowhere: Markdown links to notes, and `[[wikilinks]]`."""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import Final
from urllib.parse import unquote

from memtui.memory.care.lines import LineKind, NoteLine, lines_as_read, note_lines, without_code
from memtui.memory.care.masking import place_in
from memtui.memory.care.patterns import STAND_INS, load_patterns
from memtui.memory.discover import SUFFIXES
from memtui.model import Document
from memtui.model.browsing import CareFinding, CareRule

_PATTERNS: Final = load_patterns("links")
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
_SEPARATORS = re.compile(r"[\s_-]+")
_LONGEST_LINE: Final = 50_000
_LONGEST_NAME: Final = 200


class NoteNames:
    """What a link can lead to: the notes by path, by name, by title and by alias."""

    def __init__(self, on_disk: Callable[[str, str], bool] = lambda folder, target: False) -> None:
        """`on_disk(folder, target)`: whether a file is there; `folder` is the note's own."""
        self._on_disk = on_disk
        self._paths: set[str] = set()
        self._names: set[str] = set()

    def add_path(self, path: str) -> None:
        """Note a path, as the index stores it; it need not be indexed."""
        folded = _folded(path)
        self._paths.add(folded)
        parts = _bare(folded).split("/")
        self._names.update(_slug("/".join(parts[start:])) for start in range(len(parts)))
        for end in range(len(parts) - 1, 0, -1):
            if _slug("/".join(parts[:end])) in self._names:
                # A folder that is known, with those above it.
                return
            self._names.update(_slug("/".join(parts[start:end])) for start in range(end))

    def add(self, document: Document) -> None:
        """Note a document with its title and the aliases of its front matter."""
        self.add_path(document.file.path)
        in_aliases = False
        for line in lines_as_read(document.text):
            if line.kind is LineKind.HEADING:
                self._names.add(_slug(line.text.lstrip("# ").rstrip("# ")))
                return
            if line.kind is LineKind.FRONT_MATTER:
                in_aliases = self._note_alias(line.text, in_aliases)
            elif line.kind is not LineKind.BLANK:
                return

    def leads(self, path: str, target: str) -> bool:
        """Whether a Markdown link of the note at `path` leads to a file."""
        folder = posixpath.dirname(path)
        from_root = target.lstrip("/")
        tried = (posixpath.join(folder, from_root), from_root, target)
        if any(_folded(posixpath.normpath(one)) in self._paths for one in tried):
            return True
        return self._on_disk(folder, target)

    def names(self, path: str, name: str) -> bool:
        """Whether a wikilink names a note: by path, end of a path, title or alias."""
        return _slug(_bare(_folded(name))) in self._names or self.leads(path, f"{name}.md")

    def _note_alias(self, text: str, in_aliases: bool) -> bool:
        match = _PATTERNS["aliases"].match(text) or (
            _PATTERNS["item"].match(text) if in_aliases else None
        )
        if match is None:
            return False
        self._names.update(
            _slug(one.strip(" \t\"'")) for one in match[1].strip("[]").split(",") if one.strip()
        )
        return True


def broken_links(document: Document, notes: NoteNames) -> Iterator[CareFinding]:
    """Yield the links of a note to notes that are not there; each target once a line.

    Only links to Markdown files and wikilinks count. Code, comments, images, URLs, anchors of the
    same note, citations such as `[[1]]`, other files and what is a placeholder are passed over.
    """
    for line in note_lines(document.text):
        if line.kind in {LineKind.CODE, LineKind.FRONT_MATTER, LineKind.BLANK}:
            continue
        if "[" not in line.text:
            continue
        targets = _targets(document.file.path, line, notes)
        for target in dict.fromkeys(shown for shown, is_there in targets if not is_there):
            yield CareFinding(
                CareRule.BROKEN_LINK,
                place_in(document, line.number, line.number, line.text),
                f"{target} is not there: correct the link, or write the note",
                numbers={"target": target},
            )


def _targets(path: str, line: NoteLine, notes: NoteNames) -> Iterator[tuple[str, bool]]:
    text = without_code(line.text[:_LONGEST_LINE])
    if "</" in text:
        text = _PATTERNS["html_code"].sub(lambda code: " " * len(code[0]), text)
    links = [link for link in _PATTERNS["link"].finditer(text) if not link["image"]]
    for link in filter(None, (*links, _PATTERNS["definition"].match(text))):
        target = note_target(link["target"])
        if target is not None:
            yield target, notes.leads(path, target)
    if "[[" not in text:
        return
    for link in _PATTERNS["wikilink"].finditer(
        _PATTERNS["address"].sub(lambda url: " " * len(url[0]), text)
    ):
        name = link["target"]
        if _is_name(name):
            yield f"[[{name}]]", notes.names(path, name)


def note_target(written: str) -> str | None:
    """The path that a link destination names; `None` for what is no path to a note."""
    target = written.strip("<>") if written.startswith("<") else _ESCAPED.sub(r"\1", written)
    if _PATTERNS["scheme"].match(target) or len(target) > _LONGEST_NAME * 5:
        return None
    target = unquote(re.split("[#?]", target, maxsplit=1)[0]).strip()
    if not target.lower().endswith(SUFFIXES) or _PATTERNS["not_a_name"].search(target):
        return None
    return None if _PATTERNS["placeholder"].search(target) or _stands_in(target) else target


def _stands_in(name: str) -> bool:
    return _bare(name.casefold()).strip(" _") in STAND_INS


def _is_name(name: str) -> bool:
    """Whether the inside of double brackets can be the name of a note."""
    if not name or name != name.strip() or len(name) > _LONGEST_NAME:
        # A test of a shell is written with blanks inside the brackets.
        return False
    if name.isdigit() or name.startswith("-") or _PATTERNS["not_a_name"].search(name):
        return False
    if _PATTERNS["placeholder"].search(name) or _stands_in(name):
        return False
    extension = _PATTERNS["extension"].search(name)
    return extension is None or extension[0].lower() in SUFFIXES or " " in name


def _folded(path: str) -> str:
    return unicodedata.normalize("NFC", path).casefold()


def _bare(path: str) -> str:
    for suffix in SUFFIXES:
        if path.endswith(suffix):
            return path.removesuffix(suffix)
    return path


def _slug(name: str) -> str:
    """A name with the blanks and dashes that people mix up made one."""
    return _SEPARATORS.sub("-", _folded(name)).strip("-/")

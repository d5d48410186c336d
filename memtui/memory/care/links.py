"""Links between notes that lead nowhere: Markdown links to notes, and `[[wikilinks]]`."""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple
from urllib.parse import unquote

from memtui.memory.care.lines import LineKind, note_lines, without_code
from memtui.memory.care.masking import finding_in
from memtui.memory.care.patterns import STAND_INS, load_patterns
from memtui.memory.discover import SUFFIXES
from memtui.model import Document, SourceFile
from memtui.model.browsing import CareFinding, CareRule

_PATTERNS: Final = load_patterns("links")
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
_SEPARATORS = re.compile(r"[\s_-]+")
_LONGEST_LINE: Final = 50_000
_LONGEST_NAME: Final = 200


class Link(NamedTuple):
    """A link to a note, or what looks like one."""

    file: SourceFile
    """The note that it is in."""
    line: int
    text: str
    """The whole line."""
    target: str
    """A path, or what stands between double brackets."""
    is_wiki: bool


class NoteNames:
    """What a link can lead to: the notes by path, by name, by title and by alias."""

    def __init__(self, on_disk: Callable[[str, str], bool] = lambda folder, target: False) -> None:
        """`on_disk(folder, target)`: whether a file is there; `folder` is the note's own."""
        self._on_disk = on_disk
        self._paths: set[str] = set()
        self._names: set[str] = set()

    def add_path(self, path: str) -> None:
        """Add a path, as the index stores it; it need not be indexed."""
        folded = _folded(path)
        self._paths.add(folded)
        parts = _bare(folded).split("/")
        # The note and every folder above it, each by any end of its path.
        self._names |= {
            _slug("/".join(parts[start:end]))
            for end in range(1, len(parts) + 1)
            for start in range(end)
        }

    def add(self, document: Document) -> None:
        """Add a document with its title and the aliases of its front matter."""
        self.add_path(document.file.path)
        in_aliases = False
        for line in note_lines(document.text):
            if line.kind is LineKind.HEADING:
                self._names.add(_slug(line.text.lstrip("# ").rstrip("# ")))
                return
            if line.kind is LineKind.FRONT_MATTER:
                match = _PATTERNS["aliases"].match(line.text)
                if match is None and in_aliases:
                    match = _PATTERNS["item"].match(line.text)
                in_aliases = match is not None
                aliases = match[1].strip("[]").split(",") if match is not None else []
                self._names |= {_slug(one.strip(" \t\"'")) for one in aliases if one.strip()}
            elif line.kind is not LineKind.BLANK:
                return

    def leads(self, link: Link) -> bool:
        """Return whether a link leads to a file; a wikilink may be a name, title or alias."""
        target = link.target
        if link.is_wiki:
            if _slug(_bare(_folded(target))) in self._names:
                return True
            target += ".md"
        folder, from_root = posixpath.dirname(link.file.path), target.lstrip("/")
        tried = (posixpath.join(folder, from_root), from_root, target)
        if any(_folded(posixpath.normpath(one)) in self._paths for one in tried):
            return True
        return self._on_disk(folder, target)


def links_in(document: Document) -> Iterator[Link]:
    """Yield the links of a note to notes; each target once a line.

    Only links to Markdown files and wikilinks count. Code, comments, images, URLs, anchors of the
    same note, citations such as `[[1]]`, other files and what is a placeholder are passed over.
    """
    unlinked = frozenset({LineKind.CODE, LineKind.FRONT_MATTER, LineKind.BLANK})
    for line in note_lines(document.text):
        if "[" not in line.text or line.kind in unlinked:
            continue
        text = without_code(line.text[:_LONGEST_LINE])
        if "</" in text:
            text = _PATTERNS["html_code"].sub(lambda code: " " * len(code[0]), text)
        links = [link for link in _PATTERNS["link"].finditer(text) if not link["image"]]
        links += filter(None, [_PATTERNS["definition"].match(text)])
        targets = [(target, False) for link in links if (target := note_target(link["target"]))]
        without_urls = _PATTERNS["address"].sub(lambda url: " " * len(url[0]), text)
        names = (link["target"] for link in _PATTERNS["wikilink"].finditer(without_urls))
        targets += [(name, True) for name in names if _is_name(name)]
        for target, is_wiki in dict.fromkeys(targets):
            yield Link(document.file, line.number, line.text, target, is_wiki)


def broken_links(links: Iterable[Link], notes: NoteNames) -> Iterator[CareFinding]:
    """Yield the links that lead nowhere."""
    for link in links:
        if not notes.leads(link):
            target = f"[[{link.target}]]" if link.is_wiki else link.target
            advice = f"{target} is not there: correct the link, or write the note"
            place = link.line, link.line
            yield finding_in(
                CareRule.BROKEN_LINK, link.file, place, link.text, advice, target=target
            )


def note_target(written: str) -> str:
    """Return the path that a link destination names; empty for what is no path to a note."""
    target = written.strip("<>") if written.startswith("<") else _ESCAPED.sub(r"\1", written)
    if _PATTERNS["scheme"].match(target) or len(target) > _LONGEST_NAME * 5:
        return ""
    target = unquote(re.split("[#?]", target, maxsplit=1)[0]).strip()
    if not target.lower().endswith(SUFFIXES) or _is_placeholder(target):
        return ""
    return target


def _is_name(name: str) -> bool:
    """Return whether the inside of double brackets can be the name of a note."""
    if not name or name != name.strip() or len(name) > _LONGEST_NAME:
        # A test of a shell is written with blanks inside the brackets.
        return False
    if name.isdigit() or name.startswith("-") or _is_placeholder(name):
        return False
    extension = _PATTERNS["extension"].search(name)
    return extension is None or extension[0].lower() in SUFFIXES or " " in name


def _is_placeholder(name: str) -> bool:
    is_stand_in = _bare(name.casefold()).strip(" _") in STAND_INS
    return is_stand_in or _PATTERNS["no_name"].search(name) is not None


def _folded(path: str) -> str:
    return unicodedata.normalize("NFC", path).casefold()


def _bare(path: str) -> str:
    suffix = next((suffix for suffix in SUFFIXES if path.endswith(suffix)), "")
    return path.removesuffix(suffix)


def _slug(name: str) -> str:
    """Return a name with the blanks and dashes that people mix up made one."""
    return _SEPARATORS.sub("-", _folded(name)).strip("-/")

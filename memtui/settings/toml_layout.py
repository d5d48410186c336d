"""Where the keys, values and tables of a TOML document stand in its text.

The text is one that `tomllib` has read: what is looked for are places, never mistakes.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

Path = tuple[str, ...]

_BLANK = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_KEY = re.compile(r"""[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'""")
_STRING = re.compile(
    r'''"""(?:[^\\]|\\.)*?"""(?:"{0,2})'''
    r"|'{3}.*?'{3}(?:'{0,2})"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'",
    re.DOTALL,
)
_SCALAR = re.compile(r"\d{4}-\d\d-\d\d \d\d:[^\s,\]}#]*|[^\s,\]}#]+")
_OPEN: Final = {"[": "]", "{": "}"}


@dataclass(frozen=True, slots=True)
class Pair:
    """A key and its value; places are offsets in the text, ends behind the last character."""

    path: Path
    """The whole way to the key, headers included."""
    start: int
    value_start: int
    value_end: int
    within: tuple[Pair, ...] = ()
    """The pairs of an inline table."""
    is_inline: bool = False
    """Whether the value is an inline table."""


@dataclass(slots=True)
class Section:
    """A header with the pairs below it; the first section of a document has neither."""

    path: Path
    start: int
    """Where the line of the header begins."""
    body: int
    """Where the line after the header begins."""
    is_array: bool = False
    pairs: list[Pair] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Layout:
    """A document, section by section."""

    text: str
    sections: tuple[Section, ...]

    def pairs(self) -> Iterator[Pair]:
        """Every pair, those of inline tables after the pair that holds them."""
        for section in self.sections:
            for pair in section.pairs:
                yield from _with_inner(pair)

    def line_start(self, place: int) -> int:
        """Where the line of a place begins."""
        return self.text.rfind("\n", 0, place) + 1

    def line_end(self, place: int) -> int:
        """Where the line after the one of a place begins."""
        found = self.text.find("\n", place)
        return len(self.text) if found < 0 else found + 1


def read_layout(text: str) -> Layout:
    """Find every pair and header; raises `RecursionError` for values nested too deeply."""
    reader = _Reader(text)
    sections = [Section((), 0, 0)]
    place = reader.skip(0)
    while place < len(text):
        if text[place] == "[":
            section, place = reader.header(place)
            sections.append(section)
        else:
            pair, place = reader.pair(place, sections[-1].path)
            sections[-1].pairs.append(pair)
        place = reader.skip(place)
    return Layout(text, tuple(sections))


def _with_inner(pair: Pair) -> Iterator[Pair]:
    yield pair
    for inner in pair.within:
        yield from _with_inner(inner)


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text

    def skip(self, place: int) -> int:
        """Go over white space and comments."""
        return self._after(_BLANK, place)

    def header(self, place: int) -> tuple[Section, int]:
        """Read `[a.b]` or `[[a.b]]`."""
        is_array = self._text.startswith("[[", place)
        path, end = self._key(place + (2 if is_array else 1))
        end = self._text.index("]", end)
        newline = self._text.find("\n", end)
        body = len(self._text) if newline < 0 else newline + 1
        start = self._text.rfind("\n", 0, place) + 1
        return Section(path, start, body, is_array), body

    def pair(self, place: int, table: Path) -> tuple[Pair, int]:
        """Read `a.b = value`."""
        path, end = self._key(place)
        value = self._after(_SPACE, self._text.index("=", end) + 1)
        full = (*table, *path)
        end, within = self._value(value, full)
        is_inline = self._text[value] == "{"
        return Pair(full, place, value, end, within, is_inline), end

    def _key(self, place: int) -> tuple[Path, int]:
        parts: list[str] = []
        while True:
            found = _KEY.match(self._text, self._after(_SPACE, place))
            assert found is not None
            parts.append(_plain(found[0]))
            end = found.end()
            place = self._after(_SPACE, end)
            if not self._text.startswith(".", place):
                return tuple(parts), end
            place += 1

    def _value(self, place: int, path: Path) -> tuple[int, tuple[Pair, ...]]:
        opening = self._text[place]
        if opening not in _OPEN:
            return self._after(_STRING if opening in "\"'" else _SCALAR, place), ()
        within: list[Pair] = []
        place = self.skip(place + 1)
        while self._text[place] != _OPEN[opening]:
            if opening == "[":
                place, _ = self._value(place, path)
            else:
                pair, place = self.pair(place, path)
                within.append(pair)
            place = self.skip(place)
            if self._text[place] == ",":
                place = self.skip(place + 1)
        return place + 1, tuple(within)

    def _after(self, pattern: re.Pattern[str], place: int) -> int:
        found = pattern.match(self._text, place)
        assert found is not None
        return found.end()


def _plain(part: str) -> str:
    """A part of a key without its quotes."""
    return next(iter(tomllib.loads(f"{part}=0"))) if part[0] in "\"'" else part

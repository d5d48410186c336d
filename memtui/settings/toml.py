"""Keys and values as TOML text that no terminal acts on."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from memtui.text.sanitize import HOSTILE

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def toml_value(value: Any) -> str:
    """A value as TOML; what is not set is an empty string.

    In texts, what could command a terminal is escaped and a lone surrogate, which TOML cannot
    hold, becomes U+FFFD.
    """
    if value is None:
        return '""'
    if isinstance(value, Enum):
        return toml_value(value.value)
    if isinstance(value, tuple | list):
        return "[" + ", ".join(toml_value(item) for item in value) + "]"
    if isinstance(value, str):
        return '"' + "".join(_escaped(character) for character in value) + '"'
    return json.dumps(value)


def toml_key(path: Sequence[str]) -> str:
    """A dotted key, with quotes around the parts that need them."""
    return ".".join(part if _BARE.fullmatch(part) else toml_value(part) for part in path)


def _escaped(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    if "\ud800" <= character <= "\udfff":
        return "\N{REPLACEMENT CHARACTER}"
    if character in "\t\n" or HOSTILE.match(character):
        return f"\\u{ord(character):04x}"
    return character


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


def key_lines(text: str) -> dict[Path, int]:
    """The 1-based line of every key and table header, by its path.

    A table that only its keys or its sub-tables speak of is on the line of the first of them. The
    text is one that `tomllib` has read; when its values are nested too deeply, no line is known:
    this is about better messages, never about what is in the file.
    """
    try:
        layout = read_layout(text)
    except RecursionError:
        return {}
    places = [(section.start, section.path) for section in layout.sections[1:]]
    places += [(pair.start, pair.path) for pair in layout.pairs()]
    lines: dict[Path, int] = {}
    line, counted = 1, 0
    for place, path in sorted(places):
        line += text.count("\n", counted, place)
        counted = place
        for length in range(len(path), 0, -1):
            lines.setdefault(path[:length], line)
    return lines


class Removal(Enum):
    """What a change may be instead of a value."""

    REMOVED = "removed"


REMOVED: Final = Removal.REMOVED


class CannotEdit(ValueError):
    """A text that cannot be changed in this way; the message says why."""


def edited(text: str, changes: Mapping[Path, Any]) -> str:
    """The text with other values for these keys; `REMOVED` takes a key out.

    Tables that are missing are made; a key to remove that is not there is no mistake. Raises
    `CannotEdit` when a key is a table or lies below a value, `ValueError` for a text that is not
    TOML, `RecursionError` for values nested too deeply.
    """
    wanted = tomllib.loads(text)
    lines = text
    for path, value in changes.items():
        layout = read_layout(lines)
        if value is REMOVED:
            _take(wanted, path)
            lines = _without(layout, path)
        else:
            _put(wanted, path, tomllib.loads(f"x = {toml_value(value)}")["x"])
            lines = _with(layout, path, toml_value(value))
    return _checked(lines, wanted)


def with_table(text: str, path: Path, values: Mapping[str, Any]) -> str:
    """The text with a new table `[path]` below the last one of its kind, else at the end.

    `values` are by dotted key below the table. Raises as `edited` does, and `CannotEdit` for a
    table that is there already.
    """
    wanted = tomllib.loads(text)
    if _find(wanted, path) is not None:
        raise CannotEdit(f"{toml_key(path)} is there already")
    keys = {(*path, *key.split(".")): value for key, value in values.items()}
    layout = read_layout(text)
    if any(pair.path == path[: len(pair.path)] for pair in layout.pairs()):
        return edited(text, keys)
    _put(wanted, path, {})
    for key, value in keys.items():
        _put(wanted, key, tomllib.loads(f"x = {toml_value(value)}")["x"])
    rows = [f"{key} = {toml_value(value)}" for key, value in values.items()]
    return _checked(_with_section(layout, path, rows), wanted)


def without_table(text: str, path: Path) -> str:
    """The text without a table and everything in it; comments before its header stay.

    Raises as `edited` does, and `CannotEdit` when there is no such table.
    """
    wanted = tomllib.loads(text)
    if not isinstance(_find(wanted, path), dict):
        raise CannotEdit(f"there is no table {toml_key(path)}")
    _take(wanted, path)
    lines = text
    while True:
        layout = read_layout(lines)
        sections = [s for s in layout.sections if s.path and s.path[: len(path)] == path]
        if sections:
            lines = _without_section(layout, sections[-1])
            continue
        pair = next((p for p in layout.pairs() if p.path[: len(path)] == path), None)
        if pair is None:
            return _checked(lines, wanted)
        lines = _without(layout, pair.path)


def _checked(after: str, wanted: dict[str, Any]) -> str:
    """The new text, if it says what it should."""
    try:
        found = tomllib.loads(after)
    except ValueError as error:
        raise CannotEdit(f"would no longer be TOML: {error}") from error
    if not _same(found, wanted):
        raise CannotEdit("would say something else than wanted")
    return after


def _newline(text: str) -> str:
    """The line end that the first line has."""
    end = text.find("\n")
    return "\r\n" if end > 0 and text[end - 1] == "\r" else "\n"


def _ends_blank(text: str) -> bool:
    """Whether nothing or an empty line is last."""
    return not text.strip() or text.replace("\r\n", "\n").endswith("\n\n")


# --- what the text should say ---------------------------------------------------------------------


def _find(table: Mapping[str, Any], path: Path) -> Any:
    found: Any = table
    for part in path:
        found = found.get(part) if isinstance(found, dict) else None
    return found


def _put(table: dict[str, Any], path: Path, value: Any) -> None:
    for part in path[:-1]:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise CannotEdit(f"{part} of {toml_key(path)} is no table")
    if isinstance(table.get(path[-1]), dict):
        raise CannotEdit(f"{toml_key(path)} is a table")
    table[path[-1]] = value


def _take(table: dict[str, Any], path: Path) -> None:
    inner = _find(table, path[:-1])
    if isinstance(inner, dict):
        inner.pop(path[-1], None)


def _same(one: Any, other: Any) -> bool:
    """Whether two documents say the same; an empty table says nothing, NaN is NaN."""
    if isinstance(one, dict) and isinstance(other, dict):
        keys = {key for key in {*one, *other} if not (_empty(one, key) and _empty(other, key))}
        return all(_same(one.get(key, {}), other.get(key, {})) for key in keys)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return type(one) is type(other) and (one == other or (one != one and other != other))


def _empty(table: Mapping[str, Any], key: str) -> bool:
    held = table.get(key, {})
    return isinstance(held, dict) and all(_empty(held, inner) for inner in held)


# --- setting --------------------------------------------------------------------------------------


def _with(layout: Layout, path: Path, value: str) -> str:
    text = layout.text
    pair = next((pair for pair in layout.pairs() if pair.path == path), None)
    if pair is not None:
        return text[: pair.value_start] + value + text[pair.value_end :]
    for depth in range(len(path) - 1, -1, -1):
        table, rest = path[:depth], path[depth:]
        holder = next((p for p in layout.pairs() if p.path == table), None)
        if holder is not None:
            return _into_inline(text, holder, f"{toml_key(rest)} = {value}")
        section = next((s for s in layout.sections if s.path == table and not s.is_array), None)
        if section is not None and (depth == len(path) - 1 or not depth):
            break
        above = [s for s in layout.sections if len(s.path) < depth]
        dotted = [(s, p) for s in above for p in s.pairs if p.path[:depth] == table]
        if dotted:
            owner, last = dotted[-1]
            line = f"{toml_key(path[len(owner.path) :])} = {value}"
            return _into_section(layout, owner, line, after=last)
        if section is not None:
            break
    if section is not None and len(path) - 1 == len(section.path):
        twin = _twin(layout, section, path[-1])
        return _into_section(layout, section, f"{toml_key(path[-1:])} = {value}", at=twin)
    return _with_section(layout, path[:-1], [f"{toml_key(path[-1:])} = {value}"])


def _into_inline(text: str, holder: Pair, pair: str) -> str:
    if not holder.is_inline:
        raise CannotEdit(f"{toml_key(holder.path)} is no table")
    if holder.within:
        place = holder.within[-1].value_end
        return f"{text[:place]}, {pair}{text[place:]}"
    return f"{text[: holder.value_start]}{{ {pair} }}{text[holder.value_end :]}"


def _into_section(
    layout: Layout, section: Section, line: str, *, after: Pair | None = None, at: int | None = None
) -> str:
    """A line below a pair, at a place, or below the last pair or the header of a section."""
    text = layout.text
    last = after or (section.pairs[-1] if section.pairs else None)
    place = section.body if last is None else layout.line_end(last.value_end)
    begin = section.start if last is None else layout.line_start(last.start)
    indent = text[begin : begin + len(text[begin:]) - len(text[begin:].lstrip(" \t"))]
    return _inserted(text, place if at is None else at, f"{indent if section.path else ''}{line}")


def _inserted(text: str, place: int, line: str) -> str:
    newline = _newline(text)
    missing = newline if place and text[place - 1] != "\n" else ""
    return f"{text[:place]}{missing}{line}{newline}{text[place:]}"


def _twin(layout: Layout, section: Section, name: str) -> int | None:
    """The place below the line that shows a key as a comment, as the sample does."""
    text, at = layout.text, layout.sections.index(section)
    end = layout.sections[at + 1].start if at + 1 < len(layout.sections) else len(text)
    pattern = rf"^[ \t]*#[ \t]?(?P<pair>{re.escape(toml_key((name,)))}[ \t]*=[^\n]*)$"
    for found in re.finditer(pattern, text[section.body : end], re.MULTILINE):
        place = section.body + found.end()
        if any(pair.start < place <= pair.value_end for pair in section.pairs):
            continue
        try:
            tomllib.loads(found["pair"].rstrip("\r"))
        except ValueError:
            continue
        return layout.line_end(place)
    return None


def _with_section(layout: Layout, path: Path, rows: Sequence[str]) -> str:
    """A new section below the last of those most like it, else at the end."""
    text, sections = layout.text, layout.sections
    likeness = [_shared(section.path, path) for section in sections]
    last = max(range(len(sections)), key=lambda at: (likeness[at], at))
    place = len(text)
    if likeness[last] and last + 1 < len(sections):
        section = sections[last]
        earliest = layout.line_end(section.pairs[-1].value_end) if section.pairs else section.body
        place = _above_comments(text, sections[last + 1].start, earliest)
    newline = _newline(text)
    before, after = text[:place], text[place:]
    if before and not before.endswith("\n"):
        before += newline
    if not _ends_blank(before):
        before += newline
    lines = [f"[{toml_key(path)}]", *rows, *([""] if after else [])]
    return before + "".join(line + newline for line in lines) + after


def _shared(one: Path, other: Path) -> int:
    """How many names two ways begin with together."""
    pairs = zip(one, other, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _above_comments(text: str, place: int, earliest: int) -> int:
    """The begin of the comment lines that stand right above a place."""
    while place > earliest:
        start = text.rfind("\n", 0, place - 1) + 1
        if start < earliest or not text[start:place].lstrip().startswith("#"):
            break
        place = start
    return place


# --- removing -------------------------------------------------------------------------------------


def _without(layout: Layout, path: Path) -> str:
    text = layout.text
    for section in layout.sections:
        for pair in section.pairs:
            if pair.path == path:
                return _without_line(layout, pair)
    for holder in layout.pairs():
        for at, pair in enumerate(holder.within):
            if pair.path != path:
                continue
            if at:
                return text[: holder.within[at - 1].value_end] + text[pair.value_end :]
            following = holder.within[1].start if len(holder.within) > 1 else pair.value_end
            return text[: pair.start] + text[following:]
    return text


def _without_line(layout: Layout, pair: Pair) -> str:
    text = layout.text
    start, end = layout.line_start(pair.start), layout.line_end(pair.value_end)
    lines = text[start:end]
    has_comment = "#" in text[pair.value_end : end]
    value = text[pair.value_start : pair.value_end]
    if has_comment or ("\n" in value and "#" in value):
        commented = "".join(f"#{line}" for line in lines.splitlines(keepends=True))
        return text[:start] + commented + text[end:]
    return text[:start] + text[end:]


def _without_section(layout: Layout, section: Section) -> str:
    text = layout.text
    end = layout.line_end(section.pairs[-1].value_end) if section.pairs else section.body
    before, after = text[: section.start], text[end:]
    if not after and _ends_blank(before):
        return before.removesuffix(_newline(text))
    if _ends_blank(before):
        after = re.sub(r"\A(?:[ \t]*\r?\n)+", "", after)
    return before + after

"""TOML text: values that no terminal acts on, where keys stand, and changing keys and nothing else.

A key that is there gets another value in its place. A new one goes below the last of its table. A
line with a comment of its own is not taken out but turned into a comment, so that nothing that a
person wrote is lost.

The text is one that `tomllib` has read: what is looked for are places, never mistakes. A parser
that keeps layouts (tomlkit) tells no lines for messages, puts new keys below the comment that
belongs to the next table, ends new lines of a CRLF file with LF and drops the comment of a key
that is removed.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, time
from enum import Enum
from typing import Any, Final

from memtui.text.sanitize import HOSTILE

Path = tuple[str, ...]

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_KEY = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')"""
_DOTTED = rf"{_KEY}(?:[ \t]*\.[ \t]*{_KEY})*"
_BLANK = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_HEADER = re.compile(rf"\[\[?[ \t]*({_DOTTED})[ \t]*\]\]?[^\n]*")
_ASSIGNED = re.compile(rf"({_DOTTED})[ \t]*=[ \t]*")
_TOKEN = re.compile(
    r'''"""(?:[^\\]|\\.)*?"""(?:"{0,2})'''
    r"|'{3}.*?'{3}(?:'{0,2})"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'"
    r"|(?P<open>[\[{])|(?P<close>[\]}])|(?P<comment>#[^\n]*)|(?P<newline>\n)"
    r"""|[^"'\[\]{}#\n]+""",
    re.DOTALL,
)


class Removal(Enum):
    """What a change may be instead of a value."""

    REMOVED = "removed"


REMOVED: Final = Removal.REMOVED


class CannotEdit(ValueError):
    """A text that cannot be changed in this way; the message says why, and what to write."""


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
        return "[" + ", ".join(map(toml_value, value)) + "]"
    if isinstance(value, Mapping):
        pairs = ", ".join(f"{toml_key((key,))} = {toml_value(one)}" for key, one in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    if isinstance(value, str):
        return '"' + "".join(map(_escaped, value)) + '"'
    if isinstance(value, date | time):
        return value.isoformat()
    return repr(value) if isinstance(value, float) else json.dumps(value)


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


# --- where keys stand -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Statement:
    """A header, or a key with its value; places are offsets in the text."""

    table: Path
    """The table of the header that it stands below."""
    path: Path
    """The whole way to the table or the key."""
    start: int
    value_start: int
    """Where the value begins; of a header its end."""
    end: int
    is_header: bool = False


def statements(text: str) -> Iterator[Statement]:
    """The headers and keys of a document in their order; those of inline tables are not told."""
    table: Path = ()
    place = _end(_BLANK, text, 0)
    while place < len(text):
        header = _HEADER.match(text, place)
        if header is not None:
            table = _path(header[1])
            end = header.end()
            yield Statement(table, table, place, end, end, is_header=True)
        else:
            key = _ASSIGNED.match(text, place)
            assert key is not None
            end = _value_end(text, key.end())
            yield Statement(table, (*table, *_path(key[1])), place, key.end(), end)
        place = _end(_BLANK, text, end)


def key_lines(text: str) -> dict[Path, int]:
    """The 1-based line of every key and table header, by its path.

    A table that only its keys or its sub-tables speak of is on the line of the first of them.
    """
    lines: dict[Path, int] = {}
    line, counted = 1, 0
    for one in statements(text):
        line += text.count("\n", counted, one.start)
        counted = one.start
        for length in range(len(one.path), 0, -1):
            lines.setdefault(one.path[:length], line)
    return lines


def _end(pattern: re.Pattern[str], text: str, place: int) -> int:
    match = pattern.match(text, place)
    return place if match is None else match.end()


def _path(dotted: str) -> Path:
    """The parts of a dotted key, without their quotes."""
    parts: list[str] = []
    table: Any = tomllib.loads(f"{dotted} = 0")
    while isinstance(table, dict):
        ((part, table),) = table.items()
        parts.append(part)
    return tuple(parts)


def _value_end(text: str, place: int) -> int:
    depth, end = 0, place
    for token in _TOKEN.finditer(text, place):
        if not depth and token.lastgroup in {"comment", "newline"}:
            break
        depth += {"open": 1, "close": -1}.get(token.lastgroup or "", 0)
        end = token.end()
    return place + len(text[place:end].rstrip())


def _line_start(text: str, place: int) -> int:
    return text.rfind("\n", 0, place) + 1


def _line_end(text: str, place: int) -> int:
    """The beginning of the line after the one of a place."""
    newline = text.find("\n", place)
    return len(text) if newline < 0 else newline + 1


# --- changing -------------------------------------------------------------------------------------


def edited(text: str, changes: Mapping[Path, Any]) -> str:
    """The text with other values for these keys; `REMOVED` takes a key out.

    Tables that are missing are made; a key to remove that is not there is no mistake. Raises
    `CannotEdit` when a key is a table or lies below a value, `ValueError` for a text that is not
    TOML, `RecursionError` for values nested too deeply.
    """
    document = tomllib.loads(text)
    for path, value in changes.items():
        _change(document, path, value)
        text = _without(text, path) if value is REMOVED else _with(text, path, value)
    return _checked(text, document, changes)


def with_table(text: str, path: Path, values: Mapping[str, Any]) -> str:
    """The text with a new table `[path]` at the end.

    `values` are by dotted key below the table. Raises as `edited` does, and `CannotEdit` for a
    table that is there already.
    """
    document = tomllib.loads(text)
    if _find(document, path) is not None:
        raise CannotEdit(f"{toml_key(path)} is there already")
    changes = {(*path, *key.split(".")): value for key, value in values.items()}
    if any(not s.is_header and s.path == path[: len(s.path)] for s in statements(text)):
        return edited(text, changes)
    for key, value in changes.items():
        _change(document, key, value)
    rows = [f"{key} = {toml_value(value)}" for key, value in values.items()]
    return _checked(_with_section(text, path, rows), document, changes)


def without_table(text: str, path: Path) -> str:
    """The text without a table and everything in it; comments before its header stay.

    Raises as `edited` does, and `CannotEdit` when there is no such table.
    """
    document = tomllib.loads(text)
    if not isinstance(_find(document, path), dict):
        raise CannotEdit(f"there is no table {toml_key(path)}")
    _change(document, path, REMOVED)
    for header in reversed([s for s in statements(text) if s.is_header]):
        if header.path[: len(path)] == path:
            text = _without_section(text, header)
    for one in reversed(list(statements(text))):
        if one.path[: len(path)] == path or path[: len(one.path)] == one.path:
            text = text if one.is_header else _without(text, max(one.path, path, key=len))
    return _checked(text, document, {})


def _checked(text: str, document: dict[str, Any], changes: Mapping[Path, Any]) -> str:
    """The new text, if it says what it should."""
    try:
        why = "" if _content(tomllib.loads(text)) == _content(document) else "it says otherwise"
    except ValueError as error:
        why = f"it would no longer be TOML: {error}"
    if not why:
        return text
    lines = [f"{toml_key(path)} = {toml_value(value)}" for path, value in changes.items()]
    raise CannotEdit(f"{why}; the lines are {' | '.join(lines)}")


def _content(value: Any) -> Any:
    """What a document says, to compare: an empty table says nothing, NaN is NaN, 1 is not 1.0."""
    if isinstance(value, dict):
        inner = {key: _content(one) for key, one in value.items()}
        return {key: one for key, one in inner.items() if one != {}}
    return [_content(one) for one in value] if isinstance(value, list) else repr(value)


def _find(table: Any, path: Path) -> Any:
    for part in path:
        table = table.get(part) if isinstance(table, dict) else None
    return table


def _change(table: dict[str, Any], path: Path, value: Any) -> None:
    """Make the change in the document itself."""
    if value is REMOVED:
        inner = _find(table, path[:-1])
        if isinstance(inner, dict):
            inner.pop(path[-1], None)
        return
    for part in path[:-1]:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise CannotEdit(f"{part} of {toml_key(path)} is no table")
    if isinstance(table.get(path[-1]), dict):
        raise CannotEdit(f"{toml_key(path)} is a table")
    table[path[-1]] = tomllib.loads(f"x = {toml_value(value)}")["x"]


def _with(text: str, path: Path, value: Any) -> str:
    table, line = path[:-1], f"{{}} = {toml_value(value)}"
    neighbour, header = None, None
    for one in statements(text):
        if one.is_header:
            header = one if one.path == table else header
        elif one.path == path:
            return text[: one.value_start] + toml_value(value) + text[one.end :]
        elif path[: len(one.path)] == one.path:
            return _with_inline(text, one, path, value)
        elif one.path[: len(table)] == table and len(one.table) <= len(table):
            neighbour = one
    if neighbour is not None:
        line = line.format(toml_key(path[len(neighbour.table) :]))
        begin = _line_start(text, neighbour.start)
        return _inserted(text, _line_end(text, neighbour.end), text[begin : neighbour.start] + line)
    line = line.format(toml_key(path[-1:]))
    if header is not None or not table:
        return _inserted(text, _line_end(text, header.end) if header is not None else 0, line)
    return _with_section(text, table, [line])


def _with_inline(text: str, holder: Statement, path: Path, value: Any) -> str:
    """Write an inline table anew; its lines hold no comments."""
    table = tomllib.loads(f"x = {text[holder.value_start : holder.end]}")["x"]
    _change(table, path[len(holder.path) :], value)
    return text[: holder.value_start] + toml_value(table) + text[holder.end :]


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _inserted(text: str, place: int, line: str) -> str:
    newline = _newline(text)
    missing = newline if place and text[place - 1] != "\n" else ""
    return f"{text[:place]}{missing}{line}{newline}{text[place:]}"


def _with_section(text: str, path: Path, rows: Sequence[str]) -> str:
    """A new section at the end."""
    newline = _newline(text)
    before = text.rstrip() + newline * 2 if text.strip() else ""
    return before + "".join(row + newline for row in (f"[{toml_key(path)}]", *rows))


def _without(text: str, path: Path) -> str:
    for one in statements(text):
        if one.is_header or path[: len(one.path)] != one.path:
            continue
        if one.path != path:
            return _with_inline(text, one, path, REMOVED)
        start, end = _line_start(text, one.start), _line_end(text, one.end)
        lines = text[start:end]
        value = text[one.value_start : one.end]
        if "#" not in text[one.end : end] and not ("\n" in value and "#" in value):
            return text[:start] + text[end:]
        return text[:start] + re.sub(r"^", "#", lines.rstrip("\n"), flags=re.M) + text[end - 1 :]
    return text


def _without_section(text: str, header: Statement) -> str:
    end = header.end
    for one in statements(text):
        if one.start > header.start:
            if one.is_header:
                break
            end = one.end
    before, after = text[: header.start], text[_line_end(text, end) :]
    if not after.strip():
        return before.rstrip() + _newline(text) if before.strip() else after
    return before + re.sub(r"\A(?:[ \t]*\r?\n)+", "", after)

"""TOML text: values that no terminal acts on, and where keys stand.

The text is one that `tomllib` has read: what is looked for are places, never mistakes.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, time
from typing import Any

from msgspec import Struct

from memtui.text.sanitize import HOSTILE

KeyPath = tuple[str, ...]

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SURROGATE = re.compile("[\ud800-\udfff]")
_KEY = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')"""
_DOTTED = rf"{_KEY}(?:[ \t]*\.[ \t]*{_KEY})*"
_BLANK = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_LINE_END = re.compile(r"[^\n]*\n?")
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


def toml_value(value: Any) -> str:
    """A value as TOML; what is not set is an empty string.

    In texts, what could command a terminal is escaped and a lone surrogate, which TOML cannot
    hold, becomes U+FFFD.
    """
    if value is None:
        return '""'
    if isinstance(value, tuple | list):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    if isinstance(value, Mapping):
        pairs = ", ".join(f"{toml_key((key,))} = {toml_value(one)}" for key, one in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    if isinstance(value, str):
        text = json.dumps(_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", value), ensure_ascii=False)
        return HOSTILE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
    if isinstance(value, date | time):
        return value.isoformat()
    return repr(value) if isinstance(value, float) else json.dumps(value)


def toml_key(path: Sequence[str]) -> str:
    """A dotted key, with quotes around the parts that need them."""
    return ".".join(part if _BARE.fullmatch(part) else toml_value(part) for part in path)


class Statement(Struct, frozen=True):
    """A header, or a key with its value; places are offsets in the text."""

    table: KeyPath
    """The table of the header that it stands below."""
    path: KeyPath
    """The whole way to the table or the key."""
    start: int
    value_start: int
    """The beginning of the value; of a header its end."""
    end: int
    line_end: int
    """The beginning of the next line."""
    is_header: bool = False


def statements(text: str) -> Iterator[Statement]:
    """Headers and keys of a document in their order; those of inline tables are not told."""
    table: KeyPath = ()
    place = _end(_BLANK, text, 0)
    while place < len(text):
        header, key = _HEADER.match(text, place), _ASSIGNED.match(text, place)
        if header is not None:
            table = path = key_parts(header[1])
            value_start = end = header.end()
        else:
            assert key is not None
            path, depth = (*table, *key_parts(key[1])), 0
            value_start = end = key.end()
            for token in _TOKEN.finditer(text, value_start):
                if not depth and token.lastgroup in {"comment", "newline"}:
                    break
                depth += {"open": 1, "close": -1}.get(token.lastgroup or "", 0)
                end = token.end()
            end = value_start + len(text[value_start:end].rstrip())
        line_end = _end(_LINE_END, text, end)
        yield Statement(table, path, place, value_start, end, line_end, header is not None)
        place = _end(_BLANK, text, end)


def key_lines(text: str) -> dict[KeyPath, int]:
    """The 1-based line of every key and table, or of the first that speaks of it, by its path."""
    lines: dict[KeyPath, int] = {}
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


def key_parts(dotted: str) -> KeyPath:
    """Return the parts of a dotted key, without their quotes."""
    parts: list[str] = []
    table: Any = tomllib.loads(f"{dotted} = 0")
    while isinstance(table, dict):
        ((part, table),) = table.items()
        parts.append(part)
    return tuple(parts)


def comments(text: str) -> list[str]:
    """The comments of a document, without their marks."""
    tokens = _TOKEN.finditer(text)
    return [token[0].strip("# \t\r") for token in tokens if token.lastgroup == "comment"]

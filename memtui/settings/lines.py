"""The line that each key of a TOML document stands on."""

from __future__ import annotations

from typing import Any

import tomlkit
from tomlkit.container import Container
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import AoT, Table

Path = tuple[str, ...]


def key_lines(text: str) -> dict[Path, int]:
    """The 1-based line of every key and table header, by its path.

    A document that tomlkit cannot read has no known lines: the caller has read it with `tomllib`
    already, so this is about better messages, never about what is in the file.
    """
    try:
        document = tomlkit.parse(text)
    except (TOMLKitError, ValueError, RecursionError, AttributeError, TypeError):
        return {}
    lines: dict[Path, int] = {}
    _walk(document, (), 1, lines)
    return lines


def _walk(container: Container, prefix: Path, line: int, lines: dict[Path, int]) -> int:
    for key, item in container.body:
        if key is None:
            line += item.as_string().count("\n")
        else:
            line = _item(item, key.is_dotted(), (*prefix, key.key), line, lines)
    return line


def _item(item: Any, dotted: bool, path: Path, line: int, lines: dict[Path, int]) -> int:
    if isinstance(item, AoT):
        for table in item.body:
            line = _item(table, False, path, line, lines)
        return line
    if isinstance(item, Table):
        lines.setdefault(path, line)
        headed = not item.is_super_table() and not dotted
        return _walk(item.value, path, line + 1 if headed else line, lines)
    lines.setdefault(path, line)
    rendered: str = item.as_string() + item.trivia.trail
    return line + rendered.count("\n")

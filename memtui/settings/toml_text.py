"""Keys and values as TOML text that no terminal acts on."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from enum import Enum
from typing import Any

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

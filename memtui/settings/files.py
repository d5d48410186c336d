"""Configuration files: reading, and the line that a key stands on."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from memtui.settings.problems import Problem, ProblemCode

MAX_CONFIG_BYTES: Final = 1_000_000
# Reading such a key takes time that grows with the square of its parts.
_KEY_PART = r"""(?:[\w-]{1,200}+|"(?:[^"\\\n]|\\.){0,200}+"|'[^'\n]{0,200}+')"""
_DEEP_KEY = re.compile(rf"(?<![\w-])(?:{_KEY_PART}[ \t]*+\.[ \t]*+){{200}}")
_LINE = re.compile(r"\(at line (\d+), column (\d+)\)\Z")


@dataclass(slots=True)
class ConfigFile:
    """A configuration file that was read, and the table in it that is memtui's."""

    path: Path
    text: str
    sha256: str
    table: Mapping[str, Any]
    prefix: tuple[str, ...] = ()
    """The way to the table: `("tool", "memtui")` in a pyproject.toml."""
    _lines: dict[tuple[str, ...], int] | None = field(default=None, repr=False)

    def place(self, path: tuple[str, ...]) -> str:
        """Where a key stands, as `file:line`; the file alone when the line cannot be told."""
        if self._lines is None:
            from memtui.settings.lines import key_lines

            self._lines = key_lines(self.text)
        full = (*self.prefix, *path)
        for length in range(len(full), len(self.prefix), -1):
            line = self._lines.get(full[:length])
            if line is not None:
                return f"{self.path}:{line}"
        return str(self.path)


def read_config(path: Path, prefix: tuple[str, ...] = ()) -> ConfigFile | Problem | None:
    """Read a TOML file; `None` when it does not exist or holds nothing below `prefix`.

    A file that is not regular, too large, not UTF-8 or not TOML is a problem. A file with a
    prefix belongs to other programs too: when it is broken and does not speak of the prefix, it
    is none of memtui's business.
    """
    try:
        data = read_bytes(path)
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        return None
    except (OSError, ValueError) as error:
        return Problem(ProblemCode.UNREADABLE, str(path), "", _reason(error))
    return parse_config(path, data, prefix)


def parse_config(
    path: Path, data: bytes, prefix: tuple[str, ...] = ()
) -> ConfigFile | Problem | None:
    """What a file holds, as `read_config` tells it; `path` is only named."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if prefix and ".".join(prefix).encode() not in data:
            return None
        line = data.count(b"\n", 0, error.start) + 1
        return Problem(ProblemCode.SYNTAX, f"{path}:{line}", "", "not UTF-8")
    if (deep := _DEEP_KEY.search(text)) is not None:
        line = text.count("\n", 0, deep.start()) + 1
        return Problem(ProblemCode.SYNTAX, f"{path}:{line}", "", "a key of too many parts")
    try:
        import tomllib

        document: Any = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        if prefix and ".".join(prefix) not in text:
            return None
        return _syntax_problem(path, text, error)
    for name in prefix:
        document = document.get(name) if isinstance(document, dict) else None
    if document is None:
        return None
    if not isinstance(document, dict):
        return Problem(ProblemCode.WRONG_VALUE, str(path), ".".join(prefix), "must be a table")
    import hashlib

    return ConfigFile(path, text, hashlib.sha256(data).hexdigest(), document, prefix)


def read_bytes(path: Path, limit: int = MAX_CONFIG_BYTES) -> bytes:
    """Read a regular file; raises OSError, `ValueError` when it is none or above `limit` bytes."""
    if str(path) == os.devnull:
        return b""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise ValueError("not a regular file")
        with open(handle, "rb", closefd=False) as file:
            data = file.read(limit + 1)
    finally:
        os.close(handle)
    if len(data) > limit:
        raise ValueError(f"larger than {limit} bytes")
    return data


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"cannot be read: {error.strerror or type(error).__name__}"
    return f"cannot be read: {error}"


def _syntax_problem(path: Path, text: str, error: Exception) -> Problem:
    if isinstance(error, RecursionError):
        return Problem(ProblemCode.SYNTAX, str(path), "", "nested too deeply")
    message = str(error)
    found = _LINE.search(message)
    if found is not None:
        what = message[: found.start()].strip()
        return Problem(
            ProblemCode.SYNTAX, f"{path}:{found[1]}", "", f"broken TOML: {what}, column {found[2]}"
        )
    line = text.count("\n") + 1
    what = message.removesuffix(" (at end of document)")
    return Problem(ProblemCode.SYNTAX, f"{path}:{line}", "", f"broken TOML: {what}")

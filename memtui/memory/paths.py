"""How the index writes a path on disk: relative, with `/`, as valid UTF-8, never ambiguous."""

from __future__ import annotations

import os
import re

_UNWRITABLE = re.compile("[\ud800-\udfff\ufffd]")
_WRITTEN = re.compile("\ufffd(\ufffd|[0-9a-f]{4})")
_MARK = "\ufffd"


def written(text: str) -> str:
    """Write a path as valid UTF-8: a byte that is none becomes U+FFFD and four hex digits.

    A U+FFFD of the path itself is doubled, so that no two paths are written alike.
    """
    if text.isascii():
        return text
    return _UNWRITABLE.sub(
        lambda match: _MARK * 2 if match[0] == _MARK else f"{_MARK}{ord(match[0]):04x}", text
    )


def unwritten(text: str) -> str:
    """Undo `written`: the path as the operating system knows it."""
    if text.isascii():
        return text
    return _WRITTEN.sub(lambda match: _MARK if match[1] == _MARK else chr(int(match[1], 16)), text)


def stored_path(path: str, root: str) -> str:
    """Name an absolute path relative to an absolute root, with `/` between the parts.

    A path on another drive than the root keeps its absolute form.
    """
    try:
        relative = os.path.relpath(path, root)
    except ValueError:
        relative = path
    return written(relative.replace(os.sep, "/") if os.sep != "/" else relative)


def absolute_path(stored: str, root: str) -> str:
    """Find the path on disk that `stored_path` named."""
    return os.path.normpath(os.path.join(root, unwritten(stored)))


def parts_below(path: str, folder: str) -> tuple[str, ...] | None:
    """Give the components of an absolute path below a folder; `None` when it is not below it."""
    if path == folder:
        return ()
    prefix = folder if folder.endswith(os.sep) else folder + os.sep
    return tuple(path[len(prefix) :].split(os.sep)) if path.startswith(prefix) else None

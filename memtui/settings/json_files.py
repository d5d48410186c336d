"""JSON files that a person names: bounded, plain or gzipped, with errors that say where."""

from __future__ import annotations

import gzip
import io
import json
import zlib
from pathlib import Path
from typing import Any, Final

from memtui.settings.files import read_bytes

MAX_BYTES: Final = 512 * 2**20
_GZIP: Final = b"\x1f\x8b"


class UnreadableJson(Exception):
    """A file that cannot be used: what is wrong, and on which line (1-based) if that is known."""

    def __init__(self, what: str, line: int | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.line = line


def read_json(path: Path, limit: int = MAX_BYTES) -> Any:
    """Read a JSON file, compressed with gzip or not; at most `limit` bytes, unpacked as well.

    Raises `UnreadableJson`.
    """
    data = _data(path, limit)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UnreadableJson("not UTF-8", line) from None
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        what = f"broken JSON: {error.msg}, column {error.colno}"
        raise UnreadableJson(what, error.lineno) from None
    except (ValueError, RecursionError):
        raise UnreadableJson("broken JSON: it holds what cannot be read") from None


def _data(path: Path, limit: int) -> bytes:
    try:
        data = read_bytes(path, limit)
    except OSError as error:
        raise UnreadableJson(error.strerror or type(error).__name__) from None
    except ValueError as error:
        raise UnreadableJson(str(error)) from None
    if not data.startswith(_GZIP):
        return data
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            unpacked = file.read(limit + 1)
    except (OSError, EOFError, zlib.error):
        raise UnreadableJson("broken gzip") from None
    if len(unpacked) > limit:
        raise UnreadableJson(f"larger than {limit} bytes once unpacked")
    return unpacked

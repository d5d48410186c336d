"""What leaves the program: data on stdout, narration on stderr, both safe for a terminal."""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from datetime import date
from enum import Enum
from pathlib import PurePath
from typing import Any, Final, TextIO

from memtui.errors import MemtuiError

SCHEMA_VERSION: Final = 1
"""Version of every JSON document; rises when a field changes its meaning or goes away."""

_NOT_IN_JSON = re.compile("[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class OutputFailed(MemtuiError):
    """Stdout or stderr that takes nothing more, such as a full disk."""

    code = "output"

    def __init__(self, error: OSError) -> None:
        super().__init__(f"the output cannot be written: {error.strerror or error}")


@contextmanager
def delivering() -> Iterator[None]:
    """Turn what a stream raises into `OutputFailed`; a reader that has gone stays what it is."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputFailed(error) from error


def plain(value: Any) -> Any:
    """A value as JSON holds it: enums by value, times as ISO 8601, NaN and infinity as null."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return {
            field.name.rstrip("_"): plain(getattr(value, field.name)) for field in fields(value)
        }
    if isinstance(value, Mapping):
        return {str(plain(key)): plain(item) for key, item in value.items()}
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, Iterable):
        return [plain(item) for item in value]
    raise TypeError(f"not a value for JSON: {type(value).__name__}")


def json_text(document: Mapping[str, Any], *, indent: int | None = 2) -> str:
    """A document as JSON that no terminal acts on: control and bidi characters are escaped."""
    text = json.dumps(plain(document), ensure_ascii=False, allow_nan=False, indent=indent)
    return _NOT_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class Output:
    """Stdout and stderr of one command.

    Text is made safe for a terminal unless `raw`; `data` is also left alone when stdout is not a
    terminal. Colour needs a terminal, and no `NO_COLOR`.
    """

    def __init__(
        self,
        env: Mapping[str, str],
        *,
        raw: bool = False,
        stdout: TextIO | None = None,
        stderr: TextIO | None = None,
    ) -> None:
        self._out = stdout if stdout is not None else sys.stdout
        self._err = stderr if stderr is not None else sys.stderr
        self._raw = raw
        self.out_is_terminal = _is_terminal(self._out)
        self.err_is_terminal = _is_terminal(self._err)
        self._can_erase = self.err_is_terminal and env.get("TERM") != "dumb"
        self.colour = self.out_is_terminal and not env.get("NO_COLOR") and env.get("TERM") != "dumb"
        self.unicode = _speaks_unicode(self._out)

    def document(self, document: Mapping[str, Any]) -> None:
        """Write one JSON document."""
        self._write_json(json_text({"schema_version": SCHEMA_VERSION, **document}))

    def record(self, document: Mapping[str, Any]) -> None:
        """Write one JSON document on one line, of several."""
        line = json_text({"schema_version": SCHEMA_VERSION, **document}, indent=None)
        self._write_json(line)

    def line(self, text: str = "") -> None:
        """Write a line for people; style it with `styled`, which survives."""
        self._write(self._out, text + "\n")

    def data(self, text: str) -> None:
        """Write a line for programs, byte for byte unless it goes to a terminal."""
        if self.out_is_terminal:
            text = self.clean(text)
        self._write(self._out, text + "\n")

    def note(self, text: str) -> None:
        """Write narration to stderr."""
        self._write(self._err, _clean_lines(text) + "\n")

    def progress(self, text: str) -> None:
        """Replace the line that tells of progress; nothing where a line cannot be erased."""
        if self._can_erase:
            columns = _columns(self._err) - 1
            self._write(self._err, f"\r\x1b[K{_clean_line(text)[:columns]}")
            self._err.flush()

    def clean(self, text: str) -> str:
        """Text of a note, a path or an error as one line that is safe to print."""
        return text if self._raw else _clean_line(text)

    def styled(self, text: str, *codes: int) -> str:
        """Text between ANSI codes, where there is colour."""
        if not self.colour or not text:
            return text
        return f"\x1b[{';'.join(str(code) for code in codes)}m{text}\x1b[0m"

    def width(self) -> int:
        """Columns for people: those of the terminal, at most 120; 100 when there is none."""
        return min(120, _columns(self._out)) if self.out_is_terminal else 100

    def flush(self) -> None:
        """Hand everything to the system."""
        with delivering():
            self._out.flush()
            self._err.flush()

    @delivering()
    def _write(self, stream: TextIO, text: str) -> None:
        encoding = getattr(stream, "encoding", None) or "utf-8"
        try:
            stream.write(text)
        except UnicodeEncodeError:
            buffer = getattr(stream, "buffer", None)
            if buffer is None:
                stream.write(text.encode("utf-8", "replace").decode("utf-8"))
                return
            stream.flush()
            errors = "surrogateescape" if encoding.lower().replace("-", "") == "utf8" else "replace"
            try:
                buffer.write(text.encode(encoding, errors))
            except UnicodeEncodeError:
                buffer.write(text.encode(encoding, "backslashreplace"))

    @delivering()
    def _write_json(self, text: str) -> None:
        """JSON is UTF-8, whatever the locale says."""
        buffer = getattr(self._out, "buffer", None)
        if buffer is None or self.unicode:
            self._out.write(text + "\n")
            return
        self._out.flush()
        buffer.write((text + "\n").encode("utf-8"))


def silence_stdout() -> None:
    """Send what is left of stdout nowhere: its reader has gone."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)


def _clean_line(text: str) -> str:
    from memtui.text.sanitize import safe_line

    return safe_line(text)


def _clean_lines(text: str) -> str:
    return "\n".join(_clean_line(line) for line in text.split("\n"))


def _is_terminal(stream: TextIO) -> bool:
    isatty: Callable[[], bool] | None = getattr(stream, "isatty", None)
    return isatty is not None and isatty()


def _speaks_unicode(stream: TextIO) -> bool:
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return encoding.lower().replace("-", "").replace("_", "") in {"utf8", "utf8sig"}


def _columns(stream: TextIO) -> int:
    try:
        return max(40, os.get_terminal_size(stream.fileno()).columns)
    except (OSError, ValueError):
        return 80

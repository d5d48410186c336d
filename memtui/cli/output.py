"""What leaves the program: data on stdout, narration on stderr, both safe for a terminal."""

from __future__ import annotations

import codecs
import io
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, TextIO, TypeAlias

from memtui.errors import MemtuiError
from memtui.report.json_text import document_text
from memtui.text.sanitize import safe_line

EXIT_OK, EXIT_NOTHING = 0, 1
"""Exit codes of every command: done, and done with nothing to show."""
BOLD, DIM, RED, GREEN, YELLOW, MARKED = "1", "2", "31", "32", "33", "1;4"
Part: TypeAlias = str | tuple[str, str]
"""A piece of a line; one with ANSI codes is styled where there is colour."""
Line: TypeAlias = str | Sequence[Part]
_UNICODE: Final = frozenset({"utf-8", "utf-8-sig"})


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


class Output:
    """Stdout and stderr of one command.

    Text is made safe for a terminal unless `raw`; `data` is also left alone when stdout is not a
    terminal. Colour needs a terminal, and no `NO_COLOR`. `light_background` is what `COLORFGBG`
    says (`15;0` is light on black).
    """

    def __init__(
        self,
        env: Mapping[str, str],
        *,
        raw: bool = False,
        stdout: TextIO | None = None,
        stderr: TextIO | None = None,
    ) -> None:
        self._out = _prepared(stdout or sys.stdout, "replace")
        self._err = _prepared(stderr or sys.stderr, "backslashreplace")
        self._raw = raw
        self.out_is_terminal = self._out.isatty()
        self.err_is_terminal = self._err.isatty()
        self._can_erase = self.err_is_terminal and env.get("TERM") != "dumb"
        self._has_colour = (
            self.out_is_terminal and not env.get("NO_COLOR") and env.get("TERM") != "dumb"
        )
        self.unicode = _encoding_of(self._out) in _UNICODE
        self.light_background = env.get("COLORFGBG", "").rpartition(";")[2] in {"7", "15"}

    def document(self, document: Mapping[str, Any]) -> None:
        """Write one JSON document."""
        self.whole(document_text(document) + "\n")

    def record(self, document: Mapping[str, Any]) -> None:
        """Write one JSON document on one line, of several."""
        self.whole(document_text(document, indent=None) + "\n")

    @delivering()
    def whole(self, text: str) -> None:
        """Write a document that is safe as it is: UTF-8, whatever the locale says."""
        buffer = getattr(self._out, "buffer", None)
        if buffer is None or self.unicode:
            self._out.write(text)
            return
        self._out.flush()
        buffer.write(text.encode("utf-8"))

    def line(self, *parts: Part) -> None:
        """Write a line for people; each part is made safe."""
        self._write(self._out, "".join(map(self._shown, parts)) + "\n")

    def lines(self, lines: Iterable[Line]) -> None:
        """Write lines for people."""
        for line in lines:
            self.line(line) if isinstance(line, str) else self.line(*line)

    def data(self, text: str) -> None:
        """Write a line for programs, byte for byte unless it goes to a terminal."""
        self._write(self._out, (self.clean(text) if self.out_is_terminal else text) + "\n")

    def note(self, text: str) -> None:
        """Write narration to stderr."""
        self._write(self._err, "".join(f"{safe_line(line)}\n" for line in text.split("\n")))

    def warn(self, warnings: Iterable[object]) -> None:
        """Write warnings to stderr, a line each."""
        for warning in warnings:
            self.note(f"memtui: {warning}")

    def progress(self, text: str) -> None:
        """Replace the line that tells of progress; nothing where a line cannot be erased."""
        if self._can_erase:
            self._write(self._err, f"\r\x1b[K{safe_line(text)[: _columns(self._err) - 1]}")
            self._err.flush()

    def clean(self, text: str) -> str:
        """Return text of a note, a path or an error as one line that is safe to print."""
        return text if self._raw else safe_line(text)

    def width(self) -> int:
        """Return the columns for people: those of the terminal, at most 120; 100 without one."""
        return min(120, _columns(self._out)) if self.out_is_terminal else 100

    def wrap_width(self) -> int | None:
        """Return where lines break for people; `None` for a pipe or a file."""
        return self.width() if self.out_is_terminal else None

    def flush(self) -> None:
        """Hand everything to the system."""
        with delivering():
            self._out.flush()
            self._err.flush()

    def _shown(self, part: Part) -> str:
        if isinstance(part, str):
            return self.clean(part)
        text, codes = part
        clean = self.clean(text)
        return f"\x1b[{codes}m{clean}\x1b[0m" if self._has_colour and clean else clean

    @delivering()
    def _write(self, stream: TextIO, text: str) -> None:
        stream.write(text)


def spaced(groups: Iterable[Iterable[Line]]) -> Iterator[Line]:
    """Return the lines of several things, with an empty one between two of them."""
    for number, lines in enumerate(groups):
        if number:
            yield ""
        yield from lines


def silence_stdout() -> None:
    """Send what is left of stdout nowhere: its reader has gone."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)


def _prepared(stream: TextIO, otherwise: str) -> TextIO:
    """Let a stream take every character: bytes of file names as they are, others in its own way."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="memtui" if _encoding_of(stream) in _UNICODE else otherwise)
    return stream


def _bytes_or_escapes(error: UnicodeError) -> tuple[str | bytes, int]:
    """Encode half a character: as the byte of a file name that it stands for, else in words."""
    try:
        return codecs.lookup_error("surrogateescape")(error)
    except UnicodeEncodeError:
        return codecs.lookup_error("backslashreplace")(error)


codecs.register_error("memtui", _bytes_or_escapes)


def _encoding_of(stream: TextIO) -> str:
    return codecs.lookup(getattr(stream, "encoding", None) or "utf-8").name


def _columns(stream: TextIO) -> int:
    try:
        return max(40, os.get_terminal_size(stream.fileno()).columns)
    except (OSError, ValueError):
        return 80

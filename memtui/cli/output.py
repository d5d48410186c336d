"""What leaves the program: data on stdout, narration on stderr, both safe for a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TextIO

from memtui.errors import MemtuiError
from memtui.report.documents import document_text


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
        self._out = stdout if stdout is not None else sys.stdout
        self._err = stderr if stderr is not None else sys.stderr
        self._raw = raw
        self.out_is_terminal = _is_terminal(self._out)
        self.err_is_terminal = _is_terminal(self._err)
        self._can_erase = self.err_is_terminal and env.get("TERM") != "dumb"
        self.colour = self.out_is_terminal and not env.get("NO_COLOR") and env.get("TERM") != "dumb"
        self.unicode = _speaks_unicode(self._out)
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

    def line(self, text: str = "") -> None:
        """Write a line for people; style it with `styled`, which survives."""
        self._write(self._out, text + "\n")

    def lines(self, lines: Iterable[str]) -> None:
        """Write lines for people, each made safe."""
        for line in lines:
            self.line(self.clean(line))

    def data(self, text: str) -> None:
        """Write a line for programs, byte for byte unless it goes to a terminal."""
        if self.out_is_terminal:
            text = self.clean(text)
        self._write(self._out, text + "\n")

    def note(self, text: str) -> None:
        """Write narration to stderr."""
        self._write(self._err, _clean_lines(text) + "\n")

    def warn(self, warnings: Iterable[object]) -> None:
        """Write warnings to stderr, a line each."""
        for warning in warnings:
            self.note(f"memtui: {warning}")

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

    def wrap_width(self) -> int | None:
        """Where lines are broken for people; `None` for a pipe or a file, which takes any line."""
        return self.width() if self.out_is_terminal else None

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

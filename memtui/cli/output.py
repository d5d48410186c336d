"""Writes the output: data on stdout, narration on stderr, both safe for a terminal."""

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
from memtui.report.layout import IN_ASCII, INDENT, Clean, Layout, Section, Tone
from memtui.settings.schema import UiSettings
from memtui.text.sanitize import safe_line

EXIT_OK, EXIT_NOTHING = 0, 1
"""Exit codes of every command: done, and done with nothing to show."""
BOLD, DIM, RED, GREEN, YELLOW, MARKED = "1", "2", "31", "32", "33", "1;4"
Part: TypeAlias = str | tuple[str, str]
"""A piece of a line; one with ANSI codes is styled where there is colour."""
Line: TypeAlias = str | Sequence[Part]
_UNICODE: Final = frozenset({"utf-8", "utf-8-sig"})
_COLOURS: Final = {Tone.HEADING: BOLD, Tone.ERROR: RED, Tone.WARN: YELLOW}


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
    terminal. Colour needs a terminal, and no `NO_COLOR`. `completed` completes the commands that
    notes suggest.
    """

    def __init__(
        self, env: Mapping[str, str], *, raw: bool = False, completed: Clean = str
    ) -> None:
        self._completed = completed
        self._out, self._err = sys.stdout, sys.stderr
        encoding = codecs.lookup(self._out.encoding or "utf-8").name
        self.unicode = encoding in _UNICODE
        # Every character can be written: bytes of file names as they are, others in their own way.
        for stream, otherwise in ((self._out, "replace"), (self._err, "backslashreplace")):
            if isinstance(stream, io.TextIOWrapper):
                named = codecs.lookup(stream.encoding or "utf-8").name in _UNICODE
                stream.reconfigure(errors="memtui" if named else otherwise)
        self.clean: Clean = str if raw else safe_line
        """Makes text of a note, a path or an error one line that is safe to print."""
        self._signs = IN_ASCII if UiSettings().ascii_only(env) and not raw else {}
        self.out_is_terminal = self._out.isatty()
        self.err_is_terminal = self._err.isatty()
        is_dumb = env.get("TERM") == "dumb"
        self._can_erase = self.err_is_terminal and not is_dumb
        self._has_colour = self.out_is_terminal and not is_dumb and not env.get("NO_COLOR")
        self.width = min(120, _columns(self._out)) if self.out_is_terminal else 100
        """The columns for people: those of the terminal, at most 120; 100 without one."""
        self.wrap_width = self.width if self.out_is_terminal else None
        """The width at which lines break for people; `None` for a pipe or a file."""

    def document(self, document: Mapping[str, Any], *, indent: int | None = 2) -> None:
        """Write one JSON document; without an indent it takes one line."""
        if "warnings" in document:
            warnings = [self._completed(str(warning)) for warning in document["warnings"]]
            document = {**document, "warnings": warnings}
        self.whole(document_text(document, indent=indent) + "\n")

    @delivering()
    def whole(self, text: str) -> None:
        """Write a document that is safe as it is: UTF-8, whatever the locale says."""
        if self.unicode:
            self._out.write(text)
            return
        self._out.flush()
        self._out.buffer.write(text.encode("utf-8"))

    def lines(self, lines: Iterable[Line | Section]) -> None:
        """Write lines for people, each part made safe; a section as its title and its rows."""
        written = []
        for line in lines:
            for parts in self._section(line) if isinstance(line, Section) else (line,):
                for part in (parts,) if isinstance(parts, str) else parts:
                    text, codes = (part, "") if isinstance(part, str) else part
                    text = self.clean(text).translate(self._signs)
                    is_styled = self._has_colour and codes and text
                    written.append(f"\x1b[{codes}m{text}\x1b[0m" if is_styled else text)
                written.append("\n")
        with delivering():
            self._out.write("".join(written))

    def _section(self, section: Section) -> Iterator[Line]:
        has_colour = len(section.columns) > 2
        for line in Layout(self.clean, indent=INDENT if section.title else 0).section(section):
            parts = [(span.text, _COLOURS.get(span.tone, "")) for span in line.spans]
            is_styled = line.heading or (has_colour and any(codes for _, codes in parts))
            yield parts if is_styled else line.text

    @delivering()
    def data(self, text: str) -> None:
        """Write a line for programs, byte for byte unless it goes to a terminal."""
        self._out.write((self.clean(text) if self.out_is_terminal else text) + "\n")

    @delivering()
    def note(self, text: str) -> None:
        """Write narration to stderr."""
        lines = self._completed(text).split("\n")
        self._err.write("".join(f"{safe_line(line).translate(self._signs)}\n" for line in lines))

    def warn(self, warnings: Iterable[object]) -> None:
        """Write warnings to stderr, a line each."""
        for warning in warnings:
            self.note(f"memtui: {warning}")

    @delivering()
    def progress(self, text: str) -> None:
        """Replace the line that tells of progress; nothing where a line cannot be erased."""
        if self._can_erase:
            self._err.write(f"\r\x1b[K{safe_line(text)[: _columns(self._err) - 1]}")
            self._err.flush()

    @delivering()
    def flush(self) -> None:
        self._out.flush()
        self._err.flush()


def at_terminal() -> bool:
    """Tell whether a person sits in front of it: stdin and stdout are a terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def spaced(groups: Iterable[Iterable[Line]]) -> Iterator[Line]:
    """Yield the lines of several things, with an empty one between two of them."""
    for number, lines in enumerate(groups):
        if number:
            yield ""
        yield from lines


def silence_stdout() -> None:
    """Send what is left of stdout nowhere: its reader has gone."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)


def _bytes_or_escapes(error: UnicodeError) -> tuple[str | bytes, int]:
    """Encode half a character: as the byte of a file name that it stands for, else in words."""
    try:
        return codecs.lookup_error("surrogateescape")(error)
    except UnicodeEncodeError:
        return codecs.lookup_error("backslashreplace")(error)


codecs.register_error("memtui", _bytes_or_escapes)


def _columns(stream: TextIO) -> int:
    try:
        return max(40, os.get_terminal_size(stream.fileno()).columns)
    except (OSError, ValueError):
        return 80

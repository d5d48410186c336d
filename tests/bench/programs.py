"""Programs in a pseudo-terminal: what their screen shows, and when it came to show it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
from codecs import getincrementaldecoder
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from time import perf_counter

from tests.bench.frame import MILLISECONDS, Plan, Series
from tests.e2e.terminal import private_environment

ROWS, COLUMNS = 40, 120
PATIENCE = 60.0
_TOKEN = re.compile(
    r"\x1b\[(?P<numbers>[0-?]*)[ -/]*(?P<final>[@-~])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"
    r"|\x1b[ -/]*[0-Z\\-~]|(?P<text>[^\x00-\x1f\x7f]+)|(?P<control>[\x00-\x1a\x1c-\x1f\x7f])"
)

_BROKEN = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]*|[ -/]*)\Z")
"""A sequence whose end has not come yet."""


class Screen:
    """What a terminal shows after a stream of bytes: characters alone, each one cell wide.

    Only what Textual writes is understood: the cursor is moved, text is written, the rest is
    passed over. The rows of wide characters are therefore longer than they look.
    """

    def __init__(self, rows: int = ROWS, columns: int = COLUMNS) -> None:
        self.size, self._columns = (rows, columns), columns
        self._cells = [[" "] * columns for _ in range(rows)]
        self._row = self._column = 0
        self._rest = ""
        self._decoder = getincrementaldecoder("utf-8")("ignore")

    def feed(self, data: bytes) -> None:
        """Take what the program wrote; the end of a broken sequence may come later."""
        text = self._rest + self._decoder.decode(data)
        broken = _BROKEN.search(text)
        end = broken.start() if broken else len(text)
        self._rest = text[end:]
        for token in _TOKEN.finditer(text, 0, end):
            if token["text"]:
                self._write(token["text"])
            elif token["control"]:
                self._control(token["control"])
            elif token["final"] in ("H", "f"):
                self._move(token["numbers"])

    def rows(
        self, first: int = 0, last: int | None = None, columns: int | None = None
    ) -> list[str]:
        """The text of some rows, up to a column, without blanks at their ends."""
        return ["".join(row[:columns]).rstrip() for row in self._cells[first:last]]

    def _write(self, text: str) -> None:
        row = self._cells[min(self._row, len(self._cells) - 1)]
        cells = list(text)[: max(self._columns - self._column, 0)]
        row[self._column : self._column + len(cells)] = cells
        self._column += len(cells)

    def _control(self, control: str) -> None:
        if control == "\r":
            self._column = 0
        elif control == "\n":
            self._row = min(self._row + 1, len(self._cells) - 1)

    def _move(self, numbers: str) -> None:
        row, _, column = numbers.partition(";")
        self._row = min(int(row or 1), len(self._cells)) - 1
        self._column = min(int(column or 1), self._columns) - 1


def _take_terminal() -> None:
    """Let the terminal be the one of the process, so that both end with whoever started it."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Program:
    """A program in a terminal of its own; ended by SIGKILL when the block is left."""

    def __init__(
        self, command: Sequence[str], env: Mapping[str, str], screen: Screen | None = None
    ) -> None:
        self.screen = screen or Screen()
        self._command = command
        self._env = {**env, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
        self._master = -1
        self._process: subprocess.Popen[bytes] | None = None
        self.began = 0.0
        """When it was started, by `perf_counter`."""

    def __enter__(self) -> Program:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", *self.screen.size, 0, 0))
        self.began = perf_counter()
        self._process = subprocess.Popen(
            self._command, env=self._env, stdin=slave, stdout=slave, stderr=slave,
            start_new_session=True, preexec_fn=_take_terminal,
        )  # fmt: skip
        os.close(slave)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        os.close(self._master)

    def cpu(self) -> float:
        """Seconds of CPU time that its threads, as they are now, have taken; 0 without Linux."""
        assert self._process is not None
        spent = 0
        for file in Path(f"/proc/{self._process.pid}/task").glob("*/schedstat"):
            with suppress(OSError):  # a thread that ended meanwhile
                spent += int(file.read_text().split()[0])
        return spent / 1e9

    def press(self, text: str) -> float:
        """Type; returns when."""
        at = perf_counter()
        os.write(self._master, text.encode())
        return at

    def until(self, shown: Callable[[Screen], bool], seconds: float = PATIENCE) -> float | None:
        """When the screen came to show something; `None` when it did not in that time.

        The time is that of the bytes, before they were understood.
        """
        deadline = perf_counter() + seconds
        if shown(self.screen):
            return perf_counter()
        while (left := deadline - perf_counter()) > 0:
            at = self._read(left)
            if at is not None and shown(self.screen):
                return at
        return None

    def wait_for(self, text: str, seconds: float = PATIENCE) -> float:
        """When the screen came to show a text; raises `RuntimeError` when it never did."""
        at = self.until(lambda screen: any(text in row for row in screen.rows()), seconds)
        if at is None:
            shown = "\n".join(self.screen.rows())
            raise RuntimeError(f"never seen: {text}; on screen:\n{shown}")
        return at

    def watch(self, seconds: float) -> None:
        """Take what is written for so long, at least what is there already."""
        deadline = perf_counter() + seconds
        while self._read(max(deadline - perf_counter(), 0.0)) is not None:
            if perf_counter() > deadline + 1.0:
                return

    def written(self, seconds: float = PATIENCE) -> float | None:
        """When anything was written; `None` when nothing was in that time."""
        return self._read(seconds)

    def _read(self, seconds: float) -> float | None:
        ready, _, _ = select.select([self._master], [], [], seconds)
        if not ready:
            return None
        try:
            data = os.read(self._master, 1 << 16)
        except OSError as error:
            assert self._process is not None
            code = self._process.wait()
            shown = "\n".join(self.screen.rows())
            raise RuntimeError(f"the program ended with {code}; on screen:\n{shown}") from error
        at = perf_counter()
        self.screen.feed(data)
        return at


_REPETITIONS = 4


def environment(home: Path, **more: str) -> dict[str, str]:
    """An environment whose every folder is below `home`, with nothing of the user's settings."""
    home.mkdir(parents=True, exist_ok=True)
    return {**private_environment(home), **more}


def runs_in_turns(
    plan: Plan, commands: Sequence[Sequence[str]], env: Mapping[str, str]
) -> list[Series]:
    """Run commands one after the other, again and again, after `plan.warm` turns uncounted."""
    series = [Series() for _ in commands]
    for number in range(plan.warm + _REPETITIONS * plan.rounds):
        for one, command in zip(series, commands, strict=True):
            took = run(command, env)
            if number >= plan.warm:
                one.add(*took)
    return series


def run(command: Sequence[str], env: Mapping[str, str]) -> tuple[float, float]:
    """Run a command to its end; wall and CPU time in ms. Raises `RuntimeError` when it fails."""
    began = perf_counter()
    process = subprocess.Popen(
        command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    wall = perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    return wall * MILLISECONDS, (usage.ru_utime + usage.ru_stime) * MILLISECONDS

"""The first frame in a pseudo-terminal: before Textual, once, and taken back where it fails."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from tests.e2e.terminal import private_environment

ENTER, LEAVE, SHOW_CURSOR = b"\x1b[?1049h", b"\x1b[?1049l", b"\x1b[?25h"
FRAME_ENDS = b" \x1b[0m"
OF_TEXTUAL = b"\x1b[?2026$p"
CTRL_C, CTRL_Q, CTRL_Z, CTRL_BACKSLASH = b"\x03", b"\x11", b"\x1a", b"\x1c"
_SECONDS = 60.0


class Window:
    """A program in a terminal: what it wrote, and how the terminal is set."""

    def __init__(self, master: int, process: subprocess.Popen[bytes]) -> None:
        self._master = master
        self.process = process
        self.written = b""

    def type(self, keys: bytes) -> None:
        """Press keys."""
        os.write(self._master, keys)

    def until(self, seen: Callable[[bytes], bool]) -> None:
        """Read until something was written."""
        deadline = monotonic() + _SECONDS
        while not seen(self.written):
            ready, _, _ = select.select([self._master], [], [], max(deadline - monotonic(), 0.0))
            data = self._read() if ready else b""
            assert data, f"never written; there was:\n{self.written.decode(errors='replace')}"
            self.written += data

    def end(self) -> int:
        """Read what is left, and return the exit code."""
        code = self.process.wait(_SECONDS)
        while select.select([self._master], [], [], 0)[0] and (data := self._read()):
            self.written += data
        return code

    def attributes(self) -> list[Any]:
        """How the terminal is set."""
        return termios.tcgetattr(self._master)

    def _read(self) -> bytes:
        try:
            return os.read(self._master, 1 << 16)
        except OSError:
            return b""


@contextmanager
def window(
    home: Path, *, broken: str = "", more: Mapping[str, str] | None = None
) -> Iterator[Window]:
    """Open the demo; `broken` is what is loaded in the place of Textual."""
    env = {**private_environment(home), "COLORTERM": "truecolor", **(more or {})}
    env["MEMTUI_EMBEDDING__PROVIDER"] = "none"
    if broken:
        (home / "textual.py").write_text(broken, encoding="utf-8")
        env["PYTHONPATH"] = os.pathsep.join([str(home), env["PYTHONPATH"]])
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "memtui", "demo"], env=env, stdin=slave, stdout=slave, stderr=slave,
        start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )  # fmt: skip
    try:
        # The terminal stays open, so that its settings can be looked at when the program is gone.
        yield Window(master, process)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        os.close(slave)
        os.close(master)


def has_frame(written: bytes) -> bool:
    return ENTER in written and FRAME_ENDS in written


def test_it_is_there_first_and_keys_typed_on_it_are_searched_for(tmp_path: Path) -> None:
    with window(tmp_path) as opened:
        before = opened.attributes()
        opened.until(has_frame)
        assert OF_TEXTUAL not in opened.written
        assert not opened.attributes()[3] & (termios.ECHO | termios.ICANON)
        opened.type(b"lan" + b"tern")
        opened.until(lambda written: b"lantern" in written.partition(OF_TEXTUAL)[2])
        assert b"lantern" not in opened.written.partition(OF_TEXTUAL)[0]
        opened.type(CTRL_Q)
        assert opened.end() == 0
        assert opened.attributes() == before
    assert (opened.written.count(ENTER), opened.written.count(LEAVE)) == (1, 1)


def test_a_start_that_fails_gives_the_terminal_back_and_says_why(tmp_path: Path) -> None:
    with window(tmp_path, broken="raise ImportError('half installed')") as opened:
        before = opened.attributes()
        assert opened.end() == 1
        assert opened.attributes() == before
    frame, left, told = opened.written.partition(LEAVE + SHOW_CURSOR)
    assert has_frame(frame)
    assert left
    assert b"half installed" in told
    assert ENTER not in told


def test_ctrl_c_on_it_ends_the_program_and_no_other_key_does(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    broken = (
        f"import os\nos.write(1, b'loading')\nos.open({str(tmp_path / 'fifo')!r}, os.O_RDONLY)\n"
    )
    with window(tmp_path, broken=broken) as opened:
        before = opened.attributes()
        opened.until(lambda written: b"loading" in written)
        opened.type(b"x" + CTRL_Z + CTRL_BACKSLASH + CTRL_C)
        assert opened.end() == 130
        assert opened.attributes() == before
    told = opened.written.partition(LEAVE + SHOW_CURSOR)[2]
    assert told.endswith(b"memtui: interrupted\r\n")


@pytest.mark.parametrize("more", [{"TERM": "dumb"}, {"MEMTUI_UI__THEME": "nord"}])
def test_there_is_none_where_its_look_is_not_known(tmp_path: Path, more: dict[str, str]) -> None:
    with window(tmp_path, broken="raise ImportError('half installed')", more=more) as opened:
        assert opened.end() == 1
    assert b"half installed" in opened.written
    assert ENTER not in opened.written

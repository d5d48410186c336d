"""A real terminal for end-to-end tests: tmux on a socket of its own."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

WAIT_SECONDS = 60.0
_POLL_SECONDS = 0.05
# Another process cannot notify this one: its screen is looked at again and again.
_between_looks = threading.Event()


class Terminal:
    """One program in one tmux window; every wait polls for what is expected."""

    def __init__(self, socket: str, exit_code: Path, home: Path) -> None:
        self._socket = socket
        self._exit_code = exit_code
        self._home = home

    def tmux(self, *arguments: str) -> str:
        """Run a tmux command and return what it prints."""
        run = subprocess.run(
            ["tmux", "-L", self._socket, *arguments], capture_output=True, text=True, timeout=30
        )
        if run.returncode:
            raise AssertionError(f"tmux {arguments}: {run.stderr}")
        return run.stdout

    def screen(self) -> str:
        """What the terminal shows now."""
        return self.tmux("capture-pane", "-p")

    def type(self, text: str) -> None:
        self.tmux("send-keys", "-l", text)

    def press(self, *keys: str, shows: str = "") -> None:
        """Press keys by tmux's names, and wait for a text, if any, that they bring."""
        self.tmux("send-keys", *keys)
        if shows:
            self.shows(shows)

    def resize(self, columns: int, rows: int) -> None:
        """Make the window another size."""
        self.tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def until(self, condition: Callable[[str], bool], what: str) -> str:
        """Wait until the screen fulfils a condition, and return it."""
        deadline = time.monotonic() + WAIT_SECONDS
        shown = ""
        while time.monotonic() < deadline:
            shown = self.screen()
            if condition(shown):
                return shown
            _between_looks.wait(_POLL_SECONDS)
        raise AssertionError(f"never seen: {what}; on screen:\n{shown}")

    def shows(self, text: str) -> str:
        """Wait until a text is on the screen."""
        return self.until(lambda shown: text in shown, text)

    def wait_for_end(self) -> int:
        """Wait until the program has ended, and return its exit code."""

        def has_ended(shown: str) -> bool:
            # Written by the shell around the program: tmux does not always notice an end.
            return self._exit_code.exists() and self._exit_code.read_text().endswith("\n")

        self.until(has_ended, "its end")
        return int(self._exit_code.read_text())

    def ends(self, code: int = 0) -> None:
        """Wait until the program has ended with this exit code; fails with why it did not."""
        if (found := self.wait_for_end()) != code:
            crash = "\n".join(log.read_text() for log in self._home.rglob("crash-*.txt"))
            raise AssertionError(
                f"exit code {found} instead of {code}; on screen:\n{self.screen()}\n{crash}"
            )

    def is_given_back(self) -> None:
        """Wait until the terminal is as it was: no second screen, mouse off, cursor, echo."""
        modes = "#{alternate_on} #{mouse_any_flag} #{cursor_flag} #{pane_tty}"

        def is_as_before(shown: str) -> bool:
            *flags, tty = self.tmux("display-message", "-p", modes).split()
            lines = subprocess.run(["stty", "-aF", tty], capture_output=True, text=True).stdout
            return flags == ["0", "0", "1"] and {"echo", "icanon"} <= {*lines.split()}

        self.until(is_as_before, "the terminal as it was")

    def title(self) -> str:
        """The title that the program gave the terminal."""
        return self.tmux("display-message", "-p", "#{pane_title}").strip()


def private_environment(home: Path) -> dict[str, str]:
    """An environment in which nothing of the user's is read or written."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "SYSTEMROOT") if name in os.environ}
    return {
        **kept,
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        "XDG_CONFIG_HOME": str(home / "config"),
        "XDG_DATA_HOME": str(home / "data"),
        "XDG_STATE_HOME": str(home / "state"),
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }


def unplugged() -> list[str]:
    """What starts a program without a network where this machine can do that."""
    for prefix in (["unshare", "-n"], ["unshare", "-rn"]):
        if shutil.which("unshare") and not subprocess.run([*prefix, "true"]).returncode:
            return prefix
    return []


@contextmanager
def terminal(
    *command: str,
    home: Path,
    size: tuple[int, int] = (80, 24),
    more: Mapping[str, str] | None = None,
    before: Sequence[str] = (),
    program: Sequence[str] = (sys.executable, "-m", "memtui"),
) -> Iterator[Terminal]:
    """Run `python -m memtui` with these arguments in a terminal of this size.

    `before` is a command that runs the command behind it, as `nice` does.
    """
    assert shutil.which("tmux"), "the end-to-end tests need tmux: apt-get install tmux"
    socket = f"memtui-{uuid.uuid4().hex[:12]}"
    environment = {**private_environment(home), **(more or {})}
    assignments = [f"{name}={value}" for name, value in environment.items()]
    line = shlex.join([*before, "env", "-i", *assignments, *program, *command])
    exit_code = home / f"{socket}.exit"
    line = f"{line}; echo $? > {shlex.quote(str(exit_code))}; cat"
    window = Terminal(socket, exit_code, home)
    start = ["new-session", "-d", "-x", str(size[0]), "-y", str(size[1]), line]
    window.tmux("-f", "/dev/null", *start)
    try:
        yield window
    finally:
        subprocess.run(["tmux", "-L", socket, "kill-server"], capture_output=True, check=False)

"""Running the command that prints a key."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from memtui.errors import Cancelled

TIME_LIMIT: Final = 10.0
"""Seconds that the command may take."""
MAX_OUTPUT: Final = 64 * 1024
"""Bytes that it may print."""

_LOOK_EVERY: Final = 0.05


def key_of_command(
    command: str,
    env: Mapping[str, str],
    *,
    cancelled: Callable[[], bool] | None = None,
    limit: float = TIME_LIMIT,
) -> str:
    """Run a command without a shell and return the first line that it prints, blanks dropped.

    It has no input, and what it says on stderr is not shown. What it leaves running, such as an
    agent that keeps a passphrase, goes on after a success and is not waited for.

    Raises `ValueError`, in one line without any of its output, when it cannot be started, fails,
    prints nothing, prints more than `MAX_OUTPUT` bytes or takes longer than `limit` seconds;
    `Cancelled` within 0.1 s.
    """
    try:
        words = shlex.split(command)
    except ValueError:
        raise ValueError("has a quote that does not end") from None
    if not words:
        raise ValueError("is empty")
    try:
        process = _start(words, env)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else None
        raise ValueError(f"cannot be started: {why or 'it is no command'}") from None
    output = _Output(process)
    try:
        code = _wait(process, output, cancelled, time.monotonic() + limit, limit)
        output.close()
        return _first_line(code, output)
    except BaseException:
        _end(process)
        output.close()
        raise


def _first_line(code: int, output: _Output) -> str:
    if code:
        how = f"ended with exit code {code}" if code > 0 else f"was ended by signal {-code}"
        raise ValueError(how)
    line = next(filter(None, map(str.strip, output.text().split("\n"))), "")
    if not line:
        raise ValueError("prints nothing")
    return line


def _start(words: list[str], env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    # In a session of its own it cannot write on the terminal, and ends with what it started.
    return subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=dict(env),
        start_new_session=os.name == "posix",
    )


class _Output:
    """Reads what a process prints, up to one byte more than is allowed."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._data = bytearray()
        self._reader = threading.Thread(target=self._read, name="memtui-key", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        stdout = self._process.stdout
        while stdout is not None and not self.is_too_long:
            part = os.read(stdout.fileno(), MAX_OUTPUT + 1 - len(self._data))
            if not part:
                return
            self._data += part

    def join(self, seconds: float) -> bool:
        """Whether everything, or too much, has been read within that time."""
        self._reader.join(seconds)
        return not self._reader.is_alive()

    def close(self) -> None:
        """Close the pipe, unless something that has left the process still holds it."""
        if self.join(_LOOK_EVERY) and self._process.stdout is not None:
            self._process.stdout.close()

    @property
    def is_too_long(self) -> bool:
        return len(self._data) > MAX_OUTPUT

    def text(self) -> str:
        return bytes(self._data).decode("utf-8", "replace")


def _wait(
    process: subprocess.Popen[bytes],
    output: _Output,
    cancelled: Callable[[], bool] | None,
    deadline: float,
    limit: float,
) -> int:
    while True:
        if cancelled is not None and cancelled():
            raise Cancelled
        if time.monotonic() > deadline:
            raise ValueError(f"took longer than {limit:g} s")
        # Once it has ended, all that it printed itself is there to be read at once.
        has_ended = process.poll() is not None
        is_read = output.join(_LOOK_EVERY)
        if output.is_too_long:
            raise ValueError(f"prints more than {MAX_OUTPUT} bytes")
        if has_ended:
            return process.wait()
        if is_read:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_LOOK_EVERY)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process and what it has started, where that still runs."""
    with suppress(ProcessLookupError, PermissionError):
        if os.name == "posix":
            # The group is there as long as one of it is, even when its first has ended.
            os.killpg(process.pid, signal.SIGKILL)
        elif process.poll() is None:
            process.kill()
    process.wait()

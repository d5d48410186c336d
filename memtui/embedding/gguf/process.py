"""Asking the process that a GGUF model runs in."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import memtui
from memtui.embedding.gguf.worker import (
    CHARACTERS_A_TOKEN,
    COUNT,
    ERROR,
    READY,
    TEXT,
    VECTOR,
    Frame,
    read_beginning,
    read_frame,
    write_frame,
)
from memtui.errors import Cancelled, ProviderError
from memtui.model import Failure
from memtui.text.sanitize import safe_line

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MODULE: Final = "memtui.embedding.gguf.worker"
_ASK_EVERY: Final = 0.05
"""Seconds between two looks at whether the caller was cancelled."""
_LAST_BYTES: Final = 8192
_MOST_FAREWELL: Final = 5.0
"""Seconds for a process to end that answers no more."""
_ASSERTION = re.compile(r"(?:GGML_ASSERT|GGML_ABORT|what\(\):).*")
_MOST_REASON: Final = 200


class ModelProcess:
    """A GGUF model in a process of its own; for one thread at a time, but for `close`."""

    def __init__(self, path: Path, *, context_length: int, threads: int) -> None:
        """Start the process and wait for the model; raises `ProviderError`."""
        self._path = path
        self._errors = _error_output()
        self._answers: queue.SimpleQueue[Frame | None] = queue.SimpleQueue()
        # Answers that are still to come; the first one tells that the model is loaded.
        self._owed = 1
        self._most_characters = CHARACTERS_A_TOKEN * context_length
        self._is_ready = self._is_closed = False
        self._process = self._started([str(path), str(context_length), str(threads)])
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._texts: IO[bytes] = self._process.stdin
        self._reader = threading.Thread(
            target=self._read, args=(self._process.stdout,), name="memtui-gguf", daemon=True
        )
        self._reader.start()
        try:
            (self.dimensions,) = COUNT.unpack(self._answer(READY, None).content)
        except BaseException:
            self.close()
            raise
        self._is_ready = True

    def embed(
        self, text: str, cancelled: Callable[[], bool] | None = None
    ) -> tuple[NDArray[Any], int]:
        """The vector of a text, not yet of length 1, and how many tokens of it were taken.

        Raises `ProviderError`, or `Cancelled` within 0.1 s once asked to stop; the model goes on
        with the text, and the next one waits for it.
        """
        import numpy as np

        while self._owed:
            self._next(cancelled)
        data = text[: self._most_characters].encode("utf-8", "replace")
        try:
            write_frame(self._texts, Frame(TEXT, data))
        except (OSError, ValueError) as error:
            raise self._ended() from error
        self._owed += 1
        content = self._answer(VECTOR, cancelled).content
        (tokens,) = COUNT.unpack_from(content)
        return np.frombuffer(content, dtype="<f4", offset=COUNT.size), tokens

    def close(self) -> None:
        """End the process, whatever it is doing: it holds nothing that could be lost."""
        self._is_closed = True
        self._process.kill()
        self._process.wait()
        self._reader.join()
        with contextlib.suppress(BrokenPipeError):  # a text that nobody waits for any more
            self._texts.close()
        self._errors.close()

    def _started(self, arguments: list[str]) -> subprocess.Popen[bytes]:
        # Its own session: Ctrl-C in the terminal is for memtui. Not from the folder at hand, whose
        # files could pass for modules.
        command = [sys.executable, "-P", "-m", _MODULE, *arguments]
        places = [entry for entry in sys.path if entry]
        search = os.pathsep.join([*places, str(Path(memtui.__file__).parents[1])])
        env = os.environ | {"PYTHONPATH": search, "GGML_NO_BACKTRACE": "1"}
        try:
            return subprocess.Popen(
                command,
                env=env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors.file,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            self._errors.close()
            message = f"cannot start a process for the model: {type(error).__name__}"
            raise ProviderError(message) from error

    def _read(self, stream: IO[bytes]) -> None:
        with stream:
            if read_beginning(stream):
                while (frame := read_frame(stream)) is not None:
                    self._answers.put(frame)
        self._answers.put(None)

    def _answer(self, kind: bytes, cancelled: Callable[[], bool] | None) -> Frame:
        frame = self._next(cancelled)
        if frame.kind == kind:
            return frame
        if frame.kind == ERROR:
            told = json.loads(frame.content)
            raise ProviderError(told["message"], hint=told["hint"], failure=told["failure"])
        raise ProviderError(f"the model {safe_line(str(self._path))} gave an unknown answer")

    def _next(self, cancelled: Callable[[], bool] | None) -> Frame:
        """The next frame, while `cancelled` is asked again and again."""
        while True:
            if cancelled is not None and cancelled():
                raise Cancelled
            try:
                frame = self._answers.get(timeout=None if cancelled is None else _ASK_EVERY)
            except queue.Empty:
                continue
            if frame is None:
                self._answers.put(None)
                raise self._ended()
            self._owed -= 1
            return frame

    def _ended(self) -> ProviderError:
        """What the process said before it ended, as far as it is worth repeating."""
        if self._is_closed:
            return ProviderError("the gguf provider is closed", failure=Failure.CLOSED)
        code = self._exit_code()
        said = self._errors.end()
        found = _ASSERTION.findall(said) or (said.split("\n")[-2:-1] if code > 0 else [])
        how = (signal.strsignal(-code) if code < 0 else None) or f"it ended with {code}"
        reason = safe_line(found[-1])[:_MOST_REASON] if found else how
        message = f"llama.cpp stopped on the model {safe_line(str(self._path))}: {reason}"
        hint = "the file may be damaged, or llama-cpp-python too old for it"
        failure = Failure.MODEL_FAILED if self._is_ready else Failure.BROKEN_FILE
        return ProviderError(message, hint=hint, failure=failure)

    def _exit_code(self) -> int:
        try:
            return self._process.wait(_MOST_FAREWELL)
        except subprocess.TimeoutExpired:  # it hangs, or what it sends is nothing that it should
            self._process.kill()
            return self._process.wait()


def _error_output() -> _ErrorOutput:
    try:
        return _ErrorOutput()
    except OSError as error:
        message = f"cannot start a process for the model: no temporary file: {error.strerror}"
        raise ProviderError(message, hint="is there room in the temporary folder?") from error


class _ErrorOutput:
    """A file without a name that takes what a process writes about its end."""

    def __init__(self) -> None:
        self.file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as its process
        self._using = threading.Lock()

    def end(self) -> str:
        """The last that was written; nothing once it is closed."""
        with self._using:
            if self.file.closed:
                return ""
            size = self.file.seek(0, os.SEEK_END)
            self.file.seek(max(0, size - _LAST_BYTES))
            return self.file.read().decode("utf-8", "replace")

    def close(self) -> None:
        """Let go of the file."""
        with self._using:
            self.file.close()

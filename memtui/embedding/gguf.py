"""The provider `gguf`: an embedding model in a file on this machine, run by llama.cpp.

The model runs in a process of its own: llama.cpp ends its process on a damaged file and prints
where it likes, and neither may happen to a terminal interface.
"""

from __future__ import annotations

import base64
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
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import memtui
from memtui.embedding.gguf_file import RERANKER, ModelFile, describe_file, find_model
from memtui.embedding.gguf_worker import ERRORS, INSTALL, LOOKED_AT_A_TOKEN, MARK, NOT_LOADED
from memtui.embedding.limits import LOCAL_LIMIT
from memtui.embedding.packaged import default_threads, missing_package
from memtui.embedding.provider import (
    CHARACTERS_A_TOKEN,
    LocalProvider,
    ProviderIdentity,
    Role,
    Vector,
    clean_vectors,
    settings_fingerprint,
)
from memtui.embedding.registry import Availability, Registration
from memtui.embedding.templates import Templates, templates_of
from memtui.errors import Cancelled, ProviderError, SettingsError
from memtui.model import Failure
from memtui.settings.schema import EmbeddingSettings
from memtui.text.sanitize import safe_line

if TYPE_CHECKING:
    from numpy.typing import NDArray

NAME: Final = "gguf"
PACKAGE: Final = "xllamacpp"
NO_MODEL: Final = "set embedding.model_path to a GGUF file of an embedding model"
MOST_CONTEXT: Final = 2048
"""The most tokens of a text: OpenClaw's limit for a local model."""
_MOST_THREADS: Final = 4
_MODULE: Final = "memtui.embedding.gguf_worker"
_ASK_EVERY: Final = 0.05
"""Seconds between two looks at whether the caller was cancelled."""
_MOST_FAREWELL: Final = 5.0
"""Seconds for a process to end that answers no more."""
_LAST_CHARACTERS: Final = 8192
_ASSERTION = re.compile(r"(?:GGML_ASSERT|GGML_ABORT|what\(\):).*")
_LOGGED_ERROR = re.compile(r"^[\d.]+ E \S+ +(?:\S+: )?(?:error loading model: )?(.+)", re.MULTILINE)
_MOST_REASON: Final = 200


@dataclass(frozen=True, slots=True)
class _Plan:
    """A model file with what the settings make of it."""

    file: ModelFile
    model: str
    dimensions: int
    prefixes: Templates

    @property
    def context_length(self) -> int:
        return min(MOST_CONTEXT, self.file.context_length)

    @property
    def identity(self) -> ProviderIdentity:
        fingerprint = settings_fingerprint(
            {
                "provider": NAME,
                "file": self.file.digest,
                "dimensions": self.dimensions,
                "context": self.context_length,
                "query_prefix": self.prefixes.query,
                "document_prefix": self.prefixes.document,
            }
        )
        limit = min(LOCAL_LIMIT, CHARACTERS_A_TOKEN * self.context_length)
        return ProviderIdentity(NAME, self.model, self.dimensions, fingerprint, limit)


class ModelProcess:
    """A GGUF model in a process of its own; for one thread at a time, but for `close`."""

    def __init__(self, path: Path, *, context_length: int, threads: int, pooling: int) -> None:
        """Start the process and wait for the model; raises `ProviderError`."""
        self._path = path
        self._most_characters = LOOKED_AT_A_TOKEN * context_length
        self._answers: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        # Answers that are still to come, of texts that nobody waits for any more.
        self._owed = 0
        self._is_ready = self._is_closed = False
        try:
            self._folder = tempfile.TemporaryDirectory(prefix="memtui-", ignore_cleanup_errors=True)
            arguments = [str(path), str(context_length), str(threads), str(pooling)]
            self._process = self._start([self._folder.name, *arguments])
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else type(error).__name__
            message = f"cannot start a process for the model: {reason}"
            raise ProviderError(message, hint="is there room in the temporary folder?") from error
        assert self._process.stdin is not None
        self._texts: IO[bytes] = self._process.stdin
        self._reader = threading.Thread(target=self._read, name="memtui-gguf", daemon=True)
        self._reader.start()
        try:
            self.dimensions = len(self.embed("a")[0])
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
        data = text[: self._most_characters].encode("utf-8", "replace").decode()
        try:
            self._texts.write(json.dumps(data).encode() + b"\n")
            self._texts.flush()
        except (OSError, ValueError) as error:
            raise self._ended() from error
        self._owed += 1
        answer = self._next(cancelled)
        if "error" in answer:
            reason = safe_line(answer["error"])[:_MOST_REASON]
            message = f"the model {safe_line(str(self._path))} could not run: {reason}"
            raise ProviderError(message, hint="is there enough free memory for it?")
        vector = np.frombuffer(base64.b64decode(answer["vector"]), dtype="<f4")
        return vector, answer["tokens"]

    def close(self) -> None:
        """End the process, whatever it is doing: it holds nothing that could be lost."""
        self._is_closed = True
        self._process.kill()
        self._process.wait()
        self._reader.join()
        with contextlib.suppress(BrokenPipeError):  # a text that nobody waits for any more
            self._texts.close()
        self._folder.cleanup()

    def _start(self, arguments: list[str]) -> subprocess.Popen[bytes]:
        # Its own session: Ctrl-C in the terminal is for memtui. Not from the folder at hand, whose
        # files could pass for modules.
        command = [sys.executable, "-P", "-m", _MODULE, *arguments]
        places = [entry for entry in sys.path if entry]
        search = os.pathsep.join([*places, str(Path(memtui.__file__).parents[1])])
        with Path(self._folder.name, ERRORS).open("wb") as errors:
            return subprocess.Popen(
                command,
                env=os.environ | {"PYTHONPATH": search, "GGML_NO_BACKTRACE": "1"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            for line in stream:
                if line.startswith(MARK):
                    self._answers.put(json.loads(line.removeprefix(MARK)))
        self._answers.put(None)

    def _next(self, cancelled: Callable[[], bool] | None) -> dict[str, Any]:
        """The next answer, while `cancelled` is asked again and again."""
        while True:
            if cancelled is not None and cancelled():
                raise Cancelled
            try:
                answer = self._answers.get(timeout=None if cancelled is None else _ASK_EVERY)
            except queue.Empty:
                continue
            if answer is None:
                self._answers.put(None)
                raise self._ended()
            self._owed -= 1
            return answer

    def _ended(self) -> ProviderError:
        """What the process said before it ended, as far as it is worth repeating."""
        if self._is_closed:
            return ProviderError("the gguf provider is closed", failure=Failure.CLOSED)
        try:
            code = self._process.wait(_MOST_FAREWELL)
        except subprocess.TimeoutExpired:  # it hangs, or what it sends is nothing that it should
            self._process.kill()
            code = self._process.wait()
        try:
            log = Path(self._folder.name, ERRORS).read_text("utf-8", "replace")[-_LAST_CHARACTERS:]
        except OSError:
            log = ""
        if code == NOT_LOADED:
            message = f"xllamacpp cannot be loaded: {safe_line(log.strip())[:_MOST_REASON]}"
            return ProviderError(message, hint=INSTALL, failure=Failure.NOT_INSTALLED)
        # Of what is logged the first says what is wrong, the rest that something is.
        reasons = _ASSERTION.findall(log) or _LOGGED_ERROR.findall(log) or log.split("\n")[-2:-1]
        how = (signal.strsignal(-code) if code < 0 else None) or f"it ended with {code}"
        reason = safe_line(reasons[0])[:_MOST_REASON] if reasons else how
        message = f"llama.cpp stopped on the model {safe_line(str(self._path))}: {reason}"
        hint = "the file may be damaged, or xllamacpp too old for it"
        failure = Failure.MODEL_FAILED if self._is_ready else Failure.BROKEN_FILE
        return ProviderError(message, hint=hint, failure=failure)


class GgufProvider(LocalProvider):
    """Embeds text by a GGUF model: any length of vector, up to 2048 tokens a text.

    Usable from any thread; a query waits for one document at most, and a model whose process has
    ended stays so: create another.
    """

    name = NAME
    dimensions: int
    # A few seconds of work for a model of 300 million numbers on two cores.
    batch_size = 4

    def __init__(self, process: ModelProcess, plan: _Plan) -> None:
        super().__init__(exclusive=True)
        identity = plan.identity
        self.model = identity.model
        self.dimensions = plan.dimensions
        self.fingerprint = identity.fingerprint
        self.process = process
        self._prefixes = plan.prefixes

    def close(self) -> None:
        """End the process of the model; a call that waits for it raises `ProviderError`."""
        if not self.closed:
            super().close()
            self.process.close()

    def _embed(
        self, text: str, role: Role, cancelled: Callable[[], bool] | None
    ) -> tuple[Vector, int]:
        import numpy as np

        prefix = self._prefixes.query if role is Role.QUERY else self._prefixes.document
        vector, tokens = self.process.embed(prefix + text, cancelled)
        if not len(vector):  # the model saw nothing in the text
            return np.zeros(self.dimensions, dtype=np.float32), tokens
        return clean_vectors(vector[: self.dimensions]), tokens


def create(choice: EmbeddingSettings) -> GgufProvider:
    """Load the model file on `choice.threads` threads (0: four, or as many as there are cores).

    Raises `ProviderError` when there is no file, it is broken or no embedding model, or
    xllamacpp is not there, and `SettingsError` for more dimensions than it has.
    """
    plan = _plan(choice)
    missing = missing_package([(PACKAGE, PACKAGE)], INSTALL)
    if missing is not None:
        raise ProviderError(missing.detail, hint=INSTALL, failure=Failure.NOT_INSTALLED)

    threads = choice.threads if choice.threads > 0 else default_threads(_MOST_THREADS)
    file = plan.file
    model = ModelProcess(
        file.path, context_length=plan.context_length, threads=threads, pooling=file.pooling
    )
    try:
        _check_loaded(model, plan, choice)
    except BaseException:
        model.close()
        raise
    return GgufProvider(model, plan)


def _check_loaded(model: ModelProcess, plan: _Plan, choice: EmbeddingSettings) -> None:
    """Raise `ProviderError` where what is loaded is not what the fingerprint stands for."""
    shown = safe_line(str(plan.file.path))
    if _plan(choice).file != plan.file:
        message = f"the model {shown} was changed while it was loaded"
        hint = "start memtui again once the file is whole"
        raise ProviderError(message, hint=hint, failure=Failure.BROKEN_FILE)
    if model.dimensions != plan.file.dimensions:
        message = f"the model {shown} has {model.dimensions} dimensions"
        raise ProviderError(
            f"{message}, its header says {plan.file.dimensions}",
            hint=NO_MODEL,
            failure=Failure.DIMENSIONS_DIFFER,
        )


def look(choice: EmbeddingSettings) -> Availability:
    """Whether there is a sound model file and xllamacpp, without loading either."""
    try:
        file = _model_file(choice)
    except ProviderError as error:
        return Availability(False, error.message, error.hint, Failure(error.failure))
    works = Availability(True, f"{safe_line(str(file.path))}, {file.architecture}")
    return missing_package([(PACKAGE, PACKAGE)], INSTALL) or works


def identity(choice: EmbeddingSettings) -> ProviderIdentity:
    """Tell what `create` gives, from the head of the file and samples of it: in milliseconds.

    The fingerprint covers the file's size, its first and last 64 KiB and 64 places between them,
    not every byte. Without a usable file the model is the name that was asked for, and the
    dimensions are unknown. Raises `SettingsError` for more dimensions than the model has.
    """
    try:
        return _plan(choice).identity
    except ProviderError as error:
        name = safe_line(choice.model or Path(choice.model_path or "").name) or "unknown"
        fingerprint = settings_fingerprint({"provider": NAME, "failure": str(error.failure)})
        return ProviderIdentity(NAME, name, None, fingerprint, LOCAL_LIMIT)


def _plan(choice: EmbeddingSettings) -> _Plan:
    file = _model_file(choice)
    own = file.dimensions
    dimensions = choice.dimensions or own
    if dimensions > own:
        name = safe_line(file.path.name)
        raise SettingsError(
            f"embedding.dimensions is {dimensions}, the model {name} has {own}",
            hint="leave it empty for all of them",
        )
    name = safe_line(choice.model or file.path.name)
    prefixes = templates_of(name)
    if prefixes == Templates():
        prefixes = templates_of(file.name.replace(" ", "-"))
    return _Plan(file, name, dimensions, prefixes.overridden(choice))


def _model_file(choice: EmbeddingSettings) -> ModelFile:
    place = find_model(choice)
    if place.path is None:
        message = f"no model file: {place.origin} is not on this machine"
        raise ProviderError(message, hint=NO_MODEL, failure=Failure.NO_FILE)
    file = describe_file(place.path)
    if file.pooling == RERANKER:
        message = f"the model {safe_line(str(place.path))} is a reranker, no embedding model"
        raise ProviderError(message, hint=NO_MODEL, failure=Failure.NO_MODEL)
    return file


SUMMARY = "a GGUF model file, on this machine"
REGISTRATIONS = {NAME: Registration(NAME, False, create, look, identity, SUMMARY)}

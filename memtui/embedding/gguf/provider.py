"""The provider `gguf`: an embedding model in a file on this machine, run by llama.cpp.

The model runs in a process of its own: llama.cpp ends its process on a damaged file and prints
where it likes, and neither may happen to a terminal interface.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from memtui.embedding.choice import EmbeddingChoice
from memtui.embedding.gguf.header import (
    RERANKER,
    FileState,
    GgufHeader,
    file_state,
    read_header,
    sample_digest,
)
from memtui.embedding.gguf.places import find_model
from memtui.embedding.limits import LOCAL_LIMIT
from memtui.embedding.packaged import default_threads, missing_package, package_folder
from memtui.embedding.provider import (
    ProviderIdentity,
    Vector,
    Vectors,
    clean_vectors,
    settings_fingerprint,
)
from memtui.embedding.registry import Availability, Registration
from memtui.embedding.templates import Templates, templates_of
from memtui.embedding.turns import Turns
from memtui.embedding.usage import CHARACTERS_A_TOKEN, UsageMeter
from memtui.errors import ProviderError, SettingsError
from memtui.model import Failure, Usage
from memtui.text.sanitize import safe_line

if TYPE_CHECKING:
    from memtui.embedding.gguf.process import ModelProcess

NAME = "gguf"
MODULE: Final = "llama_cpp"
PACKAGE: Final = "llama-cpp-python"
INSTALL: Final = "install it with: pip install 'memtui[gguf]'"
NO_MODEL: Final = "set embedding.model_path to a GGUF file of an embedding model"
UNKNOWN_MODEL: Final = "unknown"
MOST_CONTEXT: Final = 2048
"""The most tokens of a text: OpenClaw's limit for a local model."""
_MOST_THREADS: Final = 4


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A model file as it is told without loading it."""

    path: Path
    header: GgufHeader
    digest: str
    """sha256 hex of its size and of samples of it."""
    state: FileState = field(compare=False)


@dataclass(frozen=True, slots=True)
class _Plan:
    """A model file with what the settings make of it."""

    file: ModelFile
    model: str
    dimensions: int
    prefixes: Templates

    @property
    def context_length(self) -> int:
        return min(MOST_CONTEXT, self.file.header.context_length)

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


class GgufProvider:
    """Embeds text by a GGUF model: any length of vector, up to 2048 tokens a text.

    Texts go through the model one at a time, each alone, so that a vector does not depend on its
    neighbours. Usable from any thread; a query waits for one document at most, and a model whose
    process has ended stays so: create another.
    """

    name = NAME
    address = ""
    remote = False
    # A few seconds of work for a model of 300 million numbers on two cores.
    batch_size = 4

    def __init__(self, model: ModelProcess, plan: _Plan) -> None:
        identity = plan.identity
        self.model = identity.model
        self.dimensions = plan.dimensions
        self.fingerprint = identity.fingerprint
        self._file, self._state = plan.file, plan.file.state
        self._prefixes = plan.prefixes
        self._loaded: ModelProcess | None = model
        self._turns = Turns()
        self._meter = UsageMeter()

    def embed_query(self, text: str, *, cancelled: Callable[[], bool] | None = None) -> Vector:
        """Embed a query; shape (dimensions,).

        Raises `ProviderError`, or `Cancelled` within 0.1 s once asked to stop.
        """
        with self._turns.for_query(cancelled):
            return self._embed(self._prefixes.query + text, cancelled)

    def embed_documents(
        self, texts: Sequence[str], *, cancelled: Callable[[], bool] | None = None
    ) -> Vectors:
        """Embed texts in order; shape (n, dimensions). Raises as `embed_query` does."""
        import numpy as np

        rows = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for row, text in enumerate(texts):
            with self._turns.for_document(cancelled):
                rows[row] = self._embed(self._prefixes.document + text, cancelled)
        return rows

    def reads(self, text: str) -> bool:
        """Whether it knows the script of `text`; a model file does not tell, so always."""
        return True

    def usage(self) -> Usage:
        """What it was asked for so far; tokens are the model's own."""
        return self._meter.read()

    def close(self) -> None:
        """End the process of the model; a call that waits for it raises `ProviderError`."""
        loaded, self._loaded = self._loaded, None
        if loaded is not None:
            loaded.close()

    def _embed(self, text: str, cancelled: Callable[[], bool] | None) -> Vector:
        loaded = self._loaded
        if loaded is None:
            raise ProviderError("the gguf provider is closed", failure=Failure.CLOSED)
        vector, tokens = loaded.embed(text, cancelled)
        self._check_file()
        self._meter.add(texts=1, tokens=tokens)
        return clean_vectors(vector[: self.dimensions])

    def _check_file(self) -> None:
        """Raise `ProviderError` where the loaded file was written to, and not just touched.

        llama.cpp reads the weights out of the file whenever it needs them.
        """
        path = self._file.path
        if not self._state.is_rewritten(path):
            return
        state = file_state(path)
        if sample_digest(path) != self._file.digest:
            raise _rewritten(path)
        self._state = state


def create(choice: EmbeddingChoice) -> GgufProvider:
    """Load the model file on `choice.threads` threads (0: four, or as many as there are cores).

    Raises `ProviderError` when there is no file, it is broken or no embedding model, or
    llama-cpp-python is not there, and `SettingsError` for more dimensions than it has.
    """
    plan = _plan(choice)
    package_folder(MODULE, PACKAGE, INSTALL)
    from memtui.embedding.gguf.process import ModelProcess

    threads = choice.threads if choice.threads > 0 else default_threads(_MOST_THREADS)
    model = ModelProcess(plan.file.path, context_length=plan.context_length, threads=threads)
    try:
        _check_loaded(model, plan, choice)
    except BaseException:
        model.close()
        raise
    return GgufProvider(model, plan)


def _check_loaded(model: ModelProcess, plan: _Plan, choice: EmbeddingChoice) -> None:
    """Raise `ProviderError` where what is loaded is not what the fingerprint stands for."""
    if _plan(choice).file != plan.file:
        raise _rewritten(plan.file.path)
    if model.dimensions != plan.file.header.dimensions:
        message = f"the model {safe_line(str(plan.file.path))} has {model.dimensions} dimensions"
        raise ProviderError(
            f"{message}, its header says {plan.file.header.dimensions}",
            hint=NO_MODEL,
            failure=Failure.DIMENSIONS_DIFFER,
        )


def _rewritten(path: Path) -> ProviderError:
    message = f"the model {safe_line(str(path))} was changed while it was in use"
    hint = "start memtui again once the file is whole"
    return ProviderError(message, hint=hint, failure=Failure.BROKEN_FILE)


def look(choice: EmbeddingChoice) -> Availability:
    """Whether there is a sound model file and llama-cpp-python, without loading either."""
    try:
        file = _model_file(choice)
    except ProviderError as error:
        return Availability(False, error.message, error.hint, Failure(error.failure))
    found = Availability(True, f"{safe_line(str(file.path))}, {file.header.architecture}")
    return missing_package([(MODULE, PACKAGE)], INSTALL) or found


def identity(choice: EmbeddingChoice) -> ProviderIdentity:
    """Tell what `create` gives, from the head of the file and samples of it: in milliseconds.

    The fingerprint covers the file's size, its first and last 64 KiB and 64 places between them,
    not every byte. Without a usable file the model is the name that was asked for, and the
    dimensions are unknown. Raises `SettingsError` for more dimensions than the model has.
    """
    try:
        return _plan(choice).identity
    except ProviderError as error:
        name = safe_line(choice.model or Path(choice.model_path).name) or UNKNOWN_MODEL
        fingerprint = settings_fingerprint({"provider": NAME, "failure": str(error.failure)})
        return ProviderIdentity(NAME, name, None, fingerprint, LOCAL_LIMIT)


def _plan(choice: EmbeddingChoice) -> _Plan:
    file = _model_file(choice)
    own = file.header.dimensions
    dimensions = choice.dimensions or own
    if dimensions > own:
        name = safe_line(file.path.name)
        raise SettingsError(
            f"embedding.dimensions is {dimensions}, the model {name} has {own}",
            hint="leave it empty for all of them",
        )
    name = safe_line(choice.model or file.path.name)
    return _Plan(file, name, dimensions, _prefixes(choice, name, file.header))


def _prefixes(choice: EmbeddingChoice, name: str, header: GgufHeader) -> Templates:
    """What is put before texts: as set, else what the model of that name wants."""
    wanted = templates_of(name)
    if wanted == Templates():
        wanted = templates_of(header.name.replace(" ", "-"))
    query, document = choice.query_prefix, choice.document_prefix
    return Templates(
        wanted.query if query is None else query,
        wanted.document if document is None else document,
    )


def _model_file(choice: EmbeddingChoice) -> ModelFile:
    place = find_model(choice)
    if place.path is None:
        message = f"no model file: {place.origin} is not on this machine"
        raise ProviderError(message, hint=NO_MODEL, failure=Failure.NO_FILE)
    file = _described(place.path, file_state(place.path))
    if file.header.pooling == RERANKER:
        message = f"the model {safe_line(str(place.path))} is a reranker, no embedding model"
        raise ProviderError(message, hint=NO_MODEL, failure=Failure.NO_MODEL)
    return file


@lru_cache(maxsize=16)
def _described(path: Path, state: FileState) -> ModelFile:
    """What the file says, told once for each state that it is seen in."""
    return ModelFile(path, read_header(path), sample_digest(path), state)


REGISTRATIONS = {
    NAME: Registration(
        name=NAME,
        remote=False,
        create=create,
        look=look,
        identity=identity,
        summary="a GGUF model file, on this machine",
    )
}

"""The provider `gguf`: an embedding model in a file on this machine, run by llama.cpp.

The model runs in a process of its own: llama.cpp ends its process on a damaged file and prints
where it likes, and neither may happen to a terminal interface. What the file says of itself is
read here, as xllamacpp tells nothing about a file that it has not loaded.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import re
import signal
import stat
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, BinaryIO, Final

from msgspec import Struct

import memtui
from memtui.data import read_table
from memtui.embedding import provider
from memtui.embedding.gguf_worker import ERRORS, INSTALL, LOOKED_AT_A_TOKEN, MARK, NOT_LOADED
from memtui.embedding.packaged import default_threads, require_packages
from memtui.embedding.registry import Registration
from memtui.embedding.services import Templates, templates_of
from memtui.errors import ProviderError, SettingsError, undone_on_error
from memtui.model import Failure
from memtui.settings.containment import expand_path
from memtui.settings.openclaw.read import read_config
from memtui.settings.schema import MOST_DIMENSIONS, EmbeddingSettings
from memtui.text.sanitize import safe_line

NAME: Final = "gguf"
PACKAGE: Final = "xllamacpp"
NO_MODEL: Final = "set embedding.model_path to a GGUF file of an embedding model"
_URI = re.compile(r"(?:hf|huggingface):(?://)?|(?:hf|huggingface)\.co/")


def find_model(choice: EmbeddingSettings) -> tuple[Path | None, str]:
    """Find the model file: the configured one, else OpenClaw's configured or own one.

    Returns the path and who named it, for people. The path is `None` where none was found; a file
    that is named may be missing all the same. A name may be a path, `~` at its start being the
    home folder, or an address as OpenClaw's configuration has it (`hf:USER/MODEL/FILE.gguf`);
    that is looked for among the files which node-llama-cpp has fetched, and never fetched here.
    """

    def expanded(name: str) -> Path:
        return Path(expand_path(name.replace("\0", "")))

    if choice.model_path and expanded(choice.model_path).is_absolute():
        return expanded(choice.model_path), "embedding.model_path"
    home = expanded("~")
    search = read_config(os.environ, home).default_agent.search
    # There node-llama-cpp, which OpenClaw loads models with, keeps them.
    folders = [home / ".node-llama-cpp" / "models"]
    if search.local_model_cache_dir:
        folders.insert(0, expanded(search.local_model_cache_dir))

    def fetched(*addresses: str) -> Path | None:
        paths = (
            folder / name
            for address in addresses
            for folder in folders
            for name in file_names(address)
        )
        return next(filter(Path.is_file, paths), None)

    name = choice.model_path or search.local_model_path
    if not name:
        return fetched(*read_table("gguf.toml")["default_models"]), "OpenClaw's default model"
    origin = "embedding.model_path" if choice.model_path else "OpenClaw's configuration"
    if _URI.match(name):
        return fetched(name), origin
    path = expanded(name)
    candidates = [path] if path.is_absolute() else [path, *(folder / path for folder in folders)]
    return next((one for one in candidates if os.path.lexists(one)), path), origin


def file_names(address: str) -> tuple[str, ...]:
    """Return the names that node-llama-cpp gives the file of an `hf:` address; else none.

    `hf_USER_FILE`, with the model between where the file is not named after it; without a file
    in the address, the model's name with its quantisation, by default Q4_K_M.
    """
    scheme = _URI.match(address)
    if scheme is None:
        return ()
    user, _, rest = address[scheme.end() :].partition("/")
    model, _, file = rest.partition("/")
    model, _, tag = model.partition(":")
    if not user or not model:
        return ()
    stem = re.sub(r"-gguf$", "", model, flags=re.IGNORECASE)
    if not file:
        return (f"hf_{user}_{stem}.{tag or 'Q4_K_M'}.gguf", f"hf_{user}_{stem}.gguf")
    name = file.partition("#")[0].rpartition("/")[2]
    is_named_after = stem != model and name.lower().startswith(stem.lower())
    return (f"hf_{user}_{name}" if is_named_after else f"hf_{user}_{model}_{name}",)


RERANKER: Final = 4
"""The pooling of a model that judges pairs of texts and has no vectors."""
_STRING, _ARRAY = 8, 9
_FORMS: Final = dict(zip((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), "BbHhIif?Qqd", strict=True))
_LONGEST_CONTEXT: Final = 2**26
"""Above it a file is taken for damaged."""
# The parts of a model file that its digest covers; changing one makes every cached vector foreign.
_EDGE_BYTES: Final = 2**16
_SAMPLES: Final = 64
_SAMPLE_BYTES: Final = 4096


class ModelFile(Struct, frozen=True):
    path: Path
    digest: str
    """sha256 hex of its size, both ends and 64 places between."""
    architecture: str
    name: str
    """`general.name`, safe to show; empty where the file has none."""
    dimensions: int
    context_length: int
    """The most tokens the model was trained for."""
    pooling: int
    """llama.cpp's number: 1 mean, 2 first, 3 last, 4 `RERANKER`."""


def _broken(path: str, why: str) -> ProviderError:
    message = f"the model {safe_line(path)} {why}"
    hint = "download the model again, or set embedding.model_path to another file"
    return ProviderError(message, hint=hint, failure=Failure.BROKEN_FILE)


def describe_file(path: Path) -> ModelFile:
    """Describe a model file from its header and 384 KiB of samples, whatever its size.

    Raises `ProviderError`: `NO_FILE` where it cannot be read, `BROKEN_FILE` where it is not sound.
    """
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # a pipe, say, could block for ever
            raise OSError(None, "it is not a regular file")
        with path.open("rb") as file:
            values = _read_pairs(file)
            size = file.seek(0, os.SEEK_END)
            digest = hashlib.sha256(str(size).encode())
            places = [(size * number // _SAMPLES, _SAMPLE_BYTES) for number in range(_SAMPLES)]
            end = max(0, size - _EDGE_BYTES)
            for at, length in ((0, _EDGE_BYTES), *places, (end, _EDGE_BYTES)):
                file.seek(at)
                digest.update(file.read(length))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "the path cannot be used"
        raise ProviderError(
            f"cannot read the model {safe_line(str(path))}: {reason or type(error).__name__}",
            hint="set embedding.model_path to a GGUF model file",
            failure=Failure.NO_FILE,
        ) from error
    architecture = str(values.get("general.architecture", ""))
    if not architecture:
        raise _broken(str(path), "does not say of which architecture it is")
    pairs = {
        name.removeprefix(f"{architecture}."): value
        for name, value in values.items()
        if isinstance(value, int)
    }
    dimensions = pairs.get("embedding_length_out") or pairs.get("embedding_length", 0)
    context = pairs.get("context_length", 0)
    if not 1 <= dimensions <= MOST_DIMENSIONS or not 1 <= context <= _LONGEST_CONTEXT:
        raise _broken(str(path), "does not say how long its vectors and its context are")
    # Where a token sees only those before it, the last one has seen them all: else the mean.
    looks_back = pairs.get("attention.causal") is not False
    pooling = pairs.get("pooling_type") or (3 if looks_back else 1)
    name = safe_line(str(values.get("general.name", "")))
    return ModelFile(
        path, digest.hexdigest(), safe_line(architecture), name, dimensions, context, pooling
    )


def _read_pairs(file: BinaryIO) -> dict[str, str | int]:
    """Read the pairs up to the vocabulary, or all where what is needed comes behind it.

    The format is that of ggml's `docs/gguf.md`: magic, version, counts, then key and value pairs.
    Lengths are checked before anything is read, so a damaged file costs next to no memory.
    """
    end = os.fstat(file.fileno()).st_size

    def require(is_sound: bool) -> None:
        if not is_sound:
            raise _broken(file.name, "is cut off or damaged: the download may not have ended")

    def number(form: str) -> Any:
        size = struct.calcsize(f"<{form}")
        require(file.tell() + size <= end)
        return struct.unpack(f"<{form}", file.read(size))[0]

    def skip(count: int) -> None:
        require(file.tell() + count <= end)
        file.seek(count, os.SEEK_CUR)

    def text() -> str | None:
        """Read a text; `None` for one that is too long, such as a chat template."""
        length = number("Q")
        if length <= 1024:
            return bytes(number(f"{length}s")).decode("utf-8", "replace")
        skip(length)
        return None

    def value() -> Any:
        """Read a value; `None` for one that is too long or a list."""
        kind = number("I")
        if kind == _STRING:
            return text()
        if kind in _FORMS:
            return number(_FORMS[kind])
        require(kind == _ARRAY)
        element, count = number("I"), number("Q")
        # Each text is stepped over, and the largest vocabularies have half as many.
        require(count <= 2**21 and (element == _STRING or element in _FORMS))
        if element in _FORMS:
            skip(count * struct.calcsize(f"<{_FORMS[element]}"))
        for _ in range(count if element == _STRING else 0):
            skip(number("Q"))
        return None

    if file.read(4) != b"GGUF":
        raise _broken(file.name, "is not a GGUF file")
    version = number("I")
    if version not in (2, 3):
        raise _broken(file.name, f"has GGUF version {version}; 2 and 3 can be read")
    number("Q")  # how many tensors there are
    values: dict[str, str | int] = {}
    for _ in range(number("Q")):
        key = text() or ""
        architecture = values.get("general.architecture")
        lengths = {f"{architecture}.embedding_length", f"{architecture}.context_length"}
        if key.startswith("tokenizer.") and lengths <= values.keys():
            break
        if (read := value()) is not None:
            values[key] = read
    return values


_ASSERTION = re.compile(r"(?:GGML_ASSERT|GGML_ABORT|what\(\):).*")
_LOGGED_ERROR = re.compile(r"^[\d.]+ E \S+ +(?:\S+: )?(?:error loading model: )?(.+)", re.MULTILINE)
_MOST_REASON: Final = 200


class ModelProcess:
    """A GGUF model in a process of its own: one text at a time."""

    def __init__(self, file: ModelFile, context_length: int, threads: int) -> None:
        """Start the process and wait for the model; raises `ProviderError`."""
        self._path = file.path
        self._most_characters = LOOKED_AT_A_TOKEN * context_length
        self._is_ready = self._is_closed = False
        arguments = map(str, (file.path, context_length, threads, file.pooling))
        search = os.pathsep.join([*filter(None, sys.path), str(Path(memtui.__file__).parents[1])])
        try:
            self._folder = tempfile.TemporaryDirectory(prefix="memtui-", ignore_cleanup_errors=True)
            with Path(self._folder.name, ERRORS).open("wb") as errors:
                # Its own session: Ctrl-C in the terminal is for memtui. Not from the folder at
                # hand, whose files could pass for modules.
                worker = [sys.executable, "-P", "-m", "memtui.embedding.gguf_worker"]
                self._process = subprocess.Popen(
                    [*worker, self._folder.name, *arguments],
                    env={**os.environ, "PYTHONPATH": search, "GGML_NO_BACKTRACE": "1"},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    start_new_session=True,
                )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else type(error).__name__
            message = f"cannot start a process for the model: {reason}"
            raise ProviderError(message, hint="is there room in the temporary folder?") from error
        with undone_on_error(self.close):
            self.dimensions = len(self.embed("a")[0])
        self._is_ready = True

    def embed(self, text: str) -> tuple[provider.Vector, int]:
        """Return the vector, not yet of length 1, and the tokens; raises `ProviderError`."""
        import numpy as np

        assert self._process.stdin is not None
        assert self._process.stdout is not None
        data = text[: self._most_characters].encode("utf-8", "replace").decode()
        try:
            self._process.stdin.write(json.dumps(data).encode() + b"\n")
            self._process.stdin.flush()
            line = next(line for line in self._process.stdout if line.startswith(MARK))
            answer: dict[str, Any] = json.loads(line.removeprefix(MARK))
        except (OSError, ValueError, StopIteration) as error:
            raise self._ended() from error
        if "error" in answer:
            reason = safe_line(answer["error"])[:_MOST_REASON]
            message = f"the model {safe_line(str(self._path))} could not run: {reason}"
            raise ProviderError(message, hint="is there enough free memory for it?")
        return np.frombuffer(base64.b64decode(answer["vector"]), dtype="<f4"), answer["tokens"]

    def close(self) -> None:
        """End the process, whatever it is doing: it holds nothing that could be lost."""
        self._is_closed = True
        self._process.kill()
        self._process.wait()
        for pipe in filter(None, (self._process.stdin, self._process.stdout)):
            with contextlib.suppress(BrokenPipeError):  # a text that nobody waits for any more
                pipe.close()
        self._folder.cleanup()

    def _ended(self) -> ProviderError:
        """Return what the process said before it ended, as far as it is worth repeating."""
        if self._is_closed:
            return ProviderError("the gguf provider is closed", failure=Failure.CLOSED)
        try:
            code = self._process.wait(5.0)
        except subprocess.TimeoutExpired:  # it hangs, or what it sends is nothing that it should
            self._process.kill()
            code = self._process.wait()
        log = ""
        # The temporary folder may be gone by now.
        with contextlib.suppress(OSError):
            log = Path(self._folder.name, ERRORS).read_text("utf-8", "replace")[-8192:]
        if code == NOT_LOADED:
            message = f"xllamacpp cannot be loaded: {safe_line(log.strip())[:_MOST_REASON]}"
            return ProviderError(message, hint=INSTALL, failure=Failure.NOT_INSTALLED)
        # Of what is logged the first says what is wrong, the rest that something is.
        reasons = _ASSERTION.findall(log) or _LOGGED_ERROR.findall(log) or log.split("\n")[-2:-1]
        how = (signal.strsignal(-code) if code < 0 else None) or f"it ended with {code}"
        reason = safe_line(reasons[0])[:_MOST_REASON] if reasons else how
        return ProviderError(
            f"llama.cpp stopped on the model {safe_line(str(self._path))}: {reason}",
            hint="the file may be damaged, or xllamacpp too old for it",
            failure=Failure.MODEL_FAILED if self._is_ready else Failure.BROKEN_FILE,
        )


def create(choice: EmbeddingSettings) -> provider.LocalProvider:
    """Load the model file on `choice.threads` threads (0: four, or as many as there are cores).

    A model whose process has ended stays so: create another. Raises `ProviderError` without a sound
    file of an embedding model or xllamacpp, and `SettingsError` for more dimensions than it has.
    """
    import numpy as np

    file, prefixes, context, identity = _plan(choice)
    require_packages([(PACKAGE, PACKAGE)], INSTALL)
    dimensions = identity.dimensions or 0
    model = ModelProcess(file, context, choice.threads or default_threads(4))
    if model.dimensions != file.dimensions:
        model.close()
        message = f"the model {safe_line(str(file.path))} has {model.dimensions} dimensions"
        message += f", its header says {file.dimensions}"
        raise ProviderError(message, hint=NO_MODEL, failure=Failure.DIMENSIONS_DIFFER)

    def embed(text: str, role: provider.Role) -> tuple[provider.Vector, int]:
        prefix = prefixes.query if role is provider.Role.QUERY else prefixes.document
        vector, tokens = model.embed(prefix + text)
        if not len(vector):  # the model saw nothing in the text
            return np.zeros(dimensions, dtype=np.float32), tokens
        return provider.clean_vectors(vector[:dimensions]), tokens

    # A batch is a few seconds of work for a model of 300 million numbers on two cores.
    return provider.LocalProvider(identity, embed, batch_size=4, free=model.close)


def check(choice: EmbeddingSettings) -> str:
    """Name a sound model file, without loading it; raises `ProviderError` without one."""
    file, *_ = _plan(choice)
    require_packages([(PACKAGE, PACKAGE)], INSTALL)
    return f"{safe_line(str(file.path))}, {file.architecture}"


def identity(choice: EmbeddingSettings) -> provider.ProviderIdentity:
    """Return what `create` gives, from the head of the file and samples of it: in milliseconds.

    Without a usable file the model is the name that was asked for, and the dimensions are unknown.
    Raises `SettingsError` for more dimensions than the model has.
    """
    try:
        return _plan(choice)[-1]
    except ProviderError as error:
        name = safe_line(choice.model or Path(choice.model_path or "").name)
        fingerprint = provider.settings_fingerprint({"provider": NAME, "failure": error.failure})
        return provider.ProviderIdentity(NAME, name, None, fingerprint, provider.LOCAL_LIMIT)


def _plan(choice: EmbeddingSettings) -> tuple[ModelFile, Templates, int, provider.ProviderIdentity]:
    """Return the model file, its prefixes, how many tokens it may read, and what it makes."""
    path, origin = find_model(choice)
    if path is None:
        message = f"no model file: {origin} is not on this machine"
        raise ProviderError(message, hint=NO_MODEL, failure=Failure.NO_FILE)
    file = describe_file(path)
    if file.pooling == RERANKER:
        message = f"the model {safe_line(str(path))} is a reranker, no embedding model"
        raise ProviderError(message, hint=NO_MODEL, failure=Failure.NO_MODEL)
    dimensions = choice.dimensions or file.dimensions
    if dimensions > file.dimensions:
        setting = f"embedding.dimensions is {dimensions}"
        message = f"{setting}, the model {safe_line(path.name)} has {file.dimensions}"
        raise SettingsError(message, hint="leave it empty for all of them")
    name = safe_line(choice.model or path.name)
    prefixes = templates_of(name)
    if prefixes == Templates():
        prefixes = templates_of(file.name.replace(" ", "-"))
    prefixes = prefixes.overridden(choice)
    context = min(2048, file.context_length)  # OpenClaw's limit for a local model
    fingerprint = provider.settings_fingerprint(
        {
            "provider": NAME,
            "file": file.digest,
            "dimensions": dimensions,
            "context": context,
            "query_prefix": prefixes.query,
            "document_prefix": prefixes.document,
        }
    )
    limit = min(provider.LOCAL_LIMIT, provider.CHARACTERS_A_TOKEN * context)
    identity = provider.ProviderIdentity(NAME, name, dimensions, fingerprint, limit)
    return file, prefixes, context, identity


REGISTRATIONS: Final = {
    NAME: Registration(NAME, create, check, identity, "a GGUF model file, on this machine")
}

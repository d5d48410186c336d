"""The model file of the provider `gguf`: where it is, and what its header says.

The format is that of ggml's `docs/gguf.md`: magic, version, counts, then key and value pairs. Every
count and length is checked before anything is read, so a hostile file costs one line and next to
no memory. xllamacpp tells nothing about a file that it has not loaded.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, Final

from memtui.errors import ProviderError
from memtui.model import Failure
from memtui.settings.openclaw import MemorySearchConfig, read_config
from memtui.settings.schema import EmbeddingSettings
from memtui.text.sanitize import safe_line

RERANKER: Final = 4
"""The pooling of a model that judges pairs of texts and has no vectors."""
_POOLING_MEAN, _POOLING_LAST = 1, 3

_MOST_PAIRS: Final = 4096
_MOST_TENSORS: Final = 1 << 20
_MOST_LISTED_TEXTS: Final = 1 << 21
"""Each is stepped over on its own, and the largest vocabularies have half of it."""
_MOST_TEXT_BYTES: Final = 1024
"""Of a name or a value that is read; longer values, a chat template say, are stepped over."""
_MOST_DIMENSIONS: Final = 1 << 16
_MOST_CONTEXT: Final = 1 << 26
_VERSIONS: Final = (2, 3)
_LENGTHS: Final = ("embedding", "context")
_STRING, _ARRAY = 8, 9
_INTEGERS: Final = dict(zip((0, 1, 2, 3, 4, 5, 7, 10, 11), "BbHhIi?Qq", strict=True))
_SIZES: Final = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}

_EDGE_BYTES: Final = 64 << 10
_SAMPLES: Final = 64
_SAMPLE_BYTES: Final = 4 << 10

MODELS_FOLDER: Final = Path(".node-llama-cpp", "models")
"""Below the home folder: where node-llama-cpp, which OpenClaw loads models with, keeps them."""
DEFAULT_MODELS: Final = (
    "hf:ggml-org/embeddinggemma-300m-qat-q8_0-GGUF/embeddinggemma-300m-qat-Q8_0.gguf",
    "hf:ggml-org/embeddinggemma-300M-GGUF/embeddinggemma-300M-Q8_0.gguf",
)
"""OpenClaw's own models (OPENCLAW.md, section 10): today's, and that of its first releases."""
_URI = re.compile(r"(?:hf|huggingface):(?://)?|(?:hf|huggingface)\.co/")
_QUANTISATION: Final = "Q4_K_M"
"""What node-llama-cpp takes of a model when its address names no file."""


@dataclass(frozen=True, slots=True)
class ModelFile:
    """What a model file says about itself."""

    path: Path
    digest: str
    """sha256 hex of its size, both ends and 64 places between."""
    architecture: str
    name: str
    """`general.name`, safe to show; empty where the file has none."""
    dimensions: int
    """How many numbers a vector has."""
    context_length: int
    """The most tokens the model was trained for."""
    pooling: int
    """llama.cpp's number: 1 mean, 2 first, 3 last, 4 `RERANKER`."""


class _Broken(Exception):
    """What is wrong with the file, as the end of a sentence about it."""


def describe_file(path: Path) -> ModelFile:
    """Describe a model file from its header and 384 KiB of samples, whatever its size.

    Raises `ProviderError`: `NO_FILE` where it cannot be read, `BROKEN_FILE` where it is no GGUF
    file of version 2 or 3, is cut off, or does not say what an embedding model must.
    """
    shown = safe_line(str(path))
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):  # a pipe, say, could block for ever
            raise OSError(None, "it is not a regular file")
        times = (status.st_mtime_ns, status.st_ctime_ns)
        return _describe(path, (status.st_dev, status.st_ino, status.st_size, *times))
    except _Broken as error:
        raise ProviderError(
            f"the model {shown} {error}",
            hint="download the model again, or set embedding.model_path to another file",
            failure=Failure.BROKEN_FILE,
        ) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "the path cannot be used"
        raise ProviderError(
            f"cannot read the model {shown}: {reason or type(error).__name__}",
            hint="set embedding.model_path to a GGUF model file",
            failure=Failure.NO_FILE,
        ) from error


@lru_cache(maxsize=16)
def _describe(path: Path, _state: tuple[int, ...]) -> ModelFile:
    """Describe the file once for each state that it is seen in."""
    with path.open("rb") as file:
        values = _read_pairs(file)
        digest = _sample_digest(file)
    architecture = values.get("general.architecture") or ""
    if not architecture or not isinstance(architecture, str):
        raise _Broken("does not say of which architecture it is")

    def number(name: str) -> int:
        value = values.get(f"{architecture}.{name}")
        return value if isinstance(value, int) else 0

    dimensions = number("embedding_length_out") or number("embedding_length")
    context = number("context_length")
    if not 1 <= dimensions <= _MOST_DIMENSIONS or not 1 <= context <= _MOST_CONTEXT:
        raise _Broken("does not say how long its vectors and its context are")
    # Where a token sees only those before it, the last one has seen them all.
    looks_back = values.get(f"{architecture}.attention.causal") is not False
    pooling = number("pooling_type") or (_POOLING_LAST if looks_back else _POOLING_MEAN)
    name = safe_line(str(values.get("general.name", "")))
    return ModelFile(path, digest, safe_line(architecture), name, dimensions, context, pooling)


def _sample_digest(file: BinaryIO) -> str:
    size = file.seek(0, os.SEEK_END)
    digest = hashlib.sha256(str(size).encode())
    file.seek(0)
    digest.update(file.read(_EDGE_BYTES))
    for number in range(_SAMPLES):
        file.seek(size * number // _SAMPLES)
        digest.update(file.read(_SAMPLE_BYTES))
    file.seek(max(0, size - _EDGE_BYTES))
    digest.update(file.read(_EDGE_BYTES))
    return digest.hexdigest()


def _read_pairs(file: BinaryIO) -> dict[str, str | int]:
    """Read the pairs up to the vocabulary, or all where what is needed comes behind it."""
    if file.read(4) != b"GGUF":
        raise _Broken("is not a GGUF file")
    version = _number(file, "I")
    if version not in _VERSIONS:
        raise _Broken(f"has GGUF version {version}; 2 and 3 can be read")
    tensors, pairs = _number(file, "Q"), _number(file, "Q")
    if tensors > _MOST_TENSORS or pairs > _MOST_PAIRS:
        raise _Broken("is damaged: it claims to have more parts than a model has")
    values: dict[str, str | int] = {}
    for _ in range(pairs):
        length = _number(file, "Q")
        if length > _MOST_TEXT_BYTES:
            raise _Broken("is damaged: the name of a value is too long")
        key = _take(file, length).decode("utf-8", "replace")
        needed = [f"{values.get('general.architecture')}.{name}_length" for name in _LENGTHS]
        if key.startswith("tokenizer.") and all(name in values for name in needed):
            break
        value = _read_value(file, _number(file, "I"))
        if value is not None:
            values[key] = value
    return values


def _read_value(file: BinaryIO, kind: int) -> str | int | None:
    """Read a value, or step over one that is too long or of a kind that is not needed."""
    if kind in _INTEGERS:
        return _number(file, _INTEGERS[kind])
    if kind == _STRING:
        length = _number(file, "Q")
        if length <= _MOST_TEXT_BYTES:
            return _take(file, length).decode("utf-8", "replace")
        _skip(file, length)
    elif kind == _ARRAY:
        element, count = _number(file, "I"), _number(file, "Q")
        if count > _MOST_LISTED_TEXTS:
            raise _Broken("is damaged: a list in it is too long")
        for _ in range(count if element == _STRING else 0):
            _skip(file, _number(file, "Q"))
        if element != _STRING:
            _skip(file, count * _size(element))
    else:
        _skip(file, _size(kind))
    return None


def _size(kind: int) -> int:
    if kind not in _SIZES:
        raise _Broken("is damaged: it holds a value of an unknown kind")
    return _SIZES[kind]


def _number(file: BinaryIO, form: str) -> int:
    (number,) = struct.unpack(f"<{form}", _take(file, struct.calcsize(f"<{form}")))
    return number if isinstance(number, bool) else int(number)


def _take(file: BinaryIO, count: int) -> bytes:
    data = file.read(count)
    if len(data) != count:
        raise _Broken("is cut off: the download may not have ended")
    return data


def _skip(file: BinaryIO, count: int) -> None:
    place = file.tell() + count
    if place > os.fstat(file.fileno()).st_size:
        raise _Broken("is cut off or damaged: it ends within its header")
    file.seek(place)


@dataclass(frozen=True, slots=True)
class ModelPlace:
    """Where the model file is."""

    path: Path | None
    """`None` where none was found; a file that is named may be missing all the same."""
    origin: str
    """Who named it, for people."""


def find_model(
    choice: EmbeddingSettings,
    env: Mapping[str, str] | None = None,
    home: Path | None = None,
) -> ModelPlace:
    """Find the model file: the configured one, else OpenClaw's configured or own one.

    A name may be a path, `~` at its start being the home folder, or an address as OpenClaw's
    configuration has it (`hf:USER/MODEL/FILE.gguf`); that is looked for among the files which
    node-llama-cpp has fetched, and never fetched here.
    """
    env = os.environ if env is None else env
    home = Path(os.path.expanduser("~")) if home is None else home
    path: Path | None = _expanded(choice.model_path, home) if choice.model_path else None
    if path is not None and path.is_absolute():
        return ModelPlace(path, "embedding.model_path")
    search = read_config(env, home).default_agent.search
    folders = _folders(search, home)
    if choice.model_path:
        return ModelPlace(_named(choice.model_path, folders, home), "embedding.model_path")
    if search.local_model_path:
        path = _named(search.local_model_path, folders, home)
        return ModelPlace(path, "OpenClaw's configuration")
    for model in DEFAULT_MODELS:
        path = _fetched(model, folders)
        if path is not None:
            return ModelPlace(path, "OpenClaw's default model")
    return ModelPlace(None, "OpenClaw's default model")


def file_names(address: str) -> tuple[str, ...]:
    """The names that node-llama-cpp gives the file of an `hf:` address; none for anything else.

    `hf_USER_FILE`, with the model between where the file is not named after it; without a file
    in the address, the model's name with its quantisation.
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
        kind = tag or _QUANTISATION
        return (f"hf_{user}_{stem}.{kind}.gguf", f"hf_{user}_{stem}.gguf")
    name = file.partition("#")[0].rpartition("/")[2]
    if stem != model and name.lower().startswith(stem.lower()):
        return (f"hf_{user}_{name}",)
    return (f"hf_{user}_{model}_{name}",)


def _folders(search: MemorySearchConfig, home: Path) -> tuple[Path, ...]:
    own = search.local_model_cache_dir
    usual = home / MODELS_FOLDER
    return (_expanded(own, home), usual) if own else (usual,)


def _named(name: str, folders: tuple[Path, ...], home: Path) -> Path | None:
    if _URI.match(name):
        return _fetched(name, folders)
    path = _expanded(name, home)
    if path.is_absolute() or os.path.lexists(path):
        return path
    beside = (folder / path for folder in folders)
    return next((place for place in beside if os.path.lexists(place)), path)


def _fetched(address: str, folders: tuple[Path, ...]) -> Path | None:
    places = (folder / name for folder in folders for name in file_names(address))
    return next((place for place in places if os.path.isfile(place)), None)


def _expanded(name: str, home: Path) -> Path:
    name = name.strip().replace("\0", "")
    if name == "~" or name.startswith(("~/", "~\\")):
        return home / name[2:]
    return Path(name)

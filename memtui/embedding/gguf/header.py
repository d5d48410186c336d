"""What the header of a GGUF model file says, read strictly and within bounds.

The format is that of ggml's `docs/gguf.md`: magic, version, counts, then key and value pairs. Every
count and length is checked against the file before anything is read, so a hostile file costs one
line and next to no memory.
"""

from __future__ import annotations

import hashlib
import os
import stat
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from memtui.errors import ProviderError
from memtui.model import Failure
from memtui.text.sanitize import safe_line

MOST_PAIRS: Final = 4096
MOST_TENSORS: Final = 1 << 20
MOST_ELEMENTS: Final = 1 << 22
MOST_LISTED_TEXTS: Final = 1 << 21
"""Of all lists: each is stepped over on its own, and the largest vocabularies have half of it."""
MOST_HEADER_BYTES: Final = 256 << 20
MOST_KEY_BYTES: Final = 256
MOST_TEXT_BYTES: Final = 1024
"""Of a value that is wanted; longer ones, a chat template say, are stepped over."""
MOST_DIMENSIONS: Final = 1 << 16
MOST_CONTEXT: Final = 1 << 26

RERANKER: Final = 4
"""The pooling of a model that judges pairs of texts and has no vectors."""

_MAGIC: Final = b"GGUF"
_VERSIONS: Final = (2, 3)
_STRING, _ARRAY = 8, 9
_NUMBERS: Final = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 10: "<Q", 11: "<q"}
_SIZES: Final = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_VOCABULARY: Final = "tokenizer."
_NEXT_STEP: Final = "download the model again, or set embedding.model_path to another file"

_EDGE_BYTES: Final = 64 << 10
_SAMPLES: Final = 64
_SAMPLE_BYTES: Final = 4 << 10


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """What a model file says about itself."""

    architecture: str
    name: str
    """`general.name`, safe to show; empty where the file has none."""
    dimensions: int
    """How many numbers a vector has."""
    context_length: int
    """The most tokens the model was trained for."""
    pooling: int | None = None
    """llama.cpp's number of the pooling: 0 none, 1 mean, 2 first, 3 last, 4 `RERANKER`."""
    file_type: int | None = None
    """llama.cpp's number of the quantisation, where it is written before the vocabulary."""


class _Broken(Exception):
    """What is wrong with the file, as the end of a sentence about it."""


def read_header(path: Path) -> GgufHeader:
    """Read what the file says up to its vocabulary, which takes milliseconds for any size.

    Raises `ProviderError`: `NO_FILE` where it cannot be read, `BROKEN_FILE` where it is no GGUF
    file of version 2 or 3, is cut off, or does not say what an embedding model must.
    """
    try:
        with _opened(path) as file:
            return _Reader(file, os.fstat(file.fileno()).st_size).header()
    except _Broken as error:
        message = f"the model {safe_line(str(path))} {error}"
        raise ProviderError(message, hint=_NEXT_STEP, failure=Failure.BROKEN_FILE) from None
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error


def sample_digest(path: Path) -> str:
    """Hash the size, both ends and 64 places between of a file; sha256 hex. Reads 384 KiB at most.

    Raises `ProviderError` where the file cannot be read.
    """
    try:
        with _opened(path) as file:
            size = os.fstat(file.fileno()).st_size
            digest = hashlib.sha256(str(size).encode())
            digest.update(file.read(_EDGE_BYTES))
            for number in range(_SAMPLES):
                file.seek(size * number // _SAMPLES)
                digest.update(file.read(_SAMPLE_BYTES))
            file.seek(max(0, size - _EDGE_BYTES))
            digest.update(file.read(_EDGE_BYTES))
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class FileState:
    """Which file is at a path, and when it was last written; equal for the same content."""

    device: int
    inode: int
    size: int
    written_ns: int
    changed_ns: int
    """Of its status, which no program can set back."""

    def is_rewritten(self, path: Path) -> bool:
        """Whether this very file, still at `path`, was written to; another one in place is not."""
        try:
            now = file_state(path)
        except ProviderError:
            return False
        if (now.device, now.inode) != (self.device, self.inode):
            return False
        return (now.size, now.written_ns) != (self.size, self.written_ns)


def file_state(path: Path) -> FileState:
    """The state of a regular file; raises `ProviderError`."""
    try:
        status = _status(path)
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    return FileState(
        status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
    )


def _status(path: Path) -> os.stat_result:
    """The state of a regular file; anything else, a pipe say, could block for ever."""
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(None, "it is not a regular file")
    return status


def _opened(path: Path) -> BinaryIO:
    _status(path)
    return path.open("rb")


def _unreadable(path: Path, error: Exception) -> ProviderError:
    reason = error.strerror if isinstance(error, OSError) else "the path cannot be used"
    message = f"cannot read the model {safe_line(str(path))}: {reason or type(error).__name__}"
    hint = "set embedding.model_path to a GGUF model file"
    return ProviderError(message, hint=hint, failure=Failure.NO_FILE)


class _Reader:
    """Walks over the pairs of a header and keeps the few that are wanted."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self._end = min(size, MOST_HEADER_BYTES)
        self._at = 0
        self._texts: dict[str, str] = {}
        self._numbers: dict[str, int] = {}
        self._listed_texts = 0

    def header(self) -> GgufHeader:
        for _ in range(self._pair_count()):
            key = self._key()
            if key.startswith(_VOCABULARY) and self._is_complete():
                break
            self._value(key)
        return self._told()

    def _pair_count(self) -> int:
        if self._end < len(_MAGIC) or self._take(len(_MAGIC)) != _MAGIC:
            raise _Broken("is not a GGUF file")
        version = self._number("<I")
        if version not in _VERSIONS:
            raise _Broken(f"has GGUF version {version}; 2 and 3 can be read")
        tensors, pairs = self._number("<Q"), self._number("<Q")
        if tensors > MOST_TENSORS or pairs > MOST_PAIRS:
            raise _Broken("is damaged: it claims to have more parts than a model has")
        return pairs

    def _key(self) -> str:
        length = self._number("<Q")
        if length > MOST_KEY_BYTES:
            raise _Broken("is damaged: the name of a value is too long")
        return self._take(length).decode("utf-8", "replace")

    def _value(self, key: str) -> None:
        kind = self._number("<I")
        if kind == _STRING:
            self._text(key)
        elif kind == _ARRAY:
            self._skip_array()
        elif kind in _NUMBERS:
            self._numbers[key] = self._number(_NUMBERS[kind])
        elif kind in _SIZES:
            self._skip(_SIZES[kind])
        else:
            raise _Broken("is damaged: it holds a value of an unknown kind")

    def _text(self, key: str) -> None:
        length = self._number("<Q")
        if length > MOST_TEXT_BYTES:
            self._skip(length)
        else:
            self._texts[key] = self._take(length).decode("utf-8", "replace")

    def _skip_array(self) -> None:
        kind, count = self._number("<I"), self._number("<Q")
        if count > MOST_ELEMENTS:
            raise _Broken("is damaged: a list in it is too long")
        if kind in _SIZES:
            self._skip(_SIZES[kind] * count)
        elif kind == _STRING:
            self._listed_texts += count
            if self._listed_texts > MOST_LISTED_TEXTS:
                raise _Broken("is damaged: its lists are too long")
            for _ in range(count):
                self._skip(self._number("<Q"))
        else:
            raise _Broken("is damaged: it holds a list of an unknown kind")

    def _is_complete(self) -> bool:
        architecture = self._texts.get("general.architecture")
        wanted = (f"{architecture}.embedding_length", f"{architecture}.context_length")
        return bool(architecture) and all(name in self._numbers for name in wanted)

    def _told(self) -> GgufHeader:
        architecture = self._texts.get("general.architecture", "")
        if not architecture:
            raise _Broken("does not say of which architecture it is")
        numbers = {
            name: self._numbers.get(f"{architecture}.{name}")
            for name in ("embedding_length", "embedding_length_out", "context_length")
        }
        dimensions = numbers["embedding_length_out"] or numbers["embedding_length"] or 0
        context = numbers["context_length"] or 0
        if not 1 <= dimensions <= MOST_DIMENSIONS or not 1 <= context <= MOST_CONTEXT:
            raise _Broken("does not say how long its vectors and its context are")
        return GgufHeader(
            safe_line(architecture),
            safe_line(self._texts.get("general.name", "")),
            dimensions,
            context,
            self._numbers.get(f"{architecture}.pooling_type"),
            self._numbers.get("general.file_type"),
        )

    def _number(self, form: str) -> int:
        (number,) = struct.unpack(form, self._take(struct.calcsize(form)))
        return int(number)

    def _take(self, count: int) -> bytes:
        self._claim(count)
        data = self._file.read(count)
        if len(data) != count:
            raise _Broken("is cut off: the download may not have ended")
        return data

    def _skip(self, count: int) -> None:
        self._claim(count)
        self._file.seek(count, os.SEEK_CUR)

    def _claim(self, count: int) -> None:
        if count > self._end - self._at:
            raise _Broken("is cut off or damaged: it ends within its header")
        self._at += count

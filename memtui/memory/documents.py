"""Reading one file into a document: its text, hash and date, and what was wrong with it."""

from __future__ import annotations

import codecs
import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Literal

from memtui.memory.dates import day_of_path, front_matter
from memtui.model import Document, Reason, SourceFile

MAX_FILE_BYTES = 64 * 2**20
"""Larger files are not read."""

_PIECE = 1 << 20
_FLAGS = ("O_CLOEXEC", "O_NONBLOCK", "O_NOFOLLOW", "O_NOCTTY", "O_BINARY")
_OPEN = reduce(or_, (getattr(os, name, 0) for name in _FLAGS), os.O_RDONLY)
_REPLACEMENT = "\ufffd"
_BYTE_ORDER_MARK = "\ufeff"


class NotRegularFile(OSError):
    """What was a file when it was found is now a pipe, a socket, a device or a folder."""


def read_document(file: SourceFile, *, max_bytes: int = MAX_FILE_BYTES) -> Document:
    """Read and decode a file that discovery found.

    The text is the file's UTF-8 without a byte order mark. Bytes that are not UTF-8 and NUL become
    U+FFFD, one for one, and are named in the warnings; line ends stay as they are, so line numbers
    and hashes are those of the file. Never blocks on a pipe and never follows a link.

    Raises `OSError`: `reason_of` says which reason it stands for.
    """
    raw = _read(file, max_bytes)
    text, warnings = _decode(raw)
    # Then the text is these bytes, and need not be encoded again.
    as_read = not warnings and not raw.startswith(codecs.BOM_UTF8)
    matter = front_matter(text)
    day, day_from = day_of_path(file.path), Reason.FILE_NAME
    if day is None:
        day, day_from = matter.day, Reason.FRONT_MATTER
    return Document(
        file=file,
        text=text,
        hash=hashlib.sha256(raw).hexdigest() if as_read else text_hash(text),
        day=day,
        day_from=day_from if day is not None else None,
        importance=matter.importance,
        warnings=warnings,
    )


def open_regular(path: Path) -> int:
    """Open a file for reading, and give its descriptor: never follows a link, never blocks.

    Raises `OSError`, `NotRegularFile` for a pipe, a socket, a device or a folder.
    """
    descriptor = os.open(path, _OPEN)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise NotRegularFile(errno.EINVAL, "not a regular file", str(path))


def reason_of(error: OSError) -> Reason:
    """Say why a file is not indexed, from the error that reading or listing it gave."""
    if isinstance(error, NotRegularFile):
        return Reason.NOT_REGULAR
    return {
        errno.ENOENT: Reason.VANISHED,
        errno.ENOTDIR: Reason.VANISHED,
        errno.ELOOP: Reason.SYMLINK,
        errno.EFBIG: Reason.TOO_LARGE,
        errno.ENXIO: Reason.NOT_REGULAR,
    }.get(error.errno or 0, Reason.UNREADABLE)


def text_hash(text: str) -> str:
    """Hash text: sha256 hex of its UTF-8 form, a lone surrogate counting as U+FFFD."""
    if len(text) <= _PIECE:
        return hashlib.sha256(_encoded(text)).hexdigest()
    digest = hashlib.sha256()
    for start in range(0, len(text), _PIECE):
        digest.update(_encoded(text[start : start + _PIECE]))
    return digest.hexdigest()


def split_lines(text: str) -> list[str]:
    """Split text into the lines that line numbers count: at line feeds only.

    The carriage return of a CRLF is taken off, as it is no part of what the line shows.
    """
    return [line.removesuffix("\r") for line in text.split("\n")]


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


def _read(file: SourceFile, max_bytes: int) -> bytes:
    descriptor = open_regular(file.absolute)
    try:
        content = bytearray()
        while piece := os.read(descriptor, min(_PIECE, max_bytes + 1 - len(content))):
            content += piece
            if len(content) > max_bytes:
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(file.absolute))
        return bytes(content)
    finally:
        os.close(descriptor)


def _decode(raw: bytes) -> tuple[str, tuple[str, ...]]:
    warnings: list[str] = []
    undecodable = 0
    try:
        text = raw.decode() if len(raw) <= _PIECE else "".join(_decoded_pieces(raw, "strict"))
    except UnicodeDecodeError:
        text = "".join(_decoded_pieces(raw, "replace"))
        undecodable = text.count(_REPLACEMENT) - raw.count(_REPLACEMENT.encode())
    text = text.removeprefix(_BYTE_ORDER_MARK)
    if undecodable:
        warnings.append(
            f"not UTF-8: {_counted(undecodable, 'bad sequence')} shown as U+FFFD, "
            f"first on line {_first_bad_line(raw)}"
        )
    if "\0" in text:
        nuls = text.count("\0")
        line = text.count("\n", 0, text.index("\0")) + 1
        warnings.append(f"{_counted(nuls, 'NUL byte')} shown as U+FFFD, first on line {line}")
        text = text.replace("\0", _REPLACEMENT)
    return text, tuple(warnings)


def _decoded_pieces(raw: bytes, errors: Literal["strict", "replace"]) -> Iterator[str]:
    """Decode a piece at a time: one call over a whole large file would stop other threads."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors)
    for start in range(0, len(raw), _PIECE):
        yield decoder.decode(raw[start : start + _PIECE])
    yield decoder.decode(b"", final=True)


def _first_bad_line(raw: bytes) -> int:
    line = 1
    try:
        for piece in _decoded_pieces(raw, "strict"):
            line += piece.count("\n")
    except UnicodeDecodeError as error:
        line += error.object.count(b"\n", 0, error.start)
    return line


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")

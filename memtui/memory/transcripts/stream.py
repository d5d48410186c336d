"""The lines of a transcript as bytes, one at a time, plain or packed by Zstandard.

What is held at once is a line of at most the limit and a block of the file, however long the lines
are and however much a packed file unpacks to.
"""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from memtui.memory.documents import open_regular

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

MAX_LINE_BYTES: Final = 16 * 2**20
"""A longer line is counted and passed over."""

_BLOCK: Final = 1 << 16
_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_PACKED_STEP: Final = 512
"""Packed bytes taken at once: a block of 4 bytes can unpack to 128 KiB, so these to 16 MiB."""
_MAX_WINDOW: Final = 1 << 27
"""What `zstd` itself unpacks unless told otherwise (128 MiB)."""
_BYTE_ORDER_MARK: Final = "\ufeff"


@dataclass(frozen=True, slots=True)
class RawLine:
    """One line of a transcript."""

    number: int
    """From 1."""
    offset: int
    """Bytes of the (unpacked) file before it."""
    length: int
    """Bytes with its line end, also of a line that is too long: the next begins behind them."""
    data: bytes | None
    """Without its line feed; `None` when it is longer than the limit."""
    complete: bool
    """Whether a line feed ends it; else it is the last, and may still be being written."""


def raw_lines(
    stream: BinaryIO, *, offset: int = 0, number: int = 1, limit: int = MAX_LINE_BYTES
) -> Iterator[RawLine]:
    """Read line after line from `offset` on, where line `number` begins.

    `limit` is in bytes without the line feed. Nothing comes after the last line feed. Raises
    `OSError` when the file cannot be read on; what came before stays valid.
    """
    _skip_to(stream, offset)
    while data := stream.readline(limit + 1):
        kept: bytes | None = data
        length = len(data)
        complete = data.endswith(b"\n")
        if not complete and length > limit:
            kept = None
            while not complete and (piece := stream.readline(_BLOCK)):
                length += len(piece)
                complete = piece.endswith(b"\n")
        if kept is not None and complete:
            kept = kept[:-1]
        yield RawLine(number, offset, length, kept, complete)
        offset += length
        number += 1


def text_of(raw: RawLine) -> str:
    """A line's text: bytes that are not UTF-8 become U+FFFD; no byte order mark, no line end.

    Empty for a line that is too long.
    """
    text = (raw.data or b"").decode("utf-8", "replace").removesuffix("\r")
    return text.removeprefix(_BYTE_ORDER_MARK) if raw.offset == 0 else text


def open_transcript(path: Path) -> BinaryIO:
    """Open a transcript for reading, unpacking it if it begins as a Zstandard file does.

    Never follows a link and never blocks on a pipe. Raises `OSError`; so does reading from what is
    returned, with one line that says so, when a packed file is broken or cut.
    """
    file = os.fdopen(open_regular(path), "rb", _BLOCK)
    try:
        is_packed = file.read(len(_MAGIC)) == _MAGIC
        file.seek(0)
        if is_packed:
            return io.BufferedReader(_Unpacked(file, str(path)), _BLOCK)
    except BaseException:
        file.close()
        raise
    return file


def unpacked(data: bytes, *, limit: int = MAX_LINE_BYTES, name: str = "") -> bytes | None:
    """Unpack what a database keeps packed by Zstandard; `None` when it is more than `limit` bytes.

    Raises `OSError` when it is broken or cut; `name` is what the message calls it.
    """
    with io.BufferedReader(_Unpacked(io.BytesIO(data), name), _BLOCK) as stream:
        whole = stream.read(limit + 1)
    return whole if len(whole) <= limit else None


class _Unpacked(io.RawIOBase):
    """The unpacked bytes of a file of one or more Zstandard frames."""

    def __init__(self, packed: BinaryIO, name: str) -> None:
        import zstandard

        self._packed = packed
        self._name = name
        self._zstandard = zstandard
        self._decompressor = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW)
        self._frame = self._decompressor.decompressobj()
        self._is_in_frame = False
        self._left = b""
        """Packed bytes behind the end of a frame."""
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        target = memoryview(buffer).cast("B")
        while not self._ready:
            packed = self._left or self._packed.read(_PACKED_STEP)
            self._left = b""
            if not packed:
                if self._is_in_frame:
                    raise self._broken("it is cut off")
                return 0
            self._ready = memoryview(self._next(packed))
        count = min(len(target), len(self._ready))
        target[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def close(self) -> None:
        self._packed.close()
        super().close()

    def _next(self, packed: bytes) -> bytes:
        try:
            data = self._frame.decompress(packed)
        except self._zstandard.ZstdError as error:
            raise self._broken(str(error)) from error
        self._is_in_frame = not self._frame.eof
        if self._frame.eof:
            self._left = self._frame.unused_data
            self._frame = self._decompressor.decompressobj()
        return data

    def _broken(self, why: str) -> OSError:
        return OSError(errno.EBADMSG, f"not a whole Zstandard file ({why})", self._name)


def _skip_to(stream: BinaryIO, offset: int) -> None:
    if stream.seekable():
        stream.seek(offset)
        return
    while offset and (piece := stream.read(min(offset, _BLOCK))):
        offset -= len(piece)

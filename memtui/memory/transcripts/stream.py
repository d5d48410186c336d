"""The lines of a transcript as bytes, one at a time, plain or packed by Zstandard.

What is held at once is a line of at most the limit and a block of the file, however long the lines
are and however much a packed file unpacks to. The reading of one ends where it has unpacked to more
than conversations do.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

from msgspec import Struct

from memtui.errors import undone_on_error
from memtui.memory.documents import open_regular

MAX_LINE_BYTES: Final = 16 * 2**20
"""A longer line is counted and passed over."""

_BLOCK: Final = 1 << 16
_READ_BYTES: Final = 1 << 20
_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_PACKED_STEP: Final = 512
"""Packed bytes taken at once: a block of 4 bytes can unpack to 128 KiB, so these to 16 MiB."""
_MAX_WINDOW: Final = 1 << 27
"""The largest window that `zstd` itself unpacks by default (128 MiB)."""
_BYTE_ORDER_MARK: Final = "\ufeff"

UNPACKED_BYTES: Final = 500_000_000
"""Conversations of months have some ten megabytes."""
UNPACKED_LINES: Final = 1_000_000
"""A record has some hundred bytes at least, and costs the same however short it is."""
UNPACKED_RATIO: Final = 1_000
"""The same screenshot in every record of a hundred megabytes packs about as well."""
RATIO_FLOOR: Final = 16_000_000
"""Bytes that any file may unpack to: seconds' work, however short the records are."""


class RawLine(Struct, frozen=True):
    number: int
    """From 1."""
    offset: int
    """Bytes of the (unpacked) file before it."""
    length: int
    """Bytes with its line end, also of a line that is too long: the next begins behind them."""
    data: bytes | None
    """Without its line feed; `None` when it is longer than the limit."""
    complete: bool
    """True if a line feed ends it; else it is the last, and may still be being written."""


def raw_lines(
    stream: BinaryIO | HashingStream,
    *,
    offset: int = 0,
    number: int = 1,
    limit: int = MAX_LINE_BYTES,
) -> Iterator[RawLine]:
    """Read line after line from where the stream is: at `offset`, where line `number` begins.

    `limit` is in bytes without the line feed. Nothing comes after the last line feed. Raises
    `OSError` when the file cannot be read on; what came before stays valid.
    """
    while data := stream.readline(limit + 1):
        length, complete = len(data), data.endswith(b"\n")
        is_too_long = not complete and length > limit
        while is_too_long and not complete and (piece := stream.readline(_BLOCK)):
            length += len(piece)
            complete = piece.endswith(b"\n")
        line = None if is_too_long else data.removesuffix(b"\n")
        yield RawLine(number, offset, length, line, complete)
        offset += length
        number += 1


def text_of(raw: RawLine) -> str:
    """Return a line's text, without byte order mark and line end; empty for one too long.

    Bytes that are not UTF-8 become U+FFFD.
    """
    text = (raw.data or b"").decode("utf-8", "replace").removesuffix("\r")
    return text.removeprefix(_BYTE_ORDER_MARK) if raw.offset == 0 else text


def open_transcript(path: Path, base: str = "") -> BinaryIO:
    """Open a transcript for reading, unpacking it if it begins as a Zstandard file does.

    Never follows a link below `base` and never blocks on a pipe. Raises `OSError`; so does reading
    from what is returned, with one line that says so, when a packed file is broken or cut, or
    unpacks to too much.
    """
    file = os.fdopen(open_regular(path, base), "rb", _BLOCK)
    with undone_on_error(file.close):
        is_packed = file.read(len(_MAGIC)) == _MAGIC
        file.seek(0)
        if is_packed:
            return io.BufferedReader(PieceStream(_bounded_pieces(file, str(path)), file), _BLOCK)
    return file


def unpacking_excess(packed: int, size: int, lines: int = 0) -> str:
    """Say in a phrase what is too much of so many packed bytes unpacked; empty: nothing."""
    if size > UNPACKED_BYTES:
        most = f"{UNPACKED_BYTES:,} bytes"
    elif lines > UNPACKED_LINES:
        most = f"{UNPACKED_LINES:,} lines"
    elif size > max(RATIO_FLOOR, UNPACKED_RATIO * packed):
        most = f"{UNPACKED_RATIO:,} times its size and {RATIO_FLOOR:,} bytes"
    else:
        return ""
    return f"unpacks to more than {most}"


class HashingStream:
    """Reads on in a stream and hashes what was read."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._hash = hashlib.sha256()

    def skip(self, size: int) -> bool:
        """Read so many bytes; `False` when the stream ends before."""
        while size > 0 and (piece := self._stream.read(min(_READ_BYTES, size))):
            self._hash.update(piece)
            size -= len(piece)
        return size == 0

    def digest(self) -> str:
        """Return the sha256 hex of everything that was read."""
        return self._hash.hexdigest()

    def readline(self, limit: int = -1, /) -> bytes:
        """Read a line, or a part of one that is longer than `limit` bytes."""
        data = self._stream.readline(limit)
        self._hash.update(data)
        return data


def unpacked(data: bytes, *, limit: int = MAX_LINE_BYTES, name: str = "") -> bytes | None:
    """Unpack what a database keeps packed by Zstandard; `None` when it is more than `limit` bytes.

    Raises `OSError` when it is broken or cut; `name` is what the message calls it.
    """
    with io.BufferedReader(PieceStream(_unpacked_pieces(io.BytesIO(data), name)), _BLOCK) as stream:
        whole = stream.read(limit + 1)
    return whole if len(whole) <= limit else None


class PieceStream(io.RawIOBase):
    """A stream out of pieces of bytes; wrap it into an `io.BufferedReader`."""

    def __init__(self, pieces: Iterator[bytes], source: BinaryIO | None = None) -> None:
        """`source` is closed with the stream."""
        self._pieces = pieces
        self._source = source
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        while not self._ready:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._ready = memoryview(piece)
        target = memoryview(buffer).cast("B")
        count = min(len(target), len(self._ready))
        target[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def close(self) -> None:
        if self._source is not None:
            self._source.close()
        super().close()


def _bounded_pieces(packed: BinaryIO, name: str) -> Iterator[bytes]:
    size = lines = 0
    for piece in _unpacked_pieces(packed, name):
        size, lines = size + len(piece), lines + piece.count(b"\n")
        if excess := unpacking_excess(packed.tell(), size, lines):
            raise OSError(errno.EFBIG, excess, name)
        yield piece


def _unpacked_pieces(packed: BinaryIO, name: str) -> Iterator[bytes]:
    import zstandard

    decompressor = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW)
    frame = decompressor.decompressobj()
    is_in_frame, broken = False, "not a whole Zstandard file ({})"
    while data := packed.read(_PACKED_STEP):
        while data:
            try:
                yield frame.decompress(data)
            except zstandard.ZstdError as error:
                raise OSError(errno.EBADMSG, broken.format(error), name) from error
            is_in_frame = not frame.eof
            data = b"" if is_in_frame else frame.unused_data
            if not is_in_frame:
                frame = decompressor.decompressobj()
    if is_in_frame:
        raise OSError(errno.EBADMSG, broken.format("it is cut off"), name)

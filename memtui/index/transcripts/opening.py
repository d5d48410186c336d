"""A transcript as a stream of lines, wherever it is kept, with the hash of what was read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, cast

from memtui.index.transcripts.events import event_stream
from memtui.memory.transcripts.stream import (
    MAX_LINE_BYTES,
    RawLine,
    open_transcript,
    raw_lines,
)
from memtui.model import SourceFile

_PIECE = 1 << 20


@contextmanager
def open_lines(file: SourceFile, *, limit: int = MAX_LINE_BYTES) -> Iterator[Iterator[RawLine]]:
    """Open a transcript and read its lines, those of a file or the events of a session.

    A line of more than `limit` bytes comes without its data. Raises `OSError`.
    """
    with open_stream(file, limit=limit) as stream:
        yield raw_lines(stream, limit=limit)


@contextmanager
def open_stream(file: SourceFile, *, limit: int = MAX_LINE_BYTES) -> Iterator[BinaryIO]:
    """Open a transcript for reading as bytes, events as lines of JSON; raises `OSError`."""
    if file.session:
        stream: BinaryIO = event_stream(file.absolute, file.session, limit=limit)
    else:
        stream = open_transcript(file.absolute)
    try:
        yield stream
    finally:
        stream.close()


class HashingStream:
    """Reads on in a stream and hashes what was read, up to each line end."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._hash = hashlib.sha256()
        self._line = hashlib.sha256()
        self._is_at_line = True
        self._at = 0

    @property
    def as_file(self) -> BinaryIO:
        """The same, as what reads lines takes it."""
        return cast(BinaryIO, self)

    def skip(self, offset: int) -> bool:
        """Read up to `offset`; `False` when the stream ends before it."""
        while self._at < offset:
            piece = self._stream.read(min(_PIECE, offset - self._at))
            if not piece:
                return False
            self._took(piece)
        self._is_at_line = True
        return True

    def digest(self) -> str:
        """The sha256 hex of everything that was read."""
        return self._hash.hexdigest()

    def digest_before_line(self) -> str:
        """The sha256 hex of what came before the line that was read last."""
        return self._line.hexdigest()

    def readline(self, limit: int = -1, /) -> bytes:
        """Read a line, or a part of one that is longer than `limit` bytes."""
        if self._is_at_line:
            self._line = self._hash.copy()
        data = self._stream.readline(limit)
        self._took(data)
        self._is_at_line = data.endswith(b"\n")
        return data

    def seekable(self) -> bool:
        """Only to where it is."""
        return True

    def seek(self, offset: int, /) -> int:
        """Stay where it is; anything else is refused, as it would leave bytes out of the hash."""
        if offset != self._at:
            raise ValueError(f"at {self._at}, asked to go to {offset}")
        return offset

    def _took(self, data: bytes) -> None:
        self._hash.update(data)
        self._at += len(data)

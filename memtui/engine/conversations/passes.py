"""Reading a transcript once: its beginning for a list, all of it for counts and calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from io import BytesIO
from itertools import chain
from typing import Any, Final

from memtui.engine.conversations.records import Record, records
from memtui.engine.conversations.tally import Counted, Tally
from memtui.errors import MemtuiError
from memtui.index.transcripts.opening import open_lines, open_stream
from memtui.memory.documents import reason_of
from memtui.memory.paths import said
from memtui.memory.transcripts.base import TranscriptFormat
from memtui.memory.transcripts.formats import format_of, recognise
from memtui.memory.transcripts.stream import RawLine, raw_lines
from memtui.model import Reason, SourceFile
from memtui.model.conversations import TranscriptKind

BEGINNING: Final = 1 << 16
"""Bytes of a transcript that a list looks at."""
_LONG_BEGINNING: Final = 1 << 20
"""The same where those do not tell whose it is, as with very long instructions."""
_LOOKED_AT: Final = 50
"""Records by which it is told whose a transcript is."""
_LOOKED_AT_BYTES: Final = 1 << 20

Cancelled = Callable[[], bool]


class NotATranscript(MemtuiError):
    """A file whose records are those of no program that is known."""

    code = "not_a_transcript"


class Reading:
    """The records of an open transcript, and whose they are."""

    def __init__(
        self,
        file: SourceFile,
        lines: Iterator[RawLine],
        cancelled: Cancelled,
        *,
        enough: int = _LOOKED_AT,
    ) -> None:
        """Read as much as tells whose it is: so many records that some program would write.

        Raises `NotATranscript`, `OSError`, `Cancelled`.
        """
        found = records(lines, cancelled)
        first: list[Record] = []
        told: list[Mapping[str, Any]] = []
        for record in found:
            first.append(record)
            if record.value is not None and recognise((record.value,)) is not None:
                told.append(record.value)
            is_far = record.raw.offset >= _LOOKED_AT_BYTES
            if len(told) >= enough or len(first) >= _LOOKED_AT or is_far:
                break
        self.format = recognise(told) or _by_place(file)
        self.records: Iterator[Record] = chain(first, found)


def _by_place(file: SourceFile) -> TranscriptFormat:
    if file.kind:
        return format_of(TranscriptKind(file.kind))
    raise NotATranscript(f"{file.path} is no transcript of a program that is known")


def count(file: SourceFile, *, limit: int, cancelled: Cancelled = lambda: False) -> Counted:
    """Read all of a transcript; `limit` is in bytes a line.

    Raises `NotATranscript`, `Cancelled`, and `OSError` when it cannot be opened.
    """
    with open_lines(file, limit=limit) as lines:
        reading = Reading(file, lines, cancelled)
        tally = Tally(file.path, reading.format)
        try:
            for record in reading.records:
                tally.take(record)
        except OSError as error:
            # What was read before it broke still counts, and that it broke is told.
            tally.broke(said(error))
        return tally.counted()


def look(file: SourceFile, *, limit: int) -> Counted | None:
    """Read the beginning of a transcript, 64 kB or at most 1 MiB of it, and count nothing.

    `None` where that does not tell whose it is. Raises `NotATranscript` when all of it does not,
    and `OSError` when it cannot be read.
    """
    with open_stream(file, limit=limit) as stream:
        data = stream.read(BEGINNING)
        try:
            return _looked_at(file, data, limit)
        except NotATranscript:
            more = stream.read(_LONG_BEGINNING - len(data))
            if not more:
                raise
        try:
            return _looked_at(file, data + more, limit)
        except NotATranscript:
            if not stream.read(1):
                raise
    # Told when all of it is read.
    return None


def _looked_at(file: SourceFile, data: bytes, limit: int) -> Counted:
    lines = raw_lines(BytesIO(data), limit=limit)
    reading = Reading(file, lines, lambda: False, enough=1)
    tally = Tally(file.path, reading.format)
    for record in reading.records:
        # The last line is cut where the beginning ends: that says nothing about the file.
        if record.value is not None:
            tally.take(record)
        if tally.knows_beginning:
            break
    return tally.counted()


def why_unreadable(error: Exception) -> tuple[Reason, str]:
    """The reason code and one line for what reading a transcript raised."""
    if isinstance(error, OSError):
        return reason_of(error), said(error)
    if isinstance(error, NotATranscript):
        return Reason.NOT_A_TRANSCRIPT, "the records are those of no program that is known"
    return Reason.UNREADABLE, str(error)

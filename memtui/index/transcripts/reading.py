"""Whose a transcript is, and what the index keeps of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final, cast

import msgspec
from msgspec import Struct

from memtui.index.database import Connection
from memtui.index.schema import SCHEMA_VERSION, read_meta
from memtui.index.transcripts.streams import open_lines
from memtui.memory.transcripts.formats import format_of, recognise
from memtui.memory.transcripts.records import (
    ReadState,
    Record,
    TranscriptFacts,
    TranscriptFormat,
    parse_line,
)
from memtui.model import SourceFile
from memtui.model.conversations import TranscriptKind

_LINES = 50
_BYTES = 1 << 20
_ENCODER: Final = msgspec.json.Encoder(order="sorted")
_FACTS: Final = msgspec.json.Decoder(TranscriptFacts)
_STATE: Final = msgspec.json.Decoder(ReadState)


def format_for(file: SourceFile, *, limit: int = _BYTES) -> TranscriptFormat | None:
    """Return how the file is read; `limit` is in bytes a line.

    By its first records, else as its place suggests; `None` when neither tells. Raises `OSError`.
    """
    form = recognise(_first_records(file, limit))
    return format_of(TranscriptKind(file.kind)) if form is None and file.kind else form


def _first_records(file: SourceFile, limit: int) -> Iterator[Record]:
    # A packed file may turn out to be cut: who reads all of it says so.
    with open_lines(file, limit=min(limit, _BYTES)) as lines, suppress(OSError):
        for raw in lines:
            # One that is no record is counted when the file is read.
            if (record := parse_line(raw)[0]) is not None:
                yield record
            if raw.number >= _LINES or raw.offset >= _BYTES:
                return


def name_of(file: SourceFile) -> str:
    """Return the file's name, by which a release tells archives; of events, as it would be."""
    return f"{file.session}.jsonl" if file.session else file.absolute.name


class TranscriptRow(Struct, frozen=True):
    """A transcript as an index holds it."""

    chunks: int
    facts: TranscriptFacts = msgspec.field(default_factory=TranscriptFacts)
    stat: tuple[int, int] | None = None
    """Size in bytes and mtime in ns of what was indexed; `None` where the index has only chunks."""

    def is_current(self, file: SourceFile) -> bool:
        """Return whether the file is what was indexed, as far as that can be told."""
        return self.stat is None or self.stat == (file.size, file.mtime_ns)


def transcript_rows(connection: Connection) -> dict[str, TranscriptRow]:
    """Read what the index knows of every transcript, by path; nothing of an older index."""
    if read_meta(connection).get("schema_version") != str(SCHEMA_VERSION):
        return {}
    rows = connection.execute(
        "SELECT f.path, f.size, f.mtime_ns, t.facts,"
        " (SELECT count(*) FROM chunks c WHERE c.file_id = t.file_id)"
        " FROM transcripts t JOIN files f ON f.id = t.file_id"
    ).fetchall()
    return {
        path: TranscriptRow(chunks, _FACTS.decode(facts), (size, mtime_ns))
        for path, size, mtime_ns, facts, chunks in cast("list[tuple[Any, ...]]", rows)
    }


def write_row(
    connection: Connection, file_id: int, facts: TranscriptFacts, state: ReadState
) -> None:
    """Make the row of a transcript say this."""
    columns = (file_id, *(_ENCODER.encode(value).decode() for value in (facts, state)))
    connection.execute("INSERT OR REPLACE INTO transcripts VALUES(?, ?, ?)", columns)


def read_state(connection: Connection, path: str) -> ReadState:
    """Read where the reading of a transcript goes on; at its beginning when nothing tells."""
    rows = connection.execute(
        "SELECT state FROM transcripts WHERE file_id = (SELECT id FROM files WHERE path = ?)",
        (path,),
    ).fetchall()
    return _STATE.decode(str(rows[0][0])) if rows else ReadState()


def registered_as(connection: Connection) -> dict[str, str | None]:
    """Read what each transcript was registered as when it was read, by path; `None`: as nothing."""
    rows = connection.execute(
        "SELECT f.path, json_extract(t.state, '$.registered')"
        " FROM transcripts t JOIN files f ON f.id = t.file_id"
    ).fetchall()
    return dict(cast("list[tuple[str, str | None]]", rows))

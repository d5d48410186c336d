"""One transcript being read, from its lines to chunks and facts, and what the index keeps of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import PurePosixPath
from typing import Any, Final, cast

import msgspec
from msgspec import Struct

from memtui.index.database import Connection
from memtui.index.index_rows import within_limit
from memtui.index.schema import Recipe
from memtui.index.transcripts.streams import open_lines
from memtui.memory.chunking import Packer
from memtui.memory.paths import written
from memtui.memory.transcripts.formats import (
    FACTS,
    FORMATS,
    TranscriptFacts,
    TranscriptReader,
    format_of,
    index_lines,
    recognise,
)
from memtui.memory.transcripts.openclaw_files import TranscriptRules
from memtui.memory.transcripts.records import Record, TranscriptFormat, record_in
from memtui.memory.transcripts.stream import RawLine
from memtui.model import ChunkSpan, SourceFile
from memtui.model.conversations import TranscriptKind

REGISTERED: Final = "registered"
"""In the state of a row: what the program's list of sessions said that it is."""

_LINES = 50
_BYTES = 1 << 20


# --- whose it is --------------------------------------------------------------------------


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
            with suppress(ValueError):
                if (record := record_in(raw)) is not None:
                    yield record
            if raw.number >= _LINES or raw.offset >= _BYTES:
                return


def name_of(file: SourceFile) -> str:
    """Return the file's name, by which a release tells archives; of events, as it would be."""
    return f"{file.session}.jsonl" if file.session else file.absolute.name


def agent_of(file: SourceFile) -> str:
    """Return the agent or project that the place of a transcript names; empty for none."""
    parts = PurePosixPath(file.path).parts
    if file.kind == TranscriptKind.OPENCLAW:
        # agents/<agent>/sessions/<file>, agents/<agent>/agent/<database>
        return written(file.absolute.parent.parent.name)
    return parts[1] if file.kind == TranscriptKind.CLAUDE_CODE and len(parts) > 2 else ""


# --- lines to chunks ----------------------------------------------------------------------


class TranscriptChunks:
    """Makes the chunks of a transcript line by line, and can go on another day where it stopped."""

    def __init__(
        self,
        form: TranscriptFormat | None,
        name: str,
        rules: TranscriptRules,
        recipe: Recipe,
        state: Mapping[str, Any] | None = None,
        run: str = "",
    ) -> None:
        """`name` is the file's, by which a release tells archives; `state` that of a reading.

        `run`: what the program's list of sessions says that the whole transcript is, if anything.

        Without a `form` the file is no transcript: its lines are counted, and give nothing.
        """
        state = state or {}
        self._limit = recipe.identity.input_bytes if recipe.identity is not None else None
        self._lines = index_lines(form or FORMATS[0], name, rules, state.get("lines"))
        self._began_with = self._lines.cutoff
        reader = dict(state.get("reader", {}))
        reader["run"] = reader.get("run") or run
        self._reader = TranscriptReader(form, name, reader, finds_runs=self._lines.finds_runs)
        self._packer = Packer(recipe.chunk_tokens, recipe.chunk_overlap, state.get("packed", ()))

    @property
    def is_void(self) -> bool:
        """Whether the program talked with itself: no chunk of it is to be kept."""
        return self._reader.run is not None

    @property
    def begins_again(self) -> dict[str, Any] | None:
        """The state to read it with from its first line, when its last lines ask for that."""
        cutoff = self._lines.cutoff
        return None if cutoff == self._began_with else {"lines": {"cutoff": cutoff}}

    def state(self) -> dict[str, Any]:
        return {
            "reader": self._reader.state(),
            "lines": self._lines.state(),
            "packed": self._packer.pending,
        }

    def add(self, raw: RawLine) -> list[ChunkSpan]:
        """Take in the next line; give the chunks that it completes."""
        record, turns = self._reader.add(raw)
        if record is None:
            return []
        lines = self._lines.add(record, raw.number, turns, is_void=self.is_void)
        if self.is_void:
            return []
        spans: list[ChunkSpan] = []
        if lines and self._lines.cuts_before(raw.number):
            spans += self._packer.cut()
        spans += self._packer.pack((raw.number, line) for line in lines)
        return self._limited(spans)

    def tail(self) -> list[ChunkSpan]:
        """Return the chunk that what comes next may still change."""
        return [] if self.is_void else self._limited(self._packer.finish())

    def facts(self, agent: str) -> TranscriptFacts:
        """Return what lists show of it; `agent` where no record names one."""
        return self._reader.result(agent, self._lines)

    def _limited(self, spans: list[ChunkSpan]) -> list[ChunkSpan]:
        return within_limit([s for s in spans if s.text.strip()], self._limit)


# --- rows of the index --------------------------------------------------------------------


class TranscriptRow(Struct, frozen=True):
    """A transcript as an index holds it."""

    chunks: int
    facts: TranscriptFacts = msgspec.field(default_factory=TranscriptFacts)
    stat: tuple[int, int] | None = None
    """Size in bytes and mtime in ns of what was indexed; `None` where the index has only chunks."""

    def is_current(self, file: SourceFile) -> bool:
        """Return whether the file is what was indexed, as far as that can be told."""
        return self.stat is None or self.stat == (file.size, file.mtime_ns)


class ReadPosition(Struct, frozen=True):
    """Where the reading of a transcript goes on."""

    next_byte: int = 0
    next_line: int = 1
    prefix: str = ""
    """sha256 hex of the bytes before `next_byte`; empty when it cannot go on."""
    state: Mapping[str, Any] = {}
    """The state of the reading, whose transcript it is, and what it was registered as."""
    open_chunks: tuple[str, ...] = ()
    """The ids of chunks that what comes next may change."""


def transcript_rows(connection: Connection) -> dict[str, TranscriptRow]:
    """Read what the index knows of every transcript, by path."""
    rows = connection.execute(
        f"SELECT f.path, f.size, f.mtime_ns, coalesce(c.number, 0), {', '.join(FACTS)} "
        "FROM transcripts t JOIN files f ON f.id = t.file_id LEFT JOIN "
        "(SELECT file_id, count(*) AS number FROM chunks GROUP BY file_id) c "
        "ON c.file_id = t.file_id"
    ).fetchall()
    return {
        path: TranscriptRow(
            chunks,
            TranscriptFacts.of_columns(dict(zip(FACTS, values, strict=True))),
            (size, mtime_ns),
        )
        for path, size, mtime_ns, chunks, *values in cast("list[tuple[Any, ...]]", rows)
    }


def write_row(
    connection: Connection, file_id: int, facts: TranscriptFacts, position: ReadPosition
) -> None:
    """Make the row of a transcript say this."""
    row = facts.columns() | {
        "file_id": file_id,
        "next_byte": position.next_byte,
        "next_line": position.next_line,
        "prefix": position.prefix,
        "state": json.dumps(dict(position.state), sort_keys=True),
        "open_chunks": json.dumps(position.open_chunks),
    }
    connection.execute(
        f"INSERT OR REPLACE INTO transcripts({', '.join(row)}) VALUES({', '.join('?' * len(row))})",
        tuple(row.values()),
    )


def read_position(connection: Connection, path: str) -> ReadPosition:
    """Read where the reading of a transcript goes on; at its beginning when nothing tells."""
    rows = connection.execute(
        "SELECT next_byte, next_line, prefix, state, open_chunks FROM transcripts"
        " WHERE file_id = (SELECT id FROM files WHERE path = ?)",
        (path,),
    ).fetchall()
    for next_byte, next_line, prefix, state, open_chunks in cast("list[tuple[Any, ...]]", rows):
        chunks = tuple(json.loads(open_chunks))
        return ReadPosition(next_byte, next_line, prefix, json.loads(state), chunks)
    return ReadPosition()


def registered_as(connection: Connection) -> dict[str, str]:
    """Read what each transcript was registered as when it was read, by path; empty: as nothing."""
    rows = connection.execute(
        f"SELECT f.path, coalesce(json_extract(t.state, '$.{REGISTERED}'), '') "
        "FROM transcripts t JOIN files f ON f.id = t.file_id"
    ).fetchall()
    return {str(path): str(run) for path, run in rows}

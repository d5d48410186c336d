"""Transcripts as streams, whose they are, and what the index keeps of them."""

from __future__ import annotations

import errno
import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from itertools import repeat
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeAlias, cast

import msgspec
from msgspec import Struct

from memtui.data import read_table
from memtui.errors import IndexMissing, IndexUnusable
from memtui.index.database import Connection
from memtui.index.foreign.opening import Opened, columns_in, read_once
from memtui.memory.documents import open_regular
from memtui.memory.paths import first_link
from memtui.memory.transcripts import records
from memtui.memory.transcripts.formats import format_of, recognise
from memtui.memory.transcripts.generated import Run, run_of_key
from memtui.memory.transcripts.openclaw_files import (
    REGISTRY,
    FileKind,
    TranscriptRules,
    file_kind,
    session_id,
)
from memtui.memory.transcripts.stream import (
    MAX_LINE_BYTES,
    PieceStream,
    RawLine,
    open_transcript,
    raw_lines,
    unpacked,
    unpacking_excess,
)
from memtui.model import Reason, SourceFile
from memtui.model.conversations import TranscriptKind
from memtui.retrieval.openclaw.tables import whole
from memtui.settings.files import FileStamp, file_stamp

TABLE: Final = "transcript_events"
_NEEDED: Final = frozenset({"session_id", "seq"})
_PACKED: Final = "event_zstd"
_PLAIN: Final = "event_json"
_BATCH_BYTES: Final = 4 * 2**20
_BATCH_EVENTS: Final = 2000
_PIECE: Final = 1 << 16
_SQL: Final = read_table("queries.toml")["transcripts"]

Stamp: TypeAlias = tuple[FileStamp, FileStamp]


class EventSession(Struct, frozen=True):
    session: str
    events: int
    size: int
    """Bytes of its events."""
    changed_ms: int
    """Time of the last one, in ms since 1970; 0 when it is not said."""


def _columns(opened: Opened) -> frozenset[str]:
    names = frozenset(columns_in(opened.connection, TABLE))
    holds_text = _PLAIN in names or _PACKED in names
    return names if names >= _NEEDED and holds_text else frozenset()


def sessions_in(database: Path) -> tuple[EventSession, ...]:
    """List the sessions of a database; empty when it keeps no transcripts.

    Raises `IndexMissing` or `IndexUnusable` for a file that cannot be read.
    """

    def listed(opened: Opened) -> list[tuple[object, ...]]:
        if not (names := _columns(opened)):
            return []
        lengths = ["event_utf8_bytes"] if "event_utf8_bytes" in names else []
        lengths += [f"length(CAST({name} AS BLOB))" for name in (_PLAIN, _PACKED) if name in names]
        changed = "max(created_at)" if "created_at" in names else "0"
        parts = {"lengths": ", ".join(lengths), "changed": changed, "table": TABLE}
        return opened.select(_SQL["sessions"].format(**parts))

    rows = read_once(database, listed, memory=False)
    return tuple(EventSession(str(session), *map(whole, numbers)) for session, *numbers in rows)


def _event_pieces(database: Path, session: str, limit: int) -> Iterator[bytes]:
    """Iterate over the events of a session as lines of JSON, read a few megabytes at a time.

    An event of more than `limit` bytes is a line of more bytes than that. Raises `OSError` when
    the database cannot be read on, and when it unpacks to too much.
    """
    after: object = None
    sizes = (0, 0)
    while True:
        try:
            read = partial(_read, session, after, limit, sizes)
            batch, after, sizes = read_once(database, read, memory=False)
        except IndexUnusable as error:
            raise OSError(error.message) from error
        if excess := unpacking_excess(*sizes):
            raise OSError(errno.EFBIG, excess, str(database))
        for event in batch:
            if isinstance(event, bytes):
                # Within JSON a line end can only stand between two tokens.
                yield event.replace(b"\n", b" ")
            else:
                # The length, which tells two long events apart, and blanks beyond the limit.
                yield b"%d" % event
                yield from repeat(b" " * _PIECE, limit // _PIECE + 1)
            yield b"\n"
        if after is None:
            return


def _read(
    session: str, after: object, limit: int, sizes: tuple[int, int], opened: Opened
) -> tuple[list[bytes | int], object, tuple[int, int]]:
    """Read some events behind the one numbered `after`, and the last one's number, if any.

    Of an event beyond the limit its length. `sizes` are those of all packed ones so far, before
    and after unpacking.
    """
    names = _columns(opened)
    if not names:
        return [], None, sizes
    event_of = _SQL["event"].format
    chosen = (event_of(name=name) if name in names else "NULL" for name in (_PLAIN, _PACKED))
    sql = _SQL["events"].format(*chosen, table=TABLE)
    cursor = opened.connection.execute(sql, (limit, session, after, _BATCH_EVENTS))
    events: list[bytes | int] = []
    size = 0
    for seq, plain, packed in cursor:
        event: object = plain
        if plain is None and isinstance(packed, bytes):
            try:
                text = unpacked(packed, limit=limit, name=TABLE)
                event = limit + 1 if text is None else text
            except OSError:
                # Counted as a malformed line: one damaged event must not end the reading of all.
                event = b"\xef\xbf\xbd"
            length = len(event) if isinstance(event, bytes) else limit
            size, sizes = size + length, (sizes[0] + len(packed), sizes[1] + length)
        elif plain is None:
            event = packed
        events.append(event if isinstance(event, bytes | int) else b"")
        size += len(plain) if isinstance(plain, bytes) else 0
        if size >= _BATCH_BYTES or len(events) >= _BATCH_EVENTS:
            cursor.close()
            return events, seq, sizes
    return events, None, sizes


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
        # SQLite opens it by its path. To open it here too would lose the locks of this process.
        if file.base and first_link(file.place, file.base) is not None:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), file.place)
        pieces = _event_pieces(file.absolute, file.session, limit)
        stream: BinaryIO = io.BufferedReader(PieceStream(pieces), _PIECE)
    else:
        stream = open_transcript(file.absolute, file.base)
    with stream:
        yield stream


_NODES: Final = "session_nodes"
_LARGEST: Final = 64 * 2**20


def registered_run(file: SourceFile, rules: TranscriptRules) -> Run | None:
    """Return the run that a session is by its keys in the list; `None` for a conversation.

    Archives are told by their records, as their session may have been begun anew since.
    """
    registry = registry_of(file, rules)
    if registry is None:
        return None
    session = file.session or session_id(file.absolute.name)
    runs = map(run_of_key, _registered(registry, stamp_of(registry)).get(session, ()))
    return next(filter(None, runs), None)


def registry_of(file: SourceFile, rules: TranscriptRules) -> Path | None:
    """Return the list, or the database, that may tell what a session is; it need not exist."""
    if file.kind != TranscriptKind.OPENCLAW or not rules.drops_generated:
        return None
    if file.session:
        return file.absolute
    name = file.absolute.name
    return file.absolute.with_name(REGISTRY) if file_kind(name) is FileKind.TRANSCRIPT else None


def registry_stamps(files: Sequence[SourceFile], rules: TranscriptRules) -> str:
    """Return the state of every list that may tell of some sessions; differs when one changed."""
    registries = {registry for file in files if (registry := registry_of(file, rules)) is not None}
    return json.dumps({str(registry): stamp_of(registry) for registry in sorted(registries)})


def stamp_of(path: Path) -> Stamp:
    """Return the state of a list or a transcript, of a database with its log."""
    return file_stamp(path), file_stamp(path.with_name(f"{path.name}-wal"))


@lru_cache(maxsize=8)
def _registered(path: Path, stamp: Stamp) -> Mapping[str | None, list[str]]:
    if path.name == REGISTRY:
        return registered_sessions(path)

    def read(opened: Opened) -> list[tuple[object, ...]]:
        names = columns_in(opened.connection, _NODES).keys()
        if not names >= {"session_key", "current_session_id"}:
            return []
        return opened.select(_SQL["nodes"].format(nodes=_NODES))

    keys: dict[str | None, list[str]] = {}
    # Who reads the session itself says what is wrong with the database.
    with suppress(IndexMissing, IndexUnusable, OSError):
        for session, key in read_once(path, read, memory=False):
            keys.setdefault(str(session), []).append(str(key))
    return keys


def registered_sessions(path: Path) -> Mapping[str | None, list[str]]:
    """Read `sessions.json`: the keys of each session; none for a list that cannot be read."""
    keys: dict[str | None, list[str]] = {}
    # A list that cannot be read says nothing, as one that is not there.
    with suppress(OSError, ValueError, RecursionError):
        with open(open_regular(path), "rb") as stream:
            data = stream.read(_LARGEST + 1)
        listed = json.loads(data.decode("utf-8", "replace")) if len(data) <= _LARGEST else None
        for key, entry in listed.items() if isinstance(listed, dict) else ():
            session = entry.get("sessionId") if isinstance(entry, dict) else None
            if isinstance(session, str):
                keys.setdefault(session, []).append(key)
    return keys


_LINES = 50
_BYTES = 1 << 20
_ENCODER: Final = msgspec.json.Encoder(order="sorted")
_FACTS: Final = msgspec.json.Decoder(records.TranscriptFacts)
_STATE: Final = msgspec.json.Decoder(records.ReadState)


def format_for(file: SourceFile, *, limit: int = _BYTES) -> records.TranscriptFormat | None:
    """Return how the file is read; `limit` is in bytes a line.

    By its first records, else as its place suggests; `None` when neither tells. Raises `OSError`.
    """
    form = recognise(_first_records(file, limit))
    return format_of(TranscriptKind(file.kind)) if form is None and file.kind else form


def _first_records(file: SourceFile, limit: int) -> Iterator[records.Record]:
    # A packed file may turn out to be cut: who reads all of it says so.
    with open_lines(file, limit=min(limit, _BYTES)) as lines, suppress(OSError):
        for raw in lines:
            # One that is no record is counted when the file is read.
            if (record := records.parse_line(raw)[0]) is not None:
                yield record
            if raw.number >= _LINES or raw.offset >= _BYTES:
                return


def name_of(file: SourceFile) -> str:
    """Return the file's name, by which a release tells archives; of events, as it would be."""
    return f"{file.session}.jsonl" if file.session else file.absolute.name


class TranscriptRow(Struct, frozen=True):
    """A transcript as an index holds it."""

    chunks: int
    facts: records.TranscriptFacts = msgspec.field(default_factory=records.TranscriptFacts)
    stat: tuple[int, int] | None = None
    """Size in bytes and mtime in ns of what was indexed; `None` where the index has only chunks."""

    @property
    def is_told(self) -> bool:
        """True if the index knows what the file is, or that it is too large to be read."""
        return self.facts.kind is not None or self.facts.reason is Reason.TOO_LARGE

    def is_current(self, file: SourceFile) -> bool:
        """Return whether the file is what was indexed, as far as that can be told."""
        return self.stat is None or self.stat == (file.size, file.mtime_ns)


def transcript_rows(connection: Connection) -> dict[str, TranscriptRow]:
    """Read what the index knows of every transcript, by path."""
    rows = connection.execute(_SQL["known"]).fetchall()
    return {
        path: TranscriptRow(chunks, _FACTS.decode(facts), (size, mtime_ns))
        for path, size, mtime_ns, facts, chunks in cast("list[tuple[Any, ...]]", rows)
    }


def write_row(
    connection: Connection, file_id: int, facts: records.TranscriptFacts, state: records.ReadState
) -> None:
    columns = (file_id, *(_ENCODER.encode(value).decode() for value in (facts, state)))
    connection.execute(_SQL["write"], columns)


def read_state(connection: Connection, path: str) -> records.ReadState:
    """Read where the reading of a transcript goes on; at its beginning when nothing tells."""
    rows = connection.execute(_SQL["state"], (path,)).fetchall()
    return _STATE.decode(str(rows[0][0])) if rows else records.ReadState()


def registered_as(connection: Connection) -> dict[str, str | None]:
    """Read what each transcript was registered as when it was read, by path; `None`: as nothing."""
    rows = connection.execute(_SQL["registered"]).fetchall()
    return dict(cast("list[tuple[str, str | None]]", rows))

"""OpenClaw's transcripts as rows of the agent's database: listed and read without a trace."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from memtui.errors import IndexUnusable
from memtui.index.database import Access, DatabaseError, read_header
from memtui.index.foreign.opening import IndexChanged, connect, fingerprint_of, foreign_errors
from memtui.memory.transcripts.stream import unpacked
from memtui.text.sanitize import safe_line

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

    from memtui.index.database import Connection

TABLE: Final = "transcript_events"
_NEEDED: Final = frozenset({"session_id", "seq"})
_PACKED: Final = "event_zstd"
_PLAIN: Final = "event_json"
_BATCH_BYTES: Final = 4 * 2**20
_BATCH_EVENTS: Final = 2000
_PIECE: Final = 1 << 16
_COPY_BYTES: Final = 512 * 2**20
_ATTEMPTS: Final = 3
_MAGIC: Final = b"SQLite format 3\0"
_COMMITS: Final = slice(24, 28)


@dataclass(frozen=True, slots=True)
class EventSession:
    """A session as the database holds it."""

    session: str
    events: int
    size: int
    """Bytes of its events."""
    changed_ms: int
    """When the last one came, in ms since 1970; 0 when it is not said."""


def sessions_in(database: Path) -> tuple[EventSession, ...]:
    """List the sessions of a database; empty when it keeps no transcripts.

    Raises `IndexMissing` or `IndexUnusable` for a file that cannot be read.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            with reading(database, settled=attempt == _ATTEMPTS) as connection:
                return _listed(connection)
        except IndexChanged:
            if attempt == _ATTEMPTS:
                raise
    raise AssertionError("the last attempt returns or raises")


def event_stream(database: Path, session: str, *, limit: int) -> io.BufferedReader:
    """The events of a session as lines of JSON, read a few megabytes at a time.

    An event of more than `limit` bytes stands as a blank line of more bytes than that. Reading
    raises `OSError` when the database cannot be read on.
    """
    return io.BufferedReader(_Pieces(_pieces(database, session, limit)), _PIECE)


@contextmanager
def reading(database: Path, *, settled: bool = False) -> Iterator[Connection]:
    """Connect for the block as foreign indexes are: no byte, time or file of it changes.

    Raises `IndexChanged` at the end when a commit came in between; `settled` reads in a way that
    none disturbs.
    """
    with foreign_errors(database):
        real = database.resolve(strict=True)
        seen = fingerprint_of(real)
        header = read_header(real)
    if not header.startswith(_MAGIC):
        raise IndexUnusable(f"{safe_line(str(database))} is not an SQLite database")
    with foreign_errors(database, lambda: fingerprint_of(real) == seen):
        small = real.stat().st_size <= _COPY_BYTES
        wanted = (Access.COPY if small else Access.LIVE) if settled else Access.IMMUTABLE
        connection, how, copy = connect(real, seen, header, wanted)
        try:
            yield connection
            if how in {Access.IMMUTABLE, Access.LOG} and (
                fingerprint_of(real) != seen or read_header(real)[_COMMITS] != header[_COMMITS]
            ):
                raise IndexChanged(
                    f"{safe_line(str(database))} changed while it was read", hint="try again"
                )
        finally:
            connection.close()
            if copy is not None:
                copy.cleanup()


def _columns(connection: Connection) -> frozenset[str]:
    rows = connection.execute("SELECT name FROM pragma_table_info(?)", (TABLE,)).fetchall()
    names = frozenset(str(row[0]) for row in rows)
    holds_text = _PLAIN in names or _PACKED in names
    return names if names >= _NEEDED and holds_text else frozenset()


def _listed(connection: Connection) -> tuple[EventSession, ...]:
    names = _columns(connection)
    if not names:
        return ()
    lengths = [f"length(CAST({name} AS BLOB))" for name in (_PLAIN, _PACKED) if name in names]
    if "event_utf8_bytes" in names:
        lengths.insert(0, "event_utf8_bytes")
    changed = "max(created_at)" if "created_at" in names else "0"
    rows = connection.execute(
        f"SELECT session_id, count(*), total(coalesce({', '.join(lengths)}, 0)), {changed}"
        f" FROM {TABLE} WHERE session_id IS NOT NULL GROUP BY 1 ORDER BY 1"
    ).fetchall()
    return tuple(
        EventSession(str(session), _whole(events), _whole(size), _whole(when))
        for session, events, size, when in rows
    )


def _whole(value: object) -> int:
    return int(value) if isinstance(value, int | float) and abs(value) < 2**63 else 0


def _pieces(database: Path, session: str, limit: int) -> Iterator[bytes]:
    after: object = None
    while True:
        batch, after = _batch(database, session, after, limit)
        for event in batch:
            yield from _line(event, limit)
        if after is None:
            return


def _line(event: bytes | int, limit: int) -> Iterator[bytes]:
    if isinstance(event, bytes):
        yield event
    else:
        # The length, which tells two long events apart, and blanks beyond the limit.
        yield b"%d" % event
        for _ in range(limit // _PIECE + 1):
            yield b" " * _PIECE
    yield b"\n"


def _batch(
    database: Path, session: str, after: object, limit: int
) -> tuple[list[bytes | int], object]:
    """Some events behind the one numbered `after`, and the last one's number; `None` at the end."""
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            with reading(database, settled=attempt == _ATTEMPTS) as connection:
                return _read(connection, session, after, limit)
        except IndexChanged as error:
            if attempt == _ATTEMPTS:
                raise OSError(error.message) from error
        except IndexUnusable as error:
            raise OSError(error.message) from error
        except DatabaseError as error:
            raise OSError(safe_line(str(error))) from error
    raise AssertionError("the last attempt returns or raises")


def _read(
    connection: Connection, session: str, after: object, limit: int
) -> tuple[list[bytes | int], object]:
    names = _columns(connection)
    if not names:
        return [], None
    chosen = [
        f"CASE WHEN length(CAST({name} AS BLOB)) <= ?1 THEN CAST({name} AS BLOB)"
        f" ELSE length(CAST({name} AS BLOB)) END"
        if name in names
        else "NULL"
        for name in (_PLAIN, _PACKED)
    ]
    cursor = connection.execute(
        f"SELECT seq, {chosen[0]}, {chosen[1]} FROM {TABLE}"
        " WHERE session_id = ?2 AND (?3 IS NULL OR seq > ?3) ORDER BY seq LIMIT ?4",
        (limit, session, after, _BATCH_EVENTS),
    )
    found: list[bytes | int] = []
    size = 0
    for seq, plain, packed in cursor:
        found.append(_event(plain, packed, limit))
        size += len(found[-1]) if isinstance(found[-1], bytes) else 0
        if size >= _BATCH_BYTES or len(found) >= _BATCH_EVENTS:
            cursor.close()
            return found, seq
    return found, None


def _event(plain: object, packed: object, limit: int) -> bytes | int:
    """The JSON of one event on one line; its length when that is beyond the limit."""
    value = plain if plain is not None else packed
    if isinstance(value, bytes) and plain is None:
        try:
            opened = unpacked(value, limit=limit, name=TABLE)
        except OSError:
            # Counted as a malformed line: one damaged event must not end the reading of all.
            return b"\xef\xbf\xbd"
        value = limit + 1 if opened is None else opened
    if isinstance(value, bytes):
        # Within JSON a line end can only stand between two tokens.
        return value.replace(b"\n", b" ")
    return value if isinstance(value, int) else b""


class _Pieces(io.RawIOBase):
    """A stream out of pieces of bytes."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
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

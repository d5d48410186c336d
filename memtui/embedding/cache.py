"""Keeping the embedding cache within its bound: what was used longest ago goes first."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar
from weakref import WeakSet

from memtui.embedding.provider import ProviderIdentity, Vector
from memtui.errors import IndexUnusable
from memtui.settings.storage import NO_FILE, file_state, make_private

if TYPE_CHECKING:
    import apsw


# SQLITE_BUSY, SQLITE_LOCKED and SQLITE_INTERRUPT.
_ANOTHER_TIME = frozenset({5, 6, 9})
_STEPS_A_LOOK = 1000
_INCREMENTAL = 2
_HASHES_A_QUERY = 400
_ROWS_A_STEP = 500
_PAGES_A_STEP = 256
# Free pages up to so many are left in the file, for the next vectors.
_SPARE_PAGES = 64

_OF_IDENTITY = "provider = ? AND model = ? AND fingerprint = ? AND text_hash IN ({marks})"
# Holds all that is asked for, so that the vectors themselves need not be read.
_BY_USE = "CREATE INDEX IF NOT EXISTS embedding_cache_by_use ON embedding_cache(used_at, dims)"
_OLDEST = "SELECT rowid, dims FROM embedding_cache ORDER BY used_at, rowid"


class Trimmed(NamedTuple):
    """What came of trimming."""

    evicted: int
    """How many vectors went."""
    excess: int
    """By how many bytes the cache is still above its bound; live vectors alone are."""


def prepare(connection: apsw.Connection) -> None:
    """Let a new, empty file give back the pages that it no longer needs."""
    if _number(connection, "SELECT count(*) FROM sqlite_master") == 0:
        _make_incremental(connection)


def touch(
    connection: apsw.Connection, identity: ProviderIdentity, hashes: Sequence[str], now: int
) -> None:
    """Note that vectors were used at `now`, in seconds since 1970."""
    where = _OF_IDENTITY.format(marks=",".join("?" * len(hashes)))
    key = (identity.name, identity.model, identity.fingerprint)
    with writing(connection):
        connection.execute(
            f"UPDATE embedding_cache SET used_at = ? WHERE {where}", (now, *key, *hashes)
        )


def used_bytes(connection: apsw.Connection) -> int:
    """How much of the file holds something, in bytes."""
    pages = _number(connection, "PRAGMA page_count") - _number(connection, "PRAGMA freelist_count")
    return pages * _number(connection, "PRAGMA page_size")


def trim(
    connection: apsw.Connection,
    limit: int,
    live: Mapping[ProviderIdentity, Iterable[str]],
    spared: Mapping[ProviderIdentity, Iterable[str]],
    cancelled: Callable[[], bool],
) -> Trimmed:
    """Evict down to `limit` bytes and shrink the file; see `EmbeddingCache.trim`."""
    evicted = 0
    if used_bytes(connection) > limit:
        kept, last = _rows_of(connection, live), _rows_of(connection, spared)
        evicted = _evict(connection, limit, kept | last, cancelled)
        # Only when nothing else is left: the next best thing to being live.
        evicted += _evict(connection, limit, kept, cancelled)
        _shrink(connection, cancelled)
    return Trimmed(evicted, max(0, used_bytes(connection) - limit))


@contextmanager
def writing(connection: apsw.Connection) -> Iterator[None]:
    """Write in one piece: all of the block is kept, or, when it raises, none of it."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _rows_of(
    connection: apsw.Connection, wanted: Mapping[ProviderIdentity, Iterable[str]]
) -> set[int]:
    rows: set[int] = set()
    for identity, hashes in wanted.items():
        key = (identity.name, identity.model, identity.fingerprint)
        rest = iter(hashes)
        while some := list(islice(rest, _HASHES_A_QUERY)):
            where = _OF_IDENTITY.format(marks=",".join("?" * len(some)))
            found = connection.execute(
                f"SELECT rowid FROM embedding_cache WHERE {where}", (*key, *some)
            )
            rows.update(int(str(row[0])) for row in found)
    return rows


def _evict(
    connection: apsw.Connection, limit: int, kept: set[int], cancelled: Callable[[], bool]
) -> int:
    if used_bytes(connection) <= limit:
        return 0
    connection.execute(_BY_USE)
    oldest = connection.execute(_OLDEST).fetchall()
    rest = iter([(int(str(row)), _size_of(dims)) for row, dims in oldest if row not in kept])
    evicted = 0
    while not cancelled():
        excess = used_bytes(connection) - limit
        some = list(_enough(rest, excess)) if excess > 0 else []
        if not some:
            break
        with writing(connection):
            connection.executemany(
                "DELETE FROM embedding_cache WHERE rowid = ?", [(row,) for row in some]
            )
        evicted += len(some)
    return evicted


def _size_of(dims: object) -> int:
    """The numbers of a vector, as its row says; a damaged row says nothing."""
    return dims if isinstance(dims, int) else 0


def _enough(rest: Iterator[tuple[int, int]], excess: int) -> Iterator[int]:
    """Rows whose vectors take `excess` bytes, a step's worth at most."""
    taken = 0
    for count, (row, dims) in enumerate(rest, start=1):
        yield row
        taken += 4 * dims
        if taken >= excess or count >= _ROWS_A_STEP:
            return


def _shrink(connection: apsw.Connection, cancelled: Callable[[], bool]) -> None:
    """Give free pages back to the file system, a few at a time; readers go on reading."""
    try:
        if _number(connection, "PRAGMA auto_vacuum") != _INCREMENTAL:
            _rewrite(connection, cancelled)
        while _number(connection, "PRAGMA freelist_count") > _SPARE_PAGES and not cancelled():
            connection.execute(f"PRAGMA incremental_vacuum({_PAGES_A_STEP})").fetchall()
        _checkpoint(connection)
    except Exception as error:
        # Another program writes just now, or it was stopped: the file shrinks another time.
        if getattr(error, "result", None) not in _ANOTHER_TIME:
            raise


def _rewrite(connection: apsw.Connection, cancelled: Callable[[], bool]) -> None:
    """Write the whole file anew, which takes a while for a large one; stops when `cancelled`."""
    connection.set_progress_handler(cancelled, _STEPS_A_LOOK)
    try:
        _make_incremental(connection)
    finally:
        connection.set_progress_handler(None)


def _checkpoint(connection: apsw.Connection) -> None:
    """Empty the write-ahead log, unless a reader needs it: then it is emptied another time."""
    patience = _number(connection, "PRAGMA busy_timeout")
    connection.set_busy_timeout(0)
    try:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    finally:
        connection.set_busy_timeout(patience)


def _make_incremental(connection: apsw.Connection) -> None:
    connection.execute(f"PRAGMA auto_vacuum = {_INCREMENTAL}").fetchall()
    # Only writing the file anew changes it; in write-ahead mode readers keep what they read.
    connection.execute("VACUUM")


def _number(connection: apsw.Connection, query: str) -> int:
    return int(str(connection.execute(query).fetchall()[0][0]))


T = TypeVar("T")

_SCHEMA = """
CREATE TABLE IF NOT EXISTS embedding_cache(
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    text_hash TEXT NOT NULL,
    dims INTEGER NOT NULL,
    vector BLOB NOT NULL,
    used_at INTEGER NOT NULL,
    PRIMARY KEY(provider, model, fingerprint, text_hash)
)
"""
_SELECT = """
SELECT text_hash, dims, vector, used_at FROM embedding_cache
WHERE provider = ? AND model = ? AND fingerprint = ? AND text_hash IN ({marks})
"""
_UPSERT = "INSERT OR REPLACE INTO embedding_cache VALUES (?, ?, ?, ?, ?, ?, ?)"


# A use is noted once a day: noting it writes the whole vector again.
_USE_SECONDS = 86_400
# SQLITE_CORRUPT and SQLITE_NOTADB: what damaged database files answer.
_DAMAGED = frozenset({11, 26})
_DAMAGED_TEXTS = ("unsupported file format", "no such column", "no such table")
"""What SQLite says, as errors of no kind, of a header that no release of it wrote and of a schema
that this module did not write."""


class Opener(Protocol):
    """Opens a database file, with its journal mode and busy timeout set, making it if needed."""

    def __call__(self, path: Path) -> apsw.Connection:
        """Open `path` for reading and writing."""


class EmbeddingCache:
    """Vectors by (provider, model, fingerprint, text hash), in one database file.

    Usable from any thread: each gets its own connection, opened at its first call. A damaged
    file is moved aside and a fresh one started, because everything in it can be made again;
    `recovered` then holds one line that says so. Other database errors pass through. One that
    is not `writable` changes no file, and is empty while there is none.
    """

    def __init__(
        self,
        path: Path,
        open_database: Opener,
        *,
        writable: bool = True,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.recovered: str | None = None
        self._path = path
        self._open_database = open_database
        self._writable = writable
        self._now = now
        self._lock = threading.Lock()
        self._opening = threading.RLock()
        self._local = threading.local()
        self._connections: WeakSet[apsw.Connection] = WeakSet()
        self._generation = 0
        self._closed = False
        self._used: dict[ProviderIdentity, set[str]] = {}

    def get_many(self, identity: ProviderIdentity, hashes: Iterable[str]) -> dict[str, Vector]:
        """Return the vectors that are known, by text hash; each is read-only, shape (dimensions,).

        A vector of other dimensions than `identity` has, or with a number that is not finite,
        counts as unknown.
        """
        found: dict[str, Vector] = {}
        if not self._exists():
            return found
        for some in _slices(dict.fromkeys(hashes), _HASHES_A_QUERY):
            rows = self._run(partial(_select, identity=identity, hashes=some))
            found |= {text_hash: vector for text_hash, (vector, _) in rows.items()}
            self._remember(identity, rows)
        return found

    def put_many(self, identity: ProviderIdentity, vectors: Mapping[str, Vector]) -> None:
        """Store vectors by text hash, all or none; raises `ValueError` for other dimensions.

        When it returns they outlive a loss of power.
        """
        import numpy as np

        used_at = int(self._now())
        rows: list[tuple[str | int | bytes, ...]] = []
        for text_hash, vector in vectors.items():
            if vector.shape != (identity.dimensions or vector.size,):
                raise ValueError(f"shape {vector.shape} does not fit {identity.dimensions} numbers")
            key = (identity.name, identity.model, identity.fingerprint, text_hash)
            blob = np.ascontiguousarray(vector, dtype="<f4").tobytes()
            rows.append((*key, vector.size, blob, used_at))
        if rows:
            self._run(partial(_insert, rows=rows))

    def note_uses(self) -> None:
        """Write down what was used since the last call, for `trim` to know; once a day each."""
        with self._lock:
            used, self._used = self._used, {}
        now = int(self._now())
        for identity, hashes in used.items():
            for some in _slices(hashes, _HASHES_A_QUERY):
                self._run(partial(touch, identity=identity, hashes=some, now=now))

    def trim(
        self,
        limit: int,
        live: Mapping[ProviderIdentity, Iterable[str]],
        spared: Mapping[ProviderIdentity, Iterable[str]] = MappingProxyType({}),
        *,
        cancelled: Callable[[], bool] = bool,
    ) -> Trimmed:
        """Evict what was used longest ago until the vectors take at most `limit` bytes on disk.

        The text hashes in `live` are never evicted, those in `spared` last of all. The file
        shrinks; readers are not kept waiting. Without effect where nothing may be written.
        """
        if not self._writable or not self._path.exists():
            return Trimmed(0, 0)
        return self._run(partial(trim, limit=limit, live=live, spared=spared, cancelled=cancelled))

    def is_above(self, limit: int) -> bool:
        """Whether the vectors take more than `limit` bytes on disk; quick."""
        return self._path.exists() and self._run(used_bytes) > limit

    def count(self) -> int:
        """How many vectors it holds, of all providers."""
        return self._run(_count) if self._exists() else 0

    def size_bytes(self) -> int:
        """How much room the file and its journal take on disk, in bytes."""
        return _size(self._path) + _size(self._journal("-wal"))

    def close(self) -> None:
        """Close the connections of all threads; none may be in a call."""
        with self._lock:
            self._closed = True
            for connection in tuple(self._connections):
                connection.close()

    def _remember(self, identity: ProviderIdentity, rows: Mapping[str, tuple[Vector, int]]) -> None:
        if not self._writable:
            return
        before = self._now() - _USE_SECONDS
        stale = [text_hash for text_hash, (_, used_at) in rows.items() if used_at < before]
        if stale:
            with self._lock:
                self._used.setdefault(identity, set()).update(stale)

    def _run(self, action: Callable[[apsw.Connection], T]) -> T:
        # A file that is damaged where no check looks shows it by failing again.
        for is_certain in (False, True):
            generation = self._generation
            try:
                return action(self._connection())
            except Exception as error:
                if not self._writable or not _is_damage(error):
                    raise
                self._start_anew(generation, is_certain=is_certain)
        return action(self._connection())

    def _connection(self) -> apsw.Connection:
        """Return this thread's connection to the file that is in place now."""
        if self._closed:
            raise ValueError("the embedding cache is closed")
        local = self._local
        if getattr(local, "generation", None) != self._generation or self._is_another():
            self._forget_connection()
            generation = self._generation
            local.connection = self._open()
            local.generation = generation
            local.file = file_state(self._path)
        connection: apsw.Connection = local.connection
        return connection

    def _is_another(self) -> bool:
        """Whether this thread's file was removed, replaced or cut: read mapped, that kills."""
        before = getattr(self._local, "file", NO_FILE)
        self._local.file = found = file_state(self._path)
        if found == NO_FILE != before and self._writable:
            self.recovered = "the embedding cache was deleted and starts anew"
        return not found.continues(before)

    def _open(self) -> apsw.Connection:
        if self._writable:
            make_private(self._path.parent)
        # One at a time: two threads that turn a new file to WAL together are refused at once,
        # whatever their busy timeout.
        with self._opening:
            connection = self._open_database(self._path)
            try:
                if self._writable:
                    # An index is made again from the notes; vectors may have cost money.
                    connection.execute("PRAGMA synchronous = FULL")
                    prepare(connection)
                    connection.execute(_SCHEMA)
            except BaseException:
                connection.close()
                raise
        with self._lock:
            self._connections.add(connection)
        return connection

    def _exists(self) -> bool:
        return self._writable or self._path.exists()

    def _forget_connection(self) -> None:
        connection: apsw.Connection | None = getattr(self._local, "connection", None)
        self._local.connection = self._local.generation = None
        if connection is not None:
            with self._lock:
                self._connections.discard(connection)
            connection.close()

    def _start_anew(self, generation: int, *, is_certain: bool) -> None:
        """Move the damaged file aside, unless another thread or process did so meanwhile."""
        self._forget_connection()
        with self._lock:
            if generation != self._generation:
                return
            if is_certain or self._is_file_damaged():
                aside = self._move_aside()
                self.recovered = (
                    f"the embedding cache was damaged and starts anew; it was kept as {aside}"
                )
            self._generation += 1

    def _is_file_damaged(self) -> bool:
        try:
            connection = self._open_database(self._path)
            try:
                return bool(connection.execute("PRAGMA quick_check(1)").get != "ok")
            finally:
                connection.close()
        except Exception as error:
            if _is_damage(error):
                return True
            raise

    def _move_aside(self) -> str:
        number = 1
        while (aside := self._path.with_name(f"{self._path.name}.corrupt-{number}")).exists():
            number += 1
        try:
            self._path.replace(aside)
            for suffix in ("-wal", "-shm"):
                if self._journal(suffix).exists():
                    self._journal(suffix).replace(f"{aside}{suffix}")
        except OSError as error:
            message = f"the embedding cache {self._path} is damaged and cannot be moved: {error}"
            raise IndexUnusable(message, hint="delete it; memtui makes it again") from error
        return aside.name

    def _journal(self, suffix: str) -> Path:
        return Path(os.fspath(self._path) + suffix)


def _select(
    connection: apsw.Connection, identity: ProviderIdentity, hashes: list[str]
) -> dict[str, tuple[Vector, int]]:
    import numpy as np

    query = _SELECT.format(marks=",".join("?" * len(hashes)))
    key = (identity.name, identity.model, identity.fingerprint)
    rows: list[Any] = connection.execute(query, (*key, *hashes)).fetchall()
    found: dict[str, tuple[Vector, int]] = {}
    for text_hash, dims, blob, used_at in rows:
        if not isinstance(blob, bytes) or not isinstance(dims, int):
            continue
        if dims != (identity.dimensions or dims) or len(blob) != 4 * dims:
            continue
        vector = np.frombuffer(blob, dtype="<f4")
        if np.isfinite(vector).all():
            found[text_hash] = vector, used_at
    return found


def _insert(connection: apsw.Connection, rows: list[tuple[str | int | bytes, ...]]) -> None:
    with writing(connection):
        connection.executemany(_UPSERT, rows)


def _count(connection: apsw.Connection) -> int:
    rows: list[Any] = connection.execute("SELECT count(*) FROM embedding_cache").fetchall()
    return int(rows[0][0])


def _is_damage(error: BaseException | None) -> bool:
    """Whether the database said that the file is damaged, directly or through another error."""
    while error is not None:
        if getattr(error, "result", None) in _DAMAGED or isinstance(error, UnicodeDecodeError):
            return True
        if any(words in str(error) for words in _DAMAGED_TEXTS):
            return True
        error = error.__cause__
    return False


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _slices(items: Iterable[str], size: int) -> Iterator[list[str]]:
    rest = iter(items)
    while some := list(islice(rest, size)):
        yield some

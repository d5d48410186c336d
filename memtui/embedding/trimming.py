"""Keeping the embedding cache within its bound: what was used longest ago goes first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from memtui.embedding.provider import ProviderIdentity

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

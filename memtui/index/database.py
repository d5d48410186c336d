"""The one door to SQLite, and the tables of an index file.

Everything goes through apsw. The standard library's `sqlite3` must never open one of these
files: two SQLite libraries in one process drop each other's file locks. So does whoever opens and
closes one of them as a plain file: POSIX takes away all locks that the process has on it.
"""

from __future__ import annotations

import errno
import importlib.util
import os
import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import Final

import apsw
from msgspec import DecodeError, Struct

from memtui.data import DATA_FOLDER, read_table
from memtui.embedding.provider import ProviderIdentity
from memtui.errors import IndexMissing, IndexUnusable, IsCancelled, undone_on_error
from memtui.text.languages import STEMMER
from memtui.text.sanitize import safe_line
from memtui.text.tokens import FTS5_TOKENIZE

Connection = apsw.Connection
DatabaseError = apsw.Error
Interrupted = apsw.InterruptError
_UNKNOWN_FORMAT = "unsupported file format"
"""The message of SQLite, as an error of no kind, for a header that no release of it wrote."""

PAGE_SIZE = 16384
BUSY_TIMEOUT_MS = 5000
_SQL: Final = read_table("queries.toml")["pragmas"]
_PROGRESS_STEPS = 20_000
_HEADER_BYTES = 100
_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
_BESIDE_TIMEOUT_MS = 1000
STATEMENT_S: Final = 30.0
"""Seconds that a statement over another program's database may run."""
_BYTES_A_SECOND: Final = 4 * 2**20
"""For so many bytes of the file it may run a second more. The longest statement checks every page,
which took up to 30 s where 100,000 chunks had 1.2 GB and the machine was busy."""
_DEADLINE_STEPS: Final = 500
_VALUE_BYTES: Final = 64 * 2**20
"""No row of an index comes near it; an expression of a table could make a gigabyte of nothing."""
_MODULES: Final = ("fts5", "fts5vocab", "vec0", "json_each", "json_tree")
"""Of virtual tables: those that OpenClaw's releases have, and what queries of memtui use."""
_SYSTEM_CALLS = threading.Lock()


class Access(StrEnum):
    """A way to read a database of another program; none of them changes a file of it."""

    IMMUTABLE = "immutable"
    """Without locks and without the log: for a file that nobody has open."""
    LIVE = "live"
    """Under SQLite's locks, the log's shared memory mapped read-only: sees every commit."""
    LOG = "log"
    """Without locks, the log's index built in memory: for a log that a killed program left."""
    COPY = "copy"
    """Reading and writing: for a private copy in which a rollback journal is played back."""


class Fault(StrEnum):
    DAMAGED = "damaged"
    LOCKED = "locked"
    UNFINISHED = "unfinished"
    """A killed program left a rollback journal, which only a writer can play back."""
    UNOPENABLE = "unopenable"
    UNREADABLE = "unreadable"
    NO_SPACE = "no_space"
    TOO_SLOW = "too_slow"


class TooSlow(apsw.Error):
    """A statement over another program's database that was stopped at its deadline."""


_PARAMETERS = {
    Access.IMMUTABLE: "mode=ro&immutable=1",
    # Without readonly_shm even a read-only connection writes its read marks into -shm.
    Access.LIVE: "mode=ro&readonly_shm=1",
    Access.LOG: f"mode=ro&vfs={'win32' if os.name == 'nt' else 'unix'}-none",
    Access.COPY: "mode=rw",
}


class IndexDamaged(IndexUnusable):
    """The file is not a database any more; building it again from the notes is the cure."""


def open_database(path: Path, *, readonly: bool = False, bulk: bool = False) -> apsw.Connection:
    """Open a database file with memtui's settings.

    One connection belongs to one thread. `readonly` never creates a file. `bulk` gives up crash
    safety for speed: only for a file that nobody reads yet and that is thrown away on failure.
    Raises `IndexMissing` when a file to read is not there, `IndexDamaged` when it is no database,
    `IndexUnusable` when it cannot be opened.
    """
    if readonly and not path.exists():
        raise IndexMissing(f"{path.name} is not there", hint="`memtui index` builds it")
    with mapped_errors(path):
        if not readonly:
            # SQLite gives -wal and -shm the permissions of the file itself.
            with suppress(FileExistsError):
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        flags = apsw.SQLITE_OPEN_READONLY if readonly else apsw.SQLITE_OPEN_READWRITE
        connection = apsw.Connection(os.fspath(path), flags=flags)
        with undone_on_error(connection.close):
            connection.set_busy_timeout(BUSY_TIMEOUT_MS)
            if not readonly:
                journal, synced = ("OFF", "OFF") if bulk else ("WAL", "NORMAL")
                pragmas = _SQL["writing"].format(page=PAGE_SIZE, journal=journal, synced=synced)
                connection.execute(pragmas).fetchall()
            connection.execute(_SQL["opening"]).fetchall()
    return connection


def open_beside(path: Path, access: Access) -> apsw.Connection:
    """Open another program's database without leaving a trace; sqlite-vec is loaded if it can be.

    No statement reads a view or a virtual table of another kind than `_MODULES`, or runs for ever.
    Waits 1 s for a lock. Only `Access.LIVE` may be used while a program has the file open;
    `Access.LOG` and `Access.IMMUTABLE` read what is there now and notice no change.
    Raises what SQLite raises; `fault` tells what it means.
    """
    mode = apsw.SQLITE_OPEN_READWRITE if access is Access.COPY else apsw.SQLITE_OPEN_READONLY
    with _keeping_owners():
        connection = apsw.Connection(_uri(path, access), flags=mode | apsw.SQLITE_OPEN_URI)
        with undone_on_error(connection.close):
            # The last connection to close would fold the log into the file and remove it.
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
            connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
            connection.limit(apsw.SQLITE_LIMIT_LENGTH, _VALUE_BYTES)
            connection.drop_modules(_MODULES)
            connection.set_busy_timeout(_BESIDE_TIMEOUT_MS)
            if access is Access.LOG:
                # Before the first read: SQLite then indexes the log in memory, not in a -shm file.
                connection.execute("PRAGMA locking_mode = EXCLUSIVE").fetchall()
            connection.execute(_SQL["beside"]).fetchall()
            _watch(connection, STATEMENT_S + path.stat().st_size / _BYTES_A_SECOND)
            vector_extension(connection)
    return connection


def _watch(connection: apsw.Connection, seconds: float) -> None:
    """Let no statement run longer, or read what a database computes: views and generated columns.

    One call of a function in it can take hours, in which SQLite asks nobody whether to go on.
    """
    began = 0.0

    def begin(*_: object) -> bool:
        nonlocal began
        began = time.monotonic()
        return True

    def is_late() -> bool:
        if time.monotonic() - began > seconds:
            raise TooSlow(f"a query of it ran for more than {seconds:.0f} s")
        return False

    def authorise(_: int, name: str | None, *rest: str | None) -> int:
        # The last is the view that the action is part of; no query of memtui names a subquery.
        if (view := rest[-1]) is not None:
            raise apsw.CorruptError(f"{view} is a view, which no release of OpenClaw makes")
        for table in computed:
            if name in {table, "quick_check"}:
                problem = f"{table} has a generated column"
                raise apsw.CorruptError(f"{problem}, which no release of OpenClaw makes")
        return apsw.SQLITE_OK

    connection.exec_trace = begin
    connection.set_progress_handler(is_late, _DEADLINE_STEPS, id=_watch)
    rows = connection.execute(read_table("queries.toml")["check"]["computed"])
    computed = {str(table) for (table,) in rows}
    connection.authorizer = authorise


def _uri(path: Path, access: Access) -> str:
    return f"{path.absolute().as_uri()}?{_PARAMETERS[access]}"


def read_beside(path: Path, amount: int = _HEADER_BYTES, *, offset: int = 0) -> bytes:
    """Read bytes of another program's database, zeros behind its end; no lock is taken or lost.

    By a connection on which no statement runs: SQLite, and only SQLite, keeps the file open as
    long as this process has a lock on it. Whether the program wrote meanwhile is for the caller to
    find out.
    """
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    with closing(apsw.Connection(_uri(path, Access.IMMUTABLE), flags=flags)) as connection:
        try:
            return connection.read("main", 0, offset, amount)[1]
        except apsw.SQLError as error:  # SQLite does not say more about it.
            raise OSError(errno.EIO, os.strerror(errno.EIO)) from error


@contextmanager
def _keeping_owners() -> Iterator[None]:
    """Keep SQLite from giving the log to the owner of the file, which it does for root.

    Even where the owner stays the same, that sets the time of the log's inode. SQLite asks for
    the user's id and gets the size of a page, which is not root's. Only around an opening, because
    memtui's own files are to belong to the owner of their folder.
    """
    if os.name == "nt" or os.geteuid() != 0:
        yield
        return
    with _SYSTEM_CALLS:
        system = apsw.VFS("memtui-system-calls", base="unix")
        try:
            system.xSetSystemCall("geteuid", system.xGetSystemCall("getpagesize") or 0)
            try:
                yield
            finally:
                # Without an address SQLite takes its own call again.
                system.xSetSystemCall("geteuid", 0)
        finally:
            system.unregister()


def fault(error: BaseException) -> Fault | None:
    """Tell what an exception says about the database file; `None` when it is about the query."""
    match error:
        case TooSlow():
            return Fault.TOO_SLOW
        case apsw.NotADBError() | apsw.CorruptError() | UnicodeDecodeError() | DecodeError():
            return Fault.DAMAGED
        case apsw.SQLError() if _UNKNOWN_FORMAT in str(error):
            return Fault.DAMAGED
        case apsw.BusyError() | apsw.LockedError():
            return Fault.LOCKED
        case apsw.ReadOnlyError():
            code = getattr(error, "extendedresult", None)
            return Fault.UNFINISHED if code == apsw.SQLITE_READONLY_ROLLBACK else Fault.LOCKED
        case apsw.CantOpenError() | apsw.PermissionsError() | PermissionError():
            return Fault.UNOPENABLE
        case apsw.FullError():
            return Fault.NO_SPACE
        case OSError():
            return Fault.NO_SPACE if error.errno in _NO_SPACE else Fault.UNREADABLE
        case apsw.IOError():
            return Fault.UNREADABLE
    return None


def vector_extension(connection: apsw.Connection) -> str | None:
    """Load sqlite-vec, which reads the vectors of OpenClaw's indexes, and return its version.

    `None` when it cannot be loaded.
    """
    # Found without importing the package, which would import numpy and take 0.1 s.
    spec = importlib.util.find_spec("sqlite_vec")
    if spec is None or spec.origin is None:
        return None
    connection.enable_load_extension(True)
    try:
        # SQLite adds the suffix of the system's libraries.
        connection.load_extension(os.fspath(Path(spec.origin).with_name("vec0")))
    except apsw.ExtensionLoadingError:
        return None
    finally:
        connection.enable_load_extension(False)
    return str(connection.execute("SELECT vec_version()").fetchall()[0][0])


_UNWRITTEN = re.compile(
    "no such (column|table|fts5 table)|vtable constructor failed|invalid fts5 file format"
    "|malformed JSON"
)
"""The messages of SQLite, as an error of no kind, for tables and values that nobody wrote."""


def is_damage(error: BaseException) -> bool:
    """Tell whether an exception says that a file of memtui's is not as it was written."""
    is_unwritten = isinstance(error, apsw.SQLError) and _UNWRITTEN.search(str(error)) is not None
    return is_unwritten or isinstance(error, IndexDamaged) or fault(error) is Fault.DAMAGED


@contextmanager
def mapped_errors(path: Path) -> Iterator[None]:
    """Turn what a broken file of memtui's raises into `IndexUnusable` with a line for people."""
    try:
        yield
    except (apsw.Error, OSError, UnicodeDecodeError, DecodeError) as error:
        kind = Fault.DAMAGED if is_damage(error) else fault(error)
        if isinstance(error, apsw.ReadOnlyError):
            kind = Fault.UNOPENABLE
        if kind is None or (kind is Fault.UNREADABLE and isinstance(error, OSError)):
            raise
        words = read_table("index-faults.toml")
        message, hint = words[kind]
        if kind is Fault.UNREADABLE and not os.access(path.parent, os.W_OK):
            hint = words[Fault.UNOPENABLE][1]
        unusable = IndexDamaged if kind is Fault.DAMAGED else IndexUnusable
        seconds = BUSY_TIMEOUT_MS // 1000
        text = message.format(path=path, error=safe_line(str(error)), seconds=seconds)
        raise unusable(text, hint=hint) from error


@contextmanager
def transaction(connection: apsw.Connection) -> Iterator[None]:
    """Write in one piece: all of the block is kept, or, when it raises, none of it.

    Inside another one the block is a part of that one. Takes the write lock at once, because a
    read that turns into a write ignores the busy timeout.
    """
    if connection.in_transaction:
        yield
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # SQLite may already have rolled back on its own (disk full, I/O error).
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def interruptible(connection: apsw.Connection, cancelled: IsCancelled) -> Iterator[None]:
    """Let `cancelled` stop a long statement of this block, which then raises `Interrupted`."""
    connection.set_progress_handler(cancelled, _PROGRESS_STEPS, id=interruptible)
    try:
        yield
    finally:
        connection.set_progress_handler(None, id=interruptible)


def number(connection: apsw.Connection, query: str, *values: str | int | None) -> int:
    """Return the one number that a query answers with."""
    return int(str(connection.execute(query, values).fetchall()[0][0]))


def checkpoint(connection: apsw.Connection) -> None:
    """Move the write-ahead log into the file and empty it; readers may keep it from emptying."""
    with suppress(apsw.BusyError, apsw.LockedError):
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def damage(connection: apsw.Connection) -> str | None:
    """Check the file's structure; the first thing that is wrong, or `None`."""
    first = str(connection.execute("PRAGMA quick_check(1)").fetchall()[0][0])
    return None if first == "ok" else safe_line(first)


SCHEMA_VERSION: Final = 7
CHUNKING_RULES: Final = "2026.9"
NO_MODEL: Final = "none"


def create(connection: Connection) -> None:
    """Make the tables of an empty index file."""
    tables = (DATA_FOLDER / "index.sql").read_text("utf-8")
    connection.execute(tables.replace("{tokenize}", FTS5_TOKENIZE))
    write_meta(connection, {"schema_version": str(SCHEMA_VERSION)})


def read_meta(connection: Connection) -> dict[str, str]:
    """Return what the file says about itself; empty for a file without tables."""
    if not number(connection, "SELECT count(*) FROM sqlite_master WHERE name = 'meta'"):
        return {}
    rows = connection.execute("SELECT key, value FROM meta").fetchall()
    return {str(key): str(value) for key, value in rows}


def write_meta(connection: Connection, values: Mapping[str, str]) -> None:
    """Add or replace what the file says about itself; without effect where it says so already."""
    if new := values.items() - read_meta(connection).items():
        with transaction(connection):
            connection.executemany("INSERT OR REPLACE INTO meta VALUES(?, ?)", new)


def check_version(meta: Mapping[str, str], path: Path, oldest: int = 0) -> None:
    """Raise `IndexDamaged` for what is no index, `IndexUnusable` for one of a newer memtui, and
    `IndexMissing` for one before the `oldest` schema."""
    version = meta.get("schema_version", "")
    if not version.isdecimal():
        raise IndexDamaged(f"{path.name} is no index of memtui", hint="`memtui index` rebuilds it")
    if int(version) > SCHEMA_VERSION:
        raise IndexUnusable(
            f"{path.name} has schema {version}, this memtui knows {SCHEMA_VERSION}",
            hint="a newer memtui wrote it: update, or `memtui index --force` rebuilds it",
        )
    if int(version) < oldest:
        raise IndexMissing(f"{path.name} has schema {version}", hint="`memtui index` rebuilds it")


def made_by(meta: Mapping[str, str]) -> ProviderIdentity | None:
    """Return who made the vectors of an index; `None` for one that is to hold none."""
    name = meta.get("provider", NO_MODEL)
    if name in ("", NO_MODEL):
        return None
    dimensions, limit = meta.get("dimensions", ""), meta.get("input_bytes", "")
    return ProviderIdentity(
        name,
        meta.get("model", NO_MODEL),
        int(dimensions) if dimensions.isdecimal() else None,
        meta.get("fingerprint", ""),
        int(limit) if limit.isdecimal() else None,
    )


class Recipe(Struct, frozen=True):
    """The recipe of an index; two indexes of one folder and one recipe are equal."""

    identity: ProviderIdentity | None
    """Whose vectors; `None` for an index without vectors."""
    chunk_tokens: int = 400
    chunk_overlap: int = 80

    @property
    def model(self) -> str:
        """The model as the chunk ids hold it."""
        return self.identity.model if self.identity else NO_MODEL

    def meta(self) -> dict[str, str]:
        """Return the recipe as the index file keeps it."""
        identity = self.identity or ProviderIdentity(NO_MODEL, NO_MODEL, None, "", None)
        return {
            "schema_version": str(SCHEMA_VERSION),
            "provider": identity.name,
            "model": identity.model,
            "fingerprint": identity.fingerprint,
            "dimensions": str(identity.dimensions or ""),
            "tokenizer": FTS5_TOKENIZE,
            "stemmer": STEMMER,
            "chunk_tokens": str(self.chunk_tokens),
            "chunk_overlap": str(self.chunk_overlap),
            "chunking": CHUNKING_RULES,
            "input_bytes": str(identity.input_bytes or ""),
        }

    def matches(self, meta: Mapping[str, str]) -> bool:
        """Tell whether an index that says `meta` about itself was made by this recipe."""
        # Only the provider's first answer can tell the dimensions.
        expected = (item for item in self.meta().items() if item != ("dimensions", ""))
        return all(meta.get(key) == value for key, value in expected)

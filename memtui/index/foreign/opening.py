"""How a foreign database is connected to: by its log, in place, or through a private copy."""

from __future__ import annotations

import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from memtui.errors import IndexMissing, IndexUnusable
from memtui.index.database import (
    Access,
    DatabaseError,
    Fault,
    Interrupted,
    copy_beside,
    fault,
    header_of,
    open_beside,
    read_header,
    vector_extension,
)
from memtui.model.status import IndexGeneration
from memtui.text.sanitize import safe_line

if TYPE_CHECKING:
    from memtui.index.database import Connection


_WRITE_VERSION = 18
_WAL_VERSION = 2

Connected = tuple["Connection", Access, tempfile.TemporaryDirectory[str] | None]


def connect(real: Path, seen: Fingerprint, header: bytes, wanted: Access) -> Connected:
    """Connect in the way that the files ask for; `wanted` decides where there is no log.

    `header` was read after `seen`. Whether the files changed meanwhile is for the caller to find
    out. Raises what SQLite and the system raise.
    """
    if seen.log is not None and (seen.shared or seen.log.size > 0):
        return _connect_with_log(real, seen)
    keeps_a_log = header[_WRITE_VERSION] == _WAL_VERSION
    # Where the journal was being exchanged for the log, only a writer can tell.
    if _journal_is_hot(real) and (keeps_a_log or _is_cut_off(real)):
        return _connect_to_copy(real, seen, "-journal")
    if wanted is Access.COPY:
        return _connect_to_copy(real, seen)
    how = Access.LIVE if wanted is Access.LIVE and not keeps_a_log else Access.IMMUTABLE
    return open_beside(real, how), how, None


@contextmanager
def held_still(real: Path) -> Iterator[None]:
    """Keep programs from committing for the block, if a lock can do that without a trace."""
    try:
        connection = open_beside(real, Access.LIVE)
    except Exception as error:
        if fault(error) not in {Fault.UNFINISHED, Fault.UNOPENABLE}:
            raise
        yield
        return
    try:
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchall()
        yield
    finally:
        connection.close()


def _connect_with_log(real: Path, seen: Fingerprint) -> Connected:
    try:
        return open_beside(real, Access.LIVE), Access.LIVE, None
    except Exception as error:
        found = fault(error)
        if found is Fault.UNFINISHED:
            return _connect_to_copy(real, seen, "-journal", "-wal")
        # The attempt also told that no program holds the database for itself, which is the one
        # way to have a log open without shared memory.
        if found is not Fault.UNOPENABLE or seen.shared:
            raise
    return open_beside(real, Access.LOG), Access.LOG, None


def _journal_is_hot(real: Path) -> bool:
    # SQLite overwrites the first bytes with zeros when a kept journal is not needed any more.
    try:
        with beside(real, "-journal").open("rb") as journal:
            return journal.read(1) not in (b"", b"\0")
    except FileNotFoundError:
        return False


def _is_cut_off(real: Path) -> bool:
    """Whether nobody is at work on the journal; waits while a program writes into the file."""
    try:
        open_beside(real, Access.LIVE).close()
    except Exception as error:
        if fault(error) is not Fault.UNFINISHED:
            raise
        return True
    return False


def _connect_to_copy(real: Path, seen: Fingerprint, *suffixes: str) -> Connected:
    folder = tempfile.TemporaryDirectory(prefix="memtui-", ignore_cleanup_errors=True)
    try:
        target = Path(folder.name) / "copy.sqlite"
        copy_beside(real, target, seen.database.size if seen.database is not None else 0)
        for suffix in suffixes:
            with suppress(FileNotFoundError):
                shutil.copyfile(beside(real, suffix), beside(target, suffix))
        return open_beside(target, Access.COPY), Access.COPY, folder
    except BaseException:
        folder.cleanup()
        raise


def beside(real: Path, suffix: str) -> Path:
    """Name a file beside a database."""
    return real.with_name(real.name + suffix)


KNOWN_SCHEMA = 23
"""The newest `schema_meta.schema_version` whose memory tables are known (OpenClaw 2026.9.6)."""

_CHUNKS = frozenset(
    {"id", "path", "start_line", "end_line", "hash", "model", "text", "embedding", "updated_at"}
)
_FILES = frozenset({"path", "hash", "mtime", "size"})
_META = frozenset({"key", "value"})
_SHOWN_TABLES = 4

_TOKENIZE = re.compile(
    r"""\btokenize\s*=\s*(?:'((?:[^']|'')*)'|"((?:[^"]|"")*)"|(\w+))""", re.IGNORECASE
)
_DIMS = re.compile(r"\bFLOAT\s*\[\s*(\d+)\s*\]", re.IGNORECASE)
_SOURCE = re.compile(r"\bsource\b", re.IGNORECASE)
_VIRTUAL = re.compile(r"\bUSING\s+(\w+)", re.IGNORECASE)


class NotRecognised(IndexUnusable):
    """A sound database without the tables of an OpenClaw memory index."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The tables of an OpenClaw memory index, by name; `None`: this file has no such table."""

    generation: IndexGeneration
    meta: str
    files: str
    chunks: str
    fts: str | None
    vec: str | None
    cache: str | None
    paths_fts: str | None
    recall: str | None
    provenance: str | None
    state: str | None
    schema: str | None
    tokenizer: str
    """`unicode61`, `trigram`, or the words of the CREATE statement when they are others."""
    blob_vectors: bool
    """The column says float64 blobs; else JSON text. A single row may disagree."""
    vec_dims: int | None
    """Numbers in a vector of the vec0 table, as its CREATE statement says."""
    chunks_have_source: bool
    """False in the oldest files, in which everything is of the source `memory`."""
    files_have_source: bool
    fts_has_source: bool


@dataclass(frozen=True, slots=True)
class _Names:
    meta: str
    files: str
    chunks: str
    fts: str
    vec: str
    cache: str
    paths_fts: str = ""
    recall: str = ""
    provenance: str = ""
    state: str = ""
    schema: str = ""


_SIDECAR = _Names("meta", "files", "chunks", "chunks_fts", "chunks_vec", "embedding_cache")
_AGENT = _Names(
    "memory_index_meta",
    "memory_index_sources",
    "memory_index_chunks",
    "memory_index_chunks_fts",
    "memory_index_chunks_vec",
    "memory_embedding_cache",
    "memory_index_paths_fts",
    "memory_index_chunk_recall_metadata",
    "memory_index_chunk_provenance",
    "memory_index_state",
    "schema_meta",
)


def recognise(connection: Connection, name: str = "this file") -> Layout:
    """Find the memory tables of a database; `name` is what a message calls the file.

    A half-made index (tables without rows, no meta row) is recognised. Raises `NotRecognised`
    when the tables of no known generation are there.
    """
    tables = _tables(connection)
    for names in (_AGENT, _SIDECAR):
        columns = {
            table: _columns(connection, table)
            for table in (names.meta, names.files, names.chunks)
            if table in tables
        }
        if (
            columns.get(names.meta, {}).keys() >= _META
            and columns.get(names.files, {}).keys() >= _FILES
            and columns.get(names.chunks, {}).keys() >= _CHUNKS
        ):
            schema = _columns(connection, names.schema) if names.schema in tables else {}
            return _layout(names, tables, columns, "schema_version" in schema)
    raise _not_recognised(connection, tables, name)


def _tables(connection: Connection) -> dict[str, str]:
    rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall()
    return {str(name): str(sql or "") for name, sql in rows}


def _columns(connection: Connection, table: str) -> dict[str, str]:
    rows = connection.execute("SELECT name, type FROM pragma_table_info(?)", (table,)).fetchall()
    return {str(name): str(kind) for name, kind in rows}


def _layout(
    names: _Names,
    tables: Mapping[str, str],
    columns: Mapping[str, Mapping[str, str]],
    versioned: bool,
) -> Layout:
    blob = columns[names.chunks]["embedding"].upper() == "BLOB"
    generation = IndexGeneration.SIDECAR
    if names is _AGENT:
        generation = IndexGeneration.AGENT_BLOB if blob else IndexGeneration.AGENT
    fts = _virtual(tables, names.fts, "fts5")
    vec = _virtual(tables, names.vec, "vec0")
    dims = _DIMS.search(tables[vec]) if vec else None
    return Layout(
        generation=generation,
        meta=names.meta,
        files=names.files,
        chunks=names.chunks,
        fts=fts,
        vec=vec,
        cache=_present(tables, names.cache),
        paths_fts=_virtual(tables, names.paths_fts, "fts5"),
        recall=_present(tables, names.recall),
        provenance=_present(tables, names.provenance),
        state=_present(tables, names.state),
        schema=names.schema if versioned else None,
        tokenizer=tokenizer(tables[fts]) if fts else "unicode61",
        blob_vectors=blob,
        vec_dims=int(dims[1]) if dims else None,
        chunks_have_source="source" in columns[names.chunks],
        files_have_source="source" in columns[names.files],
        # Not asked of the table itself, which a damaged search index would refuse.
        fts_has_source=fts is not None and _SOURCE.search(tables[fts]) is not None,
    )


def _present(tables: Mapping[str, str], name: str) -> str | None:
    return name if name and name in tables else None


def _virtual(tables: Mapping[str, str], name: str, module: str) -> str | None:
    found = _VIRTUAL.search(tables.get(name, ""))
    return name if found and found[1].lower() == module else None


def tokenizer(sql: str) -> str:
    """Read the tokenizer from the CREATE statement of an FTS5 table."""
    found = _TOKENIZE.search(sql)
    if found is None:
        return "unicode61"
    quoted, double_quoted, bare = found.groups()
    if quoted is not None:
        words = quoted.replace("''", "'").split()
    elif double_quoted is not None:
        words = double_quoted.replace('""', '"').split()
    else:
        words = [bare]
    plain = " ".join(words).lower()
    return "trigram" if plain == "trigram case_sensitive 0" else plain or "unicode61"


def _not_recognised(connection: Connection, tables: Mapping[str, str], name: str) -> NotRecognised:
    message = f"{name} is not an OpenClaw memory index"
    if "chunks" in tables and "embedded" in _columns(connection, "chunks"):
        return NotRecognised(
            f"{message}: it is an index of memtui", hint="open its notes with: memtui FOLDER"
        )
    if "schema_meta" in tables or "transcript_events" in tables:
        return NotRecognised(
            f"{message}: the agent's database has no memory tables",
            hint="openclaw memory index builds them",
        )
    if not tables:
        return NotRecognised(
            f"{message}: the database has no tables", hint="give another file, or --agent NAME"
        )
    shown = ", ".join(safe_line(table) for table in sorted(tables)[:_SHOWN_TABLES])
    more = f" and {len(tables) - _SHOWN_TABLES} more" if len(tables) > _SHOWN_TABLES else ""
    return NotRecognised(
        f"{message}: its tables are {shown}{more}", hint="give another file, or --agent NAME"
    )


_MAGIC = b"SQLite format 3\0"
_COMMITS = slice(24, 28)
_ATTEMPTS = 3
_LOCKLESS = frozenset({Access.IMMUTABLE, Access.LOG})
_COUNTED = frozenset({Access.IMMUTABLE, Access.COPY})
_COPY_BYTES = 512 * 2**20


class IndexChanged(IndexUnusable):
    """Another program changed the file while it was read; opening it again is the cure."""

    code = "index_changed"


@dataclass(frozen=True, slots=True)
class FileStamp:
    """What a file is told apart by: `mtime_ns` in nanoseconds, `size` in bytes."""

    inode: int
    size: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The state of a database and what lies beside it; `None`: there is no such file."""

    database: FileStamp | None
    log: FileStamp | None
    shared: bool
    """Whether the log's shared memory is there: some program has, or had, the database open."""


@dataclass(frozen=True, slots=True)
class Opened:
    """An open index. One connection belongs to one thread; close it when it is not needed.

    While it is open, a program that ends cannot fold its log back into the file.
    """

    connection: Connection
    layout: Layout
    path: Path
    """As it was asked for."""
    real: Path
    """The file itself, links followed."""
    how: Access
    vec_readable: bool
    """Whether sqlite-vec is loaded and the vec0 table answers."""
    fingerprint: Fingerprint
    commits: bytes
    """The counter in the header at opening; without a log, every commit changes it."""
    warnings: tuple[str, ...] = ()
    copy: tempfile.TemporaryDirectory[str] | None = field(default=None, repr=False)

    def is_current(self) -> bool:
        """Compare the files with what they were at opening; three stats and a header.

        False: something was committed, the files were exchanged, or a program has opened or
        closed the database since; close this and open it again.
        """
        if not _is_same(self.real, self.fingerprint):
            return False
        # Two commits may come within one tick of the file system's clock.
        return self.how not in _COUNTED or self._commits_now() == self.commits

    def _commits_now(self) -> bytes | None:
        try:
            if self.how is Access.COPY:
                return read_header(self.real)[_COMMITS]
            return header_of(self.connection)[_COMMITS]
        except (DatabaseError, OSError):
            # Gone or not readable any more: not what it was.
            return None

    def confirm(self) -> None:
        """Raise `IndexChanged` when what was read so far may be of more than one commit."""
        if self.how in _LOCKLESS and not self.is_current():
            raise _changed(self.path)

    def errors(self) -> AbstractContextManager[None]:
        """Guard queries: `IndexChanged` when the file changed under them, else `foreign_errors`."""
        return foreign_errors(self.path, self.is_current)

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Let all queries of the block see the same commit; keep it short.

        Until it ends, a program that writes cannot empty its log.
        """
        self.connection.execute("BEGIN")
        try:
            yield
        finally:
            # SQLite may already have ended it on its own (I/O error).
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")

    def close(self) -> None:
        """Close the connection and remove the private copy, if there is one."""
        self.connection.close()
        if self.copy is not None:
            self.copy.cleanup()


def open_foreign(path: Path, *, settled: bool = False) -> Opened:
    """Open an OpenClaw index of any generation, strictly read-only.

    `settled`: in a way that no commit disturbs, at the price of a copy. Raises `IndexMissing` when
    there is no such file, `IndexUnusable` when it is no OpenClaw index, damaged, locked or not
    readable, `IndexChanged` when it changes faster than it can be opened.
    """
    with foreign_errors(path):
        real = _existing(path)
    for attempt in range(1, _ATTEMPTS + 1):
        with foreign_errors(path), ExitStack() as lock:
            if settled and attempt == _ATTEMPTS:
                lock.enter_context(held_still(real))
            opened = _try_to_open(path, real, settled=settled)
        if opened is not None:
            return opened
    raise _changed(path)


def _try_to_open(path: Path, real: Path, *, settled: bool) -> Opened | None:
    """Open it once; `None` when it changed meanwhile."""
    seen = fingerprint_of(real)
    wanted = _settled(seen) if settled else Access.IMMUTABLE
    try:
        with foreign_errors(path, partial(_is_same, real, seen)):
            opened = _open(path, real, seen, wanted)
    except IndexChanged:
        return None
    if opened.how is Access.LIVE or opened.is_current():
        return opened
    opened.close()
    return None


def fingerprint_of(real: Path) -> Fingerprint:
    """Stat a database and the files beside it."""
    return Fingerprint(
        database=_stamp(real),
        log=_stamp(beside(real, "-wal")),
        shared=_stamp(beside(real, "-shm")) is not None,
    )


def _settled(seen: Fingerprint) -> Access:
    """How to read, undisturbed, a file that has no log beside it."""
    small = seen.database is not None and seen.database.size <= _COPY_BYTES
    return Access.COPY if small else Access.LIVE


def _is_same(real: Path, seen: Fingerprint) -> bool:
    return fingerprint_of(real) == seen


@contextmanager
def foreign_errors(path: Path, current: Callable[[], bool] | None = None) -> Iterator[None]:
    """Turn what SQLite and the system raise about a foreign file into one line for people.

    `current` tells whether the file is still what was opened: when it is not, the error becomes
    `IndexChanged`. Errors that are about the query itself pass through.
    """
    try:
        yield
    except Exception as error:
        found = fault(error)
        of_the_file = found is not None or isinstance(error, DatabaseError)
        if not of_the_file or isinstance(error, Interrupted):
            raise
        # A table that is gone, too, may be the doing of another program.
        if current is not None and not current():
            raise _changed(path) from error
        if found is None:
            raise
        raise _line(path, found, error) from error


def of_another_shape(path: Path, error: Exception) -> IndexUnusable:
    """What is told of a whole database whose tables are not as any release makes them."""
    return IndexUnusable(
        f"{_shown(path)} is not as OpenClaw makes an index: {safe_line(str(error))}",
        hint="openclaw memory index --force builds it again",
    )


def _changed(path: Path) -> IndexChanged:
    return IndexChanged(
        f"{_shown(path)} changed while it was read",
        hint="another program is writing to it; try again",
    )


def _line(path: Path, found: Fault, error: Exception) -> IndexUnusable:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    if isinstance(error, UnicodeDecodeError):
        reason = "a text of it is not UTF-8"
    reason = safe_line(reason)
    name = _shown(path)
    match found:
        case Fault.DAMAGED:
            return IndexUnusable(
                f"{name} is damaged: {reason}", hint="openclaw memory index --force builds it again"
            )
        case Fault.LOCKED:
            return IndexUnusable(
                f"{name} is locked: memtui waited 1 s for another program that holds it",
                hint="try again when that program has finished writing",
            )
        case Fault.UNFINISHED:
            return IndexUnusable(
                f"{name} holds a transaction that was cut off",
                hint="start the agent once: it plays the journal back",
            )
        case Fault.UNOPENABLE:
            return IndexUnusable(
                f"{name} cannot be opened: {reason}", hint="check the permissions of its folder"
            )
        case Fault.NO_SPACE:
            return IndexUnusable(
                f"no space left for a private copy of {name}", hint="free some disk space"
            )
        case Fault.UNREADABLE:
            return IndexUnusable(f"{name} cannot be read: {reason}", hint="check the disk")


def _shown(path: Path) -> str:
    return safe_line(str(path))


def _stamp(path: Path) -> FileStamp | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return FileStamp(found.st_ino, found.st_size, found.st_mtime_ns)


def _existing(path: Path) -> Path:
    """The file that a path leads to; anything but a regular file with content is refused."""
    try:
        real = path.resolve(strict=True)
        found = real.stat()
    except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: a NUL in the name
        raise IndexMissing(
            f"{_shown(path)} is not there", hint="memtui agents lists what is on this machine"
        ) from None
    except RuntimeError:  # a loop of links, up to Python 3.12
        raise IndexUnusable(
            f"{_shown(path)} is a link that leads to itself", hint="give the file itself"
        ) from None
    if stat.S_ISDIR(found.st_mode):
        raise IndexUnusable(
            f"{_shown(path)} is a folder", hint="give the .sqlite file, or --agent NAME"
        )
    if not stat.S_ISREG(found.st_mode):
        raise IndexUnusable(f"{_shown(path)} is not a file", hint="give the .sqlite file")
    if found.st_size == 0:
        raise IndexUnusable(
            f"{_shown(path)} is empty (0 bytes)", hint="openclaw memory index builds the index"
        )
    return real


def _open(path: Path, real: Path, seen: Fingerprint, wanted: Access) -> Opened:
    # The counter before all else, or the commit that it stands for might still be under way.
    header = read_header(real)
    if not header.startswith(_MAGIC):
        raise IndexUnusable(
            f"{_shown(path)} is not an SQLite database", hint="give the .sqlite file"
        )
    connection, how, copy = connect(real, seen, header, wanted)
    try:
        layout = recognise(connection, _shown(path))
        vec_readable, warnings = _probe_vectors(connection, layout)
        return Opened(
            connection=connection,
            layout=layout,
            path=path,
            real=real,
            how=how,
            vec_readable=vec_readable,
            fingerprint=seen,
            commits=header[_COMMITS],
            warnings=_schema_warnings(connection, layout) + warnings,
            copy=copy,
        )
    except BaseException:
        connection.close()
        if copy is not None:
            copy.cleanup()
        raise


def _probe_vectors(connection: Connection, layout: Layout) -> tuple[bool, tuple[str, ...]]:
    if layout.vec is None or vector_extension(connection) is None:
        return False, ()
    try:
        connection.execute(f"SELECT id FROM {layout.vec} LIMIT 1").fetchall()
    except Exception as error:
        if fault(error) is Fault.LOCKED:
            raise
        return False, (f"the vector table cannot be read: {safe_line(str(error))}",)
    return True, ()


def _schema_warnings(connection: Connection, layout: Layout) -> tuple[str, ...]:
    if layout.schema is None:
        return ()
    rows = connection.execute(f"SELECT max(schema_version) FROM {layout.schema}").fetchall()
    version = rows[0][0]
    if not isinstance(version, int) or version <= KNOWN_SCHEMA:
        return ()
    return (
        f"the database has schema {version}, newer than the newest that memtui knows"
        f" ({KNOWN_SCHEMA}): what it adds is not shown",
    )

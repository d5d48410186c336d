"""Opening a database that another program made: without a trace, and told apart by its tables."""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from memtui.data import read_table
from memtui.errors import IndexMissing, IndexUnusable, undone_on_error
from memtui.index.database import (
    Access,
    Connection,
    DatabaseError,
    Fault,
    Interrupted,
    fault,
    open_beside,
    read_beside,
    vector_extension,
)
from memtui.model.status import IndexGeneration
from memtui.retrieval.connection import snapshot as snapshot_of
from memtui.retrieval.openclaw.tables import Layout
from memtui.settings.files import NO_FILE, FileStamp, cause_of, file_stamp
from memtui.text.sanitize import listed, safe_line

_WRITE_VERSION = 18
_WAL_VERSION = 2
_MAGIC = b"SQLite format 3\0"
_ATTEMPTS = 3
_COPY_STEP = 64 * 2**20
"""Bytes of a database that are copied at a time, each by a connection of its own."""
_LOCKLESS = frozenset({Access.IMMUTABLE, Access.LOG})

T = TypeVar("T")
Connected: TypeAlias = tuple[Connection, Access, tempfile.TemporaryDirectory[str] | None]


class IndexChanged(IndexUnusable):
    """Another program changed the file while it was read; opening it again is the cure."""

    code = "index_changed"


class NotRecognised(IndexUnusable):
    """A sound database without the tables of an OpenClaw memory index."""


index_format: Final[Callable[[], Mapping[str, Any]]] = partial(read_table, "openclaw-index.toml")
"""Read the names of tables and columns, the parts of the identity, and the words of faults."""


class Fingerprint(Struct, frozen=True):
    """The state of a database and what lies beside it."""

    database: FileStamp
    log: FileStamp
    shared: bool
    """True if the log's shared memory is there: some program has, or had, the database open."""
    header: bytes
    """The first 100 bytes, with the counter that every commit without a log changes: two may come
    within one tick of the file system's clock. Empty for what cannot be read."""


def fingerprint_of(real: Path) -> Fingerprint:
    """Return the state of a database and of the files beside it; no lock is taken or lost."""
    shared = file_stamp(_beside(real, "-shm")) != NO_FILE
    database, log, header = file_stamp(real), file_stamp(_beside(real, "-wal")), b""
    with suppress(DatabaseError, OSError):
        header = read_beside(real)
    return Fingerprint(database, log, shared, header)


def _beside(real: Path, suffix: str) -> Path:
    return real.with_name(real.name + suffix)


def _connect(real: Path, fingerprint: Fingerprint, *, settled: bool) -> Connected:
    """Connect in the way that the files ask for.

    A lock is taken where a journal is hot, and with `settled` wherever there is no log. Whether the
    files changed meanwhile is for the caller to find out. Raises what SQLite and the system raise.
    """
    has_log = fingerprint.log != NO_FILE and (fingerprint.shared or fingerprint.log.size > 0)
    uses_log = fingerprint.header[_WRITE_VERSION : _WRITE_VERSION + 1] == bytes([_WAL_VERSION])
    journal = b""
    with suppress(FileNotFoundError), _beside(real, "-journal").open("rb") as file:
        journal = file.read(1)
    # SQLite overwrites the first bytes with zeros when a kept journal is not needed any more.
    is_hot = journal not in (b"", b"\0")
    if has_log or (is_hot and not uses_log):
        try:
            # Waits while a program writes into the file.
            return open_beside(real, Access.LIVE), Access.LIVE, None
        except Exception as error:
            wrong = fault(error)
            if wrong is Fault.UNFINISHED:
                return _connect_to_copy(real, fingerprint)
            # The attempt also told that no program holds the database for itself, which is the
            # one way to have a log open without shared memory.
            if not has_log or wrong is not Fault.UNOPENABLE or fingerprint.shared:
                raise
        return open_beside(real, Access.LOG), Access.LOG, None
    if is_hot:
        # Where the journal was being exchanged for the log, only a writer can tell.
        return _connect_to_copy(real, fingerprint)
    how = Access.LIVE if settled and not uses_log else Access.IMMUTABLE
    return open_beside(real, how), how, None


def _connect_to_copy(real: Path, fingerprint: Fingerprint) -> Connected:
    folder = tempfile.TemporaryDirectory(prefix="memtui-", ignore_cleanup_errors=True)
    with undone_on_error(folder.cleanup):
        target = Path(folder.name) / "copy.sqlite"
        size = fingerprint.database.size
        with target.open("xb") as file:
            for offset in range(0, size, _COPY_STEP):
                file.write(read_beside(real, min(_COPY_STEP, size - offset), offset=offset))
        for suffix in ("-journal", "-wal"):
            with suppress(FileNotFoundError):
                shutil.copyfile(_beside(real, suffix), _beside(target, suffix))
        return open_beside(target, Access.COPY), Access.COPY, folder


KNOWN_SCHEMA = 23
"""The newest `schema_meta.schema_version` whose memory tables are known (OpenClaw 2026.9.6)."""
_SCHEMA: Final = "schema_meta"
UNKNOWN_MODULE: Final = "no such module"
_SHOWN_TABLES = 4

_TOKENIZE = re.compile(
    r"""\btokenize\s*=\s*(?:'((?:[^']|'')*)'|"((?:[^"]|"")*)"|(\w+))""", re.IGNORECASE
)
_DIMS = re.compile(r"\bFLOAT\s*\[\s*(\d+)\s*\]", re.IGNORECASE)
_SOURCE = re.compile(r"\bsource\b", re.IGNORECASE)
_VIRTUAL = re.compile(r"\bUSING\s+(\w+)", re.IGNORECASE)


def recognise(connection: Connection, name: str = "this file") -> Layout:
    """Find the memory tables of a database; `name` is what a message calls the file.

    A half-made index (tables without rows, no meta row) is recognised. Raises `NotRecognised`
    when the tables of no known generation are there.
    """
    form, (agent, sidecar) = index_format(), index_format()["tables"].values()
    rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall()
    tables = {str(table): str(sql or "") for table, sql in rows}
    for names in (agent, sidecar):
        columns = {role: columns_in(connection, names[role]) for role in form["needed"]}
        if all(columns[role].keys() >= set(needed) for role, needed in form["needed"].items()):
            break
    else:
        reason, hint = "the database has no tables", "give another file, or --agent NAME"
        if "embedded" in columns_in(connection, "chunks"):
            reason, hint = "it is an index of memtui", "open its notes with: memtui FOLDER"
        elif _SCHEMA in tables or "transcript_events" in tables:
            reason = "the agent's database has no memory tables"
            hint = "openclaw memory index builds them"
        elif tables:
            reason = f"its tables are {safe_line(listed(sorted(tables), _SHOWN_TABLES))}"
        raise NotRecognised(f"{name} is not an OpenClaw memory index: {reason}", hint=hint)

    def present(role: str) -> str | None:
        sql = tables.get(names.get(role, ""))
        module = _VIRTUAL.search(sql) if sql is not None else None
        is_one = (module[1].lower() if module else None) == form["modules"].get(role)
        return names[role] if sql is not None and is_one else None

    fts, vec = present("fts"), present("vec")
    generation = IndexGeneration.SIDECAR
    if names is agent:
        is_blob = columns["chunks"]["embedding"].upper() == "BLOB"
        generation = IndexGeneration.AGENT_BLOB if is_blob else IndexGeneration.AGENT
    dims = _DIMS.search(tables[vec]) if vec else None
    roles: dict[str, Any] = {role: present(role) for role in agent}
    has_schema = names is agent and "schema_version" in columns_in(connection, _SCHEMA)
    return Layout(
        generation=generation,
        **roles,
        schema=_SCHEMA if has_schema else None,
        tokenizer=tokenizer(tables[fts]) if fts else "unicode61",
        vec_dims=int(dims[1]) if dims else None,
        has_source="source" in columns["chunks"] and "source" in columns["files"],
        # Not asked of the table itself, which a damaged search index would refuse.
        fts_has_source=fts is not None and _SOURCE.search(tables[fts]) is not None,
    )


def columns_in(connection: Connection, table: str) -> dict[str, str]:
    """Return the columns of a table with their types; none when there is no such table.

    None either of a virtual table of a kind that no release has.
    """
    sql = "SELECT name, type FROM pragma_table_info(?)"
    try:
        rows = connection.execute(sql, (table,)).fetchall()
    except DatabaseError as error:
        if UNKNOWN_MODULE not in str(error):
            raise
        return {}
    return {str(name): str(kind) for name, kind in rows}


def tokenizer(sql: str) -> str:
    """Read the tokenizer from the CREATE statement of an FTS5 table."""
    option = _TOKENIZE.search(sql)
    if option is None:
        return "unicode61"
    quoted, double_quoted, bare = option.groups(default="")
    written = quoted.replace("''", "'") or double_quoted.replace('""', '"') or bare
    plain = " ".join(written.split()).lower()
    return "trigram" if plain == "trigram case_sensitive 0" else plain or "unicode61"


class Opened(Struct, frozen=True):
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
    """True if sqlite-vec is loaded and the vec0 table answers."""
    fingerprint: Fingerprint
    copy: tempfile.TemporaryDirectory[str] | None = None

    def select(self, sql: str, *values: str | int | None) -> list[Any]:
        """Return all rows of a query; raises what SQLite raises."""
        return self.connection.execute(sql, values).fetchall()

    def is_current(self) -> bool:
        """Compare the files with what they were at opening; three stats and a header.

        False: something was committed, the files were exchanged, or a program has opened or
        closed the database since; close this and open it again.
        """
        return fingerprint_of(self.real) == self.fingerprint

    def confirm(self) -> None:
        """Raise `IndexChanged` when what was read so far may be of more than one commit."""
        if self.how in _LOCKLESS and not self.is_current():
            raise _changed(self.path)

    def close(self) -> None:
        """Close the connection and remove the private copy, if there is one."""
        self.connection.close()
        if self.copy is not None:
            self.copy.cleanup()


def open_foreign(
    path: Path,
    *,
    memory: bool = True,
    settled: bool = False,
    arrange: Callable[[Opened], Layout] | None = None,
) -> Opened:
    """Open an OpenClaw index of any generation, strictly read-only.

    Without `memory` it may be a database without memory tables, and the layout names none. Where a
    journal is hot, and with `settled` wherever there is no log, a lock is taken: its program waits
    with a commit while a snapshot of the index is read. `arrange` may give the opened index other
    tables. Raises `IndexMissing` when there is no such file, `IndexUnusable` when it is no OpenClaw
    index, damaged, locked or not readable, `IndexChanged` when it changes while it is opened.
    """
    with foreign_errors(path):
        real = _existing(path)
    fingerprint, name = fingerprint_of(real), safe_line(str(path))
    with foreign_errors(path, lambda: fingerprint_of(real) == fingerprint):
        # Says why the file cannot be read, where it cannot.
        header = fingerprint.header or read_beside(real)
        if not header.startswith(_MAGIC):
            hint = "give the .sqlite file"
            raise IndexUnusable(f"{name} is not an SQLite database", hint=hint)
        connection, how, copy = _connect(real, fingerprint, settled=settled)
        opened = Opened(connection, Layout(chunks=""), path, real, how, False, fingerprint, copy)
        with undone_on_error(opened.close):
            layout = recognise(connection, name) if memory else opened.layout
            vec_readable = layout.vec is not None and vector_extension(connection) is not None
            if vec_readable:
                try:
                    for own, columns in index_format()["vectors"].items():
                        opened.select(f"SELECT {columns} FROM {layout.vec}_{own} LIMIT 0")
                    opened.select(f"SELECT id FROM {layout.vec} LIMIT 1")
                except DatabaseError as error:
                    if fault(error) is Fault.LOCKED:
                        raise
                    vec_readable = False
            opened = replace(opened, layout=layout, vec_readable=vec_readable)
            opened.confirm()
            return replace(opened, layout=arrange(opened)) if arrange is not None else opened


class ForeignDatabase:
    """A database that its program may change any time; opened again when it did.

    Belongs to one thread.
    """

    def __init__(
        self, path: Path, *, memory: bool = True, arrange: Callable[[Opened], Layout] | None = None
    ) -> None:
        """`memory` and `arrange` as `open_foreign` has them."""
        self._path, self._open = path, partial(open_foreign, path, memory=memory, arrange=arrange)
        self._opened: Opened | None = None
        self._guard = threading.Lock()
        """Held while the connection may be interrupted from another thread, or is closed."""

    def read(self, function: Callable[[Opened], T], *, snapshot: bool = True) -> T:
        """Read one commit of the database; again when its program changed it meanwhile.

        Without `snapshot` the function sees to its own. The last try is under a lock. Raises
        `IndexMissing`, `IndexUnusable`, and `IndexChanged` when that did not help either.
        """
        for _ in range(_ATTEMPTS - 1):
            try:
                return self._read(function, snapshot)
            except IndexChanged:
                self.close()
        return self._read(function, snapshot, settled=True)

    def _read(self, function: Callable[[Opened], T], snapshot: bool, *, settled: bool = False) -> T:
        if self._opened is None or not self._opened.is_current():
            self.close()
            self._opened = self._open(settled=settled)
        opened = self._opened
        try:
            guarded = foreign_errors(self._path, opened.is_current)
            with guarded, snapshot_of(opened.connection) if snapshot else nullcontext():
                answer = function(opened)
            opened.confirm()
            return answer
        except (ArithmeticError, LookupError, TypeError, ValueError):
            # Half of one commit and half of another can look like anything.
            opened.confirm()
            raise
        except DatabaseError as error:
            if isinstance(error, Interrupted):
                raise
            reason = f"{safe_line(str(self._path))} is not as OpenClaw makes an index"
            raise IndexUnusable(
                f"{reason}: {safe_line(str(error))}",
                hint="openclaw memory index --force rebuilds it",
            ) from error
        finally:
            if opened.how is Access.LIVE:
                # An open connection would keep the program from folding its log back.
                self.close()

    def interrupt(self) -> None:
        """Stop a running statement; from any thread."""
        with self._guard:
            if self._opened is not None:
                self._opened.connection.interrupt()

    def close(self) -> None:
        with self._guard:
            if self._opened is not None:
                self._opened.close()
                self._opened = None


def read_once(path: Path, function: Callable[[Opened], T], *, memory: bool = True) -> T:
    """Open a database, read one commit of it, and close it; raises what `read` does."""
    with closing(ForeignDatabase(path, memory=memory)) as database:
        return database.read(function)


def _existing(path: Path) -> Path:
    """Return the file that a path leads to; anything but a regular file with content is refused."""
    name = safe_line(str(path))
    try:
        real = Path(os.path.realpath(path, strict=True))
        state = real.stat()
    except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: a NUL in the name
        hint = "`memtui agents` lists what is on this machine"
        raise IndexMissing(f"{name} is not there", hint=hint) from None
    if stat.S_ISDIR(state.st_mode):
        raise IndexUnusable(f"{name} is a folder", hint="give the .sqlite file, or --agent NAME")
    if not stat.S_ISREG(state.st_mode):
        raise IndexUnusable(f"{name} is not a file", hint="give the .sqlite file")
    if state.st_size == 0:
        hint = "openclaw memory index builds the index"
        raise IndexUnusable(f"{name} is empty (0 bytes)", hint=hint)
    return real


@contextmanager
def foreign_errors(path: Path, current: Callable[[], bool] | None = None) -> Iterator[None]:
    """Turn what SQLite and the system raise about a foreign file into one line for people.

    `current` tells whether the file is still what was opened: when it is not, the error becomes
    `IndexChanged`. Errors that are about the query itself pass through.
    """
    try:
        yield
    except Exception as error:
        wrong = fault(error)
        of_the_file = wrong is not None or isinstance(error, DatabaseError)
        if not of_the_file or isinstance(error, Interrupted):
            raise
        # A table that is gone, too, may be the doing of another program.
        if current is not None and not current():
            raise _changed(path) from error
        if wrong is None:
            raise
        is_text = isinstance(error, UnicodeDecodeError)
        reason = "a text of it is not UTF-8" if is_text else cause_of(error)
        text, hint = index_format()["faults"][wrong]
        line = text.format(name=safe_line(str(path)), reason=safe_line(reason))
        raise IndexUnusable(line, hint=hint) from error


def _changed(path: Path) -> IndexChanged:
    return IndexChanged(
        f"{safe_line(str(path))} changed while it was read",
        hint="another program is writing to it; try again",
    )

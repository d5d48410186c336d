"""Opening another program's index: whatever state it is in, no byte, time or file changes.

How a database is read depends on what lies beside it:

- `-wal` and `-shm`: a program has it open, or was killed. SQLite's own locks, with the shared
  memory mapped read-only; when nobody else holds it, SQLite indexes the log in memory.
- `-wal` with content, no `-shm`: the log is indexed in memory, without locks.
- neither, or a file that keeps no log: `immutable`, which touches nothing but the file. With a
  rollback journal, a lock for reading would keep the program from committing: it is taken for a
  moment, only to tell a program at work from a killed one. What a killed one left is played back
  in a private copy.

Without locks (`Access.IMMUTABLE`, `Access.LOG`) a commit may come in between two pages: what was
read counts only when `Opened.confirm` says so, by the stamps of the files and the counter of
commits in the header. Whoever was disturbed opens it `settled`: a private copy of what has at most
512 MB, as good as a snapshot, for which the program is locked out only if it commits faster than
copies can be made; of what has more, SQLite's locks.

A program that closes its log while memtui reads cannot fold it back: `-wal` and `-shm` stay, whole
and valid, until it opens the database again. The window is one snapshot long: keep them short.
"""

from __future__ import annotations

import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
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
    fault,
    header_of,
    read_header,
    vector_extension,
)
from memtui.index.foreign.connecting import beside, connect, held_still
from memtui.index.foreign.layout import KNOWN_SCHEMA, Layout, recognise
from memtui.text.sanitize import safe_line

if TYPE_CHECKING:
    from memtui.index.database import Connection

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

"""How a foreign database is connected to: by its log, in place, or through a private copy."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from memtui.index.database import Access, Fault, copy_beside, fault, open_beside

if TYPE_CHECKING:
    from memtui.index.database import Connection
    from memtui.index.foreign.opening import Fingerprint

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

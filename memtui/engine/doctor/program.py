"""Looking at what memtui runs on: Python, SQLite, its extensions."""

from __future__ import annotations

import importlib.util
import platform
import tempfile
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

from memtui import __version__
from memtui.engine.doctor.checks import EXIT_INDEX, Area, Check, fine, note, problem
from memtui.errors import MemtuiError
from memtui.index.database import (
    Connection,
    DatabaseError,
    number,
    open_database,
    vector_extension,
)
from memtui.text.tokens import FTS5_TOKENIZE

_AREA = Area.PROGRAM
_VEC_HINT = "pip install --force-reinstall sqlite-vec; search works without it, only slower"


def program_checks() -> Iterator[Check]:
    """Versions, and whether a database of memtui's kind can be made and asked here."""
    yield fine(_AREA, "memtui", __version__)
    yield fine(_AREA, "python", f"{platform.python_version()} on {platform.platform()}")
    try:
        with tempfile.TemporaryDirectory(prefix="memtui-doctor-") as folder:
            connection = open_database(Path(folder) / "look.db")
            try:
                yield asked(_AREA, "sqlite", lambda: _version(connection))
                yield asked(_AREA, "fts5", lambda: _full_text(connection))
                yield _vectors(connection)
            finally:
                connection.close()
    except (MemtuiError, DatabaseError, OSError) as error:
        detail = f"no database can be made in the temporary folder: {error}"
        yield problem(_AREA, "database", detail, "check its room and permissions")
    has_keyring = importlib.util.find_spec("keyring") is not None
    yield fine(_AREA, "keyring", "the package is installed" if has_keyring else "not installed")


def asked(area: Area, name: str, ask: Callable[[], str]) -> Check:
    """What a part of a database answers, or the problem that it raises."""
    try:
        return fine(area, name, ask())
    except MemtuiError as error:
        return problem(area, name, error.message, error.hint, EXIT_INDEX)
    except DatabaseError as error:
        return problem(area, name, str(error), "", EXIT_INDEX)


def _version(connection: Connection) -> str:
    ((found,),) = connection.execute("SELECT sqlite_version()").fetchall()
    return f"{found}, apsw {version('apsw')}"


def _full_text(connection: Connection) -> str:
    connection.execute(f'CREATE VIRTUAL TABLE look USING fts5(text, tokenize="{FTS5_TOKENIZE}")')
    connection.execute("INSERT INTO look VALUES ('router vlan')")
    found = number(connection, "SELECT count(*) FROM look WHERE look MATCH 'vlan'")
    return f"a word is found ({found} of 1)"


def _vectors(connection: Connection) -> Check:
    loaded = vector_extension(connection)
    if loaded is None:
        return note(_AREA, "sqlite-vec", "cannot be loaded", _VEC_HINT)
    return fine(_AREA, "sqlite-vec", loaded)

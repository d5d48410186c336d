"""What the readers of databases promise for files that are damaged, cut or of another making."""

from __future__ import annotations

import lzma
import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Final, TypeVar

import apsw
import numpy as np

from memtui.embedding.cache import EmbeddingCache
from memtui.embedding.provider import ProviderIdentity
from memtui.engine import Engine
from memtui.engine.foreign import find_target
from memtui.engine.given_vectors import GivenVectors
from memtui.errors import MemtuiError
from memtui.index.database import open_database
from memtui.text.sanitize import HOSTILE
from tests.support.openclaw import DATA, DIMS, RELEASES, State, connect, make_state
from tests.trust.fuzz_inputs import Given, Target, bytes_of

NOW: Final = datetime(2026, 11, 21, 12, tzinfo=UTC)
QUERIES: Final = ("OAuth refresh token", "path:memory after:2026-01-01 the", "東京", '"a b" c', "")
_OPERATION: Final = 5
"""Bytes of one change of a file: three for the place, two for what is put there."""
_MOST_STATEMENTS: Final = 6
_IDENTITY: Final = ProviderIdentity("test", "model", 8, "0a")


@cache
def _place() -> Path:
    """A folder of this process that lives as long as it does."""
    _KEPT.append(tempfile.TemporaryDirectory(prefix="memtui-fuzz-"))
    return Path(_KEPT[-1].name).resolve()


T = TypeVar("T")
_KEPT: list[tempfile.TemporaryDirectory[str]] = []


@cache
def _state(release: str) -> State:
    return make_state(_place() / release, release)


@cache
def _original(release: str) -> bytes:
    return lzma.decompress((DATA / f"openclaw-{release}.sqlite.xz").read_bytes())


# --- changes --------------------------------------------------------------------------------------


def changed(data: bytes, body: bytes, *, in_pages: bool) -> bytes:
    """A file with some bytes put in other places; `in_pages`: at the begin of a page, mostly."""
    made = bytearray(data)
    page = int.from_bytes(data[16:18], "big") or 4096
    for start in range(0, min(len(body), 40 * _OPERATION), _OPERATION):
        part = body[start : start + _OPERATION].ljust(_OPERATION, b"\0")
        place = int.from_bytes(part[:3], "big") % len(made)
        if in_pages:
            place = place // page * page + place % 24
        made[place : place + 1] = part[3:4]
        if part[4] & 3 == 0:
            made[place : place + 8] = bytes([part[4]]) * 8
    return bytes(made[: len(data)])


_VALUES: Final = (
    *("NULL", "'x'", "x'ff00'", "CAST(x'6dff1b5b41' AS TEXT)", "-1", "0", "9223372036854775807"),
    *(
        "1e300",
        "9e999",
        "-9e999",
        "0.5",
        "'[1,2]'",
        "'[1e999]'",
        "'{}'",
        "'[' || 'a'",
        "zeroblob(3)",
    ),
    *(
        "zeroblob(1024)",
        "char(27) || '[31m'",
        "char(0x202e)",
        "''",
        "randomblob(1024)",
        "'../../x'",
    ),
    *('\'{"vectorDims":"x","model":7}\'', "'{\"vectorDims\":1e400}'", "'null'", "9e15", "'1'"),
    *(
        "printf('%.*c', 70000, 'a')",
        "'memory/' || char(10) || '.md'",
        "replace(hex(zeroblob(3000)),'00','[')",
    ),
)
_SHAPES: Final = (
    "DROP TABLE {table}",
    "ALTER TABLE {table} RENAME TO other",
    "ALTER TABLE {table} RENAME COLUMN {column} TO other",
    "ALTER TABLE {table} DROP COLUMN {column}",
    "DELETE FROM {table}",
    "CREATE TABLE loose AS SELECT * FROM {table}; DROP TABLE {table};"
    " ALTER TABLE loose RENAME TO {table}",
    "CREATE TABLE loose AS SELECT * FROM {table}; DROP TABLE {table};"
    " CREATE VIEW {table} AS SELECT * FROM loose",
    "PRAGMA user_version = 99",
    "PRAGMA encoding = 'UTF-16'",
    "INSERT INTO {table} SELECT * FROM {table} LIMIT 3",
)


@cache
def _columns(release: str) -> tuple[tuple[str, str], ...]:
    """Every column of every ordinary table of an index."""
    connection = connect(_state(release).database)
    try:
        names = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
        ).fetchall()
        return tuple(
            (str(name), str(column[1]))
            for (name,) in names
            for column in connection.execute(f"PRAGMA table_info({name})").fetchall()
        )
    finally:
        connection.close()


def _statements(release: str, body: bytes) -> list[str]:
    """SQL that puts values of other types into cells, or makes tables of another shape."""
    columns = _columns(release)
    found = []
    for start in range(0, min(len(body), 4 * _MOST_STATEMENTS), 4):
        part = body[start : start + 4].ljust(4, b"\0")
        table, column = columns[(part[0] + 256 * (part[3] & 3)) % len(columns)]
        if part[1] % 5 == 0:
            shape = _SHAPES[part[2] % len(_SHAPES)]
            found.append(shape.format(table=f'"{table}"', column=f'"{column}"'))
            continue
        value = _VALUES[part[2] % len(_VALUES)]
        where = ("", " WHERE rowid % 2 = 0", " WHERE rowid = 1", " WHERE rowid > 10")[part[3] >> 6]
        found.append(f'UPDATE "{table}" SET "{column}" = {value}{where}')
    return found


def _edit(database: Path, statements: Sequence[str]) -> None:
    """Run what SQLite lets run."""
    connection = connect(database)
    try:
        connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 0)
        connection.execute("PRAGMA synchronous = OFF; PRAGMA foreign_keys = OFF").fetchall()
        for statement in statements:
            try:
                connection.execute(statement).fetchall()
            except apsw.Error:
                # Not every change fits every table; those that do are what is wanted.
                continue
    finally:
        connection.close()


# --- checks ---------------------------------------------------------------------------------------


def check_damaged(given: Given) -> None:
    """A file with other bytes, or cut, gives one line or what can be read of it."""
    release, in_pages = given.pick(RELEASES), bool(given.number(2))
    cut, query = given.number(6), given.pick(QUERIES)
    data = changed(_original(release), given.body, in_pages=in_pages)
    if cut == 0:
        data = data[: len(data) * given.number(256) // 256]
    state = _state(release)
    _clean(state)
    state.database.write_bytes(data)
    _use(state, query)


def check_odd_rows(given: Given) -> None:
    """Cells of any type and tables of any shape give one line or what can be read of them."""
    release, query = given.pick(RELEASES), given.pick(QUERIES)
    state = _state(release)
    _clean(state)
    state.database.write_bytes(_original(release))
    _edit(state.database, _statements(release, given.body))
    _use(state, query)


def _clean(state: State) -> None:
    for suffix in ("-wal", "-shm", "-journal"):
        state.beside(suffix).unlink(missing_ok=True)


def _use(state: State, query: str) -> None:
    """Open an index, and ask everything of it that a screen or a command asks."""
    target = _told(
        lambda: find_target(
            agent="main",
            index=None,
            workspace=None,
            env={"OPENCLAW_STATE_DIR": str(state.folder)},
            home=state.folder.parent,
        )
    )
    if target is None:
        return
    vectors = GivenVectors(Path("given.json"), {}, np.full(DIMS, 0.0625))
    engine = _told(
        lambda: Engine.open_agent(target, now=lambda: NOW, env={}, given=vectors, examine=False)
    )
    if engine is None:
        return
    with engine:
        ranked = _told(lambda: engine.search.ask(query))
        _told(engine.index.refresh_status)
        _told(lambda: engine.browse.recent(5))
        for warning in engine.index.status().warnings:
            _one_line(warning)
        _told(engine.browse.files)
        _told(lambda: engine.browse.days())
        for hit in ranked.hits[:2] if ranked is not None else ():
            chunk = hit.chunk
            _told(lambda path=chunk.path: engine.browse.source(path))  # type: ignore[misc]
            _told(lambda path=chunk.path: engine.browse.chunks_of(path))  # type: ignore[misc]
            _told(lambda name=chunk.id: engine.browse.chunk_record(name))  # type: ignore[misc]
            _told(lambda name=chunk.id: engine.browse.neighbours(name))  # type: ignore[misc]


def _told(ask: Callable[[], T]) -> T | None:
    """What is answered; `None` where the answer is an error of one line for people."""
    try:
        return ask()
    except MemtuiError as error:
        _one_line(str(error))
        return None


def _one_line(text: str) -> None:
    assert "\n" not in text, "a message has two lines"
    assert HOSTILE.search(text) is None, "a message holds a control character"


@cache
def _cache_file() -> bytes:
    """The file of a cache with forty vectors."""
    path = _place() / "made.db"
    made = EmbeddingCache(path, open_database)
    vectors = np.arange(320, dtype=np.float32).reshape(40, 8)
    made.put_many(_IDENTITY, {f"{number:064x}": row for number, row in enumerate(vectors)})
    made.close()
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.execute("PRAGMA journal_mode = DELETE").fetchall()
    connection.close()
    return path.read_bytes()


def check_cache(given: Given) -> None:
    """A damaged cache starts anew or gives what is whole; a vector from it is finite."""
    in_pages, cut = bool(given.number(2)), given.number(6)
    folder = _place() / "cache"
    folder.mkdir(exist_ok=True)
    for file in folder.iterdir():
        file.unlink()
    data = changed(_cache_file(), given.body, in_pages=in_pages)
    if cut == 0:
        data = data[: len(data) * given.number(256) // 256]
    path = folder / "cache.db"
    path.write_bytes(data)
    held = EmbeddingCache(path, open_database)
    hashes = [f"{number:064x}" for number in range(40)]
    try:
        for vector in (_told(lambda: held.get_many(_IDENTITY, hashes)) or {}).values():
            assert vector.shape == (8,)
            assert np.isfinite(vector).all()
        _told(lambda: held.put_many(_IDENTITY, {hashes[0]: np.ones(8, dtype=np.float32)}))
        _told(held.count)
        _told(lambda: held.trim(200, {}))
        if held.recovered:
            _one_line(held.recovered)
    finally:
        held.close()


def _seeds() -> list[bytes]:
    return [bytes(range(first, first + 40)) for first in (0, 40, 80, 120, 160, 200)]


_WORDS: Final = tuple(map(bytes_of, ("\x00", "\x00\x00\x64", "\x00\x10\x00", "\x0d", "\x7f" * 3)))

TARGETS: Final = (
    Target("damaged index", check_damaged, _seeds, _WORDS, runs=2_500, share=5),
    Target("odd rows", check_odd_rows, _seeds, _WORDS, runs=2_500, share=4),
    Target("cache", check_cache, _seeds, _WORDS, runs=2_500, share=25),
)

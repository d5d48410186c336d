"""Promises of the readers of settings and databases for input that is damaged, cut or foreign."""

from __future__ import annotations

import gzip
import tomllib
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, TypeVar

import apsw
import numpy as np
from msgspec.structs import replace

from memtui.embedding.batch import BatchStore
from memtui.embedding.provider import ProviderIdentity, clean_vectors
from memtui.engine import Engine
from memtui.engine.doctor import attempted, database_checks, deep_checks
from memtui.engine.foreign.query_vectors import GivenVectors, load_given
from memtui.engine.providers.failover import read_marker
from memtui.errors import MemtuiError, SettingsError
from memtui.index.embedding_cache import EmbeddingCache
from memtui.index.generations import IndexFolder, WriterLock
from memtui.settings.files import (
    ConfigFile,
    SettingsProblems,
    StateFolder,
    history_name,
    queries_in,
)
from memtui.settings.load import TRUST_FILE, SettingsFiles, trust
from memtui.settings.openclaw.read import own_variables, read_config
from memtui.settings.openclaw.releases import RELEASE_NAMES as PROFILE_RELEASES
from memtui.settings.openclaw.releases import to_settings
from memtui.settings.schema import leaves, sample_config, tables
from memtui.settings.toml import toml_value
from memtui.settings.write import REMOVED, CannotEdit, edited
from memtui.text.sanitize import HOSTILE
from tests.support.embedding import registered_hashed
from tests.support.openclaw import DIMS, RELEASES, State, connect, database_of, make_state
from tests.support.small_memory import SmallMemory, make_small_memory
from tests.trials.fuzz import Given, Target, bytes_of, listed, private_folder, seeds, words
from tests.trials.fuzz_texts import NAMED_SECRET

NOW: Final = datetime(2026, 11, 21, 12, tzinfo=UTC)
QUERIES: Final = ("OAuth refresh token", "path:memory after:2026-01-01 the", "東京", '"a b" c', "")
_OPERATION: Final = 5
"""Bytes of one change of a file: three for the place, two for what is put there."""
_MOST_STATEMENTS: Final = 6
_IDENTITY: Final = ProviderIdentity("test", "model", 8, "0a")


@cache
def _state(release: str) -> State:
    return make_state(private_folder("files") / release, release)


def _damaged(data: bytes, given: Given, in_pages: bool, is_cut: bool) -> bytes:
    """Return a file with other bytes at some places; `in_pages`: at the begin of pages, mostly."""
    body, made = given.body, bytearray(data)
    page = int.from_bytes(data[16:18], "big") or 4096
    for start in range(0, min(len(body), 40 * _OPERATION), _OPERATION):
        part = body[start : start + _OPERATION].ljust(_OPERATION, b"\0")
        place = int.from_bytes(part[:3], "big") % len(made)
        if in_pages:
            place = place // page * page + place % 24
        made[place : place + 1] = part[3:4]
        if part[4] & 3 == 0:
            made[place : place + 8] = bytes([part[4]]) * 8
    return bytes(made[: len(data) * given.number(256) // 256 if is_cut else len(data)])


@cache
def _columns(release: str) -> tuple[tuple[str, str], ...]:
    """Every column of every ordinary table of an index."""
    with closing(connect(_state(release).database)) as connection:
        names = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
        ).fetchall()
        return tuple(
            (str(name), str(column[1]))
            for (name,) in names
            for column in connection.execute(f"PRAGMA table_info({name})").fetchall()
        )


def _statements(release: str, body: bytes) -> list[str]:
    """SQL that puts values of other types into cells, or makes tables of another shape."""
    columns, values, shapes = _columns(release), listed("values"), listed("shapes")
    found = []
    for start in range(0, min(len(body), 4 * _MOST_STATEMENTS), 4):
        part = body[start : start + 4].ljust(4, b"\0")
        table, column = columns[(part[0] + 256 * (part[3] & 3)) % len(columns)]
        if part[1] % 5 == 0:
            shape = shapes[part[2] % len(shapes)]
            found.append(shape.format(table=f'"{table}"', column=f'"{column}"'))
            continue
        value = values[part[2] % len(values)]
        where = ("", " WHERE rowid % 2 = 0", " WHERE rowid = 1", " WHERE rowid > 10")[part[3] >> 6]
        found.append(f'UPDATE "{table}" SET "{column}" = {value}{where}')
    return found


def _edit(database: Path, statements: Sequence[str]) -> None:
    """Run what SQLite lets run."""
    with closing(connect(database)) as connection:
        connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 0)
        connection.execute("PRAGMA synchronous = OFF; PRAGMA foreign_keys = OFF").fetchall()
        # A statement over a view without an end would not end here either.
        connection.set_progress_handler(lambda: True, 2_000_000)
        for statement in statements:
            try:
                connection.execute(statement).fetchall()
            except apsw.Error:
                # Not every change fits every table; those that do are what is wanted.
                continue


def check_damaged(given: Given) -> None:
    """A file with other bytes, or cut, gives one line or what can be read of it."""
    release, in_pages = given.pick(RELEASES), bool(given.number(2))
    is_cut, query = given.number(6) == 0, given.pick(QUERIES)
    state = _state(release)
    _clean(state)
    state.database.write_bytes(_damaged(database_of(release), given, in_pages, is_cut))
    _use(state, query)


def check_odd_rows(given: Given) -> None:
    """Cells of any type and tables of any shape give one line or what can be read of them."""
    release, query = given.pick(RELEASES), given.pick(QUERIES)
    state = _state(release)
    _clean(state)
    state.database.write_bytes(database_of(release))
    _edit(state.database, _statements(release, given.body))
    _use(state, query)


def _clean(state: State) -> None:
    for suffix in ("-wal", "-shm", "-journal"):
        state.beside(suffix).unlink(missing_ok=True)


def _use(state: State, query: str) -> None:
    """Open an index, and ask everything of it that a screen or a command asks."""
    target = _told(state.target)
    if target is None:
        return
    vectors = GivenVectors(Path("given.json"), {}, np.full(DIMS, 0.0625))
    engine = _told(
        lambda: Engine.open_agent(target, now=lambda: NOW, env={}, vectors=vectors, examine=False)
    )
    if engine is None:
        return
    with engine:
        ranked = _told(lambda: engine.search.ask(query))
        _told(engine.index.refresh_status)
        _told(lambda: engine.browse.recent(5))
        for warning in engine.index.status().warnings:
            one_line(warning)
        _told(engine.browse.files)
        for hit in ranked.hits[:2] if ranked is not None else ():
            chunk = hit.chunk
            _told(lambda path=chunk.path: engine.index.files.source(path))  # type: ignore[misc]
            _told(lambda path=chunk.path: engine.browse.chunks_of(path))  # type: ignore[misc]
            _told(lambda name=chunk.id: engine.browse.chunk_record(name))  # type: ignore[misc]
            _told(lambda name=chunk.id: engine.browse.neighbours(name))  # type: ignore[misc]


T = TypeVar("T")


def _told(ask: Callable[[], T]) -> T | None:
    """What is answered; `None` where the answer is an error of one line for people."""
    try:
        return ask()
    except MemtuiError as error:
        one_line(str(error))
        return None


def one_line(text: str) -> None:
    assert "\n" not in text, "a message has two lines"
    assert HOSTILE.search(text) is None, "a message holds a control character"


@cache
def _cache_file() -> bytes:
    """The file of a cache with forty vectors."""
    path = private_folder("files") / "made.db"
    with closing(EmbeddingCache(path)) as made:
        vectors = clean_vectors(np.arange(320, dtype=np.float32).reshape(40, 8))
        made.put_many(_IDENTITY, {f"{number:064x}": row for number, row in enumerate(vectors)})
    return _in_one_file(path)


def _in_one_file(path: Path) -> bytes:
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        connection.execute("PRAGMA journal_mode = DELETE").fetchall()
    return path.read_bytes()


@cache
def _own() -> tuple[SmallMemory, Path, bytes]:
    """A memory, the file of its index, and what is in it."""
    memory = make_small_memory(private_folder("own"))
    path = next(memory.data.glob("*/index-*.db"))
    return memory, path, _in_one_file(path)


_OWN_QUERIES: Final = ("router config", "the VLAN of the switch", "京都", '"lotus tea"', "zebra")


@cache
def _own_answers() -> dict[str, list[str]]:
    memory, path, content = _own()
    path.write_bytes(content)
    with registered_hashed(), memory.open(write=False) as engine:
        return {one: [h.chunk.id for h in engine.search.ask(one).hits] for one in _OWN_QUERIES}


def check_own(given: Given) -> None:
    """A damaged index of memtui's own is told with its cure; whole by the deep look, it answers."""
    (memory, path, content), right = _own(), _own_answers()
    in_pages, is_cut, query = given.number(2), given.number(6) == 0, given.pick(_OWN_QUERIES)
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    path.write_bytes(_damaged(content, given, bool(in_pages), is_cut))
    with registered_hashed(), memory.open(write=False) as engine:
        for _ in range(2):
            try:
                ranked = engine.search.ask(query)
                states = ranked.pool.states.values()
                told = [one.detail for one in states if one.status == "failed"]
                # A leg that says that it was not asked is no other answer.
                is_whole = all(one.status == "ok" for one in states)
                is_right = not is_whole or [hit.chunk.id for hit in ranked.hits] == right[query]
            except MemtuiError as error:
                told, is_right = [str(error)], True
            for line in told:
                one_line(line)
                assert "memtui index" in line, f"no cure: {line}"
        _told(engine.index.refresh_status)
        _told(engine.browse.files)
        assert not told or engine.index.status().state == "error"
    folder = IndexFolder(path.parent)
    checks = database_checks(folder), deep_checks(folder, lambda line: None)
    looks = [look for one in checks for look in attempted("", one)]
    assert is_right or told or any(check.grade == "problem" for check in looks), "another list"


def check_cache(given: Given) -> None:
    """A damaged cache starts anew or gives what is whole; a vector from it is finite."""
    in_pages, is_cut = bool(given.number(2)), given.number(6) == 0
    folder = private_folder("files") / "cache"
    folder.mkdir(exist_ok=True)
    for file in folder.iterdir():
        file.unlink()
    path = folder / "cache.db"
    path.write_bytes(_damaged(_cache_file(), given, in_pages, is_cut))
    hashes = [f"{number:064x}" for number in range(40)]
    with closing(EmbeddingCache(path)) as held:
        for vector in (_told(lambda: held.get_many(_IDENTITY, hashes)) or {}).values():
            assert vector.shape == (8,)
            assert np.isfinite(vector).all()
        _told(lambda: held.put_many(_IDENTITY, {hashes[0]: np.ones(8, dtype=np.float32)}))
        _told(held.count)
        _told(lambda: held.trim(200, dict))
        if held.recovered:
            one_line(held.recovered)


def _ranges() -> list[bytes]:
    return [bytes(range(first, first + 40)) for first in (0, 40, 80, 120, 160, 200)]


@cache
def _folder() -> Path:
    place = private_folder("settings")
    for name in ("root", "state", "openclaw", "index"):
        (place / name).mkdir()
    return place


def check_settings_file(given: Given) -> None:
    """A file gives settings, warnings or problems of one line each."""
    place = _folder()
    user, project = place / "user.toml", place / "root" / ".memtui.toml"
    files = (user, project, place / "root" / "pyproject.toml")
    chosen = given.pick(files)
    for file in files:
        file.unlink(missing_ok=True)
    chosen.write_bytes(given.body)
    environment = {"MEMTUI_CONFIG": str(user)} if chosen is user else {}
    state = StateFolder(place / "state")
    root = place / "root"
    for problem in SettingsFiles(environment, root, state=state).read().problems:
        one_line(str(problem))
    try:
        loaded = SettingsFiles(env=environment, root=root, state=state).load()
    except SettingsProblems as problems:
        for problem in problems.problems:
            one_line(str(problem))
        return
    for warning in loaded.warnings:
        one_line(warning)
    for key, (origin, *_) in loaded.origins.items():
        assert isinstance(origin.place, str)
        assert key


_NEW_VALUES: Final[tuple[Any, ...]] = (7, 0.25, True, 'te"xt\n\x1b', [1, 2], "", REMOVED)
_PATHS: Final = (
    ("k",),
    ("ranking", "k"),
    ("ranking", "mmr", "lambda"),
    ("ui", "theme"),
    ("a", "b", "c"),
    ("new",),
    ("q.r", 'x"y'),
)


def check_edit(given: Given) -> None:
    """An edit changes its key and, but for one stretch of text, not a byte."""
    path, value, whole = given.pick(_PATHS), given.pick(_NEW_VALUES), bool(given.number(2))
    text = given.text()
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError):
        return
    if whole:
        _check_table(text)
        return
    try:
        after = edited(text, {path: value})
    except (CannotEdit, RecursionError):
        return
    if "\r\n" in text:
        text = text.replace("\r\n", "\n").replace("\n", "\r\n")
    found = tomllib.loads(after)
    wanted = None if value is REMOVED else tomllib.loads(f"x = {toml_value(value)}")["x"]
    assert _at(found, path) == wanted, "the key does not say what was asked for"
    if _at(document, path) == wanted:
        return
    start = _shared(text, after)
    end = _shared(text[start:][::-1], after[start:][::-1])
    assert start + end <= min(len(text), len(after))
    if value is not REMOVED and _at(document, path) is None:
        # But blanks: before the brace of an inline table, and empty lines at both ends.
        bare, added = "".join(text.split()), "".join(after.split())
        both = _shared(bare, added) + _shared(bare[::-1], added[::-1])
        assert both >= len(bare), "an addition took something out"
    elif value is not REMOVED:
        assert "\n" not in text[start : len(text) - end] or isinstance(
            _at(document, path), list | str
        ), "another value changed more than its line"


def _check_table(text: str) -> None:
    path = ("profiles", "fuzz")
    try:
        after = edited(text, {(*path, "k"): 3, (*path, "mmr", "lambda"): 0.5})
    except (CannotEdit, RecursionError):
        return
    assert tomllib.loads(after)["profiles"]["fuzz"] == {"k": 3, "mmr": {"lambda": 0.5}}
    again = edited(after, {path: REMOVED})
    # A blank line that was put before the table may stay, and those behind the last line may go;
    # of two kinds of line ends one is left.
    lines, expected = (
        [line.removesuffix("\r") for line in one.split("\n") if line.strip()]
        for one in (again, text)
    )
    assert lines == expected


def _at(table: Any, path: Sequence[str]) -> Any:
    for part in path:
        table = table.get(part) if isinstance(table, dict) else None
    return table


def _shared(one: str, other: str) -> int:
    """How many characters two texts begin with together."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle - 1)
    return low


def check_openclaw_config(given: Given) -> None:
    """Any file gives a configuration; what is wrong with it is told in lines without secrets."""
    place = _folder() / "openclaw"
    (place / "openclaw.json").write_bytes(given.body)
    (place / "other.json").write_bytes(
        b'{agents: {list: [{id: "x"}]}, $include: "./openclaw.json"}'
    )
    env = {"HOME": str(place), "OPENCLAW_STATE_DIR": str(place), "KEY_X": NAMED_SECRET}
    config = read_config(env, place)
    for problem in config.problems:
        one_line(problem)
        assert NAMED_SECRET not in problem, "a secret is told"
    # A path is where it says, whatever variable it names.
    defaults = replace(config.defaults, store_path="")
    assert NAMED_SECRET not in repr(defaults), "a secret is kept"
    assert config.agents
    for agent in config.agents:
        assert agent.name
        assert "\0" not in str(agent.workspace)
        assert NAMED_SECRET not in repr(to_settings(agent, given.pick(PROFILE_RELEASES))), (
            "a secret is converted"
        )
    (place / ".env").write_bytes(given.body)
    variables = own_variables(env, place)
    assert all(name and value for name, value in variables.items())
    (place / ".env").unlink()


def check_json_files(given: Given) -> None:
    """A damaged file of the program's own counts as empty, one that a person names is explained."""
    place, data = _folder(), given.body
    if given.number(8) == 0:
        packed = gzip.compress(data, 1)
        data = packed[: len(packed) - given.number(12)]
    file = place / "given.json"
    file.write_bytes(data)
    try:
        vectors = load_given(file)
    except SettingsError as error:
        one_line(str(error))
    else:
        for vector in vectors.by_query.values():
            assert vector.ndim == 1
    state = StateFolder(place / "state")
    for name in (history_name("w"), TRUST_FILE):
        (state.path / name).write_bytes(data)
    assert all(isinstance(query, str) for query in queries_in(state, "w"))
    trust(ConfigFile(place / "none.toml"), state, revoke=True)
    (place / "provider.json").write_bytes(data)
    noted = read_marker(place)
    assert noted is None or HOSTILE.search(noted.detail) is None
    (place / "batches.json").write_bytes(data)
    BatchStore(place / "batches.json").under_way(("host", "openai", "model", "0a"), 0.0)
    folder = IndexFolder(place / "index")
    folder.owner_path.write_bytes(data)
    folder.current_path.write_bytes(data)
    folder.current()
    WriterLock(folder).refusal()


def _settings() -> list[bytes]:
    """Every key, the sample configuration, and files with every shape of TOML."""
    keys = sorted(key for key in leaves() if key and not any(sign in key for sign in "<*"))
    lines = "".join(f"{key} = 1\n" for key in keys)
    return [*map(bytes_of, (sample_config(), lines)), *seeds("settings")]


_KEYS: Final = (*map(bytes_of, [*sorted(leaves()), *sorted(tables())]), *words("settings words"))
_JSON5: Final = partial(seeds, "configurations")
_PLACES: Final = words("places")

TARGETS: Final = (
    Target("settings", check_settings_file, _settings, _KEYS, runs=15_000, share=120),
    Target("toml edit", check_edit, _settings, _KEYS, runs=150_000),
    Target(
        "json5", check_openclaw_config, _JSON5, words("configuration words"), runs=8_000, share=60
    ),
    Target(
        "json files",
        check_json_files,
        partial(words, "documents"),
        words("document words"),
        runs=8_000,
        share=60,
    ),
    Target("damaged index", check_damaged, _ranges, _PLACES, runs=2_500, share=5),
    Target("odd rows", check_odd_rows, _ranges, _PLACES, runs=2_500, share=4),
    Target("own index", check_own, _ranges, _PLACES, runs=2_500, share=8),
    Target("cache", check_cache, _ranges, _PLACES, runs=2_500, share=25),
)

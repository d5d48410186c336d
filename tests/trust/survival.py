"""Whether an index folder survived: opened, checked, completed by one sync, left clean.

What is promised, whatever was going on: no damage in any database; an index that was live is still
there, and one that is replaced is the old one or the new one; the lock is free; one sync makes of
it what a fresh index of the same notes is; no file is left over; every vector that the cache said
it has taken is there, and no text is embedded that has one. A loss of power may undo the last
transactions of the index, none of the cache.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from memtui.embedding.provider import ProviderIdentity, identity_of
from memtui.errors import MemtuiError
from memtui.index.database import Connection, DatabaseError, open_database
from memtui.index.generations import IndexFolder, WriterLock
from memtui.index.reader import LiveIndex
from memtui.index.schema import read_meta
from tests.support.indexing import Contents, Workspace
from tests.trust.kill_scenes import Ground, Scene, run_indexer

_MAY_LIE_AROUND = re.compile(
    r"CURRENT(\.tmp)?|cache\.db(-wal|-shm|-journal)?|writer\.(lock|json|json\.tmp)|"
    r"index-\d+\.db(\.building)?(-wal|-shm|-journal)?"
)
# A reader that closes last may not remove the log of the live index, which is empty then.
_LEFT = re.compile(r"CURRENT|cache\.db|writer\.lock|index-\d+\.db(-wal|-shm)?")

Digest = tuple[frozenset[tuple[object, ...]], tuple[tuple[str, str], ...]]


@dataclass(frozen=True, slots=True)
class Expected:
    """What a scene's folder is to hold afterwards, and what it held before."""

    contents: Contents
    meta: dict[str, str]
    whole: Digest
    before: Digest | None
    live: frozenset[str]
    """Text hashes of all chunks: their vectors are never lost once they were stored."""
    cached: frozenset[str]
    """Text hashes in the cache before."""


@dataclass(frozen=True, slots=True)
class Found:
    """What was seen in a folder that was left behind."""

    wrong: tuple[str, ...]
    cached: int = 0
    """Vectors that were found in the cache."""
    embedded: int = 0
    """Texts that the sync afterwards had to embed."""


def expected(scene: Scene, ground: Ground) -> Expected:
    """Index the notes afresh, and look at what there is before."""
    fresh = ground.place / "fresh"
    with closing(ground.workspace(fresh)) as workspace:
        run_indexer(workspace)
        contents = workspace.contents()
        whole = _digest(workspace.folder)
        meta = _meta(workspace.folder)
        assert whole is not None
    with closing(ground.workspace(ground.start)) as workspace:
        cached = _cached(workspace)
        before = _digest(workspace.folder)
    return Expected(contents, meta, whole, before, frozenset(_hashes(contents)), frozenset(cached))


def look(
    scene: Scene,
    ground: Ground,
    data: Path,
    wanted: Expected,
    acknowledged: Iterable[str],
    *,
    after_power_loss: bool = False,
) -> Found:
    """Check everything that is promised about the folder `data`."""
    wrong: list[str] = []
    note = wrong.append
    try:
        _look_around(data, note)
        with closing(ground.workspace(data)) as workspace:
            _look_at_live(scene, workspace.folder, wanted, note, power=after_power_loss)
            cached = _cached(workspace)
            _look_at_cache(scene, cached, wanted, set(acknowledged), note)
            missing = wanted.live - cached
            if after_power_loss:
                # What the cache lost may still be in the index, which is not embedded again.
                missing -= _embedded(workspace)
            run_indexer(workspace)
            embedded = workspace.provider.texts
            if embedded != len(missing):
                note(f"{embedded} texts were embedded, not the {len(missing)} without a vector")
            _compare(workspace, wanted, note)
            if workspace.cache.recovered:
                note(workspace.cache.recovered)
        _look_at_the_end(data, note)
    except (MemtuiError, DatabaseError, OSError, AssertionError, KeyError) as error:
        note(f"{type(error).__name__}: {error}")
        return Found(tuple(wrong))
    return Found(tuple(wrong), len(cached), embedded)


def _look_around(data: Path, note: Callable[[str], None]) -> None:
    for path in data.iterdir():
        if not _MAY_LIE_AROUND.fullmatch(path.name):
            note(f"a stray file: {path.name}")
    if WriterLock(IndexFolder(data)).owner() is not None:
        note("the lock is not free")


def _look_at_live(
    scene: Scene,
    folder: IndexFolder,
    wanted: Expected,
    note: Callable[[str], None],
    *,
    power: bool,
) -> None:
    for path in (folder.cache_path, *_live_path(folder)):
        if path.exists():
            with closing(open_database(path)) as connection:
                for line in check_connection(connection):
                    note(f"{path.name}: {line}")
    found = _digest(folder)
    if found is None and wanted.before is not None:
        note("there is no live index any more")
    # A sync that follows a rebuild may have begun already: it changes nothing of the digest.
    if scene.swaps and found not in (wanted.before, wanted.whole):
        note("the live index is neither the old one nor the new one")


def _look_at_cache(
    scene: Scene,
    cached: set[str],
    wanted: Expected,
    acknowledged: set[str],
    note: Callable[[str], None],
) -> None:
    if lost := len(acknowledged - cached):
        note(f"{lost} of {len(acknowledged)} acknowledged vectors are gone")
    kept = wanted.cached & wanted.live if scene.evicts else wanted.cached
    if lost := len(kept - cached):
        note(f"{lost} of {len(kept)} vectors of before are gone")


def _compare(workspace: Workspace, wanted: Expected, note: Callable[[str], None]) -> None:
    contents = workspace.contents()
    for name in Contents.__slots__:
        if getattr(contents, name) != getattr(wanted.contents, name):
            note(f"after one sync the {name} differ from those of a fresh index")
    if _meta(workspace.folder) != wanted.meta:
        note("after one sync the index says something else about itself")


def _look_at_the_end(data: Path, note: Callable[[str], None]) -> None:
    names = sorted(path.name for path in data.iterdir())
    for name in names:
        if not _LEFT.fullmatch(name):
            note(f"left over: {name}")
        elif (data / name).stat().st_mode & 0o077:
            note(f"readable for others: {name}")
        elif name.endswith("-wal") and (data / name).stat().st_size:
            note(f"not empty: {name}")
    if len({name.split(".")[0] for name in names if name.startswith("index-")}) != 1:
        note(f"not one generation: {', '.join(names)}")


def check_connection(connection: Connection) -> list[str]:
    """Look for damage in a database, and in its full-text index when there is one."""
    wrong = [str(row[0]) for row in connection.execute("PRAGMA quick_check").fetchall()]
    wrong += [str(row) for row in connection.execute("PRAGMA foreign_key_check").fetchall()]
    tables = connection.execute("SELECT name FROM sqlite_master").fetchall()
    if ("chunks_fts",) in tables:
        connection.execute("INSERT INTO chunks_fts(chunks_fts) VALUES('integrity-check')")
    return [line for line in wrong if line != "ok"]


def _live_path(folder: IndexFolder) -> list[Path]:
    generation = folder.current()
    return [] if generation is None else [folder.path(generation)]


def _digest(folder: IndexFolder) -> Digest | None:
    """What a reader sees of the live index: its chunks, and by whom the vectors are."""
    if folder.current() is None:
        return None
    with closing(LiveIndex(folder)) as live:
        connection = live.connection()
        rows = connection.execute("SELECT chunk_id, text, hash, embedded FROM chunks").fetchall()
        meta = read_meta(connection)
    names = ("schema_version", "provider", "model", "fingerprint")
    return frozenset(rows), tuple((name, meta[name]) for name in names)


def _meta(folder: IndexFolder) -> dict[str, str]:
    with closing(LiveIndex(folder)) as live:
        return read_meta(live.connection())


def _hashes(contents: Contents) -> set[str]:
    return {str(chunk[4]) for chunk in contents.chunks.values()}


def _cached(workspace: Workspace) -> set[str]:
    """The hashes of all usable vectors of the usual model."""
    identity: ProviderIdentity = identity_of(workspace.provider)
    path = workspace.folder.cache_path
    with closing(open_database(path)) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master").fetchall()
        if ("embedding_cache",) not in tables:
            return set()
        rows = connection.execute("SELECT text_hash FROM embedding_cache").fetchall()
    return set(workspace.cache.get_many(identity, [str(row[0]) for row in rows]))


def _embedded(workspace: Workspace) -> set[str]:
    """The hashes of the chunks whose vectors the live index holds, where a sync keeps it."""
    assert workspace.recipe is not None
    if workspace.folder.current() is None:
        return set()
    with closing(LiveIndex(workspace.folder)) as live:
        connection = live.connection()
        if not workspace.recipe.matches(read_meta(connection)):
            return set()
        rows = connection.execute("SELECT hash FROM chunks WHERE embedded = 1").fetchall()
    return {str(row[0]) for row in rows}

"""SIGKILL and loss of power in sync, rebuild, swap, cache write and migration; what is left then.

A child of a clean process does what the scene says. Of the kills every second one comes at a random
time, the others before a random change of a file or in the middle of one, so that short but
delicate parts are met as often as long ones. For a loss of power the scene is done once while
everything that it does to its files is written down; then the log is played back up to a random
instant, and what was not synced by then is lost in part.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import cycle, groupby
from multiprocessing import get_context
from pathlib import Path
from statistics import median

from msgspec.structs import replace

from memtui.errors import MemtuiError
from memtui.index.database import DatabaseError, open_database, read_meta
from memtui.index.generations import IndexFolder, LiveIndex, WriterLock
from tests.support.indexing import Contents, Workspace
from tests.support.interrupted import run_forked
from tests.trials.crash_scenes import SCENES, AcknowledgingCache, Ground, Scene, run_indexer
from tests.trials.file_changes import (
    Acknowledged,
    Change,
    Disk,
    Entry,
    Kind,
    Perform,
    Recorder,
    observe,
)
from tests.trials.frame import Case, Fact, Options

PAGE = 4096
"""A killed write ends between pages of the system's cache of files."""
_RUNS = 300
_MEASURED = 3
_TRIES = 5
"""A run by time may end before its kill: so many tries for each kill that is asked for."""
_LATEST = 0.98
_AGAIN = 0.25
"""How often the next attempt is killed as well before anybody looks."""
get_context("forkserver").set_forkserver_preload([__name__])

_MAY_LIE_AROUND = re.compile(
    r"CURRENT|cache\.db(-wal|-shm|-journal)?|writer\.(lock|json)|\.memtui-[0-9a-f]+|"
    r"index-\d+\.db(\.building)?(-wal|-shm|-journal)?"
)
# A reader that closes last may not remove the log of the live index, which is empty then.
_LEFT = re.compile(r"CURRENT|cache\.db|writer\.lock|index-\d+\.db(-wal|-shm)?")

Digest = tuple[frozenset[tuple[object, ...]], tuple[str, ...]]
"""The chunks of an index, and by whom its vectors are."""


class Killer:
    """Ends this process before the change of a file whose turn it is, or in the middle of it."""

    def __init__(self, instant: int) -> None:
        self.instants = 0
        self._instant = instant

    def around(self, change: Change, perform: Perform) -> None:
        """Count an instant before the change, and one in it when a part of it could remain."""
        self._pass()
        if change.kind is Kind.WRITE and len(change.data) > PAGE:
            if self.instants == self._instant:
                half = len(change.data) // PAGE // 2 * PAGE
                perform(replace(change, data=change.data[:half]))
            self._pass()
        perform(change)

    def _pass(self) -> None:
        if self.instants == self._instant:
            os.kill(os.getpid(), signal.SIGKILL)
        self.instants += 1


@dataclass(frozen=True, slots=True)
class Ended:
    """What became of a child."""

    killed: bool = False
    seconds: float = 0.0
    instants: int = 0
    entries: Sequence[Entry] = ()


def _act(scene: str, ground: Ground, instant: int | None, is_recorded: bool) -> Ended:
    """Do what a scene says."""
    killer, recorder = Killer(-1 if instant is None else instant), Recorder()
    workspace = ground.workspace(ground.data)
    told = recorder.acknowledge
    if is_recorded:
        observe(str(ground.data), recorder.around)
    else:
        flags = os.O_CREAT | os.O_APPEND | os.O_WRONLY
        told = partial(_write_down, os.open(ground.acknowledged, flags, 0o600))
    if instant is not None:
        observe(str(ground.data), killer.around)
    workspace.cache = AcknowledgingCache(workspace.folder.cache_path, told)
    began = time.monotonic()
    SCENES[scene].act(workspace)
    seconds = time.monotonic() - began
    workspace.close()
    return Ended(False, seconds, killer.instants, recorder.entries)


def _write_down(descriptor: int, hashes: list[str]) -> None:
    os.write(descriptor, "".join(f"{name}\n" for name in hashes).encode())


def run_child(
    scene: Scene,
    ground: Ground,
    *,
    seconds: float | None = None,
    instant: int | None = None,
    is_recorded: bool = False,
) -> Ended:
    """Play a scene in a process of its own, killed after `seconds` or before its n-th change."""
    ended, code = run_forked(_act, scene.name, ground, instant, is_recorded, seconds=seconds)
    assert code in (0, -signal.SIGKILL), f"{scene.name} ended with {code}"
    return ended or Ended(killed=True)


@dataclass(frozen=True, slots=True)
class Expected:
    """What a scene's folder is to hold afterwards, and what it held before."""

    contents: Contents
    meta: dict[str, str]
    whole: Digest | None
    before: Digest | None
    cached: frozenset[str]
    """Text hashes in the cache before."""

    @property
    def live(self) -> frozenset[str]:
        """Text hashes of all chunks: their vectors are never lost once they were stored."""
        return frozenset(str(chunk[4]) for chunk in self.contents.chunks.values())


def expected(ground: Ground) -> Expected:
    """Index the scene's notes and conversations anew, and look at what is there before."""
    with closing(ground.workspace(ground.place / "fresh")) as fresh:
        run_indexer(fresh)
        contents, whole = fresh.contents(), _digest(fresh.folder)
        with closing(LiveIndex(fresh.folder)) as live:
            meta = read_meta(live.connection())
    with closing(ground.workspace(ground.start)) as workspace:
        before, cached = _digest(workspace.folder), frozenset(_cached(workspace))
    return Expected(contents, meta, whole, before, cached)


def broken_promises(
    scene: Scene, ground: Ground, wanted: Expected, acknowledged: set[str], *, power: bool
) -> tuple[list[str], int]:
    """Check the folder that a crash left, and what one more sync makes of it.

    Returns what is wrong, and how many texts that sync embedded.
    """
    wrong: list[str] = []
    data, embedded = ground.data, 0
    try:
        for path in data.iterdir():
            if not _MAY_LIE_AROUND.fullmatch(path.name):
                wrong.append(f"a stray file: {path.name}")
        if WriterLock(IndexFolder(data)).writer() != "none":
            wrong.append("the lock is not free")
        with closing(ground.workspace(data)) as workspace:
            folder = workspace.folder
            generation = folder.current()
            live = [] if generation is None else [folder.path(generation)]
            for path in filter(Path.exists, (folder.cache_path, *live)):
                wrong += [f"{path.name}: {line}" for line in check_database(path)]
            digest = _digest(folder)
            if digest is None and wanted.before is not None:
                wrong.append("there is no live index any more")
            # A sync that follows a rebuild may have begun already: it changes nothing of these.
            if scene.swaps and digest not in (wanted.before, wanted.whole):
                wrong.append("the live index is neither the old one nor the new one")
            cached = _cached(workspace)
            before = wanted.cached & wanted.live if scene.evicts else wanted.cached
            for name, vectors in (("acknowledged vectors", acknowledged), ("old vectors", before)):
                if lost := len(vectors - cached):
                    wrong.append(f"{lost} of {len(vectors)} {name} are gone")
            missing = wanted.live - cached
            if power:
                # What the cache lost may still be in the index, which is not embedded again.
                missing -= _embedded(workspace)
            run_indexer(workspace)
            embedded = workspace.provider.texts
            if embedded != len(missing):
                wrong.append(f"{embedded} texts embedded, {len(missing)} had no vector")
            contents = workspace.contents()
            for name in Contents.__slots__:
                if getattr(contents, name) != getattr(wanted.contents, name):
                    wrong.append(f"after one sync the {name} differ from those of a fresh index")
            with closing(LiveIndex(folder)) as index:
                if read_meta(index.connection()) != wanted.meta:
                    wrong.append("after one sync the index says something else about itself")
            if workspace.cache.recovered:
                wrong.append(workspace.cache.recovered)
        names = sorted(path.name for path in data.iterdir())
        for name in names:
            if not _LEFT.fullmatch(name):
                wrong.append(f"left over: {name}")
            elif (data / name).stat().st_mode & 0o077:
                wrong.append(f"readable for others: {name}")
            elif name.endswith("-wal") and (data / name).stat().st_size:
                wrong.append(f"not empty: {name}")
        if len({name.split(".")[0] for name in names if name.startswith("index-")}) != 1:
            wrong.append(f"not one generation: {', '.join(names)}")
    except (MemtuiError, DatabaseError, OSError, AssertionError, KeyError) as error:
        wrong.append(f"{type(error).__name__}: {error}")
    return wrong, embedded


def check_database(path: Path) -> list[str]:
    """Look for damage in a database, and in its full-text index when there is one."""
    with closing(open_database(path)) as connection:
        wrong = [str(row[0]) for row in connection.execute("PRAGMA quick_check").fetchall()]
        wrong += [str(row) for row in connection.execute("PRAGMA foreign_key_check").fetchall()]
        tables = connection.execute("SELECT name FROM sqlite_master").fetchall()
        if ("chunks_fts",) in tables:
            connection.execute("INSERT INTO chunks_fts(chunks_fts) VALUES('integrity-check')")
    return [line for line in wrong if line != "ok"]


def _digest(folder: IndexFolder) -> Digest | None:
    if (generation := folder.current()) is None:
        return None
    # Also one of an early schema, which no search opens.
    with closing(open_database(folder.path(generation))) as connection:
        rows = connection.execute(
            "SELECT chunk_id, text, hash, passages, embedded FROM chunks"
        ).fetchall()
        meta = read_meta(connection)
    names = ("schema_version", "provider", "model", "fingerprint")
    return frozenset(rows), tuple(meta[name] for name in names)


def _cached(workspace: Workspace) -> set[str]:
    """The hashes of all usable vectors of the usual model."""
    with closing(open_database(workspace.folder.cache_path)) as connection:
        if not connection.execute(
            "SELECT 1 FROM sqlite_master WHERE name = 'embedding_cache'"
        ).fetchall():
            return set()
        rows = connection.execute("SELECT text_hash FROM embedding_cache").fetchall()
    hashes = [str(row[0]) for row in rows]
    return set(workspace.cache.get_many(workspace.provider.identity, hashes))


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


class Kill:
    """A scene that is ready to be killed in."""

    def __init__(self, scene: Scene, place: Path, *, measured: int = _MEASURED) -> None:
        self.scene, self.ground = scene, Ground(scene, place)
        self.wanted = expected(self.ground)
        lengths = []
        for _ in range(measured):
            self.ground.put_back()
            lengths.append(run_child(scene, self.ground).seconds)
        # What is not killed keeps its promises as well, or the kills would show nothing.
        acknowledged = set(self.ground.acknowledged.read_text(encoding="ascii").split())
        wrong, _ = broken_promises(scene, self.ground, self.wanted, acknowledged, power=False)
        assert not wrong, f"{scene.name}, not killed: {wrong}"
        self.ground.put_back()
        self.seconds = median(lengths)
        self.instants = run_child(scene, self.ground, instant=-1).instants

    def once(self, rng: random.Random, *, by_time: bool) -> tuple[list[str], dict[str, Fact]]:
        """Kill one child somewhere; what is wrong with what it left, and counts.

        No counts when the child ended before it was killed.
        """
        self.ground.put_back()
        killed, where = self._kill(rng, by_time=by_time)
        if not killed:
            return [], {}
        facts: dict[str, Fact] = {
            "at a random time": int(by_time),
            "around a change of a file": int(not by_time),
        }
        if not self.scene.once and rng.random() < _AGAIN:
            again, then = self._kill(rng, by_time=False)
            facts["killed twice"] = int(again)
            where += f", again {then}" if again else ""
        acknowledged = self.ground.acknowledged.read_text(encoding="ascii").split()
        wrong, embedded = broken_promises(
            self.scene, self.ground, self.wanted, set(acknowledged), power=False
        )
        facts |= {"vectors acknowledged": len(acknowledged), "embedded afterwards": embedded}
        return [f"{self.scene.name}, killed {where}: {line}" for line in wrong], facts

    def _kill(self, rng: random.Random, *, by_time: bool) -> tuple[bool, str]:
        if by_time:
            seconds = rng.uniform(0, self.seconds * _LATEST)
            where = f"after {seconds * 1000:.1f} ms"
            return run_child(self.scene, self.ground, seconds=seconds).killed, where
        instant = rng.randrange(self.instants)
        where = f"at instant {instant} of {self.instants}"
        return run_child(self.scene, self.ground, instant=instant).killed, where


class PowerLoss:
    """A scene with the log of what it does to the files."""

    def __init__(self, scene: Scene, place: Path) -> None:
        self.scene, self.ground = scene, Ground(scene, place)
        self.wanted = expected(self.ground)
        self.ground.put_back()
        self.entries = run_child(scene, self.ground, is_recorded=True).entries
        # Just before these most is at stake; every second loss comes then.
        turns = (Kind.SYNC, Kind.SYNC_FOLDER, Kind.RENAME, Kind.REMOVE)
        kinds = [one.kind if isinstance(one, Change) else None for one in self.entries]
        places = ([at for at, kind in enumerate(kinds) if kind is turn] for turn in turns)
        self._turns = [found for found in places if found]

    def once(self, rng: random.Random) -> tuple[list[str], dict[str, Fact]]:
        """Play the log back to some instant and lose some of it; what is wrong with the rest."""
        at = rng.randint(0, len(self.entries))
        if self._turns and rng.random() < 0.5:
            at = rng.choice(rng.choice(self._turns))
        data = self.ground.data
        shutil.rmtree(data, ignore_errors=True)
        data.mkdir(mode=0o700)
        disk, acknowledged = Disk(self.ground.start), set[str]()
        for entry in self.entries[:at]:
            if isinstance(entry, Acknowledged):
                acknowledged.update(entry.hashes)
            else:
                disk.apply(entry)
        luck = rng.randrange(2**32)
        disk.lose_power(data, random.Random(luck))
        wrong, embedded = broken_promises(
            self.scene, self.ground, self.wanted, acknowledged, power=True
        )
        where = f"power lost after {at} of {len(self.entries)} entries (luck {luck})"
        facts: dict[str, Fact] = {
            "vectors acknowledged": len(acknowledged),
            "embedded afterwards": embedded,
        }
        return [f"{self.scene.name}, {where}: {line}" for line in wrong], facts


def kill(options: Options) -> Iterator[Case]:
    """Kill each operation as often as was asked for."""
    rng, runs = random.Random(options.seed), options.runs or _RUNS
    for operation, scenes in groupby(SCENES.values(), lambda scene: scene.operation):
        stages = [Kill(scene, options.place / scene.name) for scene in scenes]
        name, killed = f"kill: {operation}", 0
        for number, stage in zip(range(runs * _TRIES), cycle(stages), strict=False):
            wrong, facts = stage.once(rng, by_time=bool(number // len(stages) % 2))
            killed += bool(facts)
            yield Case(name, wrong, facts or {"ended before": 1}, tried=int(bool(facts)))
            if killed == runs:
                break
        else:
            yield Case(name, [f"only {killed} of {runs} were killed before they ended"], tried=0)


def lose_power(options: Options) -> Iterator[Case]:
    """Lose power in each operation as often as was asked for."""
    rng, runs = random.Random(options.seed), options.runs or _RUNS
    for operation, scenes in groupby(SCENES.values(), lambda scene: scene.operation):
        stages = [PowerLoss(scene, options.place / scene.name) for scene in scenes]
        for _, stage in zip(range(runs), cycle(stages), strict=False):
            yield Case(f"power loss: {operation}", *stage.once(rng))

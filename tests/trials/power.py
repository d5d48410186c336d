"""Loss of power in sync, rebuild, swap, cache write and migration, and what is left then.

Each operation is done once while everything that it does to its files is written down. Then the
log is played back up to a random instant, and what was not synced by then is lost in part.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.trials.kill import Nursery
from tests.trials.kill_child import Order
from tests.trials.kill_scenes import SCENES, Ground, Scene
from tests.trials.power_log import Acknowledged, Disk, Entry, load
from tests.trials.report import Options, Outcome
from tests.trials.survival import Expected, Kind, expected, look

RUNS = 300
# Just before these most is at stake; every second loss comes then.
_TURNS = frozenset({Kind.SYNC, Kind.SYNC_FOLDER, Kind.RENAME, Kind.REMOVE})


@dataclass(frozen=True, slots=True)
class Recorded:
    """A scene with the log of what it does to the files."""

    scene: Scene
    ground: Ground
    wanted: Expected
    entries: list[Entry]
    turns: dict[Kind, list[int]]
    """The places in the log of syncs, renamings and removals."""


@dataclass(slots=True)
class _Tally:
    acknowledged: int = 0
    embedded: int = 0


def run(options: Options) -> Iterator[Outcome]:
    """Lose power in each operation as often as was asked for."""
    rng = random.Random(options.seed)
    runs = options.runs or RUNS
    with Nursery() as nursery:
        for operation in dict.fromkeys(scene.operation for scene in SCENES):
            scenes = [scene for scene in SCENES if scene.operation == operation]
            logs = [write_down(nursery, scene, options.place / scene.name) for scene in scenes]
            yield _lost(operation, logs, runs, rng, options.seed)


def write_down(nursery: Nursery, scene: Scene, place: Path) -> Recorded:
    """Make the scene's folder, do once what the scene does, and keep the log."""
    place.mkdir(parents=True)
    ground = Ground(place)
    scene.prepare(ground)
    wanted = expected(scene, ground)
    data = place / "data"
    shutil.copytree(ground.start, data)
    log = place / "log"
    nursery.run(Order(scene.name, str(place), str(data), log=str(log)))
    entries = load(log)
    turns: dict[Kind, list[int]] = {}
    for at, one in enumerate(entries):
        if not isinstance(one, Acknowledged) and one.kind in _TURNS:
            turns.setdefault(one.kind, []).append(at)
    return Recorded(scene, ground, wanted, entries, turns)


def _lost(
    operation: str, logs: list[Recorded], runs: int, rng: random.Random, seed: int
) -> Outcome:
    began = time.monotonic()
    tally = _Tally()
    failed: list[str] = []
    for number in range(runs):
        failed += lose_power_once(logs[number % len(logs)], rng, tally)
    facts: dict[str, float | int | str] = {
        "vectors acknowledged": tally.acknowledged,
        "texts embedded afterwards": tally.embedded,
        "minutes": round((time.monotonic() - began) / 60, 1),
    }
    for log in logs:
        turns = sum(len(places) for places in log.turns.values())
        facts[log.scene.name] = f"{len(log.entries)} entries, {turns} syncs and renamings"
    repeat = f"python -m tests.trials power --runs {runs} --seed {seed}"
    return Outcome(f"power loss: {operation}", runs, tuple(failed), facts, repeat)


def lose_power_once(log: Recorded, rng: random.Random, tally: _Tally | None = None) -> list[str]:
    """Play the log back to some instant, lose some of it; what is wrong with what is left."""
    tally = tally or _Tally()
    at = rng.randint(0, len(log.entries))
    if log.turns and rng.random() < 0.5:
        at = rng.choice(log.turns[rng.choice(list(log.turns))])
    data = log.ground.place / "data"
    shutil.rmtree(data, ignore_errors=True)
    data.mkdir(mode=0o700)
    disk = Disk(log.ground.start)
    acknowledged: list[str] = []
    for entry in log.entries[:at]:
        if isinstance(entry, Acknowledged):
            acknowledged += entry.hashes
        else:
            disk.apply(entry)
    luck = rng.randrange(2**32)
    disk.lose_power(data, random.Random(luck))
    found = look(log.scene, log.ground, data, log.wanted, acknowledged, after_power_loss=True)
    tally.acknowledged += len(acknowledged)
    tally.embedded += found.embedded
    where = f"{log.scene.name}, power lost after {at} of {len(log.entries)} entries (luck {luck})"
    return [f"{where}: {line}" for line in found.wrong]

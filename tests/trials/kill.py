"""Kill matrix: SIGKILL in sync, rebuild, swap, cache write and migration, and what is left then.

Every second kill comes at a random time of the operation, the others before a random change of a
file or in the middle of one, so that short but delicate parts are met as often as long ones.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from types import TracebackType

from tests.trials.kill_child import Answer, Order, acknowledged_path
from tests.trials.kill_scenes import SCENES, Ground, Scene
from tests.trials.report import Options, Outcome
from tests.trials.survival import Expected, expected, look

RUNS = 300
_MEASURED = 3
# A run by time may end before its kill: so many tries for each kill that is asked for.
_TRIES = 5
_LATEST = 0.98
# How often the next attempt is killed as well before anybody looks.
_AGAIN = 0.25


class Nursery:
    """The process that forks children; ended when the block is left."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.trials.kill_child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, order: Order) -> Answer:
        """Let a child do what is ordered."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(asdict(order)), file=self._process.stdin, flush=True)
        answer = Answer(**json.loads(self._process.stdout.readline()))
        if answer.error:
            raise RuntimeError(f"{order}: {answer.error}")
        return answer

    def __enter__(self) -> Nursery:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()


@dataclass(frozen=True, slots=True)
class Stage:
    """A scene that is ready to be killed in."""

    scene: Scene
    ground: Ground
    wanted: Expected
    seconds: float
    """How long it takes unhindered."""
    instants: int
    """At how many instants around changes of files it can be killed."""


@dataclass(slots=True)
class Tally:
    """What the kills of an operation came to."""

    killed: int = 0
    by_time: int = 0
    early: int = 0
    twice: int = 0
    acknowledged: int = 0
    embedded: int = 0


def run(options: Options) -> Iterator[Outcome]:
    """Kill each operation as often as was asked for."""
    rng = random.Random(options.seed)
    runs = options.runs or RUNS
    with Nursery() as nursery:
        for operation in dict.fromkeys(scene.operation for scene in SCENES):
            scenes = [scene for scene in SCENES if scene.operation == operation]
            stages = [set_up(nursery, scene, options.place / scene.name) for scene in scenes]
            yield _killed(nursery, operation, stages, runs, rng, options.seed)


def set_up(nursery: Nursery, scene: Scene, place: Path, *, measured: int = _MEASURED) -> Stage:
    """Make the scene's folder and measure how long it takes and how many changes it makes."""
    place.mkdir(parents=True)
    ground = Ground(place)
    scene.prepare(ground)
    wanted = expected(scene, ground)
    lengths = []
    for _ in range(measured):
        _as_before(ground)
        lengths.append(nursery.run(_order(scene, ground)).seconds)
    _as_before(ground)
    watched = nursery.run(_order(scene, ground, instant=-1))
    return Stage(scene, ground, wanted, median(lengths), watched.instants)


def _killed(
    nursery: Nursery,
    operation: str,
    stages: list[Stage],
    runs: int,
    rng: random.Random,
    seed: int,
) -> Outcome:
    began = time.monotonic()
    tally = Tally()
    failed: list[str] = []
    for number in range(runs * _TRIES):
        if tally.killed >= runs:
            break
        stage = stages[number % len(stages)]
        failed += kill_once(nursery, stage, rng, tally, by_time=bool(number // len(stages) % 2))
    if tally.killed < runs:
        failed.append(f"only {tally.killed} of {runs} were killed before they ended")
    facts: dict[str, float | int | str] = {
        "at a random time": tally.by_time,
        "around a change of a file": tally.killed - tally.by_time,
        "killed twice": tally.twice,
        "ended before": tally.early,
        "vectors acknowledged": tally.acknowledged,
        "texts embedded afterwards": tally.embedded,
        "minutes": round((time.monotonic() - began) / 60, 1),
    }
    for stage in stages:
        facts[stage.scene.name] = f"{stage.seconds * 1000:.0f} ms, {stage.instants} instants"
    repeat = f"python -m tests.trials kill --runs {runs} --seed {seed}"
    return Outcome(f"kill: {operation}", tally.killed, tuple(failed), facts, repeat)


def kill_once(
    nursery: Nursery, stage: Stage, rng: random.Random, tally: Tally, *, by_time: bool
) -> list[str]:
    """Kill one child somewhere in the scene; what is wrong with what it left."""
    data = _as_before(stage.ground)
    order, where = _somewhere(stage, rng, by_time=by_time)
    if not nursery.run(order).killed:
        tally.early += 1
        return []
    if not stage.scene.once and rng.random() < _AGAIN:
        order, then = _somewhere(stage, rng, by_time=False)
        if nursery.run(order).killed:
            tally.twice += 1
            where += f", again {then}"
    acknowledged = acknowledged_path(data).read_text(encoding="ascii").split()
    found = look(stage.scene, stage.ground, data, stage.wanted, acknowledged)
    tally.killed += 1
    tally.by_time += by_time
    tally.acknowledged += len(acknowledged)
    tally.embedded += found.embedded
    return [f"{stage.scene.name}, killed {where}: {line}" for line in found.wrong]


def _somewhere(stage: Stage, rng: random.Random, *, by_time: bool) -> tuple[Order, str]:
    """An order to be killed at some instant, and which one, for people."""
    if by_time:
        seconds = rng.uniform(0, stage.seconds * _LATEST)
        return _order(stage.scene, stage.ground, seconds), f"after {seconds * 1000:.1f} ms"
    instant = rng.randrange(stage.instants)
    where = f"at instant {instant} of {stage.instants}"
    return _order(stage.scene, stage.ground, instant=instant), where


def _as_before(ground: Ground) -> Path:
    """Put the folder that is worked on back as it was before."""
    data = ground.place / "data"
    shutil.rmtree(data, ignore_errors=True)
    shutil.copytree(ground.start, data)
    acknowledged_path(data).unlink(missing_ok=True)
    return data


def _order(
    scene: Scene, ground: Ground, seconds: float | None = None, instant: int | None = None
) -> Order:
    return Order(scene.name, str(ground.place), str(ground.place / "data"), seconds, instant)

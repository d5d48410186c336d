"""Faults of disks, files, events and clocks: named on screen, nothing lost, no restart needed.

Each fault is real, made in namespaces of the trial's own: small file systems that are filled,
made read-only or unmounted, permissions that bind (the right to pass over them is given up),
limits of the kernel. Only the clock is handed in, because moving it would move everybody's.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

from tests.trials.faults_scenes import CLOCK_SCENES, FILES_SCENES, STORAGE_SCENES, WATCHING_SCENES
from tests.trials.faults_stage import Scene, play
from tests.trials.frame import Case, Options

_NAMESPACES = ("unshare", "--user", "--map-root-user", "--mount", "--propagation", "private")
_RIGHTS = "-dac_override,-dac_read_search"
_SHOWN = 2000


def run(options: Options) -> Iterator[Case]:
    """Play every fault once; raises RuntimeError where the system has no namespaces for users."""
    if shutil.which("unshare") is None or shutil.which("setpriv") is None:
        raise RuntimeError("faults are made in namespaces: this takes unshare and setpriv")
    command = (
        *_NAMESPACES,
        *("setpriv", "--bounding-set", _RIGHTS, "--inh-caps", _RIGHTS, "--"),
        *(sys.executable, "-m", "tests.trials.faults", os.fspath(options.place)),
    )
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for line in child.stdout:
            yield _outcome(json.loads(line))
    if child.returncode:
        raise RuntimeError(f"the faults ended with {child.returncode}: {' '.join(command[:5])} …")


def _outcome(found: dict[str, object]) -> Case:
    wrong, facts = found["wrong"], found["facts"]
    assert isinstance(wrong, list)
    assert isinstance(facts, dict)
    shown = [str(line)[:_SHOWN] for line in wrong]
    return Case(f"faults, {found['name']}", shown, {**facts, "seconds": str(found["seconds"])})


SCENES: Sequence[Scene] = (*STORAGE_SCENES, *WATCHING_SCENES, *FILES_SCENES, *CLOCK_SCENES)
_TOGETHER = 3


def play_all(place: Path, names: Sequence[str]) -> None:
    """Play each fault in a process: every one, or those whose name has one of these words in it."""
    chosen = [scene for scene in SCENES if not names or any(name in scene.name for name in names)]
    context = get_context("forkserver")
    context.set_forkserver_preload(["tests.trials.faults_scenes"])
    for workers, alone in ((_TOGETHER, False), (1, True)):
        with ProcessPoolExecutor(workers, context, max_tasks_per_child=1) as pool:
            playing = {
                pool.submit(_play, scene.name, place / f"{SCENES.index(scene):02d}"): scene.name
                for scene in chosen
                if scene.alone is alone
            }
            for future in as_completed(playing):
                error = future.exception()
                answer = {"wrong": [f"{type(error).__name__}: {error}"], "facts": {}, "seconds": 0}
                if error is None:
                    answer = future.result()
                print(json.dumps({"name": playing[future], **answer}), flush=True)


def _play(name: str, folder: Path) -> dict[str, object]:
    scene = next(scene for scene in SCENES if scene.name == name)
    folder.mkdir()
    began = time.monotonic()
    stage = asyncio.run(play(scene, folder))
    seconds = round(time.monotonic() - began, 1)
    return {"wrong": stage.wrong, "facts": stage.facts, "seconds": seconds}


if __name__ == "__main__":
    play_all(Path(sys.argv[1]), sys.argv[2:])

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
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

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
_LONGEST = 300
_TOGETHER = 3
_ANSWER = "answer.json"


def play_all(place: Path, names: Sequence[str]) -> None:
    """Play each fault in a child of this process: every one, or those whose name has one of these words in it."""
    chosen = [scene for scene in SCENES if not names or any(name in scene.name for name in names)]
    running: dict[int, tuple[Scene, Path, float]] = {}
    for scene in sorted(chosen, key=lambda scene: scene.alone):
        while len(running) >= (1 if scene.alone else _TOGETHER):
            _ended(running)
        folder = place / f"{SCENES.index(scene):02d}"
        folder.mkdir()
        began = time.monotonic()
        child = os.fork()
        if not child:
            _child(scene, folder)
        running[child] = scene, folder, began
    while running:
        _ended(running)


def _ended(running: dict[int, tuple[Scene, Path, float]]) -> None:
    """Wait for one child and print what it found."""
    child, code = os.wait()
    scene, folder, began = running.pop(child)
    answer = folder / _ANSWER
    found: dict[str, object] = {"wrong": [], "facts": {}}
    if answer.exists():
        found = json.loads(answer.read_text(encoding="utf-8"))
    elif os.WIFSIGNALED(code):
        found["wrong"] = [f"the process was killed by {signal.Signals(os.WTERMSIG(code)).name}"]
    else:
        found["wrong"] = ["the process ended without an answer"]
    told = {"name": scene.name, "seconds": round(time.monotonic() - began, 1), **found}
    print(json.dumps(told), flush=True)


def _child(scene: Scene, folder: Path) -> NoReturn:
    signal.alarm(_LONGEST)
    try:
        stage = asyncio.run(play(scene, folder))
        found = {"wrong": stage.wrong, "facts": stage.facts}
    except BaseException as error:
        traceback.print_exc()
        found = {"wrong": [f"{type(error).__name__}: {error}"], "facts": {}}
    (folder / _ANSWER).write_text(json.dumps(found), encoding="utf-8")
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    play_all(Path(sys.argv[1]), sys.argv[2:])

"""A warm process, with mounts and limits of its own, that forks one child per fault.

Started by `tests.trust.faults` in a user and mount namespace and without the right to pass over
permissions; prints one line of JSON per fault.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from tests.trust.faults_scenes import CLOCK_SCENES, FILES_SCENES, STORAGE_SCENES, WATCHING_SCENES
from tests.trust.faults_stage import Scene, play

SCENES: Sequence[Scene] = (*STORAGE_SCENES, *WATCHING_SCENES, *FILES_SCENES, *CLOCK_SCENES)
_LONGEST = 300
_TOGETHER = 3
_ANSWER = "answer.json"


def main(place: Path, names: Sequence[str]) -> None:
    """Play every fault, or those whose name has one of these words in it."""
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
    main(Path(sys.argv[1]), sys.argv[2:])

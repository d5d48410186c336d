"""Processes that are run to their end, in an environment of their own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter

from tests.bench.measure import MILLISECONDS, Plan, Series

_REPETITIONS = 4


def environment(home: Path, **more: str) -> dict[str, str]:
    """An environment whose every folder is below `home`, with nothing of the user's settings.

    Modules are compiled once and kept, as where memtui is installed.
    """
    home.mkdir(parents=True, exist_ok=True)
    dropped = ("MEMTUI_", "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    folders = {
        f"XDG_{kind}_HOME": str(home / kind.lower())
        for kind in ("DATA", "CONFIG", "STATE", "CACHE")
    }
    return {**kept, **folders, "HOME": str(home), **more}


def runs_in_turns(
    plan: Plan, commands: Sequence[Sequence[str]], env: Mapping[str, str]
) -> list[Series]:
    """Run commands one after the other, again and again, after `plan.warm` turns uncounted."""
    series = [Series() for _ in commands]
    for number in range(plan.warm + _REPETITIONS * plan.rounds):
        for one, command in zip(series, commands, strict=True):
            took = run(command, env)
            if number >= plan.warm:
                one.add(*took)
    return series


def run(command: Sequence[str], env: Mapping[str, str]) -> tuple[float, float]:
    """Run a command to its end; wall and CPU time in ms. Raises `RuntimeError` when it fails."""
    began = perf_counter()
    process = subprocess.Popen(
        command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    wall = perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    return wall * MILLISECONDS, (usage.ru_utime + usage.ru_stime) * MILLISECONDS

"""Faults of file events: no more watches, no more instances, and far too many events."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from memtui.index.events import Change
from memtui.index.watcher import Watcher
from tests.trust.faults_stage import Scene, Stage
from tests.trust.faults_storage import mount

_LIMITS = Path("/proc/sys/user")
_MANY = 100_000
_FILES = 1_000
_ROUNDS = 34
_WRITER = f"""
import sys
for _ in range({_ROUNDS}):
    for number in range(int(sys.argv[2])):
        with open(f"{{sys.argv[1]}}/flood{{number}}.md", "wb") as file:
            file.write(b"# Flood\\n\\nA dunlin.\\n")
"""


@contextmanager
def _limited(name: str, most: int) -> Iterator[None]:
    """Let the users of this namespace have no more than so many."""
    path = _LIMITS / name
    before = path.read_text(encoding="ascii")
    path.write_text(str(most), encoding="ascii")
    try:
        yield
    finally:
        path.write_text(before, encoding="ascii")


async def _no_watches(stage: Stage) -> None:
    for number in range(20):
        stage.write(f"memory/room{number}/note.md", f"# Room {number}\n\nA wren.\n")
    with _limited("max_inotify_watches", 5):
        await _opened_again(stage)
        await stage.named("polling", "only 5 of", screen="4")
        stage.write("memory/more.md", "# More\n\nA siskin.\n")
        await stage.finds("siskin", "memory/more.md")
    await _watches_again(stage)


async def _no_instances(stage: Stage) -> None:
    with _limited("max_inotify_instances", 0):
        await _opened_again(stage)
        await stage.named("polling", "inotify", screen="4")
        stage.write("memory/more.md", "# More\n\nA siskin.\n")
        await stage.finds("siskin", "memory/more.md")
    await _watches_again(stage)


async def _opened_again(stage: Stage) -> None:
    """Take the folder away and put it back: it is watched anew, with the limit of now."""
    aside = stage.place / "aside"
    stage.root.rename(aside)
    await stage.until(lambda: "not there" in stage.status.watcher.detail, "a folder that is gone")
    aside.rename(stage.root)
    await stage.until(
        lambda: any(why in stage.status.watcher.detail for why in ("can be watched", "inotify")),
        "polling",
    )
    await stage.settled()


async def _watches_again(stage: Stage) -> None:
    await stage.until(lambda: stage.status.watcher.mode == "events", "events again")
    await stage.recovers()


async def _flood(stage: Stage) -> None:
    """100,000 different events handed to the watcher as fast as one thread hands them over."""
    watcher = _watcher_of(stage)
    folder = os.fspath(stage.root / "memory")

    def hand_over() -> None:
        for number in range(_MANY):
            watcher._arrived(Change(f"{folder}/{number}.md", False))

    seconds = await _while_drawing(stage, hand_over)
    stage.facts["events a second"] = f"{_MANY / seconds:,.0f}"
    await stage.recovers()


def _in_memory(stage: Stage) -> None:
    mount(stage.root, "size=64m")


async def _real_flood(stage: Stage) -> None:
    """1,000 files, each written often by another process: more than the kernel queues."""
    command = (sys.executable, "-c", _WRITER, os.fspath(stage.root / "memory"), str(_FILES))
    seconds = await _while_drawing(stage, partial(subprocess.run, command, check=True))
    # Each write opens or makes, writes and closes: three events.
    stage.facts["events a second"] = f"{_ROUNDS * _FILES * 3 / seconds:,.0f}"
    stage.write("memory/last.md", "# Last\n\nA siskin at last.\n")
    await stage.finds("siskin", "memory/last.md")
    await stage.recovers()


async def _while_drawing(stage: Stage, action: Callable[[], object]) -> float:
    """Run something on another thread while the interface answers; its seconds."""
    began = time.monotonic()
    task = asyncio.get_running_loop().run_in_executor(None, action)
    while not task.done():
        await stage.paused()
        stage.glimpse("waiting")
    await task
    await stage.until(lambda: stage.glimpse("waiting"), "changes that wait")
    return time.monotonic() - began


def _watcher_of(stage: Stage) -> Watcher:
    watcher = getattr(getattr(stage.app.search_screen.engine, "machine", None), "_watcher", None)
    assert isinstance(watcher, Watcher)
    return watcher


SCENES: Sequence[Scene] = (
    Scene("inotify: no watches left", _no_watches, alone=True),
    Scene("inotify: no instances left", _no_instances, alone=True),
    Scene("100,000 events at once", _flood, alone=True),
    Scene("100,000 events by real writes", _real_flood, prepare=_in_memory, alone=True),
)
"""Faults of events."""

"""How many functions and modules of memtui a key, a saved note and a command pass through.

`python -m tests.bench --only hops` prints the sums, `python -m tests.bench.hops JOURNEY` the functions.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any
from unittest.mock import patch

import memtui
from tests.bench.frame import Judged, Limit, Measurement, Plan, Series

CEILINGS = {
    "key": ("key to painted rows", 60, 25),
    "note": ("saved note to its chunks in the index", 60, 20),
    "command": ("`memtui search` to its last line", 130, 40),
    "rerank": ("`m` to the list drawn anew", 50, 15),
}
"""The most functions and modules of each journey."""
PACKAGE = f"{Path(memtui.__file__).parent}{os.sep}"
PREFIX = "memtui/"
SIZE = 80, 24  # room for the list of results alone
ROW = "memory/"  # what every row of the list shows
PATIENCE = 60.0


@dataclass(slots=True)
class Tracer:
    """Collects the functions of memtui that are called in any thread while it is on."""

    codes: set[CodeType] = field(default_factory=set)
    on: bool = False

    def called(self, frame: FrameType, event: str, argument: object) -> None:
        """Take note of a call; for `sys.setprofile` and `threading.setprofile`."""
        if self.on and event == "call":
            self.codes.add(frame.f_code)

    def stop(self, done: threading.Event | asyncio.Event) -> None:
        """End with the effect."""
        self.on = False
        done.set()

    def names(self) -> list[str]:
        """Name each function, without classes, comprehensions and lambdas."""
        return sorted(
            f"{PREFIX}{code.co_filename.removeprefix(PACKAGE)}:{code.co_qualname}"
            for code in self.codes
            if code.co_filename.startswith(PACKAGE)
            and code.co_flags & 1
            and not code.co_name.startswith("<")
        )


def measure_hops(plan: Plan) -> Iterator[Measurement]:
    """Trace each journey in a process of its own."""
    for journey, (name, most, most_modules) in CEILINGS.items():
        run = subprocess.run(
            [sys.executable, "-m", "tests.bench.hops", journey],
            capture_output=True, text=True, check=True, timeout=600,
        )  # fmt: skip
        names = [line for line in run.stdout.splitlines() if line.startswith(PREFIX)]
        modules = {name.partition(":")[0] for name in names}
        yield Measurement(
            name, Series([float(len(names))]), "functions",
            limit=Limit(most, Judged.P50),
            note=f"in {len(modules)} modules, at most {most_modules}",
        )  # fmt: skip


async def trace_command(tracer: Tracer, folder: Path) -> None:
    """From `main` to the end of a search that finds its index as it left it."""
    from memtui.__main__ import main

    for words in (["index"], ["search", "router config"]):
        words += ["--root", str(folder / "notes")]
        command = [sys.executable, "-m", "memtui", *words]
        subprocess.run(command, check=True, capture_output=True)
    sys.argv[1:] = words
    tracer.on = True
    with patch.object(os, "_exit", sys.exit), suppress(SystemExit):  # while a model is let go of
        main()


async def trace_key(tracer: Tracer, folder: Path) -> None:
    """From the key that ends a query to the first rows of its answer."""
    async with _running(tracer, folder) as run:
        await run.pilot.press(*"route")
        await run.trace("r", after_answer=True)


async def trace_rerank(tracer: Tracer, folder: Path) -> None:
    """From `m` to the rows in their other order."""
    async with _running(tracer, folder) as run:
        await run.pilot.press(*"router", "escape")
        await run.trace("m", after_answer=False)


async def trace_note(tracer: Tracer, folder: Path) -> None:
    """From a note that is written to its chunks in the index."""
    from memtui.bus import Bus, FileIndexed
    from memtui.engine.engine import Engine
    from memtui.settings.schema import Settings

    bus, done = Bus(), threading.Event()
    root = folder / "notes"
    with Engine.open(root, Settings(), bus=bus, data_dir=folder / "data", watch=True) as engine:
        engine.index.sync(wait=True)
        engine.wait_idle()

        bus.subscribe(FileIndexed, lambda event: tracer.stop(done))
        tracer.on = True
        (root / "memory" / "2026-02-19.md").write_text("# Thursday\n\nA new switch.\n", "utf-8")
        assert done.wait(PATIENCE)


@dataclass
class Running:
    """The application on a real engine, painting as on a terminal."""

    app: Any
    tracer: Tracer
    pilot: Any = None
    answers: list[bool] = field(default_factory=list)
    """Of each answer since the last act: whether both legs are in it."""
    paint: Callable[[str], None] = lambda data: None

    async def trace(self, key: str, *, after_answer: bool) -> None:
        """Trace from a key to the first rows that are written to the terminal."""
        from textual import events

        await self.pilot.pause(0.5)
        await self.app.workers.wait_for_complete()
        await self.pilot.pause(0.5)
        done = asyncio.Event()
        self.answers.clear()

        def paint(data: str) -> None:
            if ROW in data and (self.answers or not after_answer):
                self.tracer.stop(done)

        self.paint = paint
        self.tracer.on = True
        self.app.post_message(events.Key(key, key))
        await asyncio.wait_for(done.wait(), PATIENCE)


@asynccontextmanager
async def _running(tracer: Tracer, folder: Path) -> AsyncIterator[Running]:
    from textual.drivers.headless_driver import HeadlessDriver

    from memtui.bus import Bus, SearchReady
    from memtui.engine.engine import Engine
    from memtui.settings.schema import Settings
    from memtui.tui.app import MemtuiApp
    from memtui.tui.options import UiOptions

    def open_engine(bus: Bus) -> Engine:
        engine = Engine.open(folder / "notes", Settings(), bus=bus, data_dir=folder / "data")
        bus.subscribe(SearchReady, lambda event: run.answers.append(event.complete))
        engine.index.sync(wait=True)
        return engine

    run = Running(MemtuiApp(open_engine, UiOptions(is_provider_given=True)), tracer)
    # Lines are made for the terminal only where there seems to be one.
    with (
        patch.object(HeadlessDriver, "is_headless", False),
        patch.object(HeadlessDriver, "write", lambda driver, data: run.paint(data)),
    ):
        async with run.app.run_test(size=SIZE, notifications=False) as run.pilot:
            while run.app.search_screen.engine is None:
                await run.pilot.pause(0.1)
            yield run
    run.app.memories.close()


def main(journey: str) -> None:
    """Trace one journey in this process and print the functions."""
    from tests.support.small_memory import write_notes

    tracer = Tracer()
    with tempfile.TemporaryDirectory(prefix="memtui-hops-") as temporary:
        os.environ["HOME"] = temporary
        write_notes(Path(temporary) / "notes")
        threading.setprofile(tracer.called)
        sys.setprofile(tracer.called)
        asyncio.run(globals()[f"trace_{journey}"](tracer, Path(temporary)))
        sys.setprofile(None)
    print(*tracer.names(), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1])

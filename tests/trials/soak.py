"""What a process holds, sampled over time, and whether it grows."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import random
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context

import apsw
import numpy as np
from textual.dom import DOMNode
from textual.pilot import Pilot

from memtui.bus import Bus
from memtui.engine import Engine
from memtui.settings.schema import EmbeddingSettings, IndexSettings, Settings
from memtui.tui.app import MemtuiApp
from memtui.tui.screens.search.ranking_controller import MOST_CHANGES as MOST_UNDONE
from memtui.tui.screens.search.search_screen import PLACES
from memtui.tui.widgets.result_rows import SORTS
from tests.bench.frame import memory_of
from tests.trials.frame import Case, Options
from tests.trials.processes import Nests
from tests.tui.harness import dark, press, settle, until

LIMITS: Mapping[str, float] = {
    "bytes in use": 256.0,
    "small blocks": 3.0,
    "resident bytes": 1024.0,
    "open files": 0.001,
    "threads": 0.001,
    "connections": 0.001,
    "objects": 1.0,
    "widgets": 0.01,
}
"""By how much an event may make something grow before it counts as a leak, however sure it is.

256 bytes an event are 3.7 MB in two hours of the busy user; one file in a thousand events are
fourteen. A small block of Python has some 80 bytes.

What is resident holds the free parts of pages, too, and walks up and down by 3 MB as they are
shared out anew: runs of one engine, each with 20 ± 20 bytes more in use at most, had slopes of
14 ± 16 to 501 ± 58.
"""

_SURE = 3.0
"""By how many standard errors a slope has to be above zero."""


@dataclass
class Samples:
    """What the process held after so many events."""

    events: list[int] = field(default_factory=list)
    held: dict[str, list[float]] = field(default_factory=dict)

    def take(self, events: int) -> None:
        """Look at the process now."""
        # What only waits to be collected is not kept.
        gc.collect()
        _give_back()
        self.events.append(events)
        for name, value in _held().items():
            self.held.setdefault(name, []).append(value)

    def slope(self, name: str) -> tuple[float, float]:
        """Return the growth by event and its standard error, by least squares.

        The first half of the samples, which fills what is bounded, is left out.
        """
        half = len(self.events) // 2
        line, errors = np.polyfit(self.events[half:], self.held[name][half:], 1, cov=True)
        return float(line[0]), float(errors[0, 0] ** 0.5)

    def failures(self) -> tuple[str, ...]:
        """The quantities that grow beyond their noise and beyond the limit by event."""
        slopes = {name: self.slope(name) for name in self.held}
        return tuple(
            f"{name}: {slope:.4g} ± {error:.2g} per event, "
            f"from {self.held[name][0]:,.0f} to {self.held[name][-1]:,.0f}"
            for name, (slope, error) in slopes.items()
            if slope > max(_SURE * error, LIMITS[name])
        )

    def facts(self) -> dict[str, float | int | str]:
        """The slopes for the table."""
        told: dict[str, float | int | str] = {"samples": len(self.events)}
        for name, values in self.held.items():
            slope, error = self.slope(name)
            told[f"{name} per event"] = f"{slope:.3g} ± {error:.2g}"
            told[f"{name} at the end"] = f"{values[-1]:,.0f}"
        return told


def _held() -> Mapping[str, float]:
    objects = gc.get_objects()
    in_use = _bytes_in_use()
    return {
        **({} if in_use is None else {"bytes in use": in_use}),
        "small blocks": sys.getallocatedblocks(),
        # Not of files: pages of a mapped database come and go with the cache.
        "resident bytes": memory_of("RssAnon"),
        "open files": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
        "connections": len(apsw.connections()),
        "objects": len(objects),
        # By type: to ask a weak proxy itself would ask what it stands for.
        "widgets": sum(issubclass(type(one), DOMNode) for one in objects),
    }


def _give_back() -> None:
    """Let the C library give the system what is freed; where it cannot, it counts as held."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


class _MallocInfo(ctypes.Structure):
    """`struct mallinfo2` of the GNU C library, 2.33 and later."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )
    hblkhd: int
    """Bytes of large blocks, mapped one by one."""
    uordblks: int
    """Bytes of the others that are in use."""


def _bytes_in_use() -> float | None:
    """Bytes the C library has given out: all but Python's small blocks; `None`: it cannot tell."""
    told = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if told is None:
        return None
    told.restype = _MallocInfo
    info: _MallocInfo = told()
    return float(info.uordblks + info.hblkhd)


TWO_HOURS = 7200
"""Saved files in two hours, and pressed keys."""

NOTES = 120
_SAMPLES = 60
_TOGETHER = 6
_REBUILDS = 24
_QUERIES = ("nest7 garden", "velvet window", "harbor", "barley nest40", "engine falcon", "kettle")
_SCREENS = ("1", "2", "1", "3", "1", "4", "5", "1", "x", "escape", "question_mark", "escape")
_TOGGLES = ("m", "d", "n", "v", "o", "j", "k", "t", "t", "left_square_bracket", "escape")


_AT_REST = "harbor"
"""The query that is answered on screen whenever a sample is taken."""
_VISITED = ("2", "3", "4", "5", "x", "question_mark", "t")

_Lived = tuple[int, Samples]


def run(options: Options) -> Iterator[Case]:
    """Let the engine and the interface live through two hours each.

    Each has a process of its own, as it has with a user. The heap of the C library is full of
    holes once an engine was closed in it: what comes next is spread over them, page by page, and
    that looks like growth for an hour, with not one byte more in use.
    """
    for name, part in (("soak, engine", _engine), ("soak, interface", _interface)):
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            done, samples = pool.submit(part, options, options.runs or TWO_HOURS).result()
        yield Case(name, samples.failures(), samples.facts(), done)


def _settings() -> Settings:
    return Settings(
        embedding=EmbeddingSettings(provider="wordllama"),
        index=IndexSettings(debounce_seconds=0.05, cache_mb=1),
    )


def _engine(options: Options, events: int) -> _Lived:
    """Saves, searches and rebuilds without a screen."""
    root = options.place / "engine"
    notes, samples, done = Nests(root, options.seed, NOTES), Samples(), 0
    with Engine.open(root, _settings(), data_dir=options.place / "data", watch=True) as engine:
        engine.index.sync(wait=True)
        for number in range(0, events, _TOGETHER):
            for _ in range(min(_TOGETHER, events - number)):
                notes.edit()
                engine.search.ask(notes.query())
                done += 2
            engine.index.sync(wait=True)
            if _is_time(number, events, _REBUILDS):
                engine.index.sync(rebuild=True, wait=True)
            if _is_time(number, events, _SAMPLES):
                engine.wait_idle()
                samples.take(done)
    return done, samples


def _interface(options: Options, events: int) -> _Lived:
    return asyncio.run(_press_keys(options, events))


async def _press_keys(options: Options, events: int) -> _Lived:
    """Keys in the interface, without a terminal, over notes that change."""
    root = options.place / "interface"
    notes, samples, done = Nests(root, options.seed, NOTES), Samples(), 0
    chance = random.Random(options.seed)
    opened: list[Engine] = []

    def open_engine(bus: Bus) -> Engine:
        data = options.place / "data"
        opened.append(Engine.open(root, _settings(), bus=bus, data_dir=data, watch=True))
        return opened[0]

    shown = dark(root=root, state_dir=options.place / "state")
    app = MemtuiApp(open_engine, shown)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await until(pilot, lambda: app.search_screen.engine is not None, 60)
        await _warm_up(app, pilot, opened[0])
        sampled = 0
        while done < 2 * events:
            keys = _next_keys(chance)
            for key in keys:
                await press(pilot, key)
            for _ in keys:
                notes.edit()
            done += 2 * len(keys)
            if done - sampled >= 2 * events // _SAMPLES:
                sampled = done
                await _come_to_rest(app, pilot, opened[0])
                samples.take(done)
    app.memories.close()
    return done, samples


async def _warm_up(app: MemtuiApp, pilot: Pilot[int], engine: Engine) -> None:
    """Open every screen once, and fill what is kept up to a bound that two hours do not reach."""
    await _start_workers()
    await _come_to_rest(app, pilot, engine)
    for key in _VISITED:
        await press(pilot, key)
        await settle(app, pilot)
        await press(pilot, "escape", "1", "escape")
    for _ in range(MOST_UNDONE):
        await press(pilot, "m")


async def _come_to_rest(app: MemtuiApp, pilot: Pilot[int], engine: Engine) -> None:
    """Show one query in one order and layout with nothing over it, the index up to date.

    So what differs from sample to sample is what was kept of the events, not what is on screen.
    """
    await press(pilot, "escape", "1", "escape")
    screen = app.search_screen
    screen.preview_place, screen.search.sort, screen.shows_near_misses = PLACES[0], SORTS[0], None
    screen.apply_layout()
    await press(pilot, "0")
    await asyncio.to_thread(engine.index.sync, wait=True)
    screen.query_input.value = _AT_REST
    state = screen.state
    await until(pilot, lambda: state.answered_text == _AT_REST and not state.is_pending, 60)
    app.clear_notifications()
    await settle(app, pilot)
    await _forget_cancelled_timers()


async def _forget_cancelled_timers() -> None:
    """Let the loop drop them: it keeps a hundred until their time, each with the screen of its
    context, and `Pilot` makes one of 30 s for every key."""
    loop = asyncio.get_running_loop()
    for _ in range(200):
        loop.call_later(3600, loop.stop).cancel()
    await asyncio.sleep(0)


async def _start_workers() -> None:
    """Start every thread the loop's pool may have: it adds them one by one, up to a bound."""
    # From Python 3.13 only the processors this process may use count.
    processors = getattr(os, "process_cpu_count", os.cpu_count)
    most = min(32, (processors() or 1) + 4)
    together = threading.Barrier(most)
    await asyncio.gather(*(asyncio.to_thread(together.wait, 60) for _ in range(most)))


def _next_keys(chance: random.Random) -> list[str]:
    """A query that is typed, or keys that open, close and toggle."""
    if chance.random() < 0.4:
        typed = chance.choice(_QUERIES)
        keys = ["space" if letter == " " else letter for letter in typed]
        return ["escape", "1", "slash", "ctrl+u", *keys, "enter", "escape"]
    return [chance.choice(_SCREENS if chance.random() < 0.5 else _TOGGLES) for _ in range(6)]


def _is_time(number: int, events: int, times: int) -> bool:
    """Whether this round is the first of its part, with the events in so many parts."""
    part = max(1, events // times)
    return number // part != (number - _TOGETHER) // part

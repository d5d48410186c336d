"""Two hours of a busy user in a few minutes: does anything grow?

A busy user saves a file and presses a key every second: 7,200 of each. Every event is made as
soon as the one before it was taken in.
"""

from __future__ import annotations

import asyncio
import os
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from textual.pilot import Pilot
from textual.screen import Screen

from memtui.bus import Bus
from memtui.engine import Engine
from memtui.settings import EmbeddingSettings, IndexSettings, Settings
from memtui.tui.actions_panes import PLACES
from memtui.tui.app import MemtuiApp
from memtui.tui.options import UiOptions
from memtui.tui.rankings_undo import MOST as MOST_UNDONE
from memtui.tui.widgets.result_list import SORTS
from tests.trust.processes_notes import line
from tests.trust.report import Options, Outcome
from tests.trust.soak_caches import fill_drawing_caches, fill_word_caches
from tests.trust.soak_samples import Samples
from tests.tui.harness import press, settle, until

TWO_HOURS = 7200
"""Saved files in two hours, and pressed keys."""

NOTES = 120
_SAMPLES = 60
_TOGETHER = 6
_REBUILDS = 24
_QUERIES = ("nest7 garden", "velvet window", "harbor", "barley nest40", "engine falcon", "kettle")
_SCREENS = ("1", "2", "1", "3", "1", "4", "1", "x", "escape", "question_mark", "escape")
_TOGGLES = ("m", "d", "n", "v", "o", "j", "k", "t", "t", "left_square_bracket", "escape")


_AT_REST = "harbor"
"""The query that is answered on screen whenever a sample is taken."""
_VISITED = ("2", "3", "4", "x", "question_mark", "t")

_Lived = tuple[int, Samples]


def run(options: Options) -> Iterator[Outcome]:
    """Let the engine and the interface live through two hours each.

    Each has a process of its own, as it has with a user. The heap of the C library is full of
    holes once an engine was closed in it: what comes next is spread over them, page by page, and
    that looks like growth for an hour, with not one byte more in use.
    """
    for part in (_engine_outcome, _interface_outcome):
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            yield pool.submit(part, options).result()


def _engine_outcome(options: Options) -> Outcome:
    return _outcome("soak, engine", _engine, options)


def _interface_outcome(options: Options) -> Outcome:
    return _outcome("soak, interface", lambda *given: asyncio.run(_interface(*given)), options)


def _outcome(name: str, part: Callable[[Options, int], _Lived], options: Options) -> Outcome:
    events = options.runs or TWO_HOURS
    done, samples = part(options, events)
    repeat = f"python -m tests.trust soak --runs {events}"
    return Outcome(name, done, samples.failures(), samples.facts(), repeat)


class Notes:
    """Notes that are written anew by chance."""

    def __init__(self, root: Path, seed: int) -> None:
        self._root = root
        self._random = random.Random(seed)
        self._round = 0
        (root / "memory").mkdir(parents=True)
        (root / "MEMORY.md").write_text("- The nests are numbered.\n", encoding="utf-8")
        for number in range(NOTES):
            self._write(number)

    def save(self) -> None:
        """Write one of the notes anew."""
        self._write(self._random.randrange(NOTES))

    def query(self) -> str:
        """Something to search for; it hardly ever comes again."""
        words = line("nest", self._random.randrange(10**6), 0).split()
        return " ".join(self._random.sample(words, 3))

    def _write(self, number: int) -> None:
        self._round += 1
        path = self._root / "memory" / f"nest{number}.md"
        lines = [line(f"nest{number}", self._round, part) for part in range(4)]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _settings() -> Settings:
    return Settings(
        embedding=EmbeddingSettings(provider="wordllama"),
        index=IndexSettings(debounce_seconds=0.05, cache_mb=1),
    )


def _engine(options: Options, events: int) -> _Lived:
    """Saves, searches and rebuilds without a screen."""
    root = options.place / "engine"
    notes, samples, done = Notes(root, options.seed), Samples(), 0
    with Engine.open(root, _settings(), data_dir=options.place / "data", watch=True) as engine:
        engine.index.sync(wait=True)
        fill_word_caches()
        for number in range(0, events, _TOGETHER):
            for _ in range(min(_TOGETHER, events - number)):
                notes.save()
                engine.search.ask(notes.query())
                done += 2
            engine.index.sync(wait=True)
            if _is_time(number, events, _REBUILDS):
                engine.index.rebuild(wait=True)
            if _is_time(number, events, _SAMPLES):
                engine.wait_idle()
                samples.take(done)
    return done, samples


async def _interface(options: Options, events: int) -> _Lived:
    """Keys in the interface, without a terminal, over notes that change."""
    root = options.place / "interface"
    notes, samples, done = Notes(root, options.seed), Samples(), 0
    chance = random.Random(options.seed)
    opened: list[Engine] = []

    def open_engine(bus: Bus) -> Engine:
        data = options.place / "data"
        opened.append(Engine.open(root, _settings(), bus=bus, data_dir=data, watch=True))
        return opened[0]

    shown = UiOptions(theme="memtui-dark", root=root, state_dir=options.place / "state")
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
                notes.save()
            done += 2 * len(keys)
            if done - sampled >= 2 * events // _SAMPLES:
                sampled = done
                await _come_to_rest(app, pilot, opened[0])
                samples.take(done)
    app.close_engine()
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
    fill_word_caches()
    kept = [one for one in app._installed_screens.values() if isinstance(one, Screen)]
    fill_drawing_caches([app, app.search_screen, *kept])


async def _come_to_rest(app: MemtuiApp, pilot: Pilot[int], engine: Engine) -> None:
    """Show one query in one order and layout with nothing over it, the index up to date.

    So what differs from sample to sample is what was kept of the events, not what is on screen.
    """
    await press(pilot, "escape", "1", "escape")
    screen = app.search_screen
    screen.preview_place, screen.sort, screen.near_wanted = PLACES[0], SORTS[0], None
    screen.apply_layout()
    await press(pilot, "0")
    await asyncio.to_thread(engine.index.sync, wait=True)
    screen.query_input.value = _AT_REST
    flow = screen.flow
    await until(pilot, lambda: flow.answered == _AT_REST and flow.complete, 60)
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

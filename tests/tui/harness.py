"""Running the application in a test: what is on screen as lines, and waiting without sleeping."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import pytest
from textual import events
from textual.app import App
from textual.keys import key_to_character
from textual.message_pump import MessagePump
from textual.pilot import Pilot
from textual.screen import Screen
from textual.selection import SELECT_ALL
from textual.worker import WorkerCancelled

from memtui.bus import Bus
from memtui.engine import Engine
from memtui.engine.search import Search, Tops
from memtui.errors import Cancelled
from memtui.index.foreign.agents import ForeignTarget
from memtui.model import Ranked
from memtui.settings.schema import Settings, UiSettings
from memtui.tui.app import MemtuiApp
from memtui.tui.options import UiOptions
from memtui.tui.widgets.lists import LineView
from tests.support.openclaw import State, make_state

S = TypeVar("S", bound=Screen[Any])
_HOPS = 4
"""A key goes from the application to the screen, to the widget, and back as a message."""
_QUIET_ROUNDS = 3
_ENGINE_SECONDS = 1.0
_SHORT_SECONDS = 0.5


def dark(glyphs: Any = "unicode", *, history: bool = True, **changes: Any) -> UiOptions:
    """Options with the same colours in every terminal."""
    ui = UiSettings(theme="memtui-dark", glyphs=glyphs, history=history)
    return UiOptions(Settings(ui=ui), **changes)


def render_lines(app: App[Any]) -> list[str]:
    """The screen as lines of text."""
    strips = app.screen._compositor.render_strips()
    return ["".join(segment.text for segment in strip) for strip in strips]


def screen_text(app: App[Any]) -> str:
    return "\n".join(render_lines(app))


async def settle(app: App[Any], pilot: Pilot[Any] | None = None) -> None:
    """Wait until workers, short timers, the engine, messages and the layout have come to rest.

    An engine that a test holds back is waited for no longer than `_ENGINE_SECONDS`.
    """
    pilot = pilot or Pilot(app)
    loop = asyncio.get_running_loop()
    patience = loop.time() + _ENGINE_SECONDS
    quiet = 0
    while quiet < _QUIET_ROUNDS:
        # One that newer work superseded has come to rest, too.
        with suppress(WorkerCancelled):
            await app.workers.wait_for_complete()
        await pilot.pause(0)
        nodes = [
            app,
            *(node for screen in app.screen_stack for node in screen.walk_children(with_self=True)),
        ]
        engine, left = _engine_of(app), patience - loop.time()
        # Waited for rather than looked at again and again, which takes longer than what is due.
        if timers := [task for node in nodes for task in _short_timers(node)]:
            await asyncio.wait(timers, timeout=_SHORT_SECONDS)
        elif engine is not None and left > 0 and not engine.wait_idle(0):
            await asyncio.to_thread(engine.wait_idle, left)
        elif not any(node.message_queue_size for node in nodes):
            quiet += 1
            continue
        quiet = 0


def _short_timers(node: MessagePump) -> Iterator[asyncio.Task[None]]:
    for timer in node._timers:
        task = timer._task
        if timer._repeat == 0 and timer._interval < _SHORT_SECONDS and task and not task.done():
            yield task


def _engine_of(app: App[Any]) -> Engine | None:
    search_screen = app.search_screen if isinstance(app, MemtuiApp) else None
    return search_screen.engine if search_screen is not None else None


def all_lines(view: LineView) -> str:
    """Return every line of a view, as they are copied when all of them are selected."""
    text, _ = view.get_selection(SELECT_ALL) or ("", "")
    return text


async def until(pilot: Pilot[Any], condition: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait for a condition; fails with what is on screen."""
    deadline = asyncio.get_running_loop().time() + seconds
    while not condition():
        if asyncio.get_running_loop().time() > deadline:
            raise AssertionError("not reached; on screen:\n" + screen_text(pilot.app))
        await pilot.pause(0.02)


async def press(pilot: Pilot[Any], *keys: str) -> None:
    """Press keys one after another, each worked off before the next.

    `Pilot.press` waits for an idle process instead, twice for every key: that takes 50 ms and more.
    """
    for key in keys:
        pilot.app.post_message(events.Key(key, key_to_character(key)))
        for _ in range(_HOPS):
            await pilot.pause(0)


async def press_at_once(pilot: Pilot[Any], *keys: str) -> None:
    """Press keys faster than anything is drawn, and wait until all that follows is drawn."""
    for key in keys:
        pilot.app.post_message(events.Key(key, key_to_character(key)))
    await settle(pilot.app, pilot)


async def resize(pilot: Pilot[Any], size: tuple[int, int]) -> None:
    """Make the terminal larger or smaller, and wait until all is drawn for it."""
    if size != pilot.app.size:
        await pilot.resize_terminal(*size)
        await settle(pilot.app, pilot)


@dataclass
class Running:
    """An application under test with its engine."""

    app: MemtuiApp
    pilot: Pilot[int]
    engine: Any
    """An `Engine`; a test may put a method in the place of one of its own."""

    @property
    def text(self) -> str:
        """What is on screen."""
        return screen_text(self.app)

    @property
    def toasts(self) -> list[str]:
        """What was told beside the screen, oldest first."""
        return [notification.message for notification in self.app._notifications]

    @property
    def ranked(self) -> Ranked:
        """The list of results that is shown."""
        ranked = self.app.search_screen.state.ranked
        assert ranked is not None
        return ranked

    def screen(self, kind: type[S]) -> S:
        """The screen in front, which is to be of this kind."""
        screen = self.app.screen
        assert isinstance(screen, kind)
        return screen

    async def until(self, condition: Callable[[], bool], seconds: float = 20.0) -> None:
        """Wait for a condition; fails with what is on screen."""
        await until(self.pilot, condition, seconds)

    async def press(self, *keys: str, shows: str = "") -> None:
        """Press keys, and wait until all that follows is drawn and a text, if any, is on screen."""
        await press(self.pilot, *keys[:-1])
        await press_at_once(self.pilot, *keys[-1:])
        if shows:
            await self.until(lambda: shows in self.text)

    async def search(self, query: str = "router config", *, typing: bool = False) -> None:
        """Put a query into the box, as one that is finished, and wait for its answer."""
        search = self.app.search_screen.search
        search.set_query(query, typing=True) if typing else search.ask_query(query)
        screen = self.app.search_screen
        await self.until(
            lambda: screen.state.answered_text == query and not screen.state.is_pending
        )
        await settle(self.app, self.pilot)


@asynccontextmanager
async def running(
    engine: Callable[[Bus], Engine],
    *,
    size: tuple[int, int] = (80, 24),
    options: UiOptions | None = None,
    query: str | None = None,
) -> AsyncIterator[Running]:
    """Run the application on an engine until it is open and at rest, or has answered a query."""
    made: list[Engine] = []

    def open_engine(bus: Bus) -> Engine:
        made.append(engine(bus))
        return made[0]

    app = MemtuiApp(open_engine, options or dark())
    async with app.run_test(size=size, notifications=True) as pilot:
        await until(pilot, lambda: app.search_screen.engine is not None)
        await settle(app, pilot)
        run = Running(app, pilot, made[0])
        if query is not None:
            await run.search(query)
        yield run
    app.memories.close()


def held_history(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, list[Sequence[str]]]:
    """Let the history be asked for no longer than until the event is set.

    Gives the queries of each time as well, and none for each time that it was stopped.
    """
    goes_on, asked, real = threading.Event(), list[Sequence[str]](), Search.tops

    def held(search: Search, queries: Sequence[str], **options: Any) -> Tops:
        asked.append(queries)
        options["progressed"](1, len(queries))
        while not goes_on.wait(0.01):
            if options["cancelled"]():
                asked.append(())
                raise Cancelled
        return real(search, queries, **options)

    monkeypatch.setattr(Search, "tops", held)
    return goes_on, asked


def make_target(folder: Path, release: str, config: str = "") -> tuple[State, ForeignTarget]:
    """A state folder with the index that a release made, and how it is opened."""
    state = make_state(folder / ".openclaw", release)
    if config:
        (state.folder / "openclaw.json").write_text(config, encoding="utf-8")
    return state, state.target()


@asynccontextmanager
async def foreign_running(
    target: ForeignTarget, *, size: tuple[int, int] = (120, 40)
) -> AsyncIterator[Running]:
    """Run the application on a real foreign engine, examined and at rest."""
    clock = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)

    def open_engine(bus: Bus) -> Engine:
        return Engine.open_agent(target, bus=bus, env={}, now=lambda: clock)

    async with running(open_engine, size=size) as run:
        await run.until(lambda: _is_examined(run.engine))
        run.app.search_screen.refresh_status()
        await settle(run.app, run.pilot)
        yield run


def _is_examined(engine: Engine) -> bool:
    foreign = engine.index.status().foreign
    return foreign is not None and foreign.truth is not None and not foreign.examining

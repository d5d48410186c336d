"""How often a screen is laid out as it opens and as its size changes, and its classes for a size."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.screen import Screen

from memtui.tui.app import MemtuiApp
from memtui.tui.options import UiOptions
from tests.support.small_memory import SmallMemory
from tests.tui.harness import Running, resize, running, settle, until

AUTOMATIC = ("#why", "#index-status")
"""Panes as high as what they show."""


class CountingApp(MemtuiApp):
    """Counts the layouts of the search screen after its first."""

    CSS_PATH = str(Path(inspect.getfile(MemtuiApp)).parent / MemtuiApp.CSS_PATH)
    layouts = 0

    def on_load(self) -> None:
        signal = self.search_screen.screen_layout_refresh_signal
        signal.subscribe(self, self._count, immediate=True)

    def _count(self, screen: Screen[Any]) -> None:
        self.layouts += 1


@asynccontextmanager
async def counting(
    memory: SmallMemory, size: tuple[int, int]
) -> AsyncIterator[tuple[CountingApp, Pilot[int]]]:
    app = CountingApp(memory.open, UiOptions(theme="memtui-dark"))
    async with app.run_test(size=size, notifications=True) as pilot:
        await until(pilot, lambda: app.search_screen.engine is not None)
        await settle(app, pilot)
        yield app, pilot
    app.memories.close()


@pytest.mark.parametrize(
    ("size", "most"), [((39, 9), 2), ((59, 15), 4), ((80, 24), 2), ((170, 50), 2)]
)
async def test_a_start_is_laid_out_no_more_often_than_its_parts_come(
    memory: SmallMemory, size: tuple[int, int], most: int
) -> None:
    async with counting(memory, size) as (app, _):
        # After the first: for what it made known of its widgets, and for the list of recent notes
        # in the place of the message. At 120x40 the index pane grows with each status that comes.
        assert 1 <= app.layouts <= most


async def test_a_size_with_other_classes_is_laid_out_for_them_at_once(memory: SmallMemory) -> None:
    async with counting(memory, (80, 24)) as (app, pilot):
        before = app.layouts
        seen: list[frozenset[str]] = []
        screen = app.search_screen
        screen.screen_layout_refresh_signal.subscribe(
            app.search_screen, lambda _: seen.append(screen.classes), immediate=True
        )
        await pilot.resize_terminal(170, 50)
        await settle(app, pilot)
        assert {"-huge", "-tall", "-roomy"} <= seen[0]
        assert app.layouts - before <= 3
        assert screen.query_one("#side").region.width


async def test_panes_that_were_filled_where_there_was_no_room_are_as_high_as_ever(
    memory: SmallMemory,
) -> None:
    heights = []
    for size in [(120, 40), (80, 24)]:
        async with running(memory.open, size=size) as run:
            await run.search()
            await resize(run.pilot, (120, 40))
            screen = run.app.search_screen
            heights.append([screen.query_one(name).region.height for name in AUTOMATIC])
    assert heights[0] == heights[1]
    assert min(heights[0]) > 3


async def test_an_answer_is_laid_out_only_for_what_changes_its_place(memory: SmallMemory) -> None:
    async with counting(memory, (80, 24)) as (app, pilot):
        run = Running(app, pilot, app.engine)
        await run.search("router")
        before = app.layouts
        await run.search("router config")
        assert app.layouts == before

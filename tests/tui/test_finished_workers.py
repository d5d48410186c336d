"""No thread of the pool keeps what it worked for."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

from textual.app import App
from textual.screen import Screen
from textual.worker import Worker, get_current_worker

from memtui.tui.finished_workers import release_finished_workers

SCREENS = 3


async def _work_for_screens(app: App[Any]) -> list[weakref.ref[Screen[Any]]]:
    """Open screens, let a thread work for each, and close them."""
    closed = []
    for _ in range(SCREENS):
        screen: Screen[Any] = Screen()
        await app.push_screen(screen)
        # The work names its worker, as work that can be cancelled does.
        worker = screen.run_worker(lambda: get_current_worker().node, thread=True)
        assert await worker.wait() is screen
        await app.pop_screen()
        closed.append(weakref.ref(screen))
    return closed


async def test_a_closed_screen_is_kept_by_no_thread() -> None:
    release_finished_workers()
    app: App[Any] = App()
    async with app.run_test() as pilot:
        closed = await _work_for_screens(app)
        await pilot.pause()
        gc.collect()
        assert [screen() for screen in closed] == [None] * SCREENS


async def test_work_that_is_a_coroutine_still_runs_in_a_thread() -> None:
    release_finished_workers()
    app: App[Any] = App()

    async def work() -> bool:
        await asyncio.sleep(0)
        return get_current_worker().is_running

    async with app.run_test():
        worker: Worker[bool] = app.run_worker(work, thread=True)
        assert await worker.wait()


def test_it_is_done_once() -> None:
    release_finished_workers()
    once = vars(Worker)["_run_threaded"]
    release_finished_workers()
    assert vars(Worker)["_run_threaded"] is once

"""What goes wrong in a worker is told, on whichever screen it was asked for; how a program ends."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError
from typing import Any

from memtui.bus import Bus, SearchFailed
from memtui.engine.engine import Engine
from memtui.model import Ranking
from memtui.tui.app import MemtuiApp
from memtui.tui.options import UiOptions
from tests.support.small_memory import SmallMemory
from tests.tui.harness import press, running, settle, until


def failing(error: Exception) -> Any:
    """Something to call that raises."""

    def fail(*of: object, **options: object) -> object:
        raise error

    return fail


async def test_what_fails_beside_the_loop_is_told_on_both_screens(memory: SmallMemory) -> None:
    async with running(memory.open) as run:
        run.engine.browse.recent = failing(CancelledError())
        run.app.search_screen.search.show_start()
        await until(run.pilot, lambda: all(worker.is_finished for worker in run.app.workers))
        assert not run.toasts, "what was cancelled on the way out is quiet"
        run.engine.browse.recent = failing(OSError("disk [/gone]"))
        run.app.search_screen.search.show_start()
        await until(
            run.pilot, lambda: "could not list the recent notes: disk [/gone]" in run.toasts
        )
        run.engine.index.rebuild_cost = failing(OSError("disk [/gone]"))
        for keys in (("escape",), ("4",)):
            run.app.clear_notifications()
            await press(run.pilot, *keys, "R")
            await until(
                run.pilot, lambda: "could not price the rebuild: disk [/gone]" in run.toasts
            )


async def test_what_is_of_a_search_before_changes_nothing(memory: SmallMemory) -> None:
    options = UiOptions(theme="memtui-dark", ranking=Ranking(k=3))
    async with running(memory.open, options=options) as run:
        await run.search("router")
        screen = run.app.search_screen
        run.app.bus.publish(SearchFailed(screen.search.sequence - 1, "long ago"))
        await settle(run.app, run.pilot)
        assert not run.toasts
        assert "failed" not in run.text
        # Near misses that nobody reads begin at their top again after a change.
        await run.press("escape", "n")
        missed = screen.near.rows[2].id
        screen.near.choose(missed, by_user=True)
        await settle(run.app, run.pilot)
        assert screen.selected_id == missed
        await run.press("F")
        assert screen.near.chosen_id == screen.near.rows[0].id
        assert screen.selected_id == screen.results.chosen_id
        screen.near.focus()
        await run.press("G")
        missed = screen.near.chosen_id or ""
        await run.press("F")
        assert screen.selected_id == screen.near.chosen_id == missed


async def test_a_memory_that_is_opened_too_late_is_closed_again(memory: SmallMemory) -> None:
    gate, closed = threading.Event(), threading.Event()

    def open_engine(bus: Bus) -> Engine:
        assert gate.wait(20)
        engine = memory.open(bus)
        close = engine.close

        def close_and_tell() -> None:
            close()
            closed.set()

        engine.close = close_and_tell  # type: ignore[method-assign]
        return engine

    app = MemtuiApp(open_engine, UiOptions(theme="memtui-dark"))
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.search_screen.is_built)
        await app.search_screen.query("*").remove()
        gate.set()
        await until(pilot, closed.is_set)
        assert app.engine is None
    app.memories.close()

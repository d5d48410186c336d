"""Ending the program while a memory is being opened."""

from __future__ import annotations

import threading

from memtui.bus import Bus
from memtui.tui.app import MemtuiApp
from memtui.tui.options import UiOptions
from tests.tui.harness import until
from tests.tui.samples import SampleEngine


async def test_a_memory_that_is_opened_too_late_is_closed_again() -> None:
    gate, closed = threading.Event(), threading.Event()

    class Slow(SampleEngine):
        def close(self) -> None:
            closed.set()

    def open_engine(bus: Bus) -> SampleEngine:
        assert gate.wait(20)
        return Slow(bus)

    app = MemtuiApp(open_engine, UiOptions(theme="memtui-dark"))
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.search_screen.is_built)
        await app.search_screen.query("*").remove()
        gate.set()
        await until(pilot, closed.is_set)
        assert app.engine is None
    app.memories.close()

"""The interface on an index that it never saw: nothing of it asks who made the index."""

from __future__ import annotations

from pathlib import Path

from memtui.bus import Bus
from memtui.engine import Engine
from memtui.tui.app import MemtuiApp
from memtui.tui.options import UiOptions
from tests.support.memory_index import open_memory_index
from tests.support.small_memory import NOTES
from tests.tui.harness import screen_text, settle, until


async def test_the_screen_opens_searches_and_browses_it(tmp_path: Path) -> None:
    def open_engine(bus: Bus) -> Engine:
        return open_memory_index(tmp_path, NOTES, bus)

    app = MemtuiApp(open_engine, UiOptions(theme="memtui-dark", root=tmp_path))
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.search_screen.engine is not None, 20)
        app.search_screen.query_input.value = "router config"
        await until(pilot, lambda: "2025-11-02.md" in screen_text(app), 20)
        await settle(app, pilot)
        assert "Router config first written down" in screen_text(app)
        await pilot.press("escape", "x")
        await until(pilot, lambda: "router config" in screen_text(app), 20)
    app.memories.close()

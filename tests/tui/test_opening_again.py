"""A memory that could not be opened is opened when what was in the way is gone."""

from __future__ import annotations

from memtui.bus import Bus
from memtui.errors import IndexUnusable
from memtui.tui.app import MemtuiApp
from memtui.tui.options import UiOptions
from tests.tui.harness import press, screen_text, until
from tests.tui.samples import SampleEngine


async def test_r_opens_what_could_not_be_opened() -> None:
    tries: list[Bus] = []

    def open_engine(bus: Bus) -> SampleEngine:
        tries.append(bus)
        if len(tries) < 3:
            raise IndexUnusable("the index folder cannot be made: Read-only file system")
        return SampleEngine(bus)

    app = MemtuiApp(open_engine, UiOptions(theme="memtui-dark"))
    async with app.run_test(size=(100, 24), notifications=True) as pilot:
        for number in (1, 2):
            await until(
                pilot,
                lambda number=number: (  # type: ignore[misc]
                    len(tries) == number and "r tries again" in screen_text(app)
                ),
            )
            await press(pilot, "escape", "r")
        await until(pilot, lambda: app.search_screen.engine is not None)
        await until(pilot, lambda: "cannot be made" not in screen_text(app))
        assert app.search_screen.engine_error == ""
    app.memories.close()

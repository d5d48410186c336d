"""Running the browse screen in a test, over the sample memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

from memtui.bus import Bus, FileIndexed, FilesChanged
from memtui.model.browsing import MemoryFile
from memtui.tui.options import UiOptions
from memtui.tui.screens.browse import BrowseScreen
from tests.tui.browse_samples import FILES, BrowseEngine
from tests.tui.harness import Running, press, render_lines, running


class Browsing:
    """A browse screen under test."""

    def __init__(self, run: Running) -> None:
        self.run = run
        self.app, self.pilot = run.app, run.pilot
        self.engine = cast("BrowseEngine", run.engine)

    @property
    def screen(self) -> BrowseScreen:
        screen = self.app.screen
        assert isinstance(screen, BrowseScreen)
        return screen

    @property
    def path(self) -> str:
        """The file that was read and is shown."""
        return self.screen.reader.source.path if self.screen.reader.source is not None else ""

    @property
    def names(self) -> list[str]:
        """The names in the tree."""
        return [line.name for line in self.screen.file_list.lines]

    @property
    def detail(self) -> str:
        return render_lines(self.app)[-2].strip()

    async def rest(self) -> None:
        """Wait until nothing is read, listed or drawn any more."""
        await self.pilot.pause()
        while any(not worker.is_finished for worker in self.app.workers):
            await self.app.workers.wait_for_complete()
            # The result of a worker is taken in by a call after it.
            await self.pilot.pause()
            await self.pilot.pause()

    async def press(self, *keys: str) -> None:
        await press(self.pilot, *keys)
        await self.rest()

    async def choose(self, path: str) -> None:
        """Put the cursor on a file, as moving it there does, and wait for its text."""
        file = next(file for file in self.engine.files if file.path == path)
        assert self.screen.file_rows.choose(f"{file.source}\0{file.path}", by_user=True)
        await self.rest()

    async def filter(self, text: str) -> None:
        self.screen.filter_input.value = text
        await self.rest()

    def publish(self, *events: FileIndexed | FilesChanged) -> None:
        for event in events:
            self.engine.bus.publish(event)


@asynccontextmanager
async def browsing(
    size: tuple[int, int] = (80, 24),
    *,
    files: tuple[MemoryFile, ...] = FILES,
    options: UiOptions | None = None,
    opened: bool = True,
    fails: str = "",
) -> AsyncIterator[Browsing]:
    def engine(bus: Bus) -> BrowseEngine:
        return BrowseEngine(bus, files=files, fails=fails)

    async with running(engine, size=size, options=options) as run:
        browse_ = Browsing(run)
        if opened:
            await browse_.press("escape", "2")
        yield browse_

"""The stage of a fault: notes, their index, the running interface, and what is promised of them.

Promised is: the fault is named on the screen in one line, nothing is lost by it, and once it is
over the same process goes on. What is lost is looked for in the notes (they are as the scene left
them), the index (it is what a fresh one of the same notes is) and the cache (it has every vector
it had, and every one of a chunk that lives).
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from textual.pilot import Pilot

from memtui.bus import Bus
from memtui.engine import Engine
from memtui.index import watcher
from memtui.index.database import open_database
from memtui.index.generations import IndexFolder
from memtui.memory.documents import MAX_FILE_BYTES
from memtui.model import IndexState, IndexStatus
from memtui.settings.schema import EmbeddingSettings, IndexSettings, MemorySettings, Settings
from memtui.tui.app import MemtuiApp
from tests.support.embedding import HashedProvider, registered_hashed
from tests.support.indexing import Contents, Workspace
from tests.support.openclaw import hash_tree
from tests.support.small_memory import write_notes
from tests.trials.crash import check_database
from tests.tui.harness import dark, press, render_lines, screen_text

SECONDS = 100.0
_MOMENT = 0.02
_LONGEST = "longest pause of the loop ms"
SIZE = (160, 48)
_PANES = re.compile("[│▌▐─╭╮╰╯]+")
_TIMES = partial(watcher.WatchTimes, check=0.1, poll=0.3, retry=0.5)
_NOTES: Mapping[str, str] = {
    "MEMORY.md": "# Network\n\nThe omada router stands in the cellar.\n",
    "memory/heron.md": "# Birds\n\nA heron was at the pond.\n",
    "memory/deep/owl.md": "# Night\n\nAn owl calls from the barn.\n",
    "memory/2026-03-01.md": "# Day\n\nThe kettle was repaired.\n",
}


class Clock:
    """The time of day, which can be moved."""

    def __init__(self) -> None:
        self.moved = timedelta()
        self._time_ns = time.time_ns

    def nanoseconds(self) -> int:
        """What `time.time_ns` gives."""
        return self._time_ns() + int(self.moved.total_seconds()) * 10**9

    def seconds(self) -> float:
        """What `time.time` gives."""
        return self.nanoseconds() / 1e9

    def now(self) -> datetime:
        """The moment it shows."""
        return datetime.fromtimestamp(self.seconds(), UTC)


CLOCK = Clock()


@dataclass
class Stage:
    """A fault's own folders and the interface that runs over them."""

    place: Path
    scene: Scene
    facts: dict[str, float | int | str] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.root = self.place / "notes"
        self.data = self.place / "data"
        self.state = self.place / "state"
        self.known = HashedProvider()
        self._left: Mapping[str, object] = {}
        self._before: frozenset[str] = frozenset()
        self._app: MemtuiApp | None = None
        self._pilot: Pilot[Any] | None = None
        for folder in (self.root, self.data):
            folder.mkdir(exist_ok=True)

    # --- the notes ------------------------------------------------------------------------

    def write(self, name: str | bytes, text: str | bytes) -> Path:
        """Write a note anew."""
        path = self.root / os.fsdecode(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    # --- the interface --------------------------------------------------------------------

    @property
    def app(self) -> MemtuiApp:
        """The running application."""
        assert self._app is not None
        return self._app

    @property
    def pilot(self) -> Pilot[Any]:
        """What presses its keys."""
        assert self._pilot is not None
        return self._pilot

    @property
    def status(self) -> IndexStatus:
        """What the engine says of itself."""
        assert self.app.search_screen.engine is not None
        return self.app.search_screen.engine.index.status()

    @property
    def index(self) -> IndexFolder:
        (found,) = (path for path in self.data.iterdir() if path.name != "lost+found")
        return IndexFolder(found)

    @property
    def live(self) -> Path:
        """The file of the live index."""
        generation = self.index.current()
        assert generation is not None
        return self.index.path(generation)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the application; it may fail to open."""
        self._app = MemtuiApp(self._open, dark(root=self.root, state_dir=self.state))
        self.state.mkdir(exist_ok=True)
        (self.state / "welcome.json").write_text('{"welcomed": true}\n', encoding="utf-8")
        with registered_hashed(self.known), patch("memtui.index.watcher.WatchTimes", _TIMES):
            try:
                async with self.app.run_test(size=SIZE, notifications=True) as pilot:
                    self._pilot = pilot
                    yield
                    await press(pilot, "escape", "1")
            finally:
                self.app.memories.close()

    def _open(self, bus: Bus) -> Engine:
        return Engine.open(
            self.root, self.settings, bus=bus, data_dir=self.data, watch=True, now=CLOCK.now
        )

    @property
    def settings(self) -> Settings:
        return Settings(
            embedding=EmbeddingSettings(provider=self.scene.provider),
            memory=MemorySettings(max_file_bytes=self.scene.largest),
            index=IndexSettings(debounce_seconds=0.05),
        )

    async def until(
        self, condition: Callable[[], bool], what: str, seconds: float = SECONDS
    ) -> None:
        """Wait for what is seen; raises AssertionError with the screen when it does not come."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while not condition():
            if loop.time() > deadline:
                raise AssertionError(f"{what} was not seen; on screen:\n{screen_text(self.app)}")
            await self.paused()

    async def paused(self) -> None:
        """Let the interface work for a moment, and note how long it was busy at most."""
        before = asyncio.get_running_loop().time()
        await self.pilot.pause(_MOMENT)
        busy = asyncio.get_running_loop().time() - before - _MOMENT
        longest = int(self.facts.get(_LONGEST, 0))
        self.facts[_LONGEST] = max(longest, round(1000 * busy))

    async def named(self, *words: str, screen: str = "") -> None:
        """Wait until one line of the screen has all these words; `screen`: a key to press first."""
        if screen:
            await press(self.pilot, "escape", screen)
        try:
            await self.until(lambda: bool(self._line(words)), f"a line with {' … '.join(words)}")
            self.facts["screen"] = self._line(words)
        finally:
            if screen:
                await press(self.pilot, "escape")

    def glimpse(self, *words: str) -> bool:
        """Keep the line with these words, if there is one now; whether there was one so far."""
        if line := self._line(words):
            self.facts["screen"] = line
        return "screen" in self.facts

    def _line(self, words: tuple[str, ...]) -> str:
        for line in render_lines(self.app):
            for pane in _PANES.split(line):
                if all(word in pane for word in words):
                    return " ".join(pane.split()).replace(str(self.place), "…")
        return ""

    async def settled(self) -> None:
        """Wait until the index is up to date and says so."""
        await self.until(
            lambda: (
                self.app.search_screen.engine is not None
                and self.status.state is IndexState.READY
                and self.status.last_sync is not None
            ),
            "a ready index",
        )

    async def finds(self, query: str, path: str) -> None:
        """Type a query and wait until the list on screen shows a chunk of this file."""
        await self.asks(query)

        def shown() -> bool:
            ranked = self.app.search_screen.state.ranked
            return ranked is not None and any(hit.chunk.path == path for hit in ranked.hits)

        await self.until(shown, f"{path} for {query!r}")

    async def asks(self, query: str) -> None:
        """Type a query, whatever comes of it."""
        await press(self.pilot, "escape", "1", "slash", "ctrl+u")
        self.app.search_screen.query_input.value = query
        await self.pilot.pause(0.1)

    async def recovers(self, *keys: str) -> None:
        """Write a note, press keys, and wait until the note is found and all is well."""
        self.app.clear_notifications()
        self.write("memory/after.md", "# After\n\nThe kingfisher came back.\n")
        if keys:
            await press(self.pilot, "escape", "1", "escape", *keys)
        self.facts["recovered by"] = " ".join(keys) or "itself"
        if keys == ("R",):
            await self.until(
                lambda: len(self.app.screen_stack) > 1, "the question before a rebuild"
            )
            await press(self.pilot, "R")
        await self.finds("kingfisher", "memory/after.md")
        await self.settled()

    # --- what is promised -----------------------------------------------------------------

    def remember(self) -> None:
        """Note what the cache holds before the fault."""
        self._before = self._cached()

    def leave(self) -> None:
        """Note the notes as they are now: nobody but the scene changes one."""
        self._left = hash_tree(self.root)

    def check(self) -> None:
        """Compare the notes, the index and the cache with what they have to be."""
        if hash_tree(self.root) != self._left:
            self.wrong.append("a note is not as it was left")
        for path in (self.live, self.index.cache_path):
            if path.exists():
                self.wrong += [f"{path.name}: {line}" for line in check_database(path)]
        found, fresh = self._contents()
        for name in Contents.__slots__:
            if getattr(found, name) != getattr(fresh, name):
                self.wrong.append(f"the {name} differ from those of a fresh index")
        if self.scene.provider != "hashed":
            return
        cached = self._cached()
        living = {str(chunk[4]) for chunk in found.chunks.values()}
        if lost := len(living - cached):
            self.wrong.append(f"{lost} vectors of living chunks are not in the cache")
        if not self.scene.cache_dies and (lost := len(self._before - cached)):
            self.wrong.append(f"{lost} vectors of before are not in the cache")

    def _contents(self) -> tuple[Contents, Contents]:
        with registered_hashed(HashedProvider()):
            with Engine.open(
                self.root, self.settings, data_dir=self.place / "fresh", watch=False
            ) as engine:
                engine.index.sync(wait=True)
            (fresh,) = (self.place / "fresh").iterdir()
        return _read(self.index.folder, self.place), _read(fresh, self.place)

    def _cached(self) -> frozenset[str]:
        path = self.index.cache_path
        if not path.exists():
            return frozenset()
        with closing(open_database(path)) as connection:
            rows = connection.execute("SELECT text_hash FROM embedding_cache").fetchall()
        return frozenset(str(row[0]) for row in rows)


def _read(folder: Path, place: Path) -> Contents:
    with closing(Workspace(place / "nothing", folder)) as workspace:
        return workspace.contents()


Play = Callable[[Stage], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Scene:
    """One fault: what it is called and how it is played."""

    name: str
    play: Play
    provider: str = "hashed"
    largest: int = MAX_FILE_BYTES
    """The largest file that is read."""
    cache_dies: bool = False
    """Whether the fault takes the cache away with everything in it."""
    prepare: Callable[[Stage], None] | None = None
    """Called before the interface is opened."""
    opens: bool = True
    """Whether the interface comes to a ready index before the fault."""
    alone: bool = False
    """Whether the fault would reach other scenes that run beside it."""


async def play(scene: Scene, place: Path) -> Stage:
    """Play a fault on a stage of its own, and look afterwards at what is promised."""
    stage = Stage(place, scene)
    if scene.prepare is not None:
        scene.prepare(stage)
    write_notes(stage.root, _NOTES)
    async with stage.running():
        if scene.opens:
            await stage.settled()
            await stage.finds("heron", "memory/heron.md")
            stage.remember()
        await scene.play(stage)
        stage.leave()
        await stage.settled()
    stage.check()
    return stage

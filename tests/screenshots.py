"""Makes the pictures of the program: `python -m tests.screenshots [--check] [NAMES]`.

The demo memory is indexed into a temporary folder and shown by the real application on the real
engine, at a clock that stands still. The same functions serve the test that compares the pictures
with the program.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal
from unittest.mock import patch

from textual.pilot import Pilot
from textual.widgets import Input

from memtui.bus import Bus
from memtui.data import DEMO_PRESENT, DEMO_ROOT
from memtui.engine import Engine
from memtui.index.transcripts.discovery import TranscriptHomes
from memtui.model import Decay, IndexStatus, Mmr, Ranking
from memtui.settings.schema import EmbeddingSettings, Settings, UiSettings
from memtui.tui.app import MemtuiApp
from memtui.tui.options import UiOptions
from memtui.tui.screens.search import search_controller
from tests.support import pictures
from tests.support.agent_scenes import SCENES, AgentStage, Scene
from tests.support.known import load
from tests.support.pictures import comparable, everything_read, moving, rest, svg_lines, to_png
from tests.support.recorded_model import Paused, Recorded, paused_model, recorded_model
from tests.tui.harness import render_lines, settle, until

FOLDER = Path(__file__).parent.parent / "screenshots"
DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
Memory = Literal["demo", "unindexed", "indexing", "broken"] | Scene


@dataclass(frozen=True)
class Picture:
    """One picture, as `pictures.toml` tells."""

    name: str
    size: str
    query: str = "router vlan config"
    ranking: str = "plain"
    theme: str = "memtui-dark"
    act: str = ""
    memory: Memory = "demo"
    machine: str = ""
    film: tuple[tuple[float, str, str], ...] = ()
    """The frames of a moving picture: seconds, caption, keys that lead to it."""


OPTIONS = {one.name for one in fields(Picture)} - {"name", "size"}


def standing() -> datetime:
    """The clock of all pictures."""
    return DEMO_PRESENT


RANKINGS = {
    "plain": Ranking(),
    "decay": Ranking(decay=Decay(enabled=True)),
    "both": Ranking(mmr=Mmr(enabled=True), decay=Decay(enabled=True, floor=0.8)),
}
OTHER_KEYS = ("GEMINI_API_KEY", "GOOGLE_API_KEY", "VOYAGE_API_KEY", "MISTRAL_API_KEY")
MACHINES = {
    "": {},
    "no colour": {"NO_COLOR": "1"},
    "one key": {"OPENAI_API_KEY": "sk-for-the-picture"} | dict.fromkeys(OTHER_KEYS, ""),
}
PICTURES = [
    Picture(f"{told['name']}-{size}", size, **{k: v for k, v in told.items() if k in OPTIONS})
    for told in load("pictures")["pictures"]
    for size in told["sizes"].split()
]


def date_files(*folders: Path) -> None:
    """Give every file the time of the day it is named for, else the morning of the present."""
    for path in (path for folder in folders for path in folder.rglob("*") if path.is_file()):
        named = DAY.search(path.name)
        day = datetime.fromisoformat(f"{named[0]}T17:00Z") if named else standing()
        moment = min(day, standing() - timedelta(hours=9)).timestamp()
        os.utime(path, (moment, moment))


class Stage:
    """Where pictures are taken: a folder with the demo memory, indexed once.

    The caller makes `home` the home folder, so that the pictures show `~`.
    """

    def __init__(self, home: Path, model: Recorded) -> None:
        self.home = home
        self.model = model
        self.paused: Paused | None = None
        self.agent = AgentStage(home)
        self.root = home / "memory"
        self.data = home / ".local" / "share" / "memtui"
        shutil.copytree(DEMO_ROOT, self.root)
        shutil.copytree(DEMO_ROOT.with_name("demo_sessions"), home / "agents")
        agents = home / "agents"
        self.homes = TranscriptHomes(agents / "openclaw", agents / "claude", agents / "codex")
        date_files(self.root, home / "agents")
        with self.open_engine("demo", Bus()) as engine:
            engine.index.sync(wait=True)

    def open_engine(self, memory: Memory, bus: Bus) -> Engine:
        """Open the engine on what a picture shows: memtui's own index, or an agent's."""
        for scene in SCENES:
            if memory == scene:
                return self.agent.open(scene, bus)
        settings, data = Settings(), self.data
        if memory == "unindexed":
            settings, data = Settings(embedding=EmbeddingSettings(provider="none")), data / "new"
        elif memory == "indexing":
            data = data / "filling"
        elif memory == "broken":
            settings = Settings(embedding=EmbeddingSettings(model="no-such-model"))
        return Engine.open(
            self.root,
            settings,
            bus=bus,
            data_dir=data,
            now=standing,
            watch=memory in ("demo", "indexing"),
            homes=self.homes,
        )

    async def take(self, picture: Picture) -> tuple[str, list[str]]:
        """Take a picture: the SVG, and the screen as lines of text."""
        with ExitStack() as stack:
            # What is told for some seconds stays, and no part comes first, however slow the machine.
            stack.enter_context(patch.object(search_controller, "NOTE_SECONDS", 600))
            stack.enter_context(patch("memtui.engine.own_legs.SLOW_LEG_SECONDS", 600))
            if picture.memory == "indexing":
                shutil.rmtree(self.data / "filling", ignore_errors=True)
                self.paused = stack.enter_context(paused_model(self.model, 96))
            stack.enter_context(patch.dict(os.environ, MACHINES[picture.machine]))
            ranking = RANKINGS[picture.ranking]
            settings = Settings(ui=UiSettings(theme=picture.theme))
            options = UiOptions(settings, ranking=ranking, root=self.root, is_provider_given=True)
            width, height = map(int, picture.size.split("x"))
            app = MemtuiApp(lambda bus: self.open_engine(picture.memory, bus), options)
            async with app.run_test(size=(width, height), notifications=True) as pilot:
                await self._play(app, pilot, picture)
                svg = app.export_screenshot(title="memtui", simplify=True)
                lines = render_lines(app)
                if picture.film:
                    frames = []
                    for seconds, caption, keys in picture.film:
                        await press_all(app, pilot, keys)
                        svg = app.export_screenshot(title=caption, simplify=True)
                        frames.append((seconds, svg))
                    svg = moving(frames)
            app.memories.close()
        return svg, lines

    async def _play(self, app: MemtuiApp, pilot: Pilot[Any], picture: Picture) -> None:
        for box in app.query(Input):
            box.cursor_blink = False
        screen = app.search_screen
        if picture.memory == "broken":
            await settle(app, pilot)
            await pilot.pause(1)
            return
        await until(pilot, lambda: screen.engine is not None, 30)
        screen.refresh_status()
        await rest(app, pilot)
        if picture.memory == "unindexed":
            return
        engine = screen.engine
        assert engine is not None
        if picture.memory == "indexing":
            assert self.paused is not None
            await until(pilot, self.paused.waits.is_set, 60)
        await until(pilot, lambda: is_ready(engine.index.status(), picture.memory), 60)
        screen.refresh_status()
        # The first question loads the model; the one in the picture finds it loaded.
        screen.search.ask_query("warm")
        await until(pilot, lambda: screen.state.answered_text == "warm", 60)
        screen.search.ask_query(picture.query)
        await until(pilot, lambda: screen.state.answered_text == picture.query, 60)
        await rest(app, pilot)
        if act := getattr(pictures, picture.act, None):
            await act(app, pilot)
        else:
            await press_all(app, pilot, picture.act)
        await rest(app, pilot)


async def press_all(app: MemtuiApp, pilot: Pilot[Any], keys: str) -> None:
    """Press keys, of which `~` waits until nothing goes on any more, and wait for the screen."""
    for key in keys.split():
        await (everything_read(app, pilot) if key == "~" else pilot.press(key))
    await rest(app, pilot)


def is_ready(status: IndexStatus, memory: Memory) -> bool:
    """Whether everything that goes on by itself is done."""
    if status.foreign is not None:
        return status.foreign.truth is not None and not status.foreign.examining
    is_synced = memory == "indexing" or status.last_sync is not None
    return is_synced and status.watcher.mode == "events"


def differs(picture: Picture, svg: str) -> bool:
    """Whether a picture is not what is recorded, but for numbers that time decides."""
    recorded = (FOLDER / f"{picture.name}.svg").read_text(encoding="utf-8")
    return comparable(svg_lines(svg)) != comparable(svg_lines(recorded))


async def main(names: list[str], *, check: bool = False) -> int:
    """Take the named pictures, or all, and write them to `screenshots/`; or compare with those.

    With `check` the exit code is 1 when a picture differs.
    """
    FOLDER.mkdir(exist_ok=True)
    stale = 0
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as stack:
        os.environ["HOME"] = temporary
        model = stack.enter_context(recorded_model(recording=not check))
        stage = Stage(Path(temporary), model)
        for picture in PICTURES:
            if names and picture.name not in names:
                continue
            svg, _ = await stage.take(picture)
            if check:
                stale += differs(picture, svg)
                print(picture.name, "differs" if differs(picture, svg) else "ok")
                continue
            (FOLDER / f"{picture.name}.svg").write_text(svg, encoding="utf-8")
            to_png(svg, FOLDER / f"{picture.name}.png")
            print(picture.name)
        if not names and not check:
            model.save()
    return 1 if stale else 0


if __name__ == "__main__":
    wanted = [name for name in sys.argv[1:] if name != "--check"]
    sys.exit(asyncio.run(main(wanted, check="--check" in sys.argv)))

"""Makes the pictures of the program: `python -m tests.screenshots`.

The demo memory is indexed into a temporary folder and shown by the real application on the real
engine, at a clock that stands still. The same functions serve the test that compares the pictures
with the program.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray
from textual.pilot import Pilot
from textual.widgets import Input

from memtui.bus import Bus
from memtui.embedding import minilm
from memtui.embedding.choice import EmbeddingChoice
from memtui.embedding.provider import Provider
from memtui.embedding.registry import register, unregister
from memtui.engine import Engine
from memtui.errors import Cancelled, ProviderError
from memtui.memory.demo import DEMO_PRESENT
from memtui.memory.workspace import demo_root
from memtui.model import Decay, IndexStatus, Mmr, Ranking, Usage
from memtui.settings import EmbeddingSettings, Settings
from memtui.text.tokens import dominant_script_latin
from memtui.tui.app import MemtuiApp
from memtui.tui.door import OpenedMemory
from memtui.tui.options import UiOptions
from memtui.tui.screens.confirm_provider import ConfirmProvider
from memtui.tui.screens.difference import DifferenceScreen
from memtui.tui.screens.explain import ExplainScreen
from memtui.tui.screens.place_prompt import PlacePrompt
from memtui.tui.screens.providers import ProvidersScreen
from memtui.tui.widgets.row_list import RowList
from tests.support.agent_scenes import CHANGED, SCENES, AgentStage, Scene
from tests.support.pictures import to_png
from tests.tui.harness import render_lines, settle, until

FOLDER = Path(__file__).parent.parent / "screenshots"
VECTORS = Path(__file__).parent / "data" / "demo-vectors.npz"
QUERY = "router vlan config"
AGENT_QUERY = "router VLAN configuration guest wireless"

Act = Callable[[MemtuiApp, Pilot[int]], Awaitable[None]]
Memory = Literal["demo", "unindexed", "indexing", "broken"] | Scene


@dataclass(frozen=True)
class Picture:
    """One picture: what it shows, how large, and what is done before it is taken."""

    name: str
    size: tuple[int, int]
    query: str = QUERY
    ranking: Ranking = field(default_factory=Ranking)
    theme: str = "memtui-dark"
    act: Act | None = None
    memory: Memory = "demo"
    environment: tuple[tuple[str, str], ...] = ()


def standing() -> datetime:
    """The clock of all pictures."""
    return DEMO_PRESENT


async def press_explain(app: MemtuiApp, pilot: Pilot[int]) -> None:
    """Open the explanation of the second result."""
    await pilot.press("down", "f4")
    await until(pilot, lambda: isinstance(app.screen, ExplainScreen), 30)
    await everything_found(app, pilot)


async def trace_a_note(app: MemtuiApp, pilot: Pilot[int]) -> None:
    """Name a note that is not in the list, and wait until everything about it is known."""
    await pilot.press("escape", "t")
    await until(pilot, lambda: isinstance(app.screen, PlacePrompt), 30)
    app.screen.query_one(Input).value = "2026-04-21"
    await rest(app, pilot)
    await pilot.press("enter")
    await until(pilot, lambda: isinstance(app.screen, ExplainScreen), 30)
    await everything_found(app, pilot)


async def everything_found(app: MemtuiApp, pilot: Pilot[int]) -> None:
    """Wait until the explain screen looks for nothing any more."""

    def found() -> bool:
        screen = app.screen
        return isinstance(screen, ExplainScreen) and not screen.page.findings.due

    await until(pilot, found, 60)


async def compare_with_decay(app: MemtuiApp, pilot: Pilot[int]) -> None:
    """Put the list with decay beside the configured one."""
    await pilot.press("escape", "d")
    await rest(app, pilot)
    await pilot.press("c", "down")


async def sweep_lambda(app: MemtuiApp, pilot: Pilot[int]) -> None:
    """Draw the ranks against λ and go to the flip before the present value."""
    await pilot.press("escape", "S", "2")
    await rest(app, pilot)
    await pilot.press("left")


async def open_index(app: MemtuiApp, pilot: Pilot[int]) -> None:
    """Open the index screen."""
    await pilot.press("escape", "4")


async def toggle_decay(app: MemtuiApp, pilot: Pilot[int]) -> None:
    """Switch decay on, so that the strip tells what moved."""
    await pilot.press("f3")


async def open_help(app: MemtuiApp, pilot: Pilot[int]) -> None:
    """Open the help of the result list."""
    await pilot.press("escape", "question_mark")


async def choose_fourth(app: MemtuiApp, pilot: Pilot[int]) -> None:
    """Go to the fourth result: one that decay moved."""
    await pilot.press("down", "down", "down")


async def open_truth(app: MemtuiApp, pilot: Pilot[int]) -> None:
    """Open the index screen of an agent's index."""
    await pilot.press("escape", "i")


async def open_difference(app: MemtuiApp, pilot: Pilot[int]) -> None:
    """Open what changed in a note since the agent's program indexed it."""
    screen = app.search_screen
    assert screen.ranked is not None
    hit = next(hit for hit in screen.ranked.hits if hit.chunk.path == CHANGED)
    screen.results.choose(hit.chunk.id)
    await until(pilot, lambda: screen.source is not None and screen.source.path == CHANGED, 30)
    await pilot.press("f8")
    await until(pilot, lambda: isinstance(app.screen, DifferenceScreen), 30)


async def open_providers(app: MemtuiApp, pilot: Pilot[int]) -> None:
    """Open the list of the providers and go to the one whose key is there."""
    await pilot.press("escape", "E")
    screen = app.screen
    assert isinstance(screen, ProvidersScreen)
    await until(pilot, lambda: bool(screen.listings), 30)
    screen.query_one(RowList).choose("openai")


async def price_a_provider(app: MemtuiApp, pilot: Pilot[int]) -> None:
    """Ask what going over to that provider costs."""
    await open_providers(app, pilot)
    await rest(app, pilot)
    await pilot.press("enter")
    await until(pilot, lambda: isinstance(app.screen, ConfirmProvider), 30)
    await pilot.press("down")


OLD_COUNTS_LESS = Ranking(decay=Decay(enabled=True))
BOTH = Ranking(mmr=Mmr(enabled=True), decay=Decay(enabled=True, floor=0.8))

ONE_KEY = (
    ("OPENAI_API_KEY", "sk-for-the-picture"),
    *((name, "") for name in ("GEMINI_API_KEY", "GOOGLE_API_KEY")),
    *((name, "") for name in ("VOYAGE_API_KEY", "MISTRAL_API_KEY")),
)
"""A machine on which the key of one service is found."""

PICTURES = (
    Picture("main-80x24", (80, 24), ranking=BOTH),
    Picture("main-120x40", (120, 40), ranking=BOTH),
    Picture("main-200x60", (200, 60), ranking=BOTH),
    Picture("light-120x40", (120, 40), ranking=BOTH, theme="memtui-light"),
    Picture("contrast-120x40", (120, 40), ranking=BOTH, theme="memtui-high-contrast"),
    Picture("decay-120x40", (120, 40), query="standup time", act=toggle_decay),
    Picture("explain-120x40", (120, 40), ranking=BOTH, act=press_explain),
    Picture("explain-80x24", (80, 24), ranking=BOTH, act=press_explain),
    Picture("trace-120x40", (120, 40), ranking=OLD_COUNTS_LESS, act=trace_a_note),
    Picture("trace-80x24", (80, 24), ranking=OLD_COUNTS_LESS, act=trace_a_note),
    Picture(
        "trace-light-200x60",
        (200, 60),
        ranking=OLD_COUNTS_LESS,
        theme="memtui-light",
        act=trace_a_note,
    ),
    Picture("compare-120x40", (120, 40), act=compare_with_decay),
    Picture("sweep-120x40", (120, 40), ranking=BOTH, act=sweep_lambda),
    Picture("sweep-light-80x24", (80, 24), ranking=BOTH, theme="memtui-light", act=sweep_lambda),
    Picture("index-120x40", (120, 40), act=open_index),
    Picture("providers-120x40", (120, 40), act=open_providers, environment=ONE_KEY),
    Picture("providers-80x24", (80, 24), act=price_a_provider, environment=ONE_KEY),
    Picture("help-120x40", (120, 40), act=open_help),
    Picture("indexing-120x40", (120, 40), memory="indexing"),
    Picture("unindexed-80x24", (80, 24), memory="unindexed"),
    Picture("empty-80x24", (80, 24), query="恐龙"),
    Picture("error-80x24", (80, 24), memory="broken"),
    Picture("agent-120x40", (120, 40), query=AGENT_QUERY, memory="agent", act=choose_fourth),
    Picture("agent-80x24", (80, 24), query=AGENT_QUERY, memory="agent", act=choose_fourth),
    Picture(
        "agent-light-120x40",
        (120, 40),
        query=AGENT_QUERY,
        memory="agent",
        theme="memtui-light",
        act=choose_fourth,
    ),
    Picture("truth-120x40", (120, 40), query=AGENT_QUERY, memory="drifted", act=open_truth),
    Picture(
        "difference-120x40", (120, 40), query=AGENT_QUERY, memory="changed", act=open_difference
    ),
    Picture("nocolor-80x24", (80, 24), ranking=BOTH, environment=(("NO_COLOR", "1"),)),
)


class Recorded:
    """The bundled model's own vectors, recorded: the same numbers on every processor.

    With `recording`, the model is asked and what it says is kept for `save`.
    """

    name, model, dimensions, fingerprint, _ = minilm.identity(EmbeddingChoice())
    address = ""
    remote = False
    batch_size = 8

    def __init__(self, *, recording: bool) -> None:
        self._model = minilm.create(EmbeddingChoice()) if recording else None
        self._vectors: dict[str, NDArray[np.float32]] = {}
        if not recording:
            with np.load(VECTORS) as file:
                self._vectors = dict(zip(file["hashes"].tolist(), file["vectors"], strict=True))

    def embed_query(
        self, text: str, *, cancelled: Callable[[], bool] | None = None
    ) -> NDArray[np.float32]:
        """Give the vector of a text; raises `ProviderError` for one that was not recorded."""
        key = hashlib.sha256(text.encode()).hexdigest()
        if self._model is not None:
            self._vectors[key] = self._model.embed_query(text)
        if key not in self._vectors:
            raise ProviderError("not recorded", hint="run `python -m tests.screenshots`")
        return self._vectors[key]

    def embed_documents(
        self, texts: Sequence[str], *, cancelled: Callable[[], bool] | None = None
    ) -> NDArray[np.float32]:
        """Give the vectors of texts."""
        return np.stack([self.embed_query(text) for text in texts])

    def reads(self, text: str) -> bool:
        """Whether the model reads the script of a text."""
        return dominant_script_latin(text)

    def usage(self) -> Usage:
        """Nothing is counted."""
        return Usage()

    def close(self) -> None:
        """Nothing is open."""

    def save(self) -> None:
        """Write what was recorded, in an order that does not change."""
        hashes = sorted(self._vectors)
        vectors = np.stack([self._vectors[key] for key in hashes])
        np.savez_compressed(VECTORS, hashes=np.array(hashes), vectors=vectors)


def stand_in(model: Recorded | Paused) -> None:
    """Put a model in the place of the bundled one."""
    register(
        replace(minilm.REGISTRATIONS[minilm.NAME], create=lambda choice: cast("Provider", model))
    )


@contextmanager
def recorded_model(*, recording: bool = False) -> Iterator[Recorded]:
    """Put the recorded vectors in the place of the bundled model."""
    model = Recorded(recording=recording)
    stand_in(model)
    try:
        yield model
    finally:
        unregister(minilm.NAME)


class Paused:
    """A model that stops after some texts until it is let go on."""

    def __init__(self, provider: Provider, texts: int) -> None:
        self._provider = provider
        self._left = texts
        self.waits = threading.Event()
        self.go_on = threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._provider, name)

    def embed_documents(
        self, texts: Sequence[str], *, cancelled: Callable[[], bool] | None = None
    ) -> Any:
        """Embed until the texts are used up, then wait."""
        self._left -= len(texts)
        if self._left < 0:
            self.waits.set()
        while self._left < 0 and not self.go_on.wait(0.05):
            if cancelled is not None and cancelled():
                raise Cancelled
        return self._provider.embed_documents(texts, cancelled=cancelled)


@contextmanager
def paused_model(model: Recorded, texts: int) -> Iterator[Paused]:
    """Let the recorded model pause after so many texts."""
    made = Paused(cast("Provider", model), texts)
    stand_in(made)
    try:
        yield made
    finally:
        made.go_on.set()
        stand_in(model)


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
        shutil.copytree(demo_root(), self.root)
        with self.open_engine("demo", Bus()) as engine:
            engine.sync(wait=True)

    def open_memory(self, memory: Memory, bus: Bus) -> Engine | OpenedMemory:
        """Open what a picture shows: a memory of memtui's own, or an agent's index."""
        for scene in SCENES:
            if memory == scene:
                return self.agent.open(scene, bus)
        return self.open_engine(memory, bus)

    def open_engine(self, memory: Memory, bus: Bus) -> Engine:
        """Open the engine on the memory a picture shows."""
        settings, data = Settings(), self.data
        if memory == "unindexed":
            settings, data = Settings(embedding=EmbeddingSettings(provider="none")), data / "new"
        elif memory == "indexing":
            data = data / "filling"
        elif memory == "broken":
            settings = Settings(embedding=EmbeddingSettings(model="no-such-model"))
        watch = memory in ("demo", "indexing")
        return Engine.open(self.root, settings, bus=bus, data_dir=data, now=standing, watch=watch)

    async def take(self, picture: Picture) -> tuple[str, list[str]]:
        """Take a picture: the SVG, and the screen as lines of text."""
        with ExitStack() as stack:
            if picture.memory == "indexing":
                shutil.rmtree(self.data / "filling", ignore_errors=True)
                self.paused = stack.enter_context(paused_model(self.model, 96))
            for name, value in picture.environment:
                stack.callback(os.environ.pop, name, None)
                os.environ[name] = value
            options = UiOptions(
                ranking=picture.ranking, root=self.root, theme=picture.theme, demo=True
            )
            app = MemtuiApp(lambda bus: self.open_memory(picture.memory, bus), options)
            async with app.run_test(size=picture.size, notifications=True) as pilot:
                await self._play(app, pilot, picture)
                svg = app.export_screenshot(title="memtui", simplify=True)
                lines = render_lines(app)
            app.close_engine()
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
        await until(pilot, lambda: is_ready(engine.status(), picture.memory), 60)
        screen.refresh_status()
        # The first question loads the model; the one in the picture finds it loaded.
        screen.query_input.value = "warm"
        await until(pilot, lambda: screen.flow.answered == "warm", 60)
        screen.query_input.value = picture.query
        screen.query_input.cursor_position = len(picture.query)
        await until(pilot, lambda: screen.flow.answered == picture.query, 60)
        await rest(app, pilot)
        if picture.act is not None:
            await picture.act(app, pilot)
        await rest(app, pilot)


def is_ready(status: IndexStatus, memory: Memory) -> bool:
    """Whether everything that goes on by itself is done."""
    if status.foreign is not None:
        return status.foreign.truth is not None and not status.foreign.examining
    is_synced = memory == "indexing" or status.last_sync is not None
    return is_synced and status.watcher.mode == "events"


async def rest(app: MemtuiApp, pilot: Pilot[Any]) -> None:
    """Wait until two looks at the screen in a row see the same."""
    before: list[str] = []
    while before != (now := render_lines(app)) or not before:
        before = now
        await settle(app, pilot)
        await pilot.pause(0.15)


async def main(names: list[str]) -> None:
    """Take the named pictures, or all of them, and write them to `screenshots/`."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as stack:
        os.environ["HOME"] = temporary
        model = stack.enter_context(recorded_model(recording=True))
        stage = Stage(Path(temporary), model)
        for picture in PICTURES:
            if names and picture.name not in names:
                continue
            svg, _ = await stage.take(picture)
            (FOLDER / f"{picture.name}.svg").write_text(svg, encoding="utf-8")
            to_png(svg, FOLDER / f"{picture.name}.png")
            print(picture.name)
        if not names:
            model.save()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))

"""Choosing an agent: at the start, from the palette, with what goes wrong told in the dialog."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from textual.pilot import Pilot

from memtui.bus import Bus
from memtui.engine import Engine
from memtui.model.status import ForeignAgent, IndexGeneration
from memtui.tui.app import MemtuiApp
from memtui.tui.commands import MemtuiCommands
from memtui.tui.memories import MachineAgents
from memtui.tui.options import UiOptions
from memtui.tui.screens.agents import AgentsScreen, agent_row
from tests.support.openclaw import AGENT, AGENT_BLOB, SIDECAR, make_state
from tests.support.small_memory import SmallMemory
from tests.tui.harness import press, screen_text, settle, until
from tests.tui.reader_samples import HOSTILE

NOTES = UiOptions(theme="memtui-dark", root=Path("/home/ann/wiki"))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home folder with the agents of three releases and one whose index is broken."""
    folder = tmp_path / "home"
    make_state(folder / ".openclaw", AGENT_BLOB)
    make_state(folder / ".openclaw", AGENT, "research")
    make_state(folder / ".clawdbot", SIDECAR, "old")
    broken = folder / ".openclaw/agents/broken/agent/openclaw-agent.sqlite"
    broken.parent.mkdir(parents=True)
    broken.write_bytes(b"no database" * 400)
    return folder


@asynccontextmanager
async def choosing(
    home: Path,
    notes: Callable[[Bus], Engine] | None,
    *,
    choose: bool = True,
    size: tuple[int, int] = (120, 40),
) -> AsyncIterator[tuple[MemtuiApp, Pilot[int]]]:
    app = MemtuiApp(notes, NOTES, agents=MachineAgents({}, home), choose=choose)
    async with app.run_test(size=size, notifications=True) as pilot:
        await until(pilot, lambda: app.engine is not None or is_asking(app))
        await settle(app, pilot)
        yield app, pilot
    app.memories.close()


def is_asking(app: MemtuiApp) -> bool:
    return isinstance(app.screen, AgentsScreen)


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_every_agent_is_described_and_what_goes_wrong_is_one_line(
    size: tuple[int, int], home: Path, memory: SmallMemory
) -> None:
    async with choosing(home, memory.open, size=size) as (app, pilot):
        text = screen_text(app)
        for words in (
            "the notes folder   /home/ann/wiki",
            "agent database, blobs  16 files 118 chunks",
            "text-embedding-3-small 256 d",
            "old ",
            "openclaw-agent.sqlite is not an SQLite database",
        ):
            assert words in text
        await press(pilot, *"broken", "enter")
        await until(pilot, lambda: "1 of 5" in screen_text(app))
        await until(pilot, lambda: screen_text(app).count("SQLite") == 2)
        assert is_asking(app)
        for _ in "broken":
            await press(pilot, "backspace")
        await press(pilot, *"research", "enter")
        await until(pilot, lambda: app.engine is not None, 20)
        await settle(app, pilot)
        assert app.screen is app.search_screen
        assert app.search_screen.ranking.profile == "openclaw-2026.7"
        assert app.options.root == home / ".openclaw" / "workspace-research"


@pytest.mark.parametrize(
    ("agents", "has_notes", "asks"),
    [(2, True, True), (2, False, True), (0, True, False), (1, False, False)],
)
async def test_it_asks_only_where_there_is_a_choice(
    agents: int, has_notes: bool, asks: bool, tmp_path: Path, memory: SmallMemory
) -> None:
    for name in ("main", "research")[:agents]:
        make_state(tmp_path / "home" / ".openclaw", AGENT_BLOB, name)
    notes = memory.open if has_notes else None
    async with choosing(tmp_path / "home", notes) as (app, _):
        assert is_asking(app) is asks
        assert (app.engine is None) is asks


async def test_without_anything_to_open_it_says_so(tmp_path: Path) -> None:
    app = MemtuiApp(None, NOTES, agents=MachineAgents({}, tmp_path), choose=True)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "no notes folder here" in screen_text(app))


async def test_the_palette_leads_from_one_memory_to_another_and_back(
    home: Path, memory: SmallMemory
) -> None:
    async with choosing(home, memory.open, choose=False) as (app, pilot):
        screen, before = app.search_screen, app.engine

        async def choose(typed: str) -> None:
            engine = app.engine
            app.memories.choose_agent()
            await until(pilot, lambda: is_asking(app) and "research" in screen_text(app))
            await press(pilot, *typed)
            await until(pilot, lambda: "1 of 5" in screen_text(app))
            await press(pilot, "enter")
            await until(pilot, lambda: app.screen is screen and app.engine is not engine)
            await until(pilot, lambda: screen.ranked is not None and screen.search.complete)

        screen.query_input.value = "router"
        await until(pilot, lambda: screen.search.answered_text == "router")
        commands = {command.name: command for command in MemtuiCommands(app.screen).commands()}
        commands["open an agent's index…"].run()
        await until(pilot, lambda: is_asking(app) and "research" in screen_text(app))
        await press(pilot, "escape")
        await until(pilot, lambda: app.screen is screen)
        assert app.engine is before
        await choose("research")
        assert screen.ranked is not None
        assert screen.ranked.ranking.profile == "openclaw-2026.7"
        await choose("wiki")
        assert app.options.ranking == NOTES.ranking
        assert app.options.root == NOTES.root
        assert screen.ranked.ranking.profile == NOTES.ranking.profile


async def test_an_index_that_opens_after_the_dialog_was_left_is_closed(
    home: Path, memory: SmallMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()
    opened: list[Engine] = []
    closed: list[bool] = []
    open_agent = MachineAgents.open

    def slow(agents: MachineAgents, agent: ForeignAgent, bus: Bus) -> Engine:
        go_on.wait(10)
        opened.append(open_agent(agents, agent, bus))
        monkeypatch.setattr(opened[0], "close", lambda: closed.append(True))
        return opened[0]

    monkeypatch.setattr(MachineAgents, "open", slow)
    async with choosing(home, memory.open) as (app, pilot):
        await press(pilot, *"research", "enter")
        await until(pilot, lambda: "opening research…" in screen_text(app))
        await press(pilot, "escape")
        await until(pilot, lambda: app.engine is not None)
        go_on.set()
        await until(pilot, lambda: bool(closed))
        assert app.engine is not opened[0]
    monkeypatch.undo()
    opened[0].close()


def test_hostile_names_are_drawn_as_marks() -> None:
    now = datetime(2026, 2, 13, tzinfo=UTC)
    for text in HOSTILE:
        agent = ForeignAgent(
            text, Path("/x"), None, IndexGeneration.AGENT, None, text, text, 3, 1, 2,
            now - timedelta(hours=5), text,
        )  # fmt: skip
        line = agent_row(agent, 120, now=now).plain
        assert "5 h ago" in line
        assert not any((ord(c) < 32 and c != "\n") or 0x7F <= ord(c) < 0xA0 for c in line)

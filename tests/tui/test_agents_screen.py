"""Choosing an agent: at the start, from the palette, with what goes wrong told in the dialog."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from textual.pilot import Pilot

from memtui.bus import Bus, SearchReady
from memtui.model import Ranking
from memtui.model.status import ForeignAgent
from memtui.tui.app import MemtuiApp
from memtui.tui.commands import MemtuiCommands
from memtui.tui.memories import MachineAgents
from memtui.tui.options import UiOptions
from memtui.tui.screens.agents import AgentsScreen
from tests.support.openclaw import AGENT, AGENT_BLOB, SIDECAR, make_state
from tests.tui.foreign_samples import AGENTS, ForeignSample, SampleAgents
from tests.tui.harness import screen_text, settle, until
from tests.tui.reader_samples import HOSTILE
from tests.tui.samples import SampleEngine

NOTES = UiOptions(theme="memtui-dark", root=Path("/home/ann/wiki"))


@asynccontextmanager
async def choosing(
    agents: MachineAgents,
    *,
    notes: Callable[[Bus], SampleEngine] | None = SampleEngine,
    choose: bool = True,
    size: tuple[int, int] = (120, 40),
) -> AsyncIterator[tuple[MemtuiApp, Pilot[int]]]:
    app = MemtuiApp(notes, NOTES, agents=agents, choose=choose)
    async with app.run_test(size=size, notifications=True) as pilot:
        if choose:
            await until(pilot, lambda: app.engine is not None or _is_asking(app))
        else:
            await until(pilot, lambda: app.engine is not None)
        await settle(app, pilot)
        yield app, pilot
    app.memories.close()


def _is_asking(app: MemtuiApp) -> bool:
    return isinstance(app.screen, AgentsScreen)


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_every_agent_is_described(size: tuple[int, int]) -> None:
    async with choosing(SampleAgents(), size=size) as (app, _):
        text = screen_text(app)
        for words in (
            "the notes folder   /home/ann/wiki",
            "openai/text-embedding-3-small 1536 d",
            "agent database, blobs  142 files 1 284 chunks  /home/ann/notes",
            "own file  9 files 40 chunks  /home/ann/papers",
            "! has no memory index",
        ):
            assert words in text


async def test_enter_opens_the_chosen_index_with_its_parameters() -> None:
    agents = SampleAgents()
    async with choosing(agents) as (app, pilot):
        assert app.engine is None
        await pilot.press("enter")
        await until(pilot, lambda: app.engine is not None)
        await settle(app, pilot)
        assert agents.opened == ["main"]
        assert app.screen is app.search_screen
        assert app.search_screen.ranking == Ranking(k=3)
        assert app.options.root == Path("/home/ann/notes")
        assert "openclaw-2026.9" in screen_text(app)


async def test_what_goes_wrong_is_one_line_and_another_can_be_chosen() -> None:
    agents = SampleAgents()
    async with choosing(agents, size=(80, 24)) as (app, pilot):
        await pilot.press("down", "enter")
        await until(pilot, lambda: "locked by [another] program␛[31m" in screen_text(app))
        assert _is_asking(app)
        await pilot.press("up", "enter")
        await until(pilot, lambda: app.engine is not None)
        assert agents.opened == ["research", "main"]


@pytest.mark.parametrize(
    ("found", "notes", "asks"),
    [
        (AGENTS, SampleEngine, True),
        (AGENTS, None, True),
        ((), SampleEngine, False),
        (AGENTS[2:], SampleEngine, False),
        (AGENTS[:1], None, False),
    ],
)
async def test_it_asks_only_where_there_is_a_choice(
    found: Sequence[ForeignAgent], notes: Callable[[Bus], SampleEngine] | None, asks: bool
) -> None:
    async with choosing(SampleAgents(agents=found), notes=notes) as (app, _):
        assert _is_asking(app) is asks
        assert (app.engine is None) is asks


async def test_without_anything_to_open_it_says_so() -> None:
    app = MemtuiApp(None, NOTES, agents=SampleAgents(agents=()), choose=True)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "no notes folder here" in screen_text(app))


async def test_the_palette_leads_from_one_memory_to_another_and_back() -> None:
    agents = SampleAgents()
    notes: list[SampleEngine] = []

    def open_notes(bus: Bus) -> SampleEngine:
        notes.append(SampleEngine(bus))
        return notes[-1]

    async with choosing(agents, notes=open_notes, choose=False) as (app, pilot):
        screen = app.search_screen
        screen.query_input.value = "router"
        await until(pilot, lambda: screen.search.answered_text == "router")
        commands = {c.name: c for c in MemtuiCommands(app.screen).commands()}
        commands["open an agent's index…"].run()
        await until(pilot, lambda: _is_asking(app) and "research" in screen_text(app))
        await pilot.press("escape")
        assert app.engine is notes[0]
        app.memories.choose_agent()
        await pilot.pause()
        await until(pilot, lambda: "research" in screen_text(app))
        await pilot.press("enter")
        await until(pilot, lambda: app.engine is not notes[0] and screen.search.complete)
        await until(pilot, lambda: "close" in notes[0].calls)
        assert screen.ranked is not None
        assert screen.ranked.ranking.k == 3
        late = SearchReady(screen.search.sequence, notes[0].rerank(notes[0].pool, Ranking()), True)
        notes[0].bus.publish(late)
        await settle(app, pilot)
        assert screen.ranked.ranking.k == 3
        app.memories.choose_agent()
        await pilot.pause()
        await until(pilot, lambda: "research" in screen_text(app))
        await pilot.press("up", "enter")
        await until(pilot, lambda: len(notes) == 2 and app.engine is notes[1])
        assert app.options.ranking == NOTES.ranking


async def test_an_index_that_opens_after_the_dialog_was_left_is_closed() -> None:
    opened = ForeignSample(Bus())
    import threading

    go_on = threading.Event()

    class Slow(SampleAgents):
        def open(self, agent: ForeignAgent, bus: Bus) -> ForeignSample:
            go_on.wait(10)
            return opened

    async with choosing(Slow()) as (app, pilot):
        await pilot.press("enter")
        await until(pilot, lambda: "opening main…" in screen_text(app))
        await pilot.press("escape")
        await until(pilot, lambda: app.engine is not None)
        go_on.set()
        await until(pilot, lambda: "close" in opened.calls)
        assert type(app.engine) is SampleEngine


async def test_hostile_names_reach_the_screen_as_marks() -> None:
    hostile = [
        replace(AGENTS[0], name=text, model=text, provider=text, problem=text) for text in HOSTILE
    ]
    async with choosing(SampleAgents(agents=hostile), size=(200, 60)) as (app, _):
        text = screen_text(app)
        assert "- [x] done" in text
        assert not any((ord(c) < 32 and c != "\n") or 0x7F <= ord(c) < 0xA0 for c in text)


async def test_the_real_agents_of_a_machine_are_listed_and_opened(tmp_path: Path) -> None:
    folder = tmp_path / ".openclaw"
    make_state(folder, AGENT_BLOB)
    make_state(folder, AGENT, "research")
    make_state(tmp_path / ".clawdbot", SIDECAR, "old")
    broken = folder / "agents" / "broken" / "agent" / "openclaw-agent.sqlite"
    broken.parent.mkdir(parents=True)
    broken.write_bytes(b"no database" * 400)
    async with choosing(MachineAgents({}, tmp_path), size=(120, 40)) as (app, pilot):
        text = screen_text(app)
        for name in ("main", "research", "old", "broken"):
            assert name in text
        assert "openclaw-agent.sqlite is not an SQLite database" in text
        await pilot.press(*"research", "enter")
        await until(pilot, lambda: app.engine is not None, 20)
        await settle(app, pilot)
        assert "openclaw-2026.7" in screen_text(app)

"""Choosing an agent's index, and searching it: its parameters, its legs, its notes, no writing."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace
from textual.content import Content
from textual.pilot import Pilot

from memtui.bus import Bus
from memtui.engine import Engine
from memtui.model import CandidatePool, Ranking
from memtui.model.rankings import DateRule
from memtui.model.status import ForeignAgent, IndexGeneration
from memtui.ranking.pipeline import needs_search
from memtui.report.explanation import report_of
from memtui.report.layout import text_of
from memtui.settings.load import SettingsFiles
from memtui.tui.app import MemtuiApp, run
from memtui.tui.commands import MemtuiCommands
from memtui.tui.memories import MachineAgents
from memtui.tui.screens.choosers import AgentsScreen, agent_row
from memtui.tui.screens.dialogs import DifferenceScreen
from memtui.tui.screens.explain import ExplainScreen
from memtui.tui.screens.search import search_controller
from tests.support.embedding_services import embedding_server, giving
from tests.support.hostile import ATTACKS
from tests.support.known import cases, load
from tests.support.openclaw import (
    AGENT,
    AGENT_BLOB,
    DIMS,
    RELEASES,
    SIDECAR,
    edit,
    hash_tree,
    make_state,
)
from tests.support.small_memory import SmallMemory
from tests.tui.harness import (
    dark,
    foreign_running,
    make_target,
    press,
    resize,
    screen_text,
    settle,
    until,
)
from tests.tui.samples import make_pool

SIZES = [(80, 24), (120, 40), (200, 60)]
QUERY = "router vlan config"
CONFIG = "{agents: {defaults: {memorySearch: {query: {maxResults: 4, minScore: 0}}}}}"
CONFIGURED = "{{agents: {{defaults: {{memorySearch: {}}}}}}}"
REMOTE = CONFIGURED.format(
    "{provider: 'openai', remote: {baseUrl: 'http://embeddings.example/v1', apiKey: 'sk-test'}}"
)


@pytest.mark.parametrize("release", RELEASES)
async def test_every_release_searches_with_the_parameters_of_its_agent(
    release: str, tmp_path: Path
) -> None:
    state, target = make_target(tmp_path, release, CONFIG)
    before = hash_tree(state.folder)
    async with foreign_running(target) as run:
        await run.search("router")
        screen = run.app.search_screen
        assert screen.state.ranking == run.engine.ranking == run.app.options.ranking
        assert screen.state.ranking.profile == f"openclaw-{release[:6]}"
        assert 0 < len(run.ranked.hits) <= screen.state.ranking.k == 4
        assert f"profile openclaw-{release[:6]}" in run.text
        await run.press("escape", "3", "O", shows="turns nothing on or off here")
        assert "space" not in run.text
    assert hash_tree(state.folder) == before


async def test_a_leg_that_cannot_be_reproduced_is_told_where_results_are(tmp_path: Path) -> None:
    _, target = make_target(tmp_path, SIDECAR, CONFIG)
    async with foreign_running(target, size=SIZES[0]) as run:
        await run.search("router")
        for size in SIZES:
            await resize(run.pilot, size)
            assert "only words are searched, not meaning: set the key or give" in run.text
        await run.press("f4")
        assert "skipped: the query has no vector of openai" in run.text
        told = text_of(report_of(run.screen(ExplainScreen).explained))
        assert "the query has no vector of openai" in told


async def test_a_list_that_the_agent_does_not_get_is_named_so(tmp_path: Path) -> None:
    note = "the agent gets nothing until its index is rebuilt"
    state, target = make_target(tmp_path, AGENT, CONFIG)
    edit(state.database, "DELETE FROM memory_index_meta WHERE key = 'memory_index_meta_v1'")
    async with foreign_running(target, size=SIZES[0]) as run:
        await run.search("router")
        screen = run.app.search_screen
        assert screen.results.rows
        for size in SIZES:
            await resize(run.pilot, size)
            assert note in run.text
        # An answer may come before the examination that knows it.
        screen.results.border_subtitle = Content("")
        run.engine.index.sync()
        await run.until(lambda: note in run.text, 20)


async def test_another_number_of_candidates_asks_the_engine_again(tmp_path: Path) -> None:
    _, target = make_target(tmp_path, SIDECAR, CONFIG)
    async with foreign_running(target) as run:
        await run.search("router")
        screen = run.app.search_screen
        await press(run.pilot, "escape", "minus")
        wanted = screen.state.ranking.candidates
        await run.until(lambda: screen.state.ranked is not None and run.ranked.pool.limit == wanted)
        assert screen.state.ranking.k == 3
        assert run.ranked.pool.sized


def test_when_a_pool_serves_another_ranking() -> None:
    native = make_pool()
    sized = replace(native, limit=24, sized=True)
    ranking = Ranking(k=6, min_candidates=1)
    fewer = replace(ranking, k=3)
    more = replace(ranking, k=20)
    dates = replace(ranking, decay=replace(ranking.decay, dates=DateRule.OPENCLAW_2026_8))
    weights = replace(ranking, vector_weight=0.9)

    def asked(found: CandidatePool) -> list[bool]:
        return [needs_search(found, ranking, after) for after in (fewer, more, dates, weights)]

    assert asked(native) == [False, True, False, False]
    assert asked(sized) == [True, True, True, False]


async def test_enter_asks_a_remote_model_and_typing_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with embedding_server(giving([0.5] * DIMS), stays=True) as server:
        for name in ("HTTP_PROXY", "http_proxy"):
            monkeypatch.setenv(name, server.url)
        _, target = make_target(tmp_path, SIDECAR, REMOTE)
        async with foreign_running(replace(target, allow_insecure=True)) as run:
            await run.search("router", typing=True)
            assert "~ meaning match: press Enter to ask embeddings.example" in run.text
            assert not server.seen
            await press(run.pilot, "enter")
            await run.until(lambda: bool(server.seen) and "~ vector" not in run.text)
            await settle(run.app, run.pilot)
            assert [request.body["input"] for request in server.seen] == [["router"]]
            assert run.app.search_screen.query_input.has_focus
            await run.press("enter")
            assert run.app.search_screen.results.has_focus, "there is no result to read"
            await run.search("another query", typing=True)
            assert "~ meaning match: press Enter to ask embeddings.example" in run.text
            assert len(server.seen) == 1


@pytest.mark.parametrize(("config", "told"), cases("interface", "one leg alone"))
async def test_the_strip_says_that_one_leg_searches_alone(
    config: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_controller, "NOTE_SECONDS", 600)
    _, target = make_target(tmp_path, SIDECAR, CONFIGURED.format(config))
    async with foreign_running(target, size=SIZES[0]) as run:
        strip = run.app.search_screen.strip
        assert "MMR" in strip.render().plain
        await run.search("router")
        shown = strip.render().plain
        assert shown.strip().startswith(told)
        assert "results 6" in shown
        assert not {"MMR", "weighted", "relative"} & set(shown.split())
        assert "MMR" not in run.text.splitlines()[-1]
        await press(run.pilot, "escape", "m")
        await run.until(lambda: "MMR on (no effect without both matches)" in strip.render().plain)
        run.app.search_screen.rankings.note("")
        await resize(run.pilot, SIZES[2])
        assert f"{told}: no MMR, no weights" in run.text


async def test_a_changed_note_is_shown_as_indexed_with_its_difference_at_f8(tmp_path: Path) -> None:
    state, target = make_target(tmp_path, AGENT_BLOB)
    note = state.workspace / "MEMORY.md"
    lines = note.read_text(encoding="utf-8").split("\n")
    note.write_text("\n".join(["- [x] a new \x1b[31mfirst line", *lines[1:]]), encoding="utf-8")
    async with foreign_running(target, size=SIZES[0]) as run:
        await run.search(QUERY)
        screen = run.app.search_screen
        place = next(hit for hit in run.ranked.hits if hit.chunk.path == "MEMORY.md")
        screen.results.choose(place.chunk.id)
        await run.until(lambda: getattr(screen.state.source, "path", "") == "MEMORY.md")
        for size in SIZES:
            await resize(run.pilot, size)
            assert "Indexed text, file changed · F8 difference" in run.text
            assert "first line" not in run.text
        await press(run.pilot, "f8")
        await run.until(lambda: isinstance(run.app.screen, DifferenceScreen))
        await run.until(lambda: "- # MEMORY" in run.text)
        assert "+ - [x] a new ␛[31mfirst line" in run.text
        await press(run.pilot, "escape")
        assert run.app.screen is screen


async def test_an_index_with_nothing_to_list_says_what_to_do(tmp_path: Path) -> None:
    state, target = make_target(tmp_path, AGENT_BLOB)
    edit(state.database, *(f"DELETE FROM memory_index_{name}" for name in ("chunks", "sources")))
    async with foreign_running(replace(target, state_dir=None)) as run:
        assert "The index holds no chunks" in run.text
        assert "MEMORY.md, memory" not in run.text
        await run.press("escape", "3", shows="No conversations found")
        edit(state.database, "ALTER TABLE memory_index_chunks RENAME TO gone")
        await press(run.pilot, "escape", "1", "f5")
        await run.until(lambda: "openclaw memory index --force rebuilds it" in run.text, 5)


async def test_a_query_stays_finished_when_asked_again_for_a_changed_index(tmp_path: Path) -> None:
    _, target = make_target(tmp_path, AGENT, CONFIG)
    async with foreign_running(target) as run:
        screen, submit = run.app.search_screen, run.engine.search.submit
        finished: list[bool] = []

        def record(text: str, *, ranking: Ranking, typing: bool) -> int:
            finished.append(not typing)
            sequence: int = submit(text, ranking=ranking, typing=typing)
            return sequence

        run.engine.search.submit = record
        await run.search("router")
        await run.press("enter")
        await run.until(lambda: not screen.state.is_pending)
        note = run.text.split("\n")[0]
        asked_before = len(finished)
        screen.search.refresh()
        await run.until(lambda: len(finished) > asked_before)
        assert run.text.split("\n")[0] == note, "the count stays as it was"
        await run.until(lambda: not screen.state.is_pending)
        screen.query_input.value = "router v"
        await run.until(lambda: screen.state.answered_text == "router v")
        assert finished[-2:] == [True, False], "until another letter is typed"


NOTES = dark(root=Path("/home/ann/wiki"))


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
        screen = app.search_screen
        await until(pilot, lambda: any((app.engine, is_asking(app), screen.engine_error)))
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
        for words in load("interface")["descriptions of agents"]:
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
        assert app.search_screen.state.ranking.profile == "openclaw-2026.7"
        assert app.options.root == home / ".openclaw" / "workspace-research"


@pytest.mark.parametrize(
    ("agents", "has_notes", "asks"),
    [(2, True, True), (2, False, True), (0, True, False), (1, False, False), (0, False, False)],
)
async def test_it_asks_only_where_there_is_a_choice(
    agents: int, has_notes: bool, asks: bool, tmp_path: Path, memory: SmallMemory
) -> None:
    for name in ("main", "research")[:agents]:
        make_state(tmp_path / "home" / ".openclaw", AGENT_BLOB, name)
    notes = memory.open if has_notes else None
    async with choosing(tmp_path / "home", notes) as (app, _):
        assert is_asking(app) is asks
        is_nothing = "no notes folder here" in screen_text(app)
        assert (app.engine is None, is_nothing) == (asks or is_nothing, agents == has_notes == 0)


async def test_an_index_that_was_named_is_offered_as_no_notes_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    apps: list[MemtuiApp] = []
    monkeypatch.setattr(MemtuiApp, "run", lambda app, mouse: apps.append(app))
    engine = Engine.open_agent(make_target(tmp_path, AGENT)[1], env={})
    run(None, SettingsFiles({}).load(), foreign=engine)
    async with apps[0].run_test() as pilot:
        await until(pilot, lambda: apps[0].engine is engine)
        apps[0].memories.choose_agent(())
        await until(pilot, lambda: "no agents on this machine" in screen_text(apps[0]))
        assert "the notes folder" not in screen_text(apps[0])


async def test_an_index_file_offers_nothing_to_edit_to_list_or_to_choose(tmp_path: Path) -> None:
    target = replace(make_target(tmp_path, AGENT)[1], agent=None, state_dir=None, workspace=None)
    async with foreign_running(target) as run:
        await run.search("router")
        await run.press("escape", "K", shows="b show in Browse")
        assert "e edit" not in run.text
        await run.press("escape", "P", shows="none of your own: w save one; of other releases:")
        await run.press("D", shows="No difference to show: the workspace is not")
        await run.press("escape", "3", shows="No conversations found")
        assert run.text.splitlines()[-1].split() == ["esc", "back", "?", "help", "^p", "menu"]
        await run.press("escape", "5", shows="not compared: the workspace is not known")
        assert "f filter files" not in run.text


async def test_the_palette_leads_from_one_memory_to_another_and_back(
    home: Path, memory: SmallMemory
) -> None:
    async with choosing(home, memory.open, choose=False) as (app, pilot):
        screen, before = app.search_screen, app.engine

        async def choose(typed: str) -> None:
            engine = app.engine
            app.memories.choose_agent()
            assert is_asking(app), "before the agents are read"
            await until(pilot, lambda: is_asking(app) and "research" in screen_text(app))
            await press(pilot, *typed)
            await until(pilot, lambda: "1 of 5" in screen_text(app))
            await press(pilot, "enter")
            await until(pilot, lambda: app.screen is screen and app.engine is not engine)
            await until(
                pilot, lambda: screen.state.ranked is not None and not screen.state.is_pending
            )

        screen.query_input.value = "router"
        await until(pilot, lambda: screen.state.answered_text == "router")
        commands = {command.name: command for command in MemtuiCommands(app.screen).commands()}
        commands["open an agent's index…"].run()
        await until(pilot, lambda: is_asking(app) and "research" in screen_text(app))
        await press(pilot, "escape")
        await until(pilot, lambda: app.screen is screen)
        assert app.engine is before
        await choose("research")
        assert screen.state.ranked is not None
        assert screen.state.ranked.ranking.profile == "openclaw-2026.7"
        await choose("wiki")
        assert app.options.ranking == NOTES.ranking
        assert app.options.root == NOTES.root
        assert screen.state.ranked.ranking.profile == NOTES.ranking.profile


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
    for text in ATTACKS:
        agent = ForeignAgent(
            text, Path("/x"), None, IndexGeneration.AGENT, None, text, text, 3, 1, 2,
            now - timedelta(hours=5), text,
        )  # fmt: skip
        line = agent_row(agent, 120, now=now).plain
        assert "5 h ago" in line
        assert not any((ord(c) < 32 and c != "\n") or 0x7F <= ord(c) < 0xA0 for c in line)

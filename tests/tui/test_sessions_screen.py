"""The sessions screen over a real engine and transcripts on disk."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from textual.pilot import Pilot

from memtui.bus import Bus
from memtui.engine import Engine
from memtui.errors import MemtuiError
from memtui.model import Ranking
from memtui.model.conversations import TurnKind
from memtui.settings import Settings
from memtui.settings.load import SettingsFiles
from memtui.text.sanitize import HOSTILE as NEVER
from memtui.tui.app import MemtuiApp
from memtui.tui.options import UiOptions
from memtui.tui.screens.help import HelpScreen
from memtui.tui.screens.sessions import SessionsScreen
from memtui.tui.screens.sessions.sources import TranscriptsScreen
from memtui.tui.screens.write import WriteDialog
from memtui.tui.widgets.row_list import RowList
from tests.support.conversations import SECRET, Homes, asked, began, claude, line, reset, said
from tests.tui.harness import press, resize, screen_text, settle, until

HOSTILE = "\x1b]2;PWNED\x1b\\ [/] [x] \u202egnitset\u202c [@click=app.quit]hi[/] \x9b31m 管理画面"
MAIN = "sessions/main/s1.jsonl"
CODE = "claude-code/-garden/c1.jsonl"
LONG = "A long answer about the trunk port. " * 60 + "The word needle is near its end."
MINE = '# mine\n[transcripts]\nsources = ["openclaw"]\n'
NOTES = {
    "MEMORY.md": "The router has three networks.\n",
    "memory/shed.md": "The gate code hangs in the shed.\n",
}


def answered(*paths: str, call: str) -> bytes:
    """What the memory answered to a search."""
    found = [{"path": path, "startLine": 1, "endLine": 1, "score": 0.9} for path in paths]
    content = [{"type": "text", "text": json.dumps({"results": found})}]
    message = {"role": "toolResult", "toolCallId": call, "toolName": "memory_search"}
    return line({"type": "message", "message": {**message, "content": content}})


TALK = (
    began(),
    said("user", f"Why does the router drop VLAN 20? The key is {SECRET}", 1),
    asked("router networks", "c1"),
    answered("memory/gone.md", "MEMORY.md", call="c1"),
    said("assistant", LONG, 3),
    said("user", "System: [2026-10-01] heartbeat", 4),
    b'{"type": "mess\xff\n',
    said("user", f"It says {HOSTILE}\n\n\tindented", 5),
    line({"type": "compaction", "id": "k", "summary": "VLAN 20 needs a tagged port."}),
    asked("gate code", "c2"),
    answered("memory/shed.md", call="c2"),
    asked("tagged port", "c3"),
    reset(),
    said("assistant", "The needle was the firmware.", 9),
)
"""Line by line; of line 2 both the question and its words are found by a search."""


class Running:
    """The application with its sessions screen in front."""

    def __init__(self, app: MemtuiApp, pilot: Pilot[int], file: Path) -> None:
        self.app, self.pilot, self.file = app, pilot, file

    @property
    def screen(self) -> SessionsScreen:
        """The screen in front."""
        assert isinstance(self.app.screen, SessionsScreen)
        return self.app.screen

    @property
    def text(self) -> str:
        """What is on screen, which nothing hostile is in."""
        text = screen_text(self.app)
        assert NEVER.search(text.replace("\n", "")) is None
        return text

    @property
    def line(self) -> int:
        """The line of the turn in front."""
        turn = self.screen.reader.view.turn
        assert turn is not None
        return turn.line

    async def press(self, *keys: str) -> None:
        """Press keys, and wait until all is at rest."""
        await press(self.pilot, *keys)
        await settle(self.app, self.pilot)

    async def shows(self, *texts: str) -> None:
        """Wait until all of these are on screen."""
        await until(self.pilot, lambda: all(text in screen_text(self.app) for text in texts))

    async def read(self, path: str) -> None:
        """Open a conversation from the list."""
        self.screen.show_pane("list")
        self.screen.conversations.rows.choose(path)
        await self.press("enter")
        await until(self.pilot, lambda: self.screen.reader.conversation is not None)
        await settle(self.app, self.pilot)

    async def find(self, text: str, told: str) -> None:
        """Look for a text in the conversation, and wait for what the border says of it."""
        await self.press("slash")
        self.screen.reader.within_input.value = text
        view = self.screen.reader.view
        await until(self.pilot, lambda: told in str(view.border_subtitle))
        await settle(self.app, self.pilot)

    async def wait_for_last(self, text: str) -> None:
        """Wait until the conversation ends in this."""
        view = self.screen.reader.view
        await until(self.pilot, lambda: bool(view.turns) and view.turns[-1].text == text)
        await settle(self.app, self.pilot)


@asynccontextmanager
async def running(
    tmp_path: Path, *, size: tuple[int, int] = (120, 40), talks: bool = True
) -> AsyncIterator[Running]:
    """Run the application on a small memory with two conversations, none of them indexed."""
    root, config, homes = tmp_path / "notes", tmp_path / "config.toml", Homes(tmp_path)
    for name, text in NOTES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    config.write_text(MINE)
    file = tmp_path / "openclaw/agents/main/sessions/s1.jsonl"
    if talks:
        homes.openclaw("s1.jsonl", TALK)
        homes.claude("c1.jsonl", [claude("user", f"Back up the NAS {HOSTILE}")])

    def open_engine(bus: Bus) -> Engine:
        settings = Settings.parse({"embedding": {"provider": "none"}})
        engine = Engine.open(root, settings, bus=bus, data_dir=tmp_path / "data", homes=homes.homes)
        engine.index.sync(wait=True)
        return engine

    files = SettingsFiles({"MEMTUI_CONFIG": str(config)})
    app = MemtuiApp(open_engine, UiOptions(theme="memtui-dark", root=root, files=files))
    async with app.run_test(size=size, notifications=True) as pilot:
        await until(pilot, lambda: app.search_screen.engine is not None)
        run = Running(app, pilot, file)
        await run.press("escape", "s")
        if talks:
            await until(pilot, lambda: len(run.screen.conversations.listings) == 2)
            await settle(app, pilot)
        yield run
    app.memories.close()


async def test_a_conversation_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[str] = []
    async with running(tmp_path) as run:
        monkeypatch.setattr(run.app, "copy_to_clipboard", copied.append)
        assert [row.id for row in run.screen.conversations.rows.rows] == [MAIN, CODE]
        assert run.screen.conversations.listings[CODE].turns == 1, "what nobody counted is counted"
        await run.shows("2 not indexed", "Back up the NAS")
        await run.press("slash")
        run.screen.filter_input.value = "vlan 20"
        await run.press("enter")
        assert [row.id for row in run.screen.conversations.rows.rows] == [MAIN]
        await run.press("enter")
        await until(run.pilot, lambda: run.screen.reader.conversation is not None)
        await settle(run.app, run.pilot)
        assert "▸ tool call  memory_search" in run.text
        assert SECRET not in run.text
        assert SECRET[8:] not in run.text
        await run.press("j")
        assert run.line == 3
        assert '{"query"' not in run.text
        await run.press("space")
        assert '{"query": "router networks"}' in run.text
        await run.press("space")
        assert '{"query"' not in run.text
        await run.press("z")
        view = run.screen.reader.view
        calls = [at for at, turn in enumerate(view.turns) if turn.kind is TurnKind.TOOL_CALL]
        assert len(calls) == 3
        assert all(view.folds.is_open(view.turns, at) for at in calls), "not this one alone"
        await run.press("j", "j", "enter")
        await until(run.pilot, lambda: list(view.folds.wholes.values()) == [LONG])
        await run.press("y", "Y", "K", "e")
        assert copied[0] == f"{MAIN}#L5"
        assert copied[1] == LONG, "all of the text, since all of it is shown"
        toasts = [notification.message for notification in run.app._notifications]
        assert any("the index has none of this turn" in toast for toast in toasts)
        assert any(f"{run.file}:5" in toast for toast in toasts), "headless, the place is told"
        await run.press("G")
        assert run.line == len(TALK)
        await run.press("question_mark")
        assert isinstance(run.app.screen, HelpScreen)
        await run.press("escape", "escape")
        assert run.screen.pane == "list"


async def test_a_text_is_found_in_what_is_folded_and_in_what_is_cut(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        await run.read(MAIN)
        await run.find("NEEDLE", "1/2")
        await until(run.pilot, lambda: bool(run.screen.reader.view.folds.wholes))
        await settle(run.app, run.pilot)
        assert run.line == 5
        assert "needle is near its end" in run.text, "the match is in sight"
        await run.press("enter", "n")
        assert run.line == len(TALK)
        await run.press("n")
        assert run.line == 5, "round at the end"
        await run.find("tagged port.", "1/1")
        turn = run.screen.reader.view.turn
        assert turn is not None
        assert turn.kind is TurnKind.COMPACTION
        assert "VLAN 20 needs a tagged port." in run.text, "its fold was opened"
        await run.press("k", "k", "k")
        for told in ("line 7 is no record: no JSON", "not indexed: a system", "begun anew"):
            assert told in run.text, told
        await run.find("nowhere at all", "not found")
        await run.press("escape")
        assert "not found" not in str(run.screen.reader.view.border_subtitle)
        assert not run.screen.query_one("#within-bar").display


async def test_opting_in_and_a_result_that_leads_to_its_turn(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        before = run.file.read_bytes()
        await run.press("O")
        dialog = run.app.screen
        assert isinstance(dialog, TranscriptsScreen)
        await run.shows("openclaw:main", "not indexed")
        await run.press("enter")
        assert run.app.screen is dialog, "nothing changed, nothing done"
        dialog.query_one(RowList).choose("openclaw:main")
        await run.press("space")
        assert "will be indexed" in run.text
        await run.press("enter")
        screen = run.screen
        await until(run.pilot, lambda: bool(screen.conversations.listings[MAIN].chunks))
        assert screen.conversations.listings[MAIN].malformed == 1
        await run.shows("1 not indexed")
        assert (tmp_path / "config.toml").read_text() == MINE, "for this session alone"

        run.app.run_query("needle firmware")
        await until(
            run.pilot, lambda: run.app.search_screen.search.answered_text == "needle firmware"
        )
        await settle(run.app, run.pilot)
        await run.press("escape", "3")
        await until(run.pilot, lambda: screen.reader.conversation is not None)
        await settle(run.app, run.pilot)
        assert run.line == len(TALK), "not the first turn of the chunk: the one that says it"
        assert "changed since" not in run.text
        styles = [
            segment.style
            for strip in screen._compositor.render_strips()
            for segment in strip
            if segment.text == "firmware"
        ]
        assert any(style is not None and style.underline for style in styles), "it is marked"

        with run.file.open("ab") as stream:
            stream.write(grown := said("user", "And close it at nine.", 10))
        screen.reader.look()
        await run.wait_for_last("And close it at nine.")
        assert run.line == len(TALK), "the place stays"
        assert "changed since it was indexed" in str(screen.reader.view.border_subtitle)
        conversation = screen.reader.conversation
        screen.reader.look()
        await settle(run.app, run.pilot)
        assert screen.reader.conversation is conversation, "nothing is read in vain"
        with run.file.open("ab") as stream:
            stream.write(more := said("user", "Or at ten.", 11))
        await run.press("r")
        await run.wait_for_last("Or at ten.")
        await run.press("escape")
        front: object = run.app.screen
        assert front is run.app.search_screen, "one key leads back"
        assert run.file.read_bytes() == before + grown + more, "transcripts are only read"
        run.file.unlink()
        screen.conversations.load()
        await until(run.pilot, lambda: MAIN not in screen.conversations.listings)
        await settle(run.app, run.pilot)
        assert "gone from the disk" in str(screen.reader.view.border_subtitle)
        run.app.open_turn("sessions/gone.jsonl", 1)
        await run.shows("no conversation sessions/gone.jsonl")


async def test_the_choice_of_sources_is_written(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    async with running(tmp_path) as run:
        await run.press("O")
        await run.shows("claude-code")
        dialog = run.app.screen
        assert isinstance(dialog, TranscriptsScreen)
        dialog.query_one(RowList).choose("openclaw:main")
        await run.press("space")
        dialog.query_one(RowList).choose("claude-code")
        await run.press("space", "w")
        await run.shows("sources = [")
        assert isinstance(run.app.screen, WriteDialog)
        assert config.read_text() == MINE, "nothing is written before it is agreed to"
        await run.press("enter")
        await until(
            run.pilot,
            lambda: (
                isinstance(run.app.screen, SessionsScreen)
                and bool(run.screen.conversations.listings[CODE].chunks)
            ),
        )
        assert 'sources = ["openclaw", "claude-code"]' in config.read_text(), "it says more: stays"


async def test_what_was_asked_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path, size=(160, 50)) as run:
        await run.read(MAIN)
        await run.press("a")
        await run.shows("Asked its memory here  3", "1 of 2 come back the same")
        calls = run.screen.asked.calls_list
        by_query = {call.query: key for key, call in run.screen.asked.calls.items()}
        calls.choose(by_query["router networks"])
        await run.shows("1 moved, 1 left", "▲1 moved", "– left", "#2 → #1")
        calls.choose(by_query["tagged port"])
        await run.shows("results not recorded")
        await run.press("t")
        assert (run.screen.pane, run.line) == ("reader", 12)
        await run.press("escape")
        run.screen.conversations.rows.choose(CODE)
        await run.press("a")
        await run.shows("No search of the memory in this conversation")
        run.app.action_show_search()
        run.app.action_show_asked()
        await until(run.pilot, lambda: len(calls.rows) == 3)
        calls.choose(by_query["gate code"])
        await run.press("enter")
        assert run.app.screen is run.app.search_screen
        assert run.app.search_screen.query_input.value == "gate code"

        # A provider on another machine is asked only what is asked for.
        engine = run.app.engine
        assert engine is not None
        status = engine.index.status()
        provider = replace(status.provider, remote=True, address="api.example.org")
        distant = replace(status, provider=provider)
        monkeypatch.setattr(type(engine.index), "status", lambda self: distant)
        run.app.search_screen.ranking = Ranking(k=2)
        await run.press("escape", "s")
        await run.shows("x  asks again: the query goes to")
        assert not run.screen.asked.replays
        await run.press("x")
        await until(run.pilot, lambda: list(run.screen.asked.replays) == [calls.chosen_id])


async def test_nothing_and_what_is_wrong_are_said_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path, size=(80, 24), talks=False) as run:
        await run.shows("No conversations found.", "claude-code: no such folder")
        await run.shows("O  chooses which transcripts are indexed")
        await run.press("a")
        await run.shows("Choose a conversation.")
        run.app.action_show_asked()
        await run.shows("No search of the memory in any")
        engine = run.app.engine
        assert engine is not None

        def fail(*_: object, **__: object) -> None:
            raise MemtuiError("cannot read \x1b[31m/x")

        with monkeypatch.context() as patch:
            patch.setattr(type(engine.conversations), "listings", fail)
            run.screen.conversations.load()
            await run.press("escape")
            await run.shows("✗ cannot read ␛[31m/x")
        homes = Homes(tmp_path)
        homes.openclaw("s1.jsonl", TALK)
        run.screen.conversations.load()
        await run.shows("Why does the router")
        with monkeypatch.context() as patch:
            patch.setattr(type(engine.conversations), "use_sources", fail)
            patch.setattr(type(engine.conversations), "listings", fail)
            run.screen.conversations.load()
            await settle(run.app, run.pilot)
            assert "Why does the router" in run.text, "what was found before stays"
            await run.press("O")
            await run.shows("openclaw:main")
            await run.press("space", "enter")
            await run.shows("✗ cannot read ␛[31m/x")
            await run.press("escape")


async def test_every_size_and_very_many_entries(tmp_path: Path) -> None:
    homes = Homes(tmp_path)
    words = (said("user" if at % 2 else "assistant", "word " * 300, at) for at in range(2_000))
    homes.openclaw("many.jsonl", [began(), *words])
    for number in range(200):
        homes.openclaw(f"t{number}.jsonl", [began(), said("user", f"talk {number}")])
    async with running(tmp_path, talks=False, size=(80, 24)) as run:
        await until(run.pilot, lambda: len(run.screen.conversations.listings) == 201)
        run.app.open_turn("sessions/main/many.jsonl", 1_999)
        view = run.screen.reader.view
        await until(run.pilot, lambda: view.page is not None)
        await settle(run.app, run.pilot)
        assert "L1999" in run.text
        assert not run.screen.query_one("#sessions-list").display, "one pane at a time"
        assert view.page is not None
        assert view.page.height > 10_000
        for size in ((59, 15), (39, 9), (1, 1), (160, 50)):
            await resize(run.pilot, size)
        assert "L1999" in run.text, "the turn in front stays in sight"
        run.screen.show_pane("reader")
        await settle(run.app, run.pilot)
        await run.press("g")
        assert "L2" in run.text
        assert "Conversations  201" in run.text

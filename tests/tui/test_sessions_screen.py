"""The sessions screen as a whole, over a sample engine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from textual import events

from memtui.bus import Bus
from memtui.model import Ranking, Reason
from memtui.model.conversations import TurnKind
from memtui.settings.load import SettingsFiles
from memtui.text.sanitize import HOSTILE as HOSTILE_PATTERN
from memtui.tui.bridge import IndexContentChanged
from memtui.tui.memories import OpenedMemory
from memtui.tui.options import UiOptions
from memtui.tui.screens.help import HelpScreen
from memtui.tui.screens.sessions import SessionsScreen
from memtui.tui.screens.sessions.sources import TranscriptsScreen
from memtui.tui.screens.write import WriteDialog
from memtui.tui.widgets.row_list import RowList
from tests.tui.conversation_samples import (
    CODE,
    LISTINGS,
    MAIN,
    ROWS,
    TEXTS,
    ConversationEngine,
    chunk,
    listing,
    turn,
)
from tests.tui.harness import Running, resize, running, settle, until

MINE = '# mine\n[transcripts]\nsources = ["openclaw"]\n'


def sessions(run: Running) -> SessionsScreen:
    """The screen in front."""
    screen = run.app.screen
    assert isinstance(screen, SessionsScreen)
    return screen


def engine(run: Running) -> ConversationEngine:
    """The engine with its notes of what was asked."""
    return cast(ConversationEngine, run.engine)


async def tap(run: Running, *keys: str) -> None:
    """Press keys one after the other, each once the one before is handled.

    A pilot's `press` waits three times as long, in case of animations, of which there are none.
    """
    for key in keys:
        run.app.post_message(events.Key(key, key if len(key) == 1 else None))
        await run.pilot.pause()


async def opened(run: Running) -> SessionsScreen:
    """Open the screen and wait for its list."""
    await tap(run, "escape", "s")
    await until(run.pilot, lambda: bool(sessions(run).conversations.state.listings))
    await settle(run.app, run.pilot)
    return sessions(run)


async def a_text_is_found(run: Running) -> None:
    """Look for texts in what is folded and in what is cut."""
    screen = sessions(run)
    screen.conversations.rows.choose(MAIN)
    await tap(run, "enter")
    await until(run.pilot, lambda: screen.reader.conversation is not None)
    await tap(run, "slash")
    screen.reader.within_input.value = "NEEDLE"
    await until(run.pilot, lambda: "1/2" in str(screen.reader.view.border_subtitle))
    await until(run.pilot, lambda: 4 in screen.reader.view.position.folds.wholes)
    await settle(run.app, run.pilot)
    assert screen.reader.view.position.at == 4
    assert "needle is near its end" in run.text, "the match is in sight"
    await tap(run, "enter", "n")
    assert "2/2" in str(screen.reader.view.border_subtitle)
    await tap(run, "n")
    assert screen.reader.view.position.at == 4, "round at the end"
    await tap(run, "slash")
    screen.reader.within_input.value = "tagged port."
    await until(run.pilot, lambda: "1/1" in str(screen.reader.view.border_subtitle))
    assert screen.reader.view.position.turn is not None
    assert screen.reader.view.position.turn.kind is TurnKind.COMPACTION
    await settle(run.app, run.pilot)
    assert "VLAN 20 needs a tagged port." in run.text, "its fold was opened"
    screen.reader.within_input.value = "nowhere at all"
    await until(run.pilot, lambda: "not found" in str(screen.reader.view.border_subtitle))
    await tap(run, "escape")
    assert "not found" not in str(screen.reader.view.border_subtitle)
    assert not screen.query_one("#within-bar").display

    other: Any
    other, at = engine(run).conversation(MAIN), screen.reader.view.position.at
    await tap(run, "slash")
    screen.reader.within_input.value = "needle"
    await until(run.pilot, lambda: bool(screen.reader.matching.places))
    screen.reader._show_places(other, "needle", (99,), "")
    screen.reader._show_whole(other, at, "of another reading", "", False)
    await settle(run.app, run.pilot)
    assert "/2" in str(screen.reader.view.border_subtitle), "what comes too late is not shown"
    assert "of another reading" not in screen.reader.view.position.folds.wholes.values()


async def test_a_conversation_is_read_and_looked_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "3f9a.jsonl"
    file.write_text("{}\n")
    copied: list[str] = []
    async with running(ConversationEngine, size=(120, 40)) as run:
        engine(run).listings_of = (replace(LISTINGS[0], place=str(file)), *LISTINGS[1:])
        monkeypatch.setattr(run.app, "copy_to_clipboard", copied.append)
        screen = await opened(run)
        assert [row.id for row in screen.conversations.rows.rows][:3] == [ROWS, CODE, MAIN]
        assert "counting" not in run.text
        assert screen.conversations.state.listings[CODE].turns == 7, (
            "what nobody counted is counted"
        )
        assert "Back up the NAS" in run.text
        assert HOSTILE_PATTERN.search(run.text.replace("\n", "")) is None

        await tap(run, "slash")
        screen.filter_input.value = "vlan 20"
        await tap(run, "enter")
        assert [row.id for row in screen.conversations.rows.rows] == [MAIN]
        await tap(run, "enter")
        await until(run.pilot, lambda: screen.reader.conversation is not None)
        await settle(run.app, run.pilot)
        view = screen.reader.view
        assert "User  " in run.text
        assert "▸ tool call  memory_search" in run.text
        assert "begun anew here" in run.text
        assert "line 7 is no record: unterminated" in run.text
        assert "not indexed: a heartbeat" in run.text
        assert "‹redacted›" in run.text
        assert HOSTILE_PATTERN.search(run.text.replace("\n", "")) is None

        await tap(run, "j", "j")
        assert view.position.turn is not None
        assert view.position.turn.kind is TurnKind.TOOL_CALL
        assert '{"query"' not in run.text
        await tap(run, "space")
        assert '{"query": "router VLAN"}' in run.text
        await tap(run, "space", "j", "z")
        await run.pilot.pause()
        assert '"memory/2026-02-10.md"' in run.text
        assert "exit 1" in run.text, "every result is open, not this one alone"
        await tap(run, "enter")
        await until(run.pilot, lambda: 3 in view.position.folds.wholes)
        assert view.position.page is not None
        assert view.position.page.block(3).text.endswith("]}"), "the whole text was read"

        shown: list[str] = []
        monkeypatch.setattr(run.app, "open_chunk", shown.append)
        await tap(run, "y", "Y", "K", "e")
        assert copied[0] == f"{MAIN}#L4"
        assert copied[1].endswith("]}"), "all of the text, since all of it is shown"
        assert shown == ["chunk-2"]
        assert any(f"{file}:4" in toast for toast in run.toasts), "headless, the place is told"
        await tap(run, "escape", "escape", "g", "e")
        assert any("rows of a database" in toast for toast in run.toasts)
        await tap(run, "question_mark")
        assert isinstance(run.app.screen, HelpScreen)
        await tap(run, "escape")
        assert screen.pane == "list"

        run.app.clear_notifications()
        await a_text_is_found(run)


async def thousands_are_shown(run: Running) -> None:
    """Show a long list, and a long conversation."""
    texts = [
        (turn(at, kind, "user", "word " * 300), "word " * 300)
        for at in range(1, 4_001)
        for kind in (TurnKind.MESSAGE if at % 2 else TurnKind.TOOL_RESULT,)
    ]
    many = [listing(f"sessions/main/{at}.jsonl", f"talk {at}", -at) for at in range(2_000)]
    engine(run).listings_of, engine(run).texts = many, texts
    screen = sessions(run)
    await resize(run.pilot, (120, 40))
    screen.show_pane("list")
    screen.conversations.load()
    await until(run.pilot, lambda: len(screen.conversations.state.listings) == len(many))
    await settle(run.app, run.pilot)
    await tap(run, "G")
    assert "talk 1999" in run.text
    run.app.open_turn(many[0].path, 3_999)
    await until(run.pilot, lambda: screen.reader.view.position.page is not None)
    await settle(run.app, run.pilot)
    assert "L3999" in run.text
    assert screen.reader.view.position.page is not None
    assert screen.reader.view.position.page.height > 10_000
    await tap(run, "g")
    assert "L1" in run.text
    assert len(screen.query(RowList)) == 3, "rows are no widgets"


async def test_from_a_result_to_its_turn_and_back() -> None:
    async with running(ConversationEngine, size=(80, 24)) as run:
        await run.search("router")
        ranked = run.app.search_screen.ranked
        assert ranked is not None
        found = {each.id: each for each in (chunk(2, 5), chunk(8, 11))}
        pool = replace(ranked.pool, chunks={**ranked.pool.chunks, **found})
        run.app.search_screen.ranked = replace(ranked, pool=pool)
        run.app.open_turn(MAIN, 11)
        await until(run.pilot, lambda: sessions(run).reader.conversation is not None)
        await settle(run.app, run.pilot)
        screen = sessions(run)
        assert screen.pane == "reader"
        assert screen.reader.view.position.turn is not None
        assert screen.reader.view.position.turn.line == 11
        assert not screen.query_one("#sessions-list").display, "one pane at a time"
        run.app.open_turn(MAIN, 2)
        await settle(run.app, run.pilot)
        assert screen.reader.view.position.turn.line == 2
        assert len([c for c in engine(run).calls if c.startswith("conversation")]) == 1
        styles = [
            segment.style
            for strip in run.app.screen._compositor.render_strips()
            for segment in strip
            if segment.text == "router"
        ]
        assert any(style is not None and style.underline for style in styles), "the word is marked"
        assert "1/2" in str(screen.reader.view.border_subtitle), (
            "two chunks of it are in the answer"
        )
        await tap(run, "n")
        assert screen.reader.view.position.turn is not None
        assert screen.reader.view.position.turn.line == 8
        assert screen.conversations.state.listings[MAIN].title in run.text
        await tap(run, "slash")
        screen.reader.within_input.value = "port"
        await until(run.pilot, lambda: "/3" in str(screen.reader.view.border_subtitle))
        run.app.open_turn(MAIN, 2)
        await settle(run.app, run.pilot)
        assert not screen.has_class("-within"), "a result is come from, not what was looked for"
        await tap(run, "escape")
        assert run.app.screen is run.app.search_screen, "one key leads back"
        assert run.app.search_screen.query_input.value == "router"
        await tap(run, "escape", "3")
        await tap(run, "escape")
        assert sessions(run).pane == "list", "opened by hand, Escape leads to the list"
        assert "+2 not shown" in run.text
        assert "2 results" not in run.text, "no result of the list is of it"
        for size in ((59, 15), (39, 9), (1, 1), (160, 50)):
            await resize(run.pilot, size)
        assert "Conversations" in run.text
        run.app.open_turn("sessions/gone.jsonl", 1)
        await until(run.pilot, lambda: "there is no such conversation" in run.text)
        await thousands_are_shown(run)


async def nothing_is_sent_unasked(run: Running, screen: SessionsScreen) -> None:
    """Ask a provider on another machine only what is asked for."""
    provider = replace(engine(run).current.provider, remote=True, address="api.example.org")
    engine(run).current = replace(engine(run).current, provider=provider)
    engine(run).calls.clear()
    run.app.action_show_asked()
    screen.show_pane("list")
    await settle(run.app, run.pilot)
    screen.conversations.rows.choose(MAIN)
    await tap(run, "a")
    await settle(run.app, run.pilot)
    await tap(run, "g")
    await until(run.pilot, lambda: "x  asks again: the query goes to" in run.text)
    assert not any(call.startswith("replay") for call in engine(run).calls)
    await tap(run, "x")
    await until(run.pilot, lambda: "replay 11" in engine(run).calls)
    assert [call for call in engine(run).calls if call.startswith("replay")] == ["replay 11"]
    await settle(run.app, run.pilot)
    await until(run.pilot, lambda: "results not recorded, 0 now" in run.text)
    run.app.search_screen.ranking = Ranking(k=2)
    screen.asked.replay_all()
    await settle(run.app, run.pilot)
    assert "x  asks again" in run.text
    assert "0 now" not in run.text, "other parameters would give something else"


async def test_what_was_asked_is_asked_again() -> None:
    async with running(ConversationEngine, size=(160, 50)) as run:
        screen = await opened(run)
        screen.conversations.rows.choose(MAIN)
        await tap(run, "enter", "a")
        await until(run.pilot, lambda: "1 of 2 come back the same" in run.text)
        assert [call.split()[0] for call in engine(run).calls].count("replay") == 3
        await tap(run, "G")
        await settle(run.app, run.pilot)
        for told in ("▲1 moved", "* entered", "– left", "below the minimum score", "#2 → #1"):
            assert told in run.text, told
        assert HOSTILE_PATTERN.search(run.text.replace("\n", "")) is None
        await tap(run, "t")
        await until(run.pilot, lambda: screen.pane == "reader")
        assert screen.reader.view.position.turn is not None
        assert screen.reader.view.position.turn.line == 3
        await tap(run, "escape")
        screen.conversations.rows.choose(CODE)
        await tap(run, "a")
        await until(run.pilot, lambda: "No search of the memory in this conversation" in run.text)
        run.app.action_show_search()
        run.app.action_show_asked()
        await until(run.pilot, lambda: len(screen.asked.calls_list.rows) == 3)
        await settle(run.app, run.pilot)
        await tap(run, "j", "enter")
        await settle(run.app, run.pilot)
        assert run.app.screen is run.app.search_screen
        assert run.app.search_screen.query_input.value == "firmware update"
        await nothing_is_sent_unasked(run, screen)


async def nothing_is_said_in_words(run: Running) -> None:
    """Show that there is nothing, and what is wrong."""
    await tap(run, "escape", "s")
    await until(run.pilot, lambda: "No conversations found." in run.text)
    assert "/home/mika/.claude/projects" in run.text
    assert "O  chooses which transcripts are indexed" in run.text
    await tap(run, "a")
    await until(run.pilot, lambda: "Choose a conversation." in run.text)
    run.app.action_show_asked()
    await until(run.pilot, lambda: "No search of the memory in any" in run.text)
    engine(run).fails = "cannot read \x1b[31m/x"
    sessions(run).conversations.load()
    await tap(run, "escape")
    await until(run.pilot, lambda: "✗ cannot read ␛[31m/x" in run.text)


async def sources_are_chosen(run: Running, file: Path) -> None:
    """Choose what is indexed: for this session, and in the settings."""
    await tap(run, "escape", "escape", "s")
    await tap(run, "O")
    await until(run.pilot, lambda: "openclaw:main" in run.text)
    dialog = run.app.screen
    assert isinstance(dialog, TranscriptsScreen)
    assert "a heartbeat 7, no text 2" in run.text
    assert "9c.jsonl.deleted" in run.text
    assert HOSTILE_PATTERN.search(run.text.replace("\n", "")) is None
    await tap(run, "enter")
    assert engine(run).used == []
    assert run.app.screen is dialog, "nothing changed, nothing done"
    await tap(run, "j", "space")
    assert "will be indexed" in run.text
    refusal = "this index belongs to the program of an agent: " + "its own settings say, " * 4
    engine(run).unwilling = refusal + "and nothing else does"
    await tap(run, "enter")
    await until(run.pilot, lambda: "nothing else does" in run.text)
    engine(run).unwilling = ""
    await tap(run, "space", "space")
    assert "nothing else does" not in run.text
    assert "1 conversation about this folder would be indexed." in run.text
    await tap(run, "enter")
    await until(run.pilot, lambda: isinstance(run.app.screen, SessionsScreen))
    assert engine(run).used == [("openclaw:main", "claude-code")]
    assert file.read_text() == MINE, "for this session alone"

    await tap(run, "O")
    await until(run.pilot, lambda: "openclaw:main" in run.text)
    await tap(run, "j", "space", "w")
    await until(run.pilot, lambda: "sources = [" in run.text)
    assert isinstance(run.app.screen, WriteDialog)
    assert file.read_text() == MINE, "nothing is written before it is agreed to"
    await tap(run, "enter")
    await until(run.pilot, lambda: len(engine(run).used) == 2)
    assert engine(run).used[1] == ("openclaw:main", "claude-code")
    assert 'sources = ["openclaw", "claude-code"]' in file.read_text(), "it says more, and stays"


async def the_index_is_followed(run: Running) -> None:
    """Follow the index without losing the place, and another memory."""
    await resize(run.pilot, (120, 40))
    screen = sessions(run)
    screen.conversations.rows.choose(MAIN)
    await tap(run, "enter")
    await until(run.pilot, lambda: screen.reader.conversation is not None)
    await settle(run.app, run.pilot)
    await tap(run, "j", "j", "space")
    place = screen.reader.view.position.at
    grown = replace(LISTINGS[0], size=99_000, chunks=3)
    engine(run).listings_of = (listing("sessions/main/new.jsonl", "Newest", 99), grown)
    engine(run).texts = (*TEXTS, (turn(14, TurnKind.MESSAGE, "user", "More"), "More"))
    engine(run).chunks = (chunk(13, 14),)
    run.app.post_message(IndexContentChanged())
    await until(run.pilot, lambda: len(screen.reader.view.position.turns) == len(TEXTS) + 1)
    await settle(run.app, run.pilot)
    assert [row.id for row in screen.conversations.rows.rows] == ["sessions/main/new.jsonl", MAIN]
    assert screen.conversations.rows.chosen_id == MAIN
    assert screen.reader.view.position.at == place
    assert '{"query": "router VLAN"}' in run.text, "what was open stays open"
    engine(run).listings_of = (LISTINGS[1],)
    engine(run).fails = "the disk is\ngone"
    run.app.post_message(IndexContentChanged())
    await until(run.pilot, lambda: any("the disk is gone" in toast for toast in run.toasts))
    assert len(screen.conversations.rows.rows) == 2, "what was found before stays"
    engine(run).fails = ""
    screen.conversations.load()
    await until(run.pilot, lambda: "gone from the disk" in str(screen.reader.view.border_subtitle))
    assert screen.reader.view.position.at == place, "what was read can still be read"
    hidden = screen.conversations.state.listings[CODE]
    screen.conversations.state.listings[CODE] = replace(hidden, turns=None, state=Reason.UNREADABLE)
    screen.conversations.take_counts((), is_all=True)
    await settle(run.app, run.pilot)
    assert "counting" not in run.text, "nobody will ever count it"

    await tap(run, "escape", "escape")
    assert run.app.screen is run.app.search_screen
    run.app.memories.show(OpenedMemory(ConversationEngine(Bus())), Bus())
    await until(run.pilot, lambda: not screen.is_running)


async def test_nothing_then_sources_then_what_changes(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(MINE)
    files = SettingsFiles({"MEMTUI_CONFIG": str(file)})
    async with running(
        lambda bus: ConversationEngine(bus, listings_of=(), asked_calls=()),
        size=(80, 24),
        options=UiOptions(theme="memtui-dark", files=files),
    ) as run:
        await nothing_is_said_in_words(run)
        engine(run).listings_of, engine(run).fails = LISTINGS, ""
        sessions(run).conversations.load()
        await until(run.pilot, lambda: bool(sessions(run).conversations.state.listings))
        await sources_are_chosen(run, file)
        await the_index_is_followed(run)

"""The sessions screen over the real engine and transcripts on disk."""

from __future__ import annotations

from pathlib import Path

from memtui.bus import Bus
from memtui.engine import Engine
from memtui.settings import Settings
from memtui.tui.app import MemtuiApp
from memtui.tui.options import UiOptions
from memtui.tui.screens.sessions import SessionsScreen
from memtui.tui.screens.sessions import listing as words
from memtui.tui.screens.sessions.sources import TranscriptsScreen
from memtui.tui.widgets.row_list import RowList
from tests.support.conversations import SECRET, Homes, asked, began, claude, reset, said
from tests.tui.harness import screen_text, settle, until

CHANNEL = "[Telegram Mika id:4471 +2m 2026-10-01 20:20 UTC]"
NAME = "sessions/main/s1.jsonl"


async def test_opting_in_reading_and_a_result_that_leads_to_its_turn(tmp_path: Path) -> None:
    root = tmp_path / "notes"
    root.mkdir()
    (root / "MEMORY.md").write_text("The router has three networks.\n")
    homes = Homes(tmp_path)
    lines = [
        began(),
        said("assistant", "Good evening, what is it?", 0),
        said("user", f"{CHANNEL} The gate code is 9026 and the key {SECRET}", 1),
        asked("router networks"),
        b'{"type": "mess\xff\n',
        reset(),
        said("assistant", "Noted, the gate opens at seven.", 9),
    ]
    file = homes.openclaw("s1.jsonl", lines)
    homes.claude("c1.jsonl", [claude("user", "Water the garden")])
    before = file.read_bytes()

    def open_engine(bus: Bus) -> Engine:
        settings = Settings.parse({"embedding": {"provider": "none"}})
        return Engine.open(root, settings, bus=bus, data_dir=tmp_path / "data", homes=homes.homes)

    app = MemtuiApp(open_engine, UiOptions(theme="memtui-dark", root=root))
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await until(pilot, lambda: app.search_screen.engine is not None)
        await pilot.press("escape", "s")
        await until(pilot, lambda: "2 not indexed" in screen_text(app))
        screen = app.screen
        assert isinstance(screen, SessionsScreen)
        assert screen.conversations.state.listings[NAME].title.startswith("The gate code"), (
            "not who said it, and where"
        )
        await pilot.press("O")
        await until(pilot, lambda: "openclaw" in screen_text(app))
        dialog = app.screen
        assert isinstance(dialog, TranscriptsScreen)
        name = next(name for name in dialog.sources if name.startswith("openclaw"))
        dialog.query_one(RowList).choose(name)
        await pilot.press("space", "enter")
        await until(pilot, lambda: bool(screen.conversations.state.listings[NAME].chunks))
        assert screen.conversations.state.listings[NAME].malformed == 1
        assert screen.conversations.state.listings[NAME].title.startswith("The gate code"), (
            "nor from the index"
        )
        assert "1 not indexed" in screen_text(app), "the other source is left alone"

        app.run_query("gate code")
        await until(pilot, lambda: app.search_screen.flow.answered == "gate code")
        await settle(app, pilot)
        await pilot.press("escape", "3")
        await until(pilot, lambda: screen.reader.conversation is not None)
        await settle(app, pilot)
        assert screen.reader.view.position.turn is not None
        assert screen.reader.view.position.turn.line == 3, (
            "not the first turn of the chunk: the one that says it"
        )
        assert "changed since" not in screen_text(app)
        shown = screen_text(app)
        for told in ("gate code is 9026", "▸ tool call  memory_search", "no record", "anew"):
            assert told in shown, told
        assert SECRET not in shown
        assert SECRET[8:] not in shown
        with file.open("ab") as stream:
            stream.write(grown := said("user", "And close it at nine.", 10))
        screen.reader._look()
        await until(
            pilot, lambda: screen.reader.view.position.turns[-1].text == "And close it at nine."
        )
        await settle(app, pilot)
        assert screen.reader.view.position.turn.line == 3, "the place stays"
        assert "changed since it was indexed" in str(screen.reader.view.border_subtitle)
        assert (
            words.badge(screen.conversations.state.listings[NAME]) == "changed since it was indexed"
        )
        looks = len(screen.reader.view.position.turns), screen.reader.conversation
        screen.reader._look()
        await settle(app, pilot)
        assert (len(screen.reader.view.position.turns), screen.reader.conversation) == looks, (
            "nothing is read in vain"
        )
        with file.open("ab") as stream:
            stream.write(more := said("user", "Or at ten.", 11))
        await pilot.press("r")
        await until(pilot, lambda: screen.reader.view.position.turns[-1].text == "Or at ten.")
        await pilot.press("a")
        await until(pilot, lambda: "MEMORY.md" in screen_text(app))
        assert "router networks" in screen_text(app)
        await pilot.press("escape", "escape")
        assert app.screen is app.search_screen
    app.memories.close()
    assert file.read_bytes() == before + grown + more, "transcripts are only read"

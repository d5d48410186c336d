"""The browse screen over a sample memory: the tree, the file, the ways that lead on."""

from __future__ import annotations

from typing import cast

import pytest
from textual.screen import Screen

from memtui.tui.screens.browse import BrowseScreen
from memtui.tui.screens.dialogs import Chooser
from memtui.tui.screens.help import help_groups
from memtui.tui.widgets.file_view import FileView
from memtui.tui.widgets.key_bar import KeyBar
from tests.tui.browse_running import browsing
from tests.tui.browse_samples import FILES
from tests.tui.samples import SampleSource


async def test_the_tree_leads_to_the_file_its_chunks_and_the_next_file() -> None:
    async with browsing() as b:
        # The first file is shown, with the borders of its three chunks.
        assert b.path == "MEMORY.md"
        assert b.names[:3] == ["workspace", "MEMORY.md", "memory"]
        view = b.screen.view
        assert "".join(view.border_at(line) for line in range(1, 19)) == "╭│││││├│││││├│││╰ "
        assert b.detail == "indexed  3 chunks · 17 lines · 4.9 KB · changed 10 d ago"
        await b.press("enter")
        assert view.has_focus
        assert b.screen.file_rows.size.width == 0  # the file has the whole width
        await b.press("right_square_bracket", "right_square_bracket")
        assert (view.place, b.screen.view.current) == (2, view.chunks[2])
        assert "chunk 3 of 3" in b.run.text
        # After the last chunk comes the next file that has any, with a note.
        await b.press("right_square_bracket")
        assert b.path == "memory/2026-02-09.md"
        assert b.run.toasts[-1] == "next file: memory/2026-02-09.md"
        assert b.screen.file_list.chosen_file == b.screen.reader.file
        await b.press("left_square_bracket")
        assert (b.path, view.place) == ("MEMORY.md", 2)
        await b.press("left_square_bracket", "left_square_bracket", "left_square_bracket")
        assert b.run.toasts[-1] == "No chunks before this one."
        # Citation, the chunk's own screen, the headings.
        await b.press("y")
        assert b.run.toasts[-1] == "copied MEMORY.md#L1-L7"
        await b.press("O")
        assert b.screen.outline_rows.has_focus
        await b.press("G", "enter")
        assert view.has_focus
        assert (view.first_visible_line, view.place) == (1, 2)  # 17 lines fit, nothing to scroll
        # Escape leads to the tree, then out; the screen keeps its state.
        await b.press("escape")
        assert b.screen.file_rows.has_focus
        screen = b.screen
        await b.press("escape")
        assert not isinstance(b.app.screen, BrowseScreen)
        await b.press("b")
        assert b.screen is screen
        assert screen.file_list.chosen_file == FILES[0]


async def test_states_are_told_and_what_cannot_be_read_is_one_line() -> None:
    async with browsing() as b:
        told = {
            "memory/2026-02-09.md": "● changed since it was indexed",
            "memory/gone.md": "◌ file gone, still in the index",
            "memory/locked.md": "! error: Permission denied",
            "memory/big.md": "· not indexed: too large",
        }
        for path, words in told.items():
            await b.choose(path)
            assert b.detail.startswith(words)
        assert "too large to show (48 MB)" in b.run.text
        # It changed after the screen's clock, as every file of an installed demo did.
        row = next(line for line in b.run.text.splitlines() if "big.md" in line and "│" in line)
        assert row.split("│")[1].split()[-1] == "today"
        assert "source memory/big.md" not in b.engine.calls
        b.engine.sources["memory/gone.md"] = SampleSource(
            "memory/gone.md", ["old text"], "gone", detail="file gone; indexed text"
        )
        await b.choose("memory/gone.md")
        assert "old text" in b.run.text
        assert "file gone; indexed text" in b.run.text
        # One line of a million characters, and a file that is not there for its reader.
        b.engine.texts["memory/locked.md"] = ["x" * 1_000_000]
        await b.choose("memory/locked.md")
        await b.press("enter", "m", "m", "l", "G", "escape")
        assert b.run.toasts[-1].startswith("more than 400000 characters, not rendered")


async def test_filter_order_folding_and_the_filters_that_lead_to_a_search() -> None:
    async with browsing() as b:
        await b.press("slash", *"router")
        assert b.names == ["workspace", "memory/projects", "router.md"]
        assert b.path == "memory/projects/router.md"
        assert "1 of 13" in b.run.text
        await b.filter("router after:x")
        assert b.detail == "after:x is no day: write YYYY-MM-DD"
        await b.filter("nothing like it")
        assert "no file fits: esc clears" in b.run.text
        await b.press("escape")  # from the box to the tree
        await b.press("escape")  # and the filter away
        assert len(b.names) == 20
        await b.choose("memory/projects/router.md")
        await b.press("o", "o")
        assert b.names[1:4] == ["memory/big.md", "MEMORY.md", "memory/2026-02-10.md"]
        assert b.screen.file_list.chosen_file == b.screen.reader.file
        assert b.path == "memory/projects/router.md"
        await b.press("o", "o", "o")
        await b.press("z")
        assert b.names[:4] == ["workspace", "MEMORY.md", "memory", "/home/ann/vault"]
        await b.press("z")
        # A click chooses, another one opens.
        at = b.names.index("router.md") + 1
        await b.pilot.click("#file-tree", offset=(9, at))
        await b.rest()
        assert b.screen.file_list.chosen_file == b.screen.reader.file
        assert b.path == "memory/projects/router.md"
        await b.pilot.click("#file-tree", offset=(9, at))
        await b.rest()
        assert b.screen.view.has_focus
        await b.press("f")
        assert b.app.screen is b.app.search_screen
        assert b.app.search_screen.query_input.value == "path:memory/projects/router.md "
        # Back, with the file that was chosen; then from the file to its folder, which closes.
        b.app.search_screen.query_input.value = ""
        await b.press("escape", "2", "escape", "h", "h")
        folder = b.screen.file_list.chosen
        assert folder is not None
        assert (folder.name, folder.is_open) == ("projects", False)
        assert b.detail.startswith("projects  2 files")
        await b.press("f")
        assert b.app.search_screen.query_input.value == "path:memory/projects/ "


async def test_a_place_is_opened_before_there_are_files_and_the_same_day_beside_it() -> None:
    async with browsing(opened=False) as b:
        chunks = b.engine.browse.chunks_of("MEMORY.md")
        b.app.open_place("MEMORY.md", chunks[1].start_line, chunks[1].id)
        await b.rest()
        assert (b.path, b.screen.view.place) == ("MEMORY.md", 1)
        assert b.screen.view.has_focus
        # One key leads back to where the place was asked for, also from the next chunk.
        await b.press("right_square_bracket", "escape")
        assert b.app.screen is b.app.search_screen
        b.app.action_show_browse()
        await b.rest()
        b.screen.view.focus()
        await b.press("escape")
        assert b.screen.file_rows.has_focus, "opened by hand, Escape leads to the tree"
        b.app.open_place("memory/projects/2026-02-10.md", 3)
        await b.rest()
        assert b.screen.file_list.chosen_file == b.screen.reader.file
        # A filter that hides a place is taken away for it.
        await b.filter("router")
        b.app.open_place("memory/2026-02-10.md")
        await b.rest()
        assert (b.path, b.screen.filter_input.value) == ("memory/2026-02-10.md", "")
        await b.press("full_stop")
        assert isinstance(b.app.screen, Chooser)
        await b.press("down", "enter")
        assert b.path == "memory/projects/2026-02-10.md"
        b.app.open_place("MEMORY.md")
        await b.rest()
        await b.press("colon")
        assert isinstance(b.app.screen, Chooser)
        rows = len(b.engine.browse.chunks_of("MEMORY.md"))
        assert rows > 1
        await b.press("G", "enter")
        assert b.screen.view.place == rows - 1
        await b.press("full_stop")
        assert b.run.toasts[-1] == "This file is of no day."
        b.app.open_place("not/there.md", 7)
        await b.rest()
        assert b.path == "not/there.md"


async def test_conversations_open_on_the_sessions_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    async with browsing() as b:
        asked: list[tuple[str, int]] = []
        monkeypatch.setattr(b.app, "open_turn", lambda path, line=1: asked.append((path, line)))
        chunks: list[str] = []
        monkeypatch.setattr(b.app, "open_chunk", chunks.append)
        await b.choose("sessions/main/3f9a.jsonl")
        await b.press("enter")
        assert asked == [("sessions/main/3f9a.jsonl", 1)]
        await b.press("K")
        assert chunks == [b.screen.view.chunks[0].id]
        # The keys below and in the help are those that there are.
        bar = {item.action for item in b.screen.query_one(KeyBar).items()}
        assert {"focus_filter", "toggle_timeline", "close", "help"} <= bar
        groups = help_groups(cast("Screen[object]", b.screen), b.screen.query_one(FileView))
        titles = [group.title for group in groups]
        assert titles[:2] == ["Files", "Browse"]

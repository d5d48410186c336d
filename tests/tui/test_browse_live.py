"""The browse screen while things change: days, files, sizes, counts, many files."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from memtui.bus import FileIndexed, FilesChanged
from memtui.model.browsing import FileState
from memtui.text.sanitize import HOSTILE
from memtui.tui import place_actions
from memtui.tui.glyphs import Glyphs
from memtui.tui.options import UiOptions
from memtui.tui.screens.browse.file_words import badge
from memtui.tui.widgets.timeline import Measure
from tests.tui.browse_running import browsing
from tests.tui.browse_samples import FILES, HOSTILE_NAME, memory_file, note_lines
from tests.tui.harness import press, render_lines, resize, until
from tests.tui.samples import SampleSource


async def test_the_timeline_opens_days_and_counts_what_searches_recall() -> None:
    async with browsing((80, 24)) as b:
        screen = b.screen
        assert not screen.timeline.display
        await b.press("t")
        heat = screen.timeline.heat_map
        assert heat.has_focus
        assert heat.day == date(2026, 2, 13)
        assert "Fri 2026-02-13" in b.run.text
        await b.press("h", "j", "j", "j")
        assert heat.day == date(2026, 2, 9)
        assert "1 note  900 B" in b.run.text
        await b.press("enter")
        assert b.path == "memory/2026-02-09.md"
        await b.press("t", "j")
        assert heat.day == date(2026, 2, 10)
        await b.press("enter")
        assert screen.filter_input.value == "after:2026-02-10 before:2026-02-11"
        assert [n for n in b.names if n.endswith(".md")] == [
            "2026-02-10-dentist.md",
            "2026-02-10.md",
            "2026-02-10.md",
        ]
        await b.press("escape", "t", "H")
        assert screen.timeline.measure is Measure.CHUNKS
        await b.press("H")
        assert "no queries asked yet, nothing to count" in b.run.text
        for query in ("router", "vlan"):
            b.app.search_screen.notes.queries = (query, *b.app.search_screen.notes.queries)
        b.engine.waits = True
        await press(b.pilot, "H", "H", "H")
        await until(b.pilot, lambda: "counting recalls: query 1 of 2" in b.run.text)
        await b.press("escape")
        assert "recall cancelled" in b.engine.calls
        assert heat.has_focus
        b.engine.waits = False
        await b.press("H", "H", "H")
        assert b.engine.calls[-1] == "recalled 2"
        assert "recalled 2×" in b.run.text
        # A click opens a day too: the tenth is a Tuesday in the last of 53 weeks.
        await b.pilot.click("#heat-map", offset=(5 + 52, 2))
        await b.rest()
        assert heat.day == date(2026, 2, 10)
        assert screen.filter_input.value == "after:2026-02-10 before:2026-02-11"
        await b.press("t")
        # There is no year before; the next day with notes after the first one is found again.
        await b.press("pageup", "g", "n", "N", "f")
        assert heat.day == date(2026, 2, 9)
        assert b.app.search_screen.query_input.value == "after:2026-02-09 before:2026-02-10 "


async def test_the_order_by_recalls_counts_them_and_shows_what_never_came_up_first() -> None:
    async with browsing((80, 24)) as b:
        screen = b.screen
        await b.press("o", "o", "o", "o")
        assert "no queries yet" in b.run.text
        for query in ("router", "vlan"):
            b.app.search_screen.notes.queries = (query, *b.app.search_screen.notes.queries)
        b.engine.waits = True
        await press(b.pilot, "o", "o", "o", "o", "o")
        await until(b.pilot, lambda: "recalls 1/2 esc stops" in b.run.text)
        assert not screen.timeline.display
        # The days may show something else meanwhile; escape stops, and only that.
        await press(b.pilot, "H", "escape")
        await b.rest()
        assert b.engine.calls.count("recall cancelled") == 1
        assert b.screen is screen
        assert "recalls not counted" in b.run.text
        b.engine.waits = False
        await b.press("o", "o", "o", "o", "o")
        assert b.engine.calls[-1] == "recalled 2"
        assert "by recalls  13 files" in b.run.text
        # Both queries bring up one note; the others never, and those without chunks cannot.
        names = [name for name in b.names if name.endswith(".md")]
        chunks = {file.path: file.chunks for file in b.engine.files}
        workspace = names[: names.index("memory/2026-02-10.md") + 1]
        assert len(workspace) > 3
        assert all(chunks[name] for name in workspace)
        assert not any(chunks[name] for name in names[len(workspace) :] if name in chunks)
        await b.choose("memory/2026-02-10.md")
        assert b.detail.startswith("indexed  recalled 2× · 2 chunks")
        assert any("2026-02-10.md" in line and " 2×" in line for line in render_lines(b.app))
        await b.choose("MEMORY.md")
        assert "never recalled" in b.detail
        # Not counted again before other queries were asked.
        counted = b.engine.calls.count("recalled 2")
        await b.press("o", "o", "o", "o", "o")
        assert b.engine.calls.count("recalled 2") == counted
        b.app.search_screen.notes.queries = ("ssid", *b.app.search_screen.notes.queries)
        await b.press("o")
        assert "×" not in b.detail
        await b.press("o", "o", "o", "o")
        assert "recalled 3" in b.engine.calls


async def test_changes_are_followed_without_losing_the_place(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("memtui.tui.screens.browse.file_list.SOONEST", 0.01)
    async with browsing() as b:
        path = "memory/projects/router.md"
        b.engine.texts[path] = note_lines("router", 40)
        await b.choose(path)
        await b.press("enter", "space", "space")
        top = b.screen.view.first_visible_line
        assert top > 30
        new = [memory_file(f"memory/a{number}.md") for number in range(5)]
        b.engine.files = (*new, *FILES[:3], *(replace(f, chunks=2) for f in FILES[3:]))
        b.engine.texts[path] = [*note_lines("router", 40), "one line more"]
        b.publish(FileIndexed(path, 2))
        await until(b.pilot, lambda: len(b.names) == 25)
        await until(b.pilot, lambda: len(b.screen.view.chunks) == 2)
        await b.rest()
        assert b.screen.view.first_visible_line == top
        assert b.screen.view.virtual_size.height == len(note_lines("router", 40)) + 1
        chosen = b.screen.file_list.chosen_file
        assert chosen is not None
        assert chosen.path == path
        # A change that waits for the next sync reaches the badge.
        b.engine.files = tuple(
            replace(file, state=FileState.CHANGED) if file.path == path else file
            for file in b.engine.files
        )
        b.publish(FilesChanged((path,)))
        await until(b.pilot, lambda: b.detail.startswith("● changed"))
        # Editing: no file without a disk, then the line that is looked at; the index follows.
        await b.press("e")
        assert "lies in a database" in b.run.toasts[-1]
        ran: list[tuple[Path, int]] = []

        def edit(screen: object, file: Path, line: int) -> bool:
            ran.append((file, line))
            return True

        monkeypatch.setattr(place_actions, "edit_place", edit)
        b.engine.folder = tmp_path
        await b.press("e")
        assert ran == [(tmp_path / path, top)]
        assert "sync" in b.engine.calls
        # A file that is deleted while it is read stays to be read, in grey.
        b.engine.sources[path] = SampleSource(path, [""], "gone")
        b.engine.files = tuple(file for file in b.engine.files if file.path != path)
        b.publish(FileIndexed(path, 0))
        await until(b.pilot, lambda: len(b.names) == 24)
        await until(
            b.pilot,
            lambda: b.screen.reader.source is not None and b.screen.reader.source.state == "gone",
        )
        assert "file gone, no longer in the index" in b.run.text
        assert b.screen.view.first_visible_line == top
        assert "Section" in b.run.text
        # A memory that cannot be listed says so and keeps what there was.
        b.engine.fails = "disk on fire\x1b[31m"
        b.publish(FileIndexed(path, 2))
        await until(b.pilot, lambda: "cannot list the files: disk on fire" in b.detail)
        assert len(b.names) == 24


async def test_every_size_shows_something_and_nothing_commands_the_terminal() -> None:
    options = UiOptions(theme="memtui-light", glyphs="ascii")
    hostile = memory_file(HOSTILE_NAME)
    async with browsing((70, 20), files=(*FILES[:3], hostile), options=options) as b:
        b.engine.texts[HOSTILE_NAME] = [
            "# \x1b]2;PWNED\x07 [/] [@click=app.quit]x[/]",
            "\x9b31m",
            "",
        ]
        await b.choose(HOSTILE_NAME)
        for size in ((70, 20), (59, 15), (1, 1)):
            await resize(b.pilot, size)
            for keys in (("t", "O"), ("m", "tab", "m", "O", "t")):
                await press(b.pilot, *keys)
                await b.rest()
                lines = render_lines(b.app)
                assert not any(HOSTILE.search(line) for line in lines)
                assert any(line.strip() for line in lines) or size == (1, 1)
        assert b.path == HOSTILE_NAME


async def test_an_empty_memory_and_a_small_screen_of_days() -> None:
    async with browsing((50, 14), files=()) as b:
        assert "no Markdown notes here" in b.run.text
        for key in ("enter", "z", "o", "h", "l", "G", "y", "e", "K", "m", "t", "enter", "escape"):
            await b.press(key)
        assert "no dated notes" not in b.run.text
        b.engine.files = FILES
        b.screen.file_list.load()
        await b.rest()
        await b.press("t")
        assert "2026-02-10  3 notes  2.6 KB  4 chunks" in b.run.text
        await b.press("enter")
        assert b.screen.filter_input.value == "after:2026-02-10 before:2026-02-11"


async def test_twenty_thousand_files_are_listed_and_moved_through_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn: list[FileState] = []

    def counted(state: FileState, glyphs: Glyphs) -> str:
        drawn.append(state)
        return badge(state, glyphs)

    files = tuple(memory_file(f"notes/{n % 50:02}/n{n:05}.md") for n in range(20_000))
    async with browsing((80, 24), files=files) as b:
        await until(b.pilot, lambda: len(b.names) == 20_052)
        monkeypatch.setattr("memtui.tui.screens.browse.file_list.badge", counted)
        await b.press("G")
        assert b.screen.file_list.chosen_file is not None
        assert 0 < len(drawn) < 200
        assert b.path == "notes/49/n19999.md"
        await b.filter("n19998")
        await until(b.pilot, lambda: b.path == "notes/48/n19998.md")
        assert b.names == ["workspace", "notes/48", "n19998.md"]

"""The index screen, the index pane, and opening again what could not be opened."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memtui.bus import Bus
from memtui.errors import IndexUnusable
from memtui.model import IndexState, Reason, SkippedFile
from memtui.tui.app import MemtuiApp
from memtui.tui.options import UiOptions
from memtui.tui.screens import index as index_screen
from memtui.tui.screens.dialogs import ConfirmRebuild
from memtui.tui.screens.index import IndexScreen, StatusTable
from memtui.tui.widgets.index_status import IndexStatusPane, state_line, sync_line
from tests.tui import harness
from tests.tui.harness import press, until
from tests.tui.reader_samples import NOW, ReaderApp, screen_text, status
from tests.tui.samples import SampleEngine


async def _pane(state: IndexState) -> list[str]:
    pane = IndexStatusPane()
    async with ReaderApp(pane).run_test(size=(42, 20)) as pilot:
        pane.show_status(status(state), NOW)
        await pilot.pause()
        return screen_text(pilot.app).splitlines()


async def test_the_pane_fits_ten_lines_of_38_columns() -> None:
    lines = await _pane(IndexState.READY)
    text = "\n".join(lines)
    assert "● ready" in text
    assert "142 files" in text
    assert "96 % hits" in text
    assert "minilm (local)" in text
    assert "events, last event 3 s ago" in text
    assert sum("│" in line for line in lines) <= 11


async def test_the_pane_shows_progress_with_rate_and_time_left() -> None:
    text = "\n".join(await _pane(IndexState.INDEXING))
    assert "◐ indexing  vectors 60 %" in text
    assert "60 %  42/s  ETA 0:12" in text
    assert "783 of" in text


@pytest.mark.parametrize("state", list(IndexState))
def test_every_state_has_a_glyph_and_words(state: IndexState) -> None:
    line = state_line(status(state)).plain
    assert state.value.replace("_", " ") in line
    assert not line[0].isalnum()


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_the_screen_tells_everything(size: tuple[int, int]) -> None:
    app = ReaderApp()
    app.engine.snapshot = status(IndexState.DEGRADED)
    async with app.run_test(size=size) as pilot:
        await app.push_screen(IndexScreen(now=NOW))
        await pilot.pause()
        text = screen_text(app)
        for words in (
            "! degraded",
            "auto → none",
            "401 from",
            "/home/mara/openclaw",
            "generation 3",
        ):
            assert words in text
        app.screen.query_one("#index-body").scroll_end(animate=False)
        await pilot.pause()
        text += screen_text(app)
        for words in ("a link, not followed", "timeout after 30 s", "memory/projects/boat.md"):
            assert words in text


async def test_it_follows_the_status_while_it_is_in_front(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_screen, "REFRESH_SECONDS", 0.02)
    app = ReaderApp()
    async with app.run_test(size=(120, 40)) as pilot:
        await app.push_screen(IndexScreen(now=NOW))
        await pilot.pause()
        app.engine.snapshot = status(IndexState.INDEXING)
        words = ("indexing", "memory/2026-02-10.md")
        await until(pilot, lambda: all(word in screen_text(app) for word in words))


@pytest.mark.parametrize(
    ("added", "changed", "removed", "told"),
    [
        (0, 1, 0, "~1 file,"),
        (1, 1, 0, "+1 ~1 files,"),
        (0, 0, 2, "−2 files,"),
        (0, 0, 0, "no change,"),
    ],
)
def test_one_file_is_a_file(added: int, changed: int, removed: int, told: str) -> None:
    stats = status().last_sync
    assert stats is not None
    stats = replace(stats, files_added=added, files_changed=changed, files_removed=removed)
    assert f": {told} " in sync_line(stats, NOW).plain


async def test_keys_sync_ask_before_a_rebuild_and_go_back() -> None:
    app = ReaderApp()
    async with app.run_test(size=(100, 30)) as pilot:
        await app.push_screen(IndexScreen(now=NOW))
        await pilot.pause()
        await pilot.press("r")
        assert app.engine.asked == ["sync"]
        await pilot.press("R")
        await until(pilot, lambda: isinstance(app.screen, ConfirmRebuild))
        assert "re-embed 51 chunks" in screen_text(app)
        await pilot.press("n")
        await pilot.pause()
        assert app.engine.asked == ["sync"]
        await pilot.press("R")
        await until(pilot, lambda: isinstance(app.screen, ConfirmRebuild))
        await pilot.press("y")
        await pilot.pause()
        assert app.engine.asked == ["sync", "rebuild"]
        await pilot.press("escape")
        await pilot.pause()
        assert not isinstance(app.screen, IndexScreen)


async def test_a_table_keeps_its_place_and_is_rebuilt_only_when_rows_differ() -> None:
    app = ReaderApp()
    many = tuple(SkippedFile(f"memory/{n}.md", Reason.SYMLINK) for n in range(40))
    app.engine.snapshot = replace(status(), skipped=many)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = IndexScreen(now=NOW)
        await app.push_screen(screen)
        await pilot.pause()
        table = screen.query_one("#index-skipped", StatusTable)
        table.focus()
        await pilot.press("j", "j", "j")
        assert table.cursor_row == 3
        screen.refresh_status()
        assert table.cursor_row == 3
        app.engine.snapshot = replace(status(), skipped=many[:2])
        screen.refresh_status()
        assert table.cursor_row == 1
        assert table.row_count == 2


async def test_columns_are_as_wide_as_their_rows_at_every_moment() -> None:
    table = StatusTable("Skipped", ("file", "why"), id="index-skipped")
    async with ReaderApp(table).run_test(size=(80, 12)) as pilot:
        # With room for the row, before the table is laid out for it.
        table.styles.height = 6
        await pilot.pause()
        for name, why in (
            ("a", "no text"), ("memory/2026-11-20.md", "larger than 2 MB"), ("b.md", "a folder"),
        ):  # fmt: skip
            table.show_rows(((name, why),), 1)
            # Painted before Textual is idle, and once more after it was.
            for _ in range(2):
                line = next(line for line in screen_text(pilot.app).splitlines() if name in line)
                assert line.strip("│ ").split() == [*name.split(), *why.split()]
                await pilot.pause()


async def test_r_opens_what_could_not_be_opened() -> None:
    tries: list[Bus] = []

    def open_engine(bus: Bus) -> SampleEngine:
        tries.append(bus)
        if len(tries) < 3:
            raise IndexUnusable("the index folder cannot be made: Read-only file system")
        return SampleEngine(bus)

    app = MemtuiApp(open_engine, UiOptions(theme="memtui-dark"))
    async with app.run_test(size=(100, 24), notifications=True) as pilot:
        for number in (1, 2):
            await until(
                pilot,
                lambda number=number: (  # type: ignore[misc]
                    len(tries) == number and "r tries again" in harness.screen_text(app)
                ),
            )
            await press(pilot, "escape", "r")
        await until(pilot, lambda: app.search_screen.engine is not None)
        await until(pilot, lambda: "cannot be made" not in harness.screen_text(app))
        assert app.search_screen.engine_error == ""
    app.memories.close()

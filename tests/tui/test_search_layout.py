"""The search screen at every size, in every theme, with and without colour."""

from __future__ import annotations

import pytest
from textual.widget import Widget

from memtui.model import Decay, Mmr, Ranking
from memtui.tui.options import UiOptions
from memtui.tui.theme import THEMES
from tests.tui.harness import Running, render_lines, running, settle
from tests.tui.samples import CHUNKS

FULL = Ranking(k=6, decay=Decay(enabled=True), mmr=Mmr(enabled=True))
OPTIONS = UiOptions(theme="memtui-dark", ranking=FULL)


def shown(run: Running, name: str) -> bool:
    """Whether a pane is on screen with at least one cell."""
    widget = run.app.search_screen.query_one(f"#{name}", Widget)
    return widget.is_on_screen and bool(widget.size)


async def test_80x24_holds_six_two_line_rows_and_the_preview() -> None:
    async with running(options=OPTIONS, size=(80, 24)) as run:
        await run.search()
        screen = run.app.search_screen
        assert screen.results.size.height == 12
        assert screen.results.max_scroll_y == 0
        assert [shown(run, name) for name in ("results", "preview", "status-bar")] == [True] * 3
        assert not shown(run, "why")
        assert len(run.text.splitlines()) == 24
        assert all(len(line.rstrip()) <= 80 for line in render_lines(run.app))
        await run.pilot.press("escape", "T")
        assert "no room for the panel below 100 columns" in run.text


async def test_120x40_holds_every_pane_but_the_parameter_panel() -> None:
    async with running(options=OPTIONS, size=(120, 40)) as run:
        await run.search()
        screen = run.app.search_screen
        names = ("results", "near-misses", "preview", "why", "index-status")
        assert [shown(run, name) for name in names] == [True] * len(names)
        assert not shown(run, "parameters")
        await run.pilot.press("escape", "T")
        await settle(run.app, run.pilot)
        assert shown(run, "parameters")
        assert screen.preview.region.x >= screen.results.region.right
        assert screen.results.size.height == 12


async def test_200x60_holds_three_columns_and_four_line_rows() -> None:
    async with running(options=OPTIONS, size=(200, 60)) as run:
        await run.search()
        screen = run.app.search_screen
        columns = [screen.query_one(f"#{n}").region.x for n in ("results", "preview", "parameters")]
        assert columns == sorted(set(columns))
        assert screen.results.size.height == 24
        assert "vector 0.30×" in run.text


async def test_a_small_terminal_shows_one_pane_at_a_time() -> None:
    async with running(options=OPTIONS, size=(58, 15)) as run:
        await run.search()
        assert "memory/2026-02-10.md:12" in run.text
        assert "╭" not in run.text
        assert not shown(run, "preview")
        await run.pilot.press("escape", "tab")
        await settle(run.app, run.pilot)
        assert shown(run, "preview")
        assert not shown(run, "results")
        await run.pilot.press("tab")
        await settle(run.app, run.pilot)
        assert shown(run, "why")
        await run.pilot.press("1")
        await settle(run.app, run.pilot)
        assert shown(run, "results")
        await run.pilot.press("tab")
        await settle(run.app, run.pilot)
        assert run.app.focused is run.app.search_screen.preview


async def test_below_40x10_a_single_line_says_so() -> None:
    async with running(options=OPTIONS, size=(39, 9)) as run:
        assert "memtui needs 40×10" in run.text
        assert "MMR" not in run.text
        await run.search()
        await run.pilot.resize_terminal(1, 1)
        run.app.search_screen.results.focus()
        await run.pilot.press("pagedown", "pageup", "end", "home")


async def test_resizing_down_to_one_cell_and_back_changes_nothing() -> None:
    async with running(options=OPTIONS, size=(120, 40)) as run:
        await run.search()
        before = render_lines(run.app)
        sizes = [(80, 24), (20, 5), (1, 1), (59, 40), (200, 5), (40, 10), (2, 60), (200, 60)]
        for width, height in sizes:
            await run.pilot.resize_terminal(width, height)
            # One after the other without a pause, as from a key that is held.
            for key in ("f2", "ctrl+l", "tab", "down", "pagedown", "pageup", "f3"):
                run.app.simulate_key(key)
            for key in ("f3", "ctrl+l", "ctrl+l", "ctrl+l", "f2"):
                run.app.simulate_key(key)
            await run.pilot.pause()
        await run.pilot.resize_terminal(120, 40)
        run.app.search_screen.show_pane("results")
        await run.pilot.press("home")
        run.app.search_screen.query_input.focus()
        run.app.search_screen.rankings.note("")
        run.app.search_screen.lists.redraw()
        await settle(run.app, run.pilot)
        await run.pilot.pause(0.2)
        after = render_lines(run.app)
        assert [line.split("│")[:2] for line in after[2:16]] == [
            line.split("│")[:2] for line in before[2:16]
        ]


@pytest.mark.parametrize("theme", sorted(theme.name for theme in THEMES))
async def test_own_themes_paint_the_legs(theme: str) -> None:
    async with running(options=UiOptions(theme=theme, ranking=FULL)) as run:
        await run.search()
        assert run.app.theme == theme
        assert "█" in run.text


async def test_every_built_in_theme_paints_the_legs() -> None:
    async with running(options=OPTIONS) as run:
        await run.search()
        for theme in sorted(run.app.available_themes):
            run.app.theme = theme
            await run.pilot.pause()
            assert "█" in run.text
            variables = run.app.get_css_variables()
            assert variables["leg-vector"] != variables["leg-keyword"]


async def test_without_colour_the_chosen_row_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with running(options=OPTIONS) as run:
        await run.search()
        row = next(line for line in render_lines(run.app) if ".md:" in line)
        assert "› 1" in row
        assert "█" in row
        assert "▒" in row


async def test_the_ascii_set_uses_no_block_characters() -> None:
    options = UiOptions(theme="memtui-dark", ranking=FULL, glyphs="ascii")
    async with running(options=options, size=(80, 24)) as run:
        await run.search()
        rows = [line for line in render_lines(run.app) if ".md:" in line]
        assert rows
        for row in rows:
            assert not set(row) & set("█▒◇╌▲▼›")
        assert any("#" in row and "=" in row for row in rows)


async def test_rows_of_wide_characters_end_at_the_edge() -> None:
    wide = [chunk for chunk in CHUNKS if "家" in chunk.path]
    assert wide
    async with running(options=UiOptions(theme="memtui-dark", ranking=Ranking(k=10))) as run:
        await run.search()
        await run.pilot.press("escape", "G")
        await settle(run.app, run.pilot)
        strips = run.app.screen._compositor.render_strips()
        assert {strip.cell_length for strip in strips} == {80}

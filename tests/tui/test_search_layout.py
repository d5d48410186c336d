"""The search screen at every size, in every theme; the order in which its parts are laid out and drawn."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from rich.style import Style
from textual import events
from textual.color import Color
from textual.widget import Widget

from memtui.model import Decay, Mmr, Ranking
from memtui.ranking.profiles import PROFILES
from memtui.settings.files import VIEW
from memtui.settings.load import Given, SettingsFiles, Source
from memtui.tui.fmt import THEMES
from memtui.tui.options import UiOptions, View, keep_view, options_from, read_view
from memtui.tui.widgets.bars import ON_CLICK
from memtui.tui.widgets.result_rows import QUERY
from tests.support.small_memory import SmallMemory
from tests.tui.harness import Running, dark, render_lines, resize, running, settle

FULL = Ranking(k=6, decay=Decay(enabled=True), mmr=Mmr(enabled=True))

OPTIONS = dark(ranking=FULL)


def shown(run: Running, name: str) -> bool:
    """Whether a pane is on screen with at least one cell."""
    widget = run.app.search_screen.query_one(f"#{name}", Widget)
    return widget.is_on_screen and bool(widget.size)


async def test_resizing_down_to_one_cell_and_back_changes_nothing(memory: SmallMemory) -> None:
    async with running(memory.open, options=OPTIONS, size=(120, 40), query="router config") as run:
        run.app.search_screen.search.redraw()
        await settle(run.app, run.pilot)
        before = render_lines(run.app)
        sizes = [(80, 24), (20, 5), (1, 1), (59, 40), (200, 5), (40, 10), (2, 60), (200, 60)]
        for width, height in sizes:
            await run.pilot.resize_terminal(width, height)
            # One after the other without a pause, as from a key that is held.
            keys = ("f2", "ctrl+l", "tab", "down", "pagedown", "pageup", "f3")
            for key in (*keys, "f3", "ctrl+l", "ctrl+l", "ctrl+l", "f2"):
                run.app.simulate_key(key)
            await run.pilot.pause()
        await resize(run.pilot, (120, 40))
        screen = run.app.search_screen
        screen.show_pane("results")
        await run.press("home")
        screen.query_input.focus()
        screen.rankings.note("")
        screen.search.redraw()
        await settle(run.app, run.pilot)
        after = render_lines(run.app)
        assert [line.split("│")[:2] for line in after[2:16]] == [
            line.split("│")[:2] for line in before[2:16]
        ]


async def test_another_theme_paints_the_list_at_once_and_what_is_told_can_be_read(
    memory: SmallMemory,
) -> None:
    async with running(memory.open, options=OPTIONS, query="router config") as run:

        def style_of(text: str) -> Style:
            at, line = next(one for one in enumerate(render_lines(run.app)) if text in one[1])
            return run.app.screen.get_style_at(line.index(text), at)

        assert {theme.name for theme in THEMES} <= set(run.app.available_themes)
        run.app.notify("told", markup=False, timeout=600)
        for theme in sorted(run.app.available_themes):
            run.app.theme = theme
            await settle(run.app, run.pilot)
            variables = run.app.get_css_variables()
            assert variables["leg-vector"] != variables["leg-keyword"]
            bar, toast = style_of("█").color, style_of("told").color
            assert bar is not None
            assert toast is not None
            assert bar.triplet == Color.parse(variables["leg-vector"]).rich_color.triplet
            # On a background of the theme's own, the terminal's text colour may be that very one.
            assert toast.name != "default"


@pytest.mark.parametrize("glyphs", ["unicode", "ascii"])
async def test_rows_are_told_apart_without_colour_and_without_blocks(
    glyphs: str, memory: SmallMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    options = dark(glyphs, ranking=Ranking(k=10))
    async with running(memory.open, options=options, query="router config") as run:
        await run.press("escape", "G", "g")
        rows = [line for line in render_lines(run.app) if ".md:" in line]
        assert ("› 1" if glyphs == "unicode" else "> 1") in rows[0]
        bars = ("█", "▒") if glyphs == "unicode" else ("#", "=")
        assert any(set(bars) <= set(row) for row in rows)
        assert glyphs == "unicode" or not set("".join(rows)) & set("█▒◇╌▲▼›")
        await run.search("路由器 配置 router config")
        strips = run.app.screen._compositor.render_strips()
        assert {strip.cell_length for strip in strips} == {80}


@pytest.mark.parametrize(("size", "preview"), [((100, 30), "auto"), ((80, 24), "right")])
async def test_a_narrow_row_keeps_year_and_strength(
    size: tuple[int, int], preview: str, memory: SmallMemory
) -> None:
    async with running(memory.open, size=size, options=dark(view=View(preview=preview))) as run:
        await run.search()
        results = run.app.search_screen.results
        assert results.size.width < 60
        for row in results.rows:
            text = row.draw(results.size.width - 1).plain
            assert re.search("strong|weak|none", text)
            assert re.search(r"\d{4}-\d\d-\d\d|\w\.md", text)


async def test_the_query_has_the_room_beside_its_count(memory: SmallMemory) -> None:
    query = "router config after:2026-03-01 path:memory/2026* -guest"
    async with running(memory.open, size=(80, 24), query=query) as run:
        assert query in run.text.splitlines()[1]


async def test_two_pins_leave_a_line_of_the_preview_before_a_query(memory: SmallMemory) -> None:
    async with running(memory.open, size=(80, 24), query="router config") as run:
        await run.press("escape", "p", "j", "p", "slash", "backspace")
        assert run.app.search_screen.preview.outer_size.height == 3


async def test_the_verdict_is_seen_however_long_the_reasons_are(memory: SmallMemory) -> None:
    options = dark(ranking=replace(PROFILES["openclaw-2026.9"], k=20))
    async with running(memory.open, size=(120, 40), options=options, query="router config") as run:
        await run.press("escape", "G")
        assert "SHOWN at rank" in run.text


async def test_the_rows_come_before_what_is_beside_them(memory: SmallMemory) -> None:
    async with running(memory.open, size=(120, 40), query="router config") as run:
        screen = run.app.search_screen
        assert screen.state.ranked is not None
        title = screen.preview.border_subtitle
        other = run.engine.search.ask("lotus tea", ranking=replace(screen.state.ranking, k=1))
        screen.search.show(other, keep=None)
        assert [row.id for row in screen.results.rows] == [screen.state.selected_id]
        assert screen.preview.border_subtitle == title
        await run.until(lambda: screen.preview.border_subtitle != title)


async def test_a_near_miss_stays_chosen_when_the_same_list_is_drawn_again(
    memory: SmallMemory,
) -> None:
    async with running(memory.open, size=(120, 100), query="router config") as run:
        screen = run.app.search_screen
        assert screen.query_input.has_focus
        missed = run.ranked.drops[-1].chunk.id
        screen.near.choose(missed, by_user=True)
        await run.until(lambda: screen.state.selected_id == missed)
        screen.search.redraw()
        await settle(run.app, run.pilot)
        assert screen.state.selected_id == screen.near.chosen_id == missed
        # Another answer begins with its first result.
        await run.search("vlan")
        assert screen.state.selected_id == run.ranked.hits[0].chunk.id


async def test_the_row_under_the_mouse_is_told_by_its_place(memory: SmallMemory) -> None:
    async with running(memory.open, size=(120, 40)) as run:
        # A list that was hidden meanwhile is drawn for its size.
        for query in ("router config", "path:none x", "router config"):
            await run.search(query)
        results: Any = run.app.search_screen.results
        lines = run.app.search_screen.row_lines
        assert all(results.render_line(y).text.strip() for y in range(len(results.rows)))
        cells = [one.style for one in results.render_line(0) for _ in one.text]
        bar = next(at for at, style in enumerate(cells) if style and ON_CLICK in style.meta)
        await run.pilot.click(results, offset=(12, 1 + lines))
        assert results.chosen_id == results.rows[1].id
        await run.pilot.click(results, offset=(12, 1 + lines * len(results.rows)))
        assert results.chosen_id == results.rows[1].id, "below all rows there is none"
        await run.pilot.click(results, offset=(bar + 1, 1))
        explained: Any = run.app.screen
        assert explained.chunk_id == results.chosen_id == results.rows[0].id, (
            "a bar explains its row"
        )


async def test_an_answer_is_not_laid_out_and_a_size_for_its_classes_at_once(
    memory: SmallMemory,
) -> None:
    async with running(memory.open, size=(80, 24)) as run:
        screen, seen = run.app.search_screen, list[frozenset[str]]()
        screen.screen_layout_refresh_signal.subscribe(
            screen, lambda _: seen.append(screen.classes), immediate=True
        )
        await run.search("router")
        seen.clear()
        await run.search("router config")
        assert not seen
        await resize(run.pilot, (170, 50))
        assert {"-huge", "-tall", "-roomy"} <= seen[0]


AUTOMATIC = ("#why", "#index-status")

"""Panes as high as what they show."""


async def test_panes_that_were_filled_where_there_was_no_room_are_as_high_as_ever(
    memory: SmallMemory,
) -> None:
    heights = []
    for size in [(120, 40), (80, 24)]:
        async with running(memory.open, size=size, query="router config") as run:
            await resize(run.pilot, (120, 40))
            screen = run.app.search_screen
            heights.append([screen.query_one(name).region.height for name in AUTOMATIC])
    assert heights[0] == heights[1]
    assert min(heights[0]) > 3


async def test_the_wheel_over_a_parameter_changes_nothing(memory: SmallMemory) -> None:
    async with running(memory.open, size=(120, 40)) as run:
        strip = run.app.search_screen.strip
        x, y = strip.content_region.x + strip.render().plain.index("meaning"), strip.region.y
        none = (0, 0, 0, False, False, False)
        for event in (events.MouseScrollUp, events.MouseScrollDown):
            run.app.post_message(event(None, x, y, *none, screen_x=x, screen_y=y))
            await settle(run.app, run.pilot)
            assert run.app.search_screen.state.ranking == run.app.options.ranking


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., UiOptions]:
    """Return the options of a start, with these variables of the environment."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def start(*flags: str, **env: str) -> UiOptions:
        given = {flag: Given(Source.FLAG, flag, False) for flag in flags}
        loaded = SettingsFiles(flags=given, env={"MEMTUI_CONFIG": os.devnull, **env}).load()
        return options_from(loaded, tmp_path / "notes", demo=False)

    return start


def view_of(run: Running) -> tuple[object, ...]:
    screen = run.app.search_screen
    shown_panes = tuple(shown(run, name) for name in ("near-misses", "parameters"))
    return run.app.theme, screen.preview_place, screen.search.sort, *shown_panes


async def test_the_view_is_remembered_until_it_is_forgotten(
    memory: SmallMemory, options: Callable[..., UiOptions]
) -> None:
    views = []
    for keys in ("escape escape H comma o v", "", "ctrl+p f o r g e t enter", ""):
        async with running(memory.open, options=options(), size=(120, 40)) as run:
            if run.app.screen is not run.app.search_screen:
                await run.press("escape")
            await run.search("router")
            views.append(view_of(run))
            if keys.startswith("escape"):
                run.app.theme = "dracula"
            for key in keys.split():
                await run.press(key)
            views.append(view_of(run))
    first, chosen = views[0], ("dracula", "right", "meaning", False, True)
    assert views == [first, chosen, chosen, chosen, chosen, first, first, first]
    file = (options().state_dir or Path()) / VIEW
    keep_view(file.parent, View(), View(theme="nord"))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    # What is said for one start alone wins, for that start.
    for theme in ("memtui-light", "nord"):
        env = {"MEMTUI_UI__THEME": theme} if theme != "nord" else {}
        async with running(memory.open, options=options(**env)) as run:
            assert run.app.theme == theme


@pytest.mark.parametrize("content", ["{", "[]", '{"version": 2, "theme": "nord"}', '{"theme": 1}'])
async def test_a_view_of_something_else_is_told_in_one_line_and_left(
    content: str, memory: SmallMemory, options: Callable[..., UiOptions]
) -> None:
    file = (options().state_dir or Path()) / VIEW
    file.parent.mkdir(parents=True)
    file.write_text(content)
    async with running(memory.open, options=options()) as run:
        assert [str(file) in line for line in run.app.options.warnings] == [True]
        run.app.theme = "dracula"
    assert file.read_text() == content


def test_two_programs_keep_what_each_changed(tmp_path: Path) -> None:
    keep_view(tmp_path, View(), View(theme="nord"))
    keep_view(tmp_path, View(), View(sort="date"))
    keep_view(tmp_path, View(), View())
    assert read_view(tmp_path) == View(theme="nord", sort="date")


@pytest.mark.parametrize("flags", [(), ("ui.history",)])
async def test_the_last_query_is_offered_and_not_with_private(
    flags: tuple[str, ...], memory: SmallMemory, options: Callable[..., UiOptions]
) -> None:
    for queries in (["router"], ["garden"], []):
        async with running(memory.open, options=options(*flags)) as run:
            screen = run.app.search_screen
            asked = [row.id for row in screen.results.rows if row.id.startswith(QUERY)]
            if not queries:
                assert asked == ([] if flags else [f"{QUERY}garden", f"{QUERY}router"])
                assert screen.query_input.value == ""
                await run.press("escape", "slash", "enter")
                assert screen.query_input.value == ("" if flags else "garden")
            for query in queries:
                # Neither Enter nor Esc is pressed before the program ends.
                await run.search(query)

"""The list of any length: what is chosen, what is in view, what is drawn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from rich.style import Style
from textual.app import App
from textual.content import Content
from textual.pilot import Pilot

from memtui.tui.widgets.lists import Row, RowList
from tests.tui.harness import press, render_lines, resize, screen_text
from tests.tui.reader_samples import ReaderApp

DRAWN: list[str] = []


def _draw(name: str, lines: int = 1) -> Row:
    def draw(width: int) -> Content:
        DRAWN.append(name)
        return Content(name)

    return Row(name, draw, lines)


def _heading(name: str) -> Row:
    return Row(name, lambda width: Content(name.upper()), is_heading=True)


def _rows(numbers: range, lines: int = 1) -> list[Row]:
    return [_draw(f"row{number}", lines) for number in numbers]


class Lists(ReaderApp):
    """Two lists; what they tell is kept."""

    def __init__(self) -> None:
        super().__init__(RowList(id="first"), RowList(id="second", gap=0, secondary=True))
        self.told: list[tuple[str, str | None]] = []

    def on_row_list_chosen(self, message: RowList.Chosen) -> None:
        self.told.append(("chosen by user" if message.by_user else "chosen", message.row_id))

    def on_row_list_opened(self, message: RowList.Opened) -> None:
        self.told.append(("opened", message.row_id))

    def take(self) -> list[tuple[str, str | None]]:
        told, self.told = self.told, []
        return told


def _styles(app: App[Any], text: str) -> Iterator[Style | None]:
    """The styles of what is on the line with this text."""
    for strip in app.screen._compositor.render_strips():
        if text in "".join(segment.text for segment in strip):
            yield from (segment.style for segment in strip if text in segment.text)


async def test_headings_are_passed_over_and_seen_above_their_first_row() -> None:
    app = Lists()
    async with app.run_test(size=(40, 20)) as pilot:
        first = app.query_one("#first", RowList)
        first.set_rows([_heading("a"), *_rows(range(9)), _heading("b"), _heading("c"), _draw("z")])
        await pilot.pause()
        assert app.take() == [("chosen", "row0")]
        await press(pilot, "up", "home", "pageup", "k")
        assert first.chosen_id == "row0"
        assert "│A" in screen_text(app)
        await press(pilot, "G")
        assert (first.chosen_id, first.cursor) == ("z", 12)
        await press(pilot, "home")
        for row in [*(f"row{number}" for number in range(1, 9)), "z"]:
            await press(pilot, "j")
            assert f"│› {row}" in screen_text(app), "it is scrolled into view"
        await press(pilot, "up")
        assert first.chosen_id == "row8"
        await press(pilot, "home", "space", "space", "space")
        assert first.chosen_id == "z"
        await press(pilot, "ctrl+u", "ctrl+u")
        assert "│A" in screen_text(app)
        app.take()
        # A heading, the place below all rows, a row, that row again.
        for line in (1, 2, 2):
            await pilot.click("#first", offset=(4, line))
        assert app.take() == [("opened", "row0"), ("opened", "row0")]
        first.set_rows([_heading("only")], "row0", empty="unseen")
        await press(pilot, *"jkgG", "enter", "space", "ctrl+u")
        assert first.chosen_id is None
        assert app.take() == [("chosen", None)]


async def test_what_is_chosen_and_where_it_is_in_view_outlast_other_rows() -> None:
    app = Lists()
    async with app.run_test(size=(40, 20)) as pilot:
        first = app.query_one("#first", RowList)
        first.set_rows(_rows(range(5_000), 2))
        await pilot.pause()
        assert first.choose("row2000")
        assert not first.choose("row5000")
        await press(pilot, "up", "up")
        assert app.take()[-2:] == [("chosen by user", "row1999"), ("chosen by user", "row1998")]
        line = next(n for n, text in enumerate(render_lines(app)) if "› row1998" in text)
        first.set_rows(_rows(range(1_000, 4_000), 2), "row1998")
        await pilot.pause()
        assert render_lines(app)[line].startswith("│› row1998")
        assert app.take() == [], "nothing else was chosen"
        first.set_rows([row for row in first.rows if row.id != "row1998"], "row1998")
        await pilot.pause()
        assert render_lines(app)[line].startswith("│› row1999"), "the one at its place"
        # What was scrolled away from the chosen row stays as it is.
        first.scroll_to(y=0, animate=False, immediate=True)
        first.set_rows(first.rows, first.chosen_id)
        await pilot.pause()
        assert "row1000" in screen_text(app)
        await resize(pilot, (1, 1))
        first.set_rows(_rows(range(50)), "row40")
        await press(pilot, "down", "pagedown", "enter")
        await resize(pilot, (40, 20))
        assert f"› {first.chosen_id}" in screen_text(app)
        assert len(DRAWN) < 300, "rows out of view are not drawn"


async def test_words_stand_in_place_of_rows_and_steps_wait_for_them() -> None:
    app = Lists()
    async with app.run_test(size=(40, 20)) as pilot:
        first = app.query_one("#first", RowList)
        await _all_keys(pilot)
        first.set_rows((), "gone", empty="nothing here [/] that is longer than one line is")
        await _all_keys(pilot)
        assert "nothing here [/]" in screen_text(app)
        assert "one line is" in screen_text(app)
        first.show_message([Content("one"), Content("two")])
        await _all_keys(pilot)
        assert "│ two" in screen_text(app)
        assert app.take() == []
        first.set_rows(_rows(range(9)))
        assert first.chosen_id == "row3", "a step counts that was taken before there were rows"


async def _all_keys(pilot: Pilot[object]) -> None:
    await press(pilot, *"jjkgG", "home", "end", "space", "ctrl+u", "pagedown", "pageup", "enter")
    await pilot.click("#first", offset=(4, 2))


@pytest.mark.parametrize("without_colours", [False, True])
async def test_the_chosen_row_is_seen_with_and_without_colours(
    monkeypatch: pytest.MonkeyPatch, without_colours: bool
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    if without_colours:
        monkeypatch.setenv("NO_COLOR", "1")
    app = Lists()
    async with app.run_test(size=(40, 20)) as pilot:
        for name in ("first", "second"):
            rows = app.query_one(f"#{name}", RowList)
            rows.set_rows([_draw(name), _draw(f"other {name}")])
            rows.border_title = name.upper()
        await pilot.pause()
        assert "│› first" in screen_text(app)
        assert "│ second" in screen_text(app), "marked only while it has the focus"
        assert _is_reversed(app, "first") is without_colours
        assert not _is_reversed(app, "second")
        await press(pilot, "tab")
        assert "│›second" in screen_text(app)
        assert _is_reversed(app, "second") is without_colours
        assert not _is_reversed(app, "other second")
        assert _is_reversed(app, " SECOND ") is without_colours
        assert not _is_reversed(app, " FIRST ")


def _is_reversed(app: App[Any], text: str) -> bool:
    return any(style is not None and bool(style.reverse) for style in _styles(app, f"{text}"))


async def test_rows_of_several_heights_are_chosen_by_key_and_mouse() -> None:
    app = Lists()
    async with app.run_test(size=(40, 9)) as pilot:
        first = app.query_one("#first", RowList)
        tall = Row("tall", lambda width: Content("tall\nand\nmore"), 0)
        first.set_rows([_draw("a"), tall, *_rows(range(9), 2)])
        first.styles.height = 9
        await pilot.pause()
        await pilot.hover("#first", offset=(4, 2))
        assert any(style and style.bgcolor for style in _styles(app, "more"))
        await pilot.click("#first", offset=(4, 4))
        assert first.chosen_id == "tall"
        await pilot.click("#first", offset=(4, 5))
        assert first.chosen_id == "row0"
        await press(pilot, "pagedown", "pagedown", "pagedown", "pagedown")
        assert first.chosen_id == "row8"
        first.set_rows(first.rows[:3], "gone", first=True)
        assert first.chosen_id == "a"
        # A page leaves one row in sight, in both directions.
        first.set_rows(_rows(range(30)))
        chosen = []
        for key in ("pagedown", "pagedown", "pageup", "pageup"):
            await press(pilot, key)
            chosen.append(first.chosen_id)
        assert chosen == ["row6", "row12", "row6", "row0"]

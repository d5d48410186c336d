"""The first frame against what the interface paints first, cell by cell, and where there is none."""

from __future__ import annotations

import os
import pty
import random
import re
import termios
import threading
from collections.abc import Mapping

import pytest
from rich.color import Color, ColorSystem
from rich.console import Console

from memtui.bus import Bus
from memtui.settings.schema import UiSettings
from memtui.tui import instant
from memtui.tui.app import MemtuiApp
from memtui.tui.driver import take_over
from memtui.tui.glyphs import glyphs
from memtui.tui.options import UiOptions
from memtui.tui.palette import PALETTES, Palette
from memtui.tui.terminal_colors import eight_bit, standard, terminal_of
from tests.tui.harness import until
from tests.tui.samples import SampleEngine

TRUECOLOR = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
SYSTEMS = {
    "standard": ColorSystem.STANDARD,
    "256": ColorSystem.EIGHT_BIT,
    "truecolor": ColorSystem.TRUECOLOR,
}
SIZES = ((40, 10), (54, 15), (56, 16), (80, 24), (120, 40), (200, 60))
_PIECE = re.compile(r"\x1b\[(?P<numbers>[0-9;]*)(?P<final>[Hm])|(?P<character>[^\x1b])")

Cell = tuple[str, bool, str, str]
"""Character, bold, its colour, and the one behind it; a blank has no colour of its own."""


def cells(text: str) -> dict[tuple[int, int], Cell]:
    """What is on a terminal after a text, by row and column from 1."""
    shown: dict[tuple[int, int], Cell] = {}
    row, column, bold, color, behind = 1, 1, False, "", ""
    for piece in _PIECE.finditer(text):
        numbers = piece["numbers"] or "0"
        if piece["final"] == "H":
            row, column = (int(part) for part in numbers.split(";"))
        elif piece["final"] == "m":
            for code in re.findall(r"[34]8;(?:2;\d+;\d+;\d+|5;\d+)|\d+", numbers):
                if code == "0":
                    bold, color, behind = False, "", ""
                elif code == "1":
                    bold = True
                elif code.startswith(("3", "9")):
                    color = code
                else:
                    behind = code
        else:
            look = (False, "") if piece["character"] == " " else (bold, color)
            shown[row, column] = (piece["character"], *look, behind)
            column += 1
    return shown


def painted(app: MemtuiApp, row: int) -> dict[tuple[int, int], Cell]:
    """A row of the interface, from 1, in the colours that its console has."""
    system = SYSTEMS[app.console.color_system or ""]
    shown: dict[tuple[int, int], Cell] = {}
    for text, style, _ in app.screen._compositor.render_strips()[row - 1]:
        assert style is not None
        # Not by `Style.render`, which keeps the codes of the first terminal that it wrote to.
        color, behind = (
            ";".join(one.downgrade(system).get_ansi_codes(foreground)) if one else ""
            for one, foreground in ((style.color, True), (style.bgcolor, False))
        )
        for character in text:
            look = (False, "") if character == " " else (bool(style.bold), color)
            shown[row, len(shown) + 1] = (character, *look, behind)
    return shown


async def compare(
    monkeypatch: pytest.MonkeyPatch,
    palette: Palette,
    sizes: tuple[tuple[int, int], ...],
    variables: Mapping[str, str],
    glyph_set: str = "unicode",
) -> None:
    """Compare the query box and the status line with those of an app that is still opening."""
    for name in ("NO_COLOR", "COLORTERM", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    opened = threading.Event()

    def open_engine(bus: Bus) -> SampleEngine:
        opened.wait()
        return SampleEngine(bus)

    app = MemtuiApp(open_engine, UiOptions(theme=palette.name, glyphs=glyph_set))
    terminal = terminal_of(variables)
    assert terminal is not None
    async with app.run_test(size=sizes[0]) as pilot:
        await until(pilot, lambda: app.search_screen.focused is not None)
        app.search_screen.query_input.cursor_blink = False
        for columns, rows in sizes:
            if app.size != (columns, rows):
                await pilot.resize_terminal(columns, rows)
            await pilot.pause()
            prompt = glyphs(glyph_set).prompt
            frame = instant.first_frame(palette, prompt, terminal, columns, rows)
            assert frame is not None
            first = cells(frame)
            assert len(first) == columns * rows
            for row in (1, rows - 1):
                ours = {place: cell for place, cell in first.items() if place[0] == row}
                assert ours == painted(app, row), (columns, rows, row)
            behind = painted(app, rows)[rows, columns][3]
            assert {first[row, 1][3] for row in range(2, rows - 1)} == {behind}
        opened.set()
    app.close_engine()


@pytest.mark.parametrize("palette", PALETTES, ids=lambda palette: palette.name)
async def test_it_is_what_the_interface_paints_first(
    palette: Palette, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = SIZES if palette is PALETTES[0] else SIZES[3:4]
    await compare(monkeypatch, palette, sizes, TRUECOLOR)


@pytest.mark.parametrize(
    "variables",
    [{"TERM": "screen-256color"}, {"TERM": "linux"}, {"TERM": "xterm-256color", "NO_COLOR": ""}],
    ids=["256", "16", "none"],
)
async def test_it_has_the_colours_that_the_terminal_has(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    await compare(monkeypatch, PALETTES[1], SIZES[3:4], variables, "ascii")


def test_every_colour_is_written_as_textual_writes_it() -> None:
    dice = random.Random(7)
    colors = [tuple(dice.randrange(256) for _ in range(3)) for _ in range(300)]
    colors += [(level, level, level) for level in range(0, 256, 5)]
    for red, green, blue in colors:
        color = Color.from_rgb(red, green, blue)
        wanted = {system: color.downgrade(system).number for system in ColorSystem}
        ours = eight_bit((red, green, blue)), standard((red, green, blue))
        assert ours == (wanted[ColorSystem.EIGHT_BIT], wanted[ColorSystem.STANDARD]), color


@pytest.mark.parametrize("term", ["xterm", "xterm-256color", "xterm-kitty", "xterm-16color", "st"])
@pytest.mark.parametrize("colorterm", ["", "truecolor", "24bit", "yes"])
def test_a_terminal_is_taken_for_what_textual_takes_it_for(term: str, colorterm: str) -> None:
    variables = {"TERM": term, "COLORTERM": colorterm}
    terminal = terminal_of(variables)
    console = Console(color_system="auto", force_terminal=True, _environ=variables)
    assert terminal is not None
    assert terminal.system.value == console.color_system


@pytest.mark.parametrize("size", [(39, 24), (80, 9), (5, 2)])
def test_a_window_that_is_too_small_has_none(size: tuple[int, int]) -> None:
    terminal = terminal_of(TRUECOLOR)
    assert terminal is not None
    assert instant.first_frame(PALETTES[0], ">", terminal, *size) is None


@pytest.mark.parametrize(
    ("theme", "variables"),
    [
        ("nord", TRUECOLOR),
        ("auto", {"TERM": "dumb"}),
        ("auto", {}),
        ("auto", {**TRUECOLOR, "TEXTUAL_COLOR_SYSTEM": "windows"}),
        ("auto", {**TRUECOLOR, "TEXTUAL_DRIVER": "somewhere:Driver"}),
    ],
)
def test_there_is_none_where_its_look_is_not_known(theme: str, variables: dict[str, str]) -> None:
    with instant.instant_frame(UiSettings(theme=theme), variables) as frame:
        assert frame is None


async def test_keys_go_on_where_nothing_can_have_the_focus() -> None:
    app = MemtuiApp(SampleEngine, UiOptions(theme="memtui-dark"))
    async with app.run_test(size=(20, 5)) as pilot:
        await until(pilot, lambda: app.search_screen.engine is not None)
        await pilot.press("ctrl+q")
        assert app.return_code == 0
    app.close_engine()


def test_what_keeps_textual_from_starting_is_told_on_the_screen_before(
    capsys: pytest.CaptureFixture[str],
) -> None:
    master, slave = pty.openpty()
    with os.fdopen(master, "rb", buffering=0) as shown, os.fdopen(slave, "w") as terminal:
        before = termios.tcgetattr(slave)
        frame = instant.InstantFrame(terminal, slave)
        frame.show("first")
        assert not termios.tcgetattr(slave)[3] & (termios.ECHO | termios.ICANON)
        assert termios.tcgetattr(slave)[3] & termios.ISIG
        app = MemtuiApp(None, UiOptions())
        take_over(app, frame)
        app.error_console.print("no style sheet")
        assert termios.tcgetattr(slave) == before
        written = shown.read(1 << 12)
    assert written == b"\x1b[?1049h\x1b[?25lfirst\x1b[?1049l\x1b[?25h"
    assert capsys.readouterr().err == "no style sheet\n"

"""The first frame: the query box and the status line, painted before Textual is loaded."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from memtui.tui.glyphs import glyphs
from memtui.tui.palette import PALETTES, Palette, automatic_theme
from memtui.tui.terminal_colors import Terminal, blend, luminance, rgb, terminal_of

if TYPE_CHECKING:
    from memtui.settings.schema import UiSettings

PLACEHOLDER = "search what was remembered"
OPENING = "opening…"
ENTER_SCREEN, LEAVE_SCREEN = "\x1b[?1049h", "\x1b[?1049l"
_HIDE_CURSOR, _SHOW_CURSOR, _PLAIN = "\x1b[?25l", "\x1b[?25h", "\x1b[0m"
_PROMPT_CELLS, _COUNT_CELLS = 3, 34
_LEAST_COLUMNS, _LEAST_ROWS = 40, 10
_DISABLED, _MUTED = 0.38, 0.6
"""How much of the text's colour Textual leaves to a placeholder, and memtui to a remark."""


def first_frame(
    palette: Palette, prompt: str, terminal: Terminal, columns: int, rows: int
) -> str | None:
    """The frame as what is written to the terminal; `None` where nothing fits.

    Its query box and status line are the cells that the interface paints there first, the rest is
    the background.
    """
    if columns < _LEAST_COLUMNS or rows < _LEAST_ROWS:
        return None
    background, surface = rgb(palette.background), rgb(palette.surface)
    foreground = rgb(palette.foreground)
    remark = terminal.style(blend(surface, foreground, _MUTED), surface)
    status = f"{terminal.style(foreground, surface)} {remark}{OPENING.ljust(columns - 1)}"
    empty = terminal.style(foreground, background) + " " * columns
    lines = [_query(palette, prompt, terminal, columns), *[empty] * (rows - 3), status, empty]
    return "".join(f"\x1b[{row};1H{line}" for row, line in enumerate(lines, 1)) + _PLAIN


def _query(palette: Palette, prompt: str, terminal: Terminal, columns: int) -> str:
    panel, foreground = rgb(palette.panel), rgb(palette.foreground)
    contrast = (0, 0, 0) if luminance(panel) > 127 else (255, 255, 255)
    under = rgb(palette.variables.get("input-cursor-background", palette.foreground))
    cursor = rgb(palette.variables.get("input-cursor-foreground", palette.background))
    cells = columns - _PROMPT_CELLS - min(_COUNT_CELLS, columns // 2)
    # Textual wraps it by words at one cell more than there are, and cuts that.
    fits = len(PLACEHOLDER) <= cells + 1
    shown = PLACEHOLDER[:cells] if fits else PLACEHOLDER[: cells + 2].rpartition(" ")[0]
    return (
        f"{terminal.style(rgb(palette.primary), panel, bold=True)} {prompt} "
        f"{terminal.style(cursor, under)}{shown[0]}"
        f"{terminal.style(blend(panel, contrast, _DISABLED), panel)}{shown[1:]}"
        f"{terminal.style(foreground, panel)}{' ' * (columns - _PROMPT_CELLS - len(shown))}"
    )


class InstantFrame:
    """A terminal that shows the first frame, and takes keys for whoever reads it next."""

    def __init__(self, file: TextIO, descriptor: int) -> None:
        """`file` is written to, the terminal of `descriptor` is typed into."""
        import termios

        self._file = file
        self._descriptor = descriptor
        self.attributes: list[Any] = termios.tcgetattr(descriptor)
        """Those of the terminal before anything was changed."""
        self.is_shown = False

    def show(self, frame: str) -> None:
        """Keep typed keys unseen, and paint; Ctrl-C goes on to interrupt."""
        import termios

        attributes = [*self.attributes[:6], list(self.attributes[6])]
        attributes[0] &= ~(
            termios.IXON | termios.IXOFF | termios.ICRNL | termios.INLCR | termios.IGNCR
        )
        attributes[3] &= ~(termios.ECHO | termios.ICANON | termios.IEXTEN)
        attributes[6][termios.VMIN], attributes[6][termios.VTIME] = 1, 0
        # A stopped or killed program could not give the terminal back: these stay keys.
        for key in (termios.VSUSP, termios.VQUIT):
            attributes[6][key] = os.fpathconf(self._descriptor, "PC_VDISABLE").to_bytes(1, "big")
        self.is_shown = True
        termios.tcsetattr(self._descriptor, termios.TCSANOW, attributes)
        self._write(ENTER_SCREEN + _HIDE_CURSOR + frame)

    def leave(self) -> None:
        """Give the terminal back as it was, unless somebody else has it by now."""
        import termios

        if not self.is_shown:
            return
        self.is_shown = False
        try:
            self._write(LEAVE_SCREEN + _SHOW_CURSOR)
        finally:
            # What was typed was meant for the interface, not for the shell.
            termios.tcflush(self._descriptor, termios.TCIFLUSH)
            termios.tcsetattr(self._descriptor, termios.TCSANOW, self.attributes)

    def _write(self, text: str) -> None:
        self._file.write(text)
        self._file.flush()


@contextmanager
def instant_frame(ui: UiSettings, env: Mapping[str, str]) -> Iterator[InstantFrame | None]:
    """Show the first frame until the interface takes the terminal over or the block is left.

    `None` where there is none: without a terminal that shows colours, on Windows, in a window
    that is too small, and for a theme that is not memtui's own, whose colours Textual knows.
    """
    text = _frame_for(ui, env)
    frame = None if text is None else _opened()
    if text is None or frame is None:
        yield None
        return
    try:
        frame.show(text)
        yield frame
    finally:
        frame.leave()


def _frame_for(ui: UiSettings, env: Mapping[str, str]) -> str | None:
    name = automatic_theme(env) if ui.theme == "auto" else ui.theme
    palette = next((one for one in PALETTES if one.name == name), None)
    terminal = terminal_of(env)
    size = _size(env)
    if palette is None or terminal is None or size is None or "TEXTUAL_DRIVER" in env:
        return None
    return first_frame(palette, glyphs(ui.glyphs).prompt, terminal, *size)


def _opened() -> InstantFrame | None:
    """The terminal that Textual will write to, which is that of stderr, and read from."""
    import termios

    file, typed = sys.__stderr__, sys.__stdin__
    if file is None or typed is None or not (file.isatty() and typed.isatty()):
        return None
    try:
        return InstantFrame(file, typed.fileno())
    except termios.error:
        return None


def _size(env: Mapping[str, str]) -> tuple[int, int] | None:
    """Columns and rows as Textual finds them: by variables, then of the terminal."""
    if sys.platform == "win32" or sys.__stdout__ is None:
        return None
    try:
        columns, rows = os.get_terminal_size(sys.__stdout__.fileno())
    except (OSError, ValueError):
        return None
    named = [env.get(name, "") for name in ("COLUMNS", "LINES")]
    asked = [int(text) if text.isdecimal() else 0 for text in named]
    return asked[0] or columns, asked[1] or rows

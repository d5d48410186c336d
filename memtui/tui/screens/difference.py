"""What differs between two versions of a note, as the lines of a unified diff."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import unified_diff
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.getters import query_one
from textual.screen import ModalScreen

from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.background import in_background
from memtui.tui.bindings import bindings
from memtui.tui.highlight import MAX_CELLS, display_line
from memtui.tui.screens.base import BaseScreen
from memtui.tui.widgets.line_view import LineView

CONTEXT = 3
COLUMNS = 8
HUNK = "@"
_STYLES = {HUNK: "bold $accent", " ": "", "-": "$state-error", "+": "$state-ok"}
_START = re.compile(r"(?<=[-+])\d+")


def difference(before: Sequence[str], after: Sequence[str], context: int = CONTEXT) -> list[str]:
    """Return the lines of a unified diff without its heads; empty when both are equal.

    What both begin and end with is left out first: most changes of a long note are small, and the
    comparison itself may take time quadratic in what is left.
    """
    head = max(0, _shared(before, after) - context)
    old, new = before[head:], after[head:]
    tail = max(0, _shared(old[::-1], new[::-1]) - context)
    old, new = old[: len(old) - tail], new[: len(new) - tail]
    lines = list(unified_diff(old, new, n=context, lineterm=""))[2:]
    return [
        _START.sub(lambda found: str(int(found[0]) + head), line) if line[0] == HUNK else line
        for line in lines
    ]


def _shared(first: Sequence[str], second: Sequence[str]) -> int:
    """Count the lines that both begin with."""
    pairs = enumerate(zip(first, second, strict=False))
    shortest = min(len(first), len(second))
    return next((at for at, (one, other) in pairs if one != other), shortest)


def drawn(lines: Sequence[str]) -> list[Content]:
    """Draw the lines of a diff, each with its mark.

    After a mark stands a blank: notes are full of lines that begin with a dash themselves.
    """
    return [
        Content.styled(
            line if line[0] == HUNK else f"{line[0]} {display_line(line[1:])}", _STYLES[line[0]]
        )
        for line in lines
    ]


class DifferenceScreen(BaseScreen[None], ModalScreen[None]):
    """The indexed text against the file as it is now."""

    BINDING_GROUP_TITLE = "Difference"
    BINDINGS: ClassVar[list[BindingType]] = bindings("difference")

    DEFAULT_CSS = """
    DifferenceScreen {
        align: center middle;
        background: $background 60%;
        & #difference-box {
            width: 92%; max-width: 140; height: 90%;
            padding: 0 1;
            background: $surface;
            border: round $primary;
            border-title-color: $foreground;
            border-subtitle-color: $foreground 68%;
        }
        & LineView, & LineView:focus { border: none; padding: 0; }
        &.-narrow #difference-box, &.-short #difference-box {
            width: 100%; max-width: 100%; height: 100%;
        }
    }
    """
    view = query_one(LineView)

    def __init__(self, path: str, indexed: Sequence[str], on_disk: Sequence[str]) -> None:
        super().__init__()
        self._path, self._indexed, self._on_disk = path, indexed, on_disk
        self._lines: list[Content] = []
        self._left = 0
        """Columns that are scrolled past."""
        self.hunks: list[int] = []
        """The lines that begin a hunk."""

    def compose(self) -> ComposeResult:
        with Vertical(id="difference-box"):
            yield LineView()

    def on_mount(self) -> None:
        """Compare beside the loop."""
        box = self.query_one("#difference-box")
        box.border_title = Content.assemble(
            ("- indexed", "$state-error"),
            "  ",
            ("+ on disk", "$state-ok"),
            f"  {safe_line(self._path)}",
        )
        box.border_subtitle = Content("n/N changes  j/k scroll  esc back")
        self.view.focus()
        self.view.lay_out(lambda width: [Content.styled("comparing…", fmt.MUTED)])
        in_background(
            self,
            lambda: difference(self._indexed, self._on_disk),
            self._compared,
            description="compare the two versions",
        )

    def _compared(self, lines: list[str]) -> None:
        """Show the hunks, and how many lines they add and take away."""
        self.hunks = [at for at, line in enumerate(lines) if line[0] == HUNK]
        same = Content.styled("The text is the same: only the file's time changed.", fmt.MUTED)
        self._lines = drawn(lines) or [same]
        self.view.lay_out(self._draw)
        marks = [line[0] for line in lines]
        changes = fmt.counted(len(self.hunks), "change")
        self.query_one("#difference-box").border_subtitle = Content(
            f"{changes}, -{marks.count('-')} +{marks.count('+')} lines"
            "   n/N changes  j/k scroll  esc back"
        )

    def _draw(self, width: int) -> list[Content]:
        return [line[self._left :] for line in self._lines]

    # --- keys -----------------------------------------------------------------------------------

    def action_hunk(self, step: int) -> None:
        """Put the next or the previous change at the top; the last ones only into view."""
        top = self.view.scroll_target_y
        beyond = [at for at in self.hunks if (at > top if step > 0 else at < top)]
        if beyond:
            self.view.scroll_to(y=beyond[0 if step > 0 else -1], animate=False)

    def action_columns(self, steps: int) -> None:
        """Scroll to the side."""
        self._left = min(max(self._left + steps * COLUMNS, 0), MAX_CELLS)
        self.view.lay_out(self._draw, again=True)

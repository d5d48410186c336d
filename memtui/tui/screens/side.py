"""Two chunks side by side, the words that differ marked."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content

from memtui.model import Chunk, citation
from memtui.tui.bindings import bindings
from memtui.tui.glyphs import Glyphs
from memtui.tui.screens.base import Modal
from memtui.tui.side_by_side import SideText, two_texts
from memtui.tui.widgets.line_view import LineView


class SideScreen(Modal[None]):
    """The text of a chunk, and beside it that of another one."""

    BINDING_GROUP_TITLE = "Side by side"
    BINDINGS: ClassVar[list[BindingType]] = bindings("side")
    DEFAULT_CSS = """
    SideScreen {
        align: center middle;
        background: $background 60%;
        & #side-box { width: 96%; max-width: 180; height: 90%; background: $surface; }
        & #side-view { border-title-color: $foreground; border-subtitle-color: $foreground 68%; }
        &.-narrow #side-box, &.-short #side-box { width: 100%; max-width: 100%; height: 100%; }
    }
    """

    def __init__(self, first: Chunk, second: Chunk, glyphs: Glyphs) -> None:
        super().__init__()
        self._sides = tuple(
            SideText(
                citation(chunk.path, chunk.start_line, chunk.end_line),
                chunk.start_line,
                chunk.text,
            )
            for chunk in (first, second)
        )
        self._glyphs = glyphs

    def compose(self) -> ComposeResult:
        with Vertical(id="side-box"):
            yield LineView(id="side-view")

    def on_mount(self) -> None:
        """Show both texts."""
        view = self.query_one(LineView)
        view.border_title = Content.assemble(
            "Side by side  ", ("- only left", "$state-error"), "  ", ("+ only right", "$state-ok"),
            "  ~ words differ",
        )  # fmt: skip
        view.border_subtitle = Content("j/k scroll  esc back")
        left, right = self._sides
        view.lay_out(lambda width: two_texts(left, right, width, self._glyphs))
        view.focus()

"""What the panes of the sessions screen share."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from textual.containers import Vertical
from textual.content import Content
from textual.worker import Worker

from memtui.model import Ranked
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.background import show_worker_error
from memtui.tui.glyphs import Glyphs

if TYPE_CHECKING:
    from memtui.engine import Engine
    from memtui.tui.screens.sessions.screen import SessionsScreen


class Pane(Vertical):
    """A part of the sessions screen with workers of its own."""

    def __init__(self, glyphs: Glyphs, *, id: str) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self.glyphs = glyphs

    @property
    def sessions(self) -> SessionsScreen:
        """The screen with the other panes."""
        return cast("SessionsScreen", self.screen)

    @property
    def engine(self) -> Engine | None:
        """The engine of the application, once it is open."""
        return self.sessions.main_app.engine

    @property
    def ranked(self) -> Ranked | None:
        """The present answer of the search screen."""
        return self.sessions.main_app.search_screen.ranked

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """Show what went wrong in a worker."""
        show_worker_error(self.app, event)


def why(error: Exception) -> str:
    """Return one line about an error; a transcript, or a folder of them, may raise any."""
    return safe_line(str(error) or type(error).__name__)


def aside(text: str) -> Content:
    """Draw something said in passing."""
    return Content.styled(text, fmt.MUTED)


def error_line(error: str, glyphs: Glyphs) -> Content:
    """Draw what went wrong, in one line."""
    return Content.styled(f"{glyphs.error} {safe_line(error)}", "$state-error")

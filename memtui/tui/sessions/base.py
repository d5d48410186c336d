"""State and helpers that every concern of the sessions screen uses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from textual.content import Content
from textual.getters import query_one
from textual.widgets import Input

from memtui.model.conversations import ConversationListing, TranscriptSource, TurnKind
from memtui.tui import format as fmt
from memtui.tui.glyphs import glyphs
from memtui.tui.options import UiOptions
from memtui.tui.screens.base import BaseScreen
from memtui.tui.widgets.facts import Facts
from memtui.tui.widgets.row_list import RowList
from memtui.tui.widgets.turn_view import TurnView

if TYPE_CHECKING:
    from memtui.engine import Engine
    from memtui.tui.app import MemtuiApp

ONE_PANE = 100
"""Below so many columns one pane is shown at a time."""
HUGE = 160


class SessionsBase(BaseScreen[None]):
    """What the sessions screen knows; the concerns are mixins over it."""

    filter_input = query_one("#sessions-filter", Input)
    conversations = query_one("#conversations", RowList)
    facts = query_one("#conversation-facts", Facts)
    reader = query_one("#turns", TurnView)
    within_input = query_one("#within", Input)
    calls_list = query_one("#memory-calls", RowList)

    def __init__(self, options: UiOptions) -> None:
        super().__init__()
        self.options = options
        self.glyphs = glyphs(options.glyphs)
        self.listings: dict[str, ConversationListing] = {}
        """Every conversation by its path."""
        self.sources: tuple[TranscriptSource, ...] = ()
        self.pane = "list"
        """The pane in front: `list`, `reader` or `asked`."""
        self.terms: tuple[str, ...] = ()
        """The words of the query that led to what is read."""
        self.came_to_read = False
        """Whether a turn was asked for from another screen, to which Escape leads back."""

    @property
    def engine(self) -> Engine | None:
        """The engine of the application, once it is open."""
        return cast("Engine | None", getattr(self.app, "engine", None))

    @property
    def main_app(self) -> MemtuiApp:
        """The application with its other screens."""
        return cast("MemtuiApp", self.app)

    @property
    def is_single(self) -> bool:
        """Whether one pane is shown at a time."""
        return self.size.width < ONE_PANE or self.is_small

    @property
    def is_small(self) -> bool:
        """Whether there is no room for borders."""
        return self.size.width < 60 or self.size.height < 16

    def error_line(self, error: str) -> Content:
        """What went wrong, in one line."""
        from memtui.text.sanitize import safe_line

        return Content.styled(f"{self.glyphs.error} {safe_line(error)}", "$state-error")

    def dim(self, text: str) -> Content:
        """An aside."""
        return Content.styled(text, fmt.MUTED)

    # --- given by the other concerns --------------------------------------------------------------

    def show_pane(self, pane: str) -> None:
        """Bring a pane to the front and give it the keys."""
        raise NotImplementedError

    def read(
        self,
        path: str,
        line: int | None = None,
        *,
        end_line: int | None = None,
        kind: TurnKind = TurnKind.MESSAGE,
        terms: Sequence[str] = (),
    ) -> None:
        """Read a conversation; with a line put its turn in front."""
        raise NotImplementedError

    def asked_changed(self) -> None:
        """Ask again what is listed when the index or the parameters changed."""
        raise NotImplementedError

    def conversation_changed(self) -> None:
        """Follow a conversation that is another one, or has more to it, than before."""
        raise NotImplementedError

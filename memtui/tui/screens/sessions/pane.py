"""What the panes of the sessions screen share."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Generic, TypeVar, cast

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

T = TypeVar("T")

BATCH_SECONDS = 0.25
"""What comes in is shown so often at most."""


class Batches(Generic[T]):
    """Hands on what comes in one by one on a thread, a few times a second at most."""

    def __init__(self, take: Callable[[tuple[T, ...]], object]) -> None:
        self._take = take
        self._waiting: list[T] = []
        self._last = time.monotonic()

    def add(self, items: Iterable[T]) -> None:
        """Take in some; hand on all that wait when it is time."""
        self._waiting.extend(items)
        if time.monotonic() - self._last > BATCH_SECONDS:
            self._last = time.monotonic()
            self._take(self.rest())

    def rest(self) -> tuple[T, ...]:
        """Return those that still wait."""
        waiting = tuple(self._waiting)
        self._waiting.clear()
        return waiting


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


def aside(text: str) -> Content:
    """Draw something said in passing."""
    return Content.styled(text, fmt.MUTED)


def error_line(error: str, glyphs: Glyphs) -> Content:
    """Draw what went wrong, in one line."""
    return Content.styled(f"{glyphs.error} {safe_line(error)}", "$state-error")

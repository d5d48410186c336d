"""What the panes of the sessions screen share."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from textual.containers import Vertical
from textual.content import Content
from textual.widget import Widget
from textual.worker import Worker

from memtui.errors import Cancelled
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


def in_thread(
    widget: Widget,
    work: Callable[[Callable[[], bool]], T],
    then: Callable[[T], object],
    failed: Callable[[str], object] | None = None,
    *,
    description: str,
    group: str,
) -> None:
    """Run `work` on a thread, then `then` with its result on the event loop.

    Other work of the group, whose result is not wanted any more, is cancelled: `work` is given
    what turns true then. `failed` is given an error as one line: whatever a transcript does to its
    reader is told in its place.
    """
    cancelled = threading.Event()

    async def run() -> None:
        try:
            result = await asyncio.to_thread(work, cancelled.is_set)
        except Cancelled:
            return
        except Exception as error:
            if failed is None:
                raise
            failed(safe_line(str(error) or type(error).__name__))
            return
        finally:
            cancelled.set()
        then(result)

    widget.run_worker(
        run(), group=group, description=description, exclusive=True, exit_on_error=False
    )


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

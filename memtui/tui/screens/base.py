"""The two bases of every screen: `BaseScreen`, and `Modal` for what lies over another screen."""

from __future__ import annotations

import asyncio
import time
from asyncio import CancelledError as TaskCancelled
from collections.abc import Callable
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from textual import events
from textual.app import App
from textual.await_complete import AwaitComplete
from textual.geometry import Size
from textual.message import Message
from textual.screen import ModalScreen, Screen, ScreenResultType
from textual.worker import Worker, WorkerState

from memtui.errors import Cancelled
from memtui.text.sanitize import safe, safe_line

T = TypeVar("T")

WIDE, HUGE, TALL = 100, 160, 30
WIDTHS = [(0, "-sliver"), (40, "-small"), (60, "-narrow"), (WIDE, "-wide"), (HUGE, "-huge")]
HEIGHTS = [(0, "-flat"), (10, "-low"), (16, "-short"), (TALL, "-tall")]
"""The breakpoints of screens of several panes; below 40 and 10 only `TOO_SMALL` is shown."""
TOO_SMALL = "memtui needs 40×10; try `memtui search`"
_ERROR_SECONDS = 30
_TOAST_SECONDS = 4
PROGRESS_SECONDS = 0.1
"""Between two reports of how far something is."""


@dataclass
class HandedOver(Message, bubble=False):
    """A call from another thread."""

    then: Callable[[], object]


def show_worker_error(app: App[Any], event: Worker.StateChanged) -> None:
    """Show the error of a worker as a toast; a worker that was cancelled shows nothing.

    Textual hides errors of workers with `exit_on_error=False`, and the message does not bubble:
    every node that starts workers calls this.
    """
    error = event.worker.error
    if event.state is not WorkerState.ERROR or isinstance(error, CancelledError | TaskCancelled):
        return
    text = f"could not {event.worker.description}: {str(error) or type(error).__name__}"
    app.notify(safe_line(text), markup=False, severity="error", timeout=_ERROR_SECONDS)


def at_intervals(report: Callable[[int, int], None]) -> Callable[[int, int], None]:
    """Report progress at most every `PROGRESS_SECONDS`."""
    last = 0.0

    def progressed(done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last >= PROGRESS_SECONDS:
            last = time.monotonic()
            report(done, total)

    return progressed


class BaseScreen(Screen[ScreenResultType]):
    """Has the classes of its size before its first layout, shows worker errors, closes once.

    Textual lays a screen out first, chooses its classes then, and lays it out again for them. It
    also tells a screen its size up to three times as it opens, with a layout for each.
    """

    _classes_for: Size | None = None
    """The size that the classes are for."""

    def layout_classes(self) -> dict[str, bool]:
        """The classes that depend on the size, and whether they are set: those of breakpoints."""
        app = self.app
        widths, heights = self.HORIZONTAL_BREAKPOINTS, self.VERTICAL_BREAKPOINTS
        size = self.size
        return {
            **_breakpoints(app.HORIZONTAL_BREAKPOINTS if widths is None else widths, size.width),
            **_breakpoints(app.VERTICAL_BREAKPOINTS if heights is None else heights, size.height),
        }

    def on_compose(self) -> None:
        """Set the classes before there are widgets whose styles depend on them."""
        self._classes_for = self.size
        self.update_classes(self.layout_classes(), update=False)

    def on_resize(self, event: events.Resize) -> None:
        """Set the classes before Textual lays out; do nothing for the size that there is."""
        if event.size == self._classes_for == self.outer_size:
            event.prevent_default()
            return
        self._classes_for = event.size
        self.update_classes(self.layout_classes(), animate=False)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """Show what went wrong in a worker of this screen."""
        show_worker_error(self.app, event)

    def in_background(
        self,
        work: Callable[[], T],
        then: Callable[[T], object],
        failed: Callable[[str], object] | None = None,
        *,
        description: str,
        group: str = "default",
        exclusive: bool = False,
    ) -> None:
        """Run `work` on a thread, and `then` with its result on the event loop.

        `failed` is given an error as one line; without it the error is shown as a toast that
        begins with the description. `Cancelled` ends the work silently. With `exclusive` the result
        of what runs in the same group is not waited for any more.
        """

        async def run() -> None:
            try:
                result = await asyncio.to_thread(work)
            except Cancelled:
                return
            except Exception as error:
                if failed is None:
                    raise
                self.call_next(failed, str(error) or type(error).__name__)
                return
            self.call_next(then, result)

        self.run_worker(
            run(), group=group, description=description, exclusive=exclusive, exit_on_error=False
        )

    def hand_over(self, then: Callable[[], object]) -> None:
        """Have `then` called on the event loop; from any thread."""
        self.post_message(HandedOver(then))

    def on_handed_over(self, message: HandedOver) -> None:
        """Make the call."""
        message.then()

    def tell(self, text: str, *, error: bool = False, warning: bool = False) -> None:
        """Show a toast: what happened, and what to do next."""
        self.app.notify(
            safe(text),
            markup=False,
            severity="error" if error else "warning" if warning else "information",
            timeout=_ERROR_SECONDS if error else _TOAST_SECONDS,
        )

    def action_part(self, part: str, name: str, arguments: tuple[object, ...] = ()) -> None:
        """Run an action of a controller, which is an attribute of the screen."""
        getattr(getattr(self, part), name)(*arguments)

    @property
    def is_open(self) -> bool:
        """Whether it is on the stack: a message or a refresh may come after it was closed."""
        return self in self.app.screen_stack

    def call_after_refresh(self, callback: Callable[..., Any], *args: Any, **kwargs: Any) -> bool:
        """Do something once all is drawn, unless this screen is closed by then.

        Textual leaves it to the screen in front, which may come to it when this one has no widgets.
        """
        return super().call_after_refresh(
            lambda: callback(*args, **kwargs) if self.is_open else None
        )

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        """Close with a result, and close what lies over it; a second call does nothing.

        Keys that come faster than they are handled still arrive at a screen that is closed, and
        Textual's `dismiss` takes away the screen in front, whichever it is.
        """
        if not self.is_open:
            return AwaitComplete()
        while self.app.screen is not self:
            self.app.pop_screen()
        return super().dismiss(result)

    def action_close(self) -> None:
        """Close without a result."""
        self.dismiss(None)


class Modal(BaseScreen[ScreenResultType], ModalScreen[ScreenResultType]):
    """A dialog: the keys of the screens below do not reach them."""

    CLOSING_KEYS: ClassVar[frozenset[str] | None] = None
    """With these any key closes the dialog; one not among them then goes to the screen below."""


def _breakpoints(breakpoints: list[tuple[int, str]] | None, cells: int) -> dict[str, bool]:
    """The class of the last breakpoint that is reached is set, and no other."""
    reached = [at for at, _ in breakpoints or () if at <= cells]
    return {name: bool(reached) and at == max(reached) for at, name in breakpoints or ()}

"""The base of every screen; a dialog is a `ModalScreen` of Textual's as well."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from textual import events
from textual.await_complete import AwaitComplete
from textual.geometry import Size
from textual.screen import Screen, ScreenResultType
from textual.worker import Worker

from memtui.tui.background import show_worker_error

WIDE, HUGE, TALL = 100, 160, 30
WIDTHS = [(0, "-sliver"), (40, "-small"), (60, "-narrow"), (WIDE, "-wide"), (HUGE, "-huge")]
HEIGHTS = [(0, "-flat"), (10, "-low"), (16, "-short"), (TALL, "-tall")]
"""The breakpoints of screens of several panes; below 40 and 10 only `TOO_SMALL` is shown."""
TOO_SMALL = "memtui needs 40×10; try `memtui search`"


class BaseScreen(Screen[ScreenResultType]):
    """Has the classes of its size before its first layout, shows worker errors, closes once.

    Textual lays a screen out first, chooses its classes then, and lays it out again for them. It
    also tells a screen its size up to three times as it opens, with a layout for each.
    """

    CLOSING_KEYS: ClassVar[frozenset[str] | None] = None
    """With these any key closes the dialog; one not among them then goes to the screen below."""
    _classes_for: Size | None = None
    """The size that the classes are for."""

    def layout_classes(self) -> dict[str, bool]:
        """Return the classes that depend on the size, and whether they are set."""
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


def _breakpoints(breakpoints: list[tuple[int, str]] | None, cells: int) -> dict[str, bool]:
    """Set the class of the last breakpoint that is reached, and no other."""
    reached = [at for at, _ in breakpoints or () if at <= cells]
    return {name: bool(reached) and at == max(reached) for at, name in breakpoints or ()}

"""What every screen over another is: closed once, and nothing but itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from textual.await_complete import AwaitComplete
from textual.screen import ModalScreen, ScreenResultType

from memtui.tui.sized_screen import SizedScreen


class Overlay(SizedScreen[ScreenResultType]):
    """A screen with a result. Closing it takes away what lies over it, never what lies below."""

    @property
    def is_open(self) -> bool:
        """Whether it is there still: a message or a refresh may come after it was closed."""
        return self in self.app.screen_stack

    def call_after_refresh(self, callback: Callable[..., Any], *args: Any, **kwargs: Any) -> bool:
        """Do something once all is drawn, unless this screen is closed by then.

        Textual leaves it to the screen in front, which may come to it when this one has no widgets.
        """
        return super().call_after_refresh(
            lambda: callback(*args, **kwargs) if self.is_open else None
        )

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        """Close with a result; a second call does nothing.

        Keys that come faster than they are handled still arrive at a screen that is closed, and
        Textual's `dismiss` takes away the screen in front, whichever it is.
        """
        if not self.is_open:
            return AwaitComplete()
        while self.app.screen is not self:
            self.app.pop_screen()
        return super().dismiss(result)


class Modal(Overlay[ScreenResultType], ModalScreen[ScreenResultType]):
    """A dialog: the keys of the screens below do not reach them."""


class Passing(Modal[None]):
    """A dialog that the first key takes away; the application hands the key to what lies below."""

    CLOSING_KEYS: ClassVar[frozenset[str]] = frozenset({"escape", "enter"})
    """Keys that only take it away."""

"""A screen that is closed is kept by no task in which screens over it were drawn."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from weakref import ref

from textual import _compositor
from textual._context import visible_screen_stack
from textual.screen import Screen


class ScreensBelow:
    """The screens below the one that is drawn, the front one last, for as long as they exist."""

    __slots__ = ("_screens",)

    def __init__(self, screens: Iterable[Screen[Any]]) -> None:
        self._screens = [ref(screen) for screen in screens]

    def pop(self) -> Screen[Any]:
        """Take the front one away; raises IndexError when there is none."""
        while True:
            screen = self._screens.pop()()
            if screen is not None:
                return screen


class _WeakStack:
    """What the compositor sets in place of Textual's variable."""

    def set(self, screens: Iterable[Screen[Any]]) -> None:
        """Name the screens below, for what is drawn now."""
        below: Any = ScreensBelow(screens)
        visible_screen_stack.set(below)


def release_closed_screens() -> None:
    """Let Textual name the screens below a dialog without keeping them.

    Textual 8.2 puts them into a context variable before it draws or asks what is under the mouse,
    and leaves them there. Tasks that run as long as the program (the timers and messages of the
    screens that stay) keep with their context the dialogs that were open under another at that
    moment, each until it draws over a dialog again. Does nothing the second time, or when Textual
    no longer does so.
    """
    names: Any = vars(_compositor)
    if names.get("visible_screen_stack") is visible_screen_stack:
        names["visible_screen_stack"] = _WeakStack()

"""A dialog that was below another is not kept once it is closed."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
from textual import _compositor
from textual.app import App, ComposeResult
from textual.screen import ModalScreen, Screen
from textual.widgets import Static

from memtui.tui.closed_screens import ScreensBelow, release_closed_screens
from tests.tui.harness import screen_text


class Dialog(ModalScreen[None]):
    """A dialog that leaves most of what is below it to be seen."""

    def compose(self) -> ComposeResult:
        """One line."""
        yield Static("over it")


class Below(App[None]):
    """An application with a line that dialogs do not cover."""

    def compose(self) -> ComposeResult:
        """Two lines; the first is under the dialog's."""
        yield Static("covered\nbelow it")


async def _open_and_close(app: App[Any]) -> weakref.ref[Screen[Any]]:
    """Open a dialog, and one over it; ask in this task what is there; close both."""
    lower = Dialog()
    await app.push_screen(lower)
    await app.push_screen(Dialog())
    app.screen._compositor.get_style_at(0, 0)
    await app.pop_screen()
    await app.pop_screen()
    return weakref.ref(lower)


async def test_a_dialog_below_another_is_released() -> None:
    release_closed_screens()
    app = Below()
    async with app.run_test(size=(40, 6)) as pilot:
        closed = await _open_and_close(app)
        await pilot.pause()
        gc.collect()
        assert closed() is None


async def test_what_is_below_a_dialog_is_still_drawn() -> None:
    release_closed_screens()
    app = Below()
    async with app.run_test(size=(40, 6)) as pilot:
        await app.push_screen(Dialog())
        await pilot.pause()
        below = app._background_screens
        strips = app.screen._compositor.render_update(full=True, screen_stack=below)
        assert strips is not None
        assert "below it" in app.export_screenshot().replace("&#160;", " ")
        assert "over it" in screen_text(app)


def test_screens_that_are_gone_are_passed_over() -> None:
    front, back = Screen[None](), Screen[None]()
    below = ScreensBelow([back, front])
    del front
    gc.collect()
    assert below.pop() is back
    with pytest.raises(IndexError):
        below.pop()


def test_it_is_done_once() -> None:
    release_closed_screens()
    once = vars(_compositor)["visible_screen_stack"]
    release_closed_screens()
    assert vars(_compositor)["visible_screen_stack"] is once

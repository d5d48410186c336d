"""What is drawn is not kept longer than the widget it was drawn for."""

from __future__ import annotations

import gc
import weakref

from textual._styles_cache import StylesCache
from textual.color import Color

from memtui.tui.drawn_lines import release_drawn_lines

RED, CLEAR = Color(255, 0, 0), Color(0, 0, 0, 0)


def test_the_lines_of_a_widget_that_is_gone_are_released() -> None:
    release_drawn_lines()
    lines = StylesCache()
    lines.get_inner_outer(RED, CLEAR)
    gone = weakref.ref(lines)
    del lines
    gc.collect()
    assert gone() is None


def test_a_background_keeps_its_colours() -> None:
    release_drawn_lines()
    blue = Color(0, 0, 255)
    inner, outer = StylesCache().get_inner_outer(RED, blue)
    assert (inner.background, outer.background) == (blue, RED)


def test_it_is_done_once() -> None:
    release_drawn_lines()
    once = StylesCache.get_inner_outer
    release_drawn_lines()
    assert StylesCache.get_inner_outer is once

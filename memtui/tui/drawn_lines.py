"""Lines that were drawn go with the widget they were drawn for."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from textual._styles_cache import StylesCache
from textual.color import Color
from textual.style import Style

_PAIRS = 1024
"""As many pairs of colours are kept as Textual keeps; the themes and states here have a few
dozen."""


def release_drawn_lines() -> None:
    """Let Textual keep the styles of backgrounds by their colours alone.

    Textual 8.2 keeps them by the widget's `StylesCache` as well, and with it the drawn lines of up
    to 1,024 widgets that are gone: every toast, help page and closed screen
    (https://github.com/Textualize/textual/issues/6665). Does nothing the second time, or when
    Textual no longer keeps them so.
    """
    kept: Any = vars(StylesCache).get("get_inner_outer")
    if not hasattr(kept, "cache_info"):
        return
    compute: Callable[[Color, Color], tuple[Style, Style]] = partial(kept.__wrapped__, StylesCache)
    by_colors = lru_cache(maxsize=_PAIRS)(compute)

    def get_inner_outer(
        self: StylesCache, base_background: Color, background: Color
    ) -> tuple[Style, Style]:
        return by_colors(base_background, background)

    StylesCache.get_inner_outer = get_inner_outer  # type: ignore[method-assign,assignment]

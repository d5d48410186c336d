"""A screen that has the classes of its size before it is laid out, and once for each size."""

from __future__ import annotations

from textual import events
from textual.geometry import Size
from textual.screen import Screen, ScreenResultType


class SizedScreen(Screen[ScreenResultType]):
    """Textual lays a screen out first, chooses its classes then, and lays it out again for them.

    It also tells a screen its size up to three times as it opens, with a layout for each.
    """

    _fitted: Size | None = None
    """The size that the classes are for."""

    def layout_classes(self) -> dict[str, bool]:
        """The classes that depend on the size, and whether they are set: those of breakpoints."""
        app = self.app
        widths, heights = self.HORIZONTAL_BREAKPOINTS, self.VERTICAL_BREAKPOINTS
        size = self.size
        return {
            **_classes(app.HORIZONTAL_BREAKPOINTS if widths is None else widths, size.width),
            **_classes(app.VERTICAL_BREAKPOINTS if heights is None else heights, size.height),
        }

    def on_compose(self) -> None:
        """Set the classes before there are widgets whose styles depend on them."""
        self._fitted = self.size
        self.update_classes(self.layout_classes(), update=False)

    def on_resize(self, event: events.Resize) -> None:
        """Set the classes before Textual lays out; do nothing for the size that there is."""
        if event.size == self._fitted == self.outer_size:
            event.prevent_default()
            return
        self._fitted = event.size
        self.update_classes(self.layout_classes(), animate=False)


def _classes(breakpoints: list[tuple[int, str]] | None, cells: int) -> dict[str, bool]:
    """The class of the last breakpoint that is reached is set, and no other."""
    reached = [at for at, _ in breakpoints or () if at <= cells]
    return {name: bool(reached) and at == max(reached) for at, name in breakpoints or ()}

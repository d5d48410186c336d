"""An input whose text can be painted, whatever was pasted into it."""

from __future__ import annotations

from textual.geometry import Size
from textual.reactive import Reactive
from textual.widgets import Input

from memtui.text.sanitize import safe_line


class SafeInput(Input):
    """Replaces control and bidirectional characters one to one, so the cursor keeps its place."""

    virtual_size: Reactive[Size] = Reactive(Size(0, 0), layout=False)
    """Without a layout of the whole screen for every key: the height is one line for ever."""

    def validate_value(self, value: str) -> str:
        """Make a new value safe for the terminal."""
        return safe_line(value)

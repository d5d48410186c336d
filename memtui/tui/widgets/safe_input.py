"""An input whose text can be painted, whatever was pasted into it."""

from __future__ import annotations

from textual import events
from textual.geometry import Size
from textual.reactive import Reactive
from textual.widgets import Input

from memtui.text.sanitize import safe_line


class SafeInput(Input):
    """Replaces control and bidirectional characters one to one, so the cursor keeps its place."""

    virtual_size: Reactive[Size] = Reactive(Size(0, 0), layout=False)
    """Without a layout of the whole screen for every key: the height is one line for ever."""

    def _on_paste(self, event: events.Paste) -> None:
        """Take every line that is pasted, as one line; Textual takes the first alone."""
        event.prevent_default()
        event.stop()
        self.replace(" ".join(event.text.split("\n")).strip(), *self.selection)

    def replace(self, text: str, start: int, end: int) -> None:
        """Replace a part of the text; what is too long is cut, where Textual takes nothing."""
        if self.max_length:
            kept = len(self.value) - abs(end - start)
            text = text[: max(0, self.max_length - kept)]
        super().replace(text, start, end)

    def validate_value(self, value: str) -> str:
        """Make a new value safe for the terminal."""
        return safe_line(value)

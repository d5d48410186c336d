"""An input whose text can be painted, whatever was pasted into it."""

from __future__ import annotations

from textual.widgets import Input

from memtui.text.sanitize import safe_line


class SafeInput(Input):
    """Replaces control and bidirectional characters one to one, so the cursor keeps its place."""

    def validate_value(self, value: str) -> str:
        """Make a new value safe for the terminal."""
        return safe_line(value)

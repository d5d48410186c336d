"""The query box with the count of results at its right."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.geometry import Size
from textual.reactive import Reactive
from textual.widgets import Input, Static

from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt

LONGEST = 5000
"""More than a query may have, so that what is pasted beyond is told and not lost in silence."""


class QueryBar(Horizontal):
    """One line: prompt, input, and how many results of how many candidates in what time."""

    DEFAULT_CSS = """
    QueryBar {
        height: 1;
        background: $surface;
        & > #prompt { width: 3; color: $text-muted; }
        & > #query { width: 1fr; background: $surface; }
        & > #query:focus { background-tint: $foreground 0%; }
        & > #count {
            width: 34; max-width: 50%; padding: 0 1; text-align: right; color: $foreground;
        }
        & > .query-bar--stale { background: $surface; color: $text-muted; }
        &:focus-within { background: $panel; }
        &:focus-within > .query-bar--stale { background: $panel; }
        &:focus-within > #query { background: $panel; }
        &:focus-within > #prompt { color: $primary; text-style: bold; }
    }
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {"query-bar--stale"}

    def __init__(self, prompt: str) -> None:
        super().__init__(id="query-bar")
        self._prompt = prompt
        self._answer = ""

    def compose(self) -> ComposeResult:
        """Prompt, input, count."""
        yield Static(Content(f" {self._prompt} "), id="prompt", markup=False)
        yield SafeInput(
            placeholder="search what was remembered", id="query", compact=True, max_length=LONGEST
        )
        yield Static(id="count", markup=False)

    def show_count(
        self, shown: int, candidates: int, elapsed_ms: float, *, partial: str = ""
    ) -> None:
        """Tell how many results are shown of how many candidates, and how long it took."""
        pending = f"~ {partial} pending  " if partial else ""
        self._answer = f"{pending}{shown}/{fmt.count(candidates)}  {fmt.duration(elapsed_ms / 1e3)}"
        self._show(self._answer, stale=False)

    def show_searching(self, *, long: bool = False) -> None:
        """Mark what is on screen as the answer to an older query."""
        note = "searching" if long else self._answer
        self._show(f"{note} …" if note else "…", stale=True)

    def show_note(self, note: str) -> None:
        """Show a short word in place of the count; empty clears it."""
        self._answer = note
        self._show(note, stale=False)

    def _show(self, text: str, *, stale: bool) -> None:
        # Without a class that is set, and without a layout, as the width is fixed: either would be
        # felt on every key.
        shown = Content.styled(text, ".query-bar--stale") if stale else Content(text)
        self.query_one("#count", Static).update(shown, layout=False)


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
            remaining = len(self.value) - abs(end - start)
            text = text[: max(0, self.max_length - remaining)]
        super().replace(text, start, end)

    def validate_value(self, value: str) -> str:
        """Make a new value safe for the terminal."""
        return safe_line(value)

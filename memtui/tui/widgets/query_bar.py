"""Boxes for a query or a filter, with a count at their right."""

from __future__ import annotations

import re
from typing import Any, ClassVar, Self

from textual import events
from textual.binding import Binding
from textual.containers import Horizontal
from textual.content import Content
from textual.geometry import Size
from textual.reactive import Reactive
from textual.widgets import Input, Static

from memtui.text.sanitize import safe_line

LONGEST = 5000
"""More than a query may have, so that what is pasted beyond is told and not lost in silence."""
_CONTROL = re.compile(r"(?:\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x1f\x7f-\x9f])+")
"""Ends of lines, and what else moves the cursor of a terminal or changes its colours."""
_EDITS = {one.action for one in Input.BINDINGS if isinstance(one, Binding)}


class QueryBar(Horizontal):
    """One line: prompt, input, and how many results or rows there are."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"query-bar--stale"}

    def __init__(self, prompt: str, box: str, placeholder: str) -> None:
        """`box` is the id of the input."""
        super().__init__(
            Static(Content(f" {prompt} "), classes="prompt", markup=False),
            SafeInput(placeholder=placeholder, id=box, compact=True, max_length=LONGEST),
            Static(classes="count", markup=False),
            id=f"{box}-bar",
        )
        self._note: str | Content = ""

    def show_note(self, note: str | Content, *, stale: bool = False) -> None:
        """Show a few words at the right; `stale`: what is on screen answers an older query.

        Without words a stale note is the one before.
        """
        if stale:
            # A class that is set, or a layout, would be felt on every key.
            words = Content.styled(f"{note or self._note} …".lstrip(), ".query-bar--stale")
        else:
            self._note, words = note, Content.assemble(note)
        # What is longer than a count takes cells from the text.
        count = self.query_one(".count", Static).set_class(words.cell_length > 18, "-long")
        count.update(words, layout=False)


class SafeInput(Input):
    """Replaces control and bidirectional characters one to one, so the cursor keeps its place."""

    def __init__(self, value: str = "", *, opens: str = "", **options: Any) -> None:
        """`opens` is what Enter does, in a word for the key bar."""
        super().__init__(value, **options)
        self.opens = opens

    virtual_size: Reactive[Size] = Reactive(Size(0, 0), layout=False)
    """Without a layout of the whole screen for every key: the height is one line for ever."""

    def focus(self, scroll_visible: bool = True) -> Self:
        """Take the keys at once: Textual lets those go first that are typed already."""
        self.screen.set_focus(self, scroll_visible)
        return self

    async def on_key(self, event: events.Key) -> None:
        """Leave what Alt is bound to with a key to the screen: Textual would type the letter.

        What the keys of the line do is done at once: on the way that Textual sends them through
        the screen, letters that are typed behind them would overtake them.
        """
        is_alt = event.key.startswith("alt+")
        bound = None if event.is_printable and not is_alt else self.screen.active_bindings
        if bound and (line := bound.get(event.key)) is not None:
            if is_alt:
                event.prevent_default()
            elif line.node is self and line.binding.action in _EDITS:
                event.stop()
                await self.run_action(line.binding.action)

    def on_paste(self, event: events.Paste) -> None:
        """Take every line that is pasted, as one line, as far as it fits.

        Textual takes the first line alone, and nothing of a text that is too long. Terminals send
        CR for the end of a line; what ends lines, and other control sequences, become blanks.
        """
        event.prevent_default()
        event.stop()
        text = _CONTROL.sub(" ", event.text).strip()
        if self.max_length:
            others = len(self.value) - len(self.selected_text)
            text = text[: max(0, self.max_length - others)]
        self.replace(text, *self.selection)

    def show_ending(self, ending: str) -> None:
        """Show in muted characters what the text is searched with at its end."""
        self._suggestion = f"{self.value}{ending}" if ending else ""

    def validate_value(self, value: str) -> str:
        return safe_line(value)

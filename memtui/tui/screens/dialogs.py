"""Small dialogs: the price of a rebuild, and the keys of a first run."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Button, Static

from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui import provider_words as words
from memtui.tui.bindings import bindings
from memtui.tui.screens.base import Modal

if TYPE_CHECKING:
    from memtui.engine.source import RebuildCost


def cost_words(cost: RebuildCost, provider: str) -> str:
    """The price of a rebuild: `re-embed 51 of 1 284 chunks, ~20 k tokens with minilm (local)`."""
    place = "remote" if cost.remote else "local"
    name = f"{safe_line(provider)} ({place})" if provider else place
    missing = cost.chunks - cost.cached
    if missing <= 0:
        return f"no chunk needs embedding: {fmt.counted(cost.chunks, 'vector')} in the cache"
    return (
        f"re-embed {fmt.counted(missing, 'chunk')}, ~{fmt.rounded(cost.tokens_estimate)} tokens"
        f" with {name}; {fmt.percent(cost.cached, cost.chunks)} cached"
    )


class ConfirmRebuild(Modal[bool]):
    """Asks before everything is indexed again, naming what that costs."""

    CSS_PATH = "dialogs.tcss"
    BINDING_GROUP_TITLE = "Rebuild"
    BINDINGS: ClassVar[list[BindingType]] = bindings("rebuild")

    def __init__(self, cost: RebuildCost, provider: str = "") -> None:
        super().__init__()
        self.cost = cost
        self.provider = provider

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog") as box:
            box.border_title = "Rebuild the index"
            box.border_subtitle = Content("y rebuild  n or esc keep")
            yield Static(self._price(), markup=False)
            with Horizontal(id="dialog-buttons"):
                yield Button("Rebuild", id="yes", variant="warning", compact=True)
                yield Button("Keep", id="no", variant="default", compact=True)

    def on_mount(self) -> None:
        """Let Enter keep the index: the harmless answer."""
        self.query_one("#no", Button).focus()

    def _price(self) -> Content:
        files = fmt.counted(self.cost.files, "file")
        chunks = fmt.counted(self.cost.chunks, "chunk")
        lines = [
            Content.assemble(f"Read {files} and write ", (chunks, "bold"), " again:"),
            Content.styled(cost_words(self.cost, self.provider) + ".", "bold"),
            Content(""),
        ]
        if self.cost.remote:
            place = words.brief(self.cost.address) or "the provider"
            lines.append(Content.styled(f"Note text is sent to {place}.", "$state-warn"))
        lines.append(
            Content.styled("Search keeps the present index until the new one is ready.", fmt.MUTED)
        )
        return Content("\n").join(lines)

    def action_answer(self, answer: bool) -> None:
        """Answer by key."""
        self.dismiss(answer)

    @on(Button.Pressed)
    def _answer_by_button(self, event: Button.Pressed) -> None:
        event.stop()
        self.dismiss(event.button.id == "yes")


class FirstRunHint(Modal[None]):
    """The five keys to begin with, shown once."""

    CLOSING_KEYS = frozenset({"escape", "enter"})
    CSS_PATH = "dialogs.tcss"
    BINDING_GROUP_TITLE = "Welcome"
    KEYS: ClassVar[tuple[tuple[str, str], ...]] = (
        ("/", "type a question; results follow as you type"),
        ("m", "variety: similar results make room for others (MMR)"),
        ("d", "age: old notes lose weight (decay)"),
        ("x", "the arithmetic that put a result where it is"),
        ("?", "every other key"),
    )

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog") as box:
            box.border_title = "Five keys to begin with"
            box.border_subtitle = Content("any key begins")
            lines = [
                Content.assemble((f" {key} ", "bold $accent"), f"  {text}")
                for key, text in self.KEYS
            ]
            yield Static(Content("\n").join(lines), markup=False)

    def on_click(self) -> None:
        """Go away at the first click."""
        self.dismiss(None)

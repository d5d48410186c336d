"""The help: every key that works, read off the bindings themselves, so that it cannot lie."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.dom import DOMNode
from textual.screen import ModalScreen, Screen
from textual.widget import Widget
from textual.widgets import Input, Static

from memtui.tui import format as fmt
from memtui.tui.bindings import KeyedAction, bindings, keyed_actions
from memtui.tui.screens.base import BaseScreen
from memtui.tui.widgets.query_bar import SafeInput

_KEYS = 16


@dataclass(frozen=True, slots=True)
class HelpGroup:
    """The actions of one pane, of the screen or of the application."""

    title: str
    hint: str
    lines: tuple[KeyedAction, ...]


def help_groups(screen: Screen[object], focused: Widget | None) -> tuple[HelpGroup, ...]:
    """Return the actions by the place that does them: the focused pane, the screen, the app.

    What every text box and list can do comes last.
    """
    own: dict[DOMNode, list[KeyedAction]] = {}
    stock: list[KeyedAction] = []
    for keyed in keyed_actions(screen):
        # Textual's own bindings have no id: editing text and scrolling, the same everywhere.
        (own.setdefault(keyed.node, []) if keyed.binding.id else stock).append(keyed)
    groups = []
    for node, lines in own.items():
        hint = ""
        if node is focused:
            hint = _HINTS.get(node.id or "") or getattr(node, "HELP", None) or ""
        elif node is screen and any(line.typed for line in lines):
            hint = "Grey keys are typed into the box: leave it with esc to use them."
        groups.append(HelpGroup(_title(node, focused), hint, tuple(lines)))
    if stock:
        groups.append(HelpGroup("Editing and scrolling", "", tuple(stock)))
    return tuple(groups)


_TITLES: Mapping[str, str] = {
    "query": "While typing",
    "results": "Results",
    "near-misses": "Not shown",
    "preview": "Preview",
    "why": "Why this rank",
    "conversations": "Conversations",
    "memory-calls": "What the memory was asked",
    "comparison": "Then and now",
    "file-tree": "Files",
    "day-list": "Timeline",
}
_HINTS: Mapping[str, str] = {
    "day-list": "The days that have notes, newest first.",
    "file-tree": "● changed  ! error  · not indexed  ◌ file gone; the line below says why.",
}


def _title(node: DOMNode, focused: Widget | None) -> str:
    if isinstance(node, App):
        return "Everywhere"
    title = _TITLES.get(node.id or "") or node.BINDING_GROUP_TITLE
    if title:
        return title
    if isinstance(node, Screen):
        return "This screen"
    return "This pane" if node is focused else "Around it"


class HelpScreen(BaseScreen[None], ModalScreen[None]):
    """The keys of the focused pane, then those of the screen, then those of the application."""

    CSS_PATH = "help.tcss"
    BINDINGS: ClassVar[list[BindingType]] = bindings("help")

    def __init__(self, focused: Widget | None = None) -> None:
        super().__init__()
        self._pane = focused
        self.groups: tuple[HelpGroup, ...] = ()

    def compose(self) -> ComposeResult:
        with Vertical(id="help-box") as box:
            box.border_title = "Keys"
            box.border_subtitle = Content("type to search  ↑↓ scroll  esc back")
            yield SafeInput(placeholder="search the keys", id="help-filter", compact=True)
            with VerticalScroll(id="help-scroll", can_focus=False):
                yield Static(id="help-text", markup=False)

    def on_mount(self) -> None:
        """Read the bindings of the screen below."""
        below = self.app.screen_stack[-2]
        self.groups = help_groups(below, self._pane if self._pane is not None else below.focused)
        self.query_one(Input).focus()
        self._fill("")

    @on(Input.Changed)
    def _filter(self, event: Input.Changed) -> None:
        event.stop()
        self._fill(event.value)

    def action_scroll(self, lines: int) -> None:
        """Scroll the keys while typing."""
        self.query_one("#help-scroll", VerticalScroll).scroll_relative(y=lines, animate=False)

    def _fill(self, text: str) -> None:
        self.query_one("#help-text", Static).update(help_content(self.groups, text))
        self.query_one("#help-scroll", VerticalScroll).scroll_home(animate=False)


def help_content(groups: Iterable[HelpGroup], text: str) -> Content:
    """Write the groups, only the lines that hold every word of a text."""
    words = text.casefold().split()
    blocks: list[Content] = []
    for group in groups:
        lines = [line for line in group.lines if _holds(line, words)]
        if not lines:
            continue
        block = [Content.styled(group.title, "bold $accent")]
        if group.hint and not words:
            block.append(Content.styled(group.hint, fmt.MUTED))
        blocks.append(Content("\n").join([*block, *map(_draw, lines)]))
    if not blocks:
        return Content.styled("no key does that", fmt.MUTED)
    return Content("\n\n").join(blocks)


def _holds(line: KeyedAction, words: Iterable[str]) -> bool:
    """Whether every word is in the keys, the description or the tooltip."""
    text = " ".join((*line.keys, line.binding.description, line.binding.tooltip)).casefold()
    return all(word in text for word in words)


def _draw(line: KeyedAction) -> Content:
    binding = line.binding
    keys = Content(" ").join(
        Content.styled(key, fmt.MUTED if key in line.typed else "bold") for key in line.keys
    )
    off = "" if line.enabled else "  (not now)"
    tooltip = f"  {binding.tooltip}" if binding.tooltip else ""
    description = binding.description if binding.id else binding.description.lower()
    return Content.assemble(
        "  ",
        keys,
        " " * max(1, _KEYS - keys.cell_length),
        (description, "" if line.enabled else fmt.MUTED),
        (tooltip + off, fmt.MUTED),
    )

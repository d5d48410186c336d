"""The help: every key that works, read off the bindings themselves, so that it cannot lie."""

from __future__ import annotations

from textual import on
from textual.app import App, ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.dom import DOMNode
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input

from memtui.data import read_table
from memtui.tui import format as fmt
from memtui.tui.bindings import KeyedAction, key_name, keyed_actions
from memtui.tui.screens.dialogs import Dialog
from memtui.tui.widgets.lists import TextBlock
from memtui.tui.widgets.query_bar import SafeInput

_KEYS = 16
_MENU = Content.styled("in the menu", fmt.MUTED)
_PANES = read_table("keys.toml")["panes"]
"""Titles and hints by the id of a widget."""

HelpGroup = tuple[str, str, list[KeyedAction]]
"""Title, hint and actions of one pane, of the screen or of the application."""


def help_groups(screen: Screen[object], focused: Widget | None) -> list[HelpGroup]:
    """Return the actions by the place that does them: the focused pane, the screen, the app.

    Those of the library, which edit a line of text, are left out.
    """
    own: dict[DOMNode, list[KeyedAction]] = {}
    for keyed in keyed_actions(screen):
        # Textual's own bindings have no id.
        if keyed.binding.id:
            own.setdefault(keyed.node, []).append(keyed)
    groups: list[HelpGroup] = []
    for node, lines in own.items():
        pane, hint = _PANES.get(node.id, {}), ""
        title = pane.get("title") or node.BINDING_GROUP_TITLE
        if isinstance(node, App):
            title = "Everywhere"
        elif isinstance(node, Screen):
            title = title or "This screen"
            if any(line.typed for line in lines):
                hint = "Grey keys are typed into the box: leave it with esc to use them."
        elif node is focused:
            title = title or "This pane"
            hint = pane.get("hint") or getattr(node, "HELP", None) or ""
        groups.append((title or "Around it", hint, lines))
    return groups


def hanging(line: Content, width: int, indent: int) -> list[Content]:
    """Wrap a line, all but its first cells under themselves."""
    parts = line[indent:].wrap(max(8, width - indent)) or [Content("")]
    return [line[:indent] + parts[0], *(" " * indent + part for part in parts[1:])]


class HelpScreen(Dialog[None], keys="help"):
    """The keys of the focused pane, then those of the screen, then those of the application."""

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog-box", id="help"):
            yield SafeInput(placeholder="search the keys", id="help-filter", compact=True)
            with VerticalScroll(id="help-scroll", can_focus=False):
                yield TextBlock(id="help-text")

    def on_mount(self) -> None:
        self.frame("Keys")
        below = self.app.screen_stack[-2]
        self.groups = help_groups(below, below.focused)
        self._fill()

    @on(Input.Changed)
    def _fill(self) -> None:
        """Draw the groups, only the lines that hold every typed word."""
        words = self.query_one(Input).value.casefold().split()
        lines: list[tuple[int, Content]] = []
        for title, hint, actions in self.groups:
            block = [(0, Content.styled(title, "bold $accent"))]
            if hint and not words:
                block.append((0, Content.styled(hint, fmt.MUTED)))
            head = len(block)
            for line in actions:
                binding = line.binding
                styles: dict[str, str] = {}
                for key in line.keys:
                    styles.setdefault(key_name(key), fmt.MUTED if key in line.typed else "bold")
                keys = Content(" ").join(Content.styled(*one) for one in styles.items()) or _MENU
                aside = f"  {binding.tooltip}" if binding.tooltip else ""
                drawn = Content.assemble(
                    "  ",
                    keys,
                    " " * max(1, _KEYS - keys.cell_length),
                    (binding.description, "" if line.enabled else fmt.MUTED),
                    (aside if line.enabled else f"{aside}  (not now)", fmt.MUTED),
                )
                if all(word in drawn.plain.casefold() for word in words):
                    block.append((_KEYS + 2, drawn))
            if len(block) > head:
                lines += [*block, (0, Content(""))]
        lines = lines or [(0, Content.styled("no key does that", fmt.MUTED))]
        self.query_one(TextBlock).show(
            lambda width: [part for indent, line in lines for part in hanging(line, width, indent)]
        )
        self.query_one(VerticalScroll).scroll_home(animate=False)

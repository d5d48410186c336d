"""The bars of a screen: that of the numbered screens at the top, and the keys that work now."""

from __future__ import annotations

from textual.content import Content
from textual.dom import DOMNode
from textual.geometry import Size
from textual.style import Style
from textual.widget import Widget
from textual.widgets import Input

from memtui.settings.actions import ALL_ACTIONS
from memtui.tui import fmt
from memtui.tui.bindings import is_typed, key_name, keyed_actions, keys_of

LIMIT = 8
_BACK = ("close", "dismiss", "leave")
_LEAVING = (*_BACK, "close_top", "quit")
_HELP = ("help", "app.help")
SCREENS = {
    action.id.removeprefix("screen."): action
    for action in ALL_ACTIONS
    if action.id.startswith("screen.")
}
"""The actions that lead to the numbered screens, by the ids of these, in order."""
_LEAST = (40, 16)
"""Columns and lines of a screen that has one to spare for the bar."""
_HINT = "alt+number while typing"
ON_CLICK = "@click.plain"
"""The name of a click's action in a style; what has a plain `@click` Textual draws as a link."""


def run_on_click(action: str) -> Style:
    """Return a style without colours by which a click on the text runs an action."""
    return Style.from_meta({ON_CLICK: action})


def draw_key(key: str, label: str = "") -> Content:
    """Write a key and what it does; a click on it presses the key."""
    drawn = Content.assemble((key_name(key), "$primary bold"), f" {label}" if label else "")
    return drawn.stylize(run_on_click(f"app.simulate_key({key!r})"))


def draw_action(node: DOMNode, action_id: str, label: str = "") -> Content:
    """Write a key of an action and what it does: while a text is typed one that is not typed."""
    is_typing = isinstance(node.screen.focused, Input)
    keys = (key for key in keys_of(node, action_id) if not (is_typing and is_typed(key)))
    return next((draw_key(key, label) for key in keys), Content(label))


class KeyBar(Widget):
    """At most seven keys and the palette's; while a text is typed, keys that are not letters."""

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, lambda screen: self.refresh())

    def render(self) -> Content:
        """Draw the keys that fit, the palette's key at the right."""
        drawn: dict[str, Content] = {}
        # Every screen of Textual binds tab before its own keys: it matters least.
        for keyed in sorted(keyed_actions(self.screen), key=lambda one: "tab" in one.keys):
            binding = keyed.binding
            named = [key for key in keyed.keys if key not in keyed.typed]
            if binding.show and named and keyed.enabled:
                # A character is shorter; but everywhere the same key leads back.
                is_back = binding.action in _BACK and "escape" in named
                key = "escape" if is_back else max(named, key=is_typed)
                drawn.setdefault(binding.action, draw_key(key, binding.description))
        # One way to leave is enough, and it keeps its place where there is not room for all.
        ways = [action for action in _LEAVING if action in drawn]
        last = [action for action in drawn if action in (*ways[:1], *_HELP)]
        first = [action for action in drawn if action not in (*_LEAVING, *_HELP)]
        first = first[: LIMIT - len(last)]
        width = max(self.size.width, 1)
        palette = draw_key(self.app.COMMAND_PALETTE_BINDING, "menu")
        while True:
            line = Content("  ").join(drawn[action] for action in (*first, *last))
            gap = width - line.cell_length - palette.cell_length
            if gap >= 2 or not last:
                return (line + " " * gap + palette).truncate(width)
            # The last of those that are not always shown is the least.
            (first or last).pop(-1 if first else 0)


class ScreenBar(Widget):
    """The numbered screens, the present one marked; a click goes to one."""

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, lambda screen: self.refresh())

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return one line, or none where all are needed."""
        return int(viewport.width >= _LEAST[0] and viewport.height >= _LEAST[1])

    def render(self) -> Content:
        """Draw the screens; where there is not room for all names that of the present one."""
        stack = self.app.screen_stack
        present = next((one.id for one in reversed(stack) if one.id in SCREENS), "")
        drawn, short = (
            Content(" ").join(
                Content.assemble(
                    (f" {key_name(keys_of(self, action.id)[0])} ", "bold"),
                    f"{action.title} " if is_long or name == present else "",
                )
                .stylize_before("bold reverse" if name == present else "$primary")
                .stylize(run_on_click(f"app.{action.run}"))
                for name, action in SCREENS.items()
            )
            for is_long in (True, False)
        )
        width = self.content_size.width
        line = drawn if drawn.cell_length <= width else short
        hint = _HINT if isinstance(self.screen.focused, Input) else ""
        room = width - line.cell_length - len(hint)
        return Content.assemble(line, (f"{' ' * room}{hint}", fmt.MUTED)) if room > 1 else line

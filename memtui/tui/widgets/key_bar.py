"""The keys that work now, named after the active bindings."""

from __future__ import annotations

from msgspec import Struct
from textual import events
from textual.content import Content
from textual.style import Style
from textual.widget import Widget
from textual.widgets import Input

from memtui.tui.bindings import is_typed, key_name, worded

LIMIT = 7
_OFF = "$foreground 40%"
_BACK = ("close", "dismiss")
_ALWAYS = (*_BACK, "help", "quit")
"""Actions that keep their place when there is not room for all; the way back before quitting."""


class KeyItem(Struct, frozen=True):
    """A key and what it does."""

    key: str
    label: str
    action: str
    enabled: bool = True

    def draw(self) -> Content:
        """Write the key and what it does; a click on it presses the key."""
        style, label_style = ("$primary bold", "") if self.enabled else (_OFF, _OFF)
        drawn = Content.assemble((key_name(self.key), style), (f" {self.label}", label_style))
        return drawn.stylize(Style.from_meta({"key": self.key}))


class KeyBar(Widget):
    """At most seven keys and the palette's; while a text is typed, keys that are not letters."""

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, lambda screen: self.refresh())

    def items(self) -> list[KeyItem]:
        """Return the keys to show now."""
        is_typing = isinstance(self.screen.focused, Input)
        keys: dict[str, list[str]] = {}
        shown: dict[str, tuple[str, bool]] = {}
        for key, active in self.screen.active_bindings.items():
            binding = worded(active.node, active.binding)
            if not (is_typing and is_typed(key)):
                keys.setdefault(binding.action, []).append(key)
            if binding.show and binding.description:
                shown.setdefault(binding.action, (binding.description, active.enabled))
        items = []
        for action, (label, enabled) in shown.items():
            if named := keys.get(action):
                # A character is shorter; but everywhere the same key leads back.
                is_back = action in _BACK and "escape" in named
                key = "escape" if is_back else max(named, key=is_typed)
                items.append(KeyItem(key, label, action, enabled))
        first = [item for item in items if item.action not in _ALWAYS]
        last = [item for item in items if item.action in _ALWAYS]
        if len(first) + len(last) > LIMIT and any(item.action in _BACK for item in last):
            last = [item for item in last if item.action != "quit"]
        return [*first[: LIMIT - len(last)], *last]

    def render(self) -> Content:
        """Draw the keys that fit, the palette's key at the right."""
        width = max(self.size.width, 1)
        palette = KeyItem(self.app.COMMAND_PALETTE_BINDING, "menu", "command_palette").draw()
        items = self.items()
        line = Content("")
        while items:
            line = Content("  ").join(item.draw() for item in items)
            if line.cell_length + 2 + palette.cell_length <= width:
                break
            # The last of those that are not always shown is the least.
            least = next((item for item in reversed(items) if item.action not in _ALWAYS), items[0])
            items.remove(least)
            line = Content("")
        gap = width - line.cell_length - palette.cell_length
        return line + " " * gap + palette if gap >= 0 else palette.truncate(width)

    async def on_click(self, event: events.Click) -> None:
        if key := event.style.meta.get("key"):
            event.stop()
            self.app.simulate_key(key)

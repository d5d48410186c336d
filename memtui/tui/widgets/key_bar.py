"""The keys that work now, named after the active bindings."""

from __future__ import annotations

from dataclasses import dataclass

from textual import events
from textual.content import Content
from textual.screen import Screen
from textual.style import Style
from textual.widget import Widget
from textual.widgets import Input

from memtui.tui.bindings import key_for, key_name, worded

LIMIT = 7
_PALETTE = "command_palette"
_ALWAYS = ("close", "help", "quit")
"""Actions that keep their place when there is not room for all; the way back before quitting."""


@dataclass(frozen=True, slots=True)
class KeyItem:
    """A key and what it does."""

    key: str
    label: str
    action: str
    enabled: bool = True


class KeyBar(Widget):
    """At most seven keys and the palette's; while a text is typed, keys that are not letters."""

    DEFAULT_CSS = """
    KeyBar { height: 1; padding: 0 1; background: $background; color: $foreground; dock: bottom; }
    """

    def on_mount(self) -> None:
        """Follow the bindings of the screen."""
        self.screen.bindings_updated_signal.subscribe(self, self._bindings_changed)

    def _bindings_changed(self, screen: Screen[object]) -> None:
        self.refresh()

    def items(self) -> list[KeyItem]:
        """The keys to show now."""
        typing = isinstance(self.screen.focused, Input)
        keys: dict[str, list[str]] = {}
        shown: dict[str, KeyItem] = {}
        for key, active in self.screen.active_bindings.items():
            binding, enabled = worded(active.node, active.binding), active.enabled
            keys.setdefault(binding.action, []).append(key)
            if binding.show and binding.description:
                shown.setdefault(
                    binding.action, KeyItem("", binding.description, binding.action, enabled)
                )
        items = []
        for action, item in shown.items():
            # Everywhere the same key leads back, whatever else does.
            back = action == "close" and "escape" in keys[action]
            chosen = "escape" if back else key_for(keys[action], typing=typing)
            if chosen is not None:
                items.append(KeyItem(chosen, item.label, action, item.enabled))
        first = [item for item in items if item.action not in _ALWAYS]
        last = [item for item in items if item.action in _ALWAYS]
        if len(first) + len(last) > LIMIT and any(item.action == "close" for item in last):
            last = [item for item in last if item.action != "quit"]
        return [*first[: LIMIT - len(last)], *last]

    def render(self) -> Content:
        """Draw the keys that fit, the palette's key at the right."""
        width = max(self.size.width, 1)
        palette = _draw(KeyItem(self.app.COMMAND_PALETTE_BINDING, "menu", _PALETTE))
        items = self.items()
        while items:
            line = Content("  ").join(_draw(item) for item in items)
            if line.cell_length + 2 + palette.cell_length <= width:
                break
            items = _without_least(items)
        else:
            line = Content("")
        gap = width - line.cell_length - palette.cell_length
        return line + " " * gap + palette if gap >= 0 else palette.truncate(width)

    async def on_click(self, event: events.Click) -> None:
        """Press the key that was clicked."""
        key = event.style.meta.get("key")
        if isinstance(key, str):
            event.stop()
            self.app.simulate_key(key)


def _draw(item: KeyItem) -> Content:
    key_style, label_style = (
        ("$primary bold", "") if item.enabled else ("$foreground 40%", "$foreground 40%")
    )
    drawn = Content.assemble((key_name(item.key), key_style), (f" {item.label}", label_style))
    return drawn.stylize(Style.from_meta({"key": item.key}))


def _without_least(items: list[KeyItem]) -> list[KeyItem]:
    """Leave out the last key that is not always shown."""
    for index in range(len(items) - 1, -1, -1):
        if items[index].action not in _ALWAYS:
            return items[:index] + items[index + 1 :]
    return items[1:]

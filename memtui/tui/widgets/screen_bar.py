"""The bar of the numbered screens, at the top of every full screen."""

from __future__ import annotations

from textual import events
from textual.content import Content
from textual.geometry import Size
from textual.style import Style
from textual.widget import Widget
from textual.widgets import Input

from memtui.settings.actions import ALL_ACTIONS
from memtui.tui import format as fmt
from memtui.tui.bindings import key_name, keys_of

_GO = "show_screen"
SCREENS = {
    action.run.removeprefix(f"{_GO}('").removesuffix("')"): action
    for action in ALL_ACTIONS
    if action.run.startswith(_GO)
}
"""The actions that lead to the numbered screens, by the ids of these, in order."""
_LEAST = (40, 16)
"""Columns and lines of a screen that has one to spare for the bar."""
_HINT = "alt+number while typing"


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
                .stylize(Style.from_meta({"screen": name}))
                for name, action in SCREENS.items()
            )
            for is_long in (True, False)
        )
        width = self.content_size.width
        line = drawn if drawn.cell_length <= width else short
        hint = _HINT if isinstance(self.screen.focused, Input) else ""
        room = width - line.cell_length - len(hint)
        return Content.assemble(line, (f"{' ' * room}{hint}", fmt.MUTED)) if room > 1 else line

    async def on_click(self, event: events.Click) -> None:
        if name := event.style.meta.get("screen"):
            event.stop()
            await self.run_action(f"app.{_GO}('{name}')")

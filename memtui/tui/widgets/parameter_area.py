"""A widget that draws parameters and lets the mouse change them."""

from __future__ import annotations

from textual import events
from textual.message import Message
from textual.widget import Widget


class ParameterArea(Widget):
    """Parameters are drawn in styles whose meta names them as `parameter`."""

    class Clicked(Message):
        """A parameter was clicked."""

        def __init__(self, parameter: str) -> None:
            super().__init__()
            self.parameter = parameter

    class Wheeled(Message):
        """The wheel was turned over a parameter; `steps` is 1 upwards, -1 downwards."""

        def __init__(self, parameter: str, steps: int) -> None:
            super().__init__()
            self.parameter = parameter
            self.steps = steps

    def on_click(self, event: events.Click) -> None:
        """Toggle or step what was clicked."""
        parameter = event.style.meta.get("parameter")
        if isinstance(parameter, str):
            self.post_message(self.Clicked(parameter))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Step the parameter under the pointer up."""
        self._wheel(event, 1)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Step the parameter under the pointer down."""
        self._wheel(event, -1)

    def _wheel(self, event: events.MouseEvent, steps: int) -> None:
        style = self.screen.get_style_at(event.screen_x, event.screen_y)
        parameter = style.meta.get("parameter")
        if isinstance(parameter, str):
            event.stop()
            self.post_message(self.Wheeled(parameter, steps))

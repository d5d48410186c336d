"""One line with every ranking parameter, what differs from the configuration, what a change did."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.content import Content
from textual.message import Message
from textual.style import Style
from textual.widget import Widget

from memtui.tui.parameters import Parameter

_SWITCHES = ("mmr", "decay")


class ParamStrip(Widget):
    """Pills for the switches and plain words for the rest; clicking and wheeling change them."""

    DEFAULT_CSS = """
    ParamStrip { height: 1; padding: 0 1 0 2; background: $background; color: $foreground; }
    """

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

    def __init__(self) -> None:
        super().__init__(id="param-strip")
        self._parameters: tuple[Parameter, ...] = ()
        self._note = ""

    def show(self, parameters: Sequence[Parameter], note: str = "") -> None:
        """Show these parameters and, at the right, a note about the last change."""
        self._parameters = tuple(parameters)
        self._note = note
        self.refresh()

    def render(self) -> Content:
        """Draw as many parameters as fit beside the note."""
        width = self.size.width
        note = Content.styled(self._note, "$primary bold")
        room = width - (note.cell_length + 2 if self._note else 0)
        line = Content("")
        for parameter in self._parameters:
            pill = draw_parameter(parameter)
            gap = "  " if line else ""
            if line.cell_length + len(gap) + pill.cell_length > room:
                break
            line = line + gap + pill
        if not self._note:
            return line
        padding = max(width - line.cell_length - note.cell_length, 2 if line else 0)
        return Content.assemble(line, " " * padding, note).truncate(max(width, 1), ellipsis=True)

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


def draw_parameter(parameter: Parameter) -> Content:
    """Write one parameter: a switch as a pill, the others as `name value (configured)`."""
    configured = f" ({parameter.configured})" if parameter.configured else ""
    if parameter.id in _SWITCHES:
        name, _, rest = parameter.label.partition(" ")
        if parameter.on:
            pill = Content.styled(
                f" {name} {rest} {parameter.value}{configured} ", "$text-success on $success-muted"
            )
        else:
            pill = Content.styled(f" {name} off{configured} ", "$foreground 60% on $foreground 8%")
    else:
        style = "$state-warn" if parameter.configured else "$foreground"
        pill = Content.assemble(
            ("" if parameter.id == "fusion" else f"{parameter.label} ", "$foreground 60%"),
            (parameter.value, style),
            (configured, "$foreground 60%"),
        )
    return pill.stylize(Style.from_meta({"parameter": parameter.id}))

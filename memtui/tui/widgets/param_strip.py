"""One line with every ranking parameter, what differs from the configuration, what a change did."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content
from textual.style import Style

from memtui.tui.parameters import Parameter
from memtui.tui.widgets.parameter_area import ParameterArea

_SWITCHES = ("mmr", "decay")


class ParamStrip(ParameterArea):
    """Pills for the switches and plain words for the rest; clicking and wheeling change them."""

    DEFAULT_CSS = """
    ParamStrip { height: 1; padding: 0 1 0 2; background: $background; color: $foreground; }
    """

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


def draw_parameter(parameter: Parameter) -> Content:
    """Write one parameter: a switch as a pill, the others as `name value (configured)`."""
    configured = f" ({parameter.configured})" if parameter.configured else ""
    if parameter.id == "mode":
        return Content.styled(f" {parameter.value} ", "$state-warn on $foreground 8%")
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

"""A widget that draws parameters and lets the mouse change them."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.content import Content
from textual.message import Message
from textual.style import Style
from textual.widget import Widget

from memtui.model import Ranking, SearchMode
from memtui.tui.glyphs import Glyphs
from memtui.tui.parameters import (
    HALF_LIVES,
    MAX_K,
    MODE_NAMES,
    WAS_OFF,
    WAS_ON,
    Parameter,
    changed_count,
    parameters,
)


class ParameterArea(Widget):
    """Parameters are drawn in styles whose meta names them as `parameter`."""

    class Turned(Message):
        """A parameter was clicked, or the wheel turned over it: `steps` is 1 upwards, -1 down."""

        def __init__(self, parameter: str, steps: int = 0) -> None:
            super().__init__()
            self.parameter = parameter
            self.steps = steps

    def on_click(self, event: events.Click) -> None:
        """Toggle or step what was clicked."""
        parameter = event.style.meta.get("parameter")
        if isinstance(parameter, str):
            self.post_message(self.Turned(parameter))

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
            self.post_message(self.Turned(parameter, steps))


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


_METER = 10
_COPY = "copy as agent configuration"


class ParamPanel(ParameterArea):
    """Every ranking parameter in a line of its own; the same clicks and wheel as the strip."""

    DEFAULT_CSS = """
    ParamPanel {
        height: auto;
        border: round $foreground 25%;
        border-title-color: $text-muted;
        padding: 0 1;
        color: $foreground;
        background: $background;
    }
    """

    def __init__(self, glyphs: Glyphs) -> None:
        super().__init__(id="parameters")
        self._glyphs = glyphs
        self._ranking = self._configured = Ranking()

    def on_mount(self) -> None:
        """Name the pane."""
        self.border_title = Content("Parameters")

    def show(
        self, ranking: Ranking, configured: Ranking, mode: SearchMode = SearchMode.HYBRID
    ) -> None:
        """Show a ranking beside the configured one; `mode`: the legs that could search."""
        alone = mode is not SearchMode.HYBRID
        told = f"{MODE_NAMES[mode]}: no MMR, no weights" if alone else ""
        self.border_subtitle = Content.styled(told, "$state-warn")
        self._ranking, self._configured = ranking, configured
        self.refresh()

    def render(self) -> Content:
        """One line a parameter."""
        ranking = self._ranking
        named = {item.id: item for item in parameters(ranking, self._configured)}
        changed = changed_count(ranking, self._configured)
        half_life = ranking.decay.half_life_days
        reset = f"reset to config ({changed} changed)" if changed else "as configured"
        lines = [
            self._switch("m  ", named["mmr"], "MMR"),
            self._line("[ ]", named["mmr"], "λ relevance↔variety", ranking.mmr.lambda_),
            self._switch("d  ", named["decay"], "temporal decay"),
            self._line("{ }", named["decay"], "half-life", _place(half_life)),
            self._line("< >", named["vector"], "vector weight", ranking.vector_weight),
            self._line("   ", named["keyword"], "keyword weight", ranking.keyword_weight),
            self._line("- +", named["k"], "results k", ranking.k / MAX_K),
            self._line("F  ", named["fusion"], "fusion", None),
            self._line("   ", named["min_score"], "min score", None),
            Content.assemble(("0  ", "$primary bold"), "  ", (reset, "$foreground 60%")),
            Content.assemble(("C  ", "$primary bold"), "  ", (_COPY, "$foreground 60%")),
        ]
        width = max(self.content_size.width, 1)
        return Content("\n").join(line.truncate(width, ellipsis=True) for line in lines)

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        """Eleven lines, whatever the width."""
        return 11

    def _switch(self, key: str, parameter: Parameter, name: str) -> Content:
        word, style = ("on", "$state-ok bold") if parameter.on else ("off", "$foreground 60%")
        was = f" ({parameter.configured})" if parameter.configured in (WAS_ON, WAS_OFF) else ""
        line = Content.assemble(
            (key, "$primary bold"), "  ", f"{name:<20}", (word, style), (was, "$foreground 60%")
        )
        return line.stylize(Style.from_meta({"parameter": parameter.id}))

    def _line(self, key: str, parameter: Parameter, name: str, share: float | None) -> Content:
        changed = parameter.configured not in ("", WAS_ON, WAS_OFF)
        pieces: list[str | tuple[str, str]] = [
            (key, "$primary bold"),
            "  ",
            f"{name:<20}",
            (f"{parameter.value:<6}", "$state-warn" if changed else "bold"),
        ]
        if share is not None:
            full = round(min(max(share, 0.0), 1.0) * _METER)
            pieces += [
                (self._glyphs.meter_full * full, "$primary"),
                (self._glyphs.meter_empty * (_METER - full), "$foreground 30%"),
            ]
        if changed:
            pieces.append((f" ({parameter.configured})", "$foreground 60%"))
        return Content.assemble(*pieces).stylize(Style.from_meta({"parameter": parameter.id}))


def _place(half_life: float) -> float:
    """Where a half-life stands among the steps, 0 to 1."""
    below = sum(days < half_life for days in HALF_LIVES)
    return below / (len(HALF_LIVES) - 1)

"""The parameters of a ranking: in words, as a strip and as a panel; the mouse changes them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass

from msgspec import Struct
from msgspec.structs import replace
from textual import events, on
from textual.content import Content
from textual.message import Message
from textual.style import Style
from textual.widget import Widget

from memtui.model import Fusion, Ranking, SearchMode, Stage
from memtui.ranking.pipeline import for_mode
from memtui.ranking.trace import Difference
from memtui.report.words import FUSION_WORDS
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.glyphs import Glyphs
from memtui.tui.widgets.lists import TextBlock

HALF_LIVES: tuple[float, ...] = (7, 14, 30, 60, 90, 180, 365)
WAS_ON, WAS_OFF = "was on", "was off"
MAX_K = 50
FUSION_NAMES: Mapping[str, str] = {**FUSION_WORDS, Fusion.RRF: "RRF"}
MODE_NAMES: Mapping[SearchMode, str] = {
    SearchMode.HYBRID: "both legs",
    SearchMode.KEYWORD_ONLY: "keyword only",
    SearchMode.VECTOR_ONLY: "vector only",
}


class Parameter(Struct, frozen=True):
    """One parameter as the interface names it."""

    id: str
    label: str
    value: str
    on: bool | None = None
    """True if a stage is on; `None` for a parameter that is not a switch."""
    share: float | None = None
    """The filled part of the meter of a number that has one."""
    configured: str = ""
    """The configured value, empty when nothing changed."""


def parameters(ranking: Ranking, configured: Ranking) -> list[Parameter]:
    """Name every parameter with its value and, when different, the configured one."""
    named = _values(ranking)
    for at, (now, was) in enumerate(zip(named, _values(configured), strict=True)):
        if now.on != was.on:
            named[at] = replace(now, configured=WAS_ON if was.on else WAS_OFF)
        elif now.value != was.value:
            named[at] = replace(now, configured=was.value)
    return named


def describe_change(before: Ranking, after: Ranking) -> str:
    """Say what changed between two rankings, as `λ 0.70→0.65`; another profile by its name."""
    if before.profile != after.profile:
        return f"profile {safe_line(after.profile)}"
    changes = []
    for was, now in zip(_values(before), _values(after), strict=True):
        stage, name = {"mmr": ("MMR", "λ"), "decay": ("decay", "half-life")}.get(
            now.id, ("", now.label)
        )
        if was.on != now.on:
            changes.append(f"{stage} {'on' if now.on else 'off'}")
        if was.value != now.value:
            changes.append(f"{name} {was.value}→{now.value}")
    return ", ".join(changes) or "parameters changed"


def _values(ranking: Ranking) -> list[Parameter]:
    mmr, decay = ranking.mmr, ranking.decay
    vector, keyword = ranking.vector_weight, ranking.keyword_weight
    half_life = f"{decay.half_life_days:g}d" + (f" ≥{decay.floor:g}" if decay.floor else "")
    shorter = bisect_left(HALF_LIVES, decay.half_life_days)
    minimum = "off" if ranking.min_score is None else f"{ranking.min_score:.2f}"
    return [
        Parameter("mmr", "MMR λ", f"{mmr.lambda_:.2f}", mmr.enabled, mmr.lambda_),
        Parameter("decay", "decay t½", half_life, decay.enabled, shorter / (len(HALF_LIVES) - 1)),
        Parameter("vector", "vector", f"{vector:.2f}", share=vector),
        Parameter("keyword", "keyword", f"{keyword:.2f}", share=keyword),
        Parameter("k", "k", f"{ranking.k}×{ranking.candidate_multiplier}", share=ranking.k / MAX_K),
        Parameter("min_score", "min", minimum),
        Parameter("fusion", "fusion", FUSION_NAMES[ranking.fusion]),
        Parameter("profile", "profile", safe_line(ranking.profile)),
    ]


def effect(moves: Difference) -> str:
    """Say what a change did to the list, as `2 moved, 1 in, 1 out`; empty: nothing."""
    counts = ((moves.moved, "moved"), (moves.entered, "in"), (moves.left, "out"))
    return ", ".join(f"{len(chunks)} {word}" for chunks, word in counts if chunks)


_DIM = "$foreground 60%"
_METER = 10
_PANEL: tuple[tuple[str, str, str], ...] = (
    ("m  ", "mmr", "MMR"),
    ("[ ]", "mmr", "λ relevance↔variety"),
    ("d  ", "decay", "temporal decay"),
    ("{ }", "decay", "half-life"),
    ("< >", "vector", "vector weight"),
    ("   ", "keyword", "keyword weight"),
    ("- +", "k", "results k"),
    ("F  ", "fusion", "fusion"),
    ("   ", "min_score", "min score"),
)
"""The lines of the panel: keys, parameter, and its name; a letter and a name switch a stage."""


class ParameterPane(Widget):
    """Shows parameters in styles whose meta names them as `parameter`, for the mouse."""

    @dataclass
    class Turned(Message):
        """A parameter was clicked, or the wheel turned over it: `steps` is 1 upwards, -1 down."""

        parameter: str
        steps: int = 0

    @on(events.Click)
    @on(events.MouseScrollUp)
    @on(events.MouseScrollDown)
    def turn(self, event: events.MouseEvent) -> None:
        if parameter := event.style.meta.get("parameter"):
            event.stop()
            is_wheel = isinstance(event, (events.MouseScrollUp, events.MouseScrollDown))
            up = 1 if isinstance(event, events.MouseScrollUp) else -1
            self.post_message(self.Turned(parameter, up if is_wheel else 0))


class ParamStrip(ParameterPane, TextBlock):
    """Pills for the switches and plain words for the rest, at the right the note.

    Where one leg searches alone, it comes first, and what then does nothing is left out.
    """

    def show_ranking(
        self, ranking: Ranking, configured: Ranking, mode: SearchMode, note: str
    ) -> None:
        """Show a ranking beside the configured one, and a note about the last change.

        `mode`: the legs that could search.
        """
        named, first = parameters(ranking, configured), Content("")
        if mode is not SearchMode.HYBRID:
            stages = for_mode(ranking, mode).stages
            idle = {stage.value for stage in (Stage.MMR, Stage.DECAY) if stage not in stages}
            idle |= {"vector", "keyword", "fusion"}
            named = [one for one in named if one.id not in idle]
            first = Content.styled(f" {MODE_NAMES[mode]} ", "$state-warn on $foreground 8%")
        end = Content.styled(note, "$primary bold")

        def draw(width: int) -> list[Content]:
            line = first
            for parameter in named:
                longer = Content.assemble(line, "  " if line else "", _pill(parameter))
                if longer.cell_length > width - (end.cell_length + 2 if note else 0):
                    break
                line = longer
            padding = max(width - line.cell_length - end.cell_length, 2 if line else 0)
            return [fmt.fit(Content.assemble(line, " " * padding if note else "", end), width)]

        self.show(draw)


def _pill(parameter: Parameter) -> Content:
    """Write one parameter: a switch as a pill, the others as `name value (configured)`."""
    configured = f" ({parameter.configured})" if parameter.configured else ""
    if parameter.on is None:
        style = "$state-warn" if parameter.configured else "$foreground"
        name = "" if parameter.id == "fusion" else f"{parameter.label} "
        pill = Content.assemble((name, _DIM), (parameter.value, style), (configured, _DIM))
    elif parameter.on:
        text = f" {parameter.label} {parameter.value}{configured} "
        pill = Content.styled(text, "$text-success on $success-muted")
    else:
        name = parameter.label.partition(" ")[0]
        pill = Content.styled(f" {name} off{configured} ", f"{_DIM} on $foreground 8%")
    return pill.stylize(Style.from_meta({"parameter": parameter.id}))


class ParamPanel(ParameterPane, TextBlock):
    """A parameter on each line, with its keys, its value and the configured one."""

    BORDER_TITLE = "Parameters"

    def __init__(self, glyphs: Glyphs, *, id: str) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._glyphs = glyphs

    def show_ranking(self, ranking: Ranking, configured: Ranking, mode: SearchMode) -> None:
        """Show a ranking beside the configured one, then what resets and what copies it."""
        alone = mode is not SearchMode.HYBRID
        aside = f"{MODE_NAMES[mode]}: no MMR, no weights" if alone else ""
        self.border_subtitle = Content.styled(aside, "$state-warn")
        named = {item.id: item for item in parameters(ranking, configured)}
        lines = []
        for keys, name, title in _PANEL:
            parameter = named[name]
            line = Content.assemble((keys, "$primary bold"), "  ", f"{title:<20}")
            is_switch, was_switched = keys[0] in "md", parameter.configured in (WAS_ON, WAS_OFF)
            is_changed = bool(parameter.configured) and is_switch == was_switched
            if is_switch:
                word, style = ("on", "$state-ok bold") if parameter.on else ("off", _DIM)
                line += Content.styled(word, style)
            else:
                style = "$state-warn" if is_changed else "bold"
                line += Content.styled(f"{parameter.value:<6}", style)
                if parameter.share is not None:
                    full = round(min(parameter.share, 1.0) * _METER)
                    line += Content.styled(self._glyphs.meter_full * full, "$primary")
                    empty = self._glyphs.meter_empty * (_METER - full)
                    line += Content.styled(empty, "$foreground 30%")
            if is_changed:
                line += Content.styled(f" ({parameter.configured})", _DIM)
            lines.append(line.stylize(Style.from_meta({"parameter": parameter.id})))
        changed = sum(bool(item.configured) for item in named.values())
        reset = f"reset to config ({changed} changed)" if changed else "as configured"
        for key, text in (("0", reset), ("C", "copy as agent configuration")):
            lines.append(Content.assemble((f"{key}  ", "$primary bold"), "  ", (text, _DIM)))
        self.show(lambda width: [fmt.fit(line, width) for line in lines])

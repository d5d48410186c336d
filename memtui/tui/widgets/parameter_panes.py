"""The parameters of a ranking: in words, as a strip and as a panel; the mouse changes them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping

from msgspec.structs import replace
from textual import events, on
from textual.content import Content
from textual.style import Style
from textual.widget import Widget

from memtui.model import Fusion, Ranking, SearchMode, Stage
from memtui.ranking.pipeline import Difference, for_mode
from memtui.report.words import FUSION_WORDS, PANEL_WORDS
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.bindings import next_of
from memtui.tui.glyphs import Glyphs
from memtui.tui.widgets.lists import TextBlock

HALF_LIVES: tuple[float, ...] = (7, 14, 30, 60, 90, 180, 365)
MAX_K = 50
STEP = 0.05
"""Of λ and of the weights."""
FUSION_NAMES: Mapping[str, str] = {**FUSION_WORDS, Fusion.RRF: "RRF"}
SWITCHES: Mapping[str, tuple[str, str]] = {"MMR": ("λ", "λ"), "decay": ("half-life", "t½")}
"""The number of each stage that can be switched, and its sign in the strip."""


def stepped(ranking: Ranking, parameter: str, steps: int) -> Ranking:
    """Return a ranking with one parameter changed.

    `MMR` and `decay` are turned on or off, and `fusion` has its next method. The others are moved
    by so many steps, as far as they go: `λ`, `vector` and `keyword` (the weight of a leg; the
    other one has the rest) from 0 to 1 by 0.05, `k` from 1 to 50, and `half-life` along 7, 14, 30,
    60, 90, 180, 365 days. Every other parameter stays.
    """

    def moved(value: float, steps: int) -> float:
        return min(max(round(value + steps * STEP, 2), 0.0), 1.0)

    mmr, decay = ranking.mmr, ranking.decay
    match parameter:
        case "MMR":
            return replace(ranking, mmr=replace(mmr, enabled=not mmr.enabled))
        case "decay":
            return replace(ranking, decay=replace(decay, enabled=not decay.enabled))
        case "fusion":
            return replace(ranking, fusion=next_of(Fusion, ranking.fusion))
        case "λ":
            return replace(ranking, mmr=replace(mmr, lambda_=moved(mmr.lambda_, steps)))
        case "half-life":
            days = decay.half_life_days
            at = bisect_right(HALF_LIVES, days) if steps > 0 else bisect_left(HALF_LIVES, days) - 1
            days = HALF_LIVES[min(max(at, 0), len(HALF_LIVES) - 1)]
            return replace(ranking, decay=replace(decay, half_life_days=days))
        case "vector" | "keyword":
            vector = moved(ranking.vector_weight, -steps if parameter == "keyword" else steps)
            return replace(ranking, vector_weight=vector, keyword_weight=round(1 - vector, 2))
        case "k":
            return replace(ranking, k=min(max(ranking.k + steps, 1), MAX_K))
    return ranking


def values(ranking: Ranking) -> dict[str, str]:
    """Return every parameter as text, by the name that notes and keys have for it."""
    mmr, decay, minimum = ranking.mmr, ranking.decay, ranking.min_score
    floor = f" ≥{decay.floor:g}" if decay.floor else ""
    return {
        "MMR": "on" if mmr.enabled else "off",
        "λ": f"{mmr.lambda_:.2f}",
        "decay": "on" if decay.enabled else "off",
        "half-life": f"{decay.half_life_days:g}d{floor}",
        "vector": f"{ranking.vector_weight:.2f}",
        "keyword": f"{ranking.keyword_weight:.2f}",
        "k": f"{ranking.k}×{ranking.candidate_multiplier}",
        "min": "off" if minimum is None else f"{minimum:.2f}",
        "fusion": FUSION_NAMES[ranking.fusion],
        "profile": safe_line(ranking.profile),
    }


def describe_change(before: Ranking, after: Ranking) -> str:
    """Say what changed between two rankings, as `λ 0.70→0.65`; another profile by its name."""
    if before.profile != after.profile:
        return f"profile {safe_line(after.profile)}"
    was, now = values(before), values(after)
    changes = [
        f"{name} {now[name]}" if name in SWITCHES else f"{name} {was[name]}→{now[name]}"
        for name in now
        if now[name] != was[name]
    ]
    return ", ".join(changes) or "parameters changed"


def effect(moves: Difference) -> str:
    """Say what a change did to the list, as `2 moved, 1 in, 1 out`; empty: nothing."""
    counts = ((moves.moved, "moved"), (moves.entered, "in"), (moves.left, "out"))
    return ", ".join(f"{len(chunks)} {word}" for chunks, word in counts if chunks)


_METER = 10


class ParameterPane(Widget):
    """Shows parameters in styles whose meta names them as `parameter`, for the mouse.

    A click goes to the next value of a switch. The wheel, which scrolls everywhere else, changes
    nothing.
    """

    @on(events.Click)
    async def turn(self, event: events.Click) -> None:
        if (name := event.style.meta.get("parameter")) in (*SWITCHES, "fusion"):
            event.stop()
            await self.run_action(f"screen.part('rankings', 'step', ('{name}', 0))")


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
        now, was = values(ranking), values(configured)
        idle, first = {number for number, _ in SWITCHES.values()}, Content("")
        if mode is not SearchMode.HYBRID:
            stages = for_mode(ranking, mode).stages
            switches = {"MMR": Stage.MMR, "decay": Stage.DECAY}
            idle |= {name for name, stage in switches.items() if stage not in stages}
            idle |= {"vector", "keyword", "fusion"}
            first = Content.styled(f" {mode.replace('_', ' ')} ", "$state-warn on $foreground 8%")
        pills = [_pill(name, now, was) for name in now if name not in idle]
        end = Content.styled(note, "$primary bold")

        def draw(width: int) -> list[Content]:
            line = first
            for pill in pills:
                longer = Content.assemble(line, "  " if line else "", pill)
                if longer.cell_length > width - (end.cell_length + 2 if note else 0):
                    break
                line = longer
            padding = max(width - line.cell_length - end.cell_length, 2 if line else 0)
            return [fmt.fit(Content.assemble(line, " " * padding if note else "", end), width)]

        self.show(draw)


def _pill(name: str, now: Mapping[str, str], was: Mapping[str, str]) -> Content:
    """Write one parameter: a switch with its number as a pill, the others as `name value`.

    The configured value follows where it differs.
    """
    number, sign = SWITCHES.get(name, (name, ""))
    configured = f" ({was[number]})" if now[number] != was[number] else ""
    if sign and now[name] != was[name]:
        configured = f" (was {was[name]})"
    if not sign:
        style = "$state-warn" if configured else "$foreground"
        label = "" if name == "fusion" else f"{name} "
        pill = Content.assemble((label, fmt.DIM), (now[name], style), (configured, fmt.DIM))
    elif now[name] == "on":
        text = f" {name} {sign} {now[number]}{configured} "
        pill = Content.styled(text, "$text-success on $success-muted")
    else:
        pill = Content.styled(f" {name} off{configured} ", f"{fmt.DIM} on $foreground 8%")
    return pill.stylize(Style.from_meta({"parameter": name}))


class ParamPanel(ParameterPane, TextBlock):
    """A parameter on each line, with its keys, its value and the configured one."""

    BORDER_TITLE = "Parameters"

    def __init__(self, glyphs: Glyphs, *, id: str) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._glyphs = glyphs

    def show_ranking(self, ranking: Ranking, configured: Ranking, mode: SearchMode) -> None:
        """Show a ranking beside the configured one, then what resets it."""
        alone = mode is not SearchMode.HYBRID
        aside = f"{mode.replace('_', ' ')}: no MMR, no weights" if alone else ""
        self.border_subtitle = Content.styled(aside, "$state-warn")
        now, was = values(ranking), values(configured)
        at_least = sum(days < ranking.decay.half_life_days for days in HALF_LIVES)
        shares = {
            "λ": ranking.mmr.lambda_,
            "half-life": at_least / (len(HALF_LIVES) - 1),
            "vector": ranking.vector_weight,
            "keyword": ranking.keyword_weight,
            "k": ranking.k / MAX_K,
        }
        lines = []
        for name, (keys, title) in PANEL_WORDS.items():
            line = Content.assemble((keys, "$primary bold"), "  ", f"{title:<20}")
            if name in SWITCHES:
                style = "$state-ok bold" if now[name] == "on" else fmt.DIM
                line += Content.styled(now[name], style)
            else:
                style = "$state-warn" if now[name] != was[name] else "bold"
                line += Content.styled(f"{now[name]:<6}", style)
            if name in shares:
                full = round(min(shares[name], 1.0) * _METER)
                line += Content.styled(self._glyphs.meter_full * full, "$primary")
                empty = self._glyphs.meter_empty * (_METER - full)
                line += Content.styled(empty, "$foreground 30%")
            if now[name] != was[name]:
                before = f"was {was[name]}" if name in SWITCHES else was[name]
                line += Content.styled(f" ({before})", fmt.DIM)
            # A click on the number of a stage switches that.
            switch = next((one for one, (number, _) in SWITCHES.items() if number == name), name)
            lines.append(line.stylize(Style.from_meta({"parameter": switch})))
        changed = sum(now[name] != was[name] for name in now)
        reset = f"reset to config ({changed} changed)" if changed else "as configured"
        lines.append(Content.assemble(("0  ", "$primary bold"), "  ", (reset, fmt.DIM)))
        self.show(lambda width: [fmt.fit(line, width) for line in lines])

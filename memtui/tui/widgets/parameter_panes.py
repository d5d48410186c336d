"""The parameters of a ranking: in words, as a strip and as a panel; the mouse changes them."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping
from functools import partial
from itertools import product

from msgspec.structs import replace
from textual import events, on
from textual.containers import Vertical
from textual.content import Content
from textual.getters import query_one
from textual.message import Message

from memtui.model import FEATURES, HIGHEST_MINIMUM, Evidence, Fusion, Ranking, SearchMode, Stage
from memtui.ranking.context import with_weights
from memtui.ranking.counterfactual.change import Parameter, apply, value_of
from memtui.ranking.pipeline import Difference, for_mode, runs
from memtui.report import words
from memtui.settings.schema import base_of, key_abouts
from memtui.text.sanitize import safe_line
from memtui.tui import fmt, glyphs
from memtui.tui.bindings import bindings, next_of
from memtui.tui.widgets.bars import draw_action, run_on_click
from memtui.tui.widgets.lists import Row, RowList, TextBlock

HALF_LIVES: tuple[float, ...] = (7, 14, 30, 60, 90, 180, 365)
MAX_K = 50
STEP = 0.05
"""Of λ and of the weights."""
SWITCHES: Mapping[str, str] = {"MMR": "λ", "decay": "half-life", "context": ""}
"""Each stage that can be switched, and its number in the strip, where it has one."""
WEIGHTS: Mapping[str, str] = {words.FEATURE_WORDS[name]: name for name in FEATURES}
"""The features of passages whose weights can be changed, by their names in words."""
STAGES: Mapping[str, Stage] = {
    **dict.fromkeys(("MMR", "λ"), Stage.MMR),
    **dict.fromkeys(("decay", "half-life", "floor"), Stage.DECAY),
    **dict.fromkeys(("context", *WEIGHTS), Stage.CONTEXT),
    "minimum": Stage.MIN_SCORE,
}
"""The stage of each parameter that profiles may be without."""
OF_BOTH = {"meaning", "keyword", "fusion"}
_ASIDES = ("floor", *WEIGHTS)
_WITH_ROWS = {*STAGES.values(), Stage.FUSION, Stage.CUT}
WEIGHT_STEP, MAX_WEIGHT = 0.25, 20


def stepped(
    ranking: Ranking, parameter: str, steps: int, evidence: Evidence = Evidence.WORDS
) -> Ranking:
    """Return a ranking with one parameter changed, as far as it goes; every other one stays.

    `MMR`, `decay` and `context` are turned on or off, and `fusion` has its next method. `λ`,
    `floor`, `meaning` and `keyword` (the weight of a leg; the other one has the rest) go from 0 to
    1 by 0.05, `minimum` too, in context by 0.25 as far as scores go, with off below the first step,
    `results` from 1 to 50, `half-life` along `HALF_LIVES`, and the weight of a feature from -20 to
    20 by 0.25, from its constant for the `evidence`.
    """

    def moved(value: float, steps: int) -> float:
        return min(max(round(value + steps * STEP, 2), 0.0), 1.0)

    if parameter in SWITCHES:
        switch = Parameter(words.PANEL_WORDS[parameter][0])
        return apply(ranking, switch, not value_of(ranking, switch))
    match parameter:
        case "fusion":
            return replace(ranking, fusion=next_of(Fusion, ranking.fusion, steps or 1))
        case "λ":
            return apply(ranking, Parameter.LAMBDA, moved(ranking.mmr.lambda_, steps))
        case "floor":
            return apply(ranking, Parameter.FLOOR, moved(ranking.decay.floor, steps))
        case "half-life":
            days = ranking.decay.half_life_days
            at = bisect_right(HALF_LIVES, days) if steps > 0 else bisect_left(HALF_LIVES, days) - 1
            days = HALF_LIVES[min(max(at, 0), len(HALF_LIVES) - 1)]
            return apply(ranking, Parameter.HALF_LIFE, days)
        case "meaning" | "keyword":
            vector = moved(ranking.vector_weight, -steps if parameter == "keyword" else steps)
            return replace(ranking, vector_weight=vector, keyword_weight=round(1 - vector, 2))
        case "minimum":
            is_wide = runs(ranking, Stage.CONTEXT)
            step, most = (WEIGHT_STEP, HIGHEST_MINIMUM) if is_wide else (STEP, 1.0)
            least = round((ranking.min_score or 0.0) + steps * step, 2)
            return replace(ranking, min_score=min(max(least, 0.0), most) or None)
        case "results":
            return replace(ranking, k=min(max(ranking.k + steps, 1), MAX_K))
        case name if name in WEIGHTS:
            feature = WEIGHTS[name]
            unset = replace(ranking, context=replace(ranking.context, **{feature: None}))
            constant, weight = (
                getattr(with_weights(one, evidence).context, feature) for one in (unset, ranking)
            )
            weight = min(max(weight + steps * WEIGHT_STEP, -MAX_WEIGHT), MAX_WEIGHT)
            chosen = {feature: None if weight == constant else weight}
            return replace(ranking, context=replace(ranking.context, **chosen))
    return ranking


def idle_words(ranking: Ranking, parameter: str) -> str:
    """Say that a profile goes without the stage of a parameter; else empty."""
    stage = STAGES.get(parameter, Stage.FUSION)
    without = f"{safe_line(ranking.profile)} ranks without {words.step_name(stage)}"
    return without if stage not in ranking.stages else ""


def values(ranking: Ranking) -> dict[str, str]:
    """Return parameters as text, by their names; what has no stage in the profile is off."""
    return {
        **{name: "on" if runs(ranking, STAGES[name]) else "off" for name in SWITCHES},
        "λ": words.exact(ranking.mmr.lambda_),
        "half-life": f"{ranking.decay.half_life_days:g} d",
        "floor": words.exact(ranking.decay.floor),
        "meaning": words.exact(ranking.vector_weight),
        "keyword": words.exact(ranking.keyword_weight),
        "results": str(ranking.k),
        "minimum": words.exact(ranking.min_score or 0) if runs(ranking, Stage.MIN_SCORE) else "off",
        "fusion": words.WORDS["fusion_in_strip"][ranking.fusion],
        "profile": safe_line(ranking.profile),
        **{
            feature: "auto" if weight is None else words.exact(weight)
            for feature, name in WEIGHTS.items()
            for weight in (getattr(ranking.context, name),)
        },
    }


def describe_change(before: Ranking, after: Ranking) -> str:
    """Say what changed between two rankings, as `λ 0.70→0.65`; another profile by its name."""
    if before.profile != after.profile:
        return f"profile {safe_line(after.profile)}"
    return changed_values(before, after) or "parameters changed"


def changed_values(before: Ranking, after: Ranking) -> str:
    """Say which parameters differ, but for the name of the profile; empty where none does."""
    was, now = values(before), values(after)
    return ", ".join(
        f"{name} {now[name]}" if name in SWITCHES else f"{name} {was[name]}→{now[name]}"
        for name in changed_names(before, after)
        if name != "profile"
    )


def changed_names(before: Ranking, after: Ranking) -> list[str]:
    """Return the parameters that differ, without numbers that the profile does not use."""
    was, now = values(before), values(after)
    used = [name for name in now if now[name] == "off" or not idle_words(after, name)]
    return [name for name in used if now[name] != was[name]]


def effect(moves: Difference) -> str:
    """Say what a change did to the list, as `2 moved, 1 in, 1 out`, or `nothing moved`."""
    counts = ((moves.moved, "moved"), (moves.entered, "in"), (moves.left, "out"))
    effects = (f"{len(chunks)} {word}" for chunks, word in counts if chunks)
    return ", ".join(effects) or "nothing moved"


_METER, _METER_AT = 10, 34
_WEIGHT_TITLE = max(map(len, WEIGHTS)) + 4


class ParamStrip(TextBlock):
    """Pills for the switches and plain words for the rest, at the right the note.

    Where one leg searches alone, it comes first, and what then does nothing is left out. What has
    no room is counted, what was not changed first; the switches stay, and of the note what it says
    of the list. A click on a switch turns it on or off; the wheel changes nothing.
    """

    def show_ranking(
        self, ranking: Ranking, configured: Ranking, mode: SearchMode, note: str
    ) -> None:
        """Show a ranking beside the configured one, and a note about the last change.

        `mode`: the legs that could search.
        """
        now, was = values(ranking), values(configured)
        unused = filter(partial(idle_words, for_mode(ranking, mode)), now)
        idle = {*SWITCHES.values(), *unused}
        # A weight and the floor only where they are changed, and count.
        idle |= {one for one in _ASIDES if now[one] == was[one] or not runs(ranking, STAGES[one])}
        first = Content("")
        if mode is not SearchMode.HYBRID:
            idle |= OF_BOTH
            alone = f" {words.WORDS['mode'][mode]} "
            first = Content.styled(alone, "$state-warn on $foreground 8%")
        names = [name for name in now if name not in idle]
        pills = {name: _pill(name, now, was) for name in names}
        short = {name: _pill(name, now, was, aside=False) for name in names}
        # What was not changed is left out first, the last one before the others, and last of all
        # another profile, which says most, unless the note does.
        changed = [name for name in names if pills[name].plain != short[name].plain]
        changed.sort(key=lambda name: (name == "profile") == note.startswith("profile"))
        same = [name for name in names[::-1] if name not in (*changed, *SWITCHES)]
        leaving = same + [name for name in changed[::-1] if name not in SWITCHES]
        brief = {name: _pill(name, now, was, aside=False, numbered=False) for name in names}

        def line_of(pills: Mapping[str, Content], left_out: int) -> Content:
            parts = [first] if first.plain else []
            parts += [pills[name] for name in names if name not in leaving[:left_out]]
            if left_out:
                more = Content.styled(f"{left_out} more: press", fmt.DIM)
                parts.append(more + " " + draw_action(self, "parameters.toggle"))
            return Content("  ").join(parts)

        def draw(width: int) -> list[Content]:
            lines = [line_of(pills, 0), *(line_of(short, count) for count in range(len(same) + 1))]
            lines += [line_of(brief, count) for count in range(len(same), len(leaving) + 1)]
            lines.append(Content("  ").join(brief[name] for name in names if name in SWITCHES))
            *begun, effect = note.split(": ")
            effect = ": ".join([*begun[:-1], effect])
            # The new values alone, without that of the keyword weight, which follows the other.
            named = re.sub(r", keyword \S+→[^,: ]+|(?<= )\S+→", "", note)
            # In a terminal of 40 columns the note takes the place of the switches while it is told.
            for text, line in (*product((note, named, effect), lines), (note, first)):
                end = Content.styled(text, "$primary bold")
                padding = width - line.cell_length - end.cell_length
                if padding >= 2 * bool(note):
                    break
            return [fmt.fit(Content.assemble(line, " " * max(padding, 2 * bool(note)), end), width)]

        self.show(draw)


def _pill(
    name: str,
    now: Mapping[str, str],
    was: Mapping[str, str],
    *,
    aside: bool = True,
    numbered: bool = True,
) -> Content:
    """Write one parameter: a switch with its number as a pill, the others as `name value`.

    As an `aside` the configured value follows where it differs.
    """
    number = SWITCHES.get(name, "") if numbered else ""
    configured = f" ({was[number]})" if number and now[number] != was[number] else ""
    if now[name] != was[name]:
        configured = f" (was {was[name]})" if name in SWITCHES else f" ({was[name]})"
    style, configured = "$state-warn" if configured else "$foreground", configured * aside
    if name not in SWITCHES:
        pill = Content.assemble((f"{name} ", fmt.DIM), (now[name], style), (configured, fmt.DIM))
    elif now[name] == "on":
        value = f"{number} {now[number]}" if number else "on"
        pill = Content.styled(f" {name} {value}{configured} ", "$state-ok on $state-ok 25%")
    else:
        pill = Content.styled(f" {name} off{configured} ", f"{fmt.DIM} on $foreground 8%")
    turn = run_on_click(f"screen.part('rankings', 'step', ('{name}', 0))")
    return pill.stylize(turn) if name in (*SWITCHES, "fusion") else pill


class ParamPanel(Vertical):
    """A parameter in each row, with its keys, its value and the configured one.

    The chosen one is changed by the arrows, and by Enter where it has no smaller and larger.
    """

    BINDINGS = bindings("parameter_panel")
    rows = query_one(RowList)

    def __init__(self) -> None:
        super().__init__(RowList(id="parameter-list", opens="change"), id="parameters")

    def show_ranking(
        self,
        ranking: Ranking,
        configured: Ranking,
        mode: SearchMode,
        evidence: Evidence,
        features: Mapping[str, float],
        without: Callable[[str], str],
    ) -> None:
        """Show a ranking beside the configured one, both with their weights for the `evidence`.

        `features` are those of the marked result, and `without` tells its place without one.
        """
        alone = Content.styled(f"{words.WORDS['mode'][mode]}: no MMR, no weights", "$state-warn")
        depth = Content.styled(f"  the first {ranking.candidates} of each match", fmt.DIM)
        self.rows.border_title = draw_action(self, "parameters.toggle", "Parameters") + depth
        self.rows.border_subtitle = "" if mode is SearchMode.HYBRID else alone
        chosen = self.rows.chosen_id
        now, was = values(ranking), values(configured)
        names, weights = [*words.PANEL_WORDS], dict[str, float]()
        if runs(ranking, Stage.CONTEXT):
            weights = {one: getattr(ranking.context, name) for one, name in WEIGHTS.items()}
            at = names.index("context") + 1
            names[at:at] = sorted(
                weights, key=lambda one: not (weights[one] or features.get(WEIGHTS[one]))
            )
        changed = changed_names(configured, ranking)
        used = [name for name in names if not idle_words(ranking, name)]
        names = [*used, *(name for name in names if name not in used)]
        stages = [stage for stage in for_mode(ranking, mode).stages if runs(ranking, stage)]
        others = ", ".join(words.step_name(stage) for stage in stages if stage not in _WITH_ROWS)
        base = ranking.profile if ranking.profile in words.PROFILE_WORDS else base_of(ranking)
        at_least = sum(days < ranking.decay.half_life_days for days in HALF_LIVES)
        shares = {
            "λ": ranking.mmr.lambda_,
            "half-life": at_least / (len(HALF_LIVES) - 1),
            "floor": ranking.decay.floor,
            "meaning": ranking.vector_weight,
            "keyword": ranking.keyword_weight,
            "results": ranking.k / MAX_K,
        }

        keys_by_name = {
            name: Content(" ").join(draw_action(self, one) for one in actions)
            for name, (_, *actions) in words.PANEL_WORDS.items()
        }
        longest = max(keys.cell_length for keys in keys_by_name.values())

        def draw(name: str, width: int) -> Content:
            keys = fmt.fit(keys_by_name.get(name, Content("")), longest, pad=True)
            if name == "reset":
                count = sum(one in changed for one in names)
                title = f"reset to config ({count} changed)" if count else "as configured"
                return Content.assemble(keys, "  ", (title, fmt.DIM))
            stage = STAGES.get(name, Stage.FUSION)
            is_changed, is_on = name in changed, runs(ranking, stage)
            style = "$state-warn" if is_changed else "bold" if is_on else fmt.DIM
            line = Content(f"   {name} ".ljust(min(_WEIGHT_TITLE, width - 5)))
            if name not in weights:
                line = keys + f"  {words.PARAMETER_WORDS[words.PANEL_WORDS[name][0]]:<20}"
            before, end = f" (was {was[name]})" if is_changed else "", line.cell_length
            if name in used and not (is_on or now[name] == "off"):
                before += f" ({words.step_name(stage)} off)"
            value = now[name] if name in used else "not used"
            parts = [Content.styled(value, style), Content.styled(before, fmt.DIM)]
            if name in weights and name == chosen and features:
                measured = features[WEIGHTS[name]]
                share = f" × {measured:.2f} = {fmt.score(weights[name] * measured)},"
                asides = share, f" without it {without(WEIGHTS[name])}"
                parts += [Content.styled(aside, fmt.DIM) for aside in asides]
            for part in parts:
                # A value is never cut: what has no room goes below.
                end += part.cell_length
                line = Content.assemble(line, "\n     " if end > width else "", part)
            room = _METER_AT - end if width >= _METER_AT + _METER else -1
            if is_on and not is_changed and name in shares and room >= 0:
                full = round(min(shares[name], 1.0) * _METER)
                line += Content.styled(" " * room + glyphs.METER_FULL * full, "$primary")
                empty = glyphs.RULE * (_METER - full)
                line += Content.styled(empty, "$foreground 30%")
            key = f"context.{WEIGHTS[name]}" if name in weights else words.PANEL_WORDS[name][0]
            about = idle_words(ranking, name) or key_abouts()[f"ranking.{key}"]
            about *= name == chosen
            if name == "profile" and others:
                about += f" {now[name]} also runs {others}: see `memtui profiles show {base}`"
            if about and name == "context" and weights and None not in weights.values():
                about += f" {words.WORDS['evidence'][evidence]}"
            abouts = Content.styled(about.strip(), fmt.DIM).wrap(max(8, width - 5)) if about else []
            return Content("\n     ").join([line, *abouts])

        rows = [Row(name, partial(draw, name), lines=0) for name in names]
        self.rows.set_rows(rows, chosen)

    @on(events.Show)
    @on(RowList.Chosen)
    async def _show_again(self, event: Message) -> None:
        """Show what changed meanwhile, and what the chosen weight is worth."""
        event.stop()
        await self.screen.run_action("part('rankings', 'show_panels')")

    @on(RowList.Opened)
    async def _row_opened(self, message: RowList.Opened) -> None:
        """Switch what is on or off, reset, choose a profile; make what is a number larger."""
        message.stop()
        await self.action_change(1)

    async def action_change(self, direction: int) -> None:
        """Make the chosen parameter larger or smaller, or go to its next value."""
        name = self.rows.chosen_id or ""
        step = f"'step', ('{name}', {0 if name in SWITCHES else direction})"
        call = {"reset": "'reset'", "profile": "'choose_profile'"}.get(name, step)
        await self.run_action(f"screen.part('rankings', {call})")

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
from memtui.report.words import FEATURE_WORDS, PANEL_WORDS, PARAMETER_WORDS, WORDS, exact
from memtui.settings.schema import key_abouts
from memtui.text.sanitize import safe_line
from memtui.tui import fmt, glyphs
from memtui.tui.bindings import bindings, next_of
from memtui.tui.widgets.bars import draw_action, run_on_click
from memtui.tui.widgets.lists import Row, RowList, TextBlock

HALF_LIVES: tuple[float, ...] = (7, 14, 30, 60, 90, 180, 365)
MAX_K = 50
STEP = 0.05
"""Of λ and of the weights."""
SWITCHES: Mapping[str, tuple[Stage, str]] = {
    "MMR": (Stage.MMR, "λ"),
    "decay": (Stage.DECAY, "half-life"),
    "context": (Stage.CONTEXT, ""),
}
"""Each stage that can be switched, and its number in the strip, where it has one."""
WEIGHTS: Mapping[str, str] = {FEATURE_WORDS[name]: name for name in FEATURES}
"""The features of passages whose weights can be changed, by their names in words."""
WEIGHT_STEP, MAX_WEIGHT = 0.25, 20


def stepped(
    ranking: Ranking, parameter: str, steps: int, evidence: Evidence = Evidence.WORDS
) -> Ranking:
    """Return a ranking with one parameter changed.

    `MMR`, `decay` and `context` are turned on or off, and `fusion` has its next method. The others
    are moved by so many steps, as far as they go: `λ`, `meaning` and `keyword` (the weight of a
    leg; the other one has the rest) from 0 to 1 by 0.05, `minimum` the same way, in context by 0.25
    as far as scores go, with off below the first step, `results` from 1 to 50, `half-life` along 7,
    14, 30, 60, 90, 180, 365 days, and the weight of a feature from -20 to 20 by 0.25, from its
    constant for the `evidence`. Every other parameter stays.
    """

    def moved(value: float, steps: int) -> float:
        return min(max(round(value + steps * STEP, 2), 0.0), 1.0)

    if parameter in SWITCHES:
        switch = Parameter(PANEL_WORDS[parameter][0])
        return apply(ranking, switch, not value_of(ranking, switch))
    match parameter:
        case "fusion":
            return replace(ranking, fusion=next_of(Fusion, ranking.fusion, steps or 1))
        case "λ":
            return apply(ranking, Parameter.LAMBDA, moved(ranking.mmr.lambda_, steps))
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
    """Say that a profile goes without the stage of a switch or of its number; else empty."""
    for name, (stage, number) in {**SWITCHES, "minimum": (Stage.MIN_SCORE, "")}.items():
        if parameter in (name, number) and stage not in ranking.stages:
            return f"{safe_line(ranking.profile)} ranks without {name}"
    return ""


def values(ranking: Ranking) -> dict[str, str]:
    """Return every parameter as text, by the name that notes and keys have for it."""
    mmr, decay, minimum = ranking.mmr, ranking.decay, ranking.min_score
    floor = f", floor {decay.floor:g}" if decay.floor else ""
    return {
        "MMR": "on" if mmr.enabled else "off",
        "λ": exact(mmr.lambda_),
        "decay": "on" if decay.enabled else "off",
        "half-life": f"{decay.half_life_days:g} d{floor}",
        "context": "on" if ranking.context.enabled else "off",
        "meaning": exact(ranking.vector_weight),
        "keyword": exact(ranking.keyword_weight),
        "results": str(ranking.k),
        "minimum": "off" if minimum is None else exact(minimum),
        "fusion": WORDS["fusion_in_strip"][ranking.fusion],
        "profile": safe_line(ranking.profile),
        **{
            words: "auto" if weight is None else exact(weight)
            for words, name in WEIGHTS.items()
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
    changes = (
        f"{name} {now[name]}" if name in SWITCHES else f"{name} {was[name]}→{now[name]}"
        for name in now
        if now[name] != was[name] and name != "profile"
    )
    return ", ".join(changes)


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
        stages = for_mode(ranking, mode).stages
        idle = {number for _, number in SWITCHES.values()}
        idle |= {name for name, (stage, _) in SWITCHES.items() if stage not in stages}
        idle |= {one for one in WEIGHTS if now[one] == was[one] or not runs(ranking, Stage.CONTEXT)}
        first = Content("")
        if mode is not SearchMode.HYBRID:
            idle |= {"meaning", "keyword", "fusion"}
            first = Content.styled(f" {WORDS['mode'][mode]} ", "$state-warn on $foreground 8%")
        names = [name for name in now if name not in idle]
        pills = {name: _pill(name, now, was) for name in names}
        short = {name: _pill(name, now, was, aside=False) for name in names}
        # What was not changed is left out first, the last one before the others, and last of all
        # another profile, which says most.
        changed = [name for name in names if pills[name].plain != short[name].plain]
        changed.sort(key=lambda name: name != "profile")
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
            named = re.sub(r", keyword \S+→[^,:]+|(?<= )\S+→", "", note)
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
    number = SWITCHES[name][1] if name in SWITCHES and numbered else ""
    configured = f" ({was[number]})" if number and now[number] != was[number] else ""
    if now[name] != was[name]:
        configured = f" (was {was[name]})" if name in SWITCHES else f" ({was[name]})"
    style, configured = "$state-warn" if configured else "$foreground", configured * aside
    if name not in SWITCHES:
        label = f"{name} "
        pill = Content.assemble((label, fmt.DIM), (now[name], style), (configured, fmt.DIM))
    elif now[name] == "on":
        value = f"{number} {now[number]}" if number else "on"
        pill = Content.styled(f" {name} {value}{configured} ", "$state-ok on $state-ok 25%")
    else:
        pill = Content.styled(f" {name} off{configured} ", f"{fmt.DIM} on $foreground 8%")
    is_choice = name in (*SWITCHES, "fusion")
    turn = run_on_click(f"screen.part('rankings', 'step', ('{name}', 0))")
    return pill.stylize(turn) if is_choice else pill


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
        alone = Content.styled(f"{WORDS['mode'][mode]}: no MMR, no weights", "$state-warn")
        depth = Content.styled(f"  the first {ranking.candidates} of each match", fmt.DIM)
        self.rows.border_title = draw_action(self, "parameters.toggle", "Parameters") + depth
        self.rows.border_subtitle = "" if mode is SearchMode.HYBRID else alone
        chosen = self.rows.chosen_id
        now, was = values(ranking), values(configured)
        names, weights = [*PANEL_WORDS], dict[str, float]()
        if runs(ranking, Stage.CONTEXT):
            weights = {one: getattr(ranking.context, name) for one, name in WEIGHTS.items()}
            at = names.index("context") + 1
            names[at:at] = sorted(
                weights, key=lambda one: not (weights[one] or features.get(WEIGHTS[one]))
            )
        at_least = sum(days < ranking.decay.half_life_days for days in HALF_LIVES)
        shares = {
            "λ": ranking.mmr.lambda_,
            "half-life": at_least / (len(HALF_LIVES) - 1),
            "meaning": ranking.vector_weight,
            "keyword": ranking.keyword_weight,
            "results": ranking.k / MAX_K,
        }

        keys_by_name = {
            name: Content(" ").join(draw_action(self, one) for one in actions)
            for name, (_, *actions) in PANEL_WORDS.items()
        }
        longest = max(keys.cell_length for keys in keys_by_name.values())

        def draw(name: str, width: int) -> Content:
            keys = fmt.fit(keys_by_name.get(name, Content("")), longest, pad=True)
            if name == "reset":
                changed = sum(now[name] != was[name] for name in now)
                title = f"reset to config ({changed} changed)" if changed else "as configured"
                return Content.assemble(keys, "  ", (title, fmt.DIM))
            is_changed = now[name] != was[name]
            style = "$state-warn" if is_changed else fmt.DIM if now[name] == "off" else "bold"
            line = Content(f"   {name} ".ljust(min(_WEIGHT_TITLE, width - 5)))
            if name not in weights:
                line = keys + f"  {PARAMETER_WORDS[PANEL_WORDS[name][0]]:<20}"
            if idle := idle_words(ranking, name):
                return line + Content.styled(f"not used\n     {idle}", fmt.DIM)
            before, end = f" (was {was[name]})" if is_changed else "", line.cell_length
            parts = [Content.styled(now[name], style), Content.styled(before, fmt.DIM)]
            if name in weights and name == chosen and features:
                feature = WEIGHTS[name]
                value = features[feature]
                share = f" × {value:.2f} = {fmt.score(weights[name] * value)},"
                asides = share, f" without it {without(feature)}"
                parts += [Content.styled(aside, fmt.DIM) for aside in asides]
            for part in parts:
                # A value is never cut: what has no room goes below.
                end += part.cell_length
                line = Content.assemble(line, "\n     " if end > width else "", part)
            room = _METER_AT - end if width >= _METER_AT + _METER else -1
            if not is_changed and name in shares and room >= 0:
                full = round(min(shares[name], 1.0) * _METER)
                line += Content.styled(" " * room + glyphs.METER_FULL * full, "$primary")
                empty = glyphs.RULE * (_METER - full)
                line += Content.styled(empty, "$foreground 30%")
            key = f"context.{WEIGHTS[name]}" if name in weights else PANEL_WORDS[name][0]
            about = key_abouts()[f"ranking.{key}"] if name == chosen else ""
            if about and name == "context" and weights:
                about += f" {WORDS['evidence'][evidence]}"
            abouts = Content.styled(about, fmt.DIM).wrap(max(8, width - 5)) if about else []
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
        match self.rows.chosen_id:
            case "reset":
                call = "'reset'"
            case "profile":
                call = "'choose_profile'"
            case name:
                call = f"'step', ('{name}', {0 if name in SWITCHES else direction})"
        await self.run_action(f"screen.part('rankings', {call})")

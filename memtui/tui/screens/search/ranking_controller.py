"""Changing the ranking: every key ranks the cached pool again, without I/O; undo; what if."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

from msgspec.structs import replace

from memtui.model import Fusion, Ranked, Ranking, SearchMode
from memtui.ranking.pipeline import needs_search
from memtui.ranking.profiles import PROFILES
from memtui.ranking.trace import Difference, difference
from memtui.settings.load import Source
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.background import Timers, tell
from memtui.tui.place_actions import app_of
from memtui.tui.widgets import parameter_panes as words
from memtui.tui.widgets.parameter_panes import HALF_LIVES, MAX_K

if TYPE_CHECKING:
    from memtui.settings.write import Plan
    from memtui.tui.screens.search.search_screen import SearchScreen
    from memtui.tui.screens.write_dialog import Written

NOTE_SECONDS = 6.0
MOST_CHANGES = 100
BURST_SECONDS = 0.15
"""Steps of one parameter that follow within this time are one change: a key that is held repeats
every 30 ms or so, and fingers are slower than 150 ms."""
NO_OTHER = "no other profile for this index: w saves one"
NO_SETTINGS = "there are no settings files here to write to"
NOT_THE_AGENTS = "memtui's settings, not the agent's (C copies for the agent)"
STEP = 0.05
"""Of λ and of the weights."""


class RankingController:
    """The parameters, the named rankings, undo, and the screens that say what if."""

    def __init__(self, view: SearchScreen) -> None:
        self.view = view
        self.clock: Callable[[], float] = monotonic
        """The clock of key presses, to tell a held key from two."""
        self._last_step = ("", 0.0)
        """The parameter that a key stepped last, and when."""
        self._effect: Callable[[], str] | None = None
        """Says what the last change did, once its list is on screen."""
        self._note = ""
        self._timers = Timers(view)

    # --- changing -------------------------------------------------------------------------------

    def change(
        self,
        ranking: Ranking,
        *,
        at_end: str = "",
        step: str = "",
        because: str = "",
        aside: str = "",
    ) -> None:
        """Rank with other parameters and tell what moved, entered and left.

        `at_end` is told when nothing changes; `step` names the parameter that a key stepped, whose
        steps in a burst are one change, and none where they end as they began; `because` goes
        before what is told, as `undo`, and such a change cannot be undone itself; `aside` is told
        in place of what moved.
        """
        view, state = self.view, self.view.state
        before, shown = state.ranking, state.ranked
        if ranking == before:
            self.note(at_end)
            return
        if not because:
            (last, at), now = self._last_step, self.clock()
            self._last_step = step, now
            state.redoable.clear()
            if not (step and step == last and now - at <= BURST_SECONDS and state.undoable):
                state.undoable = [*state.undoable, before][-MOST_CHANGES:]
            elif state.undoable[-1] == ranking:
                state.undoable.pop()
        state.ranking = ranking

        def say(moves: Difference | None) -> str:
            text = words.describe_change(before, ranking)
            text = f"{because}: {text}" if because else f"{text} {aside}" if aside else text
            if moves is None or aside:
                return text
            effect = words.effect(moves) or "nothing moved"
            if not moves and state.mode is not SearchMode.HYBRID:
                effect = f"nothing moved, {words.MODE_NAMES[state.mode]}"
            return f"{text}: {effect}"

        if shown is None or view.engine is None:
            self.note(say(None))
            return
        after = view.engine.search.rerank(shown.pool, ranking)
        moves = difference(shown, after)
        self._effect = partial(say, moves)
        view.search.show(after, keep=state.selected_id, change=moves)
        if needs_search(after.pool, before, ranking):
            view.search.ask(quiet=True)

    def step(self, parameter: str, direction: int) -> None:
        """Step a number up or down, or go to the next value of a switch, without a direction.

        Some numbers show only once their stage is on.
        """
        ranking = stepped(self.view.state.ranking, parameter, direction)
        if not direction:
            self.change(ranking)
            return
        aside = ""
        if parameter == "λ" and not ranking.mmr.enabled:
            aside = "(MMR is off: m)"
        elif parameter == "half-life" and not ranking.decay.enabled:
            aside = "(decay is off: d)"
        self.change(ranking, at_end=f"{parameter}: no further", step=parameter, aside=aside)

    def reset(self) -> None:
        self.change(self.view.options.ranking, at_end="as configured already")

    def undo(self, verb: str = "undo") -> None:
        """Go back to the ranking before the last change; `redo` brings back what undo took away."""
        state = self.view.state
        source, target = state.undoable, state.redoable
        if verb == "redo":
            source, target = target, source
        if not source:
            self.note(f"nothing to {verb}")
            return
        self._last_step = ("", 0.0)
        target.append(state.ranking)
        self.change(source.pop(), because=verb)

    # --- what is shown --------------------------------------------------------------------------

    def note(self, text: str) -> None:
        """Show the parameters, with a note about the last change for a while."""
        self._note, self._effect = text, None
        self.show_parameters()
        self._timers.stop("note")
        if text:
            self._timers.start("note", NOTE_SECONDS, lambda: self.note(""))

    def tell_effect(self) -> None:
        """Tell what the last change did to the list, which is on screen by now."""
        if self._effect is not None:
            self.note(self._effect())

    def show_parameters(self) -> None:
        state, configured = self.view.state, self.view.options.ranking
        self.view.strip.show_ranking(state.ranking, configured, state.mode, self._note)
        self.view.panel.show_ranking(state.ranking, configured, state.mode)

    def against_configured(self, ranked: Ranked) -> str:
        """Return `vs config: 2 moved, 1 in, 1 out` while parameters differ.

        Empty where no list of the configured ranking can be made of these candidates.
        """
        view, state, configured = self.view, self.view.state, self.view.options.ranking
        if view.engine is None or state.ranking == configured or state.is_pending:
            return ""
        if needs_search(ranked.pool, state.ranking, configured):
            return ""
        moves = difference(view.engine.search.rerank(ranked.pool, configured), ranked)
        return f"vs config: {words.effect(moves) or 'the same list'}"

    # --- named rankings -------------------------------------------------------------------------

    def cycle_profile(self) -> None:
        """Go to the next named ranking.

        All of them over memtui's own index. Over an agent's index the one of its release, as the
        agent is configured, and the own ones: other releases' rules would show a list that the
        agent never gets, under a name that says it does. The configured ranking stands for the
        profile that it is of.
        """
        view, present = self.view, self.view.state.ranking
        configured = view.options.ranking
        foreign = view.status.foreign if view.status is not None else None
        named = {
            name: configured if name == configured.profile else ranking
            for name, ranking in view.options.profiles.items()
            if foreign is None or name not in PROFILES or name == foreign.profile
        }
        names = list(named)
        at = names.index(present.profile) if present.profile in named else -1
        self.change(named[names[(at + 1) % len(names)]] if names else present, at_end=NO_OTHER)

    def write(self) -> None:
        """Show what saving the parameters would change in the settings, then save them."""
        from memtui.settings.write import plan_profile, plan_ranking
        from memtui.tui.screens.write_dialog import Where, WriteDialog

        view, files = self.view, self.view.options.files
        if files is None:
            tell(view, NO_SETTINGS)
            return

        def go_on(written: Written | None) -> None:
            if written is None:
                return
            plan, is_profile = written.plan, written.where is Where.PROFILE
            app, profiles = app_of(view), written.settings.named_rankings()
            saved = app.configured.ranking if is_profile else plan.ranking
            app.configured = replace(app.configured, profiles=profiles, ranking=saved)
            # Of an agent's index the ranking stays the agent's; the notes get the new one.
            shown = view.options.ranking if view.is_foreign or is_profile else plan.ranking
            app.options = view.options = replace(app.options, profiles=profiles, ranking=shown)
            same = replace(plan.ranking, profile=view.state.ranking.profile) == view.state.ranking
            if same and (is_profile or not view.is_foreign):
                self.change(plan.ranking)
            path = safe_line(fmt.home_relative(str(plan.file.path)))
            verb = "saved in" if plan.changes else "nothing to write: as it is in"
            self.note(f"profile {plan.ranking.profile} saved" if is_profile else "saved")
            tell(view, f"{verb} {path}")

        ranking = view.state.ranking
        # The workspace of an agent is the agent's: nothing is written there.
        target = replace(files, root=None) if view.is_foreign else files
        plans: dict[Where, Callable[[str], Plan]] = {
            Where.USER: lambda name: plan_ranking(target, Source.USER, ranking),
            Where.PROJECT: lambda name: plan_ranking(target, Source.PROJECT, ranking),
            Where.PROFILE: lambda name: plan_profile(target, name, ranking),
        }
        if target.root is None:
            del plans[Where.PROJECT]
        dialog = WriteDialog(
            "Write the parameters",
            target,
            plans,
            "The settings give exactly these parameters already.",
            warning=NOT_THE_AGENTS if view.is_foreign else "",
            name="" if ranking.profile in PROFILES else ranking.profile,
        )
        view.app.push_screen(dialog, go_on)

    def copy_configuration(self) -> None:
        from memtui.settings.schema import base_of
        from memtui.tui.screens.dialogs import ConfigurationScreen

        view = self.view
        foreign = view.status.foreign if view.status is not None else None
        own = (foreign.profile,) if foreign is not None else ()
        bases = (base_of(one) for one in (view.state.ranking, view.options.ranking))
        # What a release cannot take is told by the rules of a ranking, whatever its name.
        ranking = replace(view.state.ranking, profile=base_of(view.state.ranking))
        view.app.push_screen(ConfigurationScreen(ranking, (*own, *bases)))

    # --- what if --------------------------------------------------------------------------------

    def sweep(self) -> None:
        from memtui.tui.screens.sweep import SweepScreen

        view = self.view
        if view.state.ranked is None or not view.state.ranked.pool.chunks:
            tell(view, "Nothing to sweep: search for something first.")
            return

        def swept(ranking: Ranking | None) -> None:
            if ranking is not None:
                self.change(ranking, at_end="nothing changed")

        view.app.push_screen(SweepScreen(view, view.state.ranked), swept)

    def compare(self) -> None:
        """Put two rankings, or the two pinned chunks, side by side."""
        from memtui.tui.screens.compare import CompareScreen

        view = self.view
        if view.engine is None or view.state.ranked is None or not view.state.ranked.pool.chunks:
            tell(view, "Nothing to compare: search for something first.")
            return

        def compared(chunk_id: str | None) -> None:
            ranked = view.state.ranked
            if chunk_id is None or ranked is None or chunk_id not in ranked.pool.chunks:
                return
            is_hit = any(hit.chunk.id == chunk_id for hit in ranked.hits)
            if not is_hit and not view.has_class("-near"):
                view.search.toggle_near_misses()
            view.search.choose(chunk_id)

        view.app.push_screen(CompareScreen(view, view.engine, view.state.ranked), compared)


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
            methods = list(Fusion)
            following = methods[(methods.index(ranking.fusion) + 1) % len(methods)]
            return replace(ranking, fusion=following)
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

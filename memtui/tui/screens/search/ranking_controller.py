"""The ranking of the search screen: each key ranks the cached pool again, without I/O."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING

from msgspec.structs import replace

from memtui.model import FEATURES, Ranked, Ranking, SearchMode
from memtui.ranking.context import ranked_passages, with_weights
from memtui.ranking.pipeline import cut_pool, difference, for_mode, needs_search
from memtui.ranking.profiles import PROFILES
from memtui.ranking.trace import find
from memtui.report.arithmetic import lacks_passages
from memtui.settings.load import Source
from memtui.text.sanitize import safe_line
from memtui.tui import fmt
from memtui.tui.background import tell
from memtui.tui.place_actions import app_of
from memtui.tui.screens.common import Timers
from memtui.tui.screens.search import search_controller
from memtui.tui.widgets import parameter_panes as words

if TYPE_CHECKING:
    from memtui.settings.write import Plan
    from memtui.tui.screens.search.search_screen import SearchScreen
    from memtui.tui.screens.write_dialog import Written

MOST_CHANGES = 100
BURST_SECONDS = 0.15
"""Steps of one parameter that follow within this time are one change: a key that is held repeats
every 30 ms or so, and fingers are slower than 150 ms."""
NOT_THE_AGENTS = "memtui's settings, not the agent's (ctrl+p copies them for the agent)"


class RankingController:
    """The parameters, the named rankings, undo, and the screens that say what if."""

    def __init__(self, view: SearchScreen) -> None:
        self.view = view
        self.clock: Callable[[], float] = monotonic
        """The clock of key presses, to tell a held key from two."""
        self._last_step = ("", 0.0)
        """The parameter that a key stepped last, and when."""
        self._note = ""
        self._untold: tuple[str, Ranked] | None = None
        """A change that another search is to tell the effect of, and the list before it."""
        self._timers = Timers(view)

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
        before what is told, as `undone`, and such a change cannot be undone itself; `aside` is told
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
        state.ranking, state.selected_by_user = ranking, True
        text = words.describe_change(*map(self._with_weights, (before, ranking)))
        text = f"{because}: {text} again" if because else text
        if ranking == view.options.ranking and ", " in text and not because:
            text = "as configured again"
        self.note(f"{text} {aside}".rstrip())
        if shown is None or view.engine is None:
            return
        after = view.engine.search.rerank(cut_pool(shown.pool, ranking), ranking)
        view.search.show(after, keep=state.selected_id, change=difference(shown, after))
        self._untold = None if aside else (text, shown)
        if needs_search(after.pool, before, ranking):
            view.search.ask(quiet=True)
        else:
            self.tell_effect(after)

    def tell_effect(self, ranked: Ranked) -> None:
        """Say what the last change did to the list, once that is whole."""
        untold, self._untold = self._untold, None
        if untold is not None and untold[1].pool.query == ranked.pool.query:
            self.note(f"{untold[0]}: {words.effect(difference(untold[1], ranked))}")

    def step(self, parameter: str, direction: int) -> None:
        """Step a number up or down, or go to the next value of a switch, without a direction.

        Some numbers show only once their stage is on.
        """
        state, aside = self.view.state, ""
        if idle := words.idle_words(state.ranking, parameter):
            self.note(f"{idle}: nothing to switch, P chooses another")
            return
        if parameter == "context" and state.ranked is not None and lacks_passages(state.ranked):
            aside = "(this index keeps no passages)"
        ranking = words.stepped(state.ranking, parameter, direction, state.evidence)
        if parameter == "λ" and not ranking.mmr.enabled:
            aside = "(m turns MMR on)"
        elif parameter == "half-life" and not ranking.decay.enabled:
            aside = "(d turns decay on)"
        alone, is_alone = for_mode(ranking, state.mode), state.mode is not SearchMode.HYBRID
        if is_alone and (parameter in words.OF_BOTH or words.idle_words(alone, parameter)):
            aside = "(no effect without both matches)"
        step = parameter if direction else ""
        self.change(ranking, at_end=f"{parameter}: no further", step=step, aside=aside)

    def reset(self) -> None:
        self.change(self.view.options.ranking, at_end="as configured already")

    def undo(self, verb: str = "undo") -> None:
        """Go back to the ranking before the last change; `redo` brings back what undo took away."""
        state = self.view.state
        if verb == "undo" and (query := state.replaced.pop((state.text, state.ranking), "")):
            self.view.search.ask_query(query)
            return
        source, target = state.undoable, state.redoable
        if verb == "redo":
            source, target = target, source
        if not source:
            self.note(f"nothing to {verb}")
            return
        self._last_step = ("", 0.0)
        target.append(state.ranking)
        self.change(source.pop(), because=f"{verb}ne")

    def note(self, text: str) -> None:
        """Show the parameters, with a note about the last change for a while."""
        self._note = text
        self.show_parameters()
        self._timers.stop("note")
        if text:
            self._timers.start("note", search_controller.NOTE_SECONDS, lambda: self.note(""))

    def show_parameters(self) -> None:
        state, configured = self.view.state, self._with_weights(self.view.options.ranking)
        shown = self._with_weights(state.ranking)
        self.view.strip.show_ranking(shown, configured, state.mode, self._note)
        self.show_panels()

    def _with_weights(self, ranking: Ranking) -> Ranking:
        """Return a ranking with the constants for what the list was made of, if for any."""
        ranked = self.view.state.ranked
        has_passages = ranked is not None and ranked.pool.passages
        return with_weights(ranking, self.view.state.evidence) if has_passages else ranking

    def show_panels(self) -> None:
        """Show the parameters one below the other, and what those of passages are worth."""
        state, panel = self.view.state, self.view.panel
        if not panel.is_on_screen:
            return
        ranked, features = state.ranked, dict[str, float]()
        if ranked is not None and state.selected_chunk is not None:
            scored = find(ranked, state.selected_chunk.id)
            passages = ranked_passages(ranked, scored) if scored.stages else ()
            for _, best in passages[:1]:
                features = dict(zip(FEATURES, (scored.stages[0].after, *best.values), strict=True))
        shown, configured = map(self._with_weights, (state.ranking, self.view.options.ranking))
        panel.show_ranking(
            shown, configured, state.mode, state.evidence, features, self._place_without
        )

    def _place_without(self, feature: str) -> str:
        """Return the place of the chosen result where a feature of passages weighs nothing."""
        state, engine = self.view.state, self.view.engine
        if state.ranked is None or engine is None:
            return ""
        context = replace(state.ranking.context, **{feature: 0.0})
        ranked = engine.search.rerank(state.ranked.pool, replace(state.ranking, context=context))
        place = ranked.ranks.get(state.selected_id or "")
        return fmt.rank(place) if place else "not shown"

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
        return f"vs config: {words.effect(moves)}"

    def named(self) -> dict[str, Ranking]:
        """Return the named rankings that can be chosen here.

        All of them over memtui's own index. Over an agent's index the one of its release, as the
        agent is configured, and the own ones: other releases' rules would show a list that the
        agent never gets, under a name that says it does. The configured ranking stands for the
        profile that it is of.
        """
        view, configured, foreign = self.view, self.view.options.ranking, self.view.foreign
        return {
            name: configured if name == configured.profile else ranking
            for name, ranking in view.options.profiles.items()
            if foreign is None or name not in PROFILES or name == foreign.profile
        }

    def choose_profile(self) -> None:
        """Choose a named ranking, with what it would change."""
        from memtui.tui.screens.choosers import choose_profile

        named, state, present = self.named(), self.view.state, self.view.state.ranking
        if not named.keys() - {present.profile}:
            self.note("none of your own: w save one; of other releases: memtui search --profile")
            return

        def chosen(name: str | None) -> None:
            if name is not None:
                self.change(named[name], at_end="as it is already")

        chooser = choose_profile(self.view.engine, named, present, state.ranked, present.profile)
        self.view.app.push_screen(chooser, chosen)

    def write(self) -> None:
        """Show what saving the parameters would change in the settings, then save them."""
        from memtui.settings.write import plan_profile, plan_ranking
        from memtui.tui.screens.write_dialog import Where, WriteDialog

        view, files = self.view, self.view.options.files
        if files is None:
            tell(view, "there are no settings files here to write to")
            return

        def go_on(written: Written | None) -> None:
            if written is None:
                return
            plan, is_profile = written.plan, written.where is Where.PROFILE
            app, profiles = app_of(view), written.settings.named_rankings()
            saved = app.configured.ranking if is_profile else plan.ranking
            app.configured = replace(app.configured, profiles=profiles, ranking=saved)
            # Of an agent's index the ranking stays the agent's; the notes get the new one.
            shown = view.options.ranking if view.foreign or is_profile else plan.ranking
            app.options = view.options = replace(app.options, profiles=profiles, ranking=shown)
            same = replace(plan.ranking, profile=view.state.ranking.profile) == view.state.ranking
            if same and (is_profile or not view.foreign):
                self.change(plan.ranking)
            if plan.changes:
                self.note(f"profile {plan.ranking.profile} saved" if is_profile else "saved")
                tell(view, f"saved in {safe_line(fmt.home_relative(str(plan.file.path)))}")
            view.search.show_title()

        ranking = view.state.ranking
        # The workspace of an agent is the agent's: nothing is written there.
        target = replace(files, root=None) if view.foreign else files
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
            warning=NOT_THE_AGENTS if view.foreign else "",
            name="" if ranking.profile in PROFILES else ranking.profile,
        )
        view.app.push_screen(dialog, go_on)

    def copy_configuration(self) -> None:
        from memtui.settings.schema import base_of
        from memtui.tui.screens.dialogs import ConfigurationScreen

        view = self.view
        own = (view.foreign.profile,) if view.foreign is not None else ()
        bases = (base_of(one) for one in (view.state.ranking, view.options.ranking))
        # What a release cannot take is told by the rules of a ranking, whatever its name.
        ranking = replace(view.state.ranking, profile=base_of(view.state.ranking))
        view.app.push_screen(ConfigurationScreen(ranking, (*own, *bases)))

    def sweep(self) -> None:
        from memtui.tui.screens.sweep import SweepScreen

        def swept(ranking: Ranking | None) -> None:
            if ranking is not None:
                self.change(ranking, at_end="nothing changed")

        if (ranked := self._candidates("sweep")) is not None:
            self.view.app.push_screen(SweepScreen(self.view, ranked), swept)

    def compare(self) -> None:
        """Put two rankings, or the two pinned chunks, side by side."""
        from memtui.tui.screens.compare import CompareScreen

        view = self.view
        if (ranked := self._candidates("compare")) is not None and view.engine is not None:
            view.app.push_screen(CompareScreen(view, view.engine, ranked))

    def _candidates(self, verb: str) -> Ranked | None:
        """Return the list on screen; where nothing was found, that is told."""
        ranked = self.view.state.ranked
        if ranked is None or not ranked.pool.chunks:
            why = "search for something first" if ranked is None else "there are no results"
            tell(self.view, f"Nothing to {verb}: {why}.")
            return None
        return ranked

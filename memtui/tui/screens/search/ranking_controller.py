"""Changing the ranking: every key ranks the cached pool again, without I/O; undo; what if."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, cast

from memtui.model import Fusion, Ranked, Ranking, SearchMode
from memtui.ranking.pipeline import needs_search
from memtui.ranking.profiles import PROFILES
from memtui.ranking.trace import Difference, difference
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.background import Timers, tell
from memtui.tui.widgets import parameter_panes as words
from memtui.tui.widgets.parameter_panes import HALF_LIVES, MAX_K

if TYPE_CHECKING:
    from memtui.tui.app import MemtuiApp
    from memtui.tui.screens.search.search_screen import SearchScreen
    from memtui.tui.screens.write_dialog import Written

NOTE_SECONDS = 6.0
MOST_CHANGES = 100
BURST_SECONDS = 0.15
"""Steps of one parameter that follow within this time are one change: a key that is held repeats
every 30 ms or so, and fingers are slower than 150 ms."""
NO_OTHER = "no other profile for this index: w saves one"
NO_SETTINGS = "there are no settings files here to write to"
WHEEL: Mapping[str, tuple[str, int]] = {
    "mmr": ("λ", 1), "decay": ("half-life", 1), "vector": ("weight", 1), "keyword": ("weight", -1),
    "k": ("k", 1),
}  # fmt: skip
"""What the wheel steps over a parameter, and in which direction."""
STEP = 0.05
"""Of λ and of the weights."""


class RankingController:
    """The parameters, the named rankings, undo, and the screens that say what if."""

    def __init__(self, view: SearchScreen) -> None:
        self.view = view
        self.clock: Callable[[], float] = monotonic
        """When keys are pressed, to tell a held key from two."""
        self._undoable: list[Ranking] = []
        """The rankings before the last changes, at most `MOST_CHANGES`; undo takes the last."""
        self._redoable: list[Ranking] = []
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
        view, before, shown = self.view, self.view.ranking, self.view.ranked
        if ranking == before:
            self.note(at_end)
            return
        if not because:
            (last, at), now = self._last_step, self.clock()
            self._last_step = step, now
            self._redoable.clear()
            if not (step and step == last and now - at <= BURST_SECONDS and self._undoable):
                self._undoable = [*self._undoable, before][-MOST_CHANGES:]
            elif self._undoable[-1] == ranking:
                self._undoable.pop()
        view.ranking = ranking

        def say(moves: Difference | None) -> str:
            text = words.describe_change(before, ranking)
            text = f"{because}: {text}" if because else f"{text} {aside}" if aside else text
            if moves is None or aside:
                return text
            effect = words.effect(moves) or "nothing moved"
            if not moves and view.mode is not SearchMode.HYBRID:
                effect = f"nothing moved, {words.MODE_NAMES[view.mode]}"
            return f"{text}: {effect}"

        if shown is None or view.engine is None:
            self.note(say(None))
            return
        after = view.engine.search.rerank(shown.pool, ranking)
        moves = difference(shown, after)
        self._effect = partial(say, moves)
        ranks = {hit.chunk.id: hit.rank for hit in shown.hits}
        view.search.show(
            after,
            keep=view.selected_id,
            moved=moves.moved,
            entered=frozenset(moves.entered),
            left={chunk_id: ranks[chunk_id] for chunk_id in moves.left},
        )
        if needs_search(after.pool, before, ranking):
            view.search.ask(quiet=True)

    def turn(self, parameter: str) -> None:
        """Turn MMR or decay on or off, or go to the next fusion method."""
        self.change(turned(self.view.ranking, parameter))

    def step(self, parameter: str, direction: int) -> None:
        """Move λ, the half-life, the vector weight or k; some show when their stage is on."""
        ranking = stepped(self.view.ranking, parameter, direction)
        aside = ""
        if parameter == "λ" and not ranking.mmr.enabled:
            aside = "(MMR is off: m)"
        elif parameter == "half-life" and not ranking.decay.enabled:
            aside = "(decay is off: d)"
        self.change(ranking, at_end=f"{parameter}: no further", step=parameter, aside=aside)

    def use_mouse(self, parameter: str, steps_up: int) -> None:
        """Step what the wheel was turned over; a click, without steps, turns a switch."""
        if not steps_up:
            self.turn(parameter)
        elif parameter in WHEEL:
            name, direction = WHEEL[parameter]
            self.step(name, direction * steps_up)

    def reset(self) -> None:
        """Go back to the configured ranking."""
        self.change(self.view.options.ranking, at_end="as configured already")

    def undo(self) -> None:
        """Go back to the ranking before the last change."""
        self._go_back(self._undoable, self._redoable, "undo")

    def redo(self) -> None:
        """Bring back the ranking that undo took away."""
        self._go_back(self._redoable, self._undoable, "redo")

    def _go_back(self, source: list[Ranking], target: list[Ranking], verb: str) -> None:
        if not source:
            self.note(f"nothing to {verb}")
            return
        self._last_step = ("", 0.0)
        target.append(self.view.ranking)
        self.change(source.pop(), because=verb)

    def forget(self) -> None:
        """Forget every change: another memory is open."""
        self._undoable, self._redoable, self._last_step = [], [], ("", 0.0)

    # --- what is shown --------------------------------------------------------------------------

    def note(self, text: str) -> None:
        """Show the parameters, with a note about the last change for a while."""
        self._note, self._effect = text, None
        self.show_parameters()
        self._timers.stop("note")
        if text:
            self._timers.start("note", NOTE_SECONDS, lambda: self.note(""))

    def list_shown(self) -> None:
        """Tell what the last change did to the list, which is on screen by now."""
        if self._effect is not None:
            self.note(self._effect())

    def show_parameters(self) -> None:
        """Draw the strip and the panel."""
        view, configured = self.view, self.view.options.ranking
        named = words.parameters(view.ranking, configured)
        view.strip.show(words.in_effect(named, view.ranking, view.mode), self._note)
        view.panel.show(view.ranking, configured, view.mode)

    def against_configured(self, ranked: Ranked) -> str:
        """Return `vs config: 2 moved, 1 in, 1 out` while parameters differ.

        Empty where no list of the configured ranking can be made of these candidates.
        """
        view, configured = self.view, self.view.options.ranking
        if view.engine is None or view.ranking == configured or not view.search.complete:
            return ""
        if needs_search(ranked.pool, view.ranking, configured):
            return ""
        moves = difference(view.engine.search.rerank(ranked.pool, configured), ranked)
        return f"vs config: {words.effect(moves) or 'the same list'}"

    # --- named rankings -------------------------------------------------------------------------

    def named_rankings(self) -> Mapping[str, Ranking]:
        """Return the named rankings that `P` goes through, in their order.

        All of them over memtui's own index. Over an agent's index the one of its release, as the
        agent is configured, and the own ones: other releases' rules would show a list that the
        agent never gets, under a name that says it does. The configured ranking stands for the
        profile that it is of.
        """
        view, configured = self.view, self.view.options.ranking
        foreign = view.status.foreign if view.status is not None else None
        named = {
            name: ranking
            for name, ranking in view.options.profiles.items()
            if foreign is None or name not in PROFILES or name == foreign.profile
        }
        if configured.profile in named:
            named[configured.profile] = configured
        return named

    def cycle_profile(self) -> None:
        """Go to the next named ranking."""
        named, present = self.named_rankings(), self.view.ranking
        names = list(named)
        at = names.index(present.profile) if present.profile in named else -1
        self.change(named[names[(at + 1) % len(names)]] if names else present, at_end=NO_OTHER)

    def write(self) -> None:
        """Show what saving the parameters would change in the settings, then save them."""
        from memtui.tui.screens.write_dialog import WriteDialog, write_parameters

        view, files = self.view, self.view.options.files
        if files is None:
            tell(view, NO_SETTINGS)
            return
        is_own = view.ranking.profile not in PROFILES
        writing = write_parameters(
            # The workspace of an agent is the agent's: nothing is written there.
            replace(files, root=None) if view.is_foreign else files,
            view.ranking,
            name=view.ranking.profile if is_own else "",
            foreign=view.is_foreign,
        )
        view.app.push_screen(WriteDialog(writing, view.glyphs), self._written)

    def _written(self, written: Written | None) -> None:
        """Go on from what the settings now say."""
        if written is None:
            return
        from memtui.tui.screens.write_dialog import Where

        view, plan = self.view, written.plan
        is_profile = written.where is Where.PROFILE
        cast("MemtuiApp", view.app).settings_written(
            None if is_profile else plan.ranking,
            written.settings.named_rankings(PROFILES),
            foreign=view.is_foreign,
        )
        same = replace(plan.ranking, profile=view.ranking.profile) == view.ranking
        if same and (is_profile or not view.is_foreign):
            self.change(plan.ranking)
        path = safe_line(fmt.home_relative(str(plan.file.path)))
        verb = "saved in" if plan.changes else "nothing to write: as it is in"
        self.note(f"profile {plan.ranking.profile} saved" if is_profile else "saved")
        tell(view, f"{verb} {path}")

    def copy_configuration(self) -> None:
        """Copy the parameters as a piece of the agent's configuration, and show it."""
        from memtui.settings.keys import base_of
        from memtui.tui.screens.dialogs import ConfigurationScreen, release_for

        view = self.view
        foreign = view.status.foreign if view.status is not None else None
        own = (foreign.profile,) if foreign is not None else ()
        bases = (base_of(one, PROFILES) for one in (view.ranking, view.options.ranking))
        # What a release cannot take is told by the rules of a ranking, whatever its name.
        ranking = replace(view.ranking, profile=base_of(view.ranking, PROFILES))
        view.app.push_screen(ConfigurationScreen(ranking, release_for((*own, *bases))))

    # --- what if --------------------------------------------------------------------------------

    def sweep(self) -> None:
        """Draw ranks against one parameter."""
        from memtui.tui.screens.sweep import SweepScreen

        view = self.view
        if view.ranked is None or not view.ranked.pool.chunks:
            tell(view, "Nothing to sweep: search for something first.")
            return

        def swept(ranking: Ranking | None) -> None:
            if ranking is not None:
                self.change(ranking, at_end="nothing changed")

        view.app.push_screen(SweepScreen(view, view.ranked), swept)

    def compare(self) -> None:
        """Put two rankings, or the two pinned chunks, side by side."""
        from memtui.tui.screens.compare import CompareScreen

        view = self.view
        if view.engine is None or view.ranked is None or not view.ranked.pool.chunks:
            tell(view, "Nothing to compare: search for something first.")
            return

        def compared(chunk_id: str | None) -> None:
            """Choose the chunk that was chosen in the comparison."""
            ranked = view.ranked
            if chunk_id is None or ranked is None or chunk_id not in ranked.pool.chunks:
                return
            is_hit = any(hit.chunk.id == chunk_id for hit in ranked.hits)
            if not is_hit and not view.has_class("-near"):
                view.search.toggle_near_misses()
            view.search.choose(chunk_id)

        view.app.push_screen(CompareScreen(view, view.engine, view.ranked), compared)


def turned(ranking: Ranking, parameter: str) -> Ranking:
    """Return a ranking with `mmr` or `decay` on or off, or with the next method of `fusion`."""
    match parameter:
        case "mmr":
            return replace(ranking, mmr=replace(ranking.mmr, enabled=not ranking.mmr.enabled))
        case "decay":
            decay = replace(ranking.decay, enabled=not ranking.decay.enabled)
            return replace(ranking, decay=decay)
        case "fusion":
            methods = list(Fusion)
            at = methods.index(ranking.fusion) + 1
            return replace(ranking, fusion=methods[at % len(methods)])
        case _:
            return ranking


def stepped(ranking: Ranking, parameter: str, steps: int) -> Ranking:
    """Return a ranking with one parameter moved by so many steps, as far as it goes.

    `λ` and `weight` (the vector weight; the keyword weight is the rest) go from 0 to 1 by 0.05,
    `k` from 1 to 50, and `half-life` along 7, 14, 30, 60, 90, 180, 365 days.
    """

    def moved(value: float) -> float:
        return min(max(round(value + steps * STEP, 2), 0.0), 1.0)

    match parameter:
        case "λ":
            return replace(ranking, mmr=replace(ranking.mmr, lambda_=moved(ranking.mmr.lambda_)))
        case "half-life":
            days = ranking.decay.half_life_days
            at = bisect_right(HALF_LIVES, days) if steps > 0 else bisect_left(HALF_LIVES, days) - 1
            chosen = HALF_LIVES[min(max(at, 0), len(HALF_LIVES) - 1)]
            return replace(ranking, decay=replace(ranking.decay, half_life_days=chosen))
        case "weight":
            vector = moved(ranking.vector_weight)
            return replace(ranking, vector_weight=vector, keyword_weight=round(1 - vector, 2))
        case _:
            return replace(ranking, k=min(max(ranking.k + steps, 1), MAX_K))

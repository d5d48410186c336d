"""Changing the ranking: every key ranks the cached pool again, without I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import on
from textual.timer import Timer

from memtui.model import CandidatePool, Ranking, SearchMode
from memtui.tui import parameters as steps
from memtui.tui.actions_search import SearchActions
from memtui.tui.options import built_in_rankings
from memtui.tui.widgets.parameter_area import ParameterArea

if TYPE_CHECKING:
    from memtui.ranking.trace import Difference

NOTE_SECONDS = 6.0


class RankingActions(SearchActions):
    """The parameter strip, the panel and their keys."""

    _note_timer: Timer | None = None
    _note = ""

    def change_ranking(
        self, ranking: Ranking, *, at_end: str = "", step: str = "", because: str = ""
    ) -> None:
        """Rank with other parameters and tell what moved, entered and left.

        `at_end` is told when nothing changes; `step` names the parameter that a key stepped;
        `because` goes before what is told, as `undo`.
        """
        before = self.ranking
        if ranking == before:
            self.note(at_end)
            return
        self.ranking = ranking
        change = steps.describe_change(before, ranking)
        change = f"{because}: {change}" if because else change
        if self.ranked is None or self.engine is None:
            self.note(change)
            return
        # Imported late: ranking needs numpy, and the first paint does not.
        from memtui.ranking.trace import difference

        after = self.engine.search.rerank(self.ranked.pool, ranking)
        moves = difference(self.ranked, after)
        was = {hit.chunk.id: hit.rank for hit in self.ranked.hits}
        self.note(f"{change}: {effect(moves) or self._no_effect()}")
        self.show_ranked(
            after,
            keep=self.selected_id,
            moved=moves.moved,
            entered=frozenset(moves.entered),
            left={chunk_id: was[chunk_id] for chunk_id in moves.left},
        )
        if needs_search(after.pool, before, ranking):
            self.ask(quiet=True)

    def _no_effect(self) -> str:
        """Why nothing moved, where it is because one leg searched alone."""
        alone = self.mode is not SearchMode.HYBRID
        return f"nothing moved, {steps.MODE_NAMES[self.mode]}" if alone else "nothing moved"

    def note(self, text: str) -> None:
        """Show the parameters, with a note about the last change for a while."""
        self._note = text
        self.show_parameters()
        if self._note_timer is not None:
            self._note_timer.stop()
        self._note_timer = self.set_timer(NOTE_SECONDS, self._clear_note) if text else None

    def _clear_note(self) -> None:
        self._note = ""
        self.show_parameters()

    def show_parameters(self) -> None:
        """Draw the strip and the panel."""
        configured = self.options.ranking
        named = steps.parameters(self.ranking, configured)
        self.strip.show(steps.in_effect(named, self.ranking, self.mode), self._note)
        self.panel.show(self.ranking, configured, self.mode)

    # --- actions --------------------------------------------------------------------------------

    def action_toggle_mmr(self) -> None:
        """Turn MMR on or off."""
        self.change_ranking(steps.toggle_mmr(self.ranking))

    def action_toggle_decay(self) -> None:
        """Turn temporal decay on or off."""
        self.change_ranking(steps.toggle_decay(self.ranking))

    def action_step_lambda(self, direction: int) -> None:
        """Move λ; it shows when MMR is on."""
        self.change_ranking(
            steps.step_lambda(self.ranking, direction), at_end="λ: no further", step="lambda"
        )
        self._say_when_off("MMR", "m", self.ranking.mmr.enabled)

    def action_step_half_life(self, direction: int) -> None:
        """Move the half-life; it shows when decay is on."""
        self.change_ranking(
            steps.step_half_life(self.ranking, direction),
            at_end="half-life: no further",
            step="half-life",
        )
        self._say_when_off("decay", "d", self.ranking.decay.enabled)

    def action_step_vector_weight(self, direction: int) -> None:
        """Move the vector weight; the keyword weight is the rest."""
        self.change_ranking(
            steps.step_vector_weight(self.ranking, direction),
            at_end="weight: no further",
            step="weight",
        )

    def action_step_k(self, direction: int) -> None:
        """Show one result more or less."""
        self.change_ranking(steps.step_k(self.ranking, direction), at_end="k: no further", step="k")

    def action_cycle_fusion(self) -> None:
        """Go to the next fusion method."""
        self.change_ranking(steps.cycle_fusion(self.ranking))

    def action_reset_parameters(self) -> None:
        """Go back to the configured ranking."""
        self.change_ranking(self.options.ranking, at_end="as configured already")

    def action_copy_configuration(self) -> None:
        """Copy the parameters as a piece of the agent's configuration, and show it."""
        from memtui.settings.rankings import as_built_in
        from memtui.tui.screens.configuration import ConfigurationScreen, release_for

        # What a release cannot take is told by the rules of a ranking, whatever its name.
        ranking = as_built_in(self.ranking, built_in_rankings())
        self.app.push_screen(ConfigurationScreen(ranking, release_for(self._profiles())))

    def _profiles(self) -> tuple[str, ...]:
        """The profile of the index, then those that the rankings have their rules of."""
        from memtui.settings.rankings import base_of

        foreign = self.status.foreign if self.status is not None else None
        own = (foreign.profile,) if foreign is not None else ()
        rankings = (self.ranking, self.options.ranking)
        return (*own, *(base_of(ranking, built_in_rankings()) for ranking in rankings))

    def _say_when_off(self, stage: str, key: str, enabled: bool) -> None:
        if not enabled and self._note:
            self.note(f"{self._note.partition(':')[0]} ({stage} is off: {key})")

    # --- mouse ----------------------------------------------------------------------------------

    @on(ParameterArea.Clicked)
    def parameter_clicked(self, message: ParameterArea.Clicked) -> None:
        """A click toggles a switch and goes to the next fusion method."""
        match message.parameter:
            case "mmr":
                self.action_toggle_mmr()
            case "decay":
                self.action_toggle_decay()
            case "fusion":
                self.action_cycle_fusion()

    @on(ParameterArea.Wheeled)
    def parameter_wheeled(self, message: ParameterArea.Wheeled) -> None:
        """The wheel steps λ, the half-life, a weight or k."""
        match message.parameter:
            case "mmr":
                self.action_step_lambda(message.steps)
            case "decay":
                self.action_step_half_life(message.steps)
            case "vector":
                self.action_step_vector_weight(message.steps)
            case "keyword":
                self.action_step_vector_weight(-message.steps)
            case "k":
                self.action_step_k(message.steps)


def needs_search(pool: CandidatePool, before: Ranking, after: Ranking) -> bool:
    """Whether another ranking needs other candidates than the pool holds.

    A release of another program cuts and scores its candidates by its own rule for one number of
    them; memtui's own legs only need asking for more.
    """
    if not pool.sized:
        return after.candidates > pool.limit
    rules = (before.keyword_mapping, before.decay.dates), (after.keyword_mapping, after.decay.dates)
    return after.candidates != pool.limit or rules[0] != rules[1]


def effect(moves: Difference) -> str:
    """What a change did to the list, as `2 moved, 1 in, 1 out`; empty when it did nothing."""
    counts = ((moves.moved, "moved"), (moves.entered, "in"), (moves.left, "out"))
    return ", ".join(f"{len(chunks)} {word}" for chunks, word in counts if chunks)

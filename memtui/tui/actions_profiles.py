"""Named rankings: going from one to the next, saving the present parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from memtui.model import Ranking
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.actions_whatif import WhatIfActions
from memtui.tui.options import built_in_rankings

if TYPE_CHECKING:
    from memtui.tui.app import MemtuiApp
    from memtui.tui.screens.write import Written

NO_OTHER = "no other profile for this index: w saves one"
NO_SETTINGS = "there are no settings files here to write to"


class ProfileActions(WhatIfActions):
    """Profiles and the settings file."""

    def named_rankings(self) -> Mapping[str, Ranking]:
        """The named rankings that `P` goes through, in their order.

        All of them over memtui's own index. Over an agent's index the one of its release, as the
        agent is configured, and the own ones: other releases' rules would show a list that the
        agent never gets, under a name that says it does. The configured ranking stands for the
        profile that it is of.
        """
        named = dict(self.options.profiles)
        foreign = self.status.foreign if self.status is not None else None
        if foreign is not None:
            others = built_in_rankings()
            named = {
                name: ranking
                for name, ranking in named.items()
                if name not in others or name == foreign.profile
            }
        configured = self.options.ranking
        if configured.profile in named:
            named[configured.profile] = configured
        return named

    def action_cycle_profile(self) -> None:
        """Go to the next named ranking."""
        named = self.named_rankings()
        names = list(named)
        at = names.index(self.ranking.profile) if self.ranking.profile in named else -1
        following = named[names[(at + 1) % len(names)]] if names else self.ranking
        self.change_ranking(following, at_end=NO_OTHER)

    def action_write_parameters(self) -> None:
        """Show what saving the parameters would change in the settings, then save them."""
        from memtui.tui.screens.write import WriteParameters

        files = self.options.files
        if files is None:
            self.tell(NO_SETTINGS)
            return
        is_own = self.ranking.profile not in built_in_rankings()
        screen = WriteParameters(
            # The workspace of an agent is the agent's: nothing is written there.
            replace(files, root=None) if self.is_foreign else files,
            self.ranking,
            self.glyphs,
            name=self.ranking.profile if is_own else "",
            foreign=self.is_foreign,
        )
        self.app.push_screen(screen, self._parameters_written)

    def _parameters_written(self, written: Written | None) -> None:
        """Go on from what the settings now say."""
        if written is None:
            return
        from memtui.tui.screens.write import Where

        plan, app = written.plan, cast("MemtuiApp", self.app)
        is_profile = written.where is Where.PROFILE
        app.settings_written(
            None if is_profile else plan.ranking, written.profiles, foreign=self.is_foreign
        )
        same = replace(plan.ranking, profile=self.ranking.profile) == self.ranking
        if same and (is_profile or not self.is_foreign):
            self.change_ranking(plan.ranking)
        path = safe_line(fmt.home_relative(str(plan.target.path)))
        verb = "saved in" if plan.changes else "nothing to write: as it is in"
        self.note(f"profile {plan.ranking.profile} saved" if is_profile else "saved")
        self.tell(f"{verb} {path}")

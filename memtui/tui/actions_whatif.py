"""What if: taking a change of the ranking back, comparing two rankings, sweeping a parameter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import monotonic
from typing import TYPE_CHECKING

from textual.content import Content

from memtui.model import Ranked, Ranking
from memtui.tui.actions_ranking import RankingActions, effect, needs_search
from memtui.tui.options import UiOptions
from memtui.tui.rankings_undo import RankingHistory

if TYPE_CHECKING:
    from memtui.engine import Engine
    from memtui.report.explanation import Subject

_BORDER = 4
"""Cells of a border that no subtitle takes."""


class WhatIfActions(RankingActions):
    """Undo, compare, sweep."""

    clock_seconds: Callable[[], float] = staticmethod(monotonic)
    """When keys are pressed, to tell a held key from two."""
    _configured_list: tuple[Ranking, Ranked] | None = None
    """The configured ranking and its list of the candidates on screen."""

    def __init__(self, options: UiOptions) -> None:
        super().__init__(options)
        self._changes = RankingHistory()
        self._changes_of: Engine | None = None

    # --- undo -----------------------------------------------------------------------------------

    def change_ranking(
        self, ranking: Ranking, *, at_end: str = "", step: str = "", because: str = ""
    ) -> None:
        """Rank with other parameters; one key takes it back."""
        before = self.ranking
        if ranking != before:
            self._rankings().changed(before, ranking, step, self.clock_seconds())
        super().change_ranking(ranking, at_end=at_end, step=step, because=because)

    def _rankings(self) -> RankingHistory:
        """The changes that were made over the memory that is open."""
        if self._changes_of is not self.engine:
            self._changes.clear()
            self._changes_of = self.engine
        return self._changes

    def action_undo_ranking(self) -> None:
        """Go back to the ranking before the last change."""
        ranking = self._rankings().undo(self.ranking)
        if ranking is None:
            self.note("nothing to undo")
        else:
            super().change_ranking(ranking, because="undo")

    def action_redo_ranking(self) -> None:
        """Bring back the ranking that undo took away."""
        ranking = self._rankings().redo(self.ranking)
        if ranking is None:
            self.note("nothing to redo")
        else:
            super().change_ranking(ranking, because="redo")

    # --- what a list shows ----------------------------------------------------------------------

    def show_ranked(
        self,
        ranked: Ranked,
        *,
        keep: str | None,
        moved: Mapping[str, int] | None = None,
        entered: frozenset[str] = frozenset(),
        left: Mapping[str, int] | None = None,
    ) -> None:
        """Put a result list on screen, also in the sweep or the comparison that lies above."""
        super().show_ranked(ranked, keep=keep, moved=moved, entered=entered, left=left)
        self._follow(ranked)

    def _follow(self, ranked: Ranked) -> None:
        stack = self.app.screen_stack
        if len(stack) < 2:
            return
        from memtui.tui.screens.compare import CompareScreen
        from memtui.tui.screens.sweep import SweepScreen

        for screen in stack:
            if isinstance(screen, SweepScreen):
                screen.follow(ranked, self.ranking, self.options.ranking)
            elif isinstance(screen, CompareScreen):
                screen.follow(ranked, self.ranking)

    def _list_subtitle(self, ranked: Ranked) -> Content:
        """What is special about the list, and how it differs from the configured one."""
        parts = super()._list_subtitle(ranked)
        told = self._against_configured(ranked)
        if not told:
            return parts
        added = Content.assemble(parts, " · " if parts else "", told)
        fits = added.cell_length <= self.results.size.width - _BORDER
        return added if fits else parts

    def _against_configured(self, ranked: Ranked) -> str:
        """`vs config: 2 moved, 1 in, 1 out` while parameters differ; empty where no list of the
        configured ranking can be made of these candidates."""
        configured = self.options.ranking
        if self.engine is None or self.ranking == configured or not self.flow.complete:
            return ""
        if needs_search(ranked.pool, self.ranking, configured):
            return ""
        # Imported late: ranking needs numpy, and the first paint does not.
        from memtui.ranking.trace import difference

        known = self._configured_list
        if known is None or known[0] != configured or known[1].pool is not ranked.pool:
            known = configured, self.engine.search.rerank(ranked.pool, configured)
            self._configured_list = known
        return f"vs config: {effect(difference(known[1], ranked)) or 'the same list'}"

    # --- screens --------------------------------------------------------------------------------

    def action_sweep(self) -> None:
        """Draw ranks against one parameter."""
        from memtui.tui.screens.sweep import SweepScreen

        if self.ranked is None or not self.ranked.pool.chunks:
            self.tell("Nothing to sweep: search for something first.")
            return
        screen = SweepScreen(
            self.ranked,
            self.ranking,
            self.options.ranking,
            pinned=self.pinned,
            glyphs=self.glyphs,
            chosen=self.selected_id,
        )
        self.app.push_screen(screen, self._swept)

    def _swept(self, ranking: Ranking | None) -> None:
        if ranking is not None:
            self.change_ranking(ranking, at_end="nothing changed")

    def action_compare(self) -> None:
        """Put two rankings, or the two pinned chunks, side by side."""
        from memtui.tui.screens.compare import CompareScreen

        engine, ranked = self.engine, self.ranked
        if engine is None or ranked is None or not ranked.pool.chunks:
            self.tell("Nothing to compare: search for something first.")
            return
        screen = CompareScreen(
            engine,
            ranked,
            self.ranking,
            self.options,
            pinned=self.pinned,
            glyphs=self.glyphs,
            chosen=self.selected_id,
            typing=not self.is_foreign or self.flow.submitted != self.flow.wanted,
            explain=self._explain,
        )
        self.app.push_screen(screen, self._compared)

    def _compared(self, chunk_id: str | None) -> None:
        """Choose the chunk that was chosen in the comparison."""
        if chunk_id is None or self.ranked is None or chunk_id not in self.ranked.pool.chunks:
            return
        if not any(hit.chunk.id == chunk_id for hit in self.ranked.hits):
            self._show_near_misses()
        self.selected_by_user = True
        self.results.choose(chunk_id, by_user=True)
        self.near.choose(chunk_id, by_user=True)
        self.select(chunk_id)

    def _show_near_misses(self) -> None:
        """Bring the candidates that are not in the list on screen."""
        if not self.has_class("-near"):
            self.near_wanted = True
            self.apply_layout()
            self.redraw_lists()

    # --- given by the other concerns ------------------------------------------------------------

    def _explain(self, ranked: Ranked, subject: Subject, ranking: Ranking | None = None) -> None:
        """Open the whole arithmetic of a chunk of a list; `ranking` is what was asked for."""
        raise NotImplementedError

"""The index from the search screen: its status, syncing, rebuilding, stopping."""

from __future__ import annotations

from math import inf
from time import monotonic
from typing import TYPE_CHECKING

from memtui.bus import ForeignExamined, LegDegraded, LegRecovered, SyncFailed, SyncFinished
from memtui.model import IndexState
from memtui.report import status as words
from memtui.text.sanitize import safe_line
from memtui.tui.background import in_background, tell
from memtui.tui.place_actions import app_of
from memtui.tui.widgets import index_status
from memtui.tui.widgets.result_rows import empty_memory

if TYPE_CHECKING:
    from memtui.tui.screens.search.search_screen import SearchScreen

BRIEF_SECONDS = 0.5
"""A sync that is over sooner is named in the status bar alone."""


class IndexController:
    """Status bar, index pane and the keys of the index."""

    def __init__(self, view: SearchScreen) -> None:
        self.view = view
        self.is_switched = False
        """True if the user chose another provider here, and knows why the index is built."""
        self._announced_change = ""
        self._is_sync_requested = False
        self._is_stop_requested = False
        self._indexing_since = -inf

    def tick(self) -> None:
        """Refresh the status every second while indexing, else every fifth."""
        status = self.view.status
        is_indexing = status is not None and status.state is IndexState.INDEXING
        if is_indexing or int(monotonic()) % 5 == 0:
            self.refresh_status()

    def refresh_status(self) -> None:
        """Show the newest snapshot of the index status."""
        view, engine, before = self.view, self.view.engine, self.view.status
        if engine is None:
            return
        status = view.status = engine.index.status()
        if before is None or status.provider != before.provider:
            view.search.show_title()
        change = words.provider_change(status)
        if change and change != self._announced_change:
            self._announced_change = change
            if not self.is_switched:
                in_background(
                    view,
                    engine.providers.cost,
                    lambda cost: tell(view, f"{change}: rebuilding, {words.sent_words(cost)}"),
                    description="price the rebuild",
                )
        view.status_bar.show(status)
        # A sync that has begun only just is as a rule that of one saved note, soon over: the pane
        # would grow by a line and shrink again, and everything above it with it.
        if status.state is not IndexState.INDEXING:
            self._indexing_since = -inf
        elif before is not None and before.state is not IndexState.INDEXING:
            self._indexing_since = monotonic()
        if monotonic() - self._indexing_since >= BRIEF_SECONDS:
            view.index_pane.show_status(status, engine.now())
        if not view.state.text and view.results.chosen_id is None:
            view.search.show_message(empty_memory(status))
        view.refresh_bindings()

    # --- what happened --------------------------------------------------------------------------

    def sync_ended(self, event: SyncFinished | SyncFailed) -> None:
        """Tell how a sync ended when it was asked for, and always when it failed."""
        if isinstance(event, SyncFailed):
            if self._is_stop_requested:
                tell(self.view, safe_line(event.error))
            else:
                tell(self.view, safe_line(f"sync failed: {event.error}"), error=True)
        elif self._is_sync_requested:
            stats = event.stats
            counts = {
                "added": stats.files_added,
                "changed": stats.files_changed,
                "removed": stats.files_removed,
            }
            done = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
            kind = "rebuilt" if stats.rebuild else "synced"
            tell(self.view, f"{kind}: {done or 'nothing changed'} ({stats.seconds:.1f} s)")
        self._is_sync_requested = self._is_stop_requested = False

    def examined(self, event: ForeignExamined) -> None:
        """Tell what another look at the index found, when it was asked for or failed."""
        view = self.view
        self.refresh_status()
        view.search.show_title()
        foreign = view.status.foreign if view.status is not None else None
        if event.problem:
            tell(view, safe_line(f"could not examine the index: {event.problem}"), error=True)
        elif self._is_sync_requested and foreign is not None:
            findings = index_status.counted_findings(foreign) or "nothing wrong"
            tell(view, f"examined: {findings}")
        self._is_sync_requested = False

    def leg_changed(self, event: LegDegraded | LegRecovered) -> None:
        """Tell that a leg stopped answering or answers again."""
        if isinstance(event, LegDegraded):
            why = event.detail or event.reason.value.replace("_", " ")
            tell(self.view, safe_line(f"{event.leg} leg: {why}"), warning=True)
        else:
            tell(self.view, safe_line(f"{event.leg} leg answers again"))
        self.view.search.refresh()

    # --- actions --------------------------------------------------------------------------------

    def sync(self) -> None:
        """Index what changed; open again what could not be opened."""
        view = self.view
        if view.engine is not None:
            self._is_sync_requested = True
            if view.is_foreign:
                tell(view, f"{index_status.LOOKS_AGAIN}.")
            view.engine.index.sync()
        elif view.engine_error:
            view.engine_error = ""
            view.status_bar.show_note("opening…")
            view.search.show_start()
            app_of(view).memories.open_again()
        else:
            tell(view, "Still opening.")

    def rebuild(self) -> None:
        """Ask before indexing everything again, with the price."""
        from memtui.tui.screens.dialogs import ask_to_rebuild

        view = self.view
        if view.engine is None:
            tell(view, "Still opening.")
        elif view.is_foreign:
            tell(view, f"{index_status.REBUILD_HINT}.")
        else:

            def begun() -> None:
                self._is_sync_requested = True

            ask_to_rebuild(view, view.engine, view.glyphs, begun)

    def stop(self) -> bool:
        """Stop the indexing that runs; false when none does."""
        status, engine = self.view.status, self.view.engine
        if engine is None or status is None or status.state is not IndexState.INDEXING:
            return False
        self._is_stop_requested = True
        engine.index.cancel()
        self.view.rankings.note("stopping…")
        return True

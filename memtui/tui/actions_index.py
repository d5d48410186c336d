"""The index from the search screen: its status, syncing, rebuilding, stopping."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from time import monotonic
from typing import TYPE_CHECKING

from textual import on, work
from textual.binding import Binding
from textual.getters import query_one

from memtui.model import IndexState, IndexStatus
from memtui.text.sanitize import safe_line
from memtui.tui import provider_words as words
from memtui.tui.actions_inquiry import InquiryActions
from memtui.tui.messages import (
    ChangePriced,
    IndexExamined,
    LegChanged,
    OpenAgain,
    RebuildPriced,
    SyncEnded,
)
from memtui.tui.widgets import foreign_status
from memtui.tui.widgets.index_status import IndexStatusPane
from memtui.tui.widgets.status_bar import StatusBar

if TYPE_CHECKING:
    from memtui.engine import Engine

PRICE = "price the rebuild"
BRIEF_SECONDS = 0.5
"""A sync that is over sooner is named in the status bar alone."""
EXAMINE = "Look at the agent's index again; nothing of it is changed"


class IndexActions(InquiryActions):
    """Status bar, index pane and the keys of the index."""

    index_pane = query_one("#index-status", IndexStatusPane)

    is_switched = False
    """Whether the user went over to another provider here, and knows why the index is built."""
    _told_change = ""
    _sync_asked = False
    _stop_asked = False
    _ticks = 0
    _indexing_since = -inf

    def tick(self) -> None:
        """Refresh the status every second while indexing, else every fifth."""
        self._ticks += 1
        indexing = self.status is not None and self.status.state is IndexState.INDEXING
        if indexing or self._ticks % 5 == 0:
            self.refresh_status()

    def refresh_status(self) -> None:
        """Show the newest snapshot of the index status."""
        if self.engine is None:
            return
        status = self.engine.index.status()
        is_other = self.status is None or status.provider != self.status.provider
        is_brief = self._is_brief_sync(status)
        self.status = status
        if is_other:
            self.show_subtitle()
        # An agent's remote provider is asked when Enter is pressed, and not after a pause.
        self.flow.remote = status.provider.remote and status.foreign is None
        self._tell_other_provider(status)
        self.status_bar.show(status)
        if not is_brief:
            self.index_pane.show(status, self.engine.now())
        if not self.flow.wanted and self.message.display:
            self.show_empty(status)
        self.show_bindings()

    def _is_brief_sync(self, status: IndexStatus) -> bool:
        """Whether a sync has begun only just: as a rule that of one saved note, soon over.

        The pane would grow by a line and shrink again, and everything above it with it.
        """
        if status.state is not IndexState.INDEXING:
            self._indexing_since = -inf
        elif self.status is not None and self.status.state is not IndexState.INDEXING:
            self._indexing_since = monotonic()
        return monotonic() - self._indexing_since < BRIEF_SECONDS

    def _tell_other_provider(self, status: IndexStatus) -> None:
        """Tell once that the index is built anew because the settings want another provider."""
        change = words.provider_change(status)
        if not change or change == self._told_change or self.engine is None:
            return
        self._told_change = change
        if not self.is_switched:
            self._price_change(self.engine, change)

    @work(thread=True, exclusive=True, group="change", exit_on_error=False, description=PRICE)
    def _price_change(self, engine: Engine, change: str) -> None:
        self.post_message(ChangePriced(change, engine.index.rebuild_cost()))

    @on(ChangePriced)
    def change_priced(self, message: ChangePriced) -> None:
        """Say what the other provider costs."""
        message.stop()
        self.tell(f"{message.change}: rebuilding, {words.sent_words(message.cost)}")

    def sync_ended(self, message: SyncEnded) -> None:
        """Tell how a sync ended when it was asked for, and always when it failed."""
        if message.error and self._stop_asked:
            self.tell(safe_line(message.error))
        elif message.error:
            self.tell(safe_line(f"sync failed: {message.error}"), error=True)
        elif self._sync_asked:
            self.tell(safe_line(message.note))
        self._sync_asked = self._stop_asked = False

    def index_examined(self, message: IndexExamined) -> None:
        """Tell what another look at the index found, when it was asked for or failed."""
        self.refresh_status()
        self.show_subtitle()
        foreign = self.status.foreign if self.status is not None else None
        if message.problem:
            self.tell(safe_line(f"could not examine the index: {message.problem}"), error=True)
        elif self._sync_asked and foreign is not None:
            found = foreign_status.counted_findings(foreign) or "nothing wrong"
            self.tell(f"examined: {found}")
        self._sync_asked = False

    def leg_changed(self, message: LegChanged) -> None:
        """Tell that a leg stopped answering or answers again."""
        self.tell(safe_line(message.note), warning=not message.healthy)
        self.refresh_results()

    def content_changed(self) -> None:
        """Follow the index: read the note again, ask the query again."""
        self.reload_source()
        self.refresh_results()

    def worded(self, binding: Binding) -> Binding:
        """Over another program's index there is nothing to sync and no rebuild to offer."""
        if not self.is_foreign:
            return binding
        match binding.action:
            case "sync":
                return replace(binding, description="examine", tooltip=EXAMINE)
            case "rebuild":
                return replace(binding, description="")
            case _:
                return binding

    def action_sync(self) -> None:
        """Index what changed."""
        if self.engine is None and self.engine_error:
            self.engine_error = ""
            self.status_bar.show_note("opening…")
            self.show_start()
            self.app.post_message(OpenAgain())
            return
        if self.engine is None:
            self.tell("Still opening.")
            return
        self._sync_asked = True
        if self.is_foreign:
            self.tell(f"{foreign_status.LOOKS_AGAIN}.")
        self.engine.index.sync()

    def action_rebuild(self) -> None:
        """Ask before indexing everything again, with the price."""
        if self.engine is None:
            self.tell("Still opening.")
            return
        if self.is_foreign:
            self.tell(f"{foreign_status.REBUILD_HINT}.")
            return
        self._price_rebuild(self.engine)

    @work(thread=True, exclusive=True, group="price", exit_on_error=False, description=PRICE)
    def _price_rebuild(self, engine: Engine) -> None:
        self.post_message(RebuildPriced(engine.index.rebuild_cost()))

    @on(RebuildPriced)
    def rebuild_priced(self, message: RebuildPriced) -> None:
        """Show the price and wait for a yes."""
        from memtui.tui.screens.dialogs import ConfirmRebuild

        provider = self.status.provider if self.status is not None else None
        name = (provider.actual or provider.requested) if provider is not None else ""
        self.app.push_screen(ConfirmRebuild(message.cost, name), self._rebuild_confirmed)

    def _rebuild_confirmed(self, confirmed: bool | None) -> None:
        if confirmed and self.engine is not None:
            self._sync_asked = True
            self.engine.index.rebuild()

    def stop_running(self) -> bool:
        """Stop the search or the indexing that runs; false when nothing does."""
        if self.flow.running:
            self.flow.complete = True
            self.flow.sequence = -1
            self.query_bar.show_note("stopped")
            return True
        if self.engine is None or self.status is None:
            return False
        if self.status.state is not IndexState.INDEXING:
            return False
        self._stop_asked = True
        self.engine.index.cancel()
        self.note("stopping…")
        return True

    @on(StatusBar.Clicked)
    async def status_clicked(self) -> None:
        """Open the index screen."""
        await self.app.run_action("show_index")

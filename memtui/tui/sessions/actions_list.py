"""The list of conversations: looking for them, counting, filtering, sorting."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from textual import on, work
from textual.content import Content
from textual.widgets import Input, Static
from textual.worker import get_current_worker

from memtui.errors import Cancelled
from memtui.model import Ranked
from memtui.model.conversations import ConversationListing
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.sessions.base import SessionsBase
from memtui.tui.sessions.listing import (
    NOTHING,
    SORTS,
    best_chunk,
    filtered,
    found_of,
    in_order,
    listing_facts,
    listing_row,
)
from memtui.tui.sessions.messages import ConversationsCounted, ConversationsFound
from memtui.tui.widgets.result_list import query_terms
from memtui.tui.widgets.row_list import RowList

if TYPE_CHECKING:
    from memtui.engine import Engine

COUNTED_SECONDS = 0.25
"""What is counted is shown so often at most."""
RELOAD_SECONDS = 0.5


class ListActions(SessionsBase):
    """Conversations, newest first or in another order."""

    _sort = SORTS[0]
    _found = False
    """Whether the transcripts were looked for."""
    _error = ""
    _counting = False
    _reload_soon = False
    _is_behind = False
    """Whether the index changed since the last look."""
    _look_took = 0.0
    """Seconds."""

    # --- looking --------------------------------------------------------------------------------

    def load(self) -> None:
        """Look for conversations."""
        if self.engine is not None:
            self._look(self.engine)

    def content_changed(self) -> None:
        """Follow a changed index: bursts become one look, behind another screen none."""
        self._is_behind = True
        self.catch_up()

    def catch_up(self) -> None:
        """Look again, some time after the last look, if something changed since."""
        if self._is_behind and self.is_mounted and self.is_current and not self._reload_soon:
            self._reload_soon = True
            # A look at thousands of transcripts takes its time from whoever indexes them.
            self.set_timer(max(RELOAD_SECONDS, 5 * self._look_took), self._reload)

    def _reload(self) -> None:
        self._reload_soon = self._is_behind = False
        self.load()
        self.asked_changed()

    @work(
        thread=True, exclusive=True, group="conversations", exit_on_error=False,
        description="list the conversations",
    )  # fmt: skip
    def _look(self, engine: Engine) -> None:
        began = time.monotonic()
        try:
            found = ConversationsFound(
                engine.conversations.listings(), engine.conversations.sources()
            )
        except Exception as error:
            # Whatever a folder of transcripts does to its reader is one line of this screen.
            found = ConversationsFound((), (), str(error) or type(error).__name__)
        found.seconds = time.monotonic() - began
        self.post_message(found)

    @on(ConversationsFound)
    def conversations_found(self, message: ConversationsFound) -> None:
        """Show what there is, and go on counting what takes reading."""
        message.stop()
        self._found, self._error = True, message.error
        self._look_took = message.seconds
        if message.error and self.listings:
            self.tell(safe_line(f"cannot list the conversations: {message.error}"), error=True)
            return
        known = self.listings
        self.listings = {each.path: _with_counts(each, known) for each in message.listings}
        self.sources = tuple(message.sources)
        self.show_list()
        self.conversation_changed()
        due = [each for each in self.listings.values() if each.turns is None]
        if due and self.engine is not None:
            self._counting = True
            self._count(self.engine, due)

    @work(
        thread=True, exclusive=True, group="count", exit_on_error=False,
        description="count the turns of the conversations",
    )  # fmt: skip
    def _count(self, engine: Engine, listings: Sequence[ConversationListing]) -> None:
        worker = get_current_worker()
        waiting: list[ConversationListing] = []
        told = time.monotonic()

        def counted(listing: ConversationListing) -> None:
            nonlocal told
            waiting.append(listing)
            if time.monotonic() - told > COUNTED_SECONDS:
                told = time.monotonic()
                self.post_message(ConversationsCounted(tuple(waiting), is_all=False))
                waiting.clear()

        try:
            engine.conversations.count(listings, counted, cancelled=lambda: worker.is_cancelled)
        except Cancelled:
            return
        self.post_message(ConversationsCounted(tuple(waiting), is_all=True))

    @on(ConversationsCounted)
    def conversations_counted(self, message: ConversationsCounted) -> None:
        """Fill in what was counted."""
        message.stop()
        for listing in message.listings:
            if listing.path in self.listings:
                self.listings[listing.path] = listing
        self._counting = not message.is_all
        self.show_list()

    # --- drawing --------------------------------------------------------------------------------

    def show_list(self) -> None:
        """Draw the list, the chosen row as it was."""
        found = found_of(self._ranked)
        text = self.filter_input.value
        fitting, problems = filtered(tuple(self.listings.values()), text)
        shown = in_order(fitting, self._sort, found)
        self._name_list(len(shown), problems)
        widget = self.conversations
        if not shown:
            widget.show_message(self._nothing(text))
        else:
            lines = 1 if self.is_small else 2
            rows = [listing_row(each, found.get(each.path, NOTHING), lines=lines) for each in shown]
            widget.set_rows(rows, keep=widget.chosen_id or self.reading_path)
        self.show_facts()

    @property
    def reading_path(self) -> str:
        """The path of the conversation in the reader; empty without one."""
        return ""

    def _name_list(self, shown: int, problems: Sequence[str]) -> None:
        total = len(self.listings)
        number = fmt.count(total) if shown == total else f"{fmt.count(shown)}/{fmt.count(total)}"
        done = sum(1 for each in self.listings.values() if each.turns is not None)
        told = f"counting {fmt.count(done)}/{fmt.count(total)}  " if self._counting else ""
        self.conversations.border_title = Content(f"Conversations  {number}")
        self.conversations.border_subtitle = Content(f"{told}{self._sort}")
        count = self.query_one("#sessions-count", Static)
        if problems:
            count.update(Content.styled(safe_line(problems[0]), "$state-warn"), layout=False)
        else:
            none = sum(1 for each in self.listings.values() if each.chunks is None)
            told = f"{fmt.count(none)} not indexed  O sources" if none else ""
            count.update(self.dim(told), layout=False)

    def _nothing(self, text: str) -> list[Content]:
        """Why there is nothing to see: an error, a filter, or no transcripts."""
        if self._error:
            return [self.error_line(self._error)]
        if not self._found:
            return [self.dim(f"looking for conversations{self.glyphs.ellipsis}")]
        if self.listings:
            return [
                Content(f"No conversation has {safe_line(text)!r}."),
                self.dim("esc  leaves the filter, and then clears it"),
            ]
        lines = [Content("No conversations found."), Content("")]
        for source in self.sources:
            place = fmt.home_relative(source.folder) if source.folder else "no such folder"
            lines.append(self.dim(f"{safe_line(source.name)}: {place}"))
        lines += [Content(""), Content("O  chooses which transcripts are indexed")]
        return lines

    def show_facts(self) -> None:
        """Tell what there is to know of the chosen conversation."""
        listing = self.chosen
        if listing is None:
            self.facts.show(())
            return
        found = found_of(self._ranked).get(listing.path, NOTHING)
        self.facts.show(listing_facts(listing, found))

    # --- keys -----------------------------------------------------------------------------------

    @property
    def chosen(self) -> ConversationListing | None:
        """The conversation of the chosen row."""
        return self.listings.get(self.conversations.chosen_id or "")

    @on(Input.Changed, "#sessions-filter")
    def filter_changed(self, event: Input.Changed) -> None:
        """Filter as it is typed."""
        event.stop()
        self.show_list()

    @on(Input.Submitted, "#sessions-filter")
    def filter_submitted(self, event: Input.Submitted) -> None:
        """Go to the list."""
        event.stop()
        self.show_pane("list")

    @on(RowList.Chosen, "#conversations")
    def conversation_chosen(self, message: RowList.Chosen) -> None:
        """Tell what there is to know of it."""
        message.stop()
        self.show_facts()

    @on(RowList.Opened, "#conversations")
    def conversation_opened(self, message: RowList.Opened) -> None:
        """Read it."""
        message.stop()
        self.came_to_read = False
        path = message.row_id
        best = None if path == self.reading_path else best_chunk(self._ranked, path)
        if best is None:
            self.read(path, terms=self.terms)
        else:
            terms = self.answer_terms()
            self.read(path, best.start_line, end_line=best.end_line, terms=terms)
        self.show_pane("reader")

    @property
    def _ranked(self) -> Ranked | None:
        return self.main_app.search_screen.ranked

    def answer_terms(self) -> tuple[str, ...]:
        """The words of the query of the present answer."""
        return query_terms(self._ranked) if self._ranked is not None else ()

    def action_sort(self) -> None:
        """Show the list in the next order."""
        self._sort = SORTS[(SORTS.index(self._sort) + 1) % len(SORTS)]
        self.show_list()


def _with_counts(
    listing: ConversationListing, known: dict[str, ConversationListing]
) -> ConversationListing:
    """What was counted before stays until it is counted anew, unless the file changed."""
    before = known.get(listing.path)
    if before is None or listing.turns is not None:
        return listing
    if (before.size, before.changed) != (listing.size, listing.changed):
        return listing
    return replace(
        listing,
        title=listing.title or before.title,
        model=listing.model or before.model,
        started=listing.started or before.started,
        ended=listing.ended or before.ended,
        turns=before.turns,
        calls=before.calls,
        malformed=before.malformed,
    )

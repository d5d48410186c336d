"""What the agent asked its memory: finding the searches, and asking them again."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from textual import on, work
from textual.content import Content
from textual.getters import query_one
from textual.widgets import Static
from textual.worker import get_current_worker

from memtui.errors import Cancelled
from memtui.model import Ranking
from memtui.model.conversations import MemoryCall, Replayed, TranscriptKind, TurnKind
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui import provider_words
from memtui.tui.sessions.actions_within import WithinActions
from memtui.tui.sessions.asked import (
    call_row,
    comparison_rows,
    fact_query,
    is_comparable,
    same_words,
    silent_kinds,
    then_words,
)
from memtui.tui.sessions.base import HUGE
from memtui.tui.sessions.messages import CallReplayed, CallsFound
from memtui.tui.widgets.row_list import RowList

if TYPE_CHECKING:
    from memtui.engine import Engine

TOLD_SECONDS = 0.25
"""What is found is shown so often at most."""
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class AskedActions(WithinActions):
    """The searches of one conversation, or of all, then and now."""

    comparison = query_one("#comparison", RowList)

    _all = False
    """Whether the searches of every conversation are listed."""
    _calls: dict[str, MemoryCall]
    _replays: dict[str, Replayed]
    _calls_of: str | None = None
    """Whose searches are listed: a path, empty for all, `None` before the first."""
    _calls_ticket = 0
    _calls_known = False
    _calls_error = ""
    _replayed_with: Ranking | None = None
    _chosen_call = ""
    _asked_of = ""
    """The conversation that is meant by this one."""
    _is_refresh = False
    """Whether what is listed stays until everything is found again."""
    _is_outdated = False
    """Whether the index or the parameters changed since everything was asked again."""
    _show_soon = False

    @property
    def is_asked_shown(self) -> bool:
        """Whether there is a place where the searches are listed."""
        return self.pane == "asked" or (self.size.width >= HUGE and not self.is_small)

    # --- finding --------------------------------------------------------------------------------

    def calls_wanted(self, of: str = "", *, is_grown: bool = False) -> None:
        """List the searches of a conversation, where there is a place for them.

        Without `of` of the one that was meant last. What is listed already is looked for again
        where the conversation is grown.
        """
        if is_grown and of != self._asked_of:
            return
        self._asked_of = of or self._asked_of or self.conversations.chosen_id or ""
        if not self.is_asked_shown or self.engine is None:
            return
        wanted = "" if self._all else self._asked_of
        if not (wanted or self._all):
            return
        if wanted != self._calls_of:
            self._calls_of, self._is_refresh = wanted, False
            self._calls, self._replays = {}, {}
            self._calls_known, self._calls_error = False, ""
            self.show_calls()
        elif is_grown:
            self._is_refresh = self._calls_known
        else:
            if self._is_outdated:
                self.replay_all()
            return
        self._find_calls_anew(self.engine)

    def _find_calls_anew(self, engine: Engine) -> None:
        self._calls_ticket += 1
        paths = [self._calls_of] if self._calls_of else None
        self._find_calls(engine, paths, self._calls_ticket)

    @work(
        thread=True, exclusive=True, group="calls", exit_on_error=False,
        description="find what the memory was asked",
    )  # fmt: skip
    def _find_calls(self, engine: Engine, paths: Sequence[str] | None, ticket: int) -> None:
        worker = get_current_worker()
        waiting: list[MemoryCall] = []
        told = time.monotonic()

        def found(calls: Sequence[MemoryCall]) -> None:
            nonlocal told
            waiting.extend(calls)
            if waiting and time.monotonic() - told > TOLD_SECONDS:
                told = time.monotonic()
                self.post_message(CallsFound(ticket, tuple(waiting), False))
                waiting.clear()

        try:
            calls = engine.conversations.memory_calls(
                paths, found=found, cancelled=lambda: worker.is_cancelled
            )
            message = CallsFound(ticket, tuple(calls), True)
        except Cancelled:
            return
        except Exception as error:
            # Whatever a transcript does to its reader is one line of this pane.
            message = CallsFound(ticket, (), True, str(error) or type(error).__name__)
        self.post_message(message)

    @on(CallsFound)
    def calls_found(self, message: CallsFound) -> None:
        """List what was found so far; ask it again once all is found."""
        message.stop()
        if message.ticket != self._calls_ticket or (self._is_refresh and not message.is_all):
            return
        calls = list(message.calls)
        if not message.is_all:
            calls += self._calls.values()
        calls.sort(key=lambda call: call.asked or _LONG_AGO, reverse=True)
        self._calls = _by_key(calls)
        self._calls_known, self._calls_error = message.is_all, message.error
        self.show_calls()
        if message.is_all:
            self.replay_all()

    # --- asking again ---------------------------------------------------------------------------

    def replay_all(self) -> None:
        """Ask everything again, unless that sends queries to another machine."""
        if self.engine is None or not self._calls:
            return
        self._replayed_with = self.main_app.search_screen.ranking
        self._is_outdated = False
        if self._sends(self.engine):
            self.workers.cancel_group(self, "replay")
            # What came back with other parameters, or of another index, is not what comes back now.
            self._replays = {}
        else:
            self._replay_many(self.engine, dict(self._calls), self._calls_ticket)
        self.show_calls()

    def _sends(self, engine: Engine) -> bool:
        return engine.index.status().provider.remote

    @work(
        thread=True, exclusive=True, group="replay", exit_on_error=False,
        description="ask the memory again",
    )  # fmt: skip
    def _replay_many(self, engine: Engine, calls: dict[str, MemoryCall], ticket: int) -> None:
        worker = get_current_worker()
        ranking = self._replayed_with
        while calls and not worker.is_cancelled:
            # What somebody looks at comes first.
            key = self._chosen_call if self._chosen_call in calls else next(iter(calls))
            replayed = _replayed(engine, calls.pop(key), ranking)
            if not worker.is_cancelled:
                self.post_message(CallReplayed(ticket, key, replayed))

    @on(CallReplayed)
    def call_replayed(self, message: CallReplayed) -> None:
        """Fill in what comes back now."""
        message.stop()
        if message.ticket != self._calls_ticket:
            return
        self._replays[message.key] = message.replayed
        if not self._show_soon:
            self._show_soon = True
            self.set_timer(TOLD_SECONDS, self._show_replays)

    def _show_replays(self) -> None:
        self._show_soon = False
        self.show_calls()

    def action_replay(self) -> None:
        """Ask the chosen search again."""
        call = self._calls.get(self._chosen_call)
        if call is not None and self.engine is not None:
            self._replayed_with = self.main_app.search_screen.ranking
            self._replay_one(self.engine, self._chosen_call, call, self._calls_ticket)

    @work(thread=True, group="replay-one", exit_on_error=False, description="ask the memory again")
    def _replay_one(self, engine: Engine, key: str, call: MemoryCall, ticket: int) -> None:
        replayed = _replayed(engine, call, self._replayed_with)
        self.post_message(CallReplayed(ticket, key, replayed))

    def asked_changed(self) -> None:
        """Ask again what is listed when the index or the parameters changed."""
        self._is_outdated = self._calls_known
        if self._is_outdated and self.is_asked_shown:
            self.replay_all()

    # --- drawing --------------------------------------------------------------------------------

    def show_calls(self) -> None:
        """Draw the searches and the chosen one, then and now."""
        widget = self.calls_list
        if self._calls:
            rows = [
                call_row(key, call, self._replays.get(key), self.glyphs)
                for key, call in self._calls.items()
            ]
            widget.set_rows(rows, keep=widget.chosen_id)
        else:
            widget.show_message(self._no_calls())
        self._name_calls()
        self.show_comparison()

    def _name_calls(self) -> None:
        where = "everywhere" if self._all else "here"
        number = f"  {fmt.count(len(self._calls))}" if self._calls else ""
        self.calls_list.border_title = Content(f"Asked its memory {where}{number}")
        comparable = sum(1 for call in self._calls.values() if call.returned is not None)
        told = same_words(self._replays.values(), comparable)
        self.calls_list.border_subtitle = Content(told)
        note = self.query_one("#asked-note", Static)
        silent = silent_kinds(self.sources, self._program())
        note.display = bool(silent)
        note.update(self.dim(silent))

    def _program(self) -> TranscriptKind | None:
        listing = self.listings.get(self._calls_of or "")
        return listing.kind if listing is not None else None

    def _no_calls(self) -> list[Content]:
        if self._calls_error:
            return [self.error_line(self._calls_error)]
        if self._calls_of is None:
            return [self.dim("Choose a conversation.")]
        if not self._calls_known:
            return [self.dim(f"looking for searches{self.glyphs.ellipsis}")]
        where = "any conversation" if self._all else "this conversation"
        return [
            Content(f"No search of the memory in {where}."),
            self.dim("A  this conversation alone" if self._all else "A  every conversation"),
        ]

    def show_comparison(self) -> None:
        """Draw what became of the results of the chosen search."""
        self._chosen_call = self.calls_list.chosen_id or ""
        call, widget = self._calls.get(self._chosen_call), self.comparison
        replayed = self._replays.get(self._chosen_call)
        asked = self.query_one("#asked-query", Static)
        asked.display = call is not None
        asked.update(fact_query(call) if call is not None else "")
        widget.border_title = Content("Then and now")
        widget.border_subtitle = Content(then_words(call) if call is not None else "")
        if call is None:
            widget.show_message(())
        elif replayed is None:
            widget.show_message(self._not_replayed())
        elif replayed.problem:
            widget.show_message([self.error_line(replayed.problem)])
        elif not replayed.rows:
            then = "Nothing came back then" if call.returned is not None else then_words(call)
            told = f"{then}, and nothing comes back now."
            widget.show_message([self.dim(told[0].upper() + told[1:])])
        else:
            rows = comparison_rows(replayed, self.glyphs)
            widget.set_rows(rows, keep=widget.chosen_id)
            if call.problem and not is_comparable(replayed):
                told = f"{then_words(call)}: {safe_line(call.problem)}"
                widget.border_subtitle = Content(told)

    def _not_replayed(self) -> list[Content]:
        if self.engine is None or not self._sends(self.engine):
            return [self.dim(f"asking again{self.glyphs.ellipsis}")]
        provider = self.engine.index.status().provider
        where = provider_words.place_words(provider.address, remote=provider.remote)
        return [self.dim(f"x  asks again: the query goes to {where}")]

    # --- keys -----------------------------------------------------------------------------------

    @on(RowList.Chosen, "#memory-calls")
    def call_chosen(self, message: RowList.Chosen) -> None:
        """Show what became of it."""
        message.stop()
        self.show_comparison()

    @on(RowList.Chosen, "#comparison")
    def place_chosen(self, message: RowList.Chosen) -> None:
        """Keep the choice in this pane."""
        message.stop()

    @on(RowList.Opened, "#memory-calls")
    @on(RowList.Opened, "#comparison")
    def call_opened(self, message: RowList.Opened) -> None:
        """Ask the query on the search screen."""
        message.stop()
        call = self._calls.get(self._chosen_call)
        if call is not None:
            self.main_app.run_query(safe_line(call.query))

    def open_asked(self) -> None:
        """Show what the agent asked its memory in every conversation.

        Before the screen is mounted, it is shown as soon as there is a place for it.
        """
        self._all = True
        self.pane = "asked"
        if self.is_mounted:
            self.show_pane("asked")
            self.calls_wanted()

    def action_asked(self) -> None:
        """Show what the agent asked its memory in this conversation."""
        self._all = False
        self.mean_this()
        self.show_pane("asked")
        self.calls_wanted()

    def mean_this(self) -> None:
        """Mean the conversation of the pane in front from now on."""
        if self.pane == "list":
            self._asked_of = self.conversations.chosen_id or ""
        elif self.pane == "reader":
            self._asked_of = self.reading_path

    def action_asked_everywhere(self) -> None:
        """List the searches of every conversation, or of this one alone."""
        self._all = not self._all
        self.show_pane("asked")
        self.calls_wanted()

    def action_turn_of_call(self) -> None:
        """Show the turn in which the chosen search was asked."""
        call = self._calls.get(self._chosen_call)
        if call is not None:
            self.read(call.path, call.line, kind=TurnKind.TOOL_CALL)
            self.show_pane("reader")

    def action_place_of_result(self) -> None:
        """Show the chosen place of the memory on the browse screen."""
        replayed = self._replays.get(self._chosen_call)
        at = self.comparison.chosen_id
        if replayed is not None and at is not None:
            row = replayed.rows[int(at)]
            self.main_app.open_place(row.path, max(1, row.start_line), row.chunk_id or None)


def _by_key(calls: Sequence[MemoryCall]) -> dict[str, MemoryCall]:
    """Calls by what tells them apart, wherever in the list they are."""
    keyed: dict[str, MemoryCall] = {}
    for call in calls:
        key = name = f"{call.line}:{call.path}:{call.tool}:{call.query}"
        number = 1
        while key in keyed:
            number += 1
            key = f"{number}:{name}"
        keyed[key] = call
    return keyed


def _replayed(engine: Engine, call: MemoryCall, ranking: Ranking | None) -> Replayed:
    try:
        return engine.conversations.replay(call, ranking=ranking)
    except Exception as error:
        # Whatever the index does is told in the place of the comparison.
        return Replayed(call, (), safe_line(str(error) or type(error).__name__))

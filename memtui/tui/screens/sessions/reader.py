"""The reader: one conversation, its turns, what is looked for in it, and following it."""

from __future__ import annotations

import os
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.getters import query_one
from textual.timer import Timer
from textual.widgets import Input, Static

from memtui.model import Chunk, Ranked, Reason
from memtui.model.conversations import ConversationListing, Turn, TurnKind
from memtui.report.words import left_out_words
from memtui.text.sanitize import safe, safe_line
from memtui.tui import format as fmt
from memtui.tui.background import in_thread, tell
from memtui.tui.glyphs import Glyphs
from memtui.tui.screens.sessions.listing import badge
from memtui.tui.screens.sessions.page import Borders, Edge, turn_of, turn_with_words
from memtui.tui.screens.sessions.pane import Pane, aside, error_line
from memtui.tui.screens.sessions.turn_view import TurnView
from memtui.tui.widgets.query_bar import SafeInput
from memtui.tui.widgets.result_rows import query_terms

if TYPE_CHECKING:
    from memtui.engine.conversations.reading import OpenConversation

WATCH_SECONDS = 3.0
"""So often the file of the conversation in the reader is looked at."""
TYPED_SECONDS = 0.2
"""Without keys for so long, the text that is typed is looked for."""
_WRITTEN_AHEAD = "-wal"
"""What the name of a database's newest pages ends with."""

Stat = tuple[tuple[int, int], ...]
"""Size in bytes and mtime in ns of each file that holds a conversation."""


class Goal(NamedTuple):
    """The turn that has to be in front once a conversation is read."""

    line: int
    end_line: int | None
    """The last line of the chunk that begins there, where one was asked for."""
    kind: TurnKind
    """The kind of turn that is meant where a line has several."""

    def place(self, turns: Sequence[Turn], terms: Sequence[str]) -> int:
        """Return the turn that is meant."""
        if self.end_line is None:
            return turn_of(turns, self.line, self.kind)
        return turn_with_words(turns, self.line, self.end_line, terms)


def turns_of_answer(
    ranked: Ranked | None, path: str, turns: Sequence[Turn], terms: Sequence[str]
) -> Sequence[int]:
    """Return the turns of the chunks that an answer has in a conversation."""
    if ranked is None or not terms:
        return ()
    results = {hit.chunk.id for hit in ranked.hits}
    return sorted(
        {
            turn_with_words(turns, chunk.start_line, chunk.end_line, terms)
            if chunk.id in results
            else turn_of(turns, chunk.start_line)
            for chunk in ranked.pool.chunks.values()
            if chunk.path == path
        }
    )


def stat_of(listing: ConversationListing) -> Stat:
    """Return size in bytes and mtime in ns of what holds a conversation; empty when it is gone."""
    stats = []
    for path in (listing.place, listing.place + _WRITTEN_AHEAD)[: 2 if listing.session else 1]:
        try:
            state = os.stat(path)
        except OSError:
            # Gone or not to be looked at: what that means is told by who lists or reads it.
            continue
        stats.append((state.st_size, state.st_mtime_ns))
    return tuple(stats)


class ReaderPane(Pane):
    """One conversation, and what is looked for in it."""

    view = query_one("#turns", TurnView)
    within_input = query_one("#within", Input)

    def __init__(self, glyphs: Glyphs) -> None:
        super().__init__(glyphs, id="sessions-reader")
        self.conversation: OpenConversation | None = None
        """What is shown."""
        self.path = ""
        """Of what is being read, or was read last."""
        self.needle = ""
        """The text that is looked for; empty when none is."""
        self.matches: Sequence[int] = ()
        """The turns that hold the text; else those of the chunks of the present answer."""
        self._is_looking = False
        self._terms: tuple[str, ...] = ()
        """The words of the query that led to what is read."""
        self._borders = Borders(())
        self._goal: Goal | None = None
        self._typed: Timer | None = None
        self._stat: tuple[str, Stat] | None = None
        """The path of the conversation that was looked at last, and its files."""
        self._next_look = 0.0
        """When the conversations may be listed again, by the monotonic clock."""

    def compose(self) -> ComposeResult:
        """The turns, and below them the text that is looked for."""
        yield TurnView(self.glyphs, id="turns")
        with Horizontal(id="within-bar"):
            yield Static(Content(" / "), id="within-prompt", markup=False)
            yield SafeInput(placeholder="find in this conversation", id="within", compact=True)

    def on_mount(self) -> None:
        """Say what to do, and look at what is read from time to time."""
        self.view.show_message([aside("Choose a conversation to read it here.")])
        self.show_title()
        self.set_interval(WATCH_SECONDS, self.look)

    # --- reading --------------------------------------------------------------------------------

    def read(
        self,
        path: str,
        line: int | None = None,
        *,
        end_line: int | None = None,
        kind: TurnKind = TurnKind.MESSAGE,
        terms: Sequence[str] = (),
    ) -> None:
        """Read a conversation with the words of a query marked.

        With a line its turn is put in front; of several the first one of `kind`. With an end line
        it is the turn up to there that holds the most of the words.
        """
        is_shown = self.conversation is not None and self.conversation.listing.path == path
        self.path, self._terms = path, tuple(terms)
        self._goal = Goal(line, end_line, kind) if line is not None else None
        if is_shown and self._goal is not None:
            self._reach_goal()
            return
        if not is_shown:
            self.conversation = None
            self.view.show_message([aside(f"reading{self.glyphs.ellipsis}")])
            self.stop_looking()
        engine = self.engine
        if engine is None:
            return

        def work(cancelled: Callable[[], bool]) -> tuple[OpenConversation, Borders, list[Edge]]:
            conversation = engine.conversations.read(path, cancelled=cancelled)
            borders = Borders(engine.browse.chunks_of(path))
            return conversation, borders, borders.edges(conversation.turns)

        in_thread(
            self, work, lambda answer: self._show(*answer), self._not_read,
            description="read the conversation", group="conversation",
        )  # fmt: skip

    def read_best(self, path: str, best: Chunk | None) -> None:
        """Read a conversation, at the chunk of it that the present answer has."""
        if best is None:
            self.read(path, terms=self._terms)
        else:
            terms = self.answer_terms()
            self.read(path, best.start_line, end_line=best.end_line, terms=terms)

    def answer_terms(self) -> tuple[str, ...]:
        """Return the words of the query of the present answer."""
        ranked = self.ranked
        return query_terms(ranked) if ranked is not None else ()

    def _not_read(self, error: str) -> None:
        self.conversation, self._borders = None, Borders(())
        self.view.show_message([error_line(error, self.glyphs)])
        self.show_title()

    def _show(
        self, conversation: OpenConversation, borders: Borders, edges: Sequence[Edge]
    ) -> None:
        """Show what was read, where the reader was or at the line that is asked for."""
        before, view = self.conversation, self.view
        self.conversation, self._borders = conversation, borders
        turns = conversation.turns
        is_again = before is not None and before.listing.path == self.path
        is_same = is_again and _begins_with(turns, view.turns)
        at = turn_of(turns, 1)
        if is_again and view.turn is not None:
            at = view.at if is_same else turn_of(turns, view.turn.line, view.turn.kind)
        view.show_turns(turns, at=at, edges=edges, folds=view.folds if is_same else None)
        self._look_again()
        if self._goal is not None:
            self._reach_goal()
        # One that was indexed since the list was made has no row yet.
        self.sessions.conversations.listings[self.path] = conversation.listing
        self.sessions.conversations.take_counts((conversation.listing,))
        self.show_title()
        self.sessions.asked.list_calls(self.path, is_grown=is_again)

    def _reach_goal(self) -> None:
        """Put the turn that is asked for in front, opened, with the marked words in sight."""
        goal, self._goal = self._goal, None
        self._look_again()
        if goal is not None:
            self.view.front(goal.place(self.view.turns, self._terms))
        self.show_title()

    def follow(self, now: ConversationListing | None) -> None:
        """Read the conversation again when its file, or what the index has of it, changed."""
        if self.conversation is None:
            return
        before = self.conversation.listing
        if now is not None and (now.size, now.changed, now.chunks) != (
            *(before.size, before.changed, before.chunks),
        ):
            self.read(now.path, terms=self._terms)
        else:
            self.show_title()

    # --- the title ------------------------------------------------------------------------------

    @on(TurnView.Moved)
    def show_title(self) -> None:
        """Say what is read, and where in it the reader is."""
        view, turn = self.view, self.view.turn
        view.border_title, view.border_subtitle = Content("Conversation"), Content("")
        if self.conversation is None:
            return
        listing = self.conversation.listing
        view.border_title = Content(safe_line(safe_line(listing.title) or listing.path))
        if turn is None:
            return
        conversations = self.sessions.conversations
        now = conversations.listings.get(self.path)
        chunk = self._borders.at(turn.line)
        entry = f"entry {fmt.count(view.at + 1)}/{fmt.count(len(view.turns))}"
        parts = (
            (
                "gone from the disk" if conversations.is_loaded and now is None else "",
                "$state-warn",
            ),
            (badge(now) if now and now.state is Reason.STALE else "", "$state-warn"),
            (self._counter(), "$mark"),
            (f"chunk {fmt.count(chunk[0])}/{fmt.count(len(self._borders))}" if chunk else "", ""),
            (entry, ""),
        )
        view.border_subtitle = Content("  ").join(
            Content.styled(part, style) for part, style in parts if part
        )

    def _counter(self) -> str:
        """Say which of how many turns with what is looked for is in front."""
        if self._is_looking:
            return f"looking{self.glyphs.ellipsis}"
        if not self.matches:
            return "not found" if self.needle else ""
        number = bisect_right(self.matches, self.view.at)
        return f"{fmt.count(number)}/{fmt.count(len(self.matches))}"

    # --- whole texts ----------------------------------------------------------------------------

    @on(TurnView.WholeWanted)
    def whole_wanted(self, message: TurnView.WholeWanted) -> None:
        """Read the whole text of a turn."""
        message.stop()
        self._read_whole(message.at)

    def _read_whole(self, at: int, *, is_for_match: bool = False) -> None:
        conversation = self.conversation
        if conversation is None:
            return

        def show(text: str) -> None:
            if conversation is self.conversation:
                self.view.take_whole(at, text)
                if is_for_match and at == self.view.at:
                    self.view.to_match()

        in_thread(
            self,
            lambda cancelled: conversation.whole(at).text,
            show,
            lambda error: tell(self.sessions, f"cannot show the whole text: {error}", error=True),
            description="read the whole text",
            group=f"whole {at}",
        )

    # --- looking for a text ---------------------------------------------------------------------

    def open_within(self) -> None:
        """Ask for the text to look for."""
        if self.conversation is None:
            tell(self.sessions, "Nothing to look through: open a conversation first.")
            return
        self.screen.add_class("-within")
        self.within_input.focus()
        self.within_input.action_select_all()

    def stop_looking(self) -> bool:
        """Look for nothing any more; whether something was looked for."""
        was_looking = bool(self.needle) or self.screen.has_class("-within")
        if self._typed is not None:
            self._typed.stop()
        self.screen.remove_class("-within")
        with self.within_input.prevent(Input.Changed):
            self.within_input.value = ""
        self._look_again()
        self.show_title()
        return was_looking

    def _look_again(self) -> None:
        """Mark what is looked for in what was read, and look through it again."""
        self._look_for(self.within_input.value if self.needle else "")

    def _look_for(self, needle: str) -> None:
        self.needle, self.matches, self._is_looking = needle, (), bool(needle)
        self.view.mark(self._terms, needle)
        self.workers.cancel_group(self, "find")
        conversation = self.conversation
        if conversation is None:
            return
        if needle:
            in_thread(
                self,
                lambda cancelled: conversation.find(needle, cancelled=cancelled),
                self._show_matches,
                self._not_looked,
                description="look through the conversation",
                group="find",
            )
        else:
            self.matches = turns_of_answer(self.ranked, self.path, self.view.turns, self._terms)

    def _not_looked(self, error: str) -> None:
        tell(self.sessions, f"cannot look through it: {error}", error=True)
        self._show_matches(())

    def _show_matches(self, matches: Sequence[int]) -> None:
        """Go to the first turn from here on that holds the text."""
        self._is_looking, self.matches = False, matches
        if matches:
            self._to_match(0)
        self.show_title()

    @on(Input.Changed, "#within")
    def within_changed(self, event: Input.Changed) -> None:
        """Look for what is typed, after a moment without keys."""
        event.stop()
        if self._typed is not None:
            self._typed.stop()
        self._typed = self.set_timer(TYPED_SECONDS, self._find_typed)

    @on(Input.Submitted, "#within")
    def within_submitted(self, event: Input.Submitted) -> None:
        """Look for it now, and go on reading."""
        event.stop()
        if self.within_input.value != self.needle:
            self._find_typed()
        if not self.needle:
            self.screen.remove_class("-within")
        self.view.focus()

    def _find_typed(self) -> None:
        if self._typed is not None:
            self._typed.stop()
        self._look_for(self.within_input.value)
        self.show_title()

    def match(self, step: int) -> None:
        """Go to the next, or the previous, turn with what is looked for; round at the ends."""
        if self.matches:
            self._to_match(step)
        elif not self.needle:
            self.open_within()

    def _to_match(self, step: int) -> None:
        """Go to a turn of the matches; with step 0 it may be the one in front."""
        view, matches = self.view, self.matches
        place = bisect_right(matches, view.at) if step > 0 else bisect_left(matches, view.at)
        at = matches[(place - (step < 0)) % len(matches)]
        view.front(at)
        turn, page = view.turns[at], view.page
        is_cut = turn.size > len(turn.text) and at not in view.folds.wholes
        is_seen = page is not None and view.marks.first_line(page.block(at)) is not None
        if is_cut and not is_seen:
            self._read_whole(at, is_for_match=True)
        self.show_title()

    # --- the turn in front ----------------------------------------------------------------------

    def copy_text(self) -> None:
        """Copy the text of the turn in front, as far as it is read; control characters replaced."""
        view, turn = self.view, self.view.turn
        if turn is None:
            tell(self.sessions, "Nothing to copy: open a conversation first.")
            return
        text = view.folds.wholes.get(view.at, turn.text)
        self.app.copy_to_clipboard(safe(text))
        rest = turn.size - len(text)
        more = f", {fmt.count(rest)} more are not shown: enter shows them" if rest > 0 else ""
        tell(self.sessions, f"copied {fmt.counted(len(text), 'character')}{more}")

    def show_chunk(self) -> None:
        """Show everything that the index holds about the chunk of the turn in front."""
        turn = self.view.turn
        chunk = self._borders.at(turn.line) if turn is not None else None
        if chunk is not None:
            self.sessions.main_app.open_chunk(chunk[1].id)
        elif turn is not None and turn.left_out:
            why_none = left_out_words(turn.left_out)
            tell(self.sessions, f"No chunk: this turn is left out, {why_none}.")
        else:
            tell(self.sessions, "No chunk: the index has none of this turn.")

    # --- following ------------------------------------------------------------------------------

    def look(self) -> None:
        """Look whether the conversation changed, while this screen is in front."""
        if not self.screen.is_current or self.conversation is None:
            return
        listing = self.conversation.listing
        in_thread(
            self,
            lambda cancelled: stat_of(listing),
            lambda stat: self._looked_at(listing, stat),
            description="look at the conversation",
            group="watch",
        )

    def _looked_at(self, listing: ConversationListing, stat: Stat) -> None:
        """List and read anew what changed; at thousands of transcripts less often."""
        if listing.path != self.path:
            return
        if self._stat is not None and self._stat[0] == listing.path:
            is_changed = self._stat[1] != stat
        else:
            # The rows of a database have no size of their own to compare.
            is_changed = bool(stat) and not listing.session and stat[0][0] != listing.size
        if not is_changed:
            self._stat = listing.path, stat
        elif time.monotonic() >= self._next_look:
            self._stat = listing.path, stat
            self._next_look = time.monotonic() + 5 * self.sessions.conversations.look_seconds
            self.sessions.conversations.load()


def _begins_with(turns: Sequence[Turn], before: Sequence[Turn]) -> bool:
    """Return whether a conversation only grew: what was open stays open."""
    return (
        0 < len(before) <= len(turns)
        and turns[0] == before[0]
        and turns[len(before) - 1] == before[-1]
    )

"""The reader: one conversation, its turns, what is looked for in it, and following it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from pathlib import Path

from textual import on
from textual.content import Content
from textual.getters import query_one
from textual.widgets import Input

from memtui.index.transcripts.reading import Stamp, stamp_of
from memtui.index.transcripts.turns import OpenConversation
from memtui.model import Chunk, Drop, Hit, Reason
from memtui.model.conversations import ConversationListing, Turn
from memtui.report.words import left_out_words
from memtui.text.sanitize import safe, safe_line
from memtui.tui import fmt
from memtui.tui.background import cancellation, in_background, tell
from memtui.tui.place_actions import app_of
from memtui.tui.present import error_line
from memtui.tui.screens.sessions import turn_view
from memtui.tui.screens.sessions.listing import Pane, aside, badge
from memtui.tui.widgets.query_bar import QueryBar
from memtui.tui.widgets.result_rows import query_terms

WATCH_SECONDS = 3.0
"""So often the file of the conversation in the reader is looked at."""
TYPED_SECONDS = 0.2
"""Without keys for so long, the text that is typed is looked for."""
_Reading = tuple[OpenConversation, Sequence[Chunk], Stamp]
"""A conversation, its chunks in the index, and the state of its file right after it was read."""


class ReaderPane(Pane):
    """One conversation, what is looked for in it, and following its file."""

    view = query_one("#turns", turn_view.TurnView)
    within_input = query_one("#within", Input)

    def __init__(self) -> None:
        within = QueryBar("/", "within", "find in this conversation")
        super().__init__(turn_view.TurnView(id="turns"), within, id="sessions-reader")
        self.conversation: OpenConversation | None = None
        self.path = ""
        """Of what is being read, or was read last."""
        self.needle = ""
        """The text that is looked for; empty when none is."""
        self.matches: Sequence[int] | None = ()
        """The turns that hold the text, `None` while they are looked for.

        Without a text those of the chunks of the present answer.
        """
        self._terms: Sequence[str] = ()
        """The words of the query that led to what is read."""
        self._chunks: Sequence[Chunk] = ()
        self._stamp: Stamp | None = None
        """The state of the conversation's file, as it was read or looked at last."""

    def on_mount(self) -> None:
        self.show_title()
        self.set_interval(WATCH_SECONDS, self.look)

    def read(
        self,
        path: str,
        choose: Callable[[Sequence[Turn]], int] | None = None,
        terms: Sequence[str] = (),
    ) -> None:
        """Read a conversation, and put the chosen turn in front with the words of a query marked.

        Without a choice the turn in front and the words stay.
        """
        is_shown = self.conversation is not None and self.path == path
        self.path = path
        if choose is not None:
            self._terms = terms
        if is_shown and choose is not None:
            self._go_to(choose)
            return
        if not is_shown:
            self.conversation = None
            self.view.show_message([aside("reading…")])
            self.stop_looking()
        engine = self.engine

        def work() -> _Reading:
            conversation = engine.conversations.read(path, cancelled=cancellation())
            stamp = stamp_of(Path(conversation.listing.place))
            return conversation, engine.browse.chunks_of(path), stamp

        def show(reading: _Reading) -> None:
            is_again = self.conversation is not None
            conversation, self._chunks, self._stamp = reading
            self.conversation, turns = conversation, conversation.turns
            self.view.show_turns(turns, turn_view.chunk_edges(turns, self._chunks))
            # One that was indexed since the list was made has no row yet.
            self.sessions.conversations.listings[path] = conversation.listing
            self.sessions.conversations.show()
            self._go_to(choose)
            self.sessions.searches.list_calls(path, is_grown=is_again)

        def failed(error: str) -> None:
            self.conversation, self._chunks = None, ()
            self.view.show_message([error_line(error)])
            self.show_title()

        in_background(self, work, show, failed, group="conversation")

    def read_best(self, path: str) -> None:
        """Read another conversation, at the best chunk of it that the present answer has."""
        ranked = self.ranked if path != self.path else None
        every: list[Hit | Drop] = [*ranked.hits, *ranked.drops] if ranked is not None else []
        best = next((one.chunk for one in every if one.chunk.path == path), None)
        if best is None:
            self.read(path)
        else:
            self.read_place(path, best.start_line, best.end_line)

    def read_place(self, path: str, line: int, end_line: int | None) -> None:
        """Read a conversation at a line, with the words of the present answer marked.

        With `end_line` at the turn from `line` to there that holds the most of these words.
        """
        terms = query_terms(self.ranked) if self.ranked is not None else ()
        choose = partial(turn_view.turn_with_words, line=line, end_line=end_line, terms=terms)
        self.read(path, choose, terms)

    def _go_to(self, choose: Callable[[Sequence[Turn]], int] | None) -> None:
        self._look_for(self.needle)
        if choose is not None:
            self.view.front(choose(self.view.turns))
        self.show_title()

    def follow(self, present: ConversationListing | None) -> None:
        """Read the conversation again when its file, or what the index has of it, changed."""
        if self.conversation is not None and present is not None:
            facts = attrgetter("size", "changed", "chunks")
            if facts(self.conversation.listing) != facts(present):
                self.read(present.path)

    def look(self) -> None:
        """List the conversations again where the file of this one changed."""
        conversation = self.conversation

        def take(stamp: Stamp) -> None:
            if conversation is self.conversation and stamp != self._stamp:
                self._stamp = stamp
                self.sessions.conversations.load()

        if self.screen.is_current and conversation is not None:
            in_background(
                self,
                lambda: stamp_of(Path(conversation.listing.place)),
                take,
                "look at the file of the conversation",
                group="watch",
            )

    @on(turn_view.TurnView.Moved)
    def show_title(self) -> None:
        """Say what is read, and where in it the reader is."""
        view, turn = self.view, self.view.turn
        view.border_title, view.border_subtitle = Content("Conversation"), Content("")
        can_read = self.conversation is None and self.sessions.conversations.chosen_path
        view.opens = "read" if can_read else ""
        self.screen.refresh_bindings()
        if not self.path:
            hint = "Enter reads the marked conversation here." if can_read else ""
            view.show_message([aside(hint)])
        if self.conversation is None:
            return
        listing = self.conversation.listing
        view.border_title = Content(safe_line(safe_line(listing.title) or listing.path))
        if turn is None:
            return
        conversations = self.sessions.conversations
        present = conversations.listings.get(self.path)
        counter, shown = "not found" if self.needle else "", view.shown
        if self.matches is None:
            counter = "looking…"
        elif self.matches:
            number = bisect_right(self.matches, view.at)
            counter = f"{fmt.count(number)}/{fmt.count(len(self.matches))}"
        place, chunks = turn_view.chunk_of(self._chunks, turn.line), fmt.count(len(self._chunks))
        state = "gone from the disk" if conversations.is_loaded and present is None else ""
        if present is not None and present.state is Reason.STALE:
            state = badge(present)
        parts = (
            (state, "$state-warn"),
            (counter, "$mark"),
            ("" if place is None else f"chunk {fmt.count(place + 1)}/{chunks}", ""),
            (f"entry {fmt.count(bisect_right(shown, view.at))}/{fmt.count(len(shown))}", ""),
            ("(turns and tools)", fmt.MUTED),
        )
        line = Content("  ").join(Content.styled(part, style) for part, style in parts if part)
        legend = f"  {turn_view.IN_CHUNK} indexed {turn_view.BETWEEN} not" if self._chunks else ""
        has_room = line.cell_length + len(legend) <= view.size.width - 4
        view.border_subtitle = line + Content.styled(legend if has_room else "", fmt.MUTED)

    def open_within(self) -> None:
        """Ask for the text to look for."""
        self.screen.add_class("-within")
        self.within_input.focus()
        self.within_input.action_select_all()

    def stop_looking(self) -> bool:
        """Look for nothing any more; return whether something was looked for."""
        was_looking = bool(self.needle) or self.screen.has_class("-within")
        self.delayed.stop("find")
        self.screen.remove_class("-within")
        with self.within_input.prevent(Input.Changed):
            self.within_input.value = ""
        self._look_for("")
        return was_looking

    def _look_for(self, needle: str) -> None:
        conversation, view = self.conversation, self.view
        self.needle, self.matches = needle, ()
        view.mark(self._terms, needle)
        self.workers.cancel_group(self, "find")
        if conversation is not None and not needle:
            self.matches = turn_view.turns_of_answer(
                self.ranked, self.path, view.turns, self._terms
            )
        elif conversation is not None:
            self.matches = None

            def show(matches: Sequence[int]) -> None:
                """Go to the first turn from here on that holds the text."""
                self.matches = matches
                self.match(0)
                self.show_title()

            def failed(error: str) -> None:
                tell(self.sessions, f"cannot look through it: {error}", error=True)
                show(())

            in_background(
                self,
                lambda: conversation.find(needle, cancelled=cancellation()),
                show,
                failed,
                group="find",
            )
        self.show_title()

    @on(Input.Changed, "#within")
    def within_changed(self) -> None:
        self.delayed.start("find", TYPED_SECONDS, lambda: self._look_for(self.within_input.value))

    @on(Input.Submitted, "#within")
    def within_submitted(self) -> None:
        self.delayed.stop("find")
        if self.within_input.value != self.needle:
            self._look_for(self.within_input.value)
        if not self.needle:
            self.screen.remove_class("-within")
        self.view.focus()

    def match(self, step: int) -> None:
        """Go to the next, or the previous, turn with what is looked for; round at the ends.

        With step 0 it may be the one in front.
        """
        view, matches = self.view, self.matches
        if matches:
            place = bisect_right(matches, view.at) if step > 0 else bisect_left(matches, view.at)
            at = matches[(place - (step < 0)) % len(matches)]
            view.front(at)
            if view.blocks and view.blocks[at].more and view.first_marked(at) is None:
                self._read_whole(then=view.front)
            self.show_title()
        elif not self.needle:
            tell(self.sessions, "No match to go to: / looks for a text.")

    @on(turn_view.TurnView.WholeWanted)
    def whole_wanted(self) -> None:
        if self.conversation is not None:
            self._read_whole()
        else:
            self.read_best(self.sessions.conversations.chosen_path)

    def _read_whole(self, then: Callable[[int], None] = lambda at: None) -> None:
        conversation, at = self.conversation, self.view.at
        if conversation is None:
            return

        def show(text: str) -> None:
            if conversation is self.conversation:
                self.view.show_whole(at, text)
                if at == self.view.at:
                    then(at)

        in_background(
            self,
            lambda: conversation.whole(at).text,
            show,
            "show the whole text",
            group=f"whole {at}",
        )

    def copy_text(self) -> None:
        """Copy the text of the turn in front, as far as it is read; control characters replaced."""
        view, turn = self.view, self.view.turn
        if turn is None:
            return
        text = view.wholes.get(view.at, turn.text)
        self.app.copy_to_clipboard(safe(text))
        rest = turn.size - len(text)
        more = f", {fmt.count(rest)} more are not shown: enter shows them" if rest > 0 else ""
        tell(self.sessions, f"copied {fmt.count(len(text), 'character')}{more}")

    def show_chunk(self) -> None:
        """Show everything that the index holds about the chunk of the turn in front."""
        turn = self.view.turn
        place = turn_view.chunk_of(self._chunks, turn.line) if turn is not None else None
        if place is not None:
            app_of(self.screen).open_chunk(self._chunks[place].id)
        elif turn is not None and turn.left_out:
            why_none = left_out_words(turn.left_out)
            tell(self.sessions, f"No chunk: this turn is left out, {why_none}.")
        else:
            tell(self.sessions, "No chunk: the index has none of this turn.")

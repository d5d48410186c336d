"""Looking for a text within a conversation, and going from match to match."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual import on, work
from textual.timer import Timer
from textual.widgets import Input
from textual.worker import get_current_worker

from memtui.errors import Cancelled
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.sessions.actions_reader import ReaderActions, turn_of, turn_with_words
from memtui.tui.sessions.messages import TextFound

if TYPE_CHECKING:
    from memtui.engine.conversations.reading import OpenConversation

TYPED_SECONDS = 0.2
"""Without keys for so long, the text that is looked for is looked for."""


class WithinActions(ReaderActions):
    """What is looked for: a text, else the chunks that the answer on the search screen has."""

    _needle = ""
    _places: Sequence[int] = ()
    """The turns that hold the text that is looked for, or that the answer found."""
    _looking = False
    _typed: Timer | None = None

    def counter(self) -> str:
        """Which of how many turns with what is looked for is in front."""
        if self._looking:
            return f"looking{self.glyphs.ellipsis}"
        if not self._places:
            return "not found" if self._needle else ""
        before = bisect_right(self._places, self.reader.at)
        return f"{fmt.count(before)}/{fmt.count(len(self._places))}"

    # --- looking for a text ---------------------------------------------------------------------

    def forget_needle(self) -> None:
        """Look for nothing."""
        self._needle, self._places, self._looking = "", self._of_answer(), False
        self.reader.mark(self.terms)

    def found_again(self) -> None:
        """Mark what is looked for in what was read, and look through it again."""
        if self._needle:
            self._find_now()
        else:
            self.forget_needle()

    def _of_answer(self) -> Sequence[int]:
        """The turns of the chunks that the answer on the search screen has."""
        ranked = self.main_app.search_screen.ranked
        if ranked is None or not self.terms or self.conversation is None:
            return ()
        path, turns = self.reading_path, self.reader.turns
        results = {hit.chunk.id for hit in ranked.hits}
        places = {
            turn_with_words(turns, chunk.start_line, chunk.end_line, self.terms)
            if chunk.id in results
            else turn_of(turns, chunk.start_line)
            for chunk in ranked.pool.chunks.values()
            if chunk.path == path
        }
        return sorted(places)

    def open_within(self) -> None:
        """Ask for the text to look for."""
        if self.conversation is None:
            self.tell("Nothing to look through: open a conversation first.")
            return
        self.add_class("-within")
        self.within_input.focus()
        self.within_input.action_select_all()

    def close_within(self) -> None:
        """Leave the text as it is, and go on reading."""
        if not self._needle:
            self.remove_class("-within")
        self.reader.focus()

    def stop_looking(self) -> bool:
        """Look for nothing any more; whether something was looked for."""
        was_looking = bool(self._needle) or self.has_class("-within")
        if self._typed is not None:
            self._typed.stop()
        self.remove_class("-within")
        with self.within_input.prevent(Input.Changed):
            self.within_input.value = ""
        self.forget_needle()
        self.name_reader()
        return was_looking

    @on(Input.Changed, "#within")
    def within_changed(self, event: Input.Changed) -> None:
        """Look for what is typed, after a moment without keys."""
        event.stop()
        if self._typed is not None:
            self._typed.stop()
        self._typed = self.set_timer(TYPED_SECONDS, self._find_now)

    @on(Input.Submitted, "#within")
    def within_submitted(self, event: Input.Submitted) -> None:
        """Look for it now, and go on reading."""
        event.stop()
        if self.within_input.value != self._needle:
            self._find_now()
        self.close_within()

    def _find_now(self) -> None:
        if self._typed is not None:
            self._typed.stop()
        self._needle, self._places = self.within_input.value, ()
        self.reader.mark(self.terms, self._needle)
        self._looking = bool(self._needle)
        if self.conversation is not None and self._needle:
            self._find(self.conversation, self._needle)
        self.name_reader()

    @work(
        thread=True, exclusive=True, group="find", exit_on_error=False,
        description="look through the conversation",
    )  # fmt: skip
    def _find(self, read: OpenConversation, text: str) -> None:
        worker = get_current_worker()
        try:
            places = sorted(read.find(text, cancelled=lambda: worker.is_cancelled))
            found = TextFound(read, text, places)
        except Cancelled:
            return
        except Exception as error:
            # As for the conversation: it is one line of this screen.
            found = TextFound(read, text, (), str(error) or type(error).__name__)
        self.post_message(found)

    @on(TextFound)
    def text_found(self, message: TextFound) -> None:
        """Go to the first turn from here on that holds the text."""
        message.stop()
        if message.conversation is not self.conversation or message.text != self._needle:
            return
        self._looking, self._places = False, message.places
        if message.error:
            self.tell(safe_line(f"cannot look through it: {message.error}"), error=True)
        if self._places:
            following = bisect_left(self._places, self.reader.at)
            self._to_match(self._places[following % len(self._places)])
        self.name_reader()

    def action_match(self, step: int) -> None:
        """Go to the next, or the previous, turn that holds the text; round at the ends."""
        if not self._needle and not self._places:
            self.open_within()
        elif self._places:
            at, places = self.reader.at, self._places
            other = bisect_right(places, at) if step > 0 else bisect_left(places, at) - 1
            self._to_match(places[other % len(places)])

    def _to_match(self, at: int) -> None:
        view = self.reader
        view.front(at)
        line = view.match_line(at)
        turn = view.turns[at]
        is_cut = turn.size > len(turn.text) and at not in view.folds.wholes
        if line is None and is_cut:
            self.want_whole(at, is_for_match=True)
        self.name_reader()

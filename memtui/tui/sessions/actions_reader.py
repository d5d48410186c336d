"""The reader: reading a conversation, going to a turn, showing the whole of a long one."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual import on, work
from textual.content import Content
from textual.worker import get_current_worker

from memtui.errors import Cancelled
from memtui.model import Reason
from memtui.model.conversations import Turn, TurnKind
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.sessions import words
from memtui.tui.sessions.actions_list import ListActions
from memtui.tui.sessions.borders import Borders
from memtui.tui.sessions.messages import ConversationRead, WholeRead
from memtui.tui.widgets.turn_view import TurnView

if TYPE_CHECKING:
    from memtui.engine import Engine
    from memtui.engine.conversations.reading import OpenConversation

_BETWEEN = " | "
"""What words that are apart do not become one phrase with."""


class ReaderActions(ListActions):
    """One conversation, and what is looked for in it."""

    conversation: OpenConversation | None = None
    """What the reader shows."""
    _wanted: str = ""
    """The path that is being read, or was read last."""
    _line: int | None = None
    """The line whose turn has to be in front once it is read."""
    _end_line: int | None = None
    """The last line of the chunk that begins there, where one was asked for."""
    _kind = TurnKind.MESSAGE
    """The kind of turn that is meant where a line has several."""
    _borders = Borders(())

    # --- reading --------------------------------------------------------------------------------

    @property
    def reading_path(self) -> str:
        """The path of the conversation in the reader; empty without one."""
        return self._wanted

    def open_turn(self, path: str, line: int = 1, end_line: int | None = None) -> None:
        """Show a conversation at a line of its transcript, with the query's words marked.

        With `end_line` at the turn from `line` to there that holds the most of these words.
        Before the screen is mounted, it is shown as soon as there is a place for it.
        """
        self.came_to_read = True
        self._wanted, self._line, self._end_line = path, line, end_line
        if self.is_mounted:
            self._go_to_read()

    def _go_to_read(self) -> None:
        self.conversations.choose(self._wanted)
        self.stop_looking()
        terms = self.answer_terms()
        self.read(self._wanted, self._line, end_line=self._end_line, terms=terms)
        self.show_pane("reader")

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
        self._wanted, self._line, self._kind = path, line, kind
        self._end_line = end_line
        self.terms = tuple(terms)
        if is_shown and line is not None:
            self._to_line(line)
            return
        if not is_shown:
            self.conversation = None
            self.reader.show_message([self.dim(f"reading{self.glyphs.ellipsis}")])
            self.stop_looking()
        if self.engine is not None:
            self._read(self.engine, path)

    def conversation_changed(self) -> None:
        """Read the conversation again when its file, or what the index has of it, changed."""
        read = self.conversation
        if read is None:
            return
        now = self.listings.get(read.listing.path)
        before = read.listing
        if now is not None and (now.size, now.changed, now.chunks) != (
            before.size,
            before.changed,
            before.chunks,
        ):
            self.read(now.path, terms=self.terms)
        else:
            self.name_reader()

    @work(
        thread=True, exclusive=True, group="conversation", exit_on_error=False,
        description="read the conversation",
    )  # fmt: skip
    def _read(self, engine: Engine, path: str) -> None:
        worker = get_current_worker()
        try:
            conversation = engine.conversations.read(path, cancelled=lambda: worker.is_cancelled)
            borders = Borders(engine.browse.chunks_of(path))
            edges = borders.edges(conversation.turns)
            problems = dict(conversation.malformed)
            read = ConversationRead(path, conversation, borders, edges, problems)
        except Cancelled:
            return
        except Exception as error:
            # Whatever a transcript does to its reader is told in the reader's place.
            told = str(error) or type(error).__name__
            read = ConversationRead(path, None, Borders(()), (), {}, told)
        self.post_message(read)

    @on(ConversationRead)
    def conversation_read(self, message: ConversationRead) -> None:
        """Show what was read, where the reader was or at the line that is asked for."""
        message.stop()
        if message.path != self._wanted:
            return
        before, view = self.conversation, self.reader
        self.conversation, self._borders = message.conversation, message.borders
        if message.conversation is None:
            view.show_message([self.error_line(message.error)])
            self.name_reader()
            return
        turns = message.conversation.turns
        is_again = before is not None and before.listing.path == message.path
        is_same = is_again and _begins_with(turns, view.turns)
        line = self._line
        at = self._place_of(turns, line or 1)
        if is_again and line is None and view.turn is not None:
            at = view.at if is_same else turn_of(turns, view.turn.line, view.turn.kind)
        view.show_turns(
            turns, at=at, edges=message.edges, problems=message.problems,
            folds=view.folds if is_same else None,
        )  # fmt: skip
        self.found_again()
        if line is not None:
            self._to_line(line)
        self.listings[message.path] = message.conversation.listing
        self.show_list()
        self.name_reader()
        self.calls_wanted(message.path, is_grown=is_again)

    def _to_line(self, line: int) -> None:
        """Put the turn of a line in front, opened, with the marked words in sight."""
        view, self._line = self.reader, None
        self.found_again()
        view.front(self._place_of(view.turns, line))
        self.name_reader()

    def _place_of(self, turns: Sequence[Turn], line: int) -> int:
        """The turn that is meant by a line, and by the end of the chunk that begins there."""
        if self._end_line is None:
            return turn_of(turns, line, self._kind)
        return turn_with_words(turns, line, self._end_line, self.terms)

    def name_reader(self) -> None:
        view = self.reader
        listing = self.conversation.listing if self.conversation is not None else None
        if listing is None:
            view.border_title = Content("Conversation")
            view.border_subtitle = Content("")
            return
        title = safe_line(listing.title) or listing.path
        view.border_title = Content(safe_line(title))
        view.border_subtitle = Content("  ").join(
            Content.styled(part, style) for part, style in self._reader_parts() if part
        )

    def _reader_parts(self) -> list[tuple[str, str]]:
        view = self.reader
        turn = view.turn
        if turn is None:
            return []
        found = self._borders.at(turn.line)
        listing = self.listings.get(self._wanted)
        is_gone = self._found and listing is None
        is_stale = listing is not None and listing.state is Reason.STALE
        stale = words.badge(listing) if listing is not None and is_stale else ""
        chunk = f"chunk {fmt.count(found[0])}/{fmt.count(len(self._borders))}" if found else ""
        return [
            ("gone from the disk" if is_gone else "", "$state-warn"),
            (stale, "$state-warn"),
            (self.counter(), "$mark"),
            (chunk, ""),
            (f"entry {fmt.count(view.at + 1)}/{fmt.count(len(view.turns))}", ""),
        ]

    @on(TurnView.Moved)
    def turn_moved(self, message: TurnView.Moved) -> None:
        """Tell where the reader is."""
        message.stop()
        self.name_reader()

    # --- whole texts ----------------------------------------------------------------------------

    @on(TurnView.WholeWanted)
    def whole_wanted(self, message: TurnView.WholeWanted) -> None:
        """Read the whole text of a turn."""
        message.stop()
        self.want_whole(message.at)

    def want_whole(self, at: int, *, is_for_match: bool = False) -> None:
        if self.conversation is not None:
            self._read_whole(self.conversation, at, is_for_match)

    @work(thread=True, group="whole", exit_on_error=False, description="read the whole text")
    def _read_whole(self, read: OpenConversation, at: int, is_for_match: bool) -> None:
        try:
            text, error = read.whole(at).text, ""
        except Exception as failure:
            # As for the conversation: it is one line of this screen.
            text, error = "", str(failure) or type(failure).__name__
        self.post_message(WholeRead(read, at, text, error, is_for_match))

    @on(WholeRead)
    def whole_read(self, message: WholeRead) -> None:
        """Show the whole text."""
        message.stop()
        if message.conversation is not self.conversation:
            return
        if message.error:
            self.tell(safe_line(f"cannot show the whole text: {message.error}"), error=True)
            return
        self.reader.take_whole(message.at, message.text)
        if message.is_for_match and message.at == self.reader.at:
            self.reader.to_match()

    # --- given by another concern ---------------------------------------------------------------

    def stop_looking(self) -> bool:
        """Look for nothing any more; whether something was looked for."""
        raise NotImplementedError

    def found_again(self) -> None:
        """Mark what is looked for in what was read."""
        raise NotImplementedError

    def counter(self) -> str:
        """Which of how many turns with what is looked for is in front."""
        raise NotImplementedError

    def calls_wanted(self, of: str = "", *, is_grown: bool = False) -> None:
        """Follow another conversation with the list of what was asked in it."""
        raise NotImplementedError


def turn_with_words(turns: Sequence[Turn], line: int, end_line: int, terms: Sequence[str]) -> int:
    """The turn from a line to another one that holds the most of the terms; else `turn_of`.

    Of those that hold as many the one in which they stand most often, then the first one. What
    the index leaves out of a chunk does not count; of a long text its beginning does.
    """
    # Imported late: most conversations are not come to from an answer.
    from memtui.retrieval.marks import match_spans

    best, most = turn_of(turns, line), (0, 0)
    for at in range(bisect_left(turns, line, key=lambda turn: turn.line), len(turns)):
        turn = turns[at]
        if turn.line > end_line:
            break
        if turn.kind is TurnKind.MESSAGE and not turn.left_out:
            spans = match_spans(turn.text, terms)
            # What is found is short: which terms it is takes a fraction of finding it.
            found = _BETWEEN.join(turn.text[start:end] for start, end in spans)
            count = sum(1 for term in terms if match_spans(found, (term,))), len(spans)
            if count > most:
                best, most = at, count
    return best


def turn_of(turns: Sequence[Turn], line: int, kind: TurnKind = TurnKind.MESSAGE) -> int:
    """The turn of a line of the file: the first one of a kind, else the first.

    Where nothing is on the line it is the last turn before it.
    """
    first = at = bisect_left(turns, line, key=lambda turn: turn.line)
    while at < len(turns) and turns[at].line == line:
        if turns[at].kind is kind:
            return at
        at += 1
    return first if at > first else max(0, first - 1)


def _begins_with(turns: Sequence[Turn], before: Sequence[Turn]) -> bool:
    """Whether a conversation only grew: what was open stays open."""
    return (
        0 < len(before) <= len(turns)
        and turns[0] == before[0]
        and turns[len(before) - 1] == before[-1]
    )

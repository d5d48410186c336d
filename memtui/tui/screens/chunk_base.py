"""What the chunk screen knows: a record, what is like it, queries it answers; how it is asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual import work
from textual.content import Content
from textual.worker import Worker, get_current_worker

from memtui.model import Chunk, Ranking, citation
from memtui.model.browsing import AnsweredQuery, ChunkRecord, Neighbours
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.chunks.loading import (
    NeighboursLoaded,
    QueriesAnswered,
    QueriesAsked,
    RecordLoaded,
    ask,
    load,
)
from memtui.tui.options import UiOptions
from memtui.tui.screens.place_base import ContentChanged, PlaceScreen

if TYPE_CHECKING:
    from memtui.engine import Engine

FOLLOW_PAUSE = 0.5
"""Seconds after a change of the index before it is read again: a sync changes it many times."""


class ChunkBase(PlaceScreen):
    """One chunk and what the engine says of it; drawn by `ChunkScreen`."""

    def __init__(self, options: UiOptions, chunk_id: str) -> None:
        super().__init__(options)
        self.chunk_id = chunk_id
        self.record: ChunkRecord | None = None
        """The newest that was known, also of a chunk that is gone."""
        self.is_gone = False
        """The index does not hold the chunk any more, or never did."""
        self.successor: Chunk | None = None
        """What stands at the lines of a chunk that is gone."""
        self.problem = ""
        self.neighbours: Neighbours | None = None
        self.neighbours_problem = ""
        self.answered: Sequence[AnsweredQuery] | None = None
        self.answered_problem = ""
        self.is_asked_anew = True
        """Whether the index is still the one that the queries were asked of."""
        self.asking: Worker[None] | None = None
        self.asked = (0, 0)
        self._ticket = 0
        """Counts what was asked of the engine; an answer to an older question is dropped."""
        self._ask_ticket = 0
        self._pending = False
        """The index changed; it is read again soon, or when the screen is in front."""
        self._was_asked = False

    @property
    def chunk(self) -> Chunk | None:
        """The chunk, once it is known."""
        return self.record.chunk if self.record is not None else None

    @property
    def queries(self) -> tuple[str, ...]:
        """The queries of the history, newest first."""
        return self.memtui.search_screen.notes.history.queries

    # --- the record and what is like it ---------------------------------------------------------

    def load(self) -> None:
        """Look the chunk up in the index as it is now."""
        self._pending = False
        if self.engine is not None:
            self._ticket += 1
            self._load(self.engine, self.chunk_id, self.chunk, self._ticket)

    @work(
        thread=True, exclusive=True, group="chunk", exit_on_error=False, description="read a chunk"
    )
    def _load(self, engine: Engine, chunk_id: str, before: Chunk | None, ticket: int) -> None:
        load(engine, chunk_id, before, ticket, self.post_message)

    def on_record_loaded(self, message: RecordLoaded) -> None:
        """Show what the index holds, or that it holds the chunk no more."""
        message.stop()
        if message.ticket != self._ticket:
            return
        self.problem, self.successor = message.problem, message.successor
        self.is_gone = message.record is None and not message.problem
        if message.record is not None:
            self.record = message.record
        self.show_record()

    def on_neighbours_loaded(self, message: NeighboursLoaded) -> None:
        """Show what is like it; then ask the queries, once."""
        message.stop()
        if message.ticket != self._ticket:
            return
        self.neighbours_problem = message.problem
        if message.neighbours is not None:
            self.neighbours = message.neighbours
        self.show_neighbours()
        if not self._was_asked and not self.remote:
            self.ask()

    def on_content_changed(self, message: ContentChanged) -> None:
        """Read it again soon."""
        message.stop()
        self.is_asked_anew = False
        self.show_queries()
        if not self._pending:
            self._pending = True
            self.set_timer(FOLLOW_PAUSE, self._load_in_front)

    def _load_in_front(self) -> None:
        # One may lie over another, many deep; each is read when it is seen again.
        if self.is_current:
            self.load()

    def on_screen_resume(self) -> None:
        """Read again what changed while another screen was in front."""
        if self._pending:
            self.load()

    def follow(self, chunk: Chunk) -> None:
        """Show another chunk from now on."""
        self.stop_asking()
        self.chunk_id, self.record, self.successor = chunk.id, None, None
        self.is_gone, self.neighbours, self.answered = False, None, None
        self._was_asked = False
        self.show_record()
        self.load()

    # --- the queries ----------------------------------------------------------------------------

    def ask(self) -> None:
        """Ask every query of the history by the present ranking."""
        if self.engine is None or not self.queries or self.is_gone:
            self.show_queries()
            return
        self._ask_ticket += 1
        self._was_asked = True
        self.asked, self.answered_problem, self.is_asked_anew = (0, len(self.queries)), "", True
        ranking = self.memtui.search_screen.ranking
        self.asking = self._ask(self.engine, self.queries, ranking, self._ask_ticket)
        self.show_queries()

    def stop_running(self) -> bool:
        """Stop asking the queries; false when none is asked."""
        runs = self.asking is not None
        self.stop_asking()
        if runs:
            self.show_queries()
        return runs

    def stop_asking(self) -> None:
        """Ask no more of them."""
        if self.asking is not None:
            self.asking.cancel()
            self.asking = None
            self._ask_ticket += 1

    @work(thread=True, group="queries", exit_on_error=False, description="ask the queries")
    def _ask(self, engine: Engine, queries: Sequence[str], ranking: Ranking, ticket: int) -> None:
        worker = get_current_worker()
        ask(
            engine,
            self.chunk_id,
            queries,
            ranking,
            ticket,
            self.post_message,
            lambda: worker.is_cancelled,
        )

    def on_queries_asked(self, message: QueriesAsked) -> None:
        """Show how many were asked."""
        message.stop()
        if message.ticket == self._ask_ticket and self.asking is not None:
            self.asked = (message.done, message.total)
            self.show_queries()

    def on_queries_answered(self, message: QueriesAnswered) -> None:
        """Show which of them it answers."""
        message.stop()
        if message.ticket != self._ask_ticket:
            return
        self.asking, self.answered_problem = None, message.problem
        if message.answered is not None:
            self.answered = message.answered
        self.show_queries()

    # --- in words -------------------------------------------------------------------------------

    def note(self) -> str:
        """One line about a chunk that is not there, or that could not be read; else empty."""
        if self.problem:
            return f"cannot be read: {safe_line(self.problem)}"
        if not self.is_gone:
            return ""
        if self.record is None:
            return "no such chunk in the index · esc back"
        if self.successor is None:
            return "gone from the index, as its whole file is · esc back"
        now = self.successor
        lines = citation("", now.start_line, now.end_line).removeprefix("#")
        return f"gone from the index · f shows what stands there now: {lines}"

    def no_answers(self) -> str:
        """Why there are no queries to show."""
        if self.answered_problem:
            return f"{self.glyphs.error} {safe_line(self.answered_problem)} · a tries again"
        if not self.queries:
            return "no queries in the history yet"
        number = fmt.counted(len(self.queries), "query", "queries")
        if self.answered is not None:
            return f"in the top k of none of {number}"
        if self.asking is None and not self.is_gone:
            sent = f" (sends them to {self.remote})" if self.remote else " of the history"
            return f"a asks the {number}{sent}"
        return ""

    def asking_words(self) -> Content:
        """How far the asking is, and how to ask again."""
        if self.asking is not None:
            done, total = self.asked
            told = f"asking {fmt.count(done)} of {fmt.count(total)} · a stops"
            return Content.styled(told, "$state-warn")
        if self.answered is None:
            return Content("")
        if not self.is_asked_anew:
            return Content.styled("before the last change · a asks again", "$state-warn")
        number = fmt.counted(len(self.queries), "query", "queries")
        return Content(f"of {number} · ⏎ asks it" if self.answered else f"of {number}")

    # --- given by the screen --------------------------------------------------------------------

    def show_record(self) -> None:
        """Draw what the index holds about the chunk."""
        raise NotImplementedError

    def show_neighbours(self) -> None:
        """Draw what is like it."""
        raise NotImplementedError

    def show_queries(self) -> None:
        """Draw the queries that it answers."""
        raise NotImplementedError

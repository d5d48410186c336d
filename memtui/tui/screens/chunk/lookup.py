"""What is known of one chunk: its record, what is like it, the queries that it answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from memtui.model import Chunk, citation
from memtui.model.browsing import AnsweredQuery, ChunkRecord, Neighbours
from memtui.text.sanitize import safe, safe_line
from memtui.tui import format as fmt
from memtui.tui.background import LongTask, in_background, tell
from memtui.tui.place_actions import browse_to, cite_lines, edit_at

if TYPE_CHECKING:
    from memtui.tui.screens.chunk.screen import ChunkScreen


class ChunkLookup:
    """Asks the engine about a chunk; an answer to an older question is dropped."""

    def __init__(self, screen: ChunkScreen, chunk_id: str) -> None:
        self.chunk_id = chunk_id
        self.record: ChunkRecord | None = None
        """The newest that was known, also of a chunk that is gone."""
        self.is_gone = False
        """The index does not hold the chunk any more, or never did."""
        self.successor: Chunk | None = None
        """The chunk at the lines of one that is gone."""
        self.problem = ""
        self.neighbours: Neighbours | None = None
        self.neighbours_problem = ""
        self._screen = screen
        self._ticket = 0

    @property
    def chunk(self) -> Chunk | None:
        """The chunk, once it is known."""
        return self.record.chunk if self.record is not None else None

    def load(self) -> None:
        """Look the chunk up in the index as it is now, then what is like it."""
        engine = self._screen.memtui.engine
        if engine is None:
            return
        self._ticket += 1
        ticket, chunk_id, before = self._ticket, self.chunk_id, self.chunk

        def look_up() -> tuple[ChunkRecord | None, Chunk | None]:
            record = engine.browse.chunk_record(chunk_id)
            if record is not None or before is None:
                return record, None
            return None, chunk_near(engine.browse.chunks_of(before.path), before)

        def take(record: ChunkRecord | None, successor: Chunk | None, problem: str = "") -> None:
            if ticket != self._ticket:
                return
            self.problem, self.successor = problem, successor
            self.is_gone = record is None and not problem
            self.record = record or self.record
            self._screen.show_record()
            if record is not None:
                in_background(
                    self._screen,
                    lambda: engine.browse.neighbours(chunk_id),
                    take_neighbours,
                    lambda error: take_neighbours(None, error),
                    description="find what is like a chunk",
                )

        def take_neighbours(neighbours: Neighbours | None, problem: str = "") -> None:
            if ticket == self._ticket:
                self.neighbours_problem = problem
                self.neighbours = neighbours or self.neighbours
                self._screen.neighbours_loaded()

        in_background(
            self._screen,
            look_up,
            lambda answer: take(*answer),
            lambda error: take(None, None, error),
            description="read a chunk",
        )

    def follow(self, chunk: Chunk) -> None:
        """Look at another chunk from now on."""
        self.chunk_id, self.record, self.successor = chunk.id, None, None
        self.is_gone, self.neighbours = False, None

    def note(self) -> str:
        """Say in one line that a chunk is not there or could not be read; else empty."""
        if self.problem:
            return f"cannot be read: {safe_line(self.problem)}"
        if not self.is_gone:
            return ""
        if self.record is None:
            return "no such chunk in the index · esc back"
        if self.successor is None:
            return "gone from the index, as its whole file is · esc back"
        lines = citation("", self.successor.start_line, self.successor.end_line)
        return f"gone from the index · f shows what stands there now: {lines.removeprefix('#')}"

    # --- keys -----------------------------------------------------------------------------------

    def edit(self) -> None:
        """Open the file in the editor, at the first line of the chunk."""
        if chunk := self.chunk:
            edit_at(self._screen, chunk.path, chunk.start_line)

    def browse(self) -> None:
        """See the chunk in its file."""
        if chunk := self.chunk:
            browse_to(self._screen, chunk.path, chunk.start_line, chunk.id)

    def pin(self) -> None:
        """Follow the chunk on the search screen, or do not any more."""
        if chunk := self.chunk:
            search = self._screen.memtui.search_screen
            search.notes.pin_chunk(chunk)
            is_pinned = chunk.id in search.pinned
            text = "Pinned on the search screen." if is_pinned else "Not pinned any more."
            tell(self._screen, text)

    def cite(self) -> None:
        """Copy where the chunk is."""
        if chunk := self.chunk:
            cite_lines(self._screen, chunk.path, chunk.start_line, chunk.end_line)

    def copy_text(self) -> None:
        """Copy the text of the chunk; control characters are replaced."""
        if chunk := self.chunk:
            self._screen.app.copy_to_clipboard(safe(chunk.text))
            lines = fmt.counted(chunk.text.count("\n") + 1, "line")
            tell(self._screen, f"copied {lines}")


class AnsweredQueries:
    """Asks the queries of the history which of them a chunk answers."""

    def __init__(self, screen: ChunkScreen) -> None:
        self.answered: Sequence[AnsweredQuery] | None = None
        self.problem = ""
        self.is_current = True
        """Whether the index is still the one that the queries were asked of."""
        self.was_asked = False
        self.task = LongTask(screen, "ask the queries")
        self._screen = screen
        self._progress = (0, 0)

    @property
    def queries(self) -> tuple[str, ...]:
        """The queries of the history, newest first."""
        return self._screen.memtui.search_screen.notes.queries

    def ask(self, chunk_id: str) -> None:
        """Ask every query of the history by the present ranking."""
        engine, queries = self._screen.memtui.engine, self.queries
        if engine is not None and queries:
            self.was_asked = self.is_current = True
            self._show_progress(0, len(queries))
            ranking = self._screen.memtui.search_screen.ranking
            self.task.start(
                lambda cancelled, progressed: engine.browse.answered_queries(
                    chunk_id, queries, ranking=ranking, cancelled=cancelled, progressed=progressed
                ),
                self._take,
                lambda problem: self._take(self.answered, problem),
                self._show_progress,
            )
        self._screen.show_queries()

    def _show_progress(self, done: int, total: int) -> None:
        self._progress, self.problem = (done, total), ""
        self._screen.show_queries()

    def _take(self, answered: Sequence[AnsweredQuery] | None, problem: str = "") -> None:
        self.answered, self.problem = answered, problem
        self._screen.show_queries()

    def reset(self) -> None:
        """Forget the answers of another chunk."""
        self.task.stop()
        self.answered, self.was_asked = None, False

    def empty_note(self, *, is_gone: bool, address: str, error_glyph: str) -> str:
        """Say why there are no queries to show."""
        if self.problem:
            return f"{error_glyph} {safe_line(self.problem)} · a tries again"
        if not self.queries:
            return "no queries in the history yet"
        number = fmt.counted(len(self.queries), "query", "queries")
        if self.answered is not None:
            return f"in the top k of none of {number}"
        if self.task.is_running or is_gone:
            return ""
        where = f"(sends them to {address})" if address else "of the history"
        return f"a asks the {number} {where}"

    def progress_note(self) -> tuple[str, str]:
        """Say how far the asking is and how to ask again, with the style of it."""
        if self.task.is_running:
            done, total = self._progress
            return f"asking {fmt.count(done)} of {fmt.count(total)} · a stops", "$state-warn"
        if self.answered is None:
            return "", ""
        if not self.is_current:
            return "before the last change · a asks again", "$state-warn"
        number = fmt.counted(len(self.queries), "query", "queries")
        return f"of {number} · ⏎ asks it" if self.answered else f"of {number}", ""


def chunk_near(chunks: Sequence[Chunk], gone: Chunk) -> Chunk | None:
    """Return the chunk that has most of the lines of one that is gone, else the nearest one."""

    def fit(chunk: Chunk) -> tuple[int, int]:
        shared = min(chunk.end_line, gone.end_line) - max(chunk.start_line, gone.start_line) + 1
        return (max(shared, 0), -abs(chunk.start_line - gone.start_line))

    return max(chunks, key=fit, default=None)

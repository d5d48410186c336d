"""What is asked of the engine about one chunk, beside the loop; and what came of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

from memtui.errors import Cancelled
from memtui.model import Chunk, Ranking
from memtui.model.browsing import AnsweredQuery, ChunkRecord, Neighbours

if TYPE_CHECKING:
    from memtui.engine import Engine

TELL_SECONDS = 0.1
"""So often a count of queries is told."""


@dataclass
class RecordLoaded(Message):
    """What the index holds about a chunk; without a record, what stands at its lines now."""

    ticket: int
    record: ChunkRecord | None
    successor: Chunk | None = None
    problem: str = ""


@dataclass
class NeighboursLoaded(Message):
    """What is like the chunk; without neighbours, why that is not known."""

    ticket: int
    neighbours: Neighbours | None
    problem: str = ""


@dataclass
class QueriesAsked(Message):
    """How many of the queries were asked."""

    ticket: int
    done: int
    total: int

    def can_replace(self, message: Message) -> bool:
        """Let a burst collapse into its last message."""
        return isinstance(message, QueriesAsked)


@dataclass
class QueriesAnswered(Message):
    """The queries that the chunk answers; `None`: why that is not known."""

    ticket: int
    answered: Sequence[AnsweredQuery] | None
    problem: str = ""


def told(error: Exception) -> str:
    """An error as one line."""
    return str(error) or type(error).__name__


def load(
    engine: Engine,
    chunk_id: str,
    before: Chunk | None,
    ticket: int,
    post: Callable[[Message], object],
) -> None:
    """Look a chunk up, then what is like it; `before` is the chunk as it was known."""
    # Whatever goes wrong is told in the place of what was asked for.
    try:
        record = engine.browse.chunk_record(chunk_id)
        successor = None
        if record is None and before is not None:
            successor = standing_at(engine.browse.chunks_of(before.path), before)
    except Exception as error:
        post(RecordLoaded(ticket, None, problem=told(error)))
        return
    post(RecordLoaded(ticket, record, successor))
    if record is None:
        return
    try:
        post(NeighboursLoaded(ticket, engine.browse.neighbours(chunk_id)))
    except Exception as error:
        post(NeighboursLoaded(ticket, None, told(error)))


def standing_at(chunks: Sequence[Chunk], gone: Chunk) -> Chunk | None:
    """The chunk that has most of the lines of one that is gone, else the nearest one."""

    def fit(chunk: Chunk) -> tuple[int, int]:
        shared = min(chunk.end_line, gone.end_line) - max(chunk.start_line, gone.start_line) + 1
        return (max(shared, 0), -abs(chunk.start_line - gone.start_line))

    return max(chunks, key=fit, default=None)


def ask(
    engine: Engine,
    chunk_id: str,
    queries: Sequence[str],
    ranking: Ranking,
    ticket: int,
    post: Callable[[Message], object],
    cancelled: Callable[[], bool],
) -> None:
    """Ask every query of the history, and tell which of them the chunk answers."""
    last = 0.0

    def progressed(done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last >= TELL_SECONDS:
            last = time.monotonic()
            post(QueriesAsked(ticket, done, total))

    try:
        answered = engine.browse.answered_queries(
            chunk_id, queries, ranking=ranking, cancelled=cancelled, progressed=progressed
        )
    except Cancelled:
        return
    except Exception as error:
        # Whatever goes wrong is told in the place of the queries.
        post(QueriesAnswered(ticket, None, told(error)))
        return
    post(QueriesAnswered(ticket, answered))

"""What `memtui care` and `memtui chunk` ask of an engine, beside what a search does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, cast

from memtui.cli.session import Session
from memtui.model import Chunk, Ranking
from memtui.model.browsing import AnsweredQuery, CareReport, ChunkRecord, Neighbours


class BrowsingEngine(Protocol):
    """The part of every engine that is looked at without a query."""

    def paths(self) -> Sequence[str]:
        """Every file that the index holds, by path."""

    def chunks_of(self, path: str) -> Sequence[Chunk]:
        """The chunks of a file in the order of their lines."""

    def chunk_record(self, chunk_id: str) -> ChunkRecord | None:
        """Everything that the index holds about one chunk."""

    def neighbours(self, chunk_id: str, limit: int = 10) -> Neighbours:
        """The chunks most like one chunk."""

    def answered_queries(
        self,
        chunk_id: str,
        queries: Sequence[str],
        *,
        ranking: Ranking | None = None,
        cancelled: Callable[[], bool] = ...,
        progressed: Callable[[int, int], None] = ...,
    ) -> Sequence[AnsweredQuery]:
        """The queries that a chunk answers in the top k."""

    def care(
        self,
        *,
        cancelled: Callable[[], bool] = ...,
        progressed: Callable[[int, int], None] = ...,
    ) -> CareReport:
        """Look through the whole memory for what needs care."""


def browsing(session: Session) -> BrowsingEngine:
    """The same engine, by its other half."""
    return cast("BrowsingEngine", session.engine)

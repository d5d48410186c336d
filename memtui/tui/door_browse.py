"""The engine as the browse screens use it: files, days, one chunk, care."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from memtui.model import Chunk, Ranking

if TYPE_CHECKING:
    from memtui.model.browsing import (
        AnsweredQuery,
        CareReport,
        ChunkRecord,
        DayTotals,
        MemoryFile,
        Neighbours,
    )

Cancelled = Callable[[], bool]
Progressed = Callable[[int, int], None]
"""Told how much is done, and of how much."""


class BrowseDoor(Protocol):
    """What is looked at without a query; everything here reads files or the index, off the loop.

    Long answers ask `cancelled` and raise `memtui.errors.Cancelled` when it turns true.
    """

    def memory_files(self) -> Sequence[MemoryFile]:
        """Every file that discovery finds or the index holds, by path."""

    def file_of(self, path: str) -> Path | None:
        """Where a file of the index is on disk; `None` for rows of a database."""

    def chunks_of(self, path: str) -> Sequence[Chunk]:
        """The chunks of a file in the order of their lines; empty for one not indexed."""

    def chunk_record(self, chunk_id: str) -> ChunkRecord | None:
        """Everything that the index holds about one chunk; `None` when it is gone."""

    def neighbours(self, chunk_id: str, limit: int = 10) -> Neighbours:
        """The chunks most like one chunk, by vector, by words, and its near-duplicates."""

    def answered_queries(
        self,
        chunk_id: str,
        queries: Sequence[str],
        *,
        ranking: Ranking | None = None,
        cancelled: Cancelled = lambda: False,
        progressed: Progressed = lambda done, total: None,
    ) -> Sequence[AnsweredQuery]:
        """The queries that a chunk answers in the top k, best rank first; asks each of them."""

    def recalled(
        self,
        queries: Sequence[str],
        *,
        ranking: Ranking | None = None,
        cancelled: Cancelled = lambda: False,
        progressed: Progressed = lambda done, total: None,
    ) -> Mapping[str, int]:
        """How often each file's chunks are in the top k for the queries; asks each of them."""

    def days(self, recalled: Mapping[str, int] | None = None) -> Sequence[DayTotals]:
        """The days that dated files are of, oldest first; `recalled` is counted up per day."""

    def care(
        self,
        *,
        cancelled: Cancelled = lambda: False,
        progressed: Progressed = lambda done, total: None,
    ) -> CareReport:
        """Look through the whole memory for what needs care."""

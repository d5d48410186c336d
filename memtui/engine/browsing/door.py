"""Files, days, one chunk and care: the part of an engine that is looked at without a query."""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from memtui.engine.browsing.asking import QueryAsker, answered, counted
from memtui.engine.browsing.shelf import Holdings, Shelf
from memtui.model import CandidatePool, Chunk, Ranked, Ranking, Reason
from memtui.model.browsing import (
    AnsweredQuery,
    CareReport,
    ChunkRecord,
    DayTotals,
    MemoryFile,
    Neighbours,
)

if TYPE_CHECKING:
    from memtui.engine.mailbox import SearchRequest
    from memtui.engine.searching import Partial, SearchLoop

Cancelled = Callable[[], bool]
Progressed = Callable[[int, int], None]


def _never() -> bool:
    return False


def _untold(done: int, total: int) -> None:
    return None


class Browsing:
    """What can be looked at without a query; a part of every engine.

    Files are read on the caller's thread, the index on the engine thread. Methods raise
    `IndexMissing` once the engine is closed, and `IndexUnusable` for an index that cannot be read.
    """

    ranking: Ranking
    now: Callable[[], datetime]
    _loop: SearchLoop

    @abstractmethod
    def retrieve(
        self, request: SearchRequest, cancelled: Callable[[], bool], partial: Partial
    ) -> CandidatePool:
        """Ask both legs, on the engine thread."""

    @abstractmethod
    def rank(self, pool: CandidatePool, ranking: Ranking) -> Ranked:
        """Rank a pool."""

    @abstractmethod
    def _new_shelf(self) -> Shelf:
        """The files and the index that this engine is of."""

    @cached_property
    def _shelf(self) -> Shelf:
        return self._new_shelf()

    @cached_property
    def _asker(self) -> QueryAsker:
        return QueryAsker(self, self._loop, self._shelf.stamp)

    def memory_files(self) -> Sequence[MemoryFile]:
        """Every file that discovery finds or the index holds, by path; file I/O, off the loop."""
        return self._shelf.files()

    def file_of(self, path: str) -> Path | None:
        """Where a file of the index is on disk; `None` for rows of a database."""
        return self._shelf.file_of(path)

    def chunks_of(self, path: str) -> Sequence[Chunk]:
        """The chunks of a file in the order of their lines; empty for one not indexed."""

        def chunks(holdings: Holdings) -> list[Chunk]:
            rows = holdings.rows_of(path)
            found = holdings.chunks(rows)
            return [found[row] for row in rows if row in found]

        return self._shelf.read(chunks) or ()

    def chunk_record(self, chunk_id: str) -> ChunkRecord | None:
        """Everything that the index holds about one chunk; `None` when it is gone."""
        from memtui.engine.browsing.record import record_of

        dates = self.ranking.decay.dates
        return self._shelf.read(lambda holdings: record_of(holdings, chunk_id, dates))

    def neighbours(self, chunk_id: str, limit: int = 10) -> Neighbours:
        """The chunks most like one chunk, by vector, by words, and its near-duplicates."""
        from memtui.engine.browsing.neighbours import neighbours_of

        found = self._shelf.read(lambda holdings: neighbours_of(holdings, chunk_id, limit))
        return found or Neighbours((), Reason.NO_INDEX, (), ())

    def answered_queries(
        self,
        chunk_id: str,
        queries: Sequence[str],
        *,
        ranking: Ranking | None = None,
        cancelled: Cancelled = _never,
        progressed: Progressed = _untold,
    ) -> Sequence[AnsweredQuery]:
        """The queries that a chunk answers in the top k, best rank first; asks each of them.

        Raises `memtui.errors.Cancelled` when `cancelled()` turns true.
        """
        tops = self._asker.tops(
            queries, ranking or self.ranking, cancelled=cancelled, progressed=progressed
        )
        return answered(tops, chunk_id)

    def recalled(
        self,
        queries: Sequence[str],
        *,
        ranking: Ranking | None = None,
        cancelled: Cancelled = _never,
        progressed: Progressed = _untold,
    ) -> Mapping[str, int]:
        """How often each file's chunks are in the top k for the queries; asks each of them.

        Raises `memtui.errors.Cancelled` when `cancelled()` turns true.
        """
        tops = self._asker.tops(
            queries, ranking or self.ranking, cancelled=cancelled, progressed=progressed
        )
        return counted(tops)

    def days(self, recalled: Mapping[str, int] | None = None) -> Sequence[DayTotals]:
        """The days that dated files are of, oldest first; `recalled` is counted up per day."""
        return days_of(self.memory_files(), recalled)

    def care(
        self, *, cancelled: Cancelled = _never, progressed: Progressed = _untold
    ) -> CareReport:
        """Look through the whole memory for what needs care; nothing is written.

        Raises `memtui.errors.Cancelled` when `cancelled()` turns true.
        """
        from memtui.engine.browsing.care import CareRun

        run = CareRun(self._shelf, self._asker, self.ranking, self.now().date())
        return run.report(cancelled=cancelled, progressed=progressed)


def days_of(
    files: Sequence[MemoryFile], recalled: Mapping[str, int] | None = None
) -> list[DayTotals]:
    """Count up the files of each day, oldest first; those without a day are left out."""
    by_day: dict[date, list[MemoryFile]] = defaultdict(list)
    for file in files:
        if file.day is not None:
            by_day[file.day].append(file)
    return [
        DayTotals(
            day=day,
            paths=tuple(file.path for file in held),
            size=sum(file.size or 0 for file in held),
            chunks=sum(file.chunks for file in held),
            recalls=None if recalled is None else sum(recalled.get(file.path, 0) for file in held),
        )
        for day, held in sorted(by_day.items())
    ]

"""What can be looked at without a query: files, texts, days, one chunk from every side, care."""

from __future__ import annotations

import math
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as StillRunning
from dataclasses import dataclass, replace
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from memtui.engine.ports import Index, Reading
from memtui.engine.search import Search, SearchRequest
from memtui.errors import Cancelled, IndexMissing
from memtui.model import Chunk, DateRule, LegStatus, Ranking, Reason
from memtui.model.browsing import (
    AnsweredQuery,
    CareReport,
    ChunkRecord,
    DayTotals,
    MemoryFile,
    Neighbours,
)
from memtui.ranking.decay import chunk_day

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from memtui.engine.source import RecentFile, SourceText
    from memtui.index.reader import ChunkRange

IsCancelled = Callable[[], bool]
Progressed = Callable[[int, int], None]

MOST_REMEMBERED: Final = 20_000
"""Answers that are kept; of each the ids, paths and scores of its top k, about 1 kB."""
_LOOK_SECONDS: Final = 0.05
_FAILED: Final = frozenset({LegStatus.FAILED, LegStatus.PENDING})


def _never() -> bool:
    return False


def _untold(done: int, total: int) -> None:
    return None


class Browse:
    """Shows what can be looked at without a query.

    Files are read on the caller's thread, the index on the engine thread. Long answers ask
    `cancelled` and raise `memtui.errors.Cancelled` when it turns true. Methods raise
    `IndexMissing` once the engine is closed, and `IndexUnusable` for an index that cannot be read.
    """

    def __init__(self, index: Index, search: Search, now: Callable[[], datetime]) -> None:
        self._index = index
        self._now = now
        self._asker = QueryAsker(search, index.stamp, now)

    def files(self) -> Sequence[MemoryFile]:
        """Return every file that discovery finds or the index holds, by path."""
        return self._index.files(_never)

    def file_of(self, path: str) -> Path | None:
        """Return the place of a file of the index on disk; `None` for rows of a database."""
        return self._index.file_of(path)

    def paths(self) -> Sequence[str]:
        """Return every file that the index holds, by path; empty before the first index."""
        return self._index.read(lambda reading: reading.paths()) or ()

    def recent(self, limit: int = 20) -> Sequence[RecentFile]:
        """Return the files that were written last; empty before the first index."""
        return self._index.read(lambda reading: reading.recent(limit)) or ()

    def source(self, path: str) -> SourceText:
        """Read a note or transcript and say whether it is still what was indexed; off the loop.

        Line N of a transcript stands for line N of its file, in one readable line.
        """
        return self._index.source(path)

    def chunk_ranges(self, path: str) -> Sequence[ChunkRange]:
        """Return the lines of each chunk of a file."""
        return self._index.read(lambda reading: reading.chunk_ranges(path)) or ()

    def chunks_of(self, path: str) -> Sequence[Chunk]:
        """Return the chunks of a file in the order of their lines; empty for one not indexed."""

        def chunks(reading: Reading) -> list[Chunk]:
            rows = reading.rows_of(path)
            chunks_by_row = reading.chunks(rows)
            return [chunks_by_row[row] for row in rows if row in chunks_by_row]

        return self._index.read(chunks) or ()

    def chunk_record(self, chunk_id: str) -> ChunkRecord | None:
        """Return everything that the index holds about one chunk; `None` when it is gone."""
        dates = self._index.ranking.decay.dates
        return self._index.read(lambda reading: record_of(reading, chunk_id, dates))

    def neighbours(self, chunk_id: str, limit: int = 10) -> Neighbours:
        """Return the chunks most like one chunk, by vector, by words, and its near-duplicates."""
        from memtui.engine.neighbours import neighbours_of

        neighbours = self._index.read(lambda reading: neighbours_of(reading, chunk_id, limit))
        return neighbours or Neighbours((), Reason.NO_INDEX, (), ())

    def answered_queries(
        self,
        chunk_id: str,
        queries: Sequence[str],
        *,
        ranking: Ranking | None = None,
        cancelled: IsCancelled = _never,
        progressed: Progressed = _untold,
    ) -> Sequence[AnsweredQuery]:
        """Return the queries that a chunk answers in the top k, best rank first; asks each."""
        tops = self._asker.tops(
            queries, ranking or self._index.ranking, cancelled=cancelled, progressed=progressed
        )
        answered = [
            AnsweredQuery(query, rank, hit.score)
            for query, hits in tops.items()
            for rank, hit in enumerate(hits, start=1)
            if hit.chunk_id == chunk_id
        ]
        return sorted(answered, key=lambda one: (one.rank, -one.score, one.query))

    def recalled(
        self,
        queries: Sequence[str],
        *,
        ranking: Ranking | None = None,
        cancelled: IsCancelled = _never,
        progressed: Progressed = _untold,
    ) -> Mapping[str, int]:
        """Count how often each file's chunks are in the top k for the queries; asks each."""
        tops = self._asker.tops(
            queries, ranking or self._index.ranking, cancelled=cancelled, progressed=progressed
        )
        return dict(Counter(hit.path for hits in tops.values() for hit in hits))

    def days(self, recalled: Mapping[str, int] | None = None) -> Sequence[DayTotals]:
        """Return the days that dated files are of, oldest first; `recalled` is summed per day."""
        return days_of(self.files(), recalled)

    def care(
        self, *, cancelled: IsCancelled = _never, progressed: Progressed = _untold
    ) -> CareReport:
        """Look through the whole memory for what needs care; nothing is written."""
        from memtui.engine.care import CareRun

        return CareRun(self._index, self._asker, self._now().date(), cancelled).report(progressed)


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


def record_of(reading: Reading, chunk_id: str, dates: DateRule) -> ChunkRecord | None:
    """Read and compute what there is to know of a chunk; `None` when it is gone.

    `dates` says what its age is counted from. Raises what SQLite raises.
    """
    rowid = reading.row_of(chunk_id)
    chunk = reading.chunks([rowid]).get(rowid) if rowid is not None else None
    if rowid is None or chunk is None:
        return None
    from memtui.engine.neighbours import TermTable

    words = reading.words
    tokens, terms = TermTable(words).counted(chunk.text) if words is not None else (0, ())
    stored = reading.vector(rowid)
    return ChunkRecord(
        chunk=replace(chunk, day_from=chunk_day(chunk, dates)[1]),
        rowid=rowid,
        tokens=tokens,
        characters=len(chunk.text),
        terms=terms,
        provider=stored.provider,
        dimensions=stored.dimensions,
        norm=_norm(stored.values),
        vector_state=stored.state,
        changed=reading.changed(chunk),
        importance=chunk.importance,
    )


def _norm(vector: NDArray[np.floating] | None) -> float | None:
    """The length of a vector; `None` for one that is not finite."""
    if vector is None:
        return None
    # In double precision: the sum of many small squares.
    length = math.sqrt(math.fsum(float(number) ** 2 for number in vector.tolist()))
    return length if math.isfinite(length) else None


@dataclass(frozen=True, slots=True)
class Top:
    """One of the first k results of a query."""

    chunk_id: str
    path: str
    score: float


_AnswerKey = tuple[Hashable, date, str, str]
"""What an answer holds for: the index, the day, the ranking, and the query."""


class QueryAsker:
    """Asks queries one at a time behind every search, and remembers what they brought up.

    An answer holds until the index, the ranking or the day (for decay) is another one. Any
    thread; a leg that failed or is not ready makes an answer that is not remembered.
    """

    def __init__(
        self, search: Search, stamp: Callable[[], Hashable], now: Callable[[], datetime]
    ) -> None:
        self._search = search
        self._stamp = stamp
        self._now = now
        self._lock = threading.Lock()
        self._answers: dict[_AnswerKey, tuple[Top, ...]] = {}

    def tops(
        self,
        queries: Sequence[str],
        ranking: Ranking,
        *,
        cancelled: Callable[[], bool],
        progressed: Callable[[int, int], None],
    ) -> Mapping[str, tuple[Top, ...]]:
        """Return the first k results of each query; empty without an index.

        Raises `Cancelled`, and what a search raises.
        """
        stamp = self._stamp()
        asked = [query for query in dict.fromkeys(queries) if query.strip()]
        tops: dict[str, tuple[Top, ...]] = {}
        for done, query in enumerate(asked if stamp is not None else ()):
            if cancelled():
                raise Cancelled
            progressed(done, len(asked))
            key = (stamp, self._now().date(), repr(ranking), query)
            with self._lock:
                top = self._answers.get(key)
            tops[query] = top if top is not None else self._ask(key, ranking, cancelled)
        if stamp is not None:
            progressed(len(asked), len(asked))
        return tops

    def _ask(
        self, key: _AnswerKey, ranking: Ranking, cancelled: Callable[[], bool]
    ) -> tuple[Top, ...]:
        future = self._search.ask_later(SearchRequest(key[3], ranking), cancelled)
        while True:
            try:
                ranked = future.result(timeout=_LOOK_SECONDS)
                break
            except StillRunning:
                if cancelled():
                    future.cancel()
                    raise Cancelled from None
            except CancelledError:
                raise IndexMissing("the index is closed") from None
        top = tuple(Top(hit.chunk.id, hit.chunk.path, hit.score) for hit in ranked.hits)
        if not any(state.status in _FAILED for state in ranked.pool.states.values()):
            with self._lock:
                if any(one[0] != key[0] for one in self._answers):
                    # Of an index that is no more.
                    self._answers.clear()
                while len(self._answers) >= MOST_REMEMBERED:
                    self._answers.pop(next(iter(self._answers)))
                self._answers[key] = top
        return top

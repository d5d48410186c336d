"""An engine with something to say about chunks and about care, from the chunks of the sample."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from memtui.engine.browse import IsCancelled, Progressed
from memtui.errors import Cancelled, MemtuiError
from memtui.model import Chunk, Ranking, Reason
from memtui.model.browsing import (
    AnsweredQuery,
    CareFinding,
    CarePlace,
    CareReport,
    CareRule,
    ChunkRecord,
    ChunkTerm,
    Neighbour,
    Neighbours,
)
from tests.tui.samples import CHUNKS, SampleEngine

_WORD = re.compile(r"\w+")
FIRST, SECOND = CHUNKS[0], CHUNKS[1]


def place_of(chunk: Chunk) -> CarePlace:
    """The lines of a chunk as a place."""
    return CarePlace(chunk.path, chunk.start_line, chunk.end_line, chunk.text, chunk.id)


REPORT = CareReport(
    findings=(
        CareFinding(
            CareRule.NEAR_DUPLICATE,
            place_of(FIRST),
            "says nearly the same as another chunk: keep one, or merge them",
            place_of(SECOND),
            {"similarity": 0.91},
        ),
        CareFinding(
            CareRule.BROKEN_LINK,
            CarePlace("memory/network.md", 7, 7, "See [the rack](rack.md).", CHUNKS[2].id),
            "rack.md is not there: mend or remove the link",
        ),
        CareFinding(
            CareRule.CREDENTIAL,
            CarePlace("MEMORY.md", 31, 31, "router key sk-…masked…", ""),
            "shaped like a credential: move it into a vault",
        ),
    ),
    looked_at={
        CareRule.NEAR_DUPLICATE: 8911,
        CareRule.EMPTY_FILE: 142,
        CareRule.LONG_FILE: 142,
        CareRule.DATED_FACT: 37,
        CareRule.BROKEN_LINK: 58,
        CareRule.LONG_LINE: 142,
        CareRule.CREDENTIAL: 142,
    },
    skipped={CareRule.UNREACHABLE: "there are no vectors yet"},
)


@dataclass
class CareSample(SampleEngine):
    """The sample with an answer to everything that the chunk and the care screen ask."""

    report: CareReport = REPORT
    looks: int = 0
    hold: threading.Event | None = None
    """While it is set to an event: looking and asking wait for that, or until cancelled."""
    fails: str = ""
    stopped: list[str] = field(default_factory=list)
    asked_queries: list[tuple[str, ...]] = field(default_factory=list)
    gone: set[str] = field(default_factory=set)
    """Ids of chunks that the index holds no more."""
    records: dict[str, ChunkRecord] = field(default_factory=dict)
    like: Neighbours | None = None

    def _wait(self, what: str, cancelled: IsCancelled) -> None:
        while self.hold is not None and not self.hold.wait(0.005):
            if cancelled():
                self.stopped.append(what)
                raise Cancelled

    def file_of(self, path: str) -> Path | None:
        """Every file is below one folder, but for those of a database."""
        return None if ".sqlite" in path else Path("/home/ann/memory") / path

    def chunks_of(self, path: str) -> Sequence[Chunk]:
        """The chunks of the sample in this file that are there."""
        return [one for one in self.indexed if one.path == path and one.id not in self.gone]

    def chunk_record(self, chunk_id: str) -> ChunkRecord | None:
        """What is prepared, else counted from the text."""
        if self.fails:
            raise MemtuiError(self.fails)
        if chunk_id in self.records:
            return self.records[chunk_id]
        chunk = next((one for one in self.indexed if one.id == chunk_id), None)
        if chunk is None or chunk_id in self.gone:
            return None
        words = _WORD.findall(chunk.text.lower())
        terms = [
            ChunkTerm(word, words.count(word), self._holding(word)) for word in sorted(set(words))
        ]
        return ChunkRecord(
            chunk,
            7,
            len(words),
            len(chunk.text),
            tuple(sorted(terms, key=lambda term: (term.document_frequency, term.term))),
            "minilm",
            384,
            1.0,
            Reason.OK,
            datetime(2026, 2, 10, 18, 30, tzinfo=UTC),
            0.7,
        )

    def _holding(self, word: str) -> int:
        return sum(word in _WORD.findall(one.text.lower()) for one in self.indexed)

    def neighbours(self, chunk_id: str, limit: int = 10) -> Neighbours:
        """The other chunks, by how many words they share."""
        if self.like is not None:
            return self.like
        own = set(_WORD.findall(next(c for c in self.indexed if c.id == chunk_id).text.lower()))
        found = []
        for other in self.indexed:
            words = set(_WORD.findall(other.text.lower()))
            if other.id != chunk_id and own & words:
                shared = tuple(sorted(own & words))
                found.append(Neighbour(other, len(own & words) / len(own | words), shared))
        found.sort(key=lambda one: -one.score)
        near = [Neighbour(one.chunk, one.score) for one in found]
        return Neighbours(tuple(near[:limit]), Reason.OK, tuple(found[:limit]), tuple(found[:1]))

    def answered_queries(
        self,
        chunk_id: str,
        queries: Sequence[str],
        *,
        ranking: Ranking | None = None,
        cancelled: IsCancelled = lambda: False,
        progressed: Progressed = lambda done, total: None,
    ) -> Sequence[AnsweredQuery]:
        """Every other query, the first one best."""
        self.asked_queries.append(tuple(queries))
        progressed(1, len(queries))
        self._wait("queries", cancelled)
        return [
            AnsweredQuery(query, place + 1, 0.9 - place / 10)
            for place, query in enumerate(queries[::2])
        ]

    def care(
        self,
        *,
        cancelled: IsCancelled = lambda: False,
        progressed: Progressed = lambda done, total: None,
    ) -> CareReport:
        """The report that is prepared."""
        self.looks += 1
        progressed(61, 100)
        self._wait("care", cancelled)
        if self.fails:
            raise MemtuiError(self.fails)
        return self.report

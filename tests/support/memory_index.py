"""A third index of the tests' own: chunks in a list. What it needs is all that an adapter needs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from memtui import model
from memtui.bus import Bus
from memtui.engine.engine import Engine
from memtui.engine.ports import (
    ChunkFacts,
    Files,
    FileStanding,
    Index,
    IndexedFile,
    Legs,
    Partial,
    Reading,
    RecentFile,
    SearchRequest,
    SourceText,
    StoredVector,
    TranscriptStore,
    Vectors,
    refused,
)
from memtui.engine.search import EngineThread
from memtui.index.transcripts.discovery import TranscriptHomes, TranscriptPlace, TranscriptScope
from memtui.index.transcripts.reading import TranscriptRow
from memtui.memory.documents import day_of_path, text_hash
from memtui.model.browsing import MemoryFile
from memtui.model.inquiry import LegPlace, LegRank, Place
from tests.support.embedding import HashedProvider


class NoTranscripts(TranscriptStore):
    """A memory without conversations."""

    def __init__(self, root: Path) -> None:
        self.scope = TranscriptScope(root, TranscriptHomes(), ())

    def locate(self) -> Sequence[TranscriptPlace]:
        return ()

    def indexed(self) -> Mapping[str, TranscriptRow]:
        return {}

    def use_sources(self, names: Sequence[str]) -> None: ...


@dataclass
class ListedFiles(Files):
    """The texts as files that never differ from what is indexed."""

    index: MemoryIndex

    def entries(self, cancelled: Callable[[], bool]) -> list[MemoryFile]:
        current: Any = {"source": "memory", "place": "workspace", "state": model.FileState.CURRENT}
        return [
            MemoryFile(
                **current, path=one.path, size=1, changed=None, chunks=1, lines=1, day=one.day
            )
            for one in self.index.stored
        ]

    def documents(self, cancelled: Callable[[], bool]) -> Iterator[model.Document]:
        for path, text in sorted(self.index.texts.items()):
            file = model.SourceFile(path, str(self.index.root / path), "memory", len(text), 0, 0)
            yield model.Document(file, text, "", None, None, None)

    def source(self, path: str) -> SourceText:
        text = self.index.texts.get(path)
        state = "gone" if text is None else "current"
        return SourceText(path, (text or "").split("\n"), state)

    def standing(self, path: str, indexed: IndexedFile | None) -> FileStanding:
        is_there = path in self.index.texts
        return FileStanding(path, model.Reason.OK if is_there else model.Reason.NO_FILE)


@dataclass
class MemoryIndex(Index, Reading, Legs):
    """A memory of texts by path, each one chunk; searched by shared words and hashed vectors."""

    root: Path
    texts: Mapping[str, str]

    def __post_init__(self) -> None:
        self.ranking, self.legs = model.Ranking(), self
        self._provider = HashedProvider()
        maker, kind = self._provider.identity.model, "memory"
        self.stored = []
        for path, text in sorted(self.texts.items()):
            lines, digests = text.count("\n") + 1, (text_hash(path), text_hash(text))
            one = model.Chunk(digests[0], path, kind, 1, lines, text, digests[1], maker)
            self.stored.append(replace(one, day=day_of_path(path)))
        matrix = self._provider.embed_documents([chunk.text for chunk in self.stored])
        every = np.arange(len(self.stored), dtype=np.int64)
        self.matrix = Vectors(every, matrix, np.abs(matrix).sum(axis=1) > 0)

    @cached_property
    def files(self) -> ListedFiles:
        return ListedFiles(self)

    @cached_property
    def transcripts(self) -> TranscriptStore:
        return NoTranscripts(self.root)

    # --- searching ---

    def retrieve(
        self, request: SearchRequest, cancelled: Callable[[], bool], partial: Partial | None
    ) -> model.CandidatePool:
        limit = max(request.ranking.candidates, 50)
        orders = {leg: self.order(leg, request.text)[:limit] for leg in model.Leg}
        hits = {
            leg: tuple(
                model.LegHit(self.stored[row].id, n, raw) for n, (row, raw) in enumerate(order)
            )
            for leg, order in orders.items()
        }
        chunks = {
            self.stored[row].id: self.stored[row] for order in orders.values() for row, _ in order
        }
        states = dict.fromkeys(model.Leg, model.LegState(model.LegStatus.OK))
        return model.CandidatePool(request.text, chunks, hits, states, limit, typing=request.typing)

    def order(self, leg: model.Leg, query: str) -> list[tuple[int, float]]:
        """The rows that a leg finds, best first, each with its score."""
        if not query.strip():
            return []
        if leg is model.Leg.VECTOR:
            cosines = self.matrix.matrix @ self._provider.embed_query(query)
            scores = [(row, float(cosine)) for row, cosine in enumerate(cosines)]
            return sorted(scores, key=lambda one: (-one[1], one[0]))
        words = set(query.lower().split())
        shared = [len(words & set(chunk.text.lower().split())) for chunk in self.stored]
        # As of BM25, the lowest is the best.
        return sorted(
            ((row, -float(n)) for row, n in enumerate(shared) if n), key=lambda one: one[1]
        )

    # --- reading ---

    def read(self, function: Callable[[Any], Any], about: object = None) -> Any:
        return function(self)

    def stamp(self) -> Hashable:
        return len(self.stored)

    # --- how it is ---

    def status(self) -> model.IndexStatus:
        count = len(self.stored)
        return model.IndexStatus(
            state=model.IndexState.READY,
            root=str(self.root),
            index_dir="",
            generation=1,
            files=count,
            chunks=count,
            vectors=count,
            sources=(model.SourceCount("memory", count, count),),
            provider=model.ProviderState("hashed", "hashed", "hashed", 64),
            vector_backend="a matrix",
            tokenizer="words",
            watcher=model.WatcherState("off"),
            writer="none",
        )

    # --- a look at the rows ---

    @property
    def size(self) -> int:
        return len(self.stored)

    def row_of(self, chunk_id: str) -> int | None:
        return next((n for n, one in enumerate(self.stored) if one.id == chunk_id), None)

    def chunks(self, rowids: Iterable[int]) -> Mapping[int, model.Chunk]:
        return {row: self.stored[row] for row in rowids if 0 <= row < self.size}

    def rows_of(self, path: str) -> Sequence[int]:
        return [n for n, one in enumerate(self.stored) if one.path == path]

    def vector(self, rowid: int) -> StoredVector:
        values = self.matrix.matrix[rowid]
        return StoredVector(values, model.Reason.OK, "hashed", len(values))

    def vectors(self, rowid: int) -> Vectors | model.Reason:
        return self.matrix

    def paths(self) -> Sequence[str]:
        return sorted(self.texts)

    def recent(self, limit: int) -> Sequence[RecentFile]:
        moment = datetime.fromtimestamp(0, UTC)
        return [RecentFile(one.path, moment) for one in self.stored][:limit]

    def file_at(self, place: Place, source: str | None = None) -> IndexedFile:
        return IndexedFile(place, None, self.chunks_of(place.path), "memory")

    def facts(self, ranked: model.Ranked, chunk_id: str) -> ChunkFacts | None:
        row = self.row_of(chunk_id)
        if row is None:
            return None
        places = {}
        for leg in model.Leg:
            order = self.order(leg, ranked.pool.query)
            rank = next((n for n, one in enumerate(order) if one[0] == row), None)
            found = None if rank is None else LegRank(rank, len(order), order[rank][1])
            reason = refused(ranked.pool, leg) or (
                model.Reason.OK if found else model.Reason.NOT_MATCHED
            )
            places[leg] = LegPlace(found, reason)
        return ChunkFacts(self.stored[row], places=places)


def open_memory_index(root: Path, texts: Mapping[str, str], bus: Bus | None = None) -> Engine:
    """Open an engine over the list, as any other adapter would be."""
    now: Any = lambda: datetime(2026, 2, 20, 12, tzinfo=UTC)  # noqa: E731
    return Engine(MemoryIndex(root, texts), EngineThread(), bus or Bus(), now)

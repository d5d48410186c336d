"""An engine's other half for tests that are about search: nothing to browse, no conversations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from memtui.engine.browse import IsCancelled as Cancelled
from memtui.engine.browse import Progressed
from memtui.engine.engine import Engine
from memtui.engine.what_if import LeastChanges, WordsToTry, find_changes, word_changes
from memtui.errors import MemtuiError
from memtui.model import Chunk, IndexStatus, Ranked, Ranking, Reason
from memtui.model.browsing import (
    AnsweredQuery,
    CareReport,
    ChunkRecord,
    DayTotals,
    MemoryFile,
    Neighbours,
)
from memtui.model.conversations import (
    ConversationListing,
    MemoryCall,
    Replayed,
    TranscriptSource,
)
from memtui.model.inquiry import WordChanges

_OWN_NAMES = {
    "search": {},
    "explain": {},
    "browse": {"files": "memory_files"},
    "conversations": {
        "listings": "listed_conversations",
        "count": "count_conversations",
        "read": "conversation",
        "sources": "transcript_sources",
        "use_sources": "use_transcripts",
    },
    "providers": {
        "available": "listed_providers",
        "cost": "provider_cost",
        "switch": "switch_provider",
        "probe": "probe_provider",
    },
    "index": {"hold": "hold_indexing"},
}
"""What a fake engine calls the methods of the services, where not by the same name."""


class _Service:
    def __init__(self, engine: object, names: Mapping[str, str]) -> None:
        self._engine = engine
        self._names = names

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, self._names.get(name, name))


def with_services(engine: object) -> None:
    """Give a fake engine the six services of a real one: its own methods."""
    for service, names in _OWN_NAMES.items():
        object.__setattr__(engine, service, _Service(engine, names))


class NothingToBrowse(Engine):
    """A memory without files and without conversations."""

    def __new__(cls, *args: object, **options: object) -> Self:
        made = object.__new__(cls)
        with_services(made)
        return made

    def __init__(self) -> None:
        return None

    def memory_files(self) -> Sequence[MemoryFile]:
        return ()

    def file_of(self, path: str) -> Path | None:
        return None

    def chunks_of(self, path: str) -> Sequence[Chunk]:
        return ()

    def chunk_record(self, chunk_id: str) -> ChunkRecord | None:
        return None

    def neighbours(self, chunk_id: str, limit: int = 10) -> Neighbours:
        return Neighbours((), Reason.NO_VECTORS, (), ())

    def answered_queries(
        self,
        chunk_id: str,
        queries: Sequence[str],
        *,
        ranking: Ranking | None = None,
        cancelled: Cancelled = lambda: False,
        progressed: Progressed = lambda done, total: None,
    ) -> Sequence[AnsweredQuery]:
        return ()

    def recalled(
        self,
        queries: Sequence[str],
        *,
        ranking: Ranking | None = None,
        cancelled: Cancelled = lambda: False,
        progressed: Progressed = lambda done, total: None,
    ) -> Mapping[str, int]:
        return {}

    def days(self, recalled: Mapping[str, int] | None = None) -> Sequence[DayTotals]:
        return ()

    def care(
        self,
        *,
        cancelled: Cancelled = lambda: False,
        progressed: Progressed = lambda done, total: None,
    ) -> CareReport:
        return CareReport((), {})

    def listed_conversations(self) -> Sequence[ConversationListing]:
        return ()

    def count_conversations(
        self,
        listings: Sequence[ConversationListing],
        counted: Callable[[ConversationListing], None],
        *,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        return None

    def conversation(self, path: str, *, cancelled: Callable[[], bool] = lambda: False) -> Any:
        raise MemtuiError(f"no conversation {path}")

    def transcript_sources(self) -> Sequence[TranscriptSource]:
        return ()

    def use_transcripts(self, names: Sequence[str]) -> None:
        return None

    def memory_calls(
        self,
        paths: Sequence[str] | None = None,
        *,
        found: Callable[[Sequence[MemoryCall]], None] = lambda calls: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Sequence[MemoryCall]:
        return ()

    def ask(self, text: str, *, ranking: Ranking | None = None, typing: bool = False) -> Ranked:
        raise NotImplementedError

    def status(self) -> IndexStatus:
        raise NotImplementedError

    def words_to_try(self, ranked: Ranked, chunk_id: str, limit: int = 12) -> WordsToTry:
        return WordsToTry(())

    def least_changes(self, *of: Any, **options: Any) -> LeastChanges:
        return find_changes(self.ask, *of, chunks=self.status().chunks, **options)

    def word_changes(self, *of: Any, **options: Any) -> WordChanges:
        return word_changes(self.ask, self.words_to_try, *of, **options)

    def replay(self, call: MemoryCall, *, ranking: Ranking | None = None) -> Replayed:
        return Replayed(call, ())

"""An engine's other half for tests that are about search: nothing to browse, no conversations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from memtui.errors import MemtuiError
from memtui.model import Chunk, Ranking, Reason
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
from memtui.tui.door_browse import Cancelled, Progressed
from memtui.tui.door_conversations import Conversation


class NothingToBrowse:
    """A memory without files and without conversations."""

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

    def conversations(self) -> Sequence[ConversationListing]:
        return ()

    def count_conversations(
        self,
        listings: Sequence[ConversationListing],
        counted: Callable[[ConversationListing], None],
        *,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        return None

    def conversation(
        self, path: str, *, cancelled: Callable[[], bool] = lambda: False
    ) -> Conversation:
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

    def replay(self, call: MemoryCall, *, ranking: Ranking | None = None) -> Replayed:
        return Replayed(call, ())

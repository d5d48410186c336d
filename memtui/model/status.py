"""How the index is and what keeps it up to date."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING

from memtui.model.documents import SkippedFile
from memtui.model.reasons import Failure, Reason

if TYPE_CHECKING:
    from memtui.model.foreign import ForeignStatus


class IndexState(StrEnum):
    """The one word that says how the index is."""

    READY = "ready"
    INDEXING = "indexing"
    STALE = "stale"
    DEGRADED = "degraded"
    ERROR = "error"
    NO_INDEX = "no_index"


@dataclass(frozen=True, slots=True)
class Usage:
    """What a provider was asked for: requests, texts and tokens."""

    requests: int = 0
    texts: int = 0
    tokens: int = 0
    estimated: bool = False
    """Whether some tokens were counted by their length, because an answer did not say."""

    def plus(self, other: Usage) -> Usage:
        """Both together."""
        return Usage(
            self.requests + other.requests,
            self.texts + other.texts,
            self.tokens + other.tokens,
            self.estimated or other.estimated,
        )

    def since(self, before: Usage) -> Usage:
        """What came after `before`."""
        return Usage(
            self.requests - before.requests,
            self.texts - before.texts,
            self.tokens - before.tokens,
            self.estimated,
        )


@dataclass(frozen=True, slots=True)
class SyncStats:
    """What a sync did; counts of files and chunks, time in seconds."""

    rebuild: bool
    finished_at: datetime
    seconds: float
    files_seen: int
    files_added: int
    files_changed: int
    files_removed: int
    files_skipped: int
    chunks_written: int
    chunks_embedded: int
    cache_hits: int
    usage: Usage = Usage()
    """What the provider was asked for."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a running sync is; `eta` in seconds, `None` until it can be told."""

    phase: str
    done: int
    total: int
    rate: float
    eta: float | None
    current: str = ""


@dataclass(frozen=True, slots=True)
class ProviderState:
    """Which embedding provider was asked for, which one answers, and why they differ."""

    requested: str
    """The name in the settings, `auto` among them."""
    actual: str | None
    """The provider that answers; `None` when none does."""
    model: str | None
    dimensions: int | None
    state: Reason = Reason.OK
    """`fallback` when another than the requested one answers because that one failed."""
    detail: str = ""
    """One line: why `actual` is what it is; empty when there is nothing to tell."""
    remote: bool = False
    address: str = ""
    """The host that text is sent to; empty when it stays in this program."""
    failure: Failure | None = None
    """How the requested provider failed, when it did."""
    hint: str = ""
    """What to do about the failure; `detail` ends with it."""


@dataclass(frozen=True, slots=True)
class WatcherState:
    """How changes are noticed: `events`, `polling` or `off`."""

    mode: str
    detail: str = ""
    last_event: datetime | None = None


@dataclass(frozen=True, slots=True)
class ErrorRecord:
    """Something that went wrong, when and where."""

    at: datetime
    where: str
    message: str


@dataclass(frozen=True, slots=True)
class SourceCount:
    """How much of one source the index holds."""

    source: str
    files: int
    chunks: int


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """A snapshot of the index and everything that keeps it up to date."""

    state: IndexState
    root: str
    index_dir: str
    generation: int
    files: int
    chunks: int
    vectors: int
    sources: tuple[SourceCount, ...]
    pending: tuple[str, ...]
    """Files whose change is seen and not yet indexed, at most 200 names."""
    pending_count: int
    skipped: tuple[SkippedFile, ...]
    provider: ProviderState
    vector_backend: str
    tokenizer: str
    watcher: WatcherState
    writer: str
    """`this process`, `process 1234`, or `none`."""
    last_sync: SyncStats | None
    progress: Progress | None
    cache_hits: int
    cache_misses: int
    errors: tuple[ErrorRecord, ...]
    warnings: tuple[str, ...] = ()
    foreign: ForeignStatus | None = None
    """Set when another program owns the index, and memtui only reads it."""
    made_by: str = ""
    """Provider and model of the live index's vectors, as `minilm/all-MiniLM-L6-v2-int8`; empty for
    none, and before the index was read."""
    usage: Usage = Usage()
    """What providers were asked for by the syncs of this run of the program."""

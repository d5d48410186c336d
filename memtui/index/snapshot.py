"""What the index thread is busy with, and what it knows, at one moment."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from memtui.index.rows import IndexCounts
from memtui.model import (
    ErrorRecord,
    Failure,
    Progress,
    ProviderState,
    Reason,
    SkippedFile,
    SyncStats,
    Usage,
)

PENDING_SHOWN: Final = 200


@dataclass(frozen=True, slots=True)
class VectorProblem:
    """Why vectors are still missing."""

    reason: Reason
    detail: str
    failure: Failure | None = None
    is_of_texts: bool = False
    """Whether the provider works, and would not take some texts."""
    passes: bool = True
    """Whether a later sync asks again by itself."""


class Work(Enum):
    """What the index thread is asked for or busy with."""

    NONE = "none"
    SYNC = "sync"
    REBUILD = "rebuild"


@dataclass(frozen=True, slots=True)
class IndexerSnapshot:
    """What the index thread knows, at one moment."""

    running: Work = Work.NONE
    progress: Progress | None = None
    pending: tuple[str, ...] = ()
    """Files whose change is seen and not yet indexed, at most 200."""
    pending_count: int = 0
    last_sync: SyncStats | None = None
    errors: tuple[ErrorRecord, ...] = ()
    """The last 20, oldest first."""
    failure: str | None = None
    """Why the last sync or rebuild failed; `None` when it ended well or was stopped."""
    stopped: str | None = None
    """How far the last sync or rebuild came when somebody stopped it; else `None`."""
    skipped: tuple[SkippedFile, ...] = ()
    cache_hits: int = 0
    usage: Usage = field(default_factory=Usage)
    cache_misses: int = 0
    cache_excess: int = 0
    """By how many bytes live vectors alone exceed the bound of the cache."""
    writer: str = "none"
    """`this process`, `process 1234`, or `none`."""
    generation: int = 0
    """The live generation; 0 when there is none."""
    counts: IndexCounts = field(default_factory=IndexCounts)
    problem: VectorProblem | None = None
    """Why vectors are missing although they should be there."""
    provider: ProviderState | None = None
    """What the provider said when it was asked last; `None` before."""

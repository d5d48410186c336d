"""What a sync or rebuild works with, and what it hands back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from memtui.bus import Bus
from memtui.embedding.cache import EmbeddingCache
from memtui.embedding.provider import Provider
from memtui.errors import Cancelled, WorkspaceNotFound
from memtui.index.courtesy import Courtesy
from memtui.index.failing import VectorProblem
from memtui.index.generations import IndexFolder
from memtui.index.progress import ProgressReporter
from memtui.index.recipe import Recipe
from memtui.index.refused import RefusedTexts
from memtui.index.transcripts.discovery import with_transcripts
from memtui.index.transcripts.scope import TranscriptScope
from memtui.memory.discover import Discovery, Scope, discover
from memtui.model import ProviderState, SkippedFile, SyncStats, Usage

WORTH_A_WAIT = 64
"""So many files or chunks have to be left for a job to wait while somebody types."""

ProviderFactory = Callable[[], tuple[Provider | None, ProviderState]]


def _never() -> bool:
    return False


def _utc_now() -> datetime:
    return datetime.now(UTC)


def _ignore(paths: Sequence[str]) -> None:
    """Drop the names: nobody shows what is pending."""


def _drop(line: str) -> None:
    """Drop it: nobody lists what went wrong."""


@dataclass(frozen=True, slots=True)
class Job:
    """One sync or rebuild: the folders, the recipe, and how to report and to stop."""

    folder: IndexFolder
    scope: Scope
    recipe: Recipe
    cache: EmbeddingCache
    provider: ProviderFactory
    """Asked only when a text has to be embedded; may load a model. May be asked again."""
    bus: Bus
    progress: ProgressReporter
    cancelled: Callable[[], bool] = _never
    now: Callable[[], datetime] = _utc_now
    planned: Callable[[Sequence[str]], None] = _ignore
    """Told the paths that will be read or removed, before that begins."""
    done: Callable[[Sequence[str]], None] = _ignore
    """Told the paths whose rows are committed."""
    wanted: Callable[[], bool] = _never
    """Whether other work is asked for, which waiting for a service gives way to."""
    note: Callable[[str], None] = _drop
    """Told in one line what went wrong without stopping the job."""
    refused: RefusedTexts = field(default_factory=RefusedTexts)
    """The texts that a provider would not take, of this job and those before it."""

    spent: Usage = field(default_factory=Usage)
    """What was asked of the provider for this job before it began."""

    transcripts: TranscriptScope | None = None
    """The conversations that are indexed beside the notes; `None`: none are."""

    awaits_batch: bool = False
    """Whether the index is of another model and only kept while a batch for its own is made."""

    courtesy: Courtesy = field(default_factory=Courtesy)
    """Whom the job waits for."""

    def check(self) -> None:
        """Wait while somebody types; raise `Cancelled` when the job is to stop."""
        if self.is_stopped():
            raise Cancelled

    def is_stopped(self) -> bool:
        """Wait, on the thread that works, while somebody types; whether the job is to stop.

        What is nearly done does not wait: a saved note is found at once.
        """
        if self.progress.remaining >= WORTH_A_WAIT:
            self.courtesy.wait(self.cancelled)
        return self.cancelled()

    def discover(self) -> Discovery:
        """Find notes and transcripts; raises `WorkspaceNotFound` when the folder cannot be listed.

        An unmounted folder must not read as "every note was deleted".
        """
        found = discover(self.scope, cancelled=self.cancelled)
        refused = [skipped for skipped in found.skipped if skipped.path == "."]
        if refused:
            here = self.scope.root.is_dir()
            why = f"cannot be read: {refused[0].detail}" if here else "is not there"
            raise WorkspaceNotFound(
                f"the memory folder {self.scope.root} {why}",
                hint="the index is kept as it is until the folder is back",
            )
        return with_transcripts(found, self.transcripts, cancelled=self.cancelled)


@dataclass(slots=True)
class Counts:
    """What a job has done so far."""

    seen: int = 0
    added: int = 0
    changed: int = 0
    removed: int = 0
    chunks_written: int = 0
    embedded: int = 0
    cache_hits: int = 0
    cache_misses: int = 0
    usage: Usage = field(default_factory=Usage)
    skipped: list[SkippedFile] = field(default_factory=list)

    def stats(self, *, rebuild: bool, finished_at: datetime, seconds: float) -> SyncStats:
        """Sum up."""
        return SyncStats(
            rebuild=rebuild,
            finished_at=finished_at,
            seconds=seconds,
            files_seen=self.seen,
            files_added=self.added,
            files_changed=self.changed,
            files_removed=self.removed,
            files_skipped=len(self.skipped),
            chunks_written=self.chunks_written,
            chunks_embedded=self.embedded,
            cache_hits=self.cache_hits,
            usage=self.usage,
        )


@dataclass(frozen=True, slots=True)
class SyncResult:
    """How a job ended."""

    generation: int
    stats: SyncStats
    skipped: tuple[SkippedFile, ...]
    cache_misses: int
    problem: VectorProblem | None
    """`None` when every chunk that should have a vector has one."""
    provider: ProviderState | None
    """`None` when the provider was not needed."""
    swapped: bool = False
    """Whether another generation went live."""

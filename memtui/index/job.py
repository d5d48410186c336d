"""One sync or rebuild: what it is given, how it reports, waits and stops, what came of it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from memtui.bus import Bus, SyncProgressed
from memtui.embedding.provider import Provider, ProviderIdentity
from memtui.errors import Cancelled, IsCancelled, never
from memtui.index.database import Recipe
from memtui.index.embedding_cache import EmbeddingCache
from memtui.index.generations import IndexFolder
from memtui.memory.discover import Scope
from memtui.model import Failure, IndexStatus, ProviderState, Reason, SkippedFile, SyncStats

if TYPE_CHECKING:
    from memtui.index.transcripts.discovery import TranscriptScope

PENDING_SHOWN: Final = 200
FILES: Final = "files"
VECTORS: Final = "vectors"
PIECES: Final = "word pieces"
MOST_TRIES: Final = 3
"""So often a text is sent that is refused each time; then only when the user asks for work."""
WORTH_A_WAIT: Final = 64
"""So many files or chunks have to be left for a job to wait while somebody types."""
PAUSE_SECONDS: Final = 1.0
"""So long after the last key the index goes on: longer than from one key to the next."""
MOST_SECONDS: Final = 2.0
"""So long a step of the work waits at most, however much is typed."""

_LOOK_SECONDS = 0.05
_EVENT_SECONDS = 0.1
_WINDOW_SECONDS = 20.0
_ETA_SECONDS = 5.0
_ETA_SAMPLES = 3


class Refusal(Struct, frozen=True):
    """The reason why a text has no vector."""

    message: str
    failure: Failure
    tries: int

    @property
    def is_final(self) -> bool:
        """True if the text is not sent again."""
        return self.tries >= MOST_TRIES


class TypingPause:
    """Lets the index thread wait while keys come in, as the threads share one interpreter."""

    def __init__(self, seconds: float = PAUSE_SECONDS, most: float = MOST_SECONDS) -> None:
        self._seconds = seconds
        self._most = most
        self._until = 0.0

    def typed(self) -> None:
        """Note a key; from any thread, never waits."""
        self._until = time.monotonic() + self._seconds

    def wait(self, stopped: IsCancelled) -> None:
        """Wait, on the thread that works, until nobody types, `stopped()` or 2 s have passed."""
        end = time.monotonic() + self._most
        while not stopped() and (left := min(self._until, end) - time.monotonic()) > 0:
            time.sleep(min(left, _LOOK_SECONDS))


@dataclass(eq=False)
class ProgressReporter:
    """Publishes `SyncProgressed` for the phases of one sync, and keeps what is left of it.

    `last` and `pending` may be read from any thread. `advanced` is called now and then when
    something was done, on the thread that reports.
    """

    bus: Bus
    clock: Callable[[], float] = time.monotonic
    advanced: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self.last: SyncProgressed | None = None
        self.pending: dict[str, None] = {}
        """The paths that are still to be read or removed."""
        self.remaining = 0
        """Number of steps of the phase that are still to be done."""
        self._phase = FILES
        self._total = 0
        self._published = 0.0
        self._samples: deque[tuple[float, int]] = deque()

    def start(self, phase: str, total: int) -> None:
        self._phase, self._total, self.remaining = phase, total, total
        self._samples.clear()
        self._publish(self.clock(), "")

    def advance(self, steps: int, current: str = "") -> None:
        """Note that `steps` more are done; `current` names what is being worked on."""
        self.remaining -= steps
        now = self.clock()
        if self.remaining <= 0 or now - self._published >= _EVENT_SECONDS:
            self._publish(now, current)
            self.advanced()

    def reach(self, phase: str, done: int, total: int) -> None:
        """Begin a phase, or go on in it as far as `done`."""
        if self.last is None or self.last.phase != phase:
            self.start(phase, total)
        self.advance(done - (self._total - self.remaining))

    def settle(self, paths: Iterable[str]) -> None:
        """Note the paths whose rows are committed."""
        for path in paths:
            self.pending.pop(path, None)

    def stopped(self, *, rebuild: bool) -> str:
        """Say how far a run came that was stopped."""
        if rebuild and (self.last is None or self.last.phase != VECTORS):
            return "stopped; the index is as it was"
        done = self._total - self.remaining
        place = f" at {done:,} of {self._total:,} {self._phase}" if self._total else ""
        return f"stopped{place}; the next sync goes on"

    def _publish(self, now: float, current: str) -> None:
        self._published = now
        done = self._total - self.remaining
        self._samples.append((now, done))
        while now - self._samples[0][0] > _WINDOW_SECONDS and len(self._samples) > 2:
            self._samples.popleft()
        begin, done_then = self._samples[0]
        rate = (done - done_then) / (now - begin) if now > begin else 0.0
        is_known = len(self._samples) > _ETA_SAMPLES and now - begin >= _ETA_SECONDS
        eta = self.remaining / rate if is_known and rate > 0 else None
        self.last = SyncProgressed(self._phase, done, self._total, rate, eta, current)
        self.bus.publish(self.last)


class VectorProblem(Struct, frozen=True):
    """The reason why vectors are still missing."""

    reason: Reason
    detail: str
    is_of_texts: bool = False
    """True if the provider works, and would not take some texts."""
    passes: bool = True
    """True if a later sync asks again by itself."""


class Job(Struct):
    """One sync or rebuild: what it is given, and what has come of it so far."""

    folder: IndexFolder
    scope: Scope
    recipe: Recipe
    cache: EmbeddingCache
    provider: Callable[[], tuple[Provider | None, ProviderState]]
    """Asked only when a text has to be embedded; may load a model. May be asked again."""
    bus: Bus
    progress: ProgressReporter
    transcripts: TranscriptScope
    """The conversations that are indexed beside the notes."""
    cancelled: IsCancelled = never
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    gives_way: Callable[[], bool] = never
    """True if other work is asked for."""
    note: Callable[[str], None] = lambda line: None
    """Told in one line what went wrong without stopping the job."""
    refused: dict[tuple[ProviderIdentity, str], Refusal] = msgspec.field(default_factory=dict)
    """The texts that a provider would not take, of this job and those before it, by hash."""
    credentials: dict[str, int | None] = msgspec.field(default_factory=dict)
    """The first line with a credential, from 0, of every text that was looked at, by hash."""
    withhold: Callable[[tuple[SkippedFile, ...]], None] = lambda chunks: None
    """Told which chunks are not sent, before any other is."""
    awaits_batch: bool = False
    """True if the index is of another model and only kept while a batch for its own is made."""
    pause: TypingPause = msgspec.field(default_factory=TypingPause)

    stats: SyncStats = msgspec.field(default_factory=SyncStats)
    skipped: list[SkippedFile] = msgspec.field(default_factory=list)
    """Files that are left out of the index."""
    problem: VectorProblem | None = None
    """`None` when every chunk that should have a vector has one."""

    @property
    def is_interrupted(self) -> bool:
        """True if other work is asked for, to which making vectors gives way, but for a rebuild."""
        return not self.stats.rebuild and self.gives_way()

    def check(self) -> None:
        """Wait while somebody types; raise `Cancelled` when the job is to stop."""
        if self.is_stopped():
            raise Cancelled

    def is_stopped(self) -> bool:
        """Wait, on the thread that works, while somebody types; tell whether the job is to stop.

        What is nearly done does not wait: a saved note is found at once.
        """
        if self.progress.remaining >= WORTH_A_WAIT:
            self.pause.wait(self.cancelled)
        return self.cancelled()


class Work(Enum):
    """The work that the index thread is asked for or busy with."""

    NONE = "none"
    SYNC = "sync"
    REBUILD = "rebuild"


class IndexerStatus(IndexStatus, frozen=True, kw_only=True):
    """The state of the index thread at one moment; the rest of a status is for the adapter."""

    running: Work = Work.NONE
    failure: str | None = None
    """The reason why the last sync or rebuild failed; `None` when it ended well or was stopped."""
    cache_excess: int = 0
    """By how many bytes live vectors alone exceed the bound of the cache."""
    problem: VectorProblem | None = None
    """The reason why vectors are missing although they should be there."""

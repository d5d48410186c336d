"""One sync or rebuild: what it is given, how it reports, gives way and stops, what came of it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from memtui.bus import Bus, SyncProgressed
from memtui.embedding.cache import EmbeddingCache
from memtui.embedding.provider import Provider, ProviderIdentity
from memtui.errors import Cancelled, ProviderError, WorkspaceNotFound
from memtui.index.generations import IndexFolder
from memtui.index.schema import Recipe
from memtui.index.transcripts.discovery import with_transcripts
from memtui.index.transcripts.scope import TranscriptScope
from memtui.memory.discover import Discovery, Scope, discover
from memtui.model import Failure, ProviderState, Reason, SkippedFile, SyncStats, Usage


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


MOST_TRIES: Final = 3
"""So often a text is sent that is refused each time; then only when the user asks for work."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a text has no vector."""

    message: str
    failure: Failure
    tries: int

    @property
    def is_final(self) -> bool:
        """Whether the text is not sent again."""
        return self.tries >= MOST_TRIES


class RefusedTexts:
    """Refusals by provider and text hash; lives as long as the program, any thread may `clear`."""

    def __init__(self) -> None:
        self._refusals: dict[tuple[str, str, str, str], Refusal] = {}

    def of(self, identity: ProviderIdentity, text_hash: str) -> Refusal | None:
        """Return what is known of a text; `None` for one that was not refused."""
        return self._refusals.get(_key(identity, text_hash))

    def note(self, identity: ProviderIdentity, text_hash: str, error: ProviderError) -> Refusal:
        """Remember that a text was refused once more."""
        before = self.of(identity, text_hash)
        tries = 1 + (before.tries if before is not None else 0)
        refusal = Refusal(str(error), Failure(error.failure), tries)
        self._refusals[_key(identity, text_hash)] = refusal
        return refusal

    def clear(self) -> None:
        """Forget all of it: the user has asked for work."""
        self._refusals.clear()


def _key(identity: ProviderIdentity, text_hash: str) -> tuple[str, str, str, str]:
    return identity.name, identity.model, identity.fingerprint, text_hash


PAUSE_SECONDS = 1.0
"""So long after the last key the index goes on: longer than from one key to the next."""
MOST_SECONDS = 2.0
"""So long a step of the work waits at most, however much is typed."""
_LOOK_SECONDS = 0.02


class Courtesy:
    """Lets the index thread wait while keys come in, as the threads share one interpreter."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until = 0.0

    def typed(self) -> None:
        """Note a key; from any thread, never waits."""
        self._until = self._clock() + PAUSE_SECONDS

    def wait(self, stopped: Callable[[], bool]) -> None:
        """Wait, on the thread that works, until nobody types, `stopped()` or 2 s have passed."""
        began = self._clock()
        while (now := self._clock()) < self._until and not stopped():
            if now - began >= MOST_SECONDS:
                return
            time.sleep(_LOOK_SECONDS)


FILES = "files"
VECTORS = "vectors"

_EVENT_SECONDS = 0.1
_WINDOW_SECONDS = 20.0
_ETA_SECONDS = 5.0
_ETA_SAMPLES = 3


class ProgressReporter:
    """Publishes `SyncProgressed` for the phases of one sync; `last` may be read from any thread.

    `published` is called after each event, on the thread that reports.
    """

    def __init__(
        self,
        bus: Bus,
        *,
        clock: Callable[[], float] = time.monotonic,
        published: Callable[[], None] | None = None,
    ) -> None:
        self.last: SyncProgressed | None = None
        self._bus = bus
        self._after_publishing = published
        self._clock = clock
        self._phase = FILES
        self._done = self._total = 0
        self._started = self._published = 0.0
        self._samples: deque[tuple[float, int]] = deque()

    def start(self, phase: str, total: int) -> None:
        """Begin a phase of `total` steps."""
        self._phase, self._done, self._total = phase, 0, total
        self._started = self._clock()
        self._samples.clear()
        self._samples.append((self._started, 0))
        self._publish(self._started, "")

    def advance(self, steps: int, current: str = "") -> None:
        """Note that `steps` more are done; `current` names what is being worked on."""
        self._done += steps
        now = self._clock()
        if self._done >= self._total or now - self._published >= _EVENT_SECONDS:
            self._samples.append((now, self._done))
            while now - self._samples[0][0] > _WINDOW_SECONDS and len(self._samples) > 2:
                self._samples.popleft()
            self._publish(now, current)

    def reach(self, phase: str, done: int, total: int) -> None:
        """Begin a phase, or go on in it as far as `done`."""
        if self.last is None or self.last.phase != phase:
            self.start(phase, total)
        self.advance(done - self._done)

    @property
    def remaining(self) -> int:
        """How many steps of the phase are still to be done."""
        return self._total - self._done

    def stopped(self, *, rebuild: bool) -> str:
        """Say what is left of a run that was stopped."""
        if rebuild and (self.last is None or self.last.phase != VECTORS):
            return "stopped; the index is as it was"
        return f"stopped; {100 * self._done // self._total if self._total else 100} % kept"

    def _publish(self, now: float, current: str) -> None:
        self._published = now
        begin, done_then = self._samples[0]
        rate = (self._done - done_then) / (now - begin) if now > begin else 0.0
        is_told = len(self._samples) > _ETA_SAMPLES and now - self._started >= _ETA_SECONDS
        eta = (self._total - self._done) / rate if is_told and rate > 0 else None
        self.last = SyncProgressed(self._phase, self._done, self._total, rate, eta, current)
        self._bus.publish(self.last)
        if self._after_publishing is not None:
            self._after_publishing()


WORTH_A_WAIT = 64
"""So many files or chunks have to be left for a job to wait while somebody types."""

ProviderFactory = Callable[[], tuple[Provider | None, ProviderState]]


def _never() -> bool:
    return False


def _ignore(said: object) -> None:
    """Drop it: nobody shows what is pending or lists what went wrong."""


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
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    planned: Callable[[Sequence[str]], None] = _ignore
    """Told the paths that will be read or removed, before that begins."""
    done: Callable[[Sequence[str]], None] = _ignore
    """Told the paths whose rows are committed."""
    wanted: Callable[[], bool] = _never
    """Whether other work is asked for, which waiting for a service gives way to."""
    note: Callable[[str], None] = _ignore
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
        notes = discover(self.scope, cancelled=self.cancelled)
        refused = [skipped for skipped in notes.skipped if skipped.path == "."]
        if refused:
            here = self.scope.root.is_dir()
            why = f"cannot be read: {refused[0].detail}" if here else "is not there"
            raise WorkspaceNotFound(
                f"the memory folder {self.scope.root} {why}",
                hint="the index is kept as it is until the folder is back",
            )
        if self.transcripts is None or self.transcripts.is_empty:
            return notes
        return with_transcripts(notes, self.transcripts, cancelled=self.cancelled)


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


@dataclass(frozen=True, slots=True)
class SyncResult:
    """How a job ended."""

    stats: SyncStats
    skipped: tuple[SkippedFile, ...]
    cache_misses: int
    problem: VectorProblem | None
    """`None` when every chunk that should have a vector has one."""
    provider: ProviderState | None
    """`None` when the provider was not needed."""

"""Embedding many texts by batches: sent, waited for, fetched, and taken up again after a restart.

What is under way is in the store before anybody waits for it, and results carry the hashes of
their texts: a run that ended anywhere is taken up by the next with nothing embedded twice. Stopping
leaves a batch running at the service; it is not cancelled there, as its results are paid for.
"""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeVar

from memtui.embedding.batch.protocols import AT_ONCE, BatchService, Polled, State
from memtui.embedding.batch.store import BatchStore, Ticket
from memtui.embedding.cache import EmbeddingCache
from memtui.embedding.payloads import Request, WrongAnswer, vectors_in
from memtui.embedding.provider import clean_vectors, estimated_tokens
from memtui.embedding.remote.http import Reply, ServiceError, parsed
from memtui.embedding.remote.pacing import Schedule, retry
from memtui.errors import Cancelled
from memtui.model import Failure, Usage

if TYPE_CHECKING:
    from memtui.embedding.payloads import Answered

T = TypeVar("T")

SCHEDULE: Final = Schedule(attempts=3, base=0.3, longest=2.0)
"""Of one request, as OpenClaw's (OPENCLAW.md, section 10)."""
FAILURES: Final = 2
"""Batches that may fail before a run sends no more of them."""
LONGEST_POLL: Final = 60.0
_LONGEST_ASKED: Final = 60.0
_POLL_GROWTH: Final = 1.5
_MOST_MISSES: Final = 8
"""Polls in a row without an answer before a run does without the batch; it stays in the store."""
_MOST_UNKNOWN: Final = 3
"""Polls in a row at which the service does not know a batch; a new one is not seen at once."""
_GRACE: Final = 900.0
"""Seconds after its window within which a service may still end a batch."""
_SLICE: Final = 0.05
"""Seconds: how long a wait goes on after it was to stop."""
_SLOWEST_LINE: Final = 100_000
"""Bytes a second."""
_QUICK: Final = 10.0
"""Seconds for a request that nothing depends on."""
_NOT_FOUND: Final = 404
_LONGEST_LINE: Final = 2**20
"""Bytes; a vector of 16384 numbers as text is a third of it."""
_TOGETHER: Final = 128
"""Vectors that are stored at a time."""

ProgressOfBatches = Callable[[str, int, int], None]
"""Told the phase in words, and how many texts of how many are embedded."""


class NoInterface(ServiceError):
    """The service says that it has no batches for this model or key."""


class BrokenResults(ValueError):
    """A file that cannot be one of results; its text repeats nothing of it."""


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """What the batches of one run gave."""

    done: int
    """Texts whose vectors are in the cache now."""
    failed: int
    """Texts of batches that ended without a vector for them."""
    spent: Usage
    note: str = ""
    """One line for people when something went wrong; empty when nothing did."""
    waiting: bool = False
    """Whether it was interrupted with a batch still under way."""


def batch_run(
    service: BatchService,
    texts: Mapping[str, str],
    store: BatchStore,
    cache: EmbeddingCache,
    *,
    cancelled: Callable[[], bool] = lambda: False,
    interrupted: Callable[[], bool] = lambda: False,
    progress: ProgressOfBatches = lambda phase, done, total: None,
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> BatchOutcome:
    """Put vectors of texts, by hash, into the cache by way of the service's batches.

    Batches that are under way for the same identity come first, though fewer texts than
    `service.minimum` do not wait for them; then those that are still missing are sent, while at
    least so many are. `texts` may be read from a database when asked. Text that gets no vector
    here is left to the caller. `interrupted` ends the waiting and nothing else. Raises
    `Cancelled` within 0.1 s, `OSError` when the store cannot be read or written, and what the
    cache raises.
    """
    steps = _Steps(service, cancelled, sleep)
    return _Run(service, texts, store, cache, steps, interrupted, progress, clock).run()


class _Steps:
    """The steps of a batch at one service; every wait ends within 0.1 s once `cancelled`.

    What fails in passing is tried again, nothing is started twice. All of them raise
    `Cancelled`, and `ServiceError` whose words hold nothing of an answer.
    """

    def __init__(
        self,
        service: BatchService,
        cancelled: Callable[[], bool],
        sleep: Callable[[float], None],
    ) -> None:
        self._service = service
        self._protocol = service.protocol
        self._cancelled = cancelled
        self._sleep = sleep

    def check(self) -> None:
        if self._cancelled():
            raise Cancelled

    def wait(self, seconds: float, interrupted: Callable[[], bool]) -> bool:
        """Wait; whether the time passed without `interrupted` having become true."""
        left = seconds
        while left > 0:
            self.check()
            if interrupted():
                return False
            self._sleep(min(_SLICE, left))
            left -= _SLICE
        return True

    def upload(self, data: bytes) -> str:
        """Send an input file; its id."""
        request = self._protocol.upload(data)
        return self.tried(lambda: self._parsed(self._send(request), self._protocol.uploaded))

    def start(self, input_file: str) -> str:
        """Start the batch of an input file; its id.

        Where an answer does not come, or makes no sense, the batch may have been started all
        the same: it is looked for before it is started again. Raises `NoInterface`.
        """
        asked = False

        def run() -> str:
            nonlocal asked
            if asked and (found := self.find(input_file)):
                return found
            asked = True
            reply = self._send(self._protocol.create(input_file))
            if self._protocol.closes(reply.status):
                error = self._service.connection.refusal(reply)
                raise NoInterface(error.message, error.kind, hint=error.hint)
            return self._parsed(reply, self._protocol.created)

        return self.tried(run)

    def find(self, input_file: str) -> str:
        """The batch of an input file, where it was started; empty where it was not.

        A service that cannot list its batches has none to find.
        """

        def run() -> str:
            reply = self._send(self._protocol.listing())
            return self._parsed(reply, lambda answer: self._protocol.found(answer, input_file))

        try:
            return self.tried(run)
        except ServiceError as error:
            if error.is_passing:
                raise
            return ""

    def poll(self, batch: str) -> Polled | None:
        """How a batch is; `None` when the service knows it no more."""
        reply = self._send(self._protocol.poll(batch))
        return None if reply.status == _NOT_FOUND else self._parsed(reply, self._protocol.polled)

    def download(self, output: str) -> Iterator[bytes]:
        """A file of results as it comes in."""
        request = self._protocol.result(output)
        timeout = self._service.timeout
        return self._service.connection.download(request, timeout=timeout, stopped=self._cancelled)

    def delete(self, file: str) -> None:
        """Delete a file whose content is needed no more, so that no text stays at the service.

        One that cannot be deleted is left: the service drops it by itself some day.
        """
        try:
            self._send(self._protocol.delete(file), _QUICK)
        except ServiceError:
            return

    def tried(self, run: Callable[[], T]) -> T:
        """Run it, and again where it fails in passing, after the pause that the service asks."""

        def pause_after(error: ServiceError, failures: int) -> float | None:
            pause = SCHEDULE.pause(failures)
            asked = min(_LONGEST_ASKED, error.retry_after or 0.0)
            return None if pause is None else max(pause, asked)

        def pause(seconds: float) -> None:
            self.wait(seconds, lambda: False)

        return retry(run, pause_after, pause)

    def _send(self, request: Request, most: float = math.inf) -> Reply:
        self.check()
        # A file takes as long as a slow line needs for it.
        timeout = min(most, self._service.timeout + len(request.body) / _SLOWEST_LINE)
        return self._service.connection.exchange(
            request, timeout=timeout, stopped=self._cancelled, is_urgent=True
        )

    def _parsed(self, reply: Reply, parse: Callable[[object], T]) -> T:
        connection = self._service.connection
        if not 200 <= reply.status < 300:
            raise connection.refusal(reply)
        answer = parsed(reply, connection.asked())
        try:
            return parse(answer)
        except ValueError as error:
            words = f"{self._service.place} answers with no batch: {error}"
            raise ServiceError(words, Failure.BAD_ANSWER) from None


@dataclass(slots=True)
class _Active:
    """A batch that is waited for."""

    ticket: Ticket
    members: tuple[str, ...] | None
    """The hashes of its texts; `None` for a batch of an earlier run."""
    next_poll: float
    delay: float
    misses: int = 0
    unknown: int = 0
    completed: int = 0


@dataclass(slots=True)
class _Run:
    service: BatchService
    texts: Mapping[str, str]
    store: BatchStore
    cache: EmbeddingCache
    steps: _Steps
    interrupted: Callable[[], bool]
    progress: ProgressOfBatches
    clock: Callable[[], float]
    missing: set[str] = field(default_factory=set)
    queue: list[str] | None = None
    """Hashes that are still to be sent, the next last; `None` until earlier batches have ended."""
    again: set[str] = field(default_factory=set)
    """Hashes that were in a batch which ended too late."""
    resends: bool = False
    """Whether the queue is sent however short it is, for a second attempt."""
    active: list[_Active] = field(default_factory=list)
    closed: bool = False
    total: int = 0
    failed: int = 0
    notes: list[str] = field(default_factory=list)
    spent: Usage = field(default_factory=Usage)

    def run(self) -> BatchOutcome:
        self.missing = set(self.texts)
        self.total = len(self.missing)
        self._resume()
        while True:
            self._fill()
            if not self.active:
                return self._outcome()
            now = self.clock()
            for active in self.active:
                # No poll waits for a clock that was set back to catch up.
                active.next_poll = min(active.next_poll, now + active.delay)
            upcoming = min(self.active, key=lambda active: active.next_poll)
            self._tell("waiting for")
            if not self.steps.wait(upcoming.next_poll - now, self.interrupted):
                return self._outcome(waiting=True)
            self._look(upcoming)

    # --- sending ----------------------------------------------------------------------------

    def _resume(self) -> None:
        """Take up the batches of earlier runs."""
        service = self.service
        name, place, now = service.protocol.name, service.place, self.clock()
        for ticket in self.store.under_way(name, place, service.identity, now):
            try:
                started = ticket
                if not ticket.batch:
                    batch = self.steps.find(ticket.input_file)
                    if not batch:
                        # Its texts may have been embedded since: what is missing is sent anew.
                        self._forget(ticket)
                        continue
                    started = replace(ticket, batch=batch)
                    self.store.put(started)
                delay = service.protocol.limits.first_poll
                self.active.append(_Active(started, None, self.clock(), delay))
            except ServiceError as error:
                self._not_started(ticket, error)

    def _fill(self) -> None:
        """Send batches until two are under way, or nothing is left that is worth one."""
        if self.queue is None:
            if any(active.members is None for active in self.active):
                return
            self.queue = [name for name in self.texts if name in self.missing][::-1]
            if self.resends:
                self.again |= self.missing
        while not self.closed and len(self.active) < AT_ONCE and self.queue:
            if len(self.queue) < self.service.minimum and not self.resends:
                return
            self._tell("sending to")
            members, data = self._input_file(self.queue)
            if members:
                self._submit(members, data)

    def _input_file(self, queue: list[str]) -> tuple[tuple[str, ...], bytes]:
        """Write down as many texts as one batch holds: their hashes, and the input file.

        Texts that the service does not take are passed over, perhaps all.
        """
        self.resends = False
        protocol = self.service.protocol
        members: list[str] = []
        data = bytearray()
        while queue and len(members) < protocol.limits.most_texts:
            self.steps.check()
            text = self.texts[queue[-1]]
            line = protocol.line(queue[-1], text) if self.service.takes(text) else b""
            if members and len(data) + len(line) > protocol.limits.most_bytes:
                break
            text_hash = queue.pop()
            if line:
                data += line
                members.append(text_hash)
        return tuple(members), bytes(data)

    def _submit(self, members: tuple[str, ...], data: bytes) -> None:
        protocol, identity, now = self.service.protocol, self.service.identity, self.clock()
        ticket: Ticket | None = None
        try:
            ticket = Ticket(
                service=protocol.name,
                address=self.service.place,
                provider=identity.name,
                model=identity.model,
                fingerprint=identity.fingerprint,
                input_file=self.steps.upload(data),
                batch="",
                texts=len(members),
                submitted_at=now,
                expires_at=now + protocol.limits.kept,
                attempt=1 if self.again.isdisjoint(members) else 2,
            )
            self.store.put(ticket)
            started = replace(ticket, batch=self.steps.start(ticket.input_file))
            self.store.put(started)
            delay = protocol.limits.first_poll
            self.active.append(_Active(started, members, self.clock() + delay, delay))
        except ServiceError as error:
            self.failed += len(members)
            self._not_started(ticket, error)

    def _not_started(self, ticket: Ticket | None, error: ServiceError) -> None:
        # Where the failure passes, the batch may have been started after all: the next run looks.
        if ticket is not None and not error.is_passing:
            self._forget(ticket)
        self._fail(str(error))
        self.closed = self.closed or isinstance(error, NoInterface)

    # --- waiting ----------------------------------------------------------------------------

    def _look(self, active: _Active) -> None:
        """Ask how a batch is, and take its results when it has ended."""
        try:
            polled = self.steps.poll(active.ticket.batch)
        except ServiceError as error:
            active.misses += 1
            if not error.is_passing or active.misses > _MOST_MISSES:
                self._end(active, 0, str(error), forget=False)
            else:
                self._later(active)
            return
        active.misses = 0
        if polled is None:
            active.unknown += 1
            if active.unknown < _MOST_UNKNOWN:
                self._later(active, is_awaited=True)
            else:
                self._end(active, 0, f"{self.service.protocol.name} knows the batch no more")
            return
        active.unknown = 0
        if polled.state is not State.WAITING:
            self._ended(active, polled)
            return
        active.completed = min(polled.completed, active.ticket.texts)
        limit = active.ticket.submitted_at + self.service.protocol.limits.window + _GRACE
        if self.clock() > limit and self._is_awaited(active):
            self._timed_out(active, 0)
        else:
            self._later(active)

    def _is_awaited(self, active: _Active) -> bool:
        """Whether a batch that has not ended is waited for in this run.

        Few texts are embedded sooner without one of before, which the next run looks at again.
        """
        return active.members is not None or len(self.missing) >= self.service.minimum

    def _later(self, active: _Active, *, is_awaited: bool = False) -> None:
        if not is_awaited and not self._is_awaited(active):
            self.active.remove(active)
            return
        active.next_poll = self.clock() + active.delay
        active.delay = min(LONGEST_POLL, active.delay * _POLL_GROWTH)

    def _ended(self, active: _Active, polled: Polled) -> None:
        """Take the results of a batch, then settle what became of it."""
        before, name = len(self.missing), self.service.protocol.name
        try:
            if polled.output:
                self._tell("fetching from")
                self._fetch(polled.output)
        except ServiceError as error:
            stored = before - len(self.missing)
            self._end(active, stored, str(error), forget=not error.is_passing)
            return
        except BrokenResults as error:
            self._end(active, before - len(self.missing), f"{self.service.place}: {error}")
            return
        stored = before - len(self.missing)
        if polled.state is State.EXPIRED:
            self._timed_out(active, stored)
        elif polled.state is not State.DONE:
            self._end(active, stored, f"a batch of {name} ended as {polled.state.value}")
        elif not stored and active.members:
            self._end(active, 0, f"a batch of {name} holds no vector that can be used")
        else:
            self._end(active, stored)
        if polled.output:
            self.steps.delete(polled.output)

    def _timed_out(self, active: _Active, stored: int) -> None:
        """Send what it did not give once more, the first time; then it is a failure."""
        if active.ticket.attempt > 1:
            self._end(active, stored, f"a batch of {self.service.protocol.name} took too long")
            return
        self.active.remove(active)
        self._forget(active.ticket)
        self.resends = True
        if self.queue is not None:
            late = [name for name in active.members or () if name in self.missing]
            self.queue += late
            self.again.update(late)

    def _end(self, active: _Active, stored: int, problem: str = "", *, forget: bool = True) -> None:
        self.active.remove(active)
        self.failed += max(0, active.ticket.texts - stored)
        if problem:
            self._fail(problem)
        if forget:
            self._forget(active.ticket)

    def _forget(self, ticket: Ticket) -> None:
        self.store.remove(ticket)
        if ticket.input_file:
            self.steps.delete(ticket.input_file)

    def _fail(self, problem: str) -> None:
        self.notes.append(problem)
        self.closed = self.closed or len(self.notes) >= FAILURES

    # --- taking the results -----------------------------------------------------------------

    def _fetch(self, output: str) -> None:
        """Store what a file of results holds for the texts that are missing.

        A file that is cut is fetched again; what came before the cut is stored already.
        """
        results = _Results(self.service, self.missing, self.texts, self.cache)
        try:
            self.steps.tried(lambda: results.read(self.steps.download(output)))
        finally:
            self.service.meter.add(
                texts=results.stored, tokens=results.tokens, estimated=results.estimated
            )
            self.spent = Usage(
                self.spent.requests + 1,
                self.spent.texts + results.stored,
                self.spent.tokens + results.tokens,
                self.spent.estimated or results.estimated,
            )

    # --- telling ----------------------------------------------------------------------------

    def _tell(self, what: str) -> None:
        done = self.total - len(self.missing) + sum(active.completed for active in self.active)
        phase = f"batch: {what} {self.service.protocol.name}"
        self.progress(phase, min(done, self.total), self.total)

    def _outcome(self, *, waiting: bool = False) -> BatchOutcome:
        note = ""
        if self.notes:
            times = "" if len(self.notes) == 1 else f" ({len(self.notes)} failures)"
            off = "; no more batches in this run" if self.closed else ""
            rest = "what is left is embedded without batches"
            note = f"batch: {self.notes[-1]}{times}{off}; {rest}"
        done = self.total - len(self.missing)
        return BatchOutcome(done, self.failed, self.spent, note, waiting)


class _Results:
    """Stores the vectors of the texts that are missing, each once, checked as an inline answer is.

    A line of an id that is not among the missing texts says nothing to this run, whoever wrote
    it, and is passed over; so is a second line of an id.
    """

    def __init__(
        self,
        service: BatchService,
        missing: set[str],
        texts: Mapping[str, str],
        cache: EmbeddingCache,
    ) -> None:
        self.stored = self.tokens = 0
        self.estimated = False
        """Whether some tokens were counted by their length."""
        self._service = service
        self._missing = missing
        self._texts = texts
        self._cache = cache
        # Learned from the first vectors where it is not known: what most of them have.
        self._dimensions = service.identity.dimensions
        self._pending: dict[str, Answered] = {}

    def read(self, chunks: Iterable[bytes]) -> None:
        """Read a file; raises what `chunks` and the cache raise, what was stored stays.

        Raises `BrokenResults` for a line that is longer than any vector.
        """
        self._pending.clear()
        try:
            for line in lines(chunks):
                self._take(line)
        finally:
            # What came before a cut is whole, and need not be embedded again.
            self._flush()

    def _take(self, line: bytes) -> None:
        try:
            found = self._service.protocol.read(json.loads(line))
            if found is None or found.text_hash in self._pending:
                return
            if found.text_hash not in self._missing:
                return
            service = self._service.connection.plan.service
            answered = vectors_in(service, found.answer, 1, self._dimensions)
        except (WrongAnswer, ValueError, RecursionError):
            return
        self._pending[found.text_hash] = answered
        if len(self._pending) >= _TOGETHER:
            self._flush()

    def _flush(self) -> None:
        if not self._pending:
            return
        if self._dimensions is None:
            sizes = Counter(answered.vectors.shape[1] for answered in self._pending.values())
            self._dimensions = sizes.most_common(1)[0][0]
        good = {
            text_hash: answered
            for text_hash, answered in self._pending.items()
            if answered.vectors.shape[1] == self._dimensions
        }
        self._pending.clear()
        vectors = {name: clean_vectors(answered.vectors[0]) for name, answered in good.items()}
        self._cache.put_many(self._service.identity, vectors)
        self.stored += len(good)
        for text_hash, answered in good.items():
            self._missing.discard(text_hash)
            if answered.tokens is None:
                self.estimated = True
                self.tokens += estimated_tokens(len(self._texts[text_hash]))
            else:
                self.tokens += answered.tokens


def lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Cut what comes in at line feeds, empty lines left out; the last line may lack its own.

    Raises `BrokenResults` for a line of more than 1 MiB.
    """
    rest = bytearray()
    for chunk in chunks:
        rest += chunk
        *whole, last = rest.split(b"\n")
        rest = last
        for line in whole:
            if line.strip():
                yield bytes(line)
        if len(rest) > _LONGEST_LINE:
            raise BrokenResults("a line of the results is longer than a vector can be")
    if rest.strip():
        yield bytes(rest)

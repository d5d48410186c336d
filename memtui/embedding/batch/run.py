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
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from msgspec.structs import replace

from memtui.embedding.batch.protocols import AT_ONCE, BatchService, Polled, State
from memtui.embedding.batch.store import BatchStore, Ticket
from memtui.embedding.cache import EmbeddingCache
from memtui.embedding.limits import byte_size
from memtui.embedding.payloads import Request, WrongAnswer, vectors_in
from memtui.embedding.provider import clean_vectors, estimated_tokens
from memtui.embedding.remote.http import Reply, ServiceError, parsed
from memtui.embedding.remote.pacing import Schedule
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
_LONGEST_PAUSE: Final = 60.0
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


class BatchRun:
    """Puts vectors of texts, by hash, into the cache by way of a service's batches.

    `texts` may be read from a database when asked. Every wait ends within 0.1 s once `cancelled`;
    `interrupted` ends the waiting and nothing else. What fails in passing is tried again, nothing
    is started twice.
    """

    def __init__(
        self,
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
    ) -> None:
        self._service = service
        self._connection = service.connection
        self._interface = service.interface(service.connection.plan, self._ask)
        self._texts = texts
        self._store = store
        self._cache = cache
        self._cancelled = cancelled
        self._interrupted = interrupted
        self._progress = progress
        self._clock = clock
        self._sleep = sleep
        self._missing = set(texts)
        self._total = len(self._missing)
        self._queue: list[str] | None = None
        """Hashes still to be sent, the next last; `None` until earlier batches have ended."""
        self._again: set[str] = set()
        """Hashes that were in a batch which ended too late."""
        self._resends = False
        """Whether the queue is sent however short it is, for a second attempt."""
        self._active: list[_Active] = []
        self._closed = False
        self._failed = 0
        self._notes: list[str] = []
        self._spent = Usage()
        # Learned from the first vectors where it is not known: what most of them have.
        self._dimensions = service.identity.dimensions

    def run(self) -> BatchOutcome:
        """Wait for earlier batches, send what is missing, store what comes.

        Batches that are under way for the same identity come first, though fewer texts than
        `service.minimum` do not wait for them; then those that are still missing are sent, while
        at least so many are. Text that gets no vector here is left to the caller. Raises
        `Cancelled`, `OSError` when the store cannot be read or written, and what the cache raises.
        """
        self._resume()
        while True:
            self._fill()
            if not self._active:
                return self._outcome()
            now = self._clock()
            for active in self._active:
                # No poll waits for a clock that was set back to catch up.
                active.next_poll = min(active.next_poll, now + active.delay)
            upcoming = min(self._active, key=lambda active: active.next_poll)
            self._tell("waiting for")
            if not self._wait(upcoming.next_poll - now, self._interrupted):
                return self._outcome(waiting=True)
            self._look(upcoming)

    # --- asking -----------------------------------------------------------------------------

    def _wait(self, seconds: float, interrupted: Callable[[], bool] = lambda: False) -> bool:
        """Wait; whether the time passed without `interrupted` having become true."""
        left = seconds
        while left > 0:
            self._check()
            if interrupted():
                return False
            self._sleep(min(_SLICE, left))
            left -= _SLICE
        return True

    def _check(self) -> None:
        if self._cancelled():
            raise Cancelled

    def _ask(self, request: Request) -> object:
        """The JSON of a success; any other answer is a `ServiceError`."""
        reply = self._send(request)
        if not 200 <= reply.status < 300:
            raise self._connection.refusal(reply)
        return parsed(reply, self._connection.context())

    def _send(self, request: Request, most: float = math.inf) -> Reply:
        self._check()
        # A file takes as long as a slow line needs for it.
        timeout = min(most, self._timeout + len(request.body) / _SLOWEST_LINE)
        return self._connection.exchange(request, timeout, self._cancelled)

    @property
    def _timeout(self) -> float:
        """Seconds for one request; for a file, without anything coming in."""
        return self._connection.plan.choice.batch_timeout

    def _tried(self, step: Callable[[], T]) -> T:
        """Take a step, and again where it fails in passing, after the pause that is asked for."""
        failures = 0
        while True:
            try:
                return self._once(step)
            except ServiceError as error:
                failures += 1
                pause = SCHEDULE.pause(failures)
                if pause is None or not error.is_passing:
                    raise
                wait = max(pause, min(_LONGEST_PAUSE, error.retry_after or 0.0))
            self._wait(wait)

    def _once(self, step: Callable[[], T]) -> T:
        try:
            return step()
        except BrokenResults:
            raise
        except ValueError as error:
            words = f"{self._service.place} answers with no batch: {error}"
            raise ServiceError(words, Failure.BAD_ANSWER) from None

    def _start(self, input_file: str) -> str:
        """Start the batch of an input file; its id.

        Where an answer does not come, or makes no sense, the batch may have been started all
        the same: it is looked for before it is started again.
        """
        is_first = True

        def step() -> str:
            nonlocal is_first
            batch = "" if is_first else self._find(input_file)
            is_first = False
            return batch or self._interface.create(input_file)

        return self._tried(step)

    def _find(self, input_file: str) -> str:
        """The batch of an input file, where it was started; empty where it was not.

        A service that cannot list its batches has none to find.
        """
        try:
            return self._tried(lambda: self._interface.find(input_file))
        except ServiceError as error:
            if error.is_passing:
                raise
            return ""

    def _delete(self, file: str) -> None:
        """Delete a file whose content is needed no more, so that no text stays at the service.

        One that cannot be deleted is left: the service drops it by itself some day.
        """
        try:
            self._send(self._interface.deletion(file), _QUICK)
        except ServiceError:
            return

    # --- sending ----------------------------------------------------------------------------

    def _resume(self) -> None:
        """Take up the batches of earlier runs."""
        service, now = self._service, self._clock()
        for ticket in self._store.under_way(service.name, service.place, service.identity, now):
            try:
                started = ticket
                if not ticket.batch:
                    batch = self._find(ticket.input_file)
                    if not batch:
                        # Its texts may have been embedded since: what is missing is sent anew.
                        self._forget(ticket)
                        continue
                    started = replace(ticket, batch=batch)
                    self._store.put(started)
                delay = service.interface.limits.first_poll
                self._active.append(_Active(started, None, self._clock(), delay))
            except ServiceError as error:
                self._not_started(ticket, error)

    def _fill(self) -> None:
        """Send batches until two are under way, or nothing is left that is worth one."""
        if self._queue is None:
            if any(active.members is None for active in self._active):
                return
            self._queue = [name for name in self._texts if name in self._missing][::-1]
            if self._resends:
                self._again |= self._missing
        while not self._closed and len(self._active) < AT_ONCE and self._queue:
            if len(self._queue) < self._service.minimum and not self._resends:
                return
            self._tell("sending to")
            members, data = self._input_file(self._queue)
            if members:
                self._submit(members, data)

    def _input_file(self, queue: list[str]) -> tuple[tuple[str, ...], bytes]:
        """Write down as many texts as one batch holds: their hashes, and the input file.

        Texts that the service does not take, blank or too long, are passed over, perhaps all.
        """
        self._resends = False
        limits, longest = self._interface.limits, self._connection.plan.input_bytes
        members: list[str] = []
        data = bytearray()
        while queue and len(members) < limits.most_texts:
            self._check()
            text = self._texts[queue[-1]]
            is_taken = bool(text.strip()) and byte_size(text) <= longest
            line = self._interface.line(queue[-1], text) if is_taken else b""
            if members and len(data) + len(line) > limits.most_bytes:
                break
            text_hash = queue.pop()
            if line:
                data += line
                members.append(text_hash)
        return tuple(members), bytes(data)

    def _submit(self, members: tuple[str, ...], data: bytes) -> None:
        service, limits, now = self._service, self._interface.limits, self._clock()
        identity = service.identity
        ticket: Ticket | None = None
        try:
            ticket = Ticket(
                service=service.name,
                address=service.place,
                provider=identity.name,
                model=identity.model,
                fingerprint=identity.fingerprint,
                input_file=self._tried(lambda: self._interface.upload(data)),
                batch="",
                texts=len(members),
                submitted_at=now,
                expires_at=now + limits.retention,
                attempt=1 if self._again.isdisjoint(members) else 2,
            )
            self._store.put(ticket)
            started = replace(ticket, batch=self._start(ticket.input_file))
            self._store.put(started)
            delay = limits.first_poll
            self._active.append(_Active(started, members, self._clock() + delay, delay))
        except ServiceError as error:
            self._failed += len(members)
            self._not_started(ticket, error)

    def _not_started(self, ticket: Ticket | None, error: ServiceError) -> None:
        # Where the failure passes, the batch may have been started after all: the next run looks.
        if ticket is not None and not error.is_passing:
            self._forget(ticket)
        self._fail(str(error))
        if ticket is not None and self._interface.is_optional and error.status == _NOT_FOUND:
            self._closed = True

    # --- waiting ----------------------------------------------------------------------------

    def _look(self, active: _Active) -> None:
        """Ask how a batch is, and take its results when it has ended."""
        try:
            polled = self._once(lambda: self._interface.poll(active.ticket.batch))
        except ServiceError as error:
            if error.status == _NOT_FOUND:
                active.misses = 0
                active.unknown += 1
                if active.unknown < _MOST_UNKNOWN:
                    self._later(active, is_awaited=True)
                else:
                    self._end(active, 0, f"{self._service.name} knows the batch no more")
                return
            active.misses += 1
            if not error.is_passing or active.misses > _MOST_MISSES:
                self._end(active, 0, str(error), forget=False)
            else:
                self._later(active)
            return
        active.misses = active.unknown = 0
        if polled.state is not State.WAITING:
            self._ended(active, polled)
            return
        active.completed = min(polled.completed, active.ticket.texts)
        limit = active.ticket.submitted_at + self._interface.limits.window + _GRACE
        if self._clock() > limit and self._is_awaited(active):
            self._timed_out(active, 0)
        else:
            self._later(active)

    def _is_awaited(self, active: _Active) -> bool:
        """Whether a batch that has not ended is waited for in this run.

        Few texts are embedded sooner without one of before, which the next run looks at again.
        """
        return active.members is not None or len(self._missing) >= self._service.minimum

    def _later(self, active: _Active, *, is_awaited: bool = False) -> None:
        if not is_awaited and not self._is_awaited(active):
            self._active.remove(active)
            return
        active.next_poll = self._clock() + active.delay
        active.delay = min(LONGEST_POLL, active.delay * _POLL_GROWTH)

    def _ended(self, active: _Active, polled: Polled) -> None:
        """Take the results of a batch, then settle what became of it."""
        before, name = len(self._missing), self._service.name
        try:
            if polled.output:
                self._tell("fetching from")
                self._fetch(polled.output)
        except ServiceError as error:
            stored = before - len(self._missing)
            self._end(active, stored, str(error), forget=not error.is_passing)
            return
        except BrokenResults as error:
            self._end(active, before - len(self._missing), f"{self._service.place}: {error}")
            return
        stored = before - len(self._missing)
        if polled.state is State.EXPIRED:
            self._timed_out(active, stored)
        elif polled.state is not State.DONE:
            self._end(active, stored, f"a batch of {name} ended as {polled.state.value}")
        elif not stored and active.members:
            self._end(active, 0, f"a batch of {name} holds no vector that can be used")
        else:
            self._end(active, stored)
        if polled.output:
            self._delete(polled.output)

    def _timed_out(self, active: _Active, stored: int) -> None:
        """Send what it did not give once more, the first time; then it is a failure."""
        if active.ticket.attempt > 1:
            self._end(active, stored, f"a batch of {self._service.name} took too long")
            return
        self._active.remove(active)
        self._forget(active.ticket)
        self._resends = True
        if self._queue is not None:
            late = [name for name in active.members or () if name in self._missing]
            self._queue += late
            self._again.update(late)

    def _end(self, active: _Active, stored: int, problem: str = "", *, forget: bool = True) -> None:
        self._active.remove(active)
        self._failed += max(0, active.ticket.texts - stored)
        if problem:
            self._fail(problem)
        if forget:
            self._forget(active.ticket)

    def _forget(self, ticket: Ticket) -> None:
        self._store.remove(ticket)
        if ticket.input_file:
            self._delete(ticket.input_file)

    def _fail(self, problem: str) -> None:
        self._notes.append(problem)
        self._closed = self._closed or len(self._notes) >= FAILURES

    # --- taking the results -----------------------------------------------------------------

    def _fetch(self, output: str) -> None:
        """Store what a file of results holds for the texts that are missing.

        A file that is cut is fetched again; what came before the cut is stored already.
        """
        used = Usage(requests=1)

        def step() -> None:
            nonlocal used
            request = self._interface.result(output)
            body = self._connection.download(request, self._timeout, self._cancelled)
            for answers in self._usable(body):
                used = used.plus(self._stored(answers))

        try:
            self._tried(step)
        finally:
            self._service.meter.add(texts=used.texts, tokens=used.tokens, estimated=used.estimated)
            self._spent = self._spent.plus(used)

    def _usable(self, body: Iterable[bytes]) -> Iterator[dict[str, Answered]]:
        """Yield answers to missing texts, some at a time, checked as an inline answer is.

        A line of an id that is not among the missing texts says nothing to this run, whoever
        wrote it, and is passed over; so is a second line of an id. What came before a cut is
        whole, and need not be embedded again.
        """
        service = self._connection.plan.service
        answers: dict[str, Answered] = {}
        try:
            for line in lines(body):
                try:
                    name, answer = self._interface.read(json.loads(line))
                    if name in self._missing and name not in answers:
                        answers[name] = vectors_in(service, answer, 1, self._dimensions)
                except (WrongAnswer, ValueError, RecursionError):
                    continue
                if len(answers) >= _TOGETHER:
                    yield answers
                    answers = {}
        except Exception as error:
            yield answers
            raise error
        yield answers

    def _stored(self, answers: Mapping[str, Answered]) -> Usage:
        """Store vectors; what they took."""
        if self._dimensions is None and answers:
            sizes = Counter(answered.vectors.shape[1] for answered in answers.values())
            self._dimensions = sizes.most_common(1)[0][0]
        good = {
            text_hash: answered
            for text_hash, answered in answers.items()
            if answered.vectors.shape[1] == self._dimensions
        }
        vectors = {name: clean_vectors(answered.vectors[0]) for name, answered in good.items()}
        self._cache.put_many(self._service.identity, vectors)
        tokens, is_estimated = 0, False
        for text_hash, answered in good.items():
            self._missing.discard(text_hash)
            is_estimated = is_estimated or answered.tokens is None
            guess = estimated_tokens(len(self._texts[text_hash]))
            tokens += guess if answered.tokens is None else answered.tokens
        return Usage(0, len(good), tokens, is_estimated)

    # --- telling ----------------------------------------------------------------------------

    def _tell(self, what: str) -> None:
        done = self._total - len(self._missing) + sum(each.completed for each in self._active)
        self._progress(f"batch: {what} {self._service.name}", min(done, self._total), self._total)

    def _outcome(self, *, waiting: bool = False) -> BatchOutcome:
        note = ""
        if self._notes:
            times = "" if len(self._notes) == 1 else f" ({len(self._notes)} failures)"
            off = "; no more batches in this run" if self._closed else ""
            rest = "what is left is embedded without batches"
            note = f"batch: {self._notes[-1]}{times}{off}; {rest}"
        done = self._total - len(self._missing)
        return BatchOutcome(done, self._failed, self._spent, note, waiting)


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

"""Asking a batch interface step by step: what fails in passing is tried again, nothing twice."""

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
from memtui.embedding.provider import Vector, clean_vectors, estimated_tokens
from memtui.embedding.remote.http import Reply, ServiceError, parsed
from memtui.embedding.remote.pacing import Schedule, retry
from memtui.errors import Cancelled
from memtui.model import Failure, Usage

if TYPE_CHECKING:
    from memtui.embedding.payloads import Answered


T = TypeVar("T")

SCHEDULE: Final = Schedule(attempts=3, base=0.3, longest=2.0)
"""Of one request, as OpenClaw's (OPENCLAW.md, section 10)."""
_LONGEST_ASKED: Final = 60.0
_SLICE: Final = 0.05
"""Seconds: how long a wait goes on after it was to stop."""
_SLOWEST_LINE: Final = 100_000
"""Bytes a second."""
_QUICK: Final = 10.0
"""Seconds for a request that nothing depends on."""
_NOT_FOUND: Final = 404


class NoInterface(ServiceError):
    """The service says that it has no batches for this model or key."""


class Asker:
    """The steps of a batch at one service; every wait ends within 0.1 s once `cancelled`.

    All of them raise `Cancelled`, and `ServiceError` whose words hold nothing of an answer.
    """

    def __init__(
        self,
        service: BatchService,
        *,
        cancelled: Callable[[], bool],
        sleep: Callable[[float], None],
    ) -> None:
        self._service = service
        self._protocol = service.protocol
        self._cancelled = cancelled
        self._sleep = sleep

    def check(self) -> None:
        """Raise `Cancelled` once it is asked to stop."""
        if self._cancelled():
            raise Cancelled

    def wait(self, seconds: float, interrupted: Callable[[], bool] | None = None) -> bool:
        """Wait; whether the time passed without `interrupted` having become true."""
        left = seconds
        while left > 0:
            self.check()
            if interrupted is not None and interrupted():
                return False
            self._sleep(min(_SLICE, left))
            left -= _SLICE
        return True

    def upload(self, data: bytes) -> str:
        """Send an input file; its id."""
        return self._asked(lambda: self._protocol.upload(data), self._protocol.uploaded)

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
        try:
            return self._asked(
                self._protocol.listing, lambda answer: self._protocol.found(answer, input_file)
            )
        except ServiceError as error:
            if error.is_passing:
                raise
            return ""

    def poll(self, batch: str) -> Polled | None:
        """How a batch is; `None` when the service knows it no more."""
        reply = self._send(self._protocol.poll(batch))
        if reply.status == _NOT_FOUND:
            return None
        return self._parsed(reply, self._protocol.polled)

    def download(self, output: str) -> Iterator[bytes]:
        """A file of results as it comes in."""
        request = self._protocol.result(output)
        timeout = self._service.timeout
        return self._service.connection.download(request, timeout=timeout, stopped=self._cancelled)

    def delete(self, *files: str) -> None:
        """Delete files whose content is needed no more, so that no text stays at the service.

        One that cannot be deleted is left: the service drops it by itself some day.
        """
        for file in filter(None, files):
            try:
                self._send(self._protocol.delete(file), _QUICK)
            except ServiceError:
                return

    def tried(self, run: Callable[[], T]) -> T:
        """Run it, and again where it fails in passing."""
        return retry(run, _pause_after, self._pause)

    def _pause(self, seconds: float) -> None:
        self.wait(seconds)

    def _asked(self, call: Callable[[], Request], parse: Callable[[object], T]) -> T:
        return self.tried(lambda: self._parsed(self._send(call()), parse))

    def _send(self, call: Request, most: float = math.inf) -> Reply:
        self.check()
        # A file takes as long as a slow line needs for it.
        timeout = min(most, self._service.timeout + len(call.body) / _SLOWEST_LINE)
        return self._service.connection.exchange(
            call, timeout=timeout, stopped=self._cancelled, is_urgent=True
        )

    def _parsed(self, reply: Reply, parse: Callable[[object], T]) -> T:
        if not 200 <= reply.status < 300:
            raise self._service.connection.refusal(reply)
        answer = parsed(reply, self._service.connection.asked())
        try:
            return parse(answer)
        except ValueError as error:
            words = f"{self._service.place} answers with no batch: {error}"
            raise ServiceError(words, Failure.BAD_ANSWER) from None


def _pause_after(error: ServiceError, failures: int) -> float | None:
    """The pause, longer where the service asks for it within reason; `None` to give up."""
    pause = SCHEDULE.pause(failures)
    return None if pause is None else max(pause, min(_LONGEST_ASKED, error.retry_after or 0.0))


class Outbox:
    """Hands out input files while what is left is worth a batch."""

    def __init__(
        self, service: BatchService, texts: Mapping[str, str], check: Callable[[], None]
    ) -> None:
        self.attempt = 1
        """Of what was taken last; 2 where texts of it come from a batch that ended too late."""
        self.is_filled = False
        self._service = service
        self._texts = texts
        self._check = check
        self._rest: list[str] = []
        """Hashes, the next last."""
        self._again: set[str] = set()
        """Hashes that were in a batch before."""
        self._is_second = False

    def fill(self, missing: set[str]) -> None:
        """Take in the texts that are missing."""
        self._rest += [text_hash for text_hash in self._texts if text_hash in missing][::-1]
        self.is_filled = True
        if self._is_second:
            self._again |= missing

    def put_back(self, hashes: Iterable[str]) -> None:
        """Take in texts for their second attempt, however few they are."""
        self._is_second = True
        if self.is_filled:
            again = list(hashes)
            self._rest += again
            self._again.update(again)

    @property
    def is_worth_a_batch(self) -> bool:
        """Whether what is left should be sent."""
        enough = len(self._rest) >= self._service.minimum or self._is_second
        return bool(self._rest) and enough

    def take(self) -> tuple[tuple[str, ...], bytes]:
        """Write down as many texts as one batch holds: their hashes, and the input file.

        Texts that the service does not take are passed over, perhaps all.
        """
        self._is_second = False
        limits, protocol = self._service.protocol.limits, self._service.protocol
        members: list[str] = []
        data = bytearray()
        while self._rest and len(members) < limits.most_texts:
            self._check()
            text_hash = self._rest[-1]
            text = self._texts[text_hash]
            line = protocol.line(text_hash, text) if self._service.takes(text) else b""
            if members and len(data) + len(line) > limits.most_bytes:
                break
            self._rest.pop()
            if line:
                data += line
                members.append(text_hash)
        self.attempt = 1 if self._again.isdisjoint(members) else 2
        return tuple(members), bytes(data)


_LONGEST_LINE: Final = 2**20
"""Bytes; a vector of 16384 numbers as text is a third of it."""
_TOGETHER: Final = 128
"""Vectors that are stored at a time."""


class BrokenResults(ValueError):
    """A file that cannot be one of results; its text repeats nothing of it."""


@dataclass(slots=True)
class Taken:
    """What was taken out of the results so far."""

    stored: int = 0
    refused: int = 0
    """Lines for texts that are missing, which hold no vector that can be used."""
    tokens: int = 0
    estimated: bool = False
    """Whether some tokens were counted by their length."""


class ResultReader:
    """Stores the vectors of the texts that are missing, each once.

    A line of an id that is not among the missing texts says nothing to this run, whoever wrote
    it, and is passed over; so is a second line of an id. `store` gets vectors of length 1.
    """

    def __init__(
        self,
        batches: BatchService,
        missing: set[str],
        texts: Mapping[str, str],
        *,
        store: Callable[[dict[str, Vector]], None],
    ) -> None:
        self.taken = Taken()
        self.dimensions = batches.identity.dimensions
        """Learned from the first vectors where it is not known: what most of them have."""
        self._batches = batches
        self._missing = missing
        self._texts = texts
        self._store = store
        self._held: dict[str, Answered] = {}

    def read(self, chunks: Iterable[bytes]) -> None:
        """Read a file; raises what `chunks` and `store` raise, what was stored stays.

        Raises `BrokenResults` for a line that is longer than any vector.
        """
        self._held.clear()
        try:
            for line in lines(chunks):
                self._take(line)
        finally:
            # What came before a cut is whole, and need not be embedded again.
            self._flush()

    def _take(self, line: bytes) -> None:
        try:
            found = self._batches.protocol.read(json.loads(line))
        except (ValueError, RecursionError):
            return
        if found is None or found.text_hash not in self._missing or found.text_hash in self._held:
            return
        try:
            service = self._batches.connection.plan.service
            answered = vectors_in(service, found.answer, 1, self.dimensions)
        except WrongAnswer:
            self.taken.refused += 1
            return
        self._held[found.text_hash] = answered
        if len(self._held) >= _TOGETHER:
            self._flush()

    def _flush(self) -> None:
        if not self._held:
            return
        if self.dimensions is None:
            sizes = Counter(answered.vectors.shape[1] for answered in self._held.values())
            self.dimensions = sizes.most_common(1)[0][0]
        good = {
            text_hash: answered
            for text_hash, answered in self._held.items()
            if answered.vectors.shape[1] == self.dimensions
        }
        self.taken.refused += len(self._held) - len(good)
        self._held.clear()
        if good:
            self._store({name: clean_vectors(found.vectors[0]) for name, found in good.items()})
        self.taken.stored += len(good)
        for text_hash, answered in good.items():
            self._missing.discard(text_hash)
            if answered.tokens is None:
                self.taken.estimated = True
            self.taken.tokens += (
                estimated_tokens(len(self._texts[text_hash]))
                if answered.tokens is None
                else answered.tokens
            )


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


FAILURES: Final = 2
"""Batches that may fail before a run sends no more of them."""
LONGEST_POLL: Final = 60.0
_POLL_GROWTH: Final = 1.5
_MOST_MISSES: Final = 8
"""Polls in a row without an answer before a run does without the batch; it stays in the store."""
_MOST_UNKNOWN: Final = 3
"""Polls in a row at which the service does not know a batch; a new one is not seen at once."""
_GRACE: Final = 900.0
"""Seconds after its window within which a service may still end a batch."""

ProgressOfBatches = Callable[[str, int, int], None]
"""Told the phase in words, and how many texts of how many are embedded."""


def _never() -> bool:
    return False


def _ignore(_phase: str, _done: int, _total: int) -> None:
    """Drop it: nobody looks."""


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


def batch_run(
    service: BatchService,
    texts: Mapping[str, str],
    store: BatchStore,
    cache: EmbeddingCache,
    *,
    cancelled: Callable[[], bool] = _never,
    interrupted: Callable[[], bool] = _never,
    progress: ProgressOfBatches = _ignore,
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
    asker = Asker(service, cancelled=cancelled, sleep=sleep)
    outbox = Outbox(service, texts, asker.check)
    return _Run(service, texts, store, cache, asker, outbox, interrupted, progress, clock).run()


@dataclass(slots=True)
class _Run:
    service: BatchService
    texts: Mapping[str, str]
    store: BatchStore
    cache: EmbeddingCache
    asker: Asker
    outbox: Outbox
    interrupted: Callable[[], bool]
    progress: ProgressOfBatches
    clock: Callable[[], float]
    missing: set[str] = field(default_factory=set)
    active: list[_Active] = field(default_factory=list)
    failures: int = 0
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
            if not self.asker.wait(upcoming.next_poll - now, self.interrupted):
                return self._outcome(waiting=True)
            self._look(upcoming)

    # --- sending ----------------------------------------------------------------------------

    def _resume(self) -> None:
        """Take up the batches of earlier runs."""
        service = self.service
        shown = service.place
        tickets = self.store.under_way(service.protocol.name, shown, service.identity, self.clock())
        for ticket in tickets:
            try:
                started = ticket
                if not ticket.batch:
                    batch = self.asker.find(ticket.input_file)
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
        outbox = self.outbox
        if not outbox.is_filled:
            if any(active.members is None for active in self.active):
                return
            outbox.fill(self.missing)
        while not self.closed and len(self.active) < AT_ONCE and outbox.is_worth_a_batch:
            self._tell("sending to")
            members, data = outbox.take()
            if members:
                self._submit(members, data)

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
                input_file=self.asker.upload(data),
                batch="",
                texts=len(members),
                submitted_at=now,
                expires_at=now + protocol.limits.kept,
                attempt=self.outbox.attempt,
            )
            self.store.put(ticket)
            started = replace(ticket, batch=self.asker.start(ticket.input_file))
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
        if isinstance(error, NoInterface):
            self.closed = True

    # --- waiting ----------------------------------------------------------------------------

    def _look(self, active: _Active) -> None:
        """Ask how a batch is, and take its results when it has ended."""
        try:
            polled = self.asker.poll(active.ticket.batch)
        except ServiceError as error:
            active.misses += 1
            if not error.is_passing or active.misses > _MOST_MISSES:
                self._end(active, 0, str(error), forget=False)
            elif not self._is_awaited(active):
                self.active.remove(active)
            else:
                self._later(active)
            return
        active.misses = 0
        if polled is None:
            self._unknown(active)
            return
        active.unknown = 0
        if polled.state is State.WAITING:
            self._wait_on(active, polled)
        else:
            self._ended(active, polled)

    def _unknown(self, active: _Active) -> None:
        active.unknown += 1
        if active.unknown < _MOST_UNKNOWN:
            self._later(active)
        else:
            self._end(active, 0, f"{self.service.protocol.name} knows the batch no more")

    def _wait_on(self, active: _Active, polled: Polled) -> None:
        active.completed = min(polled.completed, active.ticket.texts)
        limit = active.ticket.submitted_at + self.service.protocol.limits.window + _GRACE
        if not self._is_awaited(active):
            self.active.remove(active)
        elif self.clock() > limit:
            self._timed_out(active, 0)
        else:
            self._later(active)

    def _is_awaited(self, active: _Active) -> bool:
        """Whether a batch that has not ended is waited for in this run.

        Few texts are embedded sooner without one of before, which the next run looks at again.
        """
        return active.members is not None or len(self.missing) >= self.service.minimum

    def _later(self, active: _Active) -> None:
        active.delay, wait = min(LONGEST_POLL, active.delay * _POLL_GROWTH), active.delay
        active.next_poll = self.clock() + wait

    def _ended(self, active: _Active, polled: Polled) -> None:
        before = len(self.missing)
        problem, is_passing = "", False
        if polled.output:
            self._tell("fetching from")
            try:
                self._fetch(polled.output)
            except ServiceError as error:
                problem, is_passing = str(error), error.is_passing
            except BrokenResults as error:
                problem = f"{self.service.place}: {error}"
        stored = before - len(self.missing)
        if problem:
            self._end(active, stored, problem, forget=not is_passing)
            return
        self._finish(active, polled, stored)
        self.asker.delete(polled.output)

    def _finish(self, active: _Active, polled: Polled, stored: int) -> None:
        """Settle what became of a batch whose results are stored."""
        name = self.service.protocol.name
        if polled.state is State.EXPIRED:
            self._timed_out(active, stored)
        elif polled.state is not State.DONE:
            self._end(active, stored, f"a batch of {name} ended as {polled.state.value}")
        elif not stored and active.members:
            self._end(active, 0, f"a batch of {name} holds no vector that can be used")
        else:
            self._end(active, stored)

    def _timed_out(self, active: _Active, stored: int) -> None:
        """Send what it did not give once more, the first time; then it is a failure."""
        if active.ticket.attempt > 1:
            self._end(active, stored, f"a batch of {self.service.protocol.name} took too long")
            return
        self.active.remove(active)
        self._forget(active.ticket)
        self.outbox.put_back(name for name in active.members or () if name in self.missing)

    def _end(self, active: _Active, stored: int, problem: str = "", *, forget: bool = True) -> None:
        self.active.remove(active)
        self.failed += max(0, active.ticket.texts - stored)
        if problem:
            self._fail(problem)
        if forget:
            self._forget(active.ticket)

    def _forget(self, ticket: Ticket) -> None:
        self.store.remove(ticket)
        self.asker.delete(ticket.input_file)

    def _fail(self, problem: str) -> None:
        self.failures += 1
        self.notes.append(problem)
        if self.failures >= FAILURES:
            self.closed = True

    # --- taking the results -----------------------------------------------------------------

    def _fetch(self, output: str) -> None:
        """Store what a file of results holds for the texts that are missing.

        A file that is cut is fetched again; what came before the cut is stored already.
        """
        reader = ResultReader(self.service, self.missing, self.texts, store=self._store)
        try:
            self.asker.tried(lambda: reader.read(self.asker.download(output)))
        finally:
            self._note_spent(reader)

    def _store(self, vectors: dict[str, Vector]) -> None:
        self.cache.put_many(self.service.identity, vectors)

    def _note_spent(self, reader: ResultReader) -> None:
        taken, before = reader.taken, self.spent
        self.service.meter.add(texts=taken.stored, tokens=taken.tokens, estimated=taken.estimated)
        self.spent = Usage(
            before.requests + 1,
            before.texts + taken.stored,
            before.tokens + taken.tokens,
            before.estimated or taken.estimated,
        )

    # --- telling ----------------------------------------------------------------------------

    def _tell(self, what: str) -> None:
        done = self._stored() + sum(active.completed for active in self.active)
        phase = f"batch: {what} {self.service.protocol.name}"
        self.progress(phase, min(done, self.total), self.total)

    def _stored(self) -> int:
        return self.total - len(self.missing)

    def _outcome(self, *, waiting: bool = False) -> BatchOutcome:
        return BatchOutcome(self._stored(), self.failed, self.spent, self._note(), waiting)

    def _note(self) -> str:
        if not self.notes:
            return ""
        times = "" if len(self.notes) == 1 else f" ({len(self.notes)} failures)"
        off = "; no more batches in this run" if self.closed else ""
        return f"batch: {self.notes[-1]}{times}{off}; what is left is embedded without batches"

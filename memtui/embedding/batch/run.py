"""Embedding many texts by batches: sent, waited for, fetched, and taken up again after a restart.

What is under way is in the store before anybody waits for it, and results carry the hashes of
their texts: a run that ended anywhere is taken up by the next with nothing embedded twice. Stopping
leaves a batch running at the service; it is not cancelled there, as its results are paid for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from memtui.embedding.batch.asking import Asker, NoInterface
from memtui.embedding.batch.outbox import Outbox
from memtui.embedding.batch.protocol import AT_ONCE, Polled, State
from memtui.embedding.batch.results import BrokenResults, ResultReader
from memtui.embedding.batch.service import BatchService
from memtui.embedding.batch.store import BatchStore, Ticket
from memtui.embedding.cache import EmbeddingCache
from memtui.embedding.provider import Vector
from memtui.embedding.remote.failures import ServiceError
from memtui.model import Usage

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
        shown = service.asked.address.shown
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
                address=self.service.asked.address.shown,
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
                problem = f"{self.service.asked.address.shown}: {error}"
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
        reader = ResultReader(
            self.service.protocol,
            self.service.target.service,
            self.missing,
            self.texts,
            dimensions=self.service.identity.dimensions,
            store=self._store,
        )
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

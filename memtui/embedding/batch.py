"""Embedding many texts by batches: sent, waited for, fetched, and taken up again after a restart.

What is under way is in the store before anybody waits for it, and results carry the hashes of
their texts: a run that ended anywhere is taken up by the next with nothing embedded twice. Stopping
leaves a batch running at the service; it is not cancelled there, as its results are paid for.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Final, Literal, TypeVar

import msgspec
from msgspec.structs import replace

from memtui.embedding.batch_protocols import (
    ID_PATTERN,
    MOST_TEXTS,
    Ask,
    BatchService,
    State,
)
from memtui.embedding.cache import EmbeddingCache
from memtui.embedding.http import Patience, ServiceError
from memtui.embedding.limits import byte_size
from memtui.embedding.payloads import Answered, Request, vectors_in
from memtui.embedding.provider import (
    BatchOutcome,
    ProviderIdentity,
    Vector,
    clean_vectors,
    estimated_tokens,
)
from memtui.errors import Cancelled
from memtui.model import Failure, Usage
from memtui.settings.storage import StateFolder, sync_folder

T = TypeVar("T")

AT_ONCE: Final = 2
"""Batches of one run that are under way at the same time."""
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


# --- what is under way ------------------------------------------------------------------------

_MOST_STORED: Final = 2**20


class Ticket(msgspec.Struct, frozen=True):
    """A batch at a service, or an input file there whose batch may have been started.

    Holds no text and no key: the results name the texts by their hashes.
    """

    service: str
    address: str
    """Host and port; nothing of a path or query."""
    provider: str
    model: str
    fingerprint: Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{1,128}\Z")]
    input_file: Annotated[str, msgspec.Meta(pattern=rf"\A{ID_PATTERN}\Z")]
    batch: Annotated[str, msgspec.Meta(pattern=rf"\A(?:{ID_PATTERN})?\Z")]
    """Empty while it is not known whether the batch was started."""
    texts: Annotated[int, msgspec.Meta(ge=0, le=MOST_TEXTS)]
    """How many texts it was asked for."""
    submitted_at: float
    """Seconds since 1970."""
    expires_at: float
    """After that the service has forgotten it."""

    @property
    def owner(self) -> tuple[str, ...]:
        """Whose batch it is: the service, and the provider that its vectors are for."""
        return (self.service, self.address, self.provider, self.model, self.fingerprint)


class _Stored(msgspec.Struct):
    """The content of the file."""

    version: Literal[1]
    batches: list[Ticket]


class BatchStore:
    """Keeps the batches that are under way in a file, so that a restart finds them.

    A damaged file counts as empty; one that cannot be read does not, which would be to pay for
    its batches again. For one writer: the caller holds the lock of the index. The file is
    readable for its owner only, and gone when nothing is under way. Methods raise `OSError`.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def under_way(
        self, service: str, address: str, identity: ProviderIdentity, now: float
    ) -> tuple[Ticket, ...]:
        """Return the batches of an identity at a service, oldest first; forget the expired."""
        tickets = self._read()
        alive = [ticket for ticket in tickets if ticket.expires_at > now]
        if len(alive) < len(tickets):
            self._write(alive)
        owner = (service, address, identity.name, identity.model, identity.fingerprint)
        mine = [ticket for ticket in alive if ticket.owner == owner]
        return tuple(sorted(mine, key=lambda ticket: ticket.submitted_at))

    def put(self, ticket: Ticket) -> None:
        """Add a ticket, in place of an earlier one of its input file."""
        self._write([*self._without(ticket), ticket])

    def remove(self, ticket: Ticket) -> None:
        """Forget a ticket."""
        self._write(self._without(ticket))

    def _without(self, ticket: Ticket) -> list[Ticket]:
        same = (ticket.owner, ticket.input_file)
        return [other for other in self._read() if (other.owner, other.input_file) != same]

    def _read(self) -> list[Ticket]:
        try:
            with self._path.open("rb") as file:
                data = file.read(_MOST_STORED)
            return msgspec.json.decode(data, type=_Stored).batches
        except (FileNotFoundError, msgspec.DecodeError, RecursionError):
            return []

    def _write(self, tickets: list[Ticket]) -> None:
        if not tickets:
            self._path.unlink(missing_ok=True)
            return
        value = {"version": 1, "batches": msgspec.to_builtins(tickets)}
        StateFolder(self._path.parent).write_json(self._path.name, value)
        # Only then may a batch be started: one that is forgotten is paid for twice.
        sync_folder(self._path.parent)


# --- a run ------------------------------------------------------------------------------------


class BrokenResults(ValueError):
    """A file that cannot be one of results; its text repeats nothing of it."""


@dataclass(slots=True)
class _Active:
    """A batch that is waited for."""

    ticket: Ticket
    is_own: bool
    """Whether this run sent it, and not an earlier one."""
    misses: int = 0
    unknown: int = 0
    completed: int = 0
    stored: int = 0
    """Texts whose vectors came with its results."""


class BatchRun:
    """Puts vectors of texts, by hash, into the cache by way of a service's batches.

    `hashes` name the texts that are missing, and `text_of` reads one. Every wait ends within 0.1 s
    once `cancelled`; `interrupted` ends the waiting and nothing else. What fails in passing is
    tried again, nothing is started twice.
    """

    def __init__(
        self,
        service: BatchService,
        hashes: Iterable[str],
        text_of: Callable[[str], str],
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
        self._interface = service.interface
        self._timeout = service.connection.plan.choice.batch_timeout
        """Seconds for one request; for a file, without anything coming in."""
        self._hashes = tuple(hashes)
        self._text_of = text_of
        self._store = store
        self._cache = cache
        self._cancelled = cancelled
        self._interrupted = interrupted
        self._progress = progress
        self._clock = clock
        self._sleep = sleep
        self._missing = set(self._hashes)
        self._queue: list[str] | None = None
        """Hashes still to be sent, the next last; `None` until earlier batches have ended."""
        self._active: list[_Active] = []
        self._closed = False
        """Whether this run sends no more batches."""
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
        is_waiting, delay = False, 0.0
        while True:
            if self._send():
                delay = self._interface.first_poll
            if not self._active:
                break
            self._tell("waiting for")
            left = delay
            while left > 0 and not is_waiting:
                self._check()
                is_waiting = self._interrupted()
                self._sleep(0.0 if is_waiting else min(_SLICE, left))
                left -= _SLICE
            if is_waiting:
                break
            for active in tuple(self._active):
                self._poll(active)
            delay = min(LONGEST_POLL, max(self._interface.first_poll, delay * _POLL_GROWTH))
        note = ""
        if self._notes:
            times = "" if len(self._notes) == 1 else f" ({len(self._notes)} failures)"
            off = "; no more batches in this run" if self._closed else ""
            rest = "what is left is embedded without batches"
            note = f"batch: {self._notes[-1]}{times}{off}; {rest}"
        made = frozenset(self._hashes) - self._missing
        return BatchOutcome(made, self._spent, note, is_waiting)

    def _check(self) -> None:
        if self._cancelled():
            raise Cancelled

    def _tell(self, what: str) -> None:
        total = len(self._hashes)
        done = total - len(self._missing) + sum(each.completed for each in self._active)
        self._progress(f"batch: {what} {self._service.name}", min(done, total), total)

    def _ask(self, step: Callable[[Ask], Awaitable[T]], *, once: bool = False) -> T:
        """Take a step that asks the service, and again where it fails in passing, unless `once`."""
        self._check()

        async def attempt(timeout: float) -> T:
            async def ask(request: Request) -> object:
                # A file takes as long as a slow line needs for it.
                return await self._connection.ask(
                    request, timeout + len(request.body) / _SLOWEST_LINE
                )

            try:
                return await step(ask)
            except ValueError as error:
                words = f"{self._service.place} answers with no batch: {error}"
                raise ServiceError(words, Failure.BAD_ANSWER) from None

        sender = self._connection.sender
        work = (
            attempt(self._timeout)
            if once
            else sender.send(attempt, patience=Patience(self._timeout))
        )
        return self._connection.client.run(work, self._cancelled)

    async def _find(self, ask: Ask, input_file: str) -> str:
        """Return the batch of an input file, where it was started; empty where it was not.

        A service that cannot list its batches has none to find.
        """
        try:
            return await self._interface.find(ask, input_file)
        except ServiceError as error:
            if error.is_passing:
                raise
            return ""

    # --- sending ----------------------------------------------------------------------------

    def _resume(self) -> None:
        """Take up the batches of earlier runs."""
        service = self._service
        tickets = self._store.under_way(
            service.name, service.place, service.identity, self._clock()
        )
        for ticket in tickets:
            started = ticket
            if not ticket.batch:
                try:
                    batch = self._ask(partial(self._find, input_file=ticket.input_file))
                except ServiceError as error:
                    self._not_started(ticket, error)
                    continue
                if not batch:
                    # Its texts may have been embedded since: what is missing is sent anew.
                    self._forget(ticket)
                    continue
                started = replace(ticket, batch=batch)
                self._store.put(started)
            self._active.append(_Active(started, is_own=False))

    def _send(self) -> bool:
        """Send batches until two are under way, or nothing is left that is worth one.

        Returns whether one was sent.
        """
        if self._queue is None:
            if not all(active.is_own for active in self._active):
                return False
            self._queue = [name for name in self._hashes if name in self._missing][::-1]
        before = tuple(self._active)
        while not self._closed and len(self._active) < AT_ONCE and self._queue:
            if len(self._queue) < self._service.minimum:
                break
            self._tell("sending to")
            count, data = self._input_file(self._queue)
            if count:
                self._submit(count, data)
        return before != tuple(self._active)

    def _input_file(self, queue: list[str]) -> tuple[int, bytes]:
        """Write down as many texts as one batch holds: how many, and the input file.

        Texts that the service does not take, blank or too long, are passed over, perhaps all.
        """
        limits, longest = self._interface, self._connection.plan.input_bytes
        count = 0
        data = bytearray()
        while queue and count < limits.most_texts:
            self._check()
            text = self._text_of(queue[-1])
            is_taken = bool(text.strip()) and byte_size(text) <= longest
            line = self._interface.line(queue[-1], text) if is_taken else b""
            if count and len(data) + len(line) > limits.most_bytes:
                break
            queue.pop()
            data += line
            count += bool(line)
        return count, bytes(data)

    def _submit(self, count: int, data: bytes) -> None:
        """Start a batch; where an answer does not come, look for it before it is started again."""
        service, interface, now = self._service, self._interface, self._clock()
        identity = service.identity
        ticket: Ticket | None = None
        tries = 0

        async def start(ask: Ask) -> str:
            nonlocal tries
            tries += 1
            batch = await self._find(ask, input_file) if tries > 1 else ""
            return batch or await interface.create(ask, input_file)

        try:
            input_file = self._ask(lambda ask: interface.upload(ask, data))
            ticket = Ticket(
                service=service.name,
                address=service.place,
                provider=identity.name,
                model=identity.model,
                fingerprint=identity.fingerprint,
                input_file=input_file,
                batch="",
                texts=count,
                submitted_at=now,
                expires_at=now + interface.retention,
            )
            self._store.put(ticket)
            started = replace(ticket, batch=self._ask(start))
            self._store.put(started)
            self._active.append(_Active(started, is_own=True))
        except ServiceError as error:
            self._not_started(ticket, error)

    def _not_started(self, ticket: Ticket | None, error: ServiceError) -> None:
        # Where the failure passes, the batch may have been started after all: the next run looks.
        if ticket is not None and not error.is_passing:
            self._forget(ticket)
        self._fail(str(error))
        if ticket is not None and self._interface.is_optional and error.status == _NOT_FOUND:
            self._closed = True

    # --- waiting ----------------------------------------------------------------------------

    def _poll(self, active: _Active) -> None:
        """Ask how a batch is, and take its results when it has ended."""
        name, ticket = self._service.name, active.ticket
        try:
            polled = self._ask(lambda ask: self._interface.poll(ask, ticket.batch), once=True)
            active.unknown = 0
            if polled.output and polled.state is not State.WAITING:
                self._tell("fetching from")
                self._fetch(polled.output, active)
        except BrokenResults as error:
            self._end(active, f"{self._service.place}: {error}")
            return
        except ServiceError as error:
            if error.status == _NOT_FOUND:
                active.misses = 0
                active.unknown += 1
                if active.unknown >= _MOST_UNKNOWN:
                    self._end(active, f"{name} knows the batch no more")
                return
            active.misses += 1
            if not error.is_passing or active.misses > _MOST_MISSES:
                self._end(active, str(error), forget=False)
            else:
                self._is_awaited(active)
            return
        active.misses = 0
        if polled.state is State.WAITING:
            active.completed = min(polled.completed, ticket.texts)
            is_late = self._clock() > ticket.submitted_at + self._interface.window + _GRACE
            if self._is_awaited(active) and is_late:
                self._end(active, f"a batch of {name} took too long")
            return
        problem = ""
        if polled.state is State.EXPIRED:
            problem = f"a batch of {name} took too long"
        elif polled.state is not State.DONE:
            problem = f"a batch of {name} ended as {polled.state.value}"
        elif not active.stored and active.is_own:
            problem = f"a batch of {name} holds no vector that can be used"
        self._end(active, problem)
        if polled.output:
            self._delete(polled.output)

    def _is_awaited(self, active: _Active) -> bool:
        """Return whether a batch that has not ended is waited for in this run; else it is left.

        Few texts are embedded sooner without one of before, which the next run looks at again.
        """
        is_awaited = active.is_own or len(self._missing) >= self._service.minimum
        if not is_awaited:
            self._active.remove(active)
        return is_awaited

    def _end(self, active: _Active, problem: str = "", *, forget: bool = True) -> None:
        self._active.remove(active)
        if problem:
            self._fail(problem)
        if forget:
            self._forget(active.ticket)

    def _fail(self, problem: str) -> None:
        self._notes.append(problem)
        self._closed = self._closed or len(self._notes) >= FAILURES

    def _forget(self, ticket: Ticket) -> None:
        self._store.remove(ticket)
        self._delete(ticket.input_file)

    def _delete(self, file: str) -> None:
        """Delete a file whose content is needed no more, so that no text stays at the service.

        One that cannot be deleted is left: the service drops it by itself some day.
        """
        request = self._interface.deletion(file)
        with contextlib.suppress(ServiceError):
            self._connection.client.run(self._connection.ask(request, _QUICK), self._cancelled)

    # --- taking the results -----------------------------------------------------------------

    def _fetch(self, output: str, active: _Active) -> None:
        """Store what a file of results holds for the texts that are missing.

        A line of an id that is not among the missing texts says nothing to this run, whoever
        wrote it, and is passed over; so is a second line of an id. A file that is cut is fetched
        again at the next poll; what came before is stored already.
        """
        service = self._connection.plan.service
        used = Usage(requests=1)
        answers: dict[str, Answered] = {}
        body = self._connection.download(
            self._interface.result(output), self._timeout, self._cancelled
        )
        try:
            for line in lines(body):
                with contextlib.suppress(ValueError, RecursionError):
                    name, answer = self._interface.read(json.loads(line))
                    if name in self._missing and name not in answers:
                        answers[name] = vectors_in(service, answer, 1, self._dimensions)
                if len(answers) >= _TOGETHER:
                    used, answers = used.plus(self._stored(answers)), {}
        finally:
            used = used.plus(self._stored(answers))
            active.stored += used.texts
            self._service.meter.add(texts=used.texts, tokens=used.tokens, estimated=used.estimated)
            self._spent = self._spent.plus(used)

    def _stored(self, answers: Mapping[str, Answered]) -> Usage:
        """Store vectors, checked as those of an inline answer; return what they took."""
        if self._dimensions is None and answers:
            sizes = Counter(answered.vectors.shape[1] for answered in answers.values())
            self._dimensions = sizes.most_common(1)[0][0]
        usage, vectors = Usage(), dict[str, Vector]()
        for name, (rows, tokens) in answers.items():
            if rows.shape[1] == self._dimensions:
                vectors[name] = clean_vectors(rows[0])
                counted = estimated_tokens(len(self._text_of(name))) if tokens is None else tokens
                usage = usage.plus(Usage(0, 1, counted, tokens is None))
        self._cache.put_many(self._service.identity, vectors)
        self._missing -= vectors.keys()
        return usage


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

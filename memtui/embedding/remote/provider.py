"""The embedding provider that asks a service, or a server of the user's own."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from memtui.embedding.keys import FoundKey
from memtui.embedding.limits import batches, byte_size, split_input, whole
from memtui.embedding.payloads import (
    RETRY_PAUSE,
    TIMEOUT,
    Answered,
    Request,
    WrongAnswer,
    embed_request,
    request_headers,
    vectors_in,
)
from memtui.embedding.provider import (
    Role,
    UsageMeter,
    Vector,
    Vectors,
    clean_vectors,
    estimated_tokens,
)
from memtui.embedding.remote.http import (
    LONG_PAUSE,
    Asked,
    Reply,
    ServiceClient,
    ServiceError,
    failure_in,
    no_answer,
    parsed,
    refusal,
    wrong_answer,
)
from memtui.embedding.remote.pacing import (
    Patience,
    Sender,
    halved,
    hurried,
    patient,
    retry,
    sleep,
)
from memtui.embedding.remote.plan import KeyHolder, Plan, key_hint
from memtui.embedding.services import Address, Service, Shape, request_limits
from memtui.errors import Cancelled, ProviderError
from memtui.model import Failure, Usage
from memtui.text.sanitize import safe_line

if TYPE_CHECKING:
    from memtui.embedding.batch.protocols import BatchService
    from memtui.embedding.payloads import Values

Item = TypeVar("Item")
Result = TypeVar("Result")
Stopped = Callable[[], bool]

_LOOK: Final = 0.02
_MOST_SPARE: Final = 1024
_USUAL_BYTES: Final = 1600
"""Of a chunk of the usual 400 tokens."""


def in_order(
    items: Sequence[Item],
    run: Callable[[Item, Stopped], Result],
    *,
    workers: int,
    stopped: Stopped,
) -> list[Result]:
    """Run each item in one of so many threads; the results are in the order of the items.

    `run` gets what tells it to stop. The first failure stops the others and is raised; raises
    `Cancelled` within 0.1 s once `stopped()`, which is asked in the calling thread alone.
    """
    if stopped():
        raise Cancelled
    if len(items) < 2 or workers < 2:
        return [run(item, stopped) for item in items]
    stopping = threading.Event()

    def run_until_stopped(item: Item) -> Result:
        if stopping.is_set():
            raise Cancelled
        try:
            return run(item, stopping.is_set)
        except BaseException:
            stopping.set()
            raise

    pool = ThreadPoolExecutor(workers, thread_name_prefix="memtui-embedding")
    try:
        futures = [pool.submit(run_until_stopped, item) for item in items]
        while True:
            ended = wait(futures, _LOOK, FIRST_EXCEPTION)
            failures = [error for one in ended.done if (error := one.exception())]
            if failures:
                # The others were stopped by the first.
                raise min(failures, key=lambda error: isinstance(error, Cancelled))
            if not ended.not_done:
                return [future.result() for future in futures]
            if stopped():
                raise Cancelled
    finally:
        stopping.set()
        pool.shutdown(wait=False, cancel_futures=True)


def ask_once(
    request: Request,
    address: Address,
    *,
    stopped: Stopped,
    key_name: str = "",
    timeout: float = TIMEOUT,
    pause: float = RETRY_PAUSE,
) -> object:
    """Send a request about another program's index and return its parsed JSON answer.

    Tries a second time on 429 and 5xx, unless the answer asks for a pause of more than 2 s.
    `key_name` says where the key came from, for the message when it is refused. Raises
    `Cancelled` within 0.2 s once `stopped()`, and `ProviderError` of one line that holds neither
    keys nor text of the answer. Not to be called from a thread that runs an event loop.
    """
    if stopped():
        raise Cancelled
    asked = Asked(address, key_name)
    client = ServiceClient(address, concurrency=1)
    end = time.monotonic() + timeout

    def run() -> object:
        left = max(0.001, end - time.monotonic())
        reply = client.exchange(request, timeout=left, cancelled=stopped)
        if not reply.is_success:
            raise refusal(reply, asked)
        return parsed(reply, asked)

    def pause_after(error: ServiceError, failures: int) -> float | None:
        wanted = pause if error.retry_after is None else error.retry_after
        again = error.kind in (Failure.RATE_LIMITED, Failure.SERVICE_DOWN)
        if failures > 1 or not again or wanted > LONG_PAUSE:
            return None
        return min(wanted, max(0.0, end - time.monotonic()))

    try:
        return retry(run, pause_after, lambda seconds: sleep(seconds, stopped))
    except ServiceError as error:
        # The hints name settings of memtui, and the index that is asked for is an agent's.
        if error.kind is Failure.TIMEOUT:
            error = no_answer(address, timeout)
        raise ProviderError(error.message, failure=error.kind) from None
    finally:
        client.close()


class Connection:
    """The way to the service of a plan: its HTTP client, and the key that goes along."""

    def __init__(self, plan: Plan, client: ServiceClient, keys: KeyHolder) -> None:
        self.plan = plan
        self.client = client
        self._keys = keys
        self._sent: FoundKey | None = None

    def exchange(
        self, request: Request, *, timeout: float, stopped: Stopped, is_urgent: bool = False
    ) -> Reply:
        """Send a request with the key; where that is refused, once more with another one.

        Raises what `ServiceClient.exchange` raises, and `ProviderError` (`no_key`).
        """

        def send(key: FoundKey) -> Reply:
            return self.client.exchange(
                self._keyed(request, key), timeout=timeout, cancelled=stopped, is_urgent=is_urgent
            )

        key = self._keys.current(stopped)
        reply = send(key)
        if failure_in(reply) is Failure.KEY_REFUSED:
            renewed = self._renewed(key, stopped)
            if renewed is not None:
                reply = send(renewed)
        return reply

    def download(self, request: Request, *, timeout: float, stopped: Stopped) -> Iterator[bytes]:
        """Give the body of a success as it comes in, however large."""
        key = self._keys.current(stopped)
        return self.client.download(
            self._keyed(request, key), self.refusal, timeout=timeout, cancelled=stopped
        )

    def check_key(self, stopped: Stopped) -> None:
        """Raise `ProviderError` where the key is missing or cannot be sent."""
        self._keyed(Request("", "", {}), self._keys.current(stopped))

    def refusal(self, reply: Reply) -> ServiceError:
        """The failure that an answer other than a success is."""
        return refusal(reply, self.asked())

    def asked(self) -> Asked:
        """Who is asked with which key, for the words of a failure."""
        key = self._sent
        name = f"the key of {key.origin}" if key is not None and key.value else ""
        hint = "check embedding.model and embedding.base_url"
        if self.plan.service.shape is Shape.OLLAMA:
            hint = f"get it with: ollama pull {safe_line(self.plan.model)}"
        return Asked(self.plan.address, name, key_hint(self.plan), hint)

    def _renewed(self, key: FoundKey, stopped: Stopped) -> FoundKey | None:
        """Another key than the refused one, if there is one."""
        try:
            found = self._keys.current(stopped, refused=key)
        except ProviderError:
            # What the service said of the first key is what is told.
            return None
        return found if found.value != key.value else None

    def _keyed(self, request: Request, key: FoundKey) -> Request:
        service = self.plan.service
        try:
            keyed = request.with_headers(request_headers(service, key.value))
        except ValueError as error:
            words, hint = f"{service.name}: {error}", key_hint(self.plan)
            raise ProviderError(words, hint=hint, failure=Failure.NO_KEY) from None
        self._sent = key
        return keyed


class _SpareVectors:
    """Vectors that were paid for in a call that failed before its end, the last 1024 of them.

    Usable from any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: OrderedDict[str, Values] = OrderedDict()

    def put(self, texts: Sequence[str], rows: Iterable[Values]) -> None:
        with self._lock:
            self._rows.update(zip(texts, rows, strict=True))
            while len(self._rows) > _MOST_SPARE:
                self._rows.popitem(last=False)

    def of(self, texts: Iterable[str]) -> dict[str, Values]:
        with self._lock:
            return {text: self._rows[text] for text in texts if text in self._rows}

    def drop(self, texts: Iterable[str]) -> None:
        with self._lock:
            for text in texts:
                self._rows.pop(text, None)


class _Job(NamedTuple):
    """Texts of one request, with their prefixes."""

    texts: Sequence[str]
    role: Role
    patience: Patience


class RemoteProvider:
    """Embeds by a service, in requests as large and as many at once as it and the user allow.

    Usable from any thread; a query waits for no place among the requests for documents. Failed
    requests are tried again, those that are too large in halves; every wait ends within 0.1 s of
    a cancellation. What was answered in a call that failed is not asked for again. A text longer
    than `plan.input_bytes` is not sent.
    """

    def __init__(self, connection: Connection, sender: Sender) -> None:
        self.connection = connection
        self.plan = plan = connection.plan
        self.sender = sender
        self.name = plan.service.name
        self.model = plan.model
        self.fingerprint = plan.fingerprint
        self.address = plan.address.shown
        self.remote = not plan.address.is_loopback
        self._concurrency = plan.choice.traffic.concurrency
        self._request_bytes, self._request_texts = request_limits(plan.service, plan.address)
        self._dimensions = plan.dimensions
        self._lock = threading.Lock()
        self._spare = _SpareVectors()
        self.meter = UsageMeter()

    @property
    def service(self) -> Service:
        """The service that is asked."""
        return self.plan.service

    @property
    def dimensions(self) -> int | None:
        """How many numbers a vector has; `None` until the first answer tells."""
        return self._dimensions

    @property
    def batch_size(self) -> int:
        """As many texts of the usual length as all requests at once hold."""
        fitting = min(self._request_texts, max(1, self._request_bytes // _USUAL_BYTES))
        return fitting * self._concurrency

    def embed_query(self, text: str, *, cancelled: Stopped | None = None) -> Vector:
        """Embed a query; shape (dimensions,). Raises `ProviderError` or `Cancelled`.

        Of one that is longer than an input may be, the beginning is what is looked for.
        """
        patience = hurried(self.plan.choice.traffic.query_timeout)
        beginning = split_input(text, self.plan.input_bytes)[0]
        prefixed = self._prefixed([beginning], self.plan.templates.query)
        rows = self._rows(_Job(prefixed, Role.QUERY, patience), cancelled or _never)
        return clean_vectors(rows[0])

    def embed_documents(self, texts: Sequence[str], *, cancelled: Stopped | None = None) -> Vectors:
        """Embed texts in their order; shape (n, dimensions). Raises `ProviderError`, `Cancelled`.

        A blank text, which services refuse, is a vector of zeros.
        """
        import numpy as np

        stopped = cancelled or _never
        filled = [number for number, text in enumerate(texts) if text.strip()]
        prefixed = self._prefixed(
            [texts[number] for number in filled], self.plan.templates.document
        )
        made = self._made(prefixed, stopped)
        if texts and self._dimensions is None:
            words = "blank texts alone do not tell how many numbers a vector has"
            raise ProviderError(words, failure=Failure.BAD_REQUEST)
        rows = np.zeros((len(texts), self._dimensions or 0))
        for number, text in zip(filled, prefixed, strict=True):
            rows[number] = made[text]
        self._spare.drop(made)
        return clean_vectors(rows)

    def reads(self, text: str) -> bool:
        """Whether the model knows the script; a service does not say, so always."""
        return True

    def usage(self) -> Usage:
        """What it was asked for so far; tokens as the service counts them, else by length."""
        return self.meter.read()

    def batches(self, cancelled: Stopped) -> BatchService | None:
        """Its batch interface, where the settings want it and the service has one.

        May look for the key. Raises `ProviderError` where there is none, and `Cancelled`.
        """
        from memtui.embedding.batch.protocols import open_batches

        return open_batches(self, cancelled)

    def close(self) -> None:
        """End the connections; later calls raise `ProviderError`."""
        self.connection.client.close()

    def _prefixed(self, texts: Sequence[str], prefix: str) -> list[str]:
        limit = self.plan.input_bytes
        for text in texts:
            if byte_size(text) > limit:
                words = f"a text of {byte_size(text)} bytes is longer than the {limit} of one input"
                raise ProviderError(words, failure=Failure.TOO_LARGE)
        return [prefix + whole(text) for text in texts]

    def _made(self, texts: Sequence[str], stopped: Stopped) -> dict[str, Values]:
        """The vector of each different text; those of an earlier call that failed are used."""
        patience = patient(self.plan.choice.traffic.batch_timeout)
        made = self._spare.of(texts)
        wanted = [text for text in dict.fromkeys(texts) if text not in made]
        jobs = [_Job(batch, Role.DOCUMENT, patience) for batch in self._batches(wanted)]
        found = in_order(jobs, self._rows, workers=self._concurrency, stopped=stopped)
        for job, rows in zip(jobs, found, strict=True):
            made.update(zip(job.texts, rows, strict=True))
        return made

    def _batches(self, texts: Sequence[str]) -> list[list[str]]:
        most = self._request_bytes
        if self.sender.pacer.most_tokens:
            # A request that alone holds more than a minute's tokens is refused for ever.
            most = min(most, self.sender.pacer.most_tokens)
        count = self._request_texts
        return [
            batch[start : start + count]
            for batch in batches(texts, byte_size, most)
            for start in range(0, len(batch), count)
        ]

    def _rows(self, job: _Job, stopped: Stopped) -> Values:
        """The vectors of a request, split in halves where it is too large; shape (n, d)."""
        import numpy as np

        def run(texts: Sequence[str]) -> list[Values]:
            return list(self._sent(job._replace(texts=texts), stopped))

        return np.array(halved(job.texts, run))

    def _sent(self, job: _Job, stopped: Stopped) -> Values:
        tokens = estimated_tokens(sum(map(len, job.texts)))

        request = embed_request(
            self.plan.service,
            self.plan.address,
            self.plan.model,
            job.texts,
            job.role,
            dimensions=self.plan.asked_dimensions,
        )

        def attempt(timeout: float) -> Answered:
            self.meter.add(texts=0, tokens=0)
            reply = self.connection.exchange(
                request, timeout=timeout, stopped=stopped, is_urgent=job.role is Role.QUERY
            )
            self.sender.pacer.learn(reply.headers)
            if not reply.is_success:
                raise self.connection.refusal(reply)
            return self._checked(parsed(reply, self.connection.asked()), len(job.texts))

        answered = self.sender.send(attempt, tokens=tokens, patience=job.patience, stopped=stopped)
        used = tokens if answered.tokens is None else answered.tokens
        self.sender.pacer.settle(tokens, used)
        is_estimated = answered.tokens is None
        self.meter.add(texts=len(job.texts), tokens=used, requests=0, estimated=is_estimated)
        if job.role is Role.DOCUMENT:
            self._spare.put(job.texts, answered.vectors)
        return answered.vectors

    def _checked(self, answer: object, count: int) -> Answered:
        try:
            answered = vectors_in(self.plan.service, answer, count, self._dimensions)
            found = int(answered.vectors.shape[1])
            with self._lock:
                if self._dimensions not in (None, found):
                    words = f"the answer holds vectors of {found} dimensions"
                    raise WrongAnswer(words, Failure.DIMENSIONS_DIFFER)
                self._dimensions = found
        except WrongAnswer as error:
            raise wrong_answer(error, self.connection.asked()) from None
        return answered


def _never() -> bool:
    return False

"""Running the same work on several items at once, with the results in order."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

from memtui.embedding.keys import FoundKey
from memtui.embedding.limits import batches, byte_size, split_input, whole
from memtui.embedding.payloads import Answered, Role, WrongAnswer, embed_request, vectors_in
from memtui.embedding.provider import UsageMeter, Vector, Vectors, clean_vectors, estimated_tokens
from memtui.embedding.remote.http import (
    Asked,
    ServiceClient,
    ServiceError,
    refusal,
    unparsed,
    wrong_answer,
)
from memtui.embedding.remote.pacing import Patience, Sender, halved, hurried, patient
from memtui.embedding.remote.plan import KeyHolder, Plan, key_hint
from memtui.embedding.services import Service, Shape, request_limits
from memtui.errors import Cancelled, ProviderError
from memtui.model import Failure, Usage
from memtui.text.sanitize import safe_line

if TYPE_CHECKING:
    from memtui.embedding.batch.service import BatchService
    from memtui.embedding.payloads import Values


Item = TypeVar("Item")
Result = TypeVar("Result")
Stopped = Callable[[], bool]

_LOOK: Final = 0.02


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
    race = _Race(items, run)
    for number in range(min(workers, len(items))):
        name = f"memtui-embedding-{number}"
        threading.Thread(target=race.work, name=name, daemon=True).start()
    while not race.ended.wait(_LOOK):
        if stopped():
            race.stopping.set()
            raise Cancelled
    if race.failure is not None:
        raise race.failure
    return [race.results[number] for number in range(len(items))]


class _Race(Generic[Item, Result]):
    def __init__(self, items: Sequence[Item], run: Callable[[Item, Stopped], Result]) -> None:
        self.results: dict[int, Result] = {}
        self.failure: BaseException | None = None
        self.stopping = threading.Event()
        self.ended = threading.Event()
        self._run = run
        self._items = iter(enumerate(items))
        self._count = len(items)
        self._lock = threading.Lock()

    def work(self) -> None:
        """Run items until none is left, or one failed."""
        while not self.stopping.is_set():
            try:
                with self._lock:
                    number, item = next(self._items)
            except StopIteration:
                return
            try:
                result = self._run(item, self.stopping.is_set)
            except BaseException as error:
                with self._lock:
                    self.failure = self.failure or error
                self.stopping.set()
                self.ended.set()
                return
            with self._lock:
                self.results[number] = result
                if len(self.results) == self._count:
                    self.ended.set()


MOST_TEXTS: Final = 1024


class SpareVectors:
    """Keeps vectors by their text, the last 1024 of them, until they are handed over.

    Usable from any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: OrderedDict[str, Values] = OrderedDict()

    def put(self, texts: Sequence[str], rows: Iterable[Values]) -> None:
        """Keep the vector of each text."""
        with self._lock:
            self._rows.update(zip(texts, rows, strict=True))
            while len(self._rows) > MOST_TEXTS:
                self._rows.popitem(last=False)

    def of(self, texts: Iterable[str]) -> dict[str, Values]:
        """The vectors that are there, by text."""
        with self._lock:
            return {text: self._rows[text] for text in texts if text in self._rows}

    def drop(self, texts: Iterable[str]) -> None:
        """Forget vectors that were handed over."""
        with self._lock:
            for text in texts:
                self._rows.pop(text, None)


_USUAL_BYTES: Final = 1600
"""Of a chunk of the usual 400 tokens."""


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

    def __init__(self, plan: Plan, client: ServiceClient, keys: KeyHolder, sender: Sender) -> None:
        self.plan = plan
        self.client = client
        self.keys = keys
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
        self._spare = SpareVectors()
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
        from memtui.embedding.batch.service import open_batches

        return open_batches(self, cancelled)

    def close(self) -> None:
        """End the connections; later calls raise `ProviderError`."""
        self.client.close()

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

        def attempt(timeout: float) -> Answered:
            key = self.keys.current(stopped)
            try:
                return self._once(job, key, timeout, stopped)
            except ServiceError as error:
                if error.kind is not Failure.KEY_REFUSED:
                    raise
                renewed = self.keys.current(stopped, refused=key)
                if renewed.value == key.value:
                    raise
            return self._once(job, renewed, timeout, stopped)

        answered = self.sender.send(attempt, tokens=tokens, patience=job.patience, stopped=stopped)
        used = tokens if answered.tokens is None else answered.tokens
        self.sender.pacer.settle(tokens, used)
        is_estimated = answered.tokens is None
        self.meter.add(texts=len(job.texts), tokens=used, requests=0, estimated=is_estimated)
        if job.role is Role.DOCUMENT:
            self._spare.put(job.texts, answered.vectors)
        return answered.vectors

    def _once(self, job: _Job, key: FoundKey, timeout: float, stopped: Stopped) -> Answered:
        """Send one request once."""
        plan, asked = self.plan, self.asked(key)
        try:
            request = embed_request(
                plan.service,
                plan.address,
                plan.model,
                job.texts,
                job.role,
                key=key.value,
                dimensions=plan.asked_dimensions,
            )
        except ValueError as error:
            words = f"{plan.service.name}: {error}"
            raise ProviderError(words, hint=asked.key_hint, failure=Failure.NO_KEY) from None
        self.meter.add(texts=0, tokens=0)
        reply = self.client.exchange(
            request, timeout=timeout, cancelled=stopped, is_urgent=job.role is Role.QUERY
        )
        self.sender.pacer.learn(reply.headers)
        if not reply.is_success:
            raise refusal(reply, asked)
        try:
            answer = reply.parsed()
        except (ValueError, RecursionError):
            raise unparsed(reply, asked) from None
        return self._checked(answer, len(job.texts), asked)

    def _checked(self, answer: object, count: int, asked: Asked) -> Answered:
        try:
            answered = vectors_in(self.plan.service, answer, count, self._dimensions)
            found = int(answered.vectors.shape[1])
            with self._lock:
                if self._dimensions not in (None, found):
                    words = f"the answer holds vectors of {found} dimensions"
                    raise WrongAnswer(words, Failure.DIMENSIONS_DIFFER)
                self._dimensions = found
        except WrongAnswer as error:
            raise wrong_answer(error, asked) from None
        return answered

    def asked(self, key: FoundKey) -> Asked:
        """Who is asked with a key, for the words of a failure."""
        name = f"the key of {key.origin}" if key.value else ""
        is_ollama = self.plan.service.shape is Shape.OLLAMA
        model_hint = f"get it with: ollama pull {safe_line(self.model)}" if is_ollama else ""
        usual = "check embedding.model and embedding.base_url"
        return Asked(self.plan.address, name, key_hint(self.plan), model_hint or usual)


def _never() -> bool:
    return False

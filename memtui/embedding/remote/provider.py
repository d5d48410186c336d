"""The embedding provider that asks a service, or a server of the user's own."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from memtui.embedding.keys import FoundKey, find_key
from memtui.embedding.limits import batches, byte_size, split_input, whole
from memtui.embedding.payloads import (
    Answered,
    Request,
    WrongAnswer,
    embed_request,
    request_headers,
    vectors_in,
)
from memtui.embedding.provider import (
    ProviderIdentity,
    Role,
    UsageMeter,
    Vector,
    Vectors,
    clean_vectors,
    estimated_tokens,
)
from memtui.embedding.registry import Availability, Destination, Registration
from memtui.embedding.remote.http import (
    LONG_PAUSE,
    Reply,
    RequestContext,
    ServiceClient,
    ServiceError,
    failure_in,
    no_answer,
    parsed,
    refusal,
    wrong_answer,
)
from memtui.embedding.remote.pacing import LONGEST_WAIT, Pacer, Patience, Sender
from memtui.embedding.remote.plan import Plan, plan_of
from memtui.embedding.services import SERVICES, Address, Service, Shape, address_of, request_limits
from memtui.errors import ProviderError, SettingsError
from memtui.model import Failure, Usage
from memtui.settings.schema import EmbeddingSettings
from memtui.text.sanitize import safe_line

if TYPE_CHECKING:
    from memtui.embedding.batch.protocols import BatchService
    from memtui.embedding.payloads import Values

_MOST_SPARE: Final = 1024
_USUAL_BYTES: Final = 1600
"""Of a chunk of the usual 400 tokens."""


def ask_once(
    request: Request,
    address: Address,
    *,
    stopped: Callable[[], bool],
    key_name: str,
    timeout: float,
    pause: float,
) -> object:
    """Send a request about another program's index and return its parsed JSON answer.

    Tries a second time on 429 and 5xx after `pause` seconds, or as many as the answer asks for
    unless they are more than 2. `key_name` says where the key came from, for the message when it
    is refused. Raises `Cancelled` within 0.2 s once `stopped()`, and `ProviderError` of one line
    that holds neither keys nor text of the answer. Not to be called from a thread that runs an
    event loop.
    """
    context = RequestContext(address, key_name)
    client = ServiceClient(address)
    end = time.monotonic() + timeout

    async def ask(*, again: bool) -> object:
        reply = await client.exchange(request, max(0.001, end - time.monotonic()))
        if reply.is_success:
            return parsed(reply, context)
        error = refusal(reply, context)
        wait = pause if error.retry_after is None else error.retry_after
        if error.kind not in (Failure.RATE_LIMITED, Failure.SERVICE_DOWN) or wait > LONG_PAUSE:
            raise error
        if not again:
            raise error
        await asyncio.sleep(min(wait, max(0.0, end - time.monotonic())))
        return await ask(again=False)

    try:
        return client.run(ask(again=True), stopped)
    except ServiceError as error:
        # The hints name settings of memtui, and the index that is asked for is an agent's.
        if error.kind is Failure.TIMEOUT:
            error = no_answer(address, timeout)
        raise ProviderError(error.message, failure=error.kind) from None
    finally:
        client.close()


class Connection:
    """The way to the service of a plan: its HTTP client, and the key that goes along.

    The key is in memory and nowhere else.
    """

    def __init__(
        self, plan: Plan, client: ServiceClient, find: Callable[..., FoundKey] = find_key
    ) -> None:
        self.plan = plan
        self.client = client
        self._find = find
        self._looking = asyncio.Lock()
        self._key: FoundKey | None = None
        self._sent: FoundKey | None = None

    async def send(self, request: Request, timeout: float) -> Reply:
        """Send a request with the key; where that is refused, once more with another one.

        Raises what `ServiceClient.exchange` raises, and `ProviderError` (`no_key`).
        """
        key = await self._current_key()
        reply = await self.client.exchange(self._keyed(request, key), timeout)
        if failure_in(reply) is not Failure.KEY_REFUSED:
            return reply
        try:
            renewed = await self._current_key(refused=key)
        except ProviderError:
            # What the service said of the first key is what is told.
            return reply
        if renewed.value == key.value:
            return reply
        return await self.client.exchange(self._keyed(request, renewed), timeout)

    def exchange(self, request: Request, timeout: float, stopped: Callable[[], bool]) -> Reply:
        """Send a request as `send` does and wait; raises `Cancelled` within 0.1 s, too."""
        return self.client.run(self.send(request, timeout), stopped)

    def download(
        self, request: Request, timeout: float, stopped: Callable[[], bool]
    ) -> Iterator[bytes]:
        """Give the body of a success as it comes in, however large."""
        key = self.client.run(self._current_key(), stopped)
        return self.client.download(
            self._keyed(request, key), self.refusal, timeout=timeout, cancelled=stopped
        )

    def check_key(self, stopped: Callable[[], bool]) -> None:
        """Raise `ProviderError` where the key is missing or cannot be sent."""
        self._keyed(Request("", "", {}), self.client.run(self._current_key(), stopped))

    def refusal(self, reply: Reply) -> ServiceError:
        """The failure that an answer other than a success is."""
        return refusal(reply, self.context())

    def context(self) -> RequestContext:
        """Who is asked with which key, for the words of a failure."""
        key = self._sent
        name = f"the key of {key.origin}" if key is not None and key.value else ""
        hint = "check embedding.model and embedding.base_url"
        if self.plan.service.shape is Shape.OLLAMA:
            hint = f"get it with: ollama pull {safe_line(self.plan.model)}"
        return RequestContext(self.plan.address, name, self.plan.key_hint, hint)

    async def _current_key(self, *, refused: FoundKey | None = None) -> FoundKey:
        """The key to send, without a value where none is needed and none is there.

        With `refused`, which the service did not take, it is looked for once more. Raises
        `ProviderError` (`no_key`) where one is needed; what is wrong at a place where a key might
        just lie keeps nobody from a server that needs none.
        """
        plan = self.plan
        async with self._looking:
            if self._key is None or self._key is refused:
                stopping = threading.Event()
                look = partial(self._find, plan.service, plan.address, plan.choice)
                try:
                    self._key = await asyncio.to_thread(look, cancelled=stopping.is_set)
                finally:
                    # Where nobody waits for it any more, a command that prints a key ends.
                    stopping.set()
            key = self._key
            if not key.value and plan.needs_key:
                # Whoever sets the key meanwhile shall not have to start again.
                self._key = None
                raise plan.missing_key(key)
            return key

    def _keyed(self, request: Request, key: FoundKey) -> Request:
        service = self.plan.service
        try:
            keyed = request.with_headers(request_headers(service, key.value))
        except ValueError as error:
            words, hint = f"{service.name}: {error}", self.plan.key_hint
            raise ProviderError(words, hint=hint, failure=Failure.NO_KEY) from None
        self._sent = key
        return keyed


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
        self.dimensions = plan.dimensions
        """How many numbers a vector has; `None` until the first answer tells."""
        self.meter = UsageMeter()
        # What follows is used in the thread of the connection alone.
        self._places = asyncio.Semaphore(plan.choice.concurrency)
        self._request_bytes, self._request_texts = request_limits(plan.service, plan.address)
        self._spare: dict[str, Values] = {}
        """Vectors that were paid for in a call that failed before its end."""

    @property
    def service(self) -> Service:
        """The service that is asked."""
        return self.plan.service

    @property
    def batch_size(self) -> int:
        """As many texts of the usual length as all requests at once hold."""
        fitting = min(self._request_texts, max(1, self._request_bytes // _USUAL_BYTES))
        return fitting * self.plan.choice.concurrency

    def embed_query(self, text: str, *, cancelled: Callable[[], bool] | None = None) -> Vector:
        """Embed a query; shape (dimensions,). Raises `ProviderError` or `Cancelled`.

        Of one that is longer than an input may be, the beginning is what is looked for.
        """
        timeout = self.plan.choice.query_timeout
        # Somebody waits for it: all tries together have the time of one.
        patience = Patience(timeout, timeout, LONGEST_WAIT)
        beginning = split_input(text, self.plan.input_bytes)[0]
        prefixed = self._prefixed([beginning], self.plan.templates.query)
        (row,) = self.connection.client.run(self._rows(prefixed, Role.QUERY, patience), cancelled)
        return clean_vectors(row)

    def embed_documents(
        self, texts: Sequence[str], *, cancelled: Callable[[], bool] | None = None
    ) -> Vectors:
        """Embed texts in their order; shape (n, dimensions). Raises `ProviderError`, `Cancelled`.

        A blank text, which services refuse, is a vector of zeros.
        """
        import numpy as np

        filled = [number for number, text in enumerate(texts) if text.strip()]
        prefixed = self._prefixed(
            [texts[number] for number in filled], self.plan.templates.document
        )
        made: dict[str, Values] = {}
        if prefixed:
            made = self.connection.client.run(self._made(dict.fromkeys(prefixed)), cancelled)
        if texts and self.dimensions is None:
            words = "blank texts alone do not tell how many numbers a vector has"
            raise ProviderError(words, failure=Failure.BAD_REQUEST)
        rows = np.zeros((len(texts), self.dimensions or 0))
        for number, text in zip(filled, prefixed, strict=True):
            rows[number] = made[text]
        return clean_vectors(rows)

    def reads(self, text: str) -> bool:
        """Whether the model knows the script; a service does not say, so always."""
        return True

    def usage(self) -> Usage:
        """What it was asked for so far; tokens as the service counts them, else by length."""
        return self.meter.read()

    def batches(self, cancelled: Callable[[], bool]) -> BatchService | None:
        """Its batch interface, where the settings want it and the service has one.

        May look for the key. Raises `ProviderError` where there is none, and `Cancelled`.
        """
        from memtui.embedding.batch.protocols import INTERFACES, BatchService

        choice = self.plan.choice
        if not choice.batch or self.name not in INTERFACES:
            return None
        self.connection.check_key(cancelled)
        identity = self.plan.identity._replace(dimensions=self.dimensions)
        return BatchService(
            INTERFACES[self.name], self.connection, identity, self.meter, choice.batch_minimum
        )

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

    async def _made(self, texts: Iterable[str]) -> dict[str, Values]:
        """The vector of each text; those of an earlier call that failed are used."""
        made = {text: self._spare.pop(text) for text in texts if text in self._spare}
        patience = Patience(self.plan.choice.batch_timeout)

        async def embed(batch: Sequence[str]) -> None:
            async with self._places:
                await self._rows(batch, Role.DOCUMENT, patience, made)

        try:
            async with asyncio.TaskGroup() as group:
                for batch in self._batches([text for text in texts if text not in made]):
                    group.create_task(embed(batch))
        except BaseException as error:
            self._spare |= made
            for text in list(self._spare)[:-_MOST_SPARE]:
                del self._spare[text]
            # The first failure has stopped the others.
            raise error.exceptions[0] if isinstance(error, BaseExceptionGroup) else error from None
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

    async def _rows(
        self,
        texts: Sequence[str],
        role: Role,
        patience: Patience,
        made: dict[str, Values] | None = None,
    ) -> list[Values]:
        """The vectors of texts by one request, or by halves of it where it is too large.

        They are in `made` as soon as they are there, so that a later failure loses none.
        """
        try:
            rows = list(await self._ask(texts, role, patience))
        except ServiceError as error:
            if len(texts) < 2 or not error.is_splittable:
                raise
            middle = (len(texts) + 1) // 2
            first = await self._rows(texts[:middle], role, patience, made)
            return first + await self._rows(texts[middle:], role, patience, made)
        if made is not None:
            made.update(zip(texts, rows, strict=True))
        return rows

    async def _ask(self, texts: Sequence[str], role: Role, patience: Patience) -> Values:
        plan, tokens = self.plan, estimated_tokens(sum(map(len, texts)))
        request = embed_request(
            plan.service, plan.address, plan.model, texts, role, dimensions=plan.asked_dimensions
        )

        async def attempt(timeout: float) -> Answered:
            self.meter.add(texts=0, tokens=0)
            reply = await self.connection.send(request, timeout)
            self.sender.pacer.learn(reply.headers)
            if not reply.is_success:
                raise self.connection.refusal(reply)
            context = self.connection.context()
            try:
                return vectors_in(plan.service, parsed(reply, context), len(texts), self.dimensions)
            except WrongAnswer as error:
                raise wrong_answer(error, context) from None

        answered = await self.sender.send(attempt, tokens=tokens, patience=patience)
        self.dimensions = self.dimensions or int(answered.vectors.shape[1])
        used = tokens if answered.tokens is None else answered.tokens
        self.sender.pacer.settle(tokens, used)
        is_estimated = answered.tokens is None
        self.meter.add(texts=len(texts), tokens=used, requests=0, estimated=is_estimated)
        return answered.vectors


def create(name: str, choice: EmbeddingSettings) -> RemoteProvider:
    """Make the provider; no connection is opened yet.

    Raises `SettingsError` for settings that the service cannot follow, and `ProviderError`
    (`no_key`) where it wants a key and none is found.
    """
    plan = plan_of(name, choice)
    plan.look_for_key()
    client = ServiceClient(plan.address, choice.ca_file or "")
    pacer = Pacer(choice.requests_per_minute, choice.tokens_per_minute)
    return RemoteProvider(Connection(plan, client), Sender(pacer))


def look(name: str, choice: EmbeddingSettings) -> Availability:
    """Whether the settings and the key are there; asks nobody."""
    try:
        plan = plan_of(name, choice)
        key = plan.look_for_key()
    except SettingsError as error:
        return Availability(False, error.message, error.hint, Failure.BAD_SETTING)
    except ProviderError as error:
        return Availability(False, error.message, error.hint, Failure.NO_KEY)
    host = plan.address.shown
    detail = f"key of {key.origin}, for {host}" if key.origin else f"without a key, at {host}"
    return Availability(True, detail)


def identity(name: str, choice: EmbeddingSettings) -> ProviderIdentity:
    """Tell what `create` gives; raises `SettingsError` as it does."""
    return plan_of(name, choice).identity


def destination(service: Service, choice: EmbeddingSettings) -> Destination:
    """Tell where text would be sent; asks nothing."""
    try:
        address = address_of(service, choice.base_url or "")
    except ValueError:
        # Its look says what is wrong with the address.
        return Destination("", service.name != "ollama")
    return Destination(safe_line(address.shown), not address.is_loopback)


REGISTRATIONS: Final[Mapping[str, Registration]] = {
    service.name: Registration(
        name=service.name,
        remote=service.name != "ollama",
        create=partial(create, service.name),
        look=partial(look, service.name),
        identity=partial(identity, service.name),
        summary=service.summary,
        destination=partial(destination, service),
    )
    for service in SERVICES.values()
    if service.summary
}

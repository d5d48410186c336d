"""A batch interface that is ready to be asked: its words, its place, and how to get there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from memtui.embedding.batch.protocols import (
    BatchProtocol,
    Call,
    GeminiBatches,
    MistralBatches,
    OpenAiBatches,
    Target,
    VoyageBatches,
)
from memtui.embedding.choice import BATCH_TIMEOUT
from memtui.embedding.limits import byte_size
from memtui.embedding.payloads import request_headers
from memtui.embedding.provider import ProviderIdentity, UsageMeter
from memtui.embedding.remote.http import Asked, Reply, ServiceClient, failure_in, refusal, too_much
from memtui.embedding.services import Service
from memtui.errors import ProviderError
from memtui.model import Failure

if TYPE_CHECKING:
    import httpx

    from memtui.embedding.keys import FoundKey
    from memtui.embedding.remote.http import Asked, Reply
    from memtui.embedding.remote.provider import RemoteProvider


_PROTOCOLS: Final[dict[str, Callable[[Target], BatchProtocol]]] = {
    "openai": OpenAiBatches,
    "voyage": VoyageBatches,
    "mistral": MistralBatches,
    "gemini": GeminiBatches,
}


class Transport(Protocol):
    """Sends calls; usable from any thread, each call ends within 0.1 s of a stop."""

    def send(self, call: Call, *, timeout: float, cancelled: Callable[[], bool]) -> Reply:
        """Give the answer, whatever its status; raises `ServiceError`, `Cancelled`."""

    def download(
        self, call: Call, *, timeout: float, cancelled: Callable[[], bool]
    ) -> Iterator[bytes]:
        """Give the body of a success as it comes in, however large.

        `timeout` is the longest pause in it. Raises `ServiceError`, also for a body that ends
        before its end and for a status other than a success, and `Cancelled`.
        """


@dataclass(frozen=True, slots=True)
class BatchService:
    """The batch interface of one provider, with one model."""

    protocol: BatchProtocol
    transport: Transport
    target: Target
    identity: ProviderIdentity
    """What its vectors are stored under."""
    asked: Asked
    """Who is asked, for the words of a failure."""
    meter: UsageMeter
    """Counts what was asked for."""
    input_bytes: int
    """The most UTF-8 bytes of one text."""
    minimum: int = 1000
    """From how many texts on a batch is worth it."""
    timeout: float = BATCH_TIMEOUT
    """Seconds for one request; for a file, without anything coming in."""

    def takes(self, text: str) -> bool:
        """Whether a text may be sent: services refuse a blank one, and one that is too long."""
        return bool(text.strip()) and byte_size(text) <= self.input_bytes


def has_batches(provider: str) -> bool:
    """Whether a provider of this name has a batch interface."""
    return provider in _PROTOCOLS


def batch_protocol(provider: str, target: Target) -> BatchProtocol:
    """The batch interface of a provider; raises `KeyError` for one that has none."""
    return _PROTOCOLS[provider](target)


_MOST_BYTES: Final = 16 * 2**20
"""Of an answer that is no file of results: a hundred batches are a fraction of it."""
_PIECE: Final = 2**18
"""Bytes of a file that are handed over at a time: read and stored between two looks at a stop."""


class ClientTransport:
    """Sends calls through a `ServiceClient`, which follows no redirect.

    `renew` gives the headers of another key where the one at hand was refused, if there is one:
    a batch may take longer than its key is good for.
    """

    def __init__(
        self,
        client: ServiceClient,
        asked: Asked,
        renew: Callable[[Callable[[], bool]], Mapping[str, str]] | None = None,
    ) -> None:
        self._client = client
        self._asked = asked
        self._renew = renew
        self._renewed: Mapping[str, str] = {}

    def send(self, call: Call, *, timeout: float, cancelled: Callable[[], bool]) -> Reply:
        """Give the answer, whatever its status."""
        reply = self._exchange(call, timeout, cancelled)
        if self._renew is None or failure_in(reply) is not Failure.KEY_REFUSED:
            return reply
        renewed = self._renew(cancelled)
        if not renewed:
            return reply
        self._renewed = renewed
        return self._exchange(call, timeout, cancelled)

    def _exchange(self, call: Call, timeout: float, cancelled: Callable[[], bool]) -> Reply:
        async def exchange(client: httpx.AsyncClient) -> Reply:
            answer = await self._open(client, call)
            try:
                return await self._whole(answer)
            finally:
                await answer.aclose()

        return self._client.perform(exchange, timeout=timeout, cancelled=cancelled)

    def download(
        self, call: Call, *, timeout: float, cancelled: Callable[[], bool]
    ) -> Iterator[bytes]:
        """Give the body of a success in pieces of 256 KiB, however large it is."""

        async def start(client: httpx.AsyncClient) -> httpx.Response:
            answer = await self._open(client, call)
            if 200 <= answer.status_code < 300:
                return answer
            try:
                raise refusal(await self._whole(answer), self._asked)
            finally:
                await answer.aclose()

        answer = self._client.perform(start, timeout=timeout, cancelled=cancelled)
        body = answer.aiter_bytes()

        async def piece(_client: httpx.AsyncClient) -> bytes:
            return await _next_piece(body)

        async def end(_client: httpx.AsyncClient) -> None:
            await answer.aclose()

        try:
            while found := self._client.perform(piece, timeout=timeout, cancelled=cancelled):
                yield found
        finally:
            # A client that was closed meanwhile has let go of the answer by itself.
            with suppress(ProviderError):
                self._client.perform(end, timeout=timeout)

    async def _open(self, client: httpx.AsyncClient, call: Call) -> httpx.Response:
        headers = {**call.headers, **self._renewed}
        request = client.build_request(
            call.method, call.url, headers=headers, content=call.body or None
        )
        return await client.send(request, stream=True)

    async def _whole(self, answer: httpx.Response) -> Reply:
        data = bytearray()
        async for part in answer.aiter_bytes():
            data += part
            if len(data) > _MOST_BYTES:
                raise too_much(self._asked.address, _MOST_BYTES)
        headers = {name.lower(): value for name, value in answer.headers.items()}
        return Reply(answer.status_code, headers, bytes(data))


async def _next_piece(body: AsyncIterator[bytes]) -> bytes:
    piece = bytearray()
    async for part in body:
        piece += part
        if len(piece) >= _PIECE:
            break
    return bytes(piece)


def open_batches(provider: RemoteProvider, cancelled: Callable[[], bool]) -> BatchService | None:
    """The batch interface of a provider; `None` where none is wanted or the service has none.

    Looks for the key. Raises `ProviderError` where it is missing or cannot be sent, `Cancelled`.
    """
    plan, choice = provider.plan, provider.plan.choice
    if not choice.batch.enabled or not has_batches(plan.service.name):
        return None
    key = provider.keys.current(cancelled)
    asked = provider.asked(key)
    try:
        headers = _key_headers(plan.service, key)
    except ValueError as error:
        words = f"{plan.service.name}: {error}"
        raise ProviderError(words, hint=asked.key_hint, failure=Failure.NO_KEY) from None
    target = Target(
        plan.service,
        plan.address,
        plan.model,
        headers,
        plan.asked_dimensions,
        plan.templates.document,
    )
    return BatchService(
        protocol=batch_protocol(plan.service.name, target),
        transport=ClientTransport(provider.client, asked, _Renewal(provider, key)),
        target=target,
        identity=plan.identity._replace(dimensions=provider.dimensions),
        asked=asked,
        meter=provider.meter,
        input_bytes=plan.input_bytes,
        minimum=choice.batch.minimum,
        timeout=choice.traffic.batch_timeout,
    )


class _Renewal:
    """Looks for another key when the service refuses the one at hand."""

    def __init__(self, provider: RemoteProvider, key: FoundKey) -> None:
        self._provider = provider
        self._key = key

    def __call__(self, cancelled: Callable[[], bool]) -> Mapping[str, str]:
        """The headers of another key; none where there is none that can be sent."""
        try:
            found = self._provider.keys.current(cancelled, refused=self._key)
            if found.value == self._key.value:
                return {}
            self._key = found
            return _key_headers(self._provider.plan.service, found)
        except (ProviderError, ValueError):
            # What the service said of the first key is what is told.
            return {}


def _key_headers(service: Service, key: FoundKey) -> dict[str, str]:
    """The headers that a key goes in; raises `ValueError` for one that cannot be sent."""
    headers = request_headers(service, key.value)
    del headers["content-type"], headers["accept"]
    return headers


@runtime_checkable
class Batching(Protocol):
    """A provider that may have a batch interface."""

    def batches(self, cancelled: Callable[[], bool]) -> BatchService | None:
        """The batch interface; `None` where none is wanted or the service has none.

        May look for a key. Raises `ProviderError`, `Cancelled`.
        """

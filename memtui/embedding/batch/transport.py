"""The calls of a batch interface over the one connection that a provider keeps."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from memtui.embedding.batch.calls import Call
from memtui.embedding.remote.client import ServiceClient
from memtui.embedding.remote.failures import Asked, failure_in, refusal, too_much
from memtui.embedding.remote.replies import Reply
from memtui.errors import ProviderError
from memtui.model import Failure

if TYPE_CHECKING:
    import httpx

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

"""Asking a remote embedding service for the vector of one query, and stopping at any moment."""

from __future__ import annotations

import asyncio
import json
import math
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final

from memtui.embedding.protocols import RETRY_PAUSE, TIMEOUT, Address, Request
from memtui.errors import Cancelled, ProviderError

if TYPE_CHECKING:
    import httpx

LONGEST_PAUSE: Final = 2.0
"""Seconds: where an answer asks for a longer pause there is no second try."""
MAX_BYTES: Final = 8 * 2**20
_LOOK: Final = 0.02
_LET_GO: Final = 0.1


@dataclass(frozen=True, slots=True)
class _Reply:
    status: int
    retry_after: str
    data: bytes


def ask(
    request: Request,
    *,
    stopped: Callable[[], bool],
    key_name: str = "",
    timeout: float = TIMEOUT,
    pause: float = RETRY_PAUSE,
) -> object:
    """Send a request and return its parsed JSON answer.

    Tries a second time on 429 and 5xx. Redirects are not followed, so a key reaches one host
    only; a loopback address is asked without a proxy. `key_name` says where the key came from, for
    the message when it is refused. Raises `Cancelled` within 0.2 s once `stopped()`, and
    `ProviderError` of one line that holds neither keys nor text of the answer. Not to be called
    from a thread that runs an event loop.
    """
    if stopped():
        raise Cancelled
    loop = asyncio.new_event_loop()
    try:
        watched = _watched(_exchange(request, pause), request.address, stopped, timeout)
        reply = loop.run_until_complete(watched)
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        # Unlike asyncio.run this does not wait for a thread that still looks a host name up.
        loop.close()
    if reply.status != 200:
        raise ProviderError(_status_words(reply, request.address, key_name))
    return _parsed(reply.data, request.address)


async def _watched(
    exchange: Any, address: Address, stopped: Callable[[], bool], timeout: float
) -> _Reply:
    task: asyncio.Task[_Reply] = asyncio.ensure_future(exchange)
    deadline = time.monotonic() + timeout
    while not task.done():
        left = deadline - time.monotonic()
        if stopped() or left <= 0:
            task.cancel()
            await asyncio.wait({task}, timeout=_LET_GO)
            if task.done() and not task.cancelled():
                task.exception()
            if left <= 0:
                raise ProviderError(f"no answer from {address.shown} in {timeout:g} s")
            raise Cancelled
        await asyncio.wait({task}, timeout=min(_LOOK, left))
    return task.result()


async def _exchange(request: Request, pause: float) -> _Reply:
    import httpx

    shown = request.address.shown
    try:
        async with _client(request) as client:
            reply = await _post(client, request)
            if reply.status == 429 or reply.status >= 500:
                wait = _pause(reply, pause)
                if wait <= LONGEST_PAUSE:
                    await asyncio.sleep(wait)
                    reply = await _post(client, request)
            return reply
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        # The library's own words may repeat a header, and with it the key.
        raise ProviderError(_error_words(error, shown)) from None
    except (ImportError, OSError, ValueError):
        words = f"cannot ask {shown}: its address, or the proxy or certificate settings here"
        raise ProviderError(f"{words}, cannot be used") from None


def _client(request: Request) -> httpx.AsyncClient:
    import httpx

    local = request.address.is_loopback
    plain = local and request.url.startswith("http:")
    # Loading the certificates of the machine takes longer than a local answer.
    verify = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if plain else True
    return httpx.AsyncClient(
        verify=verify, trust_env=not local, follow_redirects=False, timeout=TIMEOUT
    )


async def _post(client: httpx.AsyncClient, request: Request) -> _Reply:
    body = json.dumps(request.body).encode()
    async with client.stream(
        "POST", request.url, content=body, headers=dict(request.headers)
    ) as answer:
        data = bytearray()
        async for part in answer.aiter_bytes():
            data += part
            if len(data) > MAX_BYTES:
                limit = f"{MAX_BYTES // 2**20} MiB"
                raise ProviderError(f"{request.address.shown} answers with more than {limit}")
        return _Reply(answer.status_code, answer.headers.get("retry-after", ""), bytes(data))


def _pause(reply: _Reply, usual: float) -> float:
    """Seconds to wait, from `Retry-After` as a number or as a date."""
    text = reply.retry_after.strip()
    if not text:
        return usual
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(text).timestamp() - time.time()
        except ValueError:
            return usual
    return max(0.0, seconds) if math.isfinite(seconds) else usual


def _status_words(reply: _Reply, address: Address, key_name: str) -> str:
    said = f"HTTP {reply.status} from {address.shown}"
    status = reply.status
    if status in (401, 403):
        return f"{said}: {key_name} is not accepted" if key_name else f"{said}: it wants a key"
    if 300 <= status < 400:
        return f"{said}: a redirect, which is not followed"
    words = {400: "the request is not accepted", 404: "no such model or path"}.get(status, "")
    if status == 429:
        words = "too many requests"
        if _pause(reply, 0.0) > LONGEST_PAUSE:
            words += f", again in {_pause(reply, 0.0):.0f} s"
    elif status >= 500:
        words = "the service fails"
    return f"{said}: {words}" if words else said


def _error_words(error: Exception, shown: str) -> str:
    import httpx

    causes = list(_causes(error))
    if isinstance(error, httpx.TimeoutException):
        return f"no answer from {shown} in {TIMEOUT:g} s"
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        return f"the host {shown} cannot be found"
    if any(isinstance(cause, ssl.SSLError) for cause in causes):
        return f"no trusted TLS connection to {shown}"
    if any(isinstance(cause, ConnectionRefusedError) for cause in causes):
        return f"connection refused at {shown}"
    if isinstance(error, httpx.ProxyError):
        return f"the proxy does not connect to {shown}"
    if isinstance(error, httpx.ConnectError):
        return f"no connection to {shown}"
    if isinstance(error, httpx.DecodingError):
        return f"{shown} answers with what cannot be decompressed"
    if isinstance(error, httpx.RemoteProtocolError | httpx.NetworkError):
        return f"{shown} cut the connection"
    return f"cannot ask {shown}: {type(error).__name__}"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        waiting += [one.__cause__, one.__context__]
        if isinstance(one, BaseExceptionGroup):
            waiting += one.exceptions


def _parsed(data: bytes, address: Address) -> object:
    try:
        answer: object = json.loads(data)
    except (ValueError, RecursionError):
        html = data.lstrip()[:1] == b"<"
        what = "a web page" if html else "what is not JSON"
        raise ProviderError(f"{address.shown} answers with {what}") from None
    return answer

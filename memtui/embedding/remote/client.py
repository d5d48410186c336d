"""The one connection of a provider to its service, usable from any thread."""

from __future__ import annotations

import asyncio
import errno
import json
import ssl
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future, wait
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from memtui.embedding.protocols import Request
from memtui.embedding.remote.failures import (
    ServiceError,
    broken,
    no_answer,
    too_much,
    unusable,
)
from memtui.embedding.remote.replies import Reply
from memtui.embedding.services import Address
from memtui.errors import Cancelled, ProviderError
from memtui.model import Failure
from memtui.text.sanitize import safe_line

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")

MAX_BYTES: Final = 64 * 2**20
"""Of one answer, decompressed: 100 vectors of 16,384 numbers are half of it."""
_LOOK: Final = 0.02
_LET_GO: Final = 0.1
_LATE: Final = 2.0


class ServiceClient:
    """Keeps the connections to one address open, in a thread of its own that it starts when used.

    Redirects are not followed, so a key reaches one host only; this machine is asked without a
    proxy, every other address with the proxies of the environment.
    """

    def __init__(self, address: Address, *, concurrency: int = 4, ca_file: str = "") -> None:
        self.address = address
        self._ca_file = ca_file
        self._lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(concurrency)
        self._closed = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._client: httpx.AsyncClient | None = None

    def exchange(
        self,
        request: Request,
        *,
        timeout: float,
        cancelled: Callable[[], bool] | None = None,
        is_urgent: bool = False,
    ) -> Reply:
        """Send a request and wait at most `timeout` seconds for the whole answer.

        At most `concurrency` requests are under way; an urgent one does not wait for a place.
        Raises `Cancelled` within 0.1 s once `cancelled()`, `ServiceError` of one line that holds
        neither key nor answer, and `ProviderError` (`closed`) when closed meanwhile. Not to be
        called in a thread that runs an event loop.
        """
        self._check(cancelled)
        if is_urgent:
            return self.perform(
                partial(post, request=request), timeout=timeout, cancelled=cancelled
            )
        while not self._slots.acquire(timeout=_LOOK):
            self._check(cancelled)
        try:
            return self.perform(
                partial(post, request=request), timeout=timeout, cancelled=cancelled
            )
        finally:
            self._slots.release()

    def perform(
        self,
        work: Callable[[httpx.AsyncClient], Coroutine[Any, Any, T]],
        *,
        timeout: float,
        cancelled: Callable[[], bool] | None = None,
    ) -> T:
        """Do something with the HTTP client, in its thread, and wait at most `timeout` seconds.

        Does not wait for a place. Raises what `exchange` raises, and what `work` raises.
        """
        self._check(cancelled)
        future = self._submit(self._perform(work, timeout))
        deadline = time.monotonic() + timeout + _LATE
        try:
            while not wait([future], _LOOK).done:
                self._check(cancelled)
                # The loop itself may be gone or stuck; it ends a request in time by itself.
                if time.monotonic() > deadline:
                    raise no_answer(self.address, timeout)
            return future.result()
        except CancelledError:
            self._check(cancelled)
            raise Cancelled from None
        finally:
            future.cancel()

    def close(self) -> None:
        """End the connections and the thread; what is under way ends with `closed`."""
        self._closed.set()
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is None or thread is None:
            return
        asyncio.run_coroutine_threadsafe(self._end(), loop)
        thread.join(_LET_GO)

    def _check(self, cancelled: Callable[[], bool] | None) -> None:
        if self._closed.is_set():
            words = f"the connection to {self.address.shown} is closed"
            raise ProviderError(words, failure=Failure.CLOSED)
        if cancelled is not None and cancelled():
            raise Cancelled

    def _submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        with self._lock:
            if self._closed.is_set():
                work.close()
                self._check(None)
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=_run, args=(self._loop,), name="memtui-embedding", daemon=True
                )
                self._thread.start()
            return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def _perform(
        self, work: Callable[[httpx.AsyncClient], Coroutine[Any, Any, T]], timeout: float
    ) -> T:
        import httpx

        try:
            if self._client is None:
                self._client = new_client(self.address, self._ca_file)
            async with asyncio.timeout(timeout):
                return await work(self._client)
        except TimeoutError:
            raise no_answer(self.address, timeout) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            # The library's own words may repeat a header, and with it the key.
            raise broken(error, self.address) from None
        except (ImportError, OSError, ValueError):
            raise unusable(self.address) from None

    async def _end(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        if self._client is not None:
            await self._client.aclose()
        asyncio.get_running_loop().stop()


def new_client(address: Address, ca_file: str = "") -> httpx.AsyncClient:
    """Make the HTTP client for an address; `ca_file` is trusted besides the usual certificates.

    Raises `ServiceError` (`bad_setting`) when the certificates cannot be read, and whatever httpx
    raises for proxies of the environment that cannot be used.
    """
    import httpx

    local = address.is_loopback
    return httpx.AsyncClient(
        verify=_trusted(address, ca_file),
        trust_env=not local,
        follow_redirects=False,
        timeout=None,
    )


async def post(client: httpx.AsyncClient, request: Request, limit: int = MAX_BYTES) -> Reply:
    """Send a request and read its answer, of at most `limit` bytes; raises what httpx raises."""
    body = json.dumps(request.body).encode()
    async with client.stream(
        "POST", request.url, content=body, headers=dict(request.headers)
    ) as answer:
        data = bytearray()
        async for part in answer.aiter_bytes():
            data += part
            if len(data) > limit:
                raise too_much(request.address, limit)
        headers = {name.lower(): value for name, value in answer.headers.items()}
        return Reply(answer.status_code, headers, bytes(data))


def _trusted(address: Address, ca_file: str) -> ssl.SSLContext | bool:
    import httpx

    if address.is_loopback and address.url.startswith("http:"):
        # Loading the certificates of the machine takes longer than a local answer.
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if not ca_file:
        return True
    context = httpx.create_ssl_context()
    try:
        path = Path(ca_file).expanduser()
        if path.exists() and not path.is_file():
            # Reading a pipe or a device might never end.
            raise OSError(errno.EINVAL, "not a regular file")
        context.load_verify_locations(cafile=path)
    except (OSError, ssl.SSLError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        words = f"cannot read the certificates in {safe_line(ca_file)}: {reason}"
        raise ServiceError(words, Failure.BAD_SETTING, hint="check embedding.ca_file") from None
    return context


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop until it is stopped; unlike `asyncio.run` this waits for no name look-up."""
    try:
        loop.run_forever()
    finally:
        loop.close()

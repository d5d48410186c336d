"""The one HTTP core of every request to a service: connection, answer, failure.

A failure is one line of our own words, a kind, and what to do. The words of an answer are looked
at to tell what it means, and never shown: they may repeat the key or the text that was sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import math
import re
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from concurrent.futures import CancelledError, wait
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from memtui.embedding.services import Address
from memtui.errors import Cancelled, ProviderError
from memtui.model import Failure
from memtui.text.sanitize import safe_line

if TYPE_CHECKING:
    import httpx

    from memtui.embedding.payloads import Request, WrongAnswer

_LONGEST_LOOK: Final = 64 * 1024
"""Bytes of an answer that is not a success which are looked at."""
_DURATION: Final = re.compile(r"(\d{1,20}(?:\.\d{1,20})?)(ms|s|m|h|d)", re.ASCII)
_SECONDS: Final = MappingProxyType({"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0})


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer: status, headers with names in lower case, and body, decompressed."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    data: bytes = field(default=b"", repr=False)

    @property
    def is_success(self) -> bool:
        """Whether it holds what was asked for."""
        return self.status == 200

    def words(self) -> str:
        """The beginning of the body as text, to tell what went wrong; not for people's eyes."""
        return self.data[:_LONGEST_LOOK].decode("utf-8", "replace")


def pause_asked(reply: Reply, now: Callable[[], float] = time.time) -> float | None:
    """The seconds that an answer asks to wait, `None` where it asks nothing.

    Reads `Retry-After` (a number or a date), `retry-after-ms`, and Gemini's `RetryInfo`. `now`
    gives seconds since 1970.
    """
    milliseconds = _number(reply.headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    text = reply.headers.get("retry-after", "").strip()
    if not text:
        return _retry_delay(reply) if reply.status == 429 else None
    seconds = _number(text)
    if seconds is None:
        try:
            seconds = max(0.0, parsedate_to_datetime(text).timestamp() - now())
        except (ValueError, OverflowError):
            return None
    return seconds


def duration(text: str) -> float | None:
    """Seconds of a text like `6m0s`, `20ms`, `1.5s` or `12`; `None` for another."""
    compact = text.strip().lower()
    parts = _DURATION.findall(compact)
    if parts and "".join(number + unit for number, unit in parts) == compact:
        return sum(float(number) * _SECONDS[unit] for number, unit in parts)
    return _number(compact)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return max(0.0, value) if math.isfinite(value) else None


def _retry_delay(reply: Reply) -> float | None:
    """The `retryDelay` of a google.rpc.RetryInfo among the details of an error."""
    try:
        details = json.loads(reply.data)["error"]["details"]
        delays = (
            duration(detail["retryDelay"])
            for detail in details
            if isinstance(detail, dict) and isinstance(detail.get("retryDelay"), str)
        )
        return next((delay for delay in delays if delay is not None), None)
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        # It is any answer of any server.
        return None


_OVERSIZE: Final = re.compile(
    # The last three lines are what OpenClaw takes for too large a request.
    r"too (?:large|long|many (?:tokens|inputs|texts))|max(?:imum)? (?:input|context|token|allowed)"
    r"|max allowed tokens|context[_ ]length|token limit|at most \d+ requests"
    r"|exceeds? the (?:limit|max|context)|must have less than|reduce the (?:length|number)"
    r"|request_headers_too_large|request header fields too large|max input length is \d"
    r"|other side closed|ECONNRESET|EPIPE|UND_ERR_SOCKET|socket hang up|socket terminated"
    r"|read ECONN|connection (?:reset|aborted)",
    re.IGNORECASE | re.ASCII,
)
_INPUT_OVERSIZE: Final = re.compile(
    r"(?:input|inputs|request) (?:is |are )?too (?:large|long)|increase the physical batch size",
    re.IGNORECASE,
)
_WRONG_KEY: Final = re.compile(r"API_KEY_INVALID|api key (?:not|is not|expired)", re.IGNORECASE)
_NO_MODEL: Final = re.compile(
    r"(?:invalid|unknown|no such) model|model_not_found"
    r"|\bmodels?\b.{0,120}(?:not (?:found|exist|supported|available)|does not exist)",
    re.IGNORECASE,
)
_NO_QUOTA: Final = re.compile(r"insufficient_quota|billing|credit", re.IGNORECASE)

_HINTS: Final = {
    Failure.FORBIDDEN: "the key may lack the right to this model: see the service's account page",
    Failure.BAD_REQUEST: "check embedding.model and embedding.dimensions",
    Failure.TOO_LARGE: "use a model that takes longer texts",
    Failure.RATE_LIMITED: "embedding.requests_per_minute and tokens_per_minute slow it down",
    Failure.SERVICE_DOWN: "try again later; a fallback answers meanwhile where one is set",
    Failure.REDIRECTED: "set embedding.base_url to the address it has now",
    Failure.BAD_ANSWER: "check embedding.base_url: another kind of server may answer there",
    Failure.DIMENSIONS_DIFFER: "check embedding.dimensions and embedding.model",
    Failure.TIMEOUT: "embedding.query_timeout and batch_timeout set how long it may take",
    Failure.UNREACHABLE: "check the network, the proxy and embedding.base_url",
    Failure.CUT: "try again; a proxy on the way may limit what passes",
    Failure.BAD_SETTING: "check embedding.base_url, embedding.ca_file and the proxy variables",
}


class ServiceError(ProviderError):
    """A failure at a service; `retry_after` in seconds where it asks for a pause.

    `status` is that of the answer, 0 where none came.
    """

    def __init__(
        self,
        message: str,
        failure: Failure,
        *,
        hint: str | None = None,
        status: int = 0,
        retry_after: float | None = None,
        is_final: bool = False,
    ) -> None:
        super().__init__(
            message, hint=_HINTS.get(failure, "") if hint is None else hint, failure=failure
        )
        self.kind = failure
        self.status = status
        self.retry_after = retry_after
        self.is_final = is_final
        """Whether waiting does not help although failures of this kind pass."""

    @property
    def is_passing(self) -> bool:
        """Whether the same request may succeed a little later."""
        return self.kind.is_passing and not self.is_final

    @property
    def is_splittable(self) -> bool:
        """Whether fewer texts may succeed where these failed."""
        return self.kind in (Failure.TOO_LARGE, Failure.CUT)


@dataclass(frozen=True, slots=True)
class RequestContext:
    """Who was asked, with what, for the words of a failure; holds no secret."""

    address: Address
    key_name: str = ""
    """What a message calls the key, like `the key of OPENAI_API_KEY`; empty when none went."""
    key_hint: str = ""
    """What to do when a key is missing or refused."""
    model_hint: str = "check embedding.model and embedding.base_url"
    """What to do when there is no such model."""


def refusal(reply: Reply, context: RequestContext) -> ServiceError:
    """The failure that an answer other than a success is."""
    failure, status = failure_in(reply), reply.status
    place = f"HTTP {status} from {context.address.shown}"
    if failure is Failure.RATE_LIMITED and _NO_QUOTA.search(reply.words()):
        hint = "see plan and billing on the service's account page"
        words = f"{place}: the account's quota is used up"
        return ServiceError(words, failure, hint=hint, status=status, is_final=True)
    pause = pause_asked(reply) if failure.is_passing else None
    words = _WORDS.get(failure, "the request is not accepted")
    if failure is Failure.KEY_REFUSED or status in (401, 403):
        words = f"{context.key_name} is not accepted" if context.key_name else "it wants a key"
    elif pause is not None and pause > LONG_PAUSE:
        words += f", again in {pause:.0f} s"
    hints = {Failure.KEY_REFUSED: context.key_hint, Failure.NO_MODEL: context.model_hint}
    return ServiceError(
        f"{place}: {words}", failure, hint=hints.get(failure), status=status, retry_after=pause
    )


def failure_in(reply: Reply) -> Failure:
    """The kind of failure that an answer tells, by its status and the words in it."""
    status = reply.status
    if status in (400, 422):
        words = reply.words()
        if _OVERSIZE.search(words):
            return Failure.TOO_LARGE
        if _WRONG_KEY.search(words):
            return Failure.KEY_REFUSED
        if _NO_MODEL.search(words):
            return Failure.NO_MODEL
    # llama-server says so with 500, and OpenAI with 429 where a request alone is above the limit.
    if status in (429, 500) and _INPUT_OVERSIZE.search(reply.words()):
        return Failure.TOO_LARGE
    if 300 <= status < 400:
        return Failure.REDIRECTED
    if status >= 500:
        return Failure.SERVICE_DOWN
    if status < 300:
        return Failure.BAD_ANSWER
    return _BY_STATUS.get(status, Failure.BAD_REQUEST)


_BY_STATUS: Final = {
    401: Failure.KEY_REFUSED,
    403: Failure.FORBIDDEN,
    404: Failure.NO_MODEL,
    408: Failure.TIMEOUT,
    413: Failure.TOO_LARGE,
    429: Failure.RATE_LIMITED,
    431: Failure.TOO_LARGE,
}


_WORDS: Final = {
    Failure.TOO_LARGE: "the text is too long for it",
    Failure.NO_MODEL: "no such model or path",
    Failure.RATE_LIMITED: "too many requests",
    Failure.SERVICE_DOWN: "the service fails",
    Failure.REDIRECTED: "a redirect, which is not followed",
    Failure.TIMEOUT: "it waited too long",
    Failure.BAD_ANSWER: "not an answer with vectors",
}

LONG_PAUSE: Final = 2.0
"""Seconds: a pause that is longer is told."""


def parsed(reply: Reply, context: RequestContext) -> object:
    """The JSON of an answer; raises `ServiceError` where it is none."""
    try:
        answer: object = json.loads(reply.data)
    except (ValueError, RecursionError):
        what = "a web page" if reply.data.lstrip()[:1] == b"<" else "what is not JSON"
        words = f"{context.address.shown} answers with {what}"
        raise ServiceError(words, Failure.BAD_ANSWER) from None
    return answer


def wrong_answer(error: WrongAnswer, context: RequestContext) -> ServiceError:
    """The failure of an answer whose vectors cannot be used."""
    return ServiceError(f"{context.address.shown}: {error}", error.failure)


def no_answer(address: Address, seconds: float) -> ServiceError:
    """The failure of an answer that did not come in time."""
    return ServiceError(f"no answer from {address.shown} in {seconds:g} s", Failure.TIMEOUT)


def broken(error: Exception, address: Address) -> ServiceError:
    """The failure that an exception of the HTTP library is, none of whose words are taken."""
    import httpx

    shown, causes = address.shown, list(_causes(error))
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        return ServiceError(f"the host {shown} cannot be found", Failure.UNREACHABLE)
    if any(isinstance(cause, ssl.SSLError) for cause in causes):
        trust = "embedding.ca_file names certificates to trust besides the usual"
        words = f"no trusted TLS connection to {shown}"
        return ServiceError(words, Failure.UNREACHABLE, hint=trust)
    if any(isinstance(cause, ConnectionRefusedError) for cause in causes):
        running = "is the server running?" if address.is_loopback else None
        words = f"connection refused at {shown}"
        return ServiceError(words, Failure.UNREACHABLE, hint=running)
    if isinstance(error, httpx.ProxyError):
        return ServiceError(f"the proxy does not connect to {shown}", Failure.UNREACHABLE)
    if isinstance(error, httpx.ConnectError):
        return ServiceError(f"no connection to {shown}", Failure.UNREACHABLE)
    if isinstance(error, httpx.DecodingError):
        words = f"{shown} answers with what cannot be decompressed"
        return ServiceError(words, Failure.BAD_ANSWER)
    if isinstance(error, httpx.RemoteProtocolError | httpx.NetworkError):
        return ServiceError(f"{shown} cut the connection", Failure.CUT)
    return ServiceError(f"cannot ask {shown}: {type(error).__name__}", Failure.BAD_SETTING)


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


T = TypeVar("T")

MAX_BYTES: Final = 64 * 2**20
"""Of one answer, decompressed: 100 vectors of 16,384 numbers are half of it."""
_LOOK: Final = 0.02
_LET_GO: Final = 0.1
_PIECE: Final = 2**18
"""Bytes of a file that are handed over at a time: read and stored between two looks at a stop."""


class ServiceClient:
    """Keeps the connections to one address open, in a thread of its own that it starts when used.

    Redirects are not followed, so a key reaches one host only; this machine is asked without a
    proxy, every other address with the proxies of the environment.
    """

    def __init__(self, address: Address, ca_file: str = "") -> None:
        self.address = address
        self._ca_file = ca_file
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._client: httpx.AsyncClient | None = None

    def run(self, work: Coroutine[Any, Any, T], cancelled: Callable[[], bool] | None = None) -> T:
        """Run a coroutine in the client's thread and wait for its result.

        Raises `Cancelled` within 0.1 s once `cancelled()`, and `ProviderError` (`closed`) when
        closed meanwhile. Not to be called in a thread that runs an event loop.
        """
        try:
            self._check(cancelled)
            loop = self._running_loop()
        except BaseException:
            work.close()
            raise
        future = asyncio.run_coroutine_threadsafe(work, loop)
        try:
            while not wait([future], _LOOK).done:
                self._check(cancelled)
            return future.result()
        except CancelledError:
            self._check(cancelled)
            raise Cancelled from None
        finally:
            future.cancel()

    async def exchange(self, request: Request, timeout: float) -> Reply:
        """Send a request and wait at most `timeout` seconds for the whole answer.

        Raises `ServiceError` of one line that holds neither key nor answer.
        """
        async with self._guarded(timeout) as client:
            return await self._whole(await _open(client, request))

    def download(
        self,
        request: Request,
        refused: Callable[[Reply], ServiceError],
        *,
        timeout: float,
        cancelled: Callable[[], bool],
    ) -> Iterator[bytes]:
        """Give the body of a success in pieces of 256 KiB, however large it is.

        `timeout` is the longest pause in it. Raises `refused` of any other answer, and what `run`
        and `exchange` raise, also for a body that ends before its end.
        """

        async def start() -> httpx.Response:
            async with self._guarded(timeout) as client:
                answer = await _open(client, request)
                if not 200 <= answer.status_code < 300:
                    raise refused(await self._whole(answer))
                return answer

        async def next_piece() -> bytes:
            async with self._guarded(timeout):
                return await anext(body, b"")

        async def end() -> None:
            async with self._guarded(timeout):
                await answer.aclose()

        answer = self.run(start(), cancelled)
        body = answer.aiter_bytes(_PIECE)
        try:
            while piece := self.run(next_piece(), cancelled):
                yield piece
        finally:
            # A client that was closed meanwhile has let go of the answer by itself.
            with contextlib.suppress(ProviderError):
                self.run(end())

    def close(self) -> None:
        """End the connections and the thread; what is under way ends with `closed`."""
        self._closed.set()
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is not None and thread is not None:
            asyncio.run_coroutine_threadsafe(self._end(), loop)
            thread.join(_LET_GO)

    def _check(self, cancelled: Callable[[], bool] | None) -> None:
        if self._closed.is_set():
            words = f"the connection to {self.address.shown} is closed"
            raise ProviderError(words, failure=Failure.CLOSED)
        if cancelled is not None and cancelled():
            raise Cancelled

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            self._check(None)
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=_run, args=(self._loop,), name="memtui-embedding", daemon=True
                )
                self._thread.start()
            return self._loop

    @contextlib.asynccontextmanager
    async def _guarded(self, timeout: float) -> AsyncIterator[httpx.AsyncClient]:
        """Give the HTTP client; whatever the library raises in the block is a `ServiceError`."""
        import httpx

        try:
            if self._client is None:
                self._client = self._new_client()
            async with asyncio.timeout(timeout):
                yield self._client
        except TimeoutError:
            raise no_answer(self.address, timeout) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            # The library's own words may repeat a header, and with it the key.
            raise broken(error, self.address) from None
        except (ImportError, OSError, ValueError):
            shown = self.address.shown
            words = f"cannot ask {shown}: its address, or the proxy or certificate settings here"
            raise ServiceError(f"{words}, cannot be used", Failure.BAD_SETTING) from None

    def _new_client(self) -> httpx.AsyncClient:
        import httpx

        return httpx.AsyncClient(
            verify=_trusted(self.address, self._ca_file),
            trust_env=not self.address.is_loopback,
            follow_redirects=False,
            timeout=None,
        )

    async def _whole(self, answer: httpx.Response) -> Reply:
        data = bytearray()
        async with contextlib.aclosing(answer):
            async for part in answer.aiter_bytes():
                data += part
                if len(data) > MAX_BYTES:
                    words = f"{self.address.shown} answers with more than {MAX_BYTES // 2**20} MiB"
                    raise ServiceError(words, Failure.BAD_ANSWER)
        headers = {name.lower(): value for name, value in answer.headers.items()}
        return Reply(answer.status_code, headers, bytes(data))

    async def _end(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        if self._client is not None:
            await self._client.aclose()
        asyncio.get_running_loop().stop()


async def _open(client: httpx.AsyncClient, request: Request) -> httpx.Response:
    built = client.build_request(
        request.method, request.url, headers=request.headers, content=request.body or None
    )
    return await client.send(built, stream=True)


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

"""The one HTTP core of every request to a service: connection, pace, retry, failure.

A failure is one line of our own words, a kind, and what to do. The words of an answer are looked
at to tell what it means, and never shown: they may repeat the key or the text that was sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import random
import re
import ssl
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from concurrent.futures import wait
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
from msgspec import Struct

from memtui.data import read_table
from memtui.embedding.services import Address, Request
from memtui.errors import IsCancelled, ProviderError, never, stop_if, undone_on_error
from memtui.model import Failure
from memtui.settings.containment import expand_path
from memtui.settings.files import cause_of, read_bytes
from memtui.text.sanitize import safe_line

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")

LONG_PAUSE: Final = 2.0
"""Seconds: a pause that is longer is told."""
_LONGEST_LOOK: Final = 64 * 1024
"""Bytes of an answer that is not a success which are looked at."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer: status, headers with names in lower case, and body, decompressed."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    data: bytes = field(default=b"", repr=False)


_DURATION: Final = re.compile(r"(\d{1,20}(?:\.\d{1,20})?)(ms|s|m|h|d)", re.ASCII)
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def duration(text: str) -> float | None:
    """Return the seconds of a text like `6m0s`, `20ms`, `1.5s` or `12`; `None` for another."""
    compact = text.strip().lower()
    parts = _DURATION.findall(compact)
    if parts and "".join(number + unit for number, unit in parts) == compact:
        return sum(float(number) * _SECONDS[unit] for number, unit in parts)
    try:
        seconds = float(compact)
    except ValueError:
        return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def pause_asked(reply: Reply, now: Callable[[], float] = time.time) -> float | None:
    """Return the seconds that an answer asks to wait, `None` where it asks nothing.

    Reads `Retry-After` (a number or a date), `retry-after-ms`, and the `retryDelay` of Gemini's
    google.rpc.RetryInfo. `now` gives seconds since 1970.
    """
    milliseconds = duration(reply.headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    try:
        if text := reply.headers.get("retry-after", "").strip():
            if (seconds := duration(text)) is not None:
                return seconds
            return max(0.0, parsedate_to_datetime(text).timestamp() - now())
        if reply.status != 429:
            return None
        details = json.loads(reply.data)["error"]["details"]
        delays = [duration(detail["retryDelay"]) for detail in details if "retryDelay" in detail]
        return next((delay for delay in delays if delay is not None), None)
    except (ValueError, OverflowError, RecursionError, LookupError, TypeError, AttributeError):
        # It is any answer of any server.
        return None


class _FailureRow(Struct, frozen=True):
    """One way to fail, and its words: a row of `data/service_failures.toml`."""

    failure: Failure
    status: tuple[int, ...] = ()
    pattern: str = ""
    exceptions: tuple[str, ...] = ()
    words: str = ""
    hint: str | None = None
    local_hint: str | None = None
    is_final: bool = False


_ROWS: Final = {
    part: msgspec.convert(rows, list[_FailureRow])
    for part, rows in read_table("service_failures.toml").items()
}
_BY_FAILURE: Final = {row.failure: row for row in _ROWS["failure"]}


class ServiceError(ProviderError):
    """A failure at a service; `retry_after` in seconds where it asks for a pause.

    `status` is that of the answer, 0 without one; with an infinite `retry_after` no waiting helps.
    """

    def __init__(
        self,
        message: str,
        failure: Failure,
        *,
        hint: str | None = None,
        status: int = 0,
        retry_after: float | None = None,
    ) -> None:
        if hint is None:
            hint = _BY_FAILURE[failure].hint if failure in _BY_FAILURE else None
        super().__init__(message, hint=hint or "", failure=failure)
        self.status = status
        self.retry_after = retry_after
        self.is_passing = failure.is_passing and retry_after != math.inf
        """True if the same request may succeed a little later."""
        self.is_splittable = failure in (Failure.TOO_LARGE, Failure.CUT)
        """True if fewer texts may succeed where these failed."""


class RequestContext(Struct, frozen=True):
    """The service and the request, for the words of a failure; holds no secret."""

    address: Address
    key_name: str = ""
    """The words for the key, like `the key of OPENAI_API_KEY`; empty when none was sent."""
    key_hint: str = ""
    """The remedy when a key is missing or refused."""
    model_hint: str = ""
    """The remedy when there is no such model, if it is not that of every service."""


def refusal(reply: Reply, context: RequestContext) -> ServiceError:
    """Return the failure that an answer other than a success is, by its status and words."""
    status, body = reply.status, reply.data[:_LONGEST_LOOK].decode("utf-8", "replace")
    rows = (
        row
        for row in [*_ROWS["said"], *_ROWS["failure"]]
        if status in row.status and re.search(row.pattern, body, re.IGNORECASE | re.ASCII)
    )
    others = {3: Failure.REDIRECTED, 5: Failure.SERVICE_DOWN}
    row = next(rows, _BY_FAILURE[others.get(status // 100, Failure.BAD_REQUEST)])
    failure, words, hint = row.failure, row.words or _BY_FAILURE[row.failure].words, row.hint
    pause = math.inf if row.is_final else pause_asked(reply) if failure.is_passing else None
    if failure is Failure.KEY_REFUSED or status == 403:
        words = f"{context.key_name} is not accepted" if context.key_name else "it wants a key"
    elif pause is not None and LONG_PAUSE < pause < math.inf:
        words += f", again in {pause:.0f} s"
    if failure is Failure.KEY_REFUSED:
        hint = context.key_hint
    elif failure is Failure.NO_MODEL:
        hint = context.model_hint or None
    words = f"HTTP {status} from {context.address.shown}: {words}"
    return ServiceError(words, failure, hint=hint, status=status, retry_after=pause)


def json_in(reply: Reply, context: RequestContext) -> object:
    """Return the JSON of a success; raises `ServiceError` of any other answer."""
    if not 200 <= reply.status < 300:
        raise refusal(reply, context)
    try:
        answer: object = json.loads(reply.data)
    except (ValueError, RecursionError):
        content = "a web page" if reply.data.lstrip()[:1] == b"<" else "what is not JSON"
        words = f"{context.address.shown} answers with {content}"
        raise ServiceError(words, Failure.BAD_ANSWER) from None
    return answer


def no_answer(address: Address, seconds: float) -> ServiceError:
    """Return the failure of an answer that did not come in time."""
    return ServiceError(f"no answer from {address.shown} in {seconds:g} s", Failure.TIMEOUT)


def broken(error: Exception, address: Address) -> ServiceError:
    """Return the failure that an exception of the HTTP library is; takes none of its words."""
    causes: list[BaseException] = [error]
    for cause in causes:
        grouped = cause.exceptions if isinstance(cause, BaseExceptionGroup) else ()
        led_to_it = (cause.__cause__, cause.__context__, *grouped)
        causes += [one for one in led_to_it if one is not None and one not in causes]
    names = {kind.__name__ for cause in causes for kind in type(cause).__mro__}
    row = next(row for row in _ROWS["raised"] if not names.isdisjoint(row.exceptions))
    hint = row.local_hint if address.is_loopback and row.local_hint else row.hint
    words = row.words.format(address.shown, type(error).__name__)
    return ServiceError(words, row.failure, hint=hint)


MAX_BYTES: Final = 64 * 2**20
"""Of one answer, decompressed: 100 vectors of 16,384 numbers are half of it."""
_PIECE: Final = 2**18
"""Bytes of a file that are handed over at a time: read and stored between two looks at a stop."""


@cache
def _event_loop() -> asyncio.AbstractEventLoop:
    """Start the event loop of all clients, in a thread that the end of the program stops."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="memtui-embedding", daemon=True).start()
    return loop


class ServiceClient:
    """Keeps the connections to one address open, in the thread of the event loop.

    Redirects are not followed, so a key reaches one host only; this machine is asked without a
    proxy, every other address with the proxies of the environment.
    """

    def __init__(self, address: Address, ca_file: str = "") -> None:
        self.address = address
        self._ca_file = ca_file
        self._closed = False
        self._client: httpx.AsyncClient | None = None

    def run(self, work: Coroutine[Any, Any, T], cancelled: IsCancelled = never) -> T:
        """Run a coroutine in the thread of the event loop and wait for its result.

        Raises `Cancelled` within 0.1 s once `cancelled()`, and `ProviderError` (`closed`) when
        closed meanwhile. Not to be called in a thread that runs an event loop.
        """
        with undone_on_error(work.close):
            self._check(cancelled)
        future = asyncio.run_coroutine_threadsafe(work, _event_loop())
        try:
            while not wait([future], 0.02).done:
                self._check(cancelled)
            return future.result()
        except ServiceError:
            # What breaks because it is closed was not the fault of the service.
            self._check(cancelled)
            raise
        finally:
            future.cancel()

    async def exchange(self, request: Request, timeout: float) -> Reply:
        """Wait for the whole answer; raises `ServiceError`, without key or answer in its words."""
        try:
            async with asyncio.timeout(timeout), self._answer(request) as answer:
                return await self._whole(answer)
        except TimeoutError:
            raise no_answer(self.address, timeout) from None

    def download(
        self, request: Request, context: RequestContext, *, timeout: float, cancelled: IsCancelled
    ) -> Iterator[bytes]:
        """Give the body of a success in pieces of 256 KiB, however large it is.

        `timeout` is the longest pause in it. Raises `ServiceError` of any other answer, and what
        `run` and `exchange` raise, also for a body that ends before its end.
        """

        async def pieces() -> AsyncIterator[bytes]:
            async with self._answer(request, timeout) as answer:
                if not answer.is_success:
                    raise refusal(await self._whole(answer), context)
                async for piece in answer.aiter_bytes(_PIECE):
                    yield piece

        async def next_piece() -> bytes:
            return await anext(body, b"")

        body = pieces()  # where it is left before its end, the event loop closes it
        while piece := self.run(next_piece(), cancelled):
            yield piece

    def close(self) -> None:
        """End the connections; what is under way ends with `closed`."""
        self._closed = True
        if self._client is not None:
            asyncio.run_coroutine_threadsafe(self._client.aclose(), _event_loop())

    def _check(self, cancelled: IsCancelled) -> None:
        if self._closed:
            words = f"the connection to {self.address.shown} is closed"
            raise ProviderError(words, failure=Failure.CLOSED)
        stop_if(cancelled)

    @contextlib.asynccontextmanager
    async def _answer(
        self, request: Request, timeout: float | None = None
    ) -> AsyncIterator[httpx.Response]:
        """Give an answer whose body is still to be read; what goes wrong is a `ServiceError`."""
        import httpx

        try:
            self._check(never)
            if self._client is None:
                verify: ssl.SSLContext | bool = True
                if self.address.is_loopback and self.address.url.startswith("http:"):
                    # Loading the certificates of the machine takes longer than a local answer.
                    verify = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                elif self._ca_file:
                    verify = trust(self._ca_file)
                self._client = httpx.AsyncClient(
                    verify=verify, trust_env=not self.address.is_loopback, follow_redirects=False
                )
            async with self._client.stream(
                request.method,
                request.url,
                headers=request.headers,
                content=request.body or None,
                timeout=timeout,
            ) as answer:
                yield answer
        except httpx.TimeoutException:
            raise no_answer(self.address, timeout or 0.0) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            # The library's own words may repeat a header, and with it the key.
            raise broken(error, self.address) from None
        except (ImportError, OSError, ValueError):
            shown = self.address.shown
            words = f"cannot ask {shown}: its address, or the proxy or certificate settings here"
            raise ServiceError(f"{words}, cannot be used", Failure.BAD_SETTING) from None

    async def _whole(self, answer: httpx.Response) -> Reply:
        data = bytearray()
        async for part in answer.aiter_bytes():
            data += part
            if len(data) > MAX_BYTES:
                words = f"{self.address.shown} answers with more than {MAX_BYTES // 2**20} MiB"
                raise ServiceError(words, Failure.BAD_ANSWER)
        return Reply(answer.status_code, dict(answer.headers), bytes(data))


def trust(ca_file: str) -> ssl.SSLContext:
    """Return a context that trusts the certificates of a file, too; raises `ServiceError`."""
    import httpx

    context = httpx.create_ssl_context()
    try:
        path = Path(expand_path(ca_file))
        # OpenSSL reads the file: reading a pipe or a device might never end, and is refused here.
        # The certificates of all authorities are a fraction of this.
        read_bytes(path, 16 * 2**20)
        context.load_verify_locations(cafile=path)
        return context
    except ssl.SSLError:
        reason = "it holds no certificate in PEM form"
    except (OSError, RuntimeError, ValueError) as error:
        reason = cause_of(error)
    words = f"cannot read the certificates in {safe_line(ca_file)}: {reason}"
    raise ServiceError(words, Failure.BAD_SETTING, hint="embedding.ca_file names a PEM file")


WINDOW: Final = 60.0
"""Seconds in which the limits of a service count."""

PASSING: Final = (3, 0.5, 8.0)
"""For a service that fails or a connection that breaks: the most attempts, and in seconds the first
pause, which doubles each time, and the longest."""
LIMITED: Final = (5, 5.0, 60.0)
"""For a service that says too much is asked of it (OPENCLAW.md, section 10)."""
ONCE_MORE: Final = (2, 0.5, LONG_PAUSE)
"""For a query about another program's index, which takes no pause that would be told."""


@dataclass(eq=False)
class Pacer:
    """Lets requests go at the pace of a service, and tries again what may succeed later.

    No window of 60 s holds more than the limits; a request that alone holds more tokens goes when
    the window is empty. A limit of 0 is learned from answers: OpenAI (`x-ratelimit-limit-requests`,
    `-tokens`, `-remaining-*`, `-reset-*`) and Mistral (`x-ratelimit-limit-req-minute`,
    `-tokens-minute`, `-remaining-*`) tell theirs; Gemini and Voyage only refuse, with or without a
    pause that they ask for. `tries` are how often, and after which pauses, a failure is tried again
    that passes and one that says that too much is asked. For one thread. `clock` gives seconds.
    """

    requests_per_minute: int = 0
    tokens_per_minute: int = 0
    tries: tuple[tuple[int, float, float], tuple[int, float, float]] = (PASSING, LIMITED)
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    chance: Callable[[], float] = random.random

    def __post_init__(self) -> None:
        self._configured = (self.requests_per_minute, self.tokens_per_minute)
        self._limits = [*self._configured]
        self._sent: deque[tuple[float, tuple[int, int]]] = deque()
        """Times and sizes of the requests of the last 60 s."""
        self._paused_until = float("-inf")

    @property
    def most_tokens(self) -> int:
        """The tokens that may go in a minute; 0 while that is not known."""
        return self._limits[1]

    def take(self, tokens: int) -> float:
        """Take the right to send a request now, which gives 0, or return the seconds to wait."""
        now = self.clock()
        while self._sent and now >= self._sent[0][0] + WINDOW:
            self._sent.popleft()
        wait = self._paused_until - now
        for kind, amount in enumerate((1, tokens)):
            if self._limits[kind] <= 0:
                continue
            over = sum(went[kind] for _, went in self._sent) + amount - self._limits[kind]
            for at, went in self._sent:
                if over <= 0:
                    break
                over -= went[kind]
                wait = max(wait, at + WINDOW - now)
        if wait > 0:
            return max(wait, 0.001)
        self._sent.append((now, (1, tokens)))
        return 0.0

    def settle(self, estimated: int, counted: int) -> None:
        """Count the tokens of a request as the service does, where more were used than taken."""
        if counted > estimated:
            self._sent.append((self.clock(), (0, counted - estimated)))

    def hold(self, seconds: float) -> None:
        """Let no request go for so long, because the service asks for it."""
        self._paused_until = max(self._paused_until, self.clock() + seconds)

    def learn(self, headers: Mapping[str, str]) -> None:
        """Take over what the headers of an answer (names in lower case) say about limits."""
        for kind, names in enumerate((("requests", "req-minute"), ("tokens", "tokens-minute"))):
            values = [
                [headers.get(f"x-ratelimit-{quantity}-{name}", "").strip() for name in names]
                for quantity in ("limit", "remaining", "reset")
            ]
            limits, left = ([int(text) for text in row if text.isdecimal()] for row in values[:2])
            if limits and limits[0] and not self._configured[kind]:
                self._limits[kind] = limits[0]
            if left and left[0] == 0:
                resets = [seconds for text in values[2] if (seconds := duration(text)) is not None]
                # A limit of a whole day resets tomorrow; whether to wait for that is not ours.
                self.hold(min(resets[0] if resets else 0.0, WINDOW))

    async def send(
        self,
        attempt: Callable[[float], Awaitable[T]],
        timeout: float,
        *,
        tokens: int = 0,
        is_awaited: bool = False,
    ) -> T:
        """Run `attempt`, which gets the seconds it may take, until it gives something.

        `tokens` are what it is expected to use. Where somebody waits for it, all tries together
        have the `timeout` of one, and what would pause for more than 8 s fails at once. Raises the
        `ServiceError` of the last attempt.
        """
        end = self.clock() + (timeout if is_awaited else math.inf)
        # In sum for its turn and between its tries (OPENCLAW.md, section 10).
        may_wait, tries = 8.0 if is_awaited else math.inf, 0
        while True:
            while (pause := self.take(tokens)) > 0:
                if pause > may_wait:
                    words = f"the limit of requests or tokens a minute is reached for {pause:.0f} s"
                    raise ServiceError(words, Failure.RATE_LIMITED, retry_after=math.inf)
                may_wait -= pause
                await self.sleep(pause)
            tries += 1
            try:
                return await attempt(max(0.001, min(timeout, end - self.clock())))
            except ServiceError as error:
                pause = self._pause_after(error, tries)
                if pause > may_wait or pause >= end - self.clock():
                    raise
            may_wait -= pause
            await self.sleep(pause)

    def _pause_after(self, error: ServiceError, tries: int) -> float:
        """Return the seconds to wait after a failure; infinite when it is enough."""
        retry_after = error.retry_after
        is_limited = error.failure is Failure.RATE_LIMITED or retry_after is not None
        attempts, first, longest = self.tries[is_limited]
        if not error.is_passing or tries >= attempts or (retry_after or 0.0) > longest:
            return math.inf
        pause = first * 2 ** (tries - 1) if retry_after is None else retry_after
        if retry_after is not None:
            self.hold(retry_after)
        # Chance adds a fifth at most, so that not everybody comes back at once.
        return min(longest, pause * (1 + 0.2 * self.chance()))

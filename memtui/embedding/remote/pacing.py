"""How fast a service may be asked, and when a failed request is tried again.

OpenAI (`x-ratelimit-limit-requests`, `-tokens`, `-remaining-*`, `-reset-*`) and Mistral
(`x-ratelimit-limit-req-minute`, `-tokens-minute`, `-remaining-*`) tell their limits with every
answer; Gemini and Voyage only refuse, with or without a pause that they ask for.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from memtui.embedding.remote.http import ServiceError, duration
from memtui.model import Failure

Result = TypeVar("Result")

WINDOW: Final = 60.0
"""Seconds in which the limits count."""
_SOONEST: Final = 0.001
_REQUESTS: Final = ("requests", "req-minute")
_TOKENS: Final = ("tokens", "tokens-minute")


class Pacer:
    """Lets requests go so that no window of 60 s holds more than the limits; for one thread.

    A request that alone holds more tokens than the limit goes when the window is empty. A limit
    of 0 is learned from answers. `clock` gives seconds.
    """

    def __init__(
        self,
        requests_per_minute: int = 0,
        tokens_per_minute: int = 0,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._requests = _Window(requests_per_minute)
        self._tokens = _Window(tokens_per_minute)
        self._paused_until = float("-inf")

    @property
    def most_tokens(self) -> int:
        """The tokens that may go in a minute; 0 while that is not known."""
        return self._tokens.limit

    def take(self, tokens: int) -> float:
        """Take the right to send a request now, which gives 0, or tell the seconds to wait."""
        now = self._clock()
        wait = max(
            self._paused_until - now, self._requests.wait(1, now), self._tokens.wait(tokens, now)
        )
        if wait > 0:
            return max(wait, _SOONEST)
        self._requests.add(1, now)
        self._tokens.add(tokens, now)
        return 0.0

    def settle(self, estimated: int, counted: int) -> None:
        """Count the tokens of a request as the service does, where more were used than taken."""
        if counted > estimated:
            self._tokens.add(counted - estimated, self._clock())

    def hold(self, seconds: float) -> None:
        """Let no request go for so long, because the service asks for it."""
        self._paused_until = max(self._paused_until, self._clock() + seconds)

    def learn(self, headers: Mapping[str, str]) -> None:
        """Take over what the headers of an answer (names in lower case) say about limits."""
        for window, names in ((self._requests, _REQUESTS), (self._tokens, _TOKENS)):
            limit = _count_in(headers, "limit", names)
            if limit and not window.is_configured:
                window.limit = limit
            if _count_in(headers, "remaining", names) == 0:
                resets = (duration(headers.get(f"x-ratelimit-reset-{n}", "")) for n in names)
                reset = next((seconds for seconds in resets if seconds is not None), 0.0)
                # A limit of a whole day resets tomorrow; whether to wait for that is not ours.
                self.hold(min(reset, WINDOW))


class _Window:
    """What went in the last 60 s."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.is_configured = limit > 0
        self._went: deque[tuple[float, int]] = deque()
        self._sum = 0

    def add(self, amount: int, now: float) -> None:
        self._forget(now)
        self._went.append((now, amount))
        self._sum += amount

    def wait(self, amount: int, now: float) -> float:
        """Seconds until `amount` more fits."""
        self._forget(now)
        if self.limit <= 0:
            return 0.0
        over = self._sum + amount - self.limit
        if over <= 0 or not self._went:
            return 0.0
        for at, went in self._went:
            over -= went
            if over <= 0:
                return at + WINDOW - now
        return self._went[-1][0] + WINDOW - now

    def _forget(self, now: float) -> None:
        # The same sum as in `wait`: a difference may round to the other side.
        while self._went and now >= self._went[0][0] + WINDOW:
            self._sum -= self._went.popleft()[1]


def _count_in(headers: Mapping[str, str], kind: str, names: tuple[str, ...]) -> int | None:
    for name in names:
        text = headers.get(f"x-ratelimit-{kind}-{name}", "").strip()
        if text.isascii() and text.isdigit():
            return int(text)
    return None


# --- further tries -------------------------------------------------------------------------------

JITTER: Final = 0.2
"""Share of a pause that chance adds at most."""
LONGEST_WAIT: Final = 8.0
"""Seconds that a query waits for its turn and between its tries, in sum (OPENCLAW.md, 10)."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """How often something is tried, and the seconds between."""

    attempts: int = 3
    base: float = 0.5
    longest: float = 8.0

    def pause(self, failures: int) -> float | None:
        """The pause after so many failures, without chance; `None` when it is enough."""
        if failures >= self.attempts:
            return None
        return min(self.longest, self.base * (1 << failures - 1))


PASSING: Final = Schedule()
"""For a service that fails or a connection that breaks."""
LIMITED: Final = Schedule(attempts=5, base=5.0, longest=60.0)
"""For a service that says too much is asked of it (OPENCLAW.md, section 10)."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long is waited for an answer, in seconds."""

    timeout: float
    """One answer."""
    overall: float = math.inf
    """All tries together."""
    most_waiting: float = math.inf
    """All pauses together; what would need more fails at once."""


class Sender:
    """Sends at the pace of a service and tries again what may succeed later; for one thread."""

    def __init__(
        self,
        pacer: Pacer,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.pacer = pacer
        self._sleep = sleep
        self._chance = chance
        self._clock = clock

    async def send(
        self,
        attempt: Callable[[float], Awaitable[Result]],
        *,
        tokens: int,
        patience: Patience,
    ) -> Result:
        """Run `attempt`, which gets the seconds it may take, until it gives something.

        `tokens` are what it is expected to use. Raises the `ServiceError` of the last attempt.
        """
        from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type

        end = self._clock() + patience.overall
        may_wait = patience.most_waiting

        async def wait(pause: float) -> None:
            nonlocal may_wait
            may_wait -= pause
            await self._sleep(pause)

        async def one_try() -> Result:
            while (pause := self.pacer.take(tokens)) > 0:
                if pause > may_wait:
                    words = f"the limit of requests or tokens a minute is reached for {pause:.0f} s"
                    raise ServiceError(words, Failure.RATE_LIMITED, is_final=True)
                await wait(pause)
            return await attempt(max(0.001, min(patience.timeout, end - self._clock())))

        def pause_after(state: RetryCallState) -> float:
            error = state.outcome.exception() if state.outcome is not None else None
            assert isinstance(error, ServiceError)
            return self._pause_after(error, state.attempt_number)

        def is_too_long(state: RetryCallState) -> bool:
            return state.upcoming_sleep > may_wait or state.upcoming_sleep >= end - self._clock()

        retrying = AsyncRetrying(
            retry=retry_if_exception_type(ServiceError),
            wait=pause_after,
            stop=is_too_long,
            sleep=wait,
            reraise=True,
        )
        return await retrying(one_try)

    def _pause_after(self, error: ServiceError, failures: int) -> float:
        """The seconds to wait after so many failures; infinite when it is enough."""
        is_limited = error.kind is Failure.RATE_LIMITED or error.retry_after is not None
        schedule = LIMITED if is_limited else PASSING
        pause = schedule.pause(failures)
        if pause is None or not error.is_passing:
            return math.inf
        if error.retry_after is not None:
            if error.retry_after > schedule.longest:
                return math.inf
            pause = error.retry_after
            self.pacer.hold(pause)
        return min(schedule.longest, pause * (1 + JITTER * self._chance()))

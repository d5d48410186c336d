"""How fast a service may be asked, and when a failed request is tried again.

OpenAI (`x-ratelimit-limit-requests`, `-tokens`, `-remaining-*`, `-reset-*`) and Mistral
(`x-ratelimit-limit-req-minute`, `-tokens-minute`, `-remaining-*`) tell their limits with every
answer; Gemini and Voyage only refuse, with or without a pause that they ask for.
"""

from __future__ import annotations

import math
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from memtui.embedding.remote.http import ServiceError, duration
from memtui.errors import Cancelled
from memtui.model import Failure

if TYPE_CHECKING:
    from tenacity import RetryCallState

Item = TypeVar("Item")
Result = TypeVar("Result")
Stopped = Callable[[], bool]

WINDOW: Final = 60.0
"""Seconds in which the limits count."""
_SOONEST: Final = 0.001
_REQUESTS: Final = ("requests", "req-minute")
_TOKENS: Final = ("tokens", "tokens-minute")


class Pacer:
    """Lets requests go so that no window of 60 s holds more than the limits; any thread may ask.

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
        self._lock = threading.Lock()
        self._clock = clock
        self._requests = _Window(requests_per_minute)
        self._tokens = _Window(tokens_per_minute)
        self._held_until = float("-inf")

    @property
    def most_tokens(self) -> int:
        """The tokens that may go in a minute; 0 while that is not known."""
        return self._tokens.limit

    def take(self, tokens: int) -> float:
        """Take the right to send a request now, which gives 0, or tell the seconds to wait."""
        with self._lock:
            now = self._clock()
            waits = (
                self._held_until - now,
                self._requests.wait(1, now),
                self._tokens.wait(tokens, now),
            )
            if max(waits) > 0:
                return max(*waits, _SOONEST)
            self._requests.add(1, now)
            self._tokens.add(tokens, now)
            return 0.0

    def settle(self, estimated: int, counted: int) -> None:
        """Count the tokens of a request as the service does, where more were used than taken."""
        if counted > estimated:
            with self._lock:
                self._tokens.add(counted - estimated, self._clock())

    def hold(self, seconds: float) -> None:
        """Let no request go for so long, because the service asks for it."""
        with self._lock:
            self._held_until = max(self._held_until, self._clock() + seconds)

    def learn(self, headers: Mapping[str, str]) -> None:
        """Take over what the headers of an answer (names in lower case) say about limits."""
        for window, names in ((self._requests, _REQUESTS), (self._tokens, _TOKENS)):
            limit = _counted(headers, "limit", names)
            with self._lock:
                window.learn(limit)
            if _counted(headers, "remaining", names) == 0:
                resets = (duration(headers.get(f"x-ratelimit-reset-{n}", "")) for n in names)
                reset = next((seconds for seconds in resets if seconds is not None), 0.0)
                # A limit of a whole day resets tomorrow; whether to wait for that is not ours.
                self.hold(min(reset, WINDOW))


class _Window:
    """What went in the last 60 s."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._is_configured = limit > 0
        self._went: deque[tuple[float, int]] = deque()
        self._sum = 0

    def learn(self, limit: int | None) -> None:
        if limit is not None and limit > 0 and not self._is_configured:
            self.limit = limit

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


def _counted(headers: Mapping[str, str], kind: str, names: tuple[str, ...]) -> int | None:
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
_LOOK: Final = 0.02


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

    most_waiting: float = math.inf
    """All pauses together; what would need more fails at once."""
    timeout: float = 120.0
    """One answer."""
    overall: float = math.inf
    """All tries together."""


def patient(timeout: float) -> Patience:
    """For chunks: whoever indexes in the background can wait."""
    return Patience(timeout=timeout)


def hurried(timeout: float) -> Patience:
    """For a query, which somebody waits for: all tries together have `timeout` seconds."""
    return Patience(most_waiting=LONGEST_WAIT, timeout=timeout, overall=timeout)


def sleep(seconds: float, stopped: Stopped) -> None:
    """Wait; raises `Cancelled` within 0.1 s once `stopped()`."""
    end = time.monotonic() + seconds
    pause = threading.Event()
    while (left := end - time.monotonic()) > 0:
        if stopped():
            raise Cancelled
        pause.wait(min(left, _LOOK))


def retry(
    run: Callable[[], Result],
    pause_after: Callable[[ServiceError, int], float | None],
    sleep: Callable[[float], None],
) -> Result:
    """Run until it succeeds or fails in a way that does not pass; raises the last failure.

    `pause_after` gets a failure and how many there were; `None` gives up.
    """
    from tenacity import Retrying, retry_if_exception

    def wait(state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome is not None else None
        assert isinstance(error, ServiceError)
        pause = pause_after(error, state.attempt_number)
        return math.inf if pause is None else pause

    retrying = Retrying(
        retry=retry_if_exception(
            lambda error: isinstance(error, ServiceError) and error.is_passing
        ),
        wait=wait,
        stop=lambda state: state.upcoming_sleep == math.inf,
        sleep=sleep,
        reraise=True,
    )
    return retrying(run)


def halved(
    items: Sequence[Item], run: Callable[[Sequence[Item]], Sequence[Result]]
) -> list[Result]:
    """Run a batch, and where it fails by its size both halves, down to single items; in order.

    The first half is the larger one. Raises what a single item, or any other failure, raises.
    """
    try:
        return list(run(items))
    except ServiceError as error:
        if len(items) < 2 or not error.is_splittable:
            raise
    middle = (len(items) + 1) // 2
    return [*halved(items[:middle], run), *halved(items[middle:], run)]


def with_jitter(pause: float, chance: float, longest: float) -> float:
    """A pause with up to a fifth more, at most `longest`; `chance` is 0 to 1."""
    return min(longest, pause * (1 + JITTER * chance))


class Sender:
    """Sends at the pace of a service and tries again what may succeed later; any thread may."""

    def __init__(
        self,
        pacer: Pacer,
        *,
        pause: Callable[[float, Stopped], None] = sleep,
        chance: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.pacer = pacer
        self._pause = pause
        self._chance = chance
        self._clock = clock

    def send(
        self,
        attempt: Callable[[float], Result],
        *,
        tokens: int,
        patience: Patience,
        stopped: Stopped,
    ) -> Result:
        """Run `attempt`, which gets the seconds it may take, until it gives something.

        `tokens` are what it is expected to use. Raises the `ServiceError` of the last attempt,
        and `Cancelled` within 0.1 s once `stopped()`.
        """
        end = self._clock() + patience.overall
        may_wait = patience.most_waiting

        def wait(seconds: float) -> None:
            nonlocal may_wait
            may_wait -= seconds
            self._pause(seconds, stopped)

        def run() -> Result:
            while (seconds := self.pacer.take(tokens)) > 0:
                if seconds > may_wait:
                    words = (
                        f"the limit of requests or tokens a minute is reached for {seconds:.0f} s"
                    )
                    raise ServiceError(words, Failure.RATE_LIMITED, is_final=True)
                wait(seconds)
            return attempt(max(0.001, min(patience.timeout, end - self._clock())))

        def pause_after(error: ServiceError, failures: int) -> float | None:
            pause = self._pause_after(error, failures)
            if pause is None or pause > may_wait or pause >= end - self._clock():
                return None
            return pause

        return retry(run, pause_after, wait)

    def _pause_after(self, error: ServiceError, failures: int) -> float | None:
        is_limited = error.kind is Failure.RATE_LIMITED or error.retry_after is not None
        schedule = LIMITED if is_limited else PASSING
        pause = schedule.pause(failures)
        if pause is None:
            return None
        if error.retry_after is not None:
            if error.retry_after > schedule.longest:
                return None
            pause = error.retry_after
            self.pacer.hold(pause)
        return with_jitter(pause, self._chance(), schedule.longest)

"""How fast a service may be asked: requests and tokens a minute, configured or learned.

OpenAI (`x-ratelimit-limit-requests`, `-tokens`, `-remaining-*`, `-reset-*`) and Mistral
(`x-ratelimit-limit-req-minute`, `-tokens-minute`, `-remaining-*`) tell their limits with every
answer; Gemini and Voyage only refuse, with or without a pause that they ask for.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from memtui.embedding.remote.replies import duration

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

"""When a failed embedding request is tried again, after which pause, and when it is halved.

A failure that is told in no other way is read from its message, as OpenClaw does
(`manager-embedding-policy.ts`): a service says in words that it is busy, and a broken connection
by the name of the error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

ATTEMPTS: Final = 3
BASE_MS: Final = 500
LONGEST_MS: Final = 8000
JITTER: Final = 0.2
"""Share of a pause that chance adds at most."""

_BUSY = re.compile(
    r"rate[_ ]limit|too many requests|resource has been exhausted|tokens per day|cloudflare"
    r"|\b429\b|\b5\d\d\b",
    re.IGNORECASE | re.ASCII,
)
_CUT = (
    r"other side closed|ECONNRESET|EPIPE|UND_ERR_SOCKET|socket hang up|socket terminated"
    r"|read ECONN|connection (?:reset|aborted)"
)
"""The other side ended a connection that carried a request: a smaller one may get through."""
_UNREACHED = re.compile(
    rf"{_CUT}|fetch failed|network error|timed out|UND_ERR_|ECONN(?:REFUSED|ABORTED)|ETIMEDOUT"
    r"|E(?:HOST|NET)UNREACH|EAI_AGAIN|connection (?:refused|timed out)",
    re.IGNORECASE | re.ASCII,
)
_TOO_LARGE = re.compile(
    rf"{_CUT}|request_headers_too_large|request header fields too large|max input length is \d",
    re.IGNORECASE | re.ASCII,
)


def is_retryable(message: str) -> bool:
    """Whether the same request may succeed later: a busy service or a broken connection."""
    return _BUSY.search(message) is not None or _UNREACHED.search(message) is not None


def is_splittable(message: str) -> bool:
    """Whether a request with fewer inputs may succeed where this one failed."""
    return _TOO_LARGE.search(message) is not None


def with_jitter(delay_ms: float, random: float, longest_ms: float = LONGEST_MS) -> int:
    """A pause in ms with up to a fifth more, at most `longest_ms`; `random` is 0 to 1."""
    # Rounds half up, as JavaScript does.
    return int(min(longest_ms, int(delay_ms * (1 + random * JITTER) + 0.5)))


@dataclass(frozen=True, slots=True)
class Schedule:
    """How often something is tried, and how long is waited in between."""

    attempts: int = ATTEMPTS
    base_ms: int = BASE_MS
    longest_ms: int = LONGEST_MS

    def pause(self, failures: int) -> int | None:
        """The pause in ms after so many failures, without chance; `None` when it is enough."""
        if failures >= self.attempts:
            return None
        return min(self.longest_ms, self.base_ms << (failures - 1))


PASSING: Final = Schedule()
"""For a service that fails or a connection that breaks."""
LIMITED: Final = Schedule(attempts=5, base_ms=5000, longest_ms=60_000)
"""For a service that says too much is asked of it (OPENCLAW.md, section 10)."""


def by_message(error: Exception, failures: int) -> int | None:
    """The pause in ms after so many failures, the last of which is read from its message."""
    return PASSING.pause(failures) if is_retryable(str(error)) else None


def retried(
    run: Callable[[], Result],
    *,
    wait: Callable[[int], None],
    pause_after: Callable[[Exception, int], int | None] = by_message,
) -> Result:
    """Run until it succeeds, and wait before each further attempt.

    `pause_after` gets a failure and how many there were, and tells the pause in ms; `None` gives
    up, and the failure is raised. `wait` gets the pause and may raise to give up, too.
    """
    failures = 0
    while True:
        try:
            return run()
        except Exception as error:
            failures += 1
            pause = pause_after(error, failures)
            if pause is None:
                raise
        wait(pause)


def splits_by_message(error: Exception) -> bool:
    """Whether fewer inputs may succeed, as the message of a failure says."""
    return is_splittable(str(error))


def halved(
    items: Sequence[Item],
    run: Callable[[Sequence[Item]], Sequence[Result]],
    *,
    splittable: Callable[[Exception], bool] = splits_by_message,
) -> list[Result]:
    """Run a batch, and where it fails by its size both halves, down to single items; in order.

    The first half is the larger one. Raises what a single item, or any other failure, raises.
    """
    try:
        return list(run(items))
    except Exception as error:
        if len(items) < 2 or not splittable(error):
            raise
    middle = (len(items) + 1) // 2
    return [
        *halved(items[:middle], run, splittable=splittable),
        *halved(items[middle:], run, splittable=splittable),
    ]

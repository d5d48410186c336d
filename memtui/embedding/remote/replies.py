"""What a service sends back, and when it asks to be asked again."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from types import MappingProxyType
from typing import Any, Final

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

    def parsed(self) -> object:
        """The body as JSON; raises `ValueError`, or `RecursionError` for deep nesting."""
        answer: object = json.loads(self.data)
        return answer


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
        except ValueError:
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
    if b"retryDelay" not in reply.data[:_LONGEST_LOOK]:
        return None
    try:
        answer = reply.parsed()
    except (ValueError, RecursionError):
        return None
    found = (duration(detail["retryDelay"]) for detail in _details(answer))
    return next((seconds for seconds in found if seconds is not None), None)


def _details(answer: object) -> Iterator[Mapping[str, Any]]:
    error = answer.get("error") if isinstance(answer, Mapping) else None
    details = error.get("details") if isinstance(error, Mapping) else None
    for detail in details if isinstance(details, list) else []:
        if isinstance(detail, Mapping) and isinstance(detail.get("retryDelay"), str):
            yield detail

"""When something was written, in milliseconds since 1970, from what programs put into records."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

from memtui.text.ecmascript import trim

LAST_DATE_MS: Final = 8_640_000_000_000_000
"""The last moment that a JavaScript date can hold."""

_FIRST_MILLISECONDS: Final = 1e11
"""A smaller number counts seconds."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def milliseconds(value: object) -> int:
    """A number (below 1e11 in seconds) or an ISO date and time, which is UTC without an offset.

    0 for everything else; may be more than `LAST_DATE_MS`.
    """
    if isinstance(value, str):
        return _parsed(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    try:
        number = float(value)
    except OverflowError:
        return 0
    if 0 < number < _FIRST_MILLISECONDS:
        number *= 1000
    return math.floor(number) if math.isfinite(number) else 0


def first_date(*values: object) -> int:
    """The first of some values that is a moment a JavaScript date can hold; 0 when none is."""
    for value in values:
        when = milliseconds(value)
        if 0 < when <= LAST_DATE_MS:
            return when
    return 0


@lru_cache(maxsize=64)
def _parsed(text: str) -> int:
    try:
        when = datetime.fromisoformat(trim(text))
        when = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
        return (when - _EPOCH) // timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        # What is no date says nothing about when: the next place is looked at.
        return 0

"""Temporal decay: how old a chunk is, where its date came from, and what that does to its score."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta

from memtui.model import Chunk, DateRule, Reason

_DAY = timedelta(days=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# OpenClaw `temporal-decay.ts`: only memory/YYYY-MM-DD.md up to 2026.7.1, nested and suffixed later.
_DATED_2026_2 = re.compile(r"(?:^|/)memory/(\d{4})-(\d{2})-(\d{2})\.md\Z", re.ASCII)
_DATED_2026_8 = re.compile(
    r"(?:^|/)memory/(?:[^/]+/)*(\d{4})-(\d{2})-(\d{2})(?:-[^/]+)?\.md\Z", re.ASCII
)
_EVERGREEN_FILES = {
    DateRule.MEMTUI: frozenset({"MEMORY.md", "USER.md"}),
    DateRule.OPENCLAW_2026_2: frozenset({"MEMORY.md", "memory.md"}),
    DateRule.OPENCLAW_2026_4: frozenset({"MEMORY.md"}),
    DateRule.OPENCLAW_2026_8: frozenset({"MEMORY.md", "USER.md"}),
}


def decay_factors(
    ages_days: Sequence[float | None], half_life_days: float, floor: float = 0.0
) -> list[float]:
    """Return floor + (1 - floor) * 2^(-age / half-life) for each age, 0 to 1.

    An age below 0 counts as 0; `None` (evergreen) gives 1. A half-life that is not finite or not
    above 0 gives 1. Written as exp(-ln 2 / half-life * age), as OpenClaw's `temporal-decay.ts`
    does, to agree to the last bit.
    """
    if not math.isfinite(half_life_days) or half_life_days <= 0:
        return [1.0] * len(ages_days)
    rate, rest, exp = -(math.log(2) / half_life_days), 1 - floor, math.exp
    return [
        1.0 if age is None else floor + rest * exp(rate * age) if age > 0 else floor + rest
        for age in ages_days
    ]


def age_in_days(when: datetime, now: datetime) -> float:
    """Return the days from `when` to `now`; below 0 for a date in the future."""
    return (now - when) / _DAY


def chunk_day(chunk: Chunk, rule: DateRule) -> tuple[datetime | None, Reason]:
    """Return the moment a chunk dates from (UTC), and its origin; `None` when evergreen.

    The memtui rule takes the date in the file name, then the one in the front matter; `MEMORY.md`,
    `USER.md` and undated notes under `memory/` are evergreen; everything else has its file time.
    OpenClaw's rules (`temporal-decay.ts`) leave a file without a known time as it is.
    """
    is_memtui = rule is DateRule.MEMTUI
    path, day, origin, is_dated = chunk.path, chunk.day, chunk.day_from, chunk.day is not None
    if not is_memtui:
        path = path.replace("\\", "/").removeprefix("./")
        pattern = _DATED_2026_8 if rule is DateRule.OPENCLAW_2026_8 else _DATED_2026_2
        match = pattern.search(path)
        day, origin, is_dated = None, None, match is not None
        if match is not None:
            # An impossible date matches the pattern: such a file is neither dated nor evergreen.
            with suppress(ValueError):
                day = date(*map(int, match.groups()))
    if day is not None:
        return datetime(day.year, day.month, day.day, tzinfo=UTC), origin or Reason.FILE_NAME
    is_named = path.removeprefix("./") in _EVERGREEN_FILES[rule]
    is_undated_note = path.startswith("memory/") and not is_dated
    if (is_named or is_undated_note) and (is_memtui or chunk.source == "memory"):
        return None, Reason.EVERGREEN
    if not is_memtui and chunk.mtime_ns <= 0:
        return None, Reason.NO_DATE
    # A JavaScript date holds whole milliseconds.
    microseconds = chunk.mtime_ns // (1000 if is_memtui else 1_000_000) * (1 if is_memtui else 1000)
    try:
        return _EPOCH + timedelta(microseconds=microseconds), Reason.FILE_TIME
    except OverflowError:
        return None, Reason.NO_DATE

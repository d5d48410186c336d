"""The clock of the sample memory, so that its ages stay what its story says."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

DEMO_PRESENT = datetime(2026, 11, 20, 18, 0, tzinfo=UTC)
"""The evening on which the sample memory's story ends."""


def demo_clock() -> Callable[[], datetime]:
    """A clock that starts at the end of the story and then runs like any other."""
    offset = DEMO_PRESENT - datetime.now(UTC)
    return lambda: datetime.now(UTC) + offset

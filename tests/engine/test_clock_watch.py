"""A moved clock is told while it is moved; time that only passes is not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from memtui.engine.own_index import ClockWatch, running_seconds

BEGAN = datetime(2026, 11, 21, 12, tzinfo=UTC)
YEAR = timedelta(days=365)


class Times:
    """A clock that can be moved, and the seconds beside it."""

    def __init__(self) -> None:
        self.passed = timedelta()
        self.moved = timedelta()
        self.watch = ClockWatch(
            lambda: BEGAN + self.passed + self.moved, lambda: 500.0 + self.passed.total_seconds()
        )


def test_a_year_that_passes_is_no_move() -> None:
    times = Times()
    times.passed = YEAR
    assert times.watch.warning() is None


@pytest.mark.parametrize(
    ("moved", "told"),
    [
        (-YEAR, "the clock was moved back by 365 days"),
        (YEAR, "the clock was moved forward by 365 days"),
        (timedelta(hours=-3), "the clock was moved back by 3 h"),
        (timedelta(minutes=-59), None),
    ],
)
def test_a_move_is_told_until_it_is_taken_back(moved: timedelta, told: str | None) -> None:
    times = Times()
    times.passed = timedelta(minutes=5)
    times.moved = moved
    warning = times.watch.warning()
    assert (warning is None) == (told is None)
    assert (warning or "").startswith(told or "")
    times.moved = timedelta()
    assert times.watch.warning() is None


def test_the_seconds_go_on_whatever_the_clock_says() -> None:
    first = running_seconds()
    assert running_seconds() >= first
